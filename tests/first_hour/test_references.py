"""A reference of the same file as the private frame is refused in true words, with a way on that works."""

import polars as pl
import pytest

import pufferflow as pf

ON = pf.Secret("on", domain=[0, 1])


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "power.parquet"
    rows = {"year": [2025] * 30 + [2026] * 30, "hour": range(60), "on": [0, 1, 1] * 20}
    pl.DataFrame(rows).write_parquet(place)
    return place


def fitted(reference):
    prior = pf.MarkovChain.fit(
        pf.Reference("last year", reference), "on", order_by="hour", domain=[0, 1]
    )
    return pf.Scenario(ON, prior, order_by="hour")


def test_a_filter_of_the_same_file_is_not_called_the_private_frame(file):
    """The error names the file, and says to collect; collected, other rows of the file are a reference."""
    earlier = pl.scan_parquet(file).filter(pl.col("year") == 2025)
    private = pl.scan_parquet(file).filter(pl.col("year") == 2026)
    with pytest.raises(pf.UsageError) as caught:
        pf.protect(private, fitted(earlier))
    assert "comes from the same file as the private frame: " in caught.value.problem
    assert "power.parquet" in caught.value.problem
    assert "if the rows of both differ, collect the reference first" in caught.value.allowed
    assert pf.protect(private, fitted(earlier.collect()))


def test_suggestions_say_the_same(file):
    """`pf.suggest` compares reference and private frame too."""
    frame = pl.scan_parquet(file)
    batch = pf.protect(frame, pf.Scenario(ON, pf.Independent(), order_by="hour")).private_sum("on")
    with pytest.raises(pf.UsageError, match="collect the reference first"):
        pf.suggest(pf.Reference("last year", frame.filter(pl.col("year") == 2025)), batch)


def test_the_private_frame_itself_is_still_called_so(file):
    """Of one and the same frame there is nothing to collect."""
    frame = pl.scan_parquet(file)
    with pytest.raises(pf.UsageError, match="which is the private frame itself"):
        pf.protect(frame, fitted(frame))
