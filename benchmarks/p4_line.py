"""P4: W_∞ and nearness on the line, 10^6 atoms each, beside NumPy's argsort of both (limits 4 and 20)."""

import numpy as np
from measure import compare, report

import pufferflow as pf

SIZE = 10**6


def law(values: np.ndarray, seed: int) -> pf.Law:
    """Return a law with random float weights on the values."""
    weights = np.random.default_rng(seed).random(len(values))
    return pf.Law(values, weights / weights.sum())


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=SIZE), 1.1 * rng.normal(size=SIZE)
    mu, nu = law(left, 1), law(right, 2)
    counts = law(rng.permutation(SIZE) // 2, 3), law(rng.permutation(SIZE) // 2 + 100, 4)
    peer = "argsort of both"

    def argsort() -> object:
        """Sort both laws' atoms, as the peer."""
        return np.argsort(left), np.argsort(right)

    rows = [compare("winf", lambda: pf.winf(mu, nu), peer, argsort, limit=4)]
    for delta in (1e-6, 1e-3, 1e-2, 1e-1, 3e-1):
        work = f"near, δ={delta:g}"
        rows.append(
            compare(
                work, lambda delta=delta: pf.near(mu, nu, delta), peer, argsort, limit=20, rounds=3
            )
        )
    work = "near, δ=0.01, whole numbers"
    rows.append(compare(work, lambda: pf.near(*counts, 0.01), peer, argsort, limit=20, rounds=3))
    rows.append(compare("wasserstein, p=2", lambda: pf.wasserstein(mu, nu), peer, argsort))
    rows.append(compare("making both laws", lambda: (law(left, 1), law(right, 2)), peer, argsort))
    report("p4_line", rows)
