"""Steps that bring the tables of a ledger to their present form, numbered; a ledger remembers those it has taken."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from pufferflow.errors import LedgerFault
from pufferflow.ledger.tables import metadata, migrations


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
