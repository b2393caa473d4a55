"""Compare a plan's errors with the largest answers, and with the noise of other bounds; outputs that share noise.

Find the outputs that share a noisy sum, and those with correlated noise: they are not independent evidence.

Two outputs of one noisy sum, such as a sum and a mean of one column, have the same error. So their average is no more
accurate than either. Correlated noises (M28) share a part of the error.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import msgspec
import numpy as np
import polars as pl

from pufferflow.calibration.bound import Bound
from pufferflow.calibration.bound_names import compared_bounds
from pufferflow.calibration.calibrate import Bounds, Calibration, calibrate, loss
from pufferflow.calibration.distance_bounds import Group
from pufferflow.calibration.laws import Laws, SeveralLaws
from pufferflow.calibration.proof_search import Scales
from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import PufferflowError
from pufferflow.core.progress import working
from pufferflow.noise.base import Noise
from pufferflow.queries.statistic import Query
from pufferflow.release.planning.accuracy import expected_error, half_width
from pufferflow.release.planning.calibrated_noise import AnswerColumn, CalibratedNoise, NoiseAt
from pufferflow.reports.evidence import GROUP_PRIVACY, ORDINARY, BoundRow
from pufferflow.reports.numbers import at_most, counted

_MOST_NAMED: Final = 5
_CLOSE: Final = 1e-9


class SharedNoise(NamedTuple):
    """The names of other outputs with the same noise, and of those with correlated noise; None if there are none."""

    same: str | None
    correlated: str | None


def shared_noise(plan: CalibratedNoise) -> list[SharedNoise]:
    """Return which noise each output of a plan shares with others, in the order of outputs."""
    names, sums = _sums_of_outputs(plan)
    correlated = _correlated_sums(plan)
    readers = _readers(sums)
    found = list[SharedNoise]()
    for place, own in enumerate(sums):
        same = {other for one in own for other in readers[one]} - {place}
        near = (
            {other for one in own for sum_ in correlated[one] for other in readers[sum_]}
            - same
            - {place}
        )
        found.append(SharedNoise(_named(names, sorted(same)), _named(names, sorted(near))))
    return found


def _sums_of_outputs(plan: CalibratedNoise) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the names of outputs, and the places of the sums that each is computed from."""
    names, sums = list[str](), list[tuple[int, ...]]()
    for query, places in plan.request.reads:
        one_each = query.linear and not query.exclusive and len(query.outputs) == len(places)
        names += query.outputs
        sums += [(place,) for place in places] if one_each else [tuple(places)] * len(query.outputs)
    return names, sums


def _readers(sums: Sequence[tuple[int, ...]]) -> dict[int, list[int]]:
    """Return the places of the outputs that are computed from each sum."""
    readers = dict[int, list[int]]()
    for place, own in enumerate(sums):
        for one in own:
            readers.setdefault(one, []).append(place)
    return readers


def _correlated_sums(plan: CalibratedNoise) -> list[list[int]]:
    """Return for each sum the others whose noise is correlated with it."""
    rows = plan.basis.transform.correlations(plan.noises) or [()] * len(plan.request.measures)
    return [
        [other for other, one in enumerate(row) if one and other != place]
        for place, row in enumerate(rows)
    ]


def _named(names: Sequence[str], places: Sequence[int]) -> str | None:
    if not places:
        return None
    more = len(places) - _MOST_NAMED
    said = [names[place] for place in places[:_MOST_NAMED]]
    return ", ".join([*said, *([counted(more, "more output")] if more > 0 else [])])


ALL_ROWS = "all rows"
_MOST_COMPARED = 1e7
_ROUNDED = 1e-9
BY_MOVEMENT = "by movement alone: joint laws are not known, or too many to compare"
"""The note of a bound that needs laws where none are listed: its noise is that of the farthest movement."""
_ROW_NEEDS_MORE = "one row alone needs more"
_THE_MOST = "one noise for all groups: in the plan, groups whose rows need less have less"


@final
@dataclass(frozen=True, eq=False)
class OutputErrors:
    """The noise of one output in every cell: NaN where an error depends on the answers, or a size is not public.

    `output` has the noise of the cells that need most.
    """

    output: AnswerColumn
    scales: Floats
    expected: Floats
    half: Floats
    """Half the 95 % interval."""
    largest: Floats
    """The largest absolute value of the answer without noise."""


def output_errors(plan: CalibratedNoise) -> list[OutputErrors]:
    """Return the errors of every output, computed from public sizes alone."""
    cells = len(plan.public.cells.rows)
    unknown, rows = np.full(cells, np.nan), list[OutputErrors]()
    sizes = {id(query): plan.public.size_of(query) for query in plan.request.queries}
    limits = {id(query): _largest(query, sizes[id(query)], cells) for query in plan.request.queries}
    for output, own in zip(plan.outputs, _noises_by_cell(plan, cells), strict=True):
        query, measure, size = output.query, output.measure, sizes[id(output.query)]
        scales = _by_cell(cells, [(places, noise.scale) for places, noise in own])
        if not query.linear:
            rows.append(OutputErrors(output, scales, unknown, unknown, unknown))
            continue
        errors = [
            (places, expected_error(query, noise, _at(size, places))) for places, noise in own
        ]
        halves = [(places, half_width(query, noise, _at(size, places))) for places, noise in own]
        largest = unknown if measure is None else limits[id(query)]
        rows.append(
            OutputErrors(output, scales, _by_cell(cells, errors), _by_cell(cells, halves), largest)
        )
    return rows


def _largest(query: Query, size: Floats | None, cells: int) -> Floats:
    """Return the largest absolute answer of a query in each cell; NaN where it is not public."""
    if size is None or not query.linear:
        return np.full(cells, np.nan)
    ends = np.abs(np.concatenate(np.broadcast_arrays(*query.limits(size)), axis=1))
    return np.broadcast_to(np.nan_to_num(ends).max(axis=1), cells)


def _noises_by_cell(plan: CalibratedNoise, cells: int) -> list[list[NoiseAt]]:
    """Return for each column of the answer its noise, with the places of the cells that have it."""
    if len(plan.by_noise) == 1:
        return [own for _, own in plan.columns_with(plan.calibration.noise)]
    every = np.arange(cells)
    columns = [list[NoiseAt]() for _ in plan.outputs]
    for some in plan.by_noise:
        for column, (_, own) in zip(columns, plan.columns_with(some.noise), strict=True):
            column += [
                (np.intersect1d(every[some.places], every[places]), noise) for places, noise in own
            ]
    return columns


def _at(size: Floats | None, places: Array | slice) -> Floats | None:
    return None if size is None else size[places]


def _by_cell(cells: int, parts: Sequence[tuple[Array | slice, Floats | float]]) -> Floats:
    """Return the numbers of all cells, from those of cells with the same noise."""
    numbers = np.zeros(cells)
    for places, own in parts:
        numbers[places] = own
    return numbers


def summary(plan: CalibratedNoise) -> pl.DataFrame:
    """Return one row for each output and cell; errors that depend on the answers themselves are null."""
    groups = pl.Series("group", group_names(plan), dtype=pl.String)
    bound, certainty = repr(plan.calibration.bound), plan.calibration.certainty.value
    every, cells = output_errors(plan), groups.len()
    place = np.repeat(np.arange(len(every)), cells)
    names = pl.Series("query", [errors.output.name for errors in every], dtype=pl.String)
    noises = pl.Series(
        "noise", [type(errors.output.noise).__name__ for errors in every], dtype=pl.String
    )
    numbers = {
        "scale": [errors.scales for errors in every],
        "expected_error": [errors.expected for errors in every],
        "interval_95": [errors.half for errors in every],
    }
    columns = [
        pl.Series(name, np.concatenate(own), dtype=pl.Float64, nan_to_null=True)
        for name, own in numbers.items()
    ]
    group = groups.gather(np.tile(np.arange(cells), len(every)))
    shared = shared_noise(plan)
    same = pl.Series("same_noise_as", [one.same for one in shared], dtype=pl.String)
    correlated = pl.Series("correlated_with", [one.correlated for one in shared], dtype=pl.String)
    return pl.DataFrame([names.gather(place), group, noises.gather(place), *columns]).with_columns(
        *(pl.lit(bound).alias("bound"), pl.lit(certainty).alias("certainty")),
        *(same.gather(place), correlated.gather(place)),
    )


def compare(plan: CalibratedNoise) -> pl.DataFrame:
    """Return the noise that each bound needs for the same guarantee; a note gives the reason of a refusal."""
    schema = {"bound": pl.String, "query": pl.String, "noise": pl.String, "scale": pl.Float64}
    schema |= {
        "expected_error": pl.Float64,
        "times": pl.Float64,
        "certainty": pl.String,
        "note": pl.String,
    }
    rows = bound_rows(plan)
    return pl.DataFrame(
        {name: [getattr(row, name) for row in rows] for name in schema}, schema=schema
    )


def bound_rows(plan: CalibratedNoise) -> list[BoundRow]:
    """Return the noise that each bound, group privacy and ordinary differential privacy need on each output."""
    rows = list[BoundRow]()
    with working("comparing bounds"):
        own = plan.calibration
        pieces = _pieces(plan)
        for bound in compared_bounds(own.guarantee, own.noise, own.bound):
            if not all(map(bound.applies, pieces)):
                continue
            calibration, note = _calibrate_unless_too_long(plan, bound)
            if not note and bound.by_movement and _by_movement(plan):
                note = BY_MOVEMENT
            rows += _rows_of(plan, repr(bound), calibration, note)
        calibration, note = _calibrate(plan, plan.group_laws, Group())
        rows += _rows_of(plan, GROUP_PRIVACY, calibration, note)
        row_laws = plan.row_laws
        if row_laws is not None:
            calibration, note = _calibrate(plan, lambda: row_laws, "auto")
            if calibration is not None:
                least = calibration.noise.scale / own.noise.scale if own.noise.scale else 0.0
                rows = _noted(rows, least) if plan.row_privacy else rows
                note = _left_here(plan, calibration.noise)
            rows += _rows_of(plan, ORDINARY, calibration, note)
    return rows


def _noted(rows: Sequence[BoundRow], least: float) -> list[BoundRow]:
    """Return the rows, with a note where a bound needs less noise than one row alone, which plans do not go below."""
    least *= 1 - _CLOSE
    return [
        msgspec.structs.replace(row, note="; ".join(filter(None, [row.note, _ROW_NEEDS_MORE])))
        if row.times is not None and row.times < least
        else row
        for row in rows
    ]


def _pieces(plan: CalibratedNoise) -> Sequence[Laws]:
    """Return the laws of a plan, one by one."""
    return plan.laws.pieces if isinstance(plan.laws, SeveralLaws) else [plan.laws]


def _calibrate_unless_too_long(
    plan: CalibratedNoise, bound: Bound
) -> tuple[Calibration | None, str]:
    """Return the calibration of a bound, or why it was not tried: too much work for the noise that it can save."""
    pieces = _pieces(plan)
    guarantee, scale = plan.calibration.guarantee, plan.calibration.noise.scale
    own = type(bound) is type(plan.calibration.bound)
    if own or sum(bound.count(laws, guarantee) for laws in pieces) <= _MOST_COMPARED:
        return _calibrate(plan, lambda: plan.laws, bound)
    aim, witness = Scales(guarantee, plan.family), plan.calibration.witness
    least = max(
        max(aim.least(bound, laws, scale), aim.least_of_any(laws, scale, witness))
        for laws in pieces
    )
    if least >= scale:
        return None, "not tried: no less noise"
    return (
        None,
        f"not tried: at best {math.ceil(100 * (1 - least / scale)):g} % less noise"
        if least
        else "not tried: too long",
    )


def _left_here(plan: CalibratedNoise, noise: Noise) -> str:
    kind = plan.calibration.guarantee.kind
    if kind is None:
        return ""
    try:
        left = loss(plan.laws, noise, kind, [plan.calibration.bound, Group()])
    except PufferflowError:
        left = math.inf
    return (
        f"would keep {kind.example.measure} {at_most(left)} here"
        if math.isfinite(left)
        else "would keep no such guarantee here"
    )


def _by_movement(plan: CalibratedNoise) -> bool:
    pieces = plan.laws.pieces if isinstance(plan.laws, SeveralLaws) else [plan.laws]
    return any(laws.movement_only for laws in pieces)


def group_names(plan: CalibratedNoise) -> list[str]:
    """Return a name for every cell."""
    keys = plan.public.cells.keys
    if plan.request.discovers:
        return [f"each {', '.join(plan.request.by)} that appears"]
    if keys is None:
        return [ALL_ROWS]
    return [", ".join(parts) for parts in zip(*map(_texts, keys.get_columns()), strict=True)]


def _texts(keys: pl.Series) -> list[str]:
    """Return the keys of one column as text; where Polars has no text, the repr of Python."""
    texts = keys if keys.dtype.is_nested() or keys.dtype == pl.Binary else keys.cast(pl.String)
    return [f"{keys.name}={'null' if key is None else key}" for key in texts.to_list()]


def _calibrate(
    plan: CalibratedNoise, laws: Callable[[], Laws], bound: Bounds
) -> tuple[Calibration | None, str]:
    try:
        return calibrate(laws(), plan.calibration.guarantee, plan.family, bound), ""
    except PufferflowError as refusal:
        return None, refusal.problem


def _rows_of(
    plan: CalibratedNoise, bound: str, calibration: Calibration | None, note: str
) -> Iterator[BoundRow]:
    own = plan.calibration.noise
    noise = own if calibration is None else calibration.noise
    chosen = calibration is not None and bound == repr(plan.calibration.bound)
    own_cells = chosen and plan.differs_by_cell
    for output, by_cell in plan.columns_with(noise):
        query, name = output.query, type(noise).__name__
        if calibration is None:
            yield BoundRow(bound, output.name, name, note=note, worked_out=False)
            continue
        size = plan.public.size_of(query)
        errors = np.concatenate(
            [expected_error(query, of_some, _at(size, places)) for places, of_some in by_cell]
        )
        yield BoundRow(
            bound,
            output.name,
            name,
            scale=output.noise.scale,
            expected_error=float(errors.mean()) if query.linear and len(errors) else None,
            times=noise.scale / own.scale if own.scale else None,
            certainty=calibration.certainty.value,
            note="; ".join(
                filter(None, [note or calibration.note, _THE_MOST if own_cells else ""])
            ),
            chosen=chosen,
            worked_out=chosen or note != BY_MOVEMENT,
        )
