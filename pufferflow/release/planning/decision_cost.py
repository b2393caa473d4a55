"""The cost of a plan's release, as composition adds it up: movements, exposures, and the selected rows."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pufferflow.accounting.rules.latent_class import class_digest
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Floats, Whole
from pufferflow.core.errors import InternalError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.engines.weights import bounded_grids
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.markov import ChainPrior
from pufferflow.models.priors.simple import Independent
from pufferflow.models.secret import Presence, Secret, ValueSecret
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.published.cost import Cost, Part, Rows, Shape, digest_of
from pufferflow.queries.engine_interface import GroupSize, Pattern, Patterns
from pufferflow.release.planning.decision import NOISE_MARGIN, Decision
from pufferflow.release.planning.public_metadata import ONE_ROW, of_sizes, size_of
from pufferflow.release.planning.sum_tables import Tables, on_interval, tables_of
from pufferflow.release.planning.units import regions

_MOST_RUNS = 20_000
_MOST_STRETCHES = 500
_MOST_VALUES = 1 << 16
Table = tuple[tuple[float, ...], ...]


def cost_of(decision: Decision) -> Cost:
    """Return the cost of a release of this plan: numbers, and public facts of the rows it selects."""
    scenario, placed = decision.request.scenario, decision.facts.placed
    unnamed = on_interval(decision.request) or _too_many_values(decision)
    translated = [way for way in decision.tables if isinstance(way[0].prior, GaussianPrior)]
    # the linear functions that replace those on an interval, where rows translate each other
    linear = next((tables for way in translated for tables in way if tables.rounding is not None), None)
    slopes, rounding = (None, None) if linear is None else _slopes(decision, linear)
    kinds = decision.facts.weights.kinds
    shape = Shape(
        promise=decision.promise,
        setting=scenario.setting,
        priors=tuple(digest_of(prior) for prior in scenario.priors),
        stored_noise=decision.least_noise.at(decision.least_noise.scale * NOISE_MARGIN).stored(),
        dimension=decision.laws.dimension,
        values=_table(decision.facts.functions.at_values, decision.weights) if _tells_values(decision) else None,
        kinds=() if kinds is None else tuple(tuple(np.flatnonzero(kind).tolist()) for kind in kinds),
        slopes=slopes,
        rounding=rounding,
        unsigned=linear is not None and (linear.unsigned or decision.facts.weights.mixed),
        independent_moves=_independent_moves(decision) if unnamed and _rows_move_less(decision) else None,
        coupled_movements=_coupled_movements(decision),
        group_movement=_group_movement(decision, placed),
        row_movement=_row_movement(decision),
        column=decision.request.column,
        rows=_rows(decision, placed),
        key_delta=decision.key_delta or None,
    )
    selected = regions(decision.request)
    if placed is None or placed.reach is None or shape.rows is None or shape.rows.runs is None:
        return Cost(shape, regions=selected)
    hull = math.floor(placed.reach[0]), math.ceil(placed.reach[1])
    first = int(min((_positions(pattern)[pattern.cells >= 0].min() for pattern in placed.distinct), default=hull[0]))
    start = placed.distinct[0].start if placed.distinct and scenario.start_known else None
    return Cost(shape, first, hull, start, selected, placed.clock)


def _tells_values(decision: Decision) -> bool:
    """Return whether rules may use the terms of a row: with weights only rules that take rows one by one."""
    if on_interval(decision.request) or bounded_grids(decision.request.measures) or _too_many_values(decision):
        return False
    one_by_one = all(
        prior.independent_rows or prior.shared_class or isinstance(prior, ChainPrior)
        for prior in decision.request.scenario.priors
    )
    return not decision.facts.weights.grids or (one_by_one and _rows_move_less(decision))


def _too_many_values(decision: Decision) -> bool:
    """Return whether a domain has more values than a cost may store, and movements say as much."""
    scenario, domain = decision.request.scenario, decision.request.domain
    known = all(prior.any_law or prior.any_correlation for prior in scenario.priors)
    values = 1 if domain is None else len(domain.points)
    return known and values * len(decision.request.measures) > _MOST_VALUES


def _rows_move_less(decision: Decision) -> bool:
    """Return whether a row of less weight loses less than one of the largest weight, which the terms describe.

    Where weights define kinds of rows, none is between 0 and the largest. Else under each prior: w·φ with noise reveals
    as much as φ with noise of 1/w times the scale, and in these families larger noise is smaller noise with more noise
    added.
    """
    weights = decision.facts.weights
    known = not weights.grids or weights.kinds is not None
    return known or isinstance(decision.calibration.noise, Laplace | Gaussian)


def _independent_moves(decision: Decision) -> Table | None:
    """Return how far an independent row moves each sum between two paired values, of an interval or of very many.

    It applies to priors of independent rows, and to the cost of a row's own value under every prior.
    """
    ways = [way for way in decision.tables if way[0].prior.independent_rows]
    request, secret = decision.request, decision.request.scenario.secret
    if not ways and isinstance(secret, ValueSecret) and request.column == secret.column:
        ways = [tables_of(Independent(), secret, decision.facts.functions)]
    if not ways:
        return None
    tables, values = ways[0][0], ways[0][0].values
    if isinstance(tables.secret, ValueSecret) and values.shape[1] > 2:
        first, second = tables.secret.pair_places.T
        moves = np.abs(values[:, first] - values[:, second]).max(axis=1)
        values = np.stack([np.zeros(len(moves)), moves], axis=1)
    return _table(values, tables.weights(decision.weights))


def _coupled_movements(decision: Decision) -> dict[str, float]:
    """Return for each prior how far all sums move under one coupling of whole data sets (M15–M17, M7), if it has one.

    Of independent rows a single one moves, from any value to any other.
    """
    scenario = decision.request.scenario
    movements = dict[str, float]()
    for prior, way in zip(scenario.priors, decision.tables, strict=True):
        if prior.coupled or isinstance(scenario.secret, Presence):
            movements[digest_of(prior)] = _movement(
                decision, lambda sizes, way=way: decision.facts.laws([way], decision.weights, sizes)
            )
        elif prior.independent_rows:
            movements[digest_of(prior)] = _movement_of_one_row(decision, way)
        elif isinstance(prior, GaussianMixture):
            movements |= _movements_of_classes(decision, prior)
    return movements


def _row_movement(decision: Decision) -> float | None:
    """Return how far a row moves all sums between any two values, where a table has no terms; None elsewhere."""
    priors = decision.request.scenario.priors
    of_tables = any(prior.independent_rows and not prior.any_law for prior in priors)
    if not of_tables or _tells_values(decision) or isinstance(decision.request.scenario.secret, Presence):
        return None
    return _movement_of_one_row(decision, [decision.free_tables])


def _movement_of_one_row(decision: Decision, way: Sequence[Tables]) -> float:
    """Return how far an independent row moves all sums from any value to any other.

    For rows with weights the tables of the plan count too, if they are of any two values: on an interval they say how
    far a row moves each sum, without the margin for roundings that corners have. They are of any two values of the row
    only where nothing else of it is hidden: a table has laws given the secret instead.
    """
    facts, secret, norm = decision.facts, decision.request.scenario.secret, decision.calibration.noise.norm
    of_values = all(one.prior.any_law for one in way)  # not where a table has laws given the secret
    any_two = of_values and isinstance(secret, Secret) and secret.pairs == "all" and facts.weights.grids
    tables: list[Tables] = [decision.free_tables, *(way if any_two else ())]
    return max(
        min(facts.laws_on([ONE_ROW], one, decision.weights).winf(norm).length for one in of_kind)
        for of_kind in facts.weights.of_each_row(tables)
    )


def _movements_of_classes(decision: Decision, prior: GaussianMixture) -> dict[str, float]:
    """Return how far all sums move in each class of a mixture (M54)."""
    secret, facts = decision.request.scenario.secret, decision.facts
    movements, digest = dict[str, float](), digest_of(prior)
    for place, member in enumerate(prior.members):
        way = tables_of(member, secret, facts.functions)
        movements[class_digest(digest, place)] = _movement(
            decision, lambda sizes, way=way: facts.laws([way], decision.weights, sizes)
        )
    return movements


def _movement(decision: Decision, laws: Callable[[Sequence[GroupSize] | None], Laws]) -> float:
    """Return how far all sums move, of a group of any size, were the least noise in all cells.

    Losses depend on movements in units of the noise's scale. So what moves cells that have more noise counts as so much
    shorter; along one coupling the loss of a release about a group is at most that of the longest of these.
    """
    most, least, norm = decision.calibration.noise, decision.least_noise, decision.calibration.noise.norm
    lengths = [(laws(None).winf(norm).length, most)]
    if decision.cells is not None:
        lengths += [(laws(kind.sizes).winf(norm).length, kind.noise) for kind in decision.cells.kinds]
    return max(
        length if noise is least else upwards(length * (least.scale / noise.scale), 4 * UNIT)
        for length, noise in lengths
    )


def _group_movement(decision: Decision, placed: Patterns | None) -> float | None:
    """Return how far all sums move if every row of a group may change (M7); None where rows are independent."""
    scenario = decision.request.scenario
    if isinstance(scenario.secret, Presence) or all(prior.independent_rows for prior in scenario.priors):
        return None
    facts, tables, weights = decision.facts, decision.free_tables, decision.weights
    if placed is None or facts.weights.grids:
        return _movement(
            decision, lambda sizes: decision.group_laws if sizes is None else decision.group_laws_of(sizes)
        )
    return _movement(decision, lambda sizes: facts.laws_on(of_sizes(placed.distinct, sizes), tables, weights))


def _rows(decision: Decision, placed: Patterns | None) -> Rows | None:
    """Return the selected rows of a group; None where rows are independent."""
    facts, scenario = decision.facts, decision.request.scenario
    tied = [prior for prior in scenario.priors if not prior.independent_rows]
    if isinstance(scenario.secret, Presence) or (not tied and placed is None):
        return None
    patterns = (facts.patterns(tied[0]) if placed is None else placed).distinct
    selected = max((pattern.selected for pattern in patterns), default=0)
    others = max((pattern.rows - pattern.selected for pattern in patterns), default=0)
    if placed is None or not all(_whole(_positions(pattern)) for pattern in patterns):
        return Rows(selected, others)
    runs, covers = _runs(patterns)
    return Rows(selected, others, runs, covers, _parts(decision, patterns))


def _parts(decision: Decision, patterns: Sequence[Pattern]) -> tuple[Part, ...]:
    """Return the steps of each pattern of groups with the least noise of cells that it is in, if cells differ."""
    if decision.cells is None or not patterns:
        return ()
    least, scales = decision.least_noise.scale, dict.fromkeys(decision.cells.other_sizes, math.inf)
    for kind in decision.cells.kinds:
        scales |= {size: min(kind.noise.scale, scales.get(size, math.inf)) for size in kind.sizes}
    first = int(min(_selected_steps(pattern).min() for pattern in patterns))
    parts = dict[Part, None]()
    for pattern in patterns:
        own = least if pattern.covers else scales.get(size_of(pattern), least)
        scale = min(own, decision.calibration.noise.scale)
        parts[Part(scale * NOISE_MARGIN, _stretches(_selected_steps(pattern) - first))] = None
    return tuple(parts)


def _selected_steps(pattern: Pattern) -> Whole:
    return _positions(pattern)[pattern.cells >= 0].astype(np.int64)


def _stretches(steps: Whole) -> tuple[tuple[int, int], ...]:
    """Return stretches (first, end) of steps in ascending order; one from the first to the last if they are many."""
    fresh = np.flatnonzero(np.diff(steps) != 1) + 1
    if len(fresh) >= _MOST_STRETCHES:
        return ((int(steps[0]), int(steps[-1]) + 1),)
    starts, ends = np.append(0, fresh), np.append(fresh, len(steps)) - 1
    return tuple(zip(steps[starts].tolist(), (steps[ends] + 1).tolist(), strict=True))


def _positions(pattern: Pattern) -> Floats:
    """Return the positions of rows, in ascending order."""
    if pattern.positions is None:
        raise InternalError("A pattern that was placed has no positions.", instead="reporting it")
    return pattern.positions


def _whole(positions: Floats) -> bool:
    return bool((positions == np.rint(positions)).all() and (np.abs(positions) < 2.0**53).all())


def _runs(patterns: Sequence[Pattern]) -> tuple[tuple[tuple[int, int, int], ...], bool]:
    """Return the selected steps with their cells, and whether groups differ in them."""
    if not patterns:
        return (), False
    selected = [pattern.cells >= 0 for pattern in patterns]
    steps = [_positions(pattern)[flags].astype(np.int64) for pattern, flags in zip(patterns, selected, strict=True)]
    cells = [pattern.cells[flags] for pattern, flags in zip(patterns, selected, strict=True)]
    same = all(np.array_equal(own, steps[0]) for own in steps) and all(np.array_equal(own, cells[0]) for own in cells)
    covers = not same or any(pattern.covers for pattern in patterns)
    where = np.unique(np.concatenate(steps)) if covers else steps[0]
    cell = np.zeros(len(where), dtype=np.int64) if covers else cells[0]
    fresh = np.flatnonzero((np.diff(where) != 1) | (np.diff(cell) != 0)) + 1
    if len(fresh) >= _MOST_RUNS:
        return ((0, int(where[-1] - where[0]) + 1, 0),), True
    starts, ends = np.append(0, fresh), np.append(fresh, len(where)) - 1
    low, high = where[starts] - where[0], where[ends] - where[0] + 1
    return tuple(zip(low.tolist(), high.tolist(), cell[starts].tolist(), strict=True)), covers


def _table(values: Floats, weights: Floats) -> Table:
    """Return weighted functions, each above its least value: only differences matter, and small numbers are exact."""
    scaled = (values - values.min(axis=1, keepdims=True)) * weights[:, None]
    return tuple(_row(row) for row in scaled)


def _slopes(decision: Decision, linear: Tables) -> tuple[Table, tuple[float, ...] | None]:
    """Return weighted linear functions and how far rounding moves them at most.

    Where rows are of several kinds, one for the sums of a query of which a row moves one: the steepest, which rises as
    they do.
    """
    scaled = (linear.values - linear.values.min(axis=1, keepdims=True)) * decision.weights[:, None]
    growth = np.zeros(len(scaled)) if linear.rounding is None else linear.rounding * decision.weights
    request, sets = decision.request, [(place,) for place in range(len(scaled))]
    if decision.facts.weights.kinds is not None and (scaled[:, 0] == 0).all():
        exclusive = dict.fromkeys(places for query, places in request.reads if query.exclusive)
        sets = [*exclusive, *(own for own in sets if not any(own[0] in some for some in exclusive))]
    steepest = [scaled[max(some, key=lambda place: scaled[place, 1])] for some in sets]
    rounding = None if linear.rounding is None else tuple(float(growth[list(some)].max()) for some in sets)
    return tuple(map(_row, steepest)), rounding


def _row(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())
