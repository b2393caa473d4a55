"""P21: totals of accounts against the exact joint loss, on random schedules of sums along chains under a pure limit.

The truth adds up every path of the chain, so sequences are short. The kinds of chains are those that people state: near
rows equal, near rows that avoid each other, and any. The total "by rows" is that of ledgers without the rows of groups.
"""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import polars as pl

import pufferflow as pf

SCHEDULES = 500
ROWS = {2: 10, 3: 7}


def kernels(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Return a kind of chain, and its kernel."""
    states = int(rng.integers(2, 4))
    kind = ("staying", "avoiding", "any")[int(rng.integers(3))]
    kernel = rng.dirichlet(np.ones(states), states) * 0.94 + 0.06 / states
    if kind != "any":
        share = float(rng.uniform(0.6, 0.95))
        stay = np.eye(states)
        move = (1 - stay) / (states - 1)
        kernel = share * (stay if kind == "staying" else move) + (1 - share) / states
    return kind, kernel


def schedules() -> Iterator[tuple[str, float, float, float]]:
    """Yield for each schedule the kind of chain, the truth, the total, and the total by rows."""
    rng = np.random.default_rng(21)
    for _ in range(SCHEDULES):
        kind, kernel = kernels(rng)
        states = len(kernel)
        rows = ROWS[states]
        secret = pf.Secret("on", domain=list(range(states)), missing=0)
        scenario = pf.Scenario(secret, pf.MarkovChain(kernel.tolist()), order_by="t")
        frame = pl.DataFrame({"t": range(rows), "on": [0] * rows})
        plans, sums = list[Any](), list[tuple[int, int, float]]()
        for low, high in windows(rng, rows):
            batch = pf.protect(frame, scenario).filter(pl.col("t") >= low, pl.col("t") < high)
            epsilon = float(rng.exponential(1.0)) + 0.1
            plan = batch.private_sum("on", name="s").plan(pf.Pure(epsilon))
            plans.append(plan)
            sums.append((low, high, float(plan.noises["s"].scale)))
        total = pf.compose(plans, scenario).total
        older = pf.compose([by_rows(plan.cost) for plan in plans], scenario).total
        yield kind, truth(kernel, rows, sums), total, older


def windows(rng: np.random.Generator, rows: int) -> Iterator[tuple[int, int]]:
    """Yield windows: days one after another, or any that may overlap."""
    if rng.random() < 0.5:
        size = int(rng.integers(2, rows // 2 + 1))
        yield from ((at, at + size) for at in range(0, rows - size + 1, size))
    else:
        for _ in range(int(rng.integers(1, 4))):
            low, high = sorted(rng.choice(rows + 1, 2, replace=False).tolist())
            yield low, high


def by_rows(cost: Any) -> Any:
    """Return a cost as ledgers of earlier versions have it."""
    rows = msgspec.structs.replace(cost.shape.rows, patterns=())
    return msgspec.structs.replace(cost, shape=msgspec.structs.replace(cost.shape, rows=rows))


def truth(kernel: np.ndarray, rows: int, sums: list[tuple[int, int, float]]) -> float:
    """Return the joint loss about any row, by adding up every path."""
    law = np.linalg.matrix_power(kernel, 4096)[0]
    paths = np.array(list(itertools.product(range(len(kernel)), repeat=rows)))
    weight = law[paths[:, 0]] * np.prod(kernel[paths[:, :-1], paths[:, 1:]], axis=1)
    likelihood = np.ones((len(paths), 1))
    for low, high, scale in sums:
        total = paths[:, low:high].sum(axis=1)
        density = np.exp(-np.abs(total[:, None] - np.unique(total)[None, :]) / scale)
        likelihood = (likelihood[:, :, None] * density[:, None, :]).reshape(len(paths), -1)
    largest = 0.0
    for row in range(rows):
        laws = [
            (weight * (paths[:, row] == state)) @ likelihood / law[state]
            for state in range(len(kernel))
        ]
        for one, other in itertools.permutations(laws, 2):
            largest = max(largest, float(np.log(one / other).max()))
    return largest


def main() -> int:
    """Print the quantiles of total / truth for each kind of chain; fail if a total is below the truth."""
    found = list(schedules())
    below = [row for row in found if row[2] < row[1] * (1 - 1e-9)]
    print(f"{len(found)} schedules, {len(below)} totals below the truth")
    for kind in ("staying", "avoiding", "any", ""):
        some = [row for row in found if kind in {row[0], ""} and row[1] > 0]
        for name, place in (("total", 2), ("by rows", 3)):
            ratios = np.array([row[place] / row[1] for row in some])
            median, most, worst = np.quantile(ratios, [0.5, 0.9, 1.0])
            print(
                f"{kind or 'all':9} {name:8} {len(some):4}  median {median:.3f}  90 % {most:.3f}  worst {worst:.2f}"
            )
    return int(bool(below))


if __name__ == "__main__":
    sys.exit(main())
