"""The differences between the SQL of databases: about ten facts of each, independent of the queries."""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, final

import polars as pl

INFINITY: Final = float("inf")
ColumnKind = Literal["boolean", "float", "single", "text", "label", "other"]


def kind_of(dtype: pl.DataType) -> ColumnKind:
    """Return the kind of the type of a column; labels are texts of a list.

    >>> kind_of(pl.Float64()), kind_of(pl.Categorical()), kind_of(pl.Int8())
    ('float', 'label', 'other')
    """
    match dtype:
        case pl.Boolean():
            return "boolean"
        case pl.Float64():
            return "float"
        case pl.Float32():
            return "single"
        case pl.String():
            return "text"
        case pl.Categorical() | pl.Enum():
            return "label"
        case _:
            return "other"


def kinds_of(schema: pl.Schema) -> dict[str, ColumnKind]:
    """Return the kinds of the types of columns."""
    return {name: kind_of(dtype) for name, dtype in schema.items()}


class Halves(NamedTuple):
    """The high and the low part of a whole number that is not negative: its quotient and its remainder."""

    high: str
    low: str


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
    """Whether a backslash in a text begins an escape; then it is written twice, and an end of line as an escape."""
    escaped_names: bool = False
    """Whether names have the escapes of texts."""
    float_type: str = "DOUBLE PRECISION"
    """The type of floats of 64 bits."""
    whole_type: str = "BIGINT"
    """The type of whole numbers of 64 bits."""
    text_type: str = "VARCHAR"
    boolean_type: str = "BOOLEAN"
    moment_type: str = "TIMESTAMP"
    """The type of moments without a time zone."""
    date_type: str = "DATE"
    decimal_type: str = "DECIMAL({precision}, {scale})"
    """The type of decimals; empty where there are none, and floats take their place."""
    not_a_number: str = "'NaN'"
    """How NaN is written; "NULL" where floats cannot be NaN."""
    values_in_from: bool = True
    """Whether FROM takes VALUES with names for their columns; else few rows are written with UNION ALL."""
    infinity: str = "Infinity"
    """How an infinite float is written."""
    exact_floats: bool = True
    """Whether the text of a float is read as the nearest one; else it is written as a whole number and powers of 2."""
    binary: str = "{}"
    """How a text is written so that it is compared byte by byte."""
    end_mark: str = ""
    """What `binary` adds to a text so that blanks at its end matter; labels get it too, and results lose it."""
    flushes: bool = False
    """Whether a product that is too small for a float is an error, so that small factors have to be 0 before."""
    as_whole: str = "CAST({} AS {type})"
    """How a float without a fraction becomes a whole number."""
    floor: str = "FLOOR({})"
    """How a float that is not negative loses its fraction; NULL stays NULL."""
    count: str = "COUNT(CASE WHEN {} THEN 1 END)"
    """How rows with a condition are counted."""
    halves: Halves | None = None
    """How a sum is split that has more than 64 bits; None if sums of whole numbers have no more."""

    def quoted(self, name: str) -> str:
        """Return a name as it is written."""
        inner = (
            self._escaped(name, self.quote)
            if self.escaped_names
            else name.replace(self.quote, self.quote * 2)
        )
        return f"{self.quote}{inner}{self.quote}"

    def quoted_path(self, name: str) -> str:
        """Return the name of a table as it is written; its parts are separated by points."""
        return ".".join(map(self.quoted, name.split(".")))

    def text_of(self, text: str) -> str:
        """Return a text as it is written."""
        inner = self._escaped(text, "'") if self.backslashes else text.replace("'", "''")
        return f"'{inner}'"

    def label_of(self, label: str) -> str:
        """Return a text as it is written where it is compared with texts that are `compared`."""
        return self.text_of(label + self.end_mark)

    @staticmethod
    def _escaped(text: str, quote: str) -> str:
        for one, escape in (("\\", "\\\\"), (quote, f"\\{quote}"), ("\n", "\\n"), ("\r", "\\r")):
            text = text.replace(one, escape)
        return text

    def float_of(self, number: float) -> str:
        """Return a float as it is written: from the shortest text that is read as the same float."""
        if number in (INFINITY, -INFINITY):
            return f"CAST('{'-' if number < 0 else ''}{self.infinity}' AS {self.float_type})"
        return (
            f"CAST('{number!r}' AS {self.float_type})"
            if self.exact_floats
            else self._by_powers(number)
        )

    def _by_powers(self, number: float) -> str:
        """Return a float as products and quotients of which none is rounded."""
        mantissa, exponent = math.frexp(number)
        whole, exponent = int(mantissa * 2**53), exponent - 53
        while whole and whole % 2 == 0:
            whole, exponent = whole // 2, exponent + 1
        powers, last = divmod(abs(exponent) if whole else 0, 53)
        factors = "".join(
            f" {'*' if exponent > 0 else '/'} {2**power}"
            for power in [*[53] * powers, last]
            if power
        )
        return f"(CAST({whole} AS {self.float_type}){factors})"

    def literal_of(self, value: Any, dtype: pl.DataType) -> str:
        """Return a value of a column as it is written, with its type."""
        kind = self.type_of(dtype)
        if value is None:
            return f"CAST(NULL AS {kind})"
        match dtype:
            case pl.Float64():
                return (
                    f"CAST({self.not_a_number} AS {kind})"
                    if value != value  # noqa: PLR0124 - only NaN differs from itself
                    else self.float_of(value)
                )
            case pl.Boolean():
                return "TRUE" if value else "FALSE"
            case pl.String():
                return f"CAST({self.text_of(value)} AS {kind})"
            case _:
                return f"CAST('{value}' AS {kind})"

    def type_of(self, dtype: pl.DataType) -> str:
        """Return the type of a column of the rows that stand in queries."""
        if isinstance(dtype, pl.Decimal):
            return self.decimal_type.format(precision=dtype.precision, scale=dtype.scale)
        plain: dict[type[pl.DataType], str] = {
            pl.Float64: self.float_type,
            pl.Int64: self.whole_type,
            pl.String: self.text_type,
            pl.Boolean: self.boolean_type,
            pl.Date: self.date_type,
        }
        return plain.get(type(dtype), self.moment_type)

    def rows_of(self, rows: pl.DataFrame) -> str:
        """Return a query whose result has some rows, which stand in it."""
        first, *others = rows.iter_rows()
        lines = [list(map(self.literal_of, first, rows.dtypes))]  # with types, which hold for all
        lines += [
            [self._short(*cell) for cell in zip(row, rows.dtypes, strict=True)] for row in others
        ]
        if self.values_in_from:
            texts = ", ".join(f"({', '.join(line)})" for line in lines)
            values = f"(VALUES {texts}) AS {self.quoted('v')} ({', '.join(map(self.quoted, rows.columns))})"
            return f"SELECT * FROM {values}"  # noqa: S608 - rows of our own
        names = [f" AS {self.quoted(name)}" for name in rows.columns]
        return " UNION ALL ".join(
            "SELECT " + ", ".join(map("".join, zip(line, names, strict=True))) for line in lines
        )

    def _short(self, value: Any, dtype: pl.DataType) -> str:
        """Return a value that is as its type without a cast as with one."""
        if value is None:
            return "NULL"
        if isinstance(value, str):
            return self.text_of(value)
        short = isinstance(value, int) and abs(value) < 2**31 and not isinstance(value, bool)
        return str(value) if short else self.literal_of(value, dtype)

    def whole_of(self, number: str) -> str:
        """Return a float expression without a fraction as a whole number."""
        return self.as_whole.format(number, type=self.whole_type)

    def key(self, column: str, kind: str) -> str:
        """Return a column whose equal values are equal byte by byte; `kind` is what `kind_of` says of its type."""
        name = self.quoted(column)
        if kind == "label":
            return self.compared(f"CAST({name} AS {self.text_type})")
        if kind in {"float", "single"}:  # 0.0 and −0.0 are one key, and either might stand for both
            return f"CASE WHEN {name} = 0 THEN 0 ELSE {name} END"
        return self.compared(name) if kind == "text" else name

    def compared(self, text: str) -> str:
        """Return a text that is compared byte by byte."""
        return self.binary.format(text)
