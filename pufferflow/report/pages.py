"""The page of a plan: what would be published, how noisy, and what carries the promise.

The page of a release: the numbers with their error bars, and the evidence that was kept with them.

The page of a ledger: every account, what it has spent of its limit, and whether the records are whole.

Plans and releases in a notebook: the same words and tables, without a page around them.

A page for people: one HTML file, light and dark, on paper and on a telephone, without anything from a network.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

import polars as pl
from msgspec.structs import replace

from pufferflow.report import sections
from pufferflow.report.evidence import Budget, Cell, Evidence, LedgerFacts
from pufferflow.report.figures.bars import shares_figure, widths_figure
from pufferflow.report.figures.canvas import MISSING, drawable
from pufferflow.report.figures.curves import budget_told, releases_of
from pufferflow.report.figures.estimates import estimates_figure
from pufferflow.report.html import Column, Section, facts, listed, paragraph, table, text
from pufferflow.report.numbers import counted, fold, plain, total
from pufferflow.report.outputs import (
    MOST_ROWS,
    Share,
    keys_of,
    outputs_of,
    panels_of,
    planned_shares,
    published_shares,
    table_of,
)
from pufferflow.report.sections import account, room_left


def page(  # noqa: PLR0913 - a page, in parts
    kind: str,
    title: str,
    summary: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    closing: str,
    *,
    about: Sequence[tuple[str, str]] = (),
) -> str:
    """Return a whole page: what it is, its title, the facts that matter, and its parts, each under a heading.

    `about` says what it is a page of: a job, a period, a data set, a date.
    """
    title = title.strip() or "Without a title"
    undrawn = any("<figure" in part.body for part in sections) and not drawable()
    missing = paragraph(MISSING, "warning") if undrawn else ""
    named = facts(about, "about") if about else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # an empty icon of its own, or a browser would ask the server for one
        f'<link rel="icon" href="data:,">\n<title>{text(f"{title} – {kind}")}</title>\n<style>\n{_style()}</style>\n'
        f'</head>\n<body>\n<header>\n<p class="kind">{text(kind)}</p>\n<h1 dir="auto">{text(title)}</h1>\n'
        f"{named}{missing}{facts(summary)}\n</header>\n{_contents(sections)}\n"
        f"<main>\n{''.join(map(_section, sections))}</main>\n"
        f"<footer><p>{text(closing)}</p></footer>\n</body>\n</html>\n"
    )


def heading(job: str, period: str, dataset: str, written: datetime | None) -> list[tuple[str, str]]:
    """Return what a page is about, as far as it is known; when it was written is said in UTC.

    >>> from datetime import UTC
    >>> heading("meters-daily", "", "meters", datetime(2026, 11, 22, 3, 0, tzinfo=UTC))
    [('Job', 'meters-daily'), ('Data set', 'meters'), ('Written', '2026-11-22 03:00 UTC')]
    """
    at = "" if written is None else f"{written.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    named = (("Job", job), ("Period", period), ("Data set", dataset), ("Written", at))
    return [(name, value) for name, value in named if value]


def _contents(sections: Sequence[Section]) -> str:
    rows = "".join(f'<li><a href="#{part.anchor}">{text(part.title)}</a></li>' for part in sections)
    return f'<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{rows}</ol></nav>'


def _section(part: Section) -> str:
    return (
        f'<section id="{part.anchor}" aria-labelledby="{part.anchor}-title">\n'
        f'<h2 id="{part.anchor}-title">{text(part.title)}</h2>\n{part.body}\n</section>\n'
    )


@cache
def _style() -> str:
    return (files("pufferflow.report") / "page.css").read_text(encoding="utf-8")


MOST_CELLS, MOST_SHARES = 200, 6
_PLAN_CLOSING = "Written by pufferflow. Nothing on this page depends on a private value."


def plan_page(evidence: Evidence, written: datetime | None = None) -> str:
    """Return the page of a plan, which was `written` at this moment."""
    numbers, signal = _widths(evidence), signal_section(planned_shares(evidence.cells), evidence.too_noisy)
    parts = parts_of(evidence, numbers, signal, sections.certificate(_record(evidence), evidence))
    kind = "Plan: nothing has been published yet"
    about = heading(evidence.job, evidence.period, evidence.dataset, written)
    return page(kind, evidence.title, summary_of(evidence), parts, _PLAN_CLOSING, about=about)


def parts_of(evidence: Evidence, numbers: Section, signal: Section, record: Section) -> list[Section]:
    """Return the parts of a page that has evidence, those of its numbers in their place."""
    parts = (
        sections.sentence(evidence),
        numbers,
        signal,
        sections.worst(evidence),
        sections.memory(evidence),
        sections.models(evidence),
        sections.bounds(evidence),
        sections.budget(evidence.budget),
        sections.breakable(evidence),
        sections.words(evidence),
        record,
    )
    return sections.finished(parts, evidence)


def summary_of(evidence: Evidence) -> list[tuple[str, str]]:
    """Return the facts that a reader looks for first."""
    pair, sure = evidence.pair, sections.certainty(evidence)
    found = [("Promise", promise_in_words(evidence))]
    if pair is not None:
        found.append(("Worst pair of secrets", f"{pair.first} against {pair.second}"))
    found.append(("Noise", noise_in_words(evidence.cells)))
    found.append(("Spent of the limit", sections.spent(evidence.budget)))
    return [*found, *([("Certainty of the noise", sure)] if sure else [])]


def promise_in_words(evidence: Evidence) -> str:
    """Say what is promised, and then how it is written in Python."""
    if evidence.promise_in_words:
        return f"{evidence.promise_in_words}. In Python: {evidence.promise}"
    pair = evidence.pair
    if pair is None or pair.epsilon is None or pair.delta:
        return evidence.promise
    return f"{evidence.promise}: the odds change at most {fold(pair.epsilon)}-fold"


def noise_in_words(cells: Sequence[Cell]) -> str:
    """Say which noise there is, and of which scale behind the first outputs."""
    scales = dict[str, str]()
    for cell in cells:
        scales.setdefault(cell.query, plain(cell.scale))
    shown = "; ".join(f"{scale} behind {name}" for name, scale in list(scales.items())[:3])
    kinds = " and ".join(dict.fromkeys(cell.noise for cell in cells))
    more = f"; {len(scales) - 3} more" if len(scales) > 3 else ""
    return f"{kinds}, of scale {shown}{more}" if scales else "none"


def cells_table(cells: Sequence[Cell], more: int) -> str:
    """Return the table of every number's noise."""
    alike = _alike(cells)
    rows = alike[:MOST_CELLS]
    left = more + sum(len(same) for same in alike[MOST_CELLS:])
    kept = [same[0] for same in rows]
    columns = [
        Column("output", [cell.query for cell in kept]),
        Column("group", list(map(_groups, rows))),
        Column("noise", [cell.noise for cell in kept]),
        Column("scale", [plain(cell.scale) for cell in kept], number=True),
        Column("expected error", [plain(cell.expected_error) for cell in kept], number=True),
        Column("95 % within ±", [plain(cell.interval_95) for cell in kept], number=True),
        Column("largest answer", [plain(cell.largest) for cell in kept], number=True),
    ]
    caption = "The numbers that would be published; groups with the same noise share a row"
    return table(caption + (f"; {counted(left, 'more number')} not shown" if left else ""), columns)


def _alike(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells in rows: groups of one output that differ in nothing else, one after the other."""
    found: list[list[Cell]] = []
    for cell in cells:
        if found and replace(found[-1][0], group=cell.group) == cell:
            found[-1].append(cell)
        else:
            found.append([cell])
    return found


def _groups(same: Sequence[Cell]) -> str:
    first, last = same[0].group, same[-1].group
    return first if len(same) == 1 else f"{counted(len(same), 'group')}: {first} to {last}"


def signal_section(shares: Sequence[Share], too_noisy: Sequence[str] = ()) -> Section:
    """Give noise against signal, as a picture and in words; above all, which noise is larger than any answer."""
    title = "Noise against signal"
    if not shares:
        return sections.unknown("signal", title, "There is no number to compare the noise with.")
    more = [f"… and {counted(len(shares) - MOST_SHARES, 'more output')}."] if len(shares) > MOST_SHARES else []
    told = [share.told() for share in shares[:MOST_SHARES]]
    kept, rest = [f"{line[:1].upper()}{line[1:]}." for line in too_noisy[:MOST_SHARES]], too_noisy[MOST_SHARES:]
    kept += [f"So it is with {counted(len(rest), 'more output')}."] if rest else []
    warned = "".join(paragraph(line, "warning") for line in kept)
    return Section("signal", title, warned + listed([*told, *more]) + shares_figure(shares))


def _widths(evidence: Evidence) -> Section:
    figure = widths_figure(evidence.cells)
    why = "How wide the error bars will be depends on the answers themselves, so it is not known beforehand."
    body = (figure or paragraph(why, "quiet")) + cells_table(evidence.cells, evidence.more_cells)
    return Section("numbers", "How noisy each number will be", body)


def _record(evidence: Evidence) -> list[tuple[str, str]]:
    numbers = len(evidence.cells) + evidence.more_cells
    return [
        ("asked", evidence.title),
        *([("promise", evidence.promise_in_words)] if evidence.promise_in_words else []),
        ("promise", evidence.promise),
        *[("scenario", line) for line in evidence.scenario.split("\n")],
        ("numbers", counted(numbers, "number")),
        ("noise", noise_in_words(evidence.cells)),
        *[("assumed", line) for line in evidence.assumptions],
        *[("read", line) for line in evidence.readings],
        *[("note", line) for line in evidence.notes],
        ("state", "A plan: the certificate of a release is made when it is published."),
    ]


_RELEASE_CLOSING = "Written by pufferflow. Only numbers with their noise are on this page."
_FIRST = 3
_CUT = (
    "Numbers are as they were published, and error bars are cut to what is possible, so that a number can lie outside "
    "of its own; release.clipped() gives numbers that are possible."
)
_NO_EVIDENCE = (
    "No evidence of the plan was kept with this release, so this page cannot show it; what it rests on is in the "
    "certificate below."
)
_FACTS = (("promise", "Promise"), ("worst", "Worst pair of secrets"), ("noise", "Noise"), ("ledger", "Ledger"))


def release_page(  # noqa: PLR0913 - a page, and what it is about
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
    """Return the page of a release, which was `written` at this moment; of a `job` and a `period` if it has these.

    Error bars are drawn as `possible`, cut to what the answers can be; noise is told by the intervals themselves.
    """
    counts = () if evidence is None else evidence.counts
    numbers = _numbers(frame, intervals if possible is None else possible, sections.rough(evidence), counts)
    shares, kind = published_shares(outputs_of(frame, intervals)), "Release: numbers with their noise"
    record = sections.certificate(certificate_rows, evidence)
    if evidence is None:
        missing = sections.unsigned("What was promised", _NO_EVIDENCE)
        title, about = f"Release of {_names(frame, intervals)}", heading(job, period, "", written)
        parts = [missing, numbers, signal_section(shares), record]
        return page(kind, title, _summary(certificate_rows), parts, _RELEASE_CLOSING, about=about)
    about = heading(evidence.job or job, evidence.period or period, evidence.dataset, written)
    parts = parts_of(evidence, numbers, signal_section(shares, evidence.too_noisy), record)
    return page(kind, evidence.title, summary_of(evidence), parts, _RELEASE_CLOSING, about=about)


def numbers_table(frame: pl.DataFrame, intervals: pl.DataFrame, only: str = "") -> str:
    """Return the table of a release's numbers, `only` for paper or for a screen if so named."""
    columns, more = table_of(frame, intervals)
    of = f" of {_names(frame, intervals)}" if only == "paper" else ""
    return table(f"Published numbers{of}, noise included, with their error bars{more}", columns, only=only)


def _printed(frame: pl.DataFrame, intervals: pl.DataFrame) -> str:
    """Return the numbers for paper: of many outputs a table each, as one of all would be cut at the edge."""
    each = outputs_of(frame, intervals)
    keys = keys_of(frame, each)
    if frame.height == 1 or len(each) <= _FIRST:
        return numbers_table(frame, intervals)
    found = [numbers_table(frame.select(*keys.columns, output.name), intervals, "paper") for output in each]
    return numbers_table(frame, intervals, "screen") + "".join(found)


def _numbers(frame: pl.DataFrame, intervals: pl.DataFrame, rough: Sequence[str], counts: Sequence[str]) -> Section:
    title = "The numbers and their error bars"
    if not frame.height or not outputs_of(frame, intervals):
        return sections.unknown("numbers", title, "The release has no numbers.")
    outside = any(((one.values < one.low) | (one.values > one.high)).any() for one in outputs_of(frame, intervals))
    panels = panels_of(frame, intervals, counts)
    figures = estimates_figure(panels, rough) + paragraph(_CUT, "quiet") * outside
    return Section("numbers", title, figures + _printed(frame, intervals))


def _summary(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    found = dict[str, list[str]]()
    for name, value in rows:
        found.setdefault(name, []).append(value)
    return [
        (title, "; ".join(value.partition(", grid ")[0] for value in found[name][:_FIRST]))
        for name, title in _FACTS
        if name in found
    ]


def _names(frame: pl.DataFrame, intervals: pl.DataFrame) -> str:
    names = [output.name for output in outputs_of(frame, intervals)]
    if not names:
        return "no numbers"
    more = f" and {len(names) - _FIRST} more" if len(names) > _FIRST else ""
    return f"{', '.join(names[:_FIRST])}{more}"


MOST_ACCOUNTS = 12
_LEDGER_CLOSING = "Written by pufferflow from the records of the ledger, which hold no private value."


def ledger_page(ledger: LedgerFacts) -> str:
    """Return the page of a ledger: all accounts in a table, the first ones with their figures."""
    broken = f"NOT whole: {ledger.fault or 'records were changed or lost'}"
    sound = "whole: every record fits the one before it" if ledger.sound else broken
    summary = [
        ("Ledger", ledger.address),
        ("Accounts", f"{len(ledger.accounts):,}"),
        ("Entries", f"{ledger.entries:,}"),
        ("Records", sound),
    ]
    kept = ledger.accounts[:MOST_ACCOUNTS]
    parts = [
        _overview(ledger.accounts),
        *[_account(budget, place) for place, budget in enumerate(kept, 1)],
        Section("head", "For the record", facts([*summary, ("Head", ledger.head)], "record")),
    ]
    title = f"{counted(len(ledger.accounts), 'account')}, {counted(ledger.entries, 'entry', 'entries')}"
    return page("Ledger: what has been spent", title, summary, parts, _LEDGER_CLOSING)


def _overview(accounts: tuple[Budget, ...]) -> Section:
    title = "All accounts"
    if not accounts:
        return Section("accounts", title, paragraph("The ledger has no accounts yet.", "quiet"))
    columns = [
        Column("account", [one.account for one in accounts]),
        Column("dataset", [one.dataset for one in accounts]),
        Column("limit", [one.limit for one in accounts]),
        Column("spent", [total(one.spent) for one in accounts], number=True),
        Column("of", [total(one.limit_epsilon) for one in accounts], number=True),
        Column("releases", [f"{releases_of(one):,}" for one in accounts], number=True),
        Column("more that fit", list(map(room_left, accounts)), number=True),
    ]
    more = f" Figures follow for the first {MOST_ACCOUNTS}." if len(accounts) > MOST_ACCOUNTS else ""
    return Section("accounts", title, table(f"What every account has spent of its limit.{more}", columns))


def _account(budget: Budget, place: int) -> Section:
    name = "budget" if place == 1 else f"budget-{place}"
    body = paragraph(budget_told(budget)) + account(budget, name)
    return Section(f"account-{place}", f"Account {budget.account}", body)


def plan_block(explanation: str, summary: pl.DataFrame) -> str:
    """Return a plan for a notebook."""
    kept = summary.head(MOST_ROWS)
    columns = [
        Column(name, list(map(_cell, kept[name])), number=kept[name].dtype.is_numeric()) for name in kept.columns
    ]
    return f"<div>{_kept(explanation)}{table('One row for each number that would be published', columns)}</div>"


def release_block(frame: pl.DataFrame, intervals: pl.DataFrame, certificate: str) -> str:
    """Return a release for a notebook."""
    return f"<div>{numbers_table(frame, intervals)}{_kept(certificate)}</div>"


def _kept(words: str) -> str:
    return f'<pre style="white-space: pre-wrap; font: inherit">{text(words)}</pre>'


def _cell(value: object) -> str:
    return plain(value) if value is None or isinstance(value, float) else str(value)
