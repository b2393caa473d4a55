"""Rows that share a hidden class, under Gaussian noise (M63): check values, and integrals computed otherwise."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from pufferflow.calibration import latent_mixture as mixture
from pufferflow.calibration.latent_mixture import HiddenClassLoss, OtherRows

TOP, BOTTOM = np.array([0.3, 0.7]), np.array([0.8, 0.2])
ROWS = np.array([[0.8, 0.2], [0.3, 0.7]])
GIVEN = ROWS[:, 0] / ROWS[:, 0].sum(), ROWS[:, 1] / ROWS[:, 1].sum()
INFORMATION, SIZE = 1 / 16, 6
"""Six rows, counted once with a standard deviation of 4."""


def stick(top, bottom, moved, epsilon):
    return float(
        mixture.mixture_sticks(*(top - math.exp(epsilon) * bottom), np.array(float(moved)))
    )


def test_mixtures_have_the_values_of_the_statement():
    assert stick(TOP, BOTTOM, 1.3, 0.4) == pytest.approx(0.11445553, abs=1e-8)
    assert stick(TOP, BOTTOM, 1.0, 0.5) == pytest.approx(0.04617277, abs=1e-8)
    product = mixture.product_deltas(np.array([0.5]), np.array([1.0]), TOP, BOTTOM, 0.5, 8193)
    assert product[0] == pytest.approx(0.11731029, abs=1e-7)
    assert product[0] >= 0.11731028
    moment = mixture.mixture_log_moments(np.array([1.0]), TOP, BOTTOM, 2.0)[0]
    assert 0.21660630 <= moment <= 0.21660630 + 1e-4


@pytest.mark.parametrize("seed", range(20))
def test_hockey_sticks_of_mixtures_are_integrals(seed):
    """Of two mixtures, and of them beside one row: integrals by another routine are never above."""
    rng = np.random.default_rng(seed)
    top, bottom = rng.dirichlet([1, 1], 2)
    moved, own, epsilon = rng.uniform(0.01, 4), rng.uniform(0.01, 2), rng.uniform(-0.5, 2)

    def density(law, x):
        return law[0] * norm.pdf(x) + law[1] * norm.pdf(x, moved)

    def of_mixture(epsilon):
        ratio = math.exp(epsilon)
        return quad(
            lambda x: max(density(top, x) - ratio * density(bottom, x), 0.0), -9, 14, limit=400
        )[0]

    known = stick(top, bottom, moved, epsilon)
    assert of_mixture(epsilon) - 1e-7 <= known <= of_mixture(epsilon) + 1e-7
    exact = quad(
        lambda y: norm.pdf(y, own) * stick(top, bottom, moved, epsilon - own * y + own**2 / 2),
        -9,
        12,
        limit=200,
    )[0]
    for nodes, error in ((33, 0.4), (257, 4e-3)):
        found = mixture.product_deltas(
            np.array([own]), np.array([moved]), top, bottom, epsilon, nodes
        )[0]
        assert exact - 1e-8 <= found <= exact + error * (1e-3 + exact)


@pytest.mark.parametrize("alpha", [1.25, 2.0, 5.0, 16.0])
@pytest.mark.parametrize("seed", range(10))
def test_moments_of_mixtures_are_integrals(alpha, seed):
    rng = np.random.default_rng(seed)
    top, bottom = rng.dirichlet([1, 1], 2)
    if seed == 0:
        bottom = np.array([1.0, 0.0])
    if seed == 1:
        bottom = np.array([0.0, 1.0])
    moved = float(rng.uniform(0.01, 2))

    places = np.linspace(-10 - (alpha - 1) * moved, 10 + alpha * moved, 20001)
    with np.errstate(divide="ignore"):
        logs = [
            np.logaddexp(
                np.log(law[0]) + norm.logpdf(places), np.log(law[1]) + norm.logpdf(places, moved)
            )
            for law in (top, bottom)
        ]
    values = np.exp(alpha * logs[0] + (1 - alpha) * logs[1])
    exact = math.log(np.trapezoid(values, places))
    found = mixture.mixture_log_moments(np.array([moved]), top, bottom, alpha)[0]
    if alpha * moved < 25:
        assert exact - 1e-9 <= found <= exact + 0.02 * (1 + exact)
    else:
        assert exact - 1e-9 <= found


@pytest.mark.parametrize("seed", range(30))
def test_mixtures_are_gaussian_with_the_least_deviations(seed):
    """No test between two mixtures has a larger difference of its normal scores, and some test nearly has it."""
    rng = np.random.default_rng(seed)
    top, bottom = rng.dirichlet([1, 1], 2)
    if top[1] < bottom[1]:
        top, bottom = bottom, top
    moved = float(rng.choice([0.3, 1.0, 2.5, 6.0]) * rng.uniform(0.7, 1.3))
    found = mixture.gaussian_of_mixtures(np.array([moved]), top, bottom)[0]
    swapped = mixture.gaussian_of_mixtures(np.array([moved]), bottom, top)[0]
    places = np.linspace(-5, 5 + moved, 20_001)
    power, size = (
        norm.ppf(law[0] * norm.sf(places) + law[1] * norm.sf(places - moved))
        for law in (top, bottom)
    )
    true = (power - size).max()
    assert true * (1 - 1e-9) <= found <= true * 1.0006 + 0.05
    assert found == pytest.approx(swapped, rel=1e-3)
    corner = norm.ppf(top[1]) - norm.ppf(bottom[1])
    assert mixture.gaussian_of_classes(top, bottom) == pytest.approx(corner, rel=1e-6)
    assert found <= min(moved, corner) * (1 + 1e-8)


@pytest.mark.parametrize("apart", [0.0, 1e-15, 1e-6, 1e-3])
def test_classes_that_hardly_differ_have_a_bound_in_a_moment(apart):
    """Equal laws of a class tell nothing; where they nearly are equal, μ is small."""
    top, bottom = np.array([0.5 + apart, 0.5 - apart]), np.array([0.5, 0.5])
    loss = HiddenClassLoss(top, bottom, OtherRows.at_most(3))
    assert 0.2 <= loss.gaussian(0.04) <= 0.2 + 6 * apart + 1e-9
    assert 0 <= mixture.gaussian_of_mixtures(np.array([1.0]), top, bottom)[0] <= 6 * apart + 1e-14


def test_rare_classes_keep_their_digits():
    """A mass of 1 − 1e-14 has lost all digits of the rest of it."""
    for rare in (1e-9, 1e-12, 1e-14):
        found = mixture.gaussian_of_classes(np.array([1 - rare, rare]), np.array([0.5, 0.5]))
        assert found >= norm.isf(rare) * (1 - 1e-12)


def test_classes_that_exclude_each_other_are_no_normal_laws():
    certain = np.array([1.0, 0.0])
    assert mixture.gaussian_of_classes(certain, BOTTOM) == math.inf
    assert mixture.gaussian_of_mixtures(np.array([0.7]), certain, BOTTOM)[0] <= 0.7
    loss = HiddenClassLoss(certain, BOTTOM, OtherRows.at_most(2))
    assert loss.gaussian(0.25) == pytest.approx(1.0)
    assert loss.concentrated(0.25) == pytest.approx(0.5)


def truth_of_count():
    """The densities of a noisy count of six rows, given the first one's value."""
    places = np.linspace(-45, 50, 95_001)
    counts = np.arange(SIZE)
    densities = []
    for value in (0, 1):
        law = sum(GIVEN[value][c] * binom.pmf(counts, SIZE - 1, ROWS[c, 1]) for c in range(2))
        densities.append(law @ norm.pdf(places[None, :], counts[:, None] + value, 4.0))
    return densities, places[1] - places[0]


def test_the_case_of_the_statement():
    """The truth of one count, and each of the three bounds by its formula: of order 2 about (0, 1)."""
    (first, second), step = truth_of_count()
    true = math.log((first**2 / second).sum() * step)
    assert true == pytest.approx(0.27993714, abs=1e-7)
    delta = np.maximum(first - math.exp(0.5) * second, 0.0).sum() * step
    assert delta == pytest.approx(0.06284771, abs=1e-7)
    rows = OtherRows.differing(ROWS, SIZE - 1)
    counts, own = rows.outside, math.exp(INFORMATION)
    revealed = math.log((GIVEN[0] ** 2 / GIVEN[1]).sum() * own)
    assert revealed == pytest.approx(0.96906234, abs=1e-8)
    apart = np.maximum(GIVEN[0] - GIVEN[1], 0).sum()
    whole = (rows.masses * np.exp(INFORMATION * (counts + 1) ** 2)).sum()
    coupled = math.log((1 - apart) * own + apart * whole)
    assert coupled == pytest.approx(0.62980268, abs=1e-8)
    thinned = []
    for split in (0.3, 0.5, 0.7, 0.85, 0.95):
        moved = counts * math.sqrt(INFORMATION / (1 - split))
        moments = np.exp(mixture.mixture_log_moments(moved, *GIVEN, 2.0))
        thinned.append(math.log((rows.masses * np.exp(INFORMATION / split) * moments).sum()))
    assert min(thinned) == pytest.approx(0.32031235, abs=2e-4)
    assert min(thinned) >= 0.32031235
    loss = HiddenClassLoss(*GIVEN, rows)
    assert true <= loss.renyi(INFORMATION, 2.0) <= min(thinned)
    assert delta <= loss.delta(INFORMATION, 0.5) <= 0.0725
    assert min(revealed, coupled) + 1e-9 >= HiddenClassLoss(*GIVEN, rows, thinned=False).renyi(
        INFORMATION, 2.0
    )


@pytest.mark.parametrize("thinned", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_more_information_is_more_loss(seed, thinned):
    """So a limit allows all information up to one largest."""
    rng = np.random.default_rng(seed)
    top, bottom = rng.dirichlet([1, 1], 2)
    rows = OtherRows.at_most(int(rng.integers(1, 9)))
    loss = HiddenClassLoss(top, bottom, rows, thinned)
    ladder = np.geomspace(1e-4, 4, 12)
    for found in (
        [loss.delta(one, 0.7) for one in ladder],
        [loss.renyi(one, 3.0) for one in ladder],
        [loss.epsilon(one, 1e-5) for one in ladder],
    ):
        assert all(high >= low * (1 - 1e-4) for low, high in itertools.pairwise(found))


@pytest.mark.parametrize("seed", range(20))
def test_prices_are_of_releases_that_the_first_one_dominates(seed):
    """A release of so many rows has at most the information of the first, at its price, after thinning with any θ."""
    rng = np.random.default_rng(seed)
    first, other = (OtherRows.at_most(int(rows)) for rows in rng.integers(1, 12, 2))
    price = first.price(other)
    for split in first.splits:
        limits = np.diag([price / split, price * first.squares(split)[0]])
        for u, w in ((1.0, other.inside[0]), (0.0, other.outside[0])):
            for sign in (-1, 1):
                one = np.array([u, sign * w])
                assert np.linalg.eigvalsh(limits - np.outer(one, one))[0] >= -1e-9 * price
    assert price * first.whole[0] ** 2 >= other.whole[0] ** 2
    assert first.price(first) == pytest.approx(1.0)


def test_a_class_that_a_value_excludes_counts_wholly():
    """Revealing the class then fails, and the two others still hold."""
    top, bottom = np.array([0.4, 0.6]), np.array([1.0, 0.0])
    assert mixture.revealed_delta(0.1, top, bottom, 0.5) >= 0.6
    loss = HiddenClassLoss(top, bottom, OtherRows.at_most(3))
    assert (
        0
        < loss.epsilon(0.01, 1e-6)
        <= HiddenClassLoss(top, bottom, OtherRows.at_most(3), thinned=False).epsilon(0.01, 1e-6)
        < math.inf
    )
    assert math.isfinite(loss.renyi(0.01, 2.0))
    assert loss.epsilon(math.inf, 1e-6) == loss.renyi(math.inf, 2.0) == math.inf
    assert loss.epsilon(0.0, 1e-6) == loss.renyi(0.0, 2.0) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_without_thinning_the_class_is_revealed_or_coupled(epsilon):
    """The least of both formulas, where laws of the class are far apart and near each other."""

    def moved(deviations, at):
        high, low = deviations / 2 - at / deviations, -deviations / 2 - at / deviations
        return norm.cdf(high) - math.exp(at) * norm.cdf(low)

    for apart in (0.1, 0.9):
        top = np.array([(1 + apart) / 2, (1 - apart) / 2])
        bottom = top[::-1]
        revealed = sum(
            p * moved(0.1, epsilon - math.log(p / q)) for p, q in zip(top, bottom, strict=True)
        )
        coupled = (1 - apart) * moved(0.1, epsilon) + apart * moved(0.4, epsilon)
        loss = HiddenClassLoss(top, bottom, OtherRows.at_most(4), thinned=False)
        assert loss.delta(0.01, epsilon) == pytest.approx(min(revealed, coupled), rel=1e-9)
