"""Memory of sequences: the influence of a row on the prior about another one n steps later.

Along a chain it is the largest total variation between the laws of X_{t+n} given two states of X_t. That is Dobrushin's
coefficient of the kernel over n steps, the largest of all phases or times. Under an AR1 covariance it is the size of
the correlation, |φ|^n. It never grows with n, since a kernel moves no two laws farther apart. Other priors have no such
measure.
"""

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.correlations import AR1, spanned
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.markov import MarkovChain

FORGOTTEN = 0.01
"""The influence of a row below which it counts as forgotten."""
TOTAL_VARIATION, CORRELATION = "total variation", "correlation"
_MOST_STEPS = 1_000_000
_MOST_NUMBERS = 4_000_000
_MOST_WINDOWS = 1_000_000


def measure_of_memory(prior: Prior) -> str | None:
    """Return the measure that `memory_after` takes for a prior; None for a prior without one.

    >>> measure_of_memory(MarkovChain([[0.9, 0.1], [0.2, 0.8]]))
    'total variation'
    """
    match prior:
        case MarkovChain() if prior.kernels.size * prior.states <= _MOST_NUMBERS:
            return TOTAL_VARIATION
        case GaussianPrior(covariance=AR1()):
            return CORRELATION
        case _:
            return None


def memory_after(prior: Prior, steps: int) -> float | None:
    """Return the influence of a row after some `steps`, between 0 and 1; None where it has no measure.

    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> round(memory_after(chain, 1), 3), round(memory_after(chain, 2), 3)
    (0.7, 0.49)
    """
    match prior:
        case MarkovChain() if measure_of_memory(prior) and steps <= longest_memory(prior):
            return max(map(_dobrushin, _kernels_over(prior, steps)))
        case GaussianPrior(covariance=AR1(phi)):
            return max(map(abs, spanned(phi))) ** steps
        case _:
            return None


def longest_memory(prior: Prior) -> int:
    """Return the most steps that `memory_after` looks ahead; matrices that do not repeat come to an end."""
    if not isinstance(prior, MarkovChain) or prior.period is not None:
        return _MOST_STEPS
    return min(len(prior.kernels), max(_MOST_WINDOWS // len(prior.kernels), 1))


def forgotten_after(prior: Prior, left: float = FORGOTTEN) -> int | None:
    """Return the least number of steps after which the influence of a row is at most `left`; None if there is none.

    >>> forgotten_after(MarkovChain([[0.9, 0.1], [0.2, 0.8]]))
    13
    """
    if measure_of_memory(prior) is None:
        return None
    known, longest = 0, longest_memory(prior)  # more than `left` is left after `known` steps
    steps = 1
    while (memory_after(prior, steps) or 0.0) > left:
        if steps == longest:
            return None
        known, steps = steps, min(2 * steps, longest)
    while steps - known > 1:
        middle = (known + steps) // 2
        known, steps = (
            (middle, steps) if (memory_after(prior, middle) or 0.0) > left else (known, middle)
        )
    return steps


def _kernels_over(prior: MarkovChain, steps: int) -> Floats:
    """Return the kernels over that many steps, from each phase or, if matrices do not repeat, from each time."""
    kernels = prior.kernels
    if prior.period is None:
        windows = np.broadcast_to(np.eye(prior.states), kernels.shape)
        for step in range(steps):
            windows = windows[: len(kernels) - step] @ kernels[step:]
        return windows
    turns = np.linalg.matrix_power(_from_each_phase(kernels, len(kernels)), steps // len(kernels))
    return turns @ _from_each_phase(kernels, steps % len(kernels))


def _from_each_phase(kernels: Floats, steps: int) -> Floats:
    product = np.broadcast_to(np.eye(kernels.shape[1]), kernels.shape)
    for step in range(steps):
        product = product @ np.roll(kernels, -step, axis=0)
    return product


def _dobrushin(kernel: Floats) -> float:
    """Return the largest total variation between two rows of a kernel (Dobrushin's coefficient)."""
    return max(float(np.abs(kernel - row).sum(axis=1).max()) / 2 for row in kernel)
