"""The tables of the tutorial are what their descriptions say."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf


def test_a_district_is_the_same_every_time():
    """The same arguments give the same rows, another seed gives other ones."""
    first = pf.examples.district(5, 2, seed=3)
    assert first.equals(pf.examples.district(5, 2, seed=3))
    assert not first.equals(pf.examples.district(5, 2, seed=4))
    assert first.schema == {
        "meter": pl.Int32,
        "district": pl.String,
        "hour": pl.Datetime("us"),
        "level": pl.Int8,
    }
    assert first.group_by("meter").len()["len"].to_list() == [48] * 5
    assert first["level"].is_between(0, 3).all()


def test_levels_move_as_the_chain_says():
    """How often a level moves on in an hour of the day is the number of the kernel."""
    rows = pf.examples.district(meters=4_000, days=2)
    after = pl.col("level").shift(-1).over("meter", order_by="hour")
    moved = rows.with_columns(after=after).drop_nulls("after")
    for hour, kernel in enumerate(pf.examples.district_kernels()):
        here = moved.filter(pl.col("hour").dt.hour() == hour)
        for level, shares in enumerate(kernel):
            assert sum(shares) == pytest.approx(1)
            at = here.filter(pl.col("level") == level)["after"].to_numpy()
            if len(at) > 300:
                found = np.bincount(at, minlength=4) / len(at)
                assert np.abs(found - shares).max() < 6 * 0.5 / len(at) ** 0.5


@pytest.mark.parametrize("given", [{"meters": 0}, {"days": 1.5}, {"seed": True}])
def test_numbers_that_make_no_district(given):
    """Each number is a whole number from 1 on, and the error names the one that is not."""
    with pytest.raises(pf.UsageError, match=next(iter(given))):
        pf.examples.district(**given)


def test_a_district_fits_into_memory():
    """So many rows are not begun."""
    with pytest.raises(pf.UsageError, match="rows"):
        pf.examples.district(meters=10**7, days=365)


def test_heights_are_those_of_the_source():
    """Galton's families: 934 children of 205 families, 66.75 inches on average."""
    heights = pf.examples.galton()
    assert (heights.height, heights["family"].n_unique()) == (934, 205)
    assert heights.columns == ["family", "sex", "height", "father", "mother"]
    assert heights["height"].mean() == pytest.approx(66.745931, abs=1e-6)
    assert heights.filter(pl.col("family") == "136A").height > 0
