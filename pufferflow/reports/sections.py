"""The sections of reports: what their templates are filled in with, from the evidence of a plan or an account."""

import re
from collections.abc import Sequence
from typing import Final

from pufferflow.reports.evidence import ORDINARY, BoundRow, Budget, Evidence
from pufferflow.reports.figures.bars import (
    bound_name,
    bounds_figure,
    comparable,
    distances_figure,
    merge_bounds,
    models_figure,
    models_of,
)
from pufferflow.reports.figures.over_time import (
    budget_figure,
    describe_budget,
    describe_memory,
    memory_figure,
    releases_of,
    row_of,
)
from pufferflow.reports.figures.square import square_figure
from pufferflow.reports.figures.worst_pair_laws import curves_of, laws_figure
from pufferflow.reports.html import Section, as_sentence, section, values_of
from pufferflow.reports.numbers import UNKNOWN, total
from pufferflow.reports.text import phrase

_CLASS: Final = re.compile(r"(\w+)\(")


def anchor_of(bound: str) -> str:
    """Return the id of the explanation of a bound, which is given by its name or its repr; "" if there is none.

    >>> anchor_of("Quilt(approximate=True)"), anchor_of("group privacy"), anchor_of("unheard-of")
    ('word-quilt', 'word-group-privacy', '')
    """
    found = _CLASS.match(bound)
    name = found[1] if found else bound
    return (
        f"word-{re.sub(r'[^a-z]+', '-', name.lower()).strip('-')}"
        if name in values_of("meanings.html").meanings
        else ""
    )


_LABEL = re.compile(r"([A-Z][A-Za-z ]{2,18}): (.*)", re.DOTALL)
CARRIED_BY = "Proof"
"""The label of the line of a sentence that begins with the name of a bound."""
_DISTANCES: Final = (
    *(("W_∞", "w_inf"), ("W_1", "w_1"), ("W_2", "w_2"), ("near", "near")),
    *(("GWM", "gwm"), ("GAWM", "gawm"), ("DAGWM", "dagwm"), ("Exact", "exact")),
)


def sections_of(
    evidence: Evidence, summary: Sequence[tuple[str, str]], entry: str = ""
) -> tuple[list[Section], list[Section]]:
    """Return the sections of a report with evidence: those for the analyst, and those for the auditor.

    `entry` is the entry of a ledger that a release was charged to.
    """
    pair, memory, models = evidence.pair, evidence.memory, models_of(evidence.bounds)
    curves = None if pair is None else curves_of(pair)
    drawn = "" if pair is None or curves is None else laws_figure(pair, curves)
    compared = models if len(models) > 1 else []
    analyst = [
        section("models", models=compared, figure=models_figure(compared), anchor_of=anchor_of),
        account(evidence.budget, entry=entry),
    ]
    auditor = [
        _sentence(evidence),
        section("glance", summary=summary),
        section(
            "assumptions",
            assumptions=evidence.assumptions,
            cases=evidence.what_if,
            measure=next(
                (case.measure for case in evidence.what_if if case.epsilon is not None), "epsilon"
            ),
        ),
        section("worst", pair=pair, note=evidence.pair_note, figure=drawn),
        _distances(evidence),
        section(
            "memory",
            row=row_of(memory[0]) if memory else "row",
            described=describe_memory(memory),
            figure=memory_figure(memory),
        ),
        _bounds(evidence.bounds),
        section(
            "glossary",
            anchors={anchor_of(row.bound) for row in evidence.bounds} - {""},
            anchor_of=anchor_of,
        ),
    ]
    return analyst, auditor


def _sentence(evidence: Evidence) -> Section:
    """Return the section with the explanation that a person signs, in which the bound links to its explanation."""
    explained = {anchor_of(row.bound) for row in evidence.bounds}
    lines = list[tuple[str, str, str, str]]()
    for line in filter(None, evidence.sentence.split("\n")):
        labelled = _LABEL.fullmatch(line)
        label, rest = ("", line) if labelled is None else labelled.groups()
        bound = rest.partition(",")[0] if label == CARRIED_BY else ""
        anchor = anchor_of(f"{bound}()")
        lines.append(
            (label, bound, anchor if anchor in explained else "", rest.removeprefix(bound))
        )
    return section("sentence", lines=lines)


def _distances(evidence: Evidence) -> Section:
    """Return the section on the distances between the laws of the answer, by pair; empty if they are unknown."""
    rows = evidence.distances
    return section(
        "distances",
        rows=rows,
        figure=distances_figure(rows),
        square=square_figure(evidence.by_value),
        unit=evidence.distances_unit,
        left=evidence.more_distances,
        positions=any(row.position is not None for row in rows),
        priors=len({row.prior for row in rows}) > 1,
        known=[
            (head, name)
            for head, name in _DISTANCES
            if any(getattr(row, name) is not None for row in rows)
        ],
        marked=next((row for row in rows if row.decides), None),
        notes=list(dict.fromkeys(as_sentence(row.note) for row in rows if row.note)),
    )


def _bounds(rows: Sequence[BoundRow]) -> Section:
    """Return the section on the noise of other bounds, and on those that refused or were not computed."""
    merged = merge_bounds(rows)
    return section(
        "bounds",
        known=merged,
        figure=bounds_figure(rows),
        rows=[
            row
            for row in rows
            if row.scale is not None and row.worked_out and row.bound != ORDINARY
        ],
        noted=_by_note([row for row in merged if comparable(row) and row.note]),
        skipped=_by_note([row for row in merged if row.times is not None and not row.worked_out]),
        refused=_by_note([row for row in merged if row.times is None]),
        name_of=bound_name,
        anchor_of=anchor_of,
    )


def _by_note(rows: Sequence[BoundRow]) -> list[tuple[str, list[str]]]:
    """Return the notes on bounds, each with all bounds that have it."""
    notes = dict[str, list[str]]()
    for row in rows:
        notes.setdefault((row.note or "no reason was kept").rstrip("."), []).append(row.bound)
    return list(notes.items())


def certificate(rows: Sequence[tuple[str, str]], evidence: Evidence | None = None) -> Section:
    """Return the section with the certificate, without lines that the report has above; unnamed rows join the last."""
    before = set[str]() if evidence is None else _lines_above(evidence)
    joined, name = dict[str, list[str]](), "also"
    for given, value in rows:
        name = given or name
        if value not in before:
            joined.setdefault(name, []).append(value)
    repeated = any(value in before for _, value in rows)
    record = [(name, "\n".join(values)) for name, values in joined.items()]
    return section("certificate", whole=not repeated, repeated=repeated, rows=record)


def _lines_above(evidence: Evidence) -> set[str]:
    """Return the lines of the sentence, with and without their labels, and the assumptions."""
    lines = evidence.sentence.split("\n")
    labelled = filter(None, map(_LABEL.fullmatch, lines))
    return {*lines, *(match[2].removesuffix(".") for match in labelled), *evidence.assumptions} - {
        ""
    }


def certainty(evidence: Evidence) -> str | None:
    """Describe the certainty of the noise; None if it was not stored."""
    sure = next((row.certainty for row in evidence.bounds if row.chosen and row.certainty), None)
    return (
        None
        if sure is None
        else phrase("certainty", sure) + ": never too little noise" * (sure == "upper_bound")
    )


def rough(evidence: Evidence | None) -> list[str]:
    """Return the outputs whose interval widths are not known beforehand, such as quantiles."""
    cells = () if evidence is None else evidence.cells
    return list(dict.fromkeys(cell.query for cell in cells if cell.interval_95 is None))


MOST_CHARGES = 200
_ACCOUNT = "Budget over time"


def account(budget: Budget | None, place: int = 0, entry: str = "") -> Section:
    """Return the section on an account: why its total is what it is, its figure, and its latest charges.

    In the report on a ledger an account has a place, from 1, and is described first. Without a budget, the report on a
    release may still know the entry of a ledger that counts it.
    """
    anchor = f"account-{place}" if place else "budget"
    if budget is None:
        return section("account", anchor, heading=_ACCOUNT, budget=None, entry=entry)
    latest = budget.charges[-MOST_CHARGES:]
    figure = budget_figure(budget, f"budget-{place}" if place > 1 else "")
    return section(
        "account",
        anchor,
        heading=f"Account {budget.account}" if place else _ACCOUNT,
        told=describe_budget(budget) if place else "",
        budget=budget,
        figure=figure if budget.charges or budget.ahead else "",
        charges=latest,
        releases=releases_of(budget),
        rules=list(dict.fromkeys(charge.rule for charge in latest)),
        moment=moment,
    )


def spent(budget: Budget | None, entry: str = "") -> str:
    """Describe how much of the limit is spent."""
    if budget is None:
        counted_by = f"entry {entry.partition(':')[0]} of a ledger, whose report has the total"
        return counted_by if entry else "no account counts this"
    return f"{total(budget.spent)} of {total(budget.limit_epsilon)}"


def room_left(budget: Budget) -> str:
    """Return how many more releases fit: a number, "any number" or "unknown"."""
    if budget.fits is not None:
        return f"{budget.fits:,}"
    never = budget.endless is not None and budget.endless <= budget.limit_epsilon
    return "any number" if never else "unknown"


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
