"""How well private models predict where rows depend on each other, over 20 seeds, at one guarantee about every value.

The guarantee is (1, 10⁻⁶) about every value of every hour, although the other hours of its group move with it. Excess
losses (mean squared errors, or logarithmic ones, above those of the best model) stand where seconds do in other
benchmarks. Beside ours under the prior that rows were made by:

* DP-SGD with group privacy (`peers/dp_sgd.py`), for rows that are exchanged, which is what our guarantee is about
(values
  change); and for rows that are added or removed, which is weaker: a sum of clipped gradients moves half as far;
* diffprivlib with the ε that group privacy leaves to a row;
* our own models if hours of a group may depend on each other in any way;
* no privacy: the losses themselves, not those above the best.

Settings of ours and of DP-SGD are chosen on tables of other seeds; "default" means unchanged settings.
"""

import statistics

import fitted
from hourly import Task, along_a_chain, household, people
from measure import Row, report

SEEDS, EPSILON = 20, 1.0
EXCHANGED = "DP-SGD, rows exchanged"


def tasks() -> list[Task]:
    """Return days and weeks of people, numbers and two classes, days along a chain, and a household's days."""
    found = [
        people(600, 24, SEEDS),
        people(100, 168, SEEDS),
        people(600, 24, SEEDS, classes=True),
        along_a_chain(600, 24, SEEDS),
        household(SEEDS),
        household(SEEDS, classes=True),
    ]
    return [task for task in found if task is not None]


def peers(task: Task) -> dict[str, fitted.Found]:
    """Return the results of peers; those that cannot be installed are left out, with a message."""
    found = dict[str, fitted.Found]()
    if fitted.python_of("dp_sgd") is not None:
        sampled = (
            task.group == 24 and task.loss == "squared" and not task.given
        )  # elsewhere all rows are read: quicker
        rates = (1.0, 0.1) if sampled else (1.0,)
        found[EXCHANGED] = fitted.dp_sgd(task, EPSILON, exchanged=True)
        found["DP-SGD, rows removed"] = fitted.dp_sgd(task, EPSILON, exchanged=False, rates=rates)
    if fitted.python_of("diffprivlib_models") is not None:
        found["diffprivlib"] = fitted.diffprivlib(task, EPSILON)
    return found


def compared(task: Task) -> list[Row]:
    """Return the rows of a task, and say which settings were chosen."""
    name = f"{task.name}, {task.loss}"
    own, others = fitted.ours(task, task.belief, EPSILON), peers(task)
    if task.belief is not task.whole:
        others["ours, group privacy"] = fitted.ours(task, task.whole, EPSILON)
    for model, found in {"ours": own, **others}.items():
        print(f"{name}: {model}: {found.excess:.3g} by {found.settings}")
    rows = [row(name, own.excess, model, found.excess) for model, found in others.items()]
    if EXCHANGED in others:
        default = fitted.of_model(
            task, fitted.measured_on(task), task.belief, EPSILON, fitted.by_default(task)
        )
        rows.append(
            row(f"{name}, default", default, EXCHANGED, others[EXCHANGED].excess, limit=None)
        )
    least = statistics.mean(fitted.measured_on(task).least)
    return [*rows, row(f"{name}, the loss itself", least + own.excess, "no privacy", least)]


def row(name: str, own: float, peer: str, theirs: float, *, limit: float | None = 0.5) -> Row:
    """Return a row, with a limit where the guarantee is the same and settings were chosen in the same way."""
    return Row(name, peer, own, theirs, own / theirs, limit if peer == EXCHANGED else None)


if __name__ == "__main__":
    report(
        "accuracy_of_models",
        [row for task in tasks() for row in compared(task)],
        unit="excess loss",
    )
