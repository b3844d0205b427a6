"""What a storage is: an append-only log of events per study, and one slot for the latest fit state."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Payload = Mapping[str, Any]


class Event(NamedTuple):
    """One fact. Sequence numbers of a study count 1, 2, 3, ... without gaps."""

    seq: int
    payload: dict[str, Any]


class Storage(ABC):
    """Append-only events of named studies. Payloads are JSON; nothing is ever unpickled.

    A call either happens as a whole and survives a kill of the process, or does not happen.
    """

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

    @abstractmethod
    def read(self, study: str, after: int = 0) -> list[Event]:
        """Events with seq > after, in order; StorageError for an unknown study."""

    @abstractmethod
    def state(self, study: str) -> tuple[int, bytes] | None:
        """The latest fit state and the last sequence number of the append that wrote it."""

    @abstractmethod
    def studies(self) -> list[str]:
        """Names of all studies, sorted."""

    @abstractmethod
    def delete(self, study: str) -> None:
        """Remove a study and all that belongs to it; StorageError for an unknown one."""

    def close(self) -> None:
        """Let go of connections; a later call opens them anew."""
