"""Correlated Gaussian noise of two outputs: its joint loss over reachable shifts, and the least for a guarantee."""

import itertools

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import pufferflow as pf

point = pf.Law.point
OVERLAPPING = [(1, 0), (0, 1), (1, 1)]
SQUARED = {(1, 1, -0.5): 4.0, (1, 0.5, 0.5): 1.0, (1, 0.5, 0.8): 1.25, (1, 0, 0.5): 4 / 3}
"""(a, b, ρ) → μ², computed independently of this project."""
FIRST = (
    {
        (2, 2): 0.20897671655276379,
        (2, 1): 0.3437141647949692,
        (2, 0): 0.21514564892679378,
        (0, 2): 0.23216346972547341,
    },
    {
        (2, 2): 0.017851084737261963,
        (1, 1): 0.0016462845207568942,
        (2, 1): 0.9509792344231348,
        (0, 0): 0.029523396318846255,
    },
    *((1.264266963671563, 0.9393448585585973), 3.0, 2.6682456151377925),
)
SECOND = (
    {
        (1, 1): 0.14845978353056338,
        (2, 0): 0.28706265231587297,
        (0, 2): 0.3155137560082571,
        (2, 2): 0.24896380814530655,
    },
    {
        (1, 2): 0.5505736530773868,
        (1, 0): 0.36106243889224005,
        (0, 0): 0.018414069814147144,
        (1, 1): 0.06994983821622584,
    },
    *((1.4702252679337302, 0.8062196297835443), 2.0, 0.16262869391147738),
)
XOR = ({(0, 0): 0.5, (1, 1): 0.5}, {(0, 1): 0.5, (1, 0): 0.5}, (0.5, 0.5), 2.0, 1.8597440585972396)


def law_of(weights):
    return pf.Law(list(weights), list(weights.values()))


def moved(noise, *laws):
    """Return laws in the coordinates in which a noise is independent."""
    return tuple(law.map(noise.transformed) for law in laws)


def renyi_by_grid(mu, nu, covariance, alpha):
    """The Rényi losses of two noisy laws in the plane in both orders, on a grid of their own."""
    reach, step = (
        7 * np.sqrt(np.diag(covariance)),
        0.35 * np.sqrt(np.linalg.eigvalsh(covariance)[0]),
    )
    axes = [np.arange(-r - 2, r + 4, step) for r in reach]
    y = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    p, q = (
        logsumexp(
            [
                multivariate_normal.logpdf(y, mean=atom, cov=covariance) + np.log(weight)
                for atom, weight in zip(law.values, law.probabilities, strict=True)
            ],
            axis=0,
        )
        for law in (mu, nu)
    )
    logs = [logsumexp(alpha * a - (alpha - 1) * b) + 2 * np.log(step) for a, b in ((p, q), (q, p))]
    return [log / (alpha - 1) for log in logs]


@pytest.mark.parametrize(("shift", "squared"), SQUARED.items())
def test_the_loss_of_a_shift_is_mahalanobis(shift, squared):
    """μ² = (a² − 2ρab + b²)/(1 − ρ²), and never less than that of the noise that is drawn."""
    a, b, rho = shift
    noise = pf.JointGaussian(2.0, units=(1.0, 3.0), rho=rho)
    z = np.array([2 * a, 6 * b])
    assert noise.gdp([z]) ** 2 == pytest.approx(squared, rel=1e-6)
    exact = float(np.sqrt(z @ np.linalg.solve(noise.covariance, z)))
    assert exact <= noise.gdp([z]) * (1 + 1e-13) <= exact * (1 + 1e-9)
    assert noise.delta([z], 0.7) == pytest.approx(
        norm.cdf(exact / 2 - 0.7 / exact) - np.exp(0.7) * norm.cdf(-exact / 2 - 0.7 / exact),
        rel=1e-9,
    )
    assert noise.renyi([z], 3) == pytest.approx(1.5 * exact**2, rel=1e-9)


def test_the_worst_reachable_shift_counts():
    """Not the shift that is longest in both outputs: a = 1, b = 1/2, ρ = 1/2 has 1, and (1, 0) has 4/3."""
    noise = pf.JointGaussian(1.0, rho=0.5)
    shifts = [(1, 0.5), (1, 0), (0, 0.5)]
    assert noise.gdp(shifts) ** 2 == pytest.approx(4 / 3, rel=1e-6)
    assert noise.gdp(shifts) == max(noise.gdp([shift]) for shift in shifts)


@pytest.mark.slow
@pytest.mark.parametrize("case", [FIRST, SECOND, XOR], ids=["first", "second", "XOR"])
def test_reference_losses_in_the_plane(case):
    """The joint loss of two outputs, from values computed elsewhere; marginal losses of XOR would add up to 0."""
    mu, nu, scales, alpha, value = case
    noise = pf.JointGaussian(1.0, units=scales)
    losses = renyi_by_grid(law_of(mu), law_of(nu), noise.covariance, alpha)
    assert losses[0] == pytest.approx(value, rel=1e-5)
    pair = moved(noise, law_of(mu), law_of(nu))
    found = pf.loss([pair], pf.Gaussian(1.0), pf.Renyi.of(alpha), bound=pf.Exact())
    assert found == pytest.approx(max(losses), rel=1e-5)


@pytest.mark.parametrize(
    "bound", [pf.DAGWM(), pytest.param(pf.Exact(), marks=pytest.mark.slow)], ids=repr
)
@pytest.mark.parametrize("seed", range(2))
def test_calibrated_joint_noise_keeps_the_promise(seed, bound):
    """The Rényi loss in the plane, on a grid in the outputs' own coordinates, is at most the guarantee's."""
    rng = np.random.default_rng(seed)
    atoms = [(x, x + y) for x in range(3) for y in range(2)]
    laws = [
        pf.Law([atoms[i] for i in rng.choice(6, 3, replace=False)], rng.dirichlet(np.ones(3)))
        for _ in range(2)
    ]
    noise = pf.calibrate_joint([tuple(laws)], pf.Renyi(3, 0.8), bound=bound).noise
    loss = max(renyi_by_grid(*laws, noise.covariance, 3))
    assert loss <= 0.8 * (1 + 1e-6)
    if isinstance(bound, pf.Exact):  # and with less noise it is not
        assert loss >= 0.8 * (1 - 1e-3)
        assert max(renyi_by_grid(*laws, noise.at(0.9 * noise.scale).covariance, 3)) > 0.8 * 1.05


def test_the_noise_of_a_worst_pair_is_the_least():
    """Of points nothing is left to chance: the loss is the guarantee's, and .9 of the noise breaks it."""
    pairs = [(point((0, 0)), point(shift)) for shift in OVERLAPPING]
    joint = pf.calibrate_joint(pairs, pf.Approx(1.0, 1e-5))
    assert joint.noise.delta(OVERLAPPING, 1.0) <= 1e-5 * (1 + 1e-9)
    assert joint.noise.at(0.9 * joint.noise.scale).delta(OVERLAPPING, 1.0) > 2e-5
    assert joint.noise.rho == pytest.approx(0.5, abs=1e-6)
    assert joint.gain == pytest.approx(1 - np.sqrt(2 / 3), abs=1e-6)


def test_it_is_chosen_only_where_it_helps():
    """Shifts of opposite signs beside equal ones leave independent noise; beyond ρ = 2ab/(a²+b²) nothing is won."""
    both = [(point((0, 0)), point(shift)) for shift in ((1, 1), (1, -1))]
    joint = pf.calibrate_joint(both, pf.Renyi(4, 1.0))
    assert (joint.noise.rho, joint.gain, joint.noise) == (0.0, 0.0, joint.alone)
    a, b = 1.0, 0.6
    most = 2 * a * b / (a * a + b * b)
    tried = (0.0, -0.1, 0.1, b / a, most - 0.01, most + 0.01)
    squared = {rho: pf.JointGaussian(1.0, rho=rho).gdp([(a, b)]) ** 2 for rho in tried}
    assert squared[0.1] < squared[0.0] < squared[-0.1]
    assert squared[most - 0.01] < squared[0.0] < squared[most + 0.01]
    assert squared[b / a] == pytest.approx(max(a * a, b * b), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "promise", [pf.Renyi(4, 1.0), pf.Approx(1.0, 1e-6), pf.Gdp(0.5)], ids=["Rényi", "approx", "gdp"]
)
def test_a_sum_and_a_count_above_a_threshold_win_a_fifth(promise):
    """A row of 0 to 10 in a sum and in a count of 5 and more: both have a fifth less noise than independent ones."""
    answers = [point((level, int(level >= 5))) for level in range(11)]
    joint = pf.calibrate_joint(list(itertools.combinations(answers, 2)), promise)
    assert joint.gain == pytest.approx(0.1968, abs=1e-3)
    assert joint.noise.rho == pytest.approx(0.55, abs=1e-3)


@pytest.mark.slow
def test_what_is_published_has_the_covariance():
    """Drawn noise has the covariance it tells, which a scale 10 % off would not; answers move it exactly."""
    noise = pf.JointGaussian(2.0, units=(1.0, 3.0), rho=0.6)
    drawn = noise.release(np.zeros((20_000, 2)), np.random.default_rng(1))
    np.testing.assert_allclose(np.cov(drawn.T), noise.covariance, rtol=0.05)
    answers = np.array([[3, -7], [10**6, 2]])
    near = noise.release(answers, np.random.default_rng(5)) - noise.release(
        answers * 0, np.random.default_rng(5)
    )
    np.testing.assert_allclose(near, answers, atol=1e-8)
    rounded = (
        noise.release([[0.3, 1.7]], np.random.default_rng(5)),
        noise.release([[0, 2]], np.random.default_rng(5)),
    )
    assert rounded[0].tolist() == rounded[1].tolist()
    assert pf.JointGaussian(0.0).release([[3, 4]]).tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pf.JointGaussian(-1.0), "scale is -1.0"),
        (lambda: pf.JointGaussian(1.0, units=(1.0,)), "units are not two numbers"),
        (lambda: pf.JointGaussian(1.0, units=(1.0, 0.0)), "a unit is 0.0"),
        (lambda: pf.JointGaussian(1.0, rho=1.0), "rho is 1.0"),
        (lambda: pf.JointGaussian(1.0).gdp([1.0, 2.0]), "not pairs of finite numbers"),
        (lambda: pf.JointGaussian(1.0).gdp([(1.0, np.nan)]), "not pairs of finite numbers"),
        (lambda: pf.JointGaussian(1.0).release([["many", 2]]), "not pairs of finite numbers"),
        (lambda: pf.JointGaussian(1.0).release([[0.3, 2]], step=0.1), "step is 0.1"),
        (
            lambda: pf.calibrate_joint([(point(0), point(1))], pf.Renyi(2, 1)),
            "two coordinates, and this one has 1",
        ),
        (
            lambda: pf.calibrate_joint([(point((0, 0)), point((1, 0)))], pf.Renyi(2, 1)),
            "does not move",
        ),
        (
            lambda: pf.calibrate_joint([(point((0, 0)), point((1, 1)))], pf.Pure(1)),
            "No scale of Gaussian noise",
        ),
        (
            lambda: pf.calibrate([(point(0), point(1))], pf.Renyi(2, 1), noise=pf.JointGaussian),
            "Joint noise is calibrated for",
        ),
        (lambda: plan_with(pf.JointGaussian(1.0)), "Joint noise is calibrated for"),
    ],
)
def test_what_has_no_joint_noise_is_refused(make, says):
    """Numbers that are none, single outputs, and joint noise with a scale where one is looked for."""
    with pytest.raises(pf.PufferflowError, match=says):
        make()


def plan_with(noise):
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.Independent())
    return (
        pf.protect(pl.DataFrame({"level": [0, 1]}), scenario)
        .private_sum("level")
        .plan(pf.Renyi(2, 1), noise=noise)
    )
