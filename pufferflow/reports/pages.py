"""The reports on plans, releases, ledgers and priors: one HTML file each, light and dark, for screens and paper.

The reports on plans, releases and ledgers: one HTML file each, light and dark, for screens and paper.

They load nothing from a network. In a notebook the same text and tables are shown without the rest of the report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import final

import polars as pl
from msgspec.structs import replace

from pufferflow.reports import sections
from pufferflow.reports.evidence import Budget, Cell, Evidence, LedgerFacts
from pufferflow.reports.figures.bars import beliefs_figure, shares_figure, widths_figure
from pufferflow.reports.figures.canvas import MISSING, drawable
from pufferflow.reports.figures.estimates import estimates_figure
from pufferflow.reports.figures.over_time import describe_budget, releases_of
from pufferflow.reports.html import Column, Section, facts, listed, paragraph, table, text
from pufferflow.reports.numbers import at_most, counted, fold, plain, total
from pufferflow.reports.outputs import (
    MOST_ROWS,
    Share,
    keys_of,
    outputs_of,
    panels_of,
    planned_shares,
    published_shares,
    table_of,
)
from pufferflow.reports.sections import account, room_left

MOST_CELLS, MOST_SHARES, MOST_ACCOUNTS = 200, 6, 12
_FIRST = 3
_PLAN_CLOSING = "Written by pufferflow. Nothing in this report depends on a private value."
_LEDGER_CLOSING = "Written by pufferflow from the records of the ledger, which hold no private value."


def page(  # noqa: PLR0913 - a report, in parts
    kind: str,
    title: str,
    summary: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    closing: str,
    *,
    about: Sequence[tuple[str, str]] = (),
) -> str:
    """Return a whole report: its kind, its title, a summary, and its sections, each under a heading.

    `about` is its context: a job, a period, a data set, a date.
    """
    title = title.strip() or "Without a title"
    undrawn = any("<figure" in part.body for part in sections) and not drawable()
    missing = paragraph(MISSING, "warning") if undrawn else ""
    named = facts(about, "about") if about else ""
    contents = "".join(f'<li><a href="#{part.anchor}">{text(part.title)}</a></li>' for part in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # an empty icon of its own, or a browser would request one from the server
        f'<link rel="icon" href="data:,">\n<title>{text(f"{title} – {kind}")}</title>\n<style>\n{_style()}</style>\n'
        f'</head>\n<body>\n<header>\n<p class="kind">{text(kind)}</p>\n<h1 dir="auto">{text(title)}</h1>\n'
        f"{named}{missing}{facts(summary)}\n</header>\n"
        f'<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{contents}</ol></nav>\n'
        f"<main>\n{''.join(map(_section, sections))}</main>\n"
        f"<footer><p>{text(closing)}</p></footer>\n</body>\n</html>\n"
    )


def heading(job: str, period: str, dataset: str, written: datetime | None) -> list[tuple[str, str]]:
    """Return the context of a report, as far as it is known; the time is in UTC.

    >>> from datetime import UTC
    >>> heading("meters-daily", "", "meters", datetime(2026, 11, 22, 3, 0, tzinfo=UTC))
    [('Job', 'meters-daily'), ('Data set', 'meters'), ('Written', '2026-11-22 03:00 UTC')]
    """
    at = "" if written is None else f"{written.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    named = (("Job", job), ("Period", period), ("Data set", dataset), ("Written", at))
    return [(name, value) for name, value in named if value]


def _section(part: Section) -> str:
    return (
        f'<section id="{part.anchor}" aria-labelledby="{part.anchor}-title">\n'
        f'<h2 id="{part.anchor}-title">{text(part.title)}</h2>\n{part.body}\n</section>\n'
    )


@cache
def _style() -> str:
    return (files("pufferflow.reports") / "page.css").read_text(encoding="utf-8")


def plan_page(evidence: Evidence, written: datetime | None = None) -> str:
    """Return the report on a plan, which was `written` at this moment."""
    why = "The width of the error bars depends on the answers themselves, so it is not known beforehand."
    widths = widths_figure(evidence.cells) or paragraph(why, "quiet")
    table_of_cells = _cells_table(evidence.cells, evidence.more_cells)
    numbers = Section("numbers", "How noisy each number will be", widths + table_of_cells)
    signal = _signal_section(planned_shares(evidence.cells), _findings(evidence))
    parts = _parts(evidence, numbers, signal, sections.certificate(_record(evidence), evidence))
    kind = "Plan: nothing has been published yet"
    about = heading(evidence.job, evidence.period, evidence.dataset, written)
    return page(kind, evidence.title, _summary_of_evidence(evidence), parts, _PLAN_CLOSING, about=about)


def _parts(evidence: Evidence, numbers: Section, signal: Section, record: Section) -> list[Section]:
    """Return the sections of a report with evidence, those on its numbers included."""
    parts = (
        sections.sentence(evidence),
        numbers,
        signal,
        sections.worst(evidence),
        sections.distances(evidence),
        sections.memory(evidence),
        sections.models(evidence),
        sections.bounds(evidence),
        sections.budget(evidence.budget),
        sections.breakable(evidence),
        sections.words(evidence),
        record,
    )
    return sections.finished(parts, evidence)


def _summary_of_evidence(evidence: Evidence) -> list[tuple[str, str]]:
    """Return the summary at the head of a report."""
    pair, promise = evidence.pair, evidence.promise
    if evidence.promise_in_words:
        promise = f"{evidence.promise_in_words}. In Python: {evidence.promise}"
    elif pair is not None and pair.epsilon is not None and not pair.delta:
        promise = f"{evidence.promise}: the odds change at most {fold(pair.epsilon)}-fold"
    findings = _findings(evidence)
    more = f"; the same holds for {counted(len(findings) - 1, 'more output')}" if findings[1:] else ""
    summary = [
        ("Useless numbers", f"{findings[0]}{more}" if findings else ""),
        ("Guarantee", promise),
        ("Worst pair of secrets", "" if pair is None else f"{pair.first} against {pair.second}"),
        ("Noise", _noise_in_words(evidence.cells)),
        ("Spent of the limit", sections.spent(evidence.budget)),
        ("Certainty of the noise", sections.certainty(evidence) or ""),
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


def _cells_table(cells: Sequence[Cell], more: int) -> str:
    """Return the table of the noise of each number; groups of one output with the same noise share a row."""
    rows: list[list[Cell]] = []
    for cell in cells:
        if rows and replace(rows[-1][0], group=cell.group) == cell:
            rows[-1].append(cell)
        else:
            rows.append([cell])
    left = more + sum(map(len, rows[MOST_CELLS:]))
    rows = rows[:MOST_CELLS]
    first = [same[0] for same in rows]
    groups = [
        same[0].group if len(same) == 1 else f"{counted(len(same), 'group')}: {same[0].group} to {same[-1].group}"
        for same in rows
    ]
    columns = [
        Column("output", [cell.query for cell in first]),
        Column("group", groups),
        Column("noise", [cell.noise for cell in first]),
        Column("scale", [plain(cell.scale) for cell in first], number=True),
        Column("expected error", [plain(cell.expected_error) for cell in first], number=True),
        Column("95 % within ±", [plain(cell.interval_95) for cell in first], number=True),
        Column("largest answer", [plain(cell.largest) for cell in first], number=True),
    ]
    caption = "The numbers that would be published; groups with the same noise share a row"
    return table(caption + (f"; {counted(left, 'more number')} not shown" if left else ""), columns)


def _findings(evidence: Evidence) -> tuple[str, ...]:
    """Return the findings on useless numbers; in older evidence those on noise above any answer."""
    return evidence.findings or evidence.too_noisy


def _signal_section(shares: Sequence[Share], findings: Sequence[str] = ()) -> Section:
    """Return the section on noise against signal: a figure, sentences, and the useless numbers first."""
    title = "Noise against signal"
    if not shares:
        return sections.unknown("signal", title, "There is no number to compare the noise with.")
    sentences = [share.sentence() for share in shares[:MOST_SHARES]]
    if len(shares) > MOST_SHARES:
        sentences.append(f"… and {counted(len(shares) - MOST_SHARES, 'more output')}.")
    warnings = [f"{line[:1].upper()}{line[1:]}." for line in findings[:MOST_SHARES]]
    if len(findings) > MOST_SHARES:
        warnings.append(f"The same holds for {counted(len(findings) - MOST_SHARES, 'more output')}.")
    warned = "".join(paragraph(line, "warning") for line in warnings)
    return Section("signal", title, warned + listed(sentences) + shares_figure(shares))


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


_RELEASE_CLOSING = "Written by pufferflow. This report has no number without noise."
_CUT = (
    "Numbers are as published, and error bars are cut to the possible range, so that a number can lie outside of its "
    "error bar; release.clipped() gives numbers within the range."
)
_NO_EVIDENCE = (
    "The plan of this release is not available, so there is no sentence to sign here. The guarantee is in the "
    "certificate below. release.report(path, plan.evidence()) writes the whole report, with the same plan made again."
)
_FACTS = (("promise", "Guarantee"), ("worst", "Worst pair of secrets"), ("noise", "Noise"), ("ledger", "Ledger"))


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
) -> str:
    """Return the report on a release, which was `written` at this moment; with its `job` and `period`, if any.

    Error bars are drawn as `possible`, cut to the range of the answers; the size of noise is that of `intervals`.
    """
    counts = () if evidence is None else evidence.counts
    numbers = _numbers(frame, intervals if possible is None else possible, sections.rough(evidence), counts)
    shares, kind = published_shares(outputs_of(frame, intervals)), "Release: numbers with their noise"
    record = sections.certificate(certificate_rows, evidence)
    if evidence is None:
        missing = sections.unknown("sentence", "What was guaranteed", _NO_EVIDENCE)
        title, about = f"Release of {_names(frame, intervals)}", heading(job, period, "", written)
        parts = [missing, numbers, _signal_section(shares), record]
        return page(kind, title, _summary_of_certificate(certificate_rows), parts, _RELEASE_CLOSING, about=about)
    about = heading(evidence.job or job, evidence.period or period, evidence.dataset, written)
    parts = _parts(evidence, numbers, _signal_section(shares, _findings(evidence)), record)
    return page(kind, evidence.title, _summary_of_evidence(evidence), parts, _RELEASE_CLOSING, about=about)


def numbers_table(frame: pl.DataFrame, intervals: pl.DataFrame, only: str = "") -> str:
    """Return the table of a release's numbers; `only` restricts it to paper or a screen."""
    columns, more = table_of(frame, intervals)
    of = f" of {_names(frame, intervals)}" if only == "paper" else ""
    return table(f"Published numbers{of}, noise included, with their error bars{more}", columns, only=only)


def _numbers(frame: pl.DataFrame, intervals: pl.DataFrame, rough: Sequence[str], counts: Sequence[str]) -> Section:
    """Return figures and tables of a release; on paper each of many outputs has a table, which fits its width."""
    title, outputs = "The numbers and their error bars", outputs_of(frame, intervals)
    if not frame.height or not outputs:
        return sections.unknown("numbers", title, "The release has no numbers.")
    body = estimates_figure(panels_of(frame, intervals, counts), rough)
    if any(((output.values < output.low) | (output.values > output.high)).any() for output in outputs):
        body += paragraph(_CUT, "quiet")
    if frame.height == 1 or len(outputs) <= _FIRST:
        return Section("numbers", title, body + numbers_table(frame, intervals))
    body += numbers_table(frame, intervals, "screen")
    keys = keys_of(frame, outputs).columns
    for output in outputs:
        body += numbers_table(frame.select(*keys, output.name), intervals, "paper")
    return Section("numbers", title, body)


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
    parts = [_overview(ledger.accounts)]
    for place, budget in enumerate(ledger.accounts[:MOST_ACCOUNTS], 1):
        body = paragraph(describe_budget(budget)) + account(budget, "budget" if place == 1 else f"budget-{place}")
        parts.append(Section(f"account-{place}", f"Account {budget.account}", body))
    parts.append(Section("head", "For the record", facts([*summary, ("Head", ledger.head)], "record")))
    title = f"{counted(len(ledger.accounts), 'account')}, {counted(ledger.entries, 'entry', 'entries')}"
    return page("Ledger: what has been spent", title, summary, parts, _LEDGER_CLOSING)


def _overview(accounts: tuple[Budget, ...]) -> Section:
    title = "All accounts"
    if not accounts:
        return Section("accounts", title, paragraph("The ledger has no accounts yet.", "quiet"))
    columns = [
        Column("account", [budget.account for budget in accounts]),
        Column("dataset", [budget.dataset for budget in accounts]),
        Column("limit", [budget.limit for budget in accounts]),
        Column("spent", [total(budget.spent) for budget in accounts], number=True),
        Column("of", [total(budget.limit_epsilon) for budget in accounts], number=True),
        Column("releases", [f"{releases_of(budget):,}" for budget in accounts], number=True),
        Column("more that fit", list(map(room_left, accounts)), number=True),
    ]
    more = f" Figures follow for the first {MOST_ACCOUNTS}." if len(accounts) > MOST_ACCOUNTS else ""
    return Section("accounts", title, table(f"What every account has spent of its limit.{more}", columns))


def plan_block(explanation: str, summary: pl.DataFrame) -> str:
    """Return a plan for a notebook."""
    first = summary.head(MOST_ROWS)
    columns = [Column(of.name, list(map(_cell, of)), number=of.dtype.is_numeric()) for of in first.get_columns()]
    return f"<div>{_verbatim(explanation)}{table('One row for each number that would be published', columns)}</div>"


def _cell(value: object) -> str:
    return plain(value) if value is None or isinstance(value, float) else str(value)


def release_block(frame: pl.DataFrame, intervals: pl.DataFrame, certificate: str) -> str:
    """Return a release for a notebook."""
    return f"<div>{numbers_table(frame, intervals)}{_verbatim(certificate)}</div>"


def _verbatim(words: str) -> str:
    return f'<pre style="white-space: pre-wrap; font: inherit">{text(words)}</pre>'


_CLOSING = "Written by pufferflow. Nothing in this report depends on a private value."


@final
@dataclass(frozen=True)
class BeliefRow:
    """A prior: the error it costs, the ε that is left if it is wrong, and the evidence against it."""

    belief: str
    error: float | None
    left: float | None
    against: Sequence[str]
    note: str


def beliefs_page(reference: str, output: str, promise: str, rows: Sequence[BeliefRow]) -> str:
    """Return the report, with the priors in the order of their errors."""
    priced = [(row.belief.partition(" (")[0], row.error) for row in rows if row.error is not None]
    costs = beliefs_figure(output, priced) + _table(rows)
    speaks = "".join(f"<h3>{text(row.belief)}</h3>{_against(row)}" for row in rows)
    meaning = listed(
        [
            "A prior without evidence against it is not proven: the reference could not refute it.",
            "No table shows how near the reference is to the private data; whoever signs has to judge that.",
            "What is left if a prior is wrong is what the noise keeps under any correlation of the rows of a group.",
            "Where little is left, the guarantee rests on the prior alone.",
        ]
    )
    summary = [("Guarantee", promise), ("Reference", reference), ("Output", output)]
    sections = [
        Section("costs", "What each prior costs", costs),
        Section("against", "The evidence against each", speaks),
        Section("meaning", "What does not follow", meaning),
    ]
    return page("Priors: nothing has been published", f"Which prior for {output}?", summary, sections, _CLOSING)


def _table(rows: Sequence[BeliefRow]) -> str:
    return table(
        "What the guarantee costs under each prior, and the epsilon that is left if it is wrong.",
        [
            Column("prior", [row.belief.partition(" (")[0] for row in rows]),
            Column("expected error", ["–" if row.error is None else plain(row.error) for row in rows], number=True),
            Column("left if wrong", ["–" if row.left is None else at_most(row.left) for row in rows], number=True),
            Column("evidence against it", ["yes" if row.against else "no" for row in rows]),
        ],
    )


def _against(row: BeliefRow) -> str:
    note = facts([("No answer", row.note)]) if row.note else ""
    return note + (listed(row.against) if row.against else paragraph("No evidence in the reference.", "quiet"))
