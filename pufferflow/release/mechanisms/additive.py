"""Additive noise as a mechanism: from exact sums to noisy answers with error bars, and keys that appear.

The keys that appear in an answer whose keys the data chooses, and error bars that allow for the choice:

A key appears where its noisy number of rows is above a threshold (`key_threshold`). So the noise of the
number, given that the key appears, has another law: a key of few rows appears only if the noise is large. The noise of
other sums is independent of the choice.

The error bar of a noisy number y contains numbers n of rows. Below y it has each n for which y is plausible: among keys
of n rows that appear, a number of y or more is not rarer than noise beyond one end of its interval. A key that appears
has a row, so n is 1 or more; and for larger n such numbers are less rare. Above y the choice only makes smaller numbers
rarer, so there the interval is enough.

Numbers and error bars are cut to the values that are possible for any rows, which is post-processing (M47). These
limits are public: they follow from the range of a query, and from the number of rows where that is public. They are a
table with two columns for each output, as the error bars are, whole numbers for counts; both are stored as one table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Self, final

import numpy as np
import polars as pl
from msgspec import structs

from pufferflow.core.arrays import Flags, Floats
from pufferflow.core.errors import SourceError
from pufferflow.core.rounding import agree
from pufferflow.engines.column_measures import MOST_ROWS
from pufferflow.engines.weighted_rows import weighted_tally
from pufferflow.noise.base import Noise
from pufferflow.published.certificate import ERROR_BARS, NoisySum, QuieterGroups
from pufferflow.published.cost import Answered, Cost
from pufferflow.queries.aggregates import Count
from pufferflow.queries.engine_interface import Tally, changed_source
from pufferflow.queries.keys import appearing_keys
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.explain.check import findings
from pufferflow.release.explain.sentences import noise_facts, row_alone, witness_in_words
from pufferflow.release.explain.what_if import what_if
from pufferflow.release.mechanisms.base import (
    Description,
    DrawnAnswers,
    Explanation,
    PrivateReader,
    SumsMechanism,
    reservation_mismatch,
)
from pufferflow.release.planning.accuracy import (
    CONFIDENCE,
    confidence_of_sum,
    error_bars,
    half_widths,
)
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.key_threshold import KeyThreshold

_HALVINGS = 60
_FAR = 40.0
"""The number of noise scales above the threshold beyond which the choice is neglected."""
_RTOL = 1e-3


def appearing(noise: CalibratedNoise, tally: Tally, sums: Floats) -> tuple[Tally, Floats]:
    """Return the keys that appear, with their noisy sums and nothing else."""
    threshold = noise.threshold
    if threshold is None or tally.keys is None:
        return tally, sums
    noisy_rows = sums[:, noise.request.measures.index(None)]
    keys, places = appearing_keys(tally.keys, noisy_rows > float(threshold.above))
    nothing = np.zeros(len(places), dtype=np.int64)
    return Tally(keys, nothing, nothing[:, None][:, :0]), sums[places]


def bars_of_appearing(
    threshold: KeyThreshold, query: Query, noises: list[Noise], sums: Floats, number: int
) -> tuple[Floats, Floats]:
    """Return the ends of the bars of a query that reads the number of rows, as one of its sums."""
    half, noisy = half_widths(query, noises), sums[:, number]
    outside = (1 - confidence_of_sum(query, len(noises), CONFIDENCE)) / 2
    least = least_rows(threshold, noisy, outside)
    if isinstance(query, Count):
        return least[:, None], (noisy + half[number])[:, None]
    ends = [np.zeros((len(sums), len(query.outputs))) for _ in range(2)]
    usual = half[number] * (1 + _RTOL)
    near = noisy - least > usual
    for some, width in ((~near, usual), (near, (noisy - least).max(initial=usual))):
        half[number] = width
        for end, part in zip(ends, query.ends(sums[some], half, None), strict=True):
            end[some] = part
    return ends[0], ends[1]


def least_rows(threshold: KeyThreshold, noisy: Floats, outside: float) -> Floats:
    """Return the least number of rows, 1 or more, of which keys that appear have such a noisy number not too rarely.

    Less often than `outside` it would be too rare.
    """
    noise, half_step = threshold.noise, float(threshold.grid) / 2
    least = noisy - noise.interval(1 - 2 * outside * (1 - _RTOL))[1] - half_step
    near = noisy < float(threshold.above) + _FAR * noise.scale
    number = noisy[near]
    first, last = np.ones(len(number)), np.maximum(number, 1.0)
    for _ in range(_HALVINGS):
        middle = (first + last) / 2
        reached, appears = (
            noise.tail(end - middle)
            for end in (number - half_step, float(threshold.above) + half_step)
        )
        rare = reached < outside * appears
        first, last = np.where(rare, middle, first), np.where(rare, last, middle)
    least[near] = first
    return least


def limits_of(query: Query, size: Floats | None, cells: int) -> list[pl.Series]:
    """Return the least and the largest number that each output of a query can be, whatever the rows, as columns."""
    least, most = (
        np.broadcast_to(ends, (cells, len(query.outputs))) for ends in query.limits(size)
    )
    columns = list[pl.Series]()
    for place, name in enumerate(query.outputs):
        for end, numbers in (("least", least), ("most", most)):
            column = pl.Series(
                f"{name}_{end}", numbers[:, place], dtype=pl.Float64, nan_to_null=True
            )
            columns.append(
                column.clip(upper_bound=MOST_ROWS - 1).cast(pl.Int64) if query.whole else column
            )
    return columns


def columns_of(keys: pl.Schema, queries: Sequence[Query]) -> pl.Schema:
    """Return the columns of a release whose numbers, error bars and limits are one table: before it is drawn."""
    answers, bars, limits = (
        dict[str, pl.DataType](),
        dict[str, pl.DataType](),
        dict[str, pl.DataType](),
    )
    for query in queries:
        for name in query.outputs:
            answers[name] = pl.Float64()
            bars |= {f"{name}_low": pl.Float64(), f"{name}_high": pl.Float64()}
            limits |= dict.fromkeys(
                (f"{name}_least", f"{name}_most"), pl.Int64() if query.whole else pl.Float64()
            )
    return pl.Schema({**keys, **answers, **bars, **limits})


def of_no_rows(queries: Sequence[Query], size: Floats | None) -> list[str]:
    """Return a note on answers about no rows, and in how many cells, where that is public."""
    cells = 0 if size is None else int((size == 0).sum())
    names = [
        query.name for query in queries if cells and np.isnan(query.limits(query.no_rows)[0]).any()
    ]
    if size is None or not names:
        return []
    where = (
        "there are no rows"
        if len(size) == 1
        else f"there are no rows in {cells} of {len(size)} groups"
    )
    return [
        f"{where}: {', '.join(names)} is then pure noise, with the whole range as its error bar"
    ]


COMPOSITION: Final = "one vector of sums, joint (M23)"


@final
@dataclass(frozen=True, eq=False)
class AdditiveNoise(SumsMechanism):
    """Noise on every sum of a request, and answers that are worked out of the noisy sums."""

    reserved: Cost | None = None
    """The cost that an account has reserved, perhaps from another machine."""

    @cached_property
    def joint_cost(self) -> Cost:
        sums = self.noise.exact_sums(self.rows)
        return (
            self.cost if sums is None else structs.replace(self.cost, answered=Answered((), sums))
        )

    def compute_cost(self) -> Cost:
        return super().compute_cost() if self.reserved is None else self.reserved

    def describe(self) -> Description:
        noise = self.noise
        calibration, (unit, words) = noise.calibration, noise.sensitivity_unit
        most = calibration.noise.scale
        return self.described(
            sums=_noisy_sums(noise),
            sensitivity=calibration.sensitivity * unit,
            sensitivity_unit=words
            if calibration.bound.by_movement
            else f"by one row alone, {words}",
            composition=COMPOSITION,
            ordinary=noise.ordinary,
            groups=self.request.by,
            quieter=tuple(
                QuieterGroups(len(noise.public.cells.rows[cells.places]), cells.noise.scale / most)
                for cells in noise.by_noise[1:]
            ),
            keys=noise.chosen_keys,
            correlations=noise.basis.transform.correlations(noise.noises),
        )

    def explain(self) -> Explanation:
        noise, calibration = self.noise, self.noise.calibration
        values = {
            **noise_facts(noise),
            "error_bars": ERROR_BARS,
            "keys": "" if noise.chosen_keys is None else noise.chosen_keys.words,
            "bound": type(calibration.bound).__name__,
            "sure": calibration.certainty.value,
            "witness": witness_in_words(noise),
            "alone": row_alone(noise),
            "cases": what_if(noise),
        }
        further = (*findings(noise), *of_no_rows(self.request.queries, noise.public.size))
        return Explanation("additive_noise", values, further)

    def check_drawable(self) -> None:
        for noise in self.noise.noises:
            noise.check_drawable()

    def with_cost(self, reserved: Cost) -> Self:
        if reserved == self.cost:
            return self
        if not agree(self.cost.as_known_to(reserved), reserved):
            raise reservation_mismatch()
        noise = self.noise.charged_as(reserved.shape)
        if noise is None:
            raise reservation_mismatch("this machine's proof requires more noise")
        return type(self)(noise, reserved)

    def draw(self, reading: PrivateReader) -> DrawnAnswers:
        return add_noise(self.noise, read_exact_sums(self.noise, reading))


def read_exact_sums(noise: CalibratedNoise, reading: PrivateReader) -> Tally:
    """Read the sums of the private rows, and check that noise was made for their cells."""
    request, weights = noise.request, noise.public.weights
    measures = [measure for measure in request.measures if measure is not None]
    again, counted = request.engine.counted_again and request.counts_are_public, list[Tally]()
    together = weights.together if weights.grids else None

    def tally(one_version: bool) -> Tally:  # noqa: FBT001 - what a reading tells its work
        if again and not one_version:
            counted.append(request.engine.tally(request.selection))
        found = weighted_tally(request.engine, request.selection, measures, weights.grids, together)
        if again:
            counted.append(request.engine.tally(request.selection))
        return request.with_keys(found)

    read = reading.read(tally, lambda found: int(found.rows.sum()))
    if counted and not any(_same_rows(read, one) for one in counted):
        raise _other_rows()
    if noise.differs_by_cell and not _same_keys(read.keys, noise.public.cells.keys):
        raise changed_source()  # each cell has noise of its own
    return read


def _same_rows(read: Tally, counted: Tally) -> bool:
    """Return whether sums are of as many rows in each cell as were counted by themselves."""
    same = counted.keys is None or _same_keys(read.keys, counted.keys)
    return same and np.array_equal(read.rows, counted.rows)


def _other_rows() -> SourceError:
    return SourceError(
        "The engine did not sum the rows that it counted: the table may have changed meanwhile. Nothing was released.",
        allowed="a table that does not change while it is read, on an engine that reads each row once",
        instead="releasing again with the same id, which costs nothing more; if the error returns, another engine",
    )


def _same_keys(read: pl.DataFrame | None, planned: pl.DataFrame | None) -> bool:
    return read is not None and planned is not None and read.equals(planned, null_equal=True)


def _noisy_sums(noise: CalibratedNoise) -> tuple[NoisySum, ...]:
    """Return each sum with its own noise, and the width of the grid that it is on."""
    units, grids = noise.public.weights.units, noise.basis.transform.grids(noise.noises)
    rows = zip(noise.request.measures, units, noise.noises_in_units, grids, strict=True)
    return tuple(
        NoisySum(
            "the number of rows" if measure is None else measure.values.words,
            type(own).__name__,
            own.scale,
            str(Fraction(grid) * unit),
        )
        for measure, unit, own, grid in rows
    )


def add_noise(noise: CalibratedNoise, tally: Tally) -> DrawnAnswers:
    """Return the noisy answers of a batch, with the operating system's randomness."""
    request = noise.request
    public = request.counts_are_public
    noisy, steps = _noisy(noise, tally)
    tally, sums = appearing(noise, tally, noisy)
    answers, bars, limits = list[pl.Series](), list[pl.Series](), list[pl.Series]()
    for query, places in request.reads:
        own, size = sums[:, list(places)], query.size_in(tally, counts_are_public=public)
        outputs = query.finish(own, size)
        low, high = _bars(noise, query, places, own, size)
        for place, name in enumerate(query.outputs):
            answers.append(pl.Series(name, outputs[:, place]))
            bars += [
                pl.Series(f"{name}_low", low[:, place]),
                pl.Series(f"{name}_high", high[:, place]),
            ]
        limits += limits_of(query, size, len(sums))
    known = tuple(of_no_rows(request.queries, tally.rows.astype(np.float64) if public else None))
    whole = len(sums) == 1 and len(steps) == len(request.measures)
    exact = noise.exact_sums(int(tally.rows.sum())) if whole else None
    answered = None if exact is None else Answered(steps, exact)
    frame, intervals, ends = (with_keys(tally, columns) for columns in (answers, bars, limits))
    return DrawnAnswers(frame, intervals, ends, known, answered)


def _bars(
    noise: CalibratedNoise, query: Query, places: Sequence[int], sums: Floats, size: Floats | None
) -> tuple[Floats, Floats]:
    """Return the ends of the bars of a query's outputs, in each cell for its own noise."""
    numbers = [
        number for number, place in enumerate(places) if noise.request.measures[place] is None
    ]
    if noise.threshold is not None and numbers:
        noises = [noise.noises_in_units[place] for place in places]
        return bars_of_appearing(noise.threshold, query, noises, sums, numbers[0])
    ends = [np.zeros((len(sums), len(query.outputs))) for _ in range(2)]
    for cells in noise.by_noise:
        noises, own = noise.in_units(cells.noises), None if size is None else size[cells.places]
        found = error_bars(query, [noises[place] for place in places], sums[cells.places], own)
        for end, part in zip(ends, found, strict=True):
            end[cells.places] = part
    return ends[0], ends[1]


def _noisy(noise: CalibratedNoise, tally: Tally) -> tuple[Floats, tuple[str, ...]]:
    """Return the sums with noise, in the units of the answers; and those of the first cell in whole steps, exactly.

    The latter are left out where noise is on combinations of sums.
    """
    request, transform = noise.request, noise.basis.transform
    sums = iter(tally.sums.T)
    totals = transform.of_totals(
        [tally.rows if measure is None else next(sums) for measure in request.measures]
    )
    shown, noisy, exact = (
        _shown(request, tally),
        np.zeros((len(tally.rows), len(totals))),
        list[str](),
    )
    for place, total in enumerate(totals):
        for cells in noise.by_noise:
            own, places = cells.noises[place], shown[place][cells.places].nonzero()[0]
            places = np.arange(len(noisy))[cells.places][places]
            drawn = own.release(total[places], grid=transform.grid(own))
            noisy[places, place] = drawn.values
            if transform.one_by_one and len(exact) == place and drawn.steps.size:
                exact.append(str(int(drawn.steps[0]) * (drawn.grid or 1)))
    units = np.array([float(unit) for unit in noise.public.weights.units])
    return transform.to_sums(noisy) * units, tuple(exact)  # units are powers of two: exact


def _shown(request: Request, tally: Tally) -> Flags:
    """Return a flag for each sum and cell that an answer reads, of shape (sums, cells); the others are publicly 0."""
    shown = np.zeros((len(request.measures), len(tally.rows)), dtype=np.bool_)
    for query, places in request.reads:
        own = query.measure_in(query.size_in(tally, counts_are_public=request.counts_are_public))
        for number, place in enumerate(places):
            shown[place] |= True if own is None else own == number
    return shown


def with_keys(tally: Tally, columns: list[pl.Series]) -> pl.DataFrame:
    """Return columns with the keys of the answer in front."""
    outputs = pl.DataFrame(columns)
    return outputs if tally.keys is None else pl.concat([tally.keys, outputs], how="horizontal")
