"""Calibration: what it returns, what it refuses, and extreme laws that must not break the search."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import exact_laws, float_laws
from thinned import thinned

import pufferflow as pf
from pufferflow.calibration.laws import ListedLaws, SeveralLaws

POINTS = pf.Law.point(0), pf.Law.point(3)
OUTLIER = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])


def test_the_result_carries_its_evidence():
    """Noise, loss, sensitivity, witness, certainty and bound come together, and show themselves without the laws."""
    pair = pf.Pair(*OUTLIER, prior="declared", secrets=("no", "yes"))
    found = pf.calibrate([POINTS, pair], pf.Pure(1.0), noise=pf.Laplace, bound=pf.GWM())
    assert (found.noise, found.loss, found.sensitivity) == (pf.Laplace(49.0), 1.0, 49.0)
    assert (found.witness.prior, found.certainty, found.guarantee) == (
        "declared",
        "exact",
        pf.Pure(1.0),
    )
    assert repr(found) == (
        "Calibration(noise=Laplace(scale=49.0), loss=1.0, sensitivity=49.0, bound=GWM(norm=None), certainty='exact')"
    )


def test_scales_are_the_smallest_floats_that_keep_the_promise():
    """W_∞/ε is not rounded down, and is exact where it can be."""
    for epsilon in (0.1, 0.3, 1.0, 7.0):
        scale = pf.calibrate(
            [POINTS], pf.Pure(epsilon), noise=pf.Laplace, bound=pf.GWM()
        ).noise.scale
        assert (
            Fraction(scale) >= Fraction(3) / Fraction(epsilon) > Fraction(math.nextafter(scale, 0))
        )


INVERSE = [
    (family, kind, bound)
    for family in (pf.Laplace, pf.Gaussian, pf.GeneralizedCauchy.of(k=4))
    for kind in (pf.Pure, pf.Renyi.of(3), pf.Approx.of(0.001), pf.ApproxRenyi.of(3, 0.003))
    for bound in (pf.GWM(), pf.DAGWM(), pf.Exact())
    if not (kind is pf.Pure and family is pf.Gaussian)
]


@pytest.mark.parametrize(("family", "kind", "bound"), thinned(INVERSE, 0.03, unpack=True))
def test_loss_and_calibrate_are_inverse(family, kind, bound):
    """The loss at the scale found is the ε asked for, in every kind of guarantee."""
    found = pf.calibrate([OUTLIER], kind(0.9), noise=family, bound=bound)
    assert pf.loss([OUTLIER], found.noise, kind, bound=bound) == pytest.approx(0.9, rel=1e-5)
    assert found.loss == pytest.approx(0.9, rel=1e-5)
    assert found.loss <= 0.9


@pytest.mark.slow
def test_auto_takes_the_least_scale_of_the_robust_bounds():
    """ "auto" is the minimum over GWM, DAGWM, GAWM and Kantorovich, whatever the guarantee, and never Exact."""
    cases = {
        pf.Pure(1.0): [pf.GWM(), pf.Kantorovich()],
        pf.Renyi(3, 1.0): [pf.GWM(), pf.DAGWM()],
        pf.Approx(1.0, 0.004): [pf.GWM(), pf.DAGWM(), pf.GAWM(0.004)],
        pf.ApproxRenyi(3, 1.0, 0.004): [pf.GWM(), pf.DAGWM(), pf.GAWM(0.004)],
    }
    for promise, bounds in cases.items():
        scales = [
            pf.calibrate([OUTLIER], promise, noise=pf.Laplace, bound=bound).noise.scale
            for bound in bounds
        ]
        auto = pf.calibrate([OUTLIER], promise, noise=pf.Laplace)
        assert auto.noise.scale == min(scales)
        assert auto.bound.robust
        several = pf.calibrate([OUTLIER], promise, noise=pf.Laplace, bound=[*bounds, pf.Exact()])
        assert several.noise.scale <= auto.noise.scale


def test_curves_hold_at_every_order():
    """A curve's scale is the largest that one of its orders asks for."""
    curve = pf.RenyiCurve([2, 4, 16], [0.5, 0.8, 1.0])
    found = pf.calibrate([OUTLIER], curve, noise=pf.Gaussian, bound=pf.DAGWM())
    single = [
        pf.calibrate(
            [OUTLIER], pf.Renyi(alpha, epsilon), noise=pf.Gaussian, bound=pf.DAGWM()
        ).noise.scale
        for alpha, epsilon in zip(curve.alphas, curve.epsilons, strict=True)
    ]
    assert found.noise.scale == pytest.approx(max(single), rel=1e-9)


def test_pairs_that_need_no_noise_get_none():
    """|log μ/ν| ≤ ε everywhere: scale 0 with `Exact`, and a note that says so; equal laws with every bound."""
    near = pf.Law([0, 9], [0.5, 0.5]), pf.Law([0, 9], [0.4, 0.6])
    found = pf.calibrate([near], pf.Pure(0.23), noise=pf.Laplace, bound=pf.Exact())
    assert found.noise == pf.Laplace(0)
    assert "no noise is needed" in found.note
    assert "no noise is needed" in repr(found)
    assert found.loss == pytest.approx(math.log(1.25))
    assert pf.calibrate([near], pf.Pure(0.22), noise=pf.Laplace, bound=pf.Exact()).noise.scale > 0
    mu = near[0]
    for bound in (pf.GWM(), pf.DAGWM(), pf.Exact(), pf.Kantorovich(), "auto"):
        assert (
            pf.calibrate([(mu, mu)], pf.Pure(0.1), noise=pf.Laplace, bound=bound).noise.scale == 0
        )
    assert pf.calibrate([(mu, mu)], pf.Pure(0.0), noise=pf.Laplace).noise.scale == 0
    assert (
        pf.calibrate([(mu, mu)], pf.Pure(0.1), noise=pf.Laplace, bound=pf.Group()).noise.scale == 90
    )


@pytest.mark.parametrize(
    ("make", "says"),
    thinned(
        [
            (
                lambda: pf.calibrate([POINTS], pf.Pure(1.0), noise=pf.Gaussian),
                "No scale of Gaussian noise",
            ),
            (
                lambda: pf.calibrate([POINTS], pf.Pure(0.0), noise=pf.Laplace),
                "No scale of Laplace noise",
            ),
            (
                lambda: pf.calibrate([POINTS], pf.Approx(1.0, 0.0), noise=pf.Gaussian),
                "No scale of Gaussian noise",
            ),
            (
                lambda: pf.calibrate([POINTS], pf.Pure(1.0), bound=pf.GAWM(0.1)),
                "leaves out a share 0.1",
            ),
            (
                lambda: pf.calibrate([POINTS], pf.Approx(1.0, 0.05), bound=pf.GAWM(0.1)),
                "allows 0.05",
            ),
            (
                lambda: pf.calibrate([POINTS], pf.Renyi(2, 1.0), bound=pf.Kantorovich()),
                "pure losses only",
            ),
            (
                lambda: pf.calibrate(
                    [(pf.GaussianLaw(0, 1), pf.GaussianLaw(0, 2))],
                    pf.Renyi(2, 1.0),
                    noise=pf.Gaussian,
                ),
                "W_∞ of a pair is infinite",
            ),
            (
                lambda: pf.calibrate(
                    [(pf.GaussianLaw(0, 1), pf.GaussianLaw(1, 1))],
                    pf.Renyi(2, 1.0),
                    bound=pf.Group(),
                ),
                "unbounded",
            ),
            (
                lambda: pf.calibrate(
                    [(pf.GaussianLaw(0, 1), pf.GaussianLaw(1, 1))],
                    pf.Renyi(2, 1.0),
                    bound=pf.Exact(),
                ),
                "Gaussian laws with Laplace noise",
            ),
            (
                lambda: pf.calibrate(
                    [(pf.Law.point([0, 0]), pf.Law.point([1, 1]))],
                    pf.Pure(1.0),
                    noise=pf.Laplace,
                    bound=pf.GWM(norm=2),
                ),
                "norm=1 for Laplace",
            ),
            (
                lambda: pf.calibrate(
                    [(pf.Law.point([0, 0]), pf.Law.point([1, 1]))],
                    pf.Approx(1, 0.1),
                    noise=pf.Gaussian,
                    bound=pf.Exact(),
                ),
                "2 coordinates",
            ),
        ],
        0.6,
        unpack=True,
    ),
)
def test_impossible_promises_are_refused(make, says):
    """What mathematics does not give is refused, naming what would work."""
    with pytest.raises(pf.Refused, match=says) as refusal:
        make()
    assert "try: " in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pf.calibrate([], pf.Pure(1.0)), "No pairs were given"),
        (lambda: pf.calibrate(pf.Law.point(0), pf.Pure(1.0)), "pairs are of type Law"),
        (lambda: pf.calibrate(POINTS, pf.Pure(1.0)), "A pair is of type Law"),
        (lambda: pf.calibrate([(POINTS[0], 3)], pf.Pure(1.0)), "types"),
        (
            lambda: pf.calibrate([(POINTS[0], pf.GaussianLaw(0, 1))], pf.Pure(1.0)),
            "one finite and one Gaussian",
        ),
        (lambda: pf.calibrate([POINTS, (pf.Law.point([0, 0]),) * 2], pf.Pure(1.0)), "dimensions"),
        (lambda: pf.calibrate([POINTS], 1.0), "guarantee is of type float"),
        (lambda: pf.calibrate([POINTS], pf.Pure(1.0), noise=pf.Laplace(1.0)), "noise is Laplace"),
        (lambda: pf.calibrate([POINTS], pf.Pure(1.0), noise="laplac"), "noise is 'laplac'"),
        (lambda: pf.calibrate([POINTS], pf.Pure(1.0), bound="best"), "bound is 'best'"),
        (lambda: pf.calibrate([POINTS], pf.Pure(1.0), bound=pf.GWM), "the class GWM"),
        (lambda: pf.calibrate([POINTS], pf.Pure(1.0), bound=[]), "of type list"),
        (lambda: pf.GWM(norm=3), "norm is 3"),
        (lambda: pf.GAWM(1.0), "delta is 1.0"),
        (lambda: pf.loss([POINTS], pf.Laplace, pf.Pure), "noise has no scale"),
        (lambda: pf.loss([POINTS], pf.Laplace(1), pf.Pure(1.0)), "a guarantee with its epsilon"),
        (lambda: pf.loss([POINTS], pf.Laplace(1), pf.Renyi), "needs more than an epsilon"),
        (lambda: pf.loss([POINTS], pf.Laplace(1), pf.RenyiCurve), "kind is RenyiCurve"),
        (lambda: pf.loss([POINTS], pf.Laplace(1), "pure"), "of type str"),
    ],
)
def test_bad_input_is_named(make, says):
    """Every wrong argument is refused with what was given and what is allowed."""
    with pytest.raises(pf.UsageError, match=says) as refusal:
        make()
    assert "allowed: " in str(refusal.value)


def test_losses_that_no_promise_bounds_are_infinite():
    """Gaussian noise has no pure loss, whatever its scale; scale 0 has none at all."""
    assert pf.loss([POINTS], pf.Gaussian(9.0), pf.Pure) == math.inf
    assert pf.loss([POINTS], pf.Laplace(0), pf.Renyi.of(2)) == math.inf
    assert pf.loss([POINTS], pf.Laplace(0), pf.Approx.of(0.5)) == math.inf


@pytest.mark.parametrize(
    "size", thinned([1e307, 1e-310, 1e-200, 1e-8, 5e-324, 1.0, 1e8, 1e200], 0.25)
)
@pytest.mark.parametrize(
    "family", thinned([pf.Laplace, pf.Gaussian, pf.GeneralizedCauchy], 0.34), ids=["L", "G", "C"]
)
def test_extreme_atoms_do_not_break_the_search(family, size):
    """Atoms as small or large as floats go give a scale in proportion, in every bound."""
    for bound in (pf.GWM(), pf.DAGWM(), pf.Exact(), pf.Group()):
        scale = _scale_of_two_atoms(size, family, bound)
        assert scale > 0
        if size >= 1e-200:
            assert scale / size == pytest.approx(_scale_of_two_atoms(1.0, family, bound), rel=1e-6)


def _scale_of_two_atoms(size, family, bound):
    pair = pf.Law([0.0, size], [0.5, 0.5]), pf.Law([0.0, size], [0.1, 0.9])
    return pf.calibrate([pair], pf.Renyi(2, 0.2), noise=family, bound=bound).noise.scale


def test_far_light_atoms_are_not_lost():
    """A mass of 1e−17 at 1e6 is hidden by GWM to its full distance, and Exact keeps the guarantee about it too."""
    pair = pf.Law([0.0, 1.0], [0.5, 0.5]), pf.Law([0.0, 1.0, 1e6], [0.5, 0.5 - 1e-17, 1e-17])
    assert pf.calibrate(
        [pair], pf.Pure(1.0), noise=pf.Laplace, bound=pf.GWM()
    ).noise.scale == pytest.approx(1e6)
    exact = pf.calibrate([pair], pf.Pure(1.0), noise=pf.Laplace, bound=pf.Exact()).noise
    weight, scale = 1e-17, exact.scale
    at_far = math.log1p(weight / (math.exp(-1e6 / scale) * (1 + math.exp(1 / scale)) / 2))
    assert at_far == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    "kind", thinned([pf.Pure, pf.Approx.of(1e-6), pf.Renyi.of(3), pf.ApproxRenyi.of(3, 1e-6)], 0.5)
)
def test_the_loss_is_that_of_all_laws_in_any_order(kind):
    """Where no laws need any of the δ at the guaranteed ε, the loss is still the largest of theirs."""
    pieces = [ListedLaws([pf.Pair(pf.Law.point([0, 0]), pf.Law.point([far, 1]))]) for far in (2, 3)]
    for order in (pieces, pieces[::-1]):
        found = pf.calibrate(SeveralLaws(order), kind(1.0), noise=pf.Laplace, bound=pf.DAGWM())
        least = max(pf.loss(own, found.noise, kind, bound=pf.DAGWM()) for own in pieces)
        assert least * (1 - 1e-9) <= found.loss <= 1.0


@pytest.mark.slow
def test_many_pairs_are_calibrated_together():
    """A thousand pairs cost one search and a look at each, and the worst is found."""
    rng = np.random.default_rng(0)
    pairs = [
        pf.Pair(pf.Law([0, 1], [p, 1 - p]), pf.Law([0, 1], [q, 1 - q]), prior=(p, q))
        for p, q in rng.random((300, 2))
    ]
    found = pf.calibrate(pairs, pf.Pure(0.5), noise=pf.Laplace, bound=pf.Exact())
    worst = max(pairs, key=lambda pair: abs(pair.prior[0] - pair.prior[1]))
    assert pf.loss([found.witness], found.noise, pf.Pure, bound=pf.Exact()) == pytest.approx(
        0.5, rel=1e-6
    )
    assert pf.loss([worst], found.noise, pf.Pure, bound=pf.Exact()) <= 0.5


@pytest.mark.slow
@settings(max_examples=25)
@given(exact_laws(), exact_laws(), st.sampled_from([0.1, 1.0, 4.0]))
def test_rational_laws_keep_the_order(mu, nu, epsilon):
    """On laws of Fractions: exact ≤ kantorovich ≤ gwm ≤ group for pure guarantees."""
    bounds = [pf.Exact(), pf.Kantorovich(), pf.GWM(), pf.Group()]
    scales = [
        pf.calibrate([(mu, nu)], pf.Pure(epsilon), noise=pf.Laplace, bound=bound).noise.scale
        for bound in bounds
    ]
    assert scales == sorted(scales)


@settings(max_examples=10)
@given(float_laws(), float_laws())
@pytest.mark.slow
def test_float_laws_keep_the_order(mu, nu):
    """On float laws of very uneven weights: exact ≤ dagwm ≤ gwm ≤ group for Rényi guarantees."""
    check_order_of_float_laws(mu, nu)


@pytest.mark.slow
@settings(max_examples=40)
@given(float_laws(), float_laws())
def test_many_float_laws_keep_the_order(mu, nu):
    """The same for four times as many laws."""
    check_order_of_float_laws(mu, nu)


def check_order_of_float_laws(mu, nu):
    bounds = [pf.Exact(), pf.DAGWM(), pf.GWM(), pf.Group()]
    scales = [
        pf.calibrate([(mu, nu)], pf.Renyi(3, 0.7), noise=pf.Laplace, bound=bound).noise.scale
        for bound in bounds
    ]
    assert scales == sorted(scales)


def test_gaussian_laws_of_different_spread_need_exact():
    """M15: only `Exact` handles conditional variances that differ, and matches the closed form."""
    pair = pf.GaussianLaw(0.0, 1.0), pf.GaussianLaw(1.0, 2.0)
    alpha, var = 3.0, 0.25
    first, second = 1.0 + var, 2.0 + var

    def divergence(a, b):
        mixed = alpha * b + (1 - alpha) * a
        if mixed <= 0:
            return math.inf
        log = math.log(mixed) - (1 - alpha) * math.log(a) - alpha * math.log(b)
        return alpha / (2 * mixed) + log / (2 * (1 - alpha))

    truth = max(divergence(first, second), divergence(second, first))
    assert pf.loss([pair], pf.Gaussian(0.5), pf.Renyi.of(alpha), bound=pf.Exact()) == pytest.approx(
        truth, rel=1e-9
    )
    found = pf.calibrate([pair], pf.Renyi(alpha, 0.4), noise=pf.Gaussian, bound=pf.Exact())
    assert pf.loss([pair], found.noise, pf.Renyi.of(alpha), bound=pf.Exact()) <= 0.4


def test_vectors_of_cauchy_noise_go_coordinate_by_coordinate():
    """Where no ball is known (odd k), DAGWM still prices every coordinate (M11)."""
    pair = pf.Law.point([0, 0, 0]), pf.Law.point([1, 2, 0])
    noise = pf.GeneralizedCauchy(2.0, k=3)
    expected = noise.renyi(np.array([1.0, 2.0]), 2).sum()
    assert pf.loss([pair], noise, pf.Renyi.of(2), bound=pf.DAGWM()) == pytest.approx(
        expected, rel=1e-9
    )
    with pytest.raises(pf.Refused, match="coordinate by coordinate"):
        pf.loss([pair], noise, pf.Renyi.of(2), bound=pf.GWM())


def test_vectors_with_delta_use_the_best_order():
    """Where a vector's hockey stick is not known, (ε, δ) comes from the Rényi order that converts best (M29)."""
    pair = pf.Law.point([0, 0]), pf.Law.point([1, 2])
    promise = pf.Approx(1.0, 1e-5)
    found = pf.calibrate([pair], promise, noise=pf.Laplace, bound=pf.GWM())
    assert found.noise.scale <= 3.0  # what the pure guarantee of the same ε needs
    curve = pf.RenyiCurve.of(lambda alpha: found.noise.renyi(3.0, alpha))
    assert curve.to_approx(1e-5).epsilon <= 1.0 + 1e-6 or found.noise.scale == 3.0
    gaussian = pf.calibrate([pair], promise, noise=pf.Gaussian, bound=pf.GWM())
    assert gaussian.noise.delta(math.sqrt(5), 1.0) == pytest.approx(1e-5, rel=1e-6)
