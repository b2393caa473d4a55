"""What every prior keeps: words, JSON, a fingerprint, and laws whose bounds stand in order."""

import copy
import pickle

import numpy as np
import polars as pl
import pytest
from thinned import nightly

import pufferflow as pf
from pufferflow.models.priors.covariance import Factors
from pufferflow.queries.engine_interface import Pattern
from pufferflow.sensitivity.movement import ShortestMovement
from pufferflow.sensitivity.pattern import of_pattern

VALUES = pf.Secret("x", domain=[0, 1, 2])
RANGE = pf.Secret("x", domain=pf.Interval(0, 10))
ROWS = {"ill": [0, 0, 1, 1], "test": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.2, 0.3]}
PUBLIC = pf.Reference(
    "a survey", pl.DataFrame({"paid": ["no", "yes", "no"] * 4, "grade": [1, 2, 3] * 4})
)
SCHOOLS = pf.Reference(
    "schools", {"school": [1, 1, 2, 2, 3], "kind": list("aabba"), "grade": [1, 2, 3, 3, 1]}
)
CHAIN = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]

CASES = {
    "independent": (VALUES, pf.Independent()),
    "independent, interval": (RANGE, pf.Independent()),
    "any correlation": (VALUES, pf.AnyCorrelation()),
    "presence": (pf.Presence("person", "x", [0, 1, 2]), pf.Independent()),
    "presence in groups": (pf.Presence("person", "x", [0, 1, 2]), pf.AnyCorrelation()),
    "chain": (VALUES, pf.MarkovChain(CHAIN)),
    "chain, first value": (pf.Initial("x", domain=[0, 1, 2]), pf.MarkovChain(CHAIN)),
    "chain, free start": (VALUES, pf.MarkovChain(CHAIN, initial="free")),
    "chain, period": (
        VALUES,
        pf.MarkovChain([CHAIN, np.roll(CHAIN, 1, axis=(0, 1)).tolist()], period=2),
    ),
    "chains between": (
        VALUES,
        pf.MarkovChain.between(np.array(CHAIN) - 0.05, np.array(CHAIN) + 0.05),
    ),
    "exchangeable": (RANGE, pf.GaussianPrior(pf.Exchangeable(0.3))),
    "autoregressive": (RANGE, pf.GaussianPrior(pf.AR1(-0.5))),
    "autoregressive, a range": (RANGE, pf.GaussianPrior(pf.AR1((0.2, 0.6)))),
    "kernel": (RANGE, pf.GaussianPrior(pf.Kernel([1.0, 0.5, 0.2]))),
    "matrix": (RANGE, pf.GaussianPrior(np.eye(4) + 0.2)),
    "factors between": (
        RANGE,
        pf.GaussianPrior(
            Factors(
                [[1, 0.1, 0, 0], [0.2, 1, 0.1, 0], [0, -0.1, 1, 0], [0, 0, 0, 1]],
                np.eye(4) + 0.4 * (1 - np.eye(4)),
            )
        ),
    ),
    "gaussian, read in classes": (VALUES, pf.GaussianPrior(pf.Exchangeable(0.3))),
    "mixture of gaussians": (
        pf.Secret("x", domain=pf.Interval(0, 10), pairs=[(4, 5)]),
        pf.GaussianMixture([0.3, 0.7], means=[3, 6], covariances=[pf.AR1(0.5), pf.AR1(0.1)]),
    ),
    "mixture of gaussians, close pairs": (
        pf.Secret("x", domain=pf.Interval(0, 10), pairs=pf.WithinDistance(1)),
        pf.GaussianMixture(
            [0.3, 0.7], [3, 6], [pf.Exchangeable(0.5), pf.Exchangeable(0.1)], [4.0, 4.0]
        ),
    ),
    "latent class": (VALUES, pf.LatentClass([0.3, 0.7], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])),
    "hidden class": (
        pf.Derived("kind", column="x", domain=[0, 1, 2]),
        pf.LatentClass([0.3, 0.7], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]),
    ),
    "hidden state": (
        pf.Derived("kind", column="x", domain=[0, 1, 2]),
        pf.HiddenMarkov([[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]),
    ),
    "value behind hidden states": (
        VALUES,
        pf.HiddenMarkov(
            [[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], states=["a", "b"]
        ),
    ),
    "population": (
        pf.Population("x", domain=[0, 1, 2], laws={"a": [0.5, 0.3, 0.2], "b": [0.1, 0.2, 0.7]}),
        pf.Independent(),
    ),
    "table": (pf.Derived("ill"), pf.Table(ROWS)),
    "tables near": (
        pf.Secret("paid", domain=["no", "yes"]),
        pf.Table.fit(PUBLIC, ["paid", "grade"], slack=0.1),
    ),
    "latent classes near": (
        pf.Secret("grade", domain=[1, 2, 3]),
        pf.LatentClass.fit(SCHOOLS, "grade", "kind", "school", slack=0.1),
    ),
    "empirical": (
        pf.Secret("paid", domain=["no", "yes"]),
        pf.Empirical(PUBLIC, secret="paid", released="grade"),
    ),
    "diffusion": (pf.Initial("x", domain=pf.Interval(0, 10)), pf.Diffusion(0.7)),
    "weakly dependent": (RANGE, pf.WeaklyDependent(0.5)),
}


def _scenario(secret, prior):
    return pf.Scenario(
        secret=secret,
        prior=prior,
        order_by="hour" if prior.ordered else None,
        within=() if isinstance(secret, pf.Population) else "house",
    )


def _statistic(weights=(1.0, 1.0, 2.0, 1.0)):
    return pf.Statistic(list(weights))


@pytest.fixture(params=CASES, ids=str)
def case(request):
    """One secret with its prior."""
    return CASES[request.param]


def test_it_is_said_in_words_and_survives_json(case):
    """The prior has a sentence, an equal copy through JSON and pickle, and a fingerprint of its own."""
    scenario = _scenario(*case)
    assert len(case[1].describe()) > 10
    again = pf.Scenario.from_json(scenario.to_json())
    assert again == scenario
    assert again.fingerprint == scenario.fingerprint
    assert pickle.loads(pickle.dumps(scenario)) == copy.deepcopy(scenario) == scenario
    assert hash(again) == hash(scenario)
    prints = {_scenario(*other).fingerprint for other in CASES.values()}
    assert len(prints) == len(CASES)


def test_its_laws_pickle(case):
    """Laws, rounded ones included, go to processes and back: what does not pickle runs in the caller, unnoticed."""
    secret, prior = case
    for piece in pf.laws(_scenario(*case), _statistic()).pieces:
        assert pickle.loads(pickle.dumps(piece)).span(2).length == piece.span(2).length
    if secret.reads is not None and secret.reads[1] == RANGE.domain:
        where = Pattern(np.array([0, 0, 1, 1]), np.ones(4, int), np.arange(4.0))
        rounded = ShortestMovement(
            [of_pattern(prior, secret, where, np.array([[0.0, 10.0]]), "x", np.array([0.5]))]
        ).movement
        assert pickle.loads(pickle.dumps(rounded)).winf(1).length == rounded.winf(1).length


def test_its_bounds_stand_in_order(case):
    """Exact (where laws are) is not above auto, auto not above GWM nor group privacy, where a bound has an answer."""
    laws = pf.laws(_scenario(*case), _statistic())
    scales = {}
    for name, bound in {
        "exact": pf.Exact(),
        "auto": "auto",
        "gwm": pf.GWM(),
        "group": pf.Group(),
    }.items():
        try:
            scales[name] = pf.calibrate(laws, pf.Pure(1.0), bound=bound).noise.scale
        except pf.Refused:
            assert name in ("exact", "gwm")
    if any(piece.certainty != "exact" for piece in laws.pieces):
        scales.pop("exact", None)  # it is exact for pairs that stand for more than the prior's laws
    order = [scales[name] for name in ("exact", "auto", "gwm", "group") if name in scales]
    assert order == pytest.approx(sorted(order), rel=1e-6)
    assert 0 < scales["auto"] < float("inf")


def test_twice_the_weights_take_twice_the_noise(case):
    """Scaling an answer scales its noise."""
    once, twice = (
        pf.calibrate(pf.laws(_scenario(*case), _statistic(weights)), pf.Pure(1.0)).noise.scale
        for weights in ((1.0, 1.0, 2.0, 1.0), (2.0, 2.0, 4.0, 2.0))
    )
    assert twice == pytest.approx(2 * once, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "guarantee", nightly([pf.Renyi(4, 1.0), pf.Approx(1.0, 1e-5), pf.Pure(1.0)], but=0.34), ids=repr
)
def test_every_promise_has_an_answer(case, guarantee):
    """Pure, Rényi and (ε, δ) guarantees find a noise for two answers at once."""
    secret, prior = case
    laws = pf.laws(_scenario(secret, prior), pf.Statistic([[1, 1, 0, 0], [0, 1, 1, 1]]))
    found = pf.calibrate(laws, guarantee)
    assert 0 < found.noise.scale < 100
    assert found.certainty in ("exact", "upper_bound")


def test_a_list_of_priors_costs_what_its_worst_member_does():
    """Θ = several priors: the worst one counts."""
    priors = [pf.Independent(), pf.AnyCorrelation(), pf.MarkovChain(CHAIN)]
    each = [
        pf.calibrate(
            pf.laws(pf.Scenario(secret=VALUES, prior=prior, order_by="t"), pf.Statistic.total(4)),
            pf.Pure(1),
        ).noise.scale
        for prior in priors
    ]
    together = pf.Scenario(secret=VALUES, prior=priors, order_by="t")
    found = pf.calibrate(pf.laws(together, pf.Statistic.total(4)), pf.Pure(1))
    assert found.noise.scale == pytest.approx(max(each), rel=1e-6)
    assert isinstance(found.witness.prior, pf.AnyCorrelation)
