"""The page of a release: the numbers with their error bars, and the evidence that was kept with them."""

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from pufferflow.report import sections
from pufferflow.report.evidence import Evidence
from pufferflow.report.figures.estimates import estimates_figure
from pufferflow.report.markup import Section, paragraph, table
from pufferflow.report.outputs import keys_of, outputs_of, panels_of, table_of
from pufferflow.report.page import heading, page
from pufferflow.report.plans import parts_of, signal_section, summary_of
from pufferflow.report.signal import published_shares

_CLOSING = "Written by pufferflow. Only numbers with their noise are on this page."
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
        return page(kind, title, _summary(certificate_rows), parts, _CLOSING, about=about)
    about = heading(evidence.job or job, evidence.period or period, evidence.dataset, written)
    parts = parts_of(evidence, numbers, signal_section(shares, evidence.too_noisy), record)
    return page(kind, evidence.title, summary_of(evidence), parts, _CLOSING, about=about)


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
