"""Noise against signal: how far noise may take a number, as a share of the number itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.report.evidence import Cell
from pufferflow.report.numbers import counted, percent
from pufferflow.report.outputs import Floats, Output

_TIMES = 1.5
NUMBER, LARGEST = "the number", "the largest possible answer"


@final
@dataclass(frozen=True)
class Share:
    """The noise of one output as a share of its size: the middle, least and largest of the `known` of `cells` cells.

    Half the 95 % interval is what is divided; `middle` is None if that, or the size, is not known anywhere, or is 0.
    """

    name: str
    of: str
    middle: float | None
    least: float
    largest: float
    cells: int
    known: int

    def told(self) -> str:
        """Say it in words."""
        if self.middle is None:
            return f"{self.name}: nobody can tell how large the noise is against {self.of}."
        if self.middle == math.inf:
            return f"{self.name}: the noise has no limit that could be compared with {self.of}."
        share = percent(self.middle)
        about = share if share.startswith("less") else f"about {share}"
        reached = f"{about} of {self.of}" if self.middle < _TIMES else f"{about} {self.of}"
        text = f"{self.name}: the error bar reaches {reached} to either side"
        if self.known > 1 and percent(self.least) != percent(self.largest):
            text += f" in the middle of {counted(self.known, 'group')}"
            text += f", from {percent(self.least)} to {percent(self.largest)}"
        if self.known < self.cells:
            text += f"; {self.cells - self.known} of {counted(self.cells, 'group')} have no such share"
        return f"{text}."


def published_shares(outputs: Sequence[Output]) -> list[Share]:
    """Return the shares of a release: the interval, as wide as noise makes it, against each published number."""
    return [_share(output.name, NUMBER, output.half, np.abs(output.values)) for output in outputs]


def planned_shares(cells: Sequence[Cell]) -> list[Share]:
    """Return the shares of a plan: the interval against the largest size that the answer can have."""
    names = list(dict.fromkeys(cell.query for cell in cells))
    return [_planned(name, [cell for cell in cells if cell.query == name]) for name in names]


def _planned(name: str, cells: Sequence[Cell]) -> Share:
    halves = np.array([np.nan if cell.interval_95 is None else cell.interval_95 for cell in cells])
    sizes = np.array([np.nan if cell.largest is None else abs(cell.largest) for cell in cells])
    return _share(name, LARGEST, halves, sizes)


def _share(name: str, of: str, halves: Floats, sizes: Floats) -> Share:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.where((sizes > 0) & np.isfinite(sizes), halves / sizes, np.nan)
    found = np.sort(shares[~np.isnan(shares)])
    if not len(found):
        return Share(name, of, None, 0.0, 0.0, len(shares), 0)
    middle = float(found[len(found) // 2])
    return Share(name, of, middle, float(found[0]), float(found[-1]), len(shares), len(found))
