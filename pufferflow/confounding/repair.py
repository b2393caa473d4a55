"""The repair of a solver's channel: a mechanism that keeps its guarantee exactly, in whole numbers.

A solver's γ keeps its constraints up to a tolerance. Rounded to whole numbers, it is mixed with a mechanism that
ignores what it reads. Such a mechanism reveals nothing beyond the past releases, so it keeps every constraint that the
past keeps with a margin. The violation of a mixture is at most the mixture of violations, which gives the least
sufficient share. All computations are in rational numbers, and every constraint is checked again at the end.
"""

import math
from fractions import Fraction
from typing import cast

import numpy as np

from pufferflow.confounding.target import Target
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import InternalError

_ROWS = 2**52
_SHARES = 2**40


def repaired(target: Target, solved: Floats, chances: Floats) -> tuple[Array, int]:
    """Return probabilities that keep every constraint, in whole numbers, and their unit; `chances` are the inputs'."""
    rows = np.stack([_whole(row) for row in np.maximum(solved, 0.0)])
    mean = chances @ np.maximum(solved, 0.0)
    still = _whole(mean / mean.sum() / 2 + 0.5 / len(mean))
    share = _share(target, rows, still)
    mixed, unit = _mixed(rows, still, share), _ROWS * _SHARES
    if not kept(target, mixed, unit):
        raise InternalError("A repaired mechanism breaks its guarantee.", instead="reporting it to the maintainers")
    common = math.gcd(unit, *mixed.ravel().tolist())
    return mixed // common, unit // common


def kept(target: Target, rows: Array, unit: int) -> bool:
    """Return whether a mechanism keeps every constraint, exactly."""
    if target.budgets:
        return all(
            bool((target.excesses(place, part @ rows, unit) <= target.budgets[place]).all())
            for place, part in enumerate(target.parts)
        )
    return all(
        laws.delta_at(target.likelihood) / unit <= target.delta
        for place, part in enumerate(target.parts)
        for _, laws in target.pairs(place, (part @ rows).reshape(len(part), -1))
    )


def _whole(row: Floats) -> Array:
    """Return a law in whole numbers, of which `_ROWS` make 1; the remainder goes to the likeliest output."""
    exact = [int(one * _ROWS) for one in (row / row.sum()).tolist()]
    exact[int(np.argmax(row))] += _ROWS - sum(exact)
    return np.array(exact, dtype=object)


def _mixed(rows: Array, still: Array, share: int) -> Array:
    return rows * (_SHARES - share) + still[None, :] * share


def _share(target: Target, rows: Array, still: Array) -> int:
    """Return the least sufficient share of the mechanism that ignores what it reads, in parts of `_SHARES`."""
    need = Fraction(0)
    for place, part in enumerate(target.parts):
        solved, ignoring = part @ rows, part.sum(axis=2)[:, :, None] * still
        if target.budgets:
            allowed = target.budgets[place]
            over = (target.excesses(place, solved, _ROWS) - allowed).ravel().tolist()
            room = (allowed - target.excesses(place, ignoring, _ROWS)).ravel().tolist()
            need = max([need, *map(_part_of, over, room)])
            continue
        flat, calm = (one.reshape(len(part), -1) for one in (solved, ignoring))
        pairs = zip(target.pairs(place, flat), target.pairs(place, calm), strict=True)
        for (_, laws), (_, spare) in pairs:
            if target.delta > 0:
                over = laws.delta_at(target.likelihood) / _ROWS - target.delta
                room = target.delta - spare.delta_at(target.likelihood) / _ROWS
                need = max(need, _part_of(over, room))
            else:
                up, down = target.likelihood.numerator, target.likelihood.denominator
                excess, slack = laws.p * down - laws.q * up, spare.q * up - spare.p * down
                need = max([need, *(_part_of(excess[at], slack[at]) for at in np.flatnonzero(excess > 0).tolist())])
    return math.ceil(need * _SHARES)


def _part_of(over: Fraction | int, room: Fraction | int) -> Fraction:
    """Return the share λ with (1 − λ)·`over` ≤ λ·`room`; 1 if there is no margin."""
    if over <= 0:
        return Fraction(0)
    return Fraction(over) / (Fraction(over) + cast(Fraction, max(room, 0)))
