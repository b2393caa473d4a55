"""The first rows of each unit, and no others."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.core.errors import UsageError
from pufferflow.engines.connect import engine_of
from pufferflow.engines.one_pass import at_most
from pufferflow.queries.engine_interface import Selection, UnitLimit

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.none() | st.integers(0, 3)), max_size=20
)


def frame_of(rows):
    schema = {"unit": pl.String, "order": pl.Int64, "place": pl.Int64}
    return pl.DataFrame(
        [(*row, place) for place, row in enumerate(rows)], schema=schema, orient="row"
    )


def kept(frame, limit, *order):
    return at_most(frame.lazy(), UnitLimit("unit", limit, order)).collect(engine="streaming")


def truth(rows, limit, *, ordered):
    """The places that are kept: the first of each unit, nulls before numbers, earlier rows before later ones."""
    found = []
    for unit in {unit for unit, _ in rows}:
        own = [
            (order if ordered else 0, place) for place, (of, order) in enumerate(rows) if of == unit
        ]
        own.sort(key=lambda row: ((row[0] is not None, row[0] or 0), row[1]))
        found += [place for _, place in own[:limit]]
    return sorted(found)


@settings(max_examples=35)
@given(ROWS, st.sampled_from([1, 2, 5, 10**30]), st.booleans(), st.integers(0, 20))
def test_the_first_rows_of_each_unit_are_kept(rows, limit, ordered, cut):
    """By the order if there is one, and by their places; rows without a unit are one; chunks do not matter."""
    frame = frame_of(rows)
    chunked = pl.concat([frame[:cut], frame[cut:]], rechunk=False)
    found = kept(chunked, limit, *["order"] * ordered)
    assert sorted(found["place"].to_list()) == truth(rows, limit, ordered=ordered)
    assert found.schema == frame.schema


@settings(max_examples=20)
@given(ROWS, ROWS, st.booleans())
def test_other_units_do_not_matter(rows, others, ordered):
    """The kept rows of a unit are the same whatever rows of other units stand among them."""
    own = [row for row in rows if row[0] == "a"]
    mixed = [
        row for pair in zip(own, others + own, strict=False) for row in (pair[0], ("z", pair[1][1]))
    ]
    alone, among = (
        kept(frame_of(some), 2, *["order"] * ordered)
        .filter(pl.col("unit") == "a")["order"]
        .sort()
        .to_list()
        for some in (own, mixed)
    )
    assert alone == among


FILTERS = {
    "the unit": pl.col("unit") != "b",
    "the order": pl.col("order") > 0,
    "both": (pl.col("unit") == "a") | (pl.col("order") == 1),
    "another column": pl.col("place") % 3 != 0,
    "a derived column": pl.col("half") > 2,
}


@pytest.mark.parametrize("what", FILTERS)
@pytest.mark.parametrize(
    "limit",
    [UnitLimit("unit", 1), UnitLimit("unit", 1, ("order",)), UnitLimit("unit", 3, ("order",))],
)
def test_rows_are_chosen_before_any_filter(tmp_path, what, limit):
    """No plan puts the filter first, also where it could be a part of the scan."""
    frame = frame_of([("abc"[place % 3], place * 5 % 4) for place in range(60)] + [(None, 1)] * 4)
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=7)
    half = (pl.col("place") // 2).alias("half")
    public = ("unit", "order", "place")
    selection = Selection(public, (("half", half),), (FILTERS[what],), by=("place",), limit=limit)
    first = at_most(frame.lazy(), limit).collect()
    truth = first.with_columns(half).filter(FILTERS[what])["place"].sort().to_list()
    assert sorted(first["place"].to_list()) != truth
    for table in (frame, pl.scan_parquet(tmp_path / "rows.parquet")):
        found = engine_of(table).tally(selection)
        assert found.keys["place"].to_list() == truth


def test_order_is_of_numbers_then_nan_and_texts_by_bytes():
    """Nulls come first; zeros of both signs are equal, as units too; labels are texts."""
    numbers = [float("nan"), 1.0, -0.0, None, 0.0, float("-inf"), float("inf")]
    frame = pl.DataFrame({"unit": "a", "x": numbers, "place": range(7)})
    found = at_most(frame.lazy(), UnitLimit("unit", 7, ("x",))).collect()
    assert found["place"].to_list() == [3, 5, 2, 4, 1, 6, 0]
    zeros = pl.DataFrame({"unit": [0.0, -0.0, float("nan"), float("nan")]})
    assert at_most(zeros.lazy(), UnitLimit("unit", 1)).collect().height == 2
    texts = pl.Series(["\U0001f600", "b", None, "A", "a ", "a", "\uffee"])
    for dtype in (pl.String, pl.Categorical, pl.Enum(texts.drop_nulls())):
        labels = pl.DataFrame({"unit": 1, "x": texts.cast(dtype)})
        ordered = (
            at_most(labels.lazy(), UnitLimit("unit", 9, ("x",))).collect()["x"].cast(pl.String)
        )
        assert ordered.to_list() == [None, "A", "a", "a ", "b", "\uffee", "\U0001f600"]


def test_a_column_of_units_that_is_not_there():
    scenario = pf.Scenario(pf.Presence("person", rows=1), pf.Independent(), within="house")
    with pytest.raises(UsageError, match="person"):
        pf.protect(pl.DataFrame({"house": [1]}), scenario)


def test_no_rows_at_all_are_refused():
    """A limit is at least 1; a column that has the name of the index keeps it."""
    frame = pl.LazyFrame({"unit": [1, 1], "index": [5, 4], "index_": [0, 0]})
    with pytest.raises(UsageError, match="rows is 0"):
        at_most(frame, UnitLimit("unit", 0))
    assert at_most(frame, UnitLimit("unit", 1, ("index",))).collect().rows() == [(1, 4, 0)]
