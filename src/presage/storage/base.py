"""What a storage is: an append-only log of events per study, who works on it, and one slot for the latest fit state."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

Payload = Mapping[str, Any]


class Event(NamedTuple):
    """One fact. Sequence numbers of a study count 1, 2, 3, ... without gaps."""

    seq: int
    payload: dict[str, Any]


class Snapshot(NamedTuple):
    """All that belongs to a study at one moment, but for who works on it."""

    events: list[Event]
    claims: list[str]
    state: tuple[int, bytes] | None


class Storage(ABC):
    """Append-only events of named studies. Payloads are JSON; nothing is ever unpickled.

    A call either happens as a whole and survives a kill of the process, or does not happen.

    Attributes:
        shared: whether other processes can use it at the same time.
    """

    shared: ClassVar[bool] = True

    @abstractmethod
    def create(self, study: str, payload: Payload) -> None:
        """Begin a study with its first event (seq 1); Conflict if the name is taken."""

    @abstractmethod
    def append(
        self, study: str, payloads: Iterable[Payload], *, claims: Iterable[str] = (), state: bytes | None = None
    ) -> int:
        """Add events at the end, all or none, and return the last sequence number.

        Args:
            study: its name; StorageError if there is none.
            payloads: the events.
            claims: texts that may be claimed once per study; Conflict if one of them is taken, and nothing is added.
            state: replaces the study's fit state in the same transaction.
        """

    def append_after(self, study: str, make: Callable[[], tuple[list[Payload], list[str]]]) -> int:
        """Append the events and claims that `make` gives, if possible with nobody else appending since it was called.

        For what is made quickly: where many processes append at once, most would otherwise find their claim taken.
        """
        payloads, claims = make()
        return self.append(study, payloads, claims=claims)

    @abstractmethod
    def read(self, study: str, after: int = 0, most: int | None = None) -> list[Event]:
        """Events with seq > after, in order, the first `most` of them; StorageError for an unknown study."""

    @abstractmethod
    def state(self, study: str, after: int = -1) -> tuple[int, bytes] | None:
        """The fit state and the last sequence number of the append that wrote it, if that is greater than `after`."""

    @abstractmethod
    def renew(self, study: str, worker: str, seconds: float) -> bool:
        """Note that a worker lives for so many seconds from now, by the storage's own clock; 0: that it has left.

        True if it was known to live until now.
        """

    @abstractmethod
    def living(self, study: str) -> set[str]:
        """Workers that have neither left nor let their time run out, by the storage's own clock."""

    @abstractmethod
    def snapshot(self, study: str) -> Snapshot:
        """Everything to copy a study by, as of one moment; StorageError for an unknown one."""

    @abstractmethod
    def restore(self, study: str, snapshot: Snapshot) -> None:
        """Make a study that is like the one a snapshot was taken of; Conflict if the name is taken."""

    @abstractmethod
    def studies(self) -> list[str]:
        """Names of all studies, sorted."""

    @abstractmethod
    def delete(self, study: str) -> None:
        """Remove a study and all that belongs to it; StorageError for an unknown one."""

    def close(self) -> None:
        """Let go of connections; a later call opens them anew."""
