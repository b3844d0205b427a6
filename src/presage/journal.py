"""A study's events and fit state, kept in step with its storage."""

import io
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from presage.errors import StorageError
from presage.history import History
from presage.storage import Storage

Arrays = dict[str, np.ndarray]


class Journal:
    """What a storage holds of one study, replayed; catching up costs as much as there is news.

    Attributes:
        history: what the events add up to.
        lock: held by whoever reads or writes.
    """

    def __init__(self, storage: Storage, name: str, history: History) -> None:
        self.storage, self.name, self.history = storage, name, history
        self.lock = threading.RLock()
        self._state: Arrays = {}
        self._state_seq = -1

    def sync(self) -> None:
        """Take in what other processes, or this one, have added."""
        with self.lock:
            self.history.catch_up(self.storage, self.name)

    def append(self, events: list[dict[str, Any]], claims: Iterable[str] = (), state: Arrays | None = None) -> None:
        """Add events; Conflict if a claim is taken, and then nothing is added."""
        packed = None if state is None else pack(state)
        last = self.storage.append(self.name, events, claims=claims, state=packed)
        if state is not None:
            self._state, self._state_seq = state, last
        self.sync()

    def state(self) -> Arrays:
        """The latest fit state."""
        stored = self.storage.state(self.name, self._state_seq)
        if stored is not None:
            self._state_seq, self._state = stored[0], unpack(stored[1])
        return self._state


def pack(state: Arrays) -> bytes:
    """Plain arrays as bytes that are read back without unpickling anything."""
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **state)
    return out.getvalue()


def unpack(data: bytes) -> Arrays:
    """The arrays that `pack` wrote; StorageError for anything else."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # noqa: BLE001 - zip files and array headers that are damaged raise many things
        raise StorageError(
            f"a fit state must be plain arrays, but reading it raised {error!r}; "
            "the storage was damaged or edited: restore it from a copy"
        ) from None
