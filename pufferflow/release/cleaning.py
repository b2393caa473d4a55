"""The rules of a domain as closed operations: what a private value is read as, whatever it is.

A number outside the domain is read as the nearest value, the lower one of two; ±∞ as an outermost one. Null, NaN and
unknown labels are `missing`. The rules depend on the declared domain and on the dtype of the column; no value can
make them fail. A number of a dtype that has no whole numbers of up to 64 bits is read as the nearest float.
"""

import polars as pl

from pufferflow.dtypes import type_name
from pufferflow.errors import Misuse
from pufferflow.expressions import unsorted
from pufferflow.expressions.names import short
from pufferflow.reading import shown
from pufferflow.secrets.domain import Bins, Domain, Interval, Label

WIDE = frozenset({pl.Int128, pl.UInt128}) if hasattr(pl, "UInt128") else frozenset({pl.Int128})


def labelled(domain: Domain) -> bool:
    """Whether private values are labels; classes of numbers may have labels for names, and are none."""
    return not isinstance(domain, Bins | Interval) and any(isinstance(point, str) for point in domain.points)


def check_column(column: str, dtype: pl.DataType, domain: Domain) -> None:
    """Refuse a private column whose dtype cannot hold values of the domain; every other one can be read."""
    if labelled(domain):
        fits = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
        allowed, better = "String, Categorical or Enum for labels", "String"
    else:
        fits = dtype.is_numeric() or dtype == pl.Boolean
        allowed, better = "a numeric or Boolean dtype for numbers", "Float64"
    if not fits and dtype != pl.Null:
        instead = f"frame.with_columns(pl.col({shown(column)}).cast(pl.{better}))"
        raise Misuse(f"The column {shown(column)} is {short(type_name(dtype))}.", allowed=allowed, instead=instead)


def clean_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return the dtype in which numbers of a column are compared."""
    if dtype == pl.Boolean:
        return pl.UInt8()
    return dtype if dtype.is_integer() and type(dtype) not in WIDE else pl.Float64()


def number_or_null(column: str, dtype: pl.DataType) -> pl.Expr:
    """Return the numbers of a column, null where there is none."""
    number = unsorted(column).cast(clean_dtype(dtype))
    return number.fill_nan(None) if clean_dtype(dtype).is_float() else number


def label_or_null(column: str) -> pl.Expr:
    """Return the labels of a column as text."""
    return unsorted(column).cast(pl.String)


def inside(column: str, domain: Interval, missing: Label) -> pl.Expr:
    """Return the numbers of a column as floats of the interval."""
    number = unsorted(column).cast(pl.Float64)
    instead = min(max(float(missing), domain.low), domain.high)
    there = number.is_not_nan()  # null for null, which is no yes either
    return pl.when(there).then(number.clip(domain.low, domain.high)).otherwise(instead)
