"""Composition on synthetic chains, after "Composition for Pufferfish Privacy" (arXiv 2602.02718).

We had the abstract: mechanisms may leak nothing once and everything when run twice; composable ones are differentially
private ones, translated by an influence curve a(b). For a chain the curve is `pf.temporal_leakage`: what releases lose
about one state if they lose b about each row with all others known (M20). The paper's synthetic settings and numbers
were not available; the chains here are ours: two states, the same probability to stay in each, 100 rows.

Run it as `python examples/papers/composition_on_chains.py [FILE.svg]`.
"""

import itertools
from typing import Any

import numpy as np
from scipy.optimize import brentq
from side_by_side import Row, number, save_picture, show

import pufferflow as pf

ROWS, TIMES = 100, 10
STAYS = (0.6, 0.7, 0.8, 0.9)
LOSSES = (0.05, 0.2, 1.0)
ASSUMES = {
    "group privacy": "any ten counts",
    "Markov quilts": "ten times the scale of one, as quilts compose",
    "influence curve": "any ten counts, each chosen after the answers before",
}


def kernel(stay: float) -> list[list[float]]:
    """Return the transition of a chain that stays with one probability."""
    return [[stay, 1 - stay], [1 - stay, stay]]


def curve(stay: float, loss: float) -> float:
    """Return a(b): the loss about one state of releases that lose b about each row."""
    return pf.temporal_leakage(kernel(stay), loss, steps=ROWS)


def inverse(stay: float, epsilon: float) -> float:
    """Return the b with a(b) = ε, rounded down."""
    root = brentq(lambda loss: curve(stay, loss) - epsilon, 1e-6, epsilon, xtol=1e-9)
    return float(root) - 1e-8


def parities() -> list[Row]:
    """Return the loss about three fair coins of two parities, one after the other and both."""
    coins = list(itertools.product((0, 1), repeat=3))
    table: dict[str, Any] = {
        "third": [coin[2] for coin in coins],
        "first two": [coin[0] ^ coin[1] for coin in coins],
        "all three": [coin[0] ^ coin[1] ^ coin[2] for coin in coins],
        "probability": [1 / 8] * 8,
    }
    rows = []
    for column in ("first two", "all three"):
        prior = pf.Table({name: table[name] for name in ("third", column, "probability")})
        scenario = pf.Scenario(pf.Derived("third"), prior)
        moved = pf.laws(scenario, pf.Statistic([1], column=column)).winf(1).length
        rows.append(Row(f"parity of {column}: movement", "0", f"{moved:g}"))
    joint = [pf.Law([[b, b ^ third] for b in (0, 1)], [0.5, 0.5]) for third in (0, 1)]
    rows.append(
        Row(
            "both parities: movement",
            "everything may be revealed",
            f"{pf.winf(*joint):g}",
            "the third coin is the difference of both",
        )
    )
    return rows


def influence() -> list[Row]:
    """Return the influence curve of each chain, and what ten releases lose."""
    why = "the paper has curves of other chains, which we had not"
    rows = [
        Row(
            f"stay {stay:g}: a(b) at b = {', '.join(f'{loss:g}' for loss in LOSSES)}",
            "–",
            ", ".join(number(curve(stay, loss)) for loss in LOSSES),
            why,
        )
        for stay in STAYS
    ]
    return [
        *rows,
        Row(
            "stay 0.9: ten releases with b = 0.1",
            "a(Σ b)",
            number(curve(0.9, TIMES * 0.1)),
            f"ten times a(0.1) is {TIMES * curve(0.9, 0.1):.4g}",
        ),
    ]


def scales(stay: float, epsilon: float = 1.0) -> dict[str, float]:
    """Return the Laplace scale of each of ten counts whose total loss is ε."""
    prior = pf.MarkovChain(kernel(stay))
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), prior, order_by="step")
    laws = pf.laws(scenario, pf.Statistic.total(ROWS))
    quilt = pf.calibrate(laws, pf.Pure(epsilon), bound=pf.Quilt()).noise.scale
    return {
        "group privacy": TIMES * ROWS / epsilon,
        "Markov quilts": TIMES * quilt,
        "influence curve": TIMES / inverse(stay, epsilon),
    }


def noise() -> list[Row]:
    """Return the noise of ten counts at a total of ε = 1, by three ways to compose."""
    return [
        Row(
            f"stay {stay:g}: {name}", "–", number(value), "any ten counts of the rows, adaptive too"
        )
        for stay in STAYS
        for name, value in scales(stay).items()
    ]


def draw(figure: Any) -> None:
    """Draw the influence curves, and the noise of ten counts."""
    left, right = figure.subplots(1, 2)
    losses = np.geomspace(0.01, 3, 30)
    for stay in STAYS:
        left.plot(losses, [curve(stay, float(loss)) for loss in losses], label=f"stay {stay:g}")
    left.plot(losses, losses, "k:", label="rows independent")
    left.set(
        title="Influence curve of a chain",
        xlabel="b: loss about each row, all others known",
        ylabel="a(b): loss about one state",
        xscale="log",
        yscale="log",
    )
    left.legend()
    found = [scales(stay) for stay in STAYS]
    for name in found[0]:
        right.plot(STAYS, [one[name] for one in found], "-o", label=name)
    right.set(title="Ten counts, total ε = 1", xlabel="probability to stay", ylabel="Laplace scale")
    right.set_yscale("log")
    right.legend()


def main() -> None:
    """Print the counterexample, the curves and the noise, and draw them."""
    show("Alone nothing, together everything: two parities of three coins", parities())
    show("Influence curves of chains of 100 rows", influence())
    show("Ten counts with a total of ε = 1: Laplace scale of each", noise())
    save_picture(draw, "composition_on_chains.svg")


if __name__ == "__main__":
    main()
