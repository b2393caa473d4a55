"""The cost of a plan's release, as composition adds it up: movements, exposures, and the selected rows."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pufferflow.accounting.rules.latent_class import class_digest
from pufferflow.calibration.laws import Laws
from pufferflow.core.arrays import Floats, Whole
from pufferflow.core.errors import InternalError
from pufferflow.core.rounding import UNIT, upwards
from pufferflow.engines.weighted_rows import bounded_grids
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.markov import ChainPrior, SequencePrior
from pufferflow.models.priors.simple import Independent
from pufferflow.models.secret import Presence, Secret, ValueSecret
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.published.cost import Cost, Part, Rows, Runs, Shape, digest_of
from pufferflow.queries.engine_interface import GroupSize, Pattern, Patterns
from pufferflow.release.planning.basis import NOISE_MARGIN
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.laws_of_sums import (
    group_size,
    laws_of,
    laws_on_patterns,
    patterns_of_sizes,
)
from pufferflow.release.planning.selected_rows import ONE_ROW, regions
from pufferflow.release.planning.sum_functions import Tables, on_interval, tables_of

_MOST_RUNS = 20_000
_MOST_STRETCHES = 500
_MOST_VALUES = 1 << 16
_MOST_PATTERNS = 32
Table = tuple[tuple[float, ...], ...]


def cost_of(noise: CalibratedNoise) -> Cost:
    """Return the cost of a release with this noise: numbers, and public facts of the rows it selects."""
    scenario, placed = noise.request.scenario, noise.public.placed
    unnamed = on_interval(noise.request) or _too_many_values(noise)
    translated = [way for way in noise.tables if isinstance(way[0].prior, GaussianPrior)]
    # the linear functions that replace those on an interval, where rows translate each other
    linear = next(
        (tables for way in translated for tables in way if tables.rounding is not None), None
    )
    slopes, rounding = (None, None) if linear is None else _slopes(noise, linear)
    kinds = noise.public.weights.kinds
    shape = Shape(
        promise=noise.guarantee,
        setting=scenario.setting,
        priors=tuple(digest_of(prior) for prior in scenario.priors),
        stored_noise=noise.least_noise.at(noise.least_noise.scale * NOISE_MARGIN).stored(),
        dimension=noise.laws.dimension,
        values=_table(noise.basis.functions.at_values, noise.weights)
        if _tells_values(noise)
        else None,
        kinds=()
        if kinds is None
        else tuple(tuple(np.flatnonzero(kind).tolist()) for kind in kinds),
        slopes=slopes,
        rounding=rounding,
        unsigned=linear is not None and (linear.unsigned or noise.public.weights.mixed),
        independent_moves=_independent_moves(noise) if unnamed and _rows_move_less(noise) else None,
        coupled_movements=_coupled_movements(noise),
        group_movement=_group_movement(noise, placed),
        row_movement=_row_movement(noise),
        column=noise.request.column,
        rows=_rows(noise, placed),
        key_delta=noise.key_delta or None,
    )
    selected = regions(noise.request)
    if placed is None or placed.reach is None or shape.rows is None or shape.rows.runs is None:
        return Cost(shape, regions=selected)
    hull = math.floor(placed.reach[0]), math.ceil(placed.reach[1])
    first = int(
        min(
            (_positions(pattern)[pattern.cells >= 0].min() for pattern in placed.distinct),
            default=hull[0],
        )
    )
    start = placed.distinct[0].start if placed.distinct and scenario.start_known else None
    return Cost(shape, first, hull, start, selected, placed.clock)


def _tells_values(noise: CalibratedNoise) -> bool:
    """Return whether rules may use the terms of a row: with weights only rules that take rows one by one."""
    if (
        on_interval(noise.request)
        or bounded_grids(noise.request.measures)
        or _too_many_values(noise)
    ):
        return False
    one_by_one = all(
        prior.independent_rows or prior.shared_class or isinstance(prior, SequencePrior)
        for prior in noise.request.scenario.priors
    )
    return not noise.public.weights.grids or (one_by_one and _rows_move_less(noise))


def _too_many_values(noise: CalibratedNoise) -> bool:
    """Return whether a domain has more values than a cost may store, and movements say as much."""
    scenario, domain = noise.request.scenario, noise.request.domain
    known = all(prior.any_law or prior.any_correlation for prior in scenario.priors)
    values = 1 if domain is None else len(domain.points)
    return known and values * len(noise.request.measures) > _MOST_VALUES


def _rows_move_less(noise: CalibratedNoise) -> bool:
    """Return whether a row of less weight loses less than one of the largest weight, which the terms describe.

    Where weights define kinds of rows, none is between 0 and the largest. Else this has to hold under each prior. w·φ
    with noise reveals as much as φ with noise of 1/w times the scale. In these families larger noise is smaller noise
    with further noise added.
    """
    weights = noise.public.weights
    known = not weights.grids or weights.kinds is not None
    return known or isinstance(noise.calibration.noise, Laplace | Gaussian)


def _independent_moves(noise: CalibratedNoise) -> Table | None:
    """Return how far an independent row moves each sum between two paired values, of an interval or of very many.

    It applies to priors of independent rows, and to the cost of a row's own value under every prior.
    """
    ways = [way for way in noise.tables if way[0].prior.independent_rows]
    request, secret = noise.request, noise.request.scenario.secret
    if not ways and isinstance(secret, ValueSecret) and request.column == secret.column:
        ways = [tables_of(Independent(), secret, noise.basis.functions)]
    if not ways:
        return None
    tables, values = ways[0][0], ways[0][0].values
    if isinstance(tables.secret, ValueSecret) and values.shape[1] > 2:
        first, second = tables.secret.pair_places.T
        moves = np.abs(values[:, first] - values[:, second]).max(axis=1)
        values = np.stack([np.zeros(len(moves)), moves], axis=1)
    return _table(values, tables.weights(noise.weights))


def _coupled_movements(noise: CalibratedNoise) -> dict[str, float]:
    """Return for each prior how far all sums move under one coupling of whole data sets (M15–M17, M7), if it has one.

    Of independent rows a single one moves, from any value to any other.
    """
    scenario = noise.request.scenario
    movements = dict[str, float]()
    for prior, way in zip(scenario.priors, noise.tables, strict=True):
        if prior.coupled or isinstance(scenario.secret, Presence):
            movements[digest_of(prior)] = _movement(
                noise, lambda sizes, way=way: laws_of(noise.public, [way], noise.weights, sizes)
            )
        elif prior.independent_rows:
            movements[digest_of(prior)] = _movement_of_one_row(noise, way)
        elif isinstance(prior, GaussianMixture):
            movements |= _movements_of_classes(noise, prior)
    return movements


def _row_movement(noise: CalibratedNoise) -> float | None:
    """Return how far a row moves all sums between any two values, where a table has no terms; None elsewhere."""
    priors = noise.request.scenario.priors
    of_tables = any(prior.independent_rows and not prior.any_law for prior in priors)
    if not of_tables or _tells_values(noise) or isinstance(noise.request.scenario.secret, Presence):
        return None
    return _movement_of_one_row(noise, [noise.free_tables])


def _movement_of_one_row(noise: CalibratedNoise, way: Sequence[Tables]) -> float:
    """Return how far an independent row moves all sums from any value to any other.

    For rows with weights the tables of the plan count too, if they are of any two values: on an interval they say how
    far a row moves each sum, without the margin for roundings that corners have. They are of any two values of the row
    only where nothing else of it is hidden: a table has laws given the secret instead.
    """
    public, secret, norm = noise.public, noise.request.scenario.secret, noise.calibration.noise.norm
    of_values = all(one.prior.any_law for one in way)  # not where a table has laws given the secret
    any_two = (
        of_values and isinstance(secret, Secret) and secret.pairs == "all" and public.weights.grids
    )
    tables: list[Tables] = [noise.free_tables, *(way if any_two else ())]
    return max(
        min(
            laws_on_patterns(noise.request, [ONE_ROW], one, noise.weights).winf(norm).length
            for one in of_kind
        )
        for of_kind in public.weights.of_each_row(tables)
    )


def _movements_of_classes(noise: CalibratedNoise, prior: GaussianMixture) -> dict[str, float]:
    """Return how far all sums move in each class of a mixture (M54)."""
    secret, public = noise.request.scenario.secret, noise.public
    movements, digest = dict[str, float](), digest_of(prior)
    for place, member in enumerate(prior.members):
        way = tables_of(member, secret, noise.basis.functions)
        movements[class_digest(digest, place)] = _movement(
            noise, lambda sizes, way=way: laws_of(public, [way], noise.weights, sizes)
        )
    return movements


def _movement(noise: CalibratedNoise, laws: Callable[[Sequence[GroupSize] | None], Laws]) -> float:
    """Return how far a group of any size moves all sums, in units of the cells with the least noise.

    Losses depend on movements relative to the scale of the noise. So a movement of noisier cells counts as shorter, in
    proportion. Along one coupling the loss of a release about a group is at most that of the longest movement.
    """
    least, norm = noise.least_noise, noise.calibration.noise.norm
    lengths = [(laws(block.sizes).winf(norm).length, block.noise) for block in noise.blocks]
    return max(
        length if own is least else upwards(length * (least.scale / own.scale), 4 * UNIT)
        for length, own in lengths
    )


def _group_movement(noise: CalibratedNoise, placed: Patterns | None) -> float | None:
    """Return how far all sums move if every row of a group may change (M7); None where rows are independent."""
    scenario = noise.request.scenario
    if isinstance(scenario.secret, Presence) or all(
        prior.independent_rows for prior in scenario.priors
    ):
        return None
    public, tables, weights = noise.public, noise.free_tables, noise.weights
    if placed is None or public.weights.grids:
        return _movement(noise, noise.group_laws)
    return _movement(
        noise,
        lambda sizes: laws_on_patterns(
            noise.request, patterns_of_sizes(placed.distinct, sizes), tables, weights
        ),
    )


def _rows(noise: CalibratedNoise, placed: Patterns | None) -> Rows | None:
    """Return the selected rows of a group; None where rows are independent."""
    public, scenario = noise.public, noise.request.scenario
    tied = [prior for prior in scenario.priors if not prior.independent_rows]
    if isinstance(scenario.secret, Presence) or (not tied and placed is None):
        return None
    patterns = (public.patterns(tied[0]) if placed is None else placed).distinct
    selected = max((pattern.selected for pattern in patterns), default=0)
    others = max((pattern.rows - pattern.selected for pattern in patterns), default=0)
    if placed is None or not all(_whole(_positions(pattern)) for pattern in patterns):
        return Rows(selected, others)
    runs, covers = _runs(patterns)
    return Rows(selected, others, runs, covers, _parts(noise, patterns), _patterns(noise, patterns))


def _patterns(noise: CalibratedNoise, patterns: Sequence[Pattern]) -> tuple[Runs, ...]:
    """Return the selected steps of every group with their cells, if each row adds its terms to sums with Laplace noise.

    They are of use along a chain, where the laws of sums follow from them. Very many are left out.
    """
    chains = any(isinstance(prior, ChainPrior) for prior in noise.request.scenario.priors)
    exact = isinstance(noise.calibration.noise, Laplace) and not (
        noise.differs_by_cell or noise.public.weights.grids or noise.key_delta
    )
    known = all(not pattern.covers and pattern.shares is None for pattern in patterns)
    if not (chains and exact and known and 0 < len(patterns) <= _MOST_PATTERNS):
        return ()
    selecting = [pattern for pattern in patterns if pattern.selected]
    first = int(min((_selected_steps(one).min() for one in selecting), default=0))
    found = dict.fromkeys(
        _runs_of(_selected_steps(one) - first, one.cells[one.cells >= 0]) for one in selecting
    )
    return tuple(found) if sum(map(len, found)) <= _MOST_STRETCHES else ()


def _parts(noise: CalibratedNoise, patterns: Sequence[Pattern]) -> tuple[Part, ...]:
    """Return the steps of each pattern of groups with the least noise of cells that it is in, if cells differ."""
    whole, *others = noise.blocks
    if not noise.differs_by_cell or not patterns or any(block.sizes is None for block in others):
        return ()  # of unknown groups all have the least noise
    least, scales = (
        noise.least_noise.scale,
        dict.fromkeys(noise.public.sizes_in(whole.cells), math.inf),
    )
    for block in others:
        scales |= {
            size: min(block.noise.scale, scales.get(size, math.inf)) for size in block.sizes or ()
        }
    first = int(min(_selected_steps(pattern).min() for pattern in patterns))
    parts = dict[Part, None]()
    for pattern in patterns:
        own = least if pattern.covers else scales.get(group_size(pattern), least)
        scale = min(own, noise.calibration.noise.scale)
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
    steps = [
        _positions(pattern)[flags].astype(np.int64)
        for pattern, flags in zip(patterns, selected, strict=True)
    ]
    cells = [pattern.cells[flags] for pattern, flags in zip(patterns, selected, strict=True)]
    same = all(np.array_equal(own, steps[0]) for own in steps) and all(
        np.array_equal(own, cells[0]) for own in cells
    )
    covers = not same or any(pattern.covers for pattern in patterns)
    where = np.unique(np.concatenate(steps)) if covers else steps[0]
    cell = np.zeros(len(where), dtype=np.int64) if covers else cells[0]
    found = _runs_of(where - where[0], cell)
    if len(found) > _MOST_RUNS:
        return ((0, int(where[-1] - where[0]) + 1, 0),), True
    return found, covers


def _runs_of(steps: Whole, cells: Whole) -> Runs:
    """Return the stretches (first, end, cell) of consecutive steps in one cell."""
    fresh = np.flatnonzero((np.diff(steps) != 1) | (np.diff(cells) != 0)) + 1
    starts, ends = np.append(0, fresh), np.append(fresh, len(steps)) - 1
    low, high = steps[starts], steps[ends] + 1
    return tuple(zip(low.tolist(), high.tolist(), cells[starts].tolist(), strict=True))


def _table(values: Floats, weights: Floats) -> Table:
    """Return weighted functions, each above its least value: only differences matter, and small numbers are exact."""
    scaled = (values - values.min(axis=1, keepdims=True)) * weights[:, None]
    return tuple(_row(row) for row in scaled)


def _slopes(noise: CalibratedNoise, linear: Tables) -> tuple[Table, tuple[float, ...] | None]:
    """Return weighted linear functions and how far rounding moves them at most.

    Where rows are of several kinds, one for the sums of a query of which a row moves one: the steepest, which rises as
    they do.
    """
    scaled = (linear.values - linear.values.min(axis=1, keepdims=True)) * noise.weights[:, None]
    growth = np.zeros(len(scaled)) if linear.rounding is None else linear.rounding * noise.weights
    request, sets = noise.request, [(place,) for place in range(len(scaled))]
    if noise.public.weights.kinds is not None and (scaled[:, 0] == 0).all():
        exclusive = dict.fromkeys(places for query, places in request.reads if query.exclusive)
        sets = [*exclusive, *(own for own in sets if not any(own[0] in some for some in exclusive))]
    steepest = [scaled[max(some, key=lambda place: scaled[place, 1])] for some in sets]
    rounding = (
        None if linear.rounding is None else tuple(float(growth[list(some)].max()) for some in sets)
    )
    return tuple(map(_row, steepest)), rounding


def _row(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())
