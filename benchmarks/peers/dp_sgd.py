"""Textbook DP-SGD (Abadi et al. 2016) whose guarantee is about k rows together, in NumPy and dp-accounting.

Each step reads every row with a probability `rate`, clips the gradient of each row, and adds Gaussian noise to their
sum; all iterates are counted, so an average of them costs nothing more. Rows are in [−1, 1], the target last (−1 and 1
are two classes). The deviation of the noise, in clipped gradients, is the least of two for the k rows:

* by the conversion of a row's (ε₀, δ₀) into (kε₀, δ₀·(e^{kε₀} − 1)/(e^{ε₀} − 1)) for k rows, or
* by the losses of the k rows at once, of which Binomial(k, rate) are read: a mixture of Gaussians, tight for rows that
  are added or removed (Ganesh, "Tight Group-Level DP Guarantees for DP-SGD", 2024).

dp-accounting counts both; with rate 1 they are one Gaussian, whose δ has a formula. Rows that are exchanged for others
move a sum twice as far, which is exact with rate 1, the only one allowed for them.

It reads a NumPy archive of `frames` (data sets, rows, columns), and JSON: a list of runs, each with its settings and
the number of its generator. It prints the deviations, and the coefficients of each run on each data set, the intercept
first.
"""

import json
import math
import sys
from functools import cache
from typing import NamedTuple

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import binom, norm


class Promise(NamedTuple):
    """(ε, δ) about the rows of a group together, which are exchanged for others, or added or removed."""

    epsilon: float
    delta: float
    group: int
    exchanged: bool

    @property
    def of_row(self) -> "Promise":
        """The guarantee about one row from which that about the group follows."""
        epsilon = self.epsilon / self.group
        delta = self.delta * math.expm1(epsilon) / math.expm1(self.epsilon)
        return Promise(epsilon, delta, 1, self.exchanged)

    @property
    def farthest(self) -> int:
        """How far the group moves a sum, in clipped gradients."""
        return (2 if self.exchanged else 1) * self.group


def delta_of_gaussian(mu: float, epsilon: float) -> float:
    """Return δ of Gaussian noise that a change moves by μ deviations (Balle and Wang 2018)."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def delta_of(event: object, steps: int, epsilon: float) -> float:
    """Return δ after all steps, by dp-accounting's privacy loss distributions."""
    accountant = PLDAccountant(value_discretization_interval=max(1e-4, epsilon / 2000))
    return accountant.compose(SelfComposedDpEvent(event, steps)).get_delta(epsilon)


def least(keeps: object, start: float) -> float:
    """Return the least deviation that keeps a guarantee, to a thousandth, on the private side."""
    low = high = start
    while not keeps(high):
        low, high = high, 1.1 * high
    while keeps(low):
        low, high = low / 1.1, low
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def in_full(steps: int, promise: Promise) -> float:
    """Return the noise if every step reads every row."""
    far = promise.farthest * math.sqrt(steps)
    return least(
        lambda noise: delta_of_gaussian(far / noise, promise.epsilon) <= promise.delta, far
    )


@cache
def deviations(steps: int, rate: float, promise: Promise) -> dict[str, float]:
    """Return the noise by each way of accounting, in clipped gradients."""
    of_row = promise.of_row
    conversion, at_once = (in_full(steps, one) for one in (of_row, promise))
    if rate == 1:
        return {"conversion": conversion, "at once": at_once}
    if promise.exchanged:
        raise SystemExit("Rows that are exchanged are counted with rate 1 alone.")
    numbers = list(range(promise.group + 1))
    chances = binom.pmf(numbers, promise.group, rate).tolist()

    def row_by_row(noise: float) -> bool:
        event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
        return delta_of(event, steps, of_row.epsilon) <= of_row.delta

    def mixed(noise: float) -> bool:
        event = MixtureOfGaussiansDpEvent(noise, numbers, chances)
        return delta_of(event, steps, promise.epsilon) <= promise.delta

    return {
        "conversion": least(row_by_row, conversion * rate),
        "at once": least(mixed, at_once * rate),
    }


def descended(
    rows: np.ndarray, run: dict[str, object], noise: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the last iterate, or the mean of the second half of all."""
    features = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    lengths = np.linalg.norm(features, axis=1)
    iterates = np.zeros((run["steps"] + 1, features.shape[1]))
    for step in range(run["steps"]):
        slopes = clipped(
            derivatives(run["loss"], features @ iterates[step], rows[:, -1]), lengths, run["clip"]
        )
        if run["rate"] < 1:
            slopes *= rng.random(len(rows)) < run["rate"]
        total = slopes @ features + rng.normal(0, noise * run["clip"], features.shape[1])
        iterates[step + 1] = iterates[step] - run["step_size"] * total / (run["rate"] * len(rows))
    return iterates[run["steps"] // 2 + 1 :].mean(axis=0) if run["averaged"] else iterates[-1]


def derivatives(loss: str, scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the derivative of each row's loss in its score."""
    if loss == "logistic":
        return -target / (1 + np.exp(np.clip(target * scores, -700, 700)))
    return scores - target


def clipped(slopes: np.ndarray, lengths: np.ndarray, most: float) -> np.ndarray:
    """Return derivatives for which no gradient is longer than allowed; rows begin with a 1, so none is 0 long."""
    return slopes * np.minimum(1, most / np.maximum(np.abs(slopes) * lengths, 1e-300))


def main() -> None:
    """Carry out all runs on all data sets."""
    frames = np.load(sys.argv[1])["frames"]
    for run in json.loads(sys.stdin.read()):
        promise = Promise(*(run[name] for name in Promise._fields))
        noises = deviations(run["steps"], run["rate"], promise)
        found = [
            descended(
                rows, run, min(noises.values()), np.random.default_rng([run["seed"], place])
            ).tolist()
            for place, rows in enumerate(frames)
        ]
        print(json.dumps({"deviations": noises, "coefficients": found}), flush=True)


if __name__ == "__main__":
    main()
