"""The reports on plans, releases, ledgers and priors: one HTML file each, light and dark, for screens and paper.

They load nothing from a network. In a notebook the same text and tables are shown without the rest of the report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, final

import polars as pl
from msgspec.structs import replace

from pufferflow.reports.evidence import Cell, Evidence, LedgerFacts, Remarks
from pufferflow.reports.figures.bars import beliefs_figure, shares_figure, widths_figure
from pufferflow.reports.figures.canvas import MISSING, drawable
from pufferflow.reports.figures.estimates import estimates_figure
from pufferflow.reports.figures.over_time import releases_of
from pufferflow.reports.first_screen import first_screen, judged, ledger_screen, next_steps
from pufferflow.reports.html import Group, Section, rendered, section
from pufferflow.reports.numbers import counted, fold, plain
from pufferflow.reports.outputs import (
    Column,
    Share,
    keys_of,
    outputs_of,
    panels_of,
    planned_shares,
    published_shares,
    table_of,
)
from pufferflow.reports.sections import (
    account,
    certainty,
    certificate,
    room_left,
    rough,
    sections_of,
    spent,
)

MOST_CELLS, MOST_ACCOUNTS = 200, 12
_FIRST = 3
_PLAN_CLOSING = "Written by pufferflow. Nothing in this report depends on a private value."
_RELEASE_CLOSING = "Written by pufferflow. This report has no number without noise."
_LEDGER_CLOSING = (
    "Written by pufferflow from the records of the ledger, which hold no private value."
)


def page(  # noqa: PLR0913 - a report, in parts
    kind: str,
    title: str,
    groups: Sequence[Group],
    closing: str,
    *,
    summary: Sequence[tuple[str, str]] = (),
    screen: Any = "",
    about: Sequence[tuple[str, str]] = (),
    remarks: Sequence[Remarks] = (),
) -> str:
    """Return a whole report: its kind, its title, its first screen, and for each reader sections, without empty ones.

    The first screen is a `summary`, markup, or both. `about` is its context: a job, a period, a data set, a date.
    `remarks` end the sections that they belong to.
    """
    kept = [group for group in (group.kept for group in groups) if group.parts]
    undrawn = any("<figure" in part.body for group in kept for part in group.parts)
    return rendered(
        "page.html",
        kind=kind,
        title=title.strip() or "Without a title",
        summary=summary,
        screen=screen,
        groups=kept,
        closing=closing,
        about=about,
        remarks=remarks,
        missing=MISSING if undrawn and not drawable() else "",
    )


def for_readers(analyst: Sequence[Section], auditor: Sequence[Section]) -> list[Group]:
    """Return the sections after the first screen, by their reader."""
    return [
        Group(
            "analyst",
            "For the analyst",
            "The numbers, how useful they are, and what to do with them.",
            analyst,
        ),
        Group(
            "auditor",
            "For the auditor",
            "Everything that the guarantee rests on, by name.",
            auditor,
        ),
    ]


def heading(
    job: str, period: str, dataset: str, written: datetime | None, account: str = ""
) -> list[tuple[str, str]]:
    """Return the context of a report, as far as it is known; the time is in UTC.

    >>> from datetime import UTC
    >>> heading("meters-daily", "", "meters", datetime(2026, 11, 22, 3, 0, tzinfo=UTC))
    [('Job', 'meters-daily'), ('Data set', 'meters'), ('Written', '2026-11-22 03:00 UTC')]
    """
    at = "" if written is None else f"{written.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    named = (
        *(("Job", job), ("Account", account), ("Period", period)),
        *(("Data set", dataset), ("Written", at)),
    )
    return [(name, value) for name, value in named if value]


def plan_page(evidence: Evidence, written: datetime | None = None) -> str:
    """Return the report on a plan, which was `written` at this moment."""
    rows, left = _alike(evidence.cells)
    numbers = section(
        "planned",
        "numbers",
        figure=widths_figure(evidence.cells),
        rows=rows,
        left=left + evidence.more_cells,
    )
    return _page_of_evidence(
        "Plan: nothing has been published yet",
        evidence,
        [numbers, _signal(planned_shares(evidence.cells), evidence), _next(evidence)],
        certificate(_record(evidence), evidence),
        _PLAN_CLOSING,
        screen=first_screen(evidence, "plan"),
        about=_about(evidence, written),
    )


def _page_of_evidence(  # noqa: PLR0913 - a report, in parts
    kind: str,
    evidence: Evidence,
    numbers: Sequence[Section],
    record: Section,
    closing: str,
    *,
    screen: Any,
    about: Sequence[tuple[str, str]],
    entry: str = "",
) -> str:
    """Return the report on a plan or a release, whose `numbers` are for the analyst."""
    analyst, auditor = sections_of(evidence, _summary_of_evidence(evidence, entry), entry)
    return page(
        kind,
        evidence.title,
        for_readers([*numbers, *analyst], [*auditor, record]),
        closing,
        screen=screen,
        about=about,
        remarks=evidence.remarks,
    )


def _about(
    evidence: Evidence, written: datetime | None, job: str = "", period: str = ""
) -> list[tuple[str, str]]:
    """Return the context of a report with evidence: by whom, and when."""
    account = "" if evidence.budget is None else evidence.budget.account
    return heading(
        evidence.job or job, evidence.period or period, evidence.dataset, written, account
    )


def _next(evidence: Evidence, *, published: bool = False, cut: bool = False) -> Section:
    """Return the section on what to do next."""
    return section("next", steps=next_steps(evidence, published=published, cut=cut))


def _summary_of_evidence(evidence: Evidence, entry: str) -> list[tuple[str, str]]:
    """Return the guarantee of a plan in numbers, with its noise."""
    pair, promise = evidence.pair, evidence.promise
    if evidence.promise_in_words:
        promise = f"{evidence.promise_in_words}. In Python: {evidence.promise}"
    elif pair is not None and pair.epsilon is not None and not pair.delta:
        promise = f"{evidence.promise}: the odds change at most {fold(pair.epsilon)}-fold"
    summary = [
        ("Guarantee", promise),
        ("Worst pair of secrets", "" if pair is None else f"{pair.first} against {pair.second}"),
        ("Noise", _noise_in_words(evidence.cells)),
        ("Spent of the limit", spent(evidence.budget, entry)),
        ("Certainty of the noise", certainty(evidence) or ""),
    ]
    return [(name, value) for name, value in summary if value]


def _noise_in_words(cells: Sequence[Cell]) -> str:
    """Describe the noise, with its scale for the first outputs."""
    scales = dict[str, str]()
    for cell in cells:
        scales.setdefault(cell.query, plain(cell.scale))
    if not scales:
        return "none"
    first = "; ".join(f"{scale} for {name}" for name, scale in list(scales.items())[:_FIRST])
    kinds = " and ".join(dict.fromkeys(cell.noise for cell in cells))
    more = f"; {len(scales) - _FIRST} more" if len(scales) > _FIRST else ""
    return f"{kinds}, of scale {first}{more}"


def _alike(cells: Sequence[Cell]) -> tuple[list[tuple[str, Cell]], int]:
    """Return the first rows of a table of cells, and how many cells are left out.

    Groups of one output with the same noise share a row.
    """
    rows = [list(same) for _, same in groupby(cells, lambda cell: replace(cell, group=""))]
    named = [
        (
            one.group
            if len(same) == 1
            else f"{counted(len(same), 'group')}: {one.group} to {same[-1].group}",
            one,
        )
        for same in rows[:MOST_CELLS]
        for one in same[:1]
    ]
    return named, sum(map(len, rows[MOST_CELLS:]))


def _findings(evidence: Evidence) -> tuple[str, ...]:
    """Return the findings on useless numbers; in older evidence those on noise above any answer."""
    return evidence.findings or evidence.too_noisy


def _signal(shares: Sequence[Share], evidence: Evidence | None) -> Section:
    """Return the section on noise against signal: the useless numbers first, sentences, and a figure."""
    findings = () if evidence is None else _findings(evidence)
    verdicts = () if evidence is None else tuple(map(judged, evidence.verdicts))
    return section(
        "signal",
        shares=shares,
        findings=findings,
        verdicts=verdicts,
        figure=shares_figure(shares),
    )


def _record(evidence: Evidence) -> list[tuple[str, str]]:
    numbers = len(evidence.cells) + evidence.more_cells
    return [
        ("asked", evidence.title),
        *([("promise", evidence.promise_in_words)] if evidence.promise_in_words else []),
        ("promise", evidence.promise),
        *[("scenario", line) for line in evidence.scenario.split("\n")],
        ("numbers", counted(numbers, "number")),
        ("noise", _noise_in_words(evidence.cells)),
        *[("assumed", line) for line in evidence.assumptions],
        *[("read", line) for line in evidence.readings],
        *[("note", line) for line in evidence.notes],
        ("state", "A plan: the certificate of a release is made when it is published."),
    ]


_FACTS = (
    ("promise", "Guarantee"),
    ("worst", "Worst pair of secrets"),
    ("noise", "Noise"),
    ("ledger", "Ledger"),
)


def release_page(  # noqa: PLR0913 - a report, and its context
    frame: pl.DataFrame,
    intervals: pl.DataFrame,
    certificate_rows: Sequence[tuple[str, str]],
    evidence: Evidence | None = None,
    written: datetime | None = None,
    *,
    possible: pl.DataFrame | None = None,
    job: str = "",
    period: str = "",
    entry: str = "",
) -> str:
    """Return the report on a release, which was `written` at this moment; with its `job` and `period`, if any.

    `entry` is the entry of a ledger that it was charged to; without evidence of an account the first screen names it.

    Error bars are drawn as `possible`, cut to the range of the answers; the size of noise is that of `intervals`.
    """
    bars = intervals if possible is None else possible
    published = outputs_of(frame, intervals)
    numbers = _numbers(frame, bars, intervals, evidence)
    signal = _signal(published_shares(published), evidence)
    record, kind = certificate(certificate_rows, evidence), "Release: numbers with their noise"
    if evidence is None:
        unplanned = section("unplanned", "sentence")
        return page(
            kind,
            f"Release of {_names(frame, intervals)}",
            for_readers([numbers, signal], [unplanned, record]),
            _RELEASE_CLOSING,
            summary=_summary_of_certificate(certificate_rows),
            about=heading(job, period, "", written),
        )
    return _page_of_evidence(
        kind,
        evidence,
        [numbers, signal, _next(evidence, published=True, cut=_cut(frame, bars))],
        record,
        _RELEASE_CLOSING,
        screen=first_screen(evidence, "release", published, entry),
        about=_about(evidence, written, job, period),
        entry=entry,
    )


def _cut(frame: pl.DataFrame, bars: pl.DataFrame) -> bool:
    """Return whether a number lies outside of its error bar, since that is cut to the possible range."""
    return any(
        ((output.values < output.low) | (output.values > output.high)).any()
        for output in outputs_of(frame, bars)
    )


def _table(
    frame: pl.DataFrame, intervals: pl.DataFrame, raw: pl.DataFrame | None, only: str = ""
) -> tuple[str, list[Column], str]:
    """Return a table of a release's numbers, and its caption before it; `only` restricts it to paper or a screen."""
    columns, more = table_of(frame, intervals, raw)
    of = f" of {_names(frame, intervals)}" if only == "paper" else ""
    return f"Published numbers{of}, noise included, with their error bars{more}", columns, only


def _numbers(
    frame: pl.DataFrame, intervals: pl.DataFrame, raw: pl.DataFrame, evidence: Evidence | None
) -> Section:
    """Return figures and tables of a release; on paper each of many outputs has a table, which fits its width."""
    outputs = outputs_of(frame, intervals)
    if not frame.height or not outputs:
        return section("published", "numbers", tables=[])
    tables = [_table(frame, intervals, raw)]
    if frame.height > 1 and len(outputs) > _FIRST:
        keys = keys_of(frame, outputs).columns
        of_one = [frame.select(*keys, output.name) for output in outputs]
        tables = [
            _table(frame, intervals, raw, "screen"),
            *(_table(one, intervals, raw, "paper") for one in of_one),
        ]
    panels = panels_of(frame, intervals, () if evidence is None else evidence.counts)
    return section(
        "published",
        "numbers",
        tables=tables,
        figure=estimates_figure(panels, rough(evidence)),
        cut=_cut(frame, intervals),
        remarked=any(any(column.remarks) for _, columns, _ in tables for column in columns),
    )


def _summary_of_certificate(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    values = dict[str, list[str]]()
    for name, value in rows:
        values.setdefault(name, []).append(value.partition(", grid ")[0])
    return [(title, "; ".join(values[name][:_FIRST])) for name, title in _FACTS if name in values]


def _names(frame: pl.DataFrame, intervals: pl.DataFrame) -> str:
    names = [output.name for output in outputs_of(frame, intervals)]
    if not names:
        return "no numbers"
    more = f" and {len(names) - _FIRST} more" if len(names) > _FIRST else ""
    return f"{', '.join(names[:_FIRST])}{more}"


def ledger_page(ledger: LedgerFacts) -> str:
    """Return the report on a ledger: all accounts in a table, the first ones with their figures."""
    broken = f"NOT whole: {ledger.fault or 'records were changed or lost'}"
    sound = "whole: every record fits the one before it" if ledger.sound else broken
    summary = [
        ("Ledger", ledger.address),
        ("Accounts", f"{len(ledger.accounts):,}"),
        ("Entries", f"{ledger.entries:,}"),
        ("Records", sound),
    ]
    record = [*summary, ("Head", ledger.head)]
    every = section(
        "accounts",
        accounts=ledger.accounts,
        most=MOST_ACCOUNTS,
        releases_of=releases_of,
        room_left=room_left,
    )
    each = [
        account(budget, place) for place, budget in enumerate(ledger.accounts[:MOST_ACCOUNTS], 1)
    ]
    title = (
        f"{counted(len(ledger.accounts), 'account')}, {counted(ledger.entries, 'entry', 'entries')}"
    )
    head = section("certificate", "head", whole=False, repeated=False, rows=record)
    groups = [
        Group(
            "spent",
            "What is spent",
            "Each account with its limit and its releases.",
            [every, *each],
        ),
        Group(
            "auditor",
            "For the auditor",
            "Keep the head elsewhere: it shows a ledger that was replaced.",
            [head],
        ),
    ]
    return page(
        "Ledger: what has been spent",
        title,
        groups,
        _LEDGER_CLOSING,
        screen=ledger_screen(ledger),
    )


@final
@dataclass(frozen=True)
class BeliefRow:
    """A prior: the error it costs, the ε that is left if it is wrong, and the evidence against it."""

    belief: str
    error: float | None
    left: float | None
    against: Sequence[str]
    note: str

    @property
    def name(self) -> str:
        """The prior, without its numbers."""
        return self.belief.partition(" (")[0]


def beliefs_page(reference: str, output: str, promise: str, rows: Sequence[BeliefRow]) -> str:
    """Return the report, with the priors in the order of their errors."""
    priced = [(row.name, row.error) for row in rows if row.error is not None]
    summary = [("Guarantee", promise), ("Reference", reference), ("Output", output)]
    priors = [
        section("costs", figure=beliefs_figure(output, priced), rows=rows),
        section("against", rows=rows),
        section("meaning"),
    ]
    about = "What each prior costs, and what the reference says against it."
    return page(
        "Priors: nothing has been published",
        f"Which prior for {output}?",
        [Group("priors", "The priors", about, priors)],
        _PLAN_CLOSING,
        summary=summary,
    )
