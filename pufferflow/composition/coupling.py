"""One coupling of whole data sets, chosen before anything is asked: losses along it add, adaptively (M1, M24).

Under a Gaussian prior, a diffusion or weak dependence data under two secrets are coupled once and for all, row by row;
where nothing is known of how rows hang together, or no better coupling is, every row of the group may change (M7).
"""

import math
from typing import final

from pufferflow.composition.cost import Shape
from pufferflow.composition.movements import FAMILIES, Movements
from pufferflow.composition.rule import Asked, Rule, added
from pufferflow.composition.single import beyond
from pufferflow.noise import Gaussian
from pufferflow.priors import AR1, Exchangeable, GaussianPrior
from pufferflow.rounding import UNIT
from pufferflow.secrets import Initial


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

    A movement that all answers make together in the noise's norm, plus what bringing values onto their grids may add:
    to every release or, with a probability to spare, to those about rows near the secret one only.
    """

    name = "one translation of all rows, along which losses add (M15, M16)"

    def pure(self, asked: Asked) -> float:
        """Return the movement of all sums in units of their Laplace noise."""
        return self._length(asked, 1)

    def renyi(self, asked: Asked, alpha: float) -> float:
        """Return the Rényi loss of the movement of all sums in units of their noise."""
        lengths = [(family, self._length(asked, norm)) for norm, family in FAMILIES.items()]
        known = [family(1.0).renyi_within(length, alpha) for family, length in lengths if math.isfinite(length)]
        return min(known, default=math.inf)

    def gaussian(self, asked: Asked) -> float:
        """Return the movement of all sums in standard deviations."""
        return self._length(asked, 2)

    def _length(self, asked: Asked, norm: int) -> float:
        if not Movements.fit(asked.scenario, asked.prior):
            return math.inf
        if asked.movements is not None:
            return asked.movements.length(norm, asked.more, spare=asked.spare, schedule=asked.schedule)
        return Movements(asked.scenario, asked.prior, asked.costs).length(norm, spare=asked.spare)


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
    if beyond(asked):
        return True
    prior, first = asked.prior, isinstance(asked.scenario.secret, Initial)
    known = first or not isinstance(prior, GaussianPrior) or isinstance(prior.covariance, AR1 | Exchangeable)
    return asked.wider and not known


def _deviations(shape: Shape, asked: Asked) -> float:
    moved, scale = _moved(shape, asked), shape.noise.scale
    if scale == 0:
        return 0.0 if moved == 0 else math.inf
    return moved / scale * (1 + UNIT)
