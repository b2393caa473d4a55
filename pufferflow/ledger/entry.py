"""What an account's history tells of one release."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

from pufferflow.composition import Spent
from pufferflow.errors import LedgerFault, Refused
from pufferflow.guarantees import Guarantee
from pufferflow.ledger.events import Committed, Event, Reserved, decoded_all
from pufferflow.ledger.kept import Kept
from pufferflow.ledger.line import Line
from pufferflow.ledger.tables import RANGE


@final
@dataclass(frozen=True)
class Entry:
    """A release that was paid for: what it promised, and what all releases up to it told together.

    `state` is "reserved" until the release is kept, then "committed". Times are the writers' clocks, in UTC. A release
    is charged as soon as some proof keeps to the limit: `at_most` is what that proof gave, an epsilon of the kind of
    the account's limit, by `at_most_rule`. The least total that is proven, `total`, may be less.
    """

    number: int
    release_id: str
    state: str
    at: str
    committed_at: str | None
    promise: Guarantee
    asked: tuple[str, ...]
    certainty: str
    at_most: float
    at_most_rule: str
    so_far: Spent | None = field(default=None, repr=False, compare=False)
    """All that is spent, of which the releases up to this one count; None where that cannot be told any more."""
    place: int = field(default=0, repr=False, compare=False)

    @property
    def total(self) -> float:
        """What all releases up to this one tell together, by the beliefs of today; of the newest, what is spent.

        It is worked out when it is first asked for. What cannot be told any more is `at_most`.
        """
        return self._least[0]

    @property
    def rule(self) -> str:
        """What carries the total."""
        return self._least[1]

    @cached_property
    def _least(self) -> tuple[float, str]:
        if self.so_far is None:
            return self.at_most, self.at_most_rule
        try:
            found = self.so_far.first(self.place + 1).total()
        except Refused:
            return self.at_most, self.at_most_rule
        return found.total, found.rule


def entries_of(kept: Kept, line: Line, spent: Spent | None) -> tuple[Entry, ...]:
    """Return the entries of an account, in order; with what is spent, they can tell their totals."""
    rows = line.run(RANGE, first=kept.first, last=kept.last).fetchall()
    bodies = [body.encode() for _, body in rows if isinstance(body, str)]
    events = decoded_all(bodies)
    if events is None or len(bodies) != len(rows):
        raise LedgerFault("An entry of the account cannot be read.", instead="ledger.verify()")
    own = [event for event in events if event.account == kept.name]
    return _joined(own, spent)


def _joined(events: Sequence[Event], spent: Spent | None) -> tuple[Entry, ...]:
    commits = {event.entry: event.at for event in events if isinstance(event, Committed)}
    reserved = [event for event in events if isinstance(event, Reserved)]
    return tuple(_entry(event, commits.get(event.number), spent, place) for place, event in enumerate(reserved))


def _entry(event: Reserved, committed_at: str | None, spent: Spent | None, place: int) -> Entry:
    return Entry(
        number=event.number,
        release_id=event.release,
        state="reserved" if committed_at is None else "committed",
        at=event.at,
        committed_at=committed_at,
        promise=event.promise,
        asked=event.asked,
        certainty=event.certainty,
        at_most=event.total,
        at_most_rule=event.rule,
        so_far=spent,
        place=place,
    )
