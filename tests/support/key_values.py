"""Key columns of every type, with values that are easily taken for each other."""

import datetime as dt
from decimal import Decimal

import polars as pl

KEYS = {
    "numbers": (pl.Int64, [3, -(2**62), 2**62]),
    "unsigned numbers": (pl.UInt64, [0, 2**64 - 1, 7]),
    "long numbers": (pl.Int128, [0, 2**100, 7]),
    "texts": (pl.String, ["", "north", "süd"]),
    "bytes": (pl.Binary, [b"", b"\xff", b"a"]),
    "categories": (pl.Categorical, ["b", "a", "c"]),
    "an enum": (pl.Enum(["c", "a", "b"]), ["b", "a", "c"]),
    "truths": (pl.Boolean, [True, False]),
    "dates": (pl.Date, [dt.date(2026, 1, 1), dt.date(1960, 2, 29)]),
    "times": (
        pl.Datetime("us", "Europe/Berlin"),
        [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC)],
    ),
    "decimals": (pl.Decimal(20, 2), [Decimal("0.10"), Decimal("-7.25")]),
    "floats": (pl.Float64, [float("nan"), 0.0, -0.0, float("inf"), 1.5]),
    "structs": (pl.Struct({"a": pl.Int8}), [{"a": 1}, {"a": None}]),
    "lists": (pl.List(pl.Int8), [[1], [], [1, None]]),
    "lists of floats": (pl.List(pl.Float64), [[float("nan")], [0.0, float("nan")], []]),
    "structs of floats": (pl.Struct({"a": pl.Float32}), [{"a": float("nan")}, {"a": 1.0}]),
    "short floats": (pl.Float32, [float("nan"), -0.0, 0.0]),
    "nothing": (pl.Null, [None]),
}
