"""Cells: declared keys stay as they are declared, found ones are sorted, and null and NaN are keys like others."""

import datetime as dt
import math
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferflow.core.errors import UsageError
from pufferflow.engines import one_pass as cells
from pufferflow.engines import one_pass as single
from pufferflow.engines.one_pass import tally
from pufferflow.models.domain import read_domain
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.compiler import read_values
from pufferflow.queries.keys import read_keys

ASKED = [Measure(read_values("x", {"x": read_domain([0, 1])}), 0)]
KEYS = {
    "text": (pl.String, ["b", "a", "ą", "", None]),
    "category": (pl.Categorical(), ["b", "a", "ą", "", None]),
    "enum": (pl.Enum(["b", "a"]), ["b", "a", None]),
    "date": (pl.Date, [dt.date(2026, 1, 2), dt.date(1900, 1, 1), None]),
    "decimal": (pl.Decimal(6, 2), [Decimal("1.50"), Decimal(-2), None]),
    "boolean": (pl.Boolean, [True, False, None]),
    "float": (pl.Float64, [math.nan, -0.0, 1.5, -math.inf, None]),
    "single": (pl.Float32, [math.nan, -0.0, 0.1, None]),
    "whole": (pl.UInt8, [255, 0, 3, None]),
}
SORTED = {
    "text": [None, "", "a", "b", "ą"],
    "category": [None, "", "a", "b", "ą"],
    "enum": [None, "b", "a"],
    "date": [None, dt.date(1900, 1, 1), dt.date(2026, 1, 2)],
    "decimal": [None, Decimal("-2.00"), Decimal("1.50")],
    "boolean": [None, False, True],
    "float": [None, -math.inf, 0.0, 1.5, math.nan],
    "single": [None, 0.0, 0.10000000149011612, math.nan],
    "whole": [None, 0, 3, 255],
}


def read(frame, by, keys=None):
    keys = None if keys is None else read_keys(keys, by, frame.schema)
    return tally(frame.lazy(), by, keys, ASKED, lambda query: query.collect(engine="streaming"))


def text(dtype):
    """The dtype in which keys are published."""
    return pl.String if dtype == pl.Categorical else dtype


def frame_of(kind, order):
    dtype, values = KEYS[kind]
    key = pl.Series("key", [values[place] for place in order], dtype=dtype)
    return pl.DataFrame([key, pl.Series("x", [place % 2 for place in order], dtype=pl.Int8)])


@pytest.mark.parametrize("kind", KEYS)
def test_found_keys_are_sorted(kind):
    """Nulls first, NaN last, text by its letters whatever the category, in the dtype of the frame."""
    dtype, values = KEYS[kind]
    order = [*range(len(values)), *reversed(range(len(values)))]
    found = read(frame_of(kind, order), ("key",))
    assert [repr(key) for key in found.keys["key"]] == [repr(key) for key in SORTED[kind]]
    assert found.keys["key"].dtype == text(dtype)
    assert found.rows.tolist() == [2] * len(values)
    assert found.sums.sum() == 2 * (len(values) // 2)


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=6)
@given(data=st.data())
def test_declared_keys_keep_their_order(kind, data):
    """Exactly the declared keys, those that the data does not have with no rows, whatever else the data has."""
    dtype, values = KEYS[kind]
    places = st.sampled_from(range(len(values)))
    order, asked = (
        data.draw(st.lists(places, max_size=8)),
        data.draw(st.lists(places, min_size=1, unique=True)),
    )
    keys = pl.DataFrame([pl.Series("key", [values[place] for place in asked], dtype=dtype)])
    found = read(frame_of(kind, order), ("key",), keys)
    assert found.keys.equals(keys.cast({"key": text(dtype)}))
    assert found.rows.tolist() == [order.count(place) for place in asked]
    assert found.sums[:, 0].tolist() == [place % 2 * order.count(place) for place in asked]


def test_a_key_that_does_not_equal_itself_is_found():
    """NaN as the only key of the data and as the only declared one; −0.0 is found as 0.0, and named 0.0."""
    frame = pl.DataFrame({"key": [math.nan], "x": [1]})
    assert read(frame, ("key",), frame.select("key")).rows.tolist() == [1]
    for zeros in ([0.0, -0.0], [-0.0, 0.0], [-0.0]):
        found = read(pl.DataFrame({"key": zeros, "x": [1] * len(zeros)}), ("key",))
        assert found.rows.tolist() == [len(zeros)]
        assert math.copysign(1, found.keys["key"].item()) == 1
        two = pl.DataFrame({"key": zeros, "other": range(len(zeros)), "x": [1] * len(zeros)})
        assert read(
            pl.concat([two, two.with_columns(-pl.col("key"))]), ("key", "other")
        ).rows.tolist() == [2] * len(zeros)


@pytest.mark.parametrize(
    ("dtype", "values", "published"),
    [
        (pl.Categorical(), ["a long, long label", None, "b"], pl.String()),
        (pl.List(pl.Categorical()), [["b"], None, ["a", None]], pl.List(pl.String())),
        (pl.Array(pl.Categorical(), 1), [["b"], None, [None]], pl.Array(pl.String(), 1)),
        (
            pl.Struct({"of": pl.Categorical()}),
            [{"of": "b"}, {"of": None}],
            pl.Struct({"of": pl.String()}),
        ),
    ],
)
def test_published_keys_say_nothing_of_other_labels(dtype, values, published):
    """Categories come as text, in buffers of its own, since codes and stores tell which labels were met before."""
    secret = pl.Series(["a long label that is secret", "b"], dtype=pl.Categorical)
    keys = pl.DataFrame({"key": pl.Series(values, dtype=dtype)})
    found = cells.published(keys)["key"]
    assert (found.dtype, found.to_list()) == (published, values)
    assert all(
        b"secret" not in bytes(buffer)
        for buffer in found.to_arrow().buffers()
        if buffer is not None
    )
    assert secret.len() == 2  # the store is kept until here


def test_published_keys_are_not_said_to_be_sorted():
    """Who reads an answer may filter it."""
    found = read(
        pl.DataFrame({"key": [1, 2], "x": [0, 1]}), ("key",), pl.Series([2, 1]).set_sorted()
    )
    assert found.keys["key"].to_list() == [2, 1]
    assert not found.keys["key"].flags["SORTED_ASC"]


@pytest.mark.parametrize("many", [1, 3])
def test_cells_are_read_a_few_at_a_time(monkeypatch, many):
    """Declared keys in any order, beside keys that are not asked for; found keys; in parts of every size."""
    monkeypatch.setattr(single, "_AT_ONCE", many)
    frame = pl.DataFrame({"key": [5, 1, 3, 1, 9, 4], "x": [1, 1, 0, 1, 1, 1]})
    found = read(frame, ("key",), pl.DataFrame({"key": [3, 7, 1, 4]}))
    assert (found.rows.tolist(), found.sums[:, 0].tolist()) == ([1, 0, 2, 1], [0, 0, 2, 1])
    found = read(frame, ("key",))
    assert (found.rows.tolist(), found.sums[:, 0].tolist()) == ([2, 1, 1, 1, 1], [2, 0, 1, 1, 1])


def test_several_columns_make_a_key():
    """Pairs with nulls; sorted by the first column, then the second."""
    frame = pl.DataFrame({"a": [2, None, 1, 2], "b": ["y", "x", None, "x"], "x": [1, 1, 1, 0]})
    found = read(frame, ("b", "a"))
    assert found.keys.rows() == [(None, 1), ("x", None), ("x", 2), ("y", 2)]
    assert found.sums[:, 0].tolist() == [1, 1, 0, 1]


def test_names_of_columns_are_taken_as_they_are():
    """Names that look like patterns, and names that the query uses itself."""
    names = ["^.*$", "*", "by0", "clean0", "rows", "class"]
    frame = pl.DataFrame({**{name: [1, 2] for name in names}, "x": [0, 1]})
    found = read(frame, tuple(names))
    assert found.keys.columns == names
    assert found.keys.rows() == [(1,) * 6, (2,) * 6]


@pytest.mark.parametrize(
    ("dtype", "keys"),
    [
        (pl.Int8, pl.Series([1, 2], dtype=pl.Int64)),
        (pl.Categorical(), pl.Series(["1", "2"])),
        (pl.Enum(["1", "2"]), pl.Series(["1", "2"])),
        (pl.Float64, pl.Series([1, 2])),
    ],
)
def test_declared_keys_of_another_dtype_are_read(dtype, keys):
    """Whatever survives the way into the column's dtype and back."""
    frame = pl.DataFrame([keys.cast(dtype).alias("key"), pl.Series("x", [1, 1])])
    found = read(frame, ("key",), pl.DataFrame([keys[::-1].alias("key")]))
    assert found.rows.tolist() == [1, 1]
    assert found.keys["key"].dtype == text(dtype)


@pytest.mark.parametrize(
    ("dtype", "keys"),
    [
        (pl.Int8, [1, 300]),
        (pl.Int8, [1.5]),
        (pl.Enum(["a"]), ["b"]),
        (pl.Date, ["soon"]),
        (pl.List(pl.Int8), [1]),
    ],
)
def test_declared_keys_that_no_column_can_have_are_refused(dtype, keys):
    """They are public, so this may be said; they would else be taken for null."""
    with pytest.raises(UsageError, match="keys of 'key'"):
        read(
            pl.DataFrame(schema={"key": dtype, "x": pl.Int8}), ("key",), pl.DataFrame({"key": keys})
        )


@pytest.mark.parametrize("keys", [[1, 2, 1], [0.0, -0.0], [None, None]])
def test_a_key_given_twice_is_refused(keys):
    """Rows belong to one cell."""
    frame = pl.DataFrame(schema={"key": pl.Float64, "x": pl.Int8})
    with pytest.raises(UsageError, match="twice"):
        read(frame, ("key",), pl.DataFrame({"key": keys}))
