"""Figure 4 of "Total Variation Meets Differential Privacy": one release and five, with and without their η.

ε = 1, δ = 0, α = .3, that is η = .7·tanh(½). The curve of ε alone (Kairouz et al.) is below that of ε and η, so it
guarantees less. Staircase noise with γ = .0139 attains the curve. Run it as
`python examples/papers/tv_figure_4.py [FILE.svg]`; without matplotlib (`pip install ".[report]"`) it prints
the table alone.
"""

import math
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import pufferflow as pf

EPSILON, ALPHA, TIMES = 1.0, 0.3, (1, 5)
ETA = (1 - ALPHA) * math.tanh(EPSILON / 2)
PROFILES = {
    "ε alone": pf.tradeoff.Profile(EPSILON),
    "ε and η": pf.tradeoff.Profile(EPSILON, tv=ETA),
    "staircase noise, γ = .0139": pf.tradeoff.Profile.of(pf.Staircase(1.0, EPSILON, 0.0139), 1.0),
}


def corner(times: int, place: int) -> float:
    """Return 1 − (1 − δ)^k(1 − δ_j) at jε as the paper's Theorem 2 has it, for δ = 0."""
    k, step, rest = times, math.exp(EPSILON), (1 - ALPHA) / (1 + math.exp(EPSILON))
    return math.fsum(
        math.comb(k, a) * math.comb(k - a, low) * rest ** (k - a) * ALPHA**a
        * (step ** (k - low - a) - step ** (low + place))
        for a in range(k - place)
        for low in range(math.ceil((k - place - a) / 2))
    )  # fmt: skip


def main() -> None:
    """Print δ at all corners beside Theorem 2's, and draw the curves."""
    table = Table("releases", "ε'", "δ of Theorem 2", *PROFILES, title="Figure 4: ε = 1, α = .3")
    curves = {
        times: [pf.tradeoff.compose(one, times) for one in PROFILES.values()] for times in TIMES
    }
    for times, own in curves.items():
        for place in range(times + 1):
            cells = [f"{curve.delta(place * EPSILON):.6f}" for curve in own]
            table.add_row(str(times), f"{place}ε", f"{corner(times, place):.6f}", *cells)
    Console().print(table)
    share = 1 - PROFILES["staircase noise, γ = .0139"].tv / math.tanh(EPSILON / 2)
    print(f"α of staircase noise with γ = .0139: printed ≈ .3, here {share:.5f}")
    if find_spec("matplotlib") is None:
        print('For the picture: pip install ".[report]"')
        return
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "tv_figure_4.svg")
    draw(curves, path)
    print(f"The picture is in {path}.")


def draw(curves: dict[int, list[pf.tradeoff.Composed]], path: Path) -> None:
    """Draw the trade-offs after one release and after five, side by side."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    alphas = np.linspace(0.0, 1.0, 101)
    figure, panels = plt.subplots(1, len(curves), figsize=(9, 4), sharey=True, layout="constrained")
    for axes, (times, own) in zip(panels, curves.items(), strict=True):
        for name, curve, colour in zip(PROFILES, own[:2], ("tab:green", "tab:blue"), strict=False):
            axes.plot(alphas, curve.curve(alphas), color=colour, label=name)
        axes.set(title=f"k = {times}", xlabel="false alarms (type I)", ylabel="misses (type II)")
    panels[0].legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
