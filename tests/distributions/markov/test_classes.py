"""Classes of chains against their members: drawn at random, by brute force over outputs and by their own messages."""

import itertools
import math

import numpy as np
import pytest
from thinned import thinned

from pufferflow.core.errors import UsageError
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.chain_class import (
    Chains,
    corners,
    future_extremes,
    invariant_marginals,
    kernels_between,
    marginals_hull,
    past_extremes,
)
from pufferflow.distributions.markov.law_regions import largest_log_ratio, members
from pufferflow.distributions.markov.messages import run
from pufferflow.distributions.markov.state_loss import Exposures, Secrets, endless_leak, leak

HAIR = 1 + 1e-11
"""Single chains widen their limits by 2⁻⁴⁰; classes do not."""


def every_pair(size):
    return Secrets(np.array(list(itertools.permutations(range(size), 2))))


def constant(length):
    return np.zeros(length, dtype=np.intp)


def per_row(values, scale, length):
    """One release of every row's value with Laplace noise."""
    return Exposures(np.abs(np.subtract.outer(values, values))[None] / scale, constant(length))


def box(rng, states, width):
    """Bounds around a random kernel, some of them 0."""
    kernel = rng.dirichlet(np.full(states, rng.choice([0.5, 1.0, 4.0])), states)
    reach = width * rng.random((states, states))
    return np.maximum(kernel - reach, 0.0), np.minimum(kernel + reach, 1.0)


def stays(low, high):
    """Two states, each kept with a probability between the bounds."""
    return np.array([[low, 1 - high], [1 - high, low]]), np.array(
        [[high, 1 - low], [1 - low, high]]
    )


def draw(rng, low, high):
    """A kernel of the class: rows at corners of their bounds, some of them between."""
    rows = []
    for least, most in zip(low, high, strict=True):
        some = corners(least, most)
        rows.append(
            rng.dirichlet(np.full(len(some), 0.1)) @ some
            if rng.random() < 0.3
            else rng.choice(some)
        )
    return np.array(rows)


def member(rng, chains, start):
    """A member: one kernel for all steps, two in turn, or a new one for each; and a law that row 0 may have."""
    many = int(rng.choice([1, 2, max(len(chains.order), 1)]))
    kernels = np.array([draw(rng, chains.low[0], chains.high[0]) for _ in range(many)])
    match start:
        case "stationary":
            law = stationary(draw(rng, chains.low[0], chains.high[0])[None])
        case "free":
            law = rng.dirichlet(np.full(chains.states, 0.3))
        case _:
            law = chains.initial[0]
    return None if law is None else Chain(kernels, np.arange(len(chains.order)) % many, law[None])


def chains_of(rng, states, length, start, width=0.2):
    """A random class of a kind."""
    initial = {
        "stationary": None,
        "free": np.eye(states),
        "known": rng.dirichlet(np.ones(states))[None],
    }[start]
    low, high = box(rng, states, width)
    return Chains(low[None], high[None], constant(length - 1), initial)


def brute_force(chain, values, scale):
    """The largest log ratio over rows, pairs of states and outputs, one output for each row."""
    steps, law = [chain.kernels[which] for which in chain.order], chain.initial[0]
    atoms = np.array(list(itertools.product(np.unique(values), repeat=chain.length)))
    density = np.exp(-np.abs(atoms[:, :, None] - values) / scale)
    ahead, behind = [np.ones_like(density[:, 0])], [np.broadcast_to(law, density[:, 0].shape)]
    laws = [law]
    for t, kernel in enumerate(steps):
        behind.append((behind[-1] * density[:, t]) @ kernel)
        laws.append(laws[-1] @ kernel)
    for t in range(len(steps), 0, -1):
        ahead.append((ahead[-1] * density[:, t]) @ steps[t - 1].T)
    worst = 0.0
    for t, (law, before, after) in enumerate(zip(laws, behind, reversed(ahead), strict=True)):
        possible = law > 0
        log = np.log((before * density[:, t] * after)[:, possible] / law[possible])
        worst = max(worst, float((log[:, :, None] - log[:, None, :]).max()))
    return worst


STARTS = ["stationary", "known", "free"]


@pytest.mark.parametrize("start", thinned(STARTS, 0.33))
@pytest.mark.parametrize(("states", "length"), [(2, 5), (3, 4)])
def test_no_member_leaks_more_than_its_class(states, length, start):
    """Members of random small classes, in every output: never above the class, and not far below it."""
    rng = np.random.default_rng(states)
    shares = []
    for _ in range(8):
        chains, values = chains_of(rng, states, length, start), rng.normal(size=states)
        scale = rng.choice([0.3, 1.0, 4.0])
        found = leak(chains, per_row(values, scale, length), every_pair(states))
        drawn = [member(rng, chains, start) for _ in range(25)]
        truth = max(brute_force(chain, values, scale) for chain in drawn if chain is not None)
        assert truth <= found.value * HAIR
        assert found.tight
        shares.append(truth / found.value)
    assert np.median(shares) > (0.85 if states == 2 else 0.6)


@pytest.mark.parametrize("start", thinned(STARTS, 0.25))
@pytest.mark.parametrize(("states", "length"), [(2, 30), (3, 12), (4, 6), (6, 5)])
def test_no_messages_of_a_member_exceed_those_of_its_class(states, length, start):
    """Longer chains, and more states: each member's own messages are no larger."""
    rng = np.random.default_rng(states)
    for _ in range(2):
        chains, values = chains_of(rng, states, length, start, 0.1), rng.normal(size=states)
        exposures = per_row(values, rng.choice([0.5, 2.0]), length)
        found = leak(chains, exposures, every_pair(states))
        for chain in filter(None, (member(rng, chains, start) for _ in range(4))):
            assert leak(chain, exposures, every_pair(states)).value <= found.value * HAIR


@pytest.mark.parametrize("start", thinned(["stationary", "known"], 0.25))
@pytest.mark.parametrize(
    ("states", "length"), [(2, 2), (2, 40), (2, 5000), (3, 7), (3, 900), (4, 6), (4, 900), (5, 5)]
)
def test_bounds_that_meet_give_the_single_chain(states, length, start):
    """With one kernel between the bounds the class is that chain."""
    rng = np.random.default_rng(length)
    low, _ = box(rng, states, 0.0)
    law = stationary(low[None]) if start == "stationary" else rng.dirichlet(np.ones(states))
    chain = Chain(low[None], constant(length - 1), law[None])
    chains = Chains(
        low[None], low[None], constant(length - 1), None if start == "stationary" else law[None]
    )
    exposures = per_row(rng.normal(size=states), 3.0, length)
    single = leak(chain, exposures, every_pair(states))
    found = leak(chains, exposures, every_pair(states))
    assert found.value == pytest.approx(single.value, rel=1e-9)
    assert found.tight


@pytest.mark.parametrize(
    ("kernel", "length"),
    thinned(
        [
            ([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]], 700),
            ([[0.5, 0.25, 0.25], [0.0, 0.7, 0.3], [0.0, 0.2, 0.8]], 60),
            ([[1 - 1e-9, 1e-9, 0.0], [0.2, 0.5, 0.3], [0.3, 0.1, 0.6]], 700),
        ],
        0.3,
        unpack=True,
    ),
    ids=["steps that cannot be", "a state that is passed through", "rare states"],
)
def test_bounds_that_meet_with_zeros_give_the_single_chain(kernel, length):
    """Zeros and tiny probabilities: as the single chain has them."""
    law, low = np.array([0.2, 0.3, 0.5]), np.array([kernel])
    exposures = per_row(np.arange(3.0), 8.0, length)
    for single, initial in ((law, law[None]), (stationary(low), None)):
        one = leak(Chain(low, constant(length - 1), single[None]), exposures, every_pair(3)).value
        found = leak(
            Chains(low, low, constant(length - 1), initial), exposures, every_pair(3)
        ).value
        assert found == pytest.approx(one, rel=1e-9)


@pytest.mark.parametrize("states", thinned([2, 3, 6], 0.33))
def test_wider_bounds_never_leak_less(states):
    """More members, more laws of row 0: the value never falls."""
    rng = np.random.default_rng(states)
    kernel = rng.dirichlet(np.ones(states), states)
    reach, law = rng.random((states, states)), rng.dirichlet(np.ones(states))
    exposures = per_row(rng.normal(size=states), 1.0, 10)
    initials = law[None], np.stack([law, np.eye(states)[0]]), np.eye(states)
    values = np.empty((5, 3))
    for i, width in enumerate((0.0, 0.01, 0.05, 0.2, 1.0)):
        bounds = (
            np.maximum(kernel - width * reach, 0)[None],
            np.minimum(kernel + width * reach, 1)[None],
        )
        for j, initial in enumerate(initials):
            values[i, j] = leak(
                Chains(*bounds, constant(9), initial), exposures, every_pair(states)
            ).value
    assert (np.diff(values, axis=0) >= -1e-12).all()
    assert (np.diff(values, axis=1) >= -1e-12).all()


def test_bounds_of_the_kernel_say_nothing_of_the_past():
    """State 0 kept with .9 to 1, state 1 with .3 to .4, 90 % begin in 0: rows not reversed would fall .89 short."""
    low, high = np.array([[0.9, 0.0], [0.6, 0.3]]), np.array([[1.0, 0.1], [0.7, 0.4]])
    chains, values = (
        Chains(low[None], high[None], constant(2), np.array([[0.9, 0.1]])),
        np.array([0.0, 1.0]),
    )
    exposures = per_row(values, 1.0, 3)
    kernels = np.array([[[p, 1 - p], [1 - q, q]] for p in (0.9, 1.0) for q in (0.3, 0.4)])
    choices = itertools.product(range(4), repeat=2)
    worst = max(
        brute_force(Chain(kernels, np.array(order), chains.initial), values, 1.0)
        for order in choices
    )
    forwards = run(chains.forward, exposures.losses, exposures.kinds)
    messages = forwards.pool[forwards.index]
    assert (messages + exposures.losses + messages[::-1]).max() < worst - 0.8
    assert worst <= leak(chains, exposures, every_pair(2)).value < worst + 0.01


def test_two_states_kept_alike_cost_little_more_than_their_worst_member():
    """Stay-probability .8 to .9: .9 is the worst; a class of any length costs at most a tenth more."""
    ratios = []
    for length, step in itertools.product((2, 10, 100, 2000), (0.05, 0.5, 2.0)):
        low, high = stays(0.8, 0.9)
        exposures = per_row(np.array([0.0, 1.0]), 1 / step, length)
        found = leak(Chains(low[None], high[None], constant(length - 1)), exposures, every_pair(2))
        kernel = np.array([[[0.9, 0.1], [0.1, 0.9]]])
        single = leak(
            Chain(kernel, constant(length - 1), np.array([[0.5, 0.5]])), exposures, every_pair(2)
        )
        ratios.append(found.value / single.value)
    assert min(ratios) >= 1 / HAIR
    assert np.median(ratios) < 1.05
    assert max(ratios) < 1.12


@pytest.mark.parametrize("states", thinned([2, 3, 6], 0.33))
def test_an_endless_schedule_of_a_class(states):
    """For ever costs no less than a long time, nor than any member for ever; matrices that never move cost ∞."""
    rng = np.random.default_rng(3)
    kernel = 0.5 * rng.dirichlet(np.full(states, 9.0), states) + 0.5 / states
    low, high = np.array([kernel - 0.02, kernel - 0.01]), np.array([kernel + 0.01, kernel + 0.02])
    exposures = Exposures(
        0.05 * np.abs(np.subtract.outer(np.arange(states), np.arange(states)))[None], constant(1)
    )
    turn = np.arange(2)
    for_ever = endless_leak(Chains(low, high, turn), exposures, every_pair(states)).value
    finite = Exposures(exposures.losses, constant(301))
    assert (
        leak(Chains(low, high, np.arange(300) % 2), finite, every_pair(states)).value
        <= for_ever * HAIR
        < math.inf
    )
    for _ in range(3):
        kernels = np.array([draw(rng, *bounds) for bounds in zip(low, high, strict=True)])
        one = Chain(kernels, turn, stationary(kernels)[None])
        assert endless_leak(one, exposures, every_pair(states)).value <= for_ever * HAIR
    still = np.maximum(np.eye(states) - 0.01, 0)[None], np.ones((1, states, states))
    assert (
        endless_leak(Chains(*still, constant(1)), exposures, every_pair(states)).value == math.inf
    )


SWINGING = np.array(
    [
        [0.0749, 0.2503, 0.1899, 0.4850],
        [0.3215, 0.3287, 0.3169, 0.0329],
        [0.1805, 0.2875, 0.1725, 0.3595],
        [0.3400, 0.0907, 0.3946, 0.1747],
    ]
)


def test_messages_that_do_not_settle_evenly_come_to_rest():
    """A class whose messages swing as they settle, so that guesses of where they settle overshoot: a finite total."""
    kernel = SWINGING / SWINGING.sum(axis=1, keepdims=True)
    chains = Chains(
        np.maximum(kernel - 0.02, 0)[None], np.minimum(kernel + 0.02, 1)[None], constant(1)
    )
    exposures = Exposures(
        0.1 * np.abs(np.subtract.outer(np.arange(4), np.arange(4)))[None], constant(1)
    )
    found = endless_leak(chains, exposures, every_pair(4))
    assert found.value < 1
    assert (
        leak(chains.repeated(40), Exposures(exposures.losses, constant(41)), every_pair(4)).value
        <= found.value
    )


def test_a_long_start_from_one_state_comes_to_rest_from_outside():
    """Beginning in a rare state, a long class leaks no less than its members, and no less than a short one."""
    low, high = stays(0.97, 0.98)
    low[0], high[0] = (0.5, 0.4), (0.6, 0.5)
    values = []
    for length in (5, 50, 600, 3000):
        exposures = per_row(np.array([0.0, 1.0]), 2.0, length)
        found = leak(
            Chains(low[None], high[None], constant(length - 1), np.eye(2)[:1]),
            exposures,
            every_pair(2),
        )
        assert found.tight
        one = Chain(np.array([[[0.6, 0.4], [0.02, 0.98]]]), constant(length - 1), np.eye(2)[:1])
        assert leak(one, exposures, every_pair(2)).value <= found.value * HAIR
        values.append(found.value)
    assert (np.diff(values) >= -1e-9).all()


def test_states_that_may_be_stay_secrets():
    """A state that only some members can reach is a secret; one that none can reach is not."""
    low, high = (
        np.array([[0.9, 0.0, 0.0], [0.0, 0.9, 0.0], [0.1] * 3]),
        np.array([[1.0, 0.1, 0.0], [0.1, 1.0, 0.0], [1.0] * 3]),
    )
    chains = Chains(low[None], high[None], constant(3), np.eye(3)[:1])
    assert (
        chains.masks[chains.mask_of].tolist() == [[True, False, False]] + [[True, True, False]] * 3
    )
    values, exposures = np.array([0.0, 1.0, 50.0]), per_row(np.array([0.0, 1.0, 50.0]), 1.0, 4)
    found = leak(chains, exposures, every_pair(3))
    rng = np.random.default_rng(0)
    assert (
        1
        < max(brute_force(member(rng, chains, "known"), values, 1.0) for _ in range(30))
        <= found.value
        <= 4.0
    )


@pytest.mark.parametrize("size", thinned([2, 3, 4, 5], 0.5))
def test_a_step_forwards_is_the_largest_over_corners_of_rows(size):
    """Against linear programs for every pair of corners: the same."""
    rng = np.random.default_rng(size)
    for scale in (0.1, 3.0):
        step = kernels_between(*box(rng, size, 0.2))
        limits = scale * rng.exponential(size=(size, size))
        np.fill_diagonal(limits, 0.0)
        message = future_extremes(step).send(limits)
        ends = [corners(low, high) for low, high in zip(step.low, step.high, strict=True)]
        for a, b in itertools.permutations(range(size), 2):
            top, bottom = (
                one.reshape(-1, size)
                for one in np.broadcast_arrays(ends[a][:, None], ends[b][None])
            )
            assert message[a, b] == pytest.approx(
                largest_log_ratio(top, bottom, limits).max(), rel=1e-9, abs=1e-11
            )


@pytest.mark.parametrize("size", thinned([2, 3, 4, 7], 0.5))
def test_a_step_backwards_is_never_below_a_member(size):
    """Random laws of the earlier row and random kernels, reversed: within the message."""
    rng = np.random.default_rng(size)
    low, high = box(rng, size, 0.3)
    corner_laws = rng.dirichlet(np.ones(size), 3)
    all_states = np.ones(size, dtype=bool)
    step = past_extremes(
        marginals_hull(corner_laws), kernels_between(low, high), all_states, all_states
    )
    for scale in (0.1, 3.0):
        limits = scale * rng.exponential(size=(size, size))
        np.fill_diagonal(limits, 0.0)
        message = step.send(limits)
        for _ in range(30):
            joint = (rng.dirichlet(np.full(3, 0.3)) @ corner_laws)[:, None] * draw(rng, low, high)
            rows = (joint / np.maximum(joint.sum(axis=0), 1e-300)).T
            a, b = rng.choice(size, 2, replace=False)
            assert largest_log_ratio(rows[[a]], rows[[b]], limits)[0] <= message[a, b] + 1e-11


def test_laws_are_followed_from_outside():
    """What members make of laws is always held; where turns come to rest holds every stationary law."""
    rng = np.random.default_rng(2)
    for states in (2, 3, 5):
        low, high = box(rng, states, 0.2)
        step, sets = kernels_between(low, high), members(states)
        held, rest = marginals_hull(np.eye(states)[:2]), invariant_marginals([step])
        law = np.eye(states)[0]
        assert rest.after(step).within(rest)
        for _ in range(20):
            law, held = law @ draw(rng, low, high), held.after(step)
            shares = sets @ law
            assert (held.least <= shares + 1e-15).all()
            assert (shares <= held.most + 1e-15).all()
            still = stationary(draw(rng, low, high)[None])
            if still is not None:
                assert (rest.least <= sets @ still + 1e-15).all()
                assert (sets @ still <= rest.most + 1e-15).all()


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (np.full((2, 2), 0.6), np.ones((2, 2))),
        (np.eye(2), np.zeros((2, 2))),
        (np.zeros((11, 11)), np.ones((11, 11))),
    ],
    ids=["too much", "upside down", "too many states"],
)
def test_bounds_without_kernels_are_misuse(low, high):
    """No kernel between the bounds, or more states than sets can be listed for: an error that says so."""
    with pytest.raises(UsageError):
        Chains(low[None], high[None], constant(3))
