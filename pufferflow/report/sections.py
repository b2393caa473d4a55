"""Parts of pages that tell of a plan: the sentence to sign, the worst pair, other bounds, what could break."""

import re
from collections.abc import Sequence

from pufferflow.report.evidence import BoundRow, Evidence
from pufferflow.report.figures.bounds import Compared, bound_name, bounds_figure, compared
from pufferflow.report.figures.laws import laws_figure
from pufferflow.report.markup import Column, Section, facts, listed, paragraph, table, text
from pufferflow.report.numbers import UNKNOWN, plain, upwards
from pufferflow.report.worst import curves_of

_LABEL = re.compile(r"([A-Z][A-Za-z ]{2,18}): (.*)", re.DOTALL)
_SIGN = '<p class="sign"><span>Name</span><span>Date</span><span>Signature</span></p>'
CERTAIN = {
    "exact": "worked out exactly",
    "upper_bound": "worked out as an upper bound: never too little noise",
    "estimate": "an ESTIMATE, which may be too low",
}
"""How sure the noise is, in words."""


def sentence(evidence: Evidence) -> Section:
    """Give the text that a person signs, with a place for that on paper."""
    lines = "".join(map(_line, filter(None, evidence.sentence.split("\n"))))
    if not lines:
        return unknown("sentence", "The sentence to sign", "No sentence was kept.")
    body = f'<div class="whole"><div class="sentence">{lines}</div>{_SIGN}</div>'
    return Section("sentence", "The sentence to sign", body)


def unknown(anchor: str, title: str, why: str) -> Section:
    """Give a part of which nothing is known, and why."""
    return Section(anchor, title, paragraph(why, "quiet"))


def worst(evidence: Evidence) -> Section:
    """Give the two secrets that are hardest to tell apart, and what the answer would be under each."""
    anchor, title, pair = "worst", "The worst pair of secrets", evidence.pair
    if pair is None:
        return unknown(anchor, title, evidence.pair_note or "The worst pair of secrets is not known for this plan.")
    introduction = paragraph(
        "Noise is made for the two secrets that the answer could give away most easily. If these two are hidden, so "
        "are all others."
    )
    curves = curves_of(pair)
    if curves is None:
        why = (
            "No noise is needed here: the answer is the same under both."
            if pair.scale == 0
            else (f"How {pair.noise} noise spreads cannot be drawn here.")
        )
        return Section(anchor, title, introduction + paragraph(f"{pair.first} against {pair.second}. {why}"))
    note = paragraph(evidence.pair_note, "quiet") if evidence.pair_note else ""
    return Section(anchor, title, f'<div class="whole">{introduction}{laws_figure(pair, curves)}</div>{note}')


def bounds(evidence: Evidence) -> Section:
    """Give the noise of other bounds beside this plan's, and which bounds had to refuse."""
    anchor, title = "bounds", "The same promise, worked out in other ways"
    if not evidence.bounds:
        return unknown(anchor, title, "No other bounds were worked out.")
    each = compared(evidence.bounds)
    body = bounds_figure(evidence.bounds) + _bounds_table(evidence.bounds)
    body += listed(_noted([one for one in each if one.times is not None and one.note]))
    refused = [one for one in each if one.times is None]
    if refused:
        body += f"<h3>Bounds that give no noise here</h3>{listed(_noted(refused))}"
    return Section(anchor, title, body)


def breakable(evidence: Evidence) -> Section:
    """Give what has to be true of the world, and what is left of the promise if it is not."""
    body = "<h3>What has to be true</h3>" + (listed(evidence.assumptions) or paragraph("Nothing is assumed."))
    body += "<h3>What is left if it is not</h3>"
    if evidence.what_if:
        columns = [
            Column("What if …", [one.wrong.removeprefix("if ") for one in evidence.what_if]),
            Column("what is left of the promise", [one.left for one in evidence.what_if]),
            Column("epsilon", [_left(one.epsilon) for one in evidence.what_if], number=True),
        ]
        body += table("What is left of the promise if an assumption is wrong", columns)
    else:
        body += paragraph("Nobody can tell from here: no weaker promise is known.", "quiet")
    return Section("assumptions", "Assumptions, and what happens if they are wrong", body)


def certificate(rows: Sequence[tuple[str, str]]) -> Section:
    """Give every fact, for the record; rows without a name go on with the one before."""
    joined: list[tuple[str, str]] = []
    for name, value in rows:
        if not name and joined:
            joined[-1] = (joined[-1][0], f"{joined[-1][1]}\n{value}")
        else:
            joined.append((name or "also", value))
    return Section("certificate", "The certificate in full", facts(joined, "record"))


def certainty(evidence: Evidence) -> str | None:
    """Return in words how sure the noise is; None if that was not kept."""
    found = next((row.certainty for row in evidence.bounds if row.chosen and row.certainty), None)
    return None if found is None else CERTAIN.get(found, found)


def rough(evidence: Evidence | None) -> list[str]:
    """Return the outputs that are no sums with noise, such as quantiles: of these widths are not known beforehand."""
    cells = () if evidence is None else evidence.cells
    return list(dict.fromkeys(cell.query for cell in cells if cell.interval_95 is None))


def _left(epsilon: float | None) -> str:
    return UNKNOWN if epsilon is None else plain(upwards(epsilon))


def _line(line: str) -> str:
    found = _LABEL.fullmatch(line)
    if found is None:
        return paragraph(line)
    return f'<p dir="auto"><b>{text(found[1])}:</b> {text(found[2])}</p>'


def _noted(each: Sequence[Compared]) -> list[str]:
    """Say what is to be said of bounds, once for all of which it is true."""
    notes = dict[str, list[str]]()
    for one in each:
        notes.setdefault(one.note or "no reason was kept", []).append(bound_name(one.bound))
    return [f"{', '.join(names)}: {note.rstrip('.')}." for note, names in notes.items()]


def _bounds_table(rows: Sequence[BoundRow]) -> str:
    given = [row for row in rows if row.scale is not None]
    if not given:
        return ""
    columns = [
        Column("bound", [bound_name(row.bound) for row in given]),
        Column("output", [row.query for row in given]),
        Column("noise", [row.noise for row in given]),
        Column("scale", [plain(row.scale) for row in given], number=True),
        Column("expected error", [plain(row.expected_error) for row in given], number=True),
        Column("times this plan's", [plain(row.times) for row in given], number=True),
        Column("certainty", [(row.certainty or UNKNOWN).replace("_", " ") for row in given]),
    ]
    marked = next((place for place, row in enumerate(given) if row.chosen), None)
    return table("Noise that each bound asks for, output by output", columns, marked=marked)
