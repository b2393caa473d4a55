"""The tables of a ledger, the statements that read and append, and the numbered steps that make the tables.

No statement changes or removes a row. A release is two short transactions, in which building statements anew would take
longer than running them. So each statement is compiled once for a kind of database, and the driver's connection runs
the text. A ledger records which steps brought its tables to their present form.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy.schema import CreateTable

from pufferflow.core.errors import LedgerError

metadata = sa.MetaData()

events: Final = sa.Table(
    "pufferflow_events",
    metadata,
    sa.Column(
        "number",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
"""The log: canonical texts, each with the hash that ties it to those before."""

shapes: Final = sa.Table(
    "pufferflow_shapes",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)
"""The shapes that many costs share."""

payloads: Final = sa.Table(
    "pufferflow_payloads",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
"""Releases that were committed."""

migrations: Final = sa.Table(
    "pufferflow_migrations",
    sa.MetaData(),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
)
"""The steps that brought the tables to their present form.

In PostgreSQL every writer locks this table, so that writers follow each other, and no step is taken while one writes.
"""

NEWS: Final = (
    sa.select(events.c.number, events.c.body, events.c.hash)
    .where(events.c.number >= sa.bindparam("known"))
    .order_by(events.c.number)
)
"""The last event in memory, to check that it is unchanged, and all later ones."""
LEAST: Final = -(1 << 63)
"""The least number a row can have; those of events begin with 1, and others are found by reading them."""
LAST: Final = sa.select(events.c.number, events.c.hash).where(
    events.c.number == sa.select(sa.func.max(events.c.number)).scalar_subquery()
)
RANGE: Final = (
    sa.select(events.c.number, events.c.body)
    .where(events.c.number.between(sa.bindparam("first"), sa.bindparam("last")))
    .order_by(events.c.number)
)
EVENT: Final = sa.select(events.c.body, events.c.hash).where(
    events.c.number == sa.bindparam("number")
)
HASH: Final = sa.select(events.c.hash).where(events.c.number == sa.bindparam("number"))
SHAPE: Final = sa.select(shapes.c.body).where(shapes.c.digest == sa.bindparam("digest"))
PAYLOAD: Final = sa.select(payloads.c.body).where(payloads.c.digest == sa.bindparam("digest"))
SHAPES: Final = sa.select(shapes.c.digest, shapes.c.body)
PAYLOADS: Final = sa.select(payloads.c.digest, payloads.c.body)
ADD_EVENT: Final = sa.insert(events)
ADD_SHAPE: Final = sa.insert(shapes)
ADD_PAYLOAD: Final = sa.insert(payloads)


_DIALECTS: Final[dict[str, sa.Dialect]] = {
    "sqlite": pysqlite.dialect(paramstyle="named"),
    "postgresql": psycopg.dialect(),
}


@cache
def _compile(statement: sa.ClauseElement, database: str) -> str:
    """Return a statement as text for a kind of database, with named parameters."""
    return str(statement.compile(dialect=_DIALECTS[database]))


@final
class Transaction:
    """The statements of one transaction after another, run by a connection's own driver."""

    def __init__(self, connection: sa.Connection) -> None:
        self.database = connection.dialect.name
        self.driver: Any = connection.connection.driver_connection

    def execute(self, text: str) -> Any:
        """Run a text without parameters."""
        return self.driver.execute(text)

    def run(self, statement: sa.ClauseElement, **values: object) -> Any:
        """Run a statement and return the cursor with its rows."""
        return self.driver.execute(_compile(statement, self.database), values)

    def add_all(self, statement: sa.ClauseElement, rows: list[dict[str, object]]) -> None:
        """Append rows."""
        self.driver.cursor().executemany(_compile(statement, self.database), rows)

    def value(self, statement: sa.ClauseElement, **values: object) -> Any:
        """Return the first value of the first row; None if there is no row."""
        row = self.run(statement, **values).fetchone()
        return None if row is None else row[0]


def _make_tables(connection: sa.Connection) -> None:
    metadata.create_all(connection, checkfirst=False)


STEPS: Final[tuple[Callable[[sa.Connection], None], ...]] = (_make_tables,)
"""In order; a step is never changed once a ledger may have taken it."""


def steps_taken(connection: sa.Connection, pages: int = 0) -> int:
    """Return how many steps were taken; 0 for an empty database. Refuse other programs' files and newer ledgers.

    An empty file has no pages, and one page as soon as a program begins to write.
    """
    inspector = sa.inspect(connection)
    if inspector.has_table(migrations.name):
        numbers = list(
            connection.execute(
                sa.select(migrations.c.number).order_by(migrations.c.number)
            ).scalars()
        )
        return _check_numbers(numbers)
    others = inspector.get_table_names()
    if any(name.startswith("pufferflow_") for name in others):
        raise LedgerError(
            "The database has only a part of a ledger.",
            allowed="a whole ledger",
            instead="the last good copy",
        )
    if connection.dialect.name != "sqlite":
        return 0
    if others:
        raise LedgerError(
            "The file is no ledger: it has the tables of another program.",
            allowed="a ledger, or a file that does not exist yet",
            instead='pf.Ledger("ledger.db")',
        )
    if int(connection.exec_driver_sql("PRAGMA page_count").scalar_one()) > pages:
        raise LedgerError(
            "The file is a database without tables: another program's, or a part of a ledger.",
            allowed="a ledger, or a file that does not exist yet",
            instead="copies that ledger.copy_to(…) makes, never the file alone",
        )
    return 0


def _check_numbers(numbers: list[object]) -> int:
    last = numbers[-1] if numbers else 0
    if isinstance(last, int) and last > len(STEPS):
        raise LedgerError(
            f"The ledger was written by a newer pufferflow (step {last}; this one knows {len(STEPS)}).",
            allowed="a ledger of this version or an older one",
            instead='pip install --upgrade "pufferflow"',
        )
    if numbers != list(range(1, len(numbers) + 1)) or not numbers:
        raise LedgerError(
            "The ledger's list of steps that made its tables is incomplete.",
            allowed="a whole ledger",
            instead="a good copy",
        )
    return len(numbers)


def migrate(connection: sa.Connection) -> None:
    """Take the steps that are missing, inside a transaction that excludes other writers."""
    done = steps_taken(connection, pages=1)
    if done == 0:
        migrations.create(connection, checkfirst=True)
    for number, step in enumerate(STEPS[done:], done + 1):
        step(connection)
        at = datetime.now(UTC).isoformat()
        connection.execute(sa.insert(migrations), {"number": number, "at": at})


def check_encoding(connection: sa.Connection) -> None:
    """Refuse a server's database that cannot hold every text."""
    if connection.dialect.name == "sqlite":
        return
    encoding = str(connection.exec_driver_sql("SHOW server_encoding").scalar_one())
    if encoding != "UTF8":
        raise LedgerError(
            f"The server's database has the encoding {encoding}, in which texts are lost or changed.",
            allowed="a database in UTF8",
            instead="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )


_WORD = re.compile(r"\w+")
_OBJECTS: Final = {
    # statistics of SQLite's planner are no part of a ledger, and change nothing in it
    "sqlite": "SELECT type, name, sql FROM sqlite_master WHERE name NOT IN ('sqlite_stat1', 'sqlite_stat4') "
    "AND NOT (type = 'index' AND sql IS NULL)",
    # an ordinary object has an empty third column
    "postgresql": """
SELECT 'table', relname, concat_ws(' ',
  CASE WHEN relkind <> 'r' THEN 'of kind ' || relkind::text END,
  CASE WHEN relpersistence <> 'p' THEN 'not durable' END,
  CASE WHEN relrowsecurity THEN 'with hidden rows' END)
FROM pg_class WHERE oid IN ({names})
UNION ALL SELECT 'trigger', tgname, '' FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN ({names})
UNION ALL SELECT 'rule', rulename, '' FROM pg_rewrite WHERE ev_class IN ({names})
UNION ALL SELECT 'heir', inhrelid::regclass::text, '' FROM pg_inherits WHERE inhparent IN ({names})""",
}


def check_objects(transaction: Transaction) -> None:
    """Refuse a database whose tables are not just those that the steps made.

    A trigger or a rule would change what is appended, and a view would show something else. A clause ON CONFLICT would
    leave rows out, and an unlogged table loses its rows when the server crashes.
    """
    known = {
        table.name: _expected(table, transaction.database)
        for table in (*metadata.sorted_tables, migrations)
    }
    query = _OBJECTS[transaction.database]
    rows = transaction.execute(
        query.format(names=", ".join(f"to_regclass('{name}')" for name in known))
    ).fetchall()
    for kind, name, words in rows:
        if known.get(name) != (kind, _WORD.findall(str(words).lower())):
            raise LedgerError(
                f"The ledger's database has something that pufferflow did not make so: {kind} {str(name)[:100]!r}.",
                allowed="tables that only pufferflow changes, without foreign triggers, rules, views and indexes",
                instead="ledger.verify(head) on the last copy that you kept; then removing it, if no charge can be "
                "missing",
            )
    if known.keys() != {name for _, name, _ in rows}:
        raise LedgerError(
            "The database has no ledger, or only a part of one.",
            allowed="a whole ledger",
            instead="the last copy that ledger.verify(head) accepts",
        )


def _expected(table: sa.Table, database: str) -> tuple[str, list[str]]:
    """Return the kind of object, and the words of SQLite's statement that made it."""
    text = (
        str(CreateTable(table).compile(dialect=_DIALECTS[database])) if database == "sqlite" else ""
    )
    return "table", _WORD.findall(text.lower())
