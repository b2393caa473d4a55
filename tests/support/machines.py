"""Machines to leave rows on: DuckDB, PostgreSQL, Spark, and one that is Polars behind the same queries."""

import datetime as dt
import functools
import itertools
import math
import random
from fractions import Fraction

import polars as pl
import polars.selectors as cs

from pufferflow.engines.one_pass import at_most
from pufferflow.plugins import Backend, ByLabels, CellTotals, GroupRows, GroupRuns
from pufferflow.queries.keys import unsigned_zero


class PolarsMachine(Backend):
    """Rows that are many: each stands for `times`, and a machine counts them all."""

    name = "Polars, asked from afar"

    def __init__(self, frame, times=1):
        self.frame, self.times = frame.lazy(), times
        self.most_rows = 2**46 if times > 1 else 2**32

    @property
    def table(self):
        return self.frame

    version = "1"
    settings = ("polars",)

    def schema(self):
        return self.frame.collect_schema()

    def with_rows(self, rows):
        return PolarsMachine(rows)

    def text(self, query):
        return repr(query)

    def run(self, query):
        table = {CellTotals: self.totals, GroupRuns: self.runs, GroupRows: self.rows}[type(query)](
            query
        ).collect()
        yield table.clear()
        for start in range(0, table.height, 7):  # in parts, as machines do
            yield table[start : start + 7]

    def totals(self, query):
        schema = self.schema()
        keys = [
            unsigned_zero(pl.col(name), schema[name]).alias(f"by{place}")
            for place, name in enumerate(query.by)
        ]
        values = [
            one.value.read().alias(f"value{place}") for place, one in enumerate(query.private)
        ]
        classes = [] if query.numbering is None else [_number(query.numbering).alias("class")]
        counted = [pl.len().cast(pl.Int64).alias("rows") * self.times]
        for place, one in enumerate(query.private):
            for number, total in enumerate(one.totals):
                summed = total.read(pl.col(f"value{place}")).cast(pl.Int64) * self.times
                counted.append(summed.alias(f"total{place}_{number}"))
        chosen = [*keys, *values, *classes]
        frame = self.frame if query.limit is None else at_most(self.frame, query.limit)
        rows = frame.select(chosen) if chosen else frame
        by = [f"by{place}" for place in range(len(query.by))] + ["class"] * len(classes)
        return rows.group_by(by).agg(counted) if by else rows.select(counted)

    def runs(self, query):
        columns = _own(query)
        keys, facts = [*columns], [pl.len().cast(pl.Int64).alias("count")]
        if query.order_by is not None:
            moment = pl.col("moment")
            facts += [moment.min().alias("first"), moment.max().alias("last")]
            facts.append(moment.drop_nulls().n_unique().cast(pl.Int64).alias("moments"))
            columns |= {"moment": pl.col(query.order_by)}
        rows = self.frame.select(**columns) if columns else self.frame
        runs = rows.group_by(keys).agg(facts) if keys else rows.select(facts)
        within = [name for name in keys if name.startswith("within")]
        of_group = {"runs": pl.len().cast(pl.Int64), "rows": pl.col("count").sum()}
        runs = runs.with_columns(
            **{name: one.over(within) if within else one for name, one in of_group.items()}
        )
        runs = runs.with_columns(
            pl.when(pl.col("runs") > 1).then(pl.col(name)).alias(name) for name in within
        )
        return runs.group_by(pl.all()).agg(pl.len().cast(pl.Int64).alias("times"))

    def rows(self, query):
        columns = _own(query.runs) | {"moment": pl.col(query.runs.order_by)}
        rows = self.frame.select(**columns)
        if query.sizes:
            within = [name for name in columns if name.startswith("within")]
            size = pl.len().over(within) if within else pl.len()
            rows = rows.filter(size.is_in(list(query.sizes)))
        return rows


def _own(query):
    within = {f"within{place}": pl.col(name) for place, name in enumerate(query.within)}
    return within | {f"column{place}": pl.col(name) for place, name in enumerate(query.columns)}


def _number(numbering):
    if len(numbering.parts) > 1:
        return functools.reduce(
            lambda whole, one: whole * (one.missing + 1) + _number(one), numbering.parts, 0
        )
    value = numbering.value.read()
    if isinstance(numbering, ByLabels):
        places = {label: place for place, group in enumerate(numbering.groups) for label in group}
        return value.replace_strict(places, default=numbering.missing, return_dtype=pl.Int64)
    above = pl.sum_horizontal([(value > limit).cast(pl.Int64) for limit in numbering.limits])
    return pl.when(value.is_null()).then(pl.lit(numbering.missing, dtype=pl.Int64)).otherwise(above)


# Rows made to hurt

LIMITS = (-1.0, 0.1, 0.30000000000000004, 1.5, 2.5, 7.0, 1e-3)
NEIGHBOURS = [math.nextafter(limit, side) for limit in LIMITS for side in (-math.inf, math.inf)]
FLOATS = [
    *LIMITS,
    *NEIGHBOURS,
    0.0,
    -0.0,
    5e-324,
    2.2e-308,
    1e300,
    -1e308,
    math.inf,
    -math.inf,
    math.nan,
    None,
    3.5,
]
TEXTS = [
    "a",
    "a ",
    "A",
    "",
    "ä",
    "a\u0308",
    "it's",
    'say "so"',
    "back\\slash",
    "%",
    "\n",
    "{rows}",
    "ß",
    None,
]
WHOLE = {
    bits: [None, 0, 1, 2, 3, -1, 7, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    for bits in (8, 16, 32, 64)
}
UNSIGNED = {bits: [None, 0, 1, 2, 3, 7, 2**bits - 1] for bits in (8, 16, 32, 64)}
DECIMALS = [
    None,
    *(Fraction(digits, 100) for digits in (0, 1, 10, 150, 250, -100, 30, 99999, -99999)),
]


def nasty(seed, *, unsigned=True, widest=False, size=90):
    """Return random rows of what machines differ in; some machines have the widest types only, and no NaN."""
    draw = random.Random(seed)  # noqa: S311 - of tests

    def some(values, kind):
        return pl.Series([draw.choice(values) for _ in range(size)], dtype=kind)

    groups = sorted(draw.choices(range(size // 4), k=size))
    place, moments = itertools.count(), []
    for before, group in zip([None, *groups], groups, strict=False):
        place = itertools.count(draw.choice([0, 0, 3])) if before != group else place
        step = next(place) if draw.random() < 0.95 else next(place) + next(place) * 0
        moments.append(dt.datetime(2026, 3, 28, 20) + dt.timedelta(hours=step))  # noqa: DTZ001 - local time
    columns = {
        "x": some(FLOATS, pl.Float64),
        "single": some([*LIMITS, math.nan, None, 1e38, math.inf], pl.Float32),
        "label": some(TEXTS, pl.String),
        "truth": some([True, False, None], pl.Boolean),
        "price": some([None if one is None else float(one) for one in DECIMALS], pl.Float64).cast(
            pl.Decimal(12, 2)
        ),
        "key": some(TEXTS, pl.String),
        "share": some([0.5, None, math.inf, -2.25, 1e-300, 0.0, -0.0, math.nan], pl.Float64),
        "day": some([None, dt.date(2026, 3, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)], pl.Date),
        "flag": some([True, False, None], pl.Boolean),
        "cents": some([None, 0.25, 1.5, -3.0], pl.Float64).cast(pl.Decimal(9, 2)),
        "group": pl.Series(groups, dtype=pl.Int64),
        "room": pl.Series([group % 3 + (draw.random() < 0.1) for group in groups], dtype=pl.Int32),
        "t": pl.Series(moments, dtype=pl.Datetime("us")),
    }
    columns |= {
        f"i{bits}": some(values, getattr(pl, f"Int{bits}")) for bits, values in WHOLE.items()
    }
    if unsigned:
        columns |= {
            f"u{bits}": some(values, getattr(pl, f"UInt{bits}"))
            for bits, values in UNSIGNED.items()
        }
    frame = pl.DataFrame(columns)
    if not widest:
        return frame
    return frame.cast(
        {pl.Float32: pl.Float64, pl.Decimal: pl.Float64, cs.integer(): pl.Int64}
    ).fill_nan(None)
