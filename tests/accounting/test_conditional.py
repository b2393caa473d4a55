"""Parts of a row that are independent given the secret: their losses add, and only then."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from answers import asked, close_above, cost, largest_ratio

import pufferflow as pf
from pufferflow.accounting.rules.table import ConditionalRule, JointRule

RULE = ConditionalRule()


def scenario_of(masses):
    rows = list(itertools.product(*map(range, masses.shape)))
    names = ["s", *"abcd"][: masses.ndim]
    columns = {
        name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    return pf.Scenario(
        secret=pf.Derived("s"), prior=pf.Table({**columns, "probability": masses.ravel().tolist()})
    )


def product(rng, *sizes, exact=False):
    """Masses of a secret of two values and columns that are independent given it."""
    laws = [rng.integers(1, 9, (2, size)) for size in sizes]
    laws = [[[Fraction(int(n), int(sum(row))) for n in row] for row in law] for law in laws]
    masses = np.array(
        [
            [
                math.prod(law[s][i] for law, i in zip(laws, at, strict=True)) / 2
                for at in np.ndindex(*sizes)
            ]
            for s in (0, 1)
        ]
    ).reshape(2, *sizes)
    return masses if exact else masses.astype(float)


def costs_of(rng, scenario, *columns, noise=pf.Laplace, **fields):
    return [
        cost(noise(float(rng.uniform(0.5, 3))), [0, 2], scenario=scenario, column=column, **fields)
        for column in columns
    ]


def truth_of(masses, columns, costs):
    laws = np.asarray(masses, float).reshape(2, -1)
    places = np.indices(masses.shape[1:]).reshape(masses.ndim - 1, -1)
    sums = [2.0 * places["abcd".index(column)] for column in columns]
    return largest_ratio(
        laws / laws.sum(axis=1, keepdims=True), sums, [one.shape.noise.scale for one in costs]
    )


@pytest.mark.parametrize("exact", [False, True])
def test_pure_losses_of_parts_add_and_are_never_below_the_truth(exact):
    """For tables that are products given the secret, as Fractions or as floats."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        masses = product(rng, 2, 2, 2, exact=exact)
        scenario, columns = scenario_of(masses), rng.choice(list("abc"), 3).tolist()
        costs = costs_of(rng, scenario, *columns, promise=100.0)
        total = RULE.pure(asked(scenario, *costs))
        if len(set(columns)) == 1:
            assert total == math.inf
            continue
        parts = [
            JointRule().pure(asked(scenario, *(one for one in costs if one.shape.column == name)))
            for name in set(columns)
        ]
        assert close_above(total, sum(parts))
        assert truth_of(masses, columns, costs) - 1e-12 <= total


def test_a_promise_that_was_made_for_this_belief_counts_for_a_part():
    """A release that is the only one of its part costs its guarantee; one that was made for another prior does not."""
    rng = np.random.default_rng(2)
    scenario = scenario_of(product(rng, 2, 2))
    own = costs_of(rng, scenario, "a", "b", promise=0.01)
    other = costs_of(rng, None, "a", "b", promise=0.01)
    assert close_above(RULE.pure(asked(scenario, *own)), 0.02)
    assert RULE.pure(asked(scenario, *other)) > 0.1
    assert RULE.pure(asked(scenario, own[0], own[0], own[1])) > 0.02


def test_renyi_losses_of_parts_add():
    """Guarantees of one order, of two columns; of a column asked twice what its pure loss or its movement says."""
    rng = np.random.default_rng(3)
    scenario = scenario_of(product(rng, 2, 2))
    (first,), (second,) = (
        costs_of(rng, scenario, column, noise=pf.Gaussian, promise=pf.Renyi(3.0, 0.2))
        for column in "ab"
    )
    assert close_above(RULE.renyi(asked(scenario, first, second), 3.0), 0.4)
    assert RULE.renyi(asked(scenario, first, second), 4.0) == math.inf
    assert RULE.renyi(asked(scenario, first, first, second), 3.0) == math.inf
    assert RULE.pure(asked(scenario, first, second)) == math.inf
    moved = {asked(scenario).digest: 2.0}
    third = cost(
        pf.Gaussian(1.0),
        [0, 2],
        scenario=scenario,
        column="a",
        coupled_movements=moved,
        promise=pf.Renyi(3.0, 9.0),
    )
    assert close_above(RULE.renyi(asked(scenario, third, third, second), 3.0), 0.2 + 2 * 6.0)


def test_renyi_losses_add_release_by_release():
    """The first release of an independent column keeps its guarantee; any other counts by any two values of a row."""
    rng = np.random.default_rng(4)
    scenario = scenario_of(product(rng, 2, 2))
    a, b = costs_of(rng, scenario, "a", "b", promise=0.01, row_movement=2.0)
    own = pf.Pure(0.01).renyi_epsilon(2.0)
    any_two = [one.shape.noise.renyi(2.0, 2.0) for one in (a, b)]
    assert close_above(RULE.renyi(asked(scenario, a), 2.0), own)
    assert close_above(RULE.renyi(asked(scenario, a, b), 2.0), 2 * own)
    assert close_above(RULE.renyi(asked(scenario, a, a, b), 2.0), 2 * own + any_two[0])
    assert close_above(
        RULE.renyi(asked(scenario, a, b, b, a, b), 2.0), 2 * own + any_two[0] + 2 * any_two[1]
    )


def test_renyi_losses_of_a_column_that_depends_on_one_read_before_are_of_any_two_values():
    """XOR: the second coin is independent of the secret alone, and not of what was read before."""
    scenario = scenario_of(XOR)
    a, b = costs_of(np.random.default_rng(5), scenario, "a", "b", promise=0.0, row_movement=2.0)
    assert RULE.renyi(asked(scenario, a), 2.0) == 0
    assert close_above(RULE.renyi(asked(scenario, a, b), 2.0), b.shape.noise.renyi(2.0, 2.0))


@pytest.mark.slow
def test_renyi_totals_never_fall():
    """One more release never lowers the total, whatever it reads (z, z, x fell from 60.62 to 3.457)."""
    rng = np.random.default_rng(6)
    for _ in range(40):
        scenario = scenario_of(product(rng, 2, 2, 2) if rng.random() < 0.5 else XOR)
        columns = rng.choice(
            list("abc") if len(scenario.priors[0].names) > 3 else list("ab"), 5
        ).tolist()
        costs = costs_of(
            rng, scenario, *columns, promise=float(rng.uniform(0, 1)), row_movement=2.0
        )
        totals = [RULE.renyi(asked(scenario, *costs[:count]), 2.0) for count in range(1, 6)]
        assert totals == sorted(totals)


XOR = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]) / 4


def test_xor_is_not_independent():
    """Every coin alone is independent of the secret, but not of the other coin given it."""
    scenario = scenario_of(XOR)
    assert (
        RULE.pure(
            asked(scenario, *(cost(pf.Laplace(1.0), [0, 1], column=c, promise=0.0) for c in "ab"))
        )
        == math.inf
    )


def test_parts_that_are_independent_in_pairs_only_are_one():
    """Three coins whose parity is the secret: any two are independent, all three are not."""
    masses = (
        np.array(
            [
                [[[(i + j + k) % 2 == s for k in (0, 1)] for j in (0, 1)] for i in (0, 1)]
                for s in (0, 1)
            ]
        )
        / 8
    )
    scenario = scenario_of(masses)
    three = [cost(pf.Laplace(1.0), [0, 1], scenario=scenario, column=c, promise=0.0) for c in "abc"]
    assert RULE.pure(asked(scenario, *three)) == math.inf
    assert RULE.pure(asked(scenario, *three[:2])) == 0


def test_a_part_of_two_columns_stands_beside_a_free_one():
    """XOR of two columns, and a third that depends on the secret alone."""
    third = np.array([[0.75, 0.25], [0.25, 0.75]])
    masses = XOR[:, :, :, None] * third[:, None, None, :]
    scenario = scenario_of(masses)
    costs = [cost(pf.Laplace(2.0), [0, 2], column=c, promise=100.0) for c in "abc"]
    total = RULE.pure(asked(scenario, *costs))
    assert close_above(
        total,
        JointRule().pure(asked(scenario, *costs[:2])) + JointRule().pure(asked(scenario, costs[2])),
    )
    assert truth_of(masses, "abc", costs) <= total + 1e-12


def test_a_part_that_no_pair_gives_away_stands_beside_a_free_one():
    """Three coins of one parity, and a fourth column: two parts, and both count."""
    parity = (
        np.array(
            [
                [[[(i + j + k) % 2 == s for k in (0, 1)] for j in (0, 1)] for i in (0, 1)]
                for s in (0, 1)
            ]
        )
        / 8
    )
    masses = parity[..., None] * np.array([[0.75, 0.25], [0.25, 0.75]])[:, None, None, None, :]
    costs = [cost(pf.Laplace(2.0), [0, 2], column=c, promise=100.0) for c in "abcd"]
    total = RULE.pure(asked(scenario_of(masses), *costs))
    assert truth_of(masses, "abcd", costs) - 1e-12 <= total < 2.0


@pytest.mark.parametrize("change", [1e-9, 1e-15])
def test_nearly_independent_is_not_independent_unless_rounding_explains_it(change):
    """A change of 1e-9 is a dependence; one of a few units in the last place is added to the total."""
    masses = product(np.random.default_rng(5), 2, 2)
    masses[0] += np.array([[change, -change], [-change, change]])
    scenario = scenario_of(masses)
    total = RULE.pure(asked(scenario, *(cost(pf.Laplace(1.0), [0, 0], column=c) for c in "ab")))
    assert total == math.inf if change > 1e-12 else 0 < total < 1e-12


def test_what_cannot_occur_together_is_dependent_however_unlikely():
    """Two values of 1e-15 each that exclude each other: no ratio bounds that, though all others are nearly 1."""
    rare = 2.0**-50
    one = np.array([[1 - 2 * rare, rare], [rare, 0.0]])
    scenario = scenario_of(np.array([one / 2, np.full((2, 2), 1 / 8)]))
    assert (
        RULE.pure(asked(scenario, *(cost(pf.Laplace(1.0), [0, 1], column=c) for c in "ab")))
        == math.inf
    )


def test_order_does_not_matter():
    """Whatever the releases."""
    rng = np.random.default_rng(6)
    scenario = scenario_of(product(rng, 2, 2, 2))
    costs = costs_of(rng, scenario, "a", "b", "b", "c", promise=100.0)
    assert (
        len(
            {round(RULE.pure(asked(scenario, *some)), 10) for some in itertools.permutations(costs)}
        )
        == 1
    )


def test_nothing_is_said_of_other_priors():
    """Only a table says what is independent given the secret."""
    free = pf.Scenario(secret=pf.Secret("a", domain=[0, 1]), prior=pf.Independent())
    assert (
        RULE.pure(asked(free, *(cost(pf.Laplace(1.0), [0, 1], column=c) for c in "ab"))) == math.inf
    )
    assert (
        RULE.renyi(asked(free, *(cost(pf.Laplace(1.0), [0, 1], column=c) for c in "ab")), 2.0)
        == math.inf
    )
