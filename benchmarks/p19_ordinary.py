"""P19: ordinary differential privacy of units that come and go, beside OpenDP's own queries at the same guarantee.

Errors are at most 1.05 times OpenDP's: mean absolute errors of counts, sums and means in known groups of unknown size,
with one row of a unit and with ten. Noise is drawn with the scales of either library. Answers by group are
also compared for units with so many rows in each of four groups, with Gaussian noise.
"""

import json
import subprocess

import numpy as np
import polars as pl
from measure import Row, report
from processes import HERE, python_with

import pufferflow as pf

OPENDP = "opendp[polars]==0.16.0"
LIMIT, ROWS, MIDDLE, DRAWS = 1.05, 1_000, 30.0, 400_000
"""The rows of a group, and the mean of their amounts."""


def own_error(asked: str, rows: int) -> float:
    """Return the mean absolute error of a plan of the product, the worst of its answers."""
    by_group = "by group" in asked
    groups = {"groups": 4, "by": "group"} if by_group else {}
    secret = pf.Presence("person", column="amount", domain=pf.Interval(0, 100), rows=rows, **groups)
    frame = pl.DataFrame({"person": [1], "group": [0], "amount": [1.0]})
    scenario = pf.Scenario(secret, pf.Independent(), public=["group"])
    batch = pf.protect(frame, scenario).group_by("group", keys=range(9))
    batch = batch.private_count() if "count" in asked else batch
    batch = batch.private_sum("amount") if "sum" in asked else batch
    if by_group:
        (noise,) = batch.plan(pf.Zcdp(0.5), noise=pf.Gaussian).noises.values()
        return noise.scale
    if asked != "mean":
        return max(noise.scale for noise in batch.plan(pf.Pure(1.0)).noises.values())
    plan = batch.private_mean("amount").plan(pf.Pure(1.0))
    center = plan.request.queries[0].center
    return mean_error(*(noise.scale for noise in plan.mechanism.noise.noises_in_units), center)


def mean_error(of_sum: float, of_count: float, center: float = 0.0) -> float:
    """Return the mean absolute error of a noisy sum of amounts less `center`, divided by a noisy count."""
    rng = np.random.default_rng(19)
    sums = ROWS * (MIDDLE - center) + rng.laplace(0, of_sum, DRAWS)
    counts = np.maximum(ROWS + rng.laplace(0, of_count, DRAWS), 1.0)
    return float(np.abs(np.clip(center + sums / counts, 0, 100) - MIDDLE).mean())


def peer_error(asked: str, scales: list[float]) -> float:
    """Return the same from the scales of the peer."""
    return mean_error(*scales) if asked == "mean" else max(scales)


def measured() -> list[Row]:
    """Return all rows of the table; none without the peer."""
    python = python_with("opendp", OPENDP)
    if python is None:
        return []
    run = [python, "-W", "ignore", HERE / "peers" / "opendp_scales.py"]
    scales = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    rows = list[Row]()
    for name, of_peer in scales.items():
        asked, units = name.split(", ")
        own, peer = own_error(asked, int(units)), peer_error(asked, of_peer)
        rows.append(
            Row(f"{asked}, {units} rows of a unit: error", "OpenDP", own, peer, own / peer, LIMIT)
        )
    return rows


if __name__ == "__main__":
    report("p19_ordinary", measured())
