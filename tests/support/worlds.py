"""Many copies of a small private world, so that one release gives as many independent draws of its noisy answer."""

import dataclasses

import numpy as np
import polars as pl

import pufferflow as pf
from pufferflow.release.mechanisms.additive import AdditiveNoise

FALSE_ALARMS = 1e-3


def frame(worlds: np.ndarray, **public) -> pl.DataFrame:
    """Return a frame of worlds (a row each): columns world, hour, level, and further public columns by hour."""
    count, rows = worlds.shape
    columns = {name: np.tile(np.asarray(values), count) for name, values in public.items()}
    return pl.DataFrame(
        {
            "world": np.repeat(np.arange(count), rows),
            "hour": np.tile(np.arange(rows), count),
            "level": worlds.ravel(),
            **columns,
        }
    )


def draw_chain(rng, transition, initial, rows, count, row, state):
    """Draw paths of a chain given its state at one row: forwards from there, and backwards by Bayes."""
    transition, initial = np.asarray(transition, float), np.asarray(initial, float)
    marginals = [initial]
    for _ in range(rows - 1):
        marginals.append(marginals[-1] @ transition)
    found = np.empty((count, rows), dtype=np.int64)
    found[:, row] = state
    for step in range(row + 1, rows):
        found[:, step] = _next(rng, transition, found[:, step - 1])
    for step in range(row - 1, -1, -1):
        back = (marginals[step][:, None] * transition).T
        found[:, step] = _next(rng, back / back.sum(axis=1, keepdims=True), found[:, step + 1])
    return found


def _next(rng, kernel, states):
    return (rng.random(len(states))[:, None] > kernel.cumsum(axis=1)[states][:, :-1]).sum(axis=1)


def with_scale(plan, factor):
    """Return the plan with its noise multiplied by a factor."""
    noise = plan.mechanism.noise
    found = [(block, block.calibration) for block in noise.blocks]
    blocks = tuple(
        dataclasses.replace(
            block,
            calibration=dataclasses.replace(own, noise=own.noise.at(own.noise.scale * factor)),
        )
        for block, own in found
    )
    return pf.Plan(AdditiveNoise(dataclasses.replace(noise, blocks=blocks)))


def released(questions, scale=1.0, **promise):
    """Return the answers of a batch with its noise multiplied by `scale`, as an array of shape (cells, outputs)."""
    plan = questions.plan(**promise)
    found = with_scale(plan, scale).release()
    return found.frame.select(plan.request.outputs).to_numpy()


def evidence(first, second, epsilon, delta=0.0):
    """Return how many standard deviations P(S | a) − e^ε P(S | b) − δ is above 0, for the worst half line S.

    The half line is chosen on the first half of the draws and measured on the second, so that its choice is no fishing.
    Both orders of the secrets and both directions are tried, which `threshold` allows for.
    """
    worst = -np.inf
    for one, other in ((first, second), (second, first)):
        for sign in (1, -1):
            left, right = sign * one, sign * other
            half = len(left) // 2
            at = np.quantile(
                np.concatenate([left[:half], right[:half]]), np.linspace(0.02, 0.98, 97)
            )
            excess = [_excess(left[:half], right[:half], t, epsilon, delta) for t in at]
            best = at[int(np.argmax(excess))]
            worst = max(worst, _excess(left[half:], right[half:], best, epsilon, delta))
    return worst


def threshold():
    """Return the evidence that an honest release passes with a probability of at most FALSE_ALARMS."""
    from scipy.stats import norm

    return float(norm.isf(FALSE_ALARMS / 4))


def _excess(left, right, t, epsilon, delta):
    p, q, n = (left >= t).mean(), (right >= t).mean(), len(left)
    factor = np.exp(epsilon)
    spread = np.sqrt((max(p * (1 - p), 1 / n) + factor**2 * max(q * (1 - q), 1 / n)) / n)
    return (p - factor * q - delta) / spread


__all__ = ["draw_chain", "evidence", "frame", "pf", "released", "threshold"]
