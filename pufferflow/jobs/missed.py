"""The periods to release, or to write again: the account and the sink compared, and the report beside a release.

What is published in a sink is checked against the ledger before anything is drawn. A sink is refused if a job would pay
twice, or publish into another job's place. So is another time zone than that of earlier periods: a period of the same
name would have other rows.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import final

from pufferflow.accounting.ledger.account import Account
from pufferflow.accounting.ledger.ledger import Ledger
from pufferflow.core.errors import InternalError, PufferflowError, UsageError
from pufferflow.core.sandbox import sandboxed
from pufferflow.jobs.file import JobFile
from pufferflow.jobs.period import Every, Period
from pufferflow.jobs.sink import PAGE, Sink
from pufferflow.published.files import EVIDENCE
from pufferflow.published.release import Release
from pufferflow.reports.evidence import Evidence

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
    def of(
        cls, account: Account | None, prefix: str, every: Every, in_sink: Callable[[str], bool]
    ) -> "History":
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

        Those whose cost is paid come first, however long ago they were. If nothing was released, it is the last period
        alone.
        """
        done = self.committed | self.revised
        newest = max(done, default=last.previous().label)
        unfinished = sorted(self.reserved - done)
        periods = [Period.read(label, last.every, last.zone) for label in unfinished]
        for _, period in zip(range(at_most), _back(last), strict=False):
            label = period.label
            if (
                label not in self.reserved
                and not self._settled(label)
                and (label > newest or label in self.committed)
            ):
                periods.append(period)
        return sorted(periods, key=lambda period: period.start)

    def _settled(self, label: str) -> bool:
        return self.in_sink(label) if label in self.committed else label in self.revised


def period_of(release_id: str, prefix: str, every: Every) -> str:
    """Return the period of a release's id, whichever revision it is of; empty if no such job has that id.

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
    periods = list(
        takewhile(lambda period: period.start >= first.start, islice(_back(last), _MOST + 1))
    )
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


def check_known(sink: Sink, label: str) -> None:
    """Refuse a place with a release that the account does not know."""
    if sink.has(label):
        raise UsageError(
            f"The {sink.noun} {sink.place(label)[-200:]!r} has a release that the account does not know. "
            "Nothing was drawn.",
            allowed="the ledger and the account that paid for what is published; a sink for each job",
            instead="checking [ledger]: is its address right, was the file moved? Is the [sink] another job's?",
        )


def check_not_lost(sink: Sink) -> None:
    """Refuse a new ledger for a sink with releases that another ledger paid for: it would lack their costs."""
    if next(sink.newest(), None) is not None:
        raise UsageError(
            f"The ledger is missing, and {sink.root[-200:]!r} has releases that a ledger paid for. Nothing was drawn.",
            allowed="the ledger that paid for them",
            instead="checking [ledger] address: was the file moved? Or another [sink], to start anew",
        )


def check_not_older(sink: Sink, ledger: Ledger) -> None:
    """Refuse a ledger without the entries that the newest certificates of the sink name: it would lack their costs."""
    for place, entry in sink.newest():
        if entry and not ledger.knows(entry):
            raise UsageError(
                f"The release in {place[-200:]!r} was paid for by entry {entry[:30]}…, which this ledger "
                "lacks: it is an older copy, restored from a backup, or another one. Nothing was drawn or charged.",
                allowed="the ledger that paid for what is published, with all its entries",
                instead="the newest copy of the ledger (pufferflow verify, on the sink, says what a copy lacks); or "
                "another [sink] for another ledger",
            )


def promise_changes(file: JobFile, release: Release) -> Iterator[str]:
    """Yield a note if a stored release has another guarantee than the job has today."""
    today, released = file.guarantee and file.guarantee.guarantee, release.certificate.promise
    if today is not None and today != released:
        yield f"it was released with {released!r}, before the job had {today!r}"


def zone_changed(account: Account | None, job: str, every: Every, zone: str) -> str:
    """Return a sentence if a job released its last period in another time zone; else an empty text."""
    release = (
        None
        if account is None
        else account.newest(lambda name: bool(period_of(name, f"{job}-", every)))
    )
    last = None if release is None else release.certificate.period
    if last is None or last.zone == zone:
        return ""
    return f"The period {last.name} was released in the time zone {last.zone!r}, and the job now has {zone!r}."


def check_same_zone(account: Account | None, job: str, every: Every, zone: str) -> None:
    """Refuse to release a period in another time zone than those before: some rows would be in two, or in none."""
    if problem := zone_changed(account, job, every, zone):
        raise UsageError(
            f"{problem} Some rows would be in two periods, or in none. Nothing was drawn or charged.",
            allowed="one time zone for all periods of a job",
            instead="the earlier time zone; or another name and another sink for the job",
        )


def zone_note(release: Release, zone: str) -> list[str]:
    """Return a note if a stored release is of a period in another time zone than the job has today."""
    period = release.certificate.period
    if period is None or period.zone == zone:
        return []
    return [f"it is of the period in {period.zone!r}, before the job had {zone!r}"]


def write_page(
    sink: Sink, label: str, gather: Callable[[], Evidence], draw: Callable[[Evidence | None], str]
) -> list[str]:
    """Write the report of a release and its evidence beside it, unless they are there; a failure becomes a note.

    If rows or priors are no longer available, the report is written without evidence.
    """
    if not sink.lacks_page(label):
        return []
    notes, evidence = list[str](), None

    def add_evidence() -> Evidence:
        gathered = gather()
        sink.add(label, EVIDENCE, gathered.to_json())
        return gathered

    try:
        evidence = sandboxed(add_evidence, _failed)
    except PufferflowError as error:
        notes.append(f"the report has no evidence: {error.problem}")
    try:
        sandboxed(lambda: sink.add(label, PAGE, draw(evidence).encode()), _failed)
    except PufferflowError as error:
        notes.append(f"the report could not be written: {error.problem}")
    return notes


def _failed(kind: str) -> InternalError:
    return InternalError(
        f"its making stopped with {kind}.", instead="reporting it to the maintainers"
    )
