"""What functions and casts may be given so that they stop at no value: found by trying them on the farthest values."""

from collections.abc import Collection
from typing import Final

from pufferflow.expressions.kinds import NUMBERS, Kind

_ZONED: Final = "moment in …"
"""Moments in any time zone."""
_DATES: Final = frozenset[Kind]({"date", "moment", _ZONED})
_TEXTS: Final = frozenset[Kind]({"text", "any"})
_LABELS: Final = frozenset[Kind]({"label", "any"})
_UTC: Final = frozenset[Kind]({"date", "moment", "moment in UTC"})
_CALENDAR: Final = frozenset[Kind]({*_DATES, "any"})
_CLOCK: Final = frozenset[Kind]({"moment", _ZONED, "time", "any"})
_SIMPLE: Final = frozenset[Kind]({*NUMBERS, *_DATES, "text", "label", "time", "span", "null", "any"})

FIRST: Final[dict[str, frozenset[Kind]]] = {
    **dict.fromkeys(("is_null", "is_not_null", "is_in", "replace", "replace_strict"), _SIMPLE),
    **dict.fromkeys(("is_nan", "is_not_nan", "is_finite", "is_infinite"), frozenset[Kind]({"number", "any"})),
    "not": frozenset[Kind]({"truth", "any"}),
    "abs": frozenset[Kind]({"number", "span", "any"}),
    "sign": frozenset[Kind]({"number", "any"}),
    **dict.fromkeys(("floor", "ceil", "round", "round_sig_figs", "truncate", "is_close"), frozenset[Kind]({"number"})),
    **dict.fromkeys(("sqrt", "cbrt", "exp", "log", "log1p", "degrees", "radians"), frozenset[Kind]({"number"})),
    **dict.fromkeys(("sin", "cos", "tan", "cot", "arcsin", "arccos", "arctan"), frozenset[Kind]({"number"})),
    **dict.fromkeys(("sinh", "cosh", "tanh"), frozenset[Kind]({"number"})),
    **{f"str.{name}": _TEXTS for name in ("starts_with", "ends_with", "contains", "contains_any", "find")},
    **{f"str.{name}": _TEXTS for name in ("count_matches", "len_chars", "len_bytes", "to_lowercase", "to_uppercase")},
    **{f"str.{name}": _TEXTS for name in ("to_titlecase", "head", "tail", "slice", "reverse", "normalize")},
    **{f"str.{name}": _TEXTS for name in ("strip_chars", "strip_chars_start", "strip_chars_end", "strip_prefix")},
    **{f"str.{name}": _TEXTS for name in ("strip_suffix", "to_integer", "strptime")},
    **{f"cat.{name}": _LABELS for name in ("starts_with", "ends_with", "len_chars", "len_bytes")},
    **{
        f"dt.{name}": _CALENDAR
        for name in ("millennium", "century", "year", "quarter", "month", "week", "weekday", "day")
    },
    **{f"dt.{name}": _CLOCK for name in ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond")},
    **{f"dt.{name}": _UTC for name in ("iso_year", "is_leap_year", "days_in_month", "ordinal_day")},
    "dt.date": _UTC,
    "dt.time": frozenset[Kind]({"moment", "moment in UTC"}),
    "dt.truncate": _UTC,
    "dt.timestamp": _DATES,
    **{f"dt.total_{unit}s": frozenset[Kind]({"span", "any"}) for unit in ("day", "hour", "minute", "second")},
    **{f"dt.total_{unit}seconds": frozenset[Kind]({"span", "any"}) for unit in ("milli", "micro", "nano")},
    "dt.convert_time_zone": frozenset[Kind]({"moment", _ZONED, "any"}),
}
"""Functions of one part, with literals: what the part may be."""
ALL: Final[dict[str, frozenset[Kind]]] = {
    **dict.fromkeys(("all_horizontal", "any_horizontal"), frozenset[Kind]({"truth", "null"})),
    **dict.fromkeys(("sum_horizontal", "mean_horizontal"), NUMBERS),
    **dict.fromkeys(("concat_str", "format"), frozenset[Kind]({*NUMBERS, "text", "label"})),
}
"""Functions of several parts: what each may be."""
CASTS: Final[dict[Kind, frozenset[Kind]]] = {
    "number": frozenset({*NUMBERS, *_DATES, "text", "time", "span", "null"}),
    "truth": frozenset({*NUMBERS, "null"}),
    "text": frozenset({*NUMBERS, "text", "label", "null"}),
    "label": frozenset({"text", "label", "null"}),
    "date": frozenset({"number", *_DATES, "null"}),
    "moment": frozenset({"number", *_DATES, "null"}),
    _ZONED: frozenset({"number", *_DATES, "null"}),
}
"""What may be cast to what, with strict=False."""


def accepts(kinds: Collection[Kind], kind: Kind) -> bool:
    """Return whether a kind is among some, by itself or as a moment in any time zone."""
    return kind in kinds or (kind.startswith("moment in ") and _ZONED in kinds)


def castable(kind: Kind, to: Kind) -> bool:
    """Return whether a cast with strict=False gives something for every value."""
    return accepts(CASTS.get(_ZONED if to.startswith("moment in ") else to, ()), kind)
