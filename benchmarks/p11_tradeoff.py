"""P11: 10⁴ different releases with their total variations, composed here and by dp-accounting's loss distributions.

ε_i between .001 and .02, η_i = .7·tanh(ε_i/2), ε at δ = 10⁻⁶. Both results are upper bounds; dp-accounting's depends on
its grid, onto which each loss is rounded up. Here the error is known: the series is compared with the exact law of 10⁴
equal releases (N₊ − N₋), and its ε may be no more than 10⁻⁵ above. Seconds are processor time. At most 1 s, and a tenth
of the peer's time at a grid that leaves it a larger error.
"""

import json
import math
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Row, report
from processes import HERE, python_with

from pufferflow.tradeoff import Composed, Profile, compose
from pufferflow.tradeoff.inversion import Inversion, Moments

PEER = "dp-accounting==0.4.4"
RELEASES, DELTA, LIMIT, CLOSE = 10_000, 1e-6, 1.0, 1e-5
WIDTHS = (1e-4,)
"""Grids of the peer; a finer one takes it many minutes."""


def drawn() -> list[tuple[float, float]]:
    """Return the releases, (ε, η)."""
    epsilons = np.random.default_rng(11).uniform(0.001, 0.02, RELEASES).tolist()
    return [(epsilon, 0.7 * math.tanh(epsilon / 2)) for epsilon in epsilons]


def composed(releases: list[tuple[float, float]]) -> tuple[Composed, float, float]:
    """Return the composition, its ε, and the seconds that both took."""
    start = time.process_time()
    together = compose(Profile(epsilon, tv=tv) for epsilon, tv in releases)
    found = together.epsilon(DELTA)
    return together, found, time.process_time() - start


def excess() -> float:
    """Return by how much the series' ε is above the exact one, for as many equal releases."""
    once = Profile(0.0105, tv=0.7 * math.tanh(0.00525))
    exact = compose(once, RELEASES).epsilon(DELTA)
    series = Inversion(Moments.of({once.loss: RELEASES}), RELEASES * once.epsilon)
    low, high = exact, exact * 1.01
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if series.delta(middle) > DELTA else (low, middle)
    return high - exact


def of_peer(
    python: Path, releases: list[tuple[float, float]], width: float, epsilon: float
) -> dict[str, float]:
    """Return what dp-accounting finds with a grid."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "releases.json"
        file.write_text(json.dumps(releases), encoding="utf-8")
        run = [python, HERE / "peers" / "dp_accounting_tradeoff.py", file, f"{width}", f"{epsilon}"]
        return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def measured() -> list[Row]:
    """Return all rows of the table."""
    releases = drawn()
    runs = [composed(releases) for _ in range(3)]
    (_, found, _), seconds = runs[0], sorted(run[2] for run in runs)[1]
    above = excess()
    print(f"ε at δ = {DELTA:g}: {found:.6f}; for equal releases {above:.1e} above the exact one")
    rows = [
        Row(f"{RELEASES} different releases: seconds", "a second", seconds, 1.0, seconds, LIMIT),
        Row("equal releases by the series: error of ε", "10⁻⁵", above, CLOSE, above / CLOSE, 1.0),
    ]
    python = python_with("dp_accounting", PEER)
    for width in WIDTHS if python is not None else ():
        peer = of_peer(python, releases, width, found)
        print(
            f"dp-accounting, grid {width:g}: ε = {peer['epsilon']:.6f}, δ = {peer['delta']:.3g} at our ε"
        )
        name = f"dp-accounting, grid {width:g}"
        rows.append(Row("seconds", name, seconds, peer["seconds"], seconds / peer["seconds"], 0.1))
        rows.append(Row("ε", name, found, peer["epsilon"], found / peer["epsilon"], 1.0))
    return rows


if __name__ == "__main__":
    report("p11_tradeoff", measured())
