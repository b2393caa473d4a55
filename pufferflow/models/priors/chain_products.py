"""The chain of tuples of columns that move independently of each other, each along a chain of its own (M53 (d))."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.models.priors.base import DECLARED
from pufferflow.models.reference import Provenance


def product_of_kernels(kernels: Sequence[Floats]) -> Floats:
    """Return the kernels of tuples, the last column varying fastest; after the common period they begin again.

    >>> product_of_kernels([np.eye(2)[None], np.full((3, 1, 1), 1.0)]).shape
    (3, 2, 2)
    """
    turn = math.lcm(*map(len, kernels))
    return np.array([reduce(np.kron, (own[phase % len(own)] for own in kernels)) for phase in range(turn)])


def product_of_starts(starts: Sequence[Any], laws: Sequence[Floats]) -> Any:
    """Return how tuples start: from any law if one of the columns may, which allows more than there is."""
    if "free" in starts:
        return "free"
    return "stationary" if all(start == "stationary" for start in starts) else reduce(np.kron, laws)


def joint_source(sources: Sequence[Provenance]) -> Provenance:
    """Return the source of a prior that is made of several, with the notes of all."""
    fitted = [source for source in dict.fromkeys(sources) if source != DECLARED]
    if len(fitted) < 2:
        return fitted[0] if fitted else DECLARED
    origins = [source.origin for source in fitted if source.origin is not None]
    files = frozenset[str]().union(*(origin.files for origin in origins))
    return Provenance(
        " and ".join(str(source.reference) for source in fitted),
        sum(source.rows for source in fitted),
        " ".join(source.digest for source in fitted),
        tuple(dict.fromkeys(note for source in fitted for note in source.notes)),
        replace(origins[0], files=files) if origins else None,
    )


def check_factors(periods: Sequence[int | None]) -> None:
    """Refuse chains that have no product."""
    problem = f"A product of {len(periods)} chains." if len(periods) < 2 else ""
    if None in periods:
        problem = problem or "A product with a chain whose steps all have laws of their own."
    if problem:
        raise UsageError(
            problem,
            allowed="two chains or more, of one matrix each, or of matrices that repeat after a period",
            instead="pf.MarkovChain.product(hours, wages)",
        )
