"""What filters say of public columns by literal values: never more than is true of the rows that pass."""

from datetime import UTC, date, datetime

import polars as pl
import pytest

from pufferflow.queries.expressions.public import conditions, is_one_of

TYPES = {
    "n": pl.Int64(),
    "small": pl.UInt8(),
    "f": pl.Float64(),
    "g": pl.Float32(),
    "s": pl.String(),
    "c": pl.Categorical(),
    "e": pl.Enum(["b", "a"]),
    "b": pl.Boolean(),
    "d": pl.Date(),
    "t": pl.Datetime("us"),
    "ms": pl.Datetime("ms"),
    "ns": pl.Datetime("ns"),
    "z": pl.Datetime("us", "Europe/Berlin"),
}
NEW_YEAR = date(2026, 1, 1)
DAY = 86_400 * 10**9
SINCE = 20_454 * DAY


def said(expression):
    """Return what is read of an expression, as short tuples."""
    found = [
        (
            one.column,
            one.kind,
            one.labels if one.labels is not None else (one.low, one.high),
            one.low_open,
            one.high_open,
        )
        for one in conditions(expression, TYPES)
    ]
    return sorted(found, key=repr)


READ = {
    "an equality": (pl.col("n") == 3, [("n", "number", (3,), False, False)]),
    "the other way round": (pl.lit(3) == pl.col("n"), [("n", "number", (3,), False, False)]),
    "a float on floats": (pl.col("f") == 0.5, [("f", "number", (0.5,), False, False)]),
    "a text": (pl.col("s") == "a", [("s", "text", ("a",), False, False)]),
    "a category": (pl.col("c") == "a", [("c", "text", ("a",), False, False)]),
    "a flag": (pl.col("b") == True, [("b", "bool", (True,), False, False)]),  # noqa: E712 - a comparison of columns
    "a date": (pl.col("d") == NEW_YEAR, [("d", "date", (SINCE,), False, False)]),
    "below": (pl.col("n") < 3, [("n", "number", (None, 3), False, True)]),
    "below, the other way round": (
        pl.lit(3) > pl.col("n"),
        [("n", "number", (None, 3), False, True)],
    ),
    "at least": (pl.col("n") >= 3, [("n", "number", (3, None), False, False)]),
    "between": (
        pl.col("n").is_between(3, 5, closed="left"),
        [("n", "number", (3, 5), False, True)],
    ),
    "strictly between": (
        pl.col("n").is_between(3, 5, closed="none"),
        [("n", "number", (3, 5), True, True)],
    ),
    "one of some": (pl.col("s").is_in(["a", "b"]), [("s", "text", ("a", "b"), False, False)]),
    "null": (pl.col("s").is_null(), [("s", "text", (None,), False, False)]),
    "anything but null": (pl.col("n").is_not_null(), [("n", "number", (None, None), False, False)]),
    "not null, in two words": (~pl.col("d").is_null(), [("d", "date", (None, None), False, False)]),
    "not not null": (~pl.col("z").is_not_null(), [("z", "moment", (None,), False, False)]),
    "a moment": (
        pl.col("t") >= datetime(2026, 1, 1),  # noqa: DTZ001 - a local time
        [("t", "local", (SINCE, None), False, False)],
    ),
    "a moment with a zone": (
        pl.col("z") > datetime(2026, 1, 1, tzinfo=UTC),
        [("z", "moment", (SINCE, None), True, False)],
    ),
    "several at once": (
        (pl.col("n") >= 3) & (pl.col("s") == "a") & (pl.col("n") < 9),
        [
            ("n", "number", (None, 9), False, True),
            ("n", "number", (3, None), False, False),
            ("s", "text", ("a",), False, False),
        ],
    ),
    "what is known beside what is not": (
        (pl.col("n") == 3) & (pl.col("s") != "a"),
        [("n", "number", (3,), False, False)],
    ),
}
NOT_READ = {
    "either": (pl.col("n") == 3) | (pl.col("s") == "a"),
    "a negation": ~(pl.col("n") == 3),
    "another column": pl.col("n") == pl.col("f"),
    "a function of a column": pl.col("n") + 1 == 3,
    "null": pl.col("n") == pl.lit(None),
    "null among others": pl.col("n").is_in([1, None]),
    "a column that is not known": pl.col("x") == 1,
    "a float beside whole numbers": pl.col("n") == 2.5,
    "narrow floats": pl.col("g") == 0.1,
    "a date beside moments": pl.col("t") == NEW_YEAR,
    "a moment beside dates": pl.col("d") == datetime(2026, 1, 1),  # noqa: DTZ001 - a local time
    "a moment coarser than the column": pl.col("t")
    <= pl.lit(datetime(2026, 1, 1), dtype=pl.Datetime("ms")),  # noqa: DTZ001
    "nanoseconds": pl.col("ns") == datetime(2026, 1, 1),  # noqa: DTZ001
    "a moment finer than the column": pl.col("ms") == datetime(2026, 1, 1, microsecond=1),  # noqa: DTZ001
    "an order of categories": pl.col("c") < "a",
    "an order of the column's own": pl.col("e") < "a",
    "between categories": pl.col("e").is_between("a", "b"),
    "infinity": pl.col("f") == float("inf"),
}


@pytest.mark.parametrize("case", READ)
def test_comparisons_with_literals_are_read(case):
    """A plain comparison of a column with a value of its own kind is read."""
    expression, expected = READ[case]
    assert said(expression) == sorted(expected, key=repr)


@pytest.mark.parametrize("case", NOT_READ)
def test_nothing_else_is_read(case):
    """What is no such comparison says nothing, so it never keeps rows apart."""
    assert conditions(NOT_READ[case], TYPES) == []


def test_rows_that_pass_have_the_values_that_are_told():
    """Every row that passes a filter lies in what was read of it."""
    frame = pl.DataFrame({"n": list(range(10)), "s": list("abababcccc")})
    for expression in (
        pl.col("n") > 3,
        pl.col("n").is_between(2, 5),
        pl.col("s").is_in(["a", "c"]),
        pl.col("s") == "b",
    ):
        (one,) = conditions(expression, {"n": pl.Int64(), "s": pl.String()})
        for value in frame.filter(expression)[one.column].to_list():
            if one.labels is not None:
                assert value in one.labels
            else:
                assert one.low is None or value > one.low or (value == one.low and not one.low_open)
                assert (
                    one.high is None
                    or value < one.high
                    or (value == one.high and not one.high_open)
                )


def test_keys_are_read():
    """The keys of a group are literal values too; too many of them, or null, say nothing."""
    assert [one.labels for one in is_one_of("n", pl.Series([3, 1]))] == [(3, 1)]
    assert is_one_of("n", pl.Series([1, None])) == []
    assert is_one_of("n", pl.Series(range(5000))) == []
