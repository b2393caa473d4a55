"""The classes of tuples of values, for functions of several private columns: those of each column, numbered jointly.

Rows are counted for every tuple that there is; the function is arithmetic on these counts.
"""

from dataclasses import dataclass
from functools import reduce
from typing import final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array
from pufferflow.core.errors import InternalError
from pufferflow.engines.totals import ByTuples, Total
from pufferflow.engines.value_classes import CLASS, Classes, check_column, classes_of
from pufferflow.models.domain import Domain, Label
from pufferflow.models.product import Product


@final
@dataclass(frozen=True)
class Tuples(Classes):
    """A class for each tuple of classes, one of each column; the last column varies fastest."""

    parts: tuple[Classes, ...]

    @property
    def few(self) -> int:
        return 0

    @property
    def numbering(self) -> ByTuples:
        return ByTuples(self.value, tuple(part.numbering for part in self.parts))

    @property
    def tests(self) -> tuple[Total, ...]:
        raise InternalError("Tuples are counted as groups only.", instead="reporting it")

    def counts(self, tested: Array, rows: Array) -> Array:
        raise InternalError("Tuples are counted as groups only.", instead="reporting it")

    def number(self) -> pl.Expr:
        numbered = ((part.number(), len(part.places)) for part in self.parts)
        return reduce(lambda whole, one: whole * pl.lit(one[1], dtype=CLASS) + one[0], numbered, pl.lit(0, dtype=CLASS))


def tuple_classes(schema: pl.Schema, product: Product) -> Tuples:
    """Return the classes of the tuples of columns of a table; every value of a domain has one."""
    parts = [_classes(schema, *own) for own in zip(product.columns, product.domains, product.missing, strict=True)]
    sizes = [len(domain.points) for domain in product.domains]
    grids = np.meshgrid(*(np.array(part.places) for part in parts), indexing="ij")
    places = np.ravel_multi_index([grid.ravel() for grid in grids], sizes)
    return Tuples(parts[0].value, tuple(places.tolist()), tuple(parts))


def _classes(schema: pl.Schema, column: str, domain: Domain, missing: Label) -> Classes:
    check_column(column, schema[column], domain)
    distinct = np.eye(len(domain.points), dtype=np.int64)
    return classes_of(column, schema[column], domain, domain.place(missing, "missing"), distinct)
