"""Rows that share a hidden class: totals are never below the truth, whichever rows releases have in common."""

import itertools
import math

import numpy as np
import pytest
from answers import asked, close_above, cost, largest_ratio

import pufferflow as pf
from pufferflow.composition import stars
from pufferflow.composition.stars import Stars

RULE = Stars()


def scenario_of(weights, rows, *, derived=False):
    domain = list(range(len(rows[0])))
    secret = pf.Derived("kind", column="level", domain=domain) if derived else pf.Secret("level", domain=domain)
    return pf.Scenario(secret=secret, prior=pf.LatentClass(weights, rows), within="house")


def truth_of(weights, rows, size, releases, *, derived=False):
    """The largest log ratio of all answers; `releases` are (rows asked about, values, scale)."""
    weights, rows = np.asarray(weights, float), np.asarray(rows, float)
    paths = np.array(list(itertools.product(range(rows.shape[1]), repeat=size)))
    given = np.array([np.prod(law[paths], axis=1) for law in rows])
    sums = [np.asarray(values, float)[paths[:, some]].sum(axis=1) for some, values, _ in releases]
    scales = [scale for *_, scale in releases]
    if derived:
        return largest_ratio(given, sums, scales)
    joint = weights @ given
    worst = 0.0
    for row in range(size):
        laws = [np.where(paths[:, row] == point, joint, 0.0) for point in range(rows.shape[1])]
        worst = max(worst, largest_ratio([law / law.sum() for law in laws], sums, scales))
    return worst


def costs_of(size, releases):
    return [cost(pf.Laplace(scale), values, rows=(len(some), size - len(some))) for some, values, scale in releases]


def random_case(seed, *, derived=False):
    rng = np.random.default_rng(seed)
    points, size = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    weights, rows = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(points), 2)
    releases = [
        (
            sorted(rng.choice(size, int(rng.integers(1, size + 1)), replace=False).tolist()),
            rng.integers(-2, 3, points).tolist(),
            float(rng.uniform(0.5, 3)),
        )
        for _ in range(int(rng.integers(1, 4)))
    ]
    scenario = scenario_of(weights.tolist(), rows.tolist(), derived=derived)
    return scenario, truth_of(weights, rows, size, releases, derived=derived), costs_of(size, releases)


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_totals_are_never_below_the_truth(seed, derived):
    """Releases about random rows, of random functions and scales, the secret being a row's value or the class."""
    scenario, truth, costs = random_case(seed, derived=derived)
    assert truth <= RULE.pure(asked(scenario, *costs)) + 1e-12


WEIGHTS, ROWS = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]


@pytest.mark.parametrize("size", [1, 3, 6])
def test_one_release_of_two_valued_rows_costs_what_it_tells(size):
    """A count has its largest ratio in the tails, where messages are exact."""
    releases = [(list(range(size)), [0, 1], 4.0)]
    total = RULE.pure(asked(scenario_of(WEIGHTS, ROWS), *costs_of(size, releases)))
    assert close_above(total, truth_of(WEIGHTS, ROWS, size, releases))


def test_one_release_costs_what_calibration_says():
    """The same messages as those of the bound, where all rows weigh alike."""
    scenario = scenario_of([0.3, 0.7], [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    for asked_about, others in ((5, 0), (3, 2)):
        statistic = pf.Statistic([1.0] * asked_about + [0.0] * others, [0, 1, 5])
        known = pf.loss(pf.laws(scenario, statistic), pf.Laplace(9.0), pf.Pure, bound=pf.Messages())
        one = cost(pf.Laplace(9.0), [0, 1, 5], rows=(asked_about, others))
        assert close_above(RULE.pure(asked(scenario, one)), known)


def test_a_row_that_is_left_out_learns_from_all_others():
    """Two values that no release tells apart: what the class tells of them is most where all rows asked are others."""
    secret = pf.Secret("level", domain=[0, 1, 2], pairs=[(0, 1)])
    prior = pf.LatentClass([0.3, 0.7], [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    scenario = pf.Scenario(secret=secret, prior=prior, within="house")
    left_out, none_left_out = (cost(pf.Laplace(9.0), [0, 0, 5], rows=(3, others)) for others in (2, 0))
    known = pf.loss(
        pf.laws(scenario, pf.Statistic([1, 1, 1, 0, 0], [0, 0, 5])), pf.Laplace(9.0), pf.Pure, bound=pf.Messages()
    )
    assert close_above(RULE.pure(asked(scenario, left_out)), known)
    assert RULE.pure(asked(scenario, none_left_out)) < known - 0.01


def test_disjoint_rows_may_tell_more_than_the_same_rows_twice():
    """Where answers saturate ten rows tell more of the class than five twice; the total is above both."""
    scenario = scenario_of(WEIGHTS, ROWS)
    same = [([0, 1], [0, 1], 0.5)] * 2
    apart = [([0, 1], [0, 1], 0.5), ([2, 3], [0, 1], 0.5)]
    truths = [truth_of(WEIGHTS, ROWS, 4, releases) for releases in (same, apart)]
    totals = [RULE.pure(asked(scenario, *costs_of(4, releases))) for releases in (same, apart)]
    assert truths[0] > 0
    assert totals[0] == totals[1] >= max(truths)


def test_bits_that_tell_nothing_alone_are_found_out():
    """Two bits of a row, both fair in either class, whose parity is the class (XOR within a row)."""
    rows = [[0.5, 0.0, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0]]
    scenario = scenario_of([0.5, 0.5], rows, derived=True)
    releases = [([0], [0, 0, 1, 1], 0.5), ([0], [0, 1, 0, 1], 0.5)]
    truth = truth_of([0.5, 0.5], rows, 1, releases, derived=True)
    assert truth > 0.5
    assert RULE.pure(asked(scenario, *costs_of(1, releases))) >= truth - 1e-12
    assert RULE.pure(asked(scenario, *costs_of(1, releases[:1]))) < 1e-11


def test_order_does_not_matter_and_more_never_cost_less():
    """Whatever the releases; up to rounding."""
    for seed in range(5):
        scenario, _, costs = random_case(seed)
        costs = [*costs, *costs[:1]]
        totals = [RULE.pure(asked(scenario, *costs[: n + 1])) for n in range(len(costs))]
        assert all(before <= after + 1e-12 for before, after in itertools.pairwise(totals))
        assert len({round(RULE.pure(asked(scenario, *some)), 9) for some in itertools.permutations(costs)}) == 1


def test_very_many_releases_are_added_up_at_once():
    """Steps of a ladder stand for all numbers of touches between them: the total of 5000 is above that of 40."""
    scenario = scenario_of(WEIGHTS, ROWS)
    one = cost(pf.Laplace(500.0), [0, 1], rows=(3, 0))
    totals = [RULE.pure(asked(scenario, *[one] * many)) for many in (1, 15, 17, 40, 5000)]
    assert totals == sorted(totals)
    assert totals[-1] <= 10 + math.log(7.4)


def test_a_ladder_takes_no_step_too_far(monkeypatch):
    """Whatever its growth, the largest g(j·ℓ)/j over all j is not above what the ladder finds."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        law = rng.dirichlet(np.full(4, 0.3), 3)
        one = cost(pf.Laplace(4.0), rng.integers(0, 3, 4), rng.integers(0, 3, 4), rows=(1, 0))
        touches = stars.Touches.of([one] * 40)
        monkeypatch.setattr(stars, "_MOST_TOUCHES", 60)
        exact = touches.of_class(law)
        monkeypatch.setattr(stars, "_MOST_TOUCHES", 1)
        monkeypatch.setattr(stars, "_GROWTH", 3.0)
        assert (touches.of_class(law) >= exact * (1 - 1e-12)).all()


def test_shared_columns_of_a_table_are_a_class():
    """A table with a column drawn once for the group is a latent class under another name."""
    masses = [w * p for w, law in zip([0.3, 0.7], ROWS, strict=True) for p in law]
    prior = pf.Table({"kind": [0, 0, 1, 1], "level": [0, 1, 0, 1], "probability": masses}, shared="kind")
    tabled = pf.Scenario(secret=pf.Secret("level", domain=[0, 1]), prior=prior, within="house")
    costs = [cost(pf.Laplace(3.0), [0, 1], rows=(4, 1), column="level")] * 2
    assert close_above(RULE.pure(asked(tabled, *costs)), RULE.pure(asked(scenario_of([0.3, 0.7], ROWS), *costs)))


def test_nothing_is_said_without_noise_or_of_other_priors():
    """Gaussian noise has no pure loss, and rows that share nothing are no star."""
    scenario = scenario_of(WEIGHTS, ROWS)
    free = pf.Scenario(secret=pf.Secret("level", domain=[0, 1]), prior=pf.Independent())
    for noise in (pf.Gaussian(1.0), pf.Laplace(0.0)):
        assert RULE.pure(asked(scenario, cost(noise, [0, 1], rows=(2, 0)))) == math.inf
    good = cost(pf.Laplace(1.0), [0, 1], rows=(2, 0))
    assert RULE.pure(asked(free, good)) == RULE.pure(asked(scenario, cost(pf.Laplace(1.0), [0, 1]))) == math.inf
    assert RULE.pure(asked(scenario, good, cost(pf.Laplace(1.0), [0, 1, 2], rows=(2, 0)))) == math.inf
