"""Pairs of laws and one noise for all coordinates: the input of `pf.calibrate`, drawn.

For a plan these are two worlds: the pair that its noise was calibrated for, in whole steps, with the noise of a
release. If the witness is a pair of laws, the whole vector of sums is attacked. If it is a place along a chain, several
answers are drawn row by row (`paths`), and one answer from its laws. If neither is possible, two points represent the
secrets, as far apart as one row, or a group, moves the answers.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pufferflow.audit.worlds import Duel, Mechanism, paths, world_of
from pufferflow.calibration.laws import Laws, Pair, read_laws
from pufferflow.core.errors import PufferflowError, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.distributions.distances import winf
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.gaussian_law import GaussianLaw
from pufferflow.noise.base import Noise
from pufferflow.noise.sampler import STEPS_PER_SCALE, grid_of
from pufferflow.release.explain.worst_pair import NAMELESS, Origin, at_place, nameless, origin_of
from pufferflow.release.plan import Plan
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.key_threshold import grid_below

MOST_PAIRS = 64


def duels_of_pairs(noise: Noise, laws: object) -> list[Duel]:
    """Return the pairs to distinguish; of many pairs only those that lie farthest apart."""
    noise.check_drawable()
    pieces = read_laws(laws)
    pairs = [(pair, piece.movement_only) for piece in pieces for pair in _pairs(piece, noise)]
    if len(pairs) > MOST_PAIRS:
        pairs = sorted(pairs, key=lambda one: -_distance_of(one[0]))[:MOST_PAIRS]
    many = len(pairs) > 1
    duels = [
        _duel(noise, pair, place if many else None, stands_in=stands_in)
        for place, (pair, stands_in) in enumerate(pairs)
    ]
    if len({len(duel.mechanism.noises) for duel in duels}) > 1:
        raise UsageError(
            "The laws have several dimensions, and an attack needs one.",
            allowed="laws of one dimension",
            instead="one attack for each",
        )
    return duels


def _pairs(piece: Laws, noise: Noise) -> list[Pair]:
    """Return all pairs; one that represents a movement is at most that far apart."""
    if not piece.movement_only:
        return list(piece)
    return [at_most(pair, piece.winf(noise.norm).length, noise.norm) for pair in piece]


def at_most(pair: Pair, length: float, norm: float) -> Pair:
    """Return two points as far apart as a movement is long: on vectors, a pair goes as far in each coordinate.

    The two points must not be farther apart than the answers move, so the length is rounded down.
    """
    start, end = (
        np.atleast_1d(np.asarray(law.values[0], dtype=np.float64))
        for law in pair
        if isinstance(law, Law)
    )
    whole = float(np.linalg.norm(end - start, norm))
    share = 1.0 if whole <= length else length / whole * (1 - 8 * len(start) * UNIT)
    moved = share * (end - start)
    origin, moved = (
        (np.zeros(1)[0], moved[0]) if pair.dimension == 1 else (np.zeros(len(start)), moved)
    )
    return Pair(Law.point(origin), Law.point(moved), pair.prior, pair.secrets, pair.row)


def in_words(length: float, scale: float) -> str:
    """Return the note that two points represent laws."""
    distance = f"{length / scale:.6g} times the noise's scale" if scale > 0 else f"{length:.6g}"
    return f"two points {distance} apart represent the secrets, since only the movement of answers is known"


def names_of(secrets: tuple[object, object] | None, place: int | None = None) -> tuple[str, str]:
    """Return the secrets in words."""
    if secrets is not None:
        return repr(secrets[0]), repr(secrets[1])
    of_pair = "" if place is None else f" of pair {place + 1}"
    return f"the first law{of_pair}", f"the second law{of_pair}"


def for_prior(prior: object) -> str:
    """Return the prior in words."""
    describe = getattr(prior, "describe", None)
    return f", under the prior that {describe()}" if callable(describe) else ""


def _duel(noise: Noise, pair: Pair, place: int | None, *, stands_in: bool) -> Duel:
    mechanism = Mechanism.of(noise, pair.dimension)
    note = ""
    if stands_in:
        start, end = (
            np.atleast_1d(np.asarray(law.values[0], dtype=np.float64))
            for law in pair
            if isinstance(law, Law)
        )
        note = in_words(float(np.linalg.norm(end - start, noise.norm)), noise.scale)
    worlds = world_of(pair.mu), world_of(pair.nu)
    return Duel(worlds, mechanism, names_of(pair.secrets, place), for_prior(pair.prior), note)


def _distance_of(pair: Pair) -> float:
    """Return the distance of two laws; of vectors and Gaussian laws, their means."""
    mu, nu = pair
    if isinstance(mu, Law) and isinstance(nu, Law) and mu.dimension == 1:
        return float(winf(mu, nu))
    return float(np.linalg.norm(_mean(mu) - _mean(nu)))


def _mean(law: Law | GaussianLaw) -> np.ndarray:
    if isinstance(law, GaussianLaw):
        return law.mean
    return law.probabilities @ law.values.reshape(len(law), -1).astype(np.float64)


_SLACK = 1e-6
_FINEST = Fraction(1, 2**22)
_ONE_ROW = "two points represent the secrets, as far apart as one row alone moves the answers"


def duels_of_plan(plan: Plan) -> list[Duel]:
    """Return the worlds of the pair that cost most; none if no row moves an answer."""
    noise = plan.mechanism.noise
    if not (noise.weights > 0).any():
        return []
    witness, origin = noise.calibration.witness, origin_of(noise)
    if isinstance(witness, Pair):
        return [_of_pair(noise, origin, witness)]
    by_movement = noise.calibration.by_movement
    if noise.calibration.bound.supports_only or (origin.laws.movement_only and by_movement):
        length = noise.calibration.sensitivity
        moved = in_words(length, noise.calibration.noise.scale)
        return [_duel_of_points(noise, length, witness.secrets, witness.prior, moved)]
    return _at_place(noise, origin)


def _names(plan: CalibratedNoise, secrets: tuple[object, object] | None) -> tuple[str, str]:
    """Return the secrets in words; corners of an interval have none, as in the sentence of a plan."""
    return NAMELESS if nameless(plan) else names_of(secrets)


def _of_pair(plan: CalibratedNoise, origin: Origin, pair: Pair) -> Duel:
    """Return the vector of all sums under both secrets."""
    norm, note = plan.calibration.noise.norm, ""
    if origin.laws.movement_only:
        length = (
            plan.calibration.sensitivity
            if plan.calibration.by_movement
            else origin.laws.winf(norm).length
        )
        pair, note = _stretch(pair, length, norm), in_words(length, plan.calibration.noise.scale)
    coordinates = [k for k in range(pair.dimension) if plan.weights[k % len(plan.weights)] > 0]
    measures = [k % len(plan.weights) for k in coordinates]
    laws = [_in_steps(law, coordinates, plan, measures) for law in pair]
    mechanism = mechanism_of([plan.noises[measure] for measure in measures])
    worlds = world_of(laws[0]), world_of(laws[1])
    return Duel(worlds, mechanism, _names(plan, pair.secrets), for_prior(pair.prior), note)


def _stretch(pair: Pair, length: float, norm: float) -> Pair:
    """Return two points `length` apart; a pair of linear answers is nearer where rows are rounded to steps."""
    start, end = (
        np.atleast_1d(np.asarray(law.values[0], dtype=np.float64))
        for law in pair
        if isinstance(law, Law)
    )
    moved, whole = end - start, float(np.linalg.norm(end - start, norm))
    if whole > 0:
        moved = moved * (2 * length / whole)
    points = Pair(
        Law.point(np.zeros(len(moved))), Law.point(moved), pair.prior, pair.secrets, pair.row
    )
    return at_most(points, length, norm)


def _in_steps(
    law: Law | GaussianLaw,
    coordinates: Sequence[int],
    plan: CalibratedNoise,
    measures: Sequence[int],
) -> Law | GaussianLaw:
    """Return the law of the sums themselves, in whole steps of each."""
    weights = plan.weights[list(measures)]
    if isinstance(law, GaussianLaw):
        own = law.covariance[np.ix_(coordinates, coordinates)] / np.outer(weights, weights)
        return GaussianLaw(law.mean[list(coordinates)] / weights, own)
    rows = law.values.reshape(len(law), -1)[:, list(coordinates)]
    columns = [
        _steps(column, plan, measure) for column, measure in zip(rows.T, measures, strict=True)
    ]
    values: Any = np.array(columns, dtype=object).T
    return Law(values[:, 0] if len(coordinates) == 1 else values, law.weights)


def _steps(column: Any, plan: CalibratedNoise, measure: int) -> list[Fraction]:
    """Return sums in whole steps; a movement that is not a whole number is rounded down to the grid."""
    weight, grid = Fraction(float(plan.weights[measure])), _grid(plan.noises[measure])
    sums = [Fraction(value) / weight for value in column.tolist()]
    return [
        Fraction(round(one)) if abs(one - round(one)) < _SLACK else one // grid * grid
        for one in sums
    ]


def _duel_of_points(
    plan: CalibratedNoise, length: float, secrets: tuple[Any, Any] | None, prior: Any, note: str
) -> Duel:
    """Return two points at this distance, in the sum that has the largest weight."""
    measure = int(plan.weights.argmax())
    (end,) = _steps(np.array([length]), plan, measure)
    grid = _grid(plan.noises[measure])
    while float(end) * float(plan.weights[measure]) > length:
        end -= grid
    worlds = world_of(Law.point(0)), world_of(Law.point(end))
    return Duel(
        worlds, mechanism_of([plan.noises[measure]]), _names(plan, secrets), for_prior(prior), note
    )


def _at_place(plan: CalibratedNoise, origin: Origin) -> list[Duel]:
    """Return the worlds for a place along a chain or a tree: paths, the laws of one answer, or one row alone."""
    witness = plan.calibration.witness
    names, prior = _names(plan, witness.secrets), for_prior(witness.prior)
    row_worlds = paths(plan, origin)
    if row_worlds:
        return [
            Duel(
                pair.worlds,
                mechanism_of([plan.noises[k] for k in pair.measures]),
                names,
                prior,
                pair.note,
            )
            for pair in row_worlds
        ]
    try:
        laws = at_place(plan, origin, witness)
    except PufferflowError:
        length = plan.calibration.sensitivity
        return [_duel_of_points(plan, length, witness.secrets, witness.prior, _ONE_ROW)]
    worlds = world_of(laws.mu), world_of(laws.nu)
    return [Duel(worlds, mechanism_of([plan.noises[laws.measure]]), names, prior, laws.note)]


def mechanism_of(noises: Sequence[Noise]) -> Mechanism:
    """Return the noise of sums in whole steps, on the grids of a release."""
    return Mechanism(
        tuple(noises), tuple(_grid(noise) if noise.scale else None for noise in noises)
    )


def _grid(noise: Noise) -> Fraction:
    """Return the grid of a release, or one of 2⁻²² scales, if that is coarser: finer ones are drawn digit by digit."""
    coarse = grid_of(noise.scale) * STEPS_PER_SCALE * _FINEST if noise.scale else Fraction(0)
    return max(grid_below(noise), coarse)
