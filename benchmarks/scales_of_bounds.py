"""Noise scales of each bound, for the cases of RPP's examples (no timing).

Example 1: X₁ + X₂ of two correlated coins. Example 2: the mean of two salaries. An outlier of probability .003. A count
over a Markov chain of 20 steps. Guarantees: (4, 1)-Rényi for three noises, and ε = 1 with Laplace noise.
"""

import json

import numpy as np
from measure import RESULTS
from rich.console import Console
from rich.table import Table

import pufferflow as pf

BOUNDS = {"exact": pf.Exact(), "DAGWM": pf.DAGWM(), "GWM": pf.GWM(), "group": pf.Group()}


def coins(rho: float) -> tuple[pf.Law, pf.Law]:
    """Return the laws of X₁ + X₂ given X₁ = 1 and 0, fair coins of correlation rho."""
    same = (1 + rho) / 2
    return pf.Law([1, 2], [1 - same, same]), pf.Law([0, 1], [same, 1 - same])


def salaries() -> tuple[pf.Law, pf.Law]:
    """Return the laws of the mean of two salaries, one of which is 1 or 100."""
    other = pf.Law([1, 2, 100], [0.5, 0.499, 0.001])
    return tuple(other.shift(value).map(lambda x: x / 2) for value in (1, 100))  # type: ignore[return-value]


def chain(stay: float, length: int) -> tuple[pf.Law, pf.Law]:
    """Return the laws of a count over a symmetric two-state chain, given its middle state."""
    kernel = np.array([[stay, 1 - stay], [1 - stay, stay]])
    sides = []
    for start in (0, 1):
        side = np.zeros((2, length))
        side[start, 0] = 1
        halves = []
        for steps in (length // 2, length - 1 - length // 2):
            counts = side.copy()
            for _ in range(steps):
                counts = kernel.T @ counts
                counts[1] = np.roll(counts[1], 1)
            halves.append(counts.sum(axis=0))
        weights = np.convolve(*halves)[:length]
        sides.append(pf.Law(np.arange(length) + start, weights / weights.sum()))
    return sides[0], sides[1]


CASES = {
    "two coins, ρ=.25": coins(0.25),
    "two coins, ρ=.6": coins(0.6),
    "two coins, ρ=-.4": coins(-0.4),
    "mean of two salaries": salaries(),
    "outlier, p=.003": (pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])),
    "chain of 20, stay .9": chain(0.9, 20),
}
PROMISES = {
    "Laplace, ε=1": (pf.Laplace, pf.Pure(1.0)),
    "Laplace, (4,1)-Rényi": (pf.Laplace, pf.Renyi(4, 1.0)),
    "Gaussian, (4,1)-Rényi": (pf.Gaussian, pf.Renyi(4, 1.0)),
    "Cauchy, (4,1)-Rényi": (pf.GeneralizedCauchy, pf.Renyi(4, 1.0)),
    "Laplace, (1,1e-6)": (pf.Laplace, pf.Approx(1.0, 1e-6)),
}


if __name__ == "__main__":
    table = Table("answer", "noise and guarantee", *BOUNDS, "GWM / exact", title="scales of noise")
    rows = []
    for answer, pair in CASES.items():
        for promise, (noise, guarantee) in PROMISES.items():
            scales = {
                name: pf.calibrate([pair], guarantee, noise=noise, bound=bound).noise.scale
                for name, bound in BOUNDS.items()
            }
            ratio = scales["GWM"] / scales["exact"] if scales["exact"] else float("inf")
            table.add_row(
                answer, promise, *(f"{scale:.4g}" for scale in scales.values()), f"{ratio:.2f}"
            )
            rows.append({"answer": answer, "promise": promise, **scales})
    Console().print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scales_of_bounds.json").write_text(json.dumps(rows, indent=1) + "\n")
