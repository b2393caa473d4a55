"""Scores that order noisy answers, the loss that events of high scores show, and the draws that this needs.

*Scores* are numbers that order noisy answers, from those typical of one secret to those of the other. An event is a set
of answers with a score above a threshold. Any score gives a valid attack, since it is fixed before the draws that are
counted; so all scores may be approximate. Three are tried. The first is the ratio of likelihoods: no event shows more
than its level sets, if the noise is as stated. The second is the answer itself. The third is which of some intervals
the answer lies in, ordered by the observed draws, without an assumption on the noise.

The ratio of likelihoods of noisy answers is exact if the laws have few atoms. For laws with many it is read from a
table on the line. For vectors it is added up coordinate by coordinate, as if these were independent given the secret. A
score needs no more.

*Losses* follow from probabilities of events: the least loss of a guarantee with so large a P(S) and so small a Q(S). S
is one event, or several nested ones. A guarantee is about all events, and every function of an answer keeps it (data
processing), so every S gives a lower bound. All of these bounds rise with P(S) and fall with Q(S), so bounds of the
probabilities give bounds of the loss.

*Probabilities* follow from counts by the bounds of Clopper and Pearson, which hold for every true probability. The
count K of an event in n independent draws is binomial. `at_least` is above the true probability with a chance of at
most `error`; `at_most` is below it likewise. Each is the probability at which a count at least (at most) as large as K
has the chance `error`.

*The number of draws* that an attack needs to show a breach decides what an attack without a finding means. It supports
the guarantee only if it would have found a breach. The breach considered has a loss 1.5 times as large as guaranteed,
shown by the events that the attack has chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from scipy import special

from pufferflow.audit.worlds import Duel, World
from pufferflow.core.arrays import Floats
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import Divergence, Guarantee
from pufferflow.privacy.renyi import Renyi

Points = tuple[Floats, Floats]
_FEW = 64
_NODES = 2048
_AT_ONCE = 1 << 18
_LEAST = 1e-300
_DIGITS = 9


@final
@dataclass(frozen=True, eq=False)
class Ratio:
    """The log ratio: a sum of terms, each of some coordinates."""

    terms: tuple["ExactRatio | TabulatedRatio", ...]

    @classmethod
    def of(cls, worlds: Sequence[World], noises: Sequence[Noise], drawn: Floats) -> "Ratio":
        """Return the ratio; `drawn` shows where noisy answers lie."""
        both = [world.points() for world in worlds]
        many = max(len(weights) for _, weights in both) > _FEW
        if not many:
            return cls((ExactRatio(slice(None), tuple(noises), both[0], both[1]),))
        return cls(tuple(_on_line(both, noises[k], k, drawn[:, k]) for k in range(len(noises))))

    def __call__(self, noisy: Floats) -> Floats:
        """Return log ratios, rounded: the tails of Laplace noise are flat, and rounding errors must not split them."""
        total = np.array([term(noisy) for term in self.terms]).sum(axis=0)
        return np.asarray(total.round(_DIGITS))


@final
@dataclass(frozen=True, eq=False)
class ExactRatio:
    """A sum over all points, in some coordinates."""

    where: slice
    noises: tuple[Noise, ...]
    first: Points
    second: Points

    def __call__(self, noisy: Floats) -> Floats:
        """Return the log ratio."""
        own = noisy[:, self.where]
        return _log_likelihood(self.noises, own, *self.first) - _log_likelihood(
            self.noises, own, *self.second
        )


@final
@dataclass(frozen=True, eq=False)
class TabulatedRatio:
    """One coordinate's ratio between nodes; constant beyond them."""

    coordinate: int
    nodes: Floats
    ratios: Floats

    def __call__(self, noisy: Floats) -> Floats:
        """Return the values of the table."""
        return np.interp(noisy[:, self.coordinate], self.nodes, self.ratios)


def _on_line(
    both: Sequence[Points], noise: Noise, k: int, drawn: Floats
) -> "ExactRatio | TabulatedRatio":
    points = [_gather(values[:, k], weights) for values, weights in both]
    term = ExactRatio(slice(k, k + 1), (noise,), points[0], points[1])
    if max(len(weights) for _, weights in points) <= _FEW:
        return term
    atoms = [values[:: max(len(values) // _NODES, 1), 0] for values, _ in points]
    nodes = np.unique(np.concatenate([np.quantile(drawn, np.linspace(0, 1, _NODES)), *atoms]))
    at = np.zeros((len(nodes), k + 1))
    at[:, k] = nodes
    return TabulatedRatio(k, nodes, term(at))


def _gather(values: Floats, weights: Floats) -> Points:
    """Return one coordinate's law: each value once."""
    distinct, place = np.unique(values, return_inverse=True)
    return distinct[:, None], np.asarray(np.bincount(place.reshape(-1), weights), dtype=np.float64)


def _log_likelihood(
    noises: tuple[Noise, ...], noisy: Floats, points: Floats, weights: Floats
) -> Floats:
    """Return log Σ_m w_m Π_k ζ_k(y_k − x_mk), some answers at a time."""
    logs = np.log(np.maximum(weights, _LEAST))
    step = max(_AT_ONCE // len(weights), 1)
    parts = [
        _log_densities(noises, noisy[at : at + step], points, logs)
        for at in range(0, len(noisy), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _log_densities(
    noises: tuple[Noise, ...], noisy: Floats, points: Floats, logs: Floats
) -> Floats:
    log_terms = np.broadcast_to(logs, (len(noisy), len(logs))).copy()
    for k, noise in enumerate(noises):
        log_terms += noise.logpdf(noisy[:, [k]] - points[None, :, k])
    if log_terms.shape[1] == 1:
        return log_terms[:, 0]
    top = log_terms.max(axis=1)
    with np.errstate(under="ignore"):
        return top + np.log(np.exp(log_terms - top[:, None]).sum(axis=1))


RATIO, ANSWER, INTERVALS = range(3)
_CELLS = 32
_TINY = 1e-9
_MOST_TOLD = 3


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """The three scores of noisy answers of a duel, large where the first of its secrets is likely."""

    names: tuple[str, str]
    ratio: Ratio
    direction: Floats
    edges: Floats
    heights: Floats

    @classmethod
    def of(cls, duel: Duel, first: Floats, second: Floats) -> "Scores":
        """Return scores that are learnt from draws of both worlds."""
        drawn = np.concatenate([first, second])
        spread = max(float(np.ptp(drawn)), 1.0)
        # noise of scale 0 has no density, so a tiny scale replaces it
        noises = [
            noise if noise.scale else noise.at(spread * _TINY) for noise in duel.mechanism.noises
        ]
        direction = _direction(first, second, noises)
        edges = np.unique(np.quantile(drawn @ direction, np.arange(1, _CELLS) / _CELLS))
        cells = [
            np.searchsorted(edges, noise @ direction, side="right") for noise in (first, second)
        ]
        counts = [np.bincount(noise, minlength=len(edges) + 1) + 1.0 for noise in cells]
        ratio = Ratio.of(duel.worlds, noises, drawn)
        return cls(duel.names, ratio, direction, edges, np.log(counts[0]) - np.log(counts[1]))

    def __call__(self, noisy: Floats) -> Floats:
        """Return the scores, of shape (3, n)."""
        along = noisy @ self.direction
        intervals = self.heights[np.searchsorted(self.edges, along, side="right")]
        return np.stack([self.ratio(noisy), along, intervals])

    def words(self, score: int, sign: int, thresholds: Floats, first: int) -> str:
        """Describe the answers that have a score, times its sign, beyond a threshold, or beyond one after the other."""
        lowest, highest = float(thresholds[0]), float(thresholds[-1])
        likelier, other = self.names[first], self.names[1 - first]
        if len(thresholds) > 1:
            what = (
                f"how much likelier it is under {likelier} than under {other}"
                if score != ANSWER
                else "its size"
            )
            ends = f"from e^{lowest:.4g} to e^{highest:.4g} times"
            if score == ANSWER:
                ends = f"from {sign * lowest:.4g} to {sign * highest:.4g}"
            return f"{self._answer} in {len(thresholds) + 1} levels by {what}, cut {ends}"
        if score == RATIO:
            return f"{self._answer} is at least e^{lowest:.4g} times as likely under {likelier} as under {other}"
        if score == ANSWER:
            return f"{self._answer} is at {'least' if sign > 0 else 'most'} {sign * lowest:.6g}"
        return f"{self._answer} lies in {self._chosen(sign, lowest)}"

    @property
    def _answer(self) -> str:
        return (
            "the answer"
            if len(self.direction) == 1
            else f"the vector of {len(self.direction)} answers, weighted,"
        )

    def _chosen(self, sign: int, lowest: float) -> str:
        """Describe the intervals with a height beyond a threshold, a few of them in numbers."""
        inside = np.flatnonzero(sign * self.heights >= lowest)
        starts = inside[np.diff(inside, prepend=-2) > 1]
        stops = inside[np.diff(inside, append=len(self.heights) + 1) > 1]
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        if len(starts) > _MOST_TOLD:
            return f"one of {len(starts)} intervals"
        return " or ".join(
            f"[{ends[a]:.4g}, {ends[b + 1]:.4g})" for a, b in zip(starts, stops, strict=True)
        )


def _direction(first: Floats, second: Floats, noises: list[Noise]) -> Floats:
    """Return the weights along which answers move, in units of the noise; the answer itself on the line.

    Medians, since some noises have no mean.
    """
    if len(noises) == 1:
        return np.ones(1)
    scales = np.array([noise.scale for noise in noises])
    moves = (np.median(first, axis=0) - np.median(second, axis=0)) / scales**2
    size = float(np.abs(moves).max())
    return moves / size if size > 0 else 1 / scales


_ROUNDING = 1e-11
_ORDERS = (1.01, 2.0, 4.0, 16.0)


def of_events(target: Guarantee, p: Floats, q: Floats) -> Floats:
    """Return for each event the loss that it shows, rounded down; 0 if it shows none.

    Pure: ln(P/Q). Approx: ln((P − δ)/Q). Gdp: Φ⁻¹(P) − Φ⁻¹(Q). Rényi: the divergence of the two laws of whether S
    happens; Zcdp: the largest such divergence over its order, of a few orders.

    >>> from pufferflow.privacy.guarantee import Pure
    >>> of_events(Pure(1.0), np.array([0.5]), np.array([0.25])).round(6)
    array([0.693147])
    """
    if target.divergence is Divergence.GAUSSIAN:
        with np.errstate(invalid="ignore"):
            shown = special.ndtri(p) - special.ndtri(q)
        return np.where(p > q, _down(np.where((p > 0) & (q < 1), shown, 0.0)), 0.0)
    if target.divergence.about_odds:
        above = np.maximum(p - target.delta, 0.0)
        with np.errstate(divide="ignore"):
            return _down(np.log(above) - np.log(q))
    if target.divergence is Divergence.CONCENTRATED:
        return np.max([of_events(Renyi(order, 0.0), p, q) / order for order in _ORDERS], axis=0)
    alpha, p, q = _renyi(target, p, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = alpha * np.log(p) + (1 - alpha) * np.log(q)
        outside = alpha * np.log1p(-p) + (1 - alpha) * np.log1p(-q)
        divergences = np.logaddexp(inside, outside) / (alpha - 1)
    return np.where(p > q, _down(divergences), 0.0)


def of_nested(target: Guarantee, p: Floats, q: Floats) -> float:
    """Return the loss that nested events show together; probabilities fall from the first to the last.

    For Rényi guarantees they cut the answers into levels. D_α = sup_g α/(α−1)·log E_P e^{(α−1)g} − log E_Q e^{αg}. If g
    rises with the levels, the first mean only grows with P(S), the second with Q(S). So the bounds may replace the laws
    themselves if their ratio rises with the levels, which pooling neighbours ensures.

    >>> from pufferflow.privacy.renyi import Renyi
    >>> round(of_nested(Renyi(2, 1.0), np.array([0.8, 0.4]), np.array([0.6, 0.1])), 4)
    0.7031
    """
    if target.divergence is Divergence.CONCENTRATED:
        return max(of_nested(Renyi(order, 0.0), p, q) / order for order in _ORDERS)
    if target.divergence is not Divergence.RENYI:
        return float(of_events(target, p, q).max())
    alpha, p, q = _renyi(target, p, q)
    cells = _pool(-np.diff(p, prepend=1.0, append=0.0), -np.diff(q, prepend=1.0, append=0.0))
    with np.errstate(divide="ignore"):
        left, right = np.log(cells)
    finite = np.isfinite(left)
    divergence = np.logaddexp.reduce(alpha * left[finite] + (1 - alpha) * right[finite]) / (
        alpha - 1
    )
    return float(_down(np.asarray(divergence)))


def _renyi(target: Guarantee, p: Floats, q: Floats) -> tuple[float, Floats, Floats]:
    """Return the order and probabilities after a share δ of each law is left out, if the guarantee allows it.

    The remaining probabilities have P'(S) ≥ (P(S) − δ)/(1 − δ) and Q'(S) ≤ Q(S)/(1 − δ).
    """
    if not target.delta:
        return target.alpha, p, q
    rest = 1 - target.delta
    return target.alpha, np.maximum((p - target.delta) / rest, 0.0), np.minimum(q / rest, 1.0)


def _pool(p: Floats, q: Floats) -> Floats:
    """Return the masses of neighbouring cells put together until p/q rises from each to the next."""
    pooled: list[tuple[float, float]] = []
    for mass, other in zip(p.tolist(), q.tolist(), strict=True):
        cell = mass, max(other, 0.0)
        while pooled and _falls(pooled[-1], cell):
            before = pooled.pop()
            cell = before[0] + cell[0], before[1] + cell[1]
        pooled.append(cell)
    return np.array(pooled).T


def _falls(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return whether p/q does not rise between two cells; a cell without mass is pooled with its neighbour."""
    return before[0] * after[1] >= after[0] * before[1]


def _down(values: Floats) -> Floats:
    """Return a bound a little lower than it was computed, and at least 0, which always holds."""
    return np.maximum(
        values - _ROUNDING * (1 + np.abs(np.where(np.isfinite(values), values, 0.0))), 0.0
    )


_COUNT_ROUNDING = 1e-9


def at_least(counts: Any, draws: int, error: float) -> Floats:
    """Return lower bounds of probabilities, rounded down.

    >>> at_least([0, 5, 10], 10, 0.05).round(4)
    array([0.    , 0.2224, 0.7411])
    """
    numbers = np.asarray(counts, dtype=np.float64)
    positive = np.maximum(numbers, 1e-9)
    inside = special.betaincinv(positive, draws - positive + 1, error)
    return np.where(
        numbers > 0, inside * (1 - _COUNT_ROUNDING), 0.0
    )  # the quantile is accurate to some digits only


def at_most(counts: Any, draws: int, error: float) -> Floats:
    """Return upper bounds of probabilities, rounded up.

    >>> at_most([0, 5, 10], 10, 0.05).round(4)
    array([0.2589, 0.7776, 1.    ])
    """
    numbers = np.asarray(counts, dtype=np.float64)
    rest = np.maximum(draws - numbers, 1e-9)
    inside = special.betainccinv(numbers + 1, rest, error)
    return np.where(numbers < draws, np.minimum(inside * (1 + _COUNT_ROUNDING), 1.0), 1.0)


WORSE: Final = 1.5
"""The loss of the breach that has to be found, as a part of the guaranteed one."""
_HALVINGS: Final = 100
_MOST: Final = 1 << 40


def draws_needed(target: Guarantee, shares: Any, error: float) -> float:
    """Return how many draws, counted under each secret, are likely to show a loss 1.5 times as large as guaranteed.

    `shares` are the probabilities of events under the secret that makes them likely. Those above a half count as a
    half, since an event that is likely under one secret is not rare under the other. Likely means: even if counts fall
    a standard deviation to the wrong side. The result is ∞ if these events cannot show it.

    >>> from pufferflow.privacy.guarantee import Pure
    >>> 300 < draws_needed(Pure(1.0), [0.5], 0.01) < 3000 < draws_needed(Pure(0.2), [0.5], 0.01)
    True
    """
    p, q = _events_of(target, np.minimum(np.asarray(shares, dtype=np.float64), 0.5))
    low, high = 1, 2
    while not _shows(target, p, q, high, error):
        low, high = high, 2 * high
        if not len(p) or high > _MOST:
            return np.inf
    while high - low > max(low // 100, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if _shows(target, p, q, middle, error) else (middle, high)
    return high


def _events_of(target: Guarantee, shares: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities P(S) and Q(S) of events at the breach; of those that can show it at all."""
    if target.loss <= 0:  # all of the guarantee is its δ
        possible = shares > WORSE * target.delta
        return shares[possible], shares[possible] - WORSE * target.delta
    low, high = np.full_like(shares, 1e-300), shares.copy()
    possible = of_events(target, shares, low) >= WORSE * target.loss
    for _ in range(_HALVINGS):
        middle = np.sqrt(low) * np.sqrt(high)
        enough = of_events(target, shares, middle) >= WORSE * target.loss
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return shares[possible], low[possible]


def _shows(target: Guarantee, p: Floats, q: Floats, draws: int, error: float) -> bool:
    """Return whether this number of draws is likely to show a loss above the guarantee by one of the events."""
    off_p, off_q = (np.sqrt(draws * share * (1 - share)) for share in (p, q))
    least = at_least(np.floor(np.maximum(draws * p - off_p, 0)), draws, error / 2)
    most = at_most(np.ceil(np.minimum(draws * q + off_q, draws)), draws, error / 2)
    return bool(np.any(of_events(target, least, most) > target.loss))
