"""Events in this process only, and the two checks that every storage makes of what it is given."""

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from presage.errors import Conflict, StorageError
from presage.storage.base import Event, Payload, Snapshot, Storage

# One encoder for all calls; json.dumps would build one for each.
_dumps = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def encode(payload: Payload) -> str:
    """A payload as JSON text in ASCII, which any database holds whatever its encoding.

    Example:
        >>> encode({"kind": "told", "values": (0.5,)})
        '{"kind":"told","values":[0.5]}'
    """
    try:
        if not isinstance(payload, Mapping):
            raise TypeError("it is no mapping")
        return _dumps(dict(payload))
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(
            f"an event must be a mapping of finite JSON values, but got {short(payload)} ({error}); "
            f"convert it to plain numbers, texts, lists and dicts first"
        ) from error


def check_text(text: str, what: str = "the name of a study") -> str:
    """The text, where every database can hold it."""
    try:
        if "\0" not in text and text.encode() is not None:
            return text
    except (TypeError, AttributeError, UnicodeEncodeError):
        pass
    raise StorageError(f"{what} must be Unicode text without NUL, but got {short(text)}; choose another")


def short(value: Any) -> str:
    """What repr says, or its beginning."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass
class _Log:
    texts: list[str]
    claims: set[str] = field(default_factory=set)
    state: tuple[int, bytes] | None = None
    leases: dict[str, float] = field(default_factory=dict)  # until when each worker is known to live


class MemoryStorage(Storage):
    """Studies that end with the process, as JSON text, so that what comes back is what a database would give.

    Example:
        >>> storage = MemoryStorage()
        >>> storage.create("cake", {"kind": "created"})
        >>> storage.append("cake", [{"kind": "told", "values": (0.5,)}])
        2
        >>> storage.read("cake", after=1)
        [Event(seq=2, payload={'kind': 'told', 'values': [0.5]})]
    """

    shared: ClassVar[bool] = False

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._lock = threading.Lock()

    def create(self, study: str, payload: Payload) -> None:
        log = _Log([encode(payload)])
        check_text(study)
        with self._lock:
            if study in self._logs:
                raise name_taken(study)
            self._logs[study] = log

    def append(
        self, study: str, payloads: Iterable[Payload], *, claims: Iterable[str] = (), state: bytes | None = None
    ) -> int:
        texts = [encode(payload) for payload in payloads]
        keys = [check_text(key, "a claim") for key in claims]
        with self._lock:
            log = self._log(study)
            if len(log.claims.union(keys)) < len(log.claims) + len(keys):
                raise claim_taken(study, keys)
            log.claims.update(keys)
            log.texts.extend(texts)
            if state is not None:
                log.state = len(log.texts), bytes(state)
            return len(log.texts)

    def read(self, study: str, after: int = 0, most: int | None = None) -> list[Event]:
        after = max(after, 0)
        with self._lock:
            texts = self._log(study).texts[after : None if most is None else after + most]
        return [Event(seq, json.loads(text)) for seq, text in enumerate(texts, after + 1)]

    def state(self, study: str, after: int = -1) -> tuple[int, bytes] | None:
        with self._lock:
            state = self._log(study).state
        return state if state is not None and state[0] > after else None

    def renew(self, study: str, worker: str, seconds: float) -> bool:
        now = time.monotonic()
        with self._lock:
            leases = self._log(study).leases
            known = leases.pop(check_text(worker, "a worker"), now) > now
            if seconds > 0:
                leases[worker] = now + seconds
            return known

    def living(self, study: str) -> set[str]:
        now = time.monotonic()
        with self._lock:
            return {worker for worker, until in self._log(study).leases.items() if until > now}

    def snapshot(self, study: str) -> Snapshot:
        with self._lock:
            log = self._log(study)
            texts, claims, state = list(log.texts), sorted(log.claims), log.state
        return Snapshot([Event(seq, json.loads(text)) for seq, text in enumerate(texts, 1)], claims, state)

    def restore(self, study: str, snapshot: Snapshot) -> None:
        texts = [encode(payload) for _, payload in check_snapshot(snapshot).events]
        log = _Log(texts, {check_text(key, "a claim") for key in snapshot.claims}, snapshot.state)
        check_text(study)
        with self._lock:
            if study in self._logs:
                raise name_taken(study)
            self._logs[study] = log

    def studies(self) -> list[str]:
        with self._lock:
            return sorted(self._logs)

    def delete(self, study: str) -> None:
        with self._lock:
            self._log(study)
            del self._logs[study]

    def _log(self, study: str) -> _Log:
        if study not in self._logs:
            raise unknown_study(study)
        return self._logs[study]


def check_snapshot(snapshot: Snapshot) -> Snapshot:
    """The snapshot, if a study can be made of it."""
    seqs = [event.seq for event in snapshot.events]
    if not seqs or seqs != list(range(1, len(seqs) + 1)):
        raise StorageError("the events of a study must count 1, 2, 3, ... without gaps, but those given do not")
    return snapshot


def name_taken(study: str) -> Conflict:
    return Conflict(f"the name of a study must be new, but there is a study {short(study)}; open it or choose another")


def claim_taken(study: str, keys: list[str]) -> Conflict:
    return Conflict(
        f"a claim can be made once per study, but one of {short(keys)} is taken in {short(study)}; look again and retry"
    )


def unknown_study(study: str) -> StorageError:
    return StorageError(f"a study must exist to be used, but there is no study {short(study)}; create it first")
