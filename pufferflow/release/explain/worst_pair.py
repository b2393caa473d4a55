"""Return the worst pair: the two laws of an answer that are the easiest to distinguish, in the unit of the answer.

The noise of a plan is made for the weighted sums of all cells at once. Here one of them is divided by its weight. The
guarantee for all of them holds for each: a function of the answers reveals no more than the answers.
"""

import numpy as np

from pufferflow.calibration.law_pairs import Pair, finite_laws
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import PufferflowError
from pufferflow.distributions.distances import winf
from pufferflow.distributions.finite_law import Law
from pufferflow.models.secret import Presence
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.release.explain.one_number import (
    Number,
    NumberLaws,
    Origin,
    at_place,
    number_of,
    origin_of,
    span_of,
    stand_ins,
)
from pufferflow.release.planning.decision import Decision
from pufferflow.release.planning.sum_tables import on_interval
from pufferflow.reports.evidence import Atoms, WorstPair

_MOST_ATOMS = 400
_NO_NOISE = "No noise is added: the guarantee holds without it."
_ONE_OF = "one number of several that are published together"
_BINNED = f"drawn in {_MOST_ATOMS} bins: the laws have more values"
NAMELESS = ("one value", "another")
"""Two secrets that have no names."""


def worst_pair(plan: Decision) -> tuple[WorstPair | None, str]:
    """Return the pair and "", or None and the reason."""
    if plan.calibration.noise.scale == 0 or not (plan.weights > 0).any():
        return None, _NO_NOISE
    try:
        return _in_answer_unit(plan, _laws_of_worst_pair(plan)), ""
    except PufferflowError as refusal:
        return None, refusal.problem


def _laws_of_worst_pair(plan: Decision) -> NumberLaws:
    """Return the two laws: those of a pair, or those at a place, where the calibration listed none."""
    calibration, origin = plan.calibration, origin_of(plan)
    if isinstance(calibration.witness, Pair):
        return _of_pair(plan, origin, calibration.witness)
    by_movement = calibration.bound.supports_only or (origin.laws.movement_only and calibration.bound.by_movement)
    weighted = origin.pattern.shares is not None  # sums of public weights, of which as many as rows are listed
    return (
        span_of(plan, origin, calibration.witness)
        if by_movement or weighted
        else at_place(plan, origin, calibration.witness)
    )


def _of_pair(plan: Decision, origin: Origin, pair: Pair) -> NumberLaws:
    """Return the coordinate of a pair whose two laws lie farthest apart."""
    mu, nu = finite_laws(pair)
    steps = _distances(mu, nu)
    cell, measure = divmod(int(steps.argmax()), len(plan.weights))
    weight = float(plan.weights[measure])
    if origin.laws.movement_only:
        length = plan.calibration.sensitivity if pair.dimension == 1 else float(steps.max())
        return stand_ins(measure, length / weight, pair.secrets)
    rows = 1 if origin.laws.constant or origin.tables.prior.independent_rows else int(_rows_in(origin, cell))
    coordinate = int(steps.argmax())
    first, second = (_coordinate(law, coordinate).map(lambda values: values / weight) for law in (mu, nu))
    return NumberLaws(measure, first, second, pair.secrets, rows)


def _distances(mu: Law, nu: Law) -> Floats:
    """Return the distance between the two laws of each coordinate."""
    if len(mu) == len(nu) == 1:
        return np.abs(np.atleast_1d(mu.values[0] - nu.values[0])).astype(np.float64)
    coordinates = range(mu.dimension)
    return np.array([float(winf(_coordinate(mu, at), _coordinate(nu, at), 1)) for at in coordinates])


def _coordinate(law: Law, at: int) -> Law:
    return law if law.dimension == 1 else Law(law.values[:, at].astype(np.float64), law.probabilities)


def _rows_in(origin: Origin, cell: int) -> int:
    """Return how many rows of the group are in a cell."""
    pattern = origin.pattern
    return int(pattern.counts[pattern.cells == cell].sum())


def _in_answer_unit(plan: Decision, pair_laws: NumberLaws) -> WorstPair:
    """Return the pair in the unit of the answer."""
    number, noise = number_of(plan, pair_laws.measure), plan.noises[pair_laws.measure]
    first, second = _names(plan, pair_laws)
    mu, nu, coarser = _atoms_of_both(pair_laws, number, _least_values(plan, pair_laws))
    one_of = _ONE_OF if plan.request.by or len(plan.weights) > 1 else ""
    notes = [_left_out(plan), pair_laws.note, one_of, coarser]
    epsilon, delta = _epsilon_and_delta(plan.calibration.guarantee)
    return WorstPair(
        answer=_answer(plan, pair_laws, number),
        first=first,
        second=second,
        mu=mu,
        nu=nu,
        noise=type(noise).__name__,
        scale=noise.scale * number.step,
        shape=noise.shape,
        epsilon=epsilon,
        delta=delta,
        note="; ".join(note for note in notes if note),
    )


def _names(plan: Decision, pair_laws: NumberLaws) -> tuple[str, str]:
    """Return the names of the two secrets."""
    if pair_laws.secrets is None or nameless(plan):
        return NAMELESS
    return str(pair_laws.secrets[0]), str(pair_laws.secrets[1])


def nameless(plan: Decision) -> bool:
    """Return whether secrets are places in a table of an interval, which have no meaningful names."""
    request = plan.request
    return on_interval(request) and not isinstance(request.scenario.secret, Presence)


def _answer(plan: Decision, pair_laws: NumberLaws, number: Number) -> str:
    """Describe the number of the two laws: rows of one group, since other groups are the same under both secrets."""
    within = plan.request.scenario.group_in_words
    if pair_laws.stands_in:
        return f"the movement of {number.answer} by the rows{f' of one {within}' if within else ''}"
    return f"what the rows of one {within} add to {number.answer}" if within else number.answer


def _left_out(plan: Decision) -> str:
    within = plan.request.scenario.group_in_words
    return f"rows of any other {within} are left out: they are the same under both secrets" if within else ""


def _least_values(plan: Decision, pair_laws: NumberLaws) -> float:
    """Return the sum of the least values of all rows, which laws leave out, in steps."""
    if on_interval(plan.request) or isinstance(plan.request.scenario.secret, Presence):
        return 0.0
    return pair_laws.rows * float(plan.facts.functions.row(pair_laws.measure).min())


def _atoms_of_both(pair_laws: NumberLaws, number: Number, least: float) -> tuple[Atoms, Atoms, str]:
    """Return both laws in the unit of the answer; in the same bins where a figure cannot draw all values."""
    laws = [
        ((law.values.astype(np.float64) + least) * number.step, law.probabilities)
        for law in (pair_laws.mu, pair_laws.nu)
    ]
    if max(len(values) for values, _ in laws) <= _MOST_ATOMS:
        mu, nu = (Atoms(tuple(values.tolist()), tuple(weights.tolist())) for values, weights in laws)
        return mu, nu, ""
    ends = np.concatenate([values for values, _ in laws])
    edges = ends.min() + (ends.max() - ends.min()) * (np.arange(_MOST_ATOMS + 1) / _MOST_ATOMS)
    mu, nu = (_bin_atoms(values, weights, edges) for values, weights in laws)
    return mu, nu, _BINNED


def _bin_atoms(values: Floats, weights: Floats, edges: Floats) -> Atoms:
    masses, _ = np.histogram(values, bins=edges, weights=weights)
    occupied = masses > 0
    centres = (edges[:-1] + edges[1:]) / 2
    return Atoms(tuple(centres[occupied].tolist()), tuple(masses[occupied].tolist()))


def _epsilon_and_delta(guarantee: Guarantee) -> tuple[float | None, float]:
    return (guarantee.epsilon, guarantee.delta) if guarantee.divergence.about_odds else (None, 0.0)
