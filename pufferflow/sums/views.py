"""All rows of a chain seen through windows, those that look alike once (M4, M18)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import final

import numpy as np

from pufferflow.sums.extended import Masses, shifted, tight
from pufferflow.sums.lattice import Lattice
from pufferflow.sums.nearness import Search
from pufferflow.sums.sides import Sides
from pufferflow.sums.statistic import Asked, Flags, Floats, Sums, Whole
from pufferflow.sums.three import Pair, conditional
from pufferflow.sums.windows import Windows, alike, marginals

_STEP_COST = 20_000
_TRIALS = 200
Report = Callable[[int, list[Pair], Floats, Floats], None]


@final
@dataclass(frozen=True, eq=False)
class View:
    """The windows around all secret rows, for one initial law."""

    sums: Sums
    secrets: Asked
    where: Lattice
    windows: Windows
    initial: Floats

    def together(self, search: Search) -> None:
        """Look at both sides of each row at once: the joint law of the sum and both ends of the window."""
        for row, before, after in self._rows():
            pairs = self.secrets.possible(self._possible[row])
            joint = {a: _joint(before[a], after[a]) for a in {a for pair in pairs for a in pair}}
            for a, b in pairs:
                search.add(joint[a], joint[b], row, (a, b))

    def apart(self, past: Search, future: Search) -> None:
        """Look at each side of each row alone, without any convolution."""
        seen = set[tuple[tuple[int, int, int], Pair]]()
        labels, reach, last = self.windows.labels, self.windows.reach, self.sums.length - 1
        for row, before, after in self._rows():
            first = (0, -1, row) if row <= reach else (0, int(labels[row - reach]), int(self._alike[row - reach]))
            second = (1, -1, row) if row >= last - reach else (1, int(labels[row]), 0)
            for a, b in self.secrets.possible(self._possible[row]):
                for search, laws, key in ((past, before, first), (future, after, second)):
                    if (key, (a, b)) not in seen:
                        seen.add((key, (a, b)))
                        search.add(laws[a], laws[b], row, (a, b))

    def work(self, *, together: bool) -> float:
        """Return about how many operations a look takes: a cut-off side has a shorter sum and no end to match."""
        states, reach = self.sums.chain.states, self.windows.reach
        points = reach * int(self.where.spans.max()) + 1
        inner = len(self._inner)
        ends = self.sums.length if 2 * reach >= self.sums.length else 2 * reach + 2
        carrying = len(np.unique(self.windows.labels)) * reach * (states**3 * points + _STEP_COST)
        trying = _TRIALS * points * len(self.secrets.pairs)
        if together:
            return carrying + states * (ends / 2 + inner * states) * (states * points**2 + trying)
        return carrying + (ends / 2 + inner * states) * trying

    @cached_property
    def _marginals(self) -> tuple[Floats, Flags]:
        return marginals(self.sums, self.initial)

    @property
    def _possible(self) -> Flags:
        return self._marginals[1]

    @cached_property
    def _alike(self) -> Whole:
        return alike(self._marginals[0])

    def _rows(self) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield rows with P(X_{row−h} = c, S = s | X_row = a) at [a, c, s], and the same for what comes after.

        There is a single c where the window reaches beyond the end of the chain.
        """
        reach, last, wanted = self.windows.reach, self.sums.length - 1, self.secrets.rows
        sides, laws = Sides(self.sums, self.where), self._marginals[0]
        for row, law in enumerate(islice(sides.pasts(self.initial), reach + 1)):
            if wanted[row]:
                yield row, visible(law), self.windows.carried(row)[0]
        for row in self._inner.tolist():
            yield row, self.windows.past(row, laws[row - reach]), self.windows.carried(row)[0]
        for back, law in enumerate(islice(sides.futures_back(), reach + 1)):
            row = last - back
            if wanted[row]:
                points = self.where.points[self.sums.kinds[row]]
                after = visible(shifted(law, points, int(self.where.spans[row])))
                yield row, self.windows.past(row, laws[row - reach]), after

    @property
    def _inner(self) -> Whole:
        """One of all secret rows away from the ends that agree in their window and in the law at its start."""
        reach, labels = self.windows.reach, self.windows.labels
        at = np.arange(reach + 1, self.sums.length - 1 - reach)
        at = at[self.secrets.rows[at]]
        code = np.zeros(len(at), dtype=np.intp)
        for label in (labels[at - reach], labels[at], self._alike[at - reach]):
            code = np.unique(code * (int(label.max(initial=0)) + 1) + label, return_inverse=True)[1].astype(np.intp)
        return np.sort(at[np.unique(code, return_index=True)[1]])


def visible(law: Masses) -> Floats:
    """Return the law given each state, at [state, 0, s], without masses below 2^−200; they count as unmatched."""
    return np.stack([tight(planes)[:1] for planes in conditional(law.planes)])


def _joint(before: Floats, after: Floats) -> Floats:
    """Return the joint law of both ends and the sum, given a state: one part for each pair of ends."""
    return np.array([np.convolve(past, future) for past in before for future in after])
