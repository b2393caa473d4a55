"""P8: noise for a count of 100 steps of a two-state chain, pure ε, Laplace: `bound="auto"` against the exact minimum.

The exact minimum b* is found by `pf.Exact` on all listed pairs of laws. Limit: auto within .1 % of it, so never above
Markov quilts, W_∞/ε or group privacy. Transition [[1−q, q], [1−p, p]], stationary start; no timing.
"""

import json

from measure import RESULTS
from rich.console import Console
from rich.table import Table

import pufferflow as pf

ROWS = [
    (0.4, 0.6, 0.2),
    (0.4, 0.6, 1),
    (0.4, 0.6, 5),
    (0.3, 0.7, 1),
    (0.1, 0.9, 0.2),
    (0.1, 0.9, 5),
]
BOUNDS = {
    "exact": pf.Exact(),
    "auto": "auto",
    "messages": pf.Messages(),
    "W_∞": pf.GWM(),
    "quilt": pf.Quilt(),
    "quilt approx.": pf.Quilt(approximate=True),
    "group": pf.Group(),
}

if __name__ == "__main__":
    table = Table(title="p8_noise: Laplace scales, and their ratio to the exact minimum")
    for column in ("q", "p", "ε", *BOUNDS):
        table.add_column(column, justify="right")
    found = []
    for q, p, epsilon in ROWS:
        scenario = pf.Scenario(
            secret=pf.Secret("on", domain=[0, 1]),
            prior=pf.MarkovChain([[1 - q, q], [1 - p, p]]),
            order_by="hour",
        )
        laws = pf.laws(scenario, pf.Statistic.total(100))
        scales = {
            name: pf.calibrate(laws, pf.Pure(epsilon), bound=bound).noise.scale
            for name, bound in BOUNDS.items()
        }
        least = scales["exact"]
        cells = [f"{scale:.5g} ({scale / least:.4g})" for scale in scales.values()]
        table.add_row(f"{q:g}", f"{p:g}", f"{epsilon:g}", *cells)
        found.append({"q": q, "p": p, "epsilon": epsilon, **scales})
    Console(width=160).print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "p8_noise.json").write_text(
        json.dumps({"name": "p8_noise", "rows": found}, indent=1) + "\n"
    )
    worst = max(row["auto"] / row["exact"] for row in found)
    print(f"auto / exact minimum: {worst:.6f} at most (limit 1.001)")
