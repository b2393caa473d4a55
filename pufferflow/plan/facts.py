"""What a plan learns from public columns, each when something first asks for it: patterns, keys, sizes of cells."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np
import polars as pl

from pufferflow.bounds import Laws
from pufferflow.bounds.laws import Together
from pufferflow.errors import Misuse, Refused
from pufferflow.expressions import named
from pufferflow.guarded import guarded
from pufferflow.inference import Shorter, of_pattern
from pufferflow.patterns import Patterns, found
from pufferflow.plan.tables import Tables
from pufferflow.priors import AnyCorrelation, Prior
from pufferflow.queries import Pattern
from pufferflow.questions import Questions
from pufferflow.release.bars import Floats
from pufferflow.release.collecting import collect
from pufferflow.release.reading import Tally, tally
from pufferflow.secrets import Initial, Presence

ONE_ROW = Pattern(np.zeros(1, dtype=np.intp), np.ones(1, dtype=np.intp), np.zeros(1))


@final
class Facts:
    """The public facts behind one set of questions; every query on them reads public columns only."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        self._patterns = dict[tuple[bool, int | None], Patterns]()

    @cached_property
    def cells(self) -> Tally:
        """The keys of the answer in their order, and how many rows each cell has; refused where that is private."""
        questions = self.questions
        if not questions.sized:
            rows = np.zeros(1 if questions.keys is None else questions.keys.height, dtype=np.int64)
            return Tally(questions.keys, rows, np.zeros((len(rows), 0), dtype=np.int64))
        frame = questions.rows().select(named(name) for name in questions.public)
        if not questions.public:  # a choice of no columns would have no rows
            frame, asked = questions.everybody()
            frame = frame if asked is None else frame.filter(named(asked))
        return guarded(lambda: tally(frame, questions.by, questions.keys, [], self._collect))

    @property
    def size(self) -> Floats | None:
        """How many rows each cell has; None where that is private."""
        return self.cells.rows.astype(np.float64) if self.questions.sized else None

    def patterns(self, prior: Prior) -> Patterns:
        """Return the patterns of the groups whose rows may hang together, as far as they matter to a prior."""
        scenario = self.questions.scenario
        if isinstance(scenario.secret, Presence):
            if isinstance(prior, AnyCorrelation) and scenario.within != (scenario.secret.within,):
                raise _more_may_leave(scenario.secret.within, scenario.within)
            return Patterns((_present(scenario.secret),), 1)
        if prior.alone:
            return Patterns((ONE_ROW,), 1)
        ordered = prior.ordered or isinstance(scenario.secret, Initial)
        period = None if isinstance(scenario.secret, Initial) else prior.repeats
        if ordered and period is None and not scenario.start_known:
            raise Misuse(
                "The prior or the secret speaks of the beginning of sequences, and it is not known when they began.",
                allowed="a scenario with the start of all sequences",
                instead='pf.Scenario(..., start="2026-01-01")',
            )
        if (ordered, period) not in self._patterns:
            frame, asked = self.questions.everybody()
            by = self.questions.by
            self._patterns[ordered, period] = guarded(
                lambda: found(frame, scenario, by, asked, ordered=ordered, period=period, collect=self._collect)
            )
        return self._patterns[ordered, period]

    @cached_property
    def placed(self) -> tuple[Pattern, ...] | None:
        """The patterns of groups where they stand in time; None where that cannot be told of all of them."""
        frame, asked = self.questions.everybody()
        if (True, None) not in self._patterns:
            by, scenario = self.questions.by, self.questions.scenario
            try:
                self._patterns[True, None] = guarded(
                    lambda: found(frame, scenario, by, asked, ordered=True, period=None, collect=self._collect)
                )
            except Misuse:  # too many steps, or rows before all time
                return None
        return self._patterns[True, None].distinct

    @property
    def reach(self) -> tuple[float, float] | None:
        """The positions of the first and the last row, asked about or not."""
        return None if self.placed is None else self._patterns[True, None].reach

    @property
    def clock(self) -> str:
        """How the positions of the patterns that were placed are counted."""
        return "" if self.placed is None else self._patterns[True, None].clock

    @property
    def expected_rows(self) -> int | None:
        """How many rows a release will find, if planning had to count them one by one."""
        for known in self._patterns.values():
            if known.distinct and not any(pattern.covers for pattern in known.distinct):
                return sum(pattern.asked * pattern.groups for pattern in known.distinct)
        return None

    def laws(self, ways: Sequence[Sequence[Tables]], weights: Floats) -> Laws:
        """Return the laws of the weighted sums under all priors and patterns, by the shortest of each prior's ways.

        If no row is asked about at all, noise is made for one row: empty answers are as noisy as others.
        """
        pieces: list[Laws] = []
        for of_prior in ways:
            patterns = self.patterns(of_prior[0].prior).distinct or (ONE_ROW,)
            for pattern in patterns:
                found = [self._of_pattern(one, pattern, weights, len(patterns)) for one in of_prior]
                pieces.append(found[0] if len(found) == 1 and of_prior[0].exact else Shorter(found))
        return Together(pieces)

    def laws_on(self, patterns: Sequence[Pattern], one: Tables, weights: Floats) -> Laws:
        """Return the laws of the weighted sums on some patterns, seen in one way."""
        return Together([self._of_pattern(one, pattern, weights, len(patterns)) for pattern in patterns or (ONE_ROW,)])

    def _of_pattern(self, one: Tables, pattern: Pattern, weights: Floats, patterns: int) -> Laws:
        if one.apart:
            pattern = replace(pattern, covers=True)  # which adds up movements of either sign
        values = one.values
        if not isinstance(one.secret, Presence):
            values = values - values.min(axis=1, keepdims=True)  # only differences matter, and small numbers are exact
        scaled = values * weights[:, None]  # exact: whole steps times short binary fractions
        rounding = None if one.rounding is None else one.rounding * weights
        keys, column = self.questions.keys, self.questions.column
        cells = 1 if not self.questions.by else None if keys is None else keys.height
        return of_pattern(one.prior, one.secret, pattern, scaled, column, rounding, cells=cells, patterns=patterns)

    def _collect(self, frame: pl.LazyFrame) -> pl.DataFrame:
        return collect(frame, "reading public columns")


def _more_may_leave(unit: str, within: Sequence[str]) -> Refused:
    """Return the error for units that may come and go with others of their group, of which nobody says how many."""
    together = ", ".join(map(repr, within))
    return Refused(
        f"Rows hang together within {together}, and the secret is whether the rows of one {unit!r} are there.",
        allowed=f"pf.AnyCorrelation() with within={unit!r}, or pf.Independent()",
        instead=f"pf.Presence({within[0]!r}, rows=...), which hides all that hangs together",
    )


def _present(secret: Presence) -> Pattern:
    """Return the pattern of a unit whose rows may be there or not: as many as it may have, in one cell, the worst."""
    if secret.rows is None:
        raise Misuse(
            f"How many rows one {secret.within!r} may have is private too, and no limit is declared.",
            allowed="the most rows of a unit that are read; others are left out",
            instead=f"pf.Presence({secret.within!r}, ..., rows=10)",
        )
    return Pattern(np.zeros(1, dtype=np.intp), np.array([secret.rows]))
