"""Pairs of laws: the answer under two values of a secret, with their prior, secrets and row."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast, final

from pufferflow.core.errors import Refused, UsageError
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw

AnyLaw = Law | GaussianLaw


@final
@dataclass(frozen=True)
class Pair:
    """The laws of an answer under two values of a secret, with the prior, the secrets and the row, if known.

    It unpacks like the tuple (mu, nu), which may be passed instead wherever pairs are expected.

    >>> import pufferflow as pf
    >>> mu, nu = pf.Pair(pf.Law.point(0), pf.Law.point(1), prior="independent", secrets=("no", "yes"))
    >>> nu
    Law([1], [Fraction(1, 1)])
    """

    mu: AnyLaw
    nu: AnyLaw
    prior: Any = None
    secrets: tuple[Any, Any] | None = None
    row: int | None = None

    def __iter__(self) -> Iterator[AnyLaw]:
        return iter((self.mu, self.nu))

    @property
    def dimension(self) -> int:
        """The number of coordinates of the answer."""
        return self.mu.dimension

    def swapped(self) -> "Pair":
        """Return the pair in the other order."""
        return Pair(self.nu, self.mu, self.prior, self.secrets and self.secrets[::-1], self.row)


@final
@dataclass(frozen=True)
class Place:
    """The place where a loss or a movement is largest, if no laws are listed: prior, secrets and row."""

    dimension: int
    prior: Any
    secrets: tuple[Any, Any]
    row: int


Witness = Pair | Place


def read_pairs(pairs: object) -> list[Pair]:
    """Return the pairs without repetitions; every bound uses them in both orders."""
    if isinstance(pairs, Pair | Law | GaussianLaw) or not isinstance(pairs, Iterable):
        raise _bad_pairs(f"The pairs are of type {type(pairs).__name__}.")
    read = [_read_pair(pair) for pair in cast(Iterable[object], pairs)]
    if not read:
        raise _bad_pairs("No pairs were given, so there is nothing to hide.")
    same_dimension({law.dimension for pair in read for law in pair})
    known: set[tuple[AnyLaw, AnyLaw]] = set()
    distinct: list[Pair] = []
    for pair in read:
        if (pair.mu, pair.nu) not in known:
            known.update([(pair.mu, pair.nu), (pair.nu, pair.mu)])
            distinct.append(pair)
    return distinct


def same_dimension(dimensions: set[int]) -> None:
    """Refuse answers of different dimensions among the laws."""
    if len(dimensions) > 1:
        raise UsageError(
            f"The laws have dimensions {sorted(dimensions)}.",
            allowed="laws of one dimension",
            instead="law.map(...) to bring them to one dimension",
        )


def _read_pair(given: object) -> Pair:
    if isinstance(given, Pair):
        pair = given
    elif isinstance(given, tuple | list) and len(cast(tuple[Any, ...], given)) == 2:
        pair = Pair(*cast(tuple[AnyLaw, AnyLaw], given))
    else:
        raise _bad_pairs(f"A pair is of type {type(cast(object, given)).__name__}.")
    kinds = {type(law) for law in pair}
    if not kinds <= {Law, GaussianLaw}:
        raise _bad_pairs(f"A pair has laws of types {sorted(kind.__name__ for kind in kinds)}.")
    if len(kinds) > 1:
        raise UsageError(
            "A pair has a finite and a Gaussian law.",
            allowed="the same kind on both sides; laws of different kinds are infinitely far apart",
            instead="two pf.Law, or two pf.GaussianLaw",
        )
    return pair


def _bad_pairs(problem: str) -> UsageError:
    return UsageError(
        problem,
        allowed="a list of pairs of laws, (mu, nu) or pf.Pair",
        instead="[(pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1], [0.4, 0.6]))]",
    )


def finite_laws(pair: Pair) -> tuple[Law, Law]:
    """Return both laws of a pair that is known to be finite."""
    mu, nu = pair
    if isinstance(mu, Law) and isinstance(nu, Law):
        return mu, nu
    raise Refused(
        "A pair of Gaussian laws where finite ones are needed.",
        allowed="a pair of pf.Law",
        instead="bound=pf.GWM() or pf.DAGWM() for Gaussian laws, or pf.Exact() with pf.Gaussian noise",
    )
