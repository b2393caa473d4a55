"""Whatever mixes rows, hides code or touches other columns is refused, by name and in five lines."""

import datetime as dt
import operator
import re
from functools import reduce

import numpy as np
import polars as pl
import pytest

from pufferflow.core.errors import PufferflowError, Refused, UsageError
from pufferflow.models.domain import Bins, Interval, read_domain
from pufferflow.queries.expressions.compiler import read_values
from pufferflow.queries.expressions.public import read_public

x = pl.col("x")
LEVELS = {"x": read_domain([0, 1, 2, 3])}
LINE = {"x": Interval(-2, 7)}
LABELS = {"x": read_domain(["a", "b"])}

MIXING = [
    (lambda: x - x.mean(), r"x\.mean\(\) takes"),
    (lambda: x.clip(0, x.max()), r"x\.max\(\) takes"),
    (lambda: x.fill_null(x.mean()), r"x\.mean\(\)"),
    (x.sum, r"x\.sum\(\)"),
    (x.count, r"x\.count\(\)"),
    (x.std, r"x\.std\(\)"),
    (x.first, r"x\.first\(\)"),
    (x.n_unique, r"x\.n_unique\(\)"),
    (x.implode, r"x\.implode\(\)"),
    (lambda: x.quantile(0.5), r"x\.quantile\(\)"),
    (x.null_count, r"x\.null_count\(\)"),
    (lambda: x.shift(1), r"x\.shift\(\)"),
    (lambda: x.clip(0, 9).shift(), r"x\.clip\(0, 9\)\.shift\(\)"),
    (x.diff, r"x\.diff\(\)"),
    (x.pct_change, r"x\.pct_change\(\)"),
    (x.cum_sum, r"x\.cum_sum\(\)"),
    (x.rank, r"x\.rank\(\)"),
    (lambda: x.over("g"), r"x\.over\(\)"),
    (lambda: x.sum().over("g"), r"x\.over\(\)"),
    (lambda: x.rolling_mean(3), r"x\.rolling_mean\(\)"),
    (lambda: x.rolling_mean_by("t", "1h"), r"x\.rolling_mean_by\(\)"),
    (lambda: x.rolling("t", period="1h"), r"x\.rolling\(\)"),
    (lambda: x.ewm_mean(alpha=0.5), r"x\.ewm_mean\(\)"),
    (x.is_first_distinct, r"x\.is_first_distinct\(\)"),
    (x.is_duplicated, r"x\.is_duplicated\(\)"),
    ((x > 1).any, r"\(x > 1\)\.any\(\)"),
    ((x > 1).all, r"\(x > 1\)\.all\(\)"),
    (x.sort, r"x\.sort\(\)"),
    (lambda: x.sort_by("g"), r"x\.sort_by\(\)"),
    (x.reverse, r"x\.reverse\(\)"),
    (x.unique, r"x\.unique\(\)"),
    (lambda: x.filter(x > 1), r"x\.filter\(\)"),
    (lambda: x.head(1), r"x\.slice\(\)"),
    (lambda: x.gather([0]), r"x\.gather\(\)"),
    (lambda: x.get(0), r"x\.gather\(\)"),
    (x.explode, r"x\.explode\(\)"),
    (x.interpolate, r"x\.interpolate\(\)"),
    (lambda: x.fill_null(strategy="forward"), r"x\.fill_null\(strategy"),
    (x.backward_fill, r"x\.fill_null\(strategy"),
    (lambda: x.qcut(2), r"x\.qcut\(\)"),
    (lambda: x.sample(1), r"x\.sample\(\)"),
    (x.shuffle, r"x\.shuffle\(\)"),
    (x.rle_id, r"x\.rle_id\(\)"),
    (x.set_sorted, r"x\.set_sorted\(\)"),
    (lambda: x.is_in(x), r"x\.is_in\(x\)"),
    (lambda: x.replace_strict({1: 2}, default=x.max()), r"x\.max\(\)"),
    (lambda: x + pl.int_range(4), r"int_range\(\)"),
    (lambda: x + pl.len(), r"pl\.len\(\)"),
    (lambda: pl.row_index() + x, r"pl\.len\(\)"),
    (lambda: pl.sql_expr("x - avg(x)"), r"x\.mean\(\)"),
]
HIDDEN = [
    (
        lambda: x.map_elements(lambda value: value, return_dtype=pl.Int64),
        r"Python function .* of 'x'",
    ),
    (lambda: x.map_batches(lambda values: values), "Python function"),
    (lambda: x.rolling_map(lambda values: values.sum(), 2), r"rolling_"),
    (lambda: np.sin(x), "Python function"),
    (x.inspect, "Python function"),
    (lambda: pl.fold(0, operator.add, [x]), r"fold_horizontal\(\) is not known"),
    (lambda: pl.reduce(operator.add, [x, x]), r"x\.reduce_horizontal\(\) is not known"),
    (lambda: x.name.map(str.upper), r"name\.map"),
    (x.hash, r"x\.hash\(\) is not known"),
    (lambda: x.cut([1, 2]), r"x\.cut\(\) is not known"),
    (lambda: x.list.eval(pl.element() + 1), r"x\.eval\(\)"),
    (lambda: x.cast(pl.self_dtype()), r"x\.cast\(\) is not known"),
    (lambda: pl.all() + 1, r"pl\.all\(\)"),
    (lambda: pl.col("x", "y"), "list of columns"),
    (lambda: pl.col("^x.*$"), "pattern"),
    (lambda: pl.col(pl.Int64), "selector"),
    (lambda: pl.first() + 1, "selector"),
    (lambda: pl.all().exclude("a"), "selector"),
    (lambda: x + pl.lit(pl.Series([1, 2, 3, 4])), "whole Series"),
    (lambda: pl.when(x > 1).then(pl.Series([1])).otherwise(0), "whole Series"),
    (lambda: x.clip(0, pl.Series([1])), "whole Series"),
    (lambda: pl.element() + x, r"pl\.element\(\)"),
    (x.str.to_date, "without a format"),
    (lambda: x.is_in(pl.Series([[1], [2], [3]])), r"x\.is_in\(.* takes the values of several rows"),
    (lambda: x.replace_strict({1: 2}, default=pl.Series([1, 2, 3, 4])), "whole Series"),
    (lambda: pl.lit(pl.Series([1, 2, 3, 4])), "whole Series"),
    (lambda: pl.lit(pl.Series([True])).alias("y"), "whole Series"),
    (lambda: x.cast(pl.Categorical), r"x\.cast\(Categorical\) makes a type"),
    (lambda: x.cast(pl.List(pl.Categorical)), r"x\.cast\(List\) makes a type"),
    (lambda: x.replace_strict({1: "a"}, default="b", return_dtype=pl.Categorical), "makes a type"),
]
READERS = [
    lambda expression: read_values(expression, LEVELS),
    lambda expression: read_values(expression, LINE),
    lambda expression: read_values(expression, LABELS),
    lambda expression: read_public(expression, {"x", "y", "g", "t"}),
]


def message(kind, ask, pattern):
    with pytest.raises(kind) as caught:
        ask()
    text = str(caught.value)
    assert re.search(pattern, text.partition("\n")[0]), text
    assert len(text.splitlines()) <= 5
    assert all(len(line) <= 200 for line in text.splitlines())
    assert caught.value.allowed
    assert caught.value.instead
    return text


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
@pytest.mark.parametrize(("build", "pattern"), MIXING + HIDDEN)
def test_what_sees_more_than_a_row_is_refused_by_name_wherever_expressions_are_read(build, pattern):
    expression = build()
    for read in READERS:
        message(Refused, lambda read=read: read(expression), pattern)


@pytest.mark.parametrize(
    ("grow", "times", "pattern"),
    [
        (lambda sum_, _: sum_ + 1, 400, "nested too deeply"),
        (lambda sum_, _: sum_ + 1, 30_000, "nested too deeply"),
        (lambda sum_, _: sum_ + sum_, 60, "too large"),
    ],
)
def test_expressions_that_would_fill_stack_or_memory_are_refused_before_polars_writes_them(
    grow, times, pattern
):
    expression = reduce(grow, range(times), x)
    message(Refused, lambda: read_values(expression, LEVELS), pattern)
    message(Refused, lambda: read_public(expression, {"x"}), pattern)


@pytest.mark.parametrize("name", ["x" * 8000, "two\nlines", '"' * 300, "\N{GRINNING FACE}\n" * 99])
def test_errors_are_short_whatever_columns_are_called(name):
    odd, number, text = pl.col(name), read_domain([0, 1]), read_domain(["a", "b"])
    for asked, domain in (
        (odd, text),
        (odd + 1, text),
        (odd.log(), number),
        (odd.mean(), number),
        (odd - odd.mean(), number),
        (odd.hash(), number),
        (odd.rolling_mean(2), number),
        (pl.col(name + "y"), number),
        (odd * pl.col("y"), number),
        (odd**3, Interval(0, 1)),
    ):
        message(PufferflowError, lambda a=asked, d=domain: read_values(a, {name: d, "y": d}), ".")
    for asked in (
        odd.sum(),
        pl.col(name + "y"),
        pl.min_horizontal(odd, odd),
        odd.cast(pl.Categorical),
    ):
        message(PufferflowError, lambda a=asked: read_public(a, {name, name + "z"}), ".")
    message(UsageError, lambda: read_public(odd.dt.date(), {name}, never_fails=True), ".")


def test_rounding_to_significant_digits_is_known_by_its_name():
    assert read_values(x.round_sig_figs(1), {"x": read_domain([12, 17])}).steps == (5, 10)
    assert read_public(x.round_sig_figs(1), {"x"}) is not None


def test_deep_expressions_that_are_not_refused_are_read():
    expression = reduce(lambda sum_, _: sum_ + 1, range(140), x)
    assert read_values(expression, LEVELS).steps == (140, 141, 142, 143)
    assert read_values(expression, LINE).affine
    assert read_public(expression, {"x"}) is expression


@pytest.mark.parametrize("domains", [LEVELS, LINE, LABELS])
@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ("salary", "'salary' is not declared"),
        (pl.col("salary"), "'salary' is not declared"),
        (x + pl.col("salary"), "'salary' is not declared"),
        (pl.when(pl.col("g") > 1).then(x).otherwise(0), "'g' is not declared"),
        (pl.col("näme\n" * 40), "is not declared"),
        (pl.lit(3), "3 reads no column"),
        (pl.lit(None), "null reads no column"),
        (pl.lit(dt.date(2026, 1, 1)), "2026-01-01 reads no column"),
        (None, "of type NoneType"),
        (["x"], "of type list"),
        (pl.Series([1]), "of type Series"),
        (3, "3"),
    ],
)
def test_undeclared_columns_and_what_is_no_expression_is_misuse(domains, given, pattern):
    message(UsageError, lambda: read_values(given, domains), pattern)


def test_two_sensitive_columns_in_one_expression_are_misuse():
    domains = {"x": LEVELS["x"], "y": LINE["x"]}
    message(UsageError, lambda: read_values(x * pl.col("y"), domains), "reads 2 columns: 'x', 'y'")


@pytest.mark.parametrize(
    ("expression", "domain", "pattern"),
    [
        (x, LABELS["x"], "x gives texts"),
        (x.str.to_uppercase(), LABELS["x"], "gives texts"),
        (x + 1, LABELS["x"], "Polars cannot evaluate x \\+ 1"),
        (x.log(), LEVELS["x"], "-inf at the value 0"),
        (x / 0, LEVELS["x"], "nan at the value 0"),
        (x + float("nan"), LEVELS["x"], "nan at the value 0"),
        (x + float("inf"), LEVELS["x"], "inf at the value 0"),
        (x + pl.lit(None), LEVELS["x"], "null at the value 0"),
        (pl.when(x > 1).then(1), LEVELS["x"], "null at the value 0"),
        (x.replace_strict({0: 1}), LEVELS["x"], "Polars cannot evaluate"),
        (x + 2**70, LEVELS["x"], "null at the value 0"),
        (x + dt.timedelta(hours=1), LEVELS["x"], "Polars cannot evaluate"),
        (pl.when(x > 1).then(pl.lit("a")).otherwise(pl.lit("b")), LEVELS["x"], "gives texts"),
        (
            pl.when(x > 1).then(dt.date(2026, 1, 1)).otherwise(dt.date(2027, 1, 1)),
            LEVELS["x"],
            "gives dates",
        ),
        (pl.concat_str(x), LEVELS["x"], "gives texts"),
        (x.cast(pl.Int8) * 100, read_domain([0, 300]), "Polars cannot evaluate"),
    ],
)
def test_a_function_without_a_number_for_every_value_is_misuse(expression, domain, pattern):
    message(UsageError, lambda: read_values(expression, {"x": domain}), pattern)


@pytest.mark.parametrize(
    ("expression", "kind", "pattern"),
    [
        (x.log(), Refused, r"x\.log\(.* straight lines"),
        (x**2, Refused, r"x\.pow\(2\).* straight lines"),
        (x.sqrt(), Refused, r"x\.sqrt\(\).* straight lines"),
        (x.round(1), Refused, r"x\.round\(.* straight lines"),
        (x.floor(), Refused, r"x\.floor\(\).* straight lines"),
        (x % 2, Refused, r"x % 2.* straight lines"),
        (x // 2, Refused, r"x // 2.* straight lines"),
        (x * x, Refused, r"x \* x.* straight lines"),
        (1 / x, Refused, r"1 / x.* straight lines"),
        (x / (x > 1), Refused, r"x / \(x > 1\).* straight lines"),
        (x / (x + 5), Refused, r"x / \(x \+ 5\).* straight lines"),
        (x / 0, Refused, r"x / 0.* straight lines"),
        (x.cast(pl.Int64), Refused, r"x\.cast\(Int64\).* straight lines"),
        (x.cast(pl.Float32), Refused, r"x\.cast\(Float32\).* straight lines"),
        (x.is_in([1, 2]), Refused, r"x\.is_in\(.* straight lines"),
        (
            pl.when(x > 1).then(300).otherwise(0).cast(pl.Int8),
            Refused,
            r"cast\(Int8\).* straight lines",
        ),
        (pl.when(x > 1).then(1), Refused, "null is not a finite number"),
        (x + pl.lit(None), Refused, "null is not a finite number"),
        (x.clip(0, float("inf")), Refused, "is not a finite number"),
        (x + float("nan"), Refused, "is not a finite number"),
        (x == "a", Refused, "'a' is not a finite number"),
        (x > dt.datetime.fromisoformat("2026-01-01"), Refused, "2026-01-01 is not a finite number"),
        (x & 1, UsageError, "needs predicates"),
        (~x, UsageError, "needs predicates"),
        (pl.when(x).then(1).otherwise(0), UsageError, "needs predicates"),
        ((x > 1) - (x > 2), UsageError, "Polars cannot evaluate"),
        ((x > 1).cast(pl.UInt8) - 1, Refused, "another number than exact arithmetic"),
        ((x != 1).cast(pl.UInt8) - 1, Refused, "another number than exact arithmetic"),
        (
            pl.lit(0, dtype=pl.UInt8) - ((x * 3 > 1) & (x * 3 < 2)).cast(pl.UInt8),
            Refused,
            "another number than exact",
        ),
        ((x + 1e20) - 1e20, Refused, "another number than exact arithmetic"),
        (x * 1e300, Refused, "too large or too small"),
        (x * 1e-300, Refused, "too large or too small"),
        (x * 1e200 * 1e200, UsageError, "inf at the value"),
        (reduce(operator.add, [(x > at / 40) for at in range(249)]), Refused, "nested too deeply"),
    ],
)
def test_what_is_no_straight_line_is_refused_on_an_interval(expression, kind, pattern):
    text = message(kind, lambda: read_values(expression, LINE), pattern)
    if "straight lines" in text:
        assert "pf.Bins" in text


@pytest.mark.slow
def test_a_function_of_too_many_pieces_is_refused():
    many = pl.sum_horizontal(
        pl.sum_horizontal([x > -2 + (at + shift) / 40 for at in range(0, 240, 2)])
        for shift in (0, 1)
    )
    message(Refused, lambda: read_values(many, LINE), "more than 200 pieces")


def test_what_escapes_the_list_is_found_out_on_the_domain(monkeypatch):
    """Even if a function that mixes rows stood on the list, the domain would tell."""
    from pufferflow.queries.expressions.functions import FUNCTIONS, Function

    mixing = {
        "reverse": x.reverse(),
        "shift_and_fill": x.shift(1, fill_value=7),
        "cum_sum": x.cum_sum(),
    }
    for name, expression in mixing.items():
        monkeypatch.setitem(FUNCTIONS, name, Function(name, on_values=True))
        message(
            Refused,
            lambda one=expression: read_values(one, LEVELS),
            "other numbers when other rows are there",
        )


def test_later_versions_of_polars_that_write_more_fields_are_refused(monkeypatch):
    """A node with a field that is not known could hide an expression."""
    from pufferflow.queries.expressions import tree

    written = {
        "BinaryExpr": {
            "left": {"Column": "x"},
            "op": "Plus",
            "right": {"Column": "x"},
            "by": {"Column": "y"},
        }
    }
    monkeypatch.setattr(tree.json, "loads", lambda _: written)
    message(Refused, lambda: read_values(x + x, LEVELS), "binary_expr")
    monkeypatch.setattr(tree.json, "loads", lambda _: {"Brandnew": {"Column": "x"}})
    message(Refused, lambda: read_values(x + x, LEVELS), r"x\.brandnew\(\) is not known")
    for odd in (
        [],
        None,
        3,
        "Column",
        {},
        {"Column": 3},
        {"Function": {"input": []}},
        {"Alias": ["x"]},
        {"Cast": 1},
    ):
        monkeypatch.setattr(tree.json, "loads", lambda _, odd=odd: odd)
        with pytest.raises(PufferflowError):
            read_values(x + x, LEVELS)


def test_polars_errors_do_not_follow_ours():
    with pytest.raises(UsageError) as caught:
        read_values(x + 1, LABELS)
    assert caught.value.__context__ is None


def test_bins_show_expressions_the_value_of_each_class():
    bins = Bins([0, 1, 5], values=[0.5, 3])
    assert read_values(x.floor(), {"x": bins}).steps == (0, 3)


@pytest.mark.parametrize(
    "asked",
    [
        x.fill_null(7),
        x.is_null(),
        x.is_not_null(),
        pl.coalesce(x, 7),
        x.is_nan(),
        x.fill_null(0) * 2 + 1,
    ],
)
def test_nulls_of_the_column_are_said_by_the_secret(asked):
    """When an expression sees values, nulls have been read as `missing` already: speaking of them is refused."""
    for domains in (LEVELS, LINE):
        with pytest.raises(UsageError, match="which are read as values of its domain") as refused:
            read_values(asked, domains)
        assert f"missing={domains['x'].points[0]!r}" in refused.value.instead
    assert read_values((x * 2).fill_null(7), LEVELS).steps == read_values(x * 2, LEVELS).steps
