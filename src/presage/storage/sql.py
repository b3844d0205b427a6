"""Events in an SQL database, by SQLAlchemy Core."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from presage.errors import StorageError
from presage.storage import schema
from presage.storage.backend import Backend
from presage.storage.base import Event, Payload, Snapshot, Storage
from presage.storage.database import Database
from presage.storage.memory import (
    check_snapshot,
    check_text,
    claim_taken,
    encode,
    name_taken,
    short,
    unknown_study,
)
from presage.storage.schema import claims as _claims
from presage.storage.schema import events as _events
from presage.storage.schema import leases as _leases
from presage.storage.schema import states as _states
from presage.storage.schema import studies as _studies

ALL = 2**62  # rows
_objects = msgspec.json.Decoder(list[dict[str, Any]])

# FOR UPDATE is the row lock that orders the writers of a study; SQLite, which locks the whole file, leaves it out.
_name, _study = sa.bindparam("name", type_=sa.Text), sa.bindparam("of", type_=sa.Integer)
_after = sa.bindparam("after", type_=sa.Integer)
_find_study = sa.select(_studies.c.id, _studies.c.last).where(_studies.c.name == _name)
_lock_study = _find_study.with_for_update()
_set_last = sa.update(_studies).where(_studies.c.id == _study)
_set_state = sa.update(_states).where(_states.c.study == _study)
_add_events = sa.insert(_events)
# Outer joins: an unknown study gives no row, a study with nothing to tell gives one row of NULL.
_read_events = (
    sa.select(_events.c.seq, _events.c.payload)
    .select_from(_studies.outerjoin(_events, (_events.c.study == _studies.c.id) & (_events.c.seq > _after)))
    .where(_studies.c.name == _name)
    .order_by(_events.c.seq)
    .limit(sa.bindparam("most", type_=sa.BigInteger))
)
_read_state = (
    sa.select(_states.c.seq, _states.c.blob)
    .select_from(_studies.outerjoin(_states, (_states.c.study == _studies.c.id) & (_states.c.seq > _after)))
    .where(_studies.c.name == _name)
)


class SQLStorage(Storage):
    """Studies in an SQLite file (`sqlite:///study.db`) or a PostgreSQL database (`postgresql://user@host/database`).

    A database that is gone is waited for, with a message in the log "presage"; what was under way is then done once.

    Args:
        url: where it is.
        create: make the tables where there are none; otherwise that is an error.
        upgrade: take tables of an earlier version to this one; otherwise they are an error.
    """

    def __init__(self, url: str | sa.URL, *, create: bool = True, upgrade: bool = False) -> None:
        self._database = Database(backend_of(url), create=create, upgrade=upgrade)
        self._run = self._database.run
        self._backend = self._database.backend
        insert = self._backend.insert
        self._insert_study = insert(_studies).on_conflict_do_nothing().returning(_studies.c.id)
        self._insert_claim = insert(_claims).on_conflict_do_nothing().returning(_claims.c.key)

    @property
    def place(self) -> str:
        """Where it is, without user and password."""
        return self._backend.place

    @property
    def found(self) -> int:
        """The version of its tables when it was opened."""
        return schema.VERSION if self._database.found is None else self._database.found

    def create(self, study: str, payload: Payload) -> None:
        text = encode(payload)

        def work(connection: sa.Connection) -> None:
            ident = self._add_study(connection, study, 1)
            connection.execute(_add_events, {"study": ident, "seq": 1, "payload": text})

        self._run(work, write=True)

    def _add_study(self, connection: sa.Connection, study: str, last: int) -> int:
        row = {"name": check_text(study), "last": last, "created": time.time()}
        ident = connection.scalar(self._insert_study, row)
        if ident is None:
            raise name_taken(study)
        return ident

    def append(
        self, study: str, payloads: Iterable[Payload], *, claims: Iterable[str] = (), state: bytes | None = None
    ) -> int:
        texts = [encode(payload) for payload in payloads]
        keys = [check_text(key, "a claim") for key in claims]

        def work(connection: sa.Connection) -> int:
            ident, last = self._add(connection, check_text(study), texts, keys)
            if state is not None:
                row = {"seq": last, "blob": state}
                if not connection.execute(_set_state, {"of": ident} | row).rowcount:
                    connection.execute(sa.insert(_states), {"study": ident} | row)
            return last

        return self._run(work, write=True)

    def append_after(self, study: str, make: Callable[[], tuple[list[Payload], list[str]]]) -> int:
        def work(connection: sa.Connection) -> int:
            _locked(connection, study)
            with self._database.inside(connection):  # what `make` reads
                payloads, claims = make()
            return self._add(connection, study, [encode(p) for p in payloads], claims)[1]

        return self._run(work, write=True)

    def _add(self, connection: sa.Connection, study: str, texts: list[str], keys: list[str]) -> tuple[int, int]:
        add = self._add_at_once if self._backend.append else self._add_step_by_step
        return add(connection, study, texts, keys)

    def _add_step_by_step(
        self, connection: sa.Connection, study: str, texts: list[str], keys: list[str]
    ) -> tuple[int, int]:
        ident, last = _locked(connection, study)
        self._claim(connection, ident, study, keys)
        if texts:
            rows = [{"study": ident, "seq": seq, "payload": text} for seq, text in enumerate(texts, last + 1)]
            connection.execute(_add_events, rows)
            last += len(texts)
            connection.execute(_set_last, {"of": ident, "last": last})
        return ident, last

    def _add_at_once(self, connection: sa.Connection, study: str, texts: list[str], keys: list[str]) -> tuple[int, int]:
        given = {"name": study, "keys": keys, "claims": len(keys), "payloads": texts, "events": len(texts)}
        row = connection.exec_driver_sql(str(self._backend.append), given).one_or_none()
        if row is None:
            raise unknown_study(study)
        if row.free < len(keys):
            raise claim_taken(study, keys)
        return row.id, row.last

    def _claim(self, connection: sa.Connection, ident: int, study: str, keys: list[str]) -> None:
        """One statement per claim; there is rarely more than one, and each must say whether it was taken."""
        for key in keys:
            if connection.scalar(self._insert_claim, {"study": ident, "key": key}) is None:
                raise claim_taken(study, keys)

    def read(self, study: str, after: int = 0, most: int | None = None) -> list[Event]:
        check_text(study)
        rows = self._run(lambda connection: _rows(connection, study, after, most))
        if not rows:
            raise unknown_study(study)
        return self._decoded(study, rows)

    def _decoded(self, study: str, rows: Sequence[Any]) -> list[Event]:
        if rows[0][0] is None:
            return []
        seqs, texts = zip(*rows, strict=True)
        return decode_events(study, self.place, seqs, texts)

    def state(self, study: str, after: int = -1) -> tuple[int, bytes] | None:
        check_text(study)
        row = self._run(
            lambda connection: connection.execute(_read_state, {"name": study, "after": after}).one_or_none()
        )
        if row is None:
            raise unknown_study(study)
        return self._state_of(study, row)

    def _state_of(self, study: str, row: Any) -> tuple[int, bytes] | None:
        if row.seq is None:
            return None
        if type(row.seq) is not int or not isinstance(row.blob, bytes):
            raise StorageError(
                f"a fit state must be a number and bytes, but that of study {short(study)} in {self.place} is "
                f"{short((row.seq, row.blob))}; the storage was damaged or edited: restore it from a copy"
            )
        return row.seq, row.blob

    def renew(self, study: str, worker: str, seconds: float) -> bool:
        check_text(worker, "a worker")
        now: sa.ColumnElement[float] = sa.literal_column(self._backend.clock)
        mine = (_leases.c.study == _study) & (_leases.c.worker == sa.bindparam("who", type_=sa.Text))

        def work(connection: sa.Connection) -> bool:
            who = {"of": _found(connection, study), "who": worker}
            known = connection.execute(sa.select(_leases.c.expires > now).where(mine), who).scalar()
            if seconds <= 0:
                connection.execute(sa.delete(_leases).where(mine), who)
            elif known is None:
                # Rows of workers that are long gone mean the same as none.
                connection.execute(
                    sa.delete(_leases).where((_leases.c.study == _study) & (_leases.c.expires < now)), who
                )
                row = {"study": who["of"], "worker": worker, "expires": now + seconds}
                connection.execute(self._backend.insert(_leases).values(row).on_conflict_do_nothing())
            else:
                connection.execute(sa.update(_leases).where(mine).values(expires=now + seconds), who)
            return bool(known)

        return self._run(work, write=True)

    def living(self, study: str) -> set[str]:
        now: sa.ColumnElement[float] = sa.literal_column(self._backend.clock)
        workers = sa.select(_leases.c.worker).where((_leases.c.study == _study) & (_leases.c.expires > now))
        return self._run(lambda connection: set(connection.scalars(workers, {"of": _found(connection, study)})))

    def snapshot(self, study: str) -> Snapshot:
        def work(connection: sa.Connection) -> tuple[list[Any], list[str], Any]:
            ident = _found(connection, study)
            rows = _rows(connection, study, 0)
            keys = connection.scalars(sa.select(_claims.c.key).where(_claims.c.study == ident))
            return rows, sorted(keys), connection.execute(_read_state, {"name": study, "after": -1}).one()

        rows, keys, state = self._run(work, one_moment=True)
        return Snapshot(self._decoded(study, rows), keys, self._state_of(study, state))

    def restore(self, study: str, snapshot: Snapshot) -> None:
        rows = [{"seq": seq, "payload": encode(payload)} for seq, payload in check_snapshot(snapshot).events]
        keys = [check_text(key, "a claim") for key in snapshot.claims]

        def work(connection: sa.Connection) -> None:
            ident = self._add_study(connection, study, len(rows))
            connection.execute(_add_events, [{"study": ident, **row} for row in rows])
            if keys:
                connection.execute(sa.insert(_claims), [{"study": ident, "key": key} for key in keys])
            if snapshot.state is not None:
                seq, blob = snapshot.state
                connection.execute(sa.insert(_states), {"study": ident, "seq": seq, "blob": blob})

        self._run(work, write=True)

    def studies(self) -> list[str]:
        names = self._run(lambda connection: connection.scalars(sa.select(_studies.c.name)).all())
        return sorted(check_text(name) for name in names)

    def delete(self, study: str) -> None:
        def work(connection: sa.Connection) -> None:
            ident, _ = _locked(connection, study)
            for table in schema.OF_A_STUDY:
                connection.execute(sa.delete(table).where(table.c.study == ident))
            connection.execute(sa.delete(_studies).where(_studies.c.id == ident))

        self._run(work, write=True)

    def problems(self) -> list[str]:
        """What is wrong with the database and its tables, without looking into events; nothing is repaired."""

        def work(connection: sa.Connection) -> list[str]:
            found = self._backend.problems(connection)
            of, seq = _events.c.study, _events.c.seq
            spans = sa.select(of, sa.func.count(), sa.func.min(seq), sa.func.max(seq)).group_by(of)
            by_study = {row[0]: tuple(row[1:]) for row in connection.execute(spans)}
            for ident, name, last in connection.execute(sa.select(_studies.c.id, _studies.c.name, _studies.c.last)):
                count, first, final = by_study.pop(ident, (0, None, None))
                if (count, first, final) != (last, 1, last):
                    found.append(
                        f"study {short(name)} must have events 1 to {last}, but has {count} from {first} to {final}"
                    )
            found += [f"{count} events belong to no study (number {ident})" for ident, (count, *_) in by_study.items()]
            for table in (_claims, _states, _leases):
                stray = sa.select(sa.func.count()).where(table.c.study.not_in(sa.select(_studies.c.id)))
                if number := connection.scalar(stray):
                    found.append(f"{number} rows of {table.name} belong to no study")
            return found

        return self._run(work, one_moment=True)

    def close(self) -> None:
        self._database.close()


def backend_of(url: str | sa.URL) -> Backend:
    """What speaks to the database at a URL."""
    scheme = str(url).partition("://")[0]  # all of a wrong URL that is shown: the rest may hold a password
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise StorageError(
            f"a storage URL must read sqlite:///path or postgresql://user@host/database, "
            f"but got a malformed {short(scheme)}"
        ) from None
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        from presage.storage.sqlite import SQLite

        return SQLite(parsed)
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        from presage.storage.postgres import PostgreSQL

        return PostgreSQL(parsed)
    raise StorageError(
        f"a storage URL must begin with sqlite:/// or postgresql://, but got {short(scheme)}; use one of the two"
    )


def decode_events(study: str, place: str, seqs: Sequence[int], texts: Sequence[Any]) -> list[Event]:
    """Events from their JSON, or a StorageError that names the one that is none."""
    try:
        joined = f"[{','.join(texts)}]"  # in one piece, and not by json: six times as fast, for a study of 1e5 trials
        payloads = _objects.decode(joined)  # fails where the file had bytes that are no text
        whole = len(payloads) == len(texts)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        whole = False
    if not whole:
        payloads = [_decode(study, place, seq, text) for seq, text in zip(seqs, texts, strict=True)]
    return list(map(Event._make, zip(seqs, payloads, strict=True)))


def _decode(study: str, place: str, seq: Any, text: Any) -> dict[str, Any]:
    try:
        text.encode()
        payload = json.loads(text)
        if isinstance(payload, dict):
            return payload
    except (AttributeError, ValueError, RecursionError):
        pass
    raise StorageError(
        f"an event must be a JSON object, but event {short(seq)} of study {short(study)} in {place} is "
        f"{short(text)}; the storage was damaged or edited: restore it from a copy, or delete the study"
    )


def _rows(connection: sa.Connection, study: str, after: int, most: int | None = None) -> list[tuple[Any, Any]]:
    """Numbers and texts as the driver gives them, since there may be many."""
    given = {"name": study, "after": after, "most": ALL if most is None else most}
    driver = connection.dialect.loaded_dbapi
    with connection.execute(_read_events, given) as result:
        assert result.cursor is not None
        try:
            return list(result.cursor.fetchall())
        except driver.Error as error:  # as SQLAlchemy would say it, which is not asked here
            raise sa.exc.DBAPIError.instance(None, None, error, driver.Error) from error


def _found(connection: sa.Connection, study: str) -> int:
    row = connection.execute(_find_study, {"name": check_text(study)}).one_or_none()
    if row is None:
        raise unknown_study(study)
    return row.id


def _locked(connection: sa.Connection, study: str) -> tuple[int, int]:
    row = connection.execute(_lock_study, {"name": check_text(study)}).one_or_none()
    if row is None:
        raise unknown_study(study)
    return row.id, row.last
