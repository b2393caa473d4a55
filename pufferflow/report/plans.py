"""The page of a plan: what would be published, how noisy, and what carries the promise."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from pufferflow.report import sections, spending
from pufferflow.report.evidence import Cell, Evidence
from pufferflow.report.figures.shares import shares_figure
from pufferflow.report.figures.widths import widths_figure
from pufferflow.report.markup import Column, Section, listed, paragraph, table
from pufferflow.report.numbers import counted, fold, plain
from pufferflow.report.page import heading, page
from pufferflow.report.signal import Share, planned_shares

MOST_CELLS, MOST_SHARES = 200, 6
_CLOSING = "Written by pufferflow. Nothing on this page depends on a private value."


def plan_page(evidence: Evidence, written: datetime | None = None) -> str:
    """Return the page of a plan, which was `written` at this moment."""
    numbers, signal = _widths(evidence), signal_section(planned_shares(evidence.cells), evidence.too_noisy)
    parts = parts_of(evidence, numbers, signal, sections.certificate(_record(evidence), evidence))
    kind = "Plan: nothing has been published yet"
    about = heading(evidence.job, evidence.period, evidence.dataset, written)
    return page(kind, evidence.title, summary_of(evidence), parts, _CLOSING, about=about)


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
        spending.budget(evidence.budget),
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
    found.append(("Spent of the limit", spending.spent(evidence.budget)))
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
