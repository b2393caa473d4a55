"""The worst pair: the two laws of an answer that are the easiest to distinguish, for one published number.

Select one published number for the worst pair: its two laws where the prior gives them, else its movement.

The number is the sum of one function over the rows of one cell that belong to one correlated group. A guarantee about
all answers holds for each of them.

Also the origin of a plan's worst pair (its prior, functions and public pattern), and the name and step of each
published number.

Return the worst pair: the two laws of an answer that are the easiest to distinguish, in the unit of the answer.

The noise of a plan is made for the weighted sums of all cells at once. Here one of them is divided by its weight. The
guarantee for all of them holds for each: a function of the answers reveals no more than the answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from pufferflow.calibration.laws import Laws, Pair, SeveralLaws, Witness, finite_laws
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import InternalError, PufferflowError, Refused
from pufferflow.distributions.distances import winf
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.markov.sums import Sums
from pufferflow.distributions.markov.winf_of_sums import pair_of
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.hidden_markov import HiddenMarkov
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.priors.markov import MarkovChain
from pufferflow.models.secret import Initial, Presence
from pufferflow.queries.engine_interface import Measure, Pattern
from pufferflow.queries.statistic import Statistic, column_and_domain
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.laws_of_sums import tables_and_patterns
from pufferflow.release.planning.sum_functions import Tables, on_interval
from pufferflow.reports.evidence import Atoms, WorstPair
from pufferflow.sensitivity.cells import PRESENCE
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.markov import ChainRows


@final
@dataclass(frozen=True, eq=False)
class Origin:
    """The laws that a witness is of: the weighted sums on one pattern, under one prior."""

    tables: Tables
    pattern: Pattern
    laws: Laws


def origin_of(plan: CalibratedNoise) -> Origin:
    """Return the origin of the witness: of several patterns that cost the same, the one with the most rows."""
    deciding = set(map(id, plan.calibration.deciding))
    origins = origins_of(plan)
    possible = [origin for origin in origins if id(origin.laws) in deciding] or origins
    return max(
        _matching(possible, plan.calibration.witness), key=lambda origin: origin.pattern.selected
    )


def origins_of(plan: CalibratedNoise) -> list[Origin]:
    """Return the origins of all laws that the plan was calibrated for, in the order of its facts."""
    laws: Sequence[Laws] = plan.laws.pieces if isinstance(plan.laws, SeveralLaws) else [plan.laws]
    where = [
        (of_prior[0], pattern)
        for of_prior, pattern, _ in tables_and_patterns(plan.public, plan.tables)
    ]
    return [
        Origin(tables, pattern, piece) for (tables, pattern), piece in zip(where, laws, strict=True)
    ]


def _matching(origins: Sequence[Origin], witness: Witness) -> Sequence[Origin]:
    """Return the origins with the witness's prior and number of answers; no movement if the witness has laws."""
    candidates = [origin for origin in origins if origin.tables.prior is witness.prior] or origins
    candidates = [
        origin for origin in candidates if origin.laws.dimension == witness.dimension
    ] or candidates
    if isinstance(witness, Pair):
        spread = any(not isinstance(law, Law) or len(law) > 1 for law in witness)
        candidates = [
            origin for origin in candidates if not (spread and origin.laws.movement_only)
        ] or candidates
    if not candidates:
        raise InternalError("The plan has no laws.", instead="reporting it")
    return candidates


STAND_INS = "two points stand in for the laws: only their distance is known, or noise was calibrated to it alone"
_COVERS = "the rows are the most that any group has, counted as if all were in one cell"
_MOST_WORK = 3e8
_MOST_POINTS = 6_000.0
_MOST_PLACES = 90_000.0
_COARSEST, _FINEST = 24, 20_000
_LEAST_STEPS = 0.25
"""The laws of a count, which has one step, may take four times as long."""
_NEAR = 1e-7
_ROUNDED = "values of rows are rounded for the figure"


@final
@dataclass(frozen=True, eq=False)
class NumberLaws:
    """Two laws of the sum of one measure over `rows` rows, in whole steps above the least value of a row."""

    measure: int
    mu: Law
    nu: Law
    secrets: tuple[Any, Any] | None
    rows: int = 0
    note: str = ""
    stands_in: bool = False
    """Whether two points stand in for the laws."""


@final
@dataclass(frozen=True, eq=False)
class _CellSum:
    """The sum of one measure over one cell: its rows, and whether the row with the secret is one of them."""

    origin: Origin
    measure: int
    column: str | None
    pattern: Pattern
    table: Floats
    """What a row adds at each value of the secret, above the least of them."""
    own: bool
    """Whether the secret's row is one of those that are summed."""

    @property
    def statistic(self) -> Statistic:
        """The sum as a statistic."""
        pattern = self.pattern
        return Statistic(
            (pattern.cells >= 0)[None]
            * (1.0 if pattern.shares is None else pattern.shares[[self.measure]]),
            self.table[None],
            pattern.positions,
            start=0.0 if pattern.positions is None else pattern.start,
            column=self.column,
            counts=pattern.counts if pattern.positions is None else None,
        )

    @property
    def note(self) -> str:
        """A note on the choice of rows; empty if there is none."""
        return _COVERS if self.origin.pattern.covers else ""


def at_place(plan: CalibratedNoise, origin: Origin, witness: Witness) -> NumberLaws:
    """Return the two laws of one number at the place of a witness; refuse where listing them takes too long."""
    cell_sum, prior = _cell_sum(plan, origin, witness), origin.tables.prior
    chain = isinstance(prior, MarkovChain)
    most = _most_steps(prior, cell_sum.pattern)
    if most < _LEAST_STEPS and (chain or isinstance(prior, HiddenMarkov)):
        raise _too_long(cell_sum)
    cell_sum, grid = _round_to_grid(cell_sum, most)
    laws = (
        _along_a_chain(prior, cell_sum, witness)
        if chain
        else _with_hidden(prior, cell_sum, witness)
    )
    mu, nu = (law.map(lambda values: values * grid.width) for law in laws)
    notes = "; ".join(note for note in (cell_sum.note, grid.note) if note)
    return NumberLaws(cell_sum.measure, mu, nu, witness.secrets, cell_sum.pattern.selected, notes)


def _most_steps(prior: Prior, pattern: Pattern) -> float:
    """Return how many steps the values of one row may span, so that laws of the sum are listed in seconds.

    Along a chain they take a pass over all rows for each step of the sum. Hidden states are rows of their own, and rows
    that are not summed are passed too.
    """
    summed = pattern.selected + 1
    if isinstance(prior, MarkovChain):
        return min(_MOST_WORK / (summed * prior.states) ** 2, _MOST_PLACES / summed)
    most = _MOST_POINTS / summed
    if not isinstance(prior, HiddenMarkov):
        return most
    states = len(prior.emission) * prior.row_values
    return min(most, _MOST_WORK / (2 * pattern.rows * summed * states**2))


def span_of(plan: CalibratedNoise, origin: Origin, witness: Witness) -> NumberLaws:
    """Return two points as far apart as the rows of a group move one number, at most by the plan's sensitivity."""
    cell_sum = _cell_sum(plan, origin, witness)
    laws = implied(origin.tables.prior, cell_sum.statistic, origin.tables.secret)
    most = plan.calibration.sensitivity / float(plan.weights[cell_sum.measure])
    length = min(laws.span(1).length, most)
    return stand_ins(cell_sum.measure, length, witness.secrets, cell_sum.note)


def stand_ins(
    measure: int, length: float, secrets: tuple[Any, Any] | None, note: str = ""
) -> NumberLaws:
    """Return two points at this distance; under absence the number is 0."""
    notes = "; ".join(part for part in (STAND_INS, note) if part)
    ends = (length, 0.0) if secrets == PRESENCE else (0.0, length)
    return NumberLaws(
        measure, Law.point(ends[0]), Law.point(ends[1]), secrets, note=notes, stands_in=True
    )


def _cell_sum(plan: CalibratedNoise, origin: Origin, witness: Witness) -> _CellSum:
    """Return the sum over the cell of the secret's row, of the measure that this row moves farthest per scale."""
    pattern = origin.pattern
    whole = origin.tables.unsigned or pattern.covers
    cells = np.minimum(pattern.cells, 0) if whole else pattern.cells
    cell, own = _cell_of(pattern, cells, witness.row or 0)
    of_cell = replace(pattern, cells=np.where(cells == cell, 0, -1), covers=False)
    own_moves = _own_moves(origin, witness)
    moves = own_moves if own_moves.any() else np.ptp(origin.tables.values, axis=1)
    measure = int((origin.tables.of_sums(moves) * plan.weights).argmax())
    table = origin.tables.row(measure)
    low = 0.0 if isinstance(origin.tables.secret, Presence) else float(table.min())
    return _CellSum(origin, measure, plan.request.column, of_cell, table - low, own)


def _cell_of(pattern: Pattern, cells: Array, row: int) -> tuple[int, bool]:
    """Return the cell of a row, or that of the next row in any cell; and whether it is the row's own.

    Rows without an order are counted cell by cell, those outside the query first.
    """
    if pattern.positions is None:
        order = np.argsort(cells, kind="stable")
        ends = np.cumsum(pattern.counts[order])
        cell = int(cells[order[min(int(np.searchsorted(ends, row, side="right")), len(order) - 1)]])
    else:
        cell = int(cells[min(row, len(cells) - 1)])
    known = np.flatnonzero(cells >= 0)
    if cell >= 0 or len(known) == 0:
        return max(cell, 0), cell >= 0
    return int(cells[known[np.abs(known - row).argmin()]]), False


def _own_moves(origin: Origin, witness: Witness) -> Floats:
    """Return how far each measure moves between the two values; 0 where they are not points of the tables."""
    values, secret = origin.tables.values, origin.tables.secret
    points = (
        [] if secret.reads is None or isinstance(secret, Presence) else list(secret.reads[1].points)
    )
    both = [points.index(value) for value in witness.secrets or () if value in points]
    if len(both) < 2 or max(both) >= values.shape[1]:
        return np.zeros(len(values))
    return np.abs(values[:, both[0]] - values[:, both[1]])


@final
@dataclass(frozen=True)
class _Grid:
    """A width of which all values are multiples, up to rounding."""

    width: float
    note: str = ""


def _round_to_grid(cell_sum: _CellSum, most: float) -> tuple[_CellSum, _Grid]:
    """Return the sum on the coarsest grid that holds its values, else rounded to `most` steps.

    A figure does not need the fine steps in which sums are published.
    """
    largest = float(np.abs(cell_sum.table).max()) or 1.0
    counts = np.arange(1, min(most, _FINEST) + 1)
    multiples = np.outer(counts, cell_sum.table / largest)
    exact = np.abs(multiples - np.rint(multiples)).max(axis=1, initial=0.0) < _NEAR
    if exact.any():
        grid = _Grid(largest / int(counts[exact.argmax()]))
    elif most >= _COARSEST:
        grid = _Grid(largest / int(counts[-1]), _ROUNDED)
    else:
        raise _too_long(cell_sum)
    return replace(cell_sum, table=np.rint(cell_sum.table / grid.width)), grid


def _too_long(cell_sum: _CellSum) -> Refused:
    rows = cell_sum.pattern.selected
    return Refused(f"The laws of a sum of {rows} rows take too long to list for a figure.")


def _along_a_chain(prior: MarkovChain, cell_sum: _CellSum, witness: Witness) -> tuple[Law, Law]:
    """Return the laws of a sum along a chain given two states of one row (M18)."""
    secret = cell_sum.origin.tables.secret
    statistic, initial = cell_sum.statistic, isinstance(secret, Initial)
    _, domain = column_and_domain(prior, statistic, secret)
    rows, row = _rows_that_matter(
        ChainRows.of(statistic, domain, first=initial), 0 if initial else witness.row or 0
    )
    first, second = (domain.place(value, "a value") for value in witness.secrets or ())
    sums = Sums(prior.chain(rows.positions, statistic.start), rows.values, rows.kinds)
    return pair_of(sums, row, (first, second))


def _rows_that_matter(rows: ChainRows, secret: int) -> tuple[ChainRows, int]:
    """Return the summed rows and the secret's row, and the new place of the latter.

    Over the other rows the kernels of the chain are multiplied (M18).
    """
    needed = (rows.weights != 0).any(axis=0)[rows.kinds]
    needed[secret] = True
    summed = replace(rows, positions=rows.positions[needed], kinds=rows.kinds[needed], secret=None)
    return summed, int(needed[:secret].sum())


def _with_hidden(prior: Prior, cell_sum: _CellSum, witness: Witness) -> tuple[Law, Law]:
    """Return the laws of a sum of rows that share a class, or show hidden states, given two values (M21, M58)."""
    cell_sum = _keep_one_other_row(cell_sum)
    laws = implied(_in_floats(prior), cell_sum.statistic, cell_sum.origin.tables.secret)
    known = laws.at(witness) if prior.ordered else None  # the row has a place among all others
    if known is not None:
        return finite_laws(known)
    pairs: list[Pair] = []
    for pair in laws:
        pairs += [turned for turned in (pair, pair.swapped()) if turned.secrets == witness.secrets]
    own = [
        pair
        for pair in pairs
        if pair.row is None or _is_counted(cell_sum.pattern, pair.row) == cell_sum.own
    ]
    if not pairs:
        raise Refused(
            "The laws of the two secrets that cost most are not among those that can be listed."
        )
    return finite_laws((own or pairs)[0])


def _keep_one_other_row(cell_sum: _CellSum) -> _CellSum:
    """Return the same sum with one row outside the cell instead of many: given the class all have one law."""
    if cell_sum.pattern.positions is not None:
        return cell_sum
    return replace(
        cell_sum,
        pattern=replace(
            cell_sum.pattern,
            counts=np.where(cell_sum.pattern.cells < 0, 1, cell_sum.pattern.counts),
        ),
    )


def _in_floats(prior: Prior) -> Prior:
    """Return a prior with floats for fractions, whose digits grow with the number of rows added up."""
    if not isinstance(prior, LatentClass):
        return prior
    return LatentClass(
        [float(one) for one in prior.weights], [[float(one) for one in law] for law in prior.rows]
    )


def _is_counted(pattern: Pattern, row: int) -> bool:
    """Return whether a row is in a cell; an entry of the pattern stands for as many rows as it counts."""
    return bool(pattern.cells[np.searchsorted(np.cumsum(pattern.counts), row, side="right")] >= 0)


@final
@dataclass(frozen=True)
class Number:
    """An answer that is `step` times a sum of whole steps, or the sum itself where the answer is another function."""

    answer: str
    step: float


def number_of(plan: CalibratedNoise, measure: int) -> Number:
    """Return the first answer that is computed from a sum."""
    request = plan.request
    if not plan.basis.transform.one_by_one:
        return Number("a combination of the sums", 1.0)
    summed = request.measures[measure]
    unit = float(plan.public.weights.units[measure])
    for query, places in request.reads:
        if measure not in places:
            continue
        factors = np.unique(query.factor(plan.public.size_of(query)))
        if query.linear and len(factors) == 1:
            name = query.name if query.exclusive else query.outputs[places.index(measure)]
            return Number(name, unit * float(factors[0]))
        return Number(f"{_measure_in_words(summed)}, behind {query.name}", unit)
    return Number("a sum", unit)


def _measure_in_words(measure: Measure | None) -> str:
    """Describe what is summed; the sum of a condition counts rows."""
    if measure is None:
        return "the number of rows"
    return f"{'rows with' if measure.values.boolean else 'the sum of'} {measure.values.words}"


_MOST_ATOMS = 400
_NO_NOISE = "No noise is added: the guarantee holds without it."
_ONE_OF = "one number of several that are published together"
_BINNED = f"drawn in {_MOST_ATOMS} bins: the laws have more values"
NAMELESS = ("one value", "another")
"""Two secrets that have no names."""


def worst_pair(plan: CalibratedNoise) -> tuple[WorstPair | None, str]:
    """Return the pair and "", or None and the reason."""
    if plan.calibration.noise.scale == 0 or not (plan.weights > 0).any():
        return None, _NO_NOISE
    try:
        return _in_answer_unit(plan, _laws_of_worst_pair(plan)), ""
    except PufferflowError as refusal:
        return None, refusal.problem


def _laws_of_worst_pair(plan: CalibratedNoise) -> NumberLaws:
    """Return the two laws: those of a pair, or those at a place, where the calibration listed none."""
    calibration, origin = plan.calibration, origin_of(plan)
    if isinstance(calibration.witness, Pair):
        return _of_pair(plan, origin, calibration.witness)
    by_movement = calibration.bound.supports_only or (
        origin.laws.movement_only and calibration.bound.by_movement
    )
    weighted = (
        origin.pattern.shares is not None
    )  # sums of public weights, of which as many as rows are listed
    return (
        span_of(plan, origin, calibration.witness)
        if by_movement or weighted
        else at_place(plan, origin, calibration.witness)
    )


def _of_pair(plan: CalibratedNoise, origin: Origin, pair: Pair) -> NumberLaws:
    """Return the coordinate of a pair whose two laws lie farthest apart."""
    mu, nu = finite_laws(pair)
    steps = _distances(mu, nu)
    cell, measure = divmod(int(steps.argmax()), len(plan.weights))
    weight = float(plan.weights[measure])
    if origin.laws.movement_only:
        length = plan.calibration.sensitivity if pair.dimension == 1 else float(steps.max())
        return stand_ins(measure, length / weight, pair.secrets)
    alone = origin.laws.constant or origin.tables.prior.independent_rows
    rows = 1 if alone else int(origin.pattern.counts[origin.pattern.cells == cell].sum())
    coordinate = int(steps.argmax())
    first, second = (
        _coordinate(law, coordinate).map(lambda values: values / weight) for law in (mu, nu)
    )
    return NumberLaws(measure, first, second, pair.secrets, rows)


def _distances(mu: Law, nu: Law) -> Floats:
    """Return the distance between the two laws of each coordinate."""
    if len(mu) == len(nu) == 1:
        return np.abs(np.atleast_1d(mu.values[0] - nu.values[0])).astype(np.float64)
    coordinates = range(mu.dimension)
    return np.array(
        [float(winf(_coordinate(mu, at), _coordinate(nu, at), 1)) for at in coordinates]
    )


def _coordinate(law: Law, at: int) -> Law:
    return (
        law if law.dimension == 1 else Law(law.values[:, at].astype(np.float64), law.probabilities)
    )


def _in_answer_unit(plan: CalibratedNoise, pair_laws: NumberLaws) -> WorstPair:
    """Return the pair in the unit of the answer."""
    number, noise = number_of(plan, pair_laws.measure), plan.noises[pair_laws.measure]
    first, second = (
        NAMELESS if pair_laws.secrets is None or nameless(plan) else map(str, pair_laws.secrets)
    )
    mu, nu, coarser = _atoms_of_both(pair_laws, number, _least_values(plan, pair_laws))
    one_of = _ONE_OF if plan.request.by or len(plan.weights) > 1 else ""
    notes = [_left_out(plan), pair_laws.note, one_of, coarser]
    promise = plan.calibration.guarantee
    epsilon, delta = (
        (promise.epsilon, promise.delta) if promise.divergence.about_odds else (None, 0.0)
    )
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


def nameless(plan: CalibratedNoise) -> bool:
    """Return whether secrets are places in a table of an interval, which have no meaningful names."""
    request = plan.request
    return on_interval(request) and not isinstance(request.scenario.secret, Presence)


def _answer(plan: CalibratedNoise, pair_laws: NumberLaws, number: Number) -> str:
    """Describe the number of the two laws: rows of one group, since other groups are the same under both secrets."""
    within = plan.request.scenario.group_in_words
    if pair_laws.stands_in:
        return f"the movement of {number.answer} by the rows{f' of one {within}' if within else ''}"
    return f"what the rows of one {within} add to {number.answer}" if within else number.answer


def _left_out(plan: CalibratedNoise) -> str:
    within = plan.request.scenario.group_in_words
    return (
        f"rows of any other {within} are left out: they are the same under both secrets"
        if within
        else ""
    )


def _least_values(plan: CalibratedNoise, pair_laws: NumberLaws) -> float:
    """Return the sum of the least values of all rows, which laws leave out, in steps."""
    if on_interval(plan.request) or isinstance(plan.request.scenario.secret, Presence):
        return 0.0
    return pair_laws.rows * float(plan.basis.functions.row(pair_laws.measure).min())


def _atoms_of_both(pair_laws: NumberLaws, number: Number, least: float) -> tuple[Atoms, Atoms, str]:
    """Return both laws in the unit of the answer; in the same bins where a figure cannot draw all values."""
    laws = [
        ((law.values.astype(np.float64) + least) * number.step, law.probabilities)
        for law in (pair_laws.mu, pair_laws.nu)
    ]
    if max(len(values) for values, _ in laws) <= _MOST_ATOMS:
        mu, nu = (
            Atoms(tuple(values.tolist()), tuple(weights.tolist())) for values, weights in laws
        )
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
