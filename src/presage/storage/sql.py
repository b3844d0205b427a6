"""Events in an SQL database by SQLAlchemy Core: one SQLite file shared by any number of threads and processes."""

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import sqlalchemy as sa

from presage.errors import StorageError
from presage.storage.base import Event, Payload, Storage
from presage.storage.memory import check_text, claim_taken, encode, name_taken, short, unknown_study

VERSION = 1
# An append holds the lock for one fsync, some milliseconds. Hundreds of workers that queue behind a slow disk still get
# their turn within a minute; who waits longer waits for a process that hangs.
BUSY_SECONDS = 60.0

# Prefixed, because people keep the studies of several libraries in one database (Optuna too has a table "studies").
_metadata = sa.MetaData()
_schema = sa.Table("presage_schema", _metadata, sa.Column("version", sa.Integer, nullable=False))
_studies = sa.Table(
    "presage_studies",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("last", sa.Integer, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
)
# Without rowid a table is its primary key's tree: one tree to write per append, and events lie in reading order.
_events = sa.Table(
    "presage_events",
    _metadata,
    sa.Column("study", sa.Integer, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("payload", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)
_claims = sa.Table(
    "presage_claims",
    _metadata,
    sa.Column("study", sa.Integer, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sqlite_with_rowid=False,
)
_states = sa.Table(
    "presage_states",
    _metadata,
    sa.Column("study", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("blob", sa.LargeBinary, nullable=False),
)

# FOR UPDATE is the row lock that orders the writers of a study; SQLite, which locks the whole file, leaves it out.
_name, _study = sa.bindparam("name", type_=sa.Text), sa.bindparam("of", type_=sa.Integer)
_after = sa.bindparam("after", type_=sa.Integer)
_lock_study = sa.select(_studies.c.id, _studies.c.last).where(_studies.c.name == _name).with_for_update()
_set_last = sa.update(_studies).where(_studies.c.id == _study)
_set_state = sa.update(_states).where(_states.c.study == _study)
_add_events, _add_claims = sa.insert(_events), sa.insert(_claims)
# Outer joins: an unknown study gives no row, a study with nothing to tell gives one row of NULL.
_read_events = (
    sa.select(_events.c.seq, _events.c.payload)
    .select_from(_studies.outerjoin(_events, (_events.c.study == _studies.c.id) & (_events.c.seq > _after)))
    .where(_studies.c.name == _name)
    .order_by(_events.c.seq)
)
_read_state = (
    sa.select(_states.c.seq, _states.c.blob)
    .select_from(_studies.outerjoin(_states, _states.c.study == _studies.c.id))
    .where(_studies.c.name == _name)
)


class SQLStorage(Storage):
    """Studies in an SQLite file, as SQLAlchemy writes its address: `sqlite:///study.db`, `sqlite:////tmp/study.db`."""

    def __init__(self, url: str | sa.URL) -> None:
        self._url = _checked(url)
        # One call at a time in a process: SQLite has one writer anyway, and a lock is fairer than its polling.
        # Reentrant, so that a signal handler that forks or closes in the midst of a call does not wait for itself.
        self._lock = threading.RLock()
        self._engine: sa.Engine | None = None
        self._dispose: weakref.finalize | None = None
        with _registry:
            _alive.add(self)
        with self._transaction():  # what is wrong with the place is said now, not at the first trial
            pass

    def create(self, study: str, payload: Payload) -> None:
        text = encode(payload)
        with self._transaction(write=True) as connection:
            try:
                row = {"name": check_text(study), "last": 1, "created": time.time()}
                connection.execute(sa.insert(_studies), row)
            except sa.exc.IntegrityError:
                raise name_taken(study) from None
            ident, last = _locked(connection, study)
            connection.execute(_add_events, {"study": ident, "seq": last, "payload": text})

    def append(
        self, study: str, payloads: Iterable[Payload], *, claims: Iterable[str] = (), state: bytes | None = None
    ) -> int:
        texts = [encode(payload) for payload in payloads]
        keys = [check_text(key, "a claim") for key in claims]
        with self._transaction(write=True) as connection:
            ident, last = _locked(connection, study)
            if keys:
                try:
                    connection.execute(_add_claims, [{"study": ident, "key": key} for key in keys])
                except sa.exc.IntegrityError:
                    raise claim_taken(study, keys) from None
            if texts:
                rows = [{"study": ident, "seq": seq, "payload": text} for seq, text in enumerate(texts, last + 1)]
                connection.execute(_add_events, rows)
                last += len(texts)
                connection.execute(_set_last, {"of": ident, "last": last})
            if state is not None:
                row = {"seq": last, "blob": state}
                if not connection.execute(_set_state, {"of": ident} | row).rowcount:
                    connection.execute(sa.insert(_states), {"study": ident} | row)
            return last

    def read(self, study: str, after: int = 0) -> list[Event]:
        with self._transaction() as connection:
            rows = connection.execute(_read_events, {"name": check_text(study), "after": after}).all()
        if not rows:
            raise unknown_study(study)
        if rows[0].seq is None:
            return []
        seqs, texts = zip(*rows, strict=True)
        del rows  # before many objects are made, so that the garbage collector walks past fewer
        try:
            joined = f"[{','.join(texts)}]"  # in one piece: twice as fast, and equal keys become one string
            joined.encode()  # fails where the file had bytes that are no text
            payloads = json.loads(joined)
            whole = len(payloads) == len(texts) and all(type(payload) is dict for payload in payloads)
        except (TypeError, ValueError, RecursionError):
            whole = False
        if not whole:
            payloads = [self._decode(study, seq, text) for seq, text in zip(seqs, texts, strict=True)]
        return list(map(Event, seqs, payloads))

    def state(self, study: str) -> tuple[int, bytes] | None:
        with self._transaction() as connection:
            row = connection.execute(_read_state, {"name": check_text(study)}).one_or_none()
        if row is None:
            raise unknown_study(study)
        return None if row.seq is None else (row.seq, row.blob)

    def studies(self) -> list[str]:
        with self._transaction() as connection:
            return sorted(connection.scalars(sa.select(_studies.c.name)))

    def delete(self, study: str) -> None:
        with self._transaction(write=True) as connection:
            ident, _ = _locked(connection, study)
            for table in (_events, _claims, _states):
                connection.execute(sa.delete(table).where(table.c.study == ident))
            connection.execute(sa.delete(_studies).where(_studies.c.id == ident))

    def close(self) -> None:
        with self._lock:
            if self._dispose is not None:
                self._dispose()
            self._engine = None

    @contextmanager
    def _transaction(self, write: bool = False) -> Iterator[sa.Connection]:
        with self._lock:
            try:
                if self._engine is None:
                    self._open()
                assert self._engine is not None
                with self._engine.connect().execution_options(write=write) as connection, connection.begin():
                    yield connection
            except sa.exc.DBAPIError as error:
                raise StorageError(_explain(error, str(self._url.database))) from error

    def _open(self) -> None:
        engine = sa.create_engine(
            self._url,
            hide_parameters=True,  # a payload in a traceback helps nobody
            connect_args={"timeout": BUSY_SECONDS, "isolation_level": None},  # None: the driver never begins by itself
        )
        sa.event.listen(engine, "connect", _configure)
        sa.event.listen(engine, "begin", _begin)
        dispose = weakref.finalize(self, engine.dispose)
        try:
            self._prepare(engine)
        except BaseException:
            dispose()
            raise
        self._engine, self._dispose = engine, dispose

    def _prepare(self, engine: sa.Engine) -> None:
        with engine.connect() as connection:
            found = _version(connection)
        if found is None:
            with engine.connect().execution_options(write=True) as connection, connection.begin():
                found = _version(connection)  # again: another process may have been first
                if found is None:
                    _metadata.create_all(connection)
                    connection.execute(sa.insert(_schema), {"version": VERSION})
                    found = VERSION
        if found > VERSION:
            raise StorageError(
                f"this presage reads storages up to version {VERSION}, but {self._url.database} has version {found}; "
                f"upgrade presage (pip install --upgrade presage)"
            )

    def _decode(self, study: str, seq: int, text: Any) -> dict[str, Any]:
        try:
            text.encode()
            payload = json.loads(text)
            if isinstance(payload, dict):
                return payload
        except (AttributeError, ValueError, RecursionError):
            pass
        raise StorageError(
            f"an event must be a JSON object, but event {seq} of study {study!r} in {self._url.database} is "
            f"{short(text)}; the file was damaged or edited: restore it from a copy, or delete the study"
        )


def _checked(url: str | sa.URL) -> sa.URL:
    """The URL with an absolute path, so that a later change of the working folder changes nothing."""
    scheme = str(url).partition("://")[0]  # all of a wrong URL that is shown: the rest may hold a password
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise StorageError(f"a storage URL must read sqlite:///path, but got a malformed {scheme}://...") from None
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise StorageError(f"a storage URL must begin with sqlite:///, but got {scheme}://...; use an SQLite file")
    if parsed.host or parsed.username or parsed.password:
        raise StorageError(
            "an SQLite URL has three slashes before a relative path and four before an absolute one, "
            "but got one with a host; write sqlite:///study.db or sqlite:////tmp/study.db"
        )
    if parsed.database in (None, "", ":memory:") or parsed.query.get("mode") == "memory":
        raise StorageError(
            "an SQLite storage must be a file, but got a database in memory, which ends with its connection; "
            "give a path, or None for a storage in memory"
        )
    if "uri" in parsed.query:
        return parsed
    return parsed.set(database=os.path.abspath(str(parsed.database)))


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
    # write lock at its start waits its turn. A reader needs none: each of its statements sees one moment.
    if connection.get_execution_options().get("write"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _version(connection: sa.Connection) -> int | None:
    if not sa.inspect(connection).has_table(_schema.name):
        return None
    return connection.scalar(sa.select(_schema.c.version))


def _locked(connection: sa.Connection, study: str) -> tuple[int, int]:
    row = connection.execute(_lock_study, {"name": check_text(study)}).one_or_none()
    if row is None:
        raise unknown_study(study)
    return row.id, row.last


def _explain(error: sa.exc.DBAPIError, path: str) -> str:
    """The rule, what was found, and what to do, by SQLite's own name of what went wrong."""
    name = getattr(error.orig, "sqlite_errorname", "")
    path = path.removeprefix("file:")
    folder = os.path.dirname(path)
    if name.startswith("SQLITE_CANTOPEN"):
        if os.path.isdir(path):
            return f"an SQLite storage must be a file, but {path} is a folder; give the path of a file in it"
        if not os.path.isdir(folder):
            return f"the folder of a storage must exist, but there is no {folder}; create it or give another path"
        return f"a storage must be a file that you may read and write, but {path} is not; give another path"
    if name.startswith("SQLITE_READONLY"):
        return f"a storage must be writable, file and folder, but {path} is read-only; change that or give another path"
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
        f"sqlite3 {path} 'pragma integrity_check' and, if it is damaged, restore it from a copy"
    )


# SQLite keeps its file locks in a table per process. A child of fork inherits the table but not the locks, and believes
# to hold them even in a connection of its own; another process may then remove the log that the child writes to, and
# commits are lost (a test shows it). So no connection is open while a process forks.
_registry = threading.Lock()  # held while forking: no storage opens meanwhile, and the child gets it unlocked
_alive: "weakref.WeakSet[SQLStorage]" = weakref.WeakSet()
_held: list[SQLStorage] = []


def _before_fork() -> None:
    _registry.acquire()
    for storage in list(_alive):
        storage._lock.acquire()
        _held.append(storage)
        storage.close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _registry.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
