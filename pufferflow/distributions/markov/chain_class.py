"""Classes of Markov chains, whose kernels lie between bounds: laws of a row, and the steps of messages (M20).

A member of the class may choose another kernel within the bounds at every step. For the future, the kernel's rows are
used as they are. For the past, they are reversed: w/Σw with w_u = m(u)·P(u,x), m any law of the earlier row. The
kernel's own bounds do not bound these. So regions that contain the laws of each row are computed, from the first row
on.

A set of laws m is given by the least and the largest m(A) for every set A of states: the bits of the number A say which
states are in it. One step on, m'(A) is the mean of P(·,A) under m. In layers, that is a sum of P(·,A)'s drops times m
of the sets where P(·,A) is largest. With the bounds of m and of P(·,A) in it, the sum bounds every member, whichever
kernel it chooses at each step. All sums are rounded outwards.

One step of a message maximises over all laws of the next state within such bounds.

A message is the largest log ratio of two means of v, over functions v within the limits D and over these laws. The
ratio is largest at an extreme v. For three to five states these are listed: each is given by a tree of limits that hold
with equality. In such a tree every state is only above its neighbours, or only below them. For more states all v
between 1 and e^r are allowed, r the largest limit: extreme are those that are e^r on a set A and 1 elsewhere. For two
states that equals D itself. For such v the ratio depends only on the odds α, β of A:

    (1 + αe^r)(1 + β) / ((1 + α)(1 + βe^r)).

Under reversed rows w_u = m(u)·P(u,x) both odds share m. So α/β is at most ρ_A, the largest p_u/s_u in A times the
largest s_u/p_u outside. Here p and s are the entries of the two states' columns. This keeps the unknown m from counting
twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.markov.chain import (
    LONGEST_PERIOD,
    SAME,
    StateSequence,
    Stretch,
    reachable_states,
    stretches,
    tile,
    tile_into,
)
from pufferflow.distributions.markov.law_regions import (
    MOST_STATES,
    Tangent,
    extreme_log_ratios,
    members,
)

_DOUBLINGS = 60
_MOST_TURNS = 1000
_STILL = 1e-14
_MOST_PADS = 40
_MOST_PAD = 1e-6
_PASSED = 1e-13


@final
@dataclass(frozen=True, eq=False)
class Marginals:
    """Laws m with `least[A]` ≤ m(A) ≤ `most[A]`, both of shape (…, 2^k)."""

    least: Floats
    most: Floats

    def after(self, step: "KernelBounds") -> "Marginals":
        """Return the laws one step on."""
        error = (
            self.least.shape[-1].bit_length() + 4
        ) * UNIT  # a sum of k products, and their factors
        least = _layered_mean(step.low_layers, self.least) * (1 - error)
        most = np.minimum(_layered_mean(step.high_layers, self.most) * (1 + error), 1.0)
        return _with_trivial_sets(np.maximum(least, (1 - most[..., ::-1]) * (1 - UNIT)), most)

    def along(self, steps: Sequence["KernelBounds"]) -> "Marginals":
        """Return the laws after several steps."""
        laws = self
        for step in steps:
            laws = laws.after(step)
        return laws

    def within(self, other: "Marginals", room: float = 0.0) -> bool:
        """Return whether all of these laws are among the others, whose bounds are widened by the share `room`."""
        low = self.least >= other.least * (1 - room)
        return bool(low.all() and (self.most <= other.most * (1 + room)).all())

    def near(self, other: "Marginals", room: float) -> bool:
        """Return whether these bounds, which contain the others, exceed them by at most `room` times the upper."""
        low = self.least >= other.least - room * other.most
        return bool(low.all() and (self.most <= other.most * (1 + room)).all())

    def wider(self, down: float, up: float) -> "Marginals":
        """Return wider bounds: the lower ones times `down`, the upper ones times `up`."""
        return _with_trivial_sets(self.least * down, np.minimum(self.most * up, 1.0))

    def around(self, laws: "Marginals") -> "Marginals":
        """Return these laws, with bounds widened until they contain the others; the set stays closed under turns."""
        with np.errstate(divide="ignore", invalid="ignore"):
            down = np.where(
                self.least > laws.least, laws.least / self.least * (1 - UNIT), 1.0
            ).min()
            up = np.where(self.most < laws.most, laws.most / self.most * (1 + UNIT), 1.0).max()
        return self if down == up else self.wider(float(down), float(up))


@final
@dataclass(frozen=True, eq=False)
class KernelBounds:
    """Kernels by the least and the largest mass that they give to each set, from each state: shape (k, 2^k)."""

    least: Floats
    most: Floats

    @property
    def size(self) -> int:
        return len(self.least)

    @cached_property
    def low(self) -> Floats:
        """The least value of each entry."""
        return self.least[:, 1 << np.arange(self.size)]

    @cached_property
    def high(self) -> Floats:
        """The largest value of each entry."""
        return self.most[:, 1 << np.arange(self.size)]

    @cached_property
    def low_layers(self) -> tuple[Floats, Indices]:
        """The drops of P(·,A) at its least, in falling order, and the sets above them."""
        return _layers(self.least)

    @cached_property
    def high_layers(self) -> tuple[Floats, Indices]:
        """The drops of P(·,A) at its most, in falling order, and the sets above them."""
        return _layers(self.most)

    def then(self, other: "KernelBounds") -> "KernelBounds":
        laws = Marginals(self.least, self.most).after(other)
        return KernelBounds(laws.least, laws.most)


def kernels_between(low: Floats, high: Floats) -> KernelBounds:
    """Return the kernels with entries between bounds, rows summing to 1.

    >>> kernels = kernels_between(np.array([[0.8, 0.0], [0.0, 0.7]]), np.array([[0.9, 1.0], [1.0, 0.9]]))
    >>> kernels.low.round(9).tolist(), kernels.high.round(9).tolist()
    ([[0.8, 0.1], [0.1, 0.7]], [[0.9, 0.2], [0.3, 0.9]])
    """
    inside = members(len(low)).T.astype(np.float64)
    low = low / np.maximum(
        low.sum(axis=1, keepdims=True), 1.0
    )  # known rows sum to 1 up to rounding
    high = high / np.minimum(high.sum(axis=1, keepdims=True), 1.0)
    error = 2 * len(low) * UNIT  # the rounding error of subtracting from 1, outwards
    least = np.maximum(low @ inside, 1 - high @ (1 - inside) - error)
    most = np.minimum(high @ inside, 1 - low @ (1 - inside) + error)
    most = np.clip(most, 0.0, 1.0)
    laws = _with_trivial_sets(np.clip(least, 0.0, most), most)
    return KernelBounds(laws.least, laws.most)


def marginals_hull(laws: Any) -> Marginals:
    """Return the bounds on the mass of each set under laws of shape (…, k) and their mixtures."""
    rows = np.atleast_2d(np.asarray(laws, dtype=np.float64))
    shares = rows / rows.sum(axis=1, keepdims=True) @ members(rows.shape[1]).T
    return _with_trivial_sets(shares.min(axis=0), np.minimum(shares.max(axis=0), 1.0))


def invariant_marginals(turn: Sequence[KernelBounds], passed: Flags | None = None) -> Marginals:
    """Return a set of laws that contains every stationary law of a turn of kernels, and is closed under turns.

    π is stationary for a member's kernels C of one turn if and only if it is for (1 + C)/2, whose powers converge
    quickly: the start is the result of a high power. From there single turns follow, and the result, slightly enlarged,
    is checked to contain its image under a further turn. With `passed`, the states that rows may have, other states
    are not bounded, and some margin is left for states that rows only pass through.
    """
    states = np.ones(turn[0].size, dtype=np.bool_) if passed is None else passed
    whole = marginals_hull(np.eye(turn[0].size)[states])
    far = _lazy(turn)
    for _ in range(_DOUBLINGS):
        far = far.then(far)
    laws = Marginals(far.least[states].min(axis=0), far.most[states].max(axis=0))
    left = laws.most == 0
    for _ in range(_MOST_TURNS):
        before, laws = laws, laws.along(turn)
        if laws.near(before, _STILL) and before.near(laws, _STILL):
            break
    if passed is not None:
        laws = Marginals(laws.least, np.where(left, _PASSED * whole.most, laws.most))
    pad = _STILL
    while pad < _MOST_PAD:
        closed = _invariant(laws.wider(1 - pad, 1 + pad), turn, pad / 64)
        if closed is not None:
            return closed
        pad *= 4
    return whole


def _invariant(laws: Marginals, turn: Sequence[KernelBounds], pad: float) -> Marginals | None:
    """Return a set of laws closed under turns, after turns that each enlarge it slightly; None if none is so near.

    Where turns contract, the set stops growing once the enlargement equals the contraction, and then contains its
    image under a turn without enlargement.
    """
    for _ in range(_MOST_PADS):
        following = laws.along(turn)
        if following.within(laws):
            return laws
        laws = following.wider(1 - pad, 1 + pad)
    return None


def _lazy(turn: Sequence[KernelBounds]) -> KernelBounds:
    """Return the kernels (1 + C)/2 of one turn."""
    whole = turn[0]
    for step in turn[1:]:
        whole = whole.then(step)
    stay = members(whole.size).T
    return KernelBounds((whole.least + stay) / 2, (whole.most + stay) / 2)


def _layers(values: Floats) -> tuple[Floats, Indices]:
    """Return, for functions in columns, their drops in falling order and the sets above each drop."""
    ranked = np.argsort(-values, axis=0, kind="stable")
    falling = np.take_along_axis(values, ranked, axis=0)
    drops = falling - np.concatenate([falling[1:], np.zeros((1, values.shape[1]))])
    return drops, np.cumsum(1 << ranked, axis=0)


def _layered_mean(layers: tuple[Floats, Indices], shares: Floats) -> Floats:
    drops, sets = layers
    return np.asarray((drops * shares[..., sets]).sum(axis=-2))


def _with_trivial_sets(least: Floats, most: Floats) -> Marginals:
    """Set the masses of the empty and the full set, 0 and 1."""
    least[..., 0] = most[..., 0] = 0.0
    least[..., -1] = most[..., -1] = 1.0
    return Marginals(least, most)


_HIGH = 300.0
_RARE = 1e-300


@final
@dataclass(frozen=True, eq=False)
class Extremes:
    """The extreme laws on n source states that weight the messages for some target states.

    `odds[A, x]` is the log of the largest odds of the set A under x's laws, A from 1 to 2^n − 2. `ratios[A, x, y]` is
    log ρ_A, or None if the laws of x and y are independent. `rows[x]` lists x's extreme laws, for n from 3 to 5.
    """

    sources: Indices
    targets: Indices
    odds: Floats
    ratios: Floats | None
    rows: Floats | None

    def send(self, limits: Floats) -> Floats:
        """Return an upper bound on the log ratio of means of functions within the limits, for each two targets."""
        message = np.zeros_like(limits)
        within = limits[np.ix_(self.sources, self.sources)]
        widest = float(within.max(initial=0.0))
        if widest == 0 or len(self.targets) < 2:
            return message
        size = len(self.sources)
        worst = np.full((len(self.targets),) * 2, widest)
        if self.rows is not None and widest <= _HIGH:
            worst = np.minimum(worst, extreme_log_ratios(self.rows, within))
        # for many states and large limits, the sum of all losses is as good a bound, at no work
        most = np.inf if size <= MOST_STATES else _HIGH
        if (self.rows is None or self.ratios is not None or widest > _HIGH) and widest < most:
            worst = np.minimum(worst, self._of_sets(within, widest))
        # marginals may be SAME off, means and logs a few units for each state: rounded up
        worst = worst + 8 * SAME * min(widest, 1.0) + 64 * size * UNIT * widest
        message[np.ix_(self.targets, self.targets)] = np.minimum(worst, widest)
        np.fill_diagonal(message, 0.0)
        return message

    def hockey(self, losses: Floats) -> Floats:
        """Return the largest P(A) − e^s·Q(A) over sets A and laws P of x, Q of y; s = losses(x, y) (M37)."""
        kept = np.zeros_like(losses)
        between = np.ix_(self.targets, self.targets)
        most, least = _share(self.odds), _share(-self.odds[::-1])
        with np.errstate(over="ignore", invalid="ignore"):
            excess = most[:, :, None] - np.where(
                least[:, None, :] > 0, np.exp(losses[between]) * least[:, None, :], 0.0
            )
        error = 64 * len(self.sources) * UNIT + 8 * SAME
        kept[between] = np.clip(excess.max(axis=0, initial=0.0) + error, 0.0, 1.0)
        return kept

    def _of_sets(self, within: Floats, widest: float) -> Floats:
        """Return the largest log ratio over functions that are e^r on a set and 1 elsewhere."""
        height = np.full((len(self.odds), 1, 1), widest)
        if len(within) == 2:
            height[:, 0, 0] = within[0, 1], within[1, 0]
        top, least = self.odds[:, :, None], -self.odds[::-1, None, :]
        if self.ratios is not None:
            top, least = self._shared(self.ratios, top, least, height)
        return np.asarray((_log_odds_gain(top, height) - _log_odds_gain(least, height)).max(axis=0))

    def _shared(
        self, ratios: Floats, top: Floats, least: Floats, height: Floats
    ) -> tuple[Floats, Floats]:
        """Return the worst odds α ≤ ρβ: the ratio rises with α, falls with β, on α = ρβ is largest at β² = 1/(ρe^r)."""
        known = np.isfinite(ratios)
        with np.errstate(invalid="ignore"):
            under = np.minimum(self.odds[:, None, :], top - ratios)
            over = np.maximum(least, -self.odds[::-1, :, None] - ratios)
            beta = np.maximum(np.minimum(-(ratios + height) / 2, under), over)
            alpha = np.minimum(top, ratios + beta)
        return np.where(known, alpha, top), np.where(known, beta, least)


def future_extremes(step: KernelBounds) -> Extremes:
    """Return the extremes of the rows of a kernel between bounds, each row chosen separately."""
    states = np.arange(step.size)
    with np.errstate(divide="ignore"):
        # the other states have at least their lower bounds
        odds = np.log(step.most[:, 1:-1]) - np.log(step.least[:, -2:0:-1])
    rows = None
    if 3 <= step.size <= MOST_STATES:
        rows = _stack([corners(low, high) for low, high in zip(step.low, step.high, strict=True)])
    return Extremes(states, states, odds.T, None, rows)


def past_extremes(laws: Marginals, step: KernelBounds, sources: Flags, targets: Flags) -> Extremes:
    """Return the extremes of reversed rows w/Σw, w_u = m(u)·P(u,x), any m among the laws and any P between bounds."""
    from_, to = np.flatnonzero(sources), np.flatnonzero(targets)
    low, high = step.low[np.ix_(from_, to)], step.high[np.ix_(from_, to)]
    sets = members(len(from_)) @ (1 << from_)
    # a state that can occur keeps a mass above 0
    weights = Marginals(
        laws.least[sets], np.where(sets > 0, np.maximum(laws.most[sets], _RARE), 0.0)
    )
    rows = None
    if 3 <= len(from_) <= MOST_STATES:
        rows = _stack([_reversed_rows(weights, low[:, x], high[:, x]) for x in range(len(to))])
    ratios = _ratios(low, high, step.high[from_].sum(axis=1))
    return Extremes(from_, to, _odds(weights, low, high), ratios, rows)


def corners(low: Floats, high: Floats) -> Floats:
    """Return the corners of {x between low and high, Σx = 1}: all but one entry at a bound.

    >>> corners(np.array([0.2, 0.3]), np.array([0.6, 0.9]))
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """
    free, points = _patterns(len(low))
    points = np.where(points, high, low)
    place = np.arange(len(points)), free
    points[place] = 0.0
    rest = 1 - points.sum(axis=1)
    points[place] = np.clip(rest, low[free], high[free])
    return np.unique(points[np.abs(points[place] - rest) <= 8 * len(low) * UNIT], axis=0)[::-1]


@cache
def _patterns(size: int) -> tuple[Indices, Flags]:
    """Return which entry is free and which others are at their upper bounds."""
    free = np.repeat(np.arange(size), 1 << size)
    upper = np.tile(members(size), (size, 1))
    keep = ~upper[np.arange(len(free)), free]
    return free[keep], upper[keep]


def _reversed_rows(laws: Marginals, low: Floats, high: Floats) -> Floats:
    """Return the extreme reversed rows: m at a corner, P(u,x) at its upper bounds on a set, at its lower ones outside.

    A ratio of sums is largest there in m for every P, and in P for every m.
    """
    single = 1 << np.arange(len(low))
    weights = corners(laws.least[single], laws.most[single])
    columns = np.unique(np.where(members(len(low)), high, low), axis=0)
    rows = (weights[:, None, :] * columns[None]).reshape(-1, len(low))
    total = rows.sum(axis=1, keepdims=True)
    return np.unique((rows / np.where(total > 0, total, 1.0))[total[:, 0] > 0], axis=0)


def _stack(rows: list[Floats]) -> Floats:
    """Return lists of rows as one array, the first row of each repeated to the same length."""
    length = max(len(part) for part in rows)
    return np.array(
        [np.concatenate([part, part[:1].repeat(length - len(part), axis=0)]) for part in rows]
    )


def _odds(laws: Marginals, low: Floats, high: Floats) -> Floats:
    """Return the log of the largest odds Σ_A w / Σ_{not A} w, of shape (sets, targets)."""
    inside = members(len(low))[1:-1, None, :]
    single = 1 << np.arange(len(low))
    least, most = laws.least[single], laws.most[single]
    above = _shares(inside, least, most - least, laws.most[1:-1], -high) * high.T
    below = _shares(~inside, least, most - least, laws.least[-2:0:-1], low) * low.T
    with np.errstate(divide="ignore"):
        top, bottom = np.log(above.sum(axis=2)), np.log(below.sum(axis=2))
    none = top == -np.inf
    return np.where(none, -np.inf, top - np.where(none, 0.0, bottom))


def _shares(inside: Flags, least: Floats, room: Floats, total: Floats, cost: Floats) -> Floats:
    """Return m on a set: each state has its least, and the rest of the total goes where the cost is least."""
    order = np.argsort(cost, axis=0, kind="stable").T
    extra = np.maximum(total - (inside * least).sum(axis=2)[:, 0], 0.0)
    rooms = np.take_along_axis(
        np.broadcast_to(inside * room, (len(inside), *order.shape)), order[None], axis=2
    )
    filled = np.clip(extra[:, None, None] - (np.cumsum(rooms, axis=2) - rooms), 0.0, rooms)
    back = np.argsort(order, axis=1)
    return inside * least + np.take_along_axis(filled, np.broadcast_to(back, filled.shape), axis=2)


def _ratios(low: Floats, high: Floats, total: Floats) -> Floats:
    """Return log ρ_A for every set A and two targets x, y.

    p_u/s_u is at most high(u,x) over the least s_u, which is what y keeps if all others have their upper bounds.
    """
    p = np.repeat(high[:, :, None], high.shape[1], axis=2)
    rest = total[:, None, None] - p - high[:, None, :]
    least_entry = np.maximum(low[:, None, :], 1 - rest - p - 4 * len(low) * UNIT)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_quotients = np.where(p > 0, np.log(p) - np.log(least_entry), -np.inf)
        inside = members(len(low))[1:-1].reshape(-1, len(low), 1, 1)
        first = np.where(inside, log_quotients, -np.inf).max(axis=1)
        second = np.where(inside, -np.inf, log_quotients.transpose(0, 2, 1)).max(axis=1)
        return np.asarray(first + second)


def _share(odds: Floats) -> Floats:
    """Return the probability with these log odds."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-odds))


def _log_odds_gain(odds: Floats, height: Floats) -> Floats:
    """Return log((1 + αe^r)/(1 + α)) for log odds of α; exact to the last digits for small r too."""
    if height.max() <= _HIGH:
        return np.log1p(np.expm1(height) / (1 + np.exp(-np.maximum(odds, -2 * _HIGH))))
    with np.errstate(invalid="ignore"):
        large = height + np.logaddexp(0.0, -odds - height) - np.logaddexp(0.0, -odds)
        return np.where(odds > 0, large, np.logaddexp(0.0, odds + height) - np.logaddexp(0.0, odds))


_MOST_STATES = 10
_CLOSE = 1e-11
_LOOSE = 1e-6
_PATIENCE = 1000


@final
@dataclass(frozen=True, eq=False)
class Chains(StateSequence):
    """All chains on k states whose kernel from row t to row t + 1 is between `low[order[t]]` and `high[order[t]]`.

    `initial` holds the laws that row 0 may have, or the extreme ones of them, of shape (j, k); np.eye(k) allows any.
    With None it is any law that is stationary under one turn of all kernels, from the first to the last.

    >>> low, high = np.array([[[0.8, 0.1], [0.1, 0.8]]]), np.array([[[0.9, 0.2], [0.2, 0.9]]])
    >>> Chains(low, high, np.zeros(9, dtype=np.intp)).length
    10
    """

    low: Floats
    high: Floats
    order: Indices
    initial: Floats | None = None

    def __post_init__(self) -> None:
        if self.states > _MOST_STATES:
            raise UsageError(
                f"The kernels have {self.states} states, too many for bounds on them.",
                allowed=f"at most {_MOST_STATES} states",
                instead="fewer states, or a list of single chains",
            )
        low, high = self.low.sum(axis=-1).max(), self.high.sum(axis=-1).min()
        if (
            not ((self.low >= 0) & (self.low <= self.high)).all()
            or low > 1 + SAME
            or high < 1 - SAME
        ):
            raise UsageError(
                "No kernel lies between the bounds.",
                allowed="0 <= low <= high, and every row of low sums to at most 1, of high to at least 1",
            )

    @property
    def states(self) -> int:
        return self.low.shape[-1]

    def repeated(self, steps: int) -> "Chains":
        return Chains(self.low, self.high, tile(self.order, steps), self.initial)

    def settling(self) -> int | None:
        """Return the number of rows after which the laws of rows repeat, or count as repeating, if the steps do.

        None for a turn that is too long to be found in a sequence.
        """
        turn = len(self.order)
        if turn > LONGEST_PERIOD:
            return None
        stretch = Stretch(0, turn, turn)
        laws, rest = self._first, self.rest(stretch)
        for at in range(0, _PATIENCE, turn):
            if rest.around(laws).near(laws, _CLOSE):
                return at
            laws = laws.along(self.turn(stretch))
        return -(-_PATIENCE // turn) * turn

    @cached_property
    def forward(self) -> "BoundedSteps":
        """The steps of messages about the future, the last row first."""
        return BoundedSteps(
            [future_extremes(step) for step in self.kernels],
            self.order[::-1],
            tight=self.states <= MOST_STATES,
        )

    @cached_property
    def backward(self) -> "BoundedSteps":
        """The steps of messages about the past."""
        reversed_steps, laws = _ReversedBounds(self), self._first
        for stretch in stretches(self.order):
            laws = reversed_steps.follow(laws, stretch)
        return BoundedSteps(reversed_steps.pool, reversed_steps.order, tight=reversed_steps.tight)

    @cached_property
    def kernels(self) -> list[KernelBounds]:
        """The kernels, by their bounds on sets of states."""
        return [kernels_between(low, high) for low, high in zip(self.low, self.high, strict=True)]

    @cached_property
    def _first(self) -> Marginals:
        return (
            invariant_marginals(self.kernels)
            if self.initial is None
            else marginals_hull(self.initial)
        )

    @cached_property
    def _possible(self) -> tuple[Flags, Indices]:
        links = np.array([step.high > 0 for step in self.kernels])
        return reachable_states(
            links, self.order, self._first.most[1 << np.arange(self.states)] > 0
        )

    def turn(self, stretch: Stretch) -> list[KernelBounds]:
        return [
            self.kernels[int(which)]
            for which in self.order[stretch.start : stretch.start + stretch.period]
        ]

    def rest(self, stretch: Stretch) -> Marginals:
        """Return a set of laws that is closed under every period of a stretch."""
        occurring = np.unique(self.mask_of[stretch.start : stretch.end + 1])
        return invariant_marginals(
            self.turn(stretch), np.asarray(self.masks[occurring].any(axis=0))
        )


@final
@dataclass(frozen=True, eq=False)
class BoundedSteps:
    """Steps of messages among the extreme rows; `tight` if they use all limits, not only the largest."""

    pool: list[Extremes]
    order: Indices
    tight: bool

    def send(self, which: int, limits: Floats) -> Floats:
        return self.pool[which].send(limits)

    def hockey(self, which: int, losses: Floats) -> Floats:
        return self.pool[which].hockey(losses)

    def tangent(self, which: int, limits: Floats, before: Tangent | None) -> None:
        return None


class _ReversedBounds:
    """The distinct reversed steps of a class of chains, `pool`, and which of them each row has, `order`.

    `last` has for each kernel and set of states the latest laws that it was reversed for, and the place of the result:
    a row with the same laws reuses it. `tight` says that no laws much wider than the row's own are used.
    """

    def __init__(self, chains: Chains) -> None:
        self.chains = chains
        self.order = np.empty(len(chains.order), dtype=np.intp)
        self.pool: list[Extremes] = []
        self.tight = chains.states <= MOST_STATES
        self.last: dict[tuple[int, int], tuple[Marginals, int]] = {}

    def follow(self, laws: Marginals, stretch: Stretch) -> Marginals:
        """Write the steps of a stretch and return the laws after it.

        Once the laws are near a set that is closed under a period, that set is used for all following rows.
        """
        rest = self.chains.rest(stretch) if stretch.period else None
        for at in range(stretch.start, stretch.end):
            if rest is not None and (at - stretch.start) % stretch.period == 0:
                hull, masks = rest.around(laws), self.chains.mask_of[at : stretch.end + 1]
                near = at - stretch.start >= _PATIENCE or hull.near(
                    laws, _CLOSE
                )  # or the search took too long
                if near and np.array_equal(masks[stretch.period :], masks[: -stretch.period]):
                    self.tight = self.tight and hull.near(laws, _LOOSE)
                    return self._repeat(hull, stretch, at)
            self.order[at] = self.place(at, laws)
            laws = laws.after(self.chains.kernels[int(self.chains.order[at])])
        return laws

    def _repeat(self, laws: Marginals, stretch: Stretch, at: int) -> Marginals:
        """Write one period repeatedly, and return the laws at the end of the stretch."""
        left = stretch.end - at
        phases, places = [laws], list[int]()
        for row in range(at, min(at + stretch.period, stretch.end)):
            places.append(self.place(row, phases[-1]))
            phases.append(phases[-1].after(self.chains.kernels[int(self.chains.order[row])]))
        tile_into(self.order[at : stretch.end], np.array(places, dtype=np.intp))
        return phases[left % stretch.period]

    def place(self, at: int, laws: Marginals) -> int:
        """Return the place of the reversal of the step from a row with these laws."""
        kernel, mask = int(self.chains.order[at]), int(self.chains.mask_of[at])
        known = self.last.get((kernel, mask))
        if known is not None and laws.within(known[0], SAME) and known[0].near(laws, SAME):
            return known[1]
        sources, targets = self.chains.masks[self.chains.mask_of[at : at + 2]]
        self.pool.append(past_extremes(laws, self.chains.kernels[kernel], sources, targets))
        self.last[kernel, mask] = laws, len(self.pool) - 1
        return len(self.pool) - 1
