"""What releases keep if a prior is wrong: of one row exactly what it tells at worst, of a group no less than that."""

import itertools
import math

import msgspec
import numpy as np
import polars as pl
import pytest
from answers import close_above
from thinned import nightly, thinned

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.row_and_group_privacy import differential_privacy, group_privacy

LIMIT = pf.Pure(1e6)
ROWS, LEVELS = 6, [0, 1, 2]
CHAIN = pf.MarkovChain([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
PRIORS = {
    "chain": CHAIN,
    "chains": pf.MarkovChain.between([[0.7, 0.05, 0.05]] * 3, [[0.9, 0.25, 0.25]] * 3),
    "class": pf.LatentClass([0.5, 0.5], [[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]]),
    "independent": pf.Independent(),
    "any": pf.AnyCorrelation(),
}
FRAME = pl.DataFrame(
    {
        "unit": ["a"] * ROWS + ["b"] * ROWS,
        "hour": [*range(ROWS)] * 2,
        "part": [hour % 2 for hour in range(ROWS)] * 2,
        "level": [0, 1, 2] * (2 * ROWS // 3),
    }
)


def scenario_of(prior, pairs="all", **options):
    secret = options.pop("secret", pf.Secret("level", domain=LEVELS, pairs=pairs))
    return pf.Scenario(secret, prior, order_by="hour", within="unit", public="part", **options)


def spent_of(scenario, costs, limit=LIMIT):
    found = AccountCosts([scenario], limit)
    for cost in costs:
        found.add(cost)
    return found


def drawn(rng, scenario):
    """Return a plan for some sums with weights of both signs over hours that may be in others too, and what they are.

    What they are: the hours, and for each sum its values at the levels and its noise.
    """
    batch, functions = pf.protect(FRAME, scenario), []
    first = int(rng.integers(ROWS))
    hours = (
        [*range(first, ROWS)]
        if rng.integers(2)
        else sorted(rng.choice(ROWS, 3, replace=False).tolist())
    )
    batch = batch.filter(pl.col("hour").is_in(hours))
    if rng.integers(2):
        batch = batch.group_by("part")
    for number in range(int(rng.integers(1, 3))):
        values = [
            number + 1,
            *rng.integers(-3, 4, len(LEVELS) - 1).tolist(),
        ]  # equal sums would be one, with one noise
        chosen = pl.col("level").replace_strict(
            dict(zip(LEVELS, values, strict=True)), return_dtype=pl.Float64
        )
        batch, functions = batch.private_sum(chosen, name=f"sum{number}"), [*functions, values]
    quick = {} if scenario.priors[0].independent_rows else {"bound": pf.Group()}
    plan = batch.plan(pf.Pure(float(rng.uniform(0.2, 2.0))), noise=pf.Laplace, **quick)
    return plan, (
        hours,
        functions,
        [plan.noises[f"sum{number}"].scale for number in range(len(functions))],
    )


def truth_of(releases, pairs, factor=1.0):
    """Return what all noisy sums reveal about one row at worst, if nothing depends on it: movements over scales."""
    losses = [0.0]
    for hour in range(ROWS):
        for a, b in pairs:
            moved = [
                abs(values[a] - values[b]) / (scale * factor)
                for hours, functions, scales in releases
                if hour in hours
                for values, scale in zip(functions, scales, strict=True)
                if scale > 0
            ]
            losses.append(sum(moved))
    return max(losses)


def case(seed, prior, pairs="all"):
    rng, scenario = np.random.default_rng(seed), scenario_of(prior, pairs)
    plans, releases = zip(
        *(drawn(rng, scenario) for _ in range(int(rng.integers(1, 5)))), strict=True
    )
    return spent_of(scenario, [plan.cost for plan in plans]), releases


@pytest.mark.parametrize("name", thinned(PRIORS, 0.2))
@pytest.mark.parametrize("pairs", ["all", "adjacent"])
def test_of_one_row_it_is_what_the_row_tells_at_worst(name, pairs):
    """Not less, and no more: over all rows and pairs, whatever windows, keys, signs and numbers of sums."""
    chosen = [(0, 1), (1, 2)] if pairs == "adjacent" else [*itertools.combinations(range(3), 2)]
    for seed in range(4):
        spent, releases = case(seed, PRIORS[name], pairs)
        assert close_above(
            differential_privacy(spent).epsilon, truth_of(releases, chosen), most=1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(6, 16), *nightly(range(16, 60))])
def test_many_batches_and_schedules(seed):
    """The same for many more cases, of a chain."""
    spent, releases = case(seed, CHAIN)
    assert close_above(
        differential_privacy(spent).epsilon, truth_of(releases, [(0, 1), (1, 2), (0, 2)]), most=1e-5
    )


@pytest.mark.slow
def test_less_noise_tells_more():
    """With nine tenths of the noise a row reveals more than what is said."""
    for seed in range(6):
        spent, releases = case(seed, CHAIN)
        told = differential_privacy(spent).epsilon
        assert told == 0 or truth_of(releases, [(0, 1), (1, 2), (0, 2)], 0.9) > told * 1.05


@pytest.mark.parametrize("name", thinned(PRIORS, 0.2))
def test_a_group_tells_no_less_than_a_row(name):
    """Nor than all priors do; where rows are believed to be independent nobody looked at groups."""
    for seed in range(3):
        spent, _ = case(seed, PRIORS[name])
        group = group_privacy(spent)
        if name == "independent":
            assert group is None
            continue
        assert group.epsilon >= differential_privacy(spent).epsilon * (1 - 1e-12)
        assert group.epsilon >= spent.total().total * (1 - 1e-5)


def test_a_group_is_told_of_by_all_of_its_rows():
    """Six hours that move by 2 each, with noise of scale 12, three times: 3; and of one hour a sixth of that."""
    scenario = scenario_of(pf.AnyCorrelation())
    plan = pf.protect(FRAME, scenario).private_sum("level").plan(pf.Pure(1.0))
    spent = spent_of(scenario, [plan.cost] * 3)
    assert group_privacy(spent).epsilon == pytest.approx(3.0)
    assert differential_privacy(spent).epsilon == pytest.approx(0.5)


@pytest.mark.slow
def test_windows_of_other_steps_are_other_rows():
    """Files of a day each, without filters: rows at other steps are other rows, so one day counts."""
    scenario = scenario_of(CHAIN)

    def day(number, of=scenario):
        frame = FRAME.with_columns(pl.col("hour") + ROWS * number)
        return pf.protect(frame, of).private_sum("level").plan(pf.Pure(0.5)).cost

    apart, again = [day(number) for number in range(4)], [day(0)] * 4
    one = differential_privacy(spent_of(scenario, apart[:1])).epsilon
    assert differential_privacy(spent_of(scenario, apart)).epsilon == pytest.approx(one, rel=1e-6)
    assert differential_privacy(spent_of(scenario, again)).epsilon == pytest.approx(
        4 * one, rel=1e-6
    )
    late = msgspec.structs.replace(day(1), clock="another")
    assert differential_privacy(spent_of(scenario, [day(0), late])).epsilon == pytest.approx(
        2 * one, rel=1e-6
    )


@pytest.mark.parametrize(
    ("prior", "promise", "noise"),
    thinned(
        [
            (pf.GaussianPrior(pf.AR1(0.8), variance=4.0, mean=5.0), pf.Pure(0.5), pf.Laplace),
            (pf.GaussianPrior(pf.AR1(0.8), variance=4.0, mean=5.0), pf.Renyi(4, 0.5), pf.Gaussian),
            (
                pf.GaussianPrior(pf.Exchangeable(0.3), variance=4.0, mean=5.0),
                pf.Approx(0.5, 1e-6),
                pf.Gaussian,
            ),
            (pf.AnyCorrelation(), pf.Pure(0.5), pf.Laplace),
        ],
        0.25,
        unpack=True,
    ),
)
@pytest.mark.parametrize("pairs", ["all", pf.WithinDistance(2)])
def test_on_an_interval_it_is_known_for_every_belief(prior, promise, noise, pairs):
    """How far one row moves a sum between two paired values does not hang on what is believed of the others."""
    secret = pf.Secret("level", domain=pf.Interval(0, 10), pairs=pairs)
    scenario = scenario_of(prior, secret=secret)
    plan = pf.protect(FRAME, scenario).private_sum("level").plan(promise, noise=noise)
    moved, scale = 10.0 if pairs == "all" else 2.0, plan.noises["level_sum"]
    spent = spent_of(scenario, [plan.cost], msgspec.structs.replace(promise, epsilon=1e6))
    kinds = {
        pf.Pure: scale.pure,
        pf.Renyi: lambda z: scale.renyi(z, 4.0),
        pf.Approx: lambda z: epsilon(scale, z),
    }
    truth = kinds[type(promise)](moved)
    assert truth - 1e-4 <= differential_privacy(spent).epsilon <= 1.05 * truth + 1e-2


def epsilon(noise, shift, delta=1e-6):
    """Return the least ε of a Gaussian shift, on a grid."""
    grid = np.linspace(0, 1, 20_001)
    return float(grid[np.argmax([noise.delta(shift, one) <= delta for one in grid])])


def test_of_the_first_row_only_releases_that_ask_for_it_count():
    """Under pf.Initial it is about the first row of a sequence."""
    scenario = scenario_of(CHAIN, secret=pf.Initial("level", domain=LEVELS), start=0)
    batch = pf.protect(FRAME, scenario)
    halves = [
        batch.filter(pl.col("hour").is_between(3 * n, 3 * n + 2)).private_sum("level")
        for n in (0, 1)
    ]
    first, second = (half.plan(pf.Pure(0.5)) for half in halves)
    one = 2.0 / first.noises["level_sum"].scale
    assert differential_privacy(
        spent_of(scenario, [first.cost, second.cost])
    ).epsilon == pytest.approx(one)
    assert differential_privacy(spent_of(scenario, [second.cost])).epsilon == 0


def test_nothing_is_said_where_no_value_of_a_row_is_hidden():
    """Of the presence of units, of derived secrets, and where another column than the secret's is asked about."""
    presence = pf.Scenario(pf.Presence("unit", "level", LEVELS, rows=12), pf.Independent())
    plan = pf.protect(FRAME, presence).private_sum("level").plan(pf.Pure(0.5))
    assert differential_privacy(spent_of(presence, [plan.cost])) is None
    table = pf.Table(
        pl.DataFrame(
            {"ill": [0, 0, 1, 1], "level": [0, 2, 0, 2], "probability": [0.3, 0.2, 0.2, 0.3]}
        )
    )
    for secret in (pf.Derived("ill"), pf.Secret("ill", domain=[0, 1])):
        scenario = pf.Scenario(secret, table)
        frame = FRAME.with_columns(ill=pl.lit(0)) if isinstance(secret, pf.Secret) else FRAME
        plan = pf.protect(frame, scenario).private_sum("level").plan(pf.Pure(0.5))
        assert differential_privacy(spent_of(scenario, [plan.cost])) is None


def test_shapes_of_older_versions_say_what_they_know():
    """A shape on an interval that lacks a row's own movement is bounded by its group's, or nothing is known."""
    secret = pf.Secret("level", domain=pf.Interval(0, 10))
    scenario = scenario_of(pf.GaussianPrior(pf.AR1(0.8), variance=4.0, mean=5.0), secret=secret)
    cost = (
        pf.protect(FRAME, scenario).private_sum("level").plan(pf.Pure(0.5), noise=pf.Laplace).cost
    )
    old = msgspec.structs.replace(
        cost, shape=msgspec.structs.replace(cost.shape, independent_moves=None)
    )
    assert differential_privacy(spent_of(scenario, [cost])) != group_privacy(
        spent_of(scenario, [cost])
    )
    assert differential_privacy(spent_of(scenario, [old])) == group_privacy(
        spent_of(scenario, [old])
    )
    older = msgspec.structs.replace(
        old, shape=msgspec.structs.replace(old.shape, group_movement=None)
    )
    assert differential_privacy(spent_of(scenario, [older])) is None
    assert group_privacy(spent_of(scenario, [older])) is None


def test_without_releases_nothing_is_told():
    """An account that has released nothing keeps everything."""
    for prior in PRIORS.values():
        spent = spent_of(scenario_of(prior), [])
        assert differential_privacy(spent) == group_privacy(spent) == pf.Pure(0.0)
    assert math.isfinite(spent.total().total)
