"""What "Total Variation Meets Differential Privacy" states, where it is true, computed by the library."""

import itertools
import math

import numpy as np
import pytest
import tradeoffs

import pufferflow as pf
from pufferflow.tradeoff import Profile, compose, erased

NUMBERS = [(0.2, 0.05), (1.0, 0.3), (1.0, math.tanh(0.5)), (2.5, 0.4)]
DIVERGENCES = {
    "total variation": lambda t: np.maximum(t - 1, 0.0),
    "Kullback–Leibler": lambda t: t * np.log(t),
    "χ²": lambda t: (t - 1) ** 2,
    "hockey stick": lambda t: np.maximum(t - 1.3, 0.0),
}


def divergence(f, p, q):
    """D_f(P‖Q) = E_Q f(dP/dQ)."""
    return float(q @ f(p / q))


def worst(epsilon, tv):
    """The outputs of the profile's dominating pair."""
    atoms = Profile(epsilon, tv=tv).loss.finite
    happens = atoms.first > 0
    return atoms.first[happens], atoms.second[happens]


def private_channel(rng, epsilon, inputs=3, outputs=4):
    """A random ε-private channel: rows within a factor e^ε of each other, output by output."""
    while True:
        rows = rng.dirichlet(np.ones(outputs)) * np.exp(
            rng.uniform(-epsilon / 2, epsilon / 2, (inputs, outputs))
        )
        rows /= rows.sum(axis=1, keepdims=True)
        if np.log(rows[:, None] / rows[None]).max() <= epsilon:
            return rows


def variation(channel):
    """The largest total variation of two rows."""
    return max(np.abs(a - b).sum() / 2 for a, b in itertools.combinations(channel, 2))


def test_bayes_security_of_several_releases_is_the_product():
    """III-B1: channels of Bayes security β₁ and β₂ have β₁·β₂ together, where only total variation is known."""
    for first, second in [(0.9, 0.9), (0.7, 0.95), (1.0, 0.5)]:
        together = compose([Profile(math.inf, tv=1 - first), Profile(math.inf, tv=1 - second)])
        assert together.bayes_security == pytest.approx(first * second, abs=1e-12)
        assert together.bayes_security <= first * second
        assert together.advantage == together.tv
    # with ε known too, less is lost than 1 − (1 − η)^k says
    assert compose(Profile(1.0, tv=0.3), 5).advantage < 1 - 0.7**5 - 0.1


@pytest.mark.parametrize(("epsilon", "tv"), NUMBERS)
@pytest.mark.parametrize("name", DIVERGENCES)
def test_largest_divergence(name, epsilon, tv):
    """Theorem 4: the dominating pair has D_f = η(f(e^ε) + e^ε·f(e^(−ε)))/(e^ε − 1), which no random release passes."""
    f, rng = DIVERGENCES[name], np.random.default_rng(3)
    largest = (
        tv
        * (f(math.exp(epsilon)) + math.exp(epsilon) * f(math.exp(-epsilon)))
        / math.expm1(epsilon)
    )
    assert divergence(f, *worst(epsilon, tv)) == pytest.approx(largest, rel=1e-9)
    for _ in range(20):
        rows = private_channel(rng, epsilon, inputs=2)
        kept = min(1.0, tv / variation(rows))  # erased until η holds
        assert kept * divergence(f, *rows) <= largest * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "tv"), NUMBERS)
def test_theorem_7(epsilon, tv):
    """An ε-private channel erased with probability 1 − η·coth(ε/2) has ε, η, and that share of every divergence."""
    rng, share = np.random.default_rng(7), min(tv / math.tanh(epsilon / 2), 1.0)
    for _ in range(10):
        rows = private_channel(rng, epsilon)
        with_erasure = np.column_stack([share * rows, np.full(len(rows), 1 - share)])[
            :, : 4 + (share < 1)
        ]
        assert variation(with_erasure) <= tv * (1 + 1e-12)
        law = rng.dirichlet(np.ones(len(rows)), size=2)
        for f in DIVERGENCES.values():
            own, less = (divergence(f, *(law @ channel)) for channel in (rows, with_erasure))
            assert less == pytest.approx(share * own, abs=1e-12)
        profile, thinned = Profile.of_outputs(*rows[:2]), Profile.of_outputs(*with_erasure[:2])
        for at in (0.0, epsilon / 2):
            assert compose(erased(profile, 1 - share)).delta(at) == pytest.approx(
                compose(thinned).delta(at), abs=1e-12
            )


@pytest.mark.parametrize(("epsilon", "tv"), NUMBERS[:2])
def test_equation_41(epsilon, tv):
    """The binary mechanism with erasure has η/(2(e^ε − 1)(e^(−ε) + 1)) of the best channel's divergence, at least."""
    rng = np.random.default_rng(41)
    first, second = worst(epsilon, tv)
    factor = tv / (2 * math.expm1(epsilon) * (math.exp(-epsilon) + 1))
    relative = DIVERGENCES["Kullback–Leibler"]
    for _ in range(20):
        laws = rng.dirichlet(np.ones(3), size=2)
        binary = np.where((laws[1] > laws[0])[:, None], second, first)
        of_binary = divergence(relative, *(laws @ binary))
        apart = np.abs(laws[0] - laws[1]).sum() / 2
        assert np.abs(laws[0] @ binary - laws[1] @ binary).sum() / 2 == pytest.approx(
            tv * apart, rel=1e-9
        )
        rows = private_channel(rng, epsilon)
        kept = min(1.0, tv / variation(rows))
        assert of_binary >= factor * kept * divergence(relative, *(laws @ rows))
        most = 4 * tv * math.expm1(epsilon) * (math.exp(-epsilon) + 1) * apart**2  # Theorem 6
        assert kept * divergence(DIVERGENCES["χ²"], *(laws @ rows)) <= most * (1 + 1e-9)
        assert of_binary >= factor * most * (1 - 1e-9)


@pytest.mark.parametrize(("epsilon", "tv"), NUMBERS)
def test_the_proxy_of_a_channel(epsilon, tv):
    """VII-C: contraction is at most η·tanh(ε/2), attained by the pair; erasure lowers it by its share."""

    def contraction(p, q):
        """sup_β of Le Cam's divergences β(1−β)·E_Q (r − 1)²/(βr + 1 − β)."""
        r = p / q
        return max(
            b * (1 - b) * float(q @ ((r - 1) ** 2 / (b * r + 1 - b)))
            for b in np.linspace(0.01, 0.99, 99)
        )

    proxy = tv * math.tanh(epsilon / 2)
    assert contraction(*worst(epsilon, tv)) == pytest.approx(proxy, rel=1e-9)
    rng = np.random.default_rng(9)
    for _ in range(10):
        p, q = private_channel(rng, epsilon, inputs=2)
        kept = min(1.0, tv / variation(np.array([p, q])))
        assert kept * contraction(p, q) <= proxy * (1 + 1e-9)
    half = erased(Profile(epsilon, tv=tv), 0.5)
    assert (half.epsilon, half.tv) == pytest.approx((epsilon, tv / 2))


def test_staircase_noise_attains_the_pair():
    """VI-C: staircase noise with γ = .0139 has η = .3234 at ε = 1, and five of them the curve of their numbers."""
    noise = Profile.of(pf.Staircase(1.0, 1.0, 0.0139), 1.0)
    assert noise.tv == pytest.approx(0.3234, abs=5e-5)
    p, q = tradeoffs.product([tradeoffs.worst_pair(1.0, 0.0, noise.tv)] * 5)
    assert compose(noise, 5).delta(2.0) == pytest.approx(
        tradeoffs.hockey_stick(p, q, 2.0), abs=1e-12
    )
