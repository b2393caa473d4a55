"""Functions on intervals: what Polars computes at every float, in whole steps that keep to their slope and range."""

import decimal
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pufferflow.core.errors import PufferflowError, Refused
from pufferflow.models.domain import Interval
from pufferflow.queries.expressions.compiler import read_values
from pufferflow.queries.expressions.on_interval import OnInterval

x = pl.col("x")
HAIR = 1 + Fraction(1, 2**16)
"""How much slopes grow where floats round before steps do."""
eighths = st.integers(-40, 40).map(lambda number: number / 8)
"""Floats that arithmetic in small expressions keeps exact, so that Polars' knots are the true ones."""
factors = st.sampled_from([-2, -0.5, 0, 0.25, 1, 3])
intervals = st.tuples(st.integers(-6, 5), st.integers(1, 6)).map(
    lambda pair: Interval(pair[0], pair[0] + pair[1])
)


def predicates(children):
    plain = st.one_of(
        st.builds(lambda a, b: a >= b, children, children),
        st.builds(lambda a, b: a > b, children, eighths),
        st.builds(lambda a, b: a < b, children, eighths),
        st.builds(lambda a, b: a <= b, children, children),
        st.builds(lambda a, b: a == b, children, eighths),
        st.builds(lambda a, b: a != b, children, eighths),
        st.builds(
            lambda a, b, c, closed: a.is_between(b, c, closed=closed),
            children,
            eighths,
            eighths,
            st.sampled_from(["both", "left", "right", "none"]),
        ),
    )
    return st.one_of(
        plain,
        st.builds(lambda p, q: p & q, plain, plain),
        st.builds(lambda p, q: p | ~q, plain, plain),
        st.builds(lambda p, q: p ^ q, plain, plain),
        st.builds(pl.any_horizontal, plain, plain),
    )


def more(children):
    return st.one_of(
        st.builds(lambda a, b: a + b, children, children),
        st.builds(lambda a, b: a - b, children, children),
        st.builds(lambda a, b: a * b, children, factors),
        st.builds(lambda a, b: b * a, children, factors),
        st.builds(lambda a, b: a / b, children, st.sampled_from([-4, 0.5, 2])),
        st.builds(lambda a, low, high: a.clip(low, high), children, eighths, eighths),
        st.builds(lambda a, low: a.clip(lower_bound=low), children, eighths),
        st.builds(lambda a, high: a.clip(upper_bound=high), children, eighths),
        st.builds(lambda a: a.abs(), children),
        st.builds(lambda a: -a, children),
        st.builds(pl.min_horizontal, children, eighths),
        st.builds(pl.max_horizontal, children, children),
        st.builds(
            lambda p, a, b: pl.when(p).then(a).otherwise(b),
            predicates(children),
            children,
            children,
        ),
        st.builds(lambda p, a: p * a, predicates(children), children),
        st.builds(lambda p: p.cast(pl.Int64), predicates(children)),
        st.builds(lambda p: p.cast(pl.Float64), predicates(children)),
        st.builds(lambda a: (a * 1).fill_null(3).fill_nan(2).alias("y"), children),
        predicates(children),
    )


expressions = st.recursive(st.just(x) | st.just(x) | eighths.map(pl.lit), more, max_leaves=5)


def compiled(expression, domain):
    try:
        return read_values(expression, {"x": domain})
    except PufferflowError:
        assume(False)


def steps(values, numbers):
    frame = pl.DataFrame({"x": pl.Series(numbers, dtype=pl.Float64)})
    found = frame.select(values.read(x).alias("steps")).to_series()
    assert found.dtype == pl.Int64
    assert len(found) == len(numbers)
    return found.to_list()


def around(values, domain, data):
    """Numbers of the interval: drawn ones, the ends, the knots and their neighbours."""
    numbers = data.draw(st.lists(st.floats(domain.low, domain.high), max_size=6))
    knots = [float(knot) for knot in values.pieces.knots]
    near = [math.nextafter(knot, side) for knot in knots for side in (-math.inf, math.inf)]
    return [number for number in (*numbers, *knots, *near) if domain.low <= number <= domain.high]


@pytest.mark.slow
@settings(max_examples=60)
@given(expressions, intervals, st.data())
def test_steps_are_what_polars_computes_at_every_float(expression, domain, data):
    values = compiled(expression, domain)
    numbers = around(values, domain, data)
    truth = (
        pl.DataFrame({"x": pl.Series(numbers, dtype=pl.Float64)})
        .select(expression.alias("y"))
        .to_series()
    )
    assert values.boolean == (truth.dtype == pl.Boolean)
    # floats that are no eighths are rounded on their way through the expression: they may end beside a knot
    exact = [Fraction(number) * 8 == int(number * 8) for number in numbers]
    for number, plain, found, want in zip(
        numbers, exact, steps(values, numbers), truth.to_list(), strict=True
    ):
        assert values.low <= found <= values.high
        near = abs(found * values.unit - Fraction(want)) <= values.unit * Fraction(3, 4)
        assert near or (not plain and beside_a_knot(values, number))
    for number, found in zip(numbers, steps(values, numbers), strict=True):
        exactly = values.pieces.on(Fraction(number))
        assert abs(found * values.unit - exactly) <= values.unit * (
            Fraction(1, 2) + Fraction(1, 2**17)
        )


SHAPES = {
    "steps up and down": pl.when(x > 1).then(300).when(x > -1).then(-100).otherwise(7),
    "a line that drops to a level": pl.when(x < 1).then(x).otherwise(0),
    "a level that jumps to a line": (x > 1) * x,
    "a line clipped on both sides": x.clip(-1, 2) * 3 - 1,
    "a line clipped once": pl.max_horizontal(x, 0.5),
    "bounds the wrong way round": x.clip(2, -1),
    "a tent": 1 - x.abs().clip(0, 1),
    "either of two that overlap": (x > 0) | (x < 1),
    "either of two that do not": (x > 1) | (x < 0),
    "one of two": (x > 0) ^ (x < 1),
    "neither": ~((x > 1) | (x < 0)),
    "single points": pl.when(x == 1).then(9.5).when(x == -2).then(x).otherwise(3 * x),
    "all but a point": (x != 1) & (x >= -2) & (x < 3),
    "between, open": x.is_between(-2, 3, closed="none"),
    "two lines": pl.when(x <= 0.5).then(-x).otherwise(2 * x - 1.5),
    "levels and a line": pl.when(x < -1).then(5).when(x <= 1).then(x).otherwise(-5),
    "a sum of steps": pl.sum_horizontal(x > 0, x >= 1, x > 2),
    "a level": x * 0 + 2.5,
}


@pytest.mark.parametrize("expression", SHAPES.values(), ids=SHAPES)
def test_known_shapes_are_what_polars_computes(expression):
    values = read_values(expression, {"x": Interval(-2, 3)})
    numbers = [n / 8 for n in range(-16, 25)]
    numbers += [
        near
        for n in numbers
        for near in (math.nextafter(n, -9), math.nextafter(n, 9))
        if -2 <= near <= 3
    ]
    truth = pl.DataFrame({"x": numbers}).select(expression.alias("y")).to_series()
    for found, want in zip(steps(values, numbers), truth.to_list(), strict=True):
        assert abs(found * values.unit - Fraction(want)) <= values.unit
    assert values.boolean == (truth.dtype == pl.Boolean)


def test_a_line_far_from_zero_does_not_cancel():
    values = read_values(x - 1e9, {"x": Interval(1e9, 1e9 + 1)})
    assert values.high == 2**30
    assert steps(values, [1e9, 1e9 + 0.5, 1e9 + 1]) == [0, 2**29, 2**30]
    bent = read_values(
        pl.when(x >= 1e9 + 0.5).then(x * 3 - 3e9).otherwise(x - 1e9), {"x": Interval(1e9, 1e9 + 1)}
    )
    assert steps(bent, [1e9, 1e9 + 0.25, 1e9 + 0.5]) == [0, 2**26, 3 * 2**27]
    odd = read_values(x * 0.3 - 3e8, {"x": Interval(1e9, 1e9 + 1)})
    numbers = [1e9 + n / 16 for n in range(17)]
    for number, step in zip(numbers, steps(odd, numbers), strict=True):
        assert abs(step - odd.pieces.on(Fraction(number)) / odd.unit) <= Fraction(1, 2) + Fraction(
            1, 2**18
        )
    square = values.squared(Fraction(1, 2))
    assert steps(square, [1e9, 1e9 + 0.5, 1e9 + 1]) == [2**30, 0, 2**30]


def test_floats_may_fall_to_either_side_of_a_knot():
    """In floats .1 + .2 + .3 lies above .1 + (.2 + .3), so Polars says that 1 is beyond the knot; arithmetic says 1."""
    sides = x * 0.1 + 0.2 + 0.3 <= pl.lit(0.1) + (pl.lit(0.2) + pl.lit(0.3))
    values = read_values(sides, {"x": Interval(0, 2)})
    assert values.pieces.knots == (0, 1, 2)
    assert steps(values, [0.5, 1.0, 1.5]) == [1, 1, 0]


def beside_a_knot(values, number):
    return any(abs(number - float(knot)) <= 1e-12 for knot in values.pieces.knots)


@pytest.mark.slow
@settings(max_examples=60)
@given(expressions, intervals, st.data())
def test_what_is_read_keeps_to_its_slope_and_its_range(expression, domain, data):
    values = compiled(expression, domain)
    numbers = sorted(around(values, domain, data))
    found = steps(values, numbers)
    assert values.low <= min(found) <= max(found) <= values.high
    if values.slope is not None:
        for (a, one), (b, other) in zip(
            zip(numbers, found, strict=True), zip(numbers[1:], found[1:], strict=True), strict=False
        ):
            assert abs(one - other) <= values.slope * (Fraction(b) - Fraction(a)) + 1
    if values.affine:
        rising = values.pieces.lines[0].slope >= 0
        assert found == sorted(found, reverse=not rising)


@pytest.mark.slow
@settings(max_examples=40)
@given(expressions, intervals)
def test_the_grid_is_the_finest_for_slopes_and_the_coarsest_for_levels(expression, domain):
    values = compiled(expression, domain)
    most = max(map(abs, values.pieces.values()))
    assert max(abs(values.low), abs(values.high)) <= 2**30
    if values.pieces.flat:
        assert all((value / values.unit).denominator == 1 for value in values.pieces.values())
        assert most == 0 or any((value / values.unit) % 2 for value in values.pieces.values())
    else:
        assert 2**29 < most / values.unit <= 2**30
    assert values.boolean <= (values.unit == 1)


lines = st.tuples(
    st.floats(-1e6, 1e6),
    st.floats(-1e3, 1e3).filter(lambda slope: abs(slope) > 1e-3),
    st.floats(-1e6, 1e6),
    st.floats(1e-2, 1e6),
)


def ordinary(data, low, width):
    return sorted(data.draw(st.lists(st.floats(low, low + width), min_size=2, max_size=12)))


@pytest.mark.slow
@settings(max_examples=60)
@example((0.0, 1.0, -3.0, 10.0), None)
@example((1.0, -0.1, 1e6, 0.01), None)
@given(lines, st.data())
def test_lines_with_any_coefficients_are_monotone_and_keep_to_their_slope(line, data):
    intercept, slope, low, width = line
    values = compiled(x * slope + intercept, Interval(low, low + width))
    assert values.affine
    numbers = (
        np.linspace(low, low + width, 30).tolist() if data is None else ordinary(data, low, width)
    )
    numbers = [min(max(number, values.domain.low), values.domain.high) for number in numbers]
    found = steps(values, numbers)
    assert found == sorted(found, reverse=slope < 0)
    for number, step in zip(numbers, found, strict=True):
        exactly = (Fraction(slope) * Fraction(number) + Fraction(intercept)) / values.unit
        assert abs(step - exactly) <= Fraction(1, 2) + Fraction(1, 2**18)
    obey(values, numbers, found)


def obey(values, numbers, found):
    for a, one in zip(numbers, found, strict=True):
        for b, other in zip(numbers, found, strict=True):
            assert abs(one - other) <= values.slope * abs(Fraction(b) - Fraction(a)) + 1


@pytest.mark.slow
@settings(max_examples=60)
@given(lines, st.fractions(min_value=-(10**6), max_value=10**6), st.data())
def test_squares_of_lines_keep_to_their_slope_and_their_range(line, center, data):
    intercept, slope, low, width = line
    values = compiled(x * slope + intercept, Interval(low, low + width))
    try:
        squares = values.squared(center)
    except Refused:
        assume(False)
    numbers = ordinary(data, values.domain.low, values.domain.high - values.domain.low)
    root = (center - Fraction(intercept)) / Fraction(slope)
    within = Fraction(values.domain.low) <= root <= Fraction(values.domain.high)
    numbers = [
        min(number, values.domain.high) for number in (*numbers, *([float(root)] if within else []))
    ]
    found = steps(squares, numbers)
    for number, step in zip(numbers, found, strict=True):
        exactly = (
            Fraction(slope) * Fraction(number) + Fraction(intercept) - center
        ) ** 2 / squares.unit
        assert abs(step - exactly) <= Fraction(1, 2) + Fraction(1, 2**18)
        assert squares.low <= step <= squares.high <= 2**30
    obey(squares, numbers, found)
    ends = [
        (Fraction(slope) * Fraction(end) + Fraction(intercept) - center) ** 2
        for end in (values.domain.low, values.domain.high)
    ]
    assert squares.high == round(max(ends) / squares.unit) > 2**29 - 1
    assert squares.low == (0 if within else round(min(ends) / squares.unit))
    assert not squares.affine


def test_slopes_are_steep_enough_only_just():
    """A slope of a tenth less is broken somewhere, by lines and by squares."""
    values = read_values(x, {"x": Interval(0, 10)})
    squares = values.squared(Fraction(0))
    for one, a, b in ((values, 2.0, 9.0), (squares, 9.9, 10.0)):
        first, second = steps(one, [a, b])
        assert second - first > one.slope * Fraction(9, 10) * (Fraction(b) - Fraction(a)) + 1


def test_a_level_line_has_a_level_square_and_what_bends_has_none():
    level = read_values(x * 0 + 3, {"x": Interval(0, 1)})
    assert (level.affine, level.slope, level.low, level.high, level.unit) == (True, 0, 3, 3, 1)
    square = level.squared(Fraction(1))
    assert (square.affine, square.slope, square.low, square.high, square.unit) == (True, 0, 1, 1, 4)
    assert steps(square, [0.0, 0.5]) == [1, 1]
    for bent in (x.clip(0.2, 0.8), x > 0.5, x.abs() + (x > 0.5)):
        with pytest.raises(Refused, match="is not known on an interval"):
            read_values(bent, {"x": Interval(0, 1)}).squared(Fraction(0))
    with pytest.raises(Refused, match="is not known on an interval"):
        read_values(x, {"x": Interval(0, 1)}).squared(Fraction(0)).squared(Fraction(0))


@pytest.mark.parametrize(
    ("expression", "affine", "slope", "low", "high", "unit"),
    [
        (x, True, 2**27, 0, 5 * 2**27, Fraction(1, 2**27)),
        (x.alias("y"), True, 2**27, 0, 5 * 2**27, Fraction(1, 2**27)),
        (-x / 2, True, 2**27, -5 * 2**27, 0, Fraction(1, 2**28)),
        (x.clip(-1, 9), True, 2**27, 0, 5 * 2**27, Fraction(1, 2**27)),
        ((x * 1).fill_null(9).fill_nan(9), True, 2**27, 0, 5 * 2**27, Fraction(1, 2**27)),
        (x + 3, True, 2**27 * HAIR, 3 * 2**27, 2**30, Fraction(1, 2**27)),
        (x * 3, True, 3 * 2**26 * HAIR, 0, 15 * 2**26, Fraction(1, 2**26)),
        (x * 0 + decimal.Decimal("1.25"), True, 0, 5, 5, Fraction(1, 4)),
        (x * 0 + pl.lit(0.1, dtype=pl.Float32), True, 0, 13421773, 13421773, Fraction(1, 2**27)),
        (x >= 3, False, None, 0, 1, 1),
        (x > 0, False, None, 0, 1, 1),
        (x >= 0, True, 0, 1, 1, 1),
        (x > 9, True, 0, 0, 0, 1),
        (x == 2, False, None, 0, 1, 1),
        (pl.when(x >= 3).then(300).otherwise(100), False, None, 25, 75, 4),
        (
            pl.when(x >= 3).then(x - 3).otherwise(0),
            False,
            2**29 * HAIR,
            0,
            2**30,
            Fraction(1, 2**29),
        ),
        ((x * 1).is_null(), True, 0, 0, 0, 1),
    ],
)
def test_known_expressions_have_known_facts(expression, affine, slope, low, high, unit):
    values = read_values(expression, {"x": Interval(0, 5)})
    assert isinstance(values, OnInterval)
    assert (values.affine, values.slope, values.low, values.high, values.unit) == (
        affine,
        slope,
        low,
        high,
        unit,
    )


def test_limits_beside_a_jump_count_as_values():
    """No number has the value 5 here, yet some come as near as floats reach."""
    values = read_values(pl.when(x < 5).then(x).otherwise(0), {"x": Interval(0, 9)})
    assert values.high == 5 * 2**27
    assert values.slope is None


def test_the_column_itself_and_a_threshold_are_read_without_detours():
    plain = str(read_values(x, {"x": Interval(0, 5)}).read(x))
    assert "when" not in plain
    assert plain.count("clip") == 1
    threshold = str(read_values(x >= 3, {"x": Interval(0, 5)}).read(x))
    assert threshold.count("when") == 1
    assert threshold.count("clip") == 1


@pytest.mark.parametrize(
    "expression", [x, x * 0.3 - 1, x.clip(0, 9), (x > 1) * x, x >= 3, (x * 0 + 2)]
)
def test_numbers_that_should_not_be_there_raise_nothing_and_stay_in_range(expression):
    """Rows are cleaned before they are read; should one slip through, it must not show."""
    values = read_values(expression, {"x": Interval(-2, 7)})
    found = steps(values, [math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -0.0])
    if values.words != "x":
        assert all(values.low <= step <= values.high for step in found)


def test_sums_do_not_depend_on_order_or_engine():
    values = read_values(x * 0.7 + 0.1, {"x": Interval(0, 1)})
    numbers = np.random.default_rng(5).random(5000)
    frame = pl.DataFrame({"x": numbers})
    total = sum(steps(values, numbers.tolist()))
    for rows in (frame, frame.reverse()):
        lazy = rows.lazy().select(values.read(x).sum())
        assert lazy.collect().item() == lazy.collect(engine="streaming").item() == total
    exactly = sum(values.pieces.on(Fraction(number)) for number in numbers.tolist()) / values.unit
    assert abs(total - exactly) <= 300  # rounding errors add up like a random walk, to about 20


def test_functions_of_many_pieces_are_read():
    brackets = pl.sum_horizontal([(x >= at).cast(pl.Int64) * (at + 1) for at in range(60)])
    values = read_values(brackets, {"x": Interval(0, 100)})
    assert steps(values, [0.0, 0.5, 1.0, 59.0, 100.0]) == [1, 1, 3, 1830, 1830]
    bends = pl.sum_horizontal([(x - at).clip(0, None) for at in range(60)])
    values = read_values(bends, {"x": Interval(0, 100)})
    for number, step in zip([0.5, 3.25, 77.0], steps(values, [0.5, 3.25, 77.0]), strict=True):
        truth = sum(max(number - at, 0) for at in range(60))
        assert abs(step - Fraction(truth) / values.unit) <= 1
