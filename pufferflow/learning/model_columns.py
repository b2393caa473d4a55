"""The columns of a model, scaled by public bounds, the private rows read once, and losses of linear models on them.

A row is (z, y). The features z are within [−1, 1], with a 1 for the intercept, of length at most B. The target y is in
[−1, 1], or −1 and 1 for two classes. Weights are in the ball of radius W. Each loss is convex and β-smooth. Its
gradient has at most the length `lipschitz`, and changes by at most `by_features`·‖z − z′‖ + `by_target`·|y − y′| with
the row.

A gradient is a slope times z, so cutting its length to c cuts the slope to c/‖z‖. The cut slope still rises with w·z:
it is that of a loss that becomes linear, as Huber's does. So it stays convex and as smooth. The cut gradient is the
projection of the gradient onto a ball, which does not increase distances.

A sensitive column has the bounds of its domain in the scenario, a public one those declared in `bounds`. None is ever
taken from the rows. Values outside are read as the nearest bound.

The mechanism of a model reads the private rows once, scaled to [−1, 1], and only if they are those planned. Sums read
them in any order, some at a time. A descent reads them in the order of its steps, from memory or from a private file
(`engines.model_rows`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, cast, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import finite_number, quoted
from pufferflow.engines.model_rows import ModelRows, NumberColumn, PublicOrder
from pufferflow.models.domain import Bins, Domain, Interval, Label
from pufferflow.models.secret import Presence
from pufferflow.queries.request import Request

Name = Literal["squared", "huber", "logistic"]
_SLACK = 1 + 16 * UNIT


@final
@dataclass(frozen=True)
class Objective:
    """A loss by its name, for rows of the given `length` and weights up to `radius`; Huber's is linear beyond `width`.

    Gradients are cut to the length `clip`; no row is shorter than `shortest`, which is 1 with an intercept.

    >>> Objective("logistic", length=2.0, radius=5.0).smoothness
    1.0
    """

    name: Name
    length: float
    radius: float
    width: float = 0.5
    clip: float = math.inf
    shortest: float = 0.0

    @property
    def lipschitz(self) -> float:
        """The longest gradient."""
        return min(self._slope * self.length, self.clip) * _SLACK

    @property
    def smoothness(self) -> float:
        """β: how fast gradients change with the weights."""
        return (self.length**2 / 4 if self.name == "logistic" else self.length**2) * (
            _SLACK if self.length != 2.0 else 1.0
        )

    @property
    def by_features(self) -> float:
        """The change of gradients with the features: those that are not cut have a slope of `clip` over a length."""
        bend = 0.25 if self.name == "logistic" else 1.0
        steepest = min(self._slope, self.clip / self.shortest) if self.shortest else self._slope
        return (steepest + bend * self.length * self.radius) * _SLACK

    @property
    def by_target(self) -> float:
        """The change of gradients with the target; that of a logistic loss from −1 to 1 is z."""
        if self.name == "logistic":
            return self.length / 2 * _SLACK
        return self.length * _SLACK

    @property
    def _slope(self) -> float:
        """The largest |derivative| of the loss in w·z."""
        reach = self.length * self.radius
        if self.name == "logistic":
            return 1 / (1 + math.exp(-min(reach, 700.0)))
        return min(reach + 1, self.width) if self.name == "huber" else reach + 1

    def derivatives(self, scores: Floats, targets: Floats, lengths: Floats | float = 0.0) -> Floats:
        """Return the derivative of each row's loss in w·z, cut if gradients of such rows would be too long."""
        if self.name == "logistic":
            slopes = -targets / (1 + np.exp(np.clip(targets * scores, -700, 700)))
        else:
            slopes = scores - targets
        if self.name == "huber":
            slopes = np.clip(slopes, -self.width, self.width)
        return (
            slopes
            if self.clip == math.inf
            else slopes / np.maximum(np.abs(slopes) * lengths / self.clip, 1.0)
        )

    def moved(self, features: Floats, targets: Floats) -> Floats:
        """Return how far the gradient of a row moves with the row, at most."""
        most = 2 * self.lipschitz
        return np.minimum(self.by_features * features + self.by_target * targets, most) * _SLACK


_AT_ONCE = 1 << 12
_BOUNDS = (
    "a pair (low, high) with low < high for each public feature, such as bounds={'age': (0, 120)}"
)


@final
@dataclass(frozen=True, eq=False)
class ModelColumns:
    """The features and the target (last) of a model, how they are read, and their bounds."""

    features: tuple[str, ...]
    target: str
    read: tuple[NumberColumn, ...]
    low: Floats
    high: Floats
    classes: tuple[Label, ...] | None = None
    """The two labels that a classifier distinguishes; None for numbers."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, the target last."""
        return (*self.features, self.target)

    @property
    def middle(self) -> Floats:
        """The middles of the ranges."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> Floats:
        """Half of the ranges."""
        return (self.high - self.low) / 2

    def scaled(self, numbers: Floats) -> Floats:
        """Return rows, changed in place, in units in which every range is [−1, 1], with no number outside."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            some -= self.middle
            some /= self.half
            np.clip(some, -1.0, 1.0, out=some)
        return numbers

    def in_words(self) -> str:
        """Return the target and the features in words."""
        return f"{self.target!r} on {', '.join(map(repr, self.features))}"


def read_columns(
    request: Request, target: object, features: object, bounds: object, *, labels: bool
) -> ModelColumns:
    """Return the columns that a scenario and declared bounds allow a model to read."""
    _check_secret(request)
    known = (*request.domains, *request.public)
    if not isinstance(target, str) or target not in request.domains:
        raise UsageError(
            f"The target y is {quoted(target)}."
            if target is not None
            else "The target y is left out.",
            allowed=f"the name of a sensitive column: {', '.join(map(repr, request.domains)) or 'none'}",
            instead=f"model.fit(frame, y={next(iter(request.domains), 'level')!r})",
        )
    names = _features(request, target, features, known)
    ranges = _declared(request, bounds, names)
    read = [_column(request, name, ranges) for name in names]
    own, classes = _target(request, target, labels=labels)
    ends = np.array([_ends(one) for one in (*read, own)], dtype=np.float64)
    for name, (low, high) in zip((*names, target), ends.tolist(), strict=True):
        if not low < high:
            raise UsageError(
                f"The column {name!r} has a single value.",
                allowed="two values or more",
                instead="features=[…]",
            )
    return ModelColumns(names, target, (*read, own), ends[:, 0], ends[:, 1], classes)


def _check_secret(request: Request) -> None:
    if isinstance(request.scenario.secret, Presence):
        raise Refused(
            "A model uses the number of rows, and the scenario hides it (pf.Presence).",
            allowed="a scenario whose rows are public, with pf.Secret",
            instead="pf.Secret for the columns of the model",
        )


def _features(
    request: Request, target: str, given: object, known: Sequence[str]
) -> tuple[str, ...]:
    if given is None:
        names = tuple(name for name in request.domains if name != target)
    elif isinstance(given, str):
        names = (given,)
    else:
        names = tuple(cast(Sequence[str], given))
    if not names or len(set(names)) < len(names) or target in names or not set(names) <= set(known):
        wrong = next((name for name in names if name not in known), None)
        raise UsageError(
            f"The features are {quoted(wrong)}, a column without declared bounds."
            if wrong
            else "No features, or one twice.",
            allowed=f"different columns, not the target: {', '.join(repr(one) for one in known if one != target)}",
            instead="features=[…], or a scenario that hides them or declares them public",
        )
    return names


def _declared(
    request: Request, given: object, names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Return the declared bounds of public features; bounds of hidden ones must be those of their domains."""
    public = [name for name in names if name not in request.domains]
    if given is None or isinstance(given, Mapping):
        known = cast(Mapping[str, Any], {} if given is None else given)
        missing = next((name for name in public if name not in known), None)
        if missing is not None:
            raise UsageError(
                f"The public feature {missing!r} has no declared bounds.",
                allowed=_BOUNDS,
                instead=f"bounds={{{missing!r}: (0, 1)}}",
            )
        pairs = read_bounds(known, [name for name in names if name in known])
    elif is_pair(given):
        pairs = read_bounds(given, public)
    else:  # a pair for each feature, or for each of those that need one
        pairs = read_bounds(
            given, public if len(cast(Sequence[object], given)) == len(public) else names
        )
    for name in (one for one in pairs if one in request.domains):
        _check_hidden(request.domains[name], name, pairs[name])
    return {name: pairs[name] for name in public}


def _check_hidden(domain: Domain, name: str, pair: tuple[float, float]) -> None:
    """Refuse bounds of a hidden feature that are not those of its domain."""
    if not isinstance(domain, Interval):
        return
    low, high = float(domain.points[0]), float(domain.points[-1])
    if pair != (low, high):
        raise UsageError(
            f"bounds has {pair[0]:g} to {pair[1]:g} for {name!r}, whose domain in the scenario is {low:g} to {high:g}.",
            allowed="for a column that the scenario hides, the bounds of its domain, or none",
            instead=f"bounds={{{name!r}: ({low:g}, {high:g})}}, or pf.Secret({name!r}, domain=pf.Interval(…))",
        )


def is_pair(given: object) -> bool:
    """Return whether bounds are one pair for all columns."""
    return np.shape(np.asarray(given, dtype=object)) == (2,)


def read_bounds(given: object, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the bounds of each column, from one pair for all, a pair for each, or a mapping.

    >>> read_bounds([(0, 1), (0, 9)], ["a", "b"]), read_bounds((0, 1), ["a", "b"])
    ({'a': (0.0, 1.0), 'b': (0.0, 9.0)}, {'a': (0.0, 1.0), 'b': (0.0, 1.0)})
    """
    if isinstance(given, Mapping):
        known = cast(Mapping[str, Any], given)
        missing = next((name for name in names if name not in known), None)
        if missing is not None:
            raise UsageError(
                f"bounds has none for {quoted(missing)}.",
                allowed="a pair for each feature",
                instead="bounds=(0, 1)",
            )
        return {name: read_pair(known[name], "bounds") for name in names}
    if is_pair(given):
        return dict.fromkeys(names, read_pair(given, "bounds"))
    listed = np.asarray(given, dtype=object)
    if listed.shape != (len(names), 2):
        raise UsageError(
            f"bounds of shape {listed.shape} for {len(names)} features: {', '.join(map(repr, names))}.",
            allowed="one pair (low, high) for all, a pair for each in their order, or a mapping",
            instead=f"bounds={[(0, 1)] * max(len(names), 1)}"
            if len(names) < 4
            else "bounds=(0, 1)",
        )
    return {
        name: read_pair(tuple(pair), "bounds")
        for name, pair in zip(names, listed.tolist(), strict=True)
    }


def read_pair(given: object, name: str) -> tuple[float, float]:
    """Return a pair of bounds."""
    ends = (
        list(cast(Sequence[object], given)) if isinstance(given, list | tuple | np.ndarray) else []
    )
    if len(ends) != 2:
        raise UsageError(
            f"{name} is not a pair of numbers.", allowed=_BOUNDS, instead=f"{name}=(0, 1)"
        )
    low, high = (
        finite_number(end, name, allowed=_BOUNDS, instead=f"{name}=(0, 1)") for end in ends
    )
    if not low < high:
        raise UsageError(
            f"{name} goes from {low:g} to {high:g}.", allowed=_BOUNDS, instead=f"{name}=(0, 1)"
        )
    return low, high


_COMPLETE: Final = "a value for null in each column of a model"


def _column(request: Request, name: str, ranges: Mapping[str, tuple[float, float]]) -> NumberColumn:
    if name in ranges:
        low, high = ranges[name]
        return NumberColumn(name, Interval(low, high), (low + high) / 2)
    domain, missing = request.domains[name], request.missing(name)
    domain.check_complete(name, "A model of the column", _COMPLETE)
    if isinstance(domain, Interval):
        return NumberColumn(name, domain, missing)
    return NumberColumn(name, domain, missing, _numbers(name, domain))


def _numbers(name: str, domain: Domain) -> Floats:
    """Return the number of each point; of two labels 0 and 1."""
    if domain.numeric:
        return np.asarray(domain.numbers, dtype=np.float64)
    if len(domain.points) != 2:
        raise Refused(
            f"The feature {name!r} has {len(domain.points)} labels, and a model needs numbers.",
            allowed="numbers, or two labels",
            instead="a column of 0 and 1 for each label",
        )
    return np.array([0.0, 1.0])


def _target(
    request: Request, target: str, *, labels: bool
) -> tuple[NumberColumn, tuple[Label, ...] | None]:
    domain, missing = request.domains[target], request.missing(target)
    domain.check_complete(target, "A model of the column", _COMPLETE)
    if not labels:
        if not isinstance(domain, Interval) and not domain.numeric:
            raise Refused(
                f"The target {target!r} has labels, and this model predicts numbers.",
                allowed="a target of numbers",
                instead="pf.learning.PrivateSGDClassifier, for two labels",
            )
        return _column(request, target, {}), None
    if isinstance(domain, Interval) or len(domain.points) != 2:
        raise Refused(
            f"The target {target!r} has {domain.describe()}, and this model distinguishes two classes.",
            allowed="a target with a domain of two values",
            instead=f"pf.Secret({target!r}, domain=[0, 1])",
        )
    return NumberColumn(target, domain, missing, np.array([0.0, 1.0])), tuple(domain.points)


def _ends(column: NumberColumn) -> tuple[float, float]:
    if column.numbers is not None:
        return float(column.numbers.min()), float(column.numbers.max())
    return float(column.domain.points[0]), float(column.domain.points[-1])


def value_handling_of(columns: ModelColumns) -> tuple[str, ...]:
    """Return a line for each column: the values that null and values outside are read as."""
    lines = list[str]()
    for column, low, high in zip(
        columns.read, columns.low.tolist(), columns.high.tolist(), strict=True
    ):
        where = f"{column.name}: null, NaN and unknown values count as {column.missing!r}"
        if isinstance(column.domain, Interval):
            lines.append(
                f"{where}; numbers below {low:g} as {low:g}, numbers above {high:g} as {high:g}"
            )
        else:
            classes = " (a class each)" if isinstance(column.domain, Bins) else ""
            lines.append(
                f"{where}; others as the nearest of {len(column.domain.points)} values{classes}"
            )
    return tuple(lines)


class RowsInOrder(Protocol):
    """Rows in the order in which they are visited."""

    @property
    def columns(self) -> int:
        """How many numbers a row has."""
        ...

    def read(self, low: int, high: int) -> Floats:
        """Return the rows from one place up to another; callers must not change them."""
        ...


class ScaledRows(Protocol):
    """All rows of a model, scaled; a source whose rows are not those planned is refused."""

    def each(self, take: Callable[[Floats], None]) -> None:
        """Hand all rows to `take`, some at a time, in any order."""
        ...

    def in_order(self, visits: Indices | None) -> AbstractContextManager[RowsInOrder]:
        """Return the rows in the order of visits; None for rows that are visited in their own order."""
        ...


@final
@dataclass(frozen=True, eq=False)
class RowsOfTable(ScaledRows):
    """The rows of a table whose groups and positions are `known`."""

    rows: ModelRows
    columns: ModelColumns
    known: PublicOrder

    def each(self, take: Callable[[Floats], None]) -> None:
        self.rows.each(self.known, lambda numbers: take(self.columns.scaled(numbers)))

    def in_order(self, visits: Indices | None) -> AbstractContextManager[RowsInOrder]:
        return self.rows.in_order(self.known, visits, self.columns.scaled)
