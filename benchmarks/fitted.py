"""Excess losses of private models on hourly tables: ours, and those of peers in environments of their own.

An excess is what a model's mean loss on its table is above that of the best model of its kind. The settings of all are
chosen on other tables, by the least mean excess there (`hourly.Task.others`).
"""

import itertools
import json
import math
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hourly import Task
from processes import HERE, python_with
from scipy.optimize import minimize

import pufferflow as pf

DELTA = 1e-6
PACKAGES = {
    "dp_sgd": ("dp-accounting==0.4.4", "numpy==1.26.4", "scipy==1.17.1"),
    "diffprivlib_models": (
        "diffprivlib==0.6.6",
        "scikit-learn==1.5.2",
        "numpy==2.4.6",
        "scipy==1.17.1",
    ),
}
Settings = dict[str, Any]


class Tables:
    """Tables as arrays, and the least loss on each."""

    def __init__(self, task: Task, frames: Sequence[pl.DataFrame]) -> None:
        self.loss, self.frames = task.loss, frames
        known = {id(rows): self._array(task, rows) for rows in frames}
        least = {key: self._least(values) for key, values in known.items()}
        self.arrays = [known[id(rows)] for rows in frames]
        self.least = [least[id(rows)] for rows in frames]

    def excess(self, coefficients: Sequence[np.ndarray]) -> float:
        """Return the mean excess of coefficients, the intercept first, one array for each table."""
        losses = [self._loss(*one) for one in zip(self.arrays, coefficients, strict=True)]
        return float(np.mean(np.subtract(losses, self.least)))

    def _array(self, task: Task, rows: pl.DataFrame) -> np.ndarray:
        """Return features and the target, which is −1 or 1 if it is a class."""
        values = rows.select(*task.names, "y").to_numpy().astype(np.float64)
        if task.loss == "logistic":
            values[:, -1] = 2 * values[:, -1] - 1
        return values

    def _loss(self, values: np.ndarray, coefficients: np.ndarray) -> float:
        """Return the mean squared error, or the mean of −log of the probability of the class that was so."""
        scores, target = coefficients[0] + values[:, :-1] @ coefficients[1:], values[:, -1]
        losses = (
            (scores - target) ** 2 if self.loss == "squared" else np.logaddexp(0, -target * scores)
        )
        return float(losses.mean())

    def _least(self, values: np.ndarray) -> float:
        if self.loss == "squared":
            features = np.column_stack([np.ones(len(values)), values[:, :-1]])
            return self._loss(values, np.linalg.lstsq(features, values[:, -1], rcond=None)[0])
        return float(
            minimize(lambda weights: self._loss(values, weights), np.zeros(values.shape[1])).fun
        )


@dataclass(frozen=True)
class Found:
    """What a model reaches: the settings that were chosen, and its mean excess."""

    settings: Settings
    excess: float


@cache
def measured_on(task: Task) -> Tables:
    """Return the tables on which models are measured."""
    return Tables(task, task.frames)


@cache
def chosen_on(task: Task) -> Tables:
    """Return the tables on which settings are chosen."""
    return Tables(task, task.others)


def of_model(
    task: Task, tables: Tables, scenario: pf.Scenario, epsilon: float, settings: Settings
) -> float:
    """Return the mean excess of one of our models."""
    learning, promise = pf.learning, pf.Approx(epsilon, DELTA)
    kinds = {"ridge": learning.PrivateRidge, "descent": learning.PrivateSGDRegressor}
    kinds["classifier"] = learning.PrivateSGDClassifier
    given = {name: value for name, value in settings.items() if name != "model"}
    model = kinds[settings["model"]](scenario, promise, **given, **task.given)
    plans = {
        id(rows): model.plan(rows, y="y") for rows in tables.frames
    }  # a table that comes again is planned once
    releases = [plans[id(rows)].release() for rows in tables.frames]
    return tables.excess([release.frame["coefficient"].to_numpy() for release in releases])


def ours(task: Task, scenario: pf.Scenario, epsilon: float) -> Found:
    """Return what our models reach: of the default and of descents with settings that are chosen elsewhere."""
    settings = min(
        _candidates(task), key=lambda one: of_model(task, chosen_on(task), scenario, epsilon, one)
    )
    return Found(settings, of_model(task, measured_on(task), scenario, epsilon, settings))


def by_default(task: Task) -> Settings:
    """Return the default settings."""
    return {"model": "ridge" if task.loss == "squared" else "classifier"}


def _candidates(task: Task) -> list[Settings]:
    """Return the defaults, and descents with long steps of one batch or a few, whose gradients are cut."""
    model, bend = ("descent", 1) if task.loss == "squared" else ("classifier", 4)
    cuts = (0.03, 0.1, 0.2, 0.3) if task.loss == "squared" else (0.1, 0.2, 0.4, 0.8)
    found = [
        {"model": model, "clip": cut, "row_norm": norm, **_steps(task, norm, bend, batches, passes)}
        for norm in (1.0, None)
        for cut in cuts
        for batches, passes in ((1, 30), (1, 100), (1, 300), (2, 60), (4, 60))
    ]
    return [by_default(task), {"model": model}, *found]


def _steps(task: Task, norm: float | None, bend: int, batches: int, passes: int) -> Settings:
    """Return batches, passes, and a step size that is nearly the longest allowed, 2/β."""
    widest = math.sqrt(len(task.names))
    smoothness = (min(norm or widest, widest) ** 2 + 1) / bend
    return {"batch_size": -(-task.rows // batches), "passes": passes, "step_size": 1.9 / smoothness}


@cache
def python_of(name: str) -> Path | None:
    """Return the Python of a peer; None, with a message, if it cannot be installed."""
    return python_with(name, *PACKAGES[name])


def of_peer(name: str, tables: Tables, runs: Sequence[Settings]) -> tuple[list[float], list[Any]]:
    """Return the mean excess of each run of a peer, and all that it said; it has to be installed."""
    python = python_of(name)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "frames.npz"
        np.savez(file, frames=np.stack(tables.arrays))
        command = [python, HERE / "peers" / f"{name}.py", file]
        done = subprocess.run(
            command, input=json.dumps(runs), check=True, capture_output=True, text=True
        )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return [tables.excess(np.array(one["coefficients"])) for one in said], said


def tuned(name: str, task: Task, runs: Sequence[Settings]) -> Found:
    """Return what a peer reaches with the run that is best elsewhere."""
    excesses, _ = of_peer(name, chosen_on(task), runs)
    chosen = runs[int(np.argmin(excesses))] | {"seed": 1}
    (excess,), (said,) = of_peer(name, measured_on(task), [chosen])
    return Found(chosen | said.get("deviations", {}), excess)


def dp_sgd(
    task: Task, epsilon: float, *, exchanged: bool, rates: Sequence[float] = (1.0,)
) -> Found:
    """Return the result of textbook DP-SGD with a guarantee for all rows of a group; clipping is by a search.

    Speeds are step sizes times the clipped length, so each number of steps is tried with the same path lengths.
    """
    promise = {"epsilon": epsilon, "delta": DELTA, "group": task.group, "exchanged": exchanged}
    longest = 30.0 if task.loss == "logistic" else 3.0
    runs = [
        promise
        | {
            "loss": task.loss,
            "seed": 0,
            "rate": rate,
            "clip": clip,
            "steps": steps,
            "averaged": averaged,
        }
        | {"step_size": way * longest / steps / clip}
        for rate, clip, steps, way, averaged in itertools.product(
            rates,
            (0.01, 0.03, 0.1, 0.3, 1.0),
            (10, 30, 100),
            (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
            (False, True),
        )
    ]
    return tuned("dp_sgd", task, runs)


def diffprivlib(task: Task, epsilon: float) -> Found:
    """Return what diffprivlib reaches with the ε that group privacy leaves to a row."""
    penalties = (1.0, 1e-2, 1e-4) if task.loss == "logistic" else (None,)
    runs = [
        {"loss": task.loss, "epsilon": epsilon / task.group, "C": penalty} for penalty in penalties
    ]
    return tuned("diffprivlib_models", task, runs)
