"""Where studies are kept: memory or an SQL database, behind one small interface."""

import os

from presage.errors import StorageError
from presage.storage.base import Event, Snapshot, Storage
from presage.storage.memory import MemoryStorage

__all__ = ["Event", "MemoryStorage", "Snapshot", "Storage", "open_storage"]


def open_storage(
    storage: Storage | str | os.PathLike[str] | None, *, create: bool = True, upgrade: bool = False
) -> Storage:
    """The storage meant by None (new, in memory), a URL, the path of an SQLite file, or a storage itself.

    Args:
        storage: what is meant.
        create: make a file or tables that do not exist; otherwise that is an error.
        upgrade: take a storage of an earlier version to this one; otherwise that is an error.

    Example:
        >>> open_storage(None).studies()
        []
    """
    if storage is None:
        return MemoryStorage()
    if isinstance(storage, Storage):
        return storage
    if not isinstance(storage, str | os.PathLike):
        kind = type(storage).__name__
        raise StorageError(f"a storage must be None, a Storage, a URL or a path, but got {kind} {storage!r}")
    from sqlalchemy import URL  # takes 0.2 s to import, which a study in memory need not wait for

    from presage.storage.sql import SQLStorage

    place = os.fspath(storage)
    url = place if "://" in place else URL.create("sqlite", database=place)
    return SQLStorage(url, create=create, upgrade=upgrade)
