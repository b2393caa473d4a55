"""P5: W_∞ in the plane, 1,000 × 1,000 atoms with non-uniform weights, beside POT's exact emd (limit 10)."""

from functools import partial

import numpy as np
import ot
from measure import compare, report
from scipy.spatial.distance import cdist

import pufferflow as pf

SIZE = 1000


def law(seed: int, spread: float, size: int = SIZE) -> pf.Law:
    """Return a law of normal atoms with random weights."""
    rng = np.random.default_rng(seed)
    weights = rng.random(size)
    return pf.Law(spread * rng.normal(size=(size, 2)), weights / weights.sum())


if __name__ == "__main__":
    rows = []
    for norm, metric in ((1, "cityblock"), (2, "euclidean"), (np.inf, "chebyshev")):
        mu, nu = law(1, 1.0), law(2, 1.1)
        cost = cdist(mu.values, nu.values, metric)
        calls = {
            "winf": partial(pf.winf, mu, nu, norm),
            "near, δ=0.01": partial(pf.near, mu, nu, 0.01, norm),
            "wasserstein, p=2": partial(pf.wasserstein, mu, nu, 2, norm),
        }
        emd = partial(ot.emd, mu.weights, nu.weights, cost)
        for work, call in calls.items():
            limit = 10 if work == "winf" else None
            rows.append(
                compare(f"{work}, norm {norm}", call, "POT emd, same cost", emd, limit=limit)
            )
    report("p5_space", rows)
