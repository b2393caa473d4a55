"""What releases tell together is never less than what going through all outputs finds, and rules are named."""

import math

import numpy as np
import polars as pl
import pytest
import together
from thinned import thinned

import pufferflow as pf

STAY = [[0.9, 0.1], [0.1, 0.9]]


def scenario(prior, domain=(0, 1), **options):
    return pf.Scenario(
        pf.Secret("state", list(domain)), prior, order_by="hour", public=["group"], **options
    )


def random_case(seed):
    """Return a chain, a scenario for it, and two or three releases about windows that may overlap."""
    rng = np.random.default_rng(seed)
    states, rows = int(rng.integers(2, 4)), int(rng.integers(3, 6))
    transition = rng.dirichlet(np.ones(states), states) * 0.9 + 0.1 / states
    stationary = bool(rng.integers(2))
    initial = (
        np.linalg.matrix_power(transition, 400)[0] if stationary else rng.dirichlet(np.ones(states))
    )
    prior = pf.MarkovChain(transition, initial="stationary" if stationary else initial)
    asked = [
        together.Asked(
            tuple(sorted(rng.choice(rows, int(rng.integers(1, rows + 1)), replace=False).tolist())),
            tuple(rng.integers(-2, 3, states).tolist()),
            float(rng.uniform(0.2, 2.0)),
        )
        for _ in range(int(rng.integers(2, 4)))
    ]
    return transition, initial, rows, prior, asked


def truth_of(seed, factor=1.0):
    transition, initial, rows, prior, asked = random_case(seed)
    chosen = scenario(prior, range(len(transition)))
    plans = [together.plan_of(together.frame(rows), chosen, one) for one in asked]
    moving = [
        (one.hours, one.values, plan.noises["answer"].scale * factor)
        for one, plan in zip(asked, plans, strict=True)
        if plan.noises["answer"].scale > 0
    ]
    truth = together.chain_truth(transition, initial, rows, moving) if moving else 0.0
    return truth, pf.compose(plans, chosen)


@pytest.mark.parametrize("seed", thinned(range(25), 0.12))
def test_windows_never_cost_less_than_they_tell(seed):
    """The total of overlapping windows is not below the truth over all outputs, with weights of both signs."""
    truth, found = truth_of(seed)
    assert truth <= found.total * (1 + 1e-12)
    assert found.adaptive


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(25, 400))
def test_many_windows_never_cost_less_than_they_tell(seed):
    """The same for many more cases."""
    truth, found = truth_of(seed)
    assert truth <= found.total * (1 + 1e-12)


def test_less_noise_costs_more_than_the_total():
    """With nine tenths of the noise some of these cases reveal more than their totals: these are near the truth."""
    assert any(truth > found.total for truth, found in (truth_of(seed, 0.9) for seed in range(12)))


@pytest.mark.parametrize(
    ("windows", "scale", "expected"),
    [
        (((0, 1), (2, 3), (4, 5)), 2.0, 2.11951),
        (((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)), 1.0, 4.46365),
    ],
)
def test_reference_windows(windows, scale, expected):
    """Three windows of a chain that stays cost what the reference table says."""
    chosen = scenario(pf.MarkovChain(STAY))
    data = together.frame(len(windows) * len(windows[0]))
    asked = [together.Asked(hours, (0, 1), len(hours) / scale) for hours in windows]
    plans = [together.plan_of(data, chosen, one, bound=pf.Group()) for one in asked]
    assert [plan.noises["answer"].scale for plan in plans] == pytest.approx([scale] * 3)
    assert pf.compose(plans, chosen).total == pytest.approx(expected, abs=2e-5)


def daily(chosen, days, **options):
    data = pl.DataFrame(
        {
            "hour": range(24 * days),
            "group": ["a"] * (24 * days),
            "day": np.repeat(np.arange(days), 24),
            "state": [0, 1] * (12 * days),
        }
    )
    batch = pf.protect(data, chosen)
    return [
        batch.filter(pl.col("day") == day).private_sum("state").plan(pf.Pure(0.8226388), **options)
        for day in range(days)
    ]


def of_days(prior, **options):
    return pf.Scenario(
        pf.Secret("state", [0, 1]),
        prior,
        order_by="hour",
        public=["group", "day"],
        within="group",
        **options,
    )


@pytest.mark.slow
def test_days_in_a_row_add_little():
    """A daily sum costs .8226 alone and nears .8724 with every day that follows; losses do not simply add."""
    chosen = of_days(pf.MarkovChain(STAY))
    totals = [pf.compose(daily(chosen, days), chosen).total for days in (1, 2, 5)]
    assert totals[0] == pytest.approx(0.8226388)
    assert totals[0] < totals[1] < totals[2] < 0.87244094
    assert totals[2] > 0.8724


def test_order_does_not_matter_and_more_never_costs_less():
    """Totals do not depend on the order of releases, and another release never makes them smaller."""
    transition, _, rows, prior, asked = random_case(3)
    chosen = scenario(prior, range(len(transition)))
    plans = [together.plan_of(together.frame(rows), chosen, one) for one in asked]
    whole = pf.compose(plans, chosen).total
    assert pf.compose(plans[::-1], chosen).total == pytest.approx(whole, rel=1e-12)
    assert pf.compose(plans[1:], chosen).total <= whole


def test_duplicates_are_charged():
    """The same release twice, with fresh noise, costs more than once and at most twice."""
    chosen = of_days(pf.MarkovChain(STAY))
    (plan,) = daily(chosen, 1)
    once, twice = (pf.compose([plan] * times, chosen).total for times in (1, 2))
    assert once < twice <= 2 * once * (1 + 1e-9)


def test_groups_that_are_named_apart_do_not_add():
    """Releases about different groups, named in their filters, cost as much as the worst of them."""
    chosen = of_days(pf.AnyCorrelation())
    data = pl.DataFrame(
        {"hour": [0, 1, 0, 1], "group": ["a", "a", "b", "b"], "day": [0] * 4, "state": [0, 1, 1, 0]}
    )
    batch = pf.protect(data, chosen)
    one, other = (
        batch.filter(pl.col("group") == name).private_sum("state").plan(pf.Pure(1.0))
        for name in "ab"
    )
    whole = batch.private_sum("state").plan(pf.Pure(0.5))
    assert pf.compose([one, other], chosen).total == pytest.approx(1.0)
    assert pf.compose([one, one], chosen).total == pytest.approx(2.0)
    assert pf.compose([one, other, whole], chosen).total == pytest.approx(1.5)


def test_days_of_one_group_do_add_under_any_correlation():
    """Rows of one group on different days may depend on each other in any way, so that these releases add."""
    chosen = of_days(pf.AnyCorrelation())
    plans = daily(chosen, 2)
    assert pf.compose(plans, chosen).total == pytest.approx(2 * 0.8226388)


def test_independent_rows_of_different_days_do_not_add():
    """Rows that reveal nothing about each other are one part each (M27)."""
    chosen = of_days(pf.Independent())
    plans = daily(chosen, 3)
    assert pf.compose(plans, chosen).total == pytest.approx(0.8226388)
    assert pf.compose([*plans, plans[1]], chosen).total == pytest.approx(2 * 0.8226388)


@pytest.mark.parametrize("phi", thinned([0.9, 0.5, -0.6], 0.3))
def test_autoregressive_days_add_like_geometric_series(phi):
    """Under AR(1) each day moves by its own share: the largest sum, and little more for bringing values to a grid."""
    chosen = pf.Scenario(
        pf.Secret("x", pf.Interval(0, 10)),
        pf.GaussianPrior(pf.AR1(phi)),
        order_by="hour",
        public=["day"],
    )
    data = pl.DataFrame({"hour": range(40), "day": np.repeat(np.arange(10), 4), "x": [5.0] * 40})
    batch = pf.protect(data, chosen)
    plans = [
        batch.filter(pl.col("day") == day).private_sum("x").plan(pf.Pure(1.0)) for day in range(10)
    ]
    scale = plans[0].noises["x_sum"].scale
    found = pf.compose(plans, chosen)

    def movement(row):
        rows = np.arange(40)
        moves = 10 * phi ** np.abs(rows - row)
        days = [moves[rows // 4 == day] for day in range(10)]
        return sum(max(day.clip(0).sum(), -day.clip(max=0).sum()) for day in days) / scale

    expected = max(movement(row) for row in range(40))
    assert expected <= found.total <= expected * 1.001
    assert "translation" in found.rule
    assert found.total < sum(plan.guarantee.epsilon for plan in plans)


@pytest.mark.slow
def test_gaussian_noise_adds_squares_along_the_translation():
    """Rényi losses of Gaussian noise are α/2 times the sum of squared movements over variances (M15, M16)."""
    chosen = pf.Scenario(
        pf.Secret("x", pf.Interval(0, 1)), pf.GaussianPrior(pf.AR1(0.7)), order_by="hour"
    )
    data = pl.DataFrame({"hour": range(30), "x": [0.5] * 30})
    batch = pf.protect(data, chosen)
    plans = [
        batch.filter(pl.col("hour") == hour)
        .private_sum("x")
        .plan(pf.Renyi(4, 0.5), noise=pf.Gaussian)
        for hour in range(30)
    ]
    sigma = plans[0].noises["x_sum"].scale
    found = pf.compose(plans, chosen)
    bound = 4 / (2 * sigma**2) * (1 + 0.7**2) / (1 - 0.7**2)
    middle = 4 / (2 * sigma**2) * (0.7 ** (2 * np.abs(np.arange(30) - 15))).sum()
    assert middle <= found.total <= bound * 1.001
    approx = pf.compose(plans, chosen, pf.Approx.of(1e-6))
    assert isinstance(approx.guarantee, pf.Approx)
    assert approx.total < 40


def test_one_release_costs_what_it_promises():
    """A single release is not charged more than its guarantee."""
    chosen = of_days(pf.MarkovChain(STAY))
    (plan,) = daily(chosen, 1)
    assert pf.compose([plan], chosen).total <= plan.guarantee.epsilon
    assert pf.compose([], chosen).guarantee == pf.Pure(0.0)


@pytest.mark.slow
def test_noise_without_a_pure_loss_is_refused_with_a_way_out():
    """Gaussian noise on windows of a chain has no pure total, and the error says what to do."""
    chosen = of_days(pf.MarkovChain(STAY))
    data = pl.DataFrame(
        {"hour": range(4), "group": ["a"] * 4, "day": [0] * 4, "state": [0, 1, 1, 0]}
    )
    plan = (
        pf.protect(data, chosen).private_sum("state").plan(pf.Approx(1.0, 1e-6), noise=pf.Gaussian)
    )
    with pytest.raises(pf.Refused, match="AnyCorrelation"):
        pf.compose([plan, plan], chosen, pf.Pure)
    assert math.isfinite(pf.compose([plan, plan], chosen, pf.Approx.of(1e-6)).total)


def test_several_beliefs_count_by_the_worst():
    """With a list of priors the total is that of the worst prior."""
    weak, strong = pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]]), pf.MarkovChain(STAY)
    both = of_days([weak, strong])
    plans = daily(both, 2)
    total = pf.compose(plans, both).total
    assert total == pytest.approx(
        max(pf.compose(plans, of_days(prior)).total for prior in (weak, strong))
    )


def test_misuse_is_told():
    """What is no release, no scenario or no kind of guarantee is refused."""
    chosen = of_days(pf.MarkovChain(STAY))
    (plan,) = daily(chosen, 1)
    for releases in (plan, "plan", [1], None):
        with pytest.raises(pf.UsageError):
            pf.compose(releases, chosen)
    with pytest.raises(pf.UsageError):
        pf.compose([plan], None)
    with pytest.raises(pf.UsageError):
        pf.compose([plan], chosen, 1.0)


def xor():
    """Return a scenario with two fair bits whose sum modulo 2 is hidden, and rows of them."""
    table = pf.Table(
        {"s": [0, 1, 1, 0], "x": [0, 0, 1, 1], "y": [0, 1, 0, 1], "probability": [0.25] * 4}
    )
    return pf.Scenario(pf.Derived("s"), table), pl.DataFrame({"x": [0, 1, 1], "y": [0, 0, 1]})


def test_two_releases_that_tell_nothing_may_tell_all():
    """Each bit alone needs hardly any noise, with which both together tell nearly all (XOR)."""
    chosen, data = xor()
    batch = pf.protect(data, chosen)
    one, other = (batch.private_sum(name).plan(pf.Pure(1.0)) for name in "xy")
    for plan, name in ((one, "x"), (other, "y")):
        assert plan.noises[f"{name}_sum"].scale == pytest.approx(1 / 4096)
    assert pf.compose([one], chosen).total == 0
    assert pf.compose([one, one], chosen).total == 0
    assert pf.compose([one, other], chosen).total > 1000


def test_two_releases_without_noise_may_tell_all(monkeypatch):
    """Releases of nothing but sums, as older versions made them, are free alone and refused together (XOR)."""
    monkeypatch.setattr("pufferflow.release.planning.choose_noise.least_scale", lambda *_: 0.0)
    chosen, data = xor()
    one, other = (pf.protect(data, chosen).private_sum(name).plan(pf.Pure(1.0)) for name in "xy")
    assert [plan.calibration.noise.scale for plan in (one, other)] == [0, 0]
    assert pf.compose([one, one], chosen).total == 0
    with pytest.raises(pf.Refused, match="No composition rule bounds"):
        pf.compose([one, other], chosen)


def test_an_account_sees_through_xor(tmp_path):
    """The second of two releases that tell all together is refused, whatever the limit, and nothing is charged."""
    chosen, data = xor()
    batch = pf.protect(data, chosen)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("bits", chosen, limit=pf.Pure(100.0))
        batch.private_sum("x").plan(pf.Pure(1.0)).release(account)
        with pytest.raises(pf.LimitReached):
            batch.private_sum("y").plan(pf.Pure(1.0)).release(account)
        assert account.spent() == pf.Pure(0.0)
        assert len(account.history()) == 1
