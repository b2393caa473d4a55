"""Further groups of an answer, for the rows that have none of the listed keys.

Each row gets the number of its key, made of public columns row by row, and engines group by that number as by any other
derived column. Which rows are others follows from the row and from the listed keys alone, and the group is part of the
answer whether or not there are any: it reveals nothing about other rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Whole
from pufferflow.core.dtypes import type_name
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import nearest
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.tree import named
from pufferflow.queries.key_columns import comparable
from pufferflow.queries.keys import fitted

_LABELS: Final = 'one label, such as other="elsewhere", or a label for each column: other={"town": "elsewhere"}'


@final
@dataclass(frozen=True, eq=False)
class OtherKeys:
    """The keys of an answer of which the last are labels: a group for all rows with none of the `listed` ones before.

    Where some columns have no label, there is a further group for each of their listed values.
    """

    keys: pl.DataFrame
    listed: int
    labelled: tuple[str, ...]

    @property
    def unlabelled(self) -> list[str]:
        """The columns in which rows of further groups have listed values."""
        return [name for name in self.keys.columns if name not in self.labelled]

    @property
    def words(self) -> str:
        """What the further groups are, for people."""
        labels = dict.fromkeys(repr(label) if isinstance(label, str) else str(label) for label in self._labels)
        each = f" of each {' and '.join(self.unlabelled)}" if self.unlabelled else ""
        return f"all other rows{each} as {', '.join(labels)}"

    def number(self) -> pl.Expr:
        """Return the place of a row's key among all keys; beyond them for rows of no group."""
        place, free = place_among(self.keys[: self.listed]), self.unlabelled
        if not free:
            return place  # that of no listed key is the place of the only further one
        further = place_among(self.keys[self.listed :].select(named(name) for name in free))
        return pl.when(place < self.listed).then(place).otherwise(further + self.listed)

    @property
    def _labels(self) -> list[Any]:
        return [self.keys[name][-1] for name in self.labelled]


def with_others(keys: pl.DataFrame, other: object) -> OtherKeys:
    """Return keys with the further ones of `other`; an Enum that lacks a label becomes text.

    >>> with_others(pl.DataFrame({"town": ["a", "b"]}), "elsewhere").keys["town"].to_list()
    ['a', 'b', 'elsewhere']
    """
    labels = _read_labels(other, keys.columns)
    check_numbered(keys.schema, "other=")
    free = keys.select(named(name) for name in keys.columns if name not in labels)
    further = free.unique(maintain_order=True) if free.width else pl.DataFrame({"": [0]})
    columns = [
        _with_label(key, labels[key.name], further.height)
        if key.name in labels
        else pl.concat([key, further[key.name]])
        for key in keys.get_columns()
    ]
    return OtherKeys(pl.DataFrame(columns), keys.height, tuple(labels))


def check_numbered(keys: pl.Schema, what: str) -> None:
    """Refuse names and types of columns of which rows cannot be given numbers."""
    pattern = next((name for name in keys if pl.col(name).meta.has_multiple_outputs()), None)
    if pattern is not None:  # engines read the columns that expressions name
        raise UsageError(
            f"{what} beside the column {quoted(pattern)}, whose name Polars reads as a pattern.",
            allowed="grouping columns with plain names",
            instead=f'pf.protect(frame.rename({{{pattern!r}: "town"}}), scenario)',
        )
    if any(dtype.is_nested() for dtype in keys.dtypes()):
        raise UsageError(
            f"{what} beside keys that are lists or structs.",
            allowed="keys that are numbers, texts, dates or times",
            instead='.group_by(town=pl.col("place").struct.field("town"), keys=["a"])',
        )


def _read_labels(other: object, by: Sequence[str]) -> dict[str, object]:
    """Return the label of each column that has one, in the order of the columns."""
    given = cast("Mapping[str, object]", other) if isinstance(other, Mapping) else dict.fromkeys(by, other)
    unknown = next((name for name in given if name not in by), None)
    if unknown is not None:
        near = nearest(unknown, by)
        raise UsageError(
            f"other= has a label for {quoted(unknown)}, by which nothing is grouped.",
            allowed=f"labels for {', '.join(map(repr, by))}",
            instead=f"other={{{(near or list(by))[0]!r}: …}}",
        )
    if not given or any(label is None or _is_nested(label) for label in given.values()):
        raise UsageError(
            f"other is {quoted(cast(object, other))}, which names no group.",
            allowed=_LABELS,
            instead='other="elsewhere"',
        )
    return {name: given[name] for name in by if name in given}


def _is_nested(label: object) -> bool:
    return isinstance(label, list | tuple | set | dict | pl.Series | pl.Expr | pl.DataFrame)


def _with_label(keys: pl.Series, label: object, times: int) -> pl.Series:
    """Return the keys of a column, and its label `times` times after them."""
    read = _label(label, keys)
    if read is None and isinstance(keys.dtype, pl.Enum):
        keys = keys.cast(pl.String)
        read = _label(label, keys)
    if read is None:
        raise _no_label(keys, label)
    both = pl.concat([keys, read]).to_frame()
    if both.select(comparable(both.schema)).is_duplicated()[-1]:
        raise UsageError(
            f"The label {quoted(label)} is one of the listed keys of {keys.name!r}.",
            allowed="a label that is no listed key; rows that have it as their value are among the others",
            instead='another label, such as other="none of these"',
        )
    return pl.concat([keys, read.new_from_index(0, times)])


def _label(label: object, keys: pl.Series) -> pl.Series | None:
    """Return a label in the type of keys; None if it has no such value."""
    if isinstance(label, bool) and keys.dtype != pl.Boolean:
        return None
    try:
        return fitted(pl.Series(keys.name, [label]), keys.dtype)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return None


def _no_label(keys: pl.Series, label: object) -> UsageError:
    kind = type_name(keys.dtype)
    texts = keys.head(2).cast(pl.String, strict=False).to_list()
    written = repr(label) if isinstance(label, str) else '"elsewhere"'
    as_text = f"pl.col({keys.name!r}).cast(pl.String, strict=False)"  # strict casts are refused under Presence
    as_text = f".group_by({as_text}.alias({f'{keys.name}_as_text'!r}), keys={texts}, other={written})"
    return UsageError(
        f"The label {quoted(label)} is no {kind}, as the keys of {keys.name!r} are.",
        allowed=f"a value that a column of {kind} can have, and that is no listed key",
        instead='other="elsewhere"' if kind in ("String", "Categorical") else as_text,
    )


def place_among(keys: pl.DataFrame) -> pl.Expr:
    """Return the place of a row's key among different keys; that after the last for none. Null and NaN are keys too."""
    first, *rest = keys.get_columns()
    place, known, _ = _numbered(first)
    for column in rest:
        own, own_known, count = _numbered(column)
        values, known = np.unique(known * (count + 1) + own_known, return_inverse=True)
        place = _renumbered(place * (count + 1) + own, values, np.arange(len(values)))
    return _renumbered(place, known, np.arange(keys.height)) if rest else place


def _numbered(keys: pl.Series) -> tuple[pl.Expr, Whole, int]:
    """Return the number of a row's value among different ones of keys, those of the keys, and how many there are."""
    column, labels = pl.col(keys.name), isinstance(keys.dtype, pl.Categorical | pl.Enum | pl.String)
    if labels:  # an Enum whose keys became texts is one of them
        keys, column = keys.cast(pl.String), column.cast(pl.String)
    different = keys.unique(maintain_order=True)
    count, each = len(different), np.arange(len(different))
    known = keys.replace_strict(different, pl.Series(each), return_dtype=pl.Int64).to_numpy()
    return _renumbered(column, different, each), known, count


def _renumbered(column: pl.Expr, values: pl.Series | Whole, numbers: Whole) -> pl.Expr:
    """Return the number that belongs to a value; for all others how many there are. It fails at no value."""
    old, new = pl.Series(values), pl.Series(numbers, dtype=pl.Int64)
    return column.replace_strict(old, new, default=len(new), return_dtype=pl.Int64)
