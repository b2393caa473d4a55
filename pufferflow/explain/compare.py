"""A plan in tables: what each cell will look like, and what the same promise costs under every bound.

Whether noise drowns the answers: the error that is expected against the largest size that an answer can have.

Both come from public sizes alone, so nothing has to be released to see that it would say nothing.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from pufferflow.arrays import Floats
from pufferflow.bounds import (
    Bound,
    Bounds,
    Calibration,
    Group,
    Laws,
    Scales,
    SeveralLaws,
    calibrate,
    compared_bounds,
    loss,
)
from pufferflow.errors import PufferflowError
from pufferflow.noise import Noise
from pufferflow.planning import AnswerColumn, Decision, expected_error, half_width
from pufferflow.progress import working
from pufferflow.queries import Query
from pufferflow.report import at_most, counted, plain
from pufferflow.report.evidence import GROUP_PRIVACY, ORDINARY

ALL_ROWS = "all rows"
_MOST_WORK = 3e9
BY_MOVEMENT = "by movement alone: joint laws are not known, or too many to compare"
"""Why a bound had to do without the laws that it needs: its row is that of how far the answers can move at all."""


def summary(plan: Decision) -> pl.DataFrame:
    """Return one row for each output cell; errors that depend on the answers themselves are null."""
    groups = group_names(plan)
    size = plan.facts.size
    parts: list[pl.DataFrame] = []
    for output in plan.outputs:
        noise = output.noise
        expected, half = _errors(output.query, noise, size, groups.len())
        parts.append(
            pl.DataFrame(
                {"query": pl.repeat(output.name, groups.len(), eager=True), "group": groups},
            ).with_columns(
                pl.lit(type(noise).__name__).alias("noise"),
                pl.lit(noise.scale).alias("scale"),
                pl.Series("expected_error", expected, dtype=pl.Float64, nan_to_null=True),
                pl.Series("interval_95", half, dtype=pl.Float64, nan_to_null=True),
                pl.lit(repr(plan.calibration.bound)).alias("bound"),
                pl.lit(plan.calibration.certainty.value).alias("certainty"),
            )
        )
    return pl.concat(parts)


def compare(plan: Decision) -> pl.DataFrame:
    """Return, for every bound, the noise that it asks for to keep the same promise; refusals say why."""
    guarantee = plan.calibration.guarantee
    rows: list[dict[str, Any]] = []
    with working("comparing bounds"):
        for bound in compared_bounds(guarantee):
            found, note = _tried(plan, bound)
            if not note and bound.by_movement and _by_movement(plan):
                note = BY_MOVEMENT
            rows += _compared(plan, repr(bound), found, note)
        found, note = _calibrated(plan, lambda: plan.group_laws, Group())
        rows += _compared(plan, GROUP_PRIVACY, found, note)
        rows += _ordinary(plan)
    schema = {"bound": pl.String, "query": pl.String, "noise": pl.String, "scale": pl.Float64}
    more = {"expected_error": pl.Float64, "times": pl.Float64, "certainty": pl.String, "note": pl.String}
    return pl.DataFrame(rows, schema=schema | more)


def _tried(plan: Decision, bound: Bound) -> tuple[Calibration | None, str]:
    """Return what a bound asks for, or why it was not tried: too much work for what it can win over the plan's own."""
    pieces = plan.laws.pieces if isinstance(plan.laws, SeveralLaws) else [plan.laws]
    guarantee, scale = plan.calibration.guarantee, plan.calibration.noise.scale
    if sum(bound.work(laws.work, guarantee) for laws in pieces) <= _MOST_WORK or type(bound) is type(
        plan.calibration.bound
    ):
        return _calibrated(plan, lambda: plan.laws, bound)
    least = max(Scales(guarantee, plan.family).least(bound, laws, scale, plan.calibration.witness) for laws in pieces)
    if least >= scale:
        return None, "not tried: no less noise"
    return (
        None,
        f"not tried: at best {math.ceil(100 * (1 - least / scale)):g} % less noise" if least else "not tried: too long",
    )


def _ordinary(plan: Decision) -> Iterator[dict[str, Any]]:
    """Return the noise that differential privacy would add, and what it would keep under the scenario's priors."""
    alone = plan.row_laws
    if alone is None:
        return iter(())
    found, note = _calibrated(plan, lambda: alone, "auto")
    return _compared(plan, ORDINARY, found, note if found is None else _left_here(plan, found.noise))


def _left_here(plan: Decision, noise: Noise) -> str:
    kind = plan.calibration.guarantee.kind
    if kind is None:
        return ""
    try:
        left = loss(plan.laws, noise, kind, [plan.calibration.bound, Group()])
    except PufferflowError:
        left = math.inf
    return f"would keep epsilon {at_most(left)} here" if math.isfinite(left) else "would keep no such promise here"


def _by_movement(plan: Decision) -> bool:
    pieces = plan.laws.pieces if isinstance(plan.laws, SeveralLaws) else [plan.laws]
    return any(laws.movement_only for laws in pieces)


def group_names(plan: Decision) -> pl.Series:
    """Return a name for every cell."""
    keys = plan.facts.cells.keys
    if keys is None:
        return pl.Series([ALL_ROWS])
    texts = zip(*map(_texts, keys.get_columns()), strict=True)
    return pl.Series("group", [", ".join(parts) for parts in texts], dtype=pl.String)


def _errors(query: Query, noise: Noise, size: Floats | None, cells: int) -> tuple[Floats, Floats]:
    if not query.linear:
        return np.full(cells, np.nan), np.full(cells, np.nan)
    expected, half = expected_error(query, noise, size), half_width(query, noise, size)
    return np.broadcast_to(expected, cells).copy(), np.broadcast_to(half, cells).copy()


def _calibrated(plan: Decision, laws: Callable[[], Laws], bound: Bounds) -> tuple[Calibration | None, str]:
    try:
        return calibrate(laws(), plan.calibration.guarantee, plan.family, bound), ""
    except PufferflowError as refusal:
        return None, refusal.problem


def _compared(plan: Decision, bound: str, found: Calibration | None, note: str) -> Iterator[dict[str, Any]]:
    size = plan.facts.size
    noise = plan.calibration.noise if found is None else found.noise
    for output in plan.outputs_with(noise):
        query, scaled = output.query, output.noise
        row: dict[str, Any] = {"bound": bound, "query": output.name, "noise": type(noise).__name__}
        if found is None:
            yield row | {"note": note}
            continue
        errors = expected_error(query, scaled, size)
        error = float(errors.mean()) if query.linear and len(errors) else None
        times = noise.scale / plan.calibration.noise.scale if plan.calibration.noise.scale else None
        yield row | {
            "scale": scaled.scale,
            "expected_error": error,
            "times": times,
            "certainty": found.certainty.value,
            "note": note or found.note,
        }


def _texts(keys: pl.Series) -> list[str]:
    """Return the keys of one column as people read them; what Polars has no text for as Python shows it."""
    shown = keys if keys.dtype.is_nested() or keys.dtype == pl.Binary else keys.cast(pl.String)
    return [f"{keys.name}={'null' if key is None else key}" for key in shown.to_list()]


_ROUNDED = 1e-9


def too_noisy(plan: Decision) -> list[str]:
    """Return a line for each query whose noise is larger than any answer it can have; empty groups do not count."""
    errors, sizes = summary(plan)["expected_error"].fill_null(np.nan).to_numpy(), largest_answers(plan)
    found, start = list[str](), 0
    for query in plan.request.queries:
        own = slice(start, start := start + len(query.outputs) * len(plan.facts.cells.rows))
        line = _line(query.name, errors[own], sizes[own])
        found += [line] if line else []
    return found


def _line(name: str, errors: Floats, sizes: Floats) -> str:
    """Return the line of a query, with its largest answer of those that drown; nothing if none does."""
    possible = sizes > 0
    drowned = np.flatnonzero(possible & (errors > sizes * (1 + _ROUNDED)))
    if not len(drowned):
        return ""
    place = drowned[sizes[drowned].argmax()]
    largest, error = plain(float(sizes[place])), plain(float(errors[place]))
    line = f"noise on {name} is larger than the largest possible answer ({largest}): expected error {error}"
    return line + _of(len(drowned), int(possible.sum()))


def _of(drowned: int, possible: int) -> str:
    if possible == 1:
        return ""
    return f", for {'all' if drowned == possible else f'{drowned:,}'} of its {counted(possible, 'number')}"


def largest_answers(plan: Decision) -> Floats:
    """Return the largest size that each answer could have without noise, in the order of the summary; NaN: unknown."""
    return np.concatenate([_largest(output, plan) for output in plan.outputs])


def _largest(output: AnswerColumn, plan: Decision) -> Floats:
    """Return how large a linear answer about so many rows can be, in each cell."""
    cells, query, measure, size = len(plan.facts.cells.rows), output.query, output.measure, plan.facts.size
    if not query.linear or size is None or measure is None:
        return np.full(cells, np.nan)
    row = max(abs(measure.values.low), abs(measure.values.high)) * float(measure.values.unit)
    return np.broadcast_to(size * row * query.factor(size), cells)
