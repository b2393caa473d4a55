"""The cost of staircase noise, exactly, and of noises tied by a copula, from above (M12, M28)."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from confounded import (
    THREE,
    channel,
    deltas_of,
    gaussian_delta,
    random_channel,
    random_table,
    tied_laws,
)

import pufferflow as pf
from pufferflow.confounding import Additive, cost, design, gaussian_copula, tied_channels

STEPS = [
    pf.Staircase(1.0, 0.7),
    pf.Staircase(0.5, 0.4, 0.5),
    pf.Staircase(1.7, 1.0, 0.0),
    pf.Staircase(0.3, 0.2, 1.0),
]


def stairs(noise, answers, joint, epsilons):
    """δ and the pure loss of a staircase on answers by summing all pieces between jumps, far out, in rationals."""
    width, share = Fraction(noise.sensitivity), Fraction(noise.gamma)
    far = range(int(30 / noise.epsilon))
    jumps = {a + side * width * (share + j) for a in answers for side in (-1, 1) for j in far}
    edges = [one for one in sorted(jumps) if abs(one) < width * len(far) - 3]
    lengths = np.array([float(b - a) for a, b in itertools.pairwise(edges)])
    units = [[abs((a + b) / 2 - x) / width for x in answers] for a, b in itertools.pairwise(edges)]
    fallen = np.array(
        [[math.floor(u) + (u - math.floor(u) >= share) for u in row] for row in units], dtype=float
    )
    laws = (joint / joint.sum(axis=1, keepdims=True)) @ np.exp(-noise.epsilon * fallen).T
    laws /= (laws @ lengths)[:, None]
    deltas = [
        max(
            (np.clip(p - math.exp(e) * q, 0, None) * lengths).sum()
            for p, q in itertools.permutations(laws, 2)
        )
        for e in epsilons
    ]
    return deltas, max(np.log(p / q).max() for p, q in itertools.permutations(laws, 2))


@pytest.mark.parametrize("noise", STEPS, ids=repr)
def test_staircases_cost_what_their_pieces_do(noise):
    """δ(ε) and the pure loss are those of the pieces between jumps, also where jumps around two answers meet."""
    joint = np.array([[0.2, 0.1, 0.15, 0.05], [0.1, 0.2, 0.05, 0.15]])
    answers = [Fraction(0), Fraction(1), Fraction(3, 2), Fraction(5, 2)]
    values = [float(one) for one in answers] * 2
    table = pf.Table({"s": [0] * 4 + [1] * 4, "x": values, "probability": joint.ravel().tolist()})
    found, epsilons = cost(table, Additive("x", noise), secret="s"), [0.0, 0.1, 0.3, 0.6]
    deltas, pure = stairs(noise, answers, joint, epsilons)
    assert found.pure == pytest.approx(pure, abs=1e-9)
    assert found.pure >= pure - 1e-12
    assert found.certainty(delta=0) == "exact"
    for epsilon, true in zip(epsilons, deltas, strict=True):
        assert true - 1e-9 <= found.delta(epsilon) <= true + 1e-9


def test_staircases_beside_others():
    """Twice costs more than once; where the secret is the answer, just twice as much."""
    table, _ = random_table(np.random.default_rng(2))
    once, beside = Additive("a", STEPS[1]), random_channel(np.random.default_rng(3), "b", 2)
    alone, twice = (
        cost(table, [once, beside], secret="s"),
        cost(table, [once, once, beside], secret="s"),
    )
    assert alone.pure < twice.pure
    certain = pf.Table({"s": [0, 1], "x": [0.0, 1.0], "probability": [0.5, 0.5]})
    both = cost(certain, [Additive("x", pf.Staircase(1.0, 0.7))] * 2)
    assert both.pure == pytest.approx(1.4, rel=1e-12)


def test_the_next_release_after_a_staircase():
    """A design reckons with all outputs of a past staircase, or with the density of the one that was published."""
    past = Additive("x", pf.Staircase(2.0, 0.3))
    for promise in (pf.Pure(0.4), pf.Approx(0.2, 0.05)):
        made = design(THREE, past, promise, secret="s")
        assert cost(THREE, [past, made.channel], secret="s").keeps(promise)
    free = design(THREE, past, pf.Pure(0.4), secret="s", published=[40.0])
    assert free.expected_loss <= design(THREE, past, pf.Pure(0.4), secret="s").expected_loss + 1e-9


@pytest.fixture
def coarse(monkeypatch):
    """Few cells, so that a test is quick; bounds stay bounds."""
    monkeypatch.setattr("pufferflow.confounding.joint_law._MOST_TIED", 260)


def tied_deltas(table, noises, rho, epsilons):
    """δ of tied noises on columns a and b by quadrature on a fine grid."""
    at = np.linspace(-20, 21, 900)
    return deltas_of(tied_laws(table, noises, lambda _: (rho, 0, 0), at)[0], epsilons)


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(
    "other", [pf.Laplace(1.5), pf.Gaussian(1.5), pf.GeneralizedCauchy(1.0, k=8)], ids=str
)
def test_tied_noises_cost_no_less_than_quadrature_says(other):
    """δ of two tied noises is never below quadrature, and not far above it."""
    table, _ = random_table(np.random.default_rng(8), sizes=(2, 2))
    noises, epsilons = (pf.Laplace(1.0), other), [0.0, 0.1, 0.3]
    for rho in (-0.6, 0.5):
        tied = gaussian_copula(
            *(Additive(name, one) for name, one in zip("ab", noises, strict=True)), rho
        )
        found, true = cost(table, tied, secret="s"), tied_deltas(table, noises, rho, epsilons)
        for epsilon, delta in zip(epsilons, true, strict=True):
            assert delta * (1 - 1e-3) <= found.delta(epsilon) <= delta * 1.1 + 0.004
        assert found.pure == math.inf
        assert found.certainty() == "upper_bound"


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
def test_tied_releases_beside_others():
    """Untied noises cost what they cost apart, and a channel beside tied ones is counted with them."""
    table, _ = random_table(np.random.default_rng(8), sizes=(2, 2))
    first, second = Additive("a", pf.Laplace(1.0)), Additive("b", pf.Laplace(2.0))
    untied = cost(table, gaussian_copula(first, second, 0.0), secret="s")
    apart = cost(table, [first, second], secret="s")
    assert apart.delta(0.1) * 0.99 <= untied.delta(0.1) <= apart.delta(0.1) * 1.05 + 2e-3
    assert untied.attack_auc >= apart.attack_auc - 1e-3
    tied = gaussian_copula(first, second, 0.5)
    beside = random_channel(np.random.default_rng(3), "b", 2)
    whole = cost(table, [tied, beside], secret="s")
    assert whole.delta(0.1) >= cost(table, tied, secret="s").delta(0.1) * 0.97
    assert whole.posterior.guess_after >= cost(table, beside, secret="s").posterior.guess_after
    assert whole.as_if_independent.delta(0.1) > 0


@pytest.mark.slow
def test_tied_gaussian_noises_are_correlated_ones():
    """A Gaussian copula of two Gaussian noises is their correlation, whatever their scales (M28)."""
    for a, b, rho, squared in [
        (1, 1, -0.5, 4.0),
        (1, 0.5, 0.5, 1.0),
        (1, 0.5, 0.8, 1.25),
        (1, 0, 0.5, 4 / 3),
    ]:
        table = pf.Table(
            {"s": [0, 1], "u": [0.0, 2.0 * a], "v": [0.0, 0.5 * b], "probability": [0.5, 0.5]}
        )
        pair = Additive("u", pf.Gaussian(2.0)), Additive("v", pf.Gaussian(0.5))
        found = cost(table, gaussian_copula(*pair, rho), secret="s")
        true = gaussian_delta(math.sqrt(squared), 0.5)
        assert true <= found.delta(0.5) <= true + 2e-6


def test_other_copulas_tie_channels_exactly():
    """Any copula leaves both own laws as they are; the two extreme ones have the masses of Fréchet's bounds."""
    first, second = channel("x", [[0.3, 0.7]]), channel("x", [[0.6, 0.4]])

    def antithetic(u, v):
        return np.maximum(u + v - 1, 0.0)

    def clayton(u, v):
        with np.errstate(divide="ignore"):
            return 1 / (1 / u + 1 / v - 1)

    for copula, mass in (
        (np.minimum, 0.3),
        (antithetic, 0.0),
        (clayton, 1 / (1 / 0.3 + 1 / 0.6 - 1)),
    ):
        tied = tied_channels(first, second, copula)
        assert float(tied.probability(0, (0, 0))) == pytest.approx(mass, abs=1e-15)
        for output in (0, 1):
            assert sum(
                tied.probability(0, (output, other)) for other in (0, 1)
            ) == first.probability(0, output)
            assert sum(
                tied.probability(0, (other, output)) for other in (0, 1)
            ) == second.probability(0, output)
