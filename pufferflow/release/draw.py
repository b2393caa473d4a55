"""From exact sums to published numbers: noise on every sum, finished queries, error bars, and keys that appear.

The keys that appear in an answer whose keys the data chooses, and error bars that allow for the choice.

A key appears where its noisy number of rows is above a threshold (`key_threshold`). So the noise of the
number, given that the key appears, has another law: a key of few rows appears only if the noise is large. The noise of
other sums is independent of the choice.

The bar of a number of rows y has all n for which a number of y or more is no rarer, among the keys of n rows that
appear, than is the noise beyond one end of its interval. A key that appears has a row, so n is 1 or more; and of more
rows such numbers are less rare. Above y the choice only makes smaller numbers rarer, so there the interval is enough.

From exact sums to published numbers: noise on every sum, queries finished from noisy sums, and their error bars.

Numbers and error bars are cut to the values that are possible for any rows, which is post-processing (M47). These
limits are public: they follow from the range of a query, and from the number of rows where that is public. They are a
table with two columns for each output, as the error bars are, whole numbers for counts; both are stored as one table.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from pufferflow.core.arrays import Flags, Floats
from pufferflow.engines.column_measures import MOST_ROWS
from pufferflow.noise.base import Noise
from pufferflow.published.cost import Answered
from pufferflow.queries.aggregates import Count
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.keys import appearing_keys
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.planning.accuracy import CONFIDENCE, confidence_of_sum, error_bars, half_widths
from pufferflow.release.planning.combined import Combined
from pufferflow.release.planning.decision import Decision
from pufferflow.release.planning.exact_sums import DesignedChannel, exact_sums
from pufferflow.release.planning.key_threshold import KeyThreshold, grid_below

_HALVINGS = 60
_FAR = 40.0
"""The number of noise scales above the threshold beyond which the choice is neglected."""
_RTOL = 1e-3


def appearing(decision: Decision, tally: Tally, sums: Floats) -> tuple[Tally, Floats]:
    """Return the keys that appear, with their noisy sums and nothing else."""
    threshold = decision.threshold
    if threshold is None or tally.keys is None:
        return tally, sums
    noisy_rows = sums[:, decision.request.measures.index(None)]
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
            noise.tail(end - middle) for end in (number - half_step, float(threshold.above) + half_step)
        )
        rare = reached < outside * appears
        first, last = np.where(rare, middle, first), np.where(rare, last, middle)
    least[near] = first
    return least


def limits_of(query: Query, size: Floats | None, cells: int) -> list[pl.Series]:
    """Return the least and the largest number that each output of a query can be, whatever the rows, as columns."""
    least, most = (np.broadcast_to(ends, (cells, len(query.outputs))) for ends in query.limits(size))
    columns = list[pl.Series]()
    for place, name in enumerate(query.outputs):
        for end, numbers in (("least", least), ("most", most)):
            column = pl.Series(f"{name}_{end}", numbers[:, place], dtype=pl.Float64, nan_to_null=True)
            columns.append(column.clip(upper_bound=MOST_ROWS - 1).cast(pl.Int64) if query.whole else column)
    return columns


def columns_of(keys: pl.Schema, queries: Sequence[Query]) -> pl.Schema:
    """Return the columns of a release whose numbers, error bars and limits are one table: before it is drawn."""
    answers, bars, limits = dict[str, pl.DataType](), dict[str, pl.DataType](), dict[str, pl.DataType]()
    for query in queries:
        for name in query.outputs:
            answers[name] = pl.Float64()
            bars |= {f"{name}_low": pl.Float64(), f"{name}_high": pl.Float64()}
            limits |= dict.fromkeys((f"{name}_least", f"{name}_most"), pl.Int64() if query.whole else pl.Float64())
    return pl.Schema({**keys, **answers, **bars, **limits})


def of_no_rows(queries: Sequence[Query], size: Floats | None) -> list[str]:
    """Return a note on answers about no rows, and in how many cells, where that is public."""
    cells = 0 if size is None else int((size == 0).sum())
    names = [query.name for query in queries if cells and np.isnan(query.limits(query.no_rows)[0]).any()]
    if size is None or not names:
        return []
    where = "there are no rows" if len(size) == 1 else f"there are no rows in {cells} of {len(size)} groups"
    return [f"{where}: the value of {', '.join(names)} there is noise alone, with the whole range as its error bar"]


class NoisyAnswers(NamedTuple):
    """The answers, the ends of their error bars, and their limits, each with the keys in front; and notes.

    Limits and notes are public: they depend on the rows by their number only, and only where that is public.
    """

    frame: pl.DataFrame
    intervals: pl.DataFrame
    limits: pl.DataFrame
    notes: tuple[str, ...]
    answered: Answered | None = None
    """The noisy sums themselves, of rows that are draws from a table."""


def add_noise(decision: Decision, tally: Tally) -> NoisyAnswers:
    """Return the noisy answers of a batch, with the operating system's randomness."""
    request = decision.request
    public = request.counts_are_public
    if decision.channel is not None:
        return _by_channel(decision, decision.channel, tally)
    noisy, steps = _noisy(decision, tally)
    tally, sums = appearing(decision, tally, noisy)
    answers, bars, limits = list[pl.Series](), list[pl.Series](), list[pl.Series]()
    for query, places in request.reads:
        own, size = sums[:, list(places)], query.size_in(tally, counts_are_public=public)
        outputs = query.finish(own, size)
        low, high = _bars(decision, query, places, own, size)
        for place, name in enumerate(query.outputs):
            answers.append(pl.Series(name, outputs[:, place]))
            bars += [pl.Series(f"{name}_low", low[:, place]), pl.Series(f"{name}_high", high[:, place])]
        limits += limits_of(query, size, len(sums))
    notes = tuple(of_no_rows(request.queries, tally.rows.astype(np.float64) if public else None))
    sums = (
        None
        if len(sums) != 1 or not public or len(steps) != len(request.measures)
        else exact_sums(request, int(tally.rows.sum()), decision.noises)
    )
    answered = None if sums is None else Answered(steps, sums)
    return NoisyAnswers(_frame(tally, answers), _frame(tally, bars), _frame(tally, limits), notes, answered)


def _by_channel(decision: Decision, channel: DesignedChannel, tally: Tally) -> NoisyAnswers:
    """Return the answer that a channel draws in place of the only sum."""
    (query,), (name,) = decision.request.queries, decision.request.queries[0].outputs
    output = channel.draw(int(tally.rows[0] if decision.request.measures[0] is None else tally.sums[0, 0]))
    answer, (low, high) = float(channel.outputs[output]), channel.bar(output)
    bars = [pl.Series(f"{name}_low", [low]), pl.Series(f"{name}_high", [high])]
    limits = limits_of(query, tally.rows.astype(np.float64), 1)
    columns = ([pl.Series(name, [answer])], bars, limits)
    frames = [_frame(tally, own) for own in columns]
    return NoisyAnswers(frames[0], frames[1], frames[2], (), Answered((str(output),)))


def _bars(
    decision: Decision, query: Query, places: Sequence[int], sums: Floats, size: Floats | None
) -> tuple[Floats, Floats]:
    """Return the ends of the bars of a query's outputs, in each cell for its own noise."""
    numbers = [number for number, place in enumerate(places) if decision.request.measures[place] is None]
    if decision.threshold is not None and numbers:
        noises = [decision.noises_in_units[place] for place in places]
        return bars_of_appearing(decision.threshold, query, noises, sums, numbers[0])
    ends = [np.zeros((len(sums), len(query.outputs))) for _ in range(2)]
    for alike in decision.by_noise:
        noises, own = decision.in_units(alike.noises), None if size is None else size[alike.places]
        found = error_bars(query, [noises[place] for place in places], sums[alike.places], own)
        for end, part in zip(ends, found, strict=True):
            end[alike.places] = part
    return ends[0], ends[1]


def _noisy(decision: Decision, tally: Tally) -> tuple[Floats, tuple[str, ...]]:
    """Return the sums with noise, in the units of the answers; and those of the first cell in whole steps, exactly.

    Of combinations of sums, whose noise is correlated, the latter are left out.
    """
    request, combined = decision.request, decision.facts.combined
    if combined is not None:
        return _of_combinations(decision, combined, tally), ()
    shown = _shown(request, tally)
    noisy, sums = np.zeros((len(tally.rows), len(request.measures))), iter(tally.sums.T)
    exact = list[str]()
    for place, (measure, unit) in enumerate(zip(request.measures, decision.facts.weights.units, strict=True)):
        steps = tally.rows if measure is None else next(sums)
        for alike in decision.by_noise:
            noise, places = alike.noises[place], shown[place][alike.places].nonzero()[0]
            places = np.arange(len(noisy))[alike.places][places]
            drawn = noise.release(steps[places], grid=grid_below(noise))
            noisy[places, place] = drawn.values * float(unit)  # a power of two: exact
            if len(exact) == place and drawn.steps.size:
                exact.append(str(int(drawn.steps[0]) * (drawn.grid or 1)))
    return noisy, tuple(exact)


def _of_combinations(decision: Decision, combined: Combined, tally: Tally) -> Floats:
    """Return the sums as they are worked out of their noisy combinations."""
    sums = iter(tally.sums.T)
    totals = np.stack([tally.rows if one is None else next(sums) for one in decision.request.measures], axis=1)
    exact, noisy = combined.of_totals(totals), np.zeros(totals.shape)
    for alike in decision.by_noise:
        for place, noise in enumerate(alike.noises):
            drawn = noise.release(exact[alike.places, place], grid=grid_below(noise, finer=True))
            noisy[alike.places, place] = drawn.values
    return combined.to_sums(noisy) * np.array([float(unit) for unit in decision.facts.weights.units])


def _shown(request: Request, tally: Tally) -> Flags:
    """Return a flag for each sum and cell that an answer reads, of shape (sums, cells); the others are publicly 0."""
    shown = np.zeros((len(request.measures), len(tally.rows)), dtype=np.bool_)
    for query, places in request.reads:
        own = query.measure_in(query.size_in(tally, counts_are_public=request.counts_are_public))
        for number, place in enumerate(places):
            shown[place] |= True if own is None else own == number
    return shown


def _frame(tally: Tally, columns: list[pl.Series]) -> pl.DataFrame:
    outputs = pl.DataFrame(columns)
    return outputs if tally.keys is None else pl.concat([tally.keys, outputs], how="horizontal")
