"""Every machine answers as Polars does, to the last digit, on rows made to hurt."""

import random
from dataclasses import replace

import polars as pl
import pytest
from machines import PolarsMachine, nasty
from thinned import nightly, thinned

import pufferflow as pf
from pufferflow.core.errors import UsageError
from pufferflow.engines.connect import engine_of
from pufferflow.engines.remote import RemoteEngine
from pufferflow.models.domain import Product, read_domain
from pufferflow.queries.engine_interface import Measure, PositionMode, Selection, UnitLimit
from pufferflow.queries.expressions.compiler import read_values
from pufferflow.queries.keys import with_others

PUBLIC = ("key", "share", "day", "flag", "cents", "group", "room", "t")
ORDERS = [
    PositionMode(ordered=True),
    PositionMode(ordered=True, period=1),
    PositionMode(ordered=True, period=24),
    PositionMode(ordered=False),
]
x = pl.col("x")


def measure(column, expression, domain, missing):
    domain = domain if isinstance(domain, pf.Interval | pf.Bins) else read_domain(domain)
    return Measure(read_values(expression, {column: domain}), missing)


def over_columns(wide, points):
    """Return a sum over two columns that fill intervals and a list."""
    domains = {"x": wide, "single": wide, "price": read_domain(points)}
    product = Product(tuple(domains), tuple(domains.values()), (1.5, 0.0, 0.2))
    added = x - 0.3 * pl.col("single").clip(0, 2) + pl.col("price")
    return Measure(read_values(added, domains, tuples=product), product.first)


def measures_of(schema):
    """Return sums in all ways in which columns are read."""
    labels = ["a", "a ", "A", "ä", "it's", "back\\slash", "{rows}", ""]
    wide, points = pf.Interval(-3, 9), [0.2, 0.4, 1.5, 3.0, 7.0]
    made = [
        *(
            measure("x", one, wide, 1.5)
            for one in (x, x * 0.3 - 1, x.clip(0.1, 2.5), x.abs(), x >= 0.1)
        ),
        measure("x", pl.when(x < 1.5).then(x * 2).otherwise(-x), wide, 0.0),
        Measure(read_values(x, {"x": wide}).squared(1), 0.0),
        measure("x", x, pf.Bins([-1.0, 0.1, 1.5, 2.5], [0.0, 1.0, 2.0]), 1.0),
        measure("x", x, points, 0.2),
        measure("x", x * x, points, 0.2),
        measure("x", x, [place / 7 for place in range(90)], 0.0),
        measure("single", pl.col("single"), wide, 0.0),
        measure("single", pl.col("single"), [0.1, 1.5, 3.0], 3.0),
        measure("price", pl.col("price"), wide, 0.0),
        measure("price", pl.col("price"), [0, 1, 2, 3], 3),
        measure("truth", pl.col("truth"), [0, 1], 1),
        over_columns(wide, points),
        measure("label", pl.col("label") == "a", labels, "A"),
        measure("label", pl.col("label").is_in(["a ", "it's"]), labels, "a"),
        measure(
            "label", pl.col("label") == "L7", [*labels, *(f"L{place}" for place in range(40))], "a"
        ),
    ]
    for column in (name for name in schema if name[0] in "iu" and name[1:].isdigit()):
        number = pl.col(column)
        made += [
            measure(column, number, list(range(8)), 3),
            measure(column, number * number, list(range(8)), 0),
        ]
        made += [
            measure(column, number, [0, 1], 1),
            measure(column, number, [3 * place for place in range(30)], 0),
        ]
    return made


OTHERS = with_others(
    pl.DataFrame({"key": ["ä", None, "a"], "room": [1, 2, 1]}), {"key": "elsewhere"}
)


def selections():
    hour = (pl.col("t").dt.hour() // 3).alias("part")
    number, numbers = (
        OTHERS.number().alias("number"),
        pl.DataFrame({"number": range(OTHERS.keys.height)}),
    )
    return [
        Selection(PUBLIC),
        Selection(PUBLIC, by=("key",)),
        Selection(PUBLIC, by=("share", "cents")),
        Selection(PUBLIC, by=("day", "flag")),
        Selection(
            PUBLIC, derived=(("inverse", (1 / pl.col("share")).alias("inverse")),), by=("inverse",)
        ),
        Selection(PUBLIC, derived=(("part", hour),), by=("part",)),
        Selection(PUBLIC, filters=(pl.col("key") != "a", pl.col("room") > 0), by=("room",)),
        Selection(PUBLIC, by=("key",), keys=pl.DataFrame({"key": ["ä", "a", "not there"]})),
        Selection(PUBLIC, derived=(("number", number),), by=("number",), keys=numbers),
    ]


def equal(first, second):
    """Whether two tallies are equal to the last digit: keys, rows and sums."""
    if first.keys is not None:
        assert first.keys.equals(second.keys, null_equal=True)
        assert first.keys.schema == second.keys.schema
    assert first.rows.tolist() == second.rows.tolist()
    assert [[int(one) for one in row] for row in first.sums] == [
        [int(one) for one in row] for row in second.sums
    ]


def plain(patterns):
    if isinstance(patterns, UsageError):
        return str(patterns)
    distinct = [
        [None if own is None else own.tolist() for own in (one.cells, one.counts, one.positions)]
        + [one.start, one.groups, one.covers]
        for one in patterns.distinct
    ]
    return distinct, patterns.groups, patterns.selected, patterns.reach, patterns.clock


SEEDS = [0, *nightly([1, 2])]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_equal(engine, machine, widest, seed):
    rows = nasty(seed, unsigned=machine in {"polars", "duckdb"}, widest=widest)
    here, there = engine_of(rows), engine(rows)
    draw, measures = random.Random(seed), measures_of(rows.schema)  # noqa: S311 - of tests
    for selection in selections():
        chosen = draw.sample(measures, 4)
        equal(here.tally(selection, chosen), there.tally(selection, chosen))
    if seed == 0:
        equal(here.tally(selections()[1], measures), there.tally(selections()[1], measures))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_of_the_first_rows_of_units_are_equal(engine, machine, widest, seed):
    """Where the order tells all rows apart that differ in what is read; units and orders of every type, nulls too."""
    rows = nasty(seed, unsigned=machine in {"polars", "duckdb"}, widest=widest)
    here, there = engine_of(rows), engine(rows)
    draw, measures = random.Random(seed), measures_of(rows.schema)  # noqa: S311 - of tests
    for selection in selections():
        unit, first = draw.sample([*PUBLIC, "label", "x"], 2)
        chosen = draw.sample(measures, 2)
        read = [first, *PUBLIC, *(column for one in chosen for column in one.values.columns)]
        order = tuple(name for name in dict.fromkeys(read) if name != unit)
        by = tuple(draw.sample([name for name in PUBLIC if name != unit], draw.choice([1, 2])))
        for groups in ((), (by, draw.choice([1, 3]))):
            limited = replace(
                selection, limit=UnitLimit(unit, draw.choice([1, 2, 5]), order, *groups)
            )
            equal(here.tally(limited, chosen), there.tally(limited, chosen))


def test_as_many_rows_of_each_unit_are_read_whatever_the_order_leaves_open(engine, widest):
    rows = nasty(0, unsigned=False, widest=widest)
    here, there = engine_of(rows), engine(rows)
    for unit in ("key", "share", "group"):
        for order in ((), ("flag",), ("flag", unit)):
            limited = Selection(PUBLIC, by=(unit,), limit=UnitLimit(unit, 2, order))
            equal(here.tally(limited), there.tally(limited))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_patterns_are_equal(engine, widest, seed):
    rows = nasty(seed, unsigned=False, widest=widest)
    rows = rows if seed % 2 else rows.unique(["group", "t"], maintain_order=True)
    here, there = engine_of(rows), engine(rows)
    for within in ([["group"], []], [["group", "room"]], [["group"]])[seed]:
        options = {"public": PUBLIC, "order_by": "t", "step": "1h", "within": within}
        scenario = pf.Scenario(pf.Secret("truth", domain=[0, 1]), pf.Independent(), **options)
        for selection in selections():
            first, second = (one.patterns(selection, scenario, ORDERS) for one in (here, there))
            for order in ORDERS:
                assert plain(first[order]) == plain(second[order])
            alone = [
                one.patterns(selection, scenario, ORDERS[3:])[ORDERS[3]] for one in (here, there)
            ]
            assert plain(alone[0]) == plain(alone[1])


@pytest.mark.parametrize(
    "within", thinned([["group"], pytest.param(["group", "room"], marks=pytest.mark.slow)], 0.08)
)
def test_sizes_of_groups_in_cells_are_equal(engine, widest, within):
    """A machine finds the same sizes of groups in each cell, whichever columns make cells."""
    rows = nasty(2, unsigned=False, widest=widest).unique([*within, "t"], maintain_order=True)
    here, there = engine_of(rows), engine(rows)
    options = {"public": PUBLIC, "order_by": "t", "step": "1h", "within": within}
    scenario = pf.Scenario(pf.Secret("truth", domain=[0, 1]), pf.AnyCorrelation(), **options)
    known = 0
    for selection in (
        *selections()[1::3],
        Selection(PUBLIC, by=("group", "day")),
        Selection(PUBLIC, by=("room", "key")),
    ):
        keys = here.tally(selection).keys
        order = ORDERS[1 if "room" in within else 3]
        first, second = (
            one.groups_in_cells(selection, scenario, [order], keys) for one in (here, there)
        )
        assert (first is None) == (second is None)
        if first is not None:
            assert first.kind_of_cell.tolist() == second.kind_of_cell.tolist()
            assert first.kinds == second.kinds
            known += len(first.kinds) > 1
    assert known


@pytest.mark.slow
def test_no_rows_and_nothing_but_nulls(engine, widest):
    rows = nasty(1, unsigned=False, widest=widest)
    empty = rows.clear()
    nulls = empty.vstack(
        pl.DataFrame(
            [pl.Series(name, [None] * 3, dtype=kind) for name, kind in rows.schema.items()]
        )
    )
    measures = measures_of(rows.schema)[:16:3]
    options = {"public": PUBLIC, "order_by": "t", "step": "1h", "within": "group"}
    scenario = pf.Scenario(pf.Secret("truth", domain=[0, 1]), pf.Independent(), **options)
    for frame in (empty, nulls):
        here, there = engine_of(frame), engine(frame)
        for selection in selections()[::2]:
            equal(here.tally(selection, measures), there.tally(selection, measures))
            first, second = (one.patterns(selection, scenario, ORDERS) for one in (here, there))
            assert [plain(first[order]) for order in ORDERS] == [
                plain(second[order]) for order in ORDERS
            ]


@pytest.mark.slow
def test_more_rows_than_32_bits_count_are_added_up_exactly():
    rows = nasty(2)
    times, measures = 2**39, measures_of(rows.schema)
    here, there = engine_of(rows), RemoteEngine(PolarsMachine(rows, times))
    for selection in selections()[::3]:
        few, many = here.tally(selection, measures), there.tally(selection, measures)
        assert many.rows.tolist() == [times * count for count in few.rows.tolist()]
        sums = [[times * int(one) for one in row] for row in few.sums]
        assert [[int(one) for one in row] for row in many.sums] == sums
        assert max(abs(one) for row in sums for one in row) > 2**63
