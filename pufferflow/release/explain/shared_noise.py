"""Find the outputs that share a noisy sum, and those with correlated noise: they are not independent evidence.

Two outputs of one noisy sum, such as a sum and a mean of one column, have the same error, so their average is no more
accurate than either. Correlated noises (M28) share a part of the error.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pufferflow.release.planning.decision import Decision
from pufferflow.reports.numbers import counted

_MOST_NAMED: Final = 5


class SharedNoise(NamedTuple):
    """The names of other outputs with the same noise, and of those with correlated noise; None if there are none."""

    same: str | None
    correlated: str | None


def shared_noise(plan: Decision) -> list[SharedNoise]:
    """Return which noise each output of a plan shares with others, in the order of outputs."""
    names, sums = _sums_of_outputs(plan)
    correlated = _correlated_sums(plan)
    readers = _readers(sums)
    found = list[SharedNoise]()
    for place, own in enumerate(sums):
        same = {other for one in own for other in readers[one]} - {place}
        near = {other for one in own for sum_ in correlated[one] for other in readers[sum_]} - same - {place}
        found.append(SharedNoise(_named(names, sorted(same)), _named(names, sorted(near))))
    return found


def _sums_of_outputs(plan: Decision) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the names of outputs, and the places of the sums that each is computed from."""
    names, sums = list[str](), list[tuple[int, ...]]()
    for query, places in plan.request.reads:
        one_each = query.linear and not query.exclusive and len(query.outputs) == len(places)
        names += query.outputs
        sums += [(place,) for place in places] if one_each else [tuple(places)] * len(query.outputs)
    return names, sums


def _readers(sums: Sequence[tuple[int, ...]]) -> dict[int, list[int]]:
    """Return the places of the outputs that are computed from each sum."""
    readers = dict[int, list[int]]()
    for place, own in enumerate(sums):
        for one in own:
            readers.setdefault(one, []).append(place)
    return readers


def _correlated_sums(plan: Decision) -> list[list[int]]:
    """Return for each sum the others whose noise is correlated with it."""
    count, combined = len(plan.request.measures), plan.facts.combined
    if combined is None:
        return [[] for _ in range(count)]
    rows = combined.correlations(plan.noises)
    return [[other for other, one in enumerate(row) if one and other != place] for place, row in enumerate(rows)]


def _named(names: Sequence[str], places: Sequence[int]) -> str | None:
    if not places:
        return None
    more = len(places) - _MOST_NAMED
    said = [names[place] for place in places[:_MOST_NAMED]]
    return ", ".join([*said, *([counted(more, "more output")] if more > 0 else [])])
