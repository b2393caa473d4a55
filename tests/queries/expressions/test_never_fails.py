"""Where it is secret which rows there are, only expressions that give something for every value are let through."""

import datetime as dt
import math
from decimal import Decimal

import polars as pl
import pytest

from pufferflow.core.errors import UsageError
from pufferflow.queries.expressions.public import read_public

MOST, LEAST = 2**63 - 1, -(2**63)
MOMENTS = [0, 1, -1, MOST, LEAST, MOST // 1000, LEAST // 1000, 2**62, 1_792_890_000_000_000, None]
TYPES = {
    "small": pl.Int8(),
    "whole": pl.Int64(),
    "count": pl.UInt64(),
    "real": pl.Float64(),
    "flag": pl.Boolean(),
    "text": pl.String(),
    "label": pl.Categorical(),
    "kind": pl.Enum(["b", "a"]),
    "day": pl.Date(),
    "hour": pl.Datetime("us"),
    "fine": pl.Datetime("ns", "UTC"),
    "local": pl.Datetime("ms", "Europe/Berlin"),
    "clock": pl.Time(),
    "span": pl.Duration("us"),
    "money": pl.Decimal(38, 0),
    "huge": pl.Int128(),
    "bytes": pl.Binary(),
    "list": pl.List(pl.Int64()),
    "pair": pl.Struct({"x": pl.Int64(), "y": pl.String()}),
}
ODD = {"money", "huge", "bytes", "list", "pair"}
TEXTS = [
    "",
    "a",
    "ä(",
    "2026-01-01",
    "2026-03-29 02:30",
    "1e400",
    "99999999999999999999",
    "\\",
    "\x00",
    None,
]


def held(name):
    """Return the values of a type that are likely to stop something."""
    kind = TYPES[name]
    if kind.is_integer():
        top = {pl.Int8: 127, pl.UInt64: 2**64 - 1}.get(type(kind), MOST)
        values = [0, 1, 12, top, 0 if kind.is_unsigned_integer() else -top - 1, None]
        return pl.Series(values, dtype=kind)
    if kind.is_temporal():
        days, clock = isinstance(kind, pl.Date), isinstance(kind, pl.Time)
        some = (
            [0, 2**31 - 1, -(2**31), 95_026_601, None]
            if days
            else [0, 86_399_999_999_999]
            if clock
            else MOMENTS
        )
        return pl.Series(some, dtype=pl.Int32 if days else pl.Int64).cast(kind)
    values = {
        "real": [0.0, -1.5, math.nan, math.inf, -math.inf, 1e308, 5e-324, None],
        "flag": [True, False, None],
        "label": ["b", "a", "", None],
        "kind": ["b", "a", None],
        "money": [Decimal("9" * 38), Decimal("-" + "9" * 38), None],
        "bytes": [b"\xff\xfe", b"a", None],
        "list": [[1], [], None],
        "pair": [{"x": 1, "y": "a"}, None],
    }
    return pl.Series(values.get(name, TEXTS), dtype=kind)


def outcome(expression, **columns):
    """Return whether Polars stops at the types, at a value, or not at all."""
    frame = pl.DataFrame({"": [0]})
    for column, name in columns.items():
        frame = frame.join(pl.DataFrame({column: held(name)}), how="cross")
    rows = frame.lazy().select(expression.alias("it"))
    try:
        rows.collect_schema()
        frame.clear().lazy().select(expression.alias("it")).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return "types"
    try:
        rows.collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return "value"
    return "none"


c = pl.col
TOTAL = [
    c("text") == "a",
    c("label") == "zz",
    c("kind").is_in(["a", "zz"]),
    c("label").fill_null("?"),
    c("label").cat.starts_with("a"),
    c("day") >= dt.date(2026, 1, 1),
    c("day") >= dt.datetime.fromisoformat("2026-01-01"),
    c("hour") > c("day"),
    c("hour") < dt.date(2026, 1, 1),
    c("day") - c("hour"),
    c("local") - c("local"),
    c("fine") >= dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    c("local") > c("day"),
    c("hour") + c("span"),
    c("day") + dt.timedelta(days=10**6),
    (c("hour") - dt.datetime.fromisoformat("2026-01-01")).dt.total_hours(),
    c("day") == pl.date(2026, 1, 1),
    c("whole") + c("small") * c("count") - 2**70,
    c("count") * -3 // 0 % 7,
    c("whole") / c("small"),
    (c("small") > 1) | c("flag") & ~c("flag"),
    c("real").round(1).clip(0, 1).floor(),
    c("real").log().sqrt().round_sig_figs(2),
    c("real").is_between(c("small"), c("count")),
    c("text").is_between(pl.lit("a"), pl.lit("b")),
    c("whole").abs().sign(),
    pl.min_horizontal("small", "count", 2.5),
    pl.max_horizontal("day", dt.date(2026, 1, 1)),
    pl.sum_horizontal("small", "flag"),
    pl.any_horizontal(c("small") > 1, "flag"),
    pl.concat_str("text", "small", "label"),
    pl.format("{}/{}", "text", "real"),
    pl.coalesce("hour", dt.datetime.fromisoformat("2026-01-01")),
    pl.when(c("small") > 3).then("count").otherwise(0),
    c("whole").fill_null(-1),
    pl.when(c("flag")).then(c("text")),
    c("day").fill_null(dt.date(2026, 1, 1)),
    c("text") + "!",
    c("text").str.to_lowercase().str.head(1),
    c("text").str.slice(2**62, 2**62).str.len_chars(),
    c("text").str.contains("(", literal=True),
    c("text").str.find("(", literal=True),
    c("text").str.contains_any(["a", "("]),
    c("text").str.to_integer(base=36, strict=False),
    c("text").str.to_date("%Y-%m-%d", strict=False),
    c("text").str.to_datetime("%Y-%m-%d %H:%M", strict=False),
    c("text").str.to_datetime("%Y-%m-%d %H:%M", strict=False).dt.truncate("15m"),
    c("text").str.to_time("%H", strict=False),
    c("text").replace({"a": "b"}),
    c("whole").replace({1: 300}),
    c("small").replace_strict({1: "x"}, default=None),
    c("day").replace_strict({dt.date(2026, 1, 1): 1}, default=0, return_dtype=pl.Int8) + 1,
    *(c(name).dt.hour() for name in ("hour", "fine", "local", "clock")),
    *(c(name).dt.month() * 100 + c(name).dt.day() for name in ("day", "hour", "fine", "local")),
    *(c(name).dt.date() for name in ("hour", "fine")),
    *(c(name).dt.truncate("1d") for name in ("day", "hour", "fine")),
    c("hour").dt.truncate("9999w"),
    c("local").dt.convert_time_zone("UTC").dt.truncate("1d").dt.date(),
    c("hour").dt.convert_time_zone("Europe/Berlin").dt.weekday(),
    c("day").dt.days_in_month(),
    c("span").dt.total_days() // 7,
    *(
        c(name).cast(pl.Int8, strict=False)
        for name in ("text", "real", "count", "day", "local", "span", "clock")
    ),
    *(
        c(name).cast(pl.String, strict=False)
        for name in ("text", "real", "count", "flag", "label", "kind")
    ),
    *(c(name).cast(pl.Date, strict=False) for name in ("whole", "real", "hour", "local")),
    c("whole").cast(pl.Datetime("ms", "Europe/Berlin"), strict=False),
    c("text").cast(pl.Enum(["a"]), strict=False),
    c("real").cast(pl.Int8, wrap_numerical=True),
    c("real").cast(pl.Boolean, strict=False),
    pl.lit("all").alias("everything"),
    *(c(name).is_null() for name in TYPES if name not in ODD),
    *(c(name).is_in([None]) for name in TYPES if name not in ODD),
]
STOPPING = [
    c("day").dt.add_business_days(1),
    c("day").dt.is_business_day(holidays=[dt.date(2026, 1, 1)]),
    c("day").dt.replace(month=2),
    pl.datetime(2026, c("small"), 1),
    pl.duration(hours=c("count")),
    c("hour").dt.offset_by(c("text")),
    c("hour").dt.offset_by("1mo"),
    c("hour").dt.truncate(c("text")),
    c("hour").dt.truncate("1mo"),
    c("local").dt.truncate("1d"),
    c("local").dt.date(),
    c("local").dt.replace_time_zone(None),
    c("local").dt.cast_time_unit("ns"),
    c("day").dt.month_start(),
    c("day").dt.strftime("%Y"),
    c("day").cast(pl.String, strict=False),
    c("day").fill_null("?"),
    pl.concat_str("day", "text"),
    pl.coalesce("day", "hour"),
    pl.when(c("flag")).then("day").otherwise("hour"),
    c("day").is_between("hour", "hour"),
    pl.min_horizontal("day", "count", 1),
    c("label").cast(pl.Int8, strict=False),
    c("text").cast(pl.Boolean, strict=False),
    c("text").cast(pl.Date, strict=False),
    c("flag").cast(pl.Decimal(10, 2), strict=False),
    c("text").cast(pl.Int8),
    c("text").str.to_integer(),
    c("text").str.to_integer(base=c("small"), strict=False),
    c("text").str.to_integer(base=99, strict=False),
    c("text").str.to_date("%Y"),
    c("text").str.to_datetime("%Y-%m-%d %H:%M", time_zone="Europe/Berlin", strict=False),
    c("text").str.count_matches(c("text")),
    c("text").str.contains(c("text")),
    c("text").str.contains("("),
    c("text").str.extract(c("text")),
    c("text").str.find(c("text")),
    c("text").str.zfill(c("small")),
    c("text").str.pad_start(c("small")),
    c("text").str.pad_start(10**18),
    c("text").str.slice(c("small"), c("small")),
    c("text").replace_strict({"x": 1}),
    c("kind") < c("text"),
    2 ** c("small"),
    c("small") ** c("small"),
    pl.any_horizontal("text"),
    c("count").fill_null(-1),
    pl.when(c("flag")).then("count").otherwise(-1),
    pl.sum_horizontal("count", -1),
    pl.coalesce("count", -1),
    c("count").is_close(-1),
    c("count").is_close(dt.timedelta(1)),
    (c("flag") == pl.lit(None)) * 2,
    (c("small") & 3) | c("real"),
    c("small").replace_strict({1: "x"}, default=0),
    c("money") * c("money"),
    c("money") + 1,
    c("money") < 1,
    c("small") * Decimal("1.5"),
    c("huge") < Decimal("1.5"),
    c("list") == 3,
    c("pair") == 3,
    c("bytes").cast(pl.String, strict=False),
    c("small").cast(pl.Int128, strict=False),
    c("list").cast(pl.Int8, strict=False),
]


@pytest.mark.parametrize("expression", TOTAL, ids=str)
def test_what_is_let_through_stops_at_no_value(expression):
    assert read_public(expression, TYPES, never_fails=True) is expression
    assert outcome(expression, **{name: name for name in expression.meta.root_names()}) == "none"


@pytest.mark.parametrize("expression", STOPPING, ids=str)
def test_what_may_stop_at_a_value_is_refused_where_rows_are_secret(expression):
    """An error at one value would tell that its row is there; types that are not told may be any."""
    assert read_public(expression, TYPES) is expression
    for known in (TYPES, set(TYPES)):
        if known is TYPES or not (set(expression.meta.root_names()) & ODD):
            with pytest.raises(UsageError, match="would reveal that a row is there") as caught:
                read_public(expression, known, never_fails=True)
            assert len(str(caught.value).splitlines()) <= 5


LATE = [
    c("hour").replace_strict({-2.5: "x"}, default=None),
    c("text").replace({"a": 1}),
    c("hour") == c("fine"),
    c("hour") == dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    c("fine") - c("local"),
    c("kind") == c("label"),
    c("kind") < "zz",
    c("small").is_between(0, None),
    c("flag") - c("flag"),
    -c("flag"),
    c("flag").clip(0, 1),
    c("small") == pl.lit(None),
    ~c("real"),
]


@pytest.mark.parametrize("expression", LATE, ids=str)
def test_types_that_polars_would_find_out_about_late_are_refused_where_they_are_told(expression):
    """Rows that are there, whatever their values, must not make the difference either."""
    with pytest.raises(UsageError, match="would reveal that a row is there"):
        read_public(expression, TYPES, never_fails=True)


x = c("x")
ANY_TYPE = [
    x == "a",
    x <= 3,
    x != dt.date(2026, 1, 1),
    x.is_in(["a"]),
    x.is_null() | x.is_nan(),
    x + 1.5,
    2.5 * x,
    x.fill_null(0),
    x.is_between(1, 2),
    x.dt.hour(),
    x.dt.day() * 2,
    x.dt.convert_time_zone("UTC").dt.date(),
    x.str.starts_with("a"),
    x.str.to_date("%Y-%m-%d", strict=False).dt.month(),
    x.cat.len_chars(),
    x.replace({1: 2}),
    x.replace_strict({"a": 1}, default=0),
    pl.when(x == 1).then(x),
    ~x,
    x.dt.total_hours(),
]


@pytest.mark.parametrize("expression", ANY_TYPE, ids=str)
def test_what_is_let_through_for_columns_of_untold_types_stops_at_no_value_of_any(expression):
    assert read_public(expression, {"x"}, never_fails=True) is expression
    for name in TYPES:
        if name not in {"list", "pair", "span"}:
            assert outcome(expression, x=name) != "value"


@pytest.mark.parametrize(
    "expression",
    [
        x + 1,
        x * x,
        x // 2,
        x == c("y"),
        x.cast(pl.Int8, strict=False),
        x.fill_null("?"),
        x.fill_null(dt.date(2026, 1, 1)),
        x.is_between(dt.date(2026, 1, 1), dt.date(2026, 1, 2)),
        x.dt.date(),
        x.dt.truncate("1d"),
        pl.coalesce("x", "y"),
        pl.when(x == 1).then(x).otherwise(0),
        pl.any_horizontal("x"),
        x.round(1),
    ],
    ids=str,
)
def test_what_stops_at_values_of_some_type_needs_types(expression):
    with pytest.raises(UsageError, match="would reveal that a row is there"):
        read_public(expression, {"x", "y"}, never_fails=True)
    for known in ("small", "hour"):
        told = {"x": TYPES[known], "y": TYPES[known]}
        try:
            read_public(expression, told, never_fails=True)
        except UsageError:
            continue
        break
    else:
        assert (
            "fill_null" in str(expression)
            or "any_horizontal" in str(expression)
            or "is_between" in str(expression)
        )
