"""The self-test of an engine before it reads a row: its answers on difficult rows must equal those of Polars.

The rows stand in the queries themselves, so nothing is written anywhere. They have what machines differ in:

- numbers: NaN and infinities, zeros of both signs, the neighbours of every limit, the smallest and largest, decimals
- texts: empty ones, blanks at the end, case, letters composed in two ways, quotes, backslashes, texts of 300 letters
- null, dates and moments before 1970, equal rows, and more rows than a short page of results has
"""

import hashlib
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from typing import Any, Final, final

import polars as pl

from pufferflow.core.arrays import Array
from pufferflow.core.errors import SourceError, UsageError
from pufferflow.core.progress import working
from pufferflow.engines.backend import Backend, Query, columns_read
from pufferflow.engines.polars_engine import PolarsEngine
from pufferflow.engines.remote import RemoteEngine
from pufferflow.models.domain import (
    MISSING,
    SKIP,
    Bins,
    Domain,
    Interval,
    Listed,
    Product,
    skipping,
)
from pufferflow.models.priors.simple import Independent
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Secret
from pufferflow.queries.engine_interface import (
    BY_POSITION,
    UNORDERED,
    Engine,
    Measure,
    Patterns,
    PositionMode,
    Selection,
    Tally,
    UnitLimit,
)
from pufferflow.queries.expressions.compiler import read_values

_LIMITS: Final = (-1.0, 0.1, 0.30000000000000004, 1.5, 2.5, 1e-3, 62.248583)
"""The last is a number that a reader of decimals in common use takes for its neighbour."""
_NUMBERS: Final = (
    *(
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
        1e-30,
        1e16,
        -1e16,
        1e300,
        -1e308,
        1.7976931348623157e308,
    ),
    *(math.inf, -math.inf, math.nan, None, 2.0, 3.5, -2.5, 0.5, 7.0),
    *(math.nextafter(limit, side) for limit in _LIMITS for side in (-math.inf, math.inf)),
    *_LIMITS,
    *(halves * 2.0**-28 for halves in (1, 3, 5, -1, -3)),  # whose steps end in a half
)
_WHOLE: Final = (
    None,
    0,
    1,
    -1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**31,
    -(2**31) - 1,
)
_TEXTS: Final = (
    *(
        "a",
        "a ",
        " a",
        "A",
        "",
        "b",
        "ä",
        "a\u0308",
        "ß",
        "ss",
        "it's",
        'say "so"',
        "back\\slash",
        "%",
        "_",
        "\n",
        None,
    ),
    *("\u1e9e", "\ud7ff", "\U0001f600", "null", "NaN", "0", "c", "d", "e", "B"),
)
_NAMES: Final = (
    "b",
    "ac",
    "B",
    "AC",
    "a-a",
    "aa",
    "a a",
    "\u00e4",
    "a\u0308",
    "\uffee",
    "\U0001f600",
    "ab",
    None,
    "_",
    "0",
)
"""Texts in whose order machines differ, none the beginning of another after which a mark at its end would come."""
_LONG: Final = tuple("x" * 300 + end for end in "ab")
_DAYS: Final = (
    date(1969, 12, 31),
    date(1970, 1, 1),
    date(1900, 3, 1),
    None,
    date(2024, 2, 29),
    date(1, 1, 1),
)
_EARLY: Final = (
    *(
        datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
        datetime(1969, 12, 31, 23, 59, 59, 500_000),  # noqa: DTZ001
        None,
    ),
    *(datetime(1901, 1, 1, 12), datetime(1970, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - moments without a zone
)
_AMOUNTS: Final = (
    *map(Decimal, ("-0.01", "0", "0.01", "12345678.90", "-12345678.91", "2.50")),
    None,
)
_SIZE: Final = 100
_START: Final = datetime(2026, 3, 28, 22)  # noqa: DTZ001 - moments without a zone, across a night with one hour less


@cache
def rows() -> pl.DataFrame:
    """Return the rows."""
    size = _SIZE

    def repeated(values: tuple[Any, ...]) -> list[Any]:
        return list(itertools.islice(itertools.cycle(values), size))

    lengths = (4, 4, 3, 1, 6)  # of groups: some are alike, and those of 6 have a gap
    places = [
        (group, place)
        for group, length in enumerate(itertools.islice(itertools.cycle(lengths), size))
        for place in range(length)
    ][:size]
    moments = [_START + timedelta(hours=place + (place > 3)) for _, place in places]
    before = [moment.replace(year=1966) for moment in moments]
    again = [
        _START + timedelta(hours=place * ((group, place) != (2, 1))) for group, place in places
    ]  # one is twice
    return pl.DataFrame(
        {
            "number": pl.Series(repeated(_NUMBERS), dtype=pl.Float64),
            "whole": pl.Series(repeated(_WHOLE), dtype=pl.Int64),
            "text": pl.Series(repeated(_TEXTS), dtype=pl.String),
            "truth": pl.Series(repeated((True, False, None)), dtype=pl.Boolean),
            "key": pl.Series(repeated(_TEXTS[1:]), dtype=pl.String),
            "share": pl.Series(
                repeated((0.5, None, math.inf, -0.0, 1e-300, -2.25, 0.0, math.nan)),
                dtype=pl.Float64,
            ),
            "group": pl.Series([group or None for group, _ in places], dtype=pl.Int64),
            "moment": pl.Series(moments, dtype=pl.Datetime("us")),
            "again": pl.Series(again, dtype=pl.Datetime("us")),
            "name": pl.Series(repeated(_NAMES), dtype=pl.String),
            "line": pl.Series(range(size), dtype=pl.Int64),
            "day": pl.Series(repeated(_DAYS), dtype=pl.Date),
            "early": pl.Series(repeated(_EARLY), dtype=pl.Datetime("us")),
            "before": pl.Series(before, dtype=pl.Datetime("us")),
            "amount": pl.Series(repeated(_AMOUNTS), dtype=pl.Decimal(10, 2)),
            "long": pl.Series(repeated((*_LONG, *_TEXTS)), dtype=pl.String),
            "twin": pl.Series([place // 2 % 5 for place in range(size)], dtype=pl.Int64),
            "room": pl.Series(
                [(group == 2) + (place == 2 and group % 3 == 0) for group, place in places]
            ),
        }
    )


def _measures() -> Iterator[Measure]:
    """Yield sums that are read in each of the ways there are."""
    number, whole, text, labels = pl.col("number"), pl.col("whole"), pl.col("text"), _labels()
    wide, tiny = Interval(-3, 7), Interval(-1e80, 1e80)
    split = pl.when(number < 1.5).then(number * 2).otherwise(-number)
    asked: list[tuple[str, pl.Expr, Domain, Any]] = [
        *(
            ("number", one, wide, 1.5)
            for one in (number, number * 0.3 - 1, number.clip(0.1, 2.5), number.abs())
        ),
        *(
            ("number", one, wide, 1.5)
            for one in (number > 0.1, number < 0.30000000000000004, split)
        ),
        ("number", number, tiny, 0.0),
        ("number", number > 62.248583, Interval(0, 99), 0.0),
        ("number", number, Bins([-1.0, 0.1, 1.5, 2.5], [0.0, 1.0, 2.0]), 1.0),
        ("number", number, Listed((0.2, 0.4, 2.0, 3.0)), 0.2),
        ("whole", whole, Listed((0, 1)), 0),
        ("whole", whole, Listed(tuple(range(10))), 3),
        ("whole", whole * whole, Listed(tuple(range(10))), 4),
        ("truth", pl.col("truth"), Listed((0, 1)), 1),
        ("text", text == "a", Listed(("a", "b", "A", "")), "b"),
        ("text", text.is_in(["a ", "it's", "back\\slash", "a\u0308"]), Listed(tuple(labels)), "a"),
    ]
    amount, skips = pl.col("amount"), partial(skipping, missing=SKIP)
    asked += [
        ("amount", amount, wide, 1.5),
        ("amount", amount, Listed((0, 1, 5)), 5),
        ("long", pl.col("long") == _LONG[0], Listed((*_LONG, "a")), "a"),
        *(
            ("number", one, skips(wide), MISSING)
            for one in (number, number * 0.3 - 1, number > 0.1, number.is_null())
        ),
        ("whole", whole, skips(Listed(tuple(range(10)))), MISSING),
        ("text", text == "a", skips(Listed(("a", "b", "A", ""))), MISSING),
    ]
    yield from (
        Measure(read_values(one, {column: domain}), missing)
        for column, one, domain, missing in asked
    )
    for domain, missing in ((wide, 0.0), (skips(wide), MISSING)):
        yield Measure(read_values(number, {"number": domain}).squared(Fraction(1, 3)), missing)


def _of_many_classes() -> Iterator[Measure]:
    """Yield sums for which rows are numbered by their classes."""
    sevenths, threes = (
        Listed(tuple(place / 7 for place in range(90))),
        Listed(tuple(3 * place for place in range(80))),
    )
    labels, places = Listed(tuple(_labels())), {one: place for place, one in enumerate(_labels())}
    yield Measure(read_values("number", {"number": sevenths}), 0.0)
    yield Measure(read_values("whole", {"whole": threes}), 0)
    yield Measure(
        read_values(pl.col("text").replace_strict(places, default=0), {"text": labels}), "a"
    )
    few = [Listed((0.0, 1.0, 2.5)), Listed(("a", "A", "")), Listed((-1, 0, 2))]
    tuples = Product(("number", "text", "whole"), tuple(few), (1.0, "A", 0))
    of_all = (
        pl.col("number") * (pl.col("text") == "a")
        + 8 * pl.col("whole")
        + 64 * (pl.col("text") == "")
    )
    domains = dict(zip(tuples.columns, few, strict=True))
    yield Measure(read_values(of_all, domains, tuples=tuples), tuples.points[0])


def _labels() -> list[str]:
    return [
        *(text for text in _TEXTS if text is not None),
        *(f"label {place}" for place in range(20)),
    ]


_PUBLIC: Final = (
    *("key", "share", "group", "moment", "again", "room"),
    *("day", "early", "before", "amount", "long", "twin"),
)
_LEAP: Final = 2024
_HOUR: Final = (pl.col("moment").dt.hour() // 2).alias("part")
_SELECTIONS: Final = (
    Selection(_PUBLIC, by=("share",)),  # neighbours among the values have different ones
    Selection(_PUBLIC, by=("key", "room")),
    Selection(_PUBLIC),
    Selection(_PUBLIC, derived=(("part", _HOUR),), filters=(pl.col("key") != "a",), by=("part",)),
    Selection(_PUBLIC, filters=(pl.col("day").dt.year() < _LEAP,), by=("day", "amount")),
    Selection(_PUBLIC, by=("early",)),
    Selection(_PUBLIC, by=("long", "twin")),
    Selection(
        _PUBLIC, derived=(("inverse", (1 / pl.col("share")).alias("inverse")),), by=("inverse",)
    ),
)
_LIMITED: Final = tuple(
    Selection((*_PUBLIC, "line"), by=("line",), limit=limit)  # which shows the rows that are read
    for limit in (
        UnitLimit("key", 1, ("line",)),
        UnitLimit("room", 7, ("share", "line")),
        UnitLimit("share", 3, ("name", "line")),
        UnitLimit("room", 2, ("line",), ("share", "key"), 3),
        UnitLimit(
            "room", 1, ("line",), ("twin",), 2
        ),  # of rows of a unit in one group, and groups with several
        UnitLimit("twin", 3, ("day", "early", "amount", "long", "line")),
    )
)
_LIMITED_BEFORE: Final = Selection(
    _PUBLIC,
    (("part", _HOUR),),
    (pl.col("part") > 0,),
    ("part",),
    limit=UnitLimit("group", 2, ("moment",)),
)
_TIED: Final = Selection(
    _PUBLIC, by=("group",), limit=UnitLimit("group", 2, ("room",))
)  # any two rows of each group
_OF_ROWS: Final = (
    Selection(_PUBLIC, by=("room",)),
    Selection(_PUBLIC, derived=(("part", _HOUR),), filters=(pl.col("room") != 1,), by=("part",)),
)
_ORDERS: Final = (BY_POSITION, PositionMode(ordered=True, period=1), UNORDERED)


_PASSED = dict[Hashable, str]()


def check(backend: Backend) -> str:
    """Return the digest of the self-test of a machine, which is tested once in a process for its settings."""
    if backend.settings not in _PASSED:
        with working("testing the engine"):
            _PASSED[backend.settings] = digest(backend)
    return _PASSED[backend.settings]


def digest(backend: Backend) -> str:
    """Return a digest of the answers of a machine, which is the same on all; refuse one that answers otherwise.

    If floats cannot be NaN, the rows have null there; if there are no decimals, floats. The digest is the same on all
    such machines.
    """
    few = _held(has_nan=backend.has_nan, has_decimals=backend.has_decimals)
    truth = _truth(has_nan=backend.has_nan, has_decimals=backend.has_decimals)
    wrong = _wrong(RemoteEngine(_FewColumns(backend, few)), truth)
    if wrong:
        raise UsageError(
            f"{backend.name} {backend.version} does not pass the self-test: {wrong}. Nothing was read.",
            allowed="an engine that counts and adds up as Polars does, to the last digit",
            instead="the rows as a Parquet file, and pl.scan_parquet(…); or other settings of the connection",
        )
    return hashlib.sha256(repr(sorted(truth.items())).encode()).hexdigest()


@final
class _FewColumns(Backend):
    """A machine with the rows of the self-test, of which each query has the columns that it reads."""

    name = "self-test"

    def __init__(self, backend: Backend, rows: pl.DataFrame) -> None:
        self._backend, self._rows = backend, rows
        self.most_rows = backend.most_rows  # pyright: ignore[reportAttributeAccessIssue] - of that machine

    @property
    def table(self) -> pl.DataFrame:
        return self._rows

    @property
    def version(self) -> str:
        return self._backend.version

    @property
    def settings(self) -> Hashable:
        return self._backend.settings

    def schema(self) -> pl.Schema:
        return self._rows.schema

    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        return self.with_columns_of(query).run(query)

    def text(self, query: Query) -> str:
        return self.with_columns_of(query).text(query)

    def with_rows(self, rows: pl.DataFrame) -> "Backend":
        return _FewColumns(self._backend, rows)

    def with_columns_of(self, query: Query) -> Backend:
        """Return the machine with the columns of a query; with one of them where it only counts rows."""
        return self._backend.with_rows(self._rows.select(columns_read(query) or ("line",)))


def _wrong(engine: Engine, truth: Mapping[str, str]) -> str:
    """Return what is wrong with the first answer of an engine that is; empty if all are right."""
    try:
        differing = (what for what, answer in _answers(engine) if truth[what] != answer)
        return next((f"its answers differ, about {what}" for what in differing), "")
    except SourceError as error:
        return f"a query failed: {error.problem.removesuffix('.')}"


@cache
def _truth(*, has_nan: bool, has_decimals: bool) -> dict[str, str]:
    return dict(_answers(PolarsEngine(_held(has_nan=has_nan, has_decimals=has_decimals).lazy())))


def _held(*, has_nan: bool, has_decimals: bool) -> pl.DataFrame:
    """Return the rows as a machine can have them."""
    held = rows() if has_decimals else rows().with_columns(pl.col(pl.Decimal).cast(pl.Float64))
    return held if has_nan else held.with_columns(pl.col(pl.Float64).fill_nan(None))


def _answers(engine: Engine) -> Iterator[tuple[str, str]]:
    """Yield the answers of an engine as texts, each with what it is about: sums in all ways, patterns in all orders."""
    measures = list(_measures())
    batches = [
        (_SELECTIONS[0], measures),
        *((one, [measures[place]]) for place, one in enumerate(_SELECTIONS[1:])),
    ]
    classed = list(_of_many_classes())
    batches += [(_SELECTIONS[0], [one]) for one in classed]
    batches += [
        (_SELECTIONS[2], [one]) for one in measures if one.values.column == "truth"
    ]  # of which many are equal
    batches += [(one, []) for one in (*_LIMITED, _TIED)] + [
        (_LIMITED_BEFORE, [measures[0], classed[0]])
    ]
    for place, (selection, batch) in enumerate(batches):
        yield from _of_tally(engine.tally(selection, batch), batch, f"batch {place + 1}")
    scenario = _ordered_by("moment")
    for place, selection in enumerate(_OF_ROWS):
        found = engine.patterns(selection, scenario, _ORDERS)
        yield from (
            (f"rows in order, selection {place + 1}, {one}", _of_patterns(found[one]))
            for one in _ORDERS
        )
        unordered = engine.patterns(selection, scenario, [UNORDERED])[UNORDERED]
        yield f"rows without order, selection {place + 1}", _of_patterns(unordered)
    early = engine.patterns(_OF_ROWS[0], _ordered_by("before"), [BY_POSITION])[BY_POSITION]
    yield "rows in order before 1970", _of_patterns(early)
    twice = engine.patterns(_OF_ROWS[0], _ordered_by("again"), [BY_POSITION])[BY_POSITION]
    yield "rows with a moment that is there twice", _of_patterns(twice)


def _ordered_by(column: str) -> Scenario:
    whole = Secret("whole", domain=[0, 1])
    return Scenario(
        whole, Independent(), public=_PUBLIC, order_by=column, step="1h", within="group"
    )


def _of_tally(tally: Tally, measures: list[Measure], what: str) -> Iterator[tuple[str, str]]:
    yield f"the keys of {what}", "" if tally.keys is None else repr(tally.keys.rows())
    yield f"the rows of {what}", repr(tally.rows.tolist())
    for measure, sums in zip(measures, tally.sums.T, strict=True):
        yield (
            f"{measure.values.words} on {measure.values.domain!r}, {what}",
            repr([int(one) for one in sums]),
        )


def _of_patterns(patterns: Patterns | UsageError) -> str:
    if isinstance(patterns, UsageError):
        return str(patterns)
    distinct = [
        (
            _listed(one.cells),
            _listed(one.counts),
            _listed(one.positions),
            one.start,
            one.groups,
            one.covers,
        )
        for one in patterns.distinct
    ]
    return repr((distinct, patterns.groups, patterns.selected, patterns.reach, patterns.clock))


def _listed(values: Array | None) -> list[Any] | None:
    return None if values is None else values.tolist()
