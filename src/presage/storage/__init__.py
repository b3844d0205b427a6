"""Where studies are kept: memory or an SQL database, behind one small interface."""

import os

from presage.errors import StorageError
from presage.storage.base import Event, Storage
from presage.storage.memory import MemoryStorage

__all__ = ["Event", "MemoryStorage", "Storage", "open_storage"]


def open_storage(storage: Storage | str | os.PathLike[str] | None) -> Storage:
    """The storage meant by None (new, in memory), a URL, the path of an SQLite file, or a storage itself.

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
    return SQLStorage(place if "://" in place else URL.create("sqlite", database=place))
