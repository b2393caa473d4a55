"""Composition of profiles: equal to listing all outputs where that can be done, never below, and quick."""

import itertools
import math
import pickle

import noisy
import numpy as np
import pytest
import tradeoffs
from thinned import thinned

import pufferflow as pf
from pufferflow.tradeoff import Profile, compose, composed
from pufferflow.tradeoff.inversion import Inversion, Moments

# (ε, δ, η, k, j, δ at jε): computed independently by enumeration, the formula of TV's Theorem 2, and convolution
EQUAL = [
    (1.0, 0.0, 0.3234820100820068, 3, 0, 0.5119684089176322),
    (1.0, 0.0, 0.3234820100820068, 3, 2, 0.08471309881461375),
    (1.0, 0.0, 0.3234820100820068, 5, 2, 0.23934494912014082),
    (0.5, 0.01, 0.10698779031186882, 4, 1, 0.11890124066707564),
    (2.0, 0.05, 0.701163003342179, 4, 1, 0.8427650506336974),
    (0.3, 0.001, 0.14973614858969467, 6, 0, 0.2794002710377107),
    (0.3, 0.001, 0.14973614858969467, 6, 2, 0.10257382616448407),
    (1.0, 0.02, 0.02, 3, 1, 0.05880800000000008),
]
DIFFERENT = [Profile(1.0, 0.0, 0.3), Profile(0.5, 0.01, 0.15), Profile(2.0, 0.0, 0.5)]


@pytest.mark.parametrize(("epsilon", "delta", "tv", "times", "place", "value"), EQUAL)
def test_equal_releases_are_as_in_the_reference(epsilon, delta, tv, times, place, value):
    """δ at jε after k releases is the known number, and not below it."""
    found = compose(Profile(epsilon, delta, tv), times).delta(place * epsilon)
    assert value - 1e-15 <= found <= value + 1e-12


def test_different_releases_are_as_in_the_reference():
    """Three different releases have the known δ."""
    together = compose(DIFFERENT)
    assert together.tv == pytest.approx(0.6238840376981001, abs=1e-12)
    assert together.delta(1.5) == pytest.approx(0.30009176377369223, abs=1e-12)


def test_total_variation_after_three_and_five():
    """M26's numbers: ε = 1, η = .32348 gives .51197 after three releases, .63109 after five."""
    once = Profile(1.0, tv=0.32348)
    assert [round(compose(once, times).tv, 5) for times in (3, 5)] == [0.51197, 0.63109]


CASES = [
    [(1.0, 0.0, 0.32348)] * 5,
    [(0.7, 0.02, 0.2)] * 4,
    [(1.5, 0.0, 1.0)] * 5,
    [(0.3, 0.1, 0.1), (0.2, 0.0, 0.05)],
    [(1.0, 0.0, 0.3), (0.5, 0.01, 0.15), (2.0, 0.0, 0.5), (0.9, 0.001, 0.2)],
    [(3.0, 0.0, 0.01), (0.01, 0.0, 1.0), (0.4, 0.2, 0.3)],
]


@pytest.mark.parametrize("numbers", CASES)
def test_bounds_equal_the_list_of_all_outputs(numbers):
    """δ(ε) at all corners and between them, ε(δ), and the curve are those of the product of the worst pairs."""
    p, q = tradeoffs.product(tradeoffs.worst_pair(*one) for one in numbers)
    together = compose(Profile(*one) for one in numbers)
    sums = {
        round(math.fsum(terms), 9)
        for terms in itertools.product(*[(-e, 0.0, e) for e, _, _ in numbers])
    }
    corners = sorted(e for e in sums if e >= 0)
    for epsilon in sorted({*corners, *((a + b) / 2 for a, b in itertools.pairwise(corners))}):
        truth = tradeoffs.hockey_stick(p, q, epsilon)
        assert truth - 1e-15 <= together.delta(epsilon) <= truth + 1e-12
        if together.revealed < truth < 1 - 1e-9:
            assert tradeoffs.hockey_stick(p, q, together.epsilon(truth)) <= truth + 1e-15
            assert together.epsilon(min(truth + 1e-9, 1 - 1e-12)) <= epsilon + 1e-9
    for alpha in (0.0, 0.01, 0.2, 0.5, 0.9, 1.0):
        least = min(tradeoffs.least_misses(p, q, alpha), tradeoffs.least_misses(q, p, alpha))
        assert least - 1e-8 <= together.curve(alpha) <= least + 1e-15


def test_delta_is_summed_and_not_interpolated():
    """Between the corners 2 and 3 the curve is above the chord in ε: .185 at 2.5, not .167."""
    five = compose(Profile(1.0, tv=0.32348), 5)
    assert five.delta(2.5) == pytest.approx(0.185, abs=5e-4)
    assert (five.delta(2.0) + five.delta(3.0)) / 2 == pytest.approx(0.167, abs=5e-4)


def series(profiles):
    """The Fourier series for profiles that would be listed otherwise."""
    losses = {}
    for profile in profiles:
        losses[profile.loss] = losses.get(profile.loss, 0) + 1
    return Inversion(Moments.of(losses), math.fsum(profile.loss.largest for profile in profiles))


@pytest.mark.slow
def test_the_series_is_never_below_the_list():
    """The series for many different profiles, asked about few, is above what listing gives, by less than 10⁻⁵."""
    rng = np.random.default_rng(5)
    profiles = [
        Profile(e, tv=share * math.tanh(e / 2))
        for e, share in zip(rng.uniform(0.05, 1, 9), rng.uniform(0.2, 1, 9), strict=True)
    ]
    listed, found = compose(profiles), series(profiles)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.5, 0.9 * listed.largest, 0.99 * listed.largest):
        truth = listed.delta(epsilon)
        assert truth * (1 - 1e-11) <= found.delta(epsilon) <= truth * (1 + 1e-5) + 1e-300


@pytest.mark.slow
def test_the_series_equals_the_exact_law_of_many_equal_releases():
    """Far into the tail the series and Miller's recurrence agree to 10⁻⁴ of δ, the series above."""
    once = Profile(0.01, tv=0.7 * math.tanh(0.005))
    together = compose(once, 20_000)
    found = Inversion(Moments.of({once.loss: 20_000}), 200.0)
    for delta in (0.3, 1e-3, 1e-6, 1e-12, 1e-30):
        epsilon = together.epsilon(delta)
        assert together.delta(epsilon) <= delta <= found.delta(epsilon) <= delta * (1 + 1e-4)


@pytest.mark.slow
def test_ten_thousand_different_releases():
    """P11's releases: ε at δ = 10⁻⁶ is near the Gaussian limit's, above that of slightly smaller equal releases."""
    rng = np.random.default_rng(0)
    epsilons = rng.uniform(0.001, 0.02, 10_000)
    together = compose(Profile(e, tv=0.7 * math.tanh(e / 2)) for e in epsilons.tolist())
    limit = compose(Profile.of(pf.Gaussian(1.0), together.gaussian_limit))
    found = together.epsilon(1e-6)
    assert together.delta(found) <= 1e-6
    assert found == pytest.approx(limit.epsilon(1e-6), rel=1e-3)
    # of 20 different ε, rounded up, there are few enough kinds for a series of its own
    larger = compose(
        Profile(e, tv=0.7 * math.tanh(e / 2)) for e in (np.ceil(epsilons * 1000) / 1000).tolist()
    )
    assert found < larger.epsilon(1e-6) < 1.1 * found


NOISES = [
    (pf.Gaussian(1.0), 0.4),
    (pf.Laplace(2.0), 0.7),
    (pf.GeneralizedCauchy(1.0, k=4), 0.3),
    (pf.Staircase(1.0, 0.8), 1.0),
    (pf.Staircase(1.0, 0.3), 2.5),
]


@pytest.mark.parametrize(("noise", "shift"), thinned(NOISES, 0.6, unpack=True))
def test_one_release_of_a_noise_is_the_noise(noise, shift):
    """The profile of a noise has the noise's hockey stick: never below, and within 10⁻⁵."""
    once = compose(Profile.of(noise, shift))
    for epsilon in (0.0, 0.05, 0.123, 0.3, 0.6, 1.0):
        truth = noise.delta_within(shift, epsilon)
        assert truth * (1 - 1e-12) - 1e-300 <= once.delta(epsilon) * (1 + 1e-12) <= truth + 2e-5


def test_gaussian_releases_add_their_squares():
    """Different Gaussian releases are one with μ² = Σμ²; beside a release that tells nothing too."""
    together = compose(
        [*(Profile.of(pf.Gaussian(s)) for s in (1.0, 2.0, 5.0)), Profile(0.0), Profile(1.0, tv=0.0)]
    )
    mu = math.sqrt(1 + 1 / 4 + 1 / 25)
    assert together.delta(1.0) == pytest.approx(pf.Gaussian(1.0).delta(mu, 1.0), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "shift"), [(pf.Gaussian(2.0), 1.0), (pf.Laplace(1.0), 0.7)])
def test_closed_forms_beside_other_releases(noise, shift):
    """Noise beside the worst release has Σ p_a·δ(ε − a) over that one's losses a; the series is hardly above."""

    def stick(epsilon):
        turned = noise.delta(shift, abs(epsilon))
        return turned if epsilon >= 0 else 1 - math.exp(epsilon) + math.exp(epsilon) * turned

    p, _ = tradeoffs.worst_pair(1.0, 0.01, 0.3)
    together = compose([Profile.of(noise, shift), Profile(1.0, 0.01, 0.3)])
    for epsilon in (0.0, 0.3, 1.0, 1.6):
        truth = p[0] + sum(
            mass * stick(epsilon - loss) for mass, loss in zip(p[1:4], (1, 0, -1), strict=True)
        )
        assert truth * (1 - 1e-12) <= together.delta(epsilon) <= truth * (1 + 1e-5) + 1e-6


@pytest.mark.slow
def test_atoms_dominate_closed_forms():
    """Gaussian and Laplace profiles as atoms are above their closed forms, and compose to nearly the same."""
    for noise, shift in NOISES[:2]:
        profile = Profile.of(noise, shift)
        atoms = Profile.with_loss(profile.loss.discretised(), profile.tv)
        exact, above = compose(profile, 40), compose(atoms, 40)
        epsilon = 1.0
        assert (
            exact.delta(epsilon) <= above.delta(epsilon) <= exact.delta(epsilon) * (1 + 1e-3) + 1e-9
        )


@pytest.mark.parametrize(
    "noise", [pf.Laplace(1.0), pytest.param(pf.Gaussian(2.0), marks=pytest.mark.slow)], ids=repr
)
def test_two_laws_with_noise(noise):
    """Profiles of laws have the exact hockey stick of the noisy laws."""
    mu, nu = pf.Law([0, 1, 5], [0.5, 0.3, 0.2]), pf.Law([0, 1, 5], [0.3, 0.3, 0.4])
    once = compose(Profile.of_laws(mu, nu, noise))
    for epsilon in (0.0, 0.2):
        truth = noisy.delta(mu, nu, noise, epsilon)
        assert truth * (1 - 1e-12) <= once.delta(epsilon) <= truth + 2e-4


@pytest.mark.parametrize("seed", range(6))
def test_profiles_dominate_random_releases(seed):
    """The numbers (ε, δ, η) of any release, and its own outputs, have a profile that is nowhere below the release."""
    rng = np.random.default_rng(seed)
    releases = [tradeoffs.random_release(rng) for _ in range(3)]
    p, q = tradeoffs.product(releases)
    numbers = []
    for first, second in releases:
        epsilon = float(rng.uniform(0, np.abs(np.log(first / second)).max()))
        numbers.append(
            (
                epsilon,
                tradeoffs.hockey_stick(first, second, epsilon),
                tradeoffs.hockey_stick(first, second, 0),
            )
        )
    rough = compose(Profile(*(one + 1e-15 for one in row)) for row in numbers)
    fine = compose(Profile.of_outputs(*one) for one in releases)
    for epsilon in np.linspace(0, 3, 13):
        truth = tradeoffs.hockey_stick(p, q, epsilon)
        assert truth <= fine.delta(epsilon) + 1e-15
        assert truth <= rough.delta(epsilon) + 1e-15


def test_limits_of_the_numbers_are_cut():
    """tv above its largest value, and δ above tv, are lowered; what is not known is 1."""
    assert Profile(1.0).tv == pytest.approx(math.tanh(0.5))
    assert Profile(1.0, 0.1).tv == pytest.approx(0.1 + 0.9 * math.tanh(0.5))
    assert Profile(0.5, 0.3, 0.2) == Profile(0.5, 0.2, 0.2)
    assert compose(Profile(math.inf, 0.0, 0.1), 3).tv == pytest.approx(1 - 0.9**3)
    assert compose(Profile(800.0, tv=0.5), 2).epsilon(0.0) == math.inf
    assert compose(Profile(0.0), 7).epsilon(0.0) == 0.0
    assert compose(Profile(0.0, 1.0)).tv == 1.0


def test_a_delta_below_the_floats_is_not_none():
    """All 5000 losses together have a probability that no float holds: only at their sum is δ 0."""
    together = compose(Profile(0.0177), 5000)
    assert together.delta(80.0) > 0
    assert together.delta(together.largest) == 0


@pytest.mark.parametrize(
    ("numbers", "word"),
    [
        ((-1.0,), "epsilon"),
        ((math.nan,), "epsilon"),
        ((None,), "epsilon"),
        ((1.0, 1.5), "delta"),
        ((1.0, math.nan), "delta"),
        ((1.0, 0.0, -0.1), "tv"),
        ((1.0, 0.0, "much"), "tv"),
    ],
)
def test_numbers_that_are_none(numbers, word):
    """Numbers outside their ranges, NaN and other types are refused by name."""
    with pytest.raises(pf.UsageError, match=word):
        Profile(*numbers)


@pytest.mark.slow
def test_compositions_are_values():
    """A composition that was asked something can be pickled and composed again, and δ below the floats is not 0."""
    twice = compose([Profile(0.5, tv=0.1), Profile.of(pf.Laplace(1.0))])
    assert twice.tv == pickle.loads(pickle.dumps(twice)).tv
    assert compose([twice, twice]).profiles == compose(twice, 2).profiles
    assert 0 < compose(Profile(1.0, tv=0.01), 1000).delta(999.5) < 1e-300


def test_profiles_of_what_does_not_fit():
    """Noises, laws, movements and probabilities that are none are refused in words."""
    law = pf.Law([0, 1], [0.5, 0.5])
    for wrong in (
        lambda: Profile.of("laplace"),
        lambda: Profile.of(pf.Laplace),
        lambda: Profile.of(pf.Laplace(1.0), -1.0),
        lambda: Profile.of(pf.Laplace(1.0), math.nan),
        lambda: Profile.of_laws(0, 1, pf.Laplace(1.0)),
        lambda: Profile.of_laws(law, law, "laplace"),
        lambda: Profile.of_outputs([0.5, 0.5], [1.0]),
        lambda: Profile.of_outputs([0.5, 0.6], [0.5, 0.5]),
        lambda: Profile.of_outputs([1.5, -0.5], [0.5, 0.5]),
        lambda: Profile.of_outputs([math.nan], [1.0]),
        lambda: Profile.of_outputs("half", [1.0]),
        lambda: Profile.of_outputs(["0.5", "0.5"], [0.5, 0.5]),
        lambda: Profile.of_outputs({0.4, 0.6}, [0.5, 0.5]),
        lambda: Profile.of_outputs([[0.5, 0.5]], [0.5, 0.5]),
        lambda: Profile.of_outputs([], []),
    ):
        with pytest.raises((pf.UsageError, pf.Refused)):
            wrong()
    assert Profile.of(pf.Laplace(0.0)).tv == Profile.of(pf.Gaussian(1.0), math.inf).delta == 1.0
    assert (
        Profile.of(pf.Laplace(0.0), 0.0).tv
        == compose(Profile.of(pf.Gaussian(1.0), 0.0)).epsilon(0.0)
        == 0.0
    )


def test_calls_that_do_not_fit(monkeypatch):
    """Releases that are none, none at all, too many, and questions outside their ranges are refused in words."""
    monkeypatch.setattr(composed, "MOST_PROFILES", 10)
    once = compose(Profile(1.0))
    for wrong in (
        lambda: compose([]),
        lambda: compose(1.0),
        lambda: compose([0.5]),
        lambda: compose(Profile(1.0), 0),
    ):
        with pytest.raises(pf.UsageError, match=r"try: pf\.tradeoff\.compose"):
            wrong()
    with pytest.raises(pf.Refused, match="counted together"):
        compose(Profile(n * 1e-9) for n in itertools.count())
    with pytest.raises(pf.Refused, match="1000000 releases"):
        compose(Profile(1.0), 2_000_000)
    for wrong in (
        lambda: once.delta(-1.0),
        lambda: once.epsilon(1.0),
        lambda: once.curve(1.5),
        lambda: once.curve(math.nan),
    ):
        with pytest.raises(pf.UsageError):
            wrong()
    with pytest.raises(pf.Refused, match="no Gaussian limit"):
        _ = compose(Profile(1.0, 0.1)).gaussian_limit
