"""Figure 3 of "Total Variation Meets Differential Privacy": Laplace noise between ε and its total variation, ε = 1.

The exact trade-off of the noise lies above the lines that ε-privacy alone allows (grey), and above the line of its
total variation (red), which cuts their corner off. Run it as `python examples/papers/tv_figure_3.py [FILE.svg]`;
without matplotlib (`pip install ".[report]"`) it prints the table alone.
"""

import math
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import pufferflow as pf

EPSILON = 1.0


def main() -> None:
    """Print the numbers beside the printed ones, and draw the three curves."""
    noise = pf.tradeoff.Profile.of(pf.Laplace(1 / EPSILON), 1.0)
    curves = {
        "ε = 1 alone": pf.tradeoff.compose(pf.tradeoff.Profile(EPSILON)),
        "ε = 1 and η": pf.tradeoff.compose(pf.tradeoff.Profile(EPSILON, tv=noise.tv)),
        "Laplace noise": pf.tradeoff.compose(noise),
    }
    table = Table("", "printed", "here", title="Figure 3: Laplace noise, ε = 1")
    table.add_row(
        "η of the noise, 1 − e^(−ε/2)", f"{1 - math.exp(-EPSILON / 2):.6f}", f"{noise.tv:.6f}"
    )
    table.add_row(
        "largest η of ε-privacy", f"{math.tanh(EPSILON / 2):.6f}", f"{curves['ε = 1 alone'].tv:.6f}"
    )
    for name, curve in curves.items():
        table.add_row(f"misses at 30 % false alarms, {name}", "", f"{curve.curve(0.3):.6f}")
    Console().print(table)
    if find_spec("matplotlib") is None:
        print('For the picture: pip install ".[report]"')
        return
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "tv_figure_3.svg")
    draw(curves, path)
    print(f"The picture is in {path}.")


def draw(curves: dict[str, pf.tradeoff.TradeOffCurve], path: Path) -> None:
    """Draw the trade-off of each curve."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    alphas = np.linspace(0.0, 1.0, 101)
    figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    for (name, curve), colour in zip(
        curves.items(), ("tab:gray", "tab:red", "tab:green"), strict=True
    ):
        axes.plot(alphas, curve.curve(alphas), color=colour, label=name)
    axes.set(xlabel="false alarms (type I)", ylabel="misses (type II)")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
