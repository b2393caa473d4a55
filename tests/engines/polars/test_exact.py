"""Proofs that sums fit: arithmetic at the largest counts that there can be."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from pufferflow.core.errors import UsageError
from pufferflow.engines import column_measures as exact
from pufferflow.engines.column_measures import ByPlace, columns_of
from pufferflow.engines.one_pass import tally
from pufferflow.models.domain import read_domain
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.compiler import read_values
from pufferflow.queries.expressions.on_points import OnPoints

counts = st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3).filter(
    lambda some: sum(some) < 2**32
)
most = st.sampled_from([1, 2**29 - 1, 2**29, 2**40])


@pytest.mark.slow
@settings(max_examples=50)
@given(counts, most, st.data())
def test_weighted_counts_are_those_of_whole_numbers(found, limit, data):
    """Dense and sparse, small steps and large: the product in Python's whole numbers."""
    steps = [
        data.draw(st.lists(st.sampled_from([-limit, 0, limit - 1, limit]), min_size=2, max_size=2))
        for _ in found
    ]
    truth = [
        sum(count * step[place] for count, step in zip(found, steps, strict=True))
        for place in range(2)
    ]
    for given_counts in (np.array([found]), csr_array(np.array([found]))):
        result = exact.weighted(given_counts, np.array(steps))
        assert result.tolist() == [truth]
        assert (result.dtype == object) == (np.abs(steps).max() >= 2**29)


@pytest.mark.parametrize(
    "points", [range(6), range(2**29 - 9, 2**29 - 2), range(-(2**29) + 1, -(2**29) + 9)]
)
def test_sums_of_clipped_numbers_do_not_overflow(points):
    """All rows that there can be, at either end and missing, at steps next to the limit."""
    domain, rows = read_domain(points), 2**32 - 1
    rise = (2**30 - 2) // (len(points) - 1)
    steps = tuple(-(2**29) + 1 + rise * place for place in range(len(points)))
    table = OnPoints(
        "x",
        domain,
        "φ",
        boolean=False,
        unit=1,
        low=min(steps),
        high=max(steps),
        name=None,
        steps=steps,
    )
    (column,) = columns_of(pl.Schema({"x": pl.Int64}), [Measure(table, points[0])])
    assert isinstance(column, ByPlace)
    for there, place in [(rows, 0), (rows, len(points) - 1), (0, 0), (rows // 2, 2)]:
        totals = np.array([[there, there * points[place]]])
        truth = there * steps[place] + (rows - there) * steps[0]
        assert column.sums(totals, np.array([rows])).tolist() == [[truth]]


def test_steps_that_no_sum_is_proven_to_hold_are_refused():
    """Steps beyond 2^40, and an engine that counts rows in 64 bits."""
    domain = read_domain([0, 1])
    huge = OnPoints(
        "x", domain, "φ", boolean=False, unit=1, low=0, high=2**41, name=None, steps=(0, 2**41)
    )
    with pytest.raises(UsageError, match="proven"):
        columns_of(pl.Schema({"x": pl.Int64}), [Measure(huge, 0)])


def test_an_engine_that_counts_rows_in_64_bits_is_refused(monkeypatch):
    """Then there may be more rows than the proof allows."""
    monkeypatch.setattr(exact.pl, "get_index_type", lambda: pl.UInt64)
    asked = [Measure(read_values("x", {"x": read_domain([0, 1])}), 0)]
    with pytest.raises(UsageError, match="64 bits"):
        tally(pl.LazyFrame({"x": [1]}), (), None, asked, pl.LazyFrame.collect)
