"""Figure 3 of "Total Variation Meets Differential Privacy": Laplace noise between ε and its total variation, ε = 1.

The exact trade-off of the noise lies above the lines that ε-privacy alone allows (grey), and above the line of its
total variation (red), which cuts their corner off. Run it as `python examples/papers/tv_figure_3.py [FILE.svg]`;
without matplotlib (`pip install ".[report]"`) it prints the table alone.
"""

import math
from typing import Any

import numpy as np
from side_by_side import Row, number, save_picture, show

import pufferflow as pf

EPSILON = 1.0
ALPHA = 0.3
"""The rate of false alarms at which misses are compared."""
NOISE = pf.tradeoff.Profile.of(pf.Laplace(1 / EPSILON), 1.0)
CURVES = {
    "ε = 1 alone": pf.tradeoff.compose(pf.tradeoff.Profile(EPSILON)),
    "ε = 1 and η": pf.tradeoff.compose(pf.tradeoff.Profile(EPSILON, tv=NOISE.tv)),
    "Laplace noise": pf.tradeoff.compose(NOISE),
}


def printed() -> dict[str, float]:
    """Return the misses at ALPHA: by the lines of Corollary 1, and by the law of Laplace noise."""
    rise, eta = math.exp(EPSILON), 1 - math.exp(-EPSILON / 2)
    alone = max(1 - rise * ALPHA, (1 - ALPHA) / rise)
    misses = math.exp(-EPSILON) / (4 * ALPHA)  # where α is from e^(−ε)/2 to ½
    return dict(zip(CURVES, (alone, max(alone, 1 - eta - ALPHA), misses), strict=True))


def main() -> None:
    """Print the numbers beside the printed ones, and draw the three curves."""
    rows = [
        Row("η of the noise, 1 − e^(−ε/2)", number(1 - math.exp(-EPSILON / 2)), number(NOISE.tv)),
        Row(
            "largest η of ε-privacy",
            number(math.tanh(EPSILON / 2)),
            number(CURVES["ε = 1 alone"].tv),
        ),
    ]
    rows += [
        Row(
            f"misses at {ALPHA:.0%} false alarms, {name}",
            number(by_formula),
            number(CURVES[name].curve(ALPHA)),
            "same; the paper draws it, and the number is by its formula",
        )
        for name, by_formula in printed().items()
    ]
    show("Figure 3: Laplace noise, ε = 1", rows)
    save_picture(draw, "tv_figure_3.svg", (5, 4))


def draw(figure: Any) -> None:
    """Draw the trade-off of each curve."""
    alphas = np.linspace(0.0, 1.0, 101)
    axes = figure.subplots()
    for (name, curve), colour in zip(
        CURVES.items(), ("tab:gray", "tab:red", "tab:green"), strict=True
    ):
        axes.plot(alphas, curve.curve(alphas), color=colour, label=name)
    axes.set(xlabel="false alarms (type I)", ylabel="misses (type II)")
    axes.legend()


if __name__ == "__main__":
    main()
