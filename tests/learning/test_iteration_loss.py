"""Losses of noisy iterations: RPP's definition and examples, exact iterations, and what is refused."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import pufferflow as pf

learning = pf.learning
iteration_loss, Iteration, Trajectories = (
    learning.iteration_loss,
    learning.Iteration,
    learning.Trajectories,
)


def renyi(iteration, moved, alpha=2.0):
    return iteration_loss(iteration, moved, pf.Renyi.of(alpha=alpha)).value


def numeric_renyi(p, q, step, alpha):
    """D_α of two densities on a grid."""
    inside = (p > 1e-60) & (q > 1e-60)
    return math.log((p[inside] ** alpha * q[inside] ** (1 - alpha)).sum() * step) / (alpha - 1)


@pytest.mark.parametrize(
    "noises",
    [
        [pf.Laplace(1.0)] * 3,
        [pf.Laplace(1.0), pf.Laplace(0.5), pf.Laplace(2.0)],
        [pf.GeneralizedCauchy(1.0, k=4)] * 3,
        [pf.GeneralizedCauchy(2.0, k=6), pf.Laplace(0.5), pf.Gaussian(0.7)],
        [pf.Gaussian(0.5)] * 3,
    ],
    ids=["laplace", "laplace of three scales", "cauchy", "three families", "gaussian"],
)
def test_rpp_definition_5_1_with_noises_of_any_family(noises):
    """W_t = .8·W_{t−1} + x_t + N_t, exactly, by convolution: never above the bound, of any order."""
    factor, step = 0.8, 0.02
    at = np.arange(-60, 60, step)
    sizes = np.array([1.0, 0.0, 0.4])
    density = np.ones(1)
    for t, noise in enumerate(noises):
        scaled = np.exp([noise.logpdf(at / factor ** (2 - t))])[0] / factor ** (2 - t)
        density = scaled if t == 0 else np.convolve(density, scaled, "same") * step
    moved = round(float((sizes * factor ** np.array([2, 1, 0])).sum()) / step)
    iteration = Iteration(3, noises, factor)
    for alpha in (1.5, 2.0, 4.0):
        exact = numeric_renyi(density[moved:], density[:-moved], step, alpha)
        assert exact <= renyi(iteration, sizes, alpha) * (1 + 1e-3)


def test_laplace_iterations_have_a_pure_loss():
    """Without contraction nothing is hidden of a pure loss: it is the sum of all movements."""
    found = iteration_loss(Iteration(4, pf.Laplace(2.0)), [1, 0, 2, 0], pf.Pure)
    assert found.value == pytest.approx(1.5)
    assert (
        iteration_loss(Iteration(4, pf.Laplace(2.0)), [1, 0, 2, 0], pf.Approx.of(delta=1e-3)).value
        < 1.5
    )


@pytest.mark.parametrize(
    ("place", "value"), [(4, 3 * 2 / (4 * 7)), (10, 3 * 2 / 4), (1, 3 * 2 / 40)]
)
def test_rpp_lemma_f_1_private_gradient_descent_of_independent_rows(place, value):
    """2αL²/(σ²(T−i+1)) for row i of T = 10, noise ησ: Theorem 23 of Feldman et al."""
    eta = 0.3
    descent = learning.Descent(
        rows=10, step_size=eta, noise=2.0 * eta, lipschitz=1.0, smoothness=1.0
    )
    moved = descent.displacements_of([([place - 1], [math.inf])])
    assert renyi(descent.iteration, moved, 3.0) == pytest.approx(value, rel=1e-12)
    assert renyi(descent.iteration, descent.independent_rows(), 3.0) == pytest.approx(
        3 * 2 / 4, rel=1e-12
    )


def test_rpp_proposition_f_2_falling_displacements():
    """α(Σs)²/(2Tσ²) where displacements do not rise; never above Proposition 6.4's αΣs²/(2σ²)."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        s = np.sort(rng.exponential(size=int(rng.integers(1, 30))))[::-1]
        found = renyi(Iteration(len(s), pf.Gaussian(1.7)), s, 5.0)
        assert found == pytest.approx(5 * s.sum() ** 2 / (2 * len(s) * 1.7**2), rel=1e-9)
        assert found <= 5 * (s**2).sum() / (2 * 1.7**2) * (1 + 1e-9)


def test_linear_gaussian_iterations_are_never_below_the_exact_loss():
    """W_t = c_t·W_{t−1} + x_t + N(0, σ_t²) is one Gaussian: the bound is above it, and equal where one block pools."""
    rng, equal = np.random.default_rng(2), 0
    for _ in range(200):
        steps = int(rng.integers(1, 12))
        s, sigma, c = (
            rng.exponential(size=steps),
            rng.uniform(0.3, 2, steps),
            rng.uniform(0.5, 1.1, steps),
        )
        s[rng.random(steps) < 0.5] = 0
        left = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
        exact = (s * left).sum() / math.sqrt(((sigma * left) ** 2).sum())
        found = iteration_loss(
            Iteration(steps, [pf.Gaussian(x) for x in sigma], c), s, pf.Gdp
        ).value
        assert found >= exact * (1 - 1e-14)
        equal += found <= exact * (1 + 1e-12)
    assert 20 < equal < 180


def test_gaussian_rows_of_which_all_are_correlated_are_never_below_the_exact_loss():
    """A linear loss: W_T = Σ ηx_t + N. Translated rows cost at least what rows, with their own variance, exactly do."""
    rows, eta, sigma, phi = 12, 0.5, 0.4, 0.8
    times = np.arange(rows)
    covariance = phi ** np.abs(times[:, None] - times)
    descent = learning.Descent(
        rows, eta, sigma, lipschitz=50.0, smoothness=1e-9, data_lipschitz=1.0
    )
    exact = []
    for i in times:
        spread = covariance - np.outer(covariance[i], covariance[i])
        moved = eta * covariance[i].sum()
        exact.append(moved**2 / (rows * sigma**2 + eta**2 * spread.sum()))
    group = learning.GaussianRows(pf.GaussianPrior(pf.AR1(phi)), 1.0, descent)
    found = iteration_loss(descent.iteration, group, pf.Renyi.of(alpha=2))
    assert max(exact) < found.value < found.losses["group"]
    # without the variance of rows, the bound is never below the loss of what moves
    assert found.value >= max((eta * covariance[i].sum()) ** 2 / (rows * sigma**2) for i in times)


@pytest.mark.parametrize(
    ("phi", "batch", "passes"),
    [(0.5, 1, 1), (0.9, 7, 2), ((-0.6, 0.8), 1, 2), (0.99, 3, 1), (0.0, 1, 1)],
)
def test_the_search_for_the_worst_row_finds_what_trying_all_rows_does(
    monkeypatch, phi, batch, passes
):
    """Branch and bound over secret rows is within a thousandth of the largest loss, and never below it."""
    descent = learning.Descent(
        150, 0.1, 2.0, 1.0, 1.0, data_lipschitz=1.0, batch_size=batch, passes=passes
    )
    prior = pf.GaussianPrior(pf.AR1(phi))
    every = renyi(descent.iteration, learning.GaussianRows(prior, 1.0, descent))
    monkeypatch.setattr("pufferflow.learning.dependent_rows._DENSE", 1)
    searched = renyi(descent.iteration, learning.GaussianRows(prior, 1.0, descent))
    assert every * (1 - 1e-9) <= searched <= every * 1.0011


@pytest.mark.parametrize(
    ("sigma", "true", "promised"),
    [
        ((0.3, 0.3), 4.8624233202224545, 11.11111111111111),
        ((0.5, 0.2), 2.7561394370731698, 25.0),
        ((1, 1), 0.12, 1.0),
    ],
)
def test_xor_of_a_secret_is_not_hidden_by_its_marginals(sigma, true, promised):
    """X₁ = Z, X₂ = Z ⊕ S: each step has one law under both secrets; that is refused, and trajectories count it."""
    iteration, coin = Iteration(2, [pf.Gaussian(s) for s in sigma]), pf.Law([0, 1], [0.5, 0.5])
    with pytest.raises(pf.Refused, match="single steps"):
        learning.Marginals([coin, coin], [coin, coin], independent_given_secret=False)
    coupled = iteration_loss(
        iteration, Trajectories([[0, 1], [0, 1]], [0.5, 0.5]), pf.Renyi.of(alpha=2)
    )
    assert true < coupled.value == pytest.approx(promised)
    laws = learning.TrajectoryLaws(
        pf.Law([(0, 0), (1, 1)], [0.5, 0.5]), pf.Law([(0, 1), (1, 0)], [0.5, 0.5])
    )
    assert (
        true < renyi(iteration, laws) < coupled.value
    )  # to move the first step as well is cheaper


def test_independent_steps_are_bounded_by_their_marginals():
    """Given the secret both steps are independent: W_∞ of each, times how much a step moves with its input."""
    low, high = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 2], [0.5, 0.5])
    moved = learning.Marginals(
        [low, low], [high, low], independent_given_secret=True, lipschitz=3.0
    )
    assert moved.sizes.tolist() == [3.0, 0.0]
    found = iteration_loss(Iteration(2, pf.Gaussian(1.0)), moved, pf.Zcdp)
    assert (found.proof, found.value) == ("independent steps", pytest.approx(9 / 4))


@pytest.mark.slow
def test_projection_after_noise_is_not_what_is_bounded():
    """K = [−1, 1], η = 1.9, W₀ = 1, gradients that differ outside K only: projected first, nothing moves."""
    eta, sigma = 1.9, 0.6
    start = np.linspace(1 - 6 * sigma, 1 + 6 * sigma, 4_001)
    weight = norm.pdf(start, 1, sigma) * (start[1] - start[0])

    def gradient(v, x):
        return x * np.clip(v - 1, 0, 1)

    def last(x, projected):
        v = np.clip(start, -1, 1) if projected else start
        return v - eta * gradient(v, x)

    out = np.linspace(-6, 6, 601)

    def density(x, projected):
        centre = last(x, projected)
        centre = centre if projected else np.clip(centre, -1, 1)
        return np.array([(weight * norm.pdf(y, centre, sigma)).sum() for y in out])

    inside = numeric_renyi(density(1, True), density(0, True), out[1] - out[0], 2)
    outside = numeric_renyi(density(1, False), density(0, False), out[1] - out[0], 2)
    assert inside == pytest.approx(0, abs=1e-7)
    assert outside == pytest.approx(0.07885, abs=0.02)
    descent = learning.Descent(
        2, eta, sigma, lipschitz=0.0, smoothness=1.0
    )  # on K no gradient depends on the row
    assert renyi(descent.iteration, descent.independent_rows()) == 0
    assert outside < renyi(
        Iteration(2, pf.Gaussian(sigma)), [0, eta * 1.0]
    )  # the largest difference anywhere


def test_likely_pairs_cost_their_mean():
    """A mixture of Gaussian shifts: exact Rényi loss and hockey stick of pairs that are revealed, and never less."""
    iteration, coupling = (
        Iteration(1, pf.Gaussian(1.0)),
        Trajectories([[0.0], [1.0], [3.0]], [0.9, 0.09, 0.01]),
    )
    shifts, masses = np.array([0, 1, 3.0]), np.array([0.9, 0.09, 0.01])
    found = iteration_loss(iteration, coupling, pf.Renyi.of(alpha=3))
    assert found.value == pytest.approx(math.log((masses * np.exp(3 * shifts**2)).sum()) / 2)
    assert found.value < found.losses["worst pair"] == pytest.approx(13.5)
    approx = iteration_loss(iteration, coupling, pf.Approx.of(delta=1e-3))
    hockey = 0.09 * pf.Gaussian(1.0).delta(1.0, approx.value) + 0.01 * pf.Gaussian(1.0).delta(
        3.0, approx.value
    )
    assert hockey == pytest.approx(1e-3, rel=1e-6)
    assert approx.proof == "likely pairs"
    assert iteration_loss(iteration, coupling, pf.Zcdp).proof == "worst pair"


@pytest.mark.parametrize("kind", [pf.Renyi.of(alpha=2), pf.Approx.of(delta=1e-4), pf.Zcdp, pf.Gdp])
def test_two_laws_of_trajectories_cost_no_more_than_any_coupling_of_them(kind):
    """The coupling that is found is at most as costly as the product's, and as one given."""
    rng = np.random.default_rng(3)
    left, right = rng.integers(0, 3, (4, 3)).astype(float), rng.integers(0, 3, (5, 3)).astype(float)
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5))
    iteration = Iteration(3, pf.Gaussian(2.0), 0.9)
    laws = learning.TrajectoryLaws(pf.Law(left.tolist(), p), pf.Law(right.tolist(), q))
    product = np.abs(left[:, None] - right[None]).reshape(-1, 3)
    coupled = Trajectories(product, np.outer(p, q).ravel())
    assert (
        0
        < iteration_loss(iteration, laws, kind).value
        <= iteration_loss(iteration, coupled, kind).value
    )


def test_batches_and_passes_count_all_rows_that_move():
    """s_t is the mean over the batch of min(2ηL, ηC·distance) over all rows that move, in every pass."""
    descent = learning.Descent(
        5, 0.5, 1.0, lipschitz=1.0, smoothness=1.0, data_lipschitz=2.0, batch_size=2, passes=2
    )
    moved = descent.displacements([0.1, 3.0, 0.0, 0.2, 5.0])
    once = [(0.5 * 2 * 0.1 + 1.0) / 2, (0.5 * 2 * 0.2) / 2, 1.0]
    assert moved.at.tolist() == [0, 1, 2, 3, 4, 5]
    assert moved.sizes == pytest.approx(once * 2)
    assert (moved.sizes >= np.array(once * 2)).all()
    assert descent.iteration.steps == 6


def test_convexity_sets_the_contraction():
    """Strong convexity contracts, convexity keeps, and without it steps expand and hide less."""
    shared = {"rows": 20, "noise": 1.0, "lipschitz": 1.0, "smoothness": 2.0}
    cases = [
        (0.5, {}, 1.0),
        (0.5, {"strong_convexity": 0.2}, 0.9),
        (0.9, {"strong_convexity": 0.2}, 0.82),
    ]
    cases += [(5.0, {"convex": False}, 11.0)]
    for eta, more, contraction in cases:
        assert learning.Descent(step_size=eta, **shared, **more).contraction == pytest.approx(
            contraction
        )
    losses = []
    for more in ({"strong_convexity": 0.2}, {}, {"convex": False}):
        descent = learning.Descent(step_size=0.5, **shared, **more)
        losses.append(renyi(descent.iteration, descent.displacements_of([([10], [math.inf])])))
    assert losses == sorted(losses)
    assert len(set(losses)) == 3


DESCENT = {"rows": 10, "step_size": 0.5, "noise": 1.0, "lipschitz": 1.0, "smoothness": 1.0}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Iteration(0, pf.Gaussian(1.0)), "steps is 0"),
        (lambda: Iteration(2.5, pf.Gaussian(1.0)), "steps is 2.5"),
        (lambda: Iteration(2, pf.Gaussian(0.0)), "has no noise"),
        (lambda: Iteration(2, [pf.Gaussian(1.0)]), "1 noises for 2 steps"),
        (lambda: Iteration(2, "gaussian"), "noise is 'gaussian'"),
        (lambda: Iteration(2, pf.Gaussian(1.0), math.nan), "NaN"),
        (lambda: Iteration(2, pf.Gaussian(1.0), [1, 1, 1]), "shape"),
        (lambda: renyi(Iteration(2, pf.Gaussian(1.0)), [1, math.nan]), "NaN"),
        (lambda: renyi(Iteration(2, pf.Gaussian(1.0)), [1, -1]), "below 0"),
        (lambda: renyi(Iteration(2, pf.Gaussian(1.0)), [1, 2, 3]), "shape"),
        (lambda: renyi(Iteration(2, pf.Gaussian(1.0)), [[1, 2], [3]]), "different lengths"),
        (lambda: renyi(Iteration(2, pf.Gaussian(1.0)), "far"), "type"),
        (lambda: renyi("steps", [1]), "type str"),
        (lambda: renyi(Iteration(2, pf.Gaussian(1.0)), Trajectories([[1.0]], [1.0])), "1 steps"),
        (lambda: Trajectories([[1, 0], [0, 1]], [0.5, 0.4]), "0.9"),
        (
            lambda: iteration_loss(Iteration(1, pf.Gaussian(1.0)), [1], pf.Renyi(2, 1.0)),
            "with its epsilon",
        ),
        (
            lambda: iteration_loss(Iteration(1, pf.Gaussian(1.0)), [1], pf.Pure),
            "cannot keep a pure guarantee",
        ),
        (lambda: renyi(Iteration(1, pf.Gaussian(1.0)), [math.inf]), "finite"),
        (
            lambda: learning.Displacements(np.array([0, 1]), np.array([-1]), np.ones(1)),
            "do not rise from 0",
        ),
        (
            lambda: learning.Marginals([pf.Law.point(0)], [], independent_given_secret=True),
            "1 steps, the other of 0",
        ),
        (lambda: learning.Descent(**{**DESCENT, "step_size": 2.5}), "above 2/smoothness = 2"),
        (lambda: learning.Descent(**{**DESCENT, "noise": math.nan}), "noise is nan"),
        (lambda: learning.Descent(**{**DESCENT, "rows": 0}), "rows is 0"),
        (lambda: learning.Descent(**{**DESCENT, "lipschitz": math.inf}), "any amount"),
        (
            lambda: learning.Descent(**DESCENT, convex=False, strong_convexity=0.5),
            "convex is False",
        ),
        (lambda: learning.Descent(**DESCENT).displacements([1.0]), "shape"),
        (
            lambda: learning.Descent(**DESCENT).displacements_of([([1.5], [1.0])]),
            "not a row of the descent",
        ),
        (
            lambda: renyi(Iteration(9, pf.Gaussian(1.0)), learning.Descent(**DESCENT).all_rows()),
            "step 10",
        ),
        (
            lambda: renyi(
                Iteration(9, pf.Gaussian(1.0)),
                learning.GaussianRows(
                    pf.GaussianPrior(pf.AR1(0.5)), 1.0, learning.Descent(**DESCENT)
                ),
            ),
            "has 9 steps",
        ),
        (
            lambda: learning.Descent(**DESCENT).displacements_of([([3, 3], [1.0, 1.0])]),
            "out of order",
        ),
        (
            lambda: learning.GaussianRows(pf.AnyCorrelation(), 1.0, learning.Descent(**DESCENT)),
            "AnyCorrelation",
        ),
        (
            lambda: learning.GaussianRows(
                pf.GaussianPrior(pf.AR1(0.5)), math.nan, learning.Descent(**DESCENT)
            ),
            "nan",
        ),
        (
            lambda: learning.ChainRows(
                pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]),
                [[0, 1], [1, 0]],
                learning.Descent(**DESCENT),
            ),
            "ChainsBetween",
        ),
        (
            lambda: learning.ChainRows(
                pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [[0, 1]], learning.Descent(**DESCENT)
            ),
            "shape",
        ),
        (
            lambda: learning.ChainRows(
                pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
                [[0, 1], [1, 0]],
                learning.Descent(**DESCENT),
                rows=[0, 10],
            ),
            "among the 10 rows",
        ),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    """What no iteration, displacement or prior is, is refused by what was given."""
    with pytest.raises((pf.UsageError, pf.Refused), match=words):
        call()
