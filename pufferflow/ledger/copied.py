"""Copying a ledger, text by text: a backup, or the way from a file to a server."""

from typing import Any, Final

import sqlalchemy as sa

from pufferflow.errors import LedgerFault, Misuse
from pufferflow.ledger.events import NOTHING, Head
from pufferflow.ledger.line import Line
from pufferflow.ledger.log import Pen
from pufferflow.ledger.tables import ADD_EVENT, ADD_PAYLOAD, ADD_SHAPE, LAST, LEAST, NEWS, PAYLOADS, SHAPES
from pufferflow.ledger.verified import Verified, verified

_AT_ONCE: Final = 1_000


def copied(source: Line, pen: Pen) -> Verified:
    """Copy all that a ledger holds into an empty one, and verify it before it is durable."""
    target = pen.line
    if pen.head != NOTHING or any(target.run(what).fetchone() is not None for what in (SHAPES, PAYLOADS)):
        raise Misuse(
            f"The target has {pen.head.number} entries already.",
            allowed="a new ledger",
            instead="a file that does not exist yet, or an empty database",
        )
    _copy(source.run(NEWS, known=LEAST), target, ADD_EVENT, ("number", "body", "hash"))
    _copy(source.run(SHAPES), target, ADD_SHAPE, ("digest", "body"))
    _copy(source.run(PAYLOADS), target, ADD_PAYLOAD, ("digest", "body"))
    found = verified(target, None)
    if found.head != str(_end(source)):
        raise LedgerFault("The copy does not end as the ledger does.", instead="ledger.verify()")
    return found


def _copy(rows: Any, target: Line, statement: sa.ClauseElement, names: tuple[str, ...]) -> None:
    while batch := rows.fetchmany(_AT_ONCE):
        target.add_all(statement, [dict(zip(names, row, strict=True)) for row in batch])


def _end(line: Line) -> Head:
    row = line.run(LAST).fetchone()
    return NOTHING if row is None else Head(*row)
