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


def taken(connection: sa.Connection) -> int:
    """Return how many steps were taken; 0 for an empty database. Refuse other programs' files and newer ledgers."""
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
        return 0
    return _known(list(connection.execute(sa.select(migrations.c.number).order_by(migrations.c.number)).scalars()))


def migrate(connection: sa.Connection) -> None:
    """Take the steps that are missing, inside a transaction that excludes other writers."""
    done = taken(connection)
    if done == 0:
        migrations.create(connection, checkfirst=True)
    for number, step in enumerate(STEPS[done:], done + 1):
        step(connection)
        at = datetime.now(UTC).isoformat()
        connection.execute(sa.insert(migrations), {"number": number, "at": at})


def _known(numbers: list[int]) -> int:
    if numbers and numbers[-1] > len(STEPS):
        raise LedgerFault(
            f"The ledger was written by a newer pufferflow (step {numbers[-1]}; this one knows {len(STEPS)}).",
            allowed="a ledger of this version or an older one",
            instead='pip install --upgrade "pufferflow"',
        )
    if numbers != list(range(1, len(numbers) + 1)):
        raise LedgerFault(
            "The ledger does not know all steps that made its tables.", allowed="a whole ledger", instead="a good copy"
        )
    return len(numbers)
