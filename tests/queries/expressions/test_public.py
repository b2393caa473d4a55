"""Expressions of public columns: what works row by row is let through, on declared columns only."""

import datetime as dt

import polars as pl
import pytest

from pufferflow.core.errors import Refused, UsageError
from pufferflow.queries.expressions.public import read_public

KNOWN = {"district", "hour", "day", "month", "name", "t", "a"}
hour, name = pl.col("hour"), pl.col("name")
NEW_YEAR = dt.datetime.fromisoformat("2026-01-01")
ROWS = pl.DataFrame(
    {
        "district": ["north", "south", None, "north"],
        "hour": [NEW_YEAR + dt.timedelta(days=day, hours=5 * day) for day in range(4)],
        "day": [dt.date(2026, 1, day) for day in (4, 3, 2, 1)],
        "month": [3, 1, 2, 3],
        "name": ["anna", "bob", "ada", "carl"],
        "t": [NEW_YEAR + dt.timedelta(days=day) for day in (1, 1, 2, 2)],
        "a": [1.5, None, -2.0, 0.0],
    }
)
ALLOWED = [
    pl.col("district") == "north",
    pl.col("district").is_in(["north", "west"]),
    pl.col("district").is_in(pl.Series(["north"])),
    pl.col("district").cast(pl.Enum(["north", "south"])),
    pl.col("district").cast(pl.Enum(["north", "south"])) == "north",
    pl.col("district").replace_strict({"north": 1, "south": 2}, default=0),
    pl.col("district").replace({"north": "n"}),
    pl.col("district").fill_null("?"),
    pl.coalesce("district", "name"),
    hour.dt.truncate("1d").alias("day"),
    hour.dt.hour() >= 6,
    hour.dt.hour().is_between(6, 12),
    hour.dt.strftime("%Y-%m"),
    hour.dt.weekday(),
    hour.dt.offset_by("1h"),
    hour.dt.convert_time_zone("Europe/Berlin").dt.hour(),
    (hour - NEW_YEAR).dt.total_hours(),
    hour + dt.timedelta(hours=1),
    hour >= NEW_YEAR,
    hour.dt.time() > dt.time(6),
    hour + pl.duration(hours=pl.col("month")),
    name.str.starts_with("a"),
    name.str.contains("n+"),
    name.str.contains_any(["an", "ob"]),
    name.str.to_uppercase().str.head(1),
    name.str.len_chars() > 3,
    name + "!",
    pl.concat_str("name", "district", separator="-"),
    pl.format("{}/{}", "name", "district"),
    pl.col("day").is_in([dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
    pl.col("day") >= pl.date(2026, 1, 2),
    pl.date(2026, pl.col("month"), 1),
    pl.col("day").dt.month_start(),
    pl.col("month") % 3,
    pl.col("month") // 2 * 2,
    pl.col("month").cast(pl.String).str.zfill(2),
    pl.col("month").cast(pl.String).str.to_date("%m", strict=False),
    pl.col("t").dt.date(),
    pl.col("a").is_null(),
    pl.col("a").abs().round(1).clip(0, 1),
    pl.col("a").is_null() | (pl.col("month") == 3) & ~(pl.col("district") == "south"),
    pl.when(pl.col("a") > 0)
    .then(pl.lit("plus"))
    .when(pl.col("a") < 0)
    .then(pl.lit("minus"))
    .otherwise(None),
    pl.struct("district", "month").struct.field("month"),
    pl.col("month").name.suffix("_of_year"),
    pl.lit("all").alias("everything"),
    pl.lit(None),
    pl.col("month") == pl.col("month"),
    pl.any_horizontal(pl.col("month") == 1, pl.col("a") > 1),
]


@pytest.mark.parametrize("expression", ALLOWED, ids=str)
def test_functions_of_a_row_are_let_through_and_work_row_by_row(expression):
    assert read_public(expression, KNOWN) is expression
    whole = ROWS.with_columns(expression.alias("result"))["result"].to_list()
    assert (
        ROWS.reverse().with_columns(expression.alias("result"))["result"].to_list() == whole[::-1]
    )
    alone = [
        ROWS[row].with_columns(expression.alias("result"))["result"].item() for row in range(4)
    ]
    assert alone == whole


def test_a_name_stands_for_its_column():
    assert read_public("day", KNOWN).meta.root_names() == ["day"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("level", "'level' is not public"),
        (pl.col("level") >= 3, "'level' is not public"),
        (pl.col("month") + pl.col("level"), "'level' is not public"),
        (pl.when(pl.col("level") > 0).then(1).otherwise(0), "'level' is not public"),
        (pl.col("month").clip(0, pl.col("level")), "'level' is not public"),
        (pl.col("name").str.replace("a", pl.col("level")), "'level' is not public"),
        (3, "is 3"),
        (None, "of type NoneType"),
    ],
)
def test_other_columns_and_what_is_no_expression_is_misuse(given, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        read_public(given, KNOWN)
    assert len(str(caught.value).splitlines()) <= 5
    if "not public" in problem:
        assert "only declared public columns can filter and group" in str(caught.value)


@pytest.mark.parametrize(
    "stops",
    [
        pl.col("a").cast(pl.Int8),
        pl.col("a").str.to_integer(),
        pl.col("a").str.to_date("%Y"),
        pl.col("a").replace_strict({"x": 1}),
    ],
    ids=str,
)
def test_what_stops_at_a_value_is_refused_where_rows_are_secret(stops):
    """An error at one value would tell that its row is there."""
    assert read_public(stops, {"a"}) is stops
    with pytest.raises(UsageError, match="would reveal that a row is there"):
        read_public(stops, {"a": pl.String()}, never_fails=True)
    softer = pl.col("a").cast(pl.Int8, strict=False)
    assert read_public(softer, {"a": pl.String()}, never_fails=True) is softer


a, day = pl.col("a"), pl.col("day")


@pytest.mark.parametrize(
    "expression",
    [
        pl.min_horizontal("a", "district"),
        pl.max_horizontal("a", "district", None),
        pl.max_horizontal(a, pl.lit("b")),
        a.clip("district", "district"),
        pl.min_horizontal(pl.coalesce("a", "district"), "district"),
        pl.min_horizontal(pl.when(a == "b").then("a"), "district"),
        a.clip(pl.lit("b"), pl.lit("c")) == "b",
    ],
    ids=str,
)
def test_the_least_of_what_may_be_categorical_is_refused(expression):
    """The order of labels is that in which the process has met them, in private columns too."""
    with pytest.raises(Refused, match="may compare Categoricals"):
        read_public(expression, {"a", "district"})
    with pytest.raises(Refused, match="may compare Categoricals"):
        read_public(expression, {"a": pl.Categorical(), "district": pl.Categorical()})


@pytest.mark.parametrize(
    "expression",
    [
        a.clip(0, 9),
        pl.min_horizontal("a", 3),
        pl.max_horizontal("a", "month", 0),
        pl.max_horizontal("day", dt.date(2026, 1, 1)),
        pl.min_horizontal(a.cast(pl.Float64), "month"),
        pl.min_horizontal(day.dt.month(), "month"),
        pl.min_horizontal(pl.col("name").cast(pl.String), pl.col("district").cast(pl.String)),
    ],
    ids=str,
)
def test_the_least_of_numbers_dates_and_texts_is_let_through(expression):
    assert read_public(expression, KNOWN) is expression
    labels = pl.DataFrame(
        {name: ["b"] for name in KNOWN}, schema=dict.fromkeys(KNOWN, pl.Categorical)
    )
    if "cast" not in str(expression) and "month" not in str(expression.meta.root_names()):
        with pytest.raises(
            pl.exceptions.PolarsError
        ):  # nor does Polars compare them with Categoricals
            labels.select(expression)


def test_columns_whose_types_are_told_may_be_compared():
    expression = pl.min_horizontal("a", "month")
    assert read_public(expression, {"a": pl.Int64(), "month": pl.Float64()}) is expression
