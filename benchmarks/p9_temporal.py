"""P9: the loss of endless releases along a chain: 10 states within 5 s, 50 within 5 s and 1 %, two within .1 s.

The peer is the messages of a finite sequence, computed step by step without a search for the fixed point: the same
proven messages, which stay below the endless total. How many steps they are is in the table; long ones take
minutes for 50 states, so there the peer is one step. Every total is proven: g(D + ℓ) ≤ D was checked entry by entry.
A lower bound limits its excess over the truth: the finite total of many steps, and for 50 states the messages
that functions attain, iterated to their fixed point.
"""

import numpy as np
from measure import Row, compare, report

from pufferflow.accounting.rules.markov import temporal_leakage
from pufferflow.distributions.markov.chain import Chain, stationary
from pufferflow.distributions.markov.law_regions import bounds_by_plans, shortest
from pufferflow.distributions.markov.state_loss import (
    Exposures,
    Secrets,
    Window,
    continued_leak,
    exposures_of,
)

STAY = np.array([[0.9, 0.1], [0.1, 0.9]])
"""Two states, the anchor of M20: .8724 for a step of .1."""
STEP = 0.1


def kernel(states: int) -> np.ndarray:
    """Return a random matrix of probabilities that stays where it is one time in three."""
    rows = np.random.default_rng(states).dirichlet(np.ones(states), states)
    return (np.eye(states) + 2 * rows) / 3


def line(states: int) -> np.ndarray:
    """Return exposures by distance: the largest for the two ends."""
    values = np.arange(states) / (states - 1)
    return STEP * np.abs(values[:, None] - values)


def attained(rows: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Return messages that some functions attain, from nothing on: never above the fixed point."""
    states = len(rows)
    first, second = np.nonzero(~np.eye(states, dtype=bool))
    message, heights = np.zeros((states, states)), None
    while True:
        found = bounds_by_plans(
            rows[first], rows[second], shortest(message + exposure), heights, sweeps=2
        )
        following, heights = np.zeros((states, states)), found.heights
        following[first, second] = np.maximum(found.below, 0.0)
        if np.abs(following - message).max() < 1e-4 * following.max():
            return following
        message = following


def below(rows: np.ndarray, exposure: np.ndarray) -> float:
    """Return a total that the endless one cannot be below: past and future attained, and the step itself."""
    law = stationary(rows[None])
    back = (law[:, None] * rows / law).T
    return float((attained(rows, exposure) + exposure + attained(back, exposure)).max())


def states(count: int, steps: int, exposure: object) -> Row:
    """Time an endless total beside a finite one."""
    rows = STAY if count == 2 else kernel(count)
    return compare(
        f"endless, {count} states",
        lambda: temporal_leakage(rows, exposure),
        f"{steps} steps",
        lambda: temporal_leakage(rows, exposure, steps=steps),
        rounds=1 if count > 20 else 3,
    )


def windows(count: int) -> Row:
    """Time the total of a ledger of daily windows of 24 steps, and of as many again for ever."""
    day = Window(STEP * (1 - np.eye(2)), ((0, 24),))
    chain = Chain(STAY[None], np.zeros(1, dtype=np.intp), np.array([[0.5, 0.5]]))
    later = Exposures(day.losses[None], np.zeros(1, dtype=np.intp))
    secrets = Secrets(np.array([[0, 1], [1, 0]]))

    def total() -> float:
        _, head = exposures_of([day], np.zeros(count, dtype=np.intp), 24 * np.arange(count))
        return continued_leak(chain, head, later, secrets).value

    return compare(
        f"{count:,} windows, then for ever",
        total,
        "endless alone",
        lambda: temporal_leakage(STAY, STEP),
        rounds=3,
    )


if __name__ == "__main__":
    rows = [
        states(2, 512, STEP),
        states(10, 40, STEP),
        states(10, 40, line(10)),
        states(50, 2, STEP),
    ]
    rows += [states(50, 2, line(50)), windows(100_000)]
    report("p9_temporal", rows)
    for row, most in zip(rows, (0.1, 5, 5, 5, 5, 1), strict=True):
        print(f"{row.work}: {row.seconds:.3f} s (limit {most} s)")
    for name, exposure in (("even", STEP * (1 - np.eye(50))), ("by distance", line(50))):
        ratio = temporal_leakage(kernel(50), exposure) / below(kernel(50), exposure)
        print(
            f"50 states, losses {name}: {100 * (ratio - 1):.3f} % above what is attained (limit 1 %)"
        )
