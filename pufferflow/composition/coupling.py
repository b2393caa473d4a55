"""One coupling of whole data sets, chosen before anything is asked: losses along it add, adaptively (M1, M24).

Under a Gaussian prior, a diffusion or weak dependence data under two secrets are coupled once and for all, row by row;
where nothing is known of how rows hang together, or no better coupling is, every row of the group may change (M7).
"""

import math
from typing import final

import numpy as np

from pufferflow.composition.cost import Cost, Floats, Shape
from pufferflow.composition.rule import Asked, Rule, added
from pufferflow.composition.timeline import runs_of, window_of
from pufferflow.inference import implied
from pufferflow.inference.shift import scattered
from pufferflow.noise import Gaussian, Laplace, Noise
from pufferflow.priors import AR1, Exchangeable, GaussianPrior
from pufferflow.queries import Statistic
from pufferflow.rounding import UNIT
from pufferflow.secrets import Initial, Secret

_MOST_WEIGHTS = 2_000_000


@final
class Coupling(Rule):
    """Every release moves by what it moves farthest; the movements of all are those of one coupling."""

    name = "one coupling of the data, along which losses add (M24)"

    def pure(self, asked: Asked) -> float:
        """Return the sum of pure losses over the balls of movements."""
        return added((_loss(shape, asked, None) for shape in asked.shapes), asked.times)

    def renyi(self, asked: Asked, alpha: float) -> float:
        """Return the sum of Rényi losses over the balls of movements."""
        return added((_loss(shape, asked, alpha) for shape in asked.shapes), asked.times)

    def gaussian(self, asked: Asked) -> float:
        """Return the root of the sum of squared movements, each over its noise's standard deviation."""
        if not all(isinstance(shape.noise.noise, Gaussian) for shape in asked.shapes):
            return math.inf
        squares = added((_deviations(shape, asked) ** 2 * (1 + UNIT) for shape in asked.shapes), asked.times)
        return math.sqrt(squares) * (1 + UNIT)


@final
class Translation(Rule):
    """Movements of an autoregressive prior, each secret row's own: far windows hardly move (M15, M16).

    A movement that all answers make together in the noise's norm, plus what bringing values onto their grids may add.
    """

    name = "one translation of all rows, along which losses add (M15, M16)"

    def pure(self, asked: Asked) -> float:
        """Return the movement of all sums in units of their Laplace noise."""
        return self._length(asked, Laplace) if _fits(asked) else math.inf

    def renyi(self, asked: Asked, alpha: float) -> float:
        """Return the Rényi loss of the movement of all sums in units of their noise."""
        for family in (Laplace, Gaussian):
            if _fits(asked) and _all_of(asked, family):
                return family(1.0).renyi_within(self._length(asked, family), alpha)
        return math.inf

    def gaussian(self, asked: Asked) -> float:
        """Return the movement of all sums in standard deviations."""
        return self._length(asked, Gaussian) if _fits(asked) else math.inf

    def _length(self, asked: Asked, family: type[Laplace | Gaussian]) -> float:
        if not _all_of(asked, family):
            return math.inf
        found = _together(asked)
        if found is None:
            return math.inf
        statistic, rounding = found
        apart = any(
            cost.shape.unsigned or (cost.shape.rows is not None and cost.shape.rows.covers) for cost in asked.costs
        )
        secret, norm = asked.scenario.secret, family(1.0).norm
        laws = scattered(asked.prior, statistic, secret) if apart else implied(asked.prior, statistic, secret)
        if laws is None:
            return math.inf
        return added([laws.winf(norm).length, float(np.linalg.norm(rounding, norm)) * (1 + len(rounding) * UNIT)])


def _loss(shape: Shape, asked: Asked, alpha: float | None) -> float:
    """Return the loss of one release, ∞ where its movement is not known."""
    moved = _moved(shape, asked)
    noise = shape.noise.noise
    if math.isinf(moved):
        return math.inf
    if alpha is None:
        return noise.pure_within(moved, shape.dimension)
    return noise.renyi_within(moved, alpha, shape.dimension)


def _moved(shape: Shape, asked: Asked) -> float:
    known = [None if _unseen(asked) else shape.moved.get(asked.digest), shape.group]
    return min((length for length in known if length is not None), default=math.inf)


def _unseen(asked: Asked) -> bool:
    """Say whether rows that a release did not see may move it farther than those that it saw.

    Not so where correlations are the same for all rows, or fall off with the distance (M16), nor of first values: there
    is one row whose value is hidden, whichever rows are seen.
    """
    prior, first = asked.prior, isinstance(asked.scenario.secret, Initial)
    known = first or not isinstance(prior, GaussianPrior) or isinstance(prior.covariance, AR1 | Exchangeable)
    return asked.wider and not known


def _deviations(shape: Shape, asked: Asked) -> float:
    moved, scale = _moved(shape, asked), shape.noise.scale
    if scale == 0:
        return 0.0 if moved == 0 else math.inf
    return moved / scale * (1 + UNIT)


def _all_of(asked: Asked, family: type[Noise]) -> bool:
    return all(isinstance(cost.shape.noise.noise, family) and cost.shape.noise.scale > 0 for cost in asked.costs)


def _fits(asked: Asked) -> bool:
    """Say whether the releases are about rows at whole steps of an autoregressive sequence."""
    prior, secret = asked.prior, asked.scenario.secret
    autoregressive = isinstance(prior, GaussianPrior) and isinstance(prior.covariance, AR1)
    placed = all(cost.shape.rows is not None and cost.shape.rows.runs for cost in asked.costs)
    placed = placed and len({cost.clock for cost in asked.costs}) == 1
    linear = all(cost.shape.slopes is not None or cost.shape.values is not None for cost in asked.costs)
    return autoregressive and isinstance(secret, Secret | Initial) and placed and linear


def _together(asked: Asked) -> tuple[Statistic, Floats] | None:
    """Return all sums as answers of one statistic, in units of their noise, and how much rounding adds to each.

    Rows that nobody asks about are rows as well, between the first and the last that somebody does: a secret beyond
    them moves every sum less than the one at the end does (M16).
    """
    spans = [window_of(cost) for cost in asked.costs]
    first, last = int(min(low for low, _ in spans)), int(max(high for _, high in spans))
    if isinstance(asked.scenario.secret, Initial):
        starts = {cost.start for cost in asked.costs}
        if len(starts) > 1 or None in starts:
            return None
        first = min(first, int(next(iter(starts)) or 0))
    answers = sum(len(_cells(cost)) * len(_slopes(cost.shape)) for cost in asked.costs)
    if answers * (last - first) > _MOST_WEIGHTS:
        return None
    weights, tables, rounding = np.zeros((answers, last - first)), list[Floats](), list[float]()
    for cost in asked.costs:
        scale = cost.shape.noise.scale
        growth = cost.shape.rounding or (0.0,) * len(_slopes(cost.shape))
        for cell in _cells(cost):
            runs = [
                (low + cost.shift - first, high + cost.shift - first)
                for low, high, own in runs_of(cost.shape)
                if own == cell
            ]
            for slope, grown in zip(_slopes(cost.shape), growth, strict=True):
                for low, high in runs:
                    weights[len(tables), low:high] = 1.0
                tables.append(slope / scale * (1 + 2 * UNIT))
                rounding.append(sum(high - low for low, high in runs) * grown / scale)
    positions = np.arange(first, last, dtype=np.float64) - first
    return Statistic(weights, np.array(tables), positions, column=asked.costs[0].shape.column), np.array(rounding)


def _slopes(shape: Shape) -> Floats:
    table = np.array(shape.slopes if shape.slopes is not None else shape.values, dtype=np.float64)
    return table - table.min(axis=1, keepdims=True)


def _cells(cost: Cost) -> list[int]:
    return sorted({cell for _, _, cell in runs_of(cost.shape)})
