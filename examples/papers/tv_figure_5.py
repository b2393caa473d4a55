"""Figure 5 of "Total Variation Meets Differential Privacy": private training in 15 epochs of 60,000 rows.

Each step is 1/1.3-Gaussian on a batch of 256 rows, one row replaced. The paper composes (ε, δ(ε), η) for each of
thirty ε by its Theorem 2 and takes the best one afterwards. Here all thirty are also joined and then composed, and
the whole trade-off of a step is composed, which is exact. The only number that the paper prints is the ε of the moments
accountant, which is no result of its own; its other curves are drawn.
Run it as `python examples/papers/tv_figure_5.py [FILE.svg]`; without matplotlib (`pip install ".[report]"`) it prints
the table alone.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from side_by_side import Row, number, save_picture, show

import pufferflow as pf

ROWS, BATCH, NOISE, EPOCHS = 60_000, 256, 1.3, 15
DELTAS = 1e-3, 1e-5
STEPS = math.ceil(EPOCHS * ROWS / BATCH)
MOMENTS = 1.19
"""The ε that the paper prints for the moments accountant at δ = 10⁻⁵; all else it only draws."""
EPSILONS = np.arange(0.5, 3.45, 0.1)
GRID = np.linspace(0.0, 4.0, 81)
JOINED = "thirty joined, then composed"
WHY = {
    "Kairouz et al., best of thirty": "the paper's comparison; ∞, as every step has a δ even at the last ε, 3.4",
    "Theorem 2 with η, best of thirty": "the paper's own way: each bound is composed by itself, and the best counts",
    JOINED: "all thirty bounds hold of each step at once, which composing a single one loses",
    "whole trade-off of a step": "exact: no bound of a step is left out",
    "Gaussian limit (no bound)": "of Dong et al., for many steps; the true ε may be larger",
}


def sampled(profile: pf.tradeoff.Profile) -> pf.tradeoff.Profile:
    """Return the profile of a step on a batch."""
    return pf.tradeoff.fixed_size(profile, BATCH, ROWS, prior=pf.Independent())


def pairs(*, with_tv: bool) -> list[pf.tradeoff.Profile]:
    """Return what the thirty pairs (ε, δ(ε)) say of a step, with its η or without."""
    noise = pf.Gaussian(NOISE)
    tv = noise.tv(1.0) if with_tv else 1.0
    return [sampled(pf.tradeoff.Profile(e, noise.delta(1.0, e), tv)) for e in EPSILONS.tolist()]


Found = tuple[list[float], np.ndarray]
"""The ε at DELTAS, and δ on the GRID."""


def best(profiles: list[pf.tradeoff.Profile]) -> Found:
    """Return the least ε and the least δ(ε) of profiles that are composed one by one."""
    every = [composed(one) for one in profiles]
    return [min(one) for one in zip(*(own for own, _ in every), strict=True)], np.min(
        [own for _, own in every], axis=0
    )


def composed(profile: pf.tradeoff.Profile, times: int = STEPS) -> Found:
    """Return the same for a step's profile, composed."""
    together = pf.tradeoff.compose(profile, times)
    return [together.epsilon(delta) for delta in DELTAS], together.deltas(GRID)


def asymptotic() -> Found:
    """Return the same for the Gaussian limit of Dong et al. (Corollary 5.4), which is no bound."""
    normal, s = NormalDist().cdf, 1 / NOISE
    spread = math.exp(s * s) * normal(1.5 * s) + 3 * normal(-0.5 * s) - 2
    mu = BATCH * math.sqrt(STEPS) / ROWS * math.sqrt(2 * spread)
    return composed(pf.tradeoff.Profile.of(pf.Gaussian(1 / mu)), 1)


def lines(deltas: np.ndarray, grid: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Return the trade-off: the highest of the lines 1 − δ(ε) − e^ε·t and their mirror images."""
    rise, left = np.exp(grid)[:, None], 1 - deltas[:, None]
    return np.maximum(left - rise * alphas, (left - alphas) / rise).max(axis=0).clip(0.0)


def rows_of(found: dict[str, Found]) -> list[Row]:
    """Return the rows of the table."""
    rows = list[Row]()
    for name, (epsilons, deltas) in found.items():
        misses = lines(deltas, GRID, np.array([0.3]))[0]
        numbers = ", ".join(f"{one:.4g}" for one in (*epsilons, misses)).replace("inf", "∞")
        rows.append(Row(name, "a curve", numbers, WHY[name]))
    exact = found["whole trade-off of a step"][0][1]
    why = "it knows Rényi losses alone, and the whole trade-off proves less"
    return [*rows, Row("moments accountant: ε at δ = 1e-5", f"ε = {MOMENTS}", number(exact), why)]


def main() -> None:
    """Print ε and misses for every way, and draw the trade-offs."""
    with_tv = pairs(with_tv=True)
    found = {
        "Kairouz et al., best of thirty": best(pairs(with_tv=False)),
        "Theorem 2 with η, best of thirty": best(with_tv),
        JOINED: composed(pf.tradeoff.intersection(with_tv)),
        "whole trade-off of a step": composed(sampled(pf.tradeoff.Profile.of(pf.Gaussian(NOISE)))),
        "Gaussian limit (no bound)": asymptotic(),
    }
    numbers = ", ".join(f"ε at δ = {delta:g}" for delta in DELTAS)
    show(f"Figure 5: {numbers}, misses at 30 % false alarms", rows_of(found))
    save_picture(lambda figure: draw(figure, found), "tv_figure_5.svg", (6, 4.5))


def draw(figure: Any, found: dict[str, Found]) -> None:
    """Draw the trade-off of every way."""
    alphas = np.linspace(0.0, 1.0, 201)
    axes = figure.subplots()
    for name, (_, deltas) in found.items():
        style = {JOINED: "c", "Gaussian limit (no bound)": "k:"}.get(name, "-")
        width = 5.0 if name == JOINED else 1.5
        axes.plot(alphas, lines(deltas, GRID, alphas), style, linewidth=width, label=name)
    moments = lines(np.array([DELTAS[1]]), np.array([MOMENTS]), alphas)
    axes.plot(alphas, moments, label="moments accountant, printed")
    axes.set(xlabel="false alarms (type I)", ylabel="misses (type II)")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    main()
