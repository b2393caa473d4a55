"""Attacks on noise: honest noise withstands, a little less of it does not, and bounds come close to the truth."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from thinned import nightly, thinned

import pufferflow as pf
from pufferflow.audit import Attack, attack
from pufferflow.audit.attack import _sizes
from pufferflow.audit.targets import duels_of_pairs

POINTS = [(pf.Law.point(0), pf.Law.point(1))]
SPREAD = [(pf.Law([0, 1], [0.7, 0.3]), pf.Law([1, 2], [0.4, 0.6]))]
FAMILIES = {
    "laplace": pf.Laplace,
    "gaussian": pf.Gaussian,
    "cauchy": pf.GeneralizedCauchy,
    "cauchy k=4": pf.GeneralizedCauchy.of(k=4),
    "staircase": pf.Staircase.of(epsilon=1.0),
}
PROMISES = {
    "pure": pf.Pure(1.0),
    "approx": pf.Approx(1.0, 1e-3),
    "renyi": pf.Renyi(4, 1.0),
    "curve": pf.RenyiCurve([2, 4, 8], [0.5, 1.0, 2.0]),
    "approx renyi": pf.ApproxRenyi(4, 1.0, 1e-3),
}


def seeded(seed=1):
    return np.random.default_rng(seed)


def least_noise(family, promise, laws=POINTS):
    """The noise that the exact loss asks for: of two points, the ball's, which is quicker to find."""
    return pf.calibrate(
        laws, promise, noise=family, bound=pf.GWM() if laws is POINTS else pf.Exact()
    ).noise


@pytest.mark.parametrize("promise", thinned(PROMISES.values(), 0.4), ids=PROMISES.keys())
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(one, id=name, marks=[pytest.mark.slow] * ("k=4" in name))
        for name, one in FAMILIES.items()
    ],
)
def test_every_noise_and_every_promise(family, promise):
    """Calibrated noise is not found broken, a third of it is, and the result says all that belongs to it."""
    if family is pf.Gaussian and promise == pf.Pure(1.0):
        pytest.skip("no scale keeps it")
    noise = least_noise(family, promise)
    found = attack(noise, POINTS, promise=promise, trials=4_000, rng=seeded())
    assert found.lower > 0
    assert not found.broken
    assert (found.promised, found.confidence, found.trials) == (promise, 0.99, 4_000)
    assert "law" in found.pair
    assert found.event
    assert attack(
        noise.at(noise.scale / 3), POINTS, promise=promise, trials=4_000, rng=seeded()
    ).broken


@pytest.mark.parametrize(
    ("family", "promise", "share"),
    thinned(
        [
            (pf.Laplace, pf.Pure(1.0), 0.93),
            (pf.GeneralizedCauchy, pf.Pure(1.0), 0.85),
            (pf.Staircase, pf.Pure(1.0), 0.93),
            (pf.Laplace, pf.Renyi(4, 1.0), 0.93),
            (pf.Gaussian, pf.Renyi(2, 1.0), 0.8),
            (pf.Gaussian, pf.Renyi(4, 1.0), 0.7),
            (pf.GeneralizedCauchy, pf.Renyi(4, 1.0), 0.85),
            (pf.Laplace, pf.Approx(1.0, 1e-3), 0.9),
            (pf.Gaussian, pf.Approx(1.0, 1e-3), 0.65),
        ],
        0.22,
        unpack=True,
    ),
)
def test_bounds_come_close_to_the_truth(family, promise, share):
    """A hundred thousand trials show most of what two points tell, with a confidence of 99 %."""
    noise = least_noise(family, promise)
    assert share < attack(noise, POINTS, promise=promise, rng=seeded()).lower < 1


@pytest.mark.parametrize(
    ("family", "promise", "trials", "laws"),
    thinned(
        [
            (pf.Laplace, pf.Pure(1.0), 30_000, POINTS),
            (pf.Laplace, pf.Renyi(4, 1.0), 30_000, SPREAD),
            (pf.Gaussian, pf.Renyi(2, 1.0), 150_000, POINTS),
            (pf.GeneralizedCauchy, pf.Renyi(4, 1.0), 100_000, POINTS),
            pytest.param(pf.Laplace, pf.Pure(1.0), 30_000, SPREAD, marks=pytest.mark.slow),
            pytest.param(pf.Gaussian, pf.Renyi(2, 1.0), 200_000, SPREAD, marks=pytest.mark.slow),
            pytest.param(
                pf.GeneralizedCauchy, pf.Pure(1.0), 400_000, POINTS, marks=pytest.mark.slow
            ),
            pytest.param(
                pf.GeneralizedCauchy, pf.Pure(1.0), 400_000, SPREAD, marks=pytest.mark.slow
            ),
            pytest.param(pf.Gaussian, pf.Renyi(4, 1.0), 1_500_000, POINTS, marks=pytest.mark.slow),
            pytest.param(pf.Gaussian, pf.Renyi(4, 1.0), 1_500_000, SPREAD, marks=pytest.mark.slow),
            pytest.param(
                pf.Gaussian, pf.Approx(1.0, 1e-3), 1_500_000, POINTS, marks=pytest.mark.slow
            ),
            pytest.param(
                pf.Gaussian, pf.Approx(1.0, 1e-3), 1_500_000, SPREAD, marks=pytest.mark.slow
            ),
        ],
        0.08,
        unpack=True,
    ),
)
def test_a_tenth_less_noise_is_found(family, promise, trials, laws):
    """Noise of nine tenths of the scale that the exact loss asks for is broken within so many trials."""
    noise = least_noise(family, promise, laws)
    assert attack(
        noise.at(0.9 * noise.scale), laws, promise=promise, trials=trials, rng=seeded()
    ).broken
    assert not attack(noise, laws, promise=promise, trials=trials, rng=seeded()).broken


def share_broken(promise, family, seeds, confidence=0.5):
    noise = least_noise(family, promise)
    found = [
        attack(
            noise, POINTS, promise=promise, trials=2000, confidence=confidence, rng=seeded(seed)
        ).broken
        for seed in range(seeds)
    ]
    return sum(found) / seeds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "promise", "seeds"),
    [(pf.Laplace, pf.Pure(1.0), 60), (pf.Laplace, pf.Renyi(4, 1.0), 8)],
)
def test_false_alarms_are_as_rare_as_promised(family, promise, seeds):
    """With the least noise and a confidence of a half, at most about half of all attacks claim to have succeeded."""
    assert share_broken(promise, family, seeds) <= 0.5


EVERY_KIND = [
    (pf.Laplace, pf.Pure(1.0), 0.9),
    (pf.Staircase, pf.Pure(1.0), 0.5),
    (pf.Laplace, pf.Renyi(4, 1.0), 0.5),
    (pf.Gaussian, pf.Approx(1.0, 0.1), 0.9),
]
OTHER_CONFIDENCES = [
    (family, promise, {0.5: 0.9, 0.9: 0.5}[confidence])
    for family, promise, confidence in EVERY_KIND
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "promise", "confidence"), [*EVERY_KIND, *nightly(OTHER_CONFIDENCES, unpack=True)]
)
def test_false_alarms_over_many_seeds(family, promise, confidence):
    """Over two hundred seeds the share of false alarms is at most 1 − confidence."""
    assert share_broken(promise, family, 200, confidence) <= 1 - confidence


@pytest.mark.slow
def test_false_alarms_do_happen():
    """The check above has teeth: with hardly any confidence asked for, some attacks on honest noise succeed."""
    assert share_broken(pf.Pure(1.0), pf.Laplace, 40, confidence=0.01) > 0


def test_the_operating_systems_randomness():
    """Without a generator noise is drawn as for a release, and no two attacks are alike."""
    one, other = (
        attack(pf.Laplace(1.0), POINTS, promise=pf.Pure(1.0), trials=20_000) for _ in range(2)
    )
    assert one.lower != other.lower
    assert 0.8 < one.lower < 1.05
    assert (
        attack(pf.Laplace(1.0), POINTS, rng=seeded()).lower
        == attack(pf.Laplace(1.0), POINTS, rng=seeded()).lower
    )


def test_noise_alone_is_measured_without_a_promise():
    """Without a guarantee the bound is of a pure one, with a kind it is of that kind; nothing can be broken."""
    found = attack(pf.Laplace(1.0), POINTS, trials=20_000, rng=seeded())
    assert (found.promised, found.against, found.broken) == (None, None, False)
    assert 0.85 < found.lower < 1
    kind = attack(
        pf.Laplace(1.0), POINTS, promise=pf.Renyi.of(alpha=2), trials=20_000, rng=seeded()
    )
    assert 0.5 < kind.lower < pf.Laplace(1.0).renyi(1.0, 2)
    assert "promised" not in repr(kind)


def test_a_calibration_is_attacked_through_its_witness():
    """What pf.calibrate returns has noise, guarantee and pair.

    Of several pairs the costliest is found without it too.
    """
    pairs = [(pf.Law.point(0), pf.Law.point(x)) for x in (0.2, 3.0, 1.0)]
    calibrated = pf.calibrate(pairs, pf.Pure(1.0))
    found = attack(calibrated, trials=20_000, rng=seeded())
    assert 0.85 < found.lower < 1
    listed = attack(calibrated.noise, pairs, promise=pf.Pure(1.0), trials=20_000, rng=seeded())
    assert 0.85 < listed.lower < 1
    assert "pair 2" in listed.pair
    weak = dataclasses.replace(calibrated, noise=calibrated.noise.at(2.0))
    assert attack(weak, trials=20_000, rng=seeded()).broken


@pytest.mark.slow
def test_the_worst_of_very_many_pairs_is_among_those_looked_at():
    """Of more pairs than are tried, those that lie farthest apart are."""
    pairs = [(pf.Law.point(0), pf.Law.point(x / 1000)) for x in range(1, 200)]
    assert len(duels_of_pairs(pf.Laplace(1.0), pairs)) == 64
    assert attack(pf.Laplace(0.199), pairs, trials=10_000, rng=seeded()).lower > 0.75


def test_an_order_of_the_pair_is_chosen():
    """Where one order costs more, that one is shown: a rare value under the second secret only."""
    laws = [(pf.Law([0], [1]), pf.Law([0, 10], [0.9, 0.1]))]
    found = attack(pf.Laplace(0.5), laws, trials=20_000, rng=seeded())
    assert found.pair == "the second law against the first law"
    assert found.lower > 3


@pytest.mark.slow
def test_gaussian_laws_are_drawn():
    """Gaussian laws with Gaussian noise show most of their exact loss, on the line and on the plane."""
    line = [(pf.GaussianLaw(0, 1), pf.GaussianLaw(2, 1))]
    truth = pf.loss(line, pf.Gaussian(1.0), pf.Renyi.of(alpha=2), bound=pf.Exact())
    found = attack(
        pf.Gaussian(1.0), line, promise=pf.Renyi.of(alpha=2), trials=10_000, rng=seeded()
    )
    assert 0.6 * truth < found.lower < truth
    plane = [(pf.GaussianLaw([0, 0], 1), pf.GaussianLaw([1, 1], 1))]
    found = attack(
        pf.Gaussian(1.0), plane, promise=pf.Renyi.of(alpha=2), trials=5_000, rng=seeded()
    )
    truth = pf.loss(plane, pf.Gaussian(1.0), pf.Renyi.of(alpha=2), bound=pf.Exact())
    assert 0.5 * truth < found.lower < truth


def test_vectors_are_attacked_by_the_ratio_of_the_whole_vector():
    """Two coordinates together show more than either, and not more than their noise tells."""
    both = [(pf.Law.point([0, 0]), pf.Law.point([1, 2]))]
    assert 2.5 < attack(pf.Laplace(1.0), both, rng=seeded()).lower < 3
    spread = [
        (pf.Law([[0, 0], [1, 1]], [0.8, 0.2]), pf.Law([[0, 1], [1, 0], [2, 2]], [0.2, 0.2, 0.6]))
    ]
    truth = pf.loss(spread, pf.Laplace(2.0), pf.Pure, bound=pf.GWM())
    assert 0.3 < attack(pf.Laplace(2.0), spread, rng=seeded()).lower < truth


def test_movement_only_laws_are_two_points():
    """Laws of which only a movement is known are attacked with two points so far apart, and the event says so."""
    scenario = pf.Scenario(pf.Secret("paid", domain=[0, 1]), pf.AnyCorrelation())
    laws = pf.laws(scenario, pf.Statistic.total(10))
    found = attack(pf.Laplace(10.0), laws, promise=pf.Pure(1.0), trials=20_000, rng=seeded())
    assert 0.85 < found.lower < 1
    assert "two points 1 times the noise's scale apart" in found.event


def test_no_noise_tells_everything():
    """At scale 0 two different points are told apart, and two equal ones are not."""
    assert attack(pf.Laplace(0.0), POINTS, trials=20_000, rng=seeded()).lower > 6
    assert (
        attack(
            pf.Laplace(0.0), [(pf.Law.point(0), pf.Law.point(0))], trials=2000, rng=seeded()
        ).lower
        == 0
    )
    assert (
        attack(
            pf.Laplace(1.0), [(pf.Law.point(0), pf.Law.point(0))], trials=2000, rng=seeded()
        ).lower
        == 0
    )


class Clipped(pf.Laplace):
    """Laplace noise whose sampler forgets its tails, while its density is that of the whole."""

    def release(self, answers, rng=None, grid=None):
        noisy = super().release(answers, rng, grid)
        kept = np.asarray(answers, float) + np.clip(
            noisy.values - np.asarray(answers, float), -4, 4
        )
        return dataclasses.replace(noisy, values=kept)


def test_a_wrong_sampler_is_found():
    """The density alone would not show that tails are cut; the answers do."""
    found = attack(Clipped(1.0), POINTS, promise=pf.Pure(1.0), rng=seeded())
    assert found.broken
    assert found.lower > 2


def test_many_trials_are_drawn_some_at_a_time():
    """All draws are counted, whatever the number of coordinates."""
    for dimension in (1, 3):
        pair = [(pf.Law.point(np.zeros(dimension)), pf.Law.point(np.ones(dimension)))]
        (duel,) = duels_of_pairs(pf.Laplace(1.0), pair)
        sizes = _sizes(1_000_001, duel)
        assert sum(sizes) == 1_000_001
        assert max(sizes) * dimension <= 2**18


def test_results_are_values():
    """An attack is frozen, is equal to its like, and survives pickling."""
    found = attack(pf.Laplace(1.0), POINTS, promise=pf.Pure(1.0), trials=1000, rng=seeded())
    assert isinstance(found, Attack)
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.lower = 0.0
    assert "broken=False" in repr(found)
    assert math.isfinite(found.lower)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((pf.Laplace(1.0),), {}),
        ((pf.Laplace, POINTS), {}),
        (("plan",), {}),
        ((pf.Laplace(1.0), [pf.Law.point(0)]), {}),
        ((pf.Laplace(1.0), []), {}),
        ((pf.Laplace(1.0), POINTS), {"trials": 99}),
        ((pf.Laplace(1.0), POINTS), {"trials": 1e5}),
        ((pf.Laplace(1.0), POINTS), {"trials": True}),
        ((pf.Laplace(1.0), POINTS), {"confidence": 1.0}),
        ((pf.Laplace(1.0), POINTS), {"confidence": 0}),
        ((pf.Laplace(1.0), POINTS), {"confidence": "99 %"}),
        ((pf.Laplace(1.0), POINTS), {"rng": 1}),
        ((pf.Laplace(1.0), POINTS), {"promise": 1.0}),
        ((pf.Laplace(1.0), POINTS), {"promise": pf.Renyi}),
        ((pf.calibrate(POINTS, pf.Pure(1.0)), POINTS), {}),
        ((pf.calibrate(POINTS, pf.Pure(1.0)),), {"promise": pf.Pure(1.0)}),
    ],
)
def test_bad_arguments(arguments, options):
    """What cannot be attacked is refused with what is allowed and what to try."""
    with pytest.raises(pf.UsageError) as caught:
        attack(*arguments, **options)
    assert caught.value.allowed
    assert caught.value.instead


def test_noise_that_cannot_be_drawn_is_refused():
    """Noise most of whose draws leave the floats is not attacked."""
    with pytest.raises(pf.Refused):
        attack(pf.GeneralizedCauchy(1.0, k=1.01), POINTS)
