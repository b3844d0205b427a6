"""A storage around another one, for tests in which something goes wrong on the way."""

from collections.abc import Iterable

from presage.storage import Event, Snapshot, Storage
from presage.storage.base import Payload


class Wrapped(Storage):
    """Another storage, as it is; a subclass does something of its own before or after some of the calls."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def create(self, study: str, payload: Payload) -> None:
        self.storage.create(study, payload)

    def append(
        self, study: str, payloads: Iterable[Payload], *, claims: Iterable[str] = (), state: bytes | None = None
    ) -> int:
        return self.storage.append(study, payloads, claims=claims, state=state)

    def read(self, study: str, after: int = 0, most: int | None = None) -> list[Event]:
        return self.storage.read(study, after, most)

    def state(self, study: str, after: int = -1) -> tuple[int, bytes] | None:
        return self.storage.state(study, after)

    def renew(self, study: str, worker: str, seconds: float) -> bool:
        return self.storage.renew(study, worker, seconds)

    def living(self, study: str) -> set[str]:
        return self.storage.living(study)

    def snapshot(self, study: str) -> Snapshot:
        return self.storage.snapshot(study)

    def restore(self, study: str, snapshot: Snapshot) -> None:
        self.storage.restore(study, snapshot)

    def studies(self) -> list[str]:
        return self.storage.studies()

    def delete(self, study: str) -> None:
        self.storage.delete(study)

    def close(self) -> None:
        self.storage.close()
