"""Mechanisms of local privacy: channels for an ε, whose weights are rounded so that ε and η are never above."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, cast

from pufferflow.arguments import finite_number, instance, shown
from pufferflow.errors import Misuse, Refused
from pufferflow.local.channel import BITS, ERASED, TOTAL, Channel, exp_below, read_labels
from pufferflow.local.setting import largest_tv
from pufferflow.suggestions import suggests_arguments

_LARGEST = 20.0
"""Beyond it e^ε has no room among 2³² chances."""


@suggests_arguments
def randomized_response(labels: Any, epsilon: float) -> Channel:
    """Return k-ary randomised response: a row keeps its label with a chance e^ε times that of each other label.

    >>> channel = randomized_response(["no", "maybe", "yes"], epsilon=1.0)
    >>> channel.probabilities.round(4).tolist()[0], round(channel.epsilon, 6)
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
    return Channel(alphabet, alphabet, tuple(rows), "randomised response", family)


@suggests_arguments
def binary_erasure(first: Any, second: Any, epsilon: float, tv: float | None = None) -> Channel:
    """Return the binary mechanism with erasure for two laws of rows, given as {label: probability}.

    A row says 1 where its label is likelier under `second` than under `first`, else 0, through the dominating channel:
    with some chance it says nothing (null). Of all channels with this ε and η it tells the two laws apart best, in
    total variation: TV(M0, M1) = η·TV(P0, P1). Without `tv` η is the largest of ε, and nothing is erased.

    >>> channel = binary_erasure({"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.8}, epsilon=1.0, tv=0.3)
    >>> channel.outputs, channel.probabilities.round(4).tolist()[1]
    ((0, 1, None), [0.1746, 0.4746, 0.3508])
    """
    old, new = _read_law(first, "first"), _read_law(second, "second")
    if set(old) != set(new):
        raise Misuse("The two laws have different labels.", allowed="one probability for each label in both")
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
    return Channel(tuple(ones), outputs, tuple(rows), "the binary mechanism with erasure", family)


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
        label: finite_number(one, f"the probability of {shown(label)}", allowed=allowed, instead=instead)
        for label, one in law.items()
    }
    if min(masses.values()) < 0 or abs(sum(masses.values()) - 1) > 1e-9:
        raise Misuse(f"{name} is no law.", allowed=allowed, instead=instead)
    return masses


def _too_small(epsilon: float) -> Refused:
    return Refused(
        f"epsilon={epsilon:g} is so small that chances of 2^-{BITS} do not show it: outputs would tell nothing.",
        allowed="an epsilon with which rows still say something",
        instead="epsilon=0.01, or fewer labels",
    )
