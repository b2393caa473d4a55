"""Figure 4 of "Pufferfish Privacy Mechanisms for Correlated Data" (Song, Wang and Chaudhuri 2017): synthetic chains.

A person's 100 states, 0 or 1, form a Markov chain whose probabilities to stay lie in [α, 1 − α]. The share of ones is
published with Laplace noise, so the mean error is the scale. The paper draws it against α for ε = 0.2, 1 and 5. Its
text was not at hand: the errors of group privacy are those that its caption is known for, not checked against it.

Quilts are those of the worst of the class's four corners; of nine chains on a grid none needs more. Messages (M20) have
the same corners, or the whole class. GK16 is the bound of Ghosh and Kleinberg (2016), as we read it: Σ (I − Γ)^(−1)
over a row. Γ has half the largest log ratio of a row's conditional laws if one neighbour changes, and the bound needs a
spectral norm below 1. Chains start from their stationary law.

Run it as `python examples/papers/song_synthetic_chains.py [FILE.svg]`.
"""

import itertools
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from side_by_side import Row, number, save_picture, show

import pufferflow as pf

ROWS = 100
EPSILONS = (0.2, 1.0, 5.0)
ALPHAS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
SHOWN = (0.1, 0.2, 0.3, 0.4)
GROUP = {0.2: "5", 1.0: "1", 5.0: "0.2"}
BOUNDS = {
    "quilt": pf.Quilt(),
    "approximate quilt": pf.Quilt(approximate=True),
    "W_∞": pf.GWM(),
    "messages": pf.Messages(),
}
DRAWN = ("a curve", "drawn, not printed")
LINES = {
    "group": ("a number", ""),
    "GK16": ("a curve", "drawn, not printed; it needs α ≥ 0.322"),
    "approximate quilt": DRAWN,
    "quilt": DRAWN,
    "W_∞": ("–", "Laplace noise for how far the count moves"),
    "messages": ("–", "ours, on the same four chains"),
    "whole class": ("–", "ours; transitions may also change from step to step"),
    "least": ("–", "the true loss of the chain that needs most"),
}


def scenario(prior: pf.Prior) -> pf.Scenario:
    """Return the scenario that hides every state."""
    return pf.Scenario(pf.Secret("on", domain=[0, 1]), prior, order_by="step")


def kernels(alpha: float) -> Iterator[np.ndarray]:
    """Yield the transitions of the four corners of the class, among which the worst chain is."""
    for stay_0, stay_1 in itertools.product((alpha, 1 - alpha), repeat=2):
        yield np.array([[stay_0, 1 - stay_0], [1 - stay_1, stay_1]])


@cache
def laws(alpha: float) -> list[pf.Laws]:
    """Return the laws of the number of ones, for each corner."""
    count = pf.Statistic.total(ROWS)
    return [pf.laws(scenario(pf.MarkovChain(kernel)), count) for kernel in kernels(alpha)]


def at_corners(alpha: float, epsilon: float, bound: pf.Bound) -> float:
    """Return the scale that the worst corner needs by a bound."""
    privacy = pf.Pure(epsilon)
    return max(pf.calibrate(one, privacy, bound=bound).noise.scale for one in laws(alpha))


@cache
def class_laws(alpha: float) -> pf.Laws:
    """Return the laws of the number of ones for the whole class."""
    low, high = [[alpha] * 2] * 2, [[1 - alpha] * 2] * 2
    prior = pf.MarkovChain.between(low, high)
    return pf.laws(scenario(prior), pf.Statistic.total(ROWS))


def influences(kernel: np.ndarray) -> np.ndarray:
    """Return Γ: half the largest log ratio of a row's law given its neighbours, if one of them changes."""
    inner = kernel[:, None, :] * kernel.T[None, :, :]  # before, after, state
    inner /= inner.sum(axis=2, keepdims=True)
    weight = pf.MarkovChain(kernel).initial_laws[0][:, None] * kernel
    back = (weight / weight.sum(axis=0)).T  # the first row given the second
    gamma = np.zeros((ROWS, ROWS))
    logs = np.log(inner)
    before = np.abs(logs[0] - logs[1]).max() / 2
    after = np.abs(logs[:, 0] - logs[:, 1]).max() / 2
    rows = np.arange(1, ROWS - 1)
    gamma[rows, rows - 1], gamma[rows, rows + 1] = before, after
    gamma[0, 1] = np.abs(np.log(back[0]) - np.log(back[1])).max() / 2
    gamma[-1, -2] = np.abs(np.log(kernel[0]) - np.log(kernel[1])).max() / 2
    return gamma


@cache
def reach(alpha: float) -> float:
    """Return by how much GK16 multiplies the noise of differential privacy; ∞ where its condition fails."""
    most = 1.0
    for kernel in kernels(alpha):
        gamma = influences(kernel)
        if np.linalg.norm(gamma, 2) >= 1:
            return math.inf
        most = max(most, float(np.linalg.inv(np.eye(ROWS) - gamma).sum(axis=1).max()))
    return most


@cache
def scale(line: str, alpha: float, epsilon: float) -> float:
    """Return the Laplace scale of the number of ones."""
    if line == "group":
        return ROWS / epsilon
    if line == "GK16":
        return reach(alpha) / epsilon
    if line == "whole class":
        return pf.calibrate(class_laws(alpha), pf.Pure(epsilon)).noise.scale
    if line == "least":
        return pf.calibrate(laws(alpha)[-1], pf.Pure(epsilon), bound=pf.Exact()).noise.scale
    return at_corners(alpha, epsilon, BOUNDS[line])


def error(line: str, alpha: float, epsilon: float) -> float:
    """Return the mean L1 error of the share of ones: the scale over the number of rows."""
    return scale(line, alpha, epsilon) / ROWS


def rows(epsilon: float) -> list[Row]:
    """Return the errors at one ε, each line at the four α that are shown."""
    found = [Row("group privacy", f"around {GROUP[epsilon]}", number(error("group", 0.1, epsilon)))]
    for line, (paper, why) in LINES.items():
        if line != "group":
            errors = [error(line, alpha, epsilon) for alpha in SHOWN]
            shown = ", ".join("–" if value == math.inf else f"{value:.4g}" for value in errors)
            found.append(Row(line, paper, shown, why))
    return found


def draw(figure: Any) -> None:
    """Draw the errors against α, one panel for each ε."""
    panels = figure.subplots(1, len(EPSILONS))
    for axes, epsilon in zip(panels, EPSILONS, strict=True):
        for line in LINES:
            errors = [error(line, alpha, epsilon) for alpha in ALPHAS]
            style = {"messages": "-o", "whole class": "-", "least": "k:"}.get(line, "-")
            axes.plot(ALPHAS, errors, style, label=line, markersize=3)
        axes.set(title=f"ε = {epsilon:g}", xlabel="α", yscale="log")
    panels[0].set_ylabel("mean L1 error of the share of ones")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper")


def main() -> None:
    """Print the errors for each ε, and draw them."""
    for epsilon in EPSILONS:
        show(
            f"Figure 4, upper row, ε = {epsilon:g}: error at α = 0.1, 0.2, 0.3, 0.4", rows(epsilon)
        )
    applies = min(alpha for alpha in np.linspace(0.2, 0.45, 126) if reach(float(alpha)) < math.inf)
    print(f"GK16 applies from α = {applies:.3f} on.")
    save_picture(draw, "song_synthetic_chains.svg", (12, 4))


if __name__ == "__main__":
    main()
