"""The line to a database: transactions of a few statements, run by the driver itself.

A release is two short transactions, in which building statements anew would take longer than running them. So each is
written out once for a kind of database, and the driver's connection runs the text.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar, final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.dialects.sqlite import pysqlite

T = TypeVar("T")
_DIALECTS: Final[dict[str, sa.Dialect]] = {
    "sqlite": pysqlite.dialect(paramstyle="named"),
    "postgresql": psycopg.dialect(),
}


@cache
def text_of(statement: sa.ClauseElement, database: str) -> str:
    """Return a statement as text for a kind of database, with named parameters."""
    return str(statement.compile(dialect=_DIALECTS[database]))


@final
class Line:
    """A connection, for one transaction after another."""

    def __init__(self, connection: sa.Connection) -> None:
        self.database = connection.dialect.name
        self.driver: Any = connection.connection.driver_connection

    def transact(self, work: Callable[["Line"], T], beginning: str, begun: Callable[["Line"], None]) -> T:
        """Return what work gives once all that it wrote is durable; nothing is written if anything fails.

        `begun` is called once the transaction has begun.
        """
        try:
            self.say(beginning)
            begun(self)
            found = work(self)
            self.driver.commit()
        except BaseException:
            with suppress(Exception):  # what cannot be taken back by words ends with the connection
                self.driver.rollback()
            raise
        return found

    def say(self, text: str) -> Any:
        """Run a text without parameters."""
        return self.driver.execute(text)

    def run(self, statement: sa.ClauseElement, **values: object) -> Any:
        """Run a statement and return the cursor with its rows."""
        return self.driver.execute(text_of(statement, self.database), values)

    def add_all(self, statement: sa.ClauseElement, rows: list[dict[str, object]]) -> None:
        """Append rows."""
        self.driver.cursor().executemany(text_of(statement, self.database), rows)

    def value(self, statement: sa.ClauseElement, **values: object) -> Any:
        """Return the first value of the first row; None if there is no row."""
        row = self.run(statement, **values).fetchone()
        return None if row is None else row[0]
