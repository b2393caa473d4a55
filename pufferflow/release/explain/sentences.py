"""Sentences of explanations: noise, proof, assumptions and notes of a plan, and what is left if one is wrong.

Describe value handling: what null, values outside the domain and classes are read as, by schema and domain alone.

No row is left out for its value, so each counts as one of the domain; how many rows are read so is private.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
import polars as pl

from pufferflow.confounding.posterior import beliefs_after
from pufferflow.core.arrays import Floats
from pufferflow.engines.column_measures import clean_dtype, labelled
from pufferflow.models.domain import Bins, Domain, Interval, Label
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
from pufferflow.release.explain.what_if import what_if
from pufferflow.release.explain.worst_pair import NAMELESS, nameless
from pufferflow.release.planning.blocks import impossible_values
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.reports.numbers import at_most, promise_in_words

_INSIDE = "values are assumed to be uniform within a class of bins, and the error bar reaches to its ends"
_INSIDE_WHOLE = "whole numbers are assumed to be uniform within a class of bins, and the error bar reaches to its ends"
_MOST, _LONG = 8, 1e15


def value_handling(request: Request) -> tuple[str, ...]:
    """Return a line for every query, in their order."""
    columns = _readings(request)
    return tuple(_line([query], columns, it="it") for query in request.queries)


def value_handling_together(request: Request) -> tuple[str, ...]:
    """Return the same lines with one line for all queries that read the same columns and weights."""
    alike = dict[tuple[tuple[str, ...], str], list[Query]]()
    for query in request.queries:
        alike.setdefault((_columns_of(query), _weight_in_words(query)), []).append(query)
    columns = _readings(request)
    return tuple(_line(queries, columns) for queries in alike.values())


def notes_on_missing(request: Request) -> list[str]:
    """Say what missing values count as where the scenario leaves it out."""
    secret, lines = request.scenario.secret, list[str]()
    read = (measure.values.columns for measure in request.measures if measure is not None)
    for column in dict.fromkeys(itertools.chain.from_iterable(read)):
        if request.missing_chosen(column) is False:
            why = (
                "since missing= was left out"
                if column in secret.columns
                else "its first value, since the secret names no other"
            )
            lines.append(f"{_missing(request, column)}, {why}")
    return lines


@final
@dataclass(frozen=True)
class _Reading:
    """How the values of a column are read."""

    words: str
    distance: float
    """The largest distance of a value within the domain from what it is read as."""
    beyond: str
    """Where that distance has no limit; empty for nowhere."""


def _columns_of(query: Query) -> tuple[str, ...]:
    """Return the columns that a query reads; none if it counts rows."""
    return next((values.columns for values in query.measures if values is not None), ())


def _readings(request: Request) -> dict[tuple[str, ...], _Reading]:
    return {read: _reading_of(request, read) for read in dict.fromkeys(map(_columns_of, request.queries)) if read}


def _reading_of(request: Request, columns: Sequence[str]) -> _Reading:
    """Return how columns are read; for several columns without the distance that an answer may be off."""
    readings = [_reading(request, column) for column in columns]
    return readings[0] if len(readings) == 1 else _Reading("; ".join(one.words for one in readings), 0.0, "")


def _reading(request: Request, column: str) -> _Reading:
    nearest, distance, beyond = _nearest(request.domains[column], request.schema[column])
    chosen = ", as missing= says" if request.missing_chosen(column) else ""
    return _Reading("; ".join(filter(None, [_missing(request, column) + chosen, nearest])), distance, beyond)


def _line(queries: Sequence[Query], columns: dict[tuple[str, ...], _Reading], it: str = "") -> str:
    """Return how queries about one column read it; `it` replaces their names in errors."""
    names, read = ", ".join(query.name for query in queries), _columns_of(queries[0])
    if not read:
        return f"{names}: every row counts, whatever its values"
    reading = columns[read]
    errors = [
        words for query in queries for words in [_error_in_words(query, reading.distance, it or query.name)] if words
    ]
    limit = f", without limit for values {reading.beyond}" if errors and reading.beyond else ""
    wide = [query for query in queries if isinstance(query, Quantile) and len(query.edges) > len(query.measures)]
    inside = (_INSIDE_WHOLE if wide[0].whole_numbers else _INSIDE) if wide else ""
    parts = [reading.words, *dict.fromkeys(query.value_handling for query in queries), _weight_in_words(queries[0])]
    parts += [", ".join(errors) + limit, inside]
    return f"{names}: {'; '.join(filter(None, parts))}"


def _weight_in_words(query: Query) -> str:
    """Say how bounded weights are read (`pf.Presence`); empty for others, which are read unchanged."""
    weights = (values.weight for values in query.measures if values is not None)
    weight = next((one for one in weights if one is not None and one.bounds is not None), None)
    if weight is None or weight.bounds is None:
        return ""
    low, high = (_value_text(float(bound)) for bound in weight.bounds)
    return f"{weight.words} is a weight from {low} to {high}, and 0 where it is null or NaN"


def _error_in_words(query: Query, distance: float, it: str) -> str:
    """Say how far an answer may be off because values are read as the nearest ones; empty for counts."""
    if not distance or isinstance(query, Count | Histogram):
        return ""
    if isinstance(query, Quantile):
        return f"{it} may be off by up to {distance:.4g}"
    slope = _slope(query.measures[0]) if isinstance(query, Sum | Mean | MeanOfUnknown) else None
    if slope is None:
        return f"every value behind {it} may be off by up to {distance:.4g}"
    per_row = " for each row" if isinstance(query, Sum) else ""
    return f"{it} may be off by up to {slope * distance:.4g}{per_row}"


def _slope(values: Values | None) -> float | None:
    """Return the absolute slope of the measure in the value; None where it is not linear."""
    if not isinstance(values, OnPoints):
        return None
    points, numbers = values.domain.numbers, np.array(values.steps) * float(values.unit)
    low, high = points.argmin(), points.argmax()
    slope = float((numbers[high] - numbers[low]) / (points[high] - points[low]))
    line = numbers[low] + slope * (points - points[low])
    return abs(slope) if np.allclose(numbers, line, rtol=0, atol=1e-9 * np.ptp(numbers)) else None


_LEFT_OUT: Final = "left out, and hidden as values are; means divide by the noisy number of the others"


def _missing(request: Request, column: str) -> str:
    """Say what null, NaN and unknown labels count as; a column of any dtype can have nulls."""
    dtype, domain = request.schema[column], request.domains[column]
    closed = isinstance(dtype, pl.Enum) and set(dtype.categories.to_list()) <= set(domain.points)
    unknown = labelled(domain) and not closed
    kinds = ["null", *["NaN"] * dtype.is_float(), *["unknown labels"] * unknown]
    what = kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"
    if domain.skips:
        return f"{what} in {column!r} {'is' if len(kinds) == 1 else 'are'} {_LEFT_OUT}"
    return f"{what} in {column!r} {'counts' if len(kinds) == 1 else 'count'} as {_value_text(request.missing(column))}"


def _nearest(domain: Domain, dtype: pl.DataType) -> tuple[str, float, str]:
    """Say what numbers outside the listed values count as, how far off that may be, and where without limit."""
    domain = domain.present
    if isinstance(domain, Bins):
        return _of_classes(domain)
    if labelled(domain) or not domain.numeric:
        return "", 0.0, ""
    points = np.sort(domain.numbers)
    least, most = _ends(dtype)
    first, last = _value_text(float(points[0])), _value_text(float(points[-1]))
    below = [f"numbers below {first} as {first}"] if least < points[0] else []
    above = [f"numbers above {last} as {last}"] if most > points[-1] else []
    ends = [*([f"below {first}"] if below else []), *([f"above {last}"] if above else [])]
    widest = float(np.diff(points).max())
    if isinstance(domain, Interval) or (widest <= 1 and _whole(points, dtype)):
        return ", ".join([*below, *above]), 0.0, ""
    between = f"other numbers as the nearest of {_join_values(domain.points)}, the lower of two as near"
    return between, widest / 2, " and ".join(ends)


def _of_classes(domain: Bins) -> tuple[str, float, str]:
    """Say what each class counts as, and how far its values may be from that."""
    edges = [-np.inf, *domain.edges, np.inf] if domain.open else list(domain.edges)
    classes = list(itertools.pairwise(edges))
    named = [
        f"{_class(low, high)} as {_value_text(value)}"
        for (low, high), value in zip(classes, domain.values, strict=True)
    ]
    more = f", … ({len(named)} classes)" if len(named) > _MOST else ""
    outside = "" if domain.open else ", numbers beyond as the class next to them"
    words = f"classes count as one value each: {', '.join(named[:_MOST])}{more}{outside}"
    if not domain.numeric:
        return words, 0.0, ""
    inner = [
        max(abs(high - value), abs(value - low))
        for (low, high), value in zip(classes, domain.numbers.tolist(), strict=True)
        if np.isfinite(high - low)
    ]
    return (
        words,
        max(inner, default=0.0),
        f"below {_value_text(domain.edges[0])} and from {_value_text(domain.edges[-1])} on",
    )


def _class(low: float, high: float) -> str:
    if low == -np.inf:
        return f"below {_value_text(high)}"
    return f"{_value_text(low)} and more" if high == np.inf else f"{_value_text(low)} to {_value_text(high)}"


def _whole(points: Floats, dtype: pl.DataType) -> bool:
    """Return whether a column has no numbers between whole points."""
    return (clean_dtype(dtype).is_integer() or dtype == pl.Boolean) and bool((points == np.rint(points)).all())


def _ends(dtype: pl.DataType) -> tuple[float, float]:
    """Return the least and the largest number of a dtype."""
    if dtype == pl.Boolean:
        return 0.0, 1.0
    clean = clean_dtype(dtype)
    if not clean.is_integer():
        return -np.inf, np.inf
    ends = np.iinfo(str(clean).lower())
    return float(ends.min), float(ends.max)


def _join_values(points: Sequence[Label]) -> str:
    return ", ".join(map(_value_text, points[:_MOST])) + (f", … ({len(points)} values)" if len(points) > _MOST else "")


def _value_text(value: Label) -> str:
    """Show a declared value with all its digits."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _LONG
    return repr(int(value)) if whole else repr(value)


_NEARLY = 0.999
_SAME = 1e-6


def beliefs_in_words(scenario: Scenario, promise: Guarantee) -> list[str]:
    """Say how likely a secret behind the data can become under a pure guarantee, if its prior is a table."""
    secret, tables = scenario.secret, [prior for prior in scenario.priors if isinstance(prior, Table)]
    known = len(tables) == len(scenario.priors) and all(one.independent_rows for one in tables)
    if not isinstance(promise, Pure) or not isinstance(secret, Derived) or secret.pairs != "all" or not known:
        return []
    found = beliefs_after(scenario, promise.epsilon)
    words = [f"{one.value!r} is {_between(one.after)}, prior {_between(one.before)}" for one in found]
    more = f"; {len(words) - _MOST} more values" if len(words) > _MOST else ""
    whose = "for an adversary who knows the table"
    return [f"Posterior: {whose} the probability of {secret.name} = {'; '.join(words[:_MOST])}{more}."]


def _between(ends: tuple[float, float]) -> str:
    """Return a range with three decimals, rounded outwards; a single probability as it is."""
    low, high = math.floor(ends[0] * 1000) / 1000, math.ceil(ends[1] * 1000) / 1000
    return f"{ends[0]:.3g}" if ends[0] == ends[1] else f"between {low:g} and {high:g}"


def queries_in_words(request: Request) -> str:
    """Describe the queries and the rows that they are about."""
    queries = _join([f"{query.words} ({query.name})" for query in request.queries])
    filters = f" where {_join([public_words(condition) for condition in request.filters])}" if request.filters else ""
    groups = f", for each {_join(request.by)}" if request.by else ""
    groups += "" if request.others is None else f", {request.others.words}"
    return f"{queries}, over rows{filters}{groups}" if filters else f"{queries}{groups}"


def noise_in_words(plan: CalibratedNoise) -> str:
    """Describe the noise on the sums of each query."""
    request = plan.request
    least = plan.in_units(plan.basis.noises(plan.least_noise))
    ends = [(noise.scale, small.scale) for noise, small in zip(plan.noises_in_units, least, strict=True)]
    parts = [f"{_scales([ends[place] for place in places])} for {query.name}" for query, places in request.reads]
    name = type(plan.calibration.noise).__name__
    groups = f", for each {_join(request.by)}" if request.by else ""
    own = f", as the rows of each {_join(request.by)} need" if plan.differs_by_cell else ""
    joint = plan.basis.transform.words
    return f"{name} noise on every sum{groups}, of scale {'; '.join(parts)}{own}{joint}."


def _scales(ends: Sequence[tuple[float, float]]) -> str:
    different = list(
        dict.fromkeys(f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}" for most, least in ends)
    )
    if "0" in different:
        different[different.index("0")] = "0 (which no secret moves)"
    return different[0] if len(different) == 1 else " and ".join(different)


def carried_by(plan: CalibratedNoise) -> str:
    """Say which bound proves the guarantee, and for which worst pair."""
    calibration = plan.calibration
    certainties = {
        "exact": "exactly",
        "upper_bound": "as an upper bound",
        "estimate": "as an ESTIMATE, which may be too low",
    }
    return (
        f"{type(calibration.bound).__name__}, computed {certainties[calibration.certainty.value]}; "
        f"the worst pair of secrets is {witness_in_words(plan)}. All answers are one vector, charged once (M23)."
    )


def ordinary_in_words(plan: CalibratedNoise) -> str:
    """Say which ordinary differential privacy of one row the same noise keeps."""
    secret = plan.request.scenario.secret
    if isinstance(secret, Presence):
        return "the guarantee itself is differential privacy, of the unit that is there or not."
    first = isinstance(secret, Initial)
    if plan.row_laws is None:
        reason = "no first row is among the queried rows" if first else "the secret is not the queried value"
        return f"no ordinary differential privacy of a row is guaranteed: {reason}."
    if plan.ordinary is None:
        return "what the noise keeps of it as ordinary differential privacy is not known."
    row = "the first row of a sequence" if first else "one row"
    pairs = "" if cast(ValueSecret, secret).pairs == "all" else ", over the pairs of values above and no others"
    known = f"if everything but {row} is known"
    promise = promise_in_words(plan.ordinary)
    if plan.ordinary.kind is not None and plan.ordinary.loss > plan.calibration.guarantee.loss * (1 + _SAME):
        return f"less than is guaranteed{pairs}; {known}: {promise}."
    return f"ordinary differential privacy too{pairs}, {known}: {promise}."


def assumptions(plan: CalibratedNoise) -> list[str]:
    """Return the assumptions of the guarantee, in sentences."""
    scenario = plan.request.scenario
    sentences = list(dict.fromkeys(f"the prior is {_origin(prior)}" for prior in scenario.priors))
    if not all(prior.any_correlation for prior in scenario.priors):
        sentences.append("rows depend on each other as the prior says")
    if scenario.numbers_rows and len(scenario.within) == 1:
        sentences.append("rows are independent of each other")
    elif scenario.within:
        sentences.append(f"rows that differ in {_join(scenario.within)} are independent of each other")
    if isinstance(scenario.secret, Presence):
        own = f"the column {scenario.secret.within!r} says in every row whose row it is"
        sentences.append("no two rows belong to one unit" if scenario.secret.each_row else own)
        if scenario.secret.once:
            sentences.append("all releases of an account are about one table, whose rows stay as they are")
    else:
        known = f"{_join(scenario.public)} and " if scenario.public else ""
        sentences.append(f"everybody may know {known}which rows there are")
        sentences.append("the released rows are those that the plan was made for")
    return sentences


def _origin(prior: Prior) -> str:
    """Describe the provenance of a prior: in full, unless the prior's own description has it."""
    in_full = prior.provenance.describe()
    return prior.provenance.origin_in_words if in_full in prior.describe() else in_full


_OWN_NOISE = (
    "each group of the answer has noise of its own, for the rows there; for several releases together an account may "
    "count more than with per_group=False"
)


def _along_one_coupling(prior: Prior) -> bool:
    """Return whether an account adds up losses under a prior along one coupling, each by its own noise."""
    return prior.independent_rows or (prior.coupled and not prior.ordered)


def notes(plan: CalibratedNoise) -> list[str]:
    """Return notes on the calibration and on how rows are read."""
    lines = [plan.calibration.note] if plan.calibration.note else []
    if plan.differs_by_cell and not all(map(_along_one_coupling, plan.request.scenario.priors)):
        lines.append(_OWN_NOISE)
    lines += dict.fromkeys(tables.note for of_prior in plan.tables for tables in of_prior if tables.note)
    lines += row_privacy_notes(plan)
    lines += untried_bounds(plan)
    lines += notes_on_missing(plan.request)
    return [*lines, *_limit_in_words(plan.request)]


def untried_bounds(plan: CalibratedNoise) -> list[str]:
    """Name the bounds that were not tried for lack of time, so that noise may be larger than needed."""
    untried = list(dict.fromkeys(repr(trial.bound) for trial in plan.calibration.untried if trial.late))
    if not untried:
        return []
    return [
        f"planning was limited to {plan.options.seconds:g} s: {', '.join(untried)} might need less noise, not tried"
    ]


def _limit_in_words(request: Request) -> list[str]:
    """Say which rows of each unit are read, if their number is limited."""
    limit = request.limit
    if limit is None:
        return []
    ways = [f"by {_join(limit.order)}"] if limit.order else []
    ways += ["in the order of the table"] if request.engine.in_order else []
    first = f", the first {', then '.join(ways)}" if ways else ""
    groups = f" in each of its first {limit.groups} groups by {_join(limit.by)}" if limit.by else ""
    read = (
        f"at most {limit.rows} {'row' if limit.rows == 1 else 'rows'} of each {limit.unit}{groups} are read{first}: "
        "the same in every release, chosen before any filter; of units that have more, answers reveal less than there "
        "is, and error bars do not allow for that"
    )
    return [read]


def row_privacy_notes(plan: CalibratedNoise) -> list[str]:
    """Note where a prior leaves nothing to hide, and where noise differs from what one row alone needs."""
    consequence = (
        "ordinary differential privacy of one row is kept there" if plan.row_privacy else "nothing is guaranteed there"
    )
    values = _join([repr(value) for value in impossible_values(plan.request.scenario)])
    lines = [f"at some positions a prior gives {values} probability 0 and does not hide it; {consequence}"]
    lines = lines if values else []
    if plan.row_privacy or plan.row_laws is None:
        return [*lines, *_note_of_raised_noise(plan)]
    promise = "no known guarantee" if plan.ordinary is None else repr(plan.ordinary)
    return [*lines, f"row_privacy=False: noise was made for the prior alone; for one row alone it keeps {promise}"]


def _note_of_raised_noise(plan: CalibratedNoise) -> list[str]:
    """Note that one row alone needs more noise than the prior, if so."""
    promised, ordinary = plan.calibration.guarantee, plan.ordinary
    if promised.kind is None or ordinary is None or ordinary.kind is None:
        return []
    if plan.calibration.loss > _NEARLY * promised.loss or ordinary.loss < _NEARLY * promised.loss:
        return []
    own = f"{promised.measure} {at_most(plan.calibration.loss)}"
    return [f"the prior alone needs less noise: with this noise it keeps {own}; one row alone needs it"]


def if_wrong(plan: CalibratedNoise) -> str:
    """Say what is left of the guarantee if an assumption is wrong."""
    parts = [f"{case.wrong}, {case.left}" for case in what_if(plan)]
    return "; ".join(parts) + "." if parts else "not known."


def witness_in_words(plan: CalibratedNoise) -> str:
    """Name the two values of the secret that need most noise and, of several priors, the prior."""
    witness: Any = plan.calibration.witness
    several, believed = len(plan.request.scenario.priors) > 1, witness.prior
    prior = f", under the prior that {belief_in_words(believed)}" if several and believed is not None else ""
    if witness.secrets is None:
        return f"a pair without names{prior}"
    first, second = NAMELESS if nameless(plan) else map(repr, witness.secrets)
    return f"{first} against {second}{prior}"


def _join(parts: Sequence[str]) -> str:
    return ", ".join(parts)
