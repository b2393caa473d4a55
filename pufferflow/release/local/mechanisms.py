"""Mechanisms of local privacy: channels for an ε, local privacy in two numbers, and divergences that remain.

A channel is (ε, η)-private (TV paper, VII) under two conditions. No output is more than e^ε times as likely for one
input as for another. The laws of its outputs for two inputs differ by at most η in total variation. One such channel
dominates all: with probability 1 − η(e^ε + 1)/(e^ε − 1) it erases, else it answers by randomised response. M0 and M1
are the laws of outputs of rows with the laws P0 and P1. The paper prints the largest η upside down: it is tanh(ε/2),
not its inverse.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import (
    finite_number,
    finite_number_at_least_zero,
    instance,
    quoted,
    set_fields,
)
from pufferflow.noise.channel import ERASED, Channel
from pufferflow.tradeoff.profile import Profile

if TYPE_CHECKING:
    from pufferflow.models.domain import Label

_ROUNDINGS = 16 * UNIT
_STEPS = 200


@final
@suggests_arguments
@dataclass(frozen=True)
class LocalPrivacy(InNotebooks):
    """A channel's ε and its total variation η, which is at most tanh(ε/2): a larger one is cut to that.

    >>> round(LocalPrivacy(1.0).tv, 6), LocalPrivacy(1.0, tv=0.3)
    (0.462117, LocalPrivacy(epsilon=1.0, tv=0.3))
    """

    epsilon: float
    tv: float = 1.0

    def __post_init__(self) -> None:
        """Read both numbers."""
        infinite = self.epsilon == math.inf
        epsilon = math.inf if infinite else finite_number_at_least_zero(self.epsilon, "epsilon")
        tv = finite_number(
            self.tv,
            "tv",
            allowed="a number from 0 to 1",
            instead="tv=0.3",
            fits=lambda tv: 0 <= tv <= 1,
        )
        set_fields(self, epsilon=epsilon, tv=min(tv, largest_tv(epsilon)))

    @property
    def share(self) -> float:
        """The probability that the dominating channel does not erase, η/tanh(ε/2), rounded up.

        For every f-divergence, compare the largest D_f(M0 ‖ M1) of (ε, η)-private and of ε-private channels. The former
        is at least this share of the latter (TV paper, Theorem 7). The reason is that erasing outputs of an ε-private
        channel is (ε, η)-private.
        """
        limit = math.tanh(self.epsilon / 2)
        return min(upwards(self.tv / limit, _ROUNDINGS), 1.0) if limit else 1.0

    @property
    def profile(self) -> Profile:
        """The same as a profile of `pf.tradeoff`, for the value of one row; composed, profiles give the joint loss.

        >>> import pufferflow as pf
        >>> twice = pf.tradeoff.compose([LocalPrivacy(1.0, tv=0.3).profile] * 2)
        >>> round(twice.tv, 4)
        0.4052
        """
        return Profile(self.epsilon, tv=self.tv)

    def dominating(self) -> Floats:
        """Return the two laws of the dominating channel: of its answers 0 and 1, and of being erased.

        >>> LocalPrivacy(1.0, tv=0.3).dominating().round(4).tolist()
        [[0.4746, 0.1746, 0.3508], [0.1746, 0.4746, 0.3508]]
        """
        if self.epsilon == 0:
            return np.array([[0.0, 0.0, 1.0]] * 2)
        low = self.tv / math.expm1(self.epsilon)
        high = self.tv + low  # η·e^ε/(e^ε − 1)
        erased = max(1 - high - low, 0.0)
        return np.array([[high, low, erased], [low, high, erased]])

    def divergence(self, f: Callable[[float], float]) -> float:
        """Return the largest D_f between outputs for two inputs, η(f(e^ε) + e^ε·f(e^−ε))/(e^ε − 1).

        `f` is convex with f(1) = 0: t·log t for KL, (t − 1)² for χ², max(0, t − 1) for total variation. The dominating
        channel attains it.

        >>> round(LocalPrivacy(1.0, tv=0.3).divergence(lambda t: t * math.log(t)), 6)
        0.3
        """
        if self.epsilon == 0 or self.tv == 0:
            return 0.0
        if self.epsilon == math.inf:
            raise UsageError(
                "epsilon is inf.", allowed="a finite epsilon", instead="LocalPrivacy(1.0)"
            )
        ratio = math.exp(self.epsilon)
        return upwards(
            self.tv * (f(ratio) + ratio * f(1 / ratio)) / math.expm1(self.epsilon), _ROUNDINGS
        )

    @property
    def kl_contraction(self) -> float:
        """The largest KL(M0 ‖ M1)/KL(P0 ‖ P1), η·tanh(ε/2), rounded up; of χ² the same (TV Theorem 5)."""
        return upwards(self.tv * math.tanh(self.epsilon / 2), _ROUNDINGS)

    def tv_bound(self, distance: float) -> float:
        """Return the largest TV(M0, M1) for TV(P0, P1) = `distance`: η times it; binary erasure attains it."""
        return upwards(self.tv * _distance(distance), _ROUNDINGS)

    def chi2_bound(self, distance: float) -> float:
        """Return a bound on χ²(M0 ‖ M1) for TV(P0, P1) = `distance`: 4η(e^ε − 1)(e^−ε + 1)·TV², loose (TV Theorem 6).

        >>> round(LocalPrivacy(1.0, tv=0.3).chi2_bound(0.5), 6)
        0.705121
        """
        factor = (
            4 * self.tv * math.expm1(self.epsilon) * (math.exp(-self.epsilon) + 1)
            if self.tv
            else 0.0
        )
        return upwards(factor * _distance(distance) ** 2, _ROUNDINGS)

    def kl_bound(self, distance: float) -> float:
        """Return a bound on KL(M0 ‖ M1) for TV(P0, P1) = `distance`: log(1 + χ²), for laws of any KL themselves."""
        return upwards(math.log1p(self.chi2_bound(distance)), _ROUNDINGS)

    @property
    def erasure_share(self) -> float:
        """A lower bound on binary erasure's share of the best KL(M0 ‖ M1), η/(2(e^ε − 1)(e^−ε + 1)) (TV (41))."""
        if self.epsilon == 0:
            return 0.0
        return (
            self.tv
            / (2 * math.expm1(self.epsilon) * (math.exp(-self.epsilon) + 1))
            * (1 - _ROUNDINGS)
        )


def largest_tv(epsilon: float) -> float:
    """Return the largest η of an ε-private channel, tanh(ε/2), rounded up.

    >>> round(largest_tv(1.0), 6), largest_tv(0.0)
    (0.462117, 0.0)
    """
    return min(upwards(math.tanh(epsilon / 2), _ROUNDINGS), 1.0)


def kl_contraction(probabilities: Any) -> float:
    """Return a channel's KL contraction coefficient, the largest KL(M0 ‖ M1)/KL(P0 ‖ P1), rounded up; χ² has the same.

    It is that of two inputs, and of these the largest Le Cam divergence over weights β. That is concave in β, so its
    tangents bound it from above.

    >>> round(kl_contraction([[0.75, 0.25], [0.25, 0.75]]), 6)
    0.25
    """
    rows = np.asarray(probabilities, dtype=np.float64)
    pairs = [(rows[a], rows[b]) for a in range(len(rows)) for b in range(a)]
    return min(max((_largest_le_cam(p, q) for p, q in pairs), default=0.0) * (1 + _ROUNDINGS), 1.0)


def _largest_le_cam(p: Floats, q: Floats) -> float:
    """Return an upper bound, close to it, on β(1 − β)·Σ (p − q)²/(βp + (1 − β)q) over β."""
    there = (p > 0) | (q > 0)
    p, q = p[there], q[there]
    if (p * q == 0).all():
        return 1.0
    low, high, best = 0.0, 1.0, math.inf
    for _ in range(_STEPS):
        beta = (low + high) / 2
        value, slope = _le_cam(p, q, beta)
        best = min(best, value + max(slope * (high - beta), slope * (low - beta)))
        if high - low < UNIT:
            break
        low, high = (beta, high) if slope > 0 else (low, beta)
    return best + 4 * UNIT


def _le_cam(p: Floats, q: Floats, beta: float) -> tuple[float, float]:
    """Return 1 − Σ pq/(βp + (1 − β)q), which is the same, and its slope."""
    mixed = beta * p + (1 - beta) * q
    shared = p * q / mixed
    return float(1 - shared.sum()), float((shared * (p - q) / mixed).sum())


def total_variation(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return the total variation of two laws on the same values.

    >>> total_variation([0.5, 0.5], [0.75, 0.25])
    0.25
    """
    return float(
        np.abs(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)).sum() / 2
    )


def _distance(given: object) -> float:
    return finite_number(
        given,
        "distance",
        allowed="a total variation, from 0 to 1",
        instead="0.5",
        fits=lambda tv: 0 <= tv <= 1,
    )


BITS: Final = 32
TOTAL: Final = 2**BITS
"""Chances of mechanisms are multiples of 2⁻³², of which a draw reads no more than one word."""
MOST_LABELS: Final = 128
_WIDEST: Final = 2**127
_FLOAT: Final = sys.float_info.max

_LARGEST = 20.0
"""The largest ε: beyond it the chances, multiples of 2⁻³², cannot represent e^ε."""


@suggests_arguments
def randomized_response(labels: Any, epsilon: float) -> Channel:
    """Return k-ary randomised response: a row's own label is e^ε times as likely as each other label.

    >>> channel = randomized_response(["no", "maybe", "yes"], epsilon=1.0)
    >>> channel.matrix.round(4).tolist()[0], round(channel.epsilon, 6)
    ([0.5761, 0.2119, 0.2119], 1.0)
    """
    alphabet = read_labels(labels)
    ratio, others = exp_below(read_epsilon(epsilon)), len(alphabet) - 1
    other = math.ceil(TOTAL / (ratio + others))  # rounded up: then no label is kept too often
    own = TOTAL - others * other
    if own <= other:
        raise _too_small(epsilon)
    rows = [
        tuple(own if x == y else other for y in range(len(alphabet))) for x in range(len(alphabet))
    ]
    family = partial(randomized_response, alphabet)
    return _channel(alphabet, alphabet, rows, "randomised response", family)


@suggests_arguments
def binary_erasure(first: Any, second: Any, epsilon: float, tv: float | None = None) -> Channel:
    """Return the binary mechanism with erasure for two laws of rows, given as {label: probability}.

    A row outputs 1 if its label is likelier under `second` than under `first`, else 0. This goes through the dominating
    channel, where the output is null (erased) with some probability. Of all channels with this ε and η it distinguishes
    the two laws best, in total variation: TV(M0, M1) = η·TV(P0, P1). Without `tv` η is the largest for ε, and nothing
    is erased.

    >>> channel = binary_erasure({"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.8}, epsilon=1.0, tv=0.3)
    >>> channel.outputs, channel.matrix.round(4).tolist()[1]
    ((0, 1, None), [0.1746, 0.4746, 0.3508])
    """
    old, new = _read_law(first, "first"), _read_law(second, "second")
    if set(old) != set(new):
        raise UsageError(
            "The two distributions have different labels.",
            allowed="one probability for each label in both",
        )
    limit = largest_tv(read_epsilon(epsilon))
    wanted = (
        limit
        if tv is None
        else finite_number(
            tv,
            "tv",
            allowed="a number above 0, and at most 1",
            instead="tv=0.3",
            fits=lambda tv: 0 < tv <= 1,
        )
    )
    share = min(wanted / limit, 1.0)
    return _erasing({label: new[label] > old[label] for label in old}, share, epsilon)


def _erasing(ones: Mapping[Any, bool], share: float, epsilon: float) -> Channel:
    """Return the channel of binary answers that are not erased with a probability `share`."""
    ratio = exp_below(read_epsilon(epsilon))
    low = math.floor(TOTAL * Fraction(share) / (ratio + 1))
    high = math.floor(low * ratio)  # rounded down, so that neither ε nor η is above
    if high <= low:
        raise _too_small(epsilon)
    erased = TOTAL - low - high if share < 1 else 0
    if not erased:  # two outputs, of which the unlikely one is rounded up
        low = math.ceil(TOTAL / (ratio + 1))
        high = TOTAL - low
    answers = {False: (high, low), True: (low, high)}
    rows = [(*answers[one], erased) if erased else answers[one] for one in ones.values()]
    outputs = (0, 1, ERASED) if erased else (0, 1)
    family = partial(_erasing, ones, share)
    return _channel(tuple(ones), outputs, rows, "the binary mechanism with erasure", family)


def _channel(
    inputs: "Sequence[Label]",
    outputs: "Sequence[Label | None]",
    chances: Sequence[tuple[int, ...]],
    name: str,
    family: Callable[[float], Channel],
) -> Channel:
    """Return the channel with chances in whole numbers of 2⁻³²."""
    rows = [[Fraction(one, TOTAL) for one in row] for row in chances]
    return Channel(None, inputs, outputs, rows, name=name, family=family)


def read_epsilon(given: object) -> float:
    """Return an ε > 0 that a channel can have."""
    return finite_number(
        given,
        "epsilon",
        allowed=f"a number above 0, and at most {_LARGEST:g}",
        instead="epsilon=1.0",
        fits=lambda epsilon: 0 < epsilon <= _LARGEST,
    )


def _read_law(given: object, name: str) -> dict[Any, float]:
    allowed, instead = (
        "a dictionary {label: probability} whose values add up to 1",
        '{"no": 0.5, "yes": 0.5}',
    )
    law = dict(
        cast("Mapping[Any, Any]", instance(given, Mapping, name, allowed=allowed, instead=instead))
    )
    read_labels(list(law), f"labels of {name}")
    masses = {
        label: finite_number(
            one, f"the probability of {quoted(label)}", allowed=allowed, instead=instead
        )
        for label, one in law.items()
    }
    if min(masses.values()) < 0 or abs(sum(masses.values()) - 1) > 1e-9:
        raise UsageError(
            f"{name} is no probability distribution.", allowed=allowed, instead=instead
        )
    return masses


def exp_below(epsilon: float) -> Fraction:
    """Return e^ε for ε ≥ 0, rounded down far enough that its logarithm, rounded up, is not above ε.

    >>> exp_below(0.0), round(float(exp_below(1.0)), 6)
    (Fraction(1, 1), 2.718282)
    """
    return 1 + Fraction(math.expm1(epsilon)) * (1 - 32 * Fraction(UNIT)) if epsilon else Fraction(1)


def read_labels(given: object, name: str = "labels") -> "tuple[Label, ...]":
    """Return the labels of an alphabet: two at least, all different."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise UsageError(
            f"{name} is {quoted(given)}.", allowed="a list of labels", instead='["no", "yes"]'
        )
    labels = tuple(cast("Sequence[Label]", given))
    check_labels(labels, name, at_least=2)
    return labels


def check_labels(labels: Sequence[Any], name: str, *, at_least: int) -> None:
    """Refuse labels that one column does not hold."""
    if any(
        not isinstance(label, str | int | float) and (label is not None or name == "inputs")
        for label in labels
    ):
        raise UsageError(
            f"One of the {name} is no label.", allowed="texts or numbers", instead='["no", "yes"]'
        )
    if any(label != label for label in labels) or len(set(labels)) < len(labels):  # noqa: PLR0124 - NaN
        raise UsageError(
            f"Two of the {name} are equal, or one is NaN.",
            allowed="each label once, without NaN",
            instead='["no", "yes"]',
        )
    if not _fit_one_column([label for label in labels if label is not None]):
        raise UsageError(
            f"The {name} do not fit into one column.",
            allowed="all texts, or all finite numbers that one column stores exactly",
            instead='["1", "other"]',
        )
    if not at_least <= len(labels) <= MOST_LABELS + 1:
        raise UsageError(
            f"There are {len(labels)} {name}.",
            allowed=f"{at_least} to {MOST_LABELS} labels",
            instead="wider classes",
        )


def _fit_one_column(labels: "Sequence[Label]") -> bool:
    """Return whether labels are all texts, or all numbers that one column holds as they are."""
    if any(isinstance(label, str) for label in labels):
        return all(isinstance(label, str) for label in labels)
    numbers = cast("Sequence[int | float]", labels)
    if any(isinstance(number, float) for number in numbers):
        return all(abs(number) <= _FLOAT and float(number) == number for number in numbers)
    return all(abs(number) < _WIDEST for number in numbers)


def _too_small(epsilon: float) -> Refused:
    return Refused(
        f"epsilon={epsilon:g} is too small for probabilities in steps of 2^-{BITS}: outputs would reveal nothing.",
        allowed="a larger epsilon",
        instead="epsilon=0.01, or fewer labels",
    )
