"""The fingerprint of rows is the same for the same public rows in any order, and for no others."""

import itertools

import numpy as np
import polars as pl
import pytest
from key_values import KEYS

import pufferflow as pf
from pufferflow.engines import polars_engine
from pufferflow.engines.connect import engine_of
from pufferflow.queries.engine_interface import BY_POSITION, UNORDERED, Selection

UNHASHED = {"categories", "structs", "lists", "lists of floats", "structs of floats", "nothing"}
SCENARIO = pf.Scenario(
    pf.Secret("x", domain=[0, 1]), pf.Independent(), order_by="t", step=1, within=["g", "h"]
)
SELECTION = Selection(public=("g", "h", "t", "c"), by=("c",), filters=(pl.col("t") != 3,))
ROWS = pl.DataFrame(
    {"g": [1, 1, 2, 2], "h": ["a", "a", "a", None], "t": [0, 1, 0, 3], "c": [5, 5, 7, 8]}
)


def fingerprint(frame, selection=SELECTION, orders=(BY_POSITION,), key=b"one"):
    return engine_of(frame).fingerprint(selection, SCENARIO, orders, key)


def test_order_and_repeated_reading_do_not_matter():
    """Shuffled rows, in chunks and threads, have the same fingerprint; another key gives another."""
    rows = pl.concat([ROWS] * 5000).with_columns(t=pl.int_range(pl.len()))
    known = fingerprint(rows)
    for seed in range(3):
        assert fingerprint(rows.sample(fraction=1, shuffle=True, seed=seed)) == known
    assert fingerprint(pl.concat([rows[:7], rows[7:]], rechunk=False)) == known
    assert fingerprint(rows, key=b"two") != known


CHANGES = {
    "a group": ROWS.with_columns(g=pl.Series([1, 1, 2, 1])),
    "another group": ROWS.with_columns(h=pl.Series(["a", "a", None, None])),
    "a place": ROWS.with_columns(t=pl.Series([0, 2, 0, 3])),
    "a cell": ROWS.with_columns(c=pl.Series([5, 5, 7, 7])),
    "two cells that change places": ROWS.with_columns(c=pl.Series([5, 7, 5, 8])),
    "two places that change places": ROWS.with_columns(t=pl.Series([1, 0, 3, 0])),
    "what is selected": ROWS.with_columns(t=pl.Series([0, 1, 3, 0])),
    "one row fewer": ROWS[:3],
    "one row twice": pl.concat([ROWS, ROWS[:1]]),
    "a null": ROWS.with_columns(c=pl.Series([5, 5, 7, None])),
    "a type": ROWS.with_columns(c=pl.col("c").cast(pl.Int32)),
    "no rows": ROWS[:0],
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_public_rows_shows(change):
    """Each changes what patterns or keys may follow from, if only for one row."""
    assert fingerprint(CHANGES[change]) != fingerprint(ROWS)


def test_places_count_only_where_order_matters():
    """Without order, moving rows in time changes nothing unless a filter sees it."""
    moved = CHANGES["a place"]
    assert fingerprint(moved, orders=(UNORDERED,)) == fingerprint(ROWS, orders=(UNORDERED,))
    assert fingerprint(moved, orders=(UNORDERED, BY_POSITION)) != fingerprint(
        ROWS, orders=(UNORDERED, BY_POSITION)
    )


def test_rows_without_columns_are_counted():
    """Where all rows are one group in one cell, only their number matters."""
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.AnyCorrelation())
    prints = [
        engine_of(rows).fingerprint(Selection(), scenario, [UNORDERED], b"one")
        for rows in (ROWS, ROWS[:3])
    ]
    assert None not in prints
    assert prints[0] != prints[1]


@pytest.mark.parametrize("kind", KEYS)
def test_values_of_every_type_are_told_apart(kind):
    """Each value is a table of its own; equal keys, −0.0 and 0.0 too, are equal, and some types have no fingerprint."""
    dtype, values = KEYS[kind]
    prints = {}
    for value in [*values, None]:
        rows = ROWS[:1].with_columns(c=pl.Series([value], dtype=dtype))
        prints.setdefault(repr(0.0 if value == 0.0 else value), set()).add(fingerprint(rows))
    if kind in UNHASHED:
        assert set().union(*prints.values()) == {None}
        return
    assert all(len(own) == 1 and None not in own for own in prints.values())
    assert len(set().union(*prints.values())) == len(prints)


@pytest.mark.slow
def test_random_tables_differ_when_they_differ():
    """Thousands of tables with few rows of small numbers, where weak sums would agree."""
    tables = itertools.product(range(3), repeat=6)
    seen = {}
    for g1, t1, c1, g2, t2, c2 in tables:
        frame = pl.DataFrame({"g": [g1, g2], "h": "", "t": [t1, t2], "c": [c1, c2]})
        seen.setdefault(fingerprint(frame), set()).add(tuple(sorted([(g1, t1, c1), (g2, t2, c2)])))
    assert len(seen) == 27 * 28 // 2
    assert all(len(own) == 1 for own in seen.values())


def planned(frame):
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]),
        pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
        order_by="hour",
        within="meter",
        public=["district"],
    )
    return pf.protect(frame, scenario).group_by("district").private_sum("on").plan(pf.Pure(1.0))


@pytest.fixture
def table():
    """Rows of two meters in each of two districts, in a frame that a test may change."""
    rows = {"meter": np.repeat([1, 2, 3, 4], 6), "hour": np.tile(np.arange(6), 4)}
    rows |= {"district": rows["meter"] % 2, "on": rows["hour"] % 2}
    return [pl.DataFrame(rows)]


def changing(table):
    """A frame that has the rows which the table has when it is read."""
    schema = {"meter": pl.Int64, "hour": pl.Int64, "district": pl.Int64, "on": pl.Int64}
    return pl.LazyFrame(schema=schema).map_batches(lambda _: table[-1], schema=schema)


def test_a_release_of_the_same_rows_finds_no_patterns_again(table, monkeypatch):
    """Rows that were written anew in another order are the same; patterns are not looked for, and answers are given."""
    plan = planned(changing(table))
    table.append(table[0].sample(fraction=1, shuffle=True, seed=1))
    monkeypatch.setattr(polars_engine, "find_patterns", lambda *_: pytest.fail("patterns are read"))
    assert plan.release().frame.height == 2


def test_keys_without_a_fingerprint_are_compared_exactly(table):
    """Categories have other numbers each time they are read; the same rows are released, and others refused."""
    named = pl.col("district").cast(pl.String).cast(pl.Categorical)
    plan = planned(changing(table).with_columns(named))
    assert plan.release().frame.height == 2
    table.append(table[0].with_columns(district=pl.col("district") + 1))
    with pytest.raises(pf.SourceError, match="other rows than when"):
        plan.release()


def test_other_rows_are_compared_exactly(table):
    """One more meter of a known pattern changes no noise; a missing hour does, and so does a district."""
    plan = planned(changing(table))
    rows = table[0]
    table.append(pl.concat([rows, rows.filter(meter=1).with_columns(meter=pl.lit(9, pl.Int64))]))
    assert plan.release().frame.height == 2
    for other in (rows[:-1], rows.with_columns(district=pl.col("district") + 1)):
        table.append(other)
        with pytest.raises(pf.SourceError, match="other rows than when"):
            plan.release()
