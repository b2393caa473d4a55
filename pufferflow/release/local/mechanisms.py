"""Mechanisms of local privacy: channels for an ε, with weights rounded so that ε and η are never exceeded."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, instance, quoted
from pufferflow.noise.channel import ERASED, Channel
from pufferflow.release.local.setting import largest_tv

if TYPE_CHECKING:
    from pufferflow.models.domain import Label

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
    """Return k-ary randomised response: a row keeps its label with a chance e^ε times that of each other label.

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
    rows = [tuple(own if x == y else other for y in range(len(alphabet))) for x in range(len(alphabet))]
    family = partial(randomized_response, alphabet)
    return _channel(alphabet, alphabet, rows, "randomised response", family)


@suggests_arguments
def binary_erasure(first: Any, second: Any, epsilon: float, tv: float | None = None) -> Channel:
    """Return the binary mechanism with erasure for two laws of rows, given as {label: probability}.

    A row outputs 1 if its label is likelier under `second` than under `first`, else 0, through the dominating channel:
    with some chance the output is null (erased). Of all channels with this ε and η it distinguishes the two laws best,
    in total variation: TV(M0, M1) = η·TV(P0, P1). Without `tv` η is the largest for ε, and nothing is erased.

    >>> channel = binary_erasure({"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.8}, epsilon=1.0, tv=0.3)
    >>> channel.outputs, channel.matrix.round(4).tolist()[1]
    ((0, 1, None), [0.1746, 0.4746, 0.3508])
    """
    old, new = _read_law(first, "first"), _read_law(second, "second")
    if set(old) != set(new):
        raise UsageError("The two laws have different labels.", allowed="one probability for each label in both")
    limit = largest_tv(read_epsilon(epsilon))
    wanted = (
        limit
        if tv is None
        else finite_number(
            tv, "tv", allowed="a number above 0, and at most 1", instead="tv=0.3", fits=lambda tv: 0 < tv <= 1
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
    allowed, instead = "a dictionary {label: probability} whose values add up to 1", '{"no": 0.5, "yes": 0.5}'
    law = dict(cast("Mapping[Any, Any]", instance(given, Mapping, name, allowed=allowed, instead=instead)))
    read_labels(list(law), f"labels of {name}")
    masses = {
        label: finite_number(one, f"the probability of {quoted(label)}", allowed=allowed, instead=instead)
        for label, one in law.items()
    }
    if min(masses.values()) < 0 or abs(sum(masses.values()) - 1) > 1e-9:
        raise UsageError(f"{name} is no law.", allowed=allowed, instead=instead)
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
        raise UsageError(f"{name} is {quoted(given)}.", allowed="a list of labels", instead='["no", "yes"]')
    labels = tuple(cast("Sequence[Label]", given))
    check_labels(labels, name, at_least=2)
    return labels


def check_labels(labels: Sequence[Any], name: str, *, at_least: int) -> None:
    """Refuse labels that one column does not hold."""
    if any(not isinstance(label, str | int | float) and (label is not None or name == "inputs") for label in labels):
        raise UsageError(f"Some of the {name} is no label.", allowed="texts or numbers", instead='["no", "yes"]')
    if any(label != label for label in labels) or len(set(labels)) < len(labels):  # noqa: PLR0124 - NaN
        raise UsageError(
            f"The {name} are not different.", allowed="each label once, and no NaN", instead='["no", "yes"]'
        )
    if not _fit_one_column([label for label in labels if label is not None]):
        raise UsageError(
            f"The {name} do not fit into one column.",
            allowed="texts, or finite numbers that keep their values beside each other",
            instead='["1", "other"]',
        )
    if not at_least <= len(labels) <= MOST_LABELS + 1:
        raise UsageError(
            f"There are {len(labels)} {name}.", allowed=f"{at_least} to {MOST_LABELS} labels", instead="wider classes"
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
        f"epsilon={epsilon:g} is so small that chances of 2^-{BITS} do not represent it: outputs would reveal nothing.",
        allowed="an epsilon with which rows still reveal something",
        instead="epsilon=0.01, or fewer labels",
    )
