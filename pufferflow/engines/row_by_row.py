"""Rows published one by one: public columns, and a private one whose every value has gone through a random draw.

A value is read by the rules of its domain, as sums read it, and only its class reaches the draw. Each row is drawn once
for each run of the query, in Polars' own batches, so memory does not grow with the rows. What is written is in an order
that follows from what it says: by the public columns, then by the published value. The order of the source may
reveal what it was sorted by, so rows in another order are sorted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Indices
from pufferflow.core.errors import Refused
from pufferflow.core.progress import working
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.tables import with_texts
from pufferflow.engines.backend import Text
from pufferflow.engines.column_measures import CLASS, check_column, classes_of, labelled
from pufferflow.engines.polars_engine import PRIVATE, PUBLIC, PolarsEngine, collect
from pufferflow.models.domain import Domain, Label
from pufferflow.queries.engine_interface import Engine, Selection
from pufferflow.queries.expressions.tree import named, unsorted
from pufferflow.queries.keys import comparable, unsigned_zero

Draw = Callable[[Indices], Indices]
ROWS = "rows"


@final
@dataclass(frozen=True, eq=False)
class RowByRow:
    """What to publish of each selected row: `keep`, public columns, and the private `column` through `draw`.

    `draw` takes places in the domain and returns places among `outputs`, of which one may be None, for null.
    """

    selection: Selection
    keep: tuple[str, ...]
    column: str
    domain: Domain
    missing: Label
    outputs: tuple[Label | None, ...]
    draw: Draw

    def check(self, engine: Engine) -> None:
        """Refuse engines that return no single rows, before anything is read."""
        _polars(engine)
        check_column(self.column, engine.schema(self.selection.derived)[self.column], self.domain)

    def in_memory(self, engine: Engine) -> pl.DataFrame:
        """Return the published rows, in memory."""
        query = sandboxed(lambda: self._query(_polars(engine)))
        return _in_order(collect(query, PRIVATE), self._order)

    def write(
        self, engine: Engine, path: Path, beside: Path, metadata: Mapping[str, str]
    ) -> pl.DataFrame:
        """Write the published rows to a Parquet file, and return how many have each output.

        Rows that turn out to be in another order are written again to `beside`, which then takes the place of `path`.
        """
        query = sandboxed(lambda: self._query(_polars(engine)))
        _sink(query, path, metadata, PRIVATE)
        written = scan(path)
        if not _is_in_order(written, self._order):
            try:
                _sink(written.sort(_sorted_by(written, self._order)), beside, metadata, PUBLIC)
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)
        return counted(scan(path), [], self.column)  # the file is another one by now

    @property
    def _order(self) -> list[str]:
        return [*self.keep, self.column]

    def _query(self, engine: PolarsEngine) -> pl.LazyFrame:
        """Return the query; each row is drawn anew whenever it is run."""
        frame = engine.selected(self.selection)
        schema = frame.collect_schema()
        numbers, places = self._classes(schema[self.column])
        labels = labels_of(self.outputs, self.column)
        _ = labels.gather(
            np.zeros(0, dtype=np.uint32)
        )  # what Polars loads when first used, its threads would race for

        def published(classes: pl.Series) -> pl.Series:
            drawn = self.draw(places[classes.to_numpy()])
            return labels.gather(pl.Series(drawn.astype(np.uint32)))

        public = [_public(name, schema[name]) for name in self.keep]
        own = numbers.map_batches(published, return_dtype=labels.dtype, is_elementwise=True)
        return frame.select(*public, own.alias(self.column))

    def _classes(self, dtype: pl.DataType) -> tuple[pl.Expr, Indices]:
        """Return the number of each row's class, and the place in the domain of every class: of each point one."""
        missing, points = self.domain.place(self.missing, "missing"), self.domain.points
        if labelled(
            self.domain
        ):  # an enum is looked up batch by batch, where a dictionary would wait for all rows
            texts = (
                Text(self.column)
                .read()
                .cast(pl.Enum([str(point) for point in points]), strict=False)
            )
            return texts.to_physical().cast(CLASS).fill_null(missing), np.arange(len(points))
        classes = classes_of(
            self.column, dtype, self.domain, missing, np.eye(len(points), dtype=np.int64)
        )
        return classes.number(), np.array(classes.places, dtype=np.intp)


def _public(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a public column.

    Rows that sort as equal must also look the same, or their order would be that of the source.
    """
    return unsigned_zero(unsorted(name), dtype).cast(with_texts(dtype, enums=False)).alias(name)


def labels_of(outputs: Sequence[Label | None], name: str) -> pl.Series:
    """Return outputs as a column: texts as an enum of them, which are public."""
    texts = [str(label) for label in outputs if label is not None]
    if any(isinstance(label, str) for label in outputs):
        listed = [None if label is None else str(label) for label in outputs]
        return pl.Series(name, listed, dtype=pl.Enum(texts))
    return pl.Series(name, list(outputs), strict=False)


def scan(path: Path) -> pl.LazyFrame:
    """Return the rows of a file that was written here, lazily."""
    return pl.scan_parquet(path, glob=False)


def counted(frame: pl.LazyFrame, by: Sequence[str], column: str) -> pl.DataFrame:
    """Return how many published rows have each value of a column, in groups of others, in order."""
    keys = [*by, column]
    query = frame.group_by(named(name) for name in keys).agg(
        pl.len().cast(pl.Int64).alias(f"{ROWS} of {column}")
    )
    return _in_order(collect(query, PUBLIC), keys)


def metadata_of(path: Path) -> Mapping[str, str]:
    """Return the texts that a Parquet file carries."""
    return sandboxed(lambda: pl.read_parquet_metadata(path))


def _polars(engine: Engine) -> PolarsEngine:
    if isinstance(engine, PolarsEngine):
        return engine
    raise Refused(
        f"Rows of {engine.name.partition(',')[0]} cannot be published one by one. They would leave it before they "
        "are drawn, since its own random numbers are not secret.",
        allowed="frames of Polars, whose rows are drawn with the operating system's randomness",
        instead="pf.protect(pl.scan_parquet(…), scenario) on an export of the table, kept where the table is",
    )


def _sink(query: pl.LazyFrame, path: Path, metadata: Mapping[str, str], what: str) -> None:
    def run() -> None:
        with working(what):
            query.sink_parquet(
                path, metadata=dict(metadata), sync_on_close="all", engine="streaming"
            )

    sandboxed(run)


def _is_in_order(frame: pl.LazyFrame, order: Sequence[str]) -> bool:
    """Return whether every row is not below the one before it; false where columns are nested, and not compared."""
    schema = _some(sandboxed(frame.collect_schema), order)
    if any(dtype.is_nested() for dtype in schema.dtypes()):
        return False
    forms = frame.select(comparable(schema))
    names = sandboxed(forms.collect_schema).names()
    rises, same = pl.lit(value=False), pl.lit(value=True)
    for name in names:
        now, before = pl.col(name), pl.col(name).shift(1)
        first = before.is_null() & now.is_not_null()  # nulls come first
        rises |= same & ((now > before).fill_null(value=False) | first)
        same &= now.eq_missing(before)
    broken = (~(rises | same)).slice(1).any()
    return not collect(forms.select(broken), PUBLIC).item()


def _in_order(frame: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    return collect(frame.lazy().sort(_sorted_by(frame.lazy(), order)), PUBLIC)


def _sorted_by(frame: pl.LazyFrame, order: Sequence[str]) -> list[pl.Expr]:
    return comparable(_some(sandboxed(frame.collect_schema), order))


def _some(schema: pl.Schema, names: Sequence[str]) -> pl.Schema:
    return pl.Schema({name: schema[name] for name in names})
