"""Exact losses, and bounds that leave something out, against slow truths: never below them at the ends of floats."""

import math
from fractions import Fraction

import mpmath
import noisy
import numpy as np
import pytest
from laws import float_law_of, random_law
from thinned import thinned

import pufferflow as pf

EXACT = pf.Exact()
OUTLIER = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
point = pf.Law.point


def delta_of(pair, noise, epsilon, bound=EXACT):
    return max(part.delta(noise, epsilon).value for part in bound.parts([pf.Pair(*pair)], noise))


def test_slivers_between_jumps_of_a_staircase_count():
    """Atoms 1e-14 apart, or .1 + .2 and .3: a piece that narrow has the whole pure loss."""
    noise = pf.Staircase(1.0, 2.0)
    near = point(0.0), point(1e-14)
    assert pf.loss([near], noise, pf.Pure, bound=EXACT) == pytest.approx(2.0)
    assert pf.loss([near], noise, pf.Renyi.of(50), bound=EXACT) == pytest.approx(1.348380, rel=1e-5)
    assert delta_of(near, noise, 0.0) >= 2.88e-14
    sums = pf.Law([0.0, 0.3], [0.5, 0.5]), pf.Law([0.0, 0.1 + 0.2], [0.5, 0.5])
    assert pf.loss([sums], noise, pf.Pure, bound=EXACT) > 1.4
    steep = pf.Law([0, 1, 100], [0.3, 0.3, 0.4]), pf.Law([0, 2, 100], [0.3, 0.3, 0.4])
    assert pf.loss([steep], pf.Staircase(1, 30), pf.Pure, bound=EXACT) == pytest.approx(30)


SINGULAR = [[0.01, 0.07], [0.07, 0.49]]
THIN = [[1.5928457283659603, 1.5928457283675639], [1.5928457283675639, 1.5928457283691675]]


def test_singular_covariances_hide_nothing_across_them():
    """A move out of a singular covariance's range costs ∞ without noise, and noise alone hides it."""
    pair = pf.GaussianLaw([0, 0], SINGULAR), pf.GaussianLaw([1, 1], SINGULAR)
    for kind in (pf.Renyi.of(2), pf.Approx.of(1e-5)):
        assert pf.loss([pair], pf.Gaussian(0.0), kind, bound=EXACT) == math.inf
    scale = pf.calibrate([pair], pf.Renyi(2, 1.0), noise=pf.Gaussian, bound=EXACT).noise.scale
    covariance = mpmath.matrix(SINGULAR) + mpmath.eye(2) * mpmath.mpf(scale) ** 2
    cost = (mpmath.matrix([1, 1]).T * mpmath.inverse(covariance) * mpmath.matrix([1, 1]))[0]
    assert 1 - 1e-6 < cost <= 1 + 1e-9
    thin = (
        pf.GaussianLaw([0, 0], THIN),
        pf.GaussianLaw([-9.177151407284642e-08, -5.109022401370604e-09], THIN),
    )
    assert pf.loss([thin], pf.Gaussian(8.240463982489033e-09), pf.Renyi.of(1.5), bound=EXACT) > 20


def test_thin_covariances_are_measured_from_above():
    """Covariances with condition numbers of 1e12, exact in floats: the loss is never below that at 60 digits."""
    rng = np.random.default_rng(23)
    for _ in range(60):
        size = int(rng.integers(2, 5))
        thin = rng.integers(-9, 10, (size, size - 1)).astype(float)
        covariance = thin @ thin.T + 2.0**-32 * np.eye(size)
        move, scale = rng.normal(size=size), float(10 ** rng.uniform(-7, -1))
        pair = pf.GaussianLaw(np.zeros(size), covariance), pf.GaussianLaw(move, covariance)
        with mpmath.workdps(60):
            whole = mpmath.matrix(covariance.tolist()) + mpmath.eye(size) * mpmath.mpf(scale) ** 2
            vector = mpmath.matrix(move.tolist())
            truth = (vector.T * mpmath.inverse(whole) * vector)[0]
        found = pf.loss([pair], pf.Gaussian(scale), pf.Renyi.of(2), bound=EXACT)
        assert truth <= found <= truth * 1.2


def test_what_is_constant_under_both_laws_needs_no_noise():
    """A coordinate without variance that does not move is no reason for noise."""
    covariance = [[4.0, 0.0], [0.0, 0.0]]
    pair = pf.GaussianLaw([0, 3], covariance), pf.GaussianLaw([1, 3], covariance)
    assert pf.loss([pair], pf.Gaussian(0.0), pf.Renyi.of(2), bound=EXACT) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("move", "variances"),
    thinned([(0.5, (1.0, 1.3)), (0.0, (2.0, 1.0)), (3.0, (1.0, 1.0 + 1e-9))], 0.22, unpack=True),
)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.5])
def test_gaussian_laws_of_any_variances_have_an_exact_hockey_stick(move, variances, epsilon):
    """N(0, v) and N(move, w): δ as summed over a fine grid, not the bound by Rényi orders."""
    pair = pf.GaussianLaw(0.0, variances[0]), pf.GaussianLaw(move, variances[1])
    y = np.linspace(-60, 60, 2_000_001)
    logs = [
        -((y - m) ** 2) / (2 * v) - math.log(2 * math.pi * v) / 2
        for m, v in zip((0.0, move), variances, strict=True)
    ]
    step = y[1] - y[0]
    truth = max(
        float(np.maximum(np.exp(a) - np.exp(b + epsilon), 0).sum() * step)
        for a, b in (logs, reversed(logs))
    )
    found = delta_of(pair, pf.Gaussian(0.0), epsilon)
    assert found == pytest.approx(truth, rel=1e-5, abs=1e-12)
    c = pf.calibrate([pair], pf.Approx(epsilon, 1e-3), noise=pf.Gaussian, bound=EXACT)
    assert c.certainty.value == "exact"


def test_rational_weights_below_all_floats_keep_their_size():
    """A weight of 10^-330 in the denominator is not raised to 5e-324: the loss would fall by 15."""
    tiny = Fraction(1, 10**330)
    for far, truth in ((1, None), (10000, 330 * math.log(10) - math.log(2))):
        pair = pf.Law([0, far], [Fraction(1, 2)] * 2), pf.Law([0, far], [tiny, 1 - tiny])
        assert pf.loss([pair], pf.Laplace(0), pf.Renyi.of(2), bound=EXACT) == pytest.approx(
            758.4667863
        )
        if truth:
            assert pf.loss([pair], pf.Laplace(1.0), pf.Pure, bound=EXACT) == pytest.approx(truth)


def cauchy_delta(shift, k, epsilon):
    """δ(ε) of Cauchy noise at a shift, at 40 digits."""
    with mpmath.workdps(40):
        u, k = mpmath.mpf(shift), mpmath.mpf(k)
        c = mpmath.exp(2 * mpmath.mpf(epsilon) / k)
        root = mpmath.sqrt(c * u * u - (c - 1) ** 2)
        ends = (c * u - root) / (c - 1), (c * u + root) / (c - 1)

        def tail(x):
            half = (
                mpmath.betainc((k - 1) / 2, mpmath.mpf("0.5"), 0, 1 / (1 + x * x), regularized=True)
                / 2
            )
            return half if x >= 0 else 1 - half

        p, q = (tail(ends[0] - at) - tail(ends[1] - at) for at in (u, 0))
        return p - mpmath.exp(mpmath.mpf(epsilon)) * q


@pytest.mark.slow
@pytest.mark.parametrize("k", [1.1, 1.3, 2, 4, 40])
def test_cauchy_hockey_sticks_near_their_end_are_not_below_the_truth(k):
    """Where ε is just below D_∞ both tails nearly cancel: their errors count."""
    noise = pf.GeneralizedCauchy(1.0, k)
    for shift in (1e-5, 0.3, 3.0, 91.0, 5e3):
        for short in (1e-7, 1e-5, 1e-3, 0.9):
            epsilon = float(noise.pure(shift)) * (1 - short)
            truth = cauchy_delta(shift, k, epsilon)
            assert noise.delta(shift, epsilon) >= truth
            found = delta_of((point(0.0), point(shift)), noise, epsilon)
            assert truth <= found <= float(truth) * (1 + 1e-4) + 1e-12


def test_hockey_sticks_of_several_atoms_hold_what_cells_left_open():
    """Five atoms, tight noise whose density is above 1: what is undecided was once cut at a density of 1."""
    mu = pf.Law([0, 1e-9], [4.810306135678607e-07, 0.9999995189693863])
    nu = pf.Law(
        [
            -0.07265420200344233,
            -6.408500540231546e-05,
            -2.8196930239246827e-05,
            1.855283300216289e-06,
            0.006008647176,
        ],
        [
            0.013519717285618474,
            0.07047262594422453,
            2.0176136632295342e-07,
            0.001309363872905777,
            0.914698091135885,
        ],
    )
    found = delta_of((mu, nu), pf.GeneralizedCauchy(0.5680472169902796, 40.0), 0.022722448826132075)
    assert found == pytest.approx(0.0114546074691502, rel=1e-7)
    assert found >= 0.01145460746


@pytest.mark.slow
def test_gaussian_noise_never_has_no_delta():
    """Two different laws under Gaussian noise have δ(ε) > 0 for every ε, though floats cannot hold it."""
    for bound in (EXACT, pf.GWM()):
        for delta in (0.0, 1e-320):
            assert (
                pf.loss([(point(0), point(1))], pf.Gaussian(1.0), pf.Approx.of(delta), bound=bound)
                == math.inf
            )


@pytest.mark.parametrize("delta", thinned([1e-6, 1e-9, 1e-12, 0.0], 0.5))
def test_tiny_deltas_cost_no_more_than_none(delta):
    """Laplace noise for (1, δ) is never more than for a pure guarantee; at δ = 0 it is the same."""
    pure = pf.calibrate([OUTLIER], pf.Pure(1.0), noise=pf.Laplace, bound=EXACT).noise.scale
    found = pf.calibrate([OUTLIER], pf.Approx(1.0, delta), noise=pf.Laplace, bound=EXACT)
    assert found.noise.scale <= pure * (1 + 1e-8)
    assert found.noise.scale == pytest.approx(pure, rel=2e-4)
    assert pf.loss([OUTLIER], pf.Laplace(1.0), pf.Approx.of(delta), bound=EXACT) <= 43.5708


@pytest.mark.parametrize("reach", [1e3, 1e6, 1e9])
def test_far_atoms_do_not_blur_near_ones(reach):
    """Two clusters far apart: the loss is that of the clusters, to the last digits floats can tell."""
    pair = (
        pf.Law([0.0, 1.0, reach], [0.3, 0.3, 0.4]),
        pf.Law([0.0, 1.0, reach, reach + 1e-3], [0.32, 0.3, 0.2, 0.18]),
    )
    assert pf.loss([pair], pf.Gaussian(0.1), pf.Renyi.of(2), bound=EXACT) == pytest.approx(
        0.00233869, rel=5e-2
    )
    assert pf.loss([pair], pf.GeneralizedCauchy(1.0), pf.Pure, bound=EXACT) == pytest.approx(
        0.051767, rel=1e-3
    )


@pytest.mark.parametrize(("k", "truth"), [(1.05, 0.00015676), (1.1, 0.00032210), (1.3, 0.00105818)])
def test_heavy_tails_are_counted_once(k, truth):
    """For k near 1 most of the mass lies beyond all cells; it was counted twice."""
    pair = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1], [0.4, 0.6])
    assert pf.loss(
        [pair], pf.GeneralizedCauchy(1.0, k), pf.Renyi.of(2), bound=EXACT
    ) == pytest.approx(truth, rel=1e-4)


def test_what_floats_cannot_hold_is_refused_or_bounded():
    """Huge ε, huge distances: an answer or a refusal, never another error, and no long wait."""
    for k, epsilon in ((2, 1000.0), (1.5, 600.0)):
        noise = pf.GeneralizedCauchy.of(k)
        found = pf.calibrate(
            [(point(0), point(1))], pf.Approx(epsilon, 1e-6), noise=noise, bound=pf.GWM()
        )
        assert found.noise.pure(1.0) <= epsilon
    with pytest.raises(pf.Refused, match="beyond all floats"):
        pf.calibrate([(point(0.0), point(1e308))], pf.Pure(1e-9))
    far = pf.Law([0, 1e300], [0.5, 0.5]), pf.Law([0, 1e300], [0.4, 0.6])
    for noise in (
        pf.Laplace(1.0),
        pf.GeneralizedCauchy(1.0),
        pf.Gaussian(1.0),
        pf.Laplace(1e-100),
        pf.Gaussian(1e-100),
    ):
        for kind in (pf.Renyi.of(2), pf.Approx.of(1e-3)):
            assert pf.loss([far], noise, kind, bound=EXACT) > 0.4
    for bound in (pf.GWM(), pf.DAGWM()):
        assert pf.loss([far], pf.Staircase(1, 1), pf.Renyi.of(2), bound=bound) > 1e299
    with pytest.raises(pf.Refused, match="too many jumps"):
        pf.loss([far], pf.Staircase(1, 1), pf.Renyi.of(2), bound=EXACT)


def test_gawm_adds_what_it_leaves_out():
    """δ left out and δ of the rest add: (1−d)·[0, a move of 1] + d·[far away], both ways, comes close to the sum."""
    d = 0.02
    pair = pf.Law([0, 1000], [1 - d, d]), pf.Law([1, -1000], [1 - d, d])
    noise, epsilon = pf.Laplace(2.0), 0.3
    true = noisy.delta(*pair, noise, epsilon)
    rest = noise.delta(1.0, epsilon)
    assert true == pytest.approx(d + (1 - d) * rest, rel=1e-3)
    assert true > max(d, rest) * 1.01
    assert true <= delta_of(pair, noise, epsilon, pf.GAWM(d)) <= true * 1.001


@pytest.mark.slow
def test_pure_losses_are_above_the_truth_to_the_last_digit():
    """Laplace noise, random laws: rounding never takes the pure loss below its value at 40 digits."""
    rng = np.random.default_rng(17)
    for _ in range(150):
        mu, nu = (float_law_of(random_law(rng)) for _ in range(2))
        scale = float(rng.uniform(0.3, 3))
        with mpmath.workdps(40):
            sides = [
                [
                    (mpmath.mpf(float(w)), mpmath.mpf(float(x)))
                    for w, x in zip(law.probabilities, law.values, strict=True)
                ]
                for law in (mu, nu)
            ]

            def log_density(side, y, scale=scale):
                return mpmath.log(
                    mpmath.fsum(w * mpmath.exp(-abs(y - x) / mpmath.mpf(scale)) for w, x in side)
                )

            places = [x for side in sides for _, x in side]
            truth = max(abs(log_density(sides[0], y) - log_density(sides[1], y)) for y in places)
        found = pf.loss([(mu, nu)], pf.Laplace(scale), pf.Pure, bound=EXACT)
        assert truth - mpmath.mpf(2) ** -50 <= found <= truth * (1 + 1e-10) + 1e-11
        assert found >= truth or mu == nu or math.isclose(truth, 0, abs_tol=1e-15)


@pytest.mark.parametrize("bound", [pf.Exact(), pf.Kantorovich()], ids=repr)
@pytest.mark.parametrize("promise", [pf.Zcdp(0.045), pf.Gdp(0.3)], ids=repr)
def test_promises_of_all_orders_by_bounds_of_pure_losses(promise, bound):
    """Gaussian noise has no pure loss: that of the movement is kept then; other noise is no louder than by it."""
    pair = pf.Law([1, 2, 3], [0.25, 0.25, 0.5]), pf.Law([3, 7], [0.5, 0.5])
    for noise in (pf.Gaussian, pf.Laplace):
        found, farther = (
            pf.calibrate([pair], promise, noise=noise, bound=one) for one in (bound, pf.GWM())
        )
        assert found.loss <= promise.loss
        assert found.noise.scale <= farther.noise.scale * (1 + 1e-9)
    assert (
        pf.loss(
            [(pf.GaussianLaw(0.0, 1.0), pf.GaussianLaw(2.0, 1.0))],
            pf.Gaussian(4.0),
            pf.Gdp,
            pf.Exact(),
        )
        <= 0.5
    )


def test_atoms_that_differ_in_their_last_bit_are_told_apart_or_not():
    """At some scales a box between them has no width: it adds nothing, and warns of nothing."""
    atoms, promise = [-191460.0, 0.0, 999999.9999999999, 1e6], pf.Renyi(3, 0.7)
    found = [
        pf.calibrate(
            [(pf.Law.point(0.0), law)], promise, noise=pf.Laplace, bound=pf.Exact()
        ).noise.scale
        for law in (
            pf.Law(atoms, [2 / 9, 3 / 9, 2 / 9, 2 / 9]),
            pf.Law(atoms[:3], [2 / 9, 3 / 9, 4 / 9]),
        )
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-9)
