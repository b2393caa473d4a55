"""Releases for pages, made by hand: over days, hours and names, with numbers that are missing or without end."""

import math
from datetime import date, datetime, timedelta

import polars as pl

DAY = date(2026, 11, 2)
START = datetime(2026, 1, 1)  # noqa: DTZ001 - local time, as keys may be
HOSTILE = (
    '<script>alert("x")</script>',
    "'\"><img src=x onerror=alert(1)>",
    "$\\frac{1}{0}$ & &amp; %s {0}",
    "\u05de\u05d7\u05d5\u05d6\u200f \u05e6\u05e4\u05d5\u05df 🐡\nline two\x00\x1b",
    "very" * 60,
    "</svg></title><b>q00000q</b>",
)


def days(count=7):
    """A release by days."""
    marks = [DAY + timedelta(days=number) for number in range(count)]
    load = [5962.6 + 300 * math.sin(number) for number in range(count)]
    peaks = [700.0 + 150 * math.cos(number) for number in range(count)]
    return with_bars(
        pl.DataFrame({"day": marks, "load": load, "peaks": peaks}), load=312.9, peaks=104.3
    )


def with_bars(frame, **halves):
    """A frame and its intervals."""
    ends = {}
    for name, half in halves.items():
        ends |= {f"{name}_low": frame[name] - half, f"{name}_high": frame[name] + half}
    return frame, pl.DataFrame(ends)


def names(count=7, label="district {}"):
    """A release by names."""
    frame = pl.DataFrame(
        {
            "district": [label.format(n) for n in range(count)],
            "load": [30.0 + 7 * (n % 5) for n in range(count)],
        }
    )
    return with_bars(frame, load=11.0)


def broken():
    """Numbers that are missing, intervals without an end, keys that are missing or not numbers."""
    nan, inf = math.nan, math.inf
    frame = pl.DataFrame(
        {"x": [1.0, nan, None, 4.0, inf, 6.0], "load": [1.5, 2.0, 3.0, None, nan, 1e300]}
    )
    low = pl.Series([-inf, 1.0, 2.0, None, nan, -1e308])
    return frame, pl.DataFrame(
        {"load_low": low, "load_high": pl.Series([inf, 3.0, inf, None, nan, 1e308])}
    )


def two_keys():
    """Days and districts, hours within days."""
    rows = [(DAY + timedelta(days=day), name) for day in range(5) for name in ("north", "south")]
    frame = pl.DataFrame(rows, schema=["day", "district"], orient="row")
    return with_bars(
        frame.with_columns(load=pl.Series([100.0 + 9 * n for n in range(10)])), load=30.0
    )


def hours(count=5000):
    """A long series of hours."""
    marks = pl.Series([START + timedelta(hours=n) for n in range(count)])
    load = pl.Series(
        [100 + 40 * math.sin(n / 24 / 30) + 20 * math.sin(n / 4) for n in range(count)]
    )
    return with_bars(pl.DataFrame({"hour": marks, "load": load}), load=25.0)


def single(outputs=1):
    """One row, one or several outputs."""
    frame = pl.DataFrame({f"level_{n}": [100.0 * n + 40] for n in range(outputs)})
    return with_bars(frame, **dict.fromkeys(frame.columns, 13.0))


def hostile_names():
    """Names of columns and groups that try to be something else."""
    script, _, mathematics, other_way, _, ends = HOSTILE
    frame = pl.DataFrame({mathematics: list(HOSTILE), script: [10.0 * n for n in range(6)]})
    return with_bars(frame.rename({mathematics: ends + other_way}), **{script: 4.0})


FRAMES = {
    "days": days,
    "one-day": lambda: days(1),
    "year": lambda: days(365),
    "hours": hours,
    "names": names,
    "long-names": lambda: names(9, "the very long name of the district number {}"),
    "many-names": lambda: names(300),
    "two-keys": two_keys,
    "single": single,
    "many-outputs": lambda: single(30),
    "broken": broken,
    "hostile": hostile_names,
    "empty": lambda: tuple(part.clear() for part in days()),
}
