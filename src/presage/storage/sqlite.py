"""SQLite: one file, shared by the threads and processes of one machine."""

import os
import random
import sqlite3
import time
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from presage.errors import StorageError
from presage.storage.backend import Backend

# An append holds the lock for one fsync, some milliseconds. Hundreds of workers that queue behind a slow disk still get
# their turn within a minute; who waits longer waits for a process that hangs.
BUSY_SECONDS = 60.0
PAUSE = (0.001, 0.004)  # seconds between attempts to get the lock; a commit takes about as long on a good disk


class SQLite(Backend):
    """A file, as SQLAlchemy writes its address: `sqlite:///study.db`, `sqlite:////tmp/study.db`."""

    clock = "(julianday('now') - 2440587.5) * 86400.0"
    insert = staticmethod(insert)

    def __init__(self, url: sa.URL) -> None:
        self._url = _checked(url)
        self._path = str(self._url.database).removeprefix("file:")
        self.place = str(url.database).removeprefix("file:")

    def check_exists(self) -> None:
        if not os.path.exists(self._path):
            raise StorageError(f"a storage must exist to be read, but there is no file {self.place}; check the path")

    def engine(self) -> sa.Engine:
        engine = sa.create_engine(
            self._url,
            hide_parameters=True,  # a payload in a traceback helps nobody
            connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},  # None: the driver never begins by itself
        )
        sa.event.listen(engine, "connect", _configure)
        sa.event.listen(engine, "begin", _begin)
        return engine

    def explain(self, error: sa.exc.DBAPIError) -> str:
        name = getattr(error.orig, "sqlite_errorname", "")
        path = self.place
        if name.startswith("SQLITE_CANTOPEN"):
            if os.path.isdir(self._path):
                return f"an SQLite storage must be a file, but {path} is a folder; give the path of a file in it"
            if not os.path.isdir(os.path.dirname(self._path)):
                folder = os.path.dirname(path) or "."
                return f"the folder of a storage must exist, but there is no {folder}; create it or give another path"
            return f"a storage must be a file that you may read and write, but {path} is not; give another path"
        if name.startswith("SQLITE_READONLY"):
            return (
                f"a storage must be writable, file and folder, but {path} is read-only; "
                "change that or give another path"
            )
        if name.startswith("SQLITE_NOTADB"):
            return f"a storage must be an SQLite database, but {path} is a file of another kind; give another path"
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"a storage must be free to write within {BUSY_SECONDS:g} s, but another program kept {path} locked; "
                f"end what holds it (a stopped worker, a database browser) and retry"
            )
        if name.startswith("SQLITE_FULL"):
            return f"a storage needs room to grow, but the disk of {path} is full; make room and retry"
        return (
            f"a storage must be a sound database, but {path} answers: {error.orig}; look at it with "
            f"presage storage check and, if it is damaged, restore it from a copy"
        )

    def problems(self, connection: sa.Connection) -> list[str]:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found


def _checked(url: sa.URL) -> sa.URL:
    """The URL with an absolute path, so that a later change of the working folder changes nothing."""
    if url.host or url.username or url.password:
        raise StorageError(
            "an SQLite URL has three slashes before a relative path and four before an absolute one, "
            "but got one with a host; write sqlite:///study.db or sqlite:////tmp/study.db"
        )
    if url.database in (None, "", ":memory:") or url.query.get("mode") == "memory":
        raise StorageError(
            "an SQLite storage must be a file, but got a database in memory, which ends with its connection; "
            "give a path, or None for a storage in memory"
        )
    if "uri" in url.query:
        return url
    return url.set(database=os.path.abspath(str(url.database)))


def _configure(connection: sqlite3.Connection, _: Any) -> None:
    # Bytes that are no text must get as far as `read`, which can say whose they are.
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    # FULL: without it the last commits may be lost when the power fails. WAL: readers never wait for a writer; a new
    # file's change to it does not honour the timeout, so two processes that make one file need this loop.
    connection.execute("PRAGMA synchronous = FULL")
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _begin(connection: sa.Connection) -> None:
    # A transaction that reads first and writes later fails at once if another wrote in between; one that takes the
    # write lock at its start waits its turn. A single statement that reads needs none: it sees one moment.
    options = connection.get_execution_options()
    if options.get("write"):
        _take_turn(connection)
    elif options.get("one_moment"):
        connection.exec_driver_sql("BEGIN")


def _take_turn(connection: sa.Connection) -> None:
    """Take the write lock when it is free.

    SQLite itself looks again after pauses of up to 100 ms, in which the lock is free most of the time where many
    workers queue: sixteen of them got four trials a second through a disk that takes eighty commits.
    """
    raw: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]
    deadline = time.monotonic() + BUSY_SECONDS
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                raw.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")  # again, for SQLAlchemy to wrap the error
                    return
            time.sleep(random.uniform(*PAUSE))
    finally:
        raw.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_SECONDS)}")
