"""Rows come from files or functions; nothing of them gets into an error, and no type is guessed from them."""

import datetime as dt
import textwrap

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.jobs.sources import FileSource as Source
from pufferflow.jobs.sources import call_safely, frame_of, functions_of, tracebacks

DAY = pf.Period.read("2026-11-20")
HIDDEN = "4711-top-secret"
ROWS = pl.DataFrame(
    {
        "hour": [dt.datetime.fromisoformat("2026-11-20T05:00")] * 2,
        "meter": [1, 2],
        "level": [3, 0],
        "name": ["a", "b"],
    }
)
TYPES = {"hour": "datetime", "meter": "integer", "level": "integer", "name": "text"}
WRITE = {
    ".parquet": pl.DataFrame.write_parquet,
    ".arrow": pl.DataFrame.write_ipc,
    ".csv": pl.DataFrame.write_csv,
    ".ndjson": pl.DataFrame.write_ndjson,
}


def rows_of(folder, **source):
    return frame_of(Source(**source), None, folder, DAY)


@pytest.mark.parametrize("suffix", WRITE)
def test_files_of_every_kind(suffix, tmp_path):
    """The same rows come from each kind of file, by a pattern and by the period's name."""
    columns = TYPES if suffix in {".csv", ".ndjson"} else None
    for name in (f"a-2026-11-20{suffix}", f"b-2026-11-20{suffix}", f"c-2026-11-21{suffix}"):
        WRITE[suffix](ROWS, tmp_path / name)
    both = rows_of(tmp_path, path="?-{period}" + suffix, columns=columns).collect()
    assert both.equals(pl.concat([ROWS, ROWS]))
    assert (
        rows_of(tmp_path, path=str(tmp_path / f"c*{suffix}"), columns=columns)
        .collect()
        .equals(ROWS)
    )


@pytest.mark.parametrize("suffix", [".csv", ".ndjson"])
def test_types_are_declared_and_not_guessed(suffix, tmp_path):
    """Text files without declared types are refused: an engine would look at private rows."""
    WRITE[suffix](ROWS, tmp_path / f"rows{suffix}")
    with pytest.raises(pf.UsageError, match="would be guessed from private rows"):
        rows_of(tmp_path, path=f"rows{suffix}")


def test_values_of_a_csv_that_are_no_numbers_become_null(tmp_path):
    """What cannot be read as its type is a missing value, and no error that would reveal about it."""
    (tmp_path / "rows.csv").write_text("meter,level\n1,3\n2,oops\n3,2.5\n4,\n")
    found = rows_of(
        tmp_path, path="rows.csv", columns={"meter": "integer", "level": "integer"}
    ).collect()
    assert found["level"].to_list() == [3, None, None, None]


@pytest.mark.parametrize("first", ["19.11.2026", "2026-11-19T05:00", "", "11/19/2026", "nonsense"])
def test_one_row_of_a_csv_decides_nothing_for_others(first, tmp_path):
    """Each date and moment is read by itself: what the first row says changes no other."""
    days = ["2026-11-20", "2026-11-21"]
    times = ["2026-11-20T05:00", "2026-11-20 06:30:15.5"]
    lines = [f"{day},{moment},1" for day, moment in zip(days, times, strict=True)]
    (tmp_path / "rows.csv").write_text(
        "\n".join(["day,at,level", f"{first},{first},1", *lines]) + "\n"
    )
    found = rows_of(
        tmp_path, path="rows.csv", columns={"day": "date", "at": "datetime", "level": "integer"}
    ).collect()
    assert found["day"].cast(pl.String).to_list()[1:] == days
    assert [moment.isoformat() for moment in found["at"][1:]] == [
        "2026-11-20T05:00:00",
        "2026-11-20T06:30:15.500000",
    ]


def test_missing_files_and_unknown_kinds(tmp_path):
    """A source that has not come yet is a failed source; an ending that nobody knows is misuse."""
    with pytest.raises(pf.SourceError, match="No file matches"):
        rows_of(tmp_path, path="*.parquet")
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(pf.UsageError, match=r"ends in '\.xlsx'"):
        rows_of(tmp_path, path="rows.xlsx")


def test_mistakes_in_a_path_are_not_taken_for_rows_that_are_late(tmp_path):
    """A placeholder or an ending that nobody knows is misuse, whether or not there are such files."""
    with pytest.raises(pf.UsageError, match=r"has \{perod\}"):
        Source(path="{perod}.parquet")
    with pytest.raises(pf.UsageError, match=r"ends in '\.parqet'"):
        rows_of(tmp_path, path="{period}.parqet")


@pytest.mark.parametrize(
    ("value", "shown"), [("1", True), ("true", True), ("0", False), ("no", False), ("", False)]
)
def test_words_are_quoted_only_when_they_are_asked_for(value, shown, monkeypatch):
    """Switched off is off, in any of the usual ways."""
    monkeypatch.setenv("PUFFERFLOW_TRACEBACK", value)
    assert tracebacks() is shown


def test_a_function_gives_rows(tmp_path):
    """A function may return a frame of either kind, and is told the period."""
    source = Source(function="a.py:b")
    found = frame_of(
        source, lambda period: ROWS.with_columns(day=pl.lit(str(period))), tmp_path, DAY
    )
    assert found.collect()["day"].to_list() == ["2026-11-20"] * 2
    with pytest.raises(pf.UsageError, match="of type dict"):
        frame_of(source, lambda _: {}, tmp_path, DAY)


def module(tmp_path, body):
    (tmp_path / "own.py").write_text(textwrap.dedent(body))
    return tmp_path


def test_what_a_function_raises_is_told_by_class_and_line_only(tmp_path, monkeypatch):
    """Its words can quote rows; whoever may see rows asks for them with a variable."""
    monkeypatch.delenv("PUFFERFLOW_TRACEBACK", raising=False)
    folder = module(
        tmp_path, f"def rows(period):\n    secret = '{HIDDEN}'\n    raise KeyError(secret)\n"
    )
    with pytest.raises(pf.SourceError) as caught:
        call_safely(functions_of(["own.py:rows"], folder)[0], (DAY,), pf.SourceError)
    assert "rows() failed: KeyError in own.py, line 3" in caught.value.problem
    assert HIDDEN not in str(caught.value)
    assert caught.value.__context__ is None
    monkeypatch.setenv("PUFFERFLOW_TRACEBACK", "1")
    with pytest.raises(pf.SourceError) as caught:
        call_safely(functions_of(["own.py:rows"], folder)[0], (DAY,), pf.SourceError)
    assert HIDDEN in str(caught.value.__cause__)


@pytest.mark.parametrize("error", ["pf.Refused('no')", "KeyboardInterrupt()", "SystemExit(3)"])
def test_errors_of_the_library_and_stops_pass(error, tmp_path):
    """What is told on purpose reaches the caller as it is."""
    folder = module(tmp_path, f"import pufferflow as pf\ndef rows(period):\n    raise {error}\n")
    with pytest.raises((pf.Refused, KeyboardInterrupt, SystemExit)):
        call_safely(functions_of(["own.py:rows"], folder)[0], (DAY,), pf.SourceError)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def rows(:\n", "invalid syntax in own.py, line 1"),
        ("import nowhere_at_all\n", "there is no module 'nowhere_at_all'"),
        (f"x = 1 / len('{HIDDEN}'[:0])\n", "ZeroDivisionError in own.py, line 1"),
        (f"raise ImportError('{HIDDEN}')\n", "ImportError in own.py, line 1"),
        (f"import ast\nast.literal_eval('{HIDDEN}')\n", "ValueError in own.py, line 2"),
        ("def other(): ...\n", "no function 'rows'"),
        ("rows = 3\n", "no function 'rows'"),
    ],
)
def test_modules_that_do_not_load(body, told, tmp_path):
    """A module with a mistake is misuse, which names the line."""
    with pytest.raises(pf.UsageError) as caught:
        functions_of(["own.py:rows"], module(tmp_path, body))[0]
    assert told in caught.value.problem
    assert HIDDEN not in str(caught.value)


def test_functions_of_files_and_of_modules(tmp_path):
    """A file may import its neighbours, as a script does; a function is also found by a dotted name."""
    (tmp_path / "neighbour_of_own.py").write_text("LEVEL = 3\n")
    folder = module(
        tmp_path, "from neighbour_of_own import LEVEL\ndef rows(period): return LEVEL\n"
    )
    assert functions_of(["own.py:rows"], folder)[0](DAY) == 3
    assert functions_of(["math:sqrt"], folder)[0](4) == 2
    with pytest.raises(pf.UsageError, match="There is no file"):
        functions_of(["nowhere.py:rows"], folder)[0]
