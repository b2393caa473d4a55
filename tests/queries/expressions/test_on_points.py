"""Functions on finite domains: what Polars computes, in whole steps."""

import decimal
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pufferflow.core.errors import PufferflowError
from pufferflow.models.domain import read_domain
from pufferflow.queries.expressions.compiler import read_values
from pufferflow.queries.expressions.on_points import OnPoints

x = pl.col("x")
numbers = st.integers(-4, 9) | st.sampled_from([0.5, -1.25, 0.1, 3.7])


def predicates(children):
    return st.one_of(
        st.builds(lambda a, b: a >= b, children, children),
        st.builds(lambda a, b: a < b, children, children),
        st.builds(lambda a, b, c: a.is_between(b, c), children, numbers, numbers),
        st.builds(lambda a, b: a.eq_missing(b), children, children),
        st.builds(lambda a, b: a.is_in([float(b), 2.0]), children, numbers),
    )


def more(children):
    return st.one_of(
        st.builds(lambda a, b: a + b, children, children),
        st.builds(lambda a, b: a - b, children, children),
        st.builds(lambda a, b: a * b, children, children),
        st.builds(lambda a, b: a / b, children, numbers),
        st.builds(lambda a, b: a // b, children, numbers),
        st.builds(lambda a, b: a % b, children, numbers),
        st.builds(lambda a, low, high: a.clip(low, high), children, numbers, numbers),
        st.builds(lambda a: a.abs(), children),
        st.builds(lambda a: -a, children),
        st.builds(lambda a: a.floor(), children),
        st.builds(lambda a: a.round(1), children),
        st.builds(lambda a: a**2, children),
        st.builds(pl.max_horizontal, children, children),
        st.builds(
            lambda p, q, a, b: pl.when(p & ~q).then(a).otherwise(b),
            *[predicates(children)] * 2,
            *[children] * 2,
        ),
        st.builds(lambda p: p.cast(pl.Int64), predicates(children)),
        st.builds(lambda a, b: a.replace({1: b}), children, numbers),
        st.builds(lambda a, b: (a * 1).fill_null(b).alias("y"), children, numbers),
    )


expressions = st.recursive(st.just(x) | numbers.map(pl.lit), more, max_leaves=6)
domains = st.lists(numbers, min_size=2, max_size=6, unique=True).map(read_domain)


def evaluated(expression, domain, rows):
    points = [domain.points[row] for row in rows]
    kind = pl.Float64 if any(isinstance(point, float) for point in domain.points) else pl.Int64
    return (
        pl.DataFrame({"x": pl.Series(points, dtype=kind)}).select(expression.alias("y")).to_series()
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(expressions, domains, st.data())
def test_steps_are_what_polars_computes_on_any_rows(expression, domain, data):
    assume("x" in expression.meta.root_names())
    try:
        values = read_values(expression, {"x": domain})
    except PufferflowError:
        assume(False)
    rows = data.draw(st.lists(st.integers(0, len(domain.points) - 1), min_size=1, max_size=9))
    truth = evaluated(expression, domain, rows)
    assert values.boolean == (truth.dtype == pl.Boolean)
    for row, number in zip(rows, truth.to_list(), strict=True):
        exact, found = Fraction(number), values.steps[row] * values.unit
        assert abs(found - exact) <= values.unit / 2
        assert values.low <= values.steps[row] <= values.high
    assert max(map(abs, values.steps)) <= 2**40


@pytest.mark.slow
@given(
    st.lists(
        st.fractions() | st.floats(allow_nan=False, allow_infinity=False).map(Fraction),
        min_size=2,
        max_size=6,
    )
)
def test_the_grid_is_the_coarsest_exact_one_or_the_finest_within_its_limit(held):
    values = OnPoints.of("x", read_domain(list(range(len(held)))), held, "…")
    unit, most = values.unit, max(map(abs, held))
    assert unit > 0
    assert unit.numerator & (unit.numerator - 1) == 0 == unit.denominator & (unit.denominator - 1)
    assert (values.low, values.high) == (min(values.steps), max(values.steps))
    assert max(map(abs, values.steps)) <= 2**40
    if all(step * unit == value for step, value in zip(values.steps, held, strict=True)):
        assert (
            most == 0
            or any(step % 2 for step in values.steps)
            or max(map(abs, values.steps)) > 2**39
        )
        return
    assert 2**39 < most / unit <= 2**40
    assert all(
        abs(step * unit - value) <= unit / 2 for step, value in zip(values.steps, held, strict=True)
    )


@settings(max_examples=40)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=4), st.integers(-80, 80))
def test_short_binary_fractions_are_met_exactly(steps, exponent):
    held = [step * Fraction(2) ** exponent for step in steps]
    values = OnPoints.of("x", read_domain(list(range(len(held)))), held, "…")
    assert [step * values.unit for step in values.steps] == held


@pytest.mark.parametrize(
    ("expression", "unit", "steps"),
    [
        (x, 1, (0, 1, 2, 3)),
        (x * 4, 4, (0, 1, 2, 3)),
        (x / 4, Fraction(1, 4), (0, 1, 2, 3)),
        (x * 0, 1, (0, 0, 0, 0)),
        (x >= 3, 1, (0, 0, 0, 1)),
        (x.clip(0, 2) * 2, 2, (0, 1, 2, 2)),
        (x * decimal.Decimal("1.5"), Fraction(1, 2), (0, 3, 6, 9)),
        (x + pl.lit(1.5, dtype=pl.Float32), Fraction(1, 2), (3, 5, 7, 9)),
        (x.cast(pl.Decimal(10, 2)), 1, (0, 1, 2, 3)),
        (pl.when(x == 1).then(10).when(x == 2).then(20).otherwise(0), 2, (0, 5, 10, 0)),
        (x.replace_strict({0: 5}, default=1), 1, (5, 1, 1, 1)),
        (x.is_in(pl.Series([1, 3])), 1, (0, 1, 0, 1)),
        (x == x, 1, (1, 1, 1, 1)),  # noqa: PLR0124 - what a user may write
    ],
)
def test_known_expressions_have_known_steps(expression, unit, steps):
    values = read_values(expression, {"x": read_domain([0, 1, 2, 3])})
    assert (values.unit, values.steps) == (unit, steps)


def test_labels_and_booleans_are_seen_as_they_are():
    labels = {"x": read_domain(["north", "south", "none"])}
    assert read_values(x.str.starts_with("n"), labels).steps == (1, 0, 1)
    assert read_values(x.str.len_chars(), labels).unit == 1
    assert read_values((x == "south") | (x == "none"), labels).steps == (0, 1, 1)
    flags = {"x": read_domain([False, True])}
    assert read_values("x", flags).boolean
    assert read_values("x", flags).steps == (0, 1)
    assert read_values(~x, flags).steps == (1, 0)


def test_decimals_that_are_no_binary_fractions_are_rounded_to_the_grid():
    values = read_values(x * decimal.Decimal("0.1"), {"x": read_domain([1, 2])})
    assert 2**39 < values.high <= 2**40


@pytest.mark.slow
@settings(max_examples=30)
@given(expressions, domains, st.fractions(min_value=-9, max_value=9))
def test_squares_are_those_of_the_steps(expression, domain, center):
    try:
        values = read_values(x + expression, {"x": domain})
    except PufferflowError:
        assume(False)
    squares = values.squared(center)
    for step, square in zip(values.steps, squares.steps, strict=True):
        assert abs(square * squares.unit - (step * values.unit - center) ** 2) <= squares.unit / 2
    assert not squares.boolean
    assert 0 <= squares.low <= squares.high


@pytest.mark.parametrize(
    ("expression", "words", "name"),
    [
        (x.clip(0, 9) * 2, "x.clip(0, 9) * 2", None),
        (x.clip(upper_bound=9), "x.clip(None, 9)", None),
        ((x >= 3) & ~(x == 5), "(x >= 3) & ~(x == 5)", None),
        (x.is_between(0, 1, closed="left"), "x.is_between(0, 1, closed='left')", None),
        (pl.when(x > 1).then(2.5).otherwise(-x), "when(x > 1).then(2.5).otherwise(-x)", None),
        (pl.min_horizontal(x, 3).alias("low"), "min_horizontal(x, 3)", "low"),
        ((x * 2).name.suffix("_twice"), "x * 2", "x_twice"),
        (x.alias("y").name.keep(), "x", None),
        (x.alias("x") + 1, "x + 1", None),
        ("x", "x", None),
    ],
)
def test_expressions_are_said_in_short_words_and_keep_their_name(expression, words, name):
    values = read_values(expression, {"x": read_domain([0, 1, 2, 3])})
    assert (values.words, values.name, values.column) == (words, name, "x")


def test_squares_around_zero_are_said_without_it():
    values = read_values(x - 70, {"x": read_domain([0, 1])})
    assert values.squared(Fraction(0)).words == "(x - 70)²"
    assert values.squared(Fraction(1, 2)).words == "(x - 70 - 0.5)²"


def test_words_stay_short_and_on_one_line():
    expression = x
    for at in range(40):
        expression = pl.when(x == at).then(at).otherwise(expression)
    values = read_values(expression, {"x": read_domain([0, 1])})
    assert len(values.words) <= 60
    assert len(values.squared(Fraction(1, 3)).words) <= 60
    odd = read_values(pl.col("two\nlines") + 1, {"two\nlines": read_domain([0, 1])})
    assert "\n" not in odd.words
