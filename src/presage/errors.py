"""Every error presage raises on purpose: one root, and each also the built-in that fits it."""


class PresageError(Exception):
    """Root of all errors raised by presage."""


class SpaceError(PresageError, ValueError):
    """A search space, or a value for it, breaks a rule."""


class TrialError(PresageError, ValueError):
    """A trial was told twice, is unknown, or got a value that cannot be used."""


class StudyError(PresageError, ValueError):
    """A study cannot be created, opened or continued as asked."""


class SpaceExhausted(PresageError, RuntimeError):
    """Every point of a finite space has been tried or is being tried."""


class TooManyFailures(PresageError, RuntimeError):
    """The objective failed many times in a row; the message ends with the last traceback."""


class StorageError(PresageError, RuntimeError):
    """The storage cannot be read or written."""


class Conflict(StorageError):
    """Another writer claimed the same key first; look again and retry."""
