"""Figures 5 and 6 of "Rényi Pufferfish Privacy", and the same picture for the correlation of data at hand.

The loss of the last iterate of noisy gradient descent against the number of iterations, if the secret is the first row
and row t correlates with it by ρ_t: L = σ = η = C = ‖a − b‖ = 1, α = 2. The paper prints curves and their formula
(Proposition F.2), no numbers; the formula is what stands beside ours. It is for secrets about the first row alone. The
third picture has the loss of whichever row loses most, which no number of iterations hides, for an autoregression that
is fitted to a public reference. Run it as `python examples/papers/rpp_figures_5_and_6.py [FILE.svg]`;
without matplotlib (`pip install ".[report]"`) it prints the tables alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from side_by_side import Row, save_picture, show

import pufferflow as pf

ALPHA = pf.Renyi.of(alpha=2)
STEPS = [1, 2, 5, 10, 20, 50, 100]
SHOWN = [1, 10, 100]
Correlations = Callable[[np.ndarray], np.ndarray]
FIGURES: dict[str, dict[str, Correlations]] = {
    "Figure 5": {
        f"ρ = {rho:g}": (lambda t, rho=rho: np.where(t == 1, 1.0, rho))
        for rho in (0, 0.1, 0.2, 0.8, 1)
    },
    "Figure 6": {
        "ρ = 0": lambda t: np.where(t == 1, 1.0, 0.0),
        "ρ = 0.1": lambda t: np.where(t == 1, 1.0, 0.1),
        "ρ = 1/t": lambda t: 1 / t,
        "ρ = 1/t²": lambda t: 1 / t**2,
    },
}


def descent(steps: int) -> pf.learning.Descent:
    """Return noisy gradient descent with the paper's constants."""
    return pf.learning.Descent(
        steps, 1.0, noise=1.0, lipschitz=1.0, smoothness=1.0, data_lipschitz=1.0
    )


def ours(steps: int, correlations: Correlations) -> float:
    """Return the loss by the best allocation of shifts."""
    batches = descent(steps)
    moved = batches.displacements(correlations(np.arange(1, steps + 1)))
    return pf.learning.iteration_loss(batches.iteration, moved, ALPHA).value


def printed(steps: int, correlations: Correlations) -> float:
    """Return α·η²·(Σ min(2L, C·ρ_t))²/(2·T·σ²), Proposition F.2 with Proposition 6.4."""
    return float(
        2 * np.minimum(2.0, correlations(np.arange(1, steps + 1))).sum() ** 2 / (2 * steps)
    )


def fitted() -> pf.GaussianPrior:
    """Return the prior that a public reference suggests: how hours of a meter's load follow each other."""
    rng, loads = np.random.default_rng(4), []
    for _ in range(40):
        load = rng.normal()
        for _ in range(48):
            loads.append(load)
            load = 0.8 * load + 0.6 * rng.normal()
    table = pl.DataFrame(
        {"meter": np.repeat(np.arange(40), 48), "hour": np.tile(np.arange(48), 40), "load": loads}
    )
    reference = pf.Reference("a public year", table)
    return pf.GaussianPrior.fit(reference, "load", "meter", covariance="ar1", order_by="hour")


def losses_of(prior: pf.GaussianPrior, steps: int) -> dict[str, float]:
    """Return the loss of the row that loses most: independent of others, correlated as fitted, and with all others."""
    batches = descent(steps)
    rows = pf.learning.GaussianRows(prior, 1.0, batches)
    alone = pf.learning.iteration_loss(batches.iteration, batches.independent_rows(1.0), ALPHA)
    found = pf.learning.iteration_loss(batches.iteration, rows, ALPHA)
    group = pf.learning.iteration_loss(batches.iteration, batches.all_rows(1.0), ALPHA)
    return {
        "rows independent": alone.value,
        "as fitted": found.value,
        "group": group.value,
    }


def rows(title: str) -> list[Row]:
    """Return the losses of a figure's curves, each beside the formula's."""
    return [
        Row(
            name,
            ", ".join(f"{printed(steps, curve):.4g}" for steps in SHOWN),
            ", ".join(f"{ours(steps, curve):.4g}" for steps in SHOWN),
        )
        for name, curve in FIGURES[title].items()
    ]


def worst_rows(of_data: dict[int, dict[str, float]]) -> list[Row]:
    """Return the loss of the row that loses most."""
    why = "Proposition F.2 is about the first row; this is the worst one"
    return [
        Row(name, "–", ", ".join(f"{of_data[steps][name]:.4g}" for steps in SHOWN), why)
        for name in of_data[STEPS[0]]
    ]


def draw(figure: Any, of_data: dict[int, dict[str, float]]) -> None:
    """Draw the loss against the number of iterations."""
    panels = figure.subplots(1, 3)
    for axes, (title, curves) in zip(panels, FIGURES.items(), strict=False):
        for name, curve in curves.items():
            (line,) = axes.plot(STEPS, [ours(steps, curve) for steps in STEPS], label=name)
            dots = [printed(steps, curve) for steps in STEPS]
            axes.plot(STEPS, dots, ".", color=line.get_color())
        axes.set(title=f"{title} (dots: the formula)", ylabel="Rényi loss, α = 2")
    for name in of_data[STEPS[0]]:
        panels[2].plot(STEPS, [of_data[steps][name] for steps in STEPS], label=name)
    panels[2].set(title="AR(1) fitted to a reference, worst row")
    for axes in panels:
        axes.set(xlabel="iterations", xscale="log", yscale="log")
        axes.minorticks_off()
        axes.legend(fontsize=8)


def main() -> None:
    """Print the losses beside the formula's, and draw all curves."""
    for title in FIGURES:
        show(f"{title}: formula and library, T = 1, 10, 100", rows(title))
    of_data = {steps: losses_of(fitted(), steps) for steps in STEPS}
    show("The worst row, for the correlation of fitted data, T = 1, 10, 100", worst_rows(of_data))
    save_picture(lambda figure: draw(figure, of_data), "rpp_figures_5_and_6.svg", (12, 4))


if __name__ == "__main__":
    main()
