"""The laws of bounds, on random pairs: never below the truth, and each finer bound no worse."""

import itertools
import math
from fractions import Fraction

import noisy
import numpy as np
import pytest
from laws import float_law_of, law_of, random_law
from thinned import nightly, thinned

import pufferflow as pf

FAMILIES = {
    "laplace": pf.Laplace,
    "gaussian": pf.Gaussian,
    "cauchy": pf.GeneralizedCauchy,
    "cauchy k=3.5": pf.GeneralizedCauchy.of(k=3.5),
}
PROMISES = [
    pf.Pure(0.7),
    pf.Renyi(2, 0.4),
    pf.Approx(0.5, 0.01),
    pf.ApproxRenyi(3, 0.5, 0.05),
    *(
        pytest.param(promise, marks=pytest.mark.slow, id=repr(promise))
        for promise in (
            pf.Renyi(1.3, 0.2),
            pf.Renyi(8, 1.0),
            pf.Approx(1.0, 1e-6),
            pf.RenyiCurve([2, 6], [0.3, 0.5]),
        )
    ),
]
ORDERED = [pf.Exact(), pf.DAGWM(), pf.GWM(), pf.Group()]
SLOW = {"gaussian", "cauchy", "cauchy k=3.5"}
"""What has hardly a closed form takes many times as long; all of them are tried with the slow tests."""
every_family = pytest.mark.parametrize(
    "family",
    [
        pytest.param(one, id=name, marks=pytest.mark.slow if name in SLOW else ())
        for name, one in FAMILIES.items()
    ],
)
all_guarantees = pytest.mark.parametrize("promise", nightly(PROMISES, but=0.4), ids=repr)
every_part = pytest.mark.parametrize("part", thinned(range(2), 0.5, slow=0.5))
"""Each part has every other pair."""


def pairs_of(seed, count, *, floats=True):
    rng = np.random.default_rng(seed)
    make = float_law_of if floats else law_of
    return [(make(random_law(rng)), make(random_law(rng))) for _ in range(count)]


def impossible(family, promise):
    return family is pf.Gaussian and isinstance(promise, pf.Pure)


def true_loss(pair, noise, promise):
    """What the guarantee speaks of, computed slowly, against what it allows."""
    match promise:
        case pf.Pure(epsilon):
            return noisy.pure(*pair, noise), epsilon
        case pf.Renyi(alpha, epsilon) | pf.ApproxRenyi(alpha, epsilon):
            return noisy.renyi(*pair, noise, alpha), epsilon
        case pf.RenyiCurve(alphas, epsilons):
            return max(
                ((noisy.renyi(*pair, noise, a), e) for a, e in zip(alphas, epsilons, strict=True)),
                key=lambda row: row[0] / row[1],
            )
        case pf.Approx(epsilon, delta):
            return noisy.delta(*pair, noise, epsilon), delta


@every_family
@all_guarantees
@every_part
def test_promises_are_kept(family, promise, part):
    """With the calibrated noise the true loss is not above the guarantee; with `Exact` a hair less noise breaks it."""
    if impossible(family, promise):
        return
    for pair in pairs_of(1, 4)[part::2]:
        for bound in ORDERED[:3]:
            found = pf.calibrate([pair], promise, noise=family, bound=bound)
            if found.noise.scale == 0:
                continue
            true, allowed = true_loss(pair, found.noise, promise)
            assert true <= allowed * (1 + 1e-5) + 1e-9
            if bound == pf.Exact() and not isinstance(promise, pf.ApproxRenyi):
                less = family(found.noise.scale * (1 - 3e-4))
                assert true_loss(pair, less, promise)[0] > allowed


@every_family
@all_guarantees
@every_part
def test_finer_bounds_need_no_more_noise(family, promise, part):
    """exact ≤ dagwm ≤ gwm ≤ group in scale, and in loss at any one scale."""
    if impossible(family, promise):
        return
    for pair in pairs_of(2, 4)[part::2]:
        scales = [
            pf.calibrate([pair], promise, noise=family, bound=bound).noise.scale
            for bound in ORDERED
        ]
        assert scales == sorted(scales)


@every_family
def test_finer_bounds_prove_no_more_loss(family):
    """exact ≤ kantorovich, dagwm ≤ gwm ≤ group in loss, for each kind of guarantee."""
    for pair in pairs_of(3, 5):
        noise = family(1.7)
        for kind in (pf.Pure, pf.Renyi.of(3), pf.Approx.of(0.01)):
            if impossible(family, kind(0.0)):
                continue
            losses = [pf.loss([pair], noise, kind, bound=bound) for bound in ORDERED]
            assert losses == sorted(losses)
            if kind is pf.Pure:
                assert (
                    losses[0] <= pf.loss([pair], noise, kind, bound=pf.Kantorovich()) <= losses[2]
                )


@every_family
@all_guarantees
def test_exact_is_least(family, promise):
    """One per cent less noise than `Exact` asks for breaks the guarantee."""
    if impossible(family, promise):
        return
    broken = 0
    for pair in pairs_of(4, 4):
        found = pf.calibrate([pair], promise, noise=family, bound=pf.Exact())
        if found.noise.scale == 0:
            continue
        true, allowed = true_loss(pair, family(0.99 * found.noise.scale), promise)
        assert true > allowed
        broken += 1
    assert broken >= 2


@every_family
@all_guarantees
@every_part
def test_calibration_ends_on_the_private_side(family, promise, part):
    """The bound's own loss at the scale found is within the guarantee; a little below the scale it is not."""
    if impossible(family, promise):
        return
    for pair in pairs_of(5, 3)[part::2]:
        for bound in (pf.GWM(), pf.DAGWM(), pf.Exact(), pf.Group()):
            found = pf.calibrate([pair], promise, noise=family, bound=bound)
            part = bound.parts([pf.Pair(*pair)], found.noise)[0]
            assert part.excess(found.noise, promise) <= 0
            if found.noise.scale and not isinstance(promise, pf.Approx):
                assert part.excess(family(found.noise.scale * (1 - 1e-6)), promise) > 0


@every_family
@every_part
def test_losses_fall_as_noise_grows(family, part):
    """More noise never costs more, for every bound and kind."""
    for pair in pairs_of(6, 3)[1 - part :: 2]:
        for bound in ORDERED:
            for kind in (pf.Pure, pf.Renyi.of(2.5), pf.Approx.of(0.001)):
                if impossible(family, kind(0.0)):
                    continue
                losses = [
                    pf.loss([pair], family(scale), kind, bound=bound)
                    for scale in (0.5, 1.0, 2.0, 4.0, 16.0)
                ]
                assert all(
                    less <= more * (1 + 1e-6) + 1e-12 for more, less in itertools.pairwise(losses)
                )


@every_family
@pytest.mark.parametrize(
    "bound", thinned([*ORDERED, pf.Kantorovich(), pf.GAWM(0.05)], 0.33), ids=repr
)
def test_translation_order_and_repetition_change_nothing(family, bound):
    """Moving both laws, swapping them, naming a pair twice: the scale stays; stretching stretches it."""
    promise = pf.Approx(0.6, 0.08) if isinstance(bound, pf.GAWM) else pf.Pure(0.8)
    if impossible(family, promise):
        promise = pf.Renyi(2, 0.5)
    if isinstance(bound, pf.Kantorovich) and not isinstance(promise, pf.Pure):
        return
    for mu, nu in pairs_of(7, 3):
        scale = pf.calibrate([(mu, nu)], promise, noise=family, bound=bound).noise.scale
        same = pytest.approx(scale, rel=1e-7)
        assert pf.calibrate([(nu, mu)], promise, noise=family, bound=bound).noise.scale == same
        assert (
            pf.calibrate(
                [(mu, nu)] * 3 + [(nu, mu)], promise, noise=family, bound=bound
            ).noise.scale
            == same
        )
        moved = mu.shift(1000), nu.shift(1000)
        assert pf.calibrate([moved], promise, noise=family, bound=bound).noise.scale == same
        mirrored = mu.map(lambda x: -x), nu.map(lambda x: -x)
        assert pf.calibrate([mirrored], promise, noise=family, bound=bound).noise.scale == same
        under_model_error = mu.map(lambda x: 8 * x), nu.map(lambda x: 8 * x)
        assert pf.calibrate(
            [under_model_error], promise, noise=family, bound=bound
        ).noise.scale == pytest.approx(8 * scale, rel=1e-7)


@pytest.mark.slow
@every_family
def test_the_worst_of_many_pairs_counts(family):
    """The scale for many pairs is the largest of the single ones, and the witness is a pair that needs it."""
    pairs = pairs_of(8, 6)
    for bound in (pf.Exact(), pf.DAGWM(), pf.GWM()):
        promise = pf.Renyi(2.5, 0.5)
        single = [
            pf.calibrate([pair], promise, noise=family, bound=bound).noise.scale for pair in pairs
        ]
        labelled = [pf.Pair(mu, nu, prior=index) for index, (mu, nu) in enumerate(pairs)]
        together = pf.calibrate(labelled, promise, noise=family, bound=bound)
        assert together.noise.scale == pytest.approx(max(single), rel=1e-7)
        assert single[together.witness.prior] == pytest.approx(max(single), rel=1e-6)


@pytest.mark.slow
def test_the_witness_is_in_the_order_that_costs():
    """The worse of both orders is the one returned."""
    mu, nu = pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 9], [0.5, 0.49, 0.01])
    found = pf.calibrate(
        [pf.Pair(nu, mu, secrets=("b", "a"))], pf.Renyi(3, 0.5), noise=pf.Gaussian, bound=pf.Exact()
    )
    first, second = found.witness
    field = [noisy.nodes_for(mu, nu, found.noise, 3)]
    y, weights = field[0]

    def order(a, b):
        p, q = noisy.mixture(a, found.noise, y), noisy.mixture(b, found.noise, y)
        return float(np.sum(weights * np.exp(3 * p - 2 * q)))

    assert order(first, second) > order(second, first)
    assert found.witness.secrets == (("b", "a") if first == nu else ("a", "b"))


@pytest.mark.slow
@pytest.mark.parametrize("family", [pf.Laplace, pf.Gaussian], ids=["laplace", "gaussian"])
def test_vectors_keep_the_order(family):
    """On R² too: exact ≤ dagwm ≤ gwm ≤ group, for Rényi guarantees."""
    rng = np.random.default_rng(9)
    for _ in range(3):
        pair = tuple(float_law_of(random_law(rng, dimension=2, span=4, most=4)) for _ in range(2))
        scales = [
            pf.calibrate([pair], pf.Renyi(2, 0.7), noise=family, bound=bound).noise.scale
            for bound in ORDERED
        ]
        assert all(fine <= rough * (1 + 1e-6) for fine, rough in itertools.pairwise(scales))


def test_pure_losses_of_vectors_are_suprema():
    """On R² the exact pure loss with Laplace noise is the largest ratio over a dense grid."""
    rng = np.random.default_rng(10)
    for _ in range(5):
        mu, nu = (float_law_of(random_law(rng, dimension=2, span=4, most=4)) for _ in range(2))
        axis = np.linspace(-1, 5, 121)
        y = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        logs = [
            np.log(np.exp(-np.abs(y[:, None] - law.values).sum(axis=-1) / 0.9) @ law.probabilities)
            for law in (mu, nu)
        ]
        dense = np.abs(logs[0] - logs[1]).max()
        exact = pf.loss([(mu, nu)], pf.Laplace(0.9), pf.Pure, bound=pf.Exact())
        assert exact == pytest.approx(dense, abs=1e-9)


def test_asymmetric_noise_minds_the_sign():
    """DAGWM asks for the loss of x − y in each order: Gumbel noise tells D(ζ_X‖ζ_Y) = .5462 from .1682."""

    class Gumbel(pf.Laplace.__mro__[1]):
        """A noise whose loss of a shift depends on its sign; only what DAGWM needs of it."""

        symmetric = False
        norm = 1.0
        scale = 1.0

        def renyi(self, shift, alpha):
            """D_2 of Gumbel noise by the trapezoid rule."""
            y = np.linspace(-12, 40, 200_001)
            out = []
            for z in np.ravel(shift):
                p = -(y - z) - np.exp(-(y - z))
                q = -y - np.exp(-y)
                out.append(
                    math.log(np.trapezoid(np.exp(alpha * p - (alpha - 1) * q), y)) / (alpha - 1)
                )
            return np.array(out).reshape(np.shape(shift)) if np.ndim(shift) else out[0]

        def renyi_within(self, radius, alpha, dimension=1):
            del dimension
            return max(self.renyi(radius, alpha), self.renyi(-radius, alpha))

        def convex(self, alpha):
            del alpha
            return True

    Gumbel.__abstractmethods__ = frozenset()
    noise = Gumbel()
    assert noise.renyi(-0.5, 2) == pytest.approx(0.5461752700778735, abs=1e-6)
    assert noise.renyi(0.5, 2) == pytest.approx(0.16820343424881382, abs=1e-6)
    for pair in ((pf.Law.point(0), pf.Law.point(0.5)), (pf.Law.point(0.5), pf.Law.point(0))):
        part = pf.DAGWM().parts([pf.Pair(*pair)], noise)[0]
        worst = part.renyi(noise, 2)
        assert worst.value == pytest.approx(0.5461752700778735, abs=1e-6)
        assert worst.witness.mu == pf.Law.point(0)


@pytest.mark.slow
def test_one_coupling_serves_hockey_sticks():
    """DAGWM's δ is E δ_{x−y}(ε) under some coupling: never below the truth, never above GWM's."""
    for pair in pairs_of(11, 6):
        noise = pf.Laplace(1.1)
        for epsilon in (0.0, 0.4, 1.5):
            ball, transport, exact = (
                bound.parts([pf.Pair(*pair)], noise)[0].delta(noise, epsilon).value
                for bound in (pf.GWM(), pf.DAGWM(), pf.Exact())
            )
            assert noisy.delta(*pair, noise, epsilon) - 1e-6 <= exact <= transport <= ball


@pytest.mark.parametrize("gamma", thinned([0.0, 0.25, 1.0], 0.3))
def test_staircase_losses_are_exact(gamma):
    """Staircase noise is measured exactly, in every kind."""
    noise = pf.Staircase(1.5, 0.8, gamma)
    for pair in pairs_of(12, 4):
        assert pf.loss([pair], noise, pf.Renyi.of(2.5), bound=pf.Exact()) == pytest.approx(
            noisy.renyi(*pair, noise, 2.5), rel=1e-6
        )
        assert pf.loss([pair], noise, pf.Pure, bound=pf.Exact()) == pytest.approx(
            noisy.pure(*pair, noise), rel=1e-9
        )
        assert pf.loss([pair], noise, pf.Pure, bound=pf.Exact()) <= pf.loss(
            [pair], noise, pf.Pure, bound=pf.GWM()
        )


def test_laws_without_noise_are_compared_as_they_are():
    """Where supports agree, scale 0 has the loss of the laws themselves, to the last digit for Fractions."""
    mu = pf.Law([0, 5], [Fraction(1, 3), Fraction(2, 3)])
    nu = pf.Law([0, 5], [Fraction(1, 4), Fraction(3, 4)])
    none = pf.Laplace(0)
    assert pf.loss([(mu, nu)], none, pf.Pure, bound=pf.Exact()) == pytest.approx(
        math.log(4 / 3), rel=1e-12
    )
    renyi = math.log(
        max((1 / 3) ** 2 / (1 / 4) + (2 / 3) ** 2 / (3 / 4), (1 / 4) ** 2 * 3 + (3 / 4) ** 2 * 1.5)
    )
    assert pf.loss([(mu, nu)], none, pf.Renyi.of(2), bound=pf.Exact()) == pytest.approx(
        renyi, rel=1e-9
    )
    assert pf.loss([(mu, nu.shift(1))], none, pf.Pure, bound=pf.Exact()) == math.inf
    assert pf.loss([(mu, nu)], none, pf.Pure, bound=pf.GWM()) == math.inf
