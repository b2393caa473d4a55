"""Expected sums along a chain: how far apart two laws are at least."""

from collections.abc import Iterable

import numpy as np

from pufferflow.messages import Chain
from pufferflow.messages.chain import Floats
from pufferflow.messages.stretches import Whole

_NOTHING = 1e-12


def mean_difference(chain: Chain, values: Floats, kinds: Whole, row: int, pairs: Whole) -> float:
    """Return max |E[sum | X_row = a] − E[sum | X_row = b]| over pairs (a, b): W_∞ is not below it (Jensen).

    It serves to leave out bounds that cannot win, so what is no more than 1e-12 of a step on is left out.
    """
    own = values[kinds[row]]
    back = chain.backward
    ahead = _side(((chain.kernels[chain.order[i]], kinds[i + 1]) for i in range(row, len(chain.order))), values)
    behind = _side(((back.rows[back.order[i]][:, 0, :], kinds[i]) for i in range(row - 1, -1, -1)), values)
    total = own + ahead + behind
    return float(np.abs(total[pairs[:, 0]] - total[pairs[:, 1]]).max())


def tail_loss(chain: Chain, values: Floats, kinds: Whole, row: int, pairs: Whole) -> float:
    """Return max |log E[e^sum | X_row = a] − log E[e^sum | X_row = b]| over pairs (a, b) that the row can have.

    It serves to leave out bounds that cannot win, as `mean_difference` does.
    """
    with np.errstate(under="ignore"):
        grown, back = np.exp(values - values.max(axis=1, keepdims=True)), chain.backward
    ahead = _grown(((chain.kernels[chain.order[i]], kinds[i + 1]) for i in range(row, len(chain.order))), grown)
    behind = _grown(((back.rows[back.order[i]][:, 0, :], kinds[i]) for i in range(row - 1, -1, -1)), grown)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = values[kinds[row]] + np.log(ahead) + np.log(behind)
        apart = np.abs(total[pairs[:, 0]] - total[pairs[:, 1]])
    return float(apart.max()) if np.isfinite(apart).all() else 0.0


@np.errstate(under="ignore")
def _grown(steps: Iterable[tuple[Floats, int]], grown: Floats) -> Floats:
    """Return E e^sum of the rows on one side for each state, but for a factor that they share."""
    product = np.eye(grown.shape[1])
    for kernel, kind in steps:
        product = product @ (kernel * grown[kind])
        known = product[product.any(axis=1)]  # not from states that underflow, or that no row has
        if not len(known):
            break
        product, known = product / known.max(), known / known.max()
        shares = known / known.sum(axis=1, keepdims=True)
        if np.ptp(shares, axis=0).max() < _NOTHING:
            break
    return np.asarray(product.sum(axis=1))


def _side(steps: Iterable[tuple[Floats, int]], values: Floats) -> Floats:
    """Return the expected sum of the rows on one side, for each state."""
    states = values.shape[1]
    law, total = np.eye(states), np.zeros(states)
    for kernel, kind in steps:
        law = law @ kernel
        total += law @ values[kind]
        if np.ptp(law, axis=0).max() < _NOTHING:
            break
    return total
