"""Random private rows of every dtype, and what a release has to read them as, worked out in plain Python."""

import functools
import math
from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
from hypothesis import strategies as st

from pufferflow.models.domain import Bins, Interval, read_domain
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.on_interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints

WHOLE = [
    pl.Int8,
    pl.Int16,
    pl.Int32,
    pl.Int64,
    pl.UInt8,
    pl.UInt16,
    pl.UInt32,
    pl.UInt64,
    pl.Int128,
]
FLOATS = [pl.Float32, pl.Float64]
LABELS = ["low", "mid", "high", "żółć", ""]
numbers = st.sampled_from([0, 1, 2, 3, 5, 10, -1, -4, 0.5, 0.1, 2.5, 1e9, -1e300, 300, 2**53])
steps = st.one_of(
    st.integers(-4, 4), st.sampled_from([Fraction(1, 3), Fraction(7, 4), Fraction(10**9)])
)


@st.composite
def column(draw, dtype, size):
    """A column with what nobody asked for: nulls, NaN, infinities, and the ends of its dtype."""
    return pl.Series(
        draw(st.lists(st.none() | _value(dtype), min_size=size, max_size=size)),
        dtype=dtype,
        strict=False,
    )


def _value(dtype):
    if dtype == pl.Boolean:
        return st.booleans()
    if dtype == pl.Null:
        return st.none()
    if isinstance(dtype, pl.Decimal):
        return st.integers(-(10**6), 10**6).map(lambda whole: Decimal(whole) / 4)
    if dtype in FLOATS:
        some = [math.nan, math.inf, -math.inf, -0.0, 0.5, 1.5, 2.5, 0.1, 1e30, -3.0]
        return st.sampled_from(some) | st.floats(-12, 12, width=32)
    if dtype in WHOLE:
        bits = int(dtype.__name__.strip("UInt"))
        signed = not dtype.__name__.startswith("U")
        ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return st.sampled_from(ends) | st.integers(max(ends[0], -6), 12)
    return st.sampled_from(LABELS if isinstance(dtype, pl.Enum) else [*LABELS, "unheard of"])


number_dtypes = st.sampled_from([*WHOLE, *FLOATS, pl.Decimal(12, 2), pl.Boolean, pl.Null])
label_dtypes = st.sampled_from(
    [pl.String, pl.Categorical(), pl.Enum(LABELS), pl.Enum(LABELS[::-1]), pl.Null]
)
stretches = st.builds(
    lambda low, size: list(range(low, low + size)), st.integers(-130, 250), st.integers(2, 60)
)
number_domains = st.one_of(
    st.lists(numbers, min_size=2, max_size=6, unique=True).map(read_domain),
    stretches.map(read_domain),
    st.just(read_domain([False, True])),
    st.sampled_from([([0, 1, 5], [3, 1]), ([0.5], ["a", "b"]), ([0, 2, 3], [0, 7, 1, 2])]).map(
        lambda of: Bins(*of)
    ),
)
label_domains = st.lists(st.sampled_from([*LABELS[:4], "absent"]), min_size=2, unique=True).map(
    read_domain
)


@st.composite
def measures(draw, name, domain, most=4):
    """Tables of random steps, affine ones among them, that share what is missing."""
    size = len(domain.points)
    missing = draw(st.sampled_from(domain.points))
    affine = st.builds(
        lambda a, b: [a + b * place for place in range(size)],
        st.integers(-9, 9),
        st.integers(-3, 3),
    )
    table = st.lists(steps, min_size=size, max_size=size) | affine
    tables = draw(st.lists(table, min_size=1, max_size=most))
    return [
        Measure(OnPoints.of(name, domain, [Fraction(one) for one in table], "φ"), missing)
        for table in tables
    ]


def absent(value):
    """Whether a value is null or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


@functools.cache
def place_of(domain, value, missing):
    """The place of the point that a value of a finite domain is read as, from the rules."""
    if absent(value):
        return domain.points.index(missing)
    if isinstance(domain, Bins):
        inner = domain.edges if domain.open else domain.edges[1:-1]
        return bisect_right(inner, value)
    if isinstance(domain.points[0], str):
        return domain.points.index(value if value in domain.points else missing)
    if math.isinf(value):
        return domain.points.index(max(domain.points) if value > 0 else min(domain.points))
    exact = Fraction(value)
    return min(
        range(len(domain.points)),
        key=lambda at: (abs(Fraction(domain.points[at]) - exact), domain.points[at]),
    )


def steps_of(measure, value):
    """The steps of one private value: by table, or by formula at the nearest number of an interval."""
    values = measure.values
    if isinstance(values, OnPoints):
        return values.steps[place_of(values.domain, value, measure.missing)]
    assert isinstance(values, OnInterval)
    assert isinstance(values.domain, Interval)
    number = measure.missing if absent(value) else value
    number = float(min(max(number, values.domain.low), values.domain.high))
    return int(pl.DataFrame({"x": [number]}).select(values.read(pl.col("x"))).item())


def as_read(series):
    """The values of a column in Python, wide whole numbers as the floats they are read as."""
    wide = series.dtype in {pl.Int128, pl.UInt128} or isinstance(series.dtype, pl.Decimal)
    return [
        None if value is None else float(value) if wide else value for value in series.to_list()
    ]


def counted(frame, by, cells, asked):
    """The rows and the sums of each cell, in plain Python."""
    at = {cell: place for place, cell in enumerate(cells)}
    rows, sums = (
        np.zeros(len(cells), dtype=np.int64),
        np.zeros((len(cells), len(asked)), dtype=object),
    )
    columns = {measure.values.column: as_read(frame[measure.values.column]) for measure in asked}
    keys = frame.select(by).rows() if by else [()] * len(frame)
    for place, key in enumerate(keys):
        if key in at:
            rows[at[key]] += 1
            for number, measure in enumerate(asked):
                sums[at[key], number] += steps_of(measure, columns[measure.values.column][place])
    return rows, sums
