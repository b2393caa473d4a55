"""Releases about one row of a table: never below the truth over all outputs, and XOR is found out."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from answers import asked, close_above, cost, largest_ratio
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.rules import table as joint
from pufferflow.accounting.rules.table import JointRule

RULE = JointRule()


def table(masses, **options):
    """A table of a secret s and columns a, b, c, … from an array of masses; exact ones stay so."""
    rows = list(itertools.product(*map(range, masses.shape)))
    names = ["s", "a", "b", "c"][: masses.ndim]
    columns = {
        name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    return pf.Table({**columns, "probability": masses.ravel().tolist()}, **options)


def scenario_of(masses, **options):
    return pf.Scenario(secret=pf.Derived("s"), prior=table(masses, **options), public=["day"])


def random_masses(rng, shape, *, exact=False):
    weights = rng.integers(1, 20, shape) * (rng.random(shape) < 0.8)
    weights[(slice(None), *([0] * (len(shape) - 1)))] += 1
    if not exact:
        return weights / weights.sum()
    return np.array(
        [Fraction(int(w), int(weights.sum())) for w in weights.ravel()], dtype=object
    ).reshape(shape)


def truth_of(masses, releases):
    """The largest log ratio of all answers together; `releases` are (axis of the column, values, scale)."""
    laws = np.asarray(masses, float).reshape(len(masses), -1)
    laws = laws / laws.sum(axis=1, keepdims=True)
    places = np.indices(masses.shape[1:]).reshape(masses.ndim - 1, -1)
    sums = [np.asarray(values)[places[axis]] for axis, values, _ in releases]
    return largest_ratio(laws, sums, [scale for _, _, scale in releases])


def costs_of(releases, **fields):
    return [
        cost(pf.Laplace(scale), values, column="abc"[axis], **fields)
        for axis, values, scale in releases
    ]


def random_releases(rng, masses, count):
    axes = rng.integers(0, masses.ndim - 1, count)
    return [
        (
            int(axis),
            rng.integers(-2, 4, masses.shape[1 + axis]).astype(float),
            float(rng.uniform(0.4, 3)),
        )
        for axis in axes
    ]


XOR = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]) / 4


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 2), (3, 2, 3), (2, 2, 2, 2)])
def test_totals_are_never_below_the_truth(shape, exact):
    """Against every output on the grid of atoms, for random tables, columns, functions and scales."""
    rng = np.random.default_rng(sum(shape))
    for _ in range(15):
        masses = random_masses(rng, shape, exact=exact)
        releases = random_releases(rng, masses, int(rng.integers(1, 5)))
        total = RULE.pure(asked(scenario_of(masses), *costs_of(releases)))
        worst = sum(np.ptp(values) / scale for _, values, scale in releases)
        assert truth_of(masses, releases) - 1e-12 <= total <= worst + 1e-9


def test_two_valued_columns_cost_exactly_what_they_tell():
    """A row of two values and one release of it: g's maximum is attained in the tails."""
    masses = np.array([[0.35, 0.15], [0.2, 0.3]])
    releases = [(0, [0.0, 1.0], 0.7), (0, [0.0, 2.0], 1.3)]
    assert close_above(
        RULE.pure(asked(scenario_of(masses), *costs_of(releases))), truth_of(masses, releases)
    )


def test_other_noises_are_added_up_too():
    """Laplace, generalized Cauchy and staircase noise in one total, against outputs on a fine grid."""
    masses = np.array([[[0.3, 0.1], [0.05, 0.15]], [[0.1, 0.1], [0.1, 0.1]]])
    noises = [pf.Laplace(1.0), pf.GeneralizedCauchy(1.5, 4), pf.Staircase(1.0, 0.7)]
    columns = ["a", "b", "b"]
    total = RULE.pure(
        asked(
            scenario_of(masses),
            *(cost(n, [0, 1], column=c) for n, c in zip(noises, columns, strict=True)),
        )
    )
    laws = masses.reshape(2, 4) / masses.sum(axis=(1, 2))[:, None]
    places = np.indices((2, 2)).reshape(2, 4)
    outputs = np.array(list(itertools.product(np.linspace(-6, 7, 40), repeat=3)))
    logs = sum(
        noise.logpdf(outputs[:, [k]] - places["ab".index(column)][None])
        for k, (noise, column) in enumerate(zip(noises, columns, strict=True))
    )
    likelihoods = np.exp(logs) @ laws.T
    truth = float(np.abs(np.log(likelihoods[:, 0] / likelihoods[:, 1])).max())
    alone = max(RULE.pure(asked(scenario_of(masses), cost(n, [0, 1], column="b"))) for n in noises)
    assert max(truth, alone) <= total <= sum(float(noise.pure(1.0)) for noise in noises) + 1e-9


def test_xor_is_found_out():
    """Each coin alone costs nothing, without any noise; together they reveal the secret."""
    first, second = (
        cost(pf.Laplace(0.0), [0, 1], column="a"),
        cost(pf.Laplace(0.0), [0, 1], column="b"),
    )
    scenario = scenario_of(XOR)
    assert RULE.pure(asked(scenario, first)) == RULE.pure(asked(scenario, second)) == 0
    assert RULE.pure(asked(scenario, first, first)) == 0
    assert RULE.pure(asked(scenario, first, second)) == math.inf
    assert RULE.fixed(asked(scenario, first, first), pf.Renyi.of(alpha=2)) == 0
    assert RULE.fixed(asked(scenario, first, second), pf.Renyi.of(alpha=2)) == math.inf


def test_xor_with_one_noisy_coin_costs_what_the_noise_lets_through():
    """The other coin known, the noisy one is the secret."""
    first, second = (
        cost(pf.Laplace(0.0), [0, 1], column="a"),
        cost(pf.Laplace(2.0), [0, 1], column="b"),
    )
    scenario = scenario_of(XOR)
    assert close_above(RULE.pure(asked(scenario, first, second)), 0.5)
    assert close_above(
        RULE.fixed(asked(scenario, first, second), pf.Renyi.of(alpha=3)),
        pf.Laplace(2.0).renyi(1, 3),
    )
    assert RULE.pure(asked(scenario, second, second)) == 0


def test_an_answer_without_noise_must_not_tell_anything_itself():
    """However little its law moves: only the prior would hide the secret then."""
    masses = np.array([[0.26, 0.24], [0.25, 0.25]])
    assert (
        RULE.pure(asked(scenario_of(masses), cost(pf.Laplace(0.0), [0, 1], column="a"))) == math.inf
    )
    assert (
        RULE.pure(asked(scenario_of(masses), cost(pf.Gaussian(1.0), [0, 1], column="a")))
        == math.inf
    )


@pytest.mark.parametrize("exact", [False, True])
def test_shares_that_differ_by_rounding_only_are_counted_not_refused(exact):
    """Floats that should be equal may not be: what they differ by is added. Rational ones have to be equal."""
    little = Fraction(1, 2**50) if exact else 2.0**-50
    half = Fraction(1, 2) if exact else 0.5
    masses = np.array(
        [[half / 2, half / 2], [half * (half + little), half * (half - little)]], dtype=object
    )
    total = RULE.pure(
        asked(scenario_of(masses if exact else masses.astype(float)), cost(pf.Laplace(0.0), [0, 1]))
    )
    assert total == math.inf if exact else 2.0**-50 < total < 2.0**-45


@pytest.mark.parametrize("seed", thinned(range(3), 0.33))
def test_order_does_not_matter_and_more_never_cost_less(seed):
    """Whatever the releases."""
    rng = np.random.default_rng(seed)
    for _ in range(2):
        masses = random_masses(rng, (2, 2, 3))
        costs = costs_of(random_releases(rng, masses, 4))
        totals = [RULE.pure(asked(scenario_of(masses), *costs[: n + 1])) for n in range(4)]
        assert all(before <= after + 1e-12 for before, after in itertools.pairwise(totals))
        found = {
            round(RULE.pure(asked(scenario_of(masses), *some)), 10)
            for some in itertools.permutations(costs)
        }
        assert len(found) == 1


def test_one_release_costs_no_more_than_its_own_promise():
    """What calibration found for it with the bounds that composition uses as well."""
    masses = np.random.default_rng(4).dirichlet(np.ones(8)).reshape(2, 4)
    scenario = scenario_of(masses)
    pairs = pf.laws(scenario, pf.Statistic.total(1, [0, 1, 2, 5], column="a"))
    noise = pf.calibrate(pairs, pf.Pure(0.8)).noise
    assert RULE.pure(asked(scenario, cost(noise, [0, 1, 2, 5], column="a"))) <= 0.8 + 1e-8


def test_points_beyond_what_messages_carry_are_bounded_by_the_group(monkeypatch):
    """Where there are too many points for g every point may become every other one (M7), which is no less."""
    masses = random_masses(np.random.default_rng(5), (2, 3, 3))
    costs = costs_of([(0, [0.0, 1.0, 2.0], 1.0), (1, [0.0, 3.0, 1.0], 2.0)])
    fine = RULE.pure(asked(scenario_of(masses), *costs))
    monkeypatch.setattr(joint, "_MOST_STATES", 1)
    assert fine <= RULE.pure(asked(scenario_of(masses), *costs)) <= 3.5 + 1e-9
    monkeypatch.setattr(joint, "_MOST_POINTS", 1)
    assert RULE.pure(asked(scenario_of(masses), *costs)) == math.inf


def test_a_mass_too_small_for_floats_does_not_vanish():
    """A value that one secret has once in 10⁴⁰⁰ draws costs the whole movement."""
    tiny = Fraction(1, 10**400)
    masses = np.array([[Fraction(1, 2), Fraction(0)], [Fraction(1, 2) - tiny, tiny]], dtype=object)
    assert close_above(RULE.pure(asked(scenario_of(masses), cost(pf.Laplace(1.0), [0, 50]))), 50.0)


def test_renyi_totals_of_queries_fixed_beforehand_are_above_the_truth():
    """A vector with Laplace noise: the divergence by quadrature, below what couplings give."""
    masses = np.array([[[0.3, 0.1], [0.05, 0.15]], [[0.1, 0.1], [0.1, 0.1]]])
    costs = [cost(pf.Laplace(1.0), [0, 1], column="a"), cost(pf.Laplace(2.0), [0, 1], column="b")]
    total = RULE.fixed(asked(scenario_of(masses), *costs), pf.Renyi.of(alpha=2))
    first, second = np.meshgrid(np.linspace(-14, 15, 300), np.linspace(-28, 29, 300), indexing="ij")
    laws = masses.reshape(2, 4) / masses.sum(axis=(1, 2))[:, None]
    each = [np.exp(-np.abs(first - a) - np.abs(second - b) / 2) / 8 for a in (0, 1) for b in (0, 1)]
    mu, nu = (sum(w * one for w, one in zip(law, each, strict=True)) for law in laws)
    area = 29 / 299 * 57 / 299
    truth = max(math.log((p * p / q).sum() * area) for p, q in ((mu, nu), (nu, mu)))
    assert truth * 0.999 < total < pf.Laplace(1.0).renyi(1, 2) + pf.Laplace(2.0).renyi(1, 2) + 1e-9


def test_every_repetition_counts():
    """Three times the same release is one with a third of the noise, for pure losses and for fixed queries."""
    scenario = scenario_of(np.array([[0.3, 0.2], [0.1, 0.4]]))
    thrice = asked(scenario, *[cost(pf.Laplace(3.0), [0, 1], column="a")] * 3)
    once = asked(scenario, cost(pf.Laplace(1.0), [0, 1], column="a"))
    assert close_above(RULE.pure(thrice), RULE.pure(once))
    four, one = (
        asked(scenario, *[cost(pf.Gaussian(scale), [0, 1], column="a")] * times)
        for times, scale in ((4, 2.0), (1, 1.0))
    )
    kind = pf.Renyi.of(alpha=3)
    assert RULE.fixed(four, kind) == pytest.approx(RULE.fixed(one, kind))


def test_vectors_of_several_noises_or_of_many_answers_are_not_looked_through():
    """Mixed families have no norm in common; pure totals do not need one."""
    scenario = scenario_of(XOR)
    mixed = [
        cost(pf.Laplace(1.0), [0, 1], column="a"),
        cost(pf.GeneralizedCauchy(1.0), [0, 1], column="b"),
    ]
    assert RULE.fixed(asked(scenario, *mixed), pf.Renyi.of(alpha=2)) == math.inf
    assert RULE.fixed(asked(scenario, *mixed[:1] * 2000), pf.Renyi.of(alpha=2)) == math.inf
    assert math.isfinite(RULE.pure(asked(scenario, *mixed)))


def test_a_reference_is_a_table():
    """pf.Empirical, whose released column need not be named."""
    people = pf.Reference("people", {"ill": ["no", "no", "yes", "yes"], "score": [0, 1, 1, 2]})
    prior = pf.Empirical(people, secret="ill", released="score")
    scenario = pf.Scenario(secret=pf.Derived("ill"), prior=prior)
    total = RULE.pure(
        asked(scenario, cost(pf.Laplace(2.0), [0, 1, 2]), cost(pf.Laplace(4.0), [0, 1, 2]))
    )
    truth = largest_ratio([[0.5, 0.5, 0], [0, 0.5, 0.5]], [[0, 1, 2]] * 2, [2.0, 4.0])
    assert truth - 1e-12 <= total <= 0.75 + 1e-9


def test_the_secret_itself_may_be_read():
    """A row's value that is asked about directly, and through what depends on it."""
    masses = np.array([[0.4, 0.1], [0.1, 0.4]])
    scenario = pf.Scenario(secret=pf.Secret("s", domain=[0, 1]), prior=table(masses))
    costs = [cost(pf.Laplace(2.0), [0, 1], column="s"), cost(pf.Laplace(1.0), [0, 1], column="a")]
    laws = [[0.8, 0.2, 0, 0], [0, 0, 0.2, 0.8]]
    truth = largest_ratio(laws, [[0, 0, 1, 1], [0, 1, 0, 1]], [2.0, 1.0])
    assert close_above(RULE.pure(asked(scenario, *costs)), truth)


def test_nothing_is_said_of_other_priors_nor_of_unknown_columns():
    """Shared columns tie rows together; a column that the table does not have has no law."""
    one = cost(pf.Laplace(1.0), [0, 1], column="a")
    free = pf.Scenario(secret=pf.Secret("a", domain=[0, 1]), prior=pf.Independent())
    assert RULE.pure(asked(scenario_of(XOR, shared="s"), one)) == math.inf
    assert RULE.pure(asked(free, one)) == math.inf
    assert RULE.pure(asked(scenario_of(XOR), cost(pf.Laplace(1.0), [0, 1], column="z"))) == math.inf
    assert (
        RULE.pure(asked(scenario_of(XOR), cost(pf.Laplace(1.0), [0, 1, 2], column="a"))) == math.inf
    )
