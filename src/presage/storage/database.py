"""A database that may be gone for a while: connections, transactions that are made once, the version of its tables."""

import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import sqlalchemy as sa

from presage.errors import StorageError
from presage.storage import schema
from presage.storage.backend import Backend
from presage.storage.memory import short

log = logging.getLogger("presage")
T = TypeVar("T")
PATIENCE = 600.0  # seconds that a database may be gone before a call gives up
FIRST_PATIENCE = 30.0  # the same when it is first opened and says itself that it will be there soon
PAUSES = (0.1, 0.2, 0.5, 1.0)  # seconds between attempts, the last one again and again


class Database:
    """One connection to a database, made when it is needed and made again when it was lost.

    Args:
        backend: what speaks to it.
        create: make the tables where there are none; otherwise that is an error.
        upgrade: take tables of an earlier version to this one; otherwise they are an error.

    Attributes:
        found: the version of its tables when it was opened.
    """

    def __init__(self, backend: Backend, *, create: bool, upgrade: bool) -> None:
        self.backend = backend
        self.found: int | None = None
        self._create, self._upgrade = create, upgrade
        # One call at a time in a process: SQLite has one writer anyway, and a lock is fairer than its polling.
        # Reentrant, so that a signal handler that forks or closes in the midst of a call does not wait for itself.
        self._lock = threading.RLock()
        self._engine: sa.Engine | None = None
        self._dispose: weakref.finalize | None = None
        self._known = False  # it has answered before
        self._inside: sa.Connection | None = None  # the transaction under way, for calls made inside it
        self._signed: str | None = None  # the token of the last transaction that is known to be committed
        with _registry:
            _alive.add(self)
        self.run(lambda connection: None)  # what is wrong with the place is said now, not at the first trial
        self._create = self._upgrade = False  # a file that is gone later is a loss, and no new one takes its place

    def run(self, work: Callable[[sa.Connection], T], *, write: bool = False, one_moment: bool = False) -> T:
        """Do some work in one transaction, once; where the database is gone, when it is back."""
        options = {"write": write, "one_moment": one_moment}
        attempt: _Attempt[T] = _Attempt(work, secrets.token_hex(16))
        with self._lock:
            if self._inside is not None:
                return work(self._inside)
            began, pauses = 0.0, 0
            while True:
                try:
                    result = self._try(attempt, options)
                except UnicodeDecodeError as error:  # in SQLite's own words about a damaged file
                    raise StorageError(
                        f"a storage must be a sound database, but {self.backend.place} holds bytes that are no text; "
                        "look at it with presage storage check and, if it is damaged, restore it from a copy"
                    ) from error
                except sa.exc.DBAPIError as error:
                    waited = time.monotonic() - began if pauses else 0.0
                    if not self._worth_waiting(error, waited):
                        raise StorageError(self.backend.explain(error)) from error
                    if not pauses:
                        began = time.monotonic()
                        self.close()  # a pool may hold more connections that are dead
                    elif pauses == len(PAUSES):  # not for a deadlock or a blink
                        why = " ".join(str(error.orig).split())
                        log.warning("%s does not answer, waiting up to %g s: %s", self.backend.place, PATIENCE, why)
                    time.sleep(PAUSES[min(pauses, len(PAUSES) - 1)])
                    pauses += 1
                else:
                    if pauses > len(PAUSES):
                        log.warning("%s is back after %.0f s", self.backend.place, time.monotonic() - began)
                    return result

    def _worth_waiting(self, error: sa.exc.DBAPIError, waited: float) -> bool:
        if self._known:
            return self.backend.absent(error) and waited < PATIENCE
        return self.backend.starting(error) and waited < FIRST_PATIENCE

    def _try(self, attempt: "_Attempt[T]", options: dict[str, bool]) -> T:
        if self._engine is None:
            self._open()
        assert self._engine is not None
        with self._engine.connect().execution_options(**options) as connection:
            with connection.begin():
                if not options["write"]:
                    return attempt.work(connection)
                if self.backend.sign(connection, attempt.token, self._signed):
                    attempt.result = attempt.work(connection)
                # Else it was committed before, and only the answer was lost.
            self._signed = attempt.token
            return attempt.result

    @contextmanager
    def inside(self, connection: sa.Connection) -> Iterator[None]:
        """Calls that are made in this block are part of the transaction under way."""
        self._inside = connection
        try:
            yield
        finally:
            self._inside = None

    def close(self) -> None:
        """Let go of connections; a later call opens them anew."""
        with self._lock:
            if self._dispose is not None:
                self._dispose()
            self._engine = None

    def _open(self) -> None:
        if not self._create:
            self.backend.check_exists()
        engine = self.backend.engine()
        dispose = weakref.finalize(self, engine.dispose)
        try:
            self._prepare(engine)
        except BaseException:
            dispose()
            raise
        self._engine, self._dispose, self._known = engine, dispose, True

    def _prepare(self, engine: sa.Engine) -> None:
        place = self.backend.place
        with engine.connect() as connection:
            found = schema.version(connection)
        self.found = found if self.found is None else self.found
        if found is None and not self._create:
            raise StorageError(
                f"a storage must hold studies to be read, but {place} has no tables of presage; check the address"
            )
        if found is None or (self._upgrade and found < schema.VERSION):
            with engine.connect().execution_options(write=True) as connection, connection.begin():
                self.backend.lock_schema(connection)
                found = schema.version(connection)  # again: another process may have been first
                if found is None:
                    schema.make(connection)
                elif found < schema.VERSION:
                    schema.upgrade(connection, found)
                found = schema.version(connection)
        if type(found) is not int or found not in range(min(schema.STEPS), schema.VERSION + 1):
            raise StorageError(
                f"this presage reads storages up to version {schema.VERSION}, but {place} has version "
                f"{short(found)}; upgrade presage (pip install --upgrade presage)"
            )
        if found < schema.VERSION:
            raise StorageError(
                f"this presage needs storages of version {schema.VERSION}, but {place} has version {found}; "
                "end what works on it, keep a copy, and run presage storage upgrade"
            )


class _Attempt(Generic[T]):
    """Work that may have to be repeated: the token by which the database knows it, and what it came to."""

    result: T

    def __init__(self, work: Callable[[sa.Connection], T], token: str) -> None:
        self.work, self.token = work, token


# SQLite keeps its file locks in a table per process. A child of fork inherits the table but not the locks, and believes
# to hold them even in a connection of its own; another process may then remove the log that the child writes to, and
# commits are lost (a test shows it). So no connection is open while a process forks.
_registry = threading.Lock()  # held while forking: no database opens meanwhile, and the child gets it unlocked
_alive: "weakref.WeakSet[Database]" = weakref.WeakSet()
_forking: list[Database] = []


def _before_fork() -> None:
    _registry.acquire()
    for database in list(_alive):
        database._lock.acquire()
        _forking.append(database)
        database.close()


def _after_fork() -> None:
    while _forking:
        _forking.pop()._lock.release()
    _registry.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
