"""Group privacy: hide every movement between two possible answers (M7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pufferflow.bounds.ball import ball, norm_for, read_norm
from pufferflow.bounds.bound import BallPart, Bound
from pufferflow.bounds.laws import Work, as_laws
from pufferflow.bounds.pairs import Pair
from pufferflow.errors import Refused
from pufferflow.guarantees import Guarantee
from pufferflow.noise import Noise
from pufferflow.suggestions import explained


@final
@explained
@dataclass(frozen=True)
class Group(Bound):
    """The fallback that is always valid (M7): the loss is that of a ball as wide as the answers can lie apart.

    It uses no more of the laws than which answers they allow; it holds for every prior with these supports.

    >>> import pufferflow as pf
    >>> pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 9], [0.9, 0.1])
    >>> pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=Group()).noise
    Laplace(scale=9.0)
    """

    norm: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", read_norm(self.norm))

    def work(self, sizes: Work, guarantee: Guarantee) -> float:
        """Return 0: it is there at once."""
        del sizes, guarantee
        return 0.0

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[BallPart]:
        """Return the ball of the pair with the farthest answers."""
        laws = as_laws(pairs)
        unbounded = Refused(
            "The answers of a pair are not bounded, so no movement is the farthest.",
            allowed="laws with finitely many atoms",
            instead="bound=pf.GWM(), or clipping the answers",
        )
        return [ball(laws.span(norm_for(noise, self.norm, laws.dimension)), unbounded)]
