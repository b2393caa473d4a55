"""Rows that never end: against finite sequences, brute force and published figures."""

import itertools
import math

import numpy as np
import pytest
from thinned import thinned

from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.chain import stationary as stationary_law
from pufferflow.distributions.markov.chain_class import Chains
from pufferflow.distributions.markov.messages import run
from pufferflow.distributions.markov.state_loss import (
    Exposures,
    Secrets,
    Window,
    continued_leak,
    endless_leak,
    exposures_of,
    leak,
)

APART = 1 - np.eye(2)
STAY = np.array([[[0.9, 0.1], [0.1, 0.9]]])


def every_pair(size):
    return Secrets(np.argwhere(~np.eye(size, dtype=bool)))


def turns(count):
    return np.arange(count, dtype=np.intp)


def one_turn(kernels, initial=None):
    kernels = np.array(kernels, dtype=float)
    law = stationary_law(kernels) if initial is None else np.asarray(initial, dtype=float)
    return Chain(kernels, turns(len(kernels)), np.atleast_2d(law))


def cut(chain, head, turn, length):
    """The first rows of a schedule, written out."""
    kinds = len(head.losses) + turn.kinds[np.arange(length) % len(turn.kinds)]
    kinds[: len(head.kinds)] = head.kinds[:length]
    return chain.repeated(length - 1), Exposures(np.concatenate([head.losses, turn.losses]), kinds)


def brute(chain, exposures):
    """The largest log ratio of what outputs reveal about a row, over all outputs of randomised response per row.

    Row t says f with a weight e^{−ℓ/2} or e^{ℓ/2}: its likelihoods for two states are e^ℓ apart.
    """
    size, length = chain.states, chain.length
    paths = np.array(list(itertools.product(range(size), repeat=length)))
    mass = chain.initial[0][paths[:, 0]]
    for t, kernel in enumerate(chain.order):
        mass = mass * chain.kernels[kernel][paths[:, t], paths[:, t + 1]]
    loss = exposures.losses[exposures.kinds, 0, 1]
    worst = 0.0
    for y in itertools.product((0, 1), repeat=length):
        weight = mass * np.exp(np.where(paths == np.array(y), loss, 0.0).sum(axis=1))
        for t in range(length):
            given = [weight[paths[:, t] == a].sum() / mass[paths[:, t] == a].sum() for a in (0, 1)]
            worst = max(worst, abs(math.log(given[0] / given[1])))
    return worst


@pytest.mark.parametrize("seed", thinned(range(30), 0.07))
def test_no_finite_cut_is_above_what_goes_on_for_ever(seed):
    """Kernels, exposures and heads of all lengths: every cut is below, and long ones come within 1e-6."""
    rng = np.random.default_rng(seed)
    size, phases, turn, length = (
        int(rng.integers(*ends)) for ends in ((2, 5), (1, 4), (1, 4), (0, 20))
    )
    kernels = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 3.0])), (phases, size))
    losses = (
        rng.random((3, size, size))
        * rng.choice([0.05, 0.3, 2.0], 3)[:, None, None]
        * (1 - np.eye(size))
    )
    losses[0] *= seed % 5 != 0
    last = rng.integers(0, 3, turn) * (seed % 10 != 0)
    head, later = Exposures(losses, rng.integers(0, 3, length)), Exposures(losses, last)
    initial = [None, np.eye(size), rng.dirichlet(np.ones(size))][seed % 3]
    chain = one_turn(kernels, initial)
    found = continued_leak(chain, head, later, every_pair(size))
    values = [
        leak(*cut(chain, head, later, length + more), every_pair(size)).value
        for more in (1, 8, 40, 300)
    ]
    assert max(values) <= found.value <= max(values) * (1 + 1e-6) + 1e-9
    assert found.tight


@pytest.mark.parametrize("length", [3, 5, 8])
def test_a_head_and_what_follows_are_never_below_brute_force(length):
    """All outputs of short sequences, with kernels and exposures that take turns of different lengths."""
    kernels = [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]]
    losses = np.array([0.9, 0.2, 0.6])[:, None, None] * APART
    chain, head = one_turn(kernels, [0.3, 0.7]), Exposures(losses, np.array([2, 0, 0]))
    later = Exposures(losses, np.array([1, 0, 1]))
    truth = brute(*cut(chain, head, later, length))
    assert truth <= leak(*cut(chain, head, later, length), every_pair(2)).value + 1e-12
    assert truth <= continued_leak(chain, head, later, every_pair(2)).value


def test_phases_are_those_of_the_row_number():
    """A head that holds what would come anyway changes nothing, whatever its length."""
    rng = np.random.default_rng(3)
    kernels = rng.dirichlet([2.0, 1.0], (3, 2))
    later = Exposures(np.array([0.0, 0.4, 1.5])[:, None, None] * APART, np.array([0, 2, 0, 1]))
    chain = one_turn(kernels)
    whole = endless_leak(chain, later, every_pair(2)).value
    for length in (1, 2, 5, 30):
        head = Exposures(later.losses, later.kinds[np.arange(length) % 4])
        assert continued_leak(chain, head, later, every_pair(2)).value == pytest.approx(
            whole, rel=1e-7
        )


@pytest.mark.parametrize(
    ("scale", "alone", "for_ever"), [(10.0, 0.822639, 0.872441), (50.0, 0.167502, 0.179761)]
)
def test_days_in_windows(scale, alone, for_ever):
    """A daily sum of 24 steps: one day, and then every day for ever."""
    day = Window(APART / scale, ((0, 24),))
    base, head = exposures_of([day], np.zeros(1, dtype=np.intp), np.array([480]), (0, 960))
    chain = one_turn(STAY)
    nothing, daily = (Exposures(losses[None], turns(1)) for losses in (0 * APART, APART / scale))
    assert base == 0
    assert continued_leak(chain, head, nothing, every_pair(2)).value == pytest.approx(
        alone, abs=1e-6
    )
    assert continued_leak(chain, head, daily, every_pair(2)).value == pytest.approx(
        for_ever, abs=1e-6
    )


def test_a_slow_chain_is_checked_and_not_iterated_from_below():
    """Stay .999, step .001: .9615 and not .871, with a head before it too."""
    chain = one_turn([[[0.999, 0.001], [0.001, 0.999]]])
    steps = Exposures(0.001 * APART[None], turns(1))
    for length in (0, 10, 700):
        found = continued_leak(
            chain, Exposures(steps.losses, np.zeros(length, dtype=np.intp)), steps, every_pair(2)
        )
        assert 0.96151 <= found.value <= 0.96155


def test_messages_of_the_future_start_where_no_turn_raises_them():
    """Inside the head they are never below those that any number of further rows sends back."""
    chain = one_turn([[[0.97, 0.03], [0.02, 0.98]]])
    head, later = (
        Exposures(0.5 * APART[None], np.zeros(20, dtype=np.intp)),
        Exposures(0.1 * APART[None], turns(1)),
    )
    last = np.zeros(21, dtype=bool)
    last[0] = True
    first = Secrets(np.array([[0, 1], [1, 0]]), last)
    whole, exposures = cut(chain, head, later, 3000)
    future = run(whole.forward, exposures.losses, exposures.kinds[::-1]).backwards()
    at_first = leak(*cut(chain, head, later, 21), first).value
    assert at_first < future.pool[future.index[0], 0, 1] + 0.5
    assert (
        future.pool[future.index].max() + 0.5
        < continued_leak(chain, head, later, every_pair(2)).value
    )


def test_rows_after_the_head_still_know_of_it():
    """Where the worst row is the first one after a heavy head, the past in it counts."""
    chain, length, turn = one_turn(STAY), 12, 40
    losses = np.array([0.0, 0.5, 4.0])[:, None, None] * APART
    later = Exposures(losses, 2 * (np.arange(turn) == length % turn))
    head = Exposures(losses, np.ones(length, dtype=np.intp))
    found = continued_leak(chain, head, later, every_pair(2))
    cut_off = leak(*cut(chain, head, later, length + 90), every_pair(2)).value
    assert found.row == length
    assert cut_off <= found.value == pytest.approx(cut_off, rel=1e-6)
    assert found.value > 1.2 * endless_leak(chain, later, every_pair(2)).value


def test_a_head_alone_costs_what_it_costs():
    """Nothing after the head: the finite loss, for a chain that never forgets too, where messages stay as they are."""
    head, nothing = (
        Exposures(0.1 * APART[None], np.zeros(7, dtype=np.intp)),
        Exposures(0 * APART[None], turns(1)),
    )
    still = one_turn([np.eye(2)], [0.5, 0.5])
    assert continued_leak(still, head, nothing, every_pair(2)).value == pytest.approx(0.7, rel=1e-9)
    moving = continued_leak(one_turn(STAY), head, nothing, every_pair(2)).value
    assert moving == pytest.approx(
        leak(*cut(one_turn(STAY), head, nothing, 40), every_pair(2)).value, rel=1e-8
    )


@pytest.mark.parametrize("kernel", [np.eye(2), [[0, 1], [1, 0]]], ids=["stays", "alternates"])
def test_what_never_forgets_has_no_total(kernel):
    """Identity and periodic kernels: ∞, with a head and without one."""
    chain, steps = one_turn([kernel], [0.5, 0.5]), Exposures(0.1 * APART[None], turns(1))
    for length in (0, 5):
        head = Exposures(steps.losses, np.zeros(length, dtype=np.intp))
        assert continued_leak(chain, head, steps, every_pair(2)).value == math.inf


@pytest.mark.slow
def test_a_turn_longer_than_any_search_for_one():
    """500 kernels in turn: no finite cut is above, and the total is finite."""
    rng = np.random.default_rng(4)
    chain, steps = (
        one_turn(rng.dirichlet([2.0, 1.0], (500, 2))),
        Exposures(0.2 * APART[None], turns(1)),
    )
    none = Exposures(steps.losses, np.empty(0, dtype=np.intp))
    found = continued_leak(chain, none, steps, every_pair(2))
    assert leak(*cut(chain, none, steps, 1500), every_pair(2)).value <= found.value < 2


def test_classes_of_chains_go_on_too():
    """All kernels between two bounds: never below a member, and close for bounds that meet."""
    steps = Exposures(0.3 * APART[None], turns(1))
    head = Exposures(0.8 * APART[None], np.zeros(4, dtype=np.intp))
    wide = Chains(
        np.array([[[0.8, 0.1], [0.1, 0.8]]]),
        np.array([[[0.9, 0.2], [0.2, 0.9]]]),
        turns(1),
        np.eye(2),
    )
    known = Chains(STAY, STAY, turns(1), np.array([[0.5, 0.5]]))
    single = continued_leak(one_turn(STAY), head, steps, every_pair(2)).value
    assert continued_leak(wide, head, steps, every_pair(2)).value >= single
    assert continued_leak(known, head, steps, every_pair(2)).value == pytest.approx(
        single, rel=1e-5
    )


@pytest.mark.slow
def test_limits_that_add_up_along_paths_come_to_rest():
    """Exposures that are no distance: a message a hair above its rest is raised by two hairs, and still it has one."""
    rng = np.random.default_rng(0)
    kernel = 0.7 * np.eye(5) + 0.3 * rng.dirichlet(np.ones(5), 5)
    losses = 0.1 * rng.random((1, 5, 5)) * (1 - np.eye(5))
    chain, steps = one_turn([kernel]), Exposures(losses, turns(1))
    found = endless_leak(chain, steps, every_pair(5))
    finite = leak(
        chain.repeated(399), Exposures(losses, np.zeros(400, dtype=np.intp)), every_pair(5)
    )
    assert finite.value <= found.value == pytest.approx(finite.value, rel=1e-6)
