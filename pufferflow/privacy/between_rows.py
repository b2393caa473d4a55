"""What losses about one row say about two rows: X_i = a against X_j = b (M60 (i)).

A release of which any two values of a row are ε apart has a law that is a mixture of these. So it is nearer to that of
each value than they are to each other, by the probability m of that value. Two such steps lead from one row to
another. All results are rounded towards privacy.
"""

import math

from pufferflow.core.rounding import UNIT

_NEAR, _FAR = 0.5, 1000.0
_MOST = 0.5
"""Of two possible values one has at most this probability."""


def epsilon_between(epsilon: float, least: float) -> float:
    """Return log (m + (1−m)e^ε)/(m + (1−m)e^−ε), rounded up: at most 2ε.

    >>> epsilon_between(1.0, 0.1), epsilon_between(1.0, 0.0), epsilon_between(1.0, 0.5)
    (1.776136..., 2.0, 1.000000...)
    """
    m, rest = _masses(least)
    if m == 0 or epsilon == 0:
        return 2 * epsilon
    grown = epsilon + math.log1p(m * math.expm1(-epsilon))  # log (m + (1−m)e^ε)
    small = math.exp(-epsilon)
    # both are log (m + (1−m)e^−ε); the first has all digits near 0, the second far from it
    shrunk = (
        math.log1p(rest * math.expm1(-epsilon)) if epsilon < _NEAR else math.log(m + rest * small)
    )
    found = (grown - shrunk) * (1 + 4 * UNIT) + 8 * UNIT * epsilon
    return min(max(found, epsilon), 2 * epsilon)


def epsilon_within(epsilon: float, least: float) -> float:
    """Return the ε of single rows that gives this one between rows, rounded down.

    >>> epsilon_within(1.77613659, 0.1), epsilon_within(2.0, 0.0)
    (1.0000..., 1.0)
    """
    m, rest = _masses(least)
    if m == 0 or epsilon == 0:
        return epsilon / 2
    if epsilon > _FAR:
        found = max(epsilon + math.log(m / rest), epsilon / 2)
    else:  # the root E = e^ε of rows of (1−m)E² − m(F−1)E − (1−m)F = 0, F = e^ε between rows
        found = epsilon / 2 + math.asinh(m / rest * math.sinh(epsilon / 2))
    found = min(found, epsilon) * (1 - 16 * UNIT)
    while epsilon_between(found, least) > epsilon:
        found *= 1 - 64 * UNIT
    return found


def delta_growth(epsilon: float, least: float) -> float:
    """Return how many times the δ of rows that between rows is: (1−m)(1+e^−ε)/(m+(1−m)e^−ε), rounded up.

    >>> delta_growth(0.0, 0.0), delta_growth(0.0, 0.5)
    (2.0..., 1.0...)
    """
    m, rest = _masses(least)
    small = math.exp(-epsilon)
    held = m + rest * small
    return rest * (1 + small) / held * (1 + 8 * UNIT) if held else math.inf


def _masses(least: float) -> tuple[float, float]:
    """Return the probability of a value, rounded down, and of the other values."""
    m = min(least, _MOST)
    return m, 1 - m
