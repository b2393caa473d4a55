"""Times in the index of a table of pandas: with a name it is a column, without one an error says how to name it."""

import pytest

import pufferflow as pf

pd = pytest.importorskip("pandas")
CHAIN = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
SCENARIO = pf.Scenario(pf.Secret("on", [0, 1]), CHAIN, order_by="hour", step="1h")


@pytest.fixture
def hours():
    return pd.DataFrame(
        {"on": [0, 1] * 24}, index=pd.date_range("2026-01-01", periods=48, freq="h")
    )


def test_an_index_without_a_name_has_a_way_on_that_works(hours):
    """Both calls that the error names make the column."""
    with pytest.raises(pf.UsageError) as caught:
        pf.protect(hours, SCENARIO)
    assert "its index, a DatetimeIndex, has no name" in caught.value.problem
    assert caught.value.instead == "frame.rename_axis('hour'), or frame.reset_index(names='hour')"
    for named in (hours.rename_axis("hour"), hours.reset_index(names="hour")):
        assert pf.protect(named, SCENARIO).private_sum("on").plan(pf.Pure(1.0)).rows == 48


def test_levels_are_named_one_by_one(hours):
    """Of several levels those that have a name keep it."""
    index = pd.MultiIndex.from_product([["a", "b"], hours.index[:24]], names=["meter", None])
    scenario = pf.Scenario(
        pf.Secret("on", [0, 1]), CHAIN, order_by="hour", step="1h", within="meter"
    )
    with pytest.raises(pf.UsageError) as caught:
        pf.protect(pd.DataFrame({"on": [0, 1] * 24}, index=index), scenario)
    assert "frame.rename_axis(['meter', 'hour'])" in caught.value.instead


def test_the_default_index_is_no_column(hours):
    """Numbers of rows are not offered as times."""
    with pytest.raises(pf.UsageError, match="has no column 'hour'") as caught:
        pf.protect(hours.reset_index(drop=True), SCENARIO)
    assert "index" not in str(caught.value)


def test_a_reference_reads_its_index_as_a_private_frame_does(hours):
    """A named index is a column of the reference, and one without a name is told in the same words."""
    named = pf.Reference("last year", hours.rename_axis("hour"))
    fitted = pf.MarkovChain.fit(named, "on", order_by="hour", step="1h", domain=[0, 1], slack=0.05)
    assert fitted
    with pytest.raises(pf.UsageError, match="its index, a DatetimeIndex, has no name"):
        pf.MarkovChain.fit(
            pf.Reference("last year", hours), "on", order_by="hour", step="1h", domain=[0, 1]
        )
    assert hours is not None  # the reference does not keep it
