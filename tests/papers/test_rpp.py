"""Numbers of "Rényi Pufferfish Privacy", item by item, as docs/evidence/papers-item-by-item.md lists them."""

import itertools
import json
import math
import runpy
from pathlib import Path

import polars as pl
import pytest

import pufferflow as pf

OUTLIER = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
TABLE_1 = {"student": 1.2277320, "heart": 4.2091985, "adult": 0.2246201}
REFERENCE = Path(__file__).parents[1] / "reference" / "table1_counts.json"
TABLES = Path(__file__).parents[2] / "examples" / "papers" / "side_by_side" / "tables.py"


def pairs_of(name):
    counts = json.loads(REFERENCE.read_text(encoding="utf-8"))[name]
    laws = [
        pf.Law.empirical([float(value) for value in one], list(one.values()))
        for one in counts.values()
    ]
    return list(itertools.combinations(laws, 2))


@pytest.mark.parametrize(
    ("noise", "kind", "truth"),
    [
        (pf.Laplace(5), pf.Pure, 4.1028092),
        (pf.Laplace(5), pf.Renyi.of(alpha=4), 1.98754604),
        (pf.Gaussian(5), pf.Renyi.of(alpha=2), 85.0952298),
    ],
)
def test_definitions_2_1_and_2_2(noise, kind, truth):
    """The exact losses of an outlier are those of integrals worked out elsewhere."""
    assert pf.loss([OUTLIER], noise, kind, bound=pf.Exact()) == pytest.approx(truth, rel=1e-7)


def test_all_orders_lead_to_the_pure_loss():
    """(∞, ε)-RPP is ε-PP: the loss of a very high order nears the pure one from below."""
    noise = pf.Laplace(2.0)
    assert noise.pure(3.0) * (1 - 1e-5) <= noise.renyi(3.0, 1e6) <= noise.pure(3.0)


def test_conversions_to_approximate_privacy():
    """Propositions 2.2 and 4.1 print 1.98682; the tight conversion gives less."""
    assert pf.Renyi(8, 1.0).to_approx(1e-3).epsilon == pytest.approx(1.5562277, rel=1e-7)
    shared = pf.ApproxRenyi(8, 1.0, 1e-3).to_approx(2e-3)
    assert shared.epsilon == pytest.approx(1.5560848, rel=1e-7)


def test_definitions_3_1_and_3_2():
    """The coupling has both laws and the longest step that was said, in any norm."""
    coupling = pf.winf(*OUTLIER, coupling=True).coupling
    steps = OUTLIER[1].values[coupling.columns] - OUTLIER[0].values[coupling.rows]
    assert sum(coupling.masses) == pytest.approx(1)
    assert abs(steps).max() == 49
    points = pf.Law.point((0, 0)), pf.Law.point((3, 4))
    assert [pf.winf(*points, norm=norm) for norm in (1, 2, math.inf)] == [7, 5, 4]


@pytest.mark.parametrize(
    ("noise", "privacy", "scale"),
    [
        (pf.Laplace, pf.Pure(1.0), 49),
        (pf.Gaussian, pf.Renyi(4, 1.0), 69.2964646),
        (pf.GeneralizedCauchy.of(k=4), pf.Pure(1.0), 49 / (2 * math.sinh(1 / 4))),
    ],
)
def test_theorem_3_3_and_corollary_3_1(noise, privacy, scale):
    """Noise for the movement W_∞ = 49, by the closed form of each family."""
    found = pf.calibrate([OUTLIER], privacy, noise=noise, bound=pf.GWM())
    assert found.noise.scale == pytest.approx(scale, rel=1e-7)


def test_corollary_3_1_laplace():
    """The Rényi loss of Laplace noise for u = 0.7 and α = 3."""
    assert pf.Laplace(1.0).renyi(0.7, 3) == pytest.approx(0.454553001991, rel=1e-11)


def test_figure_1_the_order_of_mechanisms():
    """Exact ≤ DAGWM ≤ GWM ≤ group, and GAWM below GWM, on one pair."""
    bounds = [pf.Exact(), pf.DAGWM(), pf.GWM(), pf.Group()]
    scales = [pf.calibrate([OUTLIER], pf.Renyi(4, 1.0), bound=one).noise.scale for one in bounds]
    assert scales == pytest.approx([5.592, 15.776, 41.299, 42.142], abs=6e-4)
    near = pf.calibrate([OUTLIER], pf.ApproxRenyi(4, 1.0, 0.003), bound=pf.GAWM(0.003))
    assert near.noise.scale == pytest.approx(0.8428315, rel=1e-6)


def test_definition_4_2():
    """Laws that are (z, δ)-near: all mass but δ moves by z at most."""
    assert pf.near(*OUTLIER, 0.003) == 1.0
    assert pf.near(pf.Law([0, 1], [0.5, 0.5]), pf.Law([1, 10], [0.5, 0.5]), 0.5) == 0.0


def test_remark_4_4_distribution_privacy():
    """A class of which 20 rows are drawn is the secret: W_∞ of the count is 15, and nothing is left out at 0.01."""
    prior = pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    scenario = pf.Scenario(
        pf.Derived("class", column="on", domain=[0, 1], missing=0), prior, within="group"
    )
    frame = pl.DataFrame({"group": [0] * 20, "on": [0, 1] * 10})
    plan = pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(1.0), bound=pf.GWM())
    assert plan.summary()["scale"].to_list() == pytest.approx([15.0])


def test_the_scripts_have_the_counts_of_the_tables():
    """Counts that are embedded in the scripts are those of the reference."""
    tables = runpy.run_path(str(TABLES))["COUNTS"]
    read = json.loads(REFERENCE.read_text(encoding="utf-8"))
    embedded = {
        name: {str(s): {str(v): n for v, n in one.items()} for s, one in counts.items()}
        for name, counts in tables.items()
    }
    assert embedded == read


@pytest.mark.parametrize(("name", "scale"), TABLE_1.items())
def test_table_1_cauchy(name, scale):
    """Cauchy noise for (2, 1)-Rényi privacy is W₂/√(2(e − 1)) wide."""
    family = pf.GeneralizedCauchy.of(k=2)
    found = pf.calibrate(pairs_of(name), pf.Renyi(2, 1.0), noise=family, bound=pf.DAGWM())
    assert found.noise.scale == pytest.approx(scale, rel=3e-5)


def test_hearts_printed_noise_loses_more_than_it_promises():
    """Noise of scale 8/8 promises 8 and loses 10.998; noise for the true movement of 13 keeps its promise."""
    pairs = pairs_of("heart")
    printed = pf.loss(pairs, pf.Laplace(1.0), pf.Pure, bound=pf.Exact())
    assert printed == pytest.approx(10.9978883, rel=1e-7)
    assert pf.loss(pairs, pf.Laplace(13 / 8), pf.Pure, bound=pf.Exact()) <= 8


@pytest.mark.parametrize("covariance", [0.6, -0.6])
def test_proposition_6_2(covariance):
    """Of N(0, [[2, c], [c, 1]]) the released attribute moves by |c|/2·3 = 0.9, whatever the sign."""
    mean = abs(covariance) / 2 * 3
    found = pf.calibrate(
        [(pf.Law.point(0), pf.Law.point(mean))], pf.Renyi(2, 1.0), noise=pf.Gaussian
    )
    assert found.noise.scale == pytest.approx(0.9)


def test_presence_is_differential_privacy():
    """Definitions A.1 and A.2: a count of rows that come and go has σ = √(α/2ε)."""
    scenario = pf.Scenario(pf.Presence("person", rows=1), pf.Independent())
    batch = pf.protect(pl.DataFrame({"person": [0, 1]}), scenario).private_count()
    plan = batch.plan(pf.Renyi(4, 1.0), noise=pf.Gaussian)
    assert plan.summary()["scale"].to_list() == pytest.approx([math.sqrt(2)], rel=1e-6)


@pytest.mark.parametrize(("order", "epsilon", "grown"), [(2, 0.5, 0.72), (8, 25, 36)])
def test_theorem_a_5_additive_mechanisms(order, epsilon, grown):
    """A prior at W_∞ = 4.9 from the declared one adds 2·4.9 to the movement of 49."""
    privacy = pf.Renyi(order, epsilon)
    found = pf.calibrate([OUTLIER], privacy, noise=pf.Gaussian, bound=pf.GWM())
    assert pf.robustness(found, 4.9).epsilon == pytest.approx(grown)


def test_lemma_b_1_laplace_balls():
    """In the ball of the norm 1 a vector costs the most along one axis: u = 1.3, α = 3."""
    ball = pf.Laplace(1.0).renyi_within(1.3, 3, 2)
    assert ball == pytest.approx(1.0450881, rel=1e-7)
    assert ball >= 2 * pf.Laplace(1.0).renyi(0.65, 3)


def test_proposition_e_1_parallel_composition():
    """Releases about two households that are independent cost the larger of both."""
    secret = pf.Secret("on", domain=[0, 1], missing=0)
    scenario = pf.Scenario(secret, pf.Independent(), within="home", public=["home"])
    batch = pf.protect(pl.DataFrame({"home": [0, 1], "on": [0, 1]}), scenario)
    plans = [
        batch.filter(pl.col("home") == home).private_sum("on").plan(pf.Renyi(4, epsilon))
        for home, epsilon in ((0, 0.5), (1, 0.3))
    ]
    assert pf.compose(plans, scenario).total == pytest.approx(0.5)
