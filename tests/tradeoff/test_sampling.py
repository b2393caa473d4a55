"""Samples of independent rows, checked on all data sets of a few rows; dp-accounting's events."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import tradeoffs

import pufferflow as pf
from pufferflow.tradeoff import (
    Profile,
    compose,
    dp_sgd,
    erased,
    fixed_size,
    from_dp_event,
    poisson,
    union,
)

EPSILONS = np.linspace(0.0, 1.5, 9).tolist()
FREE = pf.Independent()


@pytest.mark.parametrize("seed", range(3))
def test_poisson_samples_in_both_orders(seed):
    """A release with random outputs for every set of three rows: two sampled ones are within the profile, both ways."""
    rng = np.random.default_rng(seed)
    outputs = {rows: rng.dirichlet(2 * np.ones(3)) for rows in tradeoffs.subsets(3)}
    base = union(
        Profile.of_outputs(outputs[rows], outputs[tuple(sorted({*rows, row}))])
        for rows in outputs
        for row in range(3)
        if row not in rows
    )
    rate = 0.3

    def sampled(rows):
        return sum(
            rate ** len(part)
            * (1 - rate) ** (len(rows) - len(part))
            * outputs[tuple(rows[i] for i in part)]
            for part in tradeoffs.subsets(len(rows))
        )

    once = poisson(base, rate, prior=FREE)
    p, q = tradeoffs.product([(sampled((0, 1, 2)), sampled((0, 1)))] * 2)
    for epsilon in EPSILONS:
        assert tradeoffs.hockey_stick(p, q, epsilon) <= compose(once, 2).delta(epsilon)
    assert once.tv <= rate * base.tv * (1 + 1e-12)


def test_poisson_samples_of_the_worst_release():
    """For the worst release, which answers whether the row is there, the sampled profile is exactly its own."""
    p, q = tradeoffs.worst_pair(1.0, 0.01, 0.3)
    drawn = 0.2 * p + 0.8 * q
    once = poisson(Profile(1.0, 0.01, 0.3), 0.2, prior=FREE)
    pair = tradeoffs.product([(drawn, q)] * 3)
    for epsilon in EPSILONS:
        assert compose(once, 3).delta(epsilon) == pytest.approx(
            tradeoffs.hockey_stick(*pair, epsilon), abs=1e-12
        )
        assert compose(once, 3).delta(epsilon) >= tradeoffs.hockey_stick(*pair, epsilon)


@pytest.mark.parametrize("seed", range(3))
def test_samples_of_fixed_size(seed):
    """A release with random outputs for every pair of rows out of three, each of two values, one row replaced."""
    rng = np.random.default_rng(seed)
    sets = list(itertools.combinations_with_replacement((0, 1), 2))
    outputs = {values: rng.dirichlet(2 * np.ones(3)) for values in sets}
    neighbours = [
        (one, other)
        for one, other in itertools.combinations(sets, 2)
        if abs(sum(one) - sum(other)) == 1
    ]
    base = union(Profile.of_outputs(outputs[one], outputs[other]) for one, other in neighbours)
    once = fixed_size(base, 2, 3, prior=FREE)

    def sampled(values):
        return np.mean(
            [outputs[tuple(sorted(part))] for part in itertools.combinations(values, 2)], axis=0
        )

    for rest in itertools.product((0, 1), repeat=2):
        p, q = tradeoffs.product([(sampled((0, *rest)), sampled((1, *rest)))] * 2)
        for epsilon in EPSILONS:
            assert tradeoffs.hockey_stick(p, q, epsilon) <= compose(once, 2).delta(epsilon)


def test_samples_of_fixed_size_in_numbers():
    """(ε, δ, η) becomes (log(1 + p(e^ε − 1)), pδ, pη), and curves become the same curve; all rows are no sample."""
    tenth = fixed_size(Profile(1.0, 0.01, 0.3), 10, 100, prior=FREE)
    assert (tenth.epsilon, tenth.delta, tenth.tv) == pytest.approx(
        (math.log1p(0.1 * math.expm1(1)), 0.001, 0.03)
    )
    curve = fixed_size(
        union([Profile(1.0, 0.01, 0.3), Profile(0.5, 0.0, 0.1)]), 10, 100, prior=FREE
    )
    assert compose(curve).delta(0.1) == pytest.approx(compose(tenth).delta(0.1), abs=1e-12)
    assert fixed_size(tenth, 5, 5, prior=FREE) is tenth
    assert poisson(tenth, 1, prior=FREE) is tenth
    assert compose(poisson(tenth, 0, prior=FREE)).tv == 0


@pytest.mark.slow
def test_samples_of_losses_beyond_the_floats():
    """A row that is told with probability ½ is told so at any ε that its noise reaches, also where e^ε is no float."""
    certain = Profile.of(pf.Laplace(1.0), 800.0)
    for half in (poisson(certain, 0.5, prior=FREE), fixed_size(certain, 5, 10, prior=FREE)):
        assert compose(half).delta(750.0) >= 0.5 * (1 - math.exp(-24))
    assert erased(Profile(math.inf), 0.0).tv == 1.0
    assert dp_sgd(5e-324, 2, rate=0.5, prior=FREE).tv == pytest.approx(0.75)


def test_samples_of_what_is_no_profile():
    """Only profiles are sampled."""
    for call in (lambda one: erased(one, 0.5), lambda one: fixed_size(one, 1, 2, prior=FREE)):
        with pytest.raises(pf.UsageError, match="The profile is of type"):
            call(1.0)


@pytest.mark.slow
def test_private_training():
    """dp-accounting on grids of 10⁻³, 10⁻⁴ and 10⁻⁵ gives .8694, .86459 and .86454; the exact ε is no larger."""
    steps = dp_sgd(1.3, 3516, rate=256 / 60_000, prior=FREE)
    assert steps.epsilon(1e-5) == pytest.approx(0.864541, abs=2e-6)


def test_correlated_rows_are_refused():
    """Sampling correlated rows gains nothing (X₁ = … = X_n): it is refused, and what to do is said."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]], initial="stationary")
    for prior in (chain, [FREE, chain]):
        with pytest.raises(pf.Refused, match="M35"):
            poisson(Profile(1.0), 0.1, prior=prior)
        with pytest.raises(pf.Refused, match="correlated"):
            fixed_size(Profile(1.0), 1, 10, prior=prior)
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), prior=FREE)
    assert poisson(Profile(1.0), 0.1, prior=scenario).tv < 0.1
    for wrong in (None, "independent", [], 3):
        with pytest.raises(pf.UsageError, match="Independent"):
            dp_sgd(1.0, 10, rate=0.1, prior=wrong)
    for wrong in (
        lambda: poisson(Profile(1.0), 1.5, prior=FREE),
        lambda: fixed_size(Profile(1.0), 3, 2, prior=FREE),
    ):
        with pytest.raises(pf.UsageError):
            wrong()
    with pytest.raises(pf.UsageError, match="profile"):
        poisson(0.5, 0.1, prior=FREE)


def event(name, **attributes):
    """An event as dp-accounting makes it."""
    return type(name, (SimpleNamespace,), {})(**attributes)


GAUSSIAN = event("GaussianDpEvent", noise_multiplier=2.0)
PAIR = event("EpsilonDeltaDpEvent", epsilon=0.5, delta=0.01)
EVENTS = [
    (event("NoOpDpEvent"), "add_remove", [Profile(0.0)]),
    (event("NonPrivateDpEvent"), "add_remove", [Profile(0.0, 1.0)]),
    (GAUSSIAN, "add_remove", [Profile.of(pf.Gaussian(2.0))]),
    (GAUSSIAN, "replace", [Profile.of(pf.Gaussian(1.0))]),
    (event("LaplaceDpEvent", noise_multiplier=2.0), "replace", [Profile.of(pf.Laplace(1.0))]),
    (PAIR, "add_remove", [Profile(0.5, 0.01)]),
    (
        event("DiscreteLaplaceDpEvent", noise_parameter=0.7, sensitivity=1),
        "add_remove",
        [Profile(0.7)],
    ),
    (
        event("RandomizedResponseDpEvent", noise_parameter=0.5, num_buckets=2),
        "replace",
        [Profile(math.log(3))],
    ),
    (event("SelfComposedDpEvent", event=PAIR, count=3), "replace", [Profile(0.5, 0.01)] * 3),
    (
        event("ComposedDpEvent", events=[PAIR, PAIR, event("NoOpDpEvent")]),
        "replace",
        [Profile(0.5, 0.01)] * 2,
    ),
    (
        event("PoissonSampledDpEvent", sampling_probability=0.1, event=PAIR),
        "add_remove",
        [poisson(Profile(0.5, 0.01), 0.1, prior=FREE)],
    ),
    (
        event(
            "SampledWithoutReplacementDpEvent", source_dataset_size=10, sample_size=1, event=PAIR
        ),
        "replace",
        [fixed_size(Profile(0.5, 0.01), 1, 10, prior=FREE)],
    ),
]


@pytest.mark.parametrize(
    ("given", "neighbours", "profiles"), EVENTS, ids=lambda given: type(given).__name__
)
def test_events_are_their_profiles(given, neighbours, profiles):
    """Every event that is known tells what its profiles tell."""
    found, wanted = from_dp_event(given, neighbours), compose(profiles)
    for epsilon in (0.0, 0.2, 1.0):
        assert found.delta(epsilon) == pytest.approx(wanted.delta(epsilon), abs=1e-9)


def test_a_sample_that_is_asked_twice():
    """Events composed inside a sample see the same rows: they are one release."""
    twice = event("SelfComposedDpEvent", event=PAIR, count=2)
    found = from_dp_event(event("PoissonSampledDpEvent", sampling_probability=0.2, event=twice))
    p, q = tradeoffs.product([tradeoffs.worst_pair(0.5, 0.01, 1.0)] * 2)
    for epsilon in EPSILONS:
        truth = tradeoffs.hockey_stick(0.2 * p + 0.8 * q, q, epsilon)
        assert truth <= found.delta(epsilon) <= truth + 1e-4


def test_other_events_are_refused_by_name():
    """An event that is not known, or does not fit the neighbours, is refused by its name, wherever it stands."""
    for kind in ("UnsupportedDpEvent", "ZCDpEvent", "int"):
        unknown = 3 if kind == "int" else event(kind)
        with pytest.raises(pf.Refused, match=kind):
            from_dp_event(event("ComposedDpEvent", events=[PAIR, unknown]))
    with pytest.raises(pf.Refused, match="PoissonSampledDpEvent where a row is replaced"):
        from_dp_event(
            event("PoissonSampledDpEvent", sampling_probability=0.1, event=PAIR), "replace"
        )
    with pytest.raises(pf.Refused, match="RandomizedResponseDpEvent"):
        from_dp_event(event("RandomizedResponseDpEvent", noise_parameter=0.5, num_buckets=2))
    for wrong in (event("GaussianDpEvent"), event("GaussianDpEvent", noise_multiplier=math.nan)):
        with pytest.raises(pf.UsageError, match="noise_multiplier"):
            from_dp_event(wrong)
    with pytest.raises(pf.UsageError, match="The events of a ComposedDpEvent"):
        from_dp_event(event("ComposedDpEvent", events=None))
    with pytest.raises(pf.UsageError, match="neighbours"):
        from_dp_event(PAIR, "both")


@pytest.mark.slow
def test_erasure_scales_what_is_told():
    """A release that is withheld with probability a has (1 − a)·δ(ε) at every ε."""
    for profile in (
        Profile(1.0, 0.02, 0.3),
        Profile.of(pf.Laplace(1.0)),
        poisson(Profile(1.0), 0.3, prior=FREE),
    ):
        whole, less = compose(profile), compose(erased(profile, 0.4))
        for epsilon in (0.0, 0.2, 0.6):
            assert (
                0.6 * whole.delta(epsilon)
                <= less.delta(epsilon) * (1 + 1e-12)
                <= 0.6 * whole.delta(epsilon) + 1e-5
            )
