"""P6: `calibrate` with `Exact`, pure Laplace, 10^5 atoms: at most one second, each ε evaluation O(n).

The peer is ten evaluations of the exact loss, the fewest that a root search needs, so the ratio is the cost of
searching; the limit of one second stands in the first column.
"""

import numpy as np
from measure import compare, report

import pufferflow as pf

SIZE = 10**5


def law(values: np.ndarray, seed: int) -> pf.Law:
    """Return a law with random float weights on the values."""
    weights = np.random.default_rng(seed).random(len(values))
    return pf.Law(values, weights / weights.sum())


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    cases = {
        "whole numbers": (law(np.arange(SIZE), 1), law(np.arange(SIZE) + 3, 2)),
        "normal draws": (law(rng.normal(size=SIZE), 3), law(rng.normal(size=SIZE) + 0.1, 4)),
    }
    rows = []
    for name, (mu, nu) in cases.items():
        for size in (SIZE // 10, SIZE):
            pair = mu, nu
            if size < SIZE:
                pair = tuple(
                    pf.Law(x.values[:size], x.weights[:size] / x.weights[:size].sum())
                    for x in (mu, nu)
                )
            for epsilon in (1.0, 0.1):
                found = pf.calibrate([pair], pf.Pure(epsilon), noise=pf.Laplace, bound=pf.Exact())

                def ten(pair: tuple = pair, noise: pf.Noise = found.noise) -> None:
                    """Evaluate the exact loss ten times."""
                    for factor in range(10, 20):
                        pf.loss(
                            [pair], noise.at(noise.scale * factor / 10), pf.Pure, bound=pf.Exact()
                        )

                rows.append(
                    compare(
                        f"{name}, {size} atoms, ε={epsilon:g}",
                        lambda pair=pair, epsilon=epsilon: pf.calibrate(
                            [pair], pf.Pure(epsilon), noise=pf.Laplace, bound=pf.Exact()
                        ),
                        "ten evaluations",
                        ten,
                        rounds=3,
                    )
                )
    report("p6_calibration", rows)
    slowest = max(row.seconds for row in rows)
    print(f"slowest calibration: {slowest:.2f} s (limit 1 s)")
