"""`plan.sensitivities()`: distances of laws pair by pair, the scales that bounds ask for, and the pair that decides."""

import itertools
import math
import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

TABLES = Path(os.environ.get("PUFFERFLOW_TABLES", Path(__file__).parents[3] / "shared" / "data"))
BOUNDS = ("gwm", "gawm", "dagwm", "exact")
OUTLIER = {
    "ill": [0, 0, 1, 1, 1],
    "kw": [0, 1, 0, 1, 50],
    "probability": [0.25, 0.25, 0.2, 0.2985, 0.0015],
}
CHAIN = pf.MarkovChain([[0.8, 0.2], [0.3, 0.7]])


def outlier():
    scenario = pf.Scenario(pf.Secret("ill", domain=[0, 1]), pf.Table(OUTLIER))
    return pf.protect(pl.DataFrame({"ill": [0, 1], "kw": [1, 50]}), scenario).private_sum("kw")


def along(rows, prior=CHAIN, units=1, domain=(0, 1)):
    frame = pl.DataFrame(
        {
            "unit": np.repeat(np.arange(units), rows),
            "hour": np.tile(np.arange(rows), units),
            "level": np.tile(np.resize(list(domain), rows), units),
        }
    )
    secret = pf.Secret("level", domain=list(domain))
    scenario = pf.Scenario(secret, prior, within="unit", order_by="hour")
    return pf.protect(frame, scenario).private_sum("level")


def in_class():
    prior = pf.LatentClass([0.5, 0.5], [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 5]), prior, within="unit")
    frame = pl.DataFrame({"unit": [1, 1, 1, 2], "level": [0, 1, 5, 0]})
    return pf.protect(frame, scenario).private_sum("level")


BATCHES = {
    "outlier": outlier,
    "chain": lambda: along(5),
    "class": in_class,
    "constants": lambda: along(3, pf.Independent(), domain=(0, 2, 7)),
    "two sums": lambda: along(3).private_sum(pl.col("level") * 3, name="more"),
    "any": lambda: along(4, pf.AnyCorrelation()),
}
GUARANTEES = {"pure": pf.Pure(1.0), "renyi": pf.Renyi(4, 1.0), "approx": pf.Approx(1.0, 0.002)}


@pytest.mark.parametrize("name", thinned(BATCHES, 0.5))
@pytest.mark.parametrize("noise", thinned(["laplace", "gaussian"], 0.5))
def test_the_farthest_pair_is_the_plans_sensitivity(name, noise):
    """The largest W_∞ of a row is the sensitivity of a plan by GWM, in the unit of its certificate."""
    plan = BATCHES[name]().plan(pf.Renyi(4, 1.0), bound="gwm", noise=noise, row_privacy=False)
    found = plan.sensitivities()
    assert found["w_inf"].max() == pytest.approx(plan.certificate.sensitivity, rel=1e-9)
    assert found["decides"].sum() == 1
    assert found.filter("decides")["w_inf"][0] == found["w_inf"].max()


@pytest.mark.parametrize("name", thinned(["outlier", "chain", "class", "constants"], 0.5))
@pytest.mark.parametrize("guarantee", thinned(GUARANTEES, 0.3))
@pytest.mark.parametrize("bound", BOUNDS)
def test_scales_are_those_of_plans(name, guarantee, bound):
    """The largest scale in a column is that of a plan made with that bound alone."""
    batch, promise = BATCHES[name](), GUARANTEES[guarantee]
    found = batch.plan(promise, noise="laplace", row_privacy=False).sensitivities()
    if bound == "gawm" and not promise.delta:
        assert found["gawm"].is_null().all()
        return
    (noise,) = batch.plan(promise, noise="laplace", bound=bound, row_privacy=False).noises.values()
    assert found[bound].max() == pytest.approx(noise.scale, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_rows_of_a_chain_by_brute_force(rows):
    """Each row of the table is the two laws of all sequences with a value at its position."""
    found = along(rows).plan(pf.Pure(1.0), row_privacy=False).sensitivities(p=(1, 3))
    assert found.columns[5:8] == ["w_inf", "w_1", "w_3"]
    assert found.height == rows
    kernel, start = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0.6, 0.4])
    paths = list(itertools.product((0, 1), repeat=rows))
    odds = [
        start[path[0]] * math.prod(kernel[a, b] for a, b in itertools.pairwise(path))
        for path in paths
    ]  # fmt: skip
    for row in found.to_dicts():
        at = int(row["position"])
        laws = []
        for value in (0, 1):
            masses = np.zeros(rows + 1)
            for path, mass in zip(paths, odds, strict=True):
                masses[sum(path)] += mass * (path[at] == value)
            laws.append(masses / masses.sum())
        heads = [np.cumsum(law)[:-1] for law in laws]
        assert row["w_1"] == pytest.approx(np.abs(heads[0] - heads[1]).sum(), rel=1e-9)
        levels = np.unique(np.round(np.concatenate([[0], *heads, [1]]), 12))
        middles, masses = (levels[1:] + levels[:-1]) / 2, np.diff(levels)
        moves = np.abs(np.searchsorted(heads[0], middles) - np.searchsorted(heads[1], middles))
        assert row["w_inf"] == moves.max()
        assert row["w_3"] == pytest.approx((masses @ moves**3) ** (1 / 3), rel=1e-9)


@pytest.mark.slow
def test_the_outlier_pair():
    """W_∞ is 49, and all but .003 of the probability moves by 1: GAWM's gain, which GWM cannot see."""
    (row,) = (
        outlier()
        .plan(pf.Approx(1.0, 0.003), noise="laplace", row_privacy=False)
        .sensitivities()
        .to_dicts()
    )
    assert (row["w_inf"], row["near"], row["gawm"]) == pytest.approx((49.0, 1.0, 1.0))
    assert row["gwm"] > 40
    assert row["decides"]


def test_salaries():
    """Example 2, the mean of two salaries: W_∞ of .5, 49.5 and 49, where 98 and 1 were printed."""
    low, middle, high = 0.5, 0.497, 0.003
    law = {1: low, 2: middle, 100: high}
    rows = [(a, b, law[a] * law[b]) for a in law for b in law]
    table = pf.Table(
        {
            "mine": [a for a, _, _ in rows],
            "mean": [(a + b) / 2 for a, b, _ in rows],
            "probability": [mass for *_, mass in rows],
        }
    )
    scenario = pf.Scenario(pf.Secret("mine", domain=[1, 2, 100]), table)
    batch = pf.protect(pl.DataFrame({"mine": [1], "mean": [1.5]}), scenario).private_sum("mean")
    found = batch.plan(pf.Approx(1.0, 0.003), noise="laplace", row_privacy=False).sensitivities()
    by_pair = {frozenset((row["first"], row["second"])): row for row in found.to_dicts()}
    pairs = [frozenset(pair) for pair in (("1", "2"), ("1", "100"), ("2", "100"))]
    assert [by_pair[pair]["w_inf"] for pair in pairs] == pytest.approx([0.5, 49.5, 49.0], rel=1e-6)
    assert [by_pair[pair]["near"] for pair in pairs] == pytest.approx([0.5, 49.5, 49.0], rel=1e-6)


def test_laws_that_are_not_known_have_their_movement():
    """Any correlation lists no pairs: one row for the pattern, with W_∞, its scale, and why there is no more."""
    found = BATCHES["any"]().plan(pf.Pure(1.0)).sensitivities()
    assert found.height == 1
    assert found["w_inf"][0] == 4.0
    assert found.select("w_1", "w_2", "near", "gawm", "dagwm", "exact").row(0) == (None,) * 6
    assert "movement" in found["note"][0]


def test_each_prior_and_pattern_has_its_rows():
    """Rows say which prior they are of, how many groups have the pattern, and at which step the secret stands."""
    other = pf.MarkovChain([[0.5, 0.5], [0.1, 0.9]])
    frame = pl.DataFrame(
        {"unit": [1, 1, 2, 2, 3], "hour": [0, 1, 0, 1, 0], "level": [0, 1, 0, 1, 0]}
    )
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1]), [CHAIN, other], within="unit", order_by="hour"
    )
    plan = pf.protect(frame, scenario).private_sum("level").plan(pf.Pure(1.0))
    found = plan.sensitivities()
    assert found["prior"].n_unique() == 2
    counted = found.group_by("prior", "groups").len().sort("groups")
    assert counted.select("groups", "len").rows() == [(1, 1), (1, 1), (2, 2), (2, 2)]
    assert set(found["position"]) == {0.0, 1.0}


@pytest.mark.slow
def test_many_pairs_are_sampled_with_a_note(monkeypatch):
    """Of more pairs than are shown, evenly spaced ones have a row, and the one that decides."""
    plan = along(40).plan(pf.Pure(1.0), bound="gwm", row_privacy=False)
    whole = plan.sensitivities()
    module = sys.modules["pufferflow.release.explain.sensitivities"]
    monkeypatch.setattr(module, "_WHOLE", module._Effort(rows=10))
    found = plan.sensitivities()
    assert 10 <= found.height <= 12
    assert found["note"].str.contains("one of 10 of 40 pairs").all()
    assert found["w_inf"].max() == whole["w_inf"].max()


def test_the_certificate_and_the_table_have_one_unit():
    """A sum of shares of a unit is shown in the unit of the answer, whatever its weights are inside."""
    frame = pl.DataFrame({"kw": [0.25, 0.5]})
    scenario = pf.Scenario(pf.Secret("kw", domain=[0.0, 0.25, 0.5]), pf.Independent())
    plan = (
        pf.protect(frame, scenario)
        .private_sum("kw")
        .plan(pf.Pure(1.0), noise="laplace", bound="gwm")
    )
    (row,) = plan.sensitivities().filter("decides").to_dicts()
    assert row["w_inf"] == plan.certificate.sensitivity == 0.5
    assert row["gwm"] == pytest.approx(plan.noises["kw_sum"].scale)
    assert plan.certificate.sensitivity_unit == "in the unit of the answer"


def test_no_private_row_is_read():
    """The table is that of the prior: data with other private values have the same."""
    frames = [
        pl.DataFrame({"unit": 1, "hour": [0, 1, 2], "level": level})
        for level in ([0, 0, 0], [1, 1, 0])
    ]
    asked = [pf.protect(frame, along(3).request.scenario).private_sum("level") for frame in frames]
    first, second = (batch.plan(pf.Pure(1.0)).sensitivities() for batch in asked)
    assert first.equals(second)


@pytest.mark.parametrize("p", [0.5, "two", [1, None]])
def test_orders_that_are_none_are_refused(p):
    """W_p is a distance for p >= 1."""
    with pytest.raises(pf.UsageError, match="p is"):
        along(2).plan(pf.Pure(1.0)).sensitivities(p)


@pytest.mark.slow
@pytest.mark.skipif(not TABLES.exists(), reason="needs the data sets of the paper")
def test_table_1_of_the_paper():
    """Student: W_∞ is 8 and W_2 2.276, where 2.76 was printed; laws as counted in the data."""
    files = sorted(TABLES.rglob("student-mat*.csv"))
    if not files:
        pytest.skip("the students are not there")
    text = files[0].read_text()
    frame = pl.read_csv(files[0], separator=";" if ";" in text.splitlines()[0] else ",")
    counted = frame.group_by("paid", "G3").len().sort("paid", "G3")
    table = pf.Table(
        {
            "paid": counted["paid"].to_list(),
            "G3": counted["G3"].to_list(),
            "probability": (counted["len"] / frame.height).to_list(),
        }
    )
    scenario = pf.Scenario(pf.Secret("paid", domain=["no", "yes"]), table)
    plan = (
        pf.protect(frame.select("paid", "G3"), scenario)
        .private_sum("G3")
        .plan(pf.Renyi(4, 1.0), noise="laplace")
    )
    (row,) = plan.sensitivities().to_dicts()
    assert row["w_inf"] == 8.0
    assert row["w_2"] == pytest.approx(2.276, abs=5e-4)
