"""Staircase noise: the least safe scale, though losses may rise as it grows, and the shape with the least error."""

import math

import noisy
import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf

EXACT = pf.Exact()
POINTS = [(pf.Law.point(0), pf.Law.point(1))]
OUTLIER = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])
PROMISES = {
    "pure": pf.Pure(0.8),
    "Rényi": pf.Renyi(3, 0.4),
    "approximate": pf.Approx(0.6, 0.02),
    "curve": pf.RenyiCurve([2, 6], [0.3, 0.7]),
}


def losses(pair, noise, promise):
    """Return every loss that a guarantee limits and its limit, worked out on a grid of their own."""
    rows = []
    for one in promise.singles:
        match one:
            case pf.Pure(epsilon=epsilon):
                rows.append((noisy.pure(*pair, noise), epsilon))
            case pf.Renyi(alpha=alpha, epsilon=epsilon):
                rows.append((noisy.renyi(*pair, noise, alpha), epsilon))
            case pf.Approx(epsilon=epsilon, delta=delta):
                rows.append((noisy.delta(*pair, noise, epsilon), delta))
    return rows


def keeps(pair, noise, promise):
    """Whether the exact losses keep a guarantee, by their own measurement (`test_order` holds it to quadrature)."""
    part = EXACT.parts([pf.Pair(*pair)], noise)[0]
    return part.excess(noise, promise) <= 0


def pairs_of(seed, count):
    """Return pairs of laws with three atoms each among twelve."""
    rng = np.random.default_rng(seed)
    return [tuple(law_from(rng) for _ in range(2)) for _ in range(count)]


def law_from(rng):
    return pf.Law(
        np.sort(rng.choice(12, 3, replace=False)).tolist(), rng.dirichlet(np.ones(3)).tolist()
    )


@pytest.mark.parametrize(
    ("promise", "family"),
    thinned(
        [
            ("pure", pf.Staircase),
            ("pure", pf.Staircase.of(epsilon=0.4, gamma=0.6)),
            ("Rényi", pf.Staircase.of(epsilon=1.3, gamma=0.6)),
            pytest.param("Rényi", pf.Staircase, marks=pytest.mark.slow),
            ("approximate", pf.Staircase),
            pytest.param("curve", pf.Staircase, marks=pytest.mark.slow),
        ],
        0.2,
        unpack=True,
    ),
)
def test_the_least_safe_scale_is_found(promise, family):
    """At the scale and a hair above it the guarantee holds, measured anew.

    At every smaller one of a scan it does not.
    """
    promise = PROMISES[promise]
    for pair in pairs_of(3, 1):
        noise = pf.calibrate([pair], promise, noise=family, bound=EXACT).noise
        assert all(loss <= limit * (1 + 1e-6) for loss, limit in losses(pair, noise, promise))
        assert keeps(pair, noise.at(noise.scale * (1 + 1e-14)), promise)
        scan = noise.scale * np.append(np.linspace(0.05, 0.995, 25), 1 - 1e-6)
        assert not any(keeps(pair, noise.at(scale), promise) for scale in scan.tolist())


@pytest.mark.slow
def test_a_larger_scale_may_be_unsafe():
    """The exact loss may rise as the noise grows, so a search for falling losses would not do."""
    pair = pf.Law([2, 3, 7], [0.3, 0.6, 0.1]), pf.Law([1, 4, 11], [3 / 11, 7 / 11, 1 / 11])
    noise = pf.calibrate([pair], pf.Pure(0.8), noise=pf.Staircase, bound=EXACT).noise
    assert noise.scale == pytest.approx(8 / 3)
    assert [
        keeps(pair, noise.at(scale), pf.Pure(0.8)) for scale in (2.6, noise.scale, 3.1, 3.9, 4.0)
    ] == [*(False, True, False, False, True)]


def test_one_scale_serves_several_pairs():
    """What is safe for one pair need not be for another: the scale is proven for all of them."""
    pairs = [OUTLIER, *pairs_of(5, 3)]
    found = pf.calibrate(pairs, pf.Pure(1.0), noise=pf.Staircase, bound=EXACT)
    assert all(keeps(pair, found.noise, pf.Pure(1.0)) for pair in pairs)
    assert not all(
        keeps(pair, found.noise.at(0.9 * found.noise.scale), pf.Pure(1.0)) for pair in pairs
    )
    assert (
        found.noise.scale
        <= pf.calibrate(pairs, pf.Pure(1.0), noise=pf.Staircase, bound=pf.GWM()).noise.scale
    )


def test_a_turn_is_no_safe_scale():
    """Where jumps meet a piece vanishes, and the loss is less than beside it: noise a hair louder has to keep it."""
    pair = pf.Pair(pf.Law([2, 3, 4], [0.25, 0.5, 0.25]), pf.Law([1, 2, 6], [0.375, 0.4375, 0.1875]))
    noise = pf.Staircase(2.0, 1.0, 0.25)
    (part,) = EXACT.parts([pair], noise)
    assert part.pure(noise).value < 0.78 < part.pure(noise.at(2 * (1 + 1e-13))).value
    assert part.excess(noise, pf.Pure(0.78)) < 0 < part.excess_drawn(noise, pf.Pure(0.78))


@pytest.mark.slow
@pytest.mark.parametrize(
    "promise", [PROMISES["Rényi"], PROMISES["approximate"]], ids=["Rényi", "approximate"]
)
def test_the_likely_movements_are_counted(promise):
    """pf.DAGWM's scale is safe by the exact loss, and between the exact one and pf.GWM's."""
    for pair in pairs_of(9, 1):
        scales = [
            pf.calibrate([pair], promise, noise=pf.Staircase, bound=bound).noise.scale
            for bound in (EXACT, pf.DAGWM(), pf.GWM())
        ]
        assert scales == sorted(scales)
        noise = pf.calibrate([pair], promise, noise=pf.Staircase, bound=pf.DAGWM()).noise
        assert keeps(pair, noise, promise)


@pytest.mark.parametrize(
    ("promise", "laplace"),
    thinned(
        [
            (pf.Pure(4.0), 0.25),
            (pf.Approx(1.0, 1e-2), 0.9803),
            (pf.Approx(0.0, 0.1), 4.7456),
            (pf.Renyi(4, 4.0), 0.23886),
        ],
        0.2,
        unpack=True,
    ),
    ids=repr,
)
def test_the_shape_has_the_least_error(promise, laplace):
    """No other fall or gamma has less expected error for a movement of one, and Laplace noise has more."""

    def error(family):
        return pf.calibrate(POINTS, promise, noise=family, bound=pf.GWM()).noise.expected_error

    least = error(pf.Staircase)
    assert least < error(pf.Laplace) == pytest.approx(laplace, rel=1e-4)
    shapes = [
        (fall, gamma) for fall in (max(promise.epsilon, 0.8), 2.6) for gamma in (0.05, 0.3, 0.9)
    ]
    assert all(
        least <= error(pf.Staircase.of(*shape)) * (1 + 1e-3) for shape in shapes if shape[0] <= 8
    )
    assert least <= error(pf.Staircase.of(gamma=0.3)) * (1 + 1e-3)


@pytest.mark.slow
def test_total_variation_alone_is_kept_by_uniform_noise():
    """Without an ε the least error at a total variation η is 1/(4η): stairs of one flat step."""
    noise = pf.calibrate(POINTS, pf.Approx(0.0, 0.1), noise=pf.Staircase, bound=pf.GWM()).noise
    assert noise.expected_error == pytest.approx(2.5, rel=1e-4)
    assert noise.gamma == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("tv", [0.05, 0.31, 0.3234, 0.38, 0.44, 0.9])
def test_total_variation_is_traded_for_error(tv):
    """ε and η are kept for every shift up to the sensitivity, and no other gamma or longer step has less error."""
    noise = pf.Staircase.traded(2.0, epsilon=1.0, tv=tv)
    shifts = np.linspace(0, 2, 41)
    assert noise.pure(shifts).max() <= 1.0
    assert noise.tv(shifts).max() <= tv
    for gamma in np.linspace(0, 1, 6).tolist():
        unit = pf.Staircase(1.0, 1.0, gamma)
        steps = [step for step in np.linspace(1, 8, 50).tolist() if unit.tv(1 / step) <= tv]
        assert noise.expected_error <= 2 * unit.expected_error * min(steps, default=math.inf) * (
            1 + 1e-3
        )
    if tv == 0.3234:  # the value that the paper prints
        assert noise.gamma == pytest.approx(0.0139, abs=1e-4)
    less = noise.at(0.9 * noise.scale)
    assert less.pure(2.0) > 1.0 or less.tv(2.0) > tv


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pf.Staircase.traded(1.0, 1.0, 1.5), "tv is 1.5"),
        (lambda: pf.Staircase.traded(1.0, -1.0, 0.5), "epsilon is -1.0"),
        (lambda: pf.Staircase.traded(1.0, 1.0, 0.0), "No staircase noise keeps"),
        (lambda: pf.Staircase.of(gamma=2.0), "gamma is 2.0"),
        (lambda: pf.Staircase.of(gamma=0.5)(1.0), "has no epsilon"),
        (
            lambda: pf.calibrate(POINTS, pf.Pure(0.0), noise=pf.Staircase),
            "No staircase noise keeps",
        ),
    ],
)
def test_bad_shapes_are_refused(make, says):
    """What is no shape, or a guarantee that no stairs keep, is said."""
    with pytest.raises(pf.PufferflowError, match=says):
        make()
