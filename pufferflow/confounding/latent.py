"""The two latent Gaussian numbers of a copula, and what of them depends on a secret (M28, DCP's Appendix A-B).

DCP draws z₁ = η(s) + noise, and ẑ₂ from it. Two of its claims exclude each other. If the numbers u of the copula are
found with the distribution functions given s, then u has the same law for every s. Both releases keep their own laws
(Theorem 4 (i)), and η has no effect at all. If one distribution function serves all s, the copula reveals s as
Gaussian noise does, and then the releases' own laws move with the secret.

So there are two ways here. A *correlation* for every value of the secret leaves the releases' own laws as they are. A
*mean* for every value moves them: z₁ has this mean, in deviations, and z₂ the correlation times as much. DCP's z₁ of
mean η and deviation σ has the mean η/σ here, and its ρ is the correlation ρσ/√(ρ²σ² + 1 − ρ²).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, final

from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, set_fields
from pufferflow.models.domain import Label
from pufferflow.noise.channel import columns_of

_INSTEAD = 'pf.confounding.CopulaBySecret("ill", {"no": 0.2, "yes": 0.6})'
_FARTHEST = 4.0


class Tie(NamedTuple):
    """The correlation of two latent Gaussian numbers of variance 1, and their means."""

    correlation: float
    first: float = 0.0
    second: float = 0.0

    @property
    def turned(self) -> "Tie":
        """The same with the numbers in the other order."""
        return Tie(self.correlation, self.second, self.first)


def read_correlation(given: object) -> float:
    """Return a correlation that leaves some randomness to both noises."""
    return finite_number(
        given,
        "correlation",
        allowed="a number with -1 < correlation < 1",
        instead="correlation=0.5",
        fits=lambda one: -1 < one < 1,
    )


@final
@suggests_arguments
@dataclass(frozen=True)
class CopulaBySecret(InNotebooks):
    """A Gaussian copula for every value of a secret: its correlation, and the mean of the first latent number.

    `correlation` is a number, or one for every value of the column. `means` are in deviations of the first latent
    number; the second moves by the correlation times as much. Correlations leave the releases' own laws as they are.
    Means move them, so the releases reveal the secret by themselves too. `copula_cost` says what the copula reveals.

    >>> CopulaBySecret("ill", 0.5, means={"no": 0.0, "yes": 0.3}).tie("yes")
    Tie(correlation=0.5, first=0.3, second=0.15)
    """

    column: str
    ties: tuple[tuple[Label, Tie], ...]

    def __init__(
        self,
        column: str,
        correlation: float | Mapping[Any, float],
        *,
        means: Mapping[Any, float] | None = None,
    ) -> None:
        given = [one for one in (correlation, means) if isinstance(one, Mapping)]
        known = set(given[0]) if given else set[Any]()
        lists = means is not None and not isinstance(cast(object, means), Mapping)
        if lists or len(known) < 2 or any(set(one) != known for one in given):
            raise UsageError(
                "correlation and means do not have a number for every value of a secret, the same values in both.",
                allowed="a dict with a number for each value in at least one of them, for two values or more",
                instead=_INSTEAD,
            )
        ties: list[tuple[Label, Tie]] = []
        for value in given[0]:
            rho = read_correlation(
                correlation[value] if isinstance(correlation, Mapping) else correlation
            )
            mean = 0.0 if means is None else _mean(means[value])
            ties.append((cast(Label, value), Tie(rho, mean, rho * mean)))
        (name,) = columns_of([column])
        set_fields(self, column=name, ties=tuple(ties))

    @property
    def values(self) -> tuple[Label, ...]:
        """The values of the secret."""
        return tuple(value for value, _ in self.ties)

    def tie(self, value: Any) -> Tie:
        """Return the correlation and the means of one value of the secret."""
        for known, tie in self.ties:
            if known == value:
                return tie
        raise UsageError(
            f"A value of {self.column!r} has no copula.",
            allowed=f"the {len(self.ties)} values that the copula is given for",
            instead=_INSTEAD,
        )


def _mean(given: object) -> float:
    return finite_number(
        given,
        "A mean",
        allowed=f"numbers from {-_FARTHEST:g} to {_FARTHEST:g}, in deviations of the latent number",
        instead='means={"no": 0.0, "yes": 0.3}',
        fits=lambda one: abs(one) <= _FARTHEST,
    )
