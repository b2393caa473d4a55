"""P12: one pass of private gradient descent over 10⁶ rows of 20 features, beside that loop in NumPy without privacy.

Both read the same frame, shuffle its rows, scale them to [−1, 1], and take a step of the mean gradient of 1,000 rows at
a time, projected onto a ball. The product also plans, checks that the public facts are those of the plan, and draws
noise for every step. Seconds are processor time, in turn. At most twice the loop.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import polars as pl
from measure import Row, report

import pufferflow as pf

ROWS, FEATURES, BATCH, LIMIT, ROUNDS = 10**6, 20, 1_000, 2.0, 3
NAMES = [f"x{place}" for place in range(FEATURES)]
PROMISE = pf.Approx(1.0, 1e-6)


def generated() -> pl.DataFrame:
    """Return the rows."""
    rng = np.random.default_rng(12)
    features = rng.uniform(-1, 1, (ROWS, FEATURES))
    target = np.clip(features @ rng.normal(size=FEATURES) / 8 + 0.1 * rng.normal(size=ROWS), -1, 1)
    return pl.DataFrame({**dict(zip(NAMES, features.T, strict=True)), "y": target})


def plain(rows: pl.DataFrame, step_size: float) -> np.ndarray:
    """Return the weights of the same loop without privacy."""
    numbers = rows.to_numpy()[np.random.default_rng().permutation(rows.height)]
    scaled = np.clip((numbers - 0.0) / 1.0, -1, 1)
    values = np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)
    weights = np.zeros(FEATURES + 1)
    for start in range(0, len(values), BATCH):
        batch = values[start : start + BATCH]
        length = np.sqrt(weights @ weights)
        here = weights / length if length > 1 else weights
        features = batch[:, :-1]
        weights = here - step_size / len(batch) * ((features @ here - batch[:, -1]) @ features)
    return weights


def timed(calls: list[Callable[[], object]]) -> list[float]:
    """Return the median processor time of each call, in turn, after one to warm up."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS + 1):
        for call, kept in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            if turn:
                kept.append(time.process_time() - start)
    return [statistics.median(kept) for kept in times]


def main() -> None:
    """Time both, and report their ratio."""
    rows = generated()
    secrets = [pf.Secret(name, pf.Interval(-1, 1)) for name in (*NAMES, "y")]
    scenario = pf.Scenario(secrets, pf.Independent())
    model = pf.learning.PrivateSGDRegressor(
        scenario, PROMISE, loss="squared", batch_size=BATCH, passes=1, step_size=0.03
    )
    sums = pf.learning.PrivateRidge(scenario, PROMISE, solver="sums")
    ours, loop, by_sums = timed(
        [lambda: model.fit(rows, y="y"), lambda: plain(rows, 0.03), lambda: sums.fit(rows, y="y")]
    )
    what = f"descent, one pass of {ROWS:,} × {FEATURES}"
    report(
        "p12_training",
        [
            Row(what, "the same loop in NumPy", ours, loop, ours / loop, LIMIT),
            Row(
                "ridge by noisy sums", "the same loop in NumPy", by_sums, loop, by_sums / loop, None
            ),
        ],
    )


if __name__ == "__main__":
    main()
