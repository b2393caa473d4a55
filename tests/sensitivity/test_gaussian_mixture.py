"""Mixtures of Gaussians: losses are never below those found by quadrature, and are the published ones (M54)."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.rules.latent_class import MixtureRule
from pufferflow.models.priors.correlations import AR1, Exchangeable
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.sensitivity.gaussian_mixture import renyi_of_classes

CLASSES = GaussianMixture([0.6, 0.4], means=[0, 2], covariances=[AR1(0.8), AR1(0.3)])


def scenario(prior, pairs, domain=(-2.0, 4.0), secret=pf.Initial):
    interval = pf.Interval(*domain)
    order = {"order_by": "t"} if prior.ordered or secret is pf.Initial else {}
    return pf.Scenario(
        secret=secret("x", domain=interval, pairs=pairs), prior=prior, within="unit", **order
    )


def loss(prior, pairs, noise, kind=pf.Pure, rows=3, **more):
    laws = pf.laws(scenario(prior, pairs, **more), pf.Statistic.total(rows))
    return pf.loss(laws, noise, kind, bound=pf.Messages())


@pytest.mark.parametrize(
    ("pair", "noise", "kind", "expected"),
    [
        ((1, 2), pf.Laplace(20), pf.Pure, 0.37926063),
        ((1, 2), pf.Laplace(5), pf.Pure, 1.43497988),
        ((1, 2), pf.Gaussian(5), pf.Renyi.of(alpha=2), 1.06985828),
        ((1, 2), pf.Gaussian(5), pf.Renyi.of(alpha=8), 2.14813105),
        ((1, 2), pf.Gaussian(20), pf.Renyi.of(alpha=2), 0.85814306),
    ],
)
def test_losses_are_the_published_ones(pair, noise, kind, expected):
    """Three rows, the first of which is secret, and their sum: the values of M54."""
    assert loss(CLASSES, [pair], noise, kind) == pytest.approx(expected, abs=6e-9)


def exact(prior, a, b, scale, low, high):
    """The largest log ratio of the clamped sum of two rows with Laplace noise, given the first one's value."""
    grid = np.linspace(2 * low - 40 * scale, 2 * high + 40 * scale, 801)
    x = np.linspace(-12, 12, 1601)
    densities = []
    for value in (a, b):
        weights = np.array(
            [
                w * norm.pdf(value, one.mean, math.sqrt(one.variance))
                for w, one in zip(prior.weights, prior.members, strict=True)
            ]
        )
        density = np.zeros(len(grid))
        for share, one in zip(weights / weights.sum(), prior.members, strict=True):
            rho = one.covariance.phi if isinstance(one.covariance, AR1) else one.covariance.rho
            law = norm.pdf(
                x, one.mean + rho * (value - one.mean), math.sqrt(one.variance * (1 - rho**2))
            )
            law /= law.sum()
            sums = np.clip(value, low, high) + np.clip(x, low, high)
            density += share * (np.exp(-np.abs(grid[:, None] - sums) / scale) @ law)
        densities.append(np.log(density))
    return float(np.abs(densities[0] - densities[1]).max())


def random_mixture(rng, *, same=False):
    """Two classes; with `same` they differ in their means alone."""
    kind = rng.choice([AR1, Exchangeable])
    rho, variance = rng.uniform(-0.6, 0.9, 2), rng.uniform(0.5, 2, 2)
    if same:
        rho[1], variance[1] = rho[0], variance[0]
    share = float(rng.uniform(0.1, 0.9))
    means, covariances = rng.uniform(-1, 2, 2).tolist(), [kind(float(one)) for one in rho]
    return GaussianMixture([share, 1 - share], means, covariances, variance.tolist())


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
def test_no_loss_is_below_the_one_found_by_quadrature(seed, same):
    """Random classes, pairs, domains and scales; every pair counts in both orders."""
    rng = np.random.default_rng(seed)
    prior = random_mixture(rng, same=same)
    a, b = rng.uniform(-1.5, 2.5, 2).round(2).tolist()
    domain = (-2.0, 3.0) if seed % 2 else (-4.0, 6.0)
    for scale in (0.5, 3.0):
        found = exact(prior, a, b, scale, *domain)
        promised = loss(prior, [(a, b)], pf.Laplace(scale), rows=2, domain=domain)
        assert found <= promised + 1e-9
        near = loss(prior, pf.WithinDistance(abs(a - b)), pf.Laplace(scale), rows=2, domain=domain)
        assert promised <= near + 1e-12


def test_less_noise_is_not_enough():
    """Where classes hardly differ, or the class is nearly told, nine tenths of the noise break the guarantee."""
    alike = GaussianMixture([0.5, 0.5], [0, 0.01], [AR1(0.5), AR1(0.5)], [1.0, 1.0])
    apart = GaussianMixture([0.5, 0.5], [-1, 1], [AR1(0.5), AR1(0.5)], [1.0, 1.0])
    for prior, pair, epsilon in ((alike, (0.0, 1.0), 0.3), (apart, (0.0, 0.5), 3.0)):
        laws = pf.laws(scenario(prior, [pair], domain=(-8.0, 8.0)), pf.Statistic.total(2))
        scale = pf.calibrate(laws, pf.Pure(epsilon)).noise.scale
        assert exact(prior, *pair, scale, -8.0, 8.0) <= epsilon + 1e-9
        assert exact(prior, *pair, 0.9 * scale, -8.0, 8.0) > epsilon


def test_one_gaussian_would_promise_too_much():
    """Classes that correlate oppositely have no correlation on average, and reveal more than that (M54)."""
    mixture = GaussianMixture([0.5, 0.5], [0, 0], [AR1(0.9), AR1(-0.9)])
    pooled = GaussianPrior(np.eye(2))
    laws = pf.laws(scenario(pooled, [(0, 1)], domain=(-9.0, 9.0)), pf.Statistic.total(2))
    claimed = pf.loss(laws, pf.Laplace(1.0), pf.Pure, bound=pf.GWM())
    truth = exact(mixture, 0, 1, 1.0, -9.0, 9.0)
    assert claimed == pytest.approx(1.0)
    assert (
        1.2 * claimed
        < truth
        <= loss(mixture, [(0, 1)], pf.Laplace(1.0), rows=2, domain=(-9.0, 9.0))
    )


@pytest.mark.parametrize("seed", thinned(range(4), 0.2))
def test_renyi_losses_are_those_of_class_and_output(seed):
    """Two normals per class with one shift each: the bound is the divergence of (class, output), or above it."""
    rng = np.random.default_rng(seed)
    prior = random_mixture(rng)
    a, b, sigma, alpha = 0.2, 0.9, 2.0, float(rng.choice([1.5, 2, 6]))
    found = 0.0
    x, grid = np.linspace(-25, 25, 1501), np.linspace(-40, 40, 1201)
    laws = []
    for value in (a, b):
        density = np.zeros(len(grid))
        shares = [
            w * norm.pdf(value, one.mean, math.sqrt(one.variance))
            for w, one in zip(prior.weights, prior.members, strict=True)
        ]
        for share, one in zip(np.array(shares) / sum(shares), prior.members, strict=True):
            rho = one.covariance.phi if isinstance(one.covariance, AR1) else one.covariance.rho
            law = norm.pdf(
                x, one.mean + rho * (value - one.mean), math.sqrt(one.variance * (1 - rho**2))
            )
            sums = np.clip(value, -3, 4) + np.clip(x, -3, 4)
            density += share * norm.pdf(grid[:, None], sums, sigma) @ (law / law.sum())
        laws.append(density / density.sum())
    for top, bottom in itertools.permutations(laws):
        found = max(found, float(np.log((top**alpha * bottom ** (1 - alpha)).sum()) / (alpha - 1)))
    promised = loss(
        prior, [(a, b)], pf.Gaussian(sigma), pf.Renyi.of(alpha=alpha), rows=2, domain=(-3.0, 4.0)
    )
    assert found <= promised + 1e-9


def test_rows_that_are_not_asked_about_leave_all_others():
    """A row of a matrix that the sum leaves out may be the secret: then every row of the sum can change."""
    covariances = [np.eye(3) + 0.5, np.eye(3) + 0.1]
    prior = GaussianMixture([0.5, 0.5], [0, 1], covariances)
    asked = scenario(prior, [(0, 1)], secret=pf.Secret)
    losses = [
        pf.loss(pf.laws(asked, statistic), pf.Laplace(4.0), pf.Pure, bound=pf.Messages())
        for statistic in (pf.Statistic([1.0, 1.0], positions=[0, 1]), pf.Statistic([1.0, 1.0, 0.0]))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    every = pf.loss(
        pf.laws(asked, pf.Statistic([1.0, 1.0, 1.0])), pf.Laplace(4.0), pf.Pure, bound=pf.Messages()
    )
    assert losses[0] < every


def test_the_cells_of_close_pairs_hold_every_pair_between():
    """The class given any value of an interval lies in the region of its cell, also where odds turn in between."""
    prior = GaussianMixture(
        [0.5, 0.3, 0.2], [0, 1, 5], [AR1(0.2), AR1(0.5), AR1(0.1)], [1.0, 0.2, 3.0]
    )
    (pairs,) = prior.pairs(pf.Secret("x", domain=pf.Interval(-2, 6), pairs=pf.WithinDistance(2)))
    (named,) = prior.pairs(pf.Secret("x", domain=pf.Interval(-3, 7), pairs=[(-2, 6)]))
    assert named.tops.centre[0] == pytest.approx(_posterior(prior, -2.0), rel=1e-12)
    cells, first = 64, {}
    for at, (value, _) in enumerate(pairs.values):
        first.setdefault(round((value + 2) / 8 * cells), at)
    assert sorted(first) == list(range(cells))
    assert len(pairs.values) > cells * 28
    for value in np.linspace(-2, 6, 500, endpoint=False):
        law, at = _posterior(prior, value), first[int((value + 2) / 8 * cells)]
        assert (pairs.tops.low[at] <= law * (1 + 1e-9)).all()
        assert (law * (1 - 1e-9) <= pairs.tops.high[at]).all()


def _posterior(prior, value):
    shares = [
        w * norm.pdf(value, one.mean, math.sqrt(one.variance))
        for w, one in zip(prior.weights, prior.members, strict=True)
    ]
    return np.array(shares) / sum(shares)


def test_pairs_that_give_the_class_away_are_refused_for_gaussian_noise():
    """Gaussian noise takes the class as revealed: the refusal asks for nearer pairs; Laplace noise has an answer."""
    laws = pf.laws(scenario(CLASSES, [(0, 4)], domain=(-2.0, 6.0)), pf.Statistic.total(3))
    with pytest.raises(pf.Refused, match="reveals the class") as caught:
        pf.calibrate(laws, pf.Renyi(4, 0.5), noise=pf.Gaussian, bound=pf.Messages())
    assert "nearer" in caught.value.allowed
    assert pf.calibrate(laws, pf.Pure(0.5)).noise.scale > 0
    assert (
        pf.calibrate(laws, pf.Renyi(4, 0.5), noise=pf.Gaussian).noise.scale > 0
    )  # group privacy, then


def test_the_ratio_of_classes_is_paid_once():
    """Of many releases the total grows by movements alone, and is that of one release with all of them."""
    import polars as pl

    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "unit": np.repeat(np.arange(20), 3),
            "t": np.tile(np.arange(3), 20),
            "x": rng.normal(1, 1, 60),
        }
    )
    believed = scenario(CLASSES, [(1, 2)], secret=pf.Secret)
    batch = pf.protect(frame, believed)
    release = batch.private_sum("x").release(epsilon=3.0)
    totals = [pf.compose([release] * n, believed).total for n in (1, 2, 3, 4)]
    steps = np.diff(totals)
    assert totals[0] <= 3.0 + 1e-9
    assert (steps < 3.0 - 0.3).all()
    gaussian = batch.private_sum("x").plan(pf.Renyi(2, 2.0), noise=pf.Gaussian).release()
    renyi = [pf.compose([gaussian] * n, believed, method="classes").total for n in (2, 3)]
    (pairs,) = CLASSES.pairs(believed.secret)
    shape = gaussian.certificate.cost.shape
    moved = [length for name, length in shape.coupled_movements.items() if "/" in name]
    worst = max(shape.noise.renyi_within(min(one, shape.group_movement), 2.0) for one in moved)
    revealed = renyi_of_classes(pairs.tops, pairs.bottoms, np.zeros(len(moved)), 2.0).max()
    assert renyi == pytest.approx([revealed + 2 * worst, revealed + 3 * worst], rel=1e-9)
    found = pf.compose([gaussian] * 2, believed, method="classes")
    assert found.rule == MixtureRule.name
    assert found.adaptive
    assert not pf.compose([gaussian] * 2, believed).adaptive
    # group privacy couples data sets in another way: the two methods never meet in one total
    whole = shape.noise.renyi_within(shape.group_movement, 2.0)
    assert pf.compose([gaussian] * 2, believed, method="renyi").total == pytest.approx(
        2 * whole, rel=1e-9
    )


WRONG = {
    "one class": lambda: GaussianMixture([1.0], [0], [AR1(0.5)]),
    "too few means": lambda: GaussianMixture([0.5, 0.5], [0], [AR1(0.5)] * 2),
    "too many classes": lambda: GaussianMixture([1 / 6] * 6, [0] * 6, [AR1(0.5)] * 6),
    "a class that never occurs": lambda: GaussianMixture([1.0, 0.0], [0, 1], [AR1(0.5)] * 2),
    "no number": lambda: GaussianMixture([0.5, 0.5], [0, "a"], [AR1(0.5)] * 2),
    "no variance": lambda: GaussianMixture([0.5, 0.5], [0, 1], [AR1(0.5)] * 2, [1.0, 0.0]),
    "matrices of two sizes": lambda: GaussianMixture([0.5, 0.5], [0, 1], [np.eye(2), np.eye(3)]),
    "values in classes": lambda: scenario_of([0, 1, 2]),
    "labels": lambda: scenario_of(["a", "b"]),
    "a derived secret": lambda: pf.Scenario(secret=pf.Derived("kind"), prior=CLASSES, order_by="t"),
}


def scenario_of(domain):
    return pf.Scenario(secret=pf.Secret("x", domain=domain), prior=CLASSES, order_by="t")


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_mixture_is_refused(case):
    """Each mistake is named, with what is allowed."""
    with pytest.raises(pf.UsageError) as caught:
        WRONG[case]()
    assert caught.value.allowed
