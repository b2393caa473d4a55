"""Several profiles of one release, one for each pair of secrets, and averages: nowhere below what outputs tell."""

import itertools
import math

import numpy as np
import pytest
import tradeoffs
from thinned import thinned

import pufferflow as pf
from pufferflow.tradeoff import Profile, as_profile, compose, intersection, mixture, union
from pufferflow.tradeoff.dominating_pairs import of_deltas

EPSILONS = np.linspace(0.0, 2.5, 11)


def profiles_of(first, second, count, rng):
    """True profiles of a release: (ε, δ) at some ε, all with its total variation."""
    tv = tradeoffs.hockey_stick(first, second, 0.0) + 1e-15
    epsilons = rng.uniform(0, np.abs(np.log(first / second)).max(), count)
    return [
        Profile(e, tradeoffs.hockey_stick(first, second, e) + 1e-15, tv) for e in epsilons.tolist()
    ]


@pytest.mark.parametrize("seed", range(4))
def test_intersection_dominates_and_is_below_all(seed):
    """What is true at once stays true: the intersection is above the release, below each profile, composed too."""
    rng = np.random.default_rng(seed)
    first, second = tradeoffs.random_release(rng, outputs=4)
    profiles = profiles_of(first, second, 3, rng)
    both = intersection(profiles)
    p, q = tradeoffs.product([(first, second)] * 4)
    for epsilon in EPSILONS.tolist():
        assert (
            tradeoffs.hockey_stick(first, second, epsilon) <= compose(both).delta(epsilon) + 1e-15
        )
        assert (
            compose(both).delta(epsilon)
            <= min(compose(one).delta(epsilon) for one in profiles) + 1e-12
        )
        composed_first = min(compose(one, 4).delta(epsilon) for one in profiles)
        assert (
            tradeoffs.hockey_stick(p, q, epsilon)
            <= compose(both, 4).delta(epsilon)
            <= composed_first + 1e-12
        )


def test_intersecting_first_says_more():
    """Two bounds composed after they are met give less than the better of both composed by itself."""
    profiles = [Profile(0.2, 0.05), Profile(1.0, 0.0, 1.0)]
    met = compose(intersection(profiles), 5)
    assert met.delta(0.6) < 0.9 * min(compose(one, 5).delta(0.6) for one in profiles)


@pytest.mark.parametrize("seed", range(4))
def test_union_is_the_largest_of_both(seed):
    """A release with one of two profiles has at every ε the larger δ of both, exactly, and dominates both composed."""
    rng = np.random.default_rng(seed)
    releases = [tradeoffs.random_release(rng, outputs=4) for _ in range(2)]
    either = union(Profile.of_outputs(*one) for one in releases)
    for epsilon in EPSILONS.tolist():
        truth = max(tradeoffs.hockey_stick(*one, epsilon) for one in releases)
        assert truth - 1e-15 <= compose(either).delta(epsilon) <= truth + 1e-12
        for order in itertools.product(releases, repeat=3):
            p, q = tradeoffs.product(order)
            assert (
                tradeoffs.hockey_stick(p, q, epsilon) <= compose(either, 3).delta(epsilon) + 1e-15
            )


@pytest.mark.parametrize("seed", range(4))
def test_hulls_of_what_is_known_at_some_points(seed):
    """The hull of bounds at some ε, in orders that differ and with nothing known at ε = 0, is above both orders."""
    rng = np.random.default_rng(seed)
    p, q = tradeoffs.random_release(rng, outputs=4)
    epsilons = np.append(0.0, np.sort(np.abs(np.log(p / q)))[[1, 3]] + 1e-12)
    sticks = [
        [math.fsum(np.maximum(a - math.exp(e) * b, 0.0)) for e in epsilons[1:].tolist()]
        for a, b in ((p, q), (q, p))
    ]
    atoms = of_deltas(epsilons, *(np.array([1.0, *own]) for own in sticks))
    for epsilon in EPSILONS.tolist():
        for (a, b), way in zip(((p, q), (q, p)), (atoms, atoms.swapped()), strict=True):
            truth = math.fsum(np.maximum(a - math.exp(epsilon) * b, 0.0))
            assert truth <= way.hockey_stick(epsilon) + 1e-15
    # a line through corners on both sides is the curve itself where nothing lies between
    low, high = math.exp(-1.0), math.exp(1.0)
    two = of_deltas(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert two.hockey_stick(0.0) == pytest.approx((high - 1) / (high - low) * (1 - low), abs=1e-12)


def test_profiles_that_are_nearly_equal():
    """Corners next to each other are one: rounding between them does not count."""
    for gap in (1e-16, 1e-13, 1e-10, 1e-7, 1e-4):
        either = union([Profile(0.5, 1e-3, 0.1), Profile(0.5 + gap, 1e-3, 0.1 - gap)])
        assert compose(either, 3).tv == pytest.approx(
            compose(Profile(0.5, 1e-3, 0.1), 3).tv, abs=1e-9 + gap
        )


@pytest.mark.slow
def test_one_profile_and_closed_forms():
    """A profile met with itself stays; Gaussian noise meets an (ε, δ) and stays above nothing it guarantees."""
    once = Profile.of(pf.Gaussian(2.0))
    assert intersection([once]) is once
    assert union([once]) is once
    met = compose(intersection([once, Profile(0.6, 0.002)]))
    for epsilon in (0.0, 0.3, 1.2):
        assert met.delta(epsilon) <= compose(once).delta(epsilon) + 1e-6
    assert met.delta(0.6) <= 0.002 + 1e-9


def test_a_composition_as_one_release():
    """Releases together as one profile are never below, and hardly above."""
    together = compose([Profile(0.3, 0.01, 0.1), Profile(0.5, tv=0.2)] * 3)
    once = compose(as_profile(together))
    for epsilon in EPSILONS.tolist():
        assert together.delta(epsilon) <= once.delta(epsilon) + 1e-15
        assert once.delta(epsilon) <= together.delta(epsilon) + 1e-4


@pytest.mark.parametrize("out", thinned([1.0, 1 - 1e-16, 1 - 1e-9], 0.7))
def test_releases_that_reveal_nearly_all(out):
    """What is left beside them is small, and is counted all the same: alone, with noise, and as one release."""
    together = compose([Profile(1.0, out), Profile.of(pf.Gaussian(1.0))])
    assert out <= together.delta(0.5) <= 1
    once = as_profile(together)
    assert once.tv >= out
    assert once.epsilon < 30
    assert once.delta >= out


def test_weights_that_miss_a_hair_leave_nothing_out():
    """Where all parts are told, so is their average."""
    told = compose(Profile(1.0, 1.0))
    assert mixture([(0.5, told), (0.5 - 9e-10, told)]).tv == 1


def test_composing_averages_fails_where_averages_of_compositions_hold():
    """XOR: X₁ a fair coin, X₂ = X₁ ⊕ S. Each randomised response alone reveals nothing about S, both together do."""
    keep = 1 / (1 + math.exp(-1.0))
    answer = np.array([[keep, 1 - keep], [1 - keep, keep]])
    joint = [
        sum(0.5 * np.multiply.outer(answer[x], answer[x ^ secret]).ravel() for x in (0, 1))
        for secret in (0, 1)
    ]
    truth = tradeoffs.hockey_stick(*joint, 0.0)
    assert truth == pytest.approx(math.tanh(0.5) ** 2)
    alone = [Profile.of_outputs(answer.mean(axis=0), answer.mean(axis=0))] * 2
    assert compose(alone).tv < truth
    # one coupling: X₁ is the same under both secrets, X₂ differs
    averaged = mixture((0.5, compose([Profile(0.0), Profile(1.0)])) for _ in (0, 1))
    for epsilon in EPSILONS.tolist():
        assert tradeoffs.hockey_stick(*joint, epsilon) <= averaged.delta(epsilon)
    assert averaged.epsilon(0.0) == 1.0
    assert averaged.tv == pytest.approx(math.tanh(0.5), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_averages_over_a_coupling_hold(seed):
    """Two releases about a correlated x: the average of compositions over (x, x') is nowhere below the joint output."""
    rng = np.random.default_rng(seed)
    outputs = [rng.dirichlet(np.ones(3), size=4) for _ in range(2)]
    under = rng.dirichlet(np.ones(4), size=2)
    p, q = (
        sum(
            weight * np.multiply.outer(outputs[0][x], outputs[1][x]).ravel()
            for x, weight in enumerate(law)
        )
        for law in under
    )
    coupling = np.multiply.outer(*under)
    average = mixture(
        (coupling[x, y], compose(Profile.of_outputs(own[x], own[y]) for own in outputs))
        for x, y in itertools.product(range(4), repeat=2)
    )
    for epsilon in EPSILONS.tolist():
        assert tradeoffs.hockey_stick(p, q, epsilon) <= average.delta(epsilon)
    assert average.curve(0.1) <= tradeoffs.least_misses(p, q, 0.1)


def test_calls_that_do_not_fit():
    """What is no profile, and weights that are none, are refused in words."""
    once = compose(Profile(1.0))
    for call in (intersection, union):
        for wrong in ([], [1.0], 3, "both"):
            with pytest.raises(pf.UsageError):
                call(wrong)
    for wrong in (
        [],
        [(0.5, once)],
        [(math.nan, once)],
        [(1.0, 2.0)],
        [once],
        [(-1.0, once), (2.0, once)],
        1.0,
    ):
        with pytest.raises(pf.UsageError):
            mixture(wrong)
    for call in (
        lambda: as_profile(1.0),
        lambda: Profile.of_points([1.0]),
        lambda: Profile.of_points(3),
        lambda: once.curve("a"),
        lambda: once.deltas([True]),
    ):
        with pytest.raises(pf.UsageError):
            call()
