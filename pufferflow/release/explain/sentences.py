"""Facts that texts about a plan are filled in with; the words are in `reports/templates/texts`.

Value handling is what null, values outside the domain and classes are read as, by schema and domain alone.

No row is left out for its value, so each counts as one of the domain; how many rows are read so is private.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import polars as pl

from pufferflow.confounding.posterior import beliefs_after
from pufferflow.core.arrays import Floats
from pufferflow.engines.column_measures import clean_dtype, labelled
from pufferflow.models.domain import Bins, Domain, Interval, Label
from pufferflow.models.population import Population
from pufferflow.models.priors.base import Prior, belief_in_words
from pufferflow.models.priors.table import Table
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Derived, Initial, Presence, ValueSecret
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.queries.aggregates import Count, Histogram, Mean, MeanOfUnknown, Quantile, Sum
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.expressions.public import public_words
from pufferflow.queries.expressions.values import Values
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.explain.population import hidden_by_design, rows_beyond
from pufferflow.release.explain.worst_pair import NAMELESS, nameless
from pufferflow.release.planning.blocks import impossible_values
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.reports.numbers import at_most, promise_in_words
from pufferflow.reports.text import lines, phrase

_MOST, _LONG = 8, 1e15


def value_handling(request: Request) -> tuple[str, ...]:
    """Return a line for every query, in their order."""
    columns = _columns(request)
    return tuple(_line([query], columns, it="it") for query in request.queries)


def value_handling_together(request: Request) -> tuple[str, ...]:
    """Return the same lines with one line for all queries that read the same columns and weights."""
    alike = dict[tuple[tuple[str, ...], Any], list[Query]]()
    for query in request.queries:
        alike.setdefault((_columns_of(query), _weight(query)), []).append(query)
    columns = _columns(request)
    return tuple(_line(queries, columns) for queries in alike.values())


def notes_on_missing(request: Request) -> tuple[str, ...]:
    """Say what missing values count as where the scenario leaves it out."""
    return lines("missing", assumed=_assumed_missing(request))


def _assumed_missing(request: Request) -> list[tuple["_Column", bool]]:
    """Return the columns whose `missing=` is left out, and whether each is one of the secret."""
    read = (measure.values.columns for measure in request.measures if measure is not None)
    return [
        (_column(request, name), name in request.scenario.secret.columns)
        for name in dict.fromkeys(itertools.chain.from_iterable(read))
        if request.missing_chosen(name) is False
    ]


@final
@dataclass(frozen=True)
class _Nearest:
    """What numbers of a column count as that are not listed: classes, nearest points, or the ends of an interval."""

    classes: Sequence[tuple[str, str, str]] = ()
    """The ends of each class, and what it counts as; an end without limit is empty."""
    open: bool = False
    points: Sequence[str] = ()
    cut: Sequence[str] = ()
    """Numbers beyond the ends."""
    distance: float = 0.0
    """The largest distance of a value within the domain from what it is read as."""
    beyond: str = ""
    """Where that distance has no limit; empty for nowhere."""


@final
@dataclass(frozen=True)
class _Column:
    """How the values of a column are read."""

    name: str
    kinds: Sequence[str]
    """What has no value of the domain, such as null."""
    missing: str
    """What these count as; empty if they are left out."""
    chosen: bool
    nearest: _Nearest


def _columns_of(query: Query) -> tuple[str, ...]:
    """Return the columns that a query reads; none if it counts rows."""
    return next((values.columns for values in query.measures if values is not None), ())


def _columns(request: Request) -> dict[str, _Column]:
    read = itertools.chain.from_iterable(map(_columns_of, request.queries))
    return {name: _column(request, name) for name in dict.fromkeys(read)}


def _column(request: Request, name: str) -> _Column:
    """Return how a column is read; a column of any dtype can have nulls."""
    dtype, domain = request.schema[name], request.domains[name]
    closed = isinstance(dtype, pl.Enum) and set(dtype.categories.to_list()) <= set(domain.points)
    kinds = [
        "null",
        *["NaN"] * dtype.is_float(),
        *["unknown labels"] * (labelled(domain) and not closed),
    ]
    missing = "" if domain.skips else _value_text(request.missing(name))
    return _Column(
        name, kinds, missing, bool(request.missing_chosen(name)), _nearest(domain.present, dtype)
    )


def _line(queries: Sequence[Query], columns: dict[str, _Column], it: str = "") -> str:
    """Return how queries about the same columns read them; `it` replaces their names in errors."""
    read = [columns[name] for name in _columns_of(queries[0])]
    far = read[0].nearest if len(read) == 1 else _Nearest()
    wide = [
        query
        for query in queries
        if isinstance(query, Quantile) and len(query.edges) > len(query.measures)
    ]
    names, *parts = lines(
        "reading",
        names=[query.name for query in queries],
        columns=read,
        most=_MOST,
        handled=list(dict.fromkeys(query.value_handling for query in queries)) if read else [],
        weight=_weight(queries[0]),
        errors=[
            error for query in queries for error in _errors(query, far.distance, it or query.name)
        ],
        beyond=far.beyond,
        inside=("whole numbers" if wide[0].whole_numbers else "values") if wide and read else "",
    )
    return f"{names} {'; '.join(parts)}"


def _weight(query: Query) -> tuple[str, str, str] | None:
    """Return the words and ends of a bounded weight (`pf.Presence`); None for others, which are read unchanged."""
    weights = (values.weight for values in query.measures if values is not None)
    weight = next((one for one in weights if one is not None and one.bounds is not None), None)
    if weight is None or weight.bounds is None:
        return None
    low, high = (_value_text(float(bound)) for bound in weight.bounds)
    return weight.words, low, high


def _errors(query: Query, distance: float, name: str) -> Iterator[tuple[bool, str, str, bool]]:
    """Yield how far an answer may be off because values are read as the nearest ones; nothing for counts."""
    if not distance or isinstance(query, Count | Histogram):
        return
    slope = _slope(query.measures[0]) if isinstance(query, Sum | Mean | MeanOfUnknown) else None
    of_values = slope is None and not isinstance(query, Quantile)
    size = distance if slope is None else slope * distance
    yield of_values, name, f"{size:.4g}", slope is not None and isinstance(query, Sum)


def _slope(values: Values | None) -> float | None:
    """Return the absolute slope of the measure in the value; None where it is not linear."""
    if not isinstance(values, OnPoints):
        return None
    points, numbers = values.domain.numbers, np.array(values.steps) * float(values.unit)
    low, high = points.argmin(), points.argmax()
    slope = float((numbers[high] - numbers[low]) / (points[high] - points[low]))
    line = numbers[low] + slope * (points - points[low])
    return abs(slope) if np.allclose(numbers, line, rtol=0, atol=1e-9 * np.ptp(numbers)) else None


def _nearest(domain: Domain, dtype: pl.DataType) -> _Nearest:
    """Return what numbers outside the listed values count as."""
    if isinstance(domain, Bins):
        return _of_classes(domain)
    if labelled(domain) or not domain.numeric:
        return _Nearest()
    points = np.sort(domain.numbers)
    least, most = _ends(dtype)
    ends = [("below", points[0])] * bool(least < points[0]) + [("above", points[-1])] * bool(
        most > points[-1]
    )
    beyond = [(f"{side} {_value_text(float(end))}", _value_text(float(end))) for side, end in ends]
    widest = float(np.diff(points).max())
    if isinstance(domain, Interval) or (widest <= 1 and _whole(points, dtype)):
        return _Nearest(cut=[f"numbers {numbers} as {end}" for numbers, end in beyond])
    named = " and ".join(numbers for numbers, _ in beyond)
    return _Nearest(points=list(map(_value_text, domain.points)), distance=widest / 2, beyond=named)


def _of_classes(domain: Bins) -> _Nearest:
    """Return what each class counts as, and how far its values may be from that."""
    edges = [-np.inf, *domain.edges, np.inf] if domain.open else list(domain.edges)
    ends = [_value_text(edge) if np.isfinite(edge) else "" for edge in edges]
    classes = zip(ends[:-1], ends[1:], map(_value_text, domain.values), strict=True)
    known = _Nearest(list(classes), domain.open)
    if not domain.numeric:
        return known
    inner = [
        max(abs(high - value), abs(value - low))
        for (low, high), value in zip(
            itertools.pairwise(edges), domain.numbers.tolist(), strict=True
        )
        if np.isfinite(high - low)
    ]
    beyond = f"below {_value_text(domain.edges[0])} and from {_value_text(domain.edges[-1])} on"
    return replace(known, distance=max(inner, default=0.0), beyond=beyond)


def _whole(points: Floats, dtype: pl.DataType) -> bool:
    """Return whether a column has no numbers between whole points."""
    return (clean_dtype(dtype).is_integer() or dtype == pl.Boolean) and bool(
        (points == np.rint(points)).all()
    )


def _ends(dtype: pl.DataType) -> tuple[float, float]:
    """Return the least and the largest number of a dtype."""
    if dtype == pl.Boolean:
        return 0.0, 1.0
    clean = clean_dtype(dtype)
    if not clean.is_integer():
        return -np.inf, np.inf
    ends = np.iinfo(str(clean).lower())
    return float(ends.min), float(ends.max)


def _value_text(value: Label) -> str:
    """Show a declared value with all its digits."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LONG
    return repr(int(value)) if whole else repr(value)


_NEARLY = 0.999
_SAME = 1e-6


def posterior(scenario: Scenario, promise: Guarantee) -> dict[str, Any]:
    """Return how likely a secret behind the data can become under a pure guarantee, if its prior is a table."""
    secret, tables = (
        scenario.secret,
        [prior for prior in scenario.priors if isinstance(prior, Table)],
    )
    known = len(tables) == len(scenario.priors) and all(one.independent_rows for one in tables)
    if (
        not isinstance(promise, Pure)
        or not isinstance(secret, Derived)
        or secret.pairs != "all"
        or not known
    ):
        return {}
    found = beliefs_after(scenario, promise.epsilon)
    return {
        "secret": secret.name,
        "beliefs": found[:_MOST],
        "more": str(len(found) - _MOST) if len(found) > _MOST else "",
    }


def queries_in_words(request: Request) -> str:
    """Describe the queries and the rows that they are about."""
    filters = [public_words(condition) for condition in request.filters]
    others = "" if request.others is None else request.others.words
    return phrase("queries", request.queries, filters, request.by, others)


def noise_facts(plan: CalibratedNoise) -> dict[str, Any]:
    """Return the kind of noise, and its scales on the sums of each query."""
    least = plan.in_units(plan.basis.noises(plan.least_noise))
    ends = [
        (noise.scale, small.scale) for noise, small in zip(plan.noises_in_units, least, strict=True)
    ]
    return {
        "noise": type(plan.calibration.noise).__name__,
        "by": plan.request.by,
        "sums": [
            (_scales([ends[place] for place in places]), query.name)
            for query, places in plan.request.reads
        ],
        "differs": plan.differs_by_cell,
        "correlated": plan.basis.transform.words,
    }


def _scales(ends: Sequence[tuple[float, float]]) -> list[str]:
    """Return the different scales, each as a number or a range."""
    scales = (
        f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}" for most, least in ends
    )
    return list(
        dict.fromkeys("0 (which no secret moves)" if scale == "0" else scale for scale in scales)
    )


def row_alone(plan: CalibratedNoise) -> dict[str, Any]:
    """Return which ordinary differential privacy of one row the same noise keeps."""
    secret, own = plan.request.scenario.secret, plan.ordinary
    more = (
        own is not None
        and own.kind is not None
        and own.loss > plan.calibration.guarantee.loss * (1 + _SAME)
    )
    return {
        "itself": isinstance(secret, Presence),
        "of_all": isinstance(secret, Population),
        "first": isinstance(secret, Initial),
        "unread": plan.row_laws is None,
        "some_pairs": isinstance(secret, ValueSecret) and secret.pairs != "all",
        "promise": "" if own is None else promise_in_words(own),
        "less": more,
    }


def assumptions(plan: CalibratedNoise) -> tuple[str, ...]:
    """Return the assumptions of the guarantee, in sentences."""
    scenario = plan.request.scenario
    return lines(
        "assumptions",
        origins=list(dict.fromkeys(map(_origin, scenario.priors))),
        any_correlation=all(prior.any_correlation for prior in scenario.priors),
        drawn=isinstance(scenario.secret, Population),
        numbered=scenario.numbers_rows and len(scenario.within) == 1,
        within=scenario.within,
        unit=scenario.secret if isinstance(scenario.secret, Presence) else None,
        public=scenario.public,
    )


def _origin(prior: Prior) -> str:
    """Describe the provenance of a prior: in full, unless the prior's own description has it."""
    in_full = prior.provenance.describe()
    return prior.provenance.origin_in_words if in_full in prior.describe() else in_full


def _along_one_coupling(prior: Prior) -> bool:
    """Return whether an account adds up losses under a prior along one coupling, each by its own noise."""
    return prior.independent_rows or (prior.coupled and not prior.ordered)


def notes(plan: CalibratedNoise) -> tuple[str, ...]:
    """Return notes on the calibration and on how rows are read."""
    request = plan.request
    return lines(
        "notes",
        calibration=plan.calibration.note,
        own_noise=plan.differs_by_cell
        and not all(map(_along_one_coupling, request.scenario.priors)),
        of_laws=list(
            dict.fromkeys(
                tables.note for of_prior in plan.tables for tables in of_prior if tables.note
            )
        ),
        impossible=list(map(repr, impossible_values(request.scenario))),
        row_privacy=plan.row_privacy,
        of_rows=plan.row_laws is not None,
        ordinary="" if plan.ordinary is None else repr(plan.ordinary),
        raised=_raised_noise(plan),
        assumed=_assumed_missing(request),
        limit=request.limit,
        in_order=request.engine.in_order,
        by_design=hidden_by_design(request, plan.guarantee),
        beyond=rows_beyond(request, plan.public),
        **_untried(plan),
    )


def untried_bounds(plan: CalibratedNoise) -> tuple[str, ...]:
    """Name the bounds that were not tried for lack of time, so that noise may be larger than needed."""
    return lines("untried", **_untried(plan))


def _untried(plan: CalibratedNoise) -> dict[str, Any]:
    late = dict.fromkeys(repr(trial.bound) for trial in plan.calibration.untried if trial.late)
    return {"untried": list(late), "seconds": f"{plan.options.seconds:g}" if late else ""}


def _raised_noise(plan: CalibratedNoise) -> str:
    """Return what the noise keeps under the prior alone, if one row alone needs more noise than that."""
    promised, ordinary = plan.calibration.guarantee, plan.ordinary
    if promised.kind is None or ordinary is None or ordinary.kind is None:
        return ""
    if plan.calibration.loss > _NEARLY * promised.loss or ordinary.loss < _NEARLY * promised.loss:
        return ""
    return f"{promised.measure} {at_most(plan.calibration.loss)}"


def witness_in_words(plan: CalibratedNoise) -> str:
    """Name the two values of the secret that need most noise and, of several priors, the prior."""
    witness: Any = plan.calibration.witness
    believed = witness.prior if len(plan.request.scenario.priors) > 1 else None
    pair = NAMELESS if nameless(plan) else list(map(repr, witness.secrets or ()))
    return phrase(
        "witness",
        pair if witness.secrets is not None else None,
        "" if believed is None else belief_in_words(believed),
    )
