"""Copula perturbation: two releases with correlated randomness.

A Gaussian copula ties two outputs at each pair of inputs: P(Y_1 ≤ y_1, Y_2 ≤ y_2) = Φ_ρ(Φ⁻¹(F_1(y_1)), Φ⁻¹(F_2(y_2))).
Each channel keeps its own loss, since its own law stays. The loss of both together is that of the joint channel, over
all pairs of inputs that can occur (M28). It may be more or less than with independent randomness. DCP's Theorem 4(ii),
which adds a guarantee of the copula's, is false. What holds is its form in M28: the copula's own (ε_c, δ_c) is added to
the joint loss under the copula of one secret.

A copula may differ by the secret. The result then reads the column of the secret too, and its cost is computed like any
other: exactly for channels. Only means of latent numbers move the releases' own laws (`latent`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, product
from typing import Any, cast, overload

import numpy as np
import scipy  # loads its parts when first used

from pufferflow.confounding.additive import Additive
from pufferflow.confounding.latent import CopulaBySecret, Tie, read_correlation
from pufferflow.confounding.tied import CopulaNoise, normal_below
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import instance
from pufferflow.models.domain import Label
from pufferflow.models.priors.table import Values
from pufferflow.noise.channel import Channel, columns_of

_UNIT = 2**60
_Copula = Callable[[Floats, Floats], Any]


@overload
def gaussian_copula(
    first: Channel, second: Channel, correlation: float | CopulaBySecret
) -> Channel: ...
@overload
def gaussian_copula(
    first: Additive, second: Additive, correlation: float | CopulaBySecret
) -> CopulaNoise: ...
def gaussian_copula(first: Any, second: Any, correlation: Any) -> Any:
    """Return the release of the outputs of two, with randomness tied by a Gaussian copula; both own laws stay exactly.

    For two channels the result is a channel: its outputs are pairs, in the order of the channels' outputs, and it reads
    the columns of both. For two `Additive` releases it is noise on both columns, whose cost is computed by cells.

    `correlation` may be a `CopulaBySecret`; the release then reads that column too. Only its means move own laws.

    >>> coin = Channel("x", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> tied = gaussian_copula(coin, coin, correlation=0.5)
    >>> tied.outputs, sum(tied.probability(0, (0, other)) for other in (0, 1))
    (((0, 0), (0, 1), (1, 0), (1, 1)), Fraction(3, 4))
    """
    if isinstance(first, Additive):
        return CopulaNoise(first, second, correlation)
    _check_channels(first, second)
    if not isinstance(correlation, CopulaBySecret):
        return tied_channels(first, second, _gaussian(Tie(read_correlation(correlation))))
    by_value = {
        value: tied_channels(_moved(first, tie.first), _moved(second, tie.second), _gaussian(tie))
        for value, tie in correlation.ties
    }
    return _by_value(correlation.column, by_value)


def _gaussian(tie: Tie) -> _Copula:
    ndtri = scipy.special.ndtri
    return lambda u, v: normal_below(ndtri(u), ndtri(v), tie.correlation)


def tied_channels(
    first: Channel,
    second: Channel,
    copula: _Copula | Mapping[Any, _Copula],
    *,
    secret: str | None = None,
) -> Channel:
    """Return the channel that publishes the outputs of two, tied by a copula: P(Y_1 ≤ y_1, Y_2 ≤ y_2) = C(u, v).

    `copula` is a function of two arrays of probabilities. Outputs are in the order of the channels. The result has
    exactly both own laws, and the copula's masses up to rounding. With a dict of copulas, one for every value of the
    column `secret`, the result reads that column too.

    >>> import numpy as np
    >>> coin = Channel("x", [0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> tied_channels(coin, coin, np.minimum).probability(0, (0, 1))
    Fraction(0, 1)
    >>> tied = tied_channels(coin, coin, {"no": np.minimum, "yes": np.multiply}, secret="ill")
    >>> tied.reads, tied.probability((0, "yes"), (0, 1))
    (('x', 'ill'), Fraction(3, 16))
    """
    _check_channels(first, second)
    if isinstance(copula, Mapping) != (secret is not None) or copula == {}:
        raise UsageError(
            "A copula for every value of a secret comes with the name of its column, and only then.",
            allowed="a function; or a dict of functions together with secret=",
            instead='tied_channels(first, second, {"no": numpy.minimum, "yes": numpy.multiply}, secret="ill")',
        )
    if not isinstance(copula, Mapping):
        return _tied_by(first, second, copula)
    (column,) = columns_of([secret])
    listed = cast(Mapping[Label, _Copula], copula)
    return _by_value(column, {value: _tied_by(first, second, one) for value, one in listed.items()})


def _check_channels(first: object, second: object) -> None:
    for one, name in ((first, "first"), (second, "second")):
        instance(
            one,
            Channel,
            name,
            allowed="a pf.confounding.Channel",
            instead="pf.confounding.Channel(…)",
        )


def _tied_by(first: Channel, second: Channel, copula: _Copula) -> Channel:
    columns = tuple(dict.fromkeys([*first.reads, *second.reads]))
    inputs: list[Values] = []
    rows: list[list[Fraction]] = []
    tied: dict[tuple[int, int], list[Fraction]] = {}
    for (one, left), (two, right) in product(enumerate(first.points), enumerate(second.points)):
        known = dict(zip(first.reads, left, strict=True))
        if all(
            known.get(name, value) == value for name, value in zip(second.reads, right, strict=True)
        ):
            known |= dict(zip(second.reads, right, strict=True))
            inputs.append(tuple(known[name] for name in columns))
            if (one, two) not in tied:
                tied[one, two] = _tied(first.probabilities[one], second.probabilities[two], copula)
            rows.append(tied[one, two])
    outputs: list[Any] = list(product(first.outputs, second.outputs))
    return Channel(columns, inputs, outputs, rows, tied=[first, second])


def _by_value(column: str, channels: Mapping[Label, Channel]) -> Channel:
    """Return the channel whose rows are those of the channel that a column's value names."""
    each = list(channels.values())
    if all(one == each[0] for one in each):
        return each[0]
    reads = tuple(dict.fromkeys([*each[0].reads, column]))
    inputs: list[Values] = []
    rows: list[Sequence[Fraction]] = []
    for value, channel in channels.items():
        for point, row in zip(channel.points, channel.probabilities, strict=True):
            known = dict(zip(channel.reads, point, strict=True))
            if known.setdefault(column, value) == value:
                inputs.append(tuple(known[name] for name in reads))
                rows.append(row)
    parts = zip(*(one.tied for one in each), strict=True)
    tied = [_by_value(column, dict(zip(channels, part, strict=True))) for part in parts]
    return Channel(reads, inputs, each[0].outputs, rows, tied=tied)


def _moved(channel: Channel, mean: float) -> Channel:
    """Return the channel whose latent number has a mean: P(Y ≤ y) = Φ(Φ⁻¹(F(y)) − mean)."""
    if mean == 0:
        return channel
    below = np.array([[0.0, *map(float, accumulate(row))] for row in channel.probabilities])
    below[:, -1] = 1.0
    moved = scipy.special.ndtr(scipy.special.ndtri(below.clip(0.0, 1.0)) - mean)
    rows = [[Fraction(one) for one in row] for row in np.diff(moved, axis=1).tolist()]
    rows = [[one / sum(row) for one in row] for row in rows]
    return Channel(channel.reads, channel.inputs, channel.outputs, rows)


def effective_correlation(correlation: float, variance: float) -> float:
    """Return the correlation of the copula of DCP's sampling: of Z_1 and ρZ_1 + √(1−ρ²)·Z_2, with Z_1 of a variance.

    >>> round(effective_correlation(0.5, 4.0), 6)
    0.755929
    """
    size = abs(correlation) * math.sqrt(variance)
    return math.copysign(
        size / math.sqrt(correlation**2 * variance + 1 - correlation**2), correlation
    )


def _tied(first: Sequence[Fraction], second: Sequence[Fraction], copula: Any) -> list[Fraction]:
    """Return a joint law with these two own laws exactly, close to the copula's.

    Whole numbers below the copula's masses are reduced until no row and no column has too much. The missing mass of
    each is filled in independently, which restores both own laws.
    """
    masses = np.maximum(_copula_masses(first, second, copula), 0.0)
    whole = [[Fraction(int(one * _UNIT), _UNIT) for one in row] for row in masses.tolist()]
    sums = [
        *zip(first, (sum(row) for row in whole), strict=True),
        *zip(second, (sum(column) for column in zip(*whole, strict=True)), strict=True),
    ]
    shrink = min([Fraction(1), *(own / found for own, found in sums if found > 0)])
    whole = [[one * shrink for one in row] for row in whole]
    rows = [own - sum(row) for own, row in zip(first, whole, strict=True)]
    columns = [
        own - sum(column) for own, column in zip(second, zip(*whole, strict=True), strict=True)
    ]
    missing = sum(rows, Fraction(0))
    if missing == 0:
        return [one for row in whole for one in row]
    return [
        one + rows[i] * columns[j] / missing
        for i, row in enumerate(whole)
        for j, one in enumerate(row)
    ]


def _copula_masses(first: Sequence[Fraction], second: Sequence[Fraction], copula: Any) -> Floats:
    """Return the masses that a copula gives to all pairs of outputs."""
    sums = [np.array([0.0, *map(float, accumulate(law))]).clip(0.0, 1.0) for law in (first, second)]
    u, v = (np.append(one[:-1], 1.0) for one in sums)
    shape = len(u), len(v)
    below = np.asarray(
        copula(*(np.ascontiguousarray(one) for one in np.broadcast_arrays(u[:, None], v[None, :])))
    )
    if below.shape != shape or not np.isfinite(below).all():
        raise UsageError(
            "The copula does not give a number for every pair of probabilities.",
            allowed="a function of two arrays of numbers from 0 to 1, with an array of numbers from 0 to 1",
            instead="tied_channels(first, second, numpy.minimum), or gaussian_copula(first, second, correlation=0.5)",
        )
    return np.diff(np.diff(below, axis=0), axis=1)
