"""The keys of an answer: listed, for all other rows, or chosen by the data; and the columns that compare them.

A further group may have the rows with none of the listed keys. Each row gets the number of its key, made of public
columns row by row. Engines group by that number as by any other derived column. Which rows are in the further group
follows from each row and from the listed keys alone. The group is part of the answer even if it has no rows, so it
reveals nothing about other rows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array, Flags, Indices, Whole
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import nearest
from pufferflow.core.tables import type_name, with_texts
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.tree import named, unsorted


def unsigned_zero(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return 0.0 for −0.0, which is the same key; the optimizer would drop an addition of 0.0."""
    return (
        pl.when(column == 0).then(pl.lit(0, dtype=dtype)).otherwise(column)
        if dtype.is_float()
        else column
    )


def unused(stem: str, names: Collection[str]) -> str:
    """Return a name that no column has."""
    name = f"__{stem}"
    while name in names:
        name = f"_{name}"
    return name


def places_of(keys: pl.DataFrame, among: pl.DataFrame) -> Array:
    """Return the place of each key among different keys, −1 for one that is not there; null is a key like others."""
    true = among.select(unsorted(name) for name in among.columns)
    pairs = zip(keys.get_columns(), true.get_columns(), strict=True)
    keys = pl.DataFrame(  # enums are texts where those that were declared are
        [
            own.cast(with_texts(own.dtype, enums=True)) if own.dtype != other.dtype else own
            for own, other in pairs
        ]
    )
    forms, others = (
        keys.select(comparable(keys.schema)),
        true.select(comparable(true.schema)).with_row_index("place"),
    )
    joined = forms.join(
        others, on=forms.columns, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["place"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.intp)


def published(keys: pl.DataFrame) -> pl.DataFrame:
    """Return keys as they may be published: not marked as sorted, and categories as text, nested ones too.

    The codes and the store of categories would reveal which labels this process has met before, including secret ones.
    So the texts are written anew. An enum is part of the schema, which is public if keys are. If they are not
    (`pf.Presence`), keys were declared, and are already texts (`read_keys`).
    """
    columns = list[pl.Series]()
    for column in keys.select(unsorted(name) for name in keys.columns):
        dtype = with_texts(column.dtype, enums=False)
        same = dtype == column.dtype
        columns.append(column if same else pl.Series(column.name, column.to_list(), dtype=dtype))
    return pl.DataFrame(columns)


def appearing_keys(keys: pl.DataFrame, appear: Flags) -> tuple[pl.DataFrame, Indices]:
    """Return those of the published keys that appear in an answer, in growing order, and their places among all.

    Nothing of the other keys is left: columns of texts are written anew, since a part of one may keep all of them in
    memory and in files. Enums become texts, since categories, and their order, may come from the data.

    >>> towns = pl.DataFrame({"town": ["c", "a", "b"]}, schema={"town": pl.Enum(["c", "a", "b"])})
    >>> appearing_keys(towns, np.array([True, True, False]))[0]["town"].to_list()
    ['a', 'c']
    """
    places = np.flatnonzero(appear)
    own = pl.DataFrame([_anew(column) for column in keys[places].get_columns()])
    order = own.select(pl.arg_sort_by(comparable(own.schema))).to_series().to_numpy()
    return own[order], places[order]


def _anew(keys: pl.Series) -> pl.Series:
    """Return keys in memory of their own, enums as texts."""
    dtype = with_texts(keys.dtype, enums=True)
    if isinstance(dtype, pl.String | pl.Binary):
        return pl.Series(keys.name, keys.cast(dtype).to_list(), dtype=dtype)
    return keys.rechunk()


def comparable(schema: pl.Schema, read: Callable[[str], pl.Expr] = named) -> list[pl.Expr]:
    """Return the columns by which keys of a table are sorted and compared, named 0, 1 and so on.

    Categories are texts, and 0.0 stands for −0.0. A float has two columns, since NaN does not always equal itself.
    """
    forms = list[pl.Expr]()
    for name, dtype in schema.items():
        column = read(name)
        if dtype.is_float():
            forms += [column.is_nan(), unsigned_zero(column, dtype).fill_nan(0)]
        else:
            forms.append(column.cast(pl.String) if isinstance(dtype, pl.Categorical) else column)
    return [form.alias(str(place)) for place, form in enumerate(forms)]


DISCOVER: Final = "discover"
"""The word for the keys of the rows, where the keys are private."""


def check_discoverable(
    by: Sequence[str], schema: pl.Schema, *, public: bool, other: object
) -> None:
    """Refuse keys chosen by the data if keys are public, if others are given too, or if they are no plain values."""
    if public:
        raise UsageError(
            f'keys="{DISCOVER}" is needless here: which rows there are is public, so their keys are too.',
            allowed=f'keys left out; or keys="{DISCOVER}" where the secret is pf.Presence, under any prior it takes',
            instead=f".group_by({quoted(by[0])})",
        )
    if other is not None:
        raise UsageError(
            f'other= is about all rows with none of the listed keys, and keys="{DISCOVER}" lists none.',
            allowed="the keys of the answer, listed",
            instead=f'.group_by({quoted(by[0])}, keys=["a", "b"], other="elsewhere")',
        )
    nested = next((name for name in by if schema[name].is_nested()), None)
    if nested is not None:
        raise UsageError(
            f'keys="{DISCOVER}" of the column {quoted(nested)}, which is {type_name(schema[nested])}.',
            allowed="keys that are numbers, texts, dates or times; or keys that are listed",
            instead=f'.group_by(town=pl.col({quoted(nested)}).struct.field("town"), keys="{DISCOVER}")',
        )


def read_keys(
    given: object, by: Sequence[str], schema: pl.Schema, *, public: bool = True
) -> pl.DataFrame:
    """Return the keys of an answer as a frame in the dtypes of the grouping columns, in the order given.

    If the keys of the data are not `public`, enums are read as texts: their categories may come from the data.

    >>> read_keys([2, 1], ["day"], pl.Schema({"day": pl.Int8}))["day"].dtype
    Int8
    """
    allowed = "values (of one column), tuples (of several), or a frame of the grouping columns; each key once"
    instead = f"keys=[1, 2, 3], or a pl.DataFrame with the columns {', '.join(by)}"
    if isinstance(given, str) and len(by) == 1:
        instead = f"keys=[{quoted(given)}]"
        if not public and nearest(given, [DISCOVER]):
            instead = f'keys="{DISCOVER}"'
    if isinstance(given, pl.DataFrame):
        missing = next((name for name in by if name not in given.columns), by[0])
        near = nearest(missing, given.columns)
        instead = (
            f"keys=frame.rename({{{near[0]!r}: {missing!r}}})"
            if near
            else f"a frame with a column {missing!r}"
        )
    try:
        frame = _frame(given, by)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        frame = None
    if frame is None:
        raise UsageError(
            "The keys cannot be read as values of the grouping columns.",
            allowed=allowed,
            instead=instead,
        )
    dtypes = {name: schema[name] if public else with_texts(schema[name], enums=True) for name in by}
    read = pl.DataFrame(
        [_fitted(frame[name].rename("key"), name, dtypes[name]).rename(name) for name in by]
    )
    read = read.select(unsorted(name) for name in by)
    if read.height == 0 or read.select(comparable(read.schema)).is_duplicated().any():
        raise UsageError(
            "There are no keys, or one is given twice.", allowed=allowed, instead=instead
        )
    return read


def _frame(given: object, by: Sequence[str]) -> pl.DataFrame:
    if isinstance(given, pl.DataFrame):
        return given.select(named(name) for name in by)
    if isinstance(given, pl.Series):
        return pl.DataFrame({by[0]: given}) if len(by) == 1 else pl.DataFrame()
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise TypeError
    values = list(cast(Any, given))
    if len(by) == 1:
        return pl.DataFrame({by[0]: pl.Series(values)})
    columns = list(zip(*values, strict=True))
    return pl.DataFrame(
        {name: pl.Series(list(column)) for name, column in zip(by, columns, strict=True)}
    )


def fitted(given: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return values in another dtype; None if one does not survive the way there and back."""
    try:
        read = given.cast(dtype, strict=False)
        floats = dtype.is_float() and given.dtype.is_float()
        there_and_back = floats or read.cast(given.dtype, strict=False).eq_missing(given).all()
    except pl.exceptions.PolarsError:
        return None
    same = there_and_back and (
        _is_number(dtype) or not _is_number(given.dtype)
    )  # 1 is no text, though "1" is
    return read if same else None


def _fitted(given: pl.Series, name: str, dtype: pl.DataType) -> pl.Series:
    """Return keys in another dtype."""
    read = fitted(given, dtype)
    if read is None:
        raise UsageError(
            f"The keys of '{name}' are {type_name(given.dtype)}, and some are no {type_name(dtype)}.",
            allowed=f"values that a column of {type_name(dtype)} can have",
            instead=f"keys of dtype {type_name(dtype)}",
        )
    return read


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Boolean


_LABELS: Final = (
    'one label, such as other="elsewhere", or a label for each column: other={"town": "elsewhere"}'
)


@final
@dataclass(frozen=True, eq=False)
class OtherKeys:
    """The keys of an answer of which the last are labels: a group for all rows with none of the `listed` ones before.

    If some columns have no label, there is a further group for each of their listed values.
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
        own: list[Any] = [self.keys[name][-1] for name in self.labelled]
        labels = dict.fromkeys(
            repr(label) if isinstance(label, str) else str(label) for label in own
        )
        each = f" of each {' and '.join(self.unlabelled)}" if self.unlabelled else ""
        return f"all other rows{each} as {', '.join(labels)}"

    def number(self) -> pl.Expr:
        """Return the place of a row's key among all keys; beyond them for rows of no group."""
        place, free = place_among(self.keys[: self.listed]), self.unlabelled
        if not free:
            return place  # that of no listed key is the place of the only further one
        further = place_among(self.keys[self.listed :].select(named(name) for name in free))
        return pl.when(place < self.listed).then(place).otherwise(further + self.listed)


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
    """Refuse columns whose names or types do not allow rows to be numbered by key."""
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
    given = (
        cast("Mapping[str, object]", other)
        if isinstance(other, Mapping)
        else dict.fromkeys(by, other)
    )
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
            f"other is {quoted(cast(object, other))}, which is not a label.",
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
            allowed="a label that is not a listed key; rows with that value are among the others",
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
    as_text = (
        f".group_by({as_text}.alias({f'{keys.name}_as_text'!r}), keys={texts}, other={written})"
    )
    return UsageError(
        f"The label {quoted(label)} is no {kind}, as the keys of {keys.name!r} are.",
        allowed=f"a value that a column of {kind} can have, other than the listed keys",
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
