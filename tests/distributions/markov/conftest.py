"""The laws of sums along chains in rational numbers, row by row and path by path; shares nothing with the library."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from pufferflow.distributions.markov.chain import Chain
from pufferflow.distributions.markov.sums import Sums


def law_given(chain, row, state):
    """The law of the sum given a state of a row, {sum: Fraction}; None if the row cannot have it."""
    allowed = lambda t: [state] if t == row else range(len(chain.initial))  # noqa: E731
    now = {(x, chain.values[0][x]): chain.initial[x] for x in allowed(0) if chain.initial[x]}
    for t, kernel in enumerate(chain.kernels):
        then = {}
        for (x, total), mass in now.items():
            for y in allowed(t + 1):
                if kernel[x][y]:
                    key = (y, total + chain.values[t + 1][y])
                    then[key] = then.get(key, 0) + mass * kernel[x][y]
        now = then
    law = {}
    for (_, total), mass in now.items():
        law[total] = law.get(total, 0) + mass
    whole = sum(law.values())
    return {total: Fraction(mass) / whole for total, mass in law.items()} if law else None


def winf(mu, nu):
    """W_∞ by walking the quantile coupling."""
    left, right = sorted(mu.items()), sorted(nu.items())
    farthest, (x, a), (y, b) = Fraction(0), left.pop(), right.pop()
    while True:
        farthest = max(farthest, abs(Fraction(x) - Fraction(y)))
        a, b = a - min(a, b), b - min(a, b)
        if not a and not b and not left:
            return farthest
        if not a:
            x, a = left.pop()
        if not b:
            y, b = right.pop()


def largest(chain, distance, rows=None):
    """The largest distance over rows and pairs of states, both of which the row can have."""
    found = Fraction(0)
    for row in range(len(chain.values)) if rows is None else rows:
        laws = [law_given(chain, row, state) for state in range(len(chain.initial))]
        laws = [law for law in laws if law is not None]
        found = max([found, *(distance(mu, nu) for i, mu in enumerate(laws) for nu in laws[:i])])
    return found


def every_pair(states):
    return np.array([(a, b) for a in range(states) for b in range(states) if a != b])


def sums_of(chain):
    """What the library is given: every row with its own kernel and values."""
    order = np.arange(len(chain.kernels), dtype=np.intp)
    kernels = np.array(chain.kernels, dtype=float).reshape(-1, *[len(chain.initial)] * 2)
    made = Chain(kernels, order, np.array([chain.initial], dtype=float))
    return Sums(
        made, np.array(chain.values, dtype=float), np.arange(len(chain.values), dtype=np.intp)
    )


def weights(rng, states, least=0):
    whole = rng.integers(least, 5, states)
    whole[rng.integers(states)] += 1
    return [Fraction(int(w), int(whole.sum())) for w in whole]


def random_chain(rng, most_rows=7, states=None, step=1):
    """A chain of 2–4 states with zeros in its kernels, which change, and values of both signs, which change too."""
    k, rows = states or int(rng.integers(2, 5)), int(rng.integers(2, most_rows + 1))
    kernels = [[weights(rng, k) for _ in range(k)] for _ in range(rows - 1)]
    if rng.random() < 0.3:
        kernels = [kernels[0]] * (rows - 1)
    phi = rng.integers(-3, 4, k)
    signs = rng.integers(-1, 3, rows)
    values = [[Fraction(int(w * v)) * step for v in phi] for w in signs]
    return SimpleNamespace(kernels=kernels, initial=weights(rng, k), values=values)


def homogeneous(kernel, rows, values=(0, 1), initial=None):
    """One kernel (of Fractions) and one row of values along all rows; a uniform start unless another is given."""
    k = len(kernel)
    start = initial or [Fraction(1, k)] * k
    return SimpleNamespace(
        kernels=[kernel] * (rows - 1), initial=start, values=[list(values)] * rows
    )


@pytest.fixture(scope="session")
def exact():
    """Everything above."""
    return SimpleNamespace(
        law_given=law_given,
        winf=winf,
        largest=largest,
        every_pair=every_pair,
        sums_of=sums_of,
        random_chain=random_chain,
        homogeneous=homogeneous,
    )
