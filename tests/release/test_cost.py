"""What a plan says of its cost: numbers that hold for every group, and places that hold for every row asked about."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

STAY = [[0.9, 0.1], [0.1, 0.9]]
SECRET = pf.Secret("on", [0, 1])


def scenario(prior, **options):
    return pf.Scenario(
        SECRET, prior, order_by="hour", within="house", public=["day", "part"], **options
    )


def frame(hours_of):
    """Return rows of houses, each with its hours."""
    houses = [house for house, hours in hours_of.items() for _ in hours]
    hours = np.concatenate([list(hours) for hours in hours_of.values()])
    return pl.DataFrame(
        {
            "house": houses,
            "hour": hours,
            "day": hours // 24,
            "part": hours % 2,
            "on": np.zeros(len(hours), int),
        }
    )


def cost_of(data, chosen, *filters, by=()):
    batch = pf.protect(data, chosen)
    for one in filters:
        batch = batch.filter(one)
    batch = batch.group_by(*by) if by else batch
    return batch.private_sum("on").plan(pf.Pure(1.0)).cost


def test_windows_of_a_schedule_share_a_shape():
    """The same window a day later has the same shape, at another place."""
    chosen = scenario(pf.MarkovChain(STAY))
    first, second = (
        cost_of(frame({"a": range(24 * day, 24 * day + 24)}), chosen) for day in (3, 4)
    )
    assert first.shape == second.shape
    assert first.shape.digest == second.shape.digest
    assert (second.offset - first.offset, first.offset) == (24, 72)
    assert first.shape.rows.runs == ((0, 24, 0),)


def test_rows_that_are_not_asked_about_are_in_the_hull():
    """A window within a longer sequence knows where the sequence begins and ends."""
    found = cost_of(frame({"a": range(96)}), scenario(pf.MarkovChain(STAY)), pl.col("day") == 2)
    assert (found.offset, found.steps_seen) == (48, (0, 95))
    assert found.shape.rows.runs == ((0, 24, 0),)


def test_cells_and_gaps_are_told():
    """Runs follow the rows: a new cell or a missing step begins another one."""
    data = frame({"a": [*range(3), *range(5, 8)]})
    assert cost_of(data, scenario(pf.MarkovChain(STAY))).shape.rows.runs == ((0, 3, 0), (5, 8, 0))
    data = frame({"a": range(22, 26)})
    found = cost_of(data, scenario(pf.MarkovChain(STAY)), by=("day",))
    assert found.shape.rows.runs == ((0, 2, 0), (2, 4, 1))


def test_groups_that_differ_are_covered():
    """Where houses have other hours, the steps are those of all of them, and cells are open."""
    found = cost_of(frame({"a": range(4), "b": range(2, 6)}), scenario(pf.MarkovChain(STAY)))
    assert found.shape.rows.covers
    assert found.shape.rows.runs == ((0, 6, 0),)
    assert found.shape.rows.selected == 4


@pytest.mark.slow
def test_exposures_are_what_one_row_tells():
    """ℓ(e, f) is the movement of one row over the scale of the noise, in both orders."""
    chosen = scenario(pf.MarkovChain(STAY))
    batch = (
        pf.protect(frame({"a": range(24)}), chosen)
        .private_sum("on")
        .private_count(pl.col("on") == 0, name="n")
    )
    plan = batch.plan(pf.Pure(1.0))
    exposure = 1 / plan.noises["on_sum"].scale + 1 / plan.noises["n"].scale
    assert plan.cost.shape.exposure == pytest.approx(
        np.array([[0, exposure], [exposure, 0]]), rel=1e-9
    )


def test_unordered_groups_tell_how_many_rows_they_have():
    """Without an order the largest numbers of rows count."""
    found = cost_of(
        frame({"a": range(5), "b": range(2)}), scenario(pf.AnyCorrelation()), pl.col("part") == 0
    )
    assert (found.shape.rows.selected, found.shape.rows.others) == (3, 2)
    assert found.shape.rows.runs is None
    assert found.shape.group_movement == pytest.approx(3 * np.ptp(found.shape.table))


def test_rows_that_stand_alone_need_no_pass():
    """Independent rows have a cost without looking at a single public column."""
    chosen = pf.Scenario(SECRET, pf.Independent(), public=["day"])
    found = cost_of(frame({"a": range(5)}).drop("house", "hour"), chosen, pl.col("day") == 1)
    assert found.shape.rows is None
    assert found.shape.group_movement is None
    assert {name: region.labels for name, region in found.regions.items()} == {"day": (1,)}


def test_filters_that_meet_are_narrowed():
    """Two filters of one column leave what both do, and keys name places as well."""
    chosen = scenario(pf.AnyCorrelation())
    found = cost_of(frame({"a": range(5)}), chosen, pl.col("day") >= 0, pl.col("day") < 3)
    assert (
        found.regions["day"].low,
        found.regions["day"].high,
        found.regions["day"].high_open,
    ) == (0, 3, True)
    batch = (
        pf.protect(frame({"a": range(5)}), chosen).group_by("day", keys=[0, 1]).private_sum("on")
    )
    assert batch.plan(pf.Pure(1.0)).cost.regions["day"].labels == (0, 1)


def test_costs_survive_being_stored():
    """A certificate with its cost is read back unchanged."""
    chosen = scenario(pf.MarkovChain(STAY))
    release = pf.protect(frame({"a": range(24)}), chosen).private_sum("on").release(epsilon=1.0)
    stored = pf.Certificate.from_json(release.certificate.to_json())
    assert stored.cost == release.certificate.cost
    assert stored.cost.shape.digest == release.certificate.cost.shape.digest
    assert pf.compose([stored], chosen).total == pf.compose([release], chosen).total


def test_releases_survive_being_stored():
    """The bytes of a release give it back; other bytes are refused."""
    release = (
        pf.protect(frame({"a": range(24)}), scenario(pf.MarkovChain(STAY)))
        .private_sum("on")
        .release(epsilon=1.0)
    )
    again = pf.Release.from_bytes(release.to_bytes())
    assert again.frame.equals(release.frame)
    assert again.intervals.equals(release.intervals)
    assert again.certificate == release.certificate
    for wrong in (b"", b"release", release.to_bytes()[:-9]):
        with pytest.raises(pf.UsageError):
            pf.Release.from_bytes(wrong)


def test_certificates_tell_filters_apart():
    """Plans that differ in a literal value, a column or a function have other certificates; equal plans equal ones."""
    chosen = scenario(pf.Independent())
    batch = pf.protect(frame({"a": range(50)}), chosen)
    asked = [
        batch.filter(pl.col("house").str.contains("a")),
        batch.filter(pl.col("house").str.contains("b")),
        batch.filter((pl.col("day") == 1) | (pl.col("part") == 0)),
        batch.filter((pl.col("day") == 2) | (pl.col("part") == 0)),
        batch.with_columns(late=pl.col("hour") > 3),
        batch.with_columns(late=pl.col("hour") > 4),
        batch.group_by("day", keys=[0, 1]),
        batch.group_by("day", keys=[0, 2]),
    ]
    plans = [one.private_sum("on").plan(pf.Pure(1.0)) for one in asked]
    plans.append(batch.private_count(pl.col("on") == 0).plan(pf.Pure(1.0)))
    plans.append(batch.private_count(pl.col("on") == 1).plan(pf.Pure(1.0)))
    digests = [plan.request.digest for plan in plans]
    assert len(set(digests)) == len(plans)
    assert asked[0].private_sum("on").plan(pf.Pure(1.0)).request.digest == digests[0]
    certificate = plans[2].release().certificate
    assert certificate.questions == digests[2]
    assert "day == 1" in str(certificate)
