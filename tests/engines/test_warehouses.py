"""The engine for warehouses, run over SQLite, which it takes for one; facts of warehouses are seen as texts only."""

import math
import random
import sqlite3
import struct
from contextlib import closing
from dataclasses import replace

import polars as pl
import pytest
import sqlite_rows
from installed import of_this_tree, package
from machines import nasty
from pufferflow_connectors.warehouses import WAREHOUSES, Warehouse, _Column
from thinned import thinned

import pufferflow as pf
from pufferflow.engines.connect import remote_engine
from pufferflow.engines.self_test import digest, rows
from pufferflow.plugins import CellTotals, RemoteTable

METERS = pl.DataFrame({"district": ["N", "S", "N"], "kw": [1.0, 0.5, None]})
SCENARIO = pf.Scenario(
    pf.Secret("kw", domain=pf.Interval(0, 2)), pf.Independent(), public=["district"]
)


def warehouse(file, frame=METERS, **facts):
    """Return a table of SQLite behind the engine for warehouses, with some facts of the dialect changed."""
    dialect = replace(sqlite_rows.FACTS.dialect, **facts)
    return Warehouse(sqlite_rows.written(file, frame), replace(sqlite_rows.FACTS, dialect=dialect))


@pytest.mark.slow
def test_a_release_names_the_warehouse_its_version_and_its_self_test(tmp_path):
    release = (
        pf.protect(warehouse(tmp_path / "rows.db"), SCENARIO)
        .group_by("district")
        .private_sum("kw")
        .release(epsilon=1.0)
    )
    assert release.frame["district"].to_list() == ["N", "S"]
    assert release.certificate.engine.startswith(f"SQLite {sqlite3.sqlite_version}, self-test ")


@pytest.mark.parametrize(
    "wrong",
    thinned(
        [
            {"infinity": "1e300"},
            {"not_a_number": "'NaN'"},
            {"binary": "{} COLLATE NOCASE"},
            {"binary": "{} COLLATE RTRIM"},
            {"backslashes": True},
            {"moment_type": "NUMERIC"},
            {"as_whole": "({} + 1)"},
            {"end_mark": "."},
        ],
        0.5,
    ),
    ids="-".join,
)
def test_a_wrong_fact_does_not_pass_the_self_test(tmp_path, wrong):
    with pytest.raises(pf.UsageError, match="does not pass the self-test"):
        digest(warehouse(tmp_path / "rows.db", **wrong))


@pytest.mark.slow
def test_blanks_at_the_end_matter_where_texts_are_marked(tmp_path):
    """As in Redshift, texts are compared without blanks at their ends, but for the mark behind them."""
    marked = warehouse(tmp_path / "rows.db", binary="({} || '.') COLLATE RTRIM", end_mark=".")
    assert digest(marked) == digest(warehouse(tmp_path / "others.db"))


def test_the_self_test_reads_the_table_too_but_none_of_its_rows(tmp_path):
    """So a warehouse that runs queries without a table elsewhere runs the self-test where the table is."""
    here = warehouse(tmp_path / "rows.db", nasty(0, unsigned=False, widest=True))
    few = here.with_rows(rows())
    assert here.table.name.replace('"', '""') in few.text(CellTotals(()))
    assert pl.concat(few.run(CellTotals(())))["rows"].to_list() == [rows().height]


@pytest.mark.slow
def test_an_address_is_tested_without_a_table(tmp_path):
    meters = warehouse(tmp_path / "rows.db")
    assert digest(Warehouse(RemoteTable(meters.table.address, ""), sqlite_rows.FACTS)) == digest(
        meters
    )


def test_large_results_come_in_parts_with_equal_types(tmp_path, monkeypatch):
    monkeypatch.setattr("pufferflow_connectors.warehouses.PART", 7)
    frame = pl.DataFrame(
        {"district": [None] * 20 + ["N", "S"], "kw": [1.0] * 22}, schema_overrides={"district": str}
    )
    frame = frame.with_columns(meter=pl.int_range(pl.len()))
    parts = list(warehouse(tmp_path / "rows.db", frame).run(CellTotals(("meter", "district"))))
    assert [part.height for part in parts] == [0, 7, 7, 7, 1]
    assert {tuple(part.schema.items()) for part in parts} == {tuple(parts[0].schema.items())}


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (("INT64", None, None), pl.Int64()),
        (("NUMBER", 38, 0), pl.Decimal(38, 0)),
        (("numeric(10, 2)", None, None), pl.Decimal(10, 2)),
        (("decimal(7)", None, None), pl.Decimal(7, 0)),
        (("numeric", None, None), None),
        (("BIGNUMERIC(76, 38)", None, None), None),
        (("character varying", None, None), pl.String()),
        (("VARCHAR(20)", None, None), pl.String()),
        (("string collate UTF8_LCASE", None, None), None),
        (("character", None, None), None),
        (("timestamp without time zone", None, None), pl.Datetime("us")),
        (("timestamp", None, None), None),
        (("TIMESTAMP_TZ", None, None), None),
        (("real", 24, None), pl.Float64()),
        (("ARRAY<INT64>", None, None), None),
        ((None, None, None), None),
    ],
    ids=str,
)
def test_types_are_read_if_they_mean_one_thing(stored, read):
    typed = _Column("name", *stored).typed
    assert (typed and typed[0]) == read


@pytest.mark.slow
def test_columns_without_a_meaning_are_refused_by_name_and_others_are_not(tmp_path):
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
        database.execute("CREATE TABLE meters (district CHAR(3), kw REAL)")
    meters = Warehouse(RemoteTable(f"sqlite:///{tmp_path}/rows.db", "meters"), sqlite_rows.FACTS)
    with pytest.raises(pf.UsageError, match=r"'district'.*CHAR\(3\)"):
        pf.protect(meters, SCENARIO)


def test_a_table_that_is_not_there(tmp_path):
    nowhere = Warehouse(RemoteTable(f"sqlite:///{tmp_path}/rows.db", "meters"), sqlite_rows.FACTS)
    with pytest.raises(pf.SourceError, match="there is no such table"):
        nowhere.schema()


@pytest.mark.parametrize("name", WAREHOUSES)
def test_without_its_package_a_warehouse_says_which_and_no_password(name, tmp_path, monkeypatch):
    monkeypatch.setenv("METERS_PASSWORD", "geheim")
    group = "pufferflow.engines"
    with package(tmp_path, group, of_this_tree(group)):
        table = pf.table(f"{name}://me:${{METERS_PASSWORD}}@host/power", "meters")
        with pytest.raises(pf.SourceError, match=WAREHOUSES[name].package) as caught:
            pf.protect(table, SCENARIO)
    assert "geheim" not in str(caught.value) + repr(table)


def test_an_address_of_another_form_is_refused_without_its_words():
    with pytest.raises(pf.SourceError, match="takes no such address") as caught:
        Warehouse(RemoteTable("sqlite://geheim@:port/x", "meters"), sqlite_rows.FACTS)
    assert "geheim" not in str(caught.value)
    assert caught.value.__context__ is None


def test_what_a_driver_says_is_not_said(tmp_path):
    """An error of the driver quotes the query, and may quote rows."""
    meters = warehouse(tmp_path / "rows.db")
    assert meters.schema().names() == METERS.columns
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
        database.execute(f"DROP TABLE {sqlite_rows.ENGINE.DIALECT.quoted(meters.table.name)}")
    with pytest.raises(pf.SourceError) as caught:
        list(meters.run(CellTotals(("district",))))
    assert "district" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.slow
def test_the_example_keeps_what_sqlite_may_hold_beside_its_types(tmp_path):
    """A text in a column of numbers is a missing private value, and an error if it is public; neither is quoted."""
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
        database.execute("CREATE TABLE meters (meter INTEGER, kw REAL, odd BLOB)")
        database.executemany(
            "INSERT INTO meters VALUES (?, ?, ?)", [(1, 2.0, b""), (1, "secret", b"")]
        )
    engine = remote_engine(
        sqlite_rows.ENGINE.Sqlite(RemoteTable(f"sqlite:///{tmp_path}/rows.db", "meters"))
    )
    secret = pf.Secret("kw", domain=pf.Interval(0, 2))
    batch = pf.protect(
        engine.backend, pf.Scenario(secret, pf.Independent(), public=["meter"])
    ).group_by("meter")
    assert batch.private_sum("kw").release(epsilon=1e9).frame["kw_sum"].round(3).to_list() == [2.0]
    assert engine.unreadable() == {"odd": "BLOB"}
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
        database.execute("UPDATE meters SET meter = 'house' WHERE kw = 2.0")
    with pytest.raises(pf.SourceError) as caught:
        batch.private_sum("kw").release(epsilon=1.0)
    assert "house" not in str(caught.value)


def test_sqlite_reads_every_float_as_it_is_written():
    """Its own reading of digits is off by the last bit for some floats; whole numbers and powers of 2 are not."""
    draw = random.Random(1)  # noqa: S311 - of tests
    any_bits = [struct.unpack("d", draw.randbytes(8))[0] for _ in range(2000)]
    floats = [
        *(number for number in any_bits if math.isfinite(number)),
        0.1,
        0.0,
        62.248583,
        5e-324,
        2.0**-1022,
        1.7e308,
    ]
    with closing(sqlite3.connect(":memory:")) as database:
        for number in floats:
            text = sqlite_rows.ENGINE.DIALECT.float_of(number)
            assert database.execute(f"SELECT {text}").fetchone()[0] == number
