"""Kernels of chains: matrices, initial laws, positions, which states are possible, and products of chains."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, cast, final

import numpy as np

from pufferflow.core.arrays import Flags, Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.suggestions import nearest
from pufferflow.core.validate import check_not_masked, quoted, refuse_belief
from pufferflow.models.domain import Label
from pufferflow.models.priors.base import DECLARED, wrong_secret
from pufferflow.models.reference import Provenance
from pufferflow.models.secret import AnySecret, Initial, Secret, ValueSecret

Rows = tuple[tuple[float, ...], ...]
SUM_TOLERANCE = 1e-9
_ROUNDED = 1e-5
"""Sums of numbers of 32 bits are off by less."""
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
        raise UsageError(
            f"{where} of transition has sum {sums[place]:.12g}.",
            allowed=_TRANSITION,
            instead=instead_of_sums(sums, "transition", _EXAMPLE),
        )
    return normalised(kernels), single


def instead_of_sums(sums: Floats, name: str, example: str) -> str:
    """Return what to write instead of rows with these sums: numbers of 32 bits only need a cast and a division.

    >>> instead_of_sums(np.array([1.2]), "rows", "[[0.5, 0.5]]")
    '[[0.5, 0.5]]'
    """
    if np.abs(sums - 1).max() > _ROUNDED:
        return example
    return f"a cast to float64, then {name} / {name}.sum(axis=-1, keepdims=True)"


def read_bounds(given: Any, name: str, allowed: str = _BOUNDS) -> tuple[Floats, bool]:
    """Return matrices of numbers from 0 to 1, and whether a single one was given."""
    check_not_masked(given, name, allowed=allowed)
    try:
        kernels = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{name} is not made of numbers.", allowed=allowed, instead=_EXAMPLE
        ) from error
    single = kernels.ndim == 2
    kernels = kernels[None] if single else kernels
    if (
        kernels.ndim != 3
        or kernels.shape[1] != kernels.shape[2]
        or kernels.shape[1] < 2
        or not kernels.size
    ):
        raise UsageError(
            f"{name} has shape {kernels.shape[single:]}.", allowed=allowed, instead=_EXAMPLE
        )
    if kernels.shape[1] > _MOST_STATES:
        raise Refused(
            f"The chain has {kernels.shape[1]} states.",
            allowed=f"at most {_MOST_STATES} states",
            instead="pf.Bins with fewer classes",
        )
    if not (
        np.isfinite(kernels).all() and (kernels >= 0).all() and (kernels <= 1 + SUM_TOLERANCE).all()
    ):
        raise UsageError(
            f"{name} has an entry that is not a number from 0 to 1.",
            allowed=allowed,
            instead=_EXAMPLE,
        )
    return kernels, single


def check_period(period: object, matrices: int) -> None:
    """Refuse a period that is not the number of matrices."""
    whole = isinstance(period, int) and not isinstance(period, bool)
    if period is not None and not (whole and period == matrices):
        raise UsageError(
            f"period is {quoted(period)} for {matrices} {'matrix' if matrices == 1 else 'matrices'}.",
            allowed="as many matrices as the period has phases",
            instead="pf.MarkovChain([P0, …, P23], period=24)",
        )


def read_initial(initial: Any, states: int) -> str | tuple[float, ...]:
    """Return an initial law, or the word for one."""
    allowed = f"'stationary', 'free', or {states} probabilities with sum 1"
    if isinstance(initial, str):
        if initial not in ("stationary", "free"):
            near = nearest(initial, ("stationary", "free"))
            instead = f"initial='{near[0] if near else 'stationary'}'"
            raise UsageError(f"initial is {quoted(initial)}.", allowed=allowed, instead=instead)
        return initial
    try:
        law = np.array(initial, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            "initial is not made of numbers.", allowed=allowed, instead="initial='stationary'"
        ) from error
    good = law.shape == (states,) and np.isfinite(law).all() and (law >= 0).all()
    if not good or abs(law.sum() - 1) > SUM_TOLERANCE:
        raise UsageError(
            "initial is not a list of probabilities of the states: its length, sum or a sign is wrong.",
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
    if not secret.domain.finite:
        raise UsageError(
            f"A chain of {states} states for a column that is {secret.domain.describe()}.",
            allowed="a domain with one value for each state",
            instead="pf.Bins(edges, values), which reads the column in classes",
        )
    if len(secret.domain.points) != states:
        values, more = (
            len(secret.domain.present.points),
            " and a state for missing ones" * secret.domain.skips,
        )
        raise UsageError(
            f"A chain of {states} states for a domain of {values} values{more}.",
            allowed=f"as many values as states: state i is the i-th value{', the last is missing' * bool(more)}",
            instead="a transition with one row for each value of the domain",
        )


def whole_positions(positions: Floats) -> Indices:
    """Return positions counted in whole steps."""
    steps = np.asarray(positions)
    if not (steps == np.floor(steps)).all() or max(-steps[0], steps[-1]) > 2**52:
        raise UsageError(
            "Positions along a chain are not whole numbers of steps.",
            allowed="whole numbers",
            instead='a step that divides all gaps between rows; or pl.col("hour").round(), where they nearly are whole',
        )
    return steps.astype(np.intp)


def normalised(rows: Floats) -> Floats:
    """Return rows with sum 1; those whose sum is 1 up to rounding stay unchanged."""
    sums = rows.sum(axis=-1, keepdims=True)
    return np.where(np.abs(sums - 1) <= rows.shape[-1] * UNIT, rows, rows / sums)


def tuples(kernels: Floats) -> tuple[Rows, ...]:
    """Return matrices as tuples, which can be compared and hashed."""
    return tuple(
        tuple(tuple(row) for row in matrix) for matrix in cast(Sequence[Any], kernels.tolist())
    )


_MOST_TURNS = 4096


@final
class Possible:
    """The states that are possible at the `first` step, at `some` step, and at `every` step.

    A prior does not hide a value that is impossible under it. Only which entries are above 0 matters. Where `high` > 0
    some member of a class of chains may take a step; where `low` > 0 all members may. A single chain is a class with
    equal bounds.
    """

    def __init__(self, reached: Sequence[Flags]) -> None:
        self._reached = reached
        self.first = reached[0]
        self.some: Flags = np.any(reached, axis=0)
        self.every: Flags = np.all(reached, axis=0)

    def shown(self, emission: Floats) -> "Possible":
        """Return the symbols that are possible, where state s shows symbol y with probability `emission[s, y]`."""
        return Possible(
            [np.asarray((emission[states] > 0).any(axis=0)) for states in self._reached]
        )


def possible_from(laws: Floats, high: Floats, *, repeated: bool) -> Possible:
    """Return the states that steps lead to from some laws of the first; steps that are `repeated` repeat without end.

    >>> possible_from(np.array([[1.0, 0.0]]), np.array([[[0.9, 0.1], [0.0, 1.0]]]), repeated=True).every
    array([ True, False])
    """
    reached: list[Flags] = [np.any(laws > 0, axis=0)]
    known, links = {(0, reached[0].tobytes())}, high > 0
    for step in range(_MOST_TURNS * len(links) if repeated else len(links)):
        following = links[step % len(links)][reached[-1]].any(axis=0)
        place = (step + 1) % len(links), following.tobytes()
        if repeated and place in known:
            break
        known.add(place)
        reached.append(following)
    return Possible(reached)


def possible_at_rest(low: Floats, high: Floats) -> Possible:
    """Return the states that have a probability under a stationary law of some member, phase by phase.

    These are the recurrent states. Each is in a set that some member never leaves, and in which that member can reach
    this state from every other.

    >>> possible_at_rest(*[np.array([[[0.9, 0.1], [0.0, 1.0]]])] * 2).some
    array([False,  True])
    """
    possible = np.zeros(high.shape[:2], dtype=np.bool_)
    for phase, state in np.ndindex(*possible.shape):
        if not possible[phase, state]:
            possible |= _recurring_with((phase, state), low, high)
    return Possible(list(possible))


def _recurring_with(place: tuple[int, int], low: Floats, high: Floats) -> Flags:
    """Return the states to which a member may come back from everywhere, if one state at a phase is among them."""
    inside = np.ones(high.shape[:2], dtype=np.bool_)
    while inside[place]:
        stays = _may_stay(inside, low, high) & _reach(place, inside, high, back=True)
        if (stays == inside).all():
            return _reach(place, inside, high)  # all of these lead back to it
        inside = stays
    return np.zeros_like(inside)


def _may_stay(inside: Flags, low: Floats, high: Floats) -> Flags:
    """Return from where the next step may stay within a set: no mass has to leave it, and it can take all mass."""
    following = np.roll(inside, -1, axis=0)
    leaves = ((low > 0) & ~following[:, None, :]).any(axis=2)
    room = np.where(following[:, None, :], high, 0.0).sum(axis=2)
    return inside & ~leaves & (room > 1 - len(high[0]) * 1e-9)


def _reach(place: tuple[int, int], inside: Flags, high: Floats, *, back: bool = False) -> Flags:
    """Return where steps within a set may lead from a place, or, going back, from where they may lead to it."""
    links, reach = high > 0, np.zeros_like(inside)
    reach[place] = True
    while True:
        if back:
            near = (links & np.roll(reach, -1, axis=0)[:, None, :]).any(axis=2)
        else:
            near = np.roll((links & reach[:, :, None]).any(axis=1), 1, axis=0)
        wider = reach | (inside & near)
        if (wider == reach).all():
            return reach
        reach = wider


def check_possible(possible: Possible, secret: AnySecret, chain: str) -> None:
    """Refuse a secret with a value that has probability 0 at every position where it is a secret."""
    if not isinstance(secret, ValueSecret):
        return
    first = isinstance(secret, Initial)
    occurs = possible.first if first else possible.some
    for value, may_be in zip(secret.domain.points, occurs.tolist(), strict=True):
        if not may_be:
            where = "the first step" if first else "any step"
            refuse_belief(
                UsageError(
                    f"The prior {chain} gives {secret.column} = {value!r} no probability at {where}, so that it "
                    "would not be hidden.",
                    allowed="values with a probability above 0: of the first step for pf.Initial, else of some step",
                    instead="initial='free', initial=[…] with a share for it, or a domain and a transition without it",
                )
            )


def values_not_at_every_step(possible: Possible, secret: AnySecret) -> tuple[Label, ...]:
    """Return the values of a secret that are impossible at some step."""
    if not isinstance(secret, ValueSecret) or isinstance(secret, Initial):
        return ()
    always = possible.every.tolist()
    return tuple(
        value for value, may_be in zip(secret.domain.points, always, strict=True) if not may_be
    )


def product_of_kernels(kernels: Sequence[Floats]) -> Floats:
    """Return the kernels of tuples, the last column varying fastest; they repeat with the common period.

    >>> product_of_kernels([np.eye(2)[None], np.full((3, 1, 1), 1.0)]).shape
    (3, 2, 2)
    """
    turn = math.lcm(*map(len, kernels))
    return np.array(
        [reduce(np.kron, (own[phase % len(own)] for own in kernels)) for phase in range(turn)]
    )


def product_of_starts(starts: Sequence[Any], laws: Sequence[Floats]) -> Any:
    """Return how tuples start; if one column may start from any law, the tuples may too, which only adds members."""
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
    """Refuse chains that cannot be joined to one chain of tuples."""
    problem = f"A product of {len(periods)} chains." if len(periods) < 2 else ""
    if None in periods:
        problem = problem or "A product with a chain whose steps all have laws of their own."
    if problem:
        raise UsageError(
            problem,
            allowed="two chains or more, of one matrix each, or of matrices that repeat after a period",
            instead="pf.MarkovChain.product(hours, wages)",
        )
