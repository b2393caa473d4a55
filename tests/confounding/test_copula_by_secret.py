"""Copulas that depend on the secret: own laws, joint laws, and what the copula reveals (M28, DCP's Theorem 4)."""

import itertools
import math

import numpy as np
import pytest
from confounded import (
    FIRST,
    SECOND,
    THREE,
    channel,
    deltas_of,
    gaussian_delta,
    hockey_stick,
    matrix,
    random_channel,
    random_table,
    tied_laws,
)
from scipy.special import ndtri
from scipy.stats import multivariate_normal, norm

import pufferflow as pf
from pufferflow.confounding import (
    Additive,
    CopulaBySecret,
    copula_cost,
    cost,
    gaussian_copula,
    tied_channels,
)
from pufferflow.confounding.latent import Tie
from pufferflow.confounding.tied import noise_edges, tied_cells

BY_CORRELATION = CopulaBySecret("s", {0: -0.4, 1: 0.7})
BY_MEAN = CopulaBySecret("s", 0.5, means={0: -0.2, 1: 0.5})


def below(row, mean):
    """Return the marks at which a latent number of this mean gives way to the next output."""
    return np.concatenate([[-12.0], norm.ppf(np.cumsum(row)[:-1]) - mean, [12.0]])


def joint_masses(one, other, tie):
    """Return the law of two outputs, by the distribution function of two normal numbers."""
    h, k = below(one, tie.first), below(other, tie.second)
    cdf = multivariate_normal(cov=[[1, tie.correlation], [tie.correlation, 1]]).cdf
    values = np.array([[cdf([a, b]) for b in k] for a in h])
    return np.diff(np.diff(values, axis=0), axis=1)


def enumerated(joint, first, second, copula):
    """Return P(outputs | s) of two tied channels of columns a and b, by plain enumeration."""
    given = joint / joint.sum(axis=(1, 2), keepdims=True)
    one, two = matrix(first), matrix(second)
    laws = np.zeros((len(joint), one.shape[1], two.shape[1]))
    for (s, a, b), mass in np.ndenumerate(given):
        if mass:
            laws[s] += mass * joint_masses(one[a], two[b], copula.tie(s))
    return laws


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("copula", [BY_CORRELATION, BY_MEAN], ids=["correlation", "mean"])
def test_the_joint_loss_of_channels_is_that_of_enumeration(copula, seed):
    """The cost is exactly that of the joint law, with each secret's own copula."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, sizes=(2, 2))
    first, second = random_channel(rng, "a", 2, 3), random_channel(rng, "b", 2, 2)
    found = cost(table, gaussian_copula(first, second, copula), secret="s")
    laws = enumerated(joint, first, second, copula).reshape(2, -1)
    assert found.certainty() == "exact"
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        assert found.delta(epsilon) == pytest.approx(hockey_stick(laws, epsilon), abs=1e-6)


def test_correlations_leave_own_laws_and_means_move_them():
    """Own laws given data and secret stay exactly, or have the normal mark moved; other copulas leave them as well."""
    other = tied_channels(FIRST, SECOND, {0: np.minimum, 1: np.multiply}, secret="s")
    for copula, tied in (
        (BY_CORRELATION, gaussian_copula(FIRST, SECOND, BY_CORRELATION)),
        (BY_MEAN, gaussian_copula(FIRST, SECOND, BY_MEAN)),
        (None, other),
    ):
        assert tied.reads == ("x", "s")
        for x, s in tied.inputs:
            tie = None if copula is None else copula.tie(s)
            for place, own in enumerate((FIRST, SECOND)):
                row = own.probabilities[own.place(x)]
                sums = [
                    sum(tied.probability((x, s), pair) for pair in tied.outputs if pair[place] == y)
                    for y in own.outputs
                ]
                if copula is BY_MEAN:
                    marks = below([float(p) for p in row], tie[1 + place])
                    assert np.array(sums, float) == pytest.approx(
                        np.diff(norm.cdf(marks)), abs=1e-12
                    )
                else:
                    assert tuple(sums) == row
    assert cost(THREE, other, secret="s").pure > cost(THREE, [FIRST, SECOND], secret="s").pure


def test_one_copula_for_all_secrets_is_a_plain_one():
    """A copula that is the same for every secret neither reads the secret nor reveals anything itself."""
    same = CopulaBySecret("s", {0: 0.5, 1: 0.5})
    assert gaussian_copula(FIRST, SECOND, same) == gaussian_copula(FIRST, SECOND, 0.5)
    assert copula_cost(same).delta(0.0) <= 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_what_the_copula_reveals_is_added_to_the_joint_loss(seed):
    """δ(ε_c + ε) ≤ δ_c(ε_c) + e^{ε_c}·δ_s(ε), with δ_s of the copula of one secret alone (M28)."""
    rng = np.random.default_rng(seed)
    table, _ = random_table(rng, sizes=(2, 2))
    first, second = random_channel(rng, "a", 2, 3), random_channel(rng, "b", 2, 2)
    mean = rng.uniform(-0.6, 0.6)
    copula = CopulaBySecret("s", 0.4, means={0: 0.0, 1: mean})
    found = cost(table, gaussian_copula(first, second, copula), secret="s")
    own = copula_cost(copula)
    for own_epsilon in (0.0, 0.3):
        for epsilon in (0.0, 0.3):
            fixed = max(
                cost(table, _with_copula_of(first, second, copula, value), secret="s").delta(
                    epsilon
                )
                for value in (0, 1)
            )
            bound = own.delta(own_epsilon) + math.exp(own_epsilon) * fixed
            assert found.delta(own_epsilon + epsilon) <= bound + 1e-9


def _with_copula_of(first, second, copula, value):
    """Return the tied channels with the copula of one value, whatever the secret is."""
    tie = copula.tie(value)
    rows = [
        [
            joint_masses([float(p) for p in one], [float(p) for p in other], tie).ravel()
            for other in second.probabilities
        ]
        for one in first.probabilities
    ]
    inputs = [(a, b) for a in range(len(rows)) for b in range(len(rows[0]))]
    flat = [np.clip(rows[a][b], 0, None) / np.clip(rows[a][b], 0, None).sum() for a, b in inputs]
    return pf.confounding.Channel(["a", "b"], inputs, range(len(flat[0])), flat)


def test_means_reveal_what_gaussian_noise_does():
    """The copula's own loss is that of a normal number at the distance of the means, whatever the correlation."""
    for rho in (-0.8, 0.0, 0.5):
        own = copula_cost(CopulaBySecret("ill", rho, means={"no": 0.1, "maybe": 0.4, "yes": 0.8}))
        for epsilon in (0.0, 0.2, 1.0):
            true = gaussian_delta(0.7, epsilon)
            assert true - 1e-12 <= own.delta(epsilon) <= true + 3e-6


def test_the_papers_deviation_keeps_its_promise_for_small_epsilon_alone():
    """Noise of deviation w·C/ε_c with w = 2·log(2/δ_c) keeps (ε_c, δ_c) up to 1, and breaks it for large ε_c."""
    for delta in (0.02, 0.3):
        width = 2 * math.log(2 / delta)
        for epsilon in (0.1, 0.5, 1.0):
            own = copula_cost(CopulaBySecret("s", 0.5, means={0: 0.0, 1: epsilon / width}))
            assert own.delta(epsilon) <= delta
    assert gaussian_delta(20.0 / (2 * math.log(2 / 0.5)), 20.0) > 0.75


def two_normals(copula, epsilons):
    """Return δ of two normal numbers whose law depends on the secret, by quadrature."""
    at = np.linspace(-9, 9, 1500)
    grid = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1)
    laws = []
    for value in copula.values:
        rho, a, b = copula.tie(value)
        law = multivariate_normal(mean=[a, b], cov=[[1, rho], [rho, 1]]).pdf(grid)
        laws.append(law / law.sum())
    return [
        max(np.clip(laws[i] - math.exp(e) * laws[1 - i], 0, None).sum() for i in (0, 1))
        for e in epsilons
    ]


@pytest.mark.slow
def test_correlations_reveal_no_more_than_their_copula_costs():
    """The cost of a copula whose correlation differs is never below quadrature, and not far above it."""
    epsilons = [0.0, 0.3, 1.0]
    for copula in (BY_CORRELATION, CopulaBySecret("s", {0: 0.2, 1: 0.5}, means={0: 0.0, 1: 0.3})):
        own = copula_cost(copula)
        for epsilon, true in zip(epsilons, two_normals(copula, epsilons), strict=True):
            assert true - 2e-5 <= own.delta(epsilon) <= true * 1.05 + 2e-3


@pytest.fixture
def coarse(monkeypatch):
    """Few cells, so that a test is quick; bounds stay bounds."""
    monkeypatch.setattr("pufferflow.confounding.joint_law._MOST_TIED", 300)


def noisy_deltas(table, noises, copula, epsilons):
    """δ of tied noises on columns a and b by quadrature, each secret with its own copula."""
    laws, _ = tied_laws(table, noises, copula.tie, np.linspace(-22, 23, 1000))
    return deltas_of(laws, epsilons)


@pytest.mark.slow
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(
    "copula",
    [BY_CORRELATION, BY_MEAN, CopulaBySecret("s", {0: 0.5, 1: -0.3}, means={0: 0.3, 1: -0.3})],
    ids=["correlation", "mean", "both"],
)
def test_tied_noises_by_secret_cost_no_less_than_quadrature_says(copula):
    """δ of two noises whose copula depends on the secret is never below quadrature, and not far above it."""
    table, _ = random_table(np.random.default_rng(8), sizes=(2, 2))
    noises, epsilons = (pf.Laplace(1.0), pf.Laplace(1.5)), [0.0, 0.1, 0.3]
    pair = [Additive(name, one) for name, one in zip("ab", noises, strict=True)]
    found = cost(table, gaussian_copula(*pair, copula), secret="s")
    assert found.releases[0].reads == ("a", "b", "s")
    assert found.certainty() == "upper_bound"
    for epsilon, delta in zip(epsilons, noisy_deltas(table, noises, copula, epsilons), strict=True):
        assert delta * (1 - 1e-3) <= found.delta(epsilon) <= delta * 1.1 + 0.006
    assert found.posterior.ratio == found.pure == math.inf
    assert 0.5 + found.tv / 2 <= found.posterior.guess_after + 1e-2
    assert found.dependence.average.dependence_of_noise > 0


@pytest.mark.parametrize("noise", [pf.Laplace(1.0), pf.Gaussian(1.0)], ids=["laplace", "gaussian"])
def test_log_ratios_move_within_a_cell_no_more_than_its_width(noise):
    """Between the corners of a cell the log ratio of two points' densities moves by at most the width of the cell."""
    ties = [Tie(0.5), Tie(0.5, 1.0, 0.5), Tie(-0.3, 0.0, 0.0), Tie(0.2, -0.8, 0.6)]
    answers = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.0, 2.0])
    edges = [noise_edges(noise, own, 60) for own in answers]
    cells = tied_cells((noise, noise), answers, ties, 60)
    shape = len(edges[0]) + 1, len(edges[1]) + 1
    widths = cells.width.reshape(shape)[1:-1, 1:-1]
    densities = []
    for one, other, tie in zip(*answers, ties, strict=True):
        v, w = edges[0] - one, edges[1] - other
        marks = [np.where(at > 0, -1, 1) * ndtri(noise.tail(np.abs(at))) for at in (v, w)]
        z, u = marks[0][:, None] - tie.first, marks[1][None, :] - tie.second
        bells = (z**2 - 2 * tie.correlation * z * u + u**2) / (2 * (1 - tie.correlation**2))
        own = np.add.outer(noise.logpdf(v) + marks[0] ** 2 / 2, noise.logpdf(w) + marks[1] ** 2 / 2)
        densities.append(own - bells - math.log(1 - tie.correlation**2) / 2)
    tight = 0
    for one, other in itertools.permutations(range(4), 2):
        ratio = densities[one] - densities[other]
        corners = np.stack([ratio[:-1, :-1], ratio[1:, :-1], ratio[:-1, 1:], ratio[1:, 1:]])
        moved = corners.max(axis=0) - corners.min(axis=0)
        assert (moved <= widths + 1e-9).all()
        tight = max(tight, float((moved / widths)[20:40, 20:40].max()))
    assert tight > 0.5


def test_gaussian_noises_with_means_are_moved():
    """Two Gaussian noises whose copula has means are Gaussian, moved by the means in deviations (M28)."""
    table = pf.Table({"s": [0, 1], "u": [0.0, 2.0], "v": [0.0, 0.5], "probability": [0.5, 0.5]})
    pair = Additive("u", pf.Gaussian(2.0)), Additive("v", pf.Gaussian(0.5))
    for mean, rho in ((0.6, 0.5), (-0.4, -0.3)):
        copula = CopulaBySecret("s", rho, means={0: 0.0, 1: mean})
        found = cost(table, gaussian_copula(*pair, copula), secret="s")
        a, b = 1 + mean, 1 + rho * mean
        true = gaussian_delta(math.sqrt((a * a - 2 * rho * a * b + b * b) / (1 - rho**2)), 0.5)
        assert true <= found.delta(0.5) <= true + 2e-6


MISUSES = {
    "nothing by value": lambda: CopulaBySecret("s", 0.5),
    "one value": lambda: CopulaBySecret("s", {0: 0.5}),
    "other values": lambda: CopulaBySecret("s", {0: 0.5, 1: 0.2}, means={0: 0.0, 2: 0.1}),
    "correlation of 1": lambda: CopulaBySecret("s", {0: 0.5, 1: 1.0}),
    "a list of means": lambda: CopulaBySecret("s", {0: 0.5, 1: 0.2}, means=[0.0, 0.1]),
    "large mean": lambda: CopulaBySecret("s", 0.5, means={0: 0.0, 1: 4.5}),
    "no number": lambda: CopulaBySecret("s", 0.5, means={0: 0.0, 1: "x"}),
    "no column": lambda: CopulaBySecret("", {0: 0.5, 1: 0.2}),
    "other secret": lambda: CopulaBySecret("s", {0: 0.5, 1: 0.2}).tie("987654"),
    "copulas without a column": lambda: tied_channels(FIRST, FIRST, {0: np.minimum}),
    "a column without copulas": lambda: tied_channels(FIRST, FIRST, np.minimum, secret="s"),
    "no copulas": lambda: tied_channels(FIRST, FIRST, {}, secret="s"),
    "a copula of numbers": lambda: gaussian_copula(FIRST, FIRST, {0: 0.2, 1: 0.4}),
    "cost of a number": lambda: copula_cost(0.5),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuses(name):
    """What does not fit is refused, with what is allowed and without the value of a secret."""
    with pytest.raises(pf.UsageError) as error:
        MISUSES[name]()
    assert "allowed" in str(error.value)
    assert "987654" not in str(error.value)


def test_a_secret_without_a_copula_is_refused():
    """Where a table has a value of the secret for which there is no copula, there is no cost."""
    tied = gaussian_copula(FIRST, FIRST, CopulaBySecret("s", {0: 0.2, 2: 0.5}))
    with pytest.raises(pf.UsageError, match="not an input"):
        cost(THREE, tied, secret="s")
    noise = Additive("x", pf.Laplace(1.0))
    with pytest.raises(pf.UsageError, match="no copula"):
        cost(
            THREE, gaussian_copula(noise, noise, CopulaBySecret("s", {0: 0.2, 2: 0.5})), secret="s"
        )
    assert channel("x", [[1.0]]).tied == ()
