"""P7: a count along four states: exact W_∞ over all rows and pairs of 1,000 steps in 5 s; messages, any length, 1 s.

The peer of W_∞ is a simple NumPy version: forward and backward laws in plain floats, one convolution per row
and state, and no distance yet; it loses every mass below 1e-308. The peer of a calibration by messages is ten
evaluations of the loss, the fewest a root search gets by with; the limits in seconds stand in the last lines.
"""

import numpy as np
from measure import Row, compare, report

import pufferflow as pf

LEVELS = np.array(
    [
        [0.6785, 0.2038, 0.1023, 0.0154],
        [0.2185, 0.4909, 0.1998, 0.0907],
        [0.0971, 0.2427, 0.4149, 0.2454],
        [0.0064, 0.0639, 0.2829, 0.6469],
    ]
)
LEVELS /= LEVELS.sum(axis=1, keepdims=True)


def laws(steps: int) -> pf.Laws:
    """Return the laws of the sum of the levels along a chain, fresh: nothing is kept from the last call."""
    scenario = pf.Scenario(
        secret=pf.Secret("level", domain=[0, 1, 2, 3]),
        prior=pf.MarkovChain(LEVELS),
        order_by="hour",
    )
    return pf.laws(scenario, pf.Statistic.total(steps))


def plain(steps: int) -> None:
    """Convolve past and future at every row and state, in plain floats."""
    states = len(LEVELS)
    futures = [np.ones((states, 1))]
    for _ in range(steps - 1):
        last = futures[-1]
        moved = np.zeros((states, last.shape[1] + states - 1))
        for state in range(states):
            moved[state, state : state + last.shape[1]] = last[state]
        futures.append(LEVELS @ moved)
    for row in range(steps):  # the chain read backwards costs the same
        for state in range(states):
            np.convolve(futures[row][state], futures[steps - 1 - row][state])


def distance(steps: int) -> Row:
    """Time the exact W_∞."""
    return compare(
        f"W_∞, {steps} steps, 4 states",
        lambda: pf.calibrate(laws(steps), pf.Renyi(2, 1.0), noise=pf.Gaussian, bound=pf.GWM()),
        "plain convolutions",
        lambda: plain(steps),
        rounds=1,
    )


def messages(steps: int) -> Row:
    """Time a calibration by messages."""
    known = laws(steps)

    def ten() -> None:
        for scale in range(12, 22):
            pf.loss(known, pf.Laplace(float(scale)), pf.Pure, bound=pf.Messages())

    return compare(
        f"messages, {steps} steps, 4 states",
        lambda: pf.calibrate(laws(steps), pf.Pure(1.0), bound=pf.Messages()),
        "ten evaluations",
        ten,
        rounds=3,
    )


if __name__ == "__main__":
    rows = [distance(1000), *(messages(10**power) for power in (2, 3, 4, 5, 6))]
    report("p7_chains", rows)
    print(f"W_∞: {rows[0].seconds:.2f} s (limit 5 s)")
    print(f"messages: {max(row.seconds for row in rows[1:]):.2f} s at most (limit 1 s)")
