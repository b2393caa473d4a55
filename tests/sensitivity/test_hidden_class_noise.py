"""Gaussian noise on sums over rows that share a hidden class: the bound of messages is never below the truth (M63)."""

import itertools
import math

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.privacy.conversions import gaussian_deltas

DELTA, ALPHA = 1e-4, 3.0


def truth_of(weights, laws, statistic, scale, epsilon):
    """The δ at ε and the Rényi loss of noisy sums, by all data sets and a grid of answers."""
    size = statistic.shape[1]
    data = np.array(list(itertools.product((0, 1), repeat=size)))
    joint = weights @ np.array([np.prod(law[data], axis=1) for law in laws])
    sums = (data @ statistic.T) / scale
    lines = [
        np.linspace(one.min() - 8, one.max() + 8, 161 if len(statistic) > 1 else 20001)
        for one in sums.T
    ]
    cell = math.prod((line[1] - line[0]) / math.sqrt(2 * math.pi) for line in lines)
    parts = [
        np.exp(-((line[None] - one[:, None]) ** 2) / 2)
        for line, one in zip(lines, sums.T, strict=True)
    ]
    deltas, losses = [], []
    for row in range(size):
        given = [np.where(data[:, row] == value, joint, 0.0) for value in (0, 1)]
        given = [law / law.sum() for law in given]
        if len(parts) == 1:
            densities = [law @ parts[0] * cell for law in given]
        else:
            densities = [(parts[0] * law[:, None]).T @ parts[1] * cell for law in given]
        for top, bottom in (densities, densities[::-1]):
            deltas.append(np.maximum(top - math.exp(epsilon) * bottom, 0.0).sum())
            safe = np.maximum(bottom, 1e-280)
            losses.append(math.log((top**ALPHA * safe ** (1 - ALPHA)).sum()) / (ALPHA - 1))
    return max(deltas), max(losses)


def scenario_of(weights, laws):
    prior = pf.LatentClass(weights.tolist(), laws.tolist())
    return pf.Scenario(pf.Secret("on", domain=[0, 1]), prior, within="house")


@pytest.mark.parametrize("seed", range(24))
def test_one_release_never_loses_more_than_messages_say(seed):
    """One sum or two, with weights, rows that no sum reads, and rows in both."""
    rng = np.random.default_rng(seed)
    weights, laws = rng.dirichlet([1, 1]), rng.dirichlet([0.7, 0.7], 2)
    answers, size = int(rng.integers(1, 3)), int(rng.integers(2, 7))
    statistic = rng.integers(0, 3, (answers, size)).astype(float)
    statistic[:, 0] = np.maximum(statistic[:, 0], 1)
    scale = float(rng.uniform(1, 8))
    pairs = pf.laws(scenario_of(weights, laws), pf.Statistic(statistic, [0, 1]))
    noise, bound = pf.Gaussian(scale), pf.Messages()
    epsilon = pf.loss(pairs, noise, pf.Approx.of(DELTA), bound=bound)
    renyi = pf.loss(pairs, noise, pf.Renyi.of(ALPHA), bound=bound)
    delta, loss = truth_of(weights, laws, statistic, scale, epsilon)
    assert delta <= DELTA * (1 + 1e-6)
    assert loss <= renyi + 1e-7
    assert loss <= ALPHA * pf.loss(pairs, noise, pf.Zcdp, bound=bound) + 1e-7
    moved = np.array([pf.loss(pairs, noise, pf.Gdp, bound=bound)])
    for epsilon in (0.0, 0.2, 1.0):
        delta, _ = truth_of(weights, laws, statistic, scale, epsilon)
        assert delta <= gaussian_deltas(moved, epsilon)[0] + 1e-7


def test_noise_of_large_groups_is_far_less_than_that_of_group_privacy():
    laws = np.array([[0.8, 0.2], [0.3, 0.7]])
    pairs = pf.laws(scenario_of(np.array([0.5, 0.5]), laws), pf.Statistic.total(20))
    scales = {
        bound: pf.calibrate(pairs, pf.Approx(2.0, 1e-6), noise=pf.Gaussian, bound=bound).noise.scale
        for bound in (pf.Messages(), pf.DAGWM(), pf.Group())
    }
    messages, transport, group = scales.values()
    assert messages == pytest.approx(5.03, abs=0.02)
    assert transport > 3 * messages
    assert group > 7 * messages


@pytest.mark.parametrize(("guarantee", "times"), [(pf.Gdp(1.0), 2.8), (pf.Zcdp(1.0), 2.5)])
def test_guarantees_of_all_orders_need_little_noise_for_large_groups(guarantee, times):
    """Of twenty rows about one class, in μ and in ρ."""
    laws = np.array([[0.6, 0.4], [0.4, 0.6]])
    pairs = pf.laws(scenario_of(np.array([0.5, 0.5]), laws), pf.Statistic.total(20))
    messages, group, auto = (
        pf.calibrate(pairs, guarantee, noise=pf.Gaussian, bound=bound).noise.scale
        for bound in (pf.Messages(), pf.Group(), "auto")
    )
    assert group > times * messages
    assert auto == pytest.approx(messages)


def test_messages_have_no_pure_bound_of_gaussian_noise():
    """Neither for a row nor for the class; for the class all rows count, of which all may differ."""
    laws = np.array([[0.8, 0.2], [0.3, 0.7]])
    scenario = scenario_of(np.array([0.5, 0.5]), laws)
    of_row = pf.laws(scenario, pf.Statistic.total(4))
    of_class = pf.laws(
        pf.Scenario(
            pf.Derived("kind", column="on", domain=[0, 1]), scenario.priors, within="house"
        ),
        pf.Statistic.total(4),
    )
    for pairs, guarantee in (
        (of_row, pf.Pure(1.0)),
        (of_class, pf.Pure(1.0)),
    ):
        with pytest.raises(pf.Refused):
            pf.calibrate(pairs, guarantee, noise=pf.Gaussian, bound=pf.Messages())
