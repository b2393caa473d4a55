"""Table 1 of "Rényi Pufferfish Privacy": how far a value moves if a sensitive attribute changes, in three tables.

The attribute is the secret, one value of the row is published, and the adversary knows both columns' joint law. Heart's
printed movement is too small. The loss of noise that follows it is shown for a range of ε. Run it as
`python examples/papers/rpp_table_1.py [FILE.svg] [FOLDER]`; with a folder of the three tables they are counted anew.
"""

import math
from typing import Any

import numpy as np
from side_by_side import SAME, Row, number, save_picture, show
from side_by_side.tables import TITLES, laws_of, pairs_of

import pufferflow as pf

PRINTED = {"student": (8.0, 2.76), "heart": (8.0, 7.80), "adult": (1.0, 0.42)}
WHY_W2 = {"student": "2.276 in the table: a digit is missing in print"}
EPSILONS = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]


def movement(name: str, order: float) -> float:
    """Return the largest distance between the laws of two secrets."""
    if order == math.inf:
        return max(pf.winf(*pair) for pair in pairs_of(name))
    return max(pf.wasserstein(*pair, order) for pair in pairs_of(name))


def cauchy(name: str) -> float:
    """Return the scale of Cauchy noise that keeps (2, 1)-Rényi Pufferfish privacy."""
    family = pf.GeneralizedCauchy.of(k=2)
    found = pf.calibrate(pairs_of(name), pf.Renyi(2, 1.0), noise=family, bound=pf.DAGWM())
    return found.noise.scale


def loss(epsilon: float, moved: float, bound: pf.Bound) -> float:
    """Return the loss on Heart of Laplace noise for a movement, by a bound or exactly."""
    return pf.loss(pairs_of("heart"), pf.Laplace(moved / epsilon), pf.Pure, bound=bound)


def movements(name: str) -> list[Row]:
    """Return the printed movements of a table beside those of its counts."""
    far, mean = PRINTED[name]
    here, squares = movement(name, math.inf), movement(name, 2)
    wrong = "the counts give 13; 8 is too small by 1.6"
    return [
        Row(f"{name}: Δ_G = max W_∞", f"{far:g}", f"{here:g}", SAME if far == here else wrong),
        Row(f"{name}: max W₂", f"{mean:.2f}", number(squares), WHY_W2.get(name, SAME)),
        Row(
            f"{name}: Cauchy scale, (2, 1)-Rényi",
            "not printed",
            number(cauchy(name)),
            "W₂/√(2(e − 1)); the argument is 1 + z²/(2λ²), not 1 + z²/λ² as printed",
        ),
    ]


def protection() -> list[Row]:
    """Return what the printed noise for Heart should keep, and what it loses."""
    rows = [Row("heart: Laplace scale, ε = 1", "8", f"{movement('heart', math.inf):g}", "Δ_G / ε")]
    for epsilon in (1.0, 8.0):
        proven, exact = (loss(epsilon, 8.0, bound) for bound in (pf.GWM(), pf.Exact()))
        noise = f"noise of scale 8/{epsilon:g}"
        rows.append(
            Row(
                f"heart: loss proven for {noise}",
                f"{epsilon:g}",
                number(proven),
                "13/8 times ε, by the paper's own theorem",
            )
        )
        rows.append(
            Row(
                f"heart: true loss of {noise}",
                f"{epsilon:g}",
                number(exact),
                "below ε: the adversary is unsure of the age as well"
                if exact <= epsilon
                else "above ε: the release is not private enough",
            )
        )
    rows.append(
        Row(
            "heart: least ε whose printed noise loses more",
            "none",
            f"{broken():.3f}",
            "the smaller ε, the more the adversary's own doubt hides",
        )
    )
    return rows


def broken() -> float:
    """Return the least ε at which noise of scale 8/ε truly loses more than ε."""
    low, high = 1.0, 8.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle, 8.0, pf.Exact()) <= middle else (low, middle)
    return high


def draw(figure: Any) -> None:
    """Draw the movements of all tables, and Heart's loss against ε."""
    left, right = figure.subplots(1, 2)
    places = np.arange(len(PRINTED))
    here = [(movement(name, math.inf), movement(name, 2)) for name in PRINTED]
    for offset, (label, values, colour) in enumerate(
        [
            ("W_∞ printed", [one[0] for one in PRINTED.values()], "tab:red"),
            ("W_∞ here", [one[0] for one in here], "tab:blue"),
            ("W₂ printed", [one[1] for one in PRINTED.values()], "lightcoral"),
            ("W₂ here", [one[1] for one in here], "lightskyblue"),
        ]
    ):
        bars = left.bar(places + 0.2 * offset, values, 0.2, label=label, color=colour)
        left.bar_label(bars, fmt="%.3g", fontsize=8)
    left.set_xticks(places + 0.3, [TITLES[name].replace(": ", "\n") for name in PRINTED])
    left.set(title="Table 1: how far the value moves", ylabel="distance")
    left.legend()
    right.plot(EPSILONS, EPSILONS, color="black", linestyle="--", label="guaranteed: ε")
    for label, moved, bound, colour in (
        ("printed noise 8/ε, proven", 8.0, pf.GWM(), "lightcoral"),
        ("printed noise 8/ε, true loss", 8.0, pf.Exact(), "tab:red"),
        ("noise 13/ε, true loss", 13.0, pf.Exact(), "tab:blue"),
    ):
        losses = [loss(epsilon, moved, bound) for epsilon in EPSILONS]
        right.plot(EPSILONS, losses, label=label, color=colour, marker=".")
    right.set(title="Heart: loss of one answer", xlabel="ε", ylabel="loss")
    right.legend()


def main() -> None:
    """Print the table and what the printed noise loses, and draw both."""
    show("Table 1: movements", [row for name in PRINTED for row in movements(name)])
    show("Table 1: Heart's printed noise", protection())
    counts = {name: sum(len(law.values) for law in laws_of(name).values()) for name in PRINTED}
    print("Different values, over all secrets:", counts)
    save_picture(draw, "rpp_table_1.svg", (11, 4.2))


if __name__ == "__main__":
    main()
