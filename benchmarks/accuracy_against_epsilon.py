"""The mean squared error of private regression against ε, on generated hours that depend on each other: a figure.

Days of 600 people, and weeks of 100, over 20 seeds, at a guarantee (ε, 10⁻⁶) about every value: ours under the prior
that rows were made by, DP-SGD with group privacy for rows that are exchanged (the guarantee of ours) and for rows that
are added or removed (a weaker one), and no privacy. Settings are chosen for each ε on tables of other seeds. Run it as
`python benchmarks/accuracy_against_epsilon.py [FILE.svg]`; without a file the figure is in `results/`.
"""

import sys
from pathlib import Path

import fitted
import numpy as np
from hourly import Task, people
from measure import RESULTS, Row, report

SEEDS = 20
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
OURS, EXCHANGED, REMOVED = "ours", "DP-SGD, rows exchanged", "DP-SGD, rows added or removed"
LOOKS = {OURS: "o-C0", EXCHANGED: "s-C3", REMOVED: "^:C1"}


def excesses(task: Task) -> dict[str, list[float]]:
    """Return the mean excess of each model for each ε."""
    found = {name: list[float]() for name in LOOKS}
    for epsilon in EPSILONS:
        found[OURS].append(fitted.ours(task, task.belief, epsilon).excess)
        found[EXCHANGED].append(fitted.dp_sgd(task, epsilon, exchanged=True).excess)
        found[REMOVED].append(fitted.dp_sgd(task, epsilon, exchanged=False).excess)
    return found


def rows_of(task: Task, found: dict[str, list[float]]) -> list[Row]:
    """Return ours beside both peers, for each ε."""
    return [
        Row(
            f"{task.name}, ε = {epsilon:g}",
            peer,
            own,
            theirs,
            own / theirs,
            0.5 if peer == EXCHANGED else None,
        )
        for peer in (EXCHANGED, REMOVED)
        for epsilon, own, theirs in zip(EPSILONS, found[OURS], found[peer], strict=True)
    ]


def draw(panels: dict[Task, dict[str, list[float]]], path: Path) -> None:
    """Draw mean squared errors, with those of no privacy below them."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "pufferflow", "svg.fonttype": "none"}
    from matplotlib import pyplot as plt

    figure, places = plt.subplots(
        1, len(panels), figsize=(9, 3.6), sharey=True, layout="constrained"
    )
    for axes, (task, found) in zip(places, panels.items(), strict=True):
        least = float(np.mean(fitted.measured_on(task).least))
        for name, values in found.items():
            axes.plot(EPSILONS, np.add(values, least), LOOKS[name], label=name)
        axes.axhline(least, color="black", linestyle="--", label="no privacy")
        axes.set(
            title=f"{task.rows} rows, {task.group} hours a person",
            xlabel="ε, at δ = 10⁻⁶",
            xscale="log",
            yscale="log",
        )
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
    places[0].set_yticks([0.01, 0.02, 0.03, 0.05], ["0.01", "0.02", "0.03", "0.05"])
    places[0].set_ylabel("mean squared error")
    places[0].legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print, and draw."""
    if fitted.python_of("dp_sgd") is None:
        return
    panels = {task: excesses(task) for task in (people(600, 24, SEEDS), people(100, 168, SEEDS))}
    report(
        "accuracy_against_epsilon",
        [row for task, found in panels.items() for row in rows_of(task, found)],
        unit="excess loss",
    )
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "accuracy_against_epsilon.svg"
    draw(panels, path)
    print(f"The picture is in {path}.")


if __name__ == "__main__":
    main()
