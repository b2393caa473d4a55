"""The first rows of each unit, and no others."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferflow.engine import UnitLimit
from pufferflow.engine.one_pass import at_most
from pufferflow.errors import Misuse

ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.none() | st.integers(0, 3)), max_size=20)


def frame_of(rows):
    schema = {"unit": pl.String, "order": pl.Int64, "place": pl.Int64}
    return pl.DataFrame([(*row, place) for place, row in enumerate(rows)], schema=schema, orient="row")


def kept(frame, limit, *order):
    return at_most(frame.lazy(), UnitLimit("unit", limit, order)).collect(engine="streaming")


def truth(rows, limit, *, ordered):
    """The places that are kept: the first of each unit, nulls before numbers, earlier rows before later ones."""
    found = []
    for unit in {unit for unit, _ in rows}:
        own = [(order if ordered else 0, place) for place, (of, order) in enumerate(rows) if of == unit]
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
    mixed = [row for pair in zip(own, others + own, strict=False) for row in (pair[0], ("z", pair[1][1]))]
    alone, among = (
        kept(frame_of(some), 2, *["order"] * ordered).filter(pl.col("unit") == "a")["order"].sort().to_list()
        for some in (own, mixed)
    )
    assert alone == among


def test_no_rows_at_all_are_refused():
    """A limit is at least 1; a column that has the name of the index keeps it."""
    frame = pl.LazyFrame({"unit": [1, 1], "index": [5, 4], "index_": [0, 0]})
    with pytest.raises(Misuse, match="rows is 0"):
        at_most(frame, UnitLimit("unit", 0))
    assert at_most(frame, UnitLimit("unit", 1, ("index",))).collect().rows() == [(1, 4, 0)]
