"""PostgreSQL: any number of workers on any machines."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from presage.errors import StorageError
from presage.storage.backend import Backend

# A worker that is frozen or cut off in the middle of a transaction holds the study's row lock. The server ends such
# a transaction after this long, the others wait no longer, and the worker does it again when it is back.
IDLE_SECONDS = 10
# How long a connection that was cut may look alive from this side, and how long a new one may take.
SILENCE_SECONDS = 10
CONNECT_SECONDS = 5

SCHEMA_LOCK = 0x70726573616765  # "presage", the number of an advisory lock
# By class or code of SQLSTATE: connection lost; shutting down, crashed, starting; too many connections.
ABSENT = ("08", "57P0", "53300", "25P03")
CANNOT_CONNECT_NOW, TOO_MANY = "57P03", "53300"
RETRY = ("40001", "40P01")  # serialization failure, deadlock: the server asks to do it again


# Every turn between client and server while the row lock is held is a turn that all other workers wait for. The lock
# gives the latest row even if the statement began before another's commit; ON CONFLICT sees that commit's claims.
APPEND = """
WITH study AS (SELECT id, last FROM presage_studies WHERE name = %(name)s FOR UPDATE),
     claimed AS (INSERT INTO presage_claims (study, key)
                 SELECT study.id, key FROM study, unnest(%(keys)s::text[]) AS key
                 ON CONFLICT DO NOTHING RETURNING 1),
     fine AS (SELECT id, last FROM study WHERE (SELECT count(*) FROM claimed) = %(claims)s),
     added AS (INSERT INTO presage_events (study, seq, payload)
               SELECT fine.id, fine.last + event.place, event.payload
               FROM fine, unnest(%(payloads)s::text[]) WITH ORDINALITY AS event (payload, place)),
     moved AS (UPDATE presage_studies SET last = fine.last + %(events)s FROM fine WHERE presage_studies.id = fine.id)
SELECT id, last + %(events)s AS last, (SELECT count(*) FROM claimed) AS free FROM study
"""


# Tokens of transactions whose answer may have been lost: one per storage that is or was open. Nobody asks after a day.
SIGN = """
WITH known AS (DELETE FROM presage_receipts WHERE token = %(previous)s)
INSERT INTO presage_receipts (token, at) VALUES (%(token)s, extract(epoch from clock_timestamp()))
ON CONFLICT DO NOTHING RETURNING token
"""
FORGET = """
DELETE FROM presage_receipts WHERE token IN (
    SELECT token FROM presage_receipts WHERE at < extract(epoch from clock_timestamp()) - %(seconds)s
    FOR UPDATE SKIP LOCKED)
"""
FORGET_SECONDS = 86400


class PostgreSQL(Backend):
    """A database by its URL: `postgresql://user@host:5432/database`; a password may also stand in ~/.pgpass."""

    clock = "extract(epoch from clock_timestamp())::float8"
    insert = staticmethod(insert)
    append = APPEND

    def __init__(self, url: sa.URL) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise StorageError(
                'a PostgreSQL storage needs psycopg, which is not installed; pip install "presage[postgres]"'
            ) from None
        self._url = url.set(drivername="postgresql+psycopg")
        host = url.host or url.query.get("host") or "this machine"
        self.place = f"{url.database or 'the default database'} on {host}" + (f":{url.port}" if url.port else "")

    def check_exists(self) -> None:
        """Only the server can tell."""

    def engine(self) -> sa.Engine:
        mine = {
            "connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": 1000 * SILENCE_SECONDS,
            "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "application_name": "presage",
        }  # fmt: skip
        engine = sa.create_engine(
            self._url,
            hide_parameters=True,
            pool_size=1,  # a storage makes one call at a time
            # Prepared statements do not survive connection poolers, and save little here.
            connect_args={k: v for k, v in mine.items() if k not in self._url.query} | {"prepare_threshold": None},
        )
        sa.event.listen(engine, "connect", _configure)
        sa.event.listen(engine, "begin", _begin)
        return engine

    def lock_schema(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")

    def absent(self, error: sa.exc.DBAPIError) -> bool:
        state = getattr(error.orig, "sqlstate", None)
        if state is None:  # libpq itself: refused, reset, timed out
            return isinstance(error, sa.exc.OperationalError)
        return state.startswith(ABSENT) or state in RETRY or error.connection_invalidated

    def starting(self, error: sa.exc.DBAPIError) -> bool:
        # A refused connection has no SQLSTATE in psycopg, only the server's words.
        text = str(error.orig)
        return any(words in text for words in ("database system is", "too many clients", "connection slots"))

    def explain(self, error: sa.exc.DBAPIError) -> str:
        state = getattr(error.orig, "sqlstate", None) or ""
        text = " ".join(str(error.orig).split())
        if state == "53100":
            return f"a storage needs room to grow, but the disk of {self.place} is full; make room and retry"
        if state == "54000":
            return f"a name must be short enough to be looked up, but {self.place} answers: {text}; choose another"
        if state in ("42501", "25006"):
            return f"a storage must be writable, but {self.place} answers: {text}; ask for the right to write there"
        if state == "55P03":
            return f"a storage must be free to write, but {self.place} answers: {text}; end what holds the lock"
        if not state:
            return f"a storage must answer, but {self.place} does not: {text}; check address, user and password"
        return f"a storage must be a sound database, but {self.place} answers: {text} (SQLSTATE {state})"

    def sign(self, connection: sa.Connection, token: str, previous: str | None) -> bool:
        # Of two transactions with one token the second waits here until the first has ended, and then knows how.
        # Nothing else tells that for certain: a server that crashed gives out the numbers of lost transactions again.
        if previous is None:
            connection.exec_driver_sql(FORGET, {"seconds": FORGET_SECONDS})
        given = {"token": token, "previous": previous}
        return connection.exec_driver_sql(SIGN, given).one_or_none() is not None


def _configure(connection: Any, _: Any) -> None:
    # By statements, since connection poolers refuse options at the start.
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
        cursor.execute("SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3")
    connection.commit()


def _begin(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("one_moment"):
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
