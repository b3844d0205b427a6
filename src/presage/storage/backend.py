"""What one database does differently from another."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import sqlalchemy as sa


class Backend(ABC):
    """The ways of one kind of database.

    Attributes:
        place: where it is, as people may see it: without user and password.
        clock: SQL for the database's own time, in seconds since the epoch.
        insert: the dialect's INSERT, which knows ON CONFLICT.
        append: SQL that appends events and claims in one statement, where the way to the database is long; it is given
            name, keys, payloads and their numbers, and gives id, the last sequence number and how many claims were
            free; or no row for an unknown study.
    """

    place: str
    clock: ClassVar[str]
    insert: ClassVar[Any]
    append: ClassVar[str | None] = None

    @abstractmethod
    def check_exists(self) -> None:
        """StorageError where there is nothing to open, as far as that can be told without opening it."""

    @abstractmethod
    def engine(self) -> sa.Engine:
        """Connections to it."""

    def lock_schema(self, connection: sa.Connection) -> None:
        """Have nobody else change the tables until this transaction ends."""

    @abstractmethod
    def explain(self, error: sa.exc.DBAPIError) -> str:
        """The rule, what was found, and what to do."""

    def absent(self, error: sa.exc.DBAPIError) -> bool:
        """Whether the database did not answer, or asked to come back later; then it is worth waiting."""
        return False

    def starting(self, error: sa.exc.DBAPIError) -> bool:
        """Whether it said that it will answer soon."""
        return False

    def sign(self, connection: sa.Connection, token: str, previous: str | None) -> bool:
        """Begin a transaction that writes; False if one with this token was committed before.

        Args:
            connection: in the transaction.
            token: its own.
            previous: that of an earlier one whose end is known, and which nobody asks for again.
        """
        return True

    def problems(self, connection: sa.Connection) -> list[str]:
        """What the database itself finds wrong with its files."""
        return []
