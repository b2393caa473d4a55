"""The split of a loss into own laws, tied noises and dependence through the data (DCP's eq. 12, Definition 6)."""

import math

import numpy as np
import pytest
from confounded import (
    FIRST,
    SECOND,
    THREE,
    channel,
    kept_bit,
    matrix,
    random_channel,
    random_table,
    tied_laws,
)

import pufferflow as pf
from pufferflow.confounding import Additive, Channel, cost, gaussian_copula, tied_channels


def antithetic(u, v):
    return np.maximum(u + v - 1, 0.0)


THIRD = channel("x", [[0.7, 0.3], [0.5, 0.5], [0.3, 0.7]])
COPULAS = [np.minimum, antithetic, np.multiply]


def logs(law):
    with np.errstate(divide="ignore"):
        return np.log(law)


def enumerated(joint, tied, first, second, third):
    """Return the parts of the log loss of both orders at every outcome, by plain enumeration in floats.

    `tied` has the law of the first two outputs at each point (a, b); the third reads a.
    """
    given = joint / joint.sum(axis=(1, 2), keepdims=True)
    one, two, three = (matrix(each) for each in (first, second, third))
    together = np.einsum("sab,abij,ak->sijk", given, tied, three)
    untied = np.einsum("sab,ai,bj,ak->sijk", given, one, two, three)
    own = [
        np.einsum("sab,ai->si", given, one)[:, :, None, None],
        np.einsum("sab,bj->sj", given, two)[:, None, :, None],
        np.einsum("sab,ak->sk", given, three)[:, None, None, :],
    ]
    shape = together.shape
    with np.errstate(invalid="ignore"):
        parts = [np.broadcast_to(logs(each), shape) for each in own]
        parts += [logs(together) - logs(untied), logs(untied) - sum(parts)]
        losses = {
            pair: [each[pair[0]] - each[pair[1]] for each in parts] for pair in ((0, 1), (1, 0))
        }
    return together, losses


@pytest.mark.parametrize("seed", range(12))
def test_parts_are_those_of_enumeration(seed):
    """Each part, at the worst outcome and on average, is that of plain enumeration; their sum is the loss."""
    rng = np.random.default_rng(seed)
    table, joint = random_table(rng, sizes=(3, 2))
    first, second, third = (
        random_channel(rng, "a", 3, 2),
        random_channel(rng, "b", 2, 3),
        random_channel(rng, "a", 3, 2),
    )
    copula = COPULAS[seed % 3]
    pair = (
        gaussian_copula(first, second, rng.uniform(-0.9, 0.9))
        if seed % 2
        else tied_channels(first, second, copula)
    )
    masses = np.array(
        [
            [[float(p) for p in pair.probabilities[pair.place((a, b))]] for b in (0, 1)]
            for a in range(3)
        ]
    )
    found = cost(table, [pair, third], secret="s")
    split = found.dependence
    together, losses = enumerated(joint, masses.reshape(3, 2, 2, 3), first, second, third)
    parts = losses[split.pair]
    average = together[split.pair[0]]
    own = split.average
    assert split.worst.total == pytest.approx(found.pure, abs=1e-12)
    assert math.fsum([*split.worst.marginals, split.worst.dependence]) == pytest.approx(
        split.worst.total, abs=1e-15
    )
    if math.isinf(found.pure):
        return
    places = [
        one.outputs.index(out) for one, out in zip((pair, third), split.worst.outputs, strict=True)
    ]
    at = (*divmod(places[0], 3), places[1])
    there = average > 0
    for each, worst, mean in zip(
        parts,
        (*split.worst.marginals, split.worst.dependence_of_noise, split.worst.dependence_of_data),
        (*own.marginals, own.dependence_of_noise, own.dependence_of_data),
        strict=True,
    ):
        assert worst == pytest.approx(each[at], abs=1e-11)
        assert mean == pytest.approx((average[there] * each[there]).sum(), abs=1e-11)
    whole = sum(parts)
    assert own.total == pytest.approx((average[there] * whole[there]).sum(), abs=1e-12)


def test_a_tied_pair_and_a_third():
    """The tied pair's own dependence is split off: two marginals, what the copula adds, and what the data add."""
    pair = cost(THREE, gaussian_copula(FIRST, FIRST, 0.5)).dependence.worst
    assert pair.total == pytest.approx(0.1783071, abs=1e-7)
    assert pair.marginals == pytest.approx([0.1201443] * 2, abs=1e-7)
    assert pair.dependence_of_noise == pytest.approx(-0.0562251, abs=1e-7)
    assert pair.dependence_of_data == pytest.approx(-0.0057564, abs=1e-7)
    beside = cost(THREE, [tied_channels(FIRST, FIRST, np.minimum), THIRD]).dependence.worst
    assert beside.total == pytest.approx(0.3442695, abs=1e-7)
    assert beside.marginals == pytest.approx([0.1201443, 0.1201443, 0.2411621], abs=1e-7)
    assert beside.dependence == pytest.approx(-0.1201443 - 0.0170368, abs=1e-7)


def test_untied_releases_have_no_dependence_of_noise():
    """Independent noises add nothing beside the data; and ties add nothing to what the data add."""
    apart = cost(THREE, [FIRST, SECOND, THIRD]).dependence
    assert apart.worst.dependence_of_noise == apart.average.dependence_of_noise == 0.0
    untied = cost(THREE, [tied_channels(FIRST, SECOND, np.multiply), THIRD]).dependence
    assert untied.worst.dependence_of_noise == pytest.approx(0.0, abs=1e-12)
    assert untied.worst.dependence_of_data == pytest.approx(
        apart.worst.dependence_of_data, abs=1e-12
    )


def test_no_dependence_through_data_that_the_secret_fixes():
    """Where the secret fixes the data (Proposition 1), the copula's part is all of the dependence."""
    certain = pf.Table({"s": [0, 1], "x": [0, 1], "probability": [0.5, 0.5]})
    pair = gaussian_copula(kept_bit("x", 0.7), kept_bit("x", 0.8), 0.5)
    split = cost(certain, [pair, kept_bit("x", 0.6)]).dependence
    for parts in (split.worst, split.average):
        assert parts.dependence_of_data == pytest.approx(0.0, abs=1e-14)
        assert abs(parts.dependence_of_noise) > 0.01


def test_ties_within_ties():
    """A tied pair that is tied to a third release has three marginals."""
    inner = gaussian_copula(FIRST, SECOND, 0.5)
    split = cost(THREE, gaussian_copula(inner, THIRD, 0.3)).dependence.worst
    apart = cost(THREE, [inner, THIRD]).dependence.worst
    assert len(split.marginals) == len(apart.marginals) == 3
    assert Channel.from_json(inner.to_json()) == inner


def test_outcomes_that_one_secret_excludes():
    """An infinite loss is the copula's where only the copula excludes the outcome."""
    certain = pf.Table({"s": [0, 1], "x": [0, 1], "probability": [0.5, 0.5]})
    split = cost(
        certain, tied_channels(kept_bit("x", 0.7), kept_bit("x", 0.7), np.minimum)
    ).dependence
    assert split.worst.total < math.inf
    first = channel("x", [[0.7, 0.3], [0.3, 0.7]])
    second = channel("x", [[0.6, 0.4], [0.7, 0.3]])
    split = cost(certain, tied_channels(first, second, antithetic)).dependence
    assert split.worst.total == split.worst.dependence_of_noise == math.inf
    assert split.worst.dependence_of_data == pytest.approx(0.0, abs=1e-15)
    bare = cost(certain, [Channel.revealing("x", [0, 1]), first]).dependence
    assert bare.worst.marginals[0] == bare.worst.total == bare.average.total == math.inf
    assert bare.worst.dependence == 0.0


def test_correlated_gaussian_noises_split_in_closed_form():
    """Where the secret fixes the data, the average of own laws is a²/2 + b²/2, and of the noises the rest of μ²/2."""
    table = pf.Table({"s": [0, 1], "u": [0.0, 2.0], "v": [0.0, 0.5], "probability": [0.5, 0.5]})
    pair = Additive("u", pf.Gaussian(2.0)), Additive("v", pf.Gaussian(0.5))
    squared = (1 - 2 * 0.5 + 1) / (1 - 0.25)
    both = pf.Table({"s": [0, 1], "u": [0.0, 1.0], "v": [0.0, 1.0], "probability": [0.5, 0.5]})
    for given, releases in [
        (table, [gaussian_copula(*pair, 0.5)]),
        (both, [Additive(["u", "v"], pf.Gaussian(1.0), correlation=0.5)]),
    ]:
        split = cost(given, releases, secret="s").dependence
        assert split.average.marginals == pytest.approx([0.5, 0.5], rel=2e-3)
        assert split.average.dependence_of_noise == pytest.approx(squared / 2 - 1, rel=2e-3)
        assert split.average.dependence_of_data == pytest.approx(0.0, abs=1e-9)
        with pytest.raises(pf.Refused, match="not split at the worst outcome"):
            _ = split.worst


@pytest.mark.slow
def test_three_noises_split_in_closed_form():
    """Where the secret fixes the data, each Laplace noise loses t + e^{−t} − 1 at t scales on average."""
    table = pf.Table(
        {"s": [0, 1], "u": [0.0, 1.0], "v": [0.0, 0.4], "w": [0.0, 2.0], "probability": [0.5, 0.5]}
    )
    noises = [
        Additive("u", pf.Laplace(1.0)),
        Additive("v", pf.Gaussian(1.0)),
        Additive("w", pf.Staircase(1.0, 0.5, 0.5)),
    ]
    found = cost(table, noises, secret="s").dependence.average
    assert found.marginals[0] == pytest.approx(math.exp(-1), rel=5e-3)
    assert found.marginals[1] == pytest.approx(0.08, rel=5e-3)
    assert found.dependence_of_data == pytest.approx(0.0, abs=1e-12)
    assert found.dependence_of_noise == 0.0
    single = cost(table, noises[2], secret="s").dependence.average
    assert found.marginals[2] == pytest.approx(single.total, abs=1e-12)
    with pytest.raises(pf.Refused, match="joint outcomes"):
        _ = cost(table, [*noises[:2], *noises[:2]], secret="s").dependence


@pytest.mark.slow
def test_the_average_of_tied_noises_is_that_of_quadrature():
    """The parts of two tied noises beside a channel are those of a finer grid; the channel has a part of its own."""
    table, _ = random_table(np.random.default_rng(8), sizes=(2, 2))
    noises, rho = (pf.Laplace(1.0), pf.GeneralizedCauchy(1.0, k=8)), 0.5
    releases = [Additive(name, one) for name, one in zip("ab", noises, strict=True)]
    split = cost(table, gaussian_copula(*releases, rho), secret="s").dependence
    tied, untied = tied_laws(table, noises, lambda _: (rho, 0, 0), np.linspace(-24, 25, 1200))
    one, two = split.pair
    own = [tied.sum(axis=2)[:, :, None], tied.sum(axis=1)[:, None, :]]
    product = own[0] * own[1]
    parts = [*own, tied / untied, untied / product]
    for part, found in zip(
        parts,
        (
            *split.average.marginals,
            split.average.dependence_of_noise,
            split.average.dependence_of_data,
        ),
        strict=True,
    ):
        assert found == pytest.approx((tied[one] * np.log(part[one] / part[two])).sum(), abs=2e-4)
    whole = (tied[one] * np.log(tied[one] / tied[two])).sum()
    assert split.average.total == pytest.approx(whole, abs=2e-4)
    beside = cost(table, [*releases, random_channel(np.random.default_rng(3), "b", 2)], secret="s")
    assert len(beside.dependence.average.marginals) == 3
    assert beside.dependence.average.dependence_of_noise == 0.0
