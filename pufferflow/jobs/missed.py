"""The periods to release, or to write again: the history of the account compared with the sink."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import final

from pufferflow.accounting.ledger.account import Account
from pufferflow.core.errors import UsageError
from pufferflow.jobs.period import Every, Period

_MOST = 20_000
_REVISION = re.compile(r"\.[0-9]+$")


@final
@dataclass(frozen=True)
class History:
    """Periods by label: cost reserved and not committed, release committed, and settled by a revision."""

    reserved: frozenset[str]
    committed: frozenset[str]
    revised: frozenset[str]
    in_sink: Callable[[str], bool]
    """Whether the sink has the release of a period."""

    @classmethod
    def of(cls, account: Account | None, prefix: str, every: Every, in_sink: Callable[[str], bool]) -> "History":
        """Read the history of an account: releases whose ids are a prefix and a period."""
        reserved, committed, revised = set[str](), set[str](), set[str]()
        for entry in () if account is None else account.history():
            name = entry.release_id.removeprefix(prefix)
            if label := period_of(entry.release_id, prefix, every):
                if entry.state != "committed":
                    if name == label:
                        reserved.add(label)
                else:
                    (committed if name == label else revised).add(label)
        return cls(frozenset(reserved), frozenset(committed), frozenset(revised), in_sink)

    def since(self, first: Period, last: Period) -> list[Period]:
        """Return the periods from the first to the last that are to be released, or to be written."""
        return [period for period in in_order(first, last) if not self._settled(period.label)]

    def after_the_last(self, last: Period, at_most: int) -> list[Period]:
        """Return those of the last periods that come after all that is released, or are committed and not in the sink.

        Those whose cost is paid come first, however long ago they were. If nothing was released, the last is all.
        """
        done = self.committed | self.revised
        newest = max(done, default=last.previous().label)
        unfinished = sorted(self.reserved - done)
        periods = [Period.read(label, last.every, last.zone) for label in unfinished]
        for _, period in zip(range(at_most), _back(last), strict=False):
            label = period.label
            if label not in self.reserved and not self._settled(label) and (label > newest or label in self.committed):
                periods.append(period)
        return sorted(periods, key=lambda period: period.start)

    def _settled(self, label: str) -> bool:
        return self.in_sink(label) if label in self.committed else label in self.revised


def period_of(release_id: str, prefix: str, every: Every) -> str:
    """Return the period of a release's id, whichever revision it is of; empty if it is no id of such a job.

    >>> period_of("meters-2026-11-20.2", "meters-", "day"), period_of("other-2026-11-20", "meters-", "day")
    ('2026-11-20', '')
    """
    label = _REVISION.sub("", release_id.removeprefix(prefix))
    return label if release_id.startswith(prefix) and _is_label(label, every) else ""


def in_order(first: Period, last: Period) -> list[Period]:
    """Return all periods from the first to the last, both included; too many are refused.

    >>> [str(day) for day in in_order(Period.read("2026-02-27"), Period.read("2026-03-01"))]
    ['2026-02-27', '2026-02-28', '2026-03-01']
    """
    periods = list(takewhile(lambda period: period.start >= first.start, islice(_back(last), _MOST + 1)))
    if len(periods) > _MOST:
        raise UsageError(
            f"There are more than {_MOST} periods from {first} to {last}.",
            allowed=f"up to {_MOST}",
            instead="a later first period, or an earlier last one",
        )
    return periods[::-1]


def _back(period: Period) -> Iterator[Period]:
    while True:
        yield period
        period = period.previous()


def _is_label(label: str, every: Every) -> bool:
    try:
        Period.read(label, every)
    except UsageError:
        return False
    return True
