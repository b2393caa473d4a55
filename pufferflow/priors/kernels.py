"""Reading transitions, initial laws and positions of chains, and what chains have in common."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pufferflow.errors import Misuse, Refused
from pufferflow.priors.prior import wrong_secret
from pufferflow.reading import shown
from pufferflow.rounding import UNIT
from pufferflow.secrets import AnySecret, Initial, Interval, Secret
from pufferflow.suggestions import nearest

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.intp]
Rows = tuple[tuple[float, ...], ...]
SUM_TOLERANCE = 1e-9
_MOST_STATES = 64
_TRANSITION = "rows of probabilities with sum 1, one for each state, or a list of such matrices"
_BOUNDS = "a matrix of probabilities, one row for each state, or a list of such matrices"
_EXAMPLE = "pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])"


def read_kernels(transition: Any) -> tuple[Floats, bool]:
    """Return matrices of probabilities, and whether a single one was given."""
    kernels, single = read_bounds(transition, "transition", _TRANSITION)
    sums = kernels.sum(axis=2)
    if (np.abs(sums - 1) > SUM_TOLERANCE).any():
        place = np.unravel_index(int(np.abs(sums - 1).argmax()), sums.shape)
        where = f"Row {place[1]}" if single else f"Row {place[1]} of matrix {place[0]}"
        raise Misuse(f"{where} of transition has sum {sums[place]:.12g}.", allowed=_TRANSITION, instead=_EXAMPLE)
    return normalised(kernels), single


def read_bounds(given: Any, name: str, allowed: str = _BOUNDS) -> tuple[Floats, bool]:
    """Return matrices of numbers from 0 to 1, and whether a single one was given."""
    try:
        kernels = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise Misuse(f"{name} is not made of numbers.", allowed=allowed, instead=_EXAMPLE) from error
    single = kernels.ndim == 2
    kernels = kernels[None] if single else kernels
    if kernels.ndim != 3 or kernels.shape[1] != kernels.shape[2] or kernels.shape[1] < 2 or not kernels.size:
        raise Misuse(f"{name} has shape {kernels.shape[single:]}.", allowed=allowed, instead=_EXAMPLE)
    if kernels.shape[1] > _MOST_STATES:
        raise Refused(
            f"A chain of {kernels.shape[1]} states.",
            allowed=f"at most {_MOST_STATES} states",
            instead="pf.Bins with fewer classes",
        )
    if not (np.isfinite(kernels).all() and (kernels >= 0).all() and (kernels <= 1 + SUM_TOLERANCE).all()):
        raise Misuse(f"{name} has an entry that is no probability.", allowed=allowed, instead=_EXAMPLE)
    return kernels, single


def check_period(period: object, matrices: int) -> None:
    """Refuse a period that is not the number of matrices."""
    whole = isinstance(period, int) and not isinstance(period, bool)
    if period is not None and not (whole and period == matrices):
        raise Misuse(
            f"period is {shown(period)} for {matrices} {'matrix' if matrices == 1 else 'matrices'}.",
            allowed="as many matrices as the period has phases",
            instead="pf.MarkovChain([P0, …, P23], period=24)",
        )


def read_initial(initial: Any, states: int) -> str | tuple[float, ...]:
    """Return how a chain starts."""
    allowed = f"'stationary', 'free', or {states} probabilities with sum 1"
    if isinstance(initial, str):
        if initial not in ("stationary", "free"):
            near = nearest(initial, ("stationary", "free"))
            instead = f"initial='{near[0] if near else 'stationary'}'"
            raise Misuse(f"initial is {shown(initial)}.", allowed=allowed, instead=instead)
        return initial
    try:
        law = np.array(initial, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise Misuse("initial is not made of numbers.", allowed=allowed, instead="initial='stationary'") from error
    good = law.shape == (states,) and np.isfinite(law).all() and (law >= 0).all()
    if not good or abs(law.sum() - 1) > SUM_TOLERANCE:
        raise Misuse(
            "initial is no law on the states: it has a wrong length, sum or sign.",
            allowed=allowed,
            instead="initial='stationary'",
        )
    return tuple(normalised(law).tolist())


def check_states(states: int, secret: AnySecret) -> None:
    """Refuse a secret whose domain is not the list of a chain's states."""
    if not isinstance(secret, Secret | Initial):
        raise wrong_secret(
            "pf.MarkovChain",
            secret,
            allowed="pf.Secret (every row's value) or pf.Initial (the first one)",
            instead="pf.Secret(column, domain=[…]), whose i-th value is state i",
        )
    if isinstance(secret.domain, Interval):
        raise Misuse(
            f"A chain of {states} states for a column that is {secret.domain.describe()}.",
            allowed="a domain with one value for each state",
            instead="pf.Bins(edges, values), which reads the column in classes",
        )
    if len(secret.domain.points) != states:
        raise Misuse(
            f"A chain of {states} states for a domain of {len(secret.domain.points)} values.",
            allowed="as many values as states: state i is the i-th value",
            instead="a transition with one row for each value of the domain",
        )


def whole_positions(positions: Floats) -> Whole:
    """Return positions counted in whole steps."""
    steps = np.asarray(positions)
    if not (steps == np.floor(steps)).all() or steps[-1] > 2**52:
        raise Misuse(
            "Positions along a chain are not whole numbers of steps.",
            allowed="whole numbers",
            instead='a step that divides all gaps between rows; or pl.col("hour").round(), where they nearly are whole',
        )
    return steps.astype(np.intp)


def in_words(states: int, period: int | None) -> str:
    """Say what rows form."""
    if period is None:
        return f"rows form a Markov chain of {states} states whose steps all have laws of their own"
    return f"rows form a Markov chain of {states} states" + (
        f" whose steps repeat after {period}" if period > 1 else ""
    )


def initial_in_words(initial: str | tuple[float, ...]) -> str:
    """Say how a chain starts."""
    known = {"stationary": "starts from its stationary law", "free": "may start from any law"}
    return known[initial] if isinstance(initial, str) else "starts from a known law"


def normalised(rows: Floats) -> Floats:
    """Return rows with sum 1; those whose sum is 1 but for rounding stay as they are."""
    sums = rows.sum(axis=-1, keepdims=True)
    return np.where(np.abs(sums - 1) <= rows.shape[-1] * UNIT, rows, rows / sums)


def tuples(kernels: Floats) -> tuple[Rows, ...]:
    """Return matrices as values that can be compared."""
    return tuple(tuple(tuple(row) for row in matrix) for matrix in cast(Sequence[Any], kernels.tolist()))
