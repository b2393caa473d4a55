"""Answers that are each about one row of a chain: Rényi losses from row to row, for the best order (M38 (i)).

The only number that counts is the largest sum of squared deviations of a row. A path of answers keeps a limit exactly
if that sum does, so the account can be stopped there, whatever was requested before (M61). Gaussian noise that hides μ
deviations in a row loses α·μ²/2 of every order α there. Laplace noise is μ-Gaussian between every two values of a row
(M9). So each of its Rényi losses is at most that of the normal laws, of which it is a function.

Earlier answers may choose the next row, before or after those of earlier releases. Couple the rows step by step. For a
fixed pair of data sets the rows that differ lose α·m²/2 each at most, in any order of releases (M1). Where a step
counts by its kernel instead, all rows beyond it are taken as revealed, which costs the divergence of the kernel's rows.
"""

import math
from typing import final

from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.accounting.rules.single_rows import beyond_laplace, deviations_of, rows_of
from pufferflow.privacy.guarantee import GuaranteeFamily
from pufferflow.published.cost import Runs, Shape


@final
class SingleAnswersRule(CompositionRule):
    """Rényi losses of rows are carried along the chain, where every answer is about one row of a unit."""

    name = "answers about single rows, by Rényi losses (M38)"
    why = (
        "for each row the squared movements of the releases about it are added. Let two data sets be coupled. "
        "By the largest sum on a path each row that differs loses a known amount, in any order of releases (M1, M38)"
    )

    def by_own(self, releases: UnitReleases, kind: GuaranteeFamily) -> float:
        if not all(map(one_row_in_each_cell, releases.shapes)) or not beyond_laplace(releases):
            return math.inf
        rows = rows_of(releases)
        row = math.inf if rows is None else deviations_of(releases)
        if rows is None or not 0 < row < math.inf:
            return row
        return rows.answers_loss(kind, row)[0]


def one_row_in_each_cell(shape: Shape) -> bool:
    """Return whether each answer of a release is certainly about at most one row of a group."""
    rows = shape.rows
    if rows is None or rows.runs is None or shape.row_movement is not None or shape.row_by_row:
        return False
    groups = rows.patterns or (() if rows.covers else (rows.runs,))
    return bool(groups) and all(map(_single_rows, groups))


def _single_rows(runs: Runs) -> bool:
    """Return whether all stretches are single steps, in different cells."""
    alone = all(end - first == 1 for first, end, _ in runs)
    return alone and len({cell for _, _, cell in runs}) == len(runs) > 0
