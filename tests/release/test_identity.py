"""What tells questions apart: an id of an account belongs to one plan, so no two plans may look the same."""

import polars as pl
import pytest

import pufferflow as pf

NANOSECONDS = pl.Series([0, 1, 2000])
KINDS = {
    "moment": pl.Datetime("ns"),
    "moment with a zone": pl.Datetime("ns", "Europe/Berlin"),
    "span": pl.Duration("ns"),
    "time of day": pl.Time(),
}


def protected(column):
    scenario = pf.Scenario(
        pf.Secret("x", domain=pf.Interval(0, 9)), pf.Independent(), public=["at"]
    )
    return pf.protect(pl.DataFrame({"at": column, "x": [1.0] * len(column)}), scenario)


def digests(column):
    """The digests of questions about each value by itself: as a key, and as a literal of a filter."""
    batch = protected(column)
    one_by_one = [column[place : place + 1] for place in range(len(column))]
    keyed = [batch.group_by("at", keys=one).private_sum("x").request.digest for one in one_by_one]
    filtered = [
        batch.filter(pl.col("at").is_in(one.implode())).private_sum("x").request.digest
        for one in one_by_one
    ]
    return keyed, filtered


@pytest.mark.parametrize("dtype", KINDS.values(), ids=KINDS.keys())
def test_questions_that_differ_by_a_nanosecond_are_told_apart(dtype):
    """Python's times end at microseconds, and what is asked does not."""
    for found in digests(NANOSECONDS.cast(dtype)):
        assert len(set(found)) == len(NANOSECONDS)


def test_nested_keys_that_differ_by_a_nanosecond_are_told_apart():
    """In lists and structs too."""
    moments = NANOSECONDS.cast(pl.Datetime("ns"))
    for column in (
        moments.reshape((3, 1)).arr.to_list(),
        pl.DataFrame({"from": moments}).to_struct("at"),
    ):
        batch = protected(column)
        found = {
            batch.group_by("at", keys=column[place : place + 1]).private_sum("x").request.digest
            for place in range(3)
        }
        assert len(found) == 3


def test_both_hours_of_a_night_are_told_apart():
    """When clocks are put back, two hours have one name."""
    night = pl.Series(["2026-10-25T00:30", "2026-10-25T01:30"]).str.to_datetime(time_zone="UTC")
    column = night.dt.convert_time_zone("Europe/Berlin")
    for found in digests(column):
        assert len(set(found)) == 2


def test_whole_microseconds_keep_the_digest_they_had():
    """A release that is kept under an id is found again by whoever asks the same with this version."""
    moments = pl.Series(["2026-01-01T00:00", "2026-01-02T00:00"]).str.to_datetime()
    assert (
        digests(moments.cast(pl.Datetime("ns")))[0] == digests(moments.cast(pl.Datetime("us")))[0]
    )


def test_an_id_does_not_give_the_release_of_another_nanosecond(tmp_path):
    """Asked for one moment under an id that is another's, an account refuses and gives nothing out."""
    batch = protected(NANOSECONDS.cast(pl.Datetime("ns")))
    first, other = (batch.group_by("at", keys=batch_key).private_sum("x") for batch_key in _keys())
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("moments", batch.request.scenario, limit=pf.Pure(9.0))
        first.release(epsilon=1.0, account=account, id="now")
        with pytest.raises(pf.UsageError, match="belongs to another plan"):
            other.release(epsilon=1.0, account=account, id="now")


def _keys():
    moments = NANOSECONDS.cast(pl.Datetime("ns"))
    return moments[:1], moments[1:2]
