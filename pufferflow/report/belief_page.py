"""The page of priors that were looked at in a public reference: what speaks against each, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.report.figures.bars import beliefs_figure
from pufferflow.report.html import Column, Section, facts, listed, paragraph, table, text
from pufferflow.report.numbers import at_most, plain
from pufferflow.report.pages import page

_CLOSING = "Written by pufferflow. Nothing on this page depends on a private value."


@final
@dataclass(frozen=True)
class BeliefRow:
    """A prior: the error it costs, the ε that is left if it is wrong, and what speaks against it."""

    belief: str
    error: float | None
    left: float | None
    against: Sequence[str]
    note: str


def beliefs_page(reference: str, output: str, promise: str, rows: Sequence[BeliefRow]) -> str:
    """Return the page; priors are in the order of their errors."""
    priced = [(row.belief.partition(" (")[0], row.error) for row in rows if row.error is not None]
    costs = beliefs_figure(output, priced) + _table(rows)
    speaks = "".join(f"<h3>{text(row.belief)}</h3>{_against(row)}" for row in rows)
    meaning = listed(
        [
            "A prior that nothing speaks against is not proven: it is one that the reference could not refute.",
            "How near the reference is to the private data no table can tell; that is for whoever signs.",
            "What is left if a prior is wrong is what the noise keeps whatever rows of a group do with each other.",
            "Where little is left, the prior is what everything rests on.",
        ]
    )
    summary = [("Promise", promise), ("Looked at in", reference), ("Output", output)]
    sections = [
        Section("costs", "What each prior costs", costs),
        Section("against", "What the reference says against each", speaks),
        Section("meaning", "What this does not say", meaning),
    ]
    return page("Priors: nothing has been published", f"Which prior for {output}?", summary, sections, _CLOSING)


def _table(rows: Sequence[BeliefRow]) -> str:
    return table(
        "What the guarantee costs under each prior, and the epsilon that is left if it is wrong.",
        [
            Column("belief", [row.belief.partition(" (")[0] for row in rows]),
            Column("expected error", ["–" if row.error is None else plain(row.error) for row in rows], number=True),
            Column("left if wrong", ["–" if row.left is None else at_most(row.left) for row in rows], number=True),
            Column("spoken against", ["yes" if row.against else "no" for row in rows]),
        ],
    )


def _against(row: BeliefRow) -> str:
    note = facts([("No answer", row.note)]) if row.note else ""
    return note + (listed(row.against) if row.against else paragraph("Nothing that the reference could tell.", "quiet"))
