"""The laws of the weighted sums of a batch: under each prior, on each public pattern of groups that may decide.

Noise is made for these laws. Groups are independent, so each pattern has laws of its own (M2); a prior whose sums have
several representations has the shortest movement of these.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from pufferflow.calibration.laws import Laws, SeveralLaws
from pufferflow.core.arrays import Floats
from pufferflow.models.priors.base import Prior
from pufferflow.models.secret import AnySecret, Presence
from pufferflow.queries.engine_interface import GroupSize, Pattern, changed_source
from pufferflow.queries.request import Request
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.selected_rows import ONE_ROW
from pufferflow.release.planning.sum_functions import Tables
from pufferflow.sensitivity.movement import ShortestMovement
from pufferflow.sensitivity.pattern import of_pattern, window


def laws_of(
    public: PublicMetadata,
    tables: Sequence[Sequence[Tables]],
    weights: Floats,
    sizes: Sequence[GroupSize] | None = None,
) -> Laws:
    """Return the laws of the weighted sums under all priors and patterns, by the shortest movement for each prior.

    With `sizes` those about groups of these sizes. If no row is selected at all, noise is made for one row: empty
    answers are as noisy as others.
    """
    pieces: list[Laws] = []
    for of_prior, pattern, patterns in tables_and_patterns(public, tables, sizes):
        laws = [
            _on_pattern(public.request, table, pattern, weights, patterns) for table in of_prior
        ]
        pieces.append(
            laws[0] if len(laws) == 1 and of_prior[0].exact else ShortestMovement(laws).movement
        )
    return SeveralLaws(pieces)


def tables_and_patterns(
    public: PublicMetadata,
    tables: Sequence[Sequence[Tables]],
    sizes: Sequence[GroupSize] | None = None,
) -> list[tuple[Sequence[Tables], Pattern, int]]:
    """Return what laws are of, in order: tables of a prior, or of a kind of its rows, and a pattern of so many."""
    found = list[tuple[Sequence[Tables], Pattern, int]]()
    for of_prior in tables:
        prior = of_prior[0].prior
        patterns = _windows(public, prior, of_prior[0].secret, sizes)
        of_rows = public.weights.of_each_row(of_prior) if prior.independent_rows else [of_prior]
        found += [(some, pattern, len(patterns)) for pattern, some in product(patterns, of_rows)]
    return found


def laws_on_patterns(
    request: Request, patterns: Sequence[Pattern], tables: Tables, weights: Floats
) -> Laws:
    """Return the laws of the weighted sums on some patterns, by one representation of the sums."""
    return SeveralLaws(
        [
            _on_pattern(request, tables, pattern, weights, len(patterns))
            for pattern in patterns or (ONE_ROW,)
        ]
    )


def _on_pattern(
    request: Request, tables: Tables, pattern: Pattern, weights: Floats, patterns: int
) -> Laws:
    if tables.unsigned:
        pattern = replace(pattern, covers=True)  # which adds up movements of either sign
    values, weights = tables.values, tables.weights(weights)
    if not isinstance(tables.secret, Presence):
        values = values - values.min(
            axis=1, keepdims=True
        )  # only differences matter, and small numbers are exact
    scaled = values * weights[:, None]  # exact: whole steps times binary fractions
    rounding = None if tables.rounding is None else tables.rounding * weights
    keys, column = request.keys, request.column
    cells = 1 if not request.by else None if keys is None else keys.height
    return of_pattern(
        tables.prior,
        tables.secret,
        pattern,
        scaled,
        column,
        rounding,
        cells=cells,
        patterns=patterns,
    )


def _windows(
    public: PublicMetadata, prior: Prior, secret: AnySecret, sizes: Sequence[GroupSize] | None
) -> tuple[Pattern, ...]:
    """Return the patterns without the rows that cost no more than others, each once; one row if there is none.

    With `sizes` those of groups of these sizes.
    """
    if public.weights.grids and not prior.independent_rows:
        if prior.any_correlation:
            return public.weights.of_groups.patterns.distinct or (ONE_ROW,)
        return public.weights.of_rows(prior, public.patterns(prior), public.placed) or (ONE_ROW,)
    patterns = public.patterns(prior).distinct or (ONE_ROW,)
    if not prior.independent_rows:
        patterns = patterns_of_sizes(patterns, sizes)
    shorter = [window(prior, secret, pattern) for pattern in patterns]
    if all(short is pattern for short, pattern in zip(shorter, patterns, strict=True)):
        return tuple(patterns)
    return tuple({_identity(prior, short): short for short in reversed(shorter)}.values())[::-1]


def patterns_of_sizes(
    patterns: Sequence[Pattern], sizes: Sequence[GroupSize] | None
) -> tuple[Pattern, ...]:
    """Return the patterns of groups of some sizes, None for all; what covers others covers these alone.

    Sizes and patterns are of the same groups, so each size has a pattern, unless the source has changed in between.
    """
    if sizes is None:
        return tuple(patterns)
    if any(pattern.covers for pattern in patterns):
        return tuple(_covering(pattern, sizes) for pattern in patterns)
    chosen = [pattern for pattern in patterns if group_size(pattern) in sizes]
    if {group_size(pattern) for pattern in chosen} != set(sizes):
        raise changed_source()
    return tuple(chosen)


def group_size(pattern: Pattern) -> GroupSize:
    """Return the size of the groups of a pattern."""
    return GroupSize(pattern.selected, pattern.rows - pattern.selected)


def _covering(pattern: Pattern, sizes: Sequence[GroupSize]) -> Pattern:
    """Return the pattern with no more rows than groups of these sizes have, where places of rows do not matter."""
    if not pattern.covers_by_size:
        return pattern
    selected, others = (max(parts) for parts in zip(*sizes, strict=True))
    cells, counts = ([0, -1], [selected, others]) if others else ([0], [selected])
    return replace(pattern, cells=np.array(cells), counts=np.array(counts, dtype=np.int64))


def _identity(prior: Prior, pattern: Pattern) -> tuple[object, ...]:
    """Return a key that patterns share only if their laws are the same: where a chain repeats, phases for positions."""
    positions, start = pattern.positions, pattern.start
    if positions is not None and prior.repeats is not None:
        positions, start = positions - positions[0] // prior.repeats * prior.repeats, 0.0
    return (
        pattern.cells.tobytes(),
        pattern.counts.tobytes(),
        positions is not None and positions.tobytes(),
        start,
        pattern.covers,
    )
