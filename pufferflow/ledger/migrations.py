"""Steps that bring the tables of a ledger to their present form, numbered; a ledger remembers those it has taken."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from pufferflow.errors import LedgerFault
from pufferflow.ledger.connect import Line, metadata, migrations, text_of


def _tables(connection: sa.Connection) -> None:
    """Make the log, the shapes and the payloads."""
    metadata.create_all(connection, checkfirst=False)


STEPS: Final[tuple[Callable[[sa.Connection], None], ...]] = (_tables,)
"""In order; a step is never changed once a ledger may have taken it."""


def taken(connection: sa.Connection, pages: int = 0) -> int:
    """Return how many steps were taken; 0 for an empty database. Refuse other programs' files and newer ledgers.

    An empty file has no pages, and one as soon as somebody begins to write.
    """
    inspector = sa.inspect(connection)
    if not inspector.has_table(migrations.name):
        others = inspector.get_table_names()
        if any(name.startswith("pufferflow_") for name in others):
            raise LedgerFault(
                "The database has only a part of a ledger.", allowed="a whole ledger", instead="the last good copy"
            )
        if others and connection.dialect.name == "sqlite":
            raise LedgerFault(
                "The file is no ledger: it has the tables of another program.",
                allowed="a ledger, or a file that does not exist yet",
                instead='pf.Ledger("ledger.db")',
            )
        if connection.dialect.name == "sqlite" and _pages(connection) > pages:
            raise LedgerFault(
                "The file is a database without tables: another program's, or a part of a ledger.",
                allowed="a ledger, or a file that does not exist yet",
                instead="copies that ledger.copy_to(…) makes, never the file alone",
            )
        return 0
    return _known(list(connection.execute(sa.select(migrations.c.number).order_by(migrations.c.number)).scalars()))


def migrate(connection: sa.Connection) -> None:
    """Take the steps that are missing, inside a transaction that excludes other writers."""
    done = taken(connection, pages=1)
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
        raise LedgerFault(
            f"The server's database has the encoding {encoding}, in which texts are lost or changed.",
            allowed="a database in UTF8",
            instead="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )


def check_objects(line: Line) -> None:
    """Refuse a database whose tables are not just those that the steps made.

    A trigger or a rule would change what is appended, a view would show something else, a clause ON CONFLICT would
    leave rows out, and a table that is not logged loses its rows when the server falls.
    """
    known = {table.name: _words(line, table) for table in (*metadata.sorted_tables, migrations)}
    query = _OBJECTS[line.database]
    rows = line.say(query.format(names=", ".join(f"to_regclass('{name}')" for name in known))).fetchall()
    for kind, name, words in rows:
        if known.get(name) != (kind, _WORD.findall(str(words).lower())):
            raise _strange(f"{kind} {str(name)[:100]!r}")
    if known.keys() != {name for _, name, _ in rows}:
        raise LedgerFault(
            "The database has no ledger, or only a part of one.",
            allowed="a whole ledger",
            instead="the last copy that ledger.verify(head) accepts",
        )


_WORD = re.compile(r"\w+")
_OBJECTS: Final = {
    # statistics of SQLite's planner are no part of a ledger, and change nothing in it
    "sqlite": "SELECT type, name, sql FROM sqlite_master WHERE name NOT IN ('sqlite_stat1', 'sqlite_stat4') "
    "AND NOT (type = 'index' AND sql IS NULL)",
    # what is ordinary has an empty third column
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


def _words(line: Line, table: sa.Table) -> tuple[str, list[str]]:
    """Return what the database says of a table that was made by the steps."""
    text = text_of(CreateTable(table), line.database) if line.database == "sqlite" else ""
    return "table", _WORD.findall(text.lower())


def _strange(what: str) -> LedgerFault:
    return LedgerFault(
        f"The ledger has something in it that pufferflow did not make, or not so: {what}.",
        allowed="tables that nobody else changes, without triggers, rules, views and indexes of others",
        instead="ledger.verify(head) on the last copy that you kept; then removing it, if a charge cannot be missing",
    )


def _pages(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())


def _known(numbers: list[object]) -> int:
    last = numbers[-1] if numbers else 0
    if isinstance(last, int) and last > len(STEPS):
        raise LedgerFault(
            f"The ledger was written by a newer pufferflow (step {last}; this one knows {len(STEPS)}).",
            allowed="a ledger of this version or an older one",
            instead='pip install --upgrade "pufferflow"',
        )
    if numbers != list(range(1, len(numbers) + 1)) or not numbers:
        raise LedgerFault(
            "The ledger does not know all steps that made its tables.", allowed="a whole ledger", instead="a good copy"
        )
    return len(numbers)
