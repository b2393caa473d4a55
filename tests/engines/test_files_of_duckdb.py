"""Files that DuckDB reads: private rows decide no type, and the name of a folder takes the place of no column."""

import duckdb
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

ROWS = pl.DataFrame({"person": range(50), "kw": [1.5] * 50})
SCENARIO = pf.Scenario(pf.Secret("kw", domain=pf.Interval(0, 4), missing=0), pf.Independent())


def total(table):
    return (
        pf.protect(table, SCENARIO)
        .private_sum("kw")
        .plan(pf.Pure(1e6))
        .release()
        .frame["kw_sum"][0]
    )


@pytest.mark.parametrize("name", ["rows.csv", "rows.TSV", "data/*.json", "rows.ndjson"])
def test_files_without_types_are_refused(name):
    """One `none` among 50 rows made a column of numbers one of texts, and in row 30,001 it stopped the release."""
    with pytest.raises(pf.UsageError, match="guessed from its rows, which are private") as refused:
        pf.protect(pf.table("duckdb:", name), SCENARIO)
    assert "TRY_CAST" in refused.value.instead


@pytest.mark.slow
def test_what_is_advised_reads_every_value(tmp_path):
    """Texts that are no numbers are null, wherever they stand."""
    kw = ["1.5"] * 30_001 + ["none"]
    pl.DataFrame({"kw": kw}).write_csv(tmp_path / "rows.csv")
    with pytest.raises(pf.UsageError) as refused:
        pf.protect(pf.table("duckdb:", str(tmp_path / "rows.csv")), SCENARIO)
    with duckdb.connect() as connection:
        relation = eval(refused.value.instead, {"connection": connection})  # noqa: S307 - our own words
        assert total(relation) == pytest.approx(45001.5, abs=0.01)


@pytest.mark.slow
def test_advice_for_json_reads_every_value(tmp_path):
    (tmp_path / "rows.ndjson").write_text(
        '{"kw": 1.5}\n{"kw": "none"}\n{"kw": 2}\n', encoding="utf-8"
    )
    with pytest.raises(pf.UsageError) as refused:
        pf.protect(pf.table("duckdb:", str(tmp_path / "rows.ndjson")), SCENARIO)
    with duckdb.connect() as connection:
        assert total(eval(refused.value.instead, {"connection": connection})) == pytest.approx(  # noqa: S307 - our own words
            3.5, abs=0.01
        )


@pytest.mark.parametrize("pattern", thinned(["*/*.parquet", "kw=4/rows.parquet"], 0.5))
def test_a_folder_takes_the_place_of_no_column(tmp_path, pattern):
    """Fifty rows of 1.5 in a folder `kw=4` were read as fifty of 4."""
    (tmp_path / "kw=4").mkdir()
    ROWS.write_parquet(tmp_path / "kw=4" / "rows.parquet")
    assert total(pf.table("duckdb:", str(tmp_path / pattern))) == pytest.approx(75, abs=0.01)
