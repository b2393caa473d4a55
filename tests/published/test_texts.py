"""Text: a table that was written as CSV or NDJSON is read back with every value and every dtype it had."""

import csv
import datetime as dt
import io
import json
import math
from decimal import Decimal

import msgspec
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from thinned import thinned

from pufferflow.core.errors import UsageError
from pufferflow.published.files import READERS, WRITERS, TextTable

FORMS = sorted(WRITERS)
UNITS = st.sampled_from(["ms", "us", "ns"])
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Africa/Monrovia"]
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    [
        "",
        '"',
        ",",
        "\n",
        "\r",
        "null",
        "1",
        "x\n",
        "=cmd|'/C calc'!A0",
        "'=1",
        "''",
        "-1",
        "+x",
        "@y",
        "\t=1",
        " =1",
        "＝1",
    ]
)
SPANS = {"ms": 60_000_000_000_000, "us": 60_000_000_000_000_000, "ns": 2**63 - 1}


def whole(dtype):
    return st.integers(pl.select(dtype.min()).item(), pl.select(dtype.max()).item())


def floating(width):
    return st.floats(width=width) | st.sampled_from([math.nan, math.inf, -math.inf, -0.0])


@st.composite
def from_whole(draw, dtype, limit):
    """A column of times, made of whole numbers of their unit."""
    values = draw(
        st.lists(st.none() | st.integers(-limit, limit) | st.integers(-2000, 2000), max_size=5)
    )
    return pl.Series(values, dtype=pl.Int64).cast(dtype)


@st.composite
def of_values(draw, dtype, values):
    return pl.Series(draw(st.lists(st.none() | values, max_size=5)), dtype=dtype)


@st.composite
def decimals(draw):
    scale = draw(st.integers(0, 30))
    digits = draw(
        st.lists(
            st.none() | st.integers(-(10**37) + 1, 10**37 - 1) | st.integers(-9, 9), max_size=5
        )
    )
    texts = [
        None if n is None else str(Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))
        for n in digits
    ]
    return pl.Series([t and f"{Decimal(t):f}" for t in texts], dtype=pl.String).str.to_decimal(
        scale=scale
    )


@st.composite
def enums(draw):
    categories = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
    return draw(of_values(pl.Enum(categories), st.sampled_from(categories)))


INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
COLUMNS = st.one_of(
    of_values(pl.Boolean, st.booleans()),
    of_values(pl.Float64, floating(64)),
    of_values(pl.Float32, floating(32)),
    of_values(pl.Float16, floating(16)),
    of_values(pl.Int128, st.integers(-(2**127), 2**127 - 1)),
    of_values(pl.UInt128, st.integers(0, 2**128 - 1)),
    of_values(pl.String, TEXTS),
    of_values(pl.Categorical, TEXTS),
    of_values(pl.Date, st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))),
    of_values(pl.Time, st.times()),
    of_values(pl.Null, st.none()),
    st.sampled_from(INTEGERS).flatmap(lambda dtype: of_values(dtype, whole(dtype))),
    UNITS.flatmap(lambda unit: from_whole(pl.Duration(unit), 2**63 - 1)),
    UNITS.flatmap(lambda unit: from_whole(pl.Datetime(unit), SPANS[unit])),
    st.tuples(UNITS, ZONES).flatmap(lambda pair: from_whole(pl.Datetime(*pair), SPANS[pair[0]])),
    decimals(),
    enums(),
)


@st.composite
def frames(draw):
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=4))
    names = draw(st.lists(TEXTS, min_size=len(columns), max_size=len(columns), unique=True))
    rows = max(len(column) for column in columns)
    return pl.DataFrame(
        [
            column.extend_constant(None, rows - len(column)).alias(name)
            for name, column in zip(names, columns, strict=True)
        ]
    )


@pytest.mark.parametrize("form", thinned(FORMS, 0.5))
@settings(max_examples=25, deadline=None)
@given(frame=frames())
@example(frame=pl.DataFrame({"": ["", None]}))
@example(
    frame=pl.DataFrame(
        {"\ufeffa": [None, "\ufeff", '"', "a\r\nb"], "^.*$": [1.5, math.nan, None, -math.inf]}
    )
)
def test_every_table_is_read_back(form, frame):
    """Names, dtypes, order, and every value: NaN, null, the empty text, either of two equal hours, and all digits."""
    table = TextTable.of(frame)
    found = READERS[form](WRITERS[form](frame), table)
    assert found.schema == frame.schema
    assert found.equals(frame)
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    assert repr(found.select(floats).rows()) == repr(frame.select(floats).rows())  # −0.0 too


@pytest.mark.parametrize("form", FORMS)
def test_old_clocks_are_read_back(form):
    """Berlin was 53 minutes and 28 seconds ahead until 1893, which no text of a time can say; today it is an hour."""
    times = pl.Series("at", [-(10**7) * 300, 0, None], dtype=pl.Int64) * 10**6
    frame = times.cast(pl.Datetime("us", "Europe/Berlin")).to_frame()
    written = WRITERS[form](frame)
    assert READERS[form](written, TextTable.of(frame)).equals(frame)
    assert b"+00:00" in written
    assert b"1970-01-01T01:00:00+01:00" in written


@pytest.mark.parametrize("form", FORMS)
def test_rows_with_line_ends_in_their_texts_are_read_in_parts(form):
    """A table that is long enough to be read by several threads."""
    frame = pl.DataFrame(
        {"key": [f'{n}\n"{n % 7}"\r\n' for n in range(60_000)], "x": [n / 7 for n in range(60_000)]}
    )
    assert READERS[form](WRITERS[form](frame), TextTable.of(frame)).equals(frame)


def test_json_has_its_own_words_where_it_has_any():
    """Numbers, booleans and null are JSON's; what it has no number for, or few readers hold, is text."""
    frame = pl.DataFrame(
        {"a": [1, None], "b": [True, False], "c": [math.inf, 0.25], "d": [dt.timedelta(1), None]}
    )
    wide = pl.Series("e", [2**100, None], dtype=pl.Int128)
    assert json.loads(WRITERS["ndjson"](wide.to_frame()).splitlines()[0]) == {"e": str(2**100)}
    lines = [json.loads(line) for line in WRITERS["ndjson"](frame).splitlines()]
    assert lines == [
        {"a": 1, "b": True, "c": "inf", "d": 86_400_000_000},
        {"a": None, "b": False, "c": 0.25, "d": None},
    ]


@pytest.mark.parametrize(
    "dtype",
    [pl.Binary, pl.List(pl.Int8), pl.Array(pl.Int8, 2), pl.Struct({"a": pl.Int8}), pl.Object],
)
def test_what_text_has_no_form_for_is_refused(dtype):
    """The column is named, and the format that has one."""
    with pytest.raises(UsageError, match="column 'key'") as caught:
        TextTable.of(pl.DataFrame(schema={"key": dtype}))
    assert "parquet" in caught.value.instead


@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime("ms"), pl.Datetime("us", "Europe/Berlin")])
@pytest.mark.parametrize("whole", [2**31 - 1, -(2**31)])
@pytest.mark.parametrize("form", FORMS)
def test_years_beyond_four_digits_are_refused(form, dtype, whole):
    """The engine would stop in the middle of a line."""
    a_day = 1 if dtype == pl.Date else 86_400_000
    values = pl.Series("key", [0, whole * a_day], dtype=pl.Int64).cast(
        pl.Int32 if dtype == pl.Date else pl.Int64
    )
    if dtype == pl.Datetime("us", "Europe/Berlin"):
        values = values * 30
    with pytest.raises(UsageError, match="four digits"):
        WRITERS[form](values.cast(dtype).to_frame())


FORMULAS = ["=cmd|'/C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "＝1"]
OTHERS = ["'", "'=1", "''=1", "north", "1=1", None, "", "a-b"]


@pytest.mark.parametrize(
    "dtype",
    [pl.String, pl.Categorical, pl.Enum([one for one in FORMULAS + OTHERS if one is not None])],
)
def test_a_spreadsheet_runs_no_text_of_a_csv_file(dtype):
    """Nor a name; numbers below 0 stay numbers, and all is read back as it was."""
    keys = pl.Series("=key", FORMULAS + OTHERS, dtype=dtype)
    frame = pl.DataFrame(
        [keys, pl.Series("-2", [-1.5] * len(keys)), pl.Series("north", ["-1"] * len(keys))]
    )
    body = WRITERS["csv"](frame)
    for row in csv.reader(io.StringIO(body.decode(), newline="")):
        assert not row[0].lstrip().startswith(("=", "+", "-", "@", "＝"))
        assert row[0][:1] not in set("\t\r\n")
        assert row[1] in {"-1.5", "'-2"}
        assert row[2] in {"'-1", "north"}
    table = msgspec.json.decode(msgspec.json.encode(TextTable.of(frame)), type=TextTable)
    assert READERS["csv"](body, table).equals(frame)
    assert READERS["ndjson"](WRITERS["ndjson"](frame), table).equals(frame)


def test_what_was_written_before_and_what_needs_nothing_is_as_it_was():
    """Files without formulas have the bytes they had; files of older versions with some are read as they are."""
    frame = pl.DataFrame({"key": ["north", "O'Hara", "1-2"], "load": [-1.0, 2.0, 3.0]})
    assert WRITERS["csv"](frame) == frame.write_csv().encode()
    assert b"escaped" not in msgspec.json.encode(TextTable.of(frame))
    older = pl.DataFrame({"=key": ["=1", "'=1"]})
    assert READERS["csv"](older.write_csv().encode(), TextTable.of(older, "older")).equals(older)
