"""Laplace scales of "Noise Reduction for Pufferfish Privacy" (arXiv 2601.06385) beside ours, at ε = 0.1.

We had the abstract and the scales that a public list of results names: 3.39 for Student, 10 for Census Income. Which
columns were published and protected there is not known to us; here they are those of RPP's Table 1. A scale of the
paper's method is read as: a coupling with E[e^{|x − x'|/b} | x'] ≤ e^ε for all x', both ways. The
library's `pf.Kantorovich` is a bound of that kind. Run it as `python examples/papers/noise_reduction.py [FILE.svg]`.
"""

from typing import Any

import numpy as np
from side_by_side import Row, number, save_picture, show
from side_by_side.tables import pairs_of

import pufferflow as pf

EPSILON = 0.1
PRIVACY = pf.Pure(EPSILON)
BOUNDS = {
    "group": pf.Group(),
    "W_∞": pf.GWM(),
    "Kantorovich": pf.Kantorovich(),
    "exact": pf.Exact(),
}
NAMES = {"student": "Student Performance", "adult": "Census Income"}
PRINTED = {"student": "3.39", "adult": "10"}
WHY = {
    "student": "their columns and laws are unknown; here 3.39 would lose {loss:.3g}",
    "adult": "10 is the scale by W_∞; on these counts less is enough",
}
MADE_UP = {
    "an outlier at 50": (pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])),
    "three values": (pf.Law([0, 1, 2], [0.5, 0.3, 0.2]), pf.Law([0, 1, 2], [0.2, 0.3, 0.5])),
    "a count of four": tuple(
        pf.Law(range(5), [[1, 4, 6, 4, 1][k] * p**k * (1 - p) ** (4 - k) for k in range(5)])
        for p in (0.4, 0.6)
    ),
}


def scale(pairs: list[pf.Pair] | list[tuple[pf.Law, pf.Law]], bound: pf.Bound) -> float:
    """Return the least Laplace scale that a bound proves."""
    return pf.calibrate(pairs, PRIVACY, bound=bound).noise.scale


def rows() -> list[Row]:
    """Return the scales for the two tables and for laws that are made up."""
    found = []
    for name, title in NAMES.items():
        pairs = pairs_of(name)
        loss = pf.loss(pairs, pf.Laplace(float(PRINTED[name])), pf.Pure, bound=pf.Exact())
        for label, bound in BOUNDS.items():
            printed, why = "–", "for comparison"
            if label == "Kantorovich":
                printed, why = PRINTED[name], WHY[name].format(loss=loss)
            found.append(Row(f"{title}: {label}", printed, number(scale(pairs, bound)), why))
    for title, pair in MADE_UP.items():
        scales = ", ".join(f"{scale([pair], bound):.4g}" for bound in BOUNDS.values())
        found.append(Row(f"{title}: {', '.join(BOUNDS)}", "–", scales, "laws of our own"))
    return found


def draw(figure: Any) -> None:
    """Draw the scales of each bound, relative to the exact one."""
    axes = figure.subplots()
    cases = {title: pairs_of(name) for name, title in NAMES.items()}
    cases |= {title: [pair] for title, pair in MADE_UP.items()}
    places = np.arange(len(cases))
    least = [scale(pairs, pf.Exact()) for pairs in cases.values()]
    for offset, (label, bound) in enumerate(BOUNDS.items()):
        scales = [scale(pairs, bound) for pairs in cases.values()]
        bars = axes.bar(places + 0.2 * offset, scales, 0.2, label=label)
        axes.bar_label(bars, fmt="%.3g", fontsize=8)
    axes.set_xticks(places + 0.3, list(cases))
    axes.set(title="Least Laplace scale that keeps ε = 0.1", ylabel="scale", yscale="log")
    axes.set_ylim(min(least) / 1.5, None)
    axes.legend()


def main() -> None:
    """Print the scales beside the printed ones, and draw them."""
    show(f"Noise reduction: Laplace scales at ε = {EPSILON:g}", rows())
    save_picture(draw, "noise_reduction.svg")


if __name__ == "__main__":
    main()
