"""The sections of reports: the sentence to sign, worst pair, other bounds, assumptions, accounts, glossary."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from pufferflow.reports.evidence import GROUP_PRIVACY, ORDINARY, BoundRow, Budget, Distances, Evidence
from pufferflow.reports.figures.bars import (
    bound_name,
    bounds_figure,
    comparable,
    distances_figure,
    merge_bounds,
    models_figure,
    models_of,
)
from pufferflow.reports.figures.over_time import budget_figure, describe_memory, memory_figure, releases_of, row_of
from pufferflow.reports.figures.worst_pair_laws import curves_of, laws_figure
from pufferflow.reports.html import Column, Section, facts, link, listed, listed_markup, paragraph, table, text
from pufferflow.reports.numbers import UNKNOWN, counted, plain, total, upwards

_BOUNDS: Final = {
    "Messages": (
        "Follows what noisy answers can reveal about one row from row to row along the chain; each step "
        "passes on only what the next row's state still depends on (M20)."
    ),
    "Quilt": (
        "Hides a stretch of rows around the secret with noise, and adds what rows beyond its ends still "
        "reveal about it: the published method for chains, which usually needs more noise than Messages "
        "(M19)."
    ),
    "Kantorovich": (
        "Moves the answer's law under one secret to that under the other, and counts all movements to each "
        "answer, not only the farthest one (pure guarantees)."
    ),
    "GWM": (
        "The general Wasserstein mechanism: hides the farthest movement of any part of the answer's law if "
        "the secret changes (M3)."
    ),
    "GAWM": "Like GWM, but for a share delta of the probability, which may move farther (M4).",
    "DAGWM": ("Like GWM, but each movement counts by how likely it is, so that rare long ones cost little (M5)."),
    "Exact": ("Computes the loss of the two noisy laws exactly: no noise of this kind can be smaller for them (M6)."),
    "Group": (
        "Hides that all rows of a correlated group change at once, whatever their correlation: the most "
        "noise, and no assumption about the prior (M7)."
    ),
}
"""What each bound counts, by the name of its class."""
_MODELS: Final = {
    GROUP_PRIVACY: _BOUNDS["Group"],
    ORDINARY: (
        "Hides one row as if no other row revealed anything about it: the guarantee of most libraries, weaker than it "
        "seems where rows depend on each other."
    ),
}
_CLASS: Final = re.compile(r"(\w+)\(")
_MORE: Final = (
    "Bounds are explained in docs/noise.md and docs/scenarios.md of pufferflow; numbers such as M20 are statements in "
    "docs/statements.md."
)


def anchor_of(bound: str) -> str:
    """Return the id of the explanation of a bound, which is given by its name or its repr; "" if none.

    >>> anchor_of("Quilt(approximate=True)"), anchor_of("group privacy"), anchor_of("unheard-of")
    ('word-quilt', 'word-group-privacy', '')
    """
    found = _CLASS.match(bound)
    name = found[1] if found else bound
    return f"word-{re.sub(r'[^a-z]+', '-', name.lower()).strip('-')}" if name in _BOUNDS | _MODELS else ""


def glossary(bounds: Iterable[str]) -> Section | None:
    """Return the explanations of the bounds that a report names; None if it names no known one."""
    anchors = set(map(anchor_of, bounds))
    known = {name: words for name, words in (_BOUNDS | _MODELS).items() if anchor_of(name) in anchors}
    if not known:
        return None
    rows = "".join(
        f'<div><dt id="{anchor_of(name)}">{text(name[:1].upper() + name[1:])}</dt><dd>{text(words)}</dd></div>'
        for name, words in known.items()
    )
    return Section(
        "glossary", "What these names mean", f'<dl class="record words">{rows}</dl>{paragraph(_MORE, "quiet")}'
    )


_LABEL = re.compile(r"([A-Z][A-Za-z ]{2,18}): (.*)", re.DOTALL)
CARRIED_BY = "Carried by"
"""The label of the line of a sentence that begins with the name of a bound."""
_SIGN = '<p class="sign"><span>Name</span><span>Date</span><span>Signature</span></p>'
CERTAIN = {
    "exact": "computed exactly",
    "upper_bound": "computed as an upper bound: never too little noise",
    "estimate": "an ESTIMATE, which may be too low",
}
"""The certainty of the noise, in words."""


def sentence(evidence: Evidence) -> Section:
    """Return the section with the explanation that a person signs, and lines for the signature."""
    explained = {anchor_of(row.bound) for row in evidence.bounds}
    lines = "".join(_line(line, explained) for line in evidence.sentence.split("\n") if line)
    if not lines:
        return unknown("sentence", "The sentence to sign", "No sentence was kept, so there is nothing to sign.")
    body = f'<div class="whole"><div class="sentence">{lines}</div>{_SIGN}</div>'
    return Section("sentence", "The sentence to sign", body)


def unknown(anchor: str, title: str, why: str) -> Section:
    """Return a section without content that gives the reason."""
    return Section(anchor, title, paragraph(why, "quiet"))


def worst(evidence: Evidence) -> Section:
    """Return the section on the two secrets that are the hardest to hide, and the laws of the answer under each."""
    anchor, title, pair = "worst", "The worst pair of secrets", evidence.pair
    if pair is None:
        return unknown(anchor, title, evidence.pair_note or "The worst pair of secrets is not known for this plan.")
    introduction = paragraph(
        "Noise is made for the two secrets that are the hardest to hide. If these are indistinguishable, all others "
        "are, too."
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


_HOW: Final = (
    "W_∞ is the farthest that probability has to move to turn the law of the answer under one secret into that under "
    "the other; W_1 and W_2 are averages over the movement. Near is the distance within which all but the δ of the "
    "guarantee has to move. Each bound calibrates noise from one of them: GWM from W_∞, GAWM from nearness, DAGWM from "
    "a whole transport, and Exact from the two laws."
)
_COMPUTED: Final = (
    "POT, a library of optimal transport, computes W_1 and W_2 of laws of several sums, shown for comparison, "
    "and transports for DAGWM, any of which is valid. W_∞ and nearness are computed in whole numbers beside it: a "
    "transport in floats may not decide W_∞. One that leaves out a probability of 1e-17 is right to the last digit of "
    "its price, and says 0 where W_∞ is 100. Another gave 3.41 for 1.449."
)


def distances(evidence: Evidence) -> Section | None:
    """Return the section on the distances between the laws of the answer, by pair; None where they are unknown."""
    rows = evidence.distances
    if not rows:
        return None
    unit = f", {evidence.distances_unit}" if evidence.distances_unit else ""
    left = evidence.more_distances
    more = f" {counted(left, 'more pair')} of secrets, positions and priors." if left else ""
    notes = dict.fromkeys(f"{row.note[:1].upper()}{row.note[1:]}." for row in rows if row.note)
    body = paragraph(_HOW) + distances_figure(rows) + _distances_table(rows, f"Distances and scales{unit}.{more}")
    body += listed(list(notes)) if notes else ""
    return Section("distances", "How far the laws of the answer lie apart", body + paragraph(_COMPUTED, "quiet"))


def _distances_table(rows: Sequence[Distances], caption: str) -> str:
    names = ("w_inf", "w_1", "w_2", "near", "gwm", "gawm", "dagwm", "exact")
    heads = ("W_∞", "W_1", "W_2", "near", "GWM", "GAWM", "DAGWM", "Exact")
    known = [
        (name, head)
        for name, head in zip(names, heads, strict=True)
        if any(getattr(row, name) is not None for row in rows)
    ]
    columns = [Column("secrets", [f"{row.first} against {row.second}" for row in rows])]
    if any(row.position is not None for row in rows):
        columns.append(Column("position", [plain(row.position) for row in rows], number=True))
    if len({row.prior for row in rows}) > 1:
        columns.append(Column("prior", [row.prior for row in rows]))
    columns += [Column(head, [plain(getattr(row, name), 4) for row in rows], number=True) for name, head in known]
    marked = next((place for place, row in enumerate(rows) if row.decides), None)
    return table(caption, columns, marked=marked)


def memory(evidence: Evidence) -> Section | None:
    """Return the section on how long a row is remembered; None where that is not one number for each step."""
    if not evidence.memory:
        return None
    title = f"How long one {row_of(evidence.memory[0])} is remembered"
    return Section("memory", title, paragraph(describe_memory(evidence.memory)) + memory_figure(evidence.memory))


def models(evidence: Evidence) -> Section | None:
    """Return the section on the noise of the same guarantee under independence, the prior, and any correlation."""
    beliefs = models_of(evidence.bounds)
    if len(beliefs) < 2:
        return None
    introduction = paragraph(
        "The correlation of rows under the prior decides how much noise a guarantee needs. Ordinary differential "
        "privacy assumes that rows are independent; group privacy assumes nothing."
    )
    lines = [
        f"{link(model.name, anchor_of(model.name))}: noise of scale {text(plain(model.scale))} on {text(model.output)}"
        f"{text(f' ({model.note})' if model.note else '')}."
        for model in beliefs
    ]
    body = introduction + models_figure(beliefs) + listed_markup(lines)
    return Section("models", "The same guarantee under other priors", body)


def bounds(evidence: Evidence) -> Section:
    """Return the section on the noise of other bounds, and on those that refused or were not computed."""
    anchor, title = "bounds", "The same guarantee by other bounds"
    merged = merge_bounds(evidence.bounds)
    if not merged:
        return unknown(anchor, title, "No other bounds were computed.")
    body = bounds_figure(evidence.bounds) + _bounds_table(evidence.bounds)
    body += _list_of_notes([row for row in merged if comparable(row) and row.note])
    skipped = [row for row in merged if row.times is not None and not row.worked_out]
    if skipped:
        body += f"<h3>Bounds that were not computed here</h3>{_list_of_notes(skipped)}"
    refused = [row for row in merged if row.times is None]
    if refused:
        body += f"<h3>Bounds that give no noise here</h3>{_list_of_notes(refused)}"
    return Section(anchor, title, body)


def words(evidence: Evidence) -> Section | None:
    """Return the glossary of the bounds in the report."""
    return glossary([row.bound for row in evidence.bounds])


def finished(parts: Iterable[Section | None], evidence: Evidence) -> list[Section]:
    """Return the sections without the missing ones, each with its remarks."""
    remarks = dict[str, str]()
    for remark in evidence.remarks:
        more = f"<h3>{text(remark.title)}</h3>{listed(remark.lines)}" if remark.lines else ""
        remarks[remark.section] = remarks.get(remark.section, "") + more
    return [replace(part, body=part.body + remarks.get(part.anchor, "")) for part in parts if part is not None]


def breakable(evidence: Evidence) -> Section:
    """Return the section on the assumptions, and on what is left of the guarantee if they are wrong."""
    body = "<h3>Assumptions</h3>" + (listed(evidence.assumptions) or paragraph("Nothing is assumed."))
    body += "<h3>What is left if one is wrong</h3>"
    if evidence.what_if:
        columns = [
            Column("What if …", [case.wrong.removeprefix("if ") for case in evidence.what_if]),
            Column("what is left of the guarantee", [case.left for case in evidence.what_if]),
            Column(
                next((case.measure for case in evidence.what_if if case.epsilon is not None), "epsilon"),
                [UNKNOWN if case.epsilon is None else plain(upwards(case.epsilon)) for case in evidence.what_if],
                number=True,
            ),
        ]
        body += table("What is left of the guarantee if an assumption is wrong", columns)
    else:
        body += paragraph("Not known: no weaker guarantee was proven.", "quiet")
    return Section("assumptions", "Assumptions, and what happens if they are wrong", body)


def certificate(rows: Sequence[tuple[str, str]], evidence: Evidence | None = None) -> Section:
    """Return the section with the certificate, without lines that the report has above; unnamed rows join the last."""
    before = set[str]() if evidence is None else _lines_above(evidence)
    joined, name = dict[str, list[str]](), "also"
    for given, value in rows:
        name = given or name
        if value not in before:
            joined.setdefault(name, []).append(value)
    title, note = "The certificate in full", ""
    if any(value in before for _, value in rows):
        title = "For the record"
        note = paragraph("Lines that stand above are not repeated here.", "quiet")
    record = facts([(name, "\n".join(values)) for name, values in joined.items()], "record")
    return Section("certificate", title, note + record)


def _lines_above(evidence: Evidence) -> set[str]:
    """Return the lines of the sentence, with and without their labels, and the assumptions."""
    lines = evidence.sentence.split("\n")
    labelled = filter(None, map(_LABEL.fullmatch, lines))
    return {*lines, *(match[2].removesuffix(".") for match in labelled), *evidence.assumptions} - {""}


def certainty(evidence: Evidence) -> str | None:
    """Describe the certainty of the noise; None if it was not stored."""
    sure = next((row.certainty for row in evidence.bounds if row.chosen and row.certainty), None)
    return None if sure is None else CERTAIN.get(sure, sure)


def rough(evidence: Evidence | None) -> list[str]:
    """Return the outputs whose interval widths are not known beforehand, such as quantiles."""
    cells = () if evidence is None else evidence.cells
    return list(dict.fromkeys(cell.query for cell in cells if cell.interval_95 is None))


def _line(line: str, explained: Collection[str]) -> str:
    """Return a line of the sentence, in which the bound links to its explanation."""
    labelled = _LABEL.fullmatch(line)
    if labelled is None:
        return paragraph(line)
    label, rest = labelled[1], labelled[2]
    name = rest.partition(",")[0] if label == CARRIED_BY else ""
    anchor = anchor_of(f"{name}()")
    linked = link(name, anchor if anchor in explained else "") + text(rest.removeprefix(name))
    return f'<p dir="auto"><b>{text(label)}:</b> {linked}</p>'


def _list_of_notes(rows: Sequence[BoundRow]) -> str:
    """Return the notes on bounds, one line for all bounds with the same note."""
    notes = dict[str, list[str]]()
    for row in rows:
        named = link(bound_name(row.bound), anchor_of(row.bound))
        notes.setdefault(row.note or "no reason was kept", []).append(named)
    return listed_markup(f"{', '.join(names)}: {text(note.rstrip('.'))}." for note, names in notes.items())


def _bounds_table(rows: Sequence[BoundRow]) -> str:
    given = [row for row in rows if row.scale is not None and row.worked_out and row.bound != ORDINARY]
    if not given:
        return ""
    columns = [
        Column("bound", [bound_name(row.bound) for row in given], anchors=[anchor_of(row.bound) for row in given]),
        Column("output", [row.query for row in given]),
        Column("noise", [row.noise for row in given]),
        Column("scale", [plain(row.scale) for row in given], number=True),
        Column("expected error", [plain(row.expected_error) for row in given], number=True),
        Column("times this plan's", [plain(row.times) for row in given], number=True),
        Column("certainty", [(row.certainty or UNKNOWN).replace("_", " ") for row in given]),
    ]
    marked = next((place for place, row in enumerate(given) if row.chosen), None)
    return table("Noise that each bound needs, output by output", columns, marked=marked)


MOST_CHARGES = 200
_NO_RULE = "no rule"
NOBODY = "No account counts this: no ledger was given, so what several releases reveal together is not limited."


def budget(found: Budget | None) -> Section:
    """Return the section on the account of a plan or release."""
    body = paragraph(NOBODY, "quiet") if found is None else account(found)
    return Section("budget", "Budget over time", body)


def account(budget: Budget, name: str = "") -> str:
    """Return the reason of the total, the figure and the charges of an account; `name` makes its ids unique."""
    body = paragraph(budget.why) if budget.why else ""
    if budget.what_if:
        columns = [
            Column("if", [case.wrong.removeprefix("if ") for case in budget.what_if]),
            Column("what is left", [case.left for case in budget.what_if]),
        ]
        body += table("What is left if a prior is wrong", columns)
    if budget.charges or budget.ahead:
        body += budget_figure(budget, name)
    if budget.ahead and budget.rule and not budget.rule.startswith(_NO_RULE):
        body += paragraph(f"The forecast adds up by {budget.rule}.", "quiet")
    if budget.note:
        body += paragraph(f"{budget.note[:1].upper()}{budget.note[1:].rstrip('.')}.", "quiet")
    return body + (_charges_table(budget) if budget.charges else paragraph("Nothing has been charged yet.", "quiet"))


def spent(budget: Budget | None) -> str:
    """Describe how much of the limit is spent."""
    if budget is None:
        return "no account counts this"
    return f"{total(budget.spent)} of {total(budget.limit_epsilon)}"


def room_left(budget: Budget) -> str:
    """Return how many more releases fit: a number, "any number" or "unknown"."""
    if budget.fits is not None:
        return f"{budget.fits:,}"
    never = budget.endless is not None and budget.endless <= budget.limit_epsilon
    return "any number" if never else "unknown"


def _charges_table(budget: Budget) -> str:
    """Return the table of charges, the latest ones if there are very many."""
    latest = budget.charges[-MOST_CHARGES:]
    count = releases_of(budget)
    more = f", the latest {len(latest)} of those that are shown of {count:,}" if count > len(latest) else ""
    totals = [f"{'≤ ' if charge.at_most else ''}{total(charge.total)}" for charge in latest]
    columns = [
        Column("no.", [f"{charge.number:,}" for charge in latest], number=True),
        Column("release", [charge.release for charge in latest]),
        Column("at", [moment(charge.at) for charge in latest]),
        Column("state", [charge.state for charge in latest]),
        Column("guarantee", [charge.promise for charge in latest]),
        Column("total after it", totals, number=True),
    ]
    rules = list(dict.fromkeys(charge.rule for charge in latest))
    if len(rules) > 1:
        columns.append(Column("by the rule", [charge.rule for charge in latest]))
    added = f", added up by {rules[0]}" if len(rules) == 1 and rules[0] else ""
    return table(f"Charges on the account {budget.account}{more}{added}", columns)


def moment(at: str) -> str:
    """Return a time without fractions of a second.

    >>> moment("2026-11-20T03:00:01.123456+00:00"), moment("")
    ('2026-11-20 03:00:01 +00:00', '—')
    """
    day, _, rest = at.partition("T")
    if not rest:
        return at or UNKNOWN
    clock, zone = rest[:8], rest[8:].lstrip(".0123456789")
    return f"{day} {clock} {zone}".rstrip()
