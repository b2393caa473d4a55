"""What an account's history tells of one release."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.errors import LedgerFault
from pufferflow.guarantees import Guarantee
from pufferflow.ledger.events import Committed, Event, Reserved, decoded_all
from pufferflow.ledger.kept import Kept
from pufferflow.ledger.line import Line
from pufferflow.ledger.tables import RANGE


@final
@dataclass(frozen=True)
class Entry:
    """A release that was paid for: what it promised, and what all releases up to it told together.

    `state` is "reserved" until the release is kept, then "committed". `total` is an epsilon of the kind of the
    account's limit, or a number above it; `rule` carries it. Times are the writers' clocks, in UTC.
    """

    number: int
    release_id: str
    state: str
    at: str
    committed_at: str | None
    promise: Guarantee
    asked: tuple[str, ...]
    certainty: str
    total: float
    rule: str


def entries_of(kept: Kept, line: Line) -> tuple[Entry, ...]:
    """Return the entries of an account, in order."""
    rows = line.run(RANGE, first=kept.first, last=kept.last).fetchall()
    bodies = [body.encode() for _, body in rows if isinstance(body, str)]
    events = decoded_all(bodies)
    if events is None or len(bodies) != len(rows):
        raise LedgerFault("An entry of the account cannot be read.", instead="ledger.verify()")
    own = [event for event in events if event.account == kept.name]
    return _joined(own)


def _joined(events: Sequence[Event]) -> tuple[Entry, ...]:
    commits = {event.entry: event.at for event in events if isinstance(event, Committed)}
    reserved = [event for event in events if isinstance(event, Reserved)]
    return tuple(_entry(event, commits.get(event.number)) for event in reserved)


def _entry(event: Reserved, committed_at: str | None) -> Entry:
    return Entry(
        number=event.number,
        release_id=event.release,
        state="reserved" if committed_at is None else "committed",
        at=event.at,
        committed_at=committed_at,
        promise=event.promise,
        asked=event.asked,
        certainty=event.certainty,
        total=event.total,
        rule=event.rule,
    )
