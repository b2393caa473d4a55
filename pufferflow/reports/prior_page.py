"""The report on priors that a public reference was compared with: the evidence against each, and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.reports.figures.bars import beliefs_figure
from pufferflow.reports.html import Column, Section, facts, listed, paragraph, table, text
from pufferflow.reports.numbers import at_most, plain
from pufferflow.reports.pages import page

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
