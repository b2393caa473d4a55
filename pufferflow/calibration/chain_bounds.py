"""The bounds Messages (M20), Windows (M62) and Quilt (M19) for `bound=`, and those of rows with a loss each (M37, M38).

Take any one row, all others fixed. If the trade-off of the answers is no worse than that of two normal laws μ standard
deviations apart, they are μ-Gaussian in each row. Several releases are μ-Gaussian with the root of the sum of squares,
adaptively. Two ways lead from single rows to the chain.

In the first (`RowBridge`, M37), the mechanism keeps (ε₀, δ₀) in each row for every ε₀, with δ₀ the hockey stick of both
normal laws. Along the chain it keeps ε(ε₀) with δ = growth(ε₀)·δ₀. The ε₀ with the smallest ε for a δ is searched; the
result is valid for any ε₀.

In the second (M38), rows are coupled step by step, so that n rows differ with a known probability. They move all
answers by at most n·μ standard deviations.

A third way holds only where each answer is about one row (M38 (i)). Rényi losses are carried along the chain. Gaussian
noise has them for every order at once, so the best order counts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, final

import numpy as np

from pufferflow.calibration.bound import Bound, LossCurve, Worst, impossible
from pufferflow.calibration.laws import (
    SMALL,
    DependentChain,
    DependentRows,
    Laws,
    Pair,
    Place,
    Witness,
    as_laws,
)
from pufferflow.calibration.transport_bounds import mean_of_shifts
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import UNIT, largest_without, smallest
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.distributions.coupling import Certainty
from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.differing_rows import DifferingRows
from pufferflow.distributions.markov.hidden_chain import HiddenChain
from pufferflow.distributions.markov.quilts import Quilts, approximate_quilts, exact_quilts
from pufferflow.distributions.markov.row_mechanisms import RowLeak, leak_of_rows
from pufferflow.distributions.markov.single_answers import losses_of_answers
from pufferflow.distributions.markov.state_loss import AnyChain, Secrets
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.conversions import (
    gaussian_deltas,
    renyi_to_approx,
    renyi_to_delta,
    two_point_delta,
)
from pufferflow.privacy.guarantee import Approx, Divergence, Guarantee, GuaranteeFamily, Pure
from pufferflow.privacy.renyi import Renyi, Zcdp

_STEPS = 8
"""The number of steps per octave of ε₀ in the search for the best one."""
_LEAST, _MOST = -40 * _STEPS, 4 * _STEPS
_FINE_TOLERANCE = 1e-9
_TINY = 1e-300
_SURELY = 1 + 64 * UNIT
_LARGEST = 600.0
_EVERYTHING = RowLeak(math.inf, math.inf, endless=False)


@final
@dataclass(frozen=True, eq=False)
class RowBridge:
    """The bridge from single rows to a chain; with `endless` it holds for sequences of any number of turns.

    >>> chain = Chain(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.zeros(4000, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> bridge = RowBridge(chain, Secrets(np.array([[0, 1], [1, 0]])), endless=True)
    >>> round(1 / bridge.deviations(1.0, 1e-6), 5), round(bridge.epsilon(1 / 36.586640, 1e-6), 6)
    (36.58664, 1.0)
    """

    chain: AnyChain
    secrets: Secrets
    endless: bool = False
    _leaks: dict[float, RowLeak] = field(default_factory=dict[float, RowLeak], repr=False)

    def epsilon(self, deviations: float, delta: float) -> float:
        """Return an ε kept with a δ by mechanisms that are `deviations`-Gaussian in each row; ∞ if none is found."""
        if deviations == 0:
            return 0.0
        if not (math.isfinite(deviations) and 0 < delta < 1):
            return math.inf

        def excess(epsilon: float) -> float:
            return self._excess(deviations, delta, epsilon)

        high = self._enough(excess)
        return math.inf if high is None else self.leak(smallest(excess, high, _FINE_TOLERANCE)).loss

    def deviations(self, epsilon: float, delta: float) -> float:
        """Return the largest μ found that keeps an ε with a δ along the chain; 0 if none does."""
        if not (0 < epsilon < math.inf and 0 < delta < 1):
            return 0.0
        own = self.row_loss(epsilon)
        return (
            largest_without(lambda one: self._excess(one, delta, own), 1.0, _FINE_TOLERANCE)
            if own
            else 0.0
        )

    def row_loss(self, epsilon: float) -> float:
        """Return the largest pure loss found for each row that keeps an ε along the chain; 0 if none does."""
        if not 0 < epsilon < math.inf:
            return 0.0
        # no row loses more than the chain
        return largest_without(
            lambda one: self.leak(one).loss / epsilon - 1, epsilon, _FINE_TOLERANCE
        )

    def _excess(self, deviations: float, delta: float, epsilon: float) -> float:
        """Return the log of the factor by which the δ that follows from ε₀ exceeds the wanted one."""
        own = min(float(gaussian_deltas(np.array([deviations]), epsilon)[0]), 1.0)
        return math.log(max(self.leak(epsilon).growth * own * _SURELY, _TINY) / delta)

    def leak(self, epsilon: float) -> RowLeak:
        """Return the chain's loss for a loss ε₀ of each row, with the factor of its δ₀."""
        if epsilon not in self._leaks:
            self._leaks[epsilon] = self._leak(epsilon)
        return self._leaks[epsilon]

    def _leak(self, epsilon: float) -> RowLeak:
        if not epsilon <= _LARGEST:  # beyond it nothing is hidden, and exponentials overflow
            return _EVERYTHING
        found = self._leak_along(self.chain, epsilon)
        return (
            self._leak_along(self._coarse, epsilon)
            if found is _EVERYTHING and self._coarse is not None
            else found
        )

    @cached_property
    def _coarse(self) -> Chain | HiddenChain | None:
        """The same endless chain with coarser messages, which converge sooner; None if there is none."""
        chain = self.chain
        if isinstance(chain, Chains) or not self.endless or chain.states <= 2 or chain.coarse:
            return None
        return replace(chain, coarse=True)

    def _leak_along(self, chain: AnyChain, epsilon: float) -> RowLeak:
        try:
            found = leak_of_rows(chain, epsilon, self.secrets)
        except Refused:  # a state with a probability too small for a float
            return _EVERYTHING
        known = (
            (found.endless or not self.endless)
            and math.isfinite(found.loss)
            and math.isfinite(found.growth)
        )
        return found if known else _EVERYTHING

    def _enough(self, excess: Callable[[float], float]) -> float | None:
        """Return a step of ε₀ without excess that follows a step with excess; None if there is none."""
        low, high = _LEAST, _MOST
        while not excess(_at(high)) <= 0:
            high -= _STEPS // 2
            if high < -2 * _MOST:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if excess(_at(middle)) <= 0 else (middle, high)
        return _at(high)


def _at(place: int) -> float:
    return 2.0 ** (place / _STEPS)


ROW_BY_ROW: Final = "row by row along the chain (M37)"
STEP_BY_STEP: Final = "rows of the chain coupled step by step (M38)"
SINGLE_ANSWERS: Final = "answers about single rows, by Rényi losses (M38)"
_TOLERANCE = 1e-6
_OCTAVES_OF_ORDERS = np.arange(-8, 25) / 2
"""log₂(α − 1) of the orders that are tried first."""
_OCTAVES_OF_ALL = np.arange(-8 * 8, 24 * 8 + 1) / 8
"""Those that bound all orders together."""
_FINER = (np.arange(-4, 5) / 8, np.arange(-4, 5) / 64)
"""Those around the best order that are tried next, and after them."""


@final
@dataclass(frozen=True, eq=False)
class ChainedRows:
    """Rows along a chain, or a class of chains; with `endless` results hold for any number of further turns.

    >>> chain = Chain(np.array([[[0.9, 0.1], [0.1, 0.9]]]), np.zeros(23, dtype=np.intp), np.array([[0.5, 0.5]]))
    >>> rows = ChainedRows(chain, Secrets(np.array([[0, 1], [1, 0]])))
    >>> loss, proof = rows.loss(Approx.of(delta=1e-6), 0.03)
    >>> round(loss, 3), proof
    (1.096, 'row by row along the chain (M37)')
    """

    chain: AnyChain
    secrets: Secrets
    endless: bool = False
    _known: dict[tuple[Any, ...], tuple[float, str]] = field(
        default_factory=dict[tuple[Any, ...], tuple[float, str]], repr=False
    )

    def loss(self, kind: GuaranteeFamily, row: float, group: float = math.inf) -> tuple[float, str]:
        """Return the loss of a kind, and the proof, of releases `row`-Gaussian in each row, `group`-Gaussian in all.

        It is ∞ for guarantees that neither way proves: pure ones, and those of all orders together.
        """
        return self._once(("any", kind.example, row, group), lambda: self._loss(kind, row, group))

    def _once(
        self, asked: tuple[Any, ...], compute: Callable[[], tuple[float, str]]
    ) -> tuple[float, str]:
        """Return what was computed before: releases of a schedule have the same deviations."""
        if asked not in self._known:
            self._known[asked] = compute()
        return self._known[asked]

    def _loss(self, kind: GuaranteeFamily, row: float, group: float) -> tuple[float, str]:
        losses = [(self._coupled(kind, row, group), STEP_BY_STEP)]
        delta = kind.example.delta
        if kind.example.divergence is Divergence.HOCKEY_STICK and 0 < delta < 1:
            epsilon = self.bridge.epsilon(row, delta)
            losses.append(
                (
                    kind.loss_from(Approx(epsilon, delta)) if epsilon < math.inf else math.inf,
                    ROW_BY_ROW,
                )
            )
        return min(losses)

    def deviations(self, promise: Guarantee, group: float = math.inf) -> tuple[float, str]:
        """Return the most standard deviations that a row may move answers under a guarantee, and the proof; 0 if none.

        All rows of a group together move them by at most `group` times as many.
        """
        return min(
            max((self._carried_over(one), ROW_BY_ROW), (self._of_pairs(one, group), STEP_BY_STEP))
            for one in promise.singles
        )

    def answers_loss(self, kind: GuaranteeFamily, row: float) -> tuple[float, str]:
        """Return the loss of a kind, and the proof, of answers about one row each, all `row`-Gaussian in every row.

        It is ∞ for guarantees that no single Rényi order proves, and for classes of chains.
        """
        return self._once(("single", kind.example, row), lambda: self._answers_loss(kind, row))

    def _answers_loss(self, kind: GuaranteeFamily, row: float) -> tuple[float, str]:
        delta, alpha = kind.example.delta, kind.example.alpha
        if row == 0:
            return 0.0, SINGLE_ANSWERS
        if kind.example.divergence is Divergence.RENYI:
            (loss,) = self.of_orders(row, np.array([alpha])).tolist()
            return (
                kind.loss_from(Renyi(alpha, loss)) if loss < math.inf else math.inf
            ), SINGLE_ANSWERS
        if kind.example.divergence is Divergence.CONCENTRATED:
            return self._of_all_orders(row), SINGLE_ANSWERS
        if kind.example.divergence is not Divergence.HOCKEY_STICK or not 0 < delta < 1:
            return math.inf, SINGLE_ANSWERS
        epsilon = self._of_best_order(row, delta)
        return (
            kind.loss_from(Approx(epsilon, delta)) if epsilon < math.inf else math.inf
        ), SINGLE_ANSWERS

    def _of_all_orders(self, row: float) -> float:
        """Return a ρ with Rényi losses of at most ρα for every order.

        Between two orders the loss of the larger one counts. No message is above the largest log ratio of a kernel's
        rows, which counts alone beyond the last order.
        """
        if not (isinstance(self.chain, Chain) and math.isfinite(row)):
            return math.inf
        orders, own = 1 + 2.0**_OCTAVES_OF_ALL, row * row / 2 * (1 + 8 * UNIT)
        ratios = _widest_ratio(self.chain.forward.rows) + _widest_ratio(self.chain.backward.rows)
        losses = np.minimum(self.of_orders(row, orders), orders * own + ratios)
        between = losses / np.concatenate([[1.0], orders[:-1]])
        return max(float(between.max()), own + ratios / float(orders[-1])) * (1 + 8 * UNIT)

    def _of_best_order(self, row: float, delta: float) -> float:
        """Return the least ε that an order gives at δ (M29).

        All orders hold at once: one bound on the squared deviations of each row bounds the Rényi loss of every order.
        """
        return self.best_order(row, lambda order, loss: renyi_to_approx(order, loss, delta))

    def best_order(self, row: float, convert: Callable[[float, float], float]) -> float:
        """Return the least of the converted Rényi losses of answers about one row each, by order and loss."""
        best, octave = math.inf, 0.0
        for steps in (_OCTAVES_OF_ORDERS, *_FINER):
            octaves = octave + steps
            orders = 1 + 2.0**octaves
            losses = self.of_orders(row, orders)
            pairs = zip(orders.tolist(), losses.tolist(), strict=True)
            found = [convert(*pair) if pair[1] < math.inf else math.inf for pair in pairs]
            place = int(np.argmin(found))
            best, octave = min(best, found[place]), float(octaves[place])
            if best == math.inf:
                break
        return best

    def of_orders(self, row: float, orders: Floats) -> Floats:
        """Return the Rényi losses of some orders of answers about one row each; ∞ where none is known."""
        if not (isinstance(self.chain, Chain) and math.isfinite(row)):
            return np.full(len(orders), math.inf)
        own = orders * (row * row / 2) * (1 + 4 * UNIT)
        return losses_of_answers(self.chain, own, orders, self.secrets, longer=self.endless).losses

    def pure_loss(self, row: float) -> float:
        """Return the pure loss along the chain of releases with the pure loss `row` in each row (M35)."""
        return self.bridge.leak(row).loss if row else 0.0

    def pure_row(self, epsilon: float) -> float:
        """Return the largest pure loss found for each row with which the chain's is at most epsilon."""
        return self.bridge.row_loss(epsilon)

    @cached_property
    def bridge(self) -> RowBridge:
        """The bridge from losses of single rows to that of the chain."""
        return RowBridge(self.chain, self.secrets, self.endless)

    def _carried_over(self, promise: Guarantee) -> float:
        if promise.divergence is not Divergence.HOCKEY_STICK:
            return 0.0
        return self.bridge.deviations(promise.loss, promise.delta)

    def _of_pairs(self, promise: Guarantee, group: float) -> float:
        kind = promise.kind
        if kind is None or kind.example.divergence not in (
            Divergence.HOCKEY_STICK,
            Divergence.RENYI,
        ):
            return 0.0

        def excess(row: float) -> float:
            return self._coupled(kind, row, group * row) / max(promise.loss, math.ulp(0.0)) - 1

        return largest_without(excess, 1.0, _TOLERANCE)

    def _coupled(self, kind: GuaranteeFamily, row: float, group: float) -> float:
        """Return the mean loss over the number of rows that differ (M1, M38)."""
        if (
            kind.example.divergence not in (Divergence.HOCKEY_STICK, Divergence.RENYI)
            or self._differing is None
        ):
            return math.inf
        counts, masses = self._differing
        with np.errstate(over="ignore", invalid="ignore"):
            shifts = (
                np.minimum(counts * row * (1 + 2 * UNIT), group) if row else np.zeros(len(counts))
            )
        return mean_of_shifts(shifts, masses, kind)

    @cached_property
    def _differing(self) -> tuple[Floats, Floats] | None:
        """Numbers of differing rows and their probabilities, ∞ for many in an endless chain; None if unknown.

        "Many" is half of the rows of the chain: the other half holds a secret row of every phase.
        """
        chain = self.chain
        if isinstance(chain, HiddenChain):
            if not self.secrets.hidden:
                return None
            chain = chain.along  # rows with the same hidden state show the same
        most = self.chain.length // 2 if self.endless else None
        try:
            counts, masses = DifferingRows.of(chain).counts(most)
        except Refused:  # a state with a probability too small for a float
            return None
        numbers = counts.astype(np.float64)
        if most is not None:
            numbers[counts > most] = math.inf
        return numbers, masses / masses.sum()


_LOUD = 2.0**40
"""Times the movement: a scale that hides all but what the secret's own value reveals about a class."""


@final
@suggests_arguments
@dataclass(frozen=True)
class Messages(Bound):
    """Message passing (M20): a pure loss for chains of any length, and the guarantees that follow from it (M29).

    Outputs before and after a row reveal something about its state. A message bounds how much, step by step along the
    chain: the kernel limits what each step passes on. The prior has to be a chain or a tree; pairs of laws alone are
    not enough. Gaussian noise has no pure loss: with it each answer has to be about one row of a chain, whose Rényi
    losses are carried along instead (M38). For one count on a positively correlated chain of two states it needs no
    more noise than `pf.Exact`. With `coarse=True` a step uses only the largest difference that arrives, not between
    which states. That is quick for chains of many states, and needs up to about twice the noise.

    >>> import pufferflow as pf
    >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> scenario = pf.Scenario(secret=pf.Secret("on", domain=[0, 1]), prior=chain, order_by="hour")
    >>> laws = pf.laws(scenario, pf.Statistic.total(24))
    >>> round(pf.loss(laws, pf.Laplace(10.0), pf.Pure, bound=Messages()), 6)
    0.822639
    """

    name = "messages"
    rank = 0
    by_movement = False
    coarse: bool = False

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> Sequence[Bound]:
        return [cls(), cls(coarse=True)]

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        return laws.size.coarse if self.coarse else laws.size.messages

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        walks = as_laws(pairs).walks()
        if isinstance(noise, Gaussian) and not self.coarse and all(map(_single_answers, walks)):
            return [
                SingleAnswers(rows, rows.chain)
                for rows in walks
                if isinstance(rows, DependentChain) and isinstance(rows.chain, Chain)
            ]
        walks = [rows.coarse() if self.coarse else rows for rows in walks]
        return [PureLoss(rows.reach, rows.loss, rows, given_away=rows.given_away) for rows in walks]

    def __repr__(self) -> str:
        return "Messages(coarse=True)" if self.coarse else "Messages()"


def _single_answers(rows: DependentRows) -> bool:
    """Return whether each answer is about at most one row of a known chain."""
    return isinstance(rows, DependentChain) and rows.single and isinstance(rows.chain, Chain)


def _widest_ratio(rows: Floats) -> float:
    """Return the largest log ratio of the masses that two rows of a kernel give to a state; ∞ if only one gives any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(rows.any(axis=-1, keepdims=True), np.log(rows), np.nan)
        ratios = logs[:, :, None, :, None, :] - logs[:, None, :, None, :, :]
    return float(np.where(np.isnan(ratios), 0.0, ratios).max(initial=0.0)) * (1 + 8 * UNIT)


@final
class SingleAnswers(LossCurve):
    """The Rényi losses of answers with Gaussian noise about one row of a chain each, and the δ of the best order (M38).

    Noise that is fixed beforehand has all orders at once.
    """

    certainty = Certainty.UPPER_BOUND
    tolerance = 1e-6

    def __init__(self, rows: DependentChain, chain: Chain) -> None:
        self.sensitivity = rows.farthest
        self._along = ChainedRows(chain, rows.secrets)
        self._witness = rows.place(0, rows.secrets.pairs[0].tolist())

    def pure(self, noise: Noise) -> Worst:
        return Worst(math.inf if self.sensitivity else 0.0, self._witness)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        return Worst(
            self._along.answers_loss(Renyi.of(alpha), self._deviations(noise))[0], self._witness
        )

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        """Return the δ of the best order (M29)."""
        row = self._deviations(noise)
        if row == 0:
            return Worst(0.0, self._witness)
        least = self._along.best_order(
            row, lambda order, loss: renyi_to_delta(order, loss, epsilon)
        )
        return Worst(min(least, 1.0), self._witness)

    def zcdp(self, noise: Noise) -> Worst:
        kind = GuaranteeFamily(Zcdp(1.0))
        return Worst(self._along.answers_loss(kind, self._deviations(noise))[0], self._witness)

    def _deviations(self, noise: Noise) -> float:
        """Return by how many standard deviations a row moves all answers about it, rounded up."""
        if self.sensitivity == 0:
            return 0.0
        return self.sensitivity / noise.scale * (1 + UNIT) if noise.scale else math.inf


@final
class PureLoss(LossCurve):
    """A loss curve of pure losses, from which all others follow; the loss of the last noise is cached.

    Where `rows` have a smaller Rényi loss, it is used too. For noise without a pure loss so are their δ, ρ and μ.
    """

    certainty = Certainty.UPPER_BOUND
    tolerance = 1e-6

    def __init__(
        self,
        sensitivity: float,
        loss: Callable[[Noise], tuple[float, Witness]],
        rows: DependentRows | None = None,
        *,
        given_away: str = "",
    ) -> None:
        self.sensitivity = sensitivity
        self._loss, self._rows, self._given_away = loss, rows, given_away
        self._last: tuple[Noise, Worst] | None = None

    def pure(self, noise: Noise) -> Worst:
        if self._last is None or self._last[0] != noise:
            self._last = noise, Worst(*self._loss(noise))
        return self._last[1]

    def enough(self, family: Family, guarantee: Guarantee) -> float:
        """Return a scale that keeps the guarantee; refuse noise without a pure loss."""
        if math.isinf(float(np.max(family(1.0).pure(1.0)))):
            if self._rows is not None and self._rows.delta(family(1.0), 1.0) is not None:
                return super().enough(family, guarantee)
            if not self._given_away:
                raise impossible(family(1.0), guarantee)
            if self.excess(family(_LOUD * max(self.sensitivity, 1.0)), guarantee) > 0:
                raise Refused(
                    self._given_away,
                    allowed="pairs of values that lie nearer each other, or noise with a pure loss",
                    instead="pairs=pf.WithinDistance(distance) with a smaller distance, or noise=pf.Laplace",
                )
        return super().enough(family, guarantee)

    def renyi(self, noise: Noise, alpha: float) -> Worst:
        """Return the Rényi loss of randomised response, which no pair with this pure loss exceeds (M29)."""
        worst = self.pure(noise)
        known = None if self._rows is None else self._rows.renyi(noise, alpha)
        if worst.value < math.inf:
            worst = Worst(Pure(worst.value).renyi_epsilon(alpha), worst.witness)
        return worst if known is None or known[0] >= worst.value else Worst(*known)

    def zcdp(self, noise: Noise) -> Worst:
        known = None if self._rows is None else self._rows.zcdp(noise)
        return super().zcdp(noise) if known is None else Worst(*known)

    def gdp(self, noise: Noise) -> Worst:
        known = None if self._rows is None else self._rows.gdp(noise)
        return super().gdp(noise) if known is None else Worst(*known)

    def delta(self, noise: Noise, epsilon: float) -> Worst:
        """Return the δ of randomised response (M29), rounded up."""
        worst = self.pure(noise)
        known = None if self._rows is None else self._rows.delta(noise, epsilon)
        if worst.value == math.inf and known is None and self._given_away:
            return super().delta(noise, epsilon)
        responses = Worst(two_point_delta(worst.value, epsilon), worst.witness)
        return responses if known is None or known[0] >= responses.value else Worst(*known)


@final
@suggests_arguments
@dataclass(frozen=True)
class Windows(Bound):
    """The laws of answers inside windows of a chain, with messages between the windows (M62).

    `pf.Messages` counts each row as if all others were known. This bound knows the law of a whole answer: where
    neighbours avoid each other, an answer hardly moves with one row. It needs Laplace noise, and a prior that is a
    single chain of at most 5 states. Answers have to be about few rows, or overlap little. Its noise is never above
    that of `pf.Messages`, and for answers about two states it is the least of all (`pf.Exact`).

    >>> import pufferflow as pf
    >>> chain = pf.MarkovChain([[0.4, 0.6], [0.7, 0.3]])
    >>> scenario = pf.Scenario(secret=pf.Secret("on", domain=[0, 1]), prior=chain, order_by="hour")
    >>> laws = pf.laws(scenario, pf.Statistic.total(20))
    >>> [round(pf.calibrate(laws, pf.Pure(1), bound=b).noise.scale, 4) for b in (pf.Messages(), Windows(), pf.Exact())]
    [1.8306, 0.7895, 0.7895]
    """

    name = "windows"
    rank = 4
    by_movement = False

    @classmethod
    def automatic(cls, guarantee: Guarantee, noise: Noise) -> Sequence[Bound]:
        return [cls()] if isinstance(noise, Laplace) else []

    @classmethod
    def compared(cls, guarantee: Guarantee, noise: Noise) -> Bound | None:
        return cls() if isinstance(noise, Laplace) else None

    def applies(self, laws: Laws) -> bool:
        return laws.size.windows > 0

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        """Return the likelihoods of one scale; never so few that a little gain is worth a calibration."""
        return max(laws.size.windows, 2 * SMALL) if laws.size.windows else 0.0

    def may_prove(self, laws: Laws, noise: Noise, guarantee: Guarantee) -> bool:
        """Return whether the pure loss may be small enough: all losses follow from it."""
        if not isinstance(noise, Laplace):
            return True
        anywhere = Place(laws.dimension, None, (None, None), 0)
        return laws.least_loss(1 / noise.scale, anywhere) <= _pure_loss_of(guarantee)

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        if not isinstance(noise, Laplace):
            raise Refused(
                f"Laws inside windows are known for Laplace noise, not for {type(noise).__name__}.",
                allowed="noise=pf.Laplace",
                instead='bound="auto"',
            )
        return [self._curve(rows) for rows in as_laws(pairs).walks()]

    def _curve(self, rows: DependentRows) -> PureLoss:
        if isinstance(rows, DependentChain) and rows.in_windows:
            return PureLoss(rows.reach, rows.loss_in_windows)
        raise Refused(
            "These answers have no windows with known laws.",
            allowed="a pf.MarkovChain of few states, and answers about several known rows each",
            instead='bound=pf.Messages(), or bound="auto"',
        )


@lru_cache(maxsize=64)
def _pure_loss_of(guarantee: Guarantee) -> float:
    """Return the largest pure loss from which a guarantee follows."""
    anywhere = Place(1, None, (None, None), 0)
    curve = PureLoss(1.0, lambda noise: (1 / noise.scale if noise.scale else math.inf, anywhere))
    return 1 / curve.least_scale(Laplace, guarantee)


@final
@suggests_arguments
@dataclass(frozen=True)
class Quilt(Bound):
    """The Markov quilt mechanism of Song, Wang and Chaudhuri (M19): the published baseline for chains.

    A quilt is one row or two around the secret row. Its loss is its influence plus the noise's loss for all rows inside
    it. Each row takes its best quilt, and the loss is that of the worst row. `approximate=True` bounds influences by
    the least stationary probability and the spectral gap, as the authors do for long chains. It needs more noise than
    `pf.Messages`, often several times as much.

    >>> import pufferflow as pf
    >>> chain = pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]])
    >>> scenario = pf.Scenario(secret=pf.Secret("on", domain=[0, 1]), prior=chain, order_by="hour")
    >>> laws = pf.laws(scenario, pf.Statistic.total(100))
    >>> [round(pf.calibrate(laws, pf.Pure(1), bound=b).noise.scale, 3) for b in (Quilt(), Quilt(True), pf.Messages())]
    [3.572, 11.537, 1.467]
    """

    name = "quilt"
    by_movement = False

    approximate: bool = False

    def count(self, laws: Laws, guarantee: Guarantee) -> float:
        return laws.size.messages

    def parts(self, pairs: Sequence[Pair], noise: Noise) -> list[LossCurve]:
        return [self._curve(rows) for rows in as_laws(pairs).walks()]

    def _curve(self, rows: object) -> PureLoss:
        if not isinstance(rows, DependentChain) or not isinstance(rows.chain, Chain):
            raise Refused(
                "Markov quilts need rows that form one known chain.",
                allowed="a prior that is a pf.MarkovChain, or a list of them",
                instead="bound=pf.Messages()",
            )
        prepare = approximate_quilts if self.approximate else exact_quilts
        return PureLoss(rows.reach, _QuiltedChain(rows, prepare(rows.chain, rows.secrets)).loss)


@final
@dataclass(frozen=True, eq=False)
class _QuiltedChain:
    """The quilts of a chain: the loss is the influence from outside plus the noise's loss for the rows inside."""

    rows: DependentChain
    quilts: Quilts

    def loss(self, noise: Noise) -> tuple[float, Witness]:
        """Return the largest loss of a row; rows inside a quilt are charged one by one, or together for one answer."""
        losses, states = self.rows.exposures(noise), self.rows.secrets.pairs[0].tolist()
        if losses is None:
            return math.inf, self.rows.place(0, states)
        if self.rows.answers == 1:
            leak = self.quilts.loss(lambda sizes: np.asarray(noise.pure(sizes * self.rows.reach)))
        else:
            largest = float(losses.max())
            leak = self.quilts.loss(lambda sizes: sizes * largest * (1 + 1e-12))
        return leak.value, self.rows.place(leak.row, states)
