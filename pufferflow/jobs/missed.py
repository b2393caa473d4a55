"""Which periods are to be released, or to be written again, by what the account remembers and the sink has."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from pufferflow.errors import Misuse
from pufferflow.jobs.period import Every, Period
from pufferflow.ledger import Account

_MOST = 10_000
_REVISION = re.compile(r"\.[0-9]+$")


@final
@dataclass(frozen=True)
class History:
    """The periods whose cost is paid, by name: those whose release is kept, and those that a revision has settled."""

    paid: frozenset[str]
    kept: frozenset[str]
    revised: frozenset[str]
    written: Callable[[str], bool]
    """Whether the sink has the release of a period."""

    @classmethod
    def of(cls, account: Account | None, prefix: str, every: Every, written: Callable[[str], bool]) -> "History":
        """Read the history of an account: releases whose ids are a prefix and a period."""
        paid, kept, revised = set[str](), set[str](), set[str]()
        for entry in () if account is None else account.history():
            name = entry.release_id.removeprefix(prefix)
            label = _REVISION.sub("", name)
            if name != entry.release_id and _names_a_period(label, every):
                committed = entry.state == "committed"
                if name == label:
                    (kept if committed else paid).add(label)
                elif committed:
                    revised.add(label)
        return cls(frozenset(paid), frozenset(kept), frozenset(revised), written)

    def since(self, first: Period, last: Period) -> list[Period]:
        """Return the periods from the first to the last that are to be released, or to be written."""
        found = list[Period]()
        for period in _back(last):
            if period.start < first.start:
                break
            if not self._settled(period.label):
                found.append(period)
            if len(found) > _MOST:
                raise Misuse(
                    f"More than {_MOST} periods were missed since {first}.",
                    allowed=f"up to {_MOST}",
                    instead="a later period",
                )
        return found[::-1]

    def after_the_last(self, last: Period, at_most: int) -> list[Period]:
        """Return those of the last periods that come after all that is released, or are kept and not written.

        Those whose cost is paid come first, however long ago they were. If nothing was released, the last is all.
        """
        done = self.kept | self.revised
        newest = max(done, default=last.previous().label)
        unfinished = sorted(self.paid - done)
        found = [Period.read(label, last.every, last.zone) for label in unfinished]
        for _, period in zip(range(at_most), _back(last), strict=False):
            label = period.label
            if label not in self.paid and not self._settled(label) and (label > newest or label in self.kept):
                found.append(period)
        return sorted(found, key=lambda period: period.start)

    def _settled(self, label: str) -> bool:
        return self.written(label) if label in self.kept else label in self.revised


def _back(period: Period) -> Iterator[Period]:
    while True:
        yield period
        period = period.previous()


def _names_a_period(label: str, every: Every) -> bool:
    try:
        Period.read(label, every)
    except Misuse:
        return False
    return True
