"""Estimates that invert a channel on average: of frequencies of values, of sums and of means, with error bars.

For numbers v of values, scores g of outputs with Σ_y Q(y|x)·g(y) = v(x) for every x have the right mean, row by row,
whatever the rows are: the sum of scores estimates the sum of v without bias. Among several such g the one with the
least variance under equally frequent values is used. Given the rows, draws are independent: the variance of the sum is
Σ_x n_x·(Σ_y Q(y|x)·g(y)² − v(x)²). The scores of g² − v² estimate it, and it lies between its least and its largest
value for this number of rows. Only published rows are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.engines.row_by_row import ROWS
from pufferflow.noise.channel import Channel

DEVIATIONS: Final = 1.959963984540054
"""Of 95 % under a normal law."""
_SOLVED: Final = 1e-8


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of the outputs of a channel that estimate a sum of numbers of its inputs.

    >>> channel = Channel.of([0, 1], [0, 1], [[0.75, 0.25], [0.25, 0.75]])
    >>> Scores.of(channel, [0.0, 1.0]).outputs.round(6).tolist()
    [-0.5, 1.5]
    """

    outputs: Floats
    squares: Floats | None
    """Scores that estimate the sum of the squared numbers, if the channel's outputs determine these, too."""
    least: float
    most: float
    """The variance of one row, at least and at most."""

    @classmethod
    def of(cls, channel: Channel, numbers: Sequence[float] | Floats) -> "Scores":
        """Return the scores; refuse numbers that the channel's outputs do not determine, not even on average."""
        values = np.asarray(numbers, dtype=np.float64)
        scores = _solved(channel.matrix, values)
        if scores is None:
            raise Refused(
                "The channel gives several values the same outputs: they cannot be distinguished, not even on average.",
                allowed="numbers that are equal for such values",
                instead="pf.local.randomized_response, which reveals how frequent every value is",
            )
        variances = np.maximum(channel.matrix @ scores**2 - values**2, 0.0)
        squares = _solved(channel.matrix, values**2)
        return cls(scores, squares, float(variances.min()), float(variances.max()))

    def sums(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return estimates and their standard errors, for counts of outputs of shape (groups, outputs)."""
        rows = counts.sum(axis=1)
        variances = rows * self.most
        if self.squares is not None:
            variances = np.clip(counts @ (self.outputs**2 - self.squares), rows * self.least, variances)
        return counts @ self.outputs, np.sqrt(variances)


def _solved(probabilities: Floats, values: Floats) -> Floats | None:
    """Return g with Q·g = values of the least variance under equally frequent values; None if there is none."""
    frequency = probabilities.mean(axis=0)
    used = frequency > 0
    scaled = probabilities[:, used] / np.sqrt(frequency[used])
    solution = np.asarray(np.linalg.pinv(scaled, rcond=1e-12) @ values, dtype=np.float64)
    scores = np.zeros(len(frequency))
    scores[used] = solution / np.sqrt(frequency[used])
    error = np.abs(probabilities @ scores - values).max(initial=0.0)
    return scores if error <= _SOLVED * (1 + np.abs(values).max(initial=0.0)) else None


def estimated_frequencies(counts: pl.DataFrame, channel: Channel, column: str) -> pl.DataFrame:
    """Return how many rows of each group have each value."""
    keys, table = _by_group(counts, channel, column)
    parts = list[pl.DataFrame]()
    for place, label in enumerate(channel.inputs):
        number, error = Scores.of(channel, np.eye(len(channel.inputs))[place]).sums(table)
        own = _with_bars(keys, "frequency", number, error, table.sum(axis=1))
        labels = pl.Series(column, [label] * len(own), dtype=_dtype(channel.inputs))
        parts.append(own.insert_column(keys.width, labels))
    return pl.concat(parts)


def estimated_sums(counts: pl.DataFrame, channel: Channel, column: str) -> pl.DataFrame:
    """Return the sum of the values of each group's rows."""
    keys, table = _by_group(counts, channel, column)
    number, error = Scores.of(channel, _numbers(channel)).sums(table)
    return _with_bars(keys, f"{column}_sum", number, error, table.sum(axis=1))


def estimated_means(counts: pl.DataFrame, channel: Channel, column: str) -> pl.DataFrame:
    """Return the mean of the values of each group's rows; null for a group without rows."""
    keys, table = _by_group(counts, channel, column)
    rows = table.sum(axis=1)
    number, error = Scores.of(channel, _numbers(channel)).sums(table)
    with np.errstate(invalid="ignore"):
        return _with_bars(keys, f"{column}_mean", number / rows, error / rows, rows)


def _numbers(channel: Channel) -> Floats:
    if any(isinstance(label, str) for label in channel.inputs):
        raise Refused(
            "A sum or a mean of labels.",
            allowed="a domain of numbers",
            instead="frequencies(), how many rows have each label",
        )
    return np.array(channel.inputs, dtype=np.float64)


def _by_group(counts: pl.DataFrame, channel: Channel, column: str) -> tuple[pl.DataFrame, Floats]:
    """Return the groups, and the number of rows of each with each output."""
    place = {label: at for at, label in enumerate(channel.outputs)}
    *names, _, _ = counts.columns
    values = counts[column].to_list()
    if any(value not in place for value in values):
        raise UsageError(
            "The rows have a value that is no output of the channel.", allowed="rows as they were published"
        )
    keys = counts.select(names)
    table = np.zeros((len(counts), len(channel.outputs)))
    table[np.arange(len(counts)), [place[value] for value in values]] = counts.to_series(counts.width - 1).to_numpy()
    if not names:
        return keys, table.sum(axis=0, keepdims=True)
    first = keys.select(pl.struct(pl.all()).is_first_distinct()).to_series()  # rows of a group are adjacent
    starts = np.flatnonzero(first.to_numpy())
    return keys.filter(first), np.add.reduceat(table, starts, axis=0) if len(starts) else table


def _with_bars(keys: pl.DataFrame, name: str, number: Floats, error: Floats, rows: Floats) -> pl.DataFrame:
    bars = pl.DataFrame(
        {
            name: pl.Series(number, nan_to_null=True),
            f"{name}_low": pl.Series(number - DEVIATIONS * error, nan_to_null=True),
            f"{name}_high": pl.Series(number + DEVIATIONS * error, nan_to_null=True),
            "standard_error": pl.Series(error, nan_to_null=True),
            ROWS: pl.Series(rows.astype(np.int64)),
        }
    )
    taken = [known for known in keys.columns if known in bars.columns]
    if taken:
        raise UsageError(
            f"The groups have a column {taken[0]!r}, as the estimates do.",
            allowed=f"other names than {', '.join(bars.columns)}",
            instead='batch.with_columns(of=pl.col("rows")) before private_local, and groups by that',
        )
    return bars if not keys.width else keys.hstack(bars.get_columns())


def _dtype(labels: Sequence[Any]) -> Any:
    return pl.Series(list(labels), strict=False).dtype
