"""Rows that share a hidden class: totals are never below the truth, whichever rows releases have in common."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from answers import asked, close_above, cost, largest_ratio
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.rules import latent_class as stars
from pufferflow.accounting.rules.latent_class import StarRule
from pufferflow.distributions.markov import star as touches
from pufferflow.distributions.markov.star import class_leak

RULE = StarRule()


def scenario_of(weights, rows, *, derived=False):
    domain = list(range(len(rows[0])))
    secret = (
        pf.Derived("kind", column="level", domain=domain)
        if derived
        else pf.Secret("level", domain=domain)
    )
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
    return [
        cost(pf.Laplace(scale), values, rows=(len(some), size - len(some)))
        for some, values, scale in releases
    ]


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
    return (
        scenario,
        truth_of(weights, rows, size, releases, derived=derived),
        costs_of(size, releases),
    )


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
    """Two values that no release tells apart.

    What the class reveals about them is most where all rows asked are others.
    """
    secret = pf.Secret("level", domain=[0, 1, 2], pairs=[(0, 1)])
    prior = pf.LatentClass([0.3, 0.7], [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    scenario = pf.Scenario(secret=secret, prior=prior, within="house")
    left_out, none_left_out = (
        cost(pf.Laplace(9.0), [0, 0, 5], rows=(3, others)) for others in (2, 0)
    )
    known = pf.loss(
        pf.laws(scenario, pf.Statistic([1, 1, 1, 0, 0], [0, 0, 5])),
        pf.Laplace(9.0),
        pf.Pure,
        bound=pf.Messages(),
    )
    assert close_above(RULE.pure(asked(scenario, left_out)), known)
    assert RULE.pure(asked(scenario, none_left_out)) < known - 0.01


def test_disjoint_rows_may_tell_more_than_the_same_rows_twice():
    """Where answers saturate ten rows reveal more of the class than five twice; the total is above both."""
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


@pytest.mark.parametrize("seed", thinned(range(5), 0.4))
def test_order_does_not_matter_and_more_never_cost_less(seed):
    """Whatever the releases; up to rounding."""
    scenario, _, costs = random_case(seed)
    costs = [*costs, *costs[:1]]
    totals = [RULE.pure(asked(scenario, *costs[: n + 1])) for n in range(len(costs))]
    assert all(before <= after + 1e-12 for before, after in itertools.pairwise(totals))
    assert (
        len({round(RULE.pure(asked(scenario, *some)), 9) for some in itertools.permutations(costs)})
        == 1
    )


def test_very_many_releases_are_added_up_at_once():
    """Steps of a ladder stand for all numbers of touches between them: the total of 5000 is above that of 40."""
    scenario = scenario_of(WEIGHTS, ROWS)
    one = cost(pf.Laplace(500.0), [0, 1], rows=(3, 0))
    totals = [RULE.pure(asked(scenario, *[one] * many)) for many in (1, 15, 17, 40, 5000)]
    assert totals == sorted(totals)
    assert totals[-1] <= 10 + math.log(7.4)


def random_releases(seed):
    """Some releases of different questions, scales and numbers of rows about a group, and what classes there may be."""
    rng = np.random.default_rng(seed)
    points, classes, size = (
        int(rng.integers(2, 4)),
        int(rng.integers(2, 4)),
        int(rng.integers(2, 4)),
    )
    scenario = scenario_of(
        rng.dirichlet(np.ones(classes)).tolist(),
        rng.dirichlet(np.full(points, rng.choice([0.4, 2.0])), classes).tolist(),
        derived=bool(rng.integers(2)),
    )
    asked_about = [int(rng.integers(1, size + 1)) for _ in range(int(rng.integers(1, 4)))]
    return scenario, [
        cost(
            pf.Laplace(float(np.exp(rng.uniform(-1.5, 4)))),
            rng.integers(0, 3, points).tolist(),
            rows=(count, size - count),
        )
        for count in asked_about
    ]


def worst_arrangement(scenario, costs):
    """What messages say of the worst choice of rows for every release, each row with the releases that touch it."""
    star = stars.star_of(asked(scenario, *costs))
    size = costs[0].shape.rows.selected + costs[0].shape.rows.others
    choices = [list(itertools.combinations(range(size), one.shape.rows.selected)) for one in costs]
    found = []
    for chosen in itertools.product(*choices):
        losses = [
            sum(c.shape.exposure * (row in of) for c, of in zip(costs, chosen, strict=True))
            for row in range(size)
        ]
        told = class_leak(star.rows, np.array(losses))
        if star.of_group:
            found.append(star.loss_of_class(told.sum(axis=0)).max())
        else:
            found += [
                star.loss_of_row(losses[row], told.sum(axis=0) - told[row]).max()
                for row in range(size)
            ]
    return max(found)


def by_counts(scenario, costs):
    """The total where every touch is charged as if it were one of the release that tells most of a row."""
    star, times = stars.star_of(asked(scenario, *costs)), len(costs)
    most = np.max([one.shape.exposure for one in costs], axis=0)
    whole = np.sum([one.shape.exposure for one in costs], axis=0)
    limits = [np.minimum(most * count, whole) for count in range(times + 1)]
    each = np.max(
        [class_leak(star.rows, limits[count][None])[0] / count for count in range(1, times + 1)],
        axis=0,
    )
    touches = sum(one.shape.rows.selected for one in costs)
    if star.of_group:
        return star.loss_of_class(each * touches).max()
    first = int(all(one.shape.rows.others == 0 for one in costs))
    return max(
        star.loss_of_row(limits[own], each * (touches - own)).max()
        for own in range(first, times + 1)
    )


@pytest.mark.parametrize("seed", thinned(range(40), 0.25, slow=0.5))
def test_totals_lie_between_the_worst_rows_and_the_worst_release_many_times(seed):
    """Never below what messages say of any choice of rows, nor above as many touches of the release that tells most."""
    scenario, costs = random_releases(seed)
    total = RULE.pure(asked(scenario, *costs))
    assert (
        worst_arrangement(scenario, costs) - 1e-12
        <= total
        <= by_counts(scenario, costs) * (1 + 1e-9) + 1e-12
    )


@pytest.mark.parametrize("seed", range(12))
def test_without_a_linear_program_totals_hold_as_well(seed, monkeypatch):
    """Rates of larger accounts, tried on small ones: above the worst rows and the linear program, below counts."""
    scenario, costs = random_releases(seed)
    least = RULE.pure(asked(scenario, *costs))
    monkeypatch.setattr(touches, "_MOST_SETS", 0)
    more = RULE.pure(asked(scenario, *costs))
    monkeypatch.setattr(stars, "_MOST_SETS", 0)
    most = RULE.pure(asked(scenario, *costs))
    assert worst_arrangement(scenario, costs) - 1e-12 <= least <= more * (1 + 1e-9) + 1e-12
    assert more <= most * (1 + 1e-9) + 1e-12 <= by_counts(scenario, costs) * (1 + 1e-9) + 1e-11


@pytest.mark.parametrize("seed", thinned(range(8), 0.1))
def test_rates_cover_every_set_of_releases(seed):
    """Each way to charge touches says of any set, drawn at random from many releases, no less than the set tells."""
    rng = np.random.default_rng(seed)
    points = int(rng.integers(2, 5))
    laws = rng.dirichlet(np.full(points, rng.choice([0.3, 1.0, 4.0])), 2)
    tables = rng.integers(0, 3, (int(rng.integers(1, 5)), points)) * np.exp(
        rng.uniform(-5, 1, (1, 1))
    )
    tables[:, 0] = tables[:, 1:].max(axis=1) + rng.uniform(0.01, 1, len(tables))
    some = touches.Touches(
        np.abs(tables[:, :, None] - tables[:, None]),
        rng.integers(1, 60, len(tables)),
        np.ones(len(tables)),
    )
    ways = touches.Rates.of(some, laws).ways
    for _ in range(60):
        own = rng.integers(0, some.times + 1)
        told = class_leak(laws, some.sum(own)[None])[0]
        assert (np.tensordot(ways, own, (1, 0)) >= told * (1 - 1e-12) - 1e-12).all()


@pytest.mark.parametrize("exposure", [0.05, 0.07, 0.11])
def test_a_ladder_takes_no_step_too_far(exposure):
    """Where many touches of a row reveal more each than one does, rates are those of the worst number of touches."""
    laws, uniform = np.array([[0.3, 0.7], [0.02, 0.98]]), exposure * (1 - np.eye(2))
    exact = max(class_leak(laws, uniform[None] * count)[0][0, 1] / count for count in range(1, 151))
    ways = touches.Rates.of(
        touches.Touches(uniform[None], np.array([150]), np.array([150])), laws
    ).ways[1:, 0, 0, 1]
    assert exact > 1.2 * class_leak(laws, uniform[None])[0][0, 1]
    assert (exact * (1 - 1e-12) <= ways).all()
    assert (ways <= exact * 1.1).all()


def test_rows_that_many_releases_leave_out_learn_from_all_others():
    """Two values that no release tells apart: the worst row is one that none of twenty releases touches."""
    secret = pf.Secret("level", domain=[0, 1, 2], pairs=[(0, 1)])
    prior = pf.LatentClass([0.3, 0.7], [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    scenario = pf.Scenario(secret=secret, prior=prior, within="house")
    small, all_at_once = (cost(pf.Laplace(scale), [0, 0, 5], rows=(3, 2)) for scale in (180.0, 9.0))
    known = RULE.pure(asked(scenario, all_at_once))
    assert known <= RULE.pure(asked(scenario, *[small] * 20)) <= known * 1.1


@pytest.mark.parametrize("derived", [False, True])
def test_a_release_that_tells_nothing_of_rows_costs_nothing(derived):
    """A constant, however often, and a release about no row leave the total as it is, to the last digit."""
    scenario = scenario_of(WEIGHTS, ROWS, derived=derived)
    known = [cost(pf.Laplace(4.0), [0, 1], rows=(5, 0)), cost(pf.Laplace(9.0), [0, 1], rows=(5, 0))]
    total = RULE.pure(asked(scenario, *known))
    constant, nothing = (
        cost(pf.Laplace(0.01), [at, 1], rows=rows) for at, rows in ((1, (5, 0)), (0, (0, 0)))
    )
    assert (
        RULE.pure(asked(scenario, *known, *[constant] * 30))
        == RULE.pure(asked(scenario, *known, nothing))
        == total
    )
    assert RULE.pure(asked(scenario, constant)) == 0


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("values", [[0, 1, 2], [0, 0, 1]], ids=["the same", "another question"])
def test_a_release_of_little_costs_little(values, times):
    """A release with a hundred times more noise adds about a hundredth of another one, whatever it asks."""
    scenario = scenario_of(WEIGHTS, [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    known = [cost(pf.Laplace(10.0 * times), [0, 1, 2], rows=(5, 0))] * times
    small = cost(pf.Laplace(1000.0 * times), values, rows=(5, 0))
    before, after = RULE.pure(asked(scenario, *known)), RULE.pure(asked(scenario, *known, small))
    assert before <= after <= before * (1 + 0.025 / times)


@pytest.mark.parametrize("derived", [False, True])
def test_small_promises_and_constants_add_their_share(derived):
    """After a release at 1.0.

    A constant leaves the total at 1.0, a guarantee of 0.01 takes it to 1.01 or just above.
    """
    scenario = scenario_of(WEIGHTS, ROWS, derived=derived)
    batch = pf.protect(pl.DataFrame({"house": ["a"] * 6, "level": [0, 1] * 3}), scenario)
    first, small = (batch.private_sum("level").plan(pf.Pure(epsilon)) for epsilon in (1.0, 0.01))
    constant = batch.private_sum(pl.col("level") * 0 + 1).plan(pf.Pure(1.0))
    assert (
        pf.compose([first, constant], scenario).total == pf.compose([first], scenario).total == 1.0
    )
    assert 1.0 < pf.compose([first, small], scenario).total < 1.0105


@pytest.mark.parametrize("derived", [False, True])
def test_sizes_of_all_kinds_may_mix(derived):
    """A year of releases with three scales costs about what the sum of their exposures does at one scale."""
    scenario = scenario_of(WEIGHTS, [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], derived=derived)
    scales = [100.0, 200.0, 1000.0] * 120
    total = RULE.pure(
        asked(scenario, *[cost(pf.Laplace(one), [0, 1, 2], rows=(4, 0)) for one in scales])
    )
    alike = len(scales) / sum(1 / one for one in scales)
    known = RULE.pure(
        asked(scenario, *[cost(pf.Laplace(alike), [0, 1, 2], rows=(4, 0))] * len(scales))
    )
    assert known * 0.99 <= total <= known * 1.04


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_totals_grow_with_every_release_however_they_are_found(classes):
    """From a linear program to ladders, from sets of own releases to all at once; never less, whatever is added."""
    rng = np.random.default_rng(4)
    scenario = scenario_of(rng.dirichlet(np.ones(classes)), rng.dirichlet(np.ones(3), classes))
    kinds = [
        cost(
            pf.Laplace(float(np.exp(rng.uniform(1, 6)))),
            rng.integers(0, 3, 3),
            rows=(int(rng.integers(1, 5)), 1),
        )
        for _ in range(6)
    ]
    made = [*kinds[:1] * 2, *kinds[1:3], *(kinds[int(rng.integers(6))] for _ in range(16))]
    totals = [RULE.pure(asked(scenario, *made[:count])) for count in (*range(1, 9), 12, 16, 17, 20)]
    assert all(before <= after * (1 + 1e-9) + 1e-12 for before, after in itertools.pairwise(totals))
    assert RULE.pure(asked(scenario, *made[::-1])) == totals[-1]


def test_shared_columns_of_a_table_are_a_class():
    """A table with a column drawn once for the group is a latent class under another name."""
    masses = [w * p for w, law in zip([0.3, 0.7], ROWS, strict=True) for p in law]
    prior = pf.Table(
        {"kind": [0, 0, 1, 1], "level": [0, 1, 0, 1], "probability": masses}, shared="kind"
    )
    tabled = pf.Scenario(secret=pf.Secret("level", domain=[0, 1]), prior=prior, within="house")
    costs = [cost(pf.Laplace(3.0), [0, 1], rows=(4, 1), column="level")] * 2
    assert close_above(
        RULE.pure(asked(tabled, *costs)), RULE.pure(asked(scenario_of([0.3, 0.7], ROWS), *costs))
    )


def test_nothing_is_said_without_noise_or_of_other_priors():
    """Gaussian noise has no pure loss, and rows that share nothing are no star."""
    scenario = scenario_of(WEIGHTS, ROWS)
    free = pf.Scenario(secret=pf.Secret("level", domain=[0, 1]), prior=pf.Independent())
    for noise in (pf.Gaussian(1.0), pf.Laplace(0.0)):
        assert RULE.pure(asked(scenario, cost(noise, [0, 1], rows=(2, 0)))) == math.inf
    good = cost(pf.Laplace(1.0), [0, 1], rows=(2, 0))
    assert (
        RULE.pure(asked(free, good))
        == RULE.pure(asked(scenario, cost(pf.Laplace(1.0), [0, 1])))
        == math.inf
    )
    assert (
        RULE.pure(asked(scenario, good, cost(pf.Laplace(1.0), [0, 1, 2], rows=(2, 0)))) == math.inf
    )


def test_rows_that_only_a_silent_release_was_shown_count():
    """A row of another day tells the class of those that were counted, though nobody asked about it; exactly .6405."""
    prior = pf.LatentClass([0.3, 0.7], [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
    secret = pf.Secret("level", [0, 1, 2], pairs=[(0, 1)])
    scenario = pf.Scenario(secret, prior, within="house", public=["day"])

    def plan(days, asked):
        frame = pl.DataFrame({"day": days, "level": [0] * len(days), "house": [1] * len(days)})
        batch = pf.protect(frame, scenario).filter(pl.col("day") == asked)
        return batch.private_count(pl.col("level") == 2).plan(pf.Pure(0.5))

    one = plan([1, 1, 1], 1)
    assert pf.compose([one], scenario).total == pytest.approx(0.5)
    assert pf.compose([one, plan([1, 1, 1, 2, 2], 3)], scenario).total == pytest.approx(
        0.64046, abs=1e-5
    )
