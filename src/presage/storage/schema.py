"""The tables of an SQL storage, their version, and how an older version becomes this one."""

from collections.abc import Callable

import sqlalchemy as sa

VERSION = 3

# Prefixed, because people keep the studies of several libraries in one database (Optuna too has a table "studies").
metadata = sa.MetaData()
schema = sa.Table("presage_schema", metadata, sa.Column("version", sa.Integer, nullable=False))
studies = sa.Table(
    "presage_studies",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("last", sa.Integer, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
)
# Without rowid a table is its primary key's tree: one tree to write per append, and events lie in reading order.
events = sa.Table(
    "presage_events",
    metadata,
    sa.Column("study", sa.Integer, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("payload", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)
claims = sa.Table(
    "presage_claims",
    metadata,
    sa.Column("study", sa.Integer, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sqlite_with_rowid=False,
)
states = sa.Table(
    "presage_states",
    metadata,
    sa.Column("study", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("blob", sa.LargeBinary, nullable=False),
)
# Until when each worker is known to live, in seconds since the epoch by the database's clock.
leases = sa.Table(
    "presage_leases",
    metadata,
    sa.Column("study", sa.Integer, primary_key=True),
    sa.Column("worker", sa.Text, primary_key=True),
    sa.Column("expires", sa.Float(53), nullable=False),
    sqlite_with_rowid=False,
)
# What was committed, for whoever did not hear the answer; only a server that can be cut off needs it.
receipts = sa.Table(
    "presage_receipts",
    metadata,
    sa.Column("token", sa.Text, primary_key=True),
    sa.Column("at", sa.Float(53), nullable=False),
    sqlite_with_rowid=False,
)
OF_A_STUDY = (events, claims, states, leases)


def version(connection: sa.Connection) -> int | None:
    """The version of the tables, None where there are none."""
    if not sa.inspect(connection).has_table(schema.name):
        return None
    return connection.scalar(sa.select(schema.c.version))


def make(connection: sa.Connection) -> None:
    """All tables, where there are none."""
    metadata.create_all(connection)
    connection.execute(sa.insert(schema), {"version": VERSION})


def _from_1(connection: sa.Connection) -> None:
    """0.1: no leases; a trial left running then is handed out again."""
    leases.create(connection)


def _from_2(connection: sa.Connection) -> None:
    """No receipts: whether a commit was made was told by the number of the transaction, which may be used again."""
    receipts.create(connection)


# By the version they start from, each to the next one. A released step is never changed: it meets real data.
STEPS: dict[int, Callable[[sa.Connection], None]] = {1: _from_1, 2: _from_2}


def upgrade(connection: sa.Connection, found: int) -> None:
    """Take tables of an earlier version to this one."""
    for step in range(found, VERSION):
        STEPS[step](connection)
    connection.execute(sa.update(schema), {"version": VERSION})
