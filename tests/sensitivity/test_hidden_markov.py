"""Sums along a hidden chain: their laws are those of enumeration, and no bound is below the exact loss."""

import numpy as np
import pytest
from hidden_chains import (
    LEVELS,
    SHOWS,
    STAY,
    exact_loss,
    given,
    joint,
    random_chain,
    scenario_of,
    worst_product,
)
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.rules.markov import temporal_leakage
from pufferflow.queries.engine_interface import Pattern
from pufferflow.sensitivity.pattern import of_pattern, window

EXAMPLE = pf.HiddenMarkov(STAY, SHOWS)


def total_of(rows, *, hidden=True, prior=EXAMPLE):
    return pf.laws(scenario_of(prior, LEVELS, hidden=hidden), pf.Statistic.total(rows))


@pytest.mark.parametrize(
    ("rows", "loss"), [(1, 0.14964786), (6, 0.61912155), (24, 1.12294007)], ids=str
)
def test_the_example_has_its_published_losses(rows, loss):
    """Levels 0 to 3 at scale 10: messages of M58 are exact for two hidden states."""
    laws = total_of(rows)
    for bound in (pf.Messages(), pf.Exact()):
        assert pf.loss(laws, pf.Laplace(10.0), pf.Pure, bound=bound) == pytest.approx(
            loss, abs=1e-8
        )


def test_the_example_needs_less_noise_than_its_movement():
    """At ε = 1 a day needs 11.13, where W_∞ is 13 and the range 72."""
    laws = total_of(24)
    assert pf.calibrate(laws, pf.Pure(1)).noise.scale == pytest.approx(11.130917, abs=1e-6)
    assert laws.winf(1).length == 13
    assert laws.span(1).length == 72
    assert pf.calibrate(laws, pf.Pure(1), bound=pf.GWM()).noise.scale == pytest.approx(13)


@pytest.mark.parametrize("hidden", [True, False], ids=["state", "symbol"])
@pytest.mark.parametrize("seed", thinned(range(8), 0.3))
def test_laws_are_those_of_enumeration(seed, hidden):
    """Random chains with zeros, gaps, weights and any start: every row and pair of secrets, to 1e-12."""
    rng = np.random.default_rng([seed, hidden])
    kernel, emission, start = random_chain(rng, *rng.integers(2, 4, 2), zeros=0.25 * (seed % 2))
    positions = np.cumsum(rng.integers(1, 4, 4)) - 1
    weights, values = rng.integers(-2, 3, 4), rng.integers(0, 4, emission.shape[1])
    domain = list(range(emission.shape[1]))
    prior = pf.HiddenMarkov(kernel, emission, start)
    asked = pf.Statistic(weights.tolist(), values.astype(float), positions.tolist())
    states, symbols, masses = joint(kernel, emission, start, positions)
    sums = values[symbols] @ weights
    found = {
        (pair.row, *pair.secrets): pair
        for pair in pf.laws(scenario_of(prior, domain, hidden=hidden), asked)
    }
    wanted = 0
    for row in range(4):
        laws = given(states, symbols, masses, row, hidden=hidden)
        for a in laws:
            for b in laws:
                if a < b:
                    wanted += 1
                    pair = found[row, a, b]
                    for law, truth in zip(pair, (laws[a], laws[b]), strict=True):
                        atoms, places = np.unique(sums, return_inverse=True)
                        chances = np.bincount(places, truth)
                        got = dict(zip(law.values.tolist(), law.probabilities, strict=True))
                        told = [got.get(float(atom), 0.0) for atom in atoms]
                        assert told == pytest.approx(chances, abs=1e-12)
    assert wanted == len(found) or not wanted


@pytest.mark.parametrize("hidden", [True, False], ids=["state", "symbol"])
def test_vectors_have_the_laws_of_enumeration(hidden):
    """Two sums over different rows, jointly."""
    kernel, emission, start = random_chain(np.random.default_rng(3), 2, 3)
    weights = np.array([[1, 1, 0, 0], [0, 2, 1, 1]])
    prior = pf.HiddenMarkov(kernel, emission, start)
    asked = pf.Statistic(weights.tolist(), [0.0, 1.0, 3.0])
    pairs = list(pf.laws(scenario_of(prior, [0, 1, 2], hidden=hidden), asked))
    states, symbols, masses = joint(kernel, emission, start, range(4))
    sums = np.array([0, 1, 3])[symbols] @ weights.T
    for pair in pairs:
        laws = given(states, symbols, masses, pair.row, hidden=hidden)
        for law, value in zip(pair, pair.secrets, strict=True):
            truth = {}
            for vector, mass in zip(map(tuple, sums.tolist()), laws[value], strict=True):
                truth[vector] = truth.get(vector, 0.0) + mass
            truth = {vector: mass for vector, mass in truth.items() if mass > 0}
            told = dict(zip(map(tuple, law.values.tolist()), law.probabilities, strict=True))
            assert told == pytest.approx(truth, abs=1e-12)


def test_a_free_start_allows_every_law_of_the_first_state():
    """No loss is below that of any start, for states and for symbols."""
    rng = np.random.default_rng(0)
    kernel, emission, _ = random_chain(rng, 3, 3)
    for hidden in (True, False):
        free = pf.HiddenMarkov(kernel, emission, "free")
        laws = pf.laws(scenario_of(free, [0, 1, 2], hidden=hidden), pf.Statistic.total(3))
        for bound in (pf.Messages(), pf.Exact(), pf.GWM()):
            worst = pf.loss(laws, pf.Laplace(2.0), pf.Pure, bound=bound)
            for start in (*np.eye(3) * 0.97 + 0.01, rng.dirichlet(np.ones(3))):
                one = pf.HiddenMarkov(kernel, emission, start)
                own = pf.laws(scenario_of(one, [0, 1, 2], hidden=hidden), pf.Statistic.total(3))
                assert pf.loss(own, pf.Laplace(2.0), pf.Pure, bound=bound) <= worst * (1 + 1e-9)


@pytest.mark.parametrize("hidden", [True, False], ids=["state", "symbol"])
@pytest.mark.parametrize("seed", thinned(range(12), 0.3))
def test_no_bound_is_below_the_exact_loss_of_one_sum(seed, hidden):
    """Laplace noise on sums: messages, movements and exact laws; a scale nine tenths as large loses more."""
    rng = np.random.default_rng([7, seed])
    kernel, emission, start = random_chain(rng, *rng.integers(2, 4, 2))
    values = rng.integers(0, 4, emission.shape[1])
    values[0] += values.max() == values.min()
    positions = np.cumsum(rng.integers(1, 3, 4)) - 1
    domain = list(range(emission.shape[1]))
    asked = pf.Statistic(np.ones(4), values.astype(float), positions.tolist())
    scenario = scenario_of(pf.HiddenMarkov(kernel, emission, start), domain, hidden=hidden)
    states, symbols, masses = joint(kernel, emission, start, positions)
    sums = values[symbols].sum(axis=1).astype(float)

    def truth(scale):
        return max(
            exact_loss(laws[a], laws[b], sums, scale)
            for row in range(4)
            for laws in [given(states, symbols, masses, row, hidden=hidden)]
            for a in laws
            for b in laws
        )

    for bound in (pf.Messages(), pf.Messages(coarse=True), pf.GWM(), pf.Exact(), "auto"):
        scale = pf.calibrate(pf.laws(scenario, asked), pf.Pure(0.7), bound=bound).noise.scale
        assert truth(scale) <= 0.7 * (1 + 1e-9)
        if isinstance(bound, pf.Exact) and scale:
            assert truth(0.9 * scale) > 0.7
            assert truth(scale) == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize("hidden", [True, False], ids=["state", "symbol"])
@pytest.mark.parametrize("seed", thinned(range(10), 0.3))
def test_messages_are_the_worst_case_of_two_hidden_states(seed, hidden):
    """Any exposures of rows: randomised responses about symbols attain the bound; three states stay below it."""
    rng = np.random.default_rng([11, seed])
    states = 2 + seed % 2
    kernel, emission, start = random_chain(rng, states, 3 if states == 2 else 2)
    limits = rng.exponential(0.8, 3)
    worst = worst_product(*joint(kernel, emission, start, range(3)), limits, hidden=hidden)
    bound = _messages(kernel, emission, start, limits, hidden=hidden)
    assert worst <= bound * (1 + 1e-9)
    if states == 2:
        assert bound == pytest.approx(worst, rel=1e-9)
    if hidden:
        same = temporal_leakage(kernel, limits.tolist(), start, 3, emission=emission)
        assert same == pytest.approx(bound, rel=1e-9)


def _messages(kernel, emission, start, limits, *, hidden):
    """Return the bound for one release of each row whose histogram has these exposures."""
    many = emission.shape[1]
    domain = list(range(many))
    scenario = scenario_of(pf.HiddenMarkov(kernel, emission, start), domain, hidden=hidden)
    weights = np.concatenate([[np.eye(3)[t] * limits[t]] * many for t in range(3)])
    asked = pf.Statistic(weights, np.tile(np.eye(many), (3, 1)))
    return pf.loss(pf.laws(scenario, asked), pf.Laplace(2.0), pf.Pure, bound=pf.Messages())


def test_rows_outside_of_a_window_do_not_matter_for_states_alone():
    """The rows from the first to the last queried one are kept, for symbols all of them."""
    cells = np.where((np.arange(40) > 9) & (np.arange(40) < 16), 0, -1)
    pattern = Pattern(cells, np.ones(40, dtype=int), np.arange(40.0))
    losses = {}
    for hidden in (True, False):
        secret = scenario_of(EXAMPLE, LEVELS, hidden=hidden).secret
        cut = window(EXAMPLE, secret, pattern)
        assert len(cut.cells) == (6 if hidden else 40)
        for one in (pattern, cut):
            laws = of_pattern(EXAMPLE, secret, one, np.array([LEVELS], dtype=float), "x")
            for bound in (pf.Messages(), pf.Exact()):
                found = pf.loss(laws, pf.Laplace(3.0), pf.Pure, bound=bound)
                assert losses.setdefault((hidden, bound), found) == pytest.approx(found, rel=1e-9)


def test_long_sequences_are_bounded_by_messages():
    """A year of hours is as good as for ever; laws that are too many to list are refused, or not used."""
    for hidden, forever in ((True, 1.19303524), (False, 1.13530231)):
        laws = total_of(8760, hidden=hidden)
        found = pf.loss(laws, pf.Laplace(10.0), pf.Pure, bound=pf.Messages())
        assert found == pytest.approx(forever, abs=1e-7)
        with pytest.raises(pf.Refused, match="too many to list"):
            list(laws)


def test_a_revealing_emission_is_a_chain_of_its_own_values():
    """Where each state shows a symbol of its own, states and symbols are those of pf.MarkovChain."""
    plain = pf.Scenario(pf.Secret("x", domain=[0, 1]), pf.MarkovChain(STAY), order_by="t")
    for hidden in (True, False):
        seen = scenario_of(pf.HiddenMarkov(STAY, np.eye(2)), [0, 1], hidden=hidden)
        for bound in (pf.Messages(), pf.GWM(), pf.Exact()):
            own, other = (
                pf.loss(pf.laws(one, pf.Statistic.total(9)), pf.Laplace(3.0), pf.Pure, bound=bound)
                for one in (plain, seen)
            )
            assert other == pytest.approx(own, rel=1e-9)
