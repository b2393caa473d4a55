"""A column that is falsely said to be sorted is read like any other: one row moves a sum by what is its own."""

from collections import Counter

import polars as pl
import pyarrow.parquet as pq
import pytest
import rows
from hypothesis import given, settings
from hypothesis import strategies as st
from thinned import thinned

import pufferflow as pf
from pufferflow.engines import column_measures as columns
from pufferflow.engines.one_pass import at_most, tally
from pufferflow.models.domain import Bins, Interval, read_domain
from pufferflow.queries.engine_interface import Measure, UnitLimit
from pufferflow.queries.expressions.compiler import indicators, read_values

ONE_HIGH = [0] * 50 + [3] + [0] * 50
LEVELS = read_domain([0, 1, 2, 3])


def collect(query):
    return query.collect(engine="streaming")


def said_to_be_sorted(way, frame, folder):
    """The frame as a plan whose columns all pass for sorted."""
    if way == "series":
        return frame.with_columns(pl.all().set_sorted()).lazy()
    if way == "plan":
        return frame.lazy().set_sorted(frame.columns[0])
    order = [pq.SortingColumn(place) for place in range(frame.width)]
    pq.write_table(
        frame.to_arrow(), folder / "said.parquet", sorting_columns=order, row_group_size=60
    )
    return pl.scan_parquet(folder / "said.parquet")


ways = pytest.mark.parametrize("way", ["series", "plan", "parquet"])
DOMAINS = {
    "few classes": (LEVELS, pl.Int64),
    "a short dtype": (LEVELS, pl.Int8),
    "floats": (LEVELS, pl.Float64),
    "decimals": (LEVELS, pl.Decimal(4, 1)),
    "booleans": (read_domain([False, True]), pl.Boolean),
    "many classes": (read_domain(range(40)), pl.Int64),
    "many classes with gaps": (read_domain(range(0, 300, 3)), pl.UInt16),
    "bins": (Bins(range(91), range(90)), pl.Float32),
    "an interval": (Interval(0, 3), pl.Float64),
    "whole numbers of an interval": (Interval(0, 3), pl.Int16),
    "labels": (read_domain(["0", "1", "2", "3"]), pl.String),
    "an enum": (read_domain(["3", "0"]), pl.Enum(["0", "3"])),
    "categories": (read_domain([str(label) for label in range(60)]), pl.Categorical()),
}


def measures_of(domain):
    """A count for each class, and the values themselves if they are numbers."""
    edges = [0, 1, 2, 3] if isinstance(domain, Interval) else None
    found = [value for _, value in indicators("x", domain, edges)]
    if domain.numeric:
        found.append(read_values("x", {"x": domain}))
    return [Measure(value, domain.points[0]) for value in found]


@ways
@pytest.mark.parametrize("kind", thinned(DOMAINS, 0.25))
@pytest.mark.parametrize("grouped", [False, True])
def test_false_words_about_order_do_not_change_sums(tmp_path, way, kind, grouped):
    """Private columns of every kind of domain, and keys: the sums of plain Python."""
    domain, dtype = DOMAINS[kind]
    text = pl.Series(ONE_HIGH).cast(pl.String)
    number = pl.Series(ONE_HIGH) > 0 if dtype == pl.Boolean else pl.Series(ONE_HIGH)
    values = text if isinstance(dtype, pl.Enum | pl.Categorical) or dtype == pl.String else number
    frame = pl.DataFrame({"x": values.cast(dtype), "key": [place % 3 for place in range(101)]})
    by, cells = (("key",), [(0,), (1,), (2,)]) if grouped else ((), [()])
    asked = measures_of(domain)
    found = tally(said_to_be_sorted(way, frame, tmp_path), by, None, asked, collect)
    counts, sums = rows.counted(frame, list(by), cells, asked)
    assert found.rows.tolist() == counts.tolist()
    assert found.sums.tolist() == sums.tolist()


@ways
@pytest.mark.parametrize(
    "dtype", [pl.Int64, pl.Float64, pl.String, pl.Boolean, pl.Enum(["1", "0"])]
)
def test_false_words_about_keys_do_not_change_cells(tmp_path, way, dtype):
    """Keys that are found, and declared ones that are themselves said to be sorted."""
    key = pl.Series("key", [1, 0] * 400).cast(pl.Boolean if dtype == pl.Boolean else pl.Int64)
    key = key.cast(pl.String).cast(dtype) if dtype in (pl.String, pl.Enum) else key.cast(dtype)
    frame = pl.DataFrame([key, pl.Series("x", [1, 0] * 400)])
    asked = [Measure(read_values("x", {"x": LEVELS}), 0)]
    said = said_to_be_sorted(way, frame, tmp_path)
    for declared in (None, frame["key"].head(2).set_sorted().to_frame()):
        found = tally(said, ("key",), declared, asked, collect)
        assert found.keys.height == 2
        assert found.rows.tolist() == [400, 400]
        assert sorted(found.sums[:, 0].tolist()) == [0, 400]
        one = next(place for place, value in enumerate(found.keys["key"]) if value in {1, "1"})
        assert found.sums[one, 0] == 400


@ways
@pytest.mark.parametrize("dtype", [pl.Int64, pl.String, pl.Float32])
def test_a_key_is_one_cell_wherever_its_rows_stand(tmp_path, way, dtype):
    """A long run, one row of another key, and a long run again are two cells, not three."""
    frame = pl.DataFrame({"key": [1] * 400 + [3] + [1] * 600 + [2] * 5}).with_columns(
        pl.col("key").cast(dtype)
    )
    found = tally(said_to_be_sorted(way, frame, tmp_path), ("key",), None, [], collect)
    assert [int(key) for key in found.keys["key"]] == [1, 2, 3]
    assert found.rows.tolist() == [1000, 5, 1]


@settings(max_examples=15)
@given(st.data(), st.booleans(), st.booleans())
def test_sums_are_those_of_plain_python_whatever_is_said(data, descending, grouped):
    """Any numbers and any labels, tested or grouped, said to rise or to fall."""
    numbers = data.draw(st.booleans())
    dtype = data.draw(rows.number_dtypes if numbers else rows.label_dtypes)
    domain = data.draw(rows.number_domains if numbers else rows.label_domains)
    column = data.draw(rows.column(dtype, 12)).alias("x")
    asked = data.draw(rows.measures("x", domain))
    with pytest.MonkeyPatch.context() as patch:
        if grouped:
            patch.setattr(
                columns.ByClass, "many", property(lambda self: len(self.classes.places) > 1)
            )
        said = pl.DataFrame(
            {"x": column if dtype == pl.Null else column.set_sorted(descending=descending)}
        )
        found = tally(said.lazy(), (), None, asked, collect)
    assert (
        found.sums.tolist()
        == rows.counted(pl.DataFrame({"x": column}), [], [()], asked)[1].tolist()
    )


@ways
@pytest.mark.parametrize("dtype", [pl.Int64, pl.String])
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("order_by", [None, "order"])
def test_units_give_no_more_rows_than_their_limit(tmp_path, way, dtype, limit, order_by):
    """Whatever is said of the order of units or rows; the first rows by order are the ones that are kept."""
    frame = pl.DataFrame({"unit": [1, 2] * 300, "order": [place * 7 % 600 for place in range(600)]})
    frame = frame.with_columns(pl.col("unit").cast(dtype))
    of_unit = UnitLimit("unit", limit, () if order_by is None else (order_by,))
    kept = collect(at_most(said_to_be_sorted(way, frame, tmp_path), of_unit))
    assert Counter(map(int, kept["unit"].to_list())) == {1: limit, 2: limit}
    first = frame.sort(order_by) if order_by else frame
    truth = first.group_by("unit", maintain_order=True).head(limit)
    assert sorted(kept["order"].to_list()) == sorted(truth["order"].to_list())


@ways
def test_a_release_of_a_column_that_is_said_to_be_sorted(tmp_path, way):
    """A count through the front door: 1, and not what a binary search takes for it."""
    frame = pl.DataFrame({"level": ONE_HIGH})
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
    batch = pf.protect(said_to_be_sorted(way, frame, tmp_path), scenario)
    asked = batch.private_count(pl.col("level") >= 2, name="peaks").private_sum("level")
    found = asked.release(epsilon=1e9).frame
    assert found.row(0) == pytest.approx((1, 3), abs=1e-5)
