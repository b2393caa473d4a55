"""The loss to adversaries who know columns (Bayesian differential privacy, DCP's Definition 3), by enumeration."""

import itertools
import math

import numpy as np
import pytest
from confounded import THREE, channel, kept_bit, matrix, random_channel, random_table, xor_table
from thinned import thinned

import pufferflow as pf
from pufferflow.confounding import Additive, cost, cost_if_known

AXES = "abc"


def laws_given(joint, channels, known):
    """Yield what is known and P(outputs | s, known) with P(s | known), for every value of some axes."""
    for values in itertools.product(*(range(joint.shape[1 + axis]) for axis in known)):
        given = joint.copy()
        for axis, value in zip(known, values, strict=True):
            rest = np.arange(joint.shape[1 + axis]) != value
            given[(slice(None),) * (1 + axis) + (rest,)] = 0.0
        chances = given.sum(axis=(1, 2, 3))
        laws = given
        for one in channels:
            laws = np.tensordot(laws, matrix(one), axes=([1], [0]))
        if chances.sum() > 0:
            yield values, laws.reshape(len(joint), -1), chances


def stick(p, q, epsilon):
    return np.clip(p - math.exp(epsilon) * q, 0, None).sum()


def largest(joint, channels, epsilon, columns):
    """Return the largest δ over subsets of columns, values and pairs: both values fixed, and one of them drawn."""
    fixed, drawn, mixed = 0.0, 0.0, 0.0
    for size in range(len(columns) + 1):
        for subset in itertools.combinations([AXES.index(one) for one in columns], size):
            for _, laws, chances in laws_given(joint, channels, subset):
                possible = np.flatnonzero(chances > 0)
                own = {s: laws[s] / chances[s] for s in possible}
                weights = chances / chances.sum()
                fixed = max(
                    [
                        fixed,
                        *(
                            stick(own[s], own[t], epsilon)
                            for s, t in itertools.permutations(possible, 2)
                        ),
                    ]
                )
                for s in possible:
                    for turn in (1, -1):
                        each = [
                            weights[t] * stick(*(own[s], own[t])[::turn], epsilon) for t in possible
                        ]
                        drawn = max(drawn, sum(each))
                    mixture = sum(weights[t] * own[t] for t in possible)
                    mixed = max(
                        mixed, stick(own[s], mixture, epsilon), stick(mixture, own[s], epsilon)
                    )
    return fixed, drawn, mixed


@pytest.mark.parametrize(
    ("seed", "columns"),
    thinned(list(itertools.product(range(6), ["", "a", "bc", "abc"])), 0.25, unpack=True),
)
def test_losses_to_those_who_know_columns_are_those_of_enumeration(seed, columns):
    """δ and the pure loss are the largest over subsets, values and pairs, zeros of the table included."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, secrets=2 + seed % 2, sizes=(2, 3, 2), zeros=0.3 * (seed % 3))
    channels = [
        random_channel(rng, name, size, 2) for name, size in zip("abc", (2, 3, 2), strict=True)
    ]
    found = cost_if_known(table, channels, known=list(columns), secret="s")
    assert found.certainty() == "exact"
    for epsilon in (0.0, 0.3):
        fixed, drawn, mixed = largest(joint, channels, epsilon, columns)
        assert found.delta(epsilon) == pytest.approx(fixed, abs=1e-10)
        assert found.drawn.delta(epsilon) == pytest.approx(drawn, abs=1e-10)
        assert mixed - 1e-12 <= found.drawn.delta(epsilon) <= found.delta(epsilon)
    assert largest(joint, channels, found.pure + 1e-9, columns)[0] <= 1e-12
    assert found.pure == 0 or largest(joint, channels, found.pure - 1e-3, columns)[0] > 0
    allowed = found.drawn.epsilon(0.05)
    assert found.drawn.delta(allowed) <= 0.05 + 1e-12
    assert allowed == 0 or found.drawn.delta(allowed * 0.99) > 0.05


def test_nothing_known_is_the_cost_itself():
    """Without known columns every number is that of `cost`."""
    one = channel("x", [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]])
    found, plain = cost_if_known(THREE, one, known=[], secret="s"), cost(THREE, one)
    for name in ("pure", "tv", "attack_auc"):
        assert getattr(found, name) == getattr(plain, name)
    assert found.worst_known() == found.worst_known(0.1) == {}


def test_knowledge_adds_nothing_where_the_secret_fixes_the_data():
    """With an invertible map (DCP's Appendix A) the loss is the same, whatever else is known."""
    certain = pf.Table(
        {"s": [0, 1, 2], "a": [0, 1, 1], "b": [0, 0, 1], "probability": [0.5, 0.25, 0.25]}
    )
    releases = [kept_bit("a", 0.7), kept_bit("b", 0.8)]
    found, plain = cost_if_known(certain, releases), cost(certain, releases)
    assert (found.pure, found.delta(0.3), found.tv) == (plain.pure, plain.delta(0.3), plain.tv)


def test_knowledge_makes_losses_larger_or_smaller():
    """Half of an exclusive or reveals nothing, unless the other half is known; data that are known reveal nothing."""
    half = kept_bit("b", 0.75)
    assert cost(xor_table(), half, secret="s").pure == 0.0
    found = cost_if_known(xor_table(), half, secret="s")
    assert found.pure == pytest.approx(math.log(3), abs=1e-12)
    assert found.worst_known() == found.worst_known(0.1) == {"a": 0}
    assert found.drawn.delta(0.0) == pytest.approx(found.delta(0.0) / 2, abs=1e-12)
    read = cost_if_known(
        THREE, channel("x", [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]]), known="x", secret="s"
    )
    assert read.worst_known() == {}
    places = [at for at, known in enumerate(read.known) if known]
    assert [read.laws[at][1].pure for at in places] == [0.0] * 6


def test_averages_have_attacks_of_their_own():
    """The drawn laws have a trade-off and an AUC, no better for the attacker than those of the worst pair."""
    found = cost_if_known(xor_table(), [kept_bit("b", 0.75), kept_bit("a", 0.6)], secret="s")
    assert 0.5 < found.drawn.attack_auc < found.attack_auc
    assert (found.drawn.tradeoff([0.1, 0.3]) >= found.tradeoff([0.1, 0.3]) - 1e-12).all()
    assert found.drawn.pure == found.pure
    assert found.drawn.certainty() == found.drawn.certainty(0) == "exact"


def test_several_tables_and_scenarios():
    """Of several tables the worst counts; a scenario names the secret, and its pairs alone are hidden."""
    tables = [
        pf.Table({"s": [0, 0, 1, 1], "a": [0, 1, 0, 1], "b": [0, 1, 1, 0], "probability": list(p)})
        for p in ([0.25] * 4, [0.4, 0.1, 0.1, 0.4])
    ]
    half = kept_bit("b", 0.75)
    found = cost_if_known(tables, half, secret="s")
    assert found.pure == max(cost_if_known(one, half, secret="s").pure for one in tables)
    scenario = pf.Scenario(pf.Derived("s"), tables[0])
    assert cost_if_known(scenario, half).pure == found.pure
    three = pf.Table(
        {"s": [0, 1, 2], "a": [0, 0, 0], "b": [0, 1, 1], "probability": [0.5, 0.25, 0.25]}
    )
    paired = cost_if_known(three, half, secret=pf.Derived("s", values=[0, 1, 2], pairs=[(1, 2)]))
    assert paired.pure == 0.0


def test_noise_is_bounded_from_above():
    """With continuous noise the numbers are bounds, those of the known tables."""
    noise = Additive("b", pf.Laplace(1.0))
    found = cost_if_known(xor_table(), noise, secret="s")
    assert found.certainty() == "upper_bound"
    assert found.pure == pytest.approx(1.0, abs=1e-9)
    assert found.drawn.certainty() == "upper_bound"
    true = 1 - math.exp(-0.5)
    assert true / 2 - 1e-12 <= found.drawn.tv <= true / 2 + 1e-4


MISUSES = {
    "the secret": (lambda: cost_if_known(THREE, [kept("x")], known=["s"], secret="s"), "itself"),
    "no column": (
        lambda: cost_if_known(THREE, [kept("x")], known="y", secret="s"),
        "no column 'y'",
    ),
    "a number": (lambda: cost_if_known(THREE, [kept("x")], known=3, secret="s"), "known is 3"),
}


def kept(name):
    return channel(name, [[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]])


@pytest.mark.parametrize("name", MISUSES)
def test_misuses(name):
    """What cannot be known is refused by name."""
    call, problem = MISUSES[name]
    with pytest.raises(pf.UsageError) as error:
        call()
    assert problem in str(error.value)


def test_too_many_columns_are_refused():
    """All subsets of many columns are not enumerated; fewer are asked for."""
    names = [f"c{at}" for at in range(40)]
    table = pf.Table({"s": [0, 1], **{name: [0, 1] for name in names}, "probability": [0.5, 0.5]})
    with pytest.raises(pf.Refused, match="1099511627776 sets of known columns"):
        cost_if_known(table, kept_bit("c0", 0.7), secret="s")
    assert cost_if_known(table, kept_bit("c0", 0.7), known=names[:3], secret="s").pure > 0
