"""Attacks on plans: the laws are those that noise was made for, in whole steps, with the noise of a release."""

import itertools

import numpy as np
import polars as pl
import pytest
from thinned import thinned
from worlds import with_scale

import pufferflow as pf
from pufferflow.audit import attack
from pufferflow.audit.worlds import Path, _stretch

STAY = [[0.9, 0.1], [0.2, 0.8]]
LEVEL = pf.Secret("level", domain=[0, 1, 2, 3])
ON = pf.Secret("level", domain=[0, 1])
UNIT = pf.Secret("level", domain=pf.Interval(0, 3))
ROWS = {"within": "meter", "order_by": "hour", "public": ["meter", "hour", "day"], "start": 0}
CLASSES = pf.LatentClass([0.5, 0.5], [[0.7, 0.2, 0.1, 0], [0.1, 0.1, 0.2, 0.6]])
SCENARIOS = {
    "independent": pf.Scenario(LEVEL, pf.Independent(), **ROWS),
    "any": pf.Scenario(LEVEL, pf.AnyCorrelation(), **ROWS),
    "chain": pf.Scenario(ON, pf.MarkovChain(STAY), **ROWS),
    "free start": pf.Scenario(ON, pf.MarkovChain(STAY, initial="free"), **ROWS),
    "first value": pf.Scenario(pf.Initial("level", [0, 1]), pf.MarkovChain(STAY), **ROWS),
    "class of chains": pf.Scenario(
        ON, pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]), **ROWS
    ),
    "hidden class": pf.Scenario(LEVEL, CLASSES, **ROWS),
    "gaussian": pf.Scenario(
        UNIT, pf.GaussianPrior(covariance=pf.AR1(0.5), variance=1.0, mean=1.5), **ROWS
    ),
    "weak": pf.Scenario(UNIT, pf.WeaklyDependent(0.5), **ROWS),
    "interval": pf.Scenario(UNIT, pf.Independent(), **ROWS),
    "presence": pf.Scenario(
        pf.Presence("meter", "level", [0, 1, 2, 3], rows=5), pf.AnyCorrelation(), within="meter"
    ),
}


def asked(scenario, rows=24):
    frame = pl.DataFrame(
        {
            "level": np.arange(rows) % 2,
            "hour": np.arange(rows),
            "meter": np.zeros(rows, dtype=int),
            "day": np.arange(rows) // 6,
        }
    )
    if isinstance(getattr(scenario.secret, "domain", None), pf.Interval):
        frame = frame.with_columns(pl.col("level").cast(float))
    return pf.protect(frame, scenario)


def seeded(seed=1):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("days", thinned([False, True], 0.5), ids=["one sum", "a sum a day"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_prior_withstands(name, days):
    """Plans under every kind of prior are not broken, and the attack names secrets, prior and event."""
    batch = asked(SCENARIOS[name])
    if days and name != "presence":
        batch = batch.group_by("day")
    plan = batch.private_sum("level").plan(pf.Pure(1.0))
    found = attack(plan, trials=4_000, rng=seeded())
    assert not found.broken
    assert found.promised == found.against == pf.Pure(1.0)
    assert "under the prior that" in found.pair
    assert "against" in found.pair
    on_interval = isinstance(getattr(SCENARIOS[name].secret, "domain", None), pf.Interval)
    assert (
        on_interval == ("one value" in found.pair) == ("another" in found.pair)
    )  # corners have no names
    assert attack(with_scale(plan, 1 / 40), trials=4_000, rng=seeded()).broken


@pytest.mark.parametrize(
    "promise",
    thinned([pf.Renyi(4, 1.0), pf.Approx(1.0, 1e-3), pf.RenyiCurve([2, 4], [0.5, 1.0])], 0.22),
)
@pytest.mark.parametrize("name", ["independent", "chain", "gaussian"])
def test_every_promise_of_a_plan(name, promise):
    """Rényi and approximate guarantees withstand too, by whichever noise the plan has chosen."""
    plan = asked(SCENARIOS[name]).private_sum("level").plan(promise)
    found = attack(plan, trials=3_000, rng=seeded())
    assert not found.broken
    assert attack(with_scale(plan, 1 / 10), trials=3_000, rng=seeded()).broken


@pytest.mark.parametrize(
    ("name", "days", "bound", "share"),
    thinned(
        [
            ("independent", True, "auto", 0.9),
            ("any", True, pf.Group(), 0.9),
            ("chain", False, pf.Exact(), 0.8),
            ("chain", False, pf.Messages(), 0.8),
            ("chain", True, pf.Messages(), 0.65),
            ("hidden class", False, pf.Messages(), 0.85),
            ("gaussian", False, "auto", 0.9),
        ],
        0.29,
        unpack=True,
    ),
)
def test_tight_plans_are_nearly_broken(name, days, bound, share):
    """Where theory says that nothing is wasted, the attack shows most of ε, and more than ε with two thirds of it."""
    batch = asked(SCENARIOS[name])
    batch = batch.group_by("day") if days else batch
    plan = batch.private_sum("level").plan(pf.Pure(1.0), bound=bound)
    found = attack(plan, trials=40_000, rng=seeded())
    assert share < found.lower < 1
    assert attack(with_scale(plan, 2 / 3), trials=40_000, rng=seeded()).broken


def test_all_answers_are_attacked_together():
    """A batch of several queries shows what they tell jointly, not what one of them does."""
    batch = (
        asked(SCENARIOS["independent"]).private_sum("level").private_histogram("level", name="h")
    )
    plan = batch.plan(pf.Pure(1.0))
    found = attack(plan, trials=40_000, rng=seeded())
    assert "the vector of" in found.event
    assert 0.8 < found.lower < 1


def test_stand_ins_are_named():
    """Where two points stand for the secrets, the event says so; where rows are generated, it says that."""
    gaussian = attack(
        asked(SCENARIOS["gaussian"]).private_sum("level").plan(pf.Pure(1.0)),
        trials=1000,
        rng=seeded(),
    )
    assert "two points" in gaussian.event
    days = asked(SCENARIOS["chain"]).group_by("day").private_sum("level").plan(pf.Pure(1.0))
    assert "24 rows were generated" in attack(days, trials=1000, rng=seeded()).event
    class_of_chains = asked(SCENARIOS["class of chains"]).private_sum("level").plan(pf.Pure(1.0))
    assert "one row alone" in attack(class_of_chains, trials=1000, rng=seeded()).event


def test_answers_that_no_row_moves():
    """A plan whose answers depend on no value has nothing to attack."""
    plan = (
        asked(SCENARIOS["independent"])
        .private_count(pl.col("level") >= 0, name="rows")
        .plan(pf.Pure(1.0))
    )
    found = attack(plan, trials=1000, rng=seeded())
    assert (found.lower, found.broken) == (0.0, False)


def test_noise_is_that_of_a_release():
    """The operating system's randomness serves plans as well."""
    plan = asked(SCENARIOS["independent"]).private_sum("level").plan(pf.Pure(1.0))
    assert 0.8 < attack(plan, trials=30_000).lower < 1.05


@pytest.mark.slow
def test_paths_follow_the_chain():
    """Generated sums have the law that going through all sequences of states gives."""
    kernels = np.array([STAY, [[0.3, 0.7], [0.6, 0.4]]])
    order, start, row, state = np.array([0, 1, 0]), np.array([0.25, 0.75]), 2, 1
    cells, tables = np.array([0, 1, 0, 1]), np.array([[0.0, 2.0]])
    truth = {}
    for path in itertools.product((0, 1), repeat=4):
        if path[row] == state:
            chance = start[path[0]] * np.prod(
                [kernels[order[t]][path[t], path[t + 1]] for t in range(3)]
            )
            key = 2 * (path[0] + path[2]), 2 * (path[1] + path[3])
            truth[key] = truth.get(key, 0.0) + chance
    whole, count = sum(truth.values()), 200_000
    path = Path(kernels, order, start, row, state, cells, tables)
    values, counts = np.unique(np.array(path.draw(count, seeded())), axis=1, return_counts=True)
    assert {tuple(one) for one in values.T.tolist()} == set(truth)
    for one, many in zip(values.T.tolist(), counts.tolist(), strict=True):
        p = truth[tuple(one)] / whole
        assert many / count == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / count))


def test_answers_near_the_row_are_kept():
    """Of many cells the nearest eight, and of many rows only those between them and the secret's."""
    cells = np.arange(1000) // 10
    first, own = _stretch(cells, 505)
    assert first <= 505 < first + len(own) <= first + 90
    assert sorted(set(own.tolist())) == list(range(8))
    first, own = _stretch(np.where(cells == 50, 0, -1), 520)
    assert (first, len(own), own[:10].tolist(), own[-1]) == (500, 21, [0] * 10, -1)
    assert _stretch(np.full(10, -1), 3) is None
    assert _stretch(np.append(np.full(5000, -1), 0), 0) is None
