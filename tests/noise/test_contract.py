"""What every noise owes: losses that are rounded up, fall with the scale, and fit together."""

import math
from decimal import Decimal
from fractions import Fraction

import noisy
import numpy as np
import pytest
from scipy import integrate, stats
from thinned import thinned

import pufferflow as pf

NOISES = {
    "laplace": pf.Laplace,
    "gaussian": pf.Gaussian,
    "cauchy": pf.GeneralizedCauchy,
    "cauchy k=1.4": pf.GeneralizedCauchy.of(k=1.4),
    "cauchy k=3": pf.GeneralizedCauchy.of(k=3),
    "cauchy k=4.7": pf.GeneralizedCauchy.of(k=4.7),
    "staircase": pf.Staircase.of(epsilon=0.8),
    "staircase γ=.3": pf.Staircase.of(epsilon=1.5, gamma=0.3),
}
SLOW = {"cauchy k=1.4", "cauchy k=3"}
"""Their divergences are integrals that take seconds each; k = 4.7 and k = 2 stand for them where tests are quick."""
every_noise = pytest.mark.parametrize(
    "family",
    [
        pytest.param(one, id=name, marks=pytest.mark.slow if name in SLOW else ())
        for name, one in NOISES.items()
    ],
)
SHIFTS = [0.0, 0.01, 0.3, 1.0, 1.7, 2.0, 4.5]
ORDERS = [1.05, 1.5, 2.0, 3.3, 8.0]
EPSILONS = [0.0, 0.1, 1.0, 3.0]


def point(x):
    return pf.Law.point(float(x))


@every_noise
@pytest.mark.parametrize("scale", thinned([0.7, 2.0], 0.33, slow=0.5))
@pytest.mark.parametrize("shift", thinned([0.3, 0.01, 1.0, 1.7, 2.0, 4.5], 0.33))
def test_losses_are_the_divergences_rounded_up(family, scale, shift):
    """Rényi losses and hockey sticks equal an independent integral, and are not below it."""
    noise = family(scale)
    for alpha in ORDERS:
        truth = noisy.renyi(point(shift), point(0), noise, alpha)
        assert noise.renyi(shift, alpha) == pytest.approx(truth, rel=1e-6, abs=1e-9)
        assert noise.renyi(shift, alpha) >= truth - 1e-10
    for epsilon in EPSILONS:
        truth = noisy.delta(point(shift), point(0), noise, epsilon)
        exact = (
            {"rel": 1e-3, "abs": 2e-5}
            if isinstance(noise, pf.Staircase)
            else {"rel": 1e-8, "abs": 1e-11}
        )
        assert noise.delta(shift, epsilon) == pytest.approx(truth, **exact)
        assert noise.delta(shift, epsilon) >= truth - exact["abs"]


@every_noise
def test_pure_losses_are_suprema(family):
    """No point has a larger log ratio than the pure loss, and some come close (the Gaussian has no bound)."""
    noise = family(1.3)
    for shift in SHIFTS[1:]:
        truth = noisy.pure(point(shift), point(0), noise)
        if isinstance(noise, pf.Gaussian):
            assert noise.pure(shift) == math.inf
        else:
            assert truth - 1e-9 <= noise.pure(shift) <= truth * (1 + 1e-4) + 1e-9


@every_noise
def test_losses_fit_together(family):
    """D_α rises with α up to D_∞; δ falls with ε to 0 at D_∞, and is the total variation at ε = 0."""
    noise = family(1.0)
    shifts = np.array(SHIFTS)
    losses = np.array([noise.renyi(shifts, alpha) for alpha in [*ORDERS, 40.0, 300.0]])
    assert (np.diff(losses, axis=0) >= -1e-12).all()
    assert (losses <= noise.pure(shifts)).all()
    deltas = np.array([noise.delta(shifts, epsilon) for epsilon in [*EPSILONS, 20.0]])
    assert (np.diff(deltas, axis=0) <= 1e-12).all()
    assert (deltas[0] == noise.tv(shifts)).all()
    assert ((deltas >= 0) & (deltas <= 1)).all()
    if not isinstance(noise, pf.Gaussian):
        for shift in SHIFTS:
            assert noise.delta(shift, noise.pure(shift) + 1e-9) == 0


@every_noise
def test_nothing_moves_nothing_costs(family):
    """A shift of 0 costs 0, exactly, at every scale."""
    for scale in (1e-300, 0.0, 1.0, 1e300):
        noise = family(scale)
        losses = noise.renyi(0.0, 2), noise.pure(0.0), noise.delta(0.0, 0.0), noise.tv(-0.0)
        assert losses == (0, 0, 0, 0)


@every_noise
def test_losses_depend_on_size_only_and_on_the_ratio_to_the_scale(family):
    """Losses ignore the sign of a shift, and stretching shift and scale together."""
    for shift in SHIFTS:
        for factor in (1.0, 0.25, 1024.0):
            there, back = family(factor), family(1.0)
            assert there.renyi(-shift * factor, 2.5) == back.renyi(shift, 2.5)
            assert there.pure(shift * factor) == back.pure(-shift)
            assert there.delta(-shift * factor, 0.5) == back.delta(shift, 0.5)


@every_noise
@pytest.mark.parametrize("count", thinned([21, 61], 0.5))
def test_losses_rise_with_the_shift(family, count):
    """What moves farther costs no less (staircase noise: over balls, where its losses do not turn back)."""
    noise = family(1.0)
    radii = np.linspace(0, 6, count)
    for losses in (
        [noise.renyi_within(r, 2.5) for r in radii],
        [noise.pure_within(r) for r in radii],
        [noise.delta_within(r, 0.7) for r in radii],
    ):
        assert (np.diff([min(x, 1e9) for x in losses]) >= -1e-12).all()


@every_noise
@pytest.mark.parametrize("radius", thinned([3.2, 1.0, 0.4], 0.33))
def test_balls_hold_every_shift_in_them(family, radius):
    """The loss of a ball is not below that of any shift in it."""
    rng = np.random.default_rng(5)
    noise = family(1.0)
    inside = np.append(rng.uniform(-radius, radius, 200), radius)
    for alpha in (1.5, 2, 7):
        assert noise.renyi_within(radius, alpha) >= noise.renyi(inside, alpha).max() - 1e-12
    assert noise.pure_within(radius) >= noise.pure(inside).max()
    assert noise.delta_within(radius, 0.5) >= noise.delta(inside, 0.5).max() - 1e-12


@pytest.mark.parametrize(
    "noise",
    thinned(
        [pf.Laplace(1), pf.Gaussian(1), pf.GeneralizedCauchy(1), pf.GeneralizedCauchy(1, k=4)], 0.25
    ),
    ids=repr,
)
@pytest.mark.parametrize("dimension", [2, 3, 7])
def test_balls_of_vectors_hold_every_vector_in_them(noise, dimension):
    """In R^d the loss of a vector is the sum over its coordinates, and never above that of the ball of its norm."""
    rng = np.random.default_rng(dimension)
    moves = rng.normal(size=(300, dimension)) * rng.exponential(size=(300, dimension))
    moves = np.concatenate([moves, np.eye(dimension), np.ones((1, dimension))])
    for alpha in (2.0, 4.0):
        for move in moves * 2:
            radius = float(np.linalg.norm(move, noise.norm))
            assert noise.renyi_within(radius, alpha, dimension) >= noise.renyi(
                move, alpha
            ).sum() * (1 - 1e-12)
            if not isinstance(noise, pf.Gaussian):
                assert noise.pure_within(radius, dimension) >= noise.pure(move).sum() * (1 - 1e-12)


def test_balls_of_vectors_that_are_not_known_are_refused():
    """Odd k, a fractional order or a staircase leave the worst vector unknown."""
    for noise, alpha in ((pf.GeneralizedCauchy(1, k=3), 2), (pf.GeneralizedCauchy(1, k=2), 2.5)):
        with pytest.raises(pf.Refused, match=r"pf\.DAGWM"):
            noise.renyi_within(1.0, alpha, dimension=2)
    with pytest.raises(pf.Refused, match="one coordinate"):
        pf.Staircase(1, 1).pure_within(1.0, dimension=2)
    assert pf.Laplace(1).delta_within(1.0, 0.5, dimension=2) is None


@every_noise
def test_densities_integrate_to_tails(family):
    """`logpdf` and `tail` agree with SciPy's distributions and with each other."""
    noise = family(1.7)
    x = np.array([-30.0, -2.0, -0.1, 0.0, 0.4, 1.7, 5.0, 11.0])
    assert noise.logpdf(x) == pytest.approx(noisy.log_density(noise, x), rel=1e-12, abs=1e-12)
    for low, high in ((0.0, 0.5), (0.5, 1.0), (2.0, 6.0)):
        grid = np.unique(np.clip(np.concatenate([np.linspace(low, high, 400_001)]), low, high))
        mass = integrate.trapezoid(np.exp(noise.logpdf(grid)), grid)
        assert noise.tail(low) - noise.tail(high) == pytest.approx(mass, abs=1e-5)
    assert noise.tail(0.0) == pytest.approx(0.5)
    assert noise.tail(-3.0) == pytest.approx(1 - noise.tail(3.0))


@every_noise
@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.9, 0.95, 0.999, 1 - 1e-12])
def test_intervals_hold_what_they_say(family, confidence):
    """The interval around 0 holds the noise with the stated probability, and hardly more."""
    noise = family(2.5)
    low, high = noise.interval(confidence)
    assert low == -high
    held = 1 - 2 * noise.tail(high)
    assert confidence <= held + 1e-13
    assert 2 * noise.tail(high) == pytest.approx(1 - confidence, rel=1e-6)


@pytest.mark.slow
def test_moments_are_the_known_ones():
    """Expected error and variance are those of the distributions, infinite where they do not exist."""
    assert (pf.Laplace(3).expected_error, pf.Laplace(3).variance) == (3, 18)
    assert pf.Gaussian(3).expected_error == pytest.approx(3 * math.sqrt(2 / math.pi))
    for k in (3.5, 4, 7):
        student = stats.t(df=k - 1, scale=2 / math.sqrt(k - 1))
        noise = pf.GeneralizedCauchy(2, k)
        assert noise.variance == pytest.approx(student.var())
        mean_size = 2 * integrate.quad(lambda x, law=student: x * law.pdf(x), 0, math.inf)[0]
        assert noise.expected_error == pytest.approx(mean_size, rel=1e-6)
    assert pf.GeneralizedCauchy(1, k=2).expected_error == math.inf
    assert pf.GeneralizedCauchy(1, k=3).variance == math.inf
    stairs = pf.Staircase(2.0, 0.8, 0.3)
    x = np.linspace(0, 400, 4_000_001)
    density = np.exp(stairs.logpdf(x))
    assert stairs.expected_error == pytest.approx(2 * integrate.trapezoid(x * density, x), rel=1e-4)
    assert stairs.variance == pytest.approx(2 * integrate.trapezoid(x * x * density, x), rel=1e-4)


def test_the_best_staircase_is_better_than_laplace():
    """M12: for one sensitivity, staircase noise has the least expected error, with γ = 1/(1 + e^{ε/2})."""
    for epsilon in (0.1, 1.0, 4.0):
        best = pf.Staircase(1.0, epsilon)
        others = [
            pf.Staircase(1.0, epsilon, gamma).expected_error for gamma in np.linspace(0, 1, 21)
        ]
        assert best.expected_error <= min(others)
        assert best.expected_error < pf.Laplace(1 / epsilon).expected_error


@pytest.mark.parametrize("gamma", [0.0, 0.0139, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_staircase_total_variation(epsilon, gamma):
    """M12's formula for the total variation at one sensitivity."""
    fall = math.exp(-epsilon)
    width = gamma + fall * (1 - gamma)
    rise = 2 * gamma * (1 - fall) + fall if gamma <= 0.5 else 1.0
    assert pf.Staircase(3.0, epsilon, gamma).tv(3.0) == pytest.approx(
        (1 - fall) * rise / (2 * width), rel=1e-9
    )


def test_staircase_reference():
    """The published value: γ = .0139, ε = 1 give .3234."""
    assert pf.Staircase(1, 1, 0.0139).tv(1.0) == pytest.approx(0.3234, abs=5e-5)


@every_noise
@pytest.mark.parametrize("shift", [5e-324, 1e-308, 1e-160, 1e-20, 1e20, 1e160, 1e308, math.inf])
def test_extreme_shifts_give_honest_losses(family, shift):
    """No shift, however small or large, gives NaN, and none that is above 0 is free."""
    for scale in (1.0, 1e-5, 1e5):
        noise = family(scale)
        for loss in (
            noise.renyi(shift, 2),
            noise.renyi(shift, 1.7),
            noise.pure(shift),
            noise.tv(shift),
        ):
            assert loss > 0
        assert noise.delta(shift, 1.0) >= 0
        assert noise.renyi(shift, 3) <= noise.pure(shift)


@every_noise
def test_arrays_and_single_numbers_agree(family):
    """Arrays of any shape give arrays of that shape; single numbers of any kind give floats."""
    noise = family(2.0)
    table = np.array([[0.5, 1.0, -2.0], [0.0, 3.0, 7.0]])
    for whole, one in (
        (noise.renyi(table, 2), lambda x: noise.renyi(x, 2)),
        (noise.pure(table), noise.pure),
        (noise.delta(table, 0.3), lambda x: noise.delta(x, 0.3)),
        (noise.tv(table), noise.tv),
        (noise.logpdf(table), noise.logpdf),
        (noise.tail(table), noise.tail),
    ):
        assert whole.shape == table.shape
        assert [type(one(x)) for x in (1, 0.5, Fraction(1, 3), Decimal("0.1"), np.float32(2))] == [
            float
        ] * 5
        assert whole[0, 1] == one(1) == one(Fraction(1))
    assert noise.renyi([1, 2], [2.0, 3.0]).tolist() == [noise.renyi(1, 2), noise.renyi(2, 3)]
    assert noise.delta(1.0, [0.0, 1.0]).tolist() == [noise.delta(1, 0), noise.delta(1, 1)]
    assert noise.renyi(np.zeros((0,)), 2).shape == (0,)


def test_exact_shifts_are_not_rounded_down():
    """A third is taken as the float above it, and quotients by the scale are rounded up."""
    assert Fraction(pf.Laplace(1).pure(Fraction(1, 3))) > Fraction(1, 3)
    for scale in (0.1, 3.0, 7e-200):
        for shift in (0.3, 1.0, 1e-200):
            assert Fraction(pf.Laplace(scale).pure(shift)) >= Fraction(shift) / Fraction(scale)
    assert pf.Laplace(4).pure(1) == 0.25


@every_noise
def test_no_noise_hides_nothing(family):
    """At scale 0 any movement tells everything; the noise is 0."""
    noise = family(0.0)
    assert (noise.renyi(1e-300, 2), noise.pure(1.0), noise.delta(1.0, 5.0), noise.tv(1.0)) == (
        math.inf,
        math.inf,
        1,
        1,
    )
    assert noise.sample(4).tolist() == [0, 0, 0, 0]
    assert (noise.interval(0.95), noise.expected_error, noise.variance) == ((0, 0), 0, 0)
    assert noise.release([3, 0.1]).values.tolist() == [3, 0.1]
    assert (noise.logpdf(0.0), noise.logpdf(1.0), noise.tail(1.0)) == (math.inf, -math.inf, 0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pf.Laplace(-1), "scale is -1.0"),
        (lambda: pf.Gaussian(math.nan), "scale is nan"),
        (lambda: pf.Laplace("wide"), "scale is of type str"),
        (lambda: pf.GeneralizedCauchy(1, k=1), "k is 1.0"),
        (lambda: pf.GeneralizedCauchy.of(k=0.5), "k is 0.5"),
        (lambda: pf.Staircase(1, 0), "epsilon is 0.0"),
        (lambda: pf.Staircase(1, 1, 1.5), "gamma is 1.5"),
        (lambda: pf.Laplace(1).renyi(1.0, 1.0), "alpha is 1.0"),
        (lambda: pf.Laplace(1).renyi(1.0, math.inf), "alpha is inf"),
        (lambda: pf.Laplace(1).delta(1.0, -0.5), "epsilon is -0.5"),
        (lambda: pf.Laplace(1).pure(math.nan), "shift is NaN"),
        (lambda: pf.Laplace(1).pure("far"), "shift is not a number"),
        (lambda: pf.Laplace(1).pure([[1], [1, 2]]), "rows of different lengths"),
        (lambda: pf.Laplace(1).interval(1.0), "confidence is 1.0"),
        (lambda: pf.Laplace(1).sample(-1), "size is -1"),
        (lambda: pf.Laplace(1).sample(1.5), r"size is 1\.5"),
        (lambda: pf.Laplace(1).sample(3, rng=7), "rng is of type int"),
    ],
)
def test_bad_input_is_named(make, says):
    """Every wrong argument is refused with what was given and what is allowed."""
    with pytest.raises(pf.UsageError, match=says) as refusal:
        make()
    assert "allowed: " in str(refusal.value)
    assert "try: " in str(refusal.value)
