"""Laws of an answer under all secrets: pairs of laws, or the distances and dependence that bounds need."""

import abc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, cast, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import InternalError, Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.distributions import common_units
from pufferflow.distributions.coupling import Certainty, Distance
from pufferflow.distributions.distances import near, winf
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.state_loss import AnyChain, Exposures, Secrets, leak
from pufferflow.distributions.markov.windows_of_answers import AnswersInWindows, RowSums
from pufferflow.distributions.wasserstein_1d import longest
from pufferflow.noise.base import Noise

AnyLaw = Law | GaussianLaw


@final
@dataclass(frozen=True)
class Pair(InNotebooks):
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
            "A pair has one finite and one Gaussian law.",
            allowed="two laws of the same type; a finite law is infinitely far from a Gaussian one",
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
        "This bound needs finite laws, and a pair has Gaussian ones.",
        allowed="a pair of pf.Law",
        instead="bound=pf.GWM() or pf.DAGWM() for Gaussian laws, or pf.Exact() with pf.Gaussian noise",
    )


class DependentRows(abc.ABC):
    """Rows correlated along edges: the loss of noisy sums of them for one row, for any noise."""

    answers: int
    """How many answers there are."""
    given_away: str = ""
    """The refusal where no noise is enough, if noise without a pure loss may be used at all."""
    shifts: Floats
    """How far a row of each kind moves the answers it touches between two states: shape (kinds, answers, k, k)."""

    @abc.abstractmethod
    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the pure loss of the noisy answers, never below the true one, and the row and states that have it."""

    def renyi(self, noise: Noise, alpha: float) -> tuple[float, Place] | None:
        """Return the Rényi loss of one order where a bound below the pure loss is known; None elsewhere."""
        del noise, alpha
        return None

    def delta(self, noise: Noise, epsilon: float) -> tuple[float, Place] | None:
        """Return the δ at ε where a bound is known for noise without a pure loss; None elsewhere."""
        del noise, epsilon
        return None

    def gdp(self, noise: Noise) -> tuple[float, Place] | None:
        """Return the μ where one is known for noise without a pure loss; None elsewhere."""
        del noise
        return None

    def zcdp(self, noise: Noise) -> tuple[float, Place] | None:
        """Return the ρ where one is known for noise without a pure loss; None elsewhere."""
        del noise
        return None

    def coarse(self) -> "DependentRows":
        """Return the same rows with a coarser loss that is quicker to find and larger; refuse where there is none."""
        raise Refused(
            "Coarse messages need rows that form a single chain.",
            allowed="pf.MarkovChain as the prior",
            instead="bound=pf.Messages()",
        )

    def grown(
        self, growth: Callable[[float], float], group: Callable[[float], float]
    ) -> "DependentRows":
        """Return rows whose movements are longer by `growth`, at most `group`; refused of movements of single rows."""
        raise _no_walks()

    @property
    def reach(self) -> float:
        """How far one row alone moves the answers: the largest sum of its movements of each."""
        return float(self.shifts.sum(axis=1).max(initial=0.0))

    @property
    def farthest(self) -> float:
        """The same in the Euclidean norm, rounded up."""
        squares = (self.shifts**2).sum(axis=1)
        return math.sqrt(float(squares.max(initial=0.0))) * (1 + (self.shifts.shape[1] + 4) * UNIT)

    def exposures(self, noise: Noise) -> Floats | None:
        """Return ℓ for each kind of row, rounded up: losses add over answers with independent noises.

        None if some are infinite: the noise is 0, or it has no pure loss.
        """
        losses = np.asarray(noise.pure(self.shifts)).sum(axis=1)
        return losses * (1 + self.shifts.shape[1] * UNIT) if np.isfinite(losses).all() else None


@final
@dataclass(frozen=True, eq=False)
class DependentChain(DependentRows):
    """The rows of a Markov chain: row t moves the answers it touches by `shifts[kinds[t], :, e, f]` from e to f.

    The rows of a hidden chain do so from symbol e to symbol f.
    """

    answers: int
    chain: AnyChain
    shifts: Floats
    kinds: Indices
    secrets: Secrets
    prior: Any
    labels: tuple[Any, ...]
    single: bool = False
    """Whether each answer is about at most one row."""
    sums: RowSums | None = None
    """What each row adds to which answers, where this is known."""

    def loss(self, noise: Noise) -> tuple[float, Place]:
        """Return the largest of B_t + ℓ_t + F_t (M20)."""
        if not self._secrets_possible:
            return 0.0, self.place(0, self.secrets.pairs[0].tolist())
        losses = self.exposures(noise)
        if losses is None:
            return math.inf, self.place(0, self.secrets.pairs[0].tolist())
        largest = leak(self.chain, Exposures(losses, self.kinds), self.secrets)
        return largest.value, self.place(largest.row, largest.states)

    @property
    def in_windows(self) -> bool:
        """Whether the laws of some answers are known inside their windows."""
        return isinstance(self.chain, Chain) and self.sums is not None and bool(self.sums.windows)

    def loss_in_windows(self, noise: Noise) -> tuple[float, Place]:
        """Return the largest loss by the laws of answers inside windows, with messages between them (M62).

        The noise is Laplace noise, and the rows form one known chain.
        """
        first, losses = self.place(0, self.secrets.pairs[0].tolist()), self.exposures(noise)
        if not self._secrets_possible:
            return 0.0, first
        if losses is None or self.sums is None or not isinstance(self.chain, Chain):
            return math.inf, first
        answers = AnswersInWindows(self.chain, self.sums.windows, self.kinds, self.secrets)
        worst = answers.leak(losses, lambda unit: float(noise.pure(np.array(unit))))
        return worst.value, self.place(worst.row, worst.states)

    def coarse(self) -> DependentRows:
        return (
            replace(self, chain=replace(self.chain, coarse=True))
            if isinstance(self.chain, Chain | HiddenChain)
            else super().coarse()
        )

    @cached_property
    def _secrets_possible(self) -> bool:
        return bool(self.secrets.possible(self.chain).any())

    def place(self, row: int, states: Sequence[int]) -> Place:
        """Return a row and two of its states, by their names."""
        first, second = (self.labels[state] for state in states)
        return Place(self.answers, self.prior, (first, second), row)


_ROWS = 1 << 20
MOST_COMPARED = 6_000_000
"""The most atoms, of vectors the most pairs of atoms, of laws that are compared pair by pair."""


@final
@dataclass(frozen=True)
class Reach:
    """A movement of the answer between two secrets, its certainty, and the pair that attains it."""

    length: float
    certainty: Certainty
    witness: Witness


SMALL = 1e6
"""A bound that compares no more numbers than this is always tried."""
LARGE = 2.5e7
"""A bound that compares more numbers than this is tried only if it is named, or if no other proves anything."""


class LawsSize(NamedTuple):
    """The numbers that say how large laws are: no clock decides which bounds are tried."""

    pairs: float = 1.0
    laws: float = 1.0
    """The number of laws that are compared in pairs."""
    atoms: float = 1.0
    """The number of values of a law; infinite where laws are not listed."""
    messages: float = 0.0
    """The number of entries of messages that are compared along the rows."""
    coarse: float = math.inf
    """The same for coarse messages; infinite where they are of no use, because the others are few."""
    windows: float = 0.0
    """The number of likelihoods of answers in windows; 0 where there are none."""


SMALLEST: Final = LawsSize()
"""The size of laws that are known already, and of movements."""


class Laws(InNotebooks, Sequence[Pair], abc.ABC):
    """The pairs of laws of one answer, and the distances that hold for all of them.

    A bound uses a movement (`winf`, `near`, `span`), the chain behind the laws (`walks`), or all `pairs`. A subclass
    overrides the method of a distance if its prior gives that distance without listing pairs.

    >>> import pufferflow as pf
    >>> scenario = pf.Scenario(secret=pf.Secret("paid", domain=[0, 1]), prior=pf.AnyCorrelation())
    >>> laws = pf.laws(scenario, pf.Statistic.total(10))
    >>> isinstance(laws, Laws), pf.calibrate(laws, pf.Pure(1.0)).noise
    (True, Laplace(scale=10.0))
    """

    dimension: int
    """The number of coordinates of the answer."""
    certainty: Certainty = Certainty.EXACT
    """The relation of the pairs to the laws that the prior implies."""
    movement_only: bool = False
    """Whether the pairs represent a movement, not laws: then no bound is below that of its length."""
    constant: bool = False
    """Whether both laws of every pair are constants: then no bound by movement is below that of W_∞."""

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        """All pairs, listed; refused where there are too many, or they are not known one by one."""
        raise InternalError(
            f"{type(self).__name__} lists no pairs.", instead="reporting it to the maintainers"
        )

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, place: int) -> Pair:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices here
        return self.pairs[place]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def __bool__(self) -> bool:
        return True  # also where pairs are not counted

    @cached_property
    def size(self) -> LawsSize:
        """How large the laws are; laws that are listed already count as the smallest."""
        return SMALLEST

    def at(self, witness: Witness) -> Pair | None:
        """Return the pair of laws at a row and two secrets; None where listing one is no easier than listing all."""
        return None

    def least_loss(self, rate: float, witness: Witness) -> float:
        """Return a lower bound on the pure loss of answers with Laplace noise of scale 1/rate; 0 if none is quick.

        Far out the density of such an answer is proportional to E e^{±rate·answer}. It is computed at the witness.
        """
        return 0.0

    @cached_property
    def small(self) -> bool:
        """Whether listing the pairs and finding a coupling for each takes only seconds."""
        return True

    def _comparable(self) -> bool:
        """Return whether pairs can be listed, and are small enough to be compared; only vectors take products."""
        try:
            laws = [
                (mu, nu) for mu, nu in self.pairs if isinstance(mu, Law) and isinstance(nu, Law)
            ]
        except Refused:
            return False
        sizes = [len(mu) + len(nu) if mu.dimension == 1 else len(mu) * len(nu) for mu, nu in laws]
        return sum(sizes) <= MOST_COMPARED

    def winf(self, norm: float) -> Reach:
        """Return the largest W_∞ of a pair."""
        return _farthest(self, lambda pair: winf(pair.mu, pair.nu, norm))

    def least(self, delta: float, norm: float) -> float:
        """Return a lower bound on the largest z at which a pair is (z, delta)-near; 0 if none is quick to find."""
        return 0.0

    def near(self, delta: float, norm: float) -> Reach:
        """Return the largest z at which a pair is (z, delta)-near."""
        return _farthest(self, lambda pair: near(pair.mu, pair.nu, delta, norm))

    def span(self, norm: float) -> Reach:
        """Return the largest distance between answers that two secrets allow (M7)."""
        return longest_reach([_span(pair, norm) for pair in self])

    def walks(self) -> Sequence[DependentRows]:
        """Return the sequences or trees along which rows are correlated; refuse where there are none."""
        raise _no_walks()


def _no_walks() -> Refused:
    return Refused(
        "This bound works along chains, and these laws do not come from a chain.",
        allowed="bound=pf.Messages() or pf.Quilt() where the prior is a pf.MarkovChain or pf.LatentClass",
        instead='bound=pf.GWM(), or bound="auto"',
    )


@final
class ListedLaws(Laws):
    """Pairs of laws in a list; `lengths` are how far apart the laws of all pairs are, if these are constants (M2)."""

    def __init__(
        self, pairs: Sequence[Pair], lengths: Callable[[float], Floats] | None = None
    ) -> None:
        self._pairs, self._lengths = pairs, lengths
        self.dimension, self.constant = (pairs[0].dimension if pairs else 1), lengths is not None

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        return self._pairs

    def winf(self, norm: float) -> Reach:
        return self._apart(norm) or super().winf(norm)

    def near(self, delta: float, norm: float) -> Reach:
        """Return how near the laws are: two constants differ with certainty, and delta is below 1."""
        return self._apart(norm) or super().near(delta, norm)

    def span(self, norm: float) -> Reach:
        return self._apart(norm) or super().span(norm)

    def _apart(self, norm: float) -> Reach | None:
        """Return the longest distance of two constants."""
        if self._lengths is None:
            return None
        lengths = self._lengths(norm)
        place = int(lengths.argmax())
        return Reach(float(lengths[place]), Certainty.EXACT, self._pairs[place])


@final
class SeveralLaws(Laws):
    """Laws of one answer from several priors or patterns; each of them has to be indistinguishable by itself."""

    def __init__(self, pieces: Sequence[Laws]) -> None:
        self.pieces = [
            piece
            for laws in pieces
            for piece in (laws.pieces if isinstance(laws, SeveralLaws) else [laws])
        ]
        self.dimension = max((laws.dimension for laws in self.pieces), default=1)

    @cached_property
    def pairs(self) -> Sequence[Pair]:
        return [pair for laws in self.pieces for pair in laws]

    def __len__(self) -> int:
        return sum(len(laws) for laws in self.pieces)

    def __getitem__(self, place: int) -> Pair:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices here
        for laws in self.pieces:
            if place < len(laws):
                return laws[place]
            place -= len(laws)
        raise IndexError(place)

    def __iter__(self) -> Iterator[Pair]:
        return (pair for laws in self.pieces for pair in laws)

    def winf(self, norm: float) -> Reach:
        return max((laws.winf(norm) for laws in self.pieces), key=lambda reach: reach.length)

    def near(self, delta: float, norm: float) -> Reach:
        return max((laws.near(delta, norm) for laws in self.pieces), key=lambda reach: reach.length)

    def span(self, norm: float) -> Reach:
        return max((laws.span(norm) for laws in self.pieces), key=lambda reach: reach.length)


def read_laws(given: object) -> list[Laws]:
    """Return pairs, laws or both as one or more laws.

    All pairs have one dimension. Laws may differ in dimension: rows in two cells and rows in three have answers of
    different lengths.
    """
    if isinstance(given, Laws):
        return given.pieces if isinstance(given, SeveralLaws) else [given]
    if isinstance(given, Iterable) and not isinstance(given, Pair | Law | GaussianLaw):
        given = list(cast(Iterable[object], given))
        laws = [item for item in given if isinstance(item, Laws)]
        pairs = [item for item in given if not isinstance(item, Laws)]
        listed = [ListedLaws(read_pairs(pairs))] if pairs or not laws else []
        return [*(SeveralLaws(laws).pieces if laws else []), *listed]
    return [ListedLaws(read_pairs(given))]


def only_if_small(pairs: Sequence[Pair]) -> None:
    """Refuse laws that are too many or too large to find a coupling for each pair."""
    if isinstance(pairs, Laws) and not pairs.small:
        raise Refused(
            "These laws of vectors have too many values to couple every pair.",
            allowed="joint laws of a few hundred values",
            instead="bound=pf.Messages(), pf.GWM() or pf.Group(), or fewer answers at once",
        )


def as_laws(pairs: Sequence[Pair]) -> Laws:
    """Return pairs as laws."""
    return pairs if isinstance(pairs, Laws) else ListedLaws(pairs)


def longest_reach(reaches: Sequence[Reach]) -> Reach:
    """Return the longest reach of all pairs (equal in both orders), exact only if every reach is."""
    worst = max(reaches, key=lambda reach: reach.length)
    exact = all(reach.certainty == Certainty.EXACT for reach in reaches)
    return replace(worst, certainty=Certainty.EXACT if exact else Certainty.UPPER_BOUND)


def _farthest(pairs: Iterable[Pair], distance: Callable[[Pair], Distance[Any]]) -> Reach:
    lengths = [(pair, distance(pair)) for pair in pairs]
    return longest_reach([Reach(float(length), length.certainty, pair) for pair, length in lengths])


def _span(pair: Pair, norm: float) -> Reach:
    """Return the largest distance between an atom of either law."""
    mu, nu = pair
    if isinstance(mu, GaussianLaw) or isinstance(nu, GaussianLaw):
        same = mu == nu and not mu.covariance.any() if isinstance(mu, GaussianLaw) else False
        return Reach(0.0 if same else math.inf, Certainty.EXACT, pair)
    left, right = common_units.values(mu, nu)
    if mu.dimension == 1:
        return Reach(longest(left[[0, -1]], right[[-1, 0]]), Certainty.EXACT, pair)
    return Reach(_span_of_vectors(mu, nu, norm), Certainty.UPPER_BOUND, pair)


def _span_of_vectors(mu: Law, nu: Law, norm: float) -> float:
    left, right = (np.asarray(values, dtype=np.float64) for values in (mu.values, nu.values))
    rows = max(_ROWS // len(right), 1)
    widest = 0.0
    for start in range(0, len(left), rows):
        steps = np.abs(left[start : start + rows, None, :] - right[None, :, :])
        widest = max(widest, float(common_units.norms(np.moveaxis(steps, -1, 0), norm).max()))
    size = float(max(np.abs(left).max(), np.abs(right).max()))
    rounded = size * UNIT * mu.dimension if object in (mu.values.dtype, nu.values.dtype) else 0.0
    return upwards(widest, 8 * mu.dimension * UNIT) + rounded
