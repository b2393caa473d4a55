"""Sums and products of positive numbers whose exponents no float holds; a mass of 1e−900 is as exact as any other (M8).

A number is written on planes: Σ_l planes[l] · 2^(−640·l). Every float on a plane is 0, or at least 2^−450 and below
2^480: two of them multiply within [2^−900, 2^960], and 2^20 such products add up, without underflow or overflow. So
every sum of products of positive numbers keeps the relative accuracy of its operations, k·2^−53 for k of them, at any
size; nothing is ever flushed to 0. Mixing by a stochastic kernel does not raise the largest entry of a plane (laws of
the future) or its total (joint laws with the state), so planes stay below 2^480 for 2^30 entries. Before something
sinks below 2^−450 all that is below 2^−200 moves a plane down. What that drops is below 2^−100 of its number.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from pufferflow.sums.statistic import Floats, Whole

BITS = 640
SPAN = 2.0**BITS
LEAST = 2.0**-450
KEPT = 2.0**-200


@final
@dataclass(frozen=True, eq=False)
class Masses:
    """Positive numbers on planes, of shape (L, …), none but 0 below `least`, which is at least 2^−450."""

    planes: Floats
    least: float


def settled(planes: Floats) -> Masses:
    """Return the same numbers with each on one plane, where it is 0 or at least 2^−200.

    Entries may be spread over several planes, and lie within [2^−930, 2^980].
    """
    kept: list[Any] = []
    rest, deeper, placed = planes[0], list(planes[1:]), np.zeros(planes.shape[1:], dtype=np.bool_)
    while deeper or not kept or rest.any():
        following = np.where(placed, 0.0, deeper.pop(0)) if deeper else np.zeros(1)
        whole = rest + following / SPAN
        here = whole >= KEPT
        placed |= here
        kept.append(np.where(here, whole, 0.0))
        rest = np.where(here, 0.0, rest) * SPAN + np.where(here, 0.0, following)
    while len(kept) > 1 and not kept[-1].any():
        kept.pop()
    found = np.stack(kept)
    return Masses(found, float(np.min(found, initial=1.0, where=found > 0)))


def mixed(kernel: Masses, law: Masses) -> Masses:
    """Return kernel @ law: rows of masses mixed by the weights of a kernel."""
    if len(kernel.planes) > 1:
        planes = np.zeros((len(kernel.planes) + len(law.planes) - 1, *law.planes.shape[1:]))
        for depth, weights in enumerate(kernel.planes):
            planes[depth : depth + len(law.planes)] += weights @ law.planes
        return settled(planes)
    planes, least = kernel.planes[0] @ law.planes, kernel.least * law.least
    return Masses(planes, least) if least >= LEAST else settled(planes)


def shifted(law: Masses, by: Whole, span: int) -> Masses:
    """Return laws on points 0, 1, … moved by some points each, on `span` more points than before."""
    size = law.planes.shape[-1]
    planes = np.zeros((*law.planes.shape[:-1], size + span))
    for state, start in enumerate(by.tolist()):
        planes[:, state, start : start + size] = law.planes[:, state]
    return Masses(planes, law.least)


def normalised(planes: Floats) -> Floats:
    """Return one law of shape (L, N) divided by its total; entries may then lie within [2^−930, 2^930]."""
    totals = planes.sum(axis=1)
    top = int(np.flatnonzero(totals)[0])
    total = totals[top] + (totals[top + 1] / SPAN if top + 1 < len(totals) else 0.0)
    return planes[top:] / total


def tight(planes: Floats) -> Floats:
    """Return a law with each mass on one plane; on a single plane a normalised law is that already."""
    return planes if len(planes) == 1 else settled(planes).planes


def convolved(left: Floats, right: Floats) -> Floats:
    """Return the law of a sum of two, given tight on planes (L, N); directly, since an FFT would lose small masses."""
    if len(left) == len(right) == 1:
        return np.convolve(left[0], right[0])[None]
    planes = np.zeros((len(left) + len(right) - 1, left.shape[1] + right.shape[1] - 1))
    others = _pieces(right)
    for depth, start, piece in _pieces(left):
        for other_depth, other_start, other in others:
            at = start + other_start
            planes[depth + other_depth, at : at + len(piece) + len(other) - 1] += np.convolve(piece, other)
    return planes


def _pieces(planes: Floats) -> list[tuple[int, int, Floats]]:
    """Cut a law into what each plane has on either side of the peak: pieces that hardly overlap where it has one."""
    found: list[tuple[int, int, Floats]] = []
    peak = int(planes[0].argmax())
    for depth, plane in enumerate(planes):
        for start, part in ((0, plane[:peak]), (peak, plane[peak:])) if depth else ((0, plane),):
            at = np.flatnonzero(part)
            if len(at):
                found.append((depth, start + int(at[0]), part[at[0] : at[-1] + 1]))
    return found
