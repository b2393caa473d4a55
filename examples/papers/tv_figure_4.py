"""Figure 4 of "Total Variation Meets Differential Privacy": one release and five, with and without their η.

ε = 1, δ = 0, α = .3, that is η = .7·tanh(½). The curve of ε alone (Kairouz et al.) is below that of ε and η, so it
guarantees less. Staircase noise with γ = .0139 attains the curve. Run it as
`python examples/papers/tv_figure_4.py [FILE.svg]`; without matplotlib (`pip install ".[report]"`) it prints
the table alone.
"""

import math
from typing import Any

import numpy as np
from side_by_side import Row, number, save_picture, show

import pufferflow as pf

EPSILON, ALPHA, TIMES = 1.0, 0.3, (1, 5)
ETA = (1 - ALPHA) * math.tanh(EPSILON / 2)
STAIRCASE = "staircase noise, γ = .0139"
PROFILES = {
    "ε alone": pf.tradeoff.Profile(EPSILON),
    "ε and η": pf.tradeoff.Profile(EPSILON, tv=ETA),
    STAIRCASE: pf.tradeoff.Profile.of(pf.Staircase(1.0, EPSILON, 0.0139), 1.0),
}
BELOW = "γ = .0139 is rounded, so η is a little less"


def corner(times: int, place: int, alpha: float) -> float:
    """Return 1 − (1 − δ)^k(1 − δ_j) at jε as the paper's Theorem 2 has it, for δ = 0."""
    k, step, rest = times, math.exp(EPSILON), (1 - alpha) / (1 + math.exp(EPSILON))
    return math.fsum(
        math.comb(k, a) * math.comb(k - a, low) * rest ** (k - a) * alpha**a
        * (step ** (k - low - a) - step ** (low + place))
        for a in range(k - place)
        for low in range(math.ceil((k - place - a) / 2))
    )  # fmt: skip


def releases(times: int) -> str:
    """Return how many releases there are."""
    return "1 release" if times == 1 else f"{times} releases"


def rows_of(times: int) -> list[Row]:
    """Return the rows of so many releases: δ at all corners."""
    rows = list[Row]()
    for name, profile in PROFILES.items():
        curve = pf.tradeoff.compose(profile, times)
        alpha = 0.0 if name == "ε alone" else ALPHA
        printed = [corner(times, place, alpha) for place in range(times + 1)]
        found = [curve.delta(place * EPSILON) for place in range(times + 1)]
        numbers = (", ".join(f"{one:.4g}" for one in deltas) for deltas in (printed, found))
        why = () if np.allclose(printed, found, rtol=1e-9, atol=1e-15) else (BELOW,)
        rows.append(Row(f"{releases(times)}, {name}", *numbers, *why))
    return rows


def main() -> None:
    """Print δ at all corners beside Theorem 2's, and draw the curves."""
    share = 1 - PROFILES[STAIRCASE].tv / math.tanh(EPSILON / 2)
    own = Row(f"α of {STAIRCASE}", "≈ .3", number(share), "the paper rounds")
    rows = [row for times in TIMES for row in rows_of(times)]
    show("Figure 4: δ by Theorem 2 at 0, ε, 2ε, …, for ε = 1 and α = .3", [*rows, own])
    save_picture(draw, "tv_figure_4.svg")


def draw(figure: Any) -> None:
    """Draw the trade-offs after one release and after five, side by side."""
    alphas = np.linspace(0.0, 1.0, 101)
    panels = figure.subplots(1, len(TIMES), sharey=True)
    for axes, times in zip(panels, TIMES, strict=True):
        for name, colour in zip(PROFILES, ("tab:green", "tab:blue"), strict=False):
            curve = pf.tradeoff.compose(PROFILES[name], times)
            axes.plot(alphas, curve.curve(alphas), color=colour, label=name)
        axes.set(title=releases(times), xlabel="false alarms (type I)", ylabel="misses (type II)")
    panels[0].legend()


if __name__ == "__main__":
    main()
