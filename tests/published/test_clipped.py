"""Cut numbers and bars: possible by public facts alone, kept with the release, and never in place of the raw ones."""

import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

LEVELS = [-1, 0, 3]
FRAME = pl.DataFrame({"key": ["a", "a", "b"], "level": [3, 3, -1], "unit": [1, 2, 3]})
FORMATS = ["parquet", "csv", "ndjson"]


def batch(scenario=None, keys=("a", "b", "empty")):
    """A batch of every kind of query."""
    scenario = scenario or pf.Scenario(
        pf.Secret("level", domain=LEVELS), pf.Independent(), public=["key"]
    )
    asked = pf.protect(FRAME, scenario).group_by("key", keys=list(keys))
    asked = (
        asked.private_sum("level")
        .private_mean("level")
        .private_variance("level")
        .private_quantile("level", 0.5)
    )
    return asked.private_count(pl.col("level") > 0, name="high").private_histogram("level")


def present(**options):
    secret = pf.Presence("unit", column="level", domain=LEVELS, rows=1, **options)
    return pf.Scenario(secret, pf.Independent(), public=["key"])


COUNTS = ["high", "level_histogram_-1", "level_histogram_0", "level_histogram_3"]
PUBLIC = {
    "level_sum": [(-2, 6), (-1, 3), (0, 0)],
    "level_mean": [(-1, 3), (-1, 3), (None, None)],
    "level_variance": [(0, 4), (0, 4), (None, None)],
    "level_quantile_0.5": [(-1, 3), (-1, 3), (None, None)],
    **{name: [(0, 2), (0, 1), (0, 0)] for name in COUNTS},
}
PRIVATE = {
    "level_sum": [(-math.inf, math.inf)] * 3,
    "level_mean": [(-1, 3)] * 3,
    "level_variance": [(0, 4)] * 3,
    "level_quantile_0.5": [(-1, 3)] * 3,
    **{name: [(0, 2**32 - 1)] * 3 for name in COUNTS},
}


@pytest.mark.parametrize(
    ("scenario", "expected"), [(None, PUBLIC), (present(), PRIVATE)], ids=["public", "private"]
)
def test_what_is_possible(scenario, expected):
    """The range of what is asked times public numbers of rows; where these are private, the range alone."""
    release = batch(scenario).release(epsilon=1.0)
    for name, ends in expected.items():
        assert (
            list(zip(release.limits[f"{name}_least"], release.limits[f"{name}_most"], strict=True))
            == ends
        ), name
    assert release.limits.columns == [
        "key",
        *(f"{name}_{end}" for name in expected for end in ("least", "most")),
    ]
    assert release.limits["key"].equals(release.frame["key"])


@pytest.mark.parametrize("scenario", thinned([None, present()], 0.5), ids=["public", "private"])
def test_numbers_and_bars_are_possible(scenario):
    """However large the noise: counts are whole, nothing is below or above what can be, raw numbers stay."""
    for epsilon in (1e-5, 1e-2, 1.0):
        release = batch(scenario).release(epsilon=epsilon)
        cut = release.clipped()
        assert (cut.frame.columns, cut.intervals.columns) == (
            release.frame.columns,
            release.intervals.columns,
        )
        assert all(cut.frame[name].dtype == pl.Int64 for name in COUNTS)
        assert all(
            column.dtype in (pl.Int64, pl.Float64) for column in cut.intervals.get_columns()[1:]
        )
        for name in release.frame.columns[1:]:
            least, most = (release.limits[f"{name}_{end}"] for end in ("least", "most"))
            for column in (
                cut.frame[name],
                cut.intervals[f"{name}_low"],
                cut.intervals[f"{name}_high"],
            ):
                inside = (column >= least) & (column <= most)
                assert inside.drop_nulls().all(), (name, epsilon)
        assert all(release.frame[name].dtype == pl.Float64 for name in COUNTS)


def test_a_little_noise_cuts_nothing():
    """Numbers that are possible stay as they are but for counts, which become whole; bars of counts grow outwards."""
    release = batch(keys=["a", "b"]).release(epsilon=1e6)
    cut = release.clipped()
    assert cut.frame.row(0) == ("a", *cut.frame.row(0)[1:5], 2, 0, 0, 2)
    assert cut.frame["level_variance"].equals(release.frame["level_variance"])
    low, high = cut.intervals["high_low"], cut.intervals["high_high"]
    assert (low <= release.intervals["high_low"].clip(0)).all()
    assert (high >= release.intervals["high_high"].clip(upper_bound=pl.Series([2, 1]))).all()


def test_a_public_empty_group():
    """A mean rests on nothing where everybody knows that there are no rows: that is said, and all is possible."""
    release = batch().release(epsilon=1.0)
    cut = release.clipped()
    for name, ends in {
        "level_mean": (-1, 3),
        "level_variance": (0, 4),
        "level_quantile_0.5": (-1, 3),
    }.items():
        assert cut.frame[name].is_null().to_list() == [False, False, True]
        for bars in (release.intervals, cut.intervals):
            assert (bars[f"{name}_low"][2], bars[f"{name}_high"][2]) == ends
    assert cut.frame["level_sum"][2] == cut.frame["high"][2] == 0
    assert np.isfinite(release.frame.drop("key").to_numpy()).all()
    (note,) = [note for note in release.certificate.notes if "no rows" in note]
    assert note.startswith("there are no rows in 1 of 3 groups: ")
    assert "level_mean, level_variance, level_quantile_0.5 is then pure noise" in note
    assert not any(
        "no rows" in note for note in batch(keys=["a", "b"]).release(epsilon=1.0).certificate.notes
    )


def test_where_sizes_are_private_nobody_is_told_of_empty_groups():
    """The same words, dtypes and gaps whether or not rows are there."""
    release = batch(present()).release(epsilon=1e5)
    assert not any("no rows" in note for note in release.certificate.notes)
    assert release.clipped().frame.null_count().sum_horizontal().item() == 0
    assert (release.intervals["level_mean_low"][2], release.intervals["level_mean_high"][2]) == (
        -1,
        3,
    )


@pytest.mark.parametrize("form", FORMATS)
def test_limits_are_kept(tmp_path, form):
    """Folders and bytes keep what is possible, so that a release is cut after years as on the first day."""
    release = batch().release(epsilon=0.1)
    back = pf.Release.read(getattr(release, f"write_{form}")(tmp_path / "x"))
    stored = pf.Release.from_bytes(release.to_bytes())
    assert sorted(
        path.stem for path in (tmp_path / "x").iterdir() if path.suffix == f".{form}"
    ) == [
        "intervals",
        "release",
    ]
    for other in (back, stored):
        assert other.intervals.equals(release.intervals)
        assert other.limits.equals(release.limits)
        assert other.limits.schema == release.limits.schema
        assert other.clipped().frame.equals(release.clipped().frame)
        assert other.clipped().intervals.equals(release.clipped().intervals)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_older_releases_are_read(tmp_path, form):
    """Bytes and folders without limits are what they were; only cutting them is refused, with a way out."""
    new = batch().release(epsilon=0.1)
    old = pf.Release(new.frame, new.intervals, new.certificate)
    place = getattr(old, f"write_{form}")(tmp_path / "old")
    for release in (pf.Release.from_bytes(old.to_bytes()), pf.Release.read(place)):
        assert release.frame.equals(old.frame)
        assert release.intervals.equals(old.intervals)
        assert release.limits is None
        with pytest.raises(pf.UsageError, match="without limits"):
            release.clipped()
        assert release.page()


def test_names_that_look_like_ends():
    """An output that is called as another's end, and keys of such names, are cut as what they are."""
    frame = pl.DataFrame({"n": [1], "n_low": [2], "x": [1]})
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent(), public=["n", "n_low"])
    grouped = pf.protect(frame, scenario).group_by("n", "n_low")
    release = (
        grouped.private_sum("x", name="a")
        .private_count(pl.col("x") > 0, name="a_low")
        .release(epsilon=0.01)
    )
    cut = release.clipped()
    assert cut.frame.schema == {
        "n": pl.Int64,
        "n_low": pl.Int64,
        "a": pl.Float64,
        "a_low": pl.Int64,
    }
    assert cut.frame.row(0)[:2] == (1, 2)
    assert 0 <= cut.frame["a"][0] <= 1
    assert cut.frame["a_low"][0] in (0, 1)


def test_keys_that_look_like_limits():
    """A key called as the column of a limit is refused before anything is read."""
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.Independent(), public=["n_most"])
    grouped = pf.protect(
        pl.LazyFrame(schema={"n_most": pl.Int64, "x": pl.Int64}), scenario
    ).group_by("n_most")
    with pytest.raises(pf.UsageError, match="two columns 'n_most'"):
        grouped.private_sum("x", name="n")


@pytest.mark.slow
def test_pages_show_bars_that_are_possible():
    """The page of a release has cut bars, and says why a number can lie outside its own."""
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())
    frame = pl.DataFrame({"on": [0, 0, 0, 0]})
    release = (
        pf.protect(frame, scenario).private_count(pl.col("on") > 0, name="n").release(epsilon=1e-3)
    )
    page = release.page()
    low, high = release.clipped().intervals.row(0)
    assert f"{low} to {high}" in page
    assert ("cut to the possible range" in page) == (not low <= release.frame["n"][0] <= high)
    outside = not 0 <= release.frame["n"][0] <= 4
    assert ("outside the range of possible answers" in release._repr_html_()) == outside
