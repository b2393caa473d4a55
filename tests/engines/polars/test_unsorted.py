"""What is falsely said of the order of public columns, and how columns are called, does not matter to patterns."""

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow.parquet as pq
import pytest

import pufferflow as pf
from pufferflow.engines.pattern_columns import PublicRows
from pufferflow.engines.patterns import find_patterns
from pufferflow.queries.engine_interface import PositionMode
from pufferflow.queries.expressions.tree import unsorted

VALUES = {
    "whole": (pl.Int64, [2, 1, None, 3]),
    "short": (pl.Int8, [2, 1, None, 3]),
    "long": (pl.Int128, [2, 1, None, 3]),
    "float": (pl.Float32, [2.0, float("nan"), None, 3.0]),
    "decimal": (pl.Decimal(6, 2), [Decimal("2.00"), Decimal("1.00"), None]),
    "boolean": (pl.Boolean, [True, False, None]),
    "text": (pl.String, ["b", "a", None, "a text of some length"]),
    "bytes": (pl.Binary, [b"b", b"a", None]),
    "category": (pl.Categorical(), ["b", "a", None]),
    "enum": (pl.Enum(["a", "b"]), ["b", "a", None]),
    "date": (pl.Date, [dt.date(2026, 1, 2), dt.date(2026, 1, 1), None]),
    "moment": (pl.Datetime("ns", "Europe/Berlin"), [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), None]),
    "duration": (pl.Duration("ms"), [dt.timedelta(2), dt.timedelta(1), None]),
    "time": (pl.Time, [dt.time(2), dt.time(1), None]),
    "list": (pl.List(pl.Int8), [[2], [1], None, []]),
    "array": (pl.Array(pl.Int8, 1), [[2], [1], None]),
    "struct": (pl.Struct({"a": pl.Int8}), [{"a": 2}, {"a": 1}, None]),
    "null": (pl.Null, [None, None]),
}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", VALUES)
def test_a_column_keeps_its_values_and_nothing_is_said_of_them(kind, descending, engine):
    """Every type, null and NaN; the name stays, even one that looks like a pattern."""
    dtype, values = VALUES[kind]
    plain = pl.Series("^.*$", values * 2, dtype=dtype)
    said = (
        plain if dtype.is_nested() or dtype == pl.Null else plain.set_sorted(descending=descending)
    )
    (kept,) = (
        pl.LazyFrame([said, pl.Series("x", values * 2, dtype=dtype)])
        .select(unsorted("^.*$"))
        .collect(engine=engine)
    )
    assert (kept.name, kept.dtype) == ("^.*$", plain.dtype)
    assert kept.equals(plain, null_equal=True)
    if kind != "null":  # where all values are null, it is true
        assert not any(kept.flags[flag] for flag in ("SORTED_ASC", "SORTED_DESC"))


def patterns(frame, by, asked, *, ordered, within="g"):
    """The patterns of a frame, as lists."""
    prior = pf.Independent() if ordered else pf.AnyCorrelation()
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), prior, within=within, order_by="t" if ordered else None
    )
    collect = lambda lazy: lazy.collect(engine="streaming")  # noqa: E731
    order = PositionMode(ordered, 1)
    result = find_patterns(PublicRows(frame, by, asked), scenario, [order], collect)[order]
    parts = [
        (part.cells, part.counts, part.positions, part.groups, part.covers)
        for part in result.distinct
    ]
    return result.groups, sorted(
        repr([getattr(part, "tolist", lambda part=part: part)() for part in own]) for own in parts
    )


ROWS = pl.DataFrame(
    {
        "g": [place * 7 % 9 for place in range(900)],
        "t": [place // 9 * 89 % 100 for place in range(900)],
        "c": [place * 5 % 4 for place in range(900)],
        "asked": [place % 5 > 0 for place in range(900)],
    }
)


@pytest.mark.parametrize("way", ["series", "plan", "parquet"])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("asked", [None, "asked"])
@pytest.mark.parametrize("dtype", [pl.Int64, pl.String, pl.Float64])
def test_false_words_about_order_do_not_change_patterns(tmp_path, way, ordered, asked, dtype):
    """Columns of a frame, a plan or a file that are said to be sorted, and are not."""
    plain = ROWS.with_columns(pl.col("g", "c").cast(dtype))
    if way == "series":
        said = plain.with_columns(pl.all().set_sorted()).lazy()
    elif way == "plan":
        said = plain.lazy().set_sorted("g")
    else:
        order = [pq.SortingColumn(place) for place in range(4)]
        pq.write_table(plain.to_arrow(), tmp_path / "said.parquet", sorting_columns=order)
        said = pl.scan_parquet(tmp_path / "said.parquet")
    truth = patterns(plain.lazy(), ["c"], asked, ordered=ordered)
    assert truth[0] == 9
    assert patterns(said, ["c"], asked, ordered=ordered) == truth


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("name", ["^.*$", "^x$", "*", "^secret|g$"])
def test_names_that_look_like_patterns_read_their_own_column_alone(name, ordered):
    """What is not public stays unread, whatever public columns are called."""
    rows = pl.LazyFrame(
        {
            name: [1, 1, 2],
            "t": [0, 1, 2],
            "asked": [True, True, True],
            "x": [5, 6, 7],
            "secret": [1, 2, 3],
        }
    )
    like = pl.LazyFrame({"g": [1, 1, 2], "t": [0, 1, 2], "asked": [True, True, True]})
    assert patterns(rows, [name], "asked", ordered=ordered, within=name) == patterns(
        like, ["g"], "asked", ordered=ordered
    )
