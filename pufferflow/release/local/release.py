"""Publishing rows one by one, once: every row drawn and written; estimates that invert the channel.

Estimates that invert a channel on average: of frequencies of values, of sums and of means, with error bars.

Let v be numbers of the values, and g scores of the outputs with Σ_y Q(y|x)·g(y) = v(x) for every x. Then each row's
score has the right mean, so the sum of scores estimates the sum of v without bias. Among several such g the one with
the least variance under equally frequent values is used. Given the rows, draws are independent: the variance of the sum
is Σ_x n_x·(Σ_y Q(y|x)·g(y)² − v(x)²). The scores of g² − v² estimate it, and it lies between its least and its largest
value for this number of rows. Only published rows are read.

Publishing rows one by one, once: compare the source, reserve the cost, draw every row, store the result, return it.

If the same rows were drawn again, a reader could average the draws. So rows are drawn by a release, which is charged
once under its id, never by a lazy frame that may be collected twice. In memory the account keeps the rows themselves;
of a file it keeps the digest, and the number of rows with each output. A file is written under a temporary name, then
committed, and only then moved to its place. The rows of the process that commits first appear, and no others.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast, final

import msgspec
import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats
from pufferflow.core.durable_files import move_file, name_beside, unfinished_in
from pufferflow.core.errors import Refused, SourceError, UsageError, escape_controls
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.paths import local_path
from pufferflow.core.sandbox import capture
from pufferflow.core.suggestions import HelpfulAttributes
from pufferflow.core.validate import quoted
from pufferflow.engines.row_by_row import ROWS, RowByRow, counted, metadata_of, scan
from pufferflow.noise.channel import Channel
from pufferflow.published.certificate import Certificate
from pufferflow.published.release import Release, written
from pufferflow.queries.engine_interface import Engine
from pufferflow.release.mechanisms.base import Mechanism, PrivateReader
from pufferflow.release.publish import DrawnRelease, draw_release

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
                "The channel treats several values in the same way: the numbers of their rows cannot be estimated.",
                allowed="equal numbers for such values",
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
            variances = np.clip(
                counts @ (self.outputs**2 - self.squares), rows * self.least, variances
            )
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
        labels = pl.Series(
            column, [label] * len(own), dtype=pl.Series(list(channel.inputs), strict=False).dtype
        )
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
            "Labels have no sum and no mean.",
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
            "The rows contain a value that is no output of the channel.",
            allowed="the rows as they were published, unchanged",
        )
    keys = counts.select(names)
    table = np.zeros((len(counts), len(channel.outputs)))
    table[np.arange(len(counts)), [place[value] for value in values]] = counts.to_series(
        counts.width - 1
    ).to_numpy()
    if not names:
        return keys, table.sum(axis=0, keepdims=True)
    first = keys.select(
        pl.struct(pl.all()).is_first_distinct()
    ).to_series()  # rows of a group are adjacent
    starts = np.flatnonzero(first.to_numpy())
    return keys.filter(first), np.add.reduceat(table, starts, axis=0) if len(starts) else table


def _with_bars(
    keys: pl.DataFrame, name: str, number: Floats, error: Floats, rows: Floats
) -> pl.DataFrame:
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
            f"The groups and the estimates both have a column {taken[0]!r}.",
            allowed=f"other names than {', '.join(bars.columns)}",
            instead='batch.with_columns(of=pl.col("rows")) before private_local, and groups by that',
        )
    return bars if not keys.width else keys.hstack(bars.get_columns())


MOST_KEPT: Final = 1_000_000
"""The most rows that an account keeps itself; more are written to a file."""
_CERTIFICATE, _CHANNEL, _COLUMN = (
    "pufferflow.certificate",
    "pufferflow.channel",
    "pufferflow.column",
)
_FILE: Final = ["output", ROWS, "sha256"]


@final
@dataclass(frozen=True, eq=False, repr=False)
class LocalRelease(InNotebooks, HelpfulAttributes):
    """Rows that may be published: public columns, and one column that went through a channel row by row.

    `frame` can be read, written and joined any number of times, since its rows are drawn already. `frequencies`, `sums`
    and `means` are estimates from these rows alone, with error bars. Bars hold with probability 95 % for a few dozen
    rows or more.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.Independent(), public=["day"])
    >>> rows = pl.DataFrame({"day": [1, 2] * 500, "level": [0, 1] * 500})
    >>> release = pf.protect(rows, scenario).private_local("level").release(epsilon=1.0)
    >>> release.means("day").columns
    ['day', 'level_mean', 'level_mean_low', 'level_mean_high', 'standard_error', 'rows']
    """

    frame: pl.LazyFrame
    certificate: Certificate
    channel: Channel
    column: str
    path: Path | None = None

    def frequencies(self, *by: str) -> pl.DataFrame:
        """Return an unbiased estimate of the number of rows with each value, in groups of public columns.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.Independent())
        >>> batch = pf.protect(pl.DataFrame({"level": [0, 1] * 500}), scenario)
        >>> batch.private_local("level").release(epsilon=1.0).frequencies()["level"].to_list()
        [0, 1]
        """
        return estimated_frequencies(self._counts(by, "frequencies"), self.channel, self.column)

    def sums(self, *by: str) -> pl.DataFrame:
        """Return an unbiased estimate of the sum of the column's values, in groups of public columns."""
        return estimated_sums(self._counts(by, "sums"), self.channel, self.column)

    def means(self, *by: str) -> pl.DataFrame:
        """Return the mean of the column's values, estimated without bias, in groups of public columns."""
        return estimated_means(self._counts(by, "means"), self.channel, self.column)

    def report(self, path: str | Path) -> Path:
        """Write a report: the certificate, and the number of rows published with each value.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.Independent())
        >>> release = pf.protect(pl.DataFrame({"level": [0, 1]}), scenario).private_local("level").release(epsilon=1.0)
        >>> page = release.report(Path(tempfile.mkdtemp()) / "rows.html")
        >>> "M35" in page.read_text(encoding="utf-8")
        True
        """
        return Release(self._counts(), pl.DataFrame(), self.certificate).report(path)

    def _counts(self, by: tuple[str, ...] = (), method: str = "means") -> pl.DataFrame:
        known = [name for name in self.frame.collect_schema().names() if name != self.column]
        for name in cast("tuple[object, ...]", by):
            if not isinstance(name, str) or name not in known:
                raise UsageError(
                    f"The rows have no public column {quoted(name)}.",
                    allowed=", ".join(map(repr, known)) or "none",
                    instead=f"{method}({known[0]!r})" if known else f"{method}()",
                )
        if len(set(by)) < len(by):
            raise UsageError(
                "A public column is named twice.",
                allowed="each name once",
                instead=f"{method}({by[0]!r})",
            )
        return counted(self.frame, by, self.column)

    def __repr__(self) -> str:
        """Show the column, the guarantee and the entry of the ledger."""
        entry = (
            f"entry {self.certificate.entry}"
            if self.certificate.entry
            else "nobody is counting (no account)"
        )
        where = "in memory" if self.path is None else f"in {str(self.path)!r}"
        return escape_controls(
            f"<LocalRelease of {self.column!r} {where}; {self.certificate.promise!r}, {entry}; {self.channel!r}>",
            one_line=True,
        )


def read(path: str | Path) -> LocalRelease:
    """Return the rows that a release wrote to a Parquet file, with the certificate and the channel that it carries."""
    place = local_path(path, "The place of the rows")
    try:
        texts = metadata_of(place)
        certificate, channel = (
            Certificate.from_json(texts[_CERTIFICATE]),
            Channel.from_json(texts[_CHANNEL]),
        )
        return LocalRelease(scan(place), certificate, channel, texts[_COLUMN], path=place)
    except (KeyError, SourceError, msgspec.MsgspecError, FileNotFoundError):
        pass
    raise UsageError(
        f"The file {str(place)[-200:]!r} has no rows of a local release.",
        allowed="a Parquet file that private_local(…).release(path) wrote",
        instead='pf.local.read("rows.parquet")',
    )


@final
@dataclass(frozen=True, eq=False)
class RowsDestination:
    """The place of published rows: a Parquet file or, without a path, memory; a destination of a release."""

    channel: Channel
    rows: RowByRow
    place: Path | None

    def check(self, mechanism: Mechanism, *, kept: bool) -> None:
        """Refuse a place that is taken, or in no folder; and very many rows to be kept by an account."""
        self._check_place()
        if self.place is None and kept and mechanism.rows > MOST_KEPT:
            raise UsageError(
                f"{mechanism.rows} rows are too many for an account to keep in memory.",
                allowed=f"at most {MOST_KEPT} rows in memory; any number in a file",
                instead='release("rows.parquet", account, id="monday")',
            )

    def _check_place(self) -> None:
        if self.place is None:
            return
        if self.place.exists() or not self.place.parent.is_dir():
            what = "There is a file" if self.place.exists() else "There is no folder"
            raise UsageError(
                f"{what} at {str(self.place)[-200:]!r}.",
                allowed="the name of a new file in a folder that exists",
                instead="another path, such as rows-2.parquet",
            )
        if self.place.suffix not in {"", ".pq", ".parquet"}:
            raise UsageError(
                f"Rows are written as Parquet, and this is not the name of a Parquet file: {self.place.name[-200:]!r}.",
                allowed="a name that ends in .parquet",
                instead=f"{self.place.stem[-100:]}.parquet; and pl.scan_parquet(…).sink_csv(…), for other formats",
            )

    def draw(
        self, mechanism: Mechanism, reading: PrivateReader, certificate: Certificate
    ) -> DrawnRelease:
        """Draw all rows, and return what the account stores of them."""
        if self.place is None:
            return DrawnRelease(draw_release(mechanism, reading, certificate))
        beside = name_beside(self.place)
        try:
            written(beside.touch, beside.parent)  # nothing is read if nothing can be written
            engine = mechanism.request.engine
            counted = capture(
                lambda: reading.read(
                    lambda _: self._file(engine, beside, certificate),
                    lambda counts: int(counts[ROWS].sum()),
                )
            ).get()
        except BaseException:
            _remove(beside)
            raise
        return DrawnRelease(Release(counted, pl.DataFrame(), certificate), beside)

    def _file(self, engine: Engine, beside: Path, certificate: Certificate) -> pl.DataFrame:
        """Write the rows, and return how many there are of each output, with the digest of the file."""
        known = {
            _CERTIFICATE: certificate.to_json(),
            _CHANNEL: self.channel.to_json(),
            _COLUMN: self.rows.column,
        }
        counts = self.rows.write(engine, beside, name_beside(beside), known)
        number = dict(counts.iter_rows())
        outputs = self.channel.outputs
        return pl.DataFrame(
            {
                "output": pl.Series(
                    [None if one is None else str(one) for one in outputs], dtype=pl.String
                ),
                ROWS: pl.Series([number.get(one, 0) for one in outputs], dtype=pl.Int64),
                "sha256": pl.Series([_digest(beside)] * len(outputs), dtype=pl.String),
            }
        )

    def deliver(self, stored: Release, drawn: DrawnRelease) -> LocalRelease:
        """Return the rows that are published: those received, unless another process was first."""
        if _identity(stored) != _identity(drawn.release):
            _remove(drawn.beside)
            return self.deliver_again(stored)
        try:
            return self._published(stored, drawn.beside)
        finally:
            if not stored.certificate.entry:
                _remove(
                    drawn.beside
                )  # without an account a file that could not be moved is of no use

    def deliver_again(self, stored: Release) -> LocalRelease:
        """Return rows that were published before, from their place, or moved there now."""
        if not _is_file(stored):
            return self._published(stored, None)
        digest, place = stored.frame["sha256"][0], self.place
        if place is not None and place.is_file() and _digest(place) == digest:
            return self._at(place, stored)
        if place is not None and place.parent.is_dir():
            for beside in unfinished_in(place.parent):
                if _digest(beside) == digest:
                    return self._published(stored, beside)
        raise UsageError(
            "These rows were already published, in a file that is not here. They are not drawn again: "
            "a reader could average two draws.",
            allowed=f"the path of that file, whose SHA-256 is {digest}",
            instead='release("rows.parquet", account, id="monday"), with its path; or another id, which costs again',
        )

    def _published(self, stored: Release, beside: Path | None) -> LocalRelease:
        """Return the rows for people; a file is moved to its place."""
        if beside is None and self.place is None:
            return LocalRelease(
                stored.frame.lazy(), stored.certificate, self.channel, self.rows.column
            )
        place = self.place
        if beside is None or place is None:
            raise UsageError(
                "The account keeps the rows of this id itself, so they are in no file.",
                allowed="the same id without a path; then write what it returns",
                instead='release(account=account, id="monday").frame.sink_parquet("rows.parquet")',
            )
        moved = list[bool]()
        written(lambda: moved.append(move_file(beside, place)), place)
        if not moved[0]:
            self._check_place()
        return self._at(place, stored)

    def _at(self, place: Path, stored: Release) -> LocalRelease:
        return LocalRelease(scan(place), stored.certificate, self.channel, self.rows.column, place)


def _identity(stored: Release) -> object:
    """Return a value that releases share only if they are one and the same."""
    return stored.frame["sha256"][0] if _is_file(stored) else stored.to_bytes()


def _is_file(stored: Release) -> bool:
    return stored.frame.columns == _FILE


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(beside: Path | None) -> None:
    if beside is not None:
        beside.unlink(missing_ok=True)
