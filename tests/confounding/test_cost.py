"""What several releases cost together: against reference values, enumeration and quadrature (M22, M23, M28, M31)."""

import itertools
import math

import numpy as np
import pytest
from confounded import (
    FIRST,
    SECOND,
    THREE,
    channel,
    gaussian_delta,
    hockey_stick,
    joint_of,
    kept_bit,
    matrix,
    random_channel,
    random_table,
    xor_table,
)
from thinned import thinned

import pufferflow as pf
from pufferflow.confounding import Additive, cost

NOISES = [pf.Laplace(1.0), pf.Gaussian(0.7), pf.GeneralizedCauchy(1.0, k=4)]


def test_two_channels_by_reference():
    """The reference values of Task 2: δ at .2 and .5, the pure loss, and losses that would be added."""
    both = cost(THREE, [FIRST, SECOND])
    assert both.delta(0.2) == pytest.approx(0.12464931045995753, abs=1e-12)
    assert both.delta(0.5) == pytest.approx(0.027071349726182803, abs=1e-12)
    assert both.pure == pytest.approx(0.6155889462140707, abs=1e-12)
    assert both.summed() == pytest.approx(0.6624686026674251, abs=1e-12)
    assert both.certainty() == "exact"


@pytest.mark.parametrize(
    ("keep", "true"),
    [(0.6, 0.08004270767353656), (0.75, 0.5108256237659907), (0.9, 1.5163474893680888)],
)
def test_exclusive_or(keep, true):
    """Each half of an exclusive or costs nothing, both cost log((1+c²)/(1−c²)): more than any sum."""
    both = cost(xor_table(), [kept_bit("a", keep), kept_bit("b", keep)])
    assert [one.pure for one in both.alone] == [0.0, 0.0]
    assert both.as_if_independent.pure == both.summed() == 0.0
    assert both.pure == pytest.approx(true, abs=1e-12)
    assert both.added() == [0.0, both.pure]
    assert both.dependence.worst.marginals == (0.0, 0.0)
    assert both.dependence.worst.dependence == pytest.approx(true, abs=1e-12)


@pytest.mark.parametrize(
    ("keep", "true", "product", "delta"),
    [
        (1.0, 0.4054651081081642, 0.8109302162163285, 0.2),
        (0.9, 0.39531273664414607, 0.6455467845261021, 0.16),
    ],
)
def test_duplicates(keep, true, product, delta):
    """Two copies of one column cost less than the product of their laws says: DCP's Theorems 3 and 5 are false."""
    table = pf.Table({"s": [0, 0, 1, 1], "x": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]})
    both = cost(table, [kept_bit("x", keep)] * 2)
    assert both.pure == pytest.approx(true, abs=1e-12)
    assert both.as_if_independent.pure == pytest.approx(product, abs=1e-12)
    assert both.as_if_independent.tv == pytest.approx(delta, abs=1e-12)


@pytest.mark.parametrize("seed", thinned(range(12), 0.34))
def test_random_tables_of_channels(seed):
    """All numbers of a cost are those of plain enumeration: δ(ε), its inverse, total variation, the best attack."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, secrets=2 + seed % 2, zeros=0.2 if seed % 3 == 0 else 0.0)
    channels = [random_channel(rng, "a", 3), random_channel(rng, "b", 2)]
    both, laws = cost(table, channels), joint_of(joint, channels)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        true = hockey_stick(laws, epsilon)
        assert true - 1e-12 <= both.delta(epsilon) <= true + 1e-12
        if 0 < both.delta(epsilon) < 1:
            assert both.epsilon(both.delta(epsilon)) == pytest.approx(epsilon, abs=1e-10)
    assert both.pure == pytest.approx(
        max(np.log(p / q).max() for p, q in itertools.permutations(laws, 2)), abs=1e-12
    )
    assert both.attack_auc == pytest.approx(
        max(area(p, q) for p, q in itertools.combinations(laws, 2)), abs=1e-9
    )
    levels = np.linspace(0, 1, 7)
    lines = [
        np.max(
            [(1 - np.clip(q - t * p, 0, None).sum() - t * levels) for t in [0.0, *(q / p)]], axis=0
        )
        for p, q in itertools.permutations(laws, 2)
    ]
    assert both.tradeoff(levels) == pytest.approx(np.clip(np.min(lines, axis=0), 0, 1), abs=1e-9)


def area(p, q):
    """Return the probability that the ratio of a draw of P is the larger one, ties counting half."""
    ahead = np.sign(np.subtract.outer(p / q, p / q))
    return float(np.sum(p[:, None] * q[None, :] * (1 + ahead)) / 2)


@pytest.mark.parametrize("noise", NOISES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("seed", thinned(range(4), 0.25))
def test_noise_beside_a_channel(noise, seed):
    """δ of noisy answers and a channel is never below quadrature, and hardly above it."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, sizes=(3, 2))
    beside = random_channel(rng, "b", 2)
    found = cost(table, [Additive("a", noise), beside])
    at = (
        np.linspace(-200, 200, 400_001)
        if isinstance(noise, pf.GeneralizedCauchy)
        else np.linspace(-30, 32, 310_001)
    )
    density = np.exp(noise.logpdf(at[None, :] - np.arange(3)[:, None]))
    laws = np.einsum("sab,bo->sao", joint / joint.sum(axis=(1, 2), keepdims=True), matrix(beside))
    densities = np.einsum("sao,ay->soy", laws, density)
    for epsilon in (0.0, 0.3, 0.8):
        true = max(
            np.clip(densities[i] - math.exp(epsilon) * densities[1 - i], 0, None).sum()
            * (at[1] - at[0])
            for i in (0, 1)
        )
        assert true - 2e-7 <= found.delta(epsilon) <= true + 2e-5
    assert found.certainty() == "upper_bound"


@pytest.mark.parametrize(
    "noise", [pf.Laplace(1.0), pf.GeneralizedCauchy(1.0, k=4)], ids=["laplace", "cauchy"]
)
def test_the_pure_loss_of_one_answer(noise):
    """On one answer the pure loss is that of the exact bound (M6): sharp for Laplace noise, never below for Cauchy."""
    mu, nu = pf.Law([0, 1, 2], [0.5, 0.3, 0.2]), pf.Law([0, 1, 2], [0.2, 0.3, 0.5])
    exact = pf.loss([(mu, nu)], noise, pf.Pure, bound=pf.Exact())
    found = cost(THREE, Additive("x", noise))
    assert found.pure >= exact - 1e-9
    if isinstance(noise, pf.Laplace):
        assert found.pure == pytest.approx(exact, abs=1e-9)
        assert found.certainty(delta=0) == "exact"


@pytest.mark.slow
def test_two_laplace_answers_at_all_corners():
    """Of several Laplace answers the pure loss is attained where each is an atom (M6)."""
    table, joint = random_table(np.random.default_rng(5), sizes=(3, 2))
    found = cost(table, [Additive("a", pf.Laplace(1.5)), Additive("b", pf.Laplace(0.8))])
    laws = joint / joint.sum(axis=(1, 2), keepdims=True)
    far = [
        np.exp(-np.abs(np.subtract.outer(np.arange(n), np.arange(n))) / b)
        for n, b in ((3, 1.5), (2, 0.8))
    ]
    densities = np.einsum("sab,ai,bj->sij", laws, *far)
    ratios = np.log(densities[0] / densities[1])
    assert found.pure == pytest.approx(np.abs(ratios).max(), abs=1e-9)
    alike = cost(table, Additive(["a", "b"], pf.Laplace(1.0)))
    assert alike.pure == pytest.approx(
        cost(table, [Additive(name, pf.Laplace(1.0)) for name in "ab"]).pure, abs=1e-12
    )


def test_repeated_gaussian_releases_are_one():
    """Gaussian releases of one query are their weighted mean: σ = 2 and 2/√3 together cost what σ = 1 does."""
    both = cost(
        THREE, [Additive("x", pf.Gaussian(2.0)), Additive("x", pf.Gaussian(2 / math.sqrt(3)))]
    )
    one = cost(THREE, Additive("x", pf.Gaussian(1.0)))
    assert both.delta(0.3) == pytest.approx(one.delta(0.3), abs=1e-9)
    assert both.pure == math.inf


@pytest.mark.parametrize(
    ("a", "b", "rho", "squared"),
    [(1, 1, -0.5, 4.0), (1, 0.5, 0.5, 1.0), (1, 0.5, 0.8, 1.25), (1, 0, 0.5, 4 / 3)],
)
def test_correlated_noises(a, b, rho, squared):
    """Two Gaussian releases with correlated noise lose μ² = (a² − 2ρab + b²)/(1 − ρ²) of a shift (M28)."""
    table = pf.Table({"s": [0, 1], "u": [0.0, a], "v": [0.0, b], "probability": [0.5, 0.5]})
    found = cost(table, Additive(["u", "v"], pf.Gaussian(1.0), correlation=rho), secret="s")
    for epsilon in (0.0, 0.5, 2.0):
        true = gaussian_delta(math.sqrt(squared), epsilon)
        assert true <= found.delta(epsilon) <= true + 2e-6


@pytest.mark.parametrize(
    ("shift", "mu"), [((1, -1), 1.4142135623730951), ((1, 1), 0.5345224838248488)]
)
def test_a_common_cause_of_both_noises(shift, mu):
    """Noise of variance 3 in common and 1 apart: the product of the own laws is far off, either way (DCP Thm 4(ii))."""
    table = pf.Table(
        {"s": [0, 1], "u": [0, shift[0]], "v": [1, 1 + shift[1]], "probability": [0.5, 0.5]}
    )
    found = cost(table, Additive(["u", "v"], pf.Gaussian(2.0), correlation=0.75), secret="s")
    assert found.delta(0.5) == pytest.approx(gaussian_delta(mu, 0.5), abs=2e-6)
    assert found.delta(0.5) >= gaussian_delta(mu, 0.5)
    product = cost(table, [Additive(name, pf.Gaussian(2.0)) for name in ("u", "v")], secret="s")
    assert product.delta(0.5) == pytest.approx(gaussian_delta(math.sqrt(0.5), 0.5), abs=2e-6)


def test_what_each_release_adds():
    """The steps of the prefixes add up to the cost; a second look at the same answer without noise adds nothing."""
    plain = pf.confounding.Channel.revealing("x", [0, 1, 2])
    three = cost(THREE, [FIRST, plain, plain])
    assert math.fsum(three.added()) == pytest.approx(three.pure, abs=1e-12)
    assert three.added()[2] == 0.0
    noiseless = cost(THREE, [FIRST, Additive("x", pf.Laplace(0.0))])
    assert noiseless.pure == three.pure
    assert three.posterior == cost(THREE, [FIRST, plain]).posterior


def test_a_derived_secret_with_disjoint_supports():
    """A secret that the data determine is told apart outright by the data, and by noise as in ordinary privacy."""
    table = pf.Table({"x": [0, 1, 2, 3], "high": [0, 0, 1, 1], "probability": [0.25] * 4})
    assert cost(table, pf.confounding.Channel.revealing("x", range(4))).pure == math.inf
    assert cost(table, pf.confounding.Channel.revealing("x", range(4))).delta(5.0) == 1.0
    assert cost(table, Additive("x", pf.Laplace(2.0))).pure < 3 / 2
    coarse = channel("x", [[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.1, 0.9]])
    assert cost(table, coarse).pure == pytest.approx(math.log(0.75 / 0.25), abs=1e-12)


def test_an_attribute_may_be_secret_while_another_is_asked():
    """The secret may be read itself, and a scenario says which pairs of its values must be indistinguishable (M53)."""
    secret = pf.Secret("x", domain=[0, 1, 2], pairs="adjacent")
    scenario = pf.Scenario(secret, prior=[THREE, THREE])
    assert cost(scenario, FIRST).pure == pytest.approx(math.log(0.5 / 0.4), abs=1e-12)
    assert cost(THREE, FIRST, secret="x").pure == pytest.approx(math.log(0.6 / 0.4), abs=1e-12)
    assert cost([THREE], FIRST, secret=pf.Derived("s")).pure == cost(THREE, FIRST).pure


@pytest.mark.slow
def test_independence_given_the_secret_of_noisy_answers():
    """Noisy answers that are independent given the secret cost the same together as the product of their laws."""
    cells = [(s, a, b) for s in (0, 1) for a in (0, 1) for b in (0, 1)]
    law = [0.5 * (0.7 if a == s else 0.3) * (0.6 if b == s else 0.4) for s, a, b in cells]
    s, a, b = zip(*cells, strict=True)
    table = pf.Table({"s": s, "a": a, "b": b, "probability": law})
    both = cost(table, [Additive("a", pf.Laplace(1.0)), Additive("b", pf.Gaussian(1.0))])
    assert both.as_if_independent.delta(0.2) == pytest.approx(both.delta(0.2), rel=5e-3)


@pytest.mark.slow
def test_too_many_outputs_have_an_upper_bound(monkeypatch):
    """Where cells do not fit, a coupling of what is read gives bounds (M1): above the truth by cells, at every ε."""
    rng = np.random.default_rng(11)
    for seed in (1, 2):
        table, _ = random_table(rng, sizes=(3, 2), zeros=0.2 * (seed == 2))
        releases = [
            Additive("a", pf.Laplace(2.0)),
            Additive("b", pf.Gaussian(1.5)),
            random_channel(rng, "b", 2),
        ]
        sharp = [cost(table, releases[:count], secret="s") for count in (1, 2, 3)]
        with monkeypatch.context() as room:
            room.setattr("pufferflow.confounding.joint_law.room_for", lambda *_: 0)
            bounds = [cost(table, releases[:count], secret="s") for count in (1, 2, 3)]
        for bound, true in zip(bounds, sharp, strict=True):
            for epsilon in (0.0, 0.1, 0.3, 0.7):
                assert bound.delta(epsilon) >= true.delta(epsilon) * (1 - 1e-2)
            assert bound.pure >= true.pure - 1e-9
            assert bound.certainty() == "upper_bound"
        assert bounds[0].attack_auc >= sharp[0].attack_auc - 1e-3
        assert (
            bounds[0].tradeoff([0.05, 0.3, 0.8]) <= sharp[0].tradeoff([0.05, 0.3, 0.8]) + 1e-3
        ).all()
        assert bounds[0].pure <= 2 / 2.0
        certain = pf.Table({"s": [0, 1], "x": [0, 1], "probability": [0.5, 0.5]})
        with monkeypatch.context() as room:
            room.setattr("pufferflow.confounding.joint_law.room_for", lambda *_: 0)
            sure = cost(certain, [Additive("x", pf.Gaussian(1.0))] * 2)
        assert sure.delta(0.5) == pytest.approx(gaussian_delta(math.sqrt(2), 0.5), rel=1e-9)
    nine = cost(THREE, [Additive("x", pf.Laplace(10.0))] * 9)
    assert cost(THREE, [Additive("x", pf.Laplace(10.0))] * 2).pure <= nine.pure <= 1.8
    assert nine.delta(0.2) < nine.tv < 0.4
