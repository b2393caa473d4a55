"""Greatest flow from supplies to demands along allowed pairs, in whole numbers of any size.

SciPy's maximum flow counts in 32 bits (and returns 0, silently, past them), which would lose every mass below 1e−9. So
the numbers are cut into digits: the leading bits are solved first, and every further digit only improves on the flow
before, which by the cut found there lacks at most one unit per atom. The result is the exact greatest flow.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]
_BITS = 30


@dataclass(frozen=True, eq=False)
class Flow:
    """A flow: amounts[k] whole units along the pair (rows[k], columns[k]), and their sum."""

    rows: Indices
    columns: Indices
    amounts: Array
    value: int


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a supply and a demand between which anything may flow, sorted by supply."""

    rows: Indices
    columns: Indices
    shape: tuple[int, int]

    @classmethod
    def where(cls, allowed: npt.NDArray[np.bool_]) -> "Pairs":
        """Return the pairs that a matrix of flags allows."""
        rows, columns = np.nonzero(allowed)
        return cls(rows, columns, (allowed.shape[0], allowed.shape[1]))


def greatest_flow(pairs: Pairs, supplies: Array, demands: Array) -> Flow:
    """Return the exact greatest flow that takes no more than each supply and brings no more than each demand.

    Supplies and demands are whole numbers ≥ 0 of any size.
    """
    left, right = _unbounded(supplies), _unbounded(demands)
    digit = _BITS - (len(left) + len(right)).bit_length()
    shift = max(0, int(max(left.sum(), right.sum())).bit_length() - _BITS)
    flow = _improved(pairs, _nothing(), left >> shift, right >> shift)
    while shift:
        step = min(digit, shift)
        shift -= step
        finer = Flow(flow.rows, flow.columns, flow.amounts << step, flow.value << step)
        flow = _improved(pairs, finer, left >> shift, right >> shift)
    return flow


def _improved(pairs: Pairs, flow: Flow, supplies: Array, demands: Array) -> Flow:
    """Return the greatest flow, by way of the greatest flow in what `flow` leaves: its rest, and its undoing."""
    from scipy.sparse import csr_array  # loaded where answers are vectors
    from scipy.sparse.csgraph import maximum_flow

    n, m = pairs.shape
    source, sink = n + m, n + m + 1
    spare_left, spare_right = supplies.copy(), demands.copy()
    np.subtract.at(spare_left, flow.rows, flow.amounts)
    np.subtract.at(spare_right, flow.columns, flow.amounts)
    lefts, rights = np.arange(n), n + np.arange(m)
    tails = np.concatenate([pairs.rows, n + flow.columns, np.full(n, source), rights])
    heads = np.concatenate([n + pairs.columns, flow.rows, lefts, np.full(m, sink)])
    room = [np.full(len(pairs.rows), 2**_BITS), *map(_clipped, (flow.amounts, spare_left, spare_right))]
    graph = csr_array((np.concatenate(room).astype(np.int32), (tails, heads)), shape=(n + m + 2, n + m + 2))
    change = maximum_flow(graph, source, sink).flow
    moved = np.flatnonzero(change.data)
    rows = np.searchsorted(change.indptr, moved, "right") - 1
    columns = change.indices[moved].astype(np.intp) - n
    inner = (rows < n) & (columns >= 0) & (columns < m)
    return together(flow, Flow(rows[inner], columns[inner], _unbounded(change.data[moved][inner]), 0), m)


def together(first: Flow, second: Flow, width: int) -> Flow:
    """Return the sum of two flows to `width` demands."""
    pairs = np.concatenate([flow.rows * width + flow.columns for flow in (first, second)])
    distinct, at = np.unique(pairs, return_inverse=True)
    total = np.zeros(len(distinct), dtype=object)
    np.add.at(total, at, np.concatenate([first.amounts, second.amounts]))
    used = total > 0
    distinct, total = distinct[used], total[used]
    return Flow(distinct // width, distinct % width, total, int(total.sum()))


def _nothing() -> Flow:
    return Flow(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, dtype=object), 0)


def _unbounded(numbers: Array) -> Array:
    """Return whole numbers as Python's, which do not overflow."""
    return np.array([int(x) for x in numbers.tolist()], dtype=object)


def _clipped(numbers: Array) -> Array:
    """Return numbers cut off where a digit's improvement cannot reach them anyway (it is below 2³⁰ in all)."""
    return np.minimum(numbers, 2**_BITS).astype(np.int64)
