"""Gaussian priors fitted to public references: intervals for factors, what is refused, and what is noted."""

import json

import numpy as np
import polars as pl
import pytest
from thinned import nightly

import pufferflow as pf
from pufferflow.core.errors import UsageError
from pufferflow.models.fitting.gaussian import Groups, Places, Sequences
from pufferflow.models.priors.correlations import AR1, Exchangeable
from pufferflow.models.priors.covariance import Factors
from pufferflow.models.priors.gaussian import GaussianPrior

COVARIANCE = np.array([[1, 0.6, 0.3], [0.6, 2, 0.5], [0.3, 0.5, 0.5]])
FACTORS = COVARIANCE / COVARIANCE.diagonal()[:, None]


def families(rng, rho, groups=40):
    """Groups of random sizes whose rows have one correlation."""
    group = np.repeat(np.arange(groups), rng.integers(1, 6, groups))
    covariance = np.where(group[:, None] == group, rho, 0.0) + (1 - rho) * np.eye(len(group))
    return Groups(5 + 3 * np.linalg.cholesky(covariance) @ rng.normal(size=len(group)), group)


def autoregression(rng, phi, groups, steps):
    values = np.empty((groups, steps))
    values[:, 0] = rng.normal(size=groups)
    for step in range(1, steps):
        values[:, step] = phi * values[:, step - 1] + np.sqrt(1 - phi**2) * rng.normal(size=groups)
    gaps = np.ones((groups, steps), dtype=np.intp)
    gaps[:, 0] = 0
    return Sequences(7 + values.ravel(), gaps.ravel())


@pytest.mark.slow
@pytest.mark.parametrize("rho", [-0.15, 0.0, 0.3, 0.8])
def test_intervals_of_one_correlation_miss_as_often_as_said(rho):
    """Each side misses in 5 of 100 references, for groups of any sizes, to chance; narrower ones miss far more."""
    rng = np.random.default_rng(0)
    spans = np.array([families(rng, rho).exchangeable(0.1) for _ in range(250)])
    assert (spans[:, 0] > rho).mean() == pytest.approx(0.05, abs=0.045)
    assert (spans[:, 1] < rho).mean() == pytest.approx(0.05, abs=0.045)
    middle, half = spans.mean(axis=1), np.ptp(spans, axis=1) / 2
    assert (np.abs(middle - rho) > 0.6 * half).mean() > 0.2


def test_intervals_of_groups_of_one_size_are_those_of_the_analysis_of_variance():
    """With equal sizes Wald's interval is the well-known one through F."""
    from scipy.stats import f

    values = np.random.default_rng(1).normal(size=(12, 4)) + np.random.default_rng(2).normal(
        size=(12, 1)
    )
    between = 4 * values.mean(axis=1).var(ddof=1)
    ratio = between / values.var(axis=1, ddof=1).mean()
    low, high = Groups(values.ravel(), np.repeat(np.arange(12), 4)).exchangeable(0.05)
    expected = [
        (ratio / f.ppf(p, 11, 36) - 1) / (ratio / f.ppf(p, 11, 36) + 3) for p in (0.975, 0.025)
    ]
    assert [low, high] == pytest.approx(expected, rel=1e-9)


def test_intervals_of_factors_hold_all_of_them_as_often_as_said():
    """Of three places all six factors lie in their intervals in 90 of 100 references; narrower ones lose many."""
    rng, root = np.random.default_rng(3), np.linalg.cholesky(COVARIANCE)
    lost = narrow = 0
    for _ in range(1000):
        low, high = Places(rng.normal(size=(15, 3)) @ root.T).factors(0.1)
        middle, half = (low + high) / 2, (high - low) / 2
        lost += not (np.abs(FACTORS - middle) <= half + 1e-9).all()
        narrow += not (np.abs(FACTORS - middle) <= 0.6 * half + 1e-9).all()
    assert lost <= 130
    assert narrow > 250


def test_intervals_of_factors_are_those_of_a_regression():
    """One pair of places gives Student's interval of a simple regression, at the shared level."""
    from scipy.stats import linregress, t

    values = np.random.default_rng(4).normal(size=(9, 2)) @ np.array([[1, 0.5], [0, 1]])
    low, high = Places(values).factors(0.05)
    fit = linregress(values[:, 0], values[:, 1])
    width = t.ppf(1 - 0.05 / 4, 7) * fit.stderr
    assert [low[0, 1], high[0, 1]] == pytest.approx(
        [fit.slope - width, fit.slope + width], rel=1e-9
    )
    assert (low.diagonal() == 1).all()
    assert (high.diagonal() == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "steps"), [(1, 60), (30, 4)])
@pytest.mark.parametrize("phi", nightly([0.95, 0.5, -0.5], but=0.34))
def test_intervals_of_an_autoregression_hold_it_as_often_as_said(phi, groups, steps):
    """φ lies outside in 10 of 100 references, to chance, for one sequence and for many short ones."""
    rng = np.random.default_rng(5)
    spans = np.array(
        [autoregression(rng, phi, groups, steps).autoregressive(0.1) for _ in range(60)]
    )
    outside = (spans[:, 0] > phi) | (spans[:, 1] < phi)
    assert outside.mean() <= 0.2
    middle, half = spans.mean(axis=1), np.ptp(spans, axis=1) / 2
    assert (np.abs(middle - phi) > 0.4 * half).mean() > 0.25


def test_sequences_that_remember_longer_than_they_are_say_too_little():
    """Where the memory is not much shorter than a long sequence no interval is given."""
    with pytest.raises(UsageError, match="has too few rows"):
        autoregression(np.random.default_rng(7), 0.9999, 1, 6000).autoregressive(0.1)


@pytest.mark.slow
def test_long_sequences_agree_with_draws():
    """The normal interval of a long sequence is that of draws, which rank the same estimate."""
    sequence = autoregression(np.random.default_rng(6), 0.6, 1, 4000)
    drawn = sequence.autoregressive(0.1)
    longer = Sequences(np.concatenate([sequence.values] * 2), np.concatenate([sequence.gaps] * 2))
    normal = longer.autoregressive(0.1)
    assert drawn[0] < normal[0] < 0.62
    assert 0.58 < normal[1] < drawn[1]


def reference(seed=0, **more):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(50, 3)) @ np.linalg.cholesky(COVARIANCE).T
    table = {
        "unit": np.repeat(np.arange(50), 3),
        "hour": np.tile(np.arange(3), 50),
        "x": values.ravel(),
        **more,
    }
    return pf.Reference("a study", pl.DataFrame(table))


KINDS = {
    "exchangeable": ({}, Exchangeable),
    "ar1": ({"order_by": "hour"}, AR1),
    "matrix": ({"order_by": "hour"}, Factors),
}


@pytest.mark.parametrize("kind", KINDS)
def test_slack_makes_a_class_around_the_estimate(kind):
    """Without slack there is one covariance; with it a class that holds the estimate, and says its source."""
    options, of = KINDS[kind]
    single = GaussianPrior.fit(reference(), "x", "unit", covariance=kind, **options)
    assert single.covariance.known
    assert single.provenance.notes[-1] == "estimated, with no allowance for chance"
    for slack, words in (
        ("confidence", "joint 95 % confidence intervals"),
        (0.05, "factors may be 0.05 off"),
    ):
        near = GaussianPrior.fit(reference(), "x", "unit", covariance=kind, slack=slack, **options)
        assert isinstance(near.covariance, of)
        assert not near.covariance.known
        assert words in near.describe()
        assert "'a study'" in near.describe()
        assert GaussianPrior.restored(json.loads(json.dumps(near.stored()))) == near
        places = np.arange(3.0)
        wide, narrow = (
            near.covariance.toward(places, places),
            single.covariance.toward(places, places),
        )
        assert (wide[0] >= narrow[0] - 1e-12).all()
        assert (wide[1] >= narrow[1] - 1e-12).all()


def test_noise_counts_the_largest_factors():
    """One clamped sum moves by the larger sum of either sign, each row's own factor at its worst (M15)."""
    low = [[1, -0.5, 0.1], [-0.3, 1, 0.0], [0.2, -0.9, 1]]
    high = [[1, -0.2, 0.6], [0.1, 1, 0.4], [0.5, -0.1, 1]]
    scenario = pf.Scenario(
        secret=pf.Secret("x", domain=pf.Interval(0, 100), pairs=[(0, 1)]),
        prior=GaussianPrior(Factors(low, high)),
        order_by="hour",
        within="unit",
    )
    found = pf.calibrate(pf.laws(scenario, pf.Statistic.total(3)), pf.Pure(1.0)).noise.scale
    plus, minus = np.maximum(high, 0).sum(axis=1), np.maximum(-np.array(low), 0).sum(axis=1)
    assert found == pytest.approx(max(plus.max(), minus.max()), rel=1e-9)


def test_what_does_not_look_so_is_noted():
    """Skewed values, incomplete groups, rows without values and a memory of another kind are said."""
    rng = np.random.default_rng(8)
    rows = {"unit": [1] * 600, "hour": range(600), "x": np.exp(rng.normal(size=600)).tolist()}
    rows["x"][3] = None
    notes = GaussianPrior.fit(
        pf.Reference("r", rows), "x", "unit", covariance="ar1", order_by="hour"
    ).provenance.notes
    assert "1 rows without a value, a group or a place were left out" in notes
    assert any(note.startswith("values are not Gaussian (skewness") for note in notes)
    wave = {
        "hour": range(600),
        "x": (np.sin(np.arange(600) * np.pi / 12) + rng.normal(size=600) / 4).tolist(),
    }
    notes = GaussianPrior.fit(
        pf.Reference("r", wave), "x", covariance="ar1", order_by="hour"
    ).provenance.notes
    assert any(
        note.startswith("at lag 12 the reference has the correlation -0.8") for note in notes
    )
    whole = {
        "unit": [1, 1, 2, 2, 3, 3, 4],
        "hour": [0, 1] * 3 + [0],
        "x": [1.0, 2, 3, 5, 2, 2.5, 7],
    }
    prior = GaussianPrior.fit(
        pf.Reference("r", whole), "x", "unit", covariance="matrix", order_by="hour"
    )
    assert "1 groups without a row at every place were left out" in prior.provenance.notes


WRONG = {
    "a bare frame": ({"reference": pl.DataFrame({"x": [1]})}, r"pf\.Reference|public"),
    "no such kind": ({"covariance": "kernel"}, "covariance is 'kernel'"),
    "no order": ({"covariance": "ar1"}, "without order_by"),
    "an order for families": ({"order_by": "hour"}, "with order_by"),
    "no groups": ({"within": None}, "needs within"),
    "one column twice": ({"within": "x"}, "same column"),
    "labels": ({"reference": reference(x=["a"] * 150)}, "type String"),
    "infinite": ({"reference": reference(x=[np.inf] * 150)}, "infinite values"),
    "nothing": ({"reference": reference(x=pl.Series([None] * 150, dtype=pl.Float64))}, "no values"),
    "one value": ({"reference": reference(x=[1.0] * 150)}, "has too few rows"),
    "groups of one": ({"reference": reference(unit=range(150))}, "has too few rows"),
    "late places": (
        {"reference": reference(hour=[-1, 1, 2] * 50), "covariance": "matrix", "order_by": "hour"},
        "positions -1 to 2",
    ),
    "no whole group": (
        {
            "reference": reference(hour=[0, 1, 2] * 2 + [3, 4, 5] * 48),
            "covariance": "matrix",
            "order_by": "hour",
        },
        "groups of 'a study' have a row at every position",
    ),
    "too much slack": ({"slack": 2}, "slack is 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_fitted_is_refused(case):
    """Each mistake is named, with what is allowed."""
    changed, says = WRONG[case]
    asked = {"reference": reference(), "column": "x", "within": "unit", **changed}
    with pytest.raises(UsageError, match=says) as caught:
        GaussianPrior.fit(**asked)
    assert caught.value.allowed


def test_the_private_frame_is_no_reference():
    """A covariance fitted on the very frame that is protected is refused."""
    frame = pl.DataFrame({"unit": [1, 1, 2, 2], "x": [1.0, 2.0, 4.0, 3.0]})
    prior = GaussianPrior.fit(pf.Reference("own", frame), "x", "unit", slack="confidence")
    scenario = pf.Scenario(
        secret=pf.Secret("x", domain=pf.Interval(0, 9)), prior=prior, within="unit"
    )
    with pytest.raises(UsageError, match="private frame itself"):
        pf.protect(frame, scenario)


@pytest.mark.parametrize(
    ("low", "high"), [([[1]], [[1, 2]]), ([[0.9]], [[1]]), ([[1, 2], [0, 1]], [[1, 1], [0, 1]])]
)
def test_bounds_that_hold_no_factors_are_refused(low, high):
    """Bounds of other shapes, without 1 on the diagonal or crossed are no class."""
    with pytest.raises(UsageError, match="bounds on factors"):
        Factors(low, high)


def test_a_fitted_class_serves_groups_larger_than_the_reference_has():
    """An interval that reaches below 0 holds members that large groups cannot have; the others are believed of them."""
    rng = np.random.default_rng(0)
    pairs = pl.DataFrame({"unit": np.repeat(np.arange(40), 2), "x": rng.normal(5, 1, 80)})
    prior = GaussianPrior.fit(pf.Reference("pairs", pairs), "x", "unit", slack="confidence")
    low, high = prior.covariance.rho
    assert low < -1 / 11 < high
    scenario = pf.Scenario(
        secret=pf.Secret("x", domain=pf.Interval(0, 100), pairs=[(0, 1)]),
        prior=prior,
        within="unit",
    )
    found = pf.calibrate(pf.laws(scenario, pf.Statistic.total(12)), pf.Pure(1.0)).noise.scale
    assert found == pytest.approx(1 + 11 * high, rel=1e-9)
    with pytest.raises(UsageError, match=r"12 rows cannot all have the correlation -0\.1"):
        Exchangeable((-0.3, -0.1)).check(np.arange(12.0))
