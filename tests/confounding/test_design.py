"""The best next release: against reference values, another program, additive noise, and exact arithmetic (M32)."""

import importlib
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy
from confounded import FIRST, THREE, channel, kept_bit, random_channel, random_table, xor_table
from thinned import thinned

import pufferflow as pf
from pufferflow.confounding import Additive, Channel, cost, design

REFERENCE = [
    (0.1, 0.0, False, 0.6184013209),
    (0.2, 0.0, False, 0.5372089421125721),
    (0.2, 0.0, True, 0.676097180611),
    (0.5, 0.0, False, 0.2999661847406083),
    (0.5, 0.0, True, 0.4064102318638596),
    (0.5, 0.05, False, 0.21187336202104107),
    (0.5, 0.05, True, 0.21187336202104107),
    (0.8, 0.0, False, 0.07941669498313257),
    (0.8, 0.0, True, 0.10749567905958766),
    (1.2, 0.0, True, 0.0),
]


def promise(epsilon, delta):
    return pf.Approx(epsilon, delta) if delta else pf.Pure(epsilon)


@pytest.mark.parametrize(("epsilon", "delta", "after", "error"), REFERENCE)
def test_the_example_of_task_one(epsilon, delta, after, error):
    """The least errors of M32, alone and after the first release; what is designed keeps the guarantee exactly."""
    past, wanted = [FIRST] if after else [], promise(epsilon, delta)
    found = design(THREE, past, wanted, secret="s")
    assert found.expected_loss == pytest.approx(error, abs=1e-9)
    assert cost(THREE, [*past, found.channel]).keeps(wanted)
    assert keeps_in_fractions([THREE], past, found.channel, wanted)


def test_the_second_half_of_an_exclusive_or():
    """After one bit is out, the other can be published with an error of 1/(1 + e^ε): alone it would be free."""
    plain = Channel.revealing("a", [0, 1])
    found = design(xor_table(), plain, pf.Pure(0.5), "zero-one", secret="s", query="b")
    assert found.expected_loss == pytest.approx(1 / (1 + math.exp(0.5)), abs=1e-9)
    assert (
        design(xor_table(), [], pf.Pure(0.0), "zero-one", secret="s", query="b").expected_loss == 0
    )


def laws_in_fractions(table, releases):
    """Return P(outputs | s) for every s, in rational numbers, by going through all cells and outputs."""
    laws = {}
    for cell, mass in zip(
        table.cells and zip(*table.cells, strict=True), table.probabilities, strict=True
    ):
        row = dict(zip(table.names, cell, strict=True))
        reads = [
            one.probabilities[one.place(tuple(row[name] for name in one.reads))] for one in releases
        ]
        law = laws.setdefault(row["s"], {})
        for outputs in itertools.product(*(range(len(one)) for one in reads)):
            chance = Fraction(str(mass)) if isinstance(mass, float) else mass
            for own, at in zip(reads, outputs, strict=True):
                chance *= own[at]
            law[outputs] = law.get(outputs, 0) + chance
    return [{at: p / sum(law.values()) for at, p in law.items()} for law in laws.values()]


def keeps_in_fractions(tables, past, added, wanted):
    """Return whether a guarantee is kept exactly, e^ε being replaced by a rational number next below it."""
    with mpmath.workdps(60):
        below = Fraction(str(mpmath.exp(wanted.epsilon))) * (1 - Fraction(1, 10**50))
    for table in tables:
        for p, q in itertools.permutations(laws_in_fractions(table, [*past, added]), 2):
            if sum(max(p[at] - below * q.get(at, 0), 0) for at in p) > Fraction(wanted.delta):
                return False
    return True


@pytest.mark.parametrize("seed", thinned(range(24), 0.34))
def test_random_designs(seed):
    """Random tables, several at once, with zeros, two or three secrets: kept in exact arithmetic, and best of all."""
    rng = np.random.default_rng(seed)
    made = [
        random_table(rng, secrets=2 + seed % 2, sizes=(4, 2), zeros=0.15 * (seed % 3))
        for _ in range(1 + seed % 2)
    ]
    tables = [table for table, _ in made]
    past = [random_channel(rng, "b", 2, outputs=2)]
    spent = cost(tables, past, secret="s")
    epsilon = (0.7 if seed % 4 else 0.0) + spent.pure if seed % 3 else 0.5
    delta = 0.0 if seed % 3 and math.isfinite(epsilon) else min(spent.delta(0.5) + 0.03, 0.9)
    wanted = promise(epsilon if delta == 0 else 0.5, delta)
    found = design(tables, past, wanted, secret="s", query="a")
    assert keeps_in_fractions(tables, past, found.channel, wanted)
    least = dense_optimum([joint for _, joint in made], past[0], wanted)
    if (
        seed % 4 or delta
    ):  # where the past leaves no room at all, a channel that ignores what it reads is enough
        assert found.expected_loss == pytest.approx(least, abs=1e-6)
    assert found.expected_loss >= least - 1e-7


def dense_optimum(joints, past, wanted):
    """Return the least worst expected error, by a program written without auxiliary laws: variables γ, T, v."""
    first, inputs = np.array(past.probabilities, dtype=float), joints[0].shape[1]
    gammas = inputs * inputs
    blocks, sums, losses = [], [], []
    for joint in joints:
        laws = joint / joint.sum(axis=(1, 2), keepdims=True)
        reach = np.einsum("sab,bo->soa", laws, first)  # A_s(y_1, x)
        for i, j in itertools.permutations(range(len(laws)), 2):
            excess = reach[i] - math.exp(wanted.epsilon) * reach[j]
            blocks.append(np.einsum("oa,yz->oyaz", excess, np.eye(inputs)).reshape(-1, gammas))
        distance = np.abs(np.subtract.outer(np.arange(inputs), np.arange(inputs)))
        losses.append((joint.sum(axis=(0, 2))[:, None] * distance).ravel())
    rows = np.concatenate(blocks)
    spare = len(rows)
    above = np.hstack([rows, -np.eye(spare), np.zeros((spare, 1))])
    each = len(blocks[0])
    for at in range(len(blocks)):
        line = np.zeros(gammas + spare + 1)
        line[gammas + at * each : gammas + (at + 1) * each] = 1
        sums.append(line)
    worst = [np.concatenate([own, np.zeros(spare), [-1.0]]) for own in losses]
    same = np.hstack([np.kron(np.eye(inputs), np.ones((1, inputs))), np.zeros((inputs, spare + 1))])
    found = scipy.optimize.linprog(
        np.eye(gammas + spare + 1)[-1],
        A_ub=np.vstack([above, sums, worst]),
        b_ub=np.concatenate(
            [np.zeros(spare), np.full(len(sums), wanted.delta), np.zeros(len(worst))]
        ),
        A_eq=same,
        b_eq=np.ones(inputs),
        bounds=[(0, None)] * (gammas + spare) + [(None, None)],
    )
    return found.fun


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("family", [pf.Laplace, pf.Gaussian], ids=["laplace", "gaussian"])
def test_no_additive_noise_on_the_grid_is_better(family, after):
    """The designed channel errs no more than noise rounded to the same outputs, at the least scale that keeps ε."""
    past = [FIRST] if after else []
    best = design(THREE, past, pf.Pure(0.5), secret="s")

    def noisy(scale):
        return Channel.of_noise("x", [0, 1, 2], [0, 1, 2], family(scale))

    scales = np.geomspace(0.05, 50, 120)
    kept = [
        noisy(scale) for scale in scales.tolist() if cost(THREE, [*past, noisy(scale)]).pure <= 0.5
    ]
    errors = [expected_error(one) for one in kept]
    assert errors
    assert best.expected_loss <= min(errors)


def expected_error(one):
    chances = [0.35, 0.3, 0.35]
    return sum(
        p * float(q) * abs(x - y)
        for x, p in enumerate(chances)
        for y, q in enumerate(one.probabilities[x])
    )


def test_what_was_published_is_enough_for_a_pure_promise():
    """Given the outputs that were published a pure guarantee costs less, and is kept for them (M23)."""
    skewed = channel("x", [[0.9, 0.1], [0.89, 0.11], [0.88, 0.12]])
    spent = cost(THREE, skewed).pure
    free, every = (
        design(THREE, skewed, pf.Pure(0.2), secret="s", published=one) for one in ([0], None)
    )
    assert free.expected_loss < every.expected_loss
    laws = laws_in_fractions(THREE, [skewed, free.channel])
    ratios = [laws[i][0, y] / laws[1 - i][0, y] for i in (0, 1) for y in range(3)]
    assert max(ratios) <= Fraction(math.exp(0.2))
    seen = design(THREE, Additive("x", pf.Gaussian(3.0)), pf.Pure(0.5), secret="s", published=[1.0])
    assert seen.expected_loss > design(THREE, [], pf.Pure(0.5), secret="s").expected_loss - 1e-9
    assert spent < 0.2


def test_every_published_output_is_counted():
    """Two published outputs leave less than either alone, in any order, and the rest is kept for both."""
    first, second = (channel("x", [[p, 1 - p], [0.5, 0.5], [1 - p, p]]) for p in (0.6, 0.55))
    both, swapped = (
        design(THREE, past, pf.Pure(0.5), secret="s", published=[0, 0])
        for past in ([first, second], [second, first])
    )
    alone = design(THREE, [second], pf.Pure(0.5), secret="s", published=[0])
    assert both.expected_loss == pytest.approx(swapped.expected_loss, rel=1e-6)
    assert both.expected_loss > alone.expected_loss * (1 + 1e-6)


@pytest.mark.parametrize("wanted", [pf.Pure(0.8), pf.Approx(0.5, 0.05)], ids=["pure", "approx"])
def test_after_laplace_noise(wanted):
    """All outputs of Laplace noise are reckoned with, by a channel that tells no less: the guarantee holds for both."""
    noisy = Additive("x", pf.Laplace(4.0))
    found = design(THREE, noisy, wanted, secret="s")
    assert cost(THREE, [noisy, found.channel]).keeps(wanted)
    assert found.expected_loss > design(THREE, [], wanted, secret="s").expected_loss


def test_a_spent_promise_says_what_is_left():
    """If the past costs more, the error says how much more, and what it offers instead can be had."""
    with pytest.raises(pf.Refused, match=r"epsilon 0\.120144: 0\.0201443 more") as refusal:
        design(THREE, FIRST, pf.Pure(0.1), secret="s")
    offered = eval(refusal.value.instead.split(", or")[0], {"pf": pf})  # noqa: S307 - our own text
    assert design(THREE, FIRST, offered, secret="s").expected_loss < 1
    plain = Channel.revealing("x", [0, 1, 2])
    with pytest.raises(pf.Refused, match=r"delta 0\.17") as refusal:
        design(THREE, plain, pf.Approx(0.5, 0.01), secret="s")
    offered = eval(refusal.value.instead.split("), or")[0] + ")", {"pf": pf})  # noqa: S307
    assert design(THREE, plain, offered, secret="s").expected_loss < 1


def test_an_impossible_published_output_is_named():
    """Zeros in P(x|s) are ordinary; only an output that one secret cannot have is refused, with pair and output."""
    table = pf.Table({"s": ["a", "a", "b"], "x": [0, 1, 1], "probability": [0.25, 0.25, 0.5]})
    plain = Channel.revealing("x", [0, 1])
    assert design(table, [], pf.Pure(0.5), secret="s").expected_loss > 0
    with pytest.raises(
        pf.Refused, match="published output 0 cannot occur under 'b', and can under 'a'"
    ):
        design(table, plain, pf.Pure(0.5), secret="s", published=[0])
    assert design(table, plain, pf.Approx(0.8, 0.51), secret="s").expected_loss == pytest.approx(
        0, abs=1e-9
    )


def test_symmetry_halves_the_program_and_changes_no_loss(monkeypatch):
    """A question that is its own mirror image has a symmetric answer, as good as any."""
    halved = design(THREE, FIRST, pf.Pure(0.5), secret="s")
    rows = halved.channel.probabilities
    assert all(abs(rows[x][y] - rows[2 - x][2 - y]) < 1e-6 for x in range(3) for y in range(3))
    monkeypatch.setattr(
        importlib.import_module("pufferflow.confounding.design"),
        "_reflection",
        lambda _, expected: np.arange(expected[0].size),
    )
    assert design(THREE, FIRST, pf.Pure(0.5), secret="s").expected_loss == pytest.approx(
        halved.expected_loss, abs=1e-9
    )


@pytest.mark.slow
def test_ten_thousand_probabilities():
    """A program of 10⁴ probabilities is solved, and kept in whole numbers, in seconds."""
    rng = np.random.default_rng(1)
    n = 100
    law = np.round(rng.dirichlet(np.ones(2 * n) * 3), 9)
    law[-1] += 1 - law.sum()
    table = pf.Table({"s": [0] * n + [1] * n, "x": [*range(n)] * 2, "probability": law.round(9)})
    keep = rng.integers(450, 550, n) / 1000
    past = channel("x", np.stack([keep, 1 - keep], axis=1).round(3))
    found = design(table, past, pf.Pure(0.5), secret="s")
    assert cost(table, [past, found.channel]).keeps(pf.Pure(0.5))
    assert found.expected_loss == pytest.approx(found.solver_loss, abs=1e-6)


def test_secrets_are_named_in_every_way():
    """A column, a derived secret, also one that says what may be read, and a scenario name the same secret."""
    derived = pf.Derived("s", column="x", domain=[0, 1, 2])
    ways = [(THREE, "s"), (THREE, derived), (pf.Scenario(derived, prior=THREE), None)]
    found = [design(table, FIRST, pf.Pure(0.5), secret=secret) for table, secret in ways]
    assert found[0] == found[1] == found[2]
    assert found[0].channel.reads == ("x",)


def test_a_loss_of_ones_own_and_more_columns():
    """Losses are functions or matrices of output and answer; a channel that may read more never errs more."""
    table = pf.Table(
        {"s": [0, 0, 1, 1, 1], "a": [0, 1, 0, 1, 1], "b": [0, 1, 1, 0, 1], "probability": [0.2] * 5}
    )
    by_name = design(table, [], pf.Pure(0.4), "squared", secret="s", query="a", outputs=[0, 0.5, 1])
    by_hand = design(
        table,
        [],
        pf.Pure(0.4),
        lambda y, a: (y - a) ** 2,
        secret="s",
        query="a",
        outputs=[0, 0.5, 1],
    )
    rows = design(
        table,
        [],
        pf.Pure(0.4),
        [[0, 0.25, 1], [1, 0.25, 0]],
        secret="s",
        query="a",
        outputs=[0, 0.5, 1],
    )
    assert by_name == by_hand == rows
    wide = design(
        table,
        [],
        pf.Pure(0.4),
        "squared",
        secret="s",
        query="a",
        reads=["a", "b"],
        outputs=[0, 0.5, 1],
    )
    assert wide.expected_loss <= by_name.expected_loss + 1e-9
    assert wide.channel.reads == ("a", "b")
    copies = design(table, kept_bit("a", 0.55), pf.Pure(0.6), "squared", secret="s", query="a")
    assert cost(table, [kept_bit("a", 0.55), copies.channel], secret="s").keeps(pf.Pure(0.6))


@pytest.mark.parametrize("wanted", [pf.Pure(0.8), pf.Approx(0.3, 0.05)], ids=str)
@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
def test_no_additive_noise_is_better_on_random_tables(seed, wanted):
    """After a release, noise of any kind on the same grid that keeps the guarantee errs no less than the design."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, sizes=(4, 2), zeros=0.1 * (seed % 2))
    past = [Channel("b", [0, 1], [0, 1], [[0.6, 0.4], [0.4, 0.6]])]
    best, errors = design(table, past, wanted, secret="s", query="a"), []
    chances, distance = (
        joint.sum(axis=(0, 2)),
        np.abs(np.subtract.outer(np.arange(4), np.arange(4))),
    )
    for family in (pf.Laplace, pf.Gaussian, pf.Staircase.of(epsilon=0.8)):
        for scale in np.geomspace(0.3, 30, 12).tolist():
            noisy = Channel.of_noise("a", range(4), range(4), family(scale))
            if cost(table, [*past, noisy], secret="s").keeps(wanted):
                errors.append(float((chances[:, None] * noisy.matrix * distance).sum()))
    assert errors
    assert best.expected_loss <= min(errors) + 1e-12
