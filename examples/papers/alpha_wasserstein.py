"""A counterexample to the abstract of "α-Wasserstein Mechanism for Rényi Pufferfish Privacy" (arXiv 2605.05723).

The abstract says that the scale of noise can be calibrated by an upper bound on W_α alone. We had the abstract only. A
small mass p far away at M moves little on average: W_α stays the same if p = (W/M)^α, while the Rényi loss of order α
grows with M without limit. So no function of W_α and the scale bounds the loss. A bound that also has the
range, or DAGWM's mean of the loss over a coupling, may hold.
Run it as `python examples/papers/alpha_wasserstein.py [FILE.svg]`.
"""

from typing import Any

import numpy as np
from side_by_side import Row, number, save_picture, show

import pufferflow as pf

ORDER, DISTANCE = 2, 0.1
LOSS = pf.Renyi.of(alpha=ORDER)
GAUSSIAN, LAPLACE = pf.Gaussian(1.0), pf.Laplace(0.1)
BY_GAUSSIAN = ORDER * DISTANCE**2 / 2
BY_LAPLACE = DISTANCE / LAPLACE.scale


def far(place: float) -> tuple[pf.Law, pf.Law]:
    """Return a point at 0, and the same with a small mass at a place, at W_α = 0.1 from each other."""
    mass = (DISTANCE / place) ** ORDER
    return pf.Law.point(0), pf.Law([0, place], [1 - mass, mass])


def rows() -> list[Row]:
    """Return what the usual formula gives for W₂ in place of W_∞, beside the true loss."""
    found = []
    for name, noise, formula, by_distance, places in (
        ("Gaussian, σ = 1", GAUSSIAN, "αW²/(2σ²)", BY_GAUSSIAN, (5.0, 7.0)),
        ("Laplace, b = 0.1", LAPLACE, "W/b", BY_LAPLACE, (3.0, 5.0)),
    ):
        for place in places:
            pair = far(place)
            distance = pf.wasserstein(*pair, ORDER)
            exact = pf.loss([pair], noise, LOSS, bound=pf.Exact())
            mean = pf.loss([pair], noise, LOSS, bound=pf.DAGWM())
            found.append(
                Row(
                    f"{name}, mass at {place:g}, W₂ = {distance:.3g}",
                    f"a function of W₂; {formula} = {by_distance:.4g}",
                    f"true loss {number(exact)}",
                    f"no function of W₂ alone bounds it; DAGWM: {number(mean)}",
                )
            )
    return found


def draw(figure: Any) -> None:
    """Draw the true loss against the place of the far mass, at one and the same W₂."""
    panels = figure.subplots(1, 2)
    for axes, noise, by_distance, title in (
        (panels[0], GAUSSIAN, BY_GAUSSIAN, "Gaussian noise, σ = 1"),
        (panels[1], LAPLACE, BY_LAPLACE, "Laplace noise, b = 0.1"),
    ):
        places = np.linspace(0.2, 7 if noise is GAUSSIAN else 3, 24)
        for label, bound in (("true loss", pf.Exact()), ("DAGWM", pf.DAGWM())):
            losses = [pf.loss([far(float(place))], noise, LOSS, bound=bound) for place in places]
            axes.plot(places, losses, label=label)
        axes.axhline(by_distance, color="tab:red", linestyle="--", label="formula in W₂ alone")
        axes.set(title=title, xlabel="place of the far mass, W₂ = 0.1", ylabel="Rényi loss, α = 2")
        axes.legend()


def main() -> None:
    """Print the counterexample, and draw it."""
    show("α-Wasserstein: loss at W₂ = 0.1, α = 2", rows())
    save_picture(draw, "alpha_wasserstein.svg")


if __name__ == "__main__":
    main()
