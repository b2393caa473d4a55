"""What SQL databases write differently: about ten facts of each, and nothing of what is asked."""

from dataclasses import dataclass
from typing import Final, Literal, final

import polars as pl

INFINITY: Final = float("inf")
Kind = Literal["boolean", "float", "text", "label", "other"]


def kind_of(dtype: pl.DataType) -> Kind:
    """Return what matters of the type of a column; labels are texts of a list.

    >>> kind_of(pl.Float64()), kind_of(pl.Categorical()), kind_of(pl.Int8())
    ('float', 'label', 'other')
    """
    match dtype:
        case pl.Boolean():
            return "boolean"
        case pl.Float64():
            return "float"
        case pl.String():
            return "text"
        case pl.Categorical() | pl.Enum():
            return "label"
        case _:
            return "other"


def kinds_of(schema: pl.Schema) -> dict[str, Kind]:
    """Return what matters of the types of columns."""
    return {name: kind_of(dtype) for name, dtype in schema.items()}


@final
@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The facts of one database; the defaults are those of the standard.

    >>> print(Dialect(name="example").quoted('a "b" c'))
    "a ""b"" c"
    >>> Dialect(name="example").float_of(0.1)
    "CAST('0.1' AS DOUBLE PRECISION)"
    """

    name: str
    quote: str = '"'
    """What stands around a name, and twice for itself within it."""
    backslashes: bool = False
    """Whether a backslash in a text begins an escape, and is written twice."""
    float_type: str = "DOUBLE PRECISION"
    """The type of floats of 64 bits."""
    whole_type: str = "BIGINT"
    """The type of whole numbers of 64 bits."""
    text_type: str = "VARCHAR"
    infinity: str = "Infinity"
    """How an infinite float is written."""
    binary_collation: str = ""
    """What stands after a text so that it is compared byte by byte; empty where it always is."""
    flushes: bool = False
    """Whether a product that is too small for a float is an error, so that small factors have to be 0 before."""
    as_whole: str = "CAST({} AS {type})"
    """How a float without a fraction becomes a whole number."""

    def quoted(self, name: str) -> str:
        """Return a name as it is written."""
        closing = self.quote[-1]
        return f"{self.quote[0]}{name.replace(closing, closing * 2)}{closing}"

    def text_of(self, text: str) -> str:
        """Return a text as it is written."""
        escaped = text.replace("\\", "\\\\") if self.backslashes else text
        quote = "\\'" if self.backslashes else "''"
        return "'" + escaped.replace("'", quote) + "'"

    def float_of(self, number: float) -> str:
        """Return a float as it is written: from the shortest text that is read as the same float."""
        if number in (INFINITY, -INFINITY):
            return f"CAST('{'-' if number < 0 else ''}{self.infinity}' AS {self.float_type})"
        return f"CAST('{number!r}' AS {self.float_type})"

    def whole_of(self, number: str) -> str:
        """Return a float expression without a fraction as a whole number."""
        return self.as_whole.format(number, type=self.whole_type)

    def key(self, column: str, kind: str) -> str:
        """Return a column whose equal values are equal byte by byte; `kind` is what `kind_of` says of its type."""
        name = self.quoted(column)
        if kind == "label":
            return self.compared(f"CAST({name} AS {self.text_type})")
        return self.compared(name) if kind == "text" else name

    def compared(self, text: str) -> str:
        """Return a text that is compared byte by byte."""
        return f"{text} {self.binary_collation}" if self.binary_collation else text
