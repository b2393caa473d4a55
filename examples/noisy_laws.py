"""Draw two laws of an answer, their noisy densities, and how much of the guarantee is used.

The answer is a count over twenty hours of one household. Its law depends on a secret, whether the use was high at noon,
and the two laws overlap the more noise is added. For each bound the script calibrates Laplace noise to ε = 1 in the
Rényi sense of order 4 and draws, side by side, both noisy densities (above) and the log of their ratio with the band
that a pure guarantee of the same ε would allow (below). The exact bound needs the least noise. Run it as
`python examples/noisy_laws.py [FILE.svg]`; without matplotlib (`pip install ".[report]"`) it prints the table
alone.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import pufferflow as pf

HOURS, STAY = 20, 0.9
PROMISE = pf.Renyi(alpha=4, epsilon=1.0)
BOUNDS = {"GWM": pf.GWM(), "DAGWM": pf.DAGWM(), "Exact": pf.Exact()}


def count_given(noon: int) -> pf.Law:
    """Return the law of the number of hours with high use, given that at noon (the middle)."""
    sides = [hours_with_high_use(noon, steps) for steps in (HOURS // 2, HOURS - 1 - HOURS // 2)]
    return sides[0].convolve(sides[1]).shift(noon)


def hours_with_high_use(start: int, steps: int) -> pf.Law:
    """Return the law of the count over the next hours, each of which stays as the one before with probability STAY."""
    counts = {0: pf.Law.point(0), 1: pf.Law.point(0)}
    for _ in range(steps):
        after = {state: counts[state].shift(state) for state in (0, 1)}
        counts = {
            state: pf.Law.mixture([after[state], after[1 - state]], [STAY, 1 - STAY])
            for state in (0, 1)
        }
    return counts[start]


def density(law: pf.Law, noise: pf.Noise, points: np.ndarray) -> np.ndarray:
    """Return the density of the noisy answer."""
    return np.exp(noise.logpdf(points[:, None] - law.values[None, :])) @ law.probabilities


def main() -> None:
    """Calibrate by every bound, print a table, and draw."""
    low, high = count_given(0), count_given(1)
    found = {
        name: pf.calibrate([(low, high)], PROMISE, noise=pf.Laplace, bound=bound)
        for name, bound in BOUNDS.items()
    }
    table = Table(
        "bound",
        "Laplace scale",
        "95 % of the noise within",
        "true loss (order 4)",
        title=repr(PROMISE),
    )
    for name, calibration in found.items():
        true = pf.loss([(low, high)], calibration.noise, pf.Renyi.of(alpha=4), bound=pf.Exact())
        half = calibration.noise.interval(0.95)[1]
        table.add_row(name, f"{calibration.noise.scale:.3f}", f"± {half:.1f} hours", f"{true:.3f}")
    Console().print(table)
    if find_spec("matplotlib") is None:
        print('For the picture: pip install ".[report]"')
        return
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "noisy_laws.svg")
    draw(low, high, {name: calibration.noise for name, calibration in found.items()}, path)
    print(f"The picture is in {path}.")


def draw(low: pf.Law, high: pf.Law, noises: dict[str, pf.Noise], path: Path) -> None:
    """Draw densities above and log ratios below, a column for each bound."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    points = np.linspace(-12, HOURS + 12, 1201)
    figure, axes = plt.subplots(
        2, len(noises), sharex=True, sharey="row", figsize=(11, 5.5), layout="constrained"
    )
    for (above, below), (name, noise) in zip(axes.T, noises.items(), strict=True):
        p, q = density(high, noise, points), density(low, noise, points)
        above.plot(points, q, color="#33658a", label="noon was low")
        above.plot(points, p, color="#c8553d", linestyle="--", label="noon was high")
        above.set_title(f"{name}: Laplace scale {noise.scale:.2f}")
        below.axhspan(-PROMISE.epsilon, PROMISE.epsilon, color="#dddddd", label="±ε")
        below.plot(points, np.log(p / q), color="#222222", label="log ratio of both")
        below.set_xlabel("published count")
    axes[0, 0].set_ylabel("density")
    axes[0, 0].legend(loc="upper left", fontsize="small")
    axes[1, 0].set_ylabel("what the count reveals")
    axes[1, 0].legend(loc="lower right", fontsize="small")
    figure.suptitle("Two laws of one answer, hidden by noise that keeps D₄ ≤ 1")
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    main()
