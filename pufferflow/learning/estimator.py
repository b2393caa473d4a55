"""The base of private estimators: model, scenario, guarantee, and the interface of scikit-learn.

`fit(frame, y="column")` takes a table under a scenario. Arrays have no groups and no times. They are accepted only if
rows are independent, or may depend on each other in any way.
"""

import abc
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast, final

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils import get_tags
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from pufferflow.core.arrays import Array, Flags, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.tables import arrow_table
from pufferflow.core.validate import quoted
from pufferflow.engines.model_rows import ModelRows, PublicOrder, columns_as_numbers
from pufferflow.learning.model_columns import ModelColumns, read_bounds, read_columns
from pufferflow.learning.model_plan import (
    VALUE,
    FittedModel,
    Fitting,
    ModelBelief,
    ModelPlan,
    ModelTraining,
    PlannedTable,
    beliefs_of,
    in_scaled_units,
)
from pufferflow.models.domain import Interval, Label
from pufferflow.models.priors.simple import Independent
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Secret
from pufferflow.privacy.by_name import guarantee_of
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.certificate import Certificate
from pufferflow.published.release import Release
from pufferflow.queries.request import Request
from pufferflow.release.batch import protect
from pufferflow.release.planning.options import read_promise
from pufferflow.release.publish import CostAccount

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false


__all__ = [
    "ClassifierMixin",
    "Estimator",
    "RegressorMixin",
    "accuracy",
    "r2",
    "read_arrays",
    "read_features",
]

_SEARCH = GridSearchCV.__mro__[1]
"""The base of all searches."""


class Estimator(BaseEstimator):
    """Base of private estimators: how they are copied, and their interface to scikit-learn."""

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same settings and the same account, which charges each fit."""
        if any(isinstance(caller, _SEARCH) for caller in _fitting()):
            raise Refused(
                "A search over settings by scores on private rows is refused: what the choice reveals is not counted.",
                allowed="settings that follow from public numbers, or that were found on a public reference",
                instead="model.plan(frame, y=…).expected_error for each of the settings",
            )
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.allow_nan = (
            True  # null and NaN are read as a declared value: an error would reveal them
        )
        tags.non_deterministic = True
        tags.target_tags.required = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = False
        return tags


def read_arrays(model: Estimator, X: Any, y: Any) -> tuple[Floats, Array, list[str]]:  # noqa: N803 - scikit-learn's name
    """Return features as floats, the target, and the names of the features; no value of them is checked."""
    numbers = cast(Array, validate_data(model, X, dtype=np.float64, ensure_all_finite=False))
    target = cast(Array, column_or_1d(y, warn=True))
    check_consistent_length(numbers, target)
    names = getattr(model, "feature_names_in_", [f"x{place}" for place in range(numbers.shape[1])])
    return numbers, target, [str(name) for name in names]


def read_features(model: Estimator, X: Any) -> Floats:  # noqa: N803
    """Return features of rows to predict, as many as the model was fitted to."""
    return cast(
        Floats,
        validate_data(model, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"),
    )


def r2(truth: Any, predicted: Array, weights: Any) -> float:
    """Return R², the share of the variance that is explained."""
    return float(r2_score(truth, predicted, sample_weight=weights))


def accuracy(truth: Any, predicted: Array, weights: Any) -> float:
    """Return the share of labels that are right."""
    return float(accuracy_score(truth, predicted, sample_weight=weights))


def check_steps() -> None:
    """Refuse a fit inside a pipeline in which another step learns from the private rows."""
    for name, step in (one for caller in _fitting() for one in _steps_beside(caller)):
        if _learns(step):
            raise Refused(
                f"A model beside the step {name!r}, which learns from private rows: what it learns is not counted.",
                allowed="steps that learn nothing (FunctionTransformer, PolynomialFeatures), or FrozenEstimator",
                instead="the model without it; columns are scaled by their declared bounds",
            )


def _steps_beside(caller: Any) -> list[tuple[str, Any]]:
    """Return the steps fitted to the same rows before the model, with names."""
    if isinstance(caller, Pipeline):
        return cast(Any, caller).steps[:-1]
    return (
        [("transformer", cast(Any, caller).transformer)]
        if isinstance(caller, TransformedTargetRegressor)
        else []
    )


def _learns(step: Any) -> bool:
    """Return whether a step learns more from rows than their number of columns."""
    if step is None or isinstance(step, str | PolynomialFeatures | FrozenEstimator):
        return False
    return bool(cast(Any, get_tags(step)).requires_fit)


def _fitting() -> Iterator[object]:
    """Yield what is being fitted at present, from the inside out, as far as methods called fit show it."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "fit":
            yield frame.f_locals.get("self")
        frame = frame.f_back


_ARRAYS = (
    "model.fit(frame, y='pay') under a scenario; or arrays X and y, whose rows are independent or may depend on each "
    "other in any way"
)


class PrivateModel(Estimator, abc.ABC):
    """Base of the private linear models; each is fitted once per charge, with noise for the guarantee it was given."""

    scenario: Scenario | None
    guarantee: Guarantee | None
    epsilon: float | None
    delta: float | None
    features: Sequence[str] | None
    bounds: Any
    account: CostAccount | None

    coef_: Floats
    intercept_: float
    certificate_: Certificate
    plan_: ModelPlan
    release_: Release
    n_features_in_: int

    _labels = False

    def plan(self, X: Any, y: Any = None) -> ModelPlan:  # noqa: N803 - scikit-learn's name
        """Return the plan of a fit, with its noise and its cost; no private row is read."""
        request, target = self._request(X, y)
        columns = read_columns(request, target, self.features, self.bounds, labels=self._labels)
        request = request.asking(
            FittedModel("coefficient", (), f"{self._in_words()} of {columns.in_words()}")
        )
        promise = self._promise()
        scenario = request.scenario
        apart = all(prior.independent_rows for prior in scenario.priors)
        rows = ModelRows(request.engine, request.selection, scenario, columns.read, apart)
        rows.check()
        hidden, order = np.array([name in request.domains for name in columns.names]), rows.order()
        beliefs = beliefs_of(scenario, columns.names, order)
        fitting, pure, notes = self._fitting(ModelFacts(order, hidden, beliefs, promise, columns))
        table, start = PlannedTable(rows, order), self._start(columns)
        plan = ModelPlan(
            ModelTraining(promise, request, columns, table, beliefs, fitting, pure, notes, start)
        )
        _ = plan.certificate
        return plan

    def fit(self, X: Any, y: Any = None, *, id: str | None = None) -> Self:  # noqa: A002, N803 - public names
        """Fit the model to private rows, with noise; an account charges each fit, except one with a known id.

        `X` is a frame and `y` the name of its target column, or both are arrays.
        """
        check_steps()
        plan = self.plan(X, y)
        release = plan.release(self.account, id)
        found = release.frame[VALUE].to_numpy()
        self.plan_, self.release_, self.certificate_ = plan, release, release.certificate
        self.n_features_in_ = len(plan.columns.features)
        self._keep(plan.columns, found)
        return self

    @abc.abstractmethod
    def _fitting(self, facts: "ModelFacts") -> tuple[Fitting, bool, tuple[str, ...]]:
        """Return how the model is fitted, whether noise is Laplace's, and notes on choices."""

    @abc.abstractmethod
    def _in_words(self) -> str:
        """Return the model with its settings in words, which name it in ledgers."""

    def _promise(self) -> Guarantee:
        """Return the guarantee: the given one, or that of an epsilon and a delta."""
        if self.delta is None:
            return cast(Guarantee, read_promise(self.guarantee, self.epsilon, None))
        if self.guarantee is not None or self.epsilon is None:
            raise UsageError(
                f"A delta {'without an epsilon' if self.guarantee is None else 'beside a guarantee'}.",
                allowed="a guarantee, or an epsilon with or without a delta",
                instead="epsilon=1.0, delta=1e-6",
            )
        return guarantee_of(self.epsilon, self.delta)

    def _keep(self, columns: ModelColumns, found: Floats) -> None:
        """Store the coefficients as scikit-learn's models do."""
        self.coef_, self.intercept_ = found[1:], float(found[0])

    def _start(self, columns: ModelColumns) -> Floats | None:
        """Return the scaled coefficients to begin with; those of the last fit with a warm start."""
        if not getattr(self, "warm_start", False) or not hasattr(self, "coef_"):
            return None
        own = np.append(np.ravel(self.intercept_), np.ravel(self.coef_))
        if len(own) != len(columns.names):
            raise UsageError(
                "A warm start needs a model of the same features.",
                allowed="the same features",
                instead="clone(model)",
            )
        return in_scaled_units(columns, own)

    def _scores(self, X: Any) -> Floats:  # noqa: N803
        """Return w·x + b for each row."""
        check_is_fitted(self)
        names = self.plan_.columns.features
        if isinstance(X, pl.LazyFrame) or (
            isinstance(X, pl.DataFrame) and set(names) <= set(X.columns)
        ):
            rows = columns_as_numbers(X.lazy(), names)
        else:
            rows = read_features(self, X)
        return rows @ np.ravel(self.coef_) + float(np.ravel(self.intercept_)[0])

    def _request(self, X: Any, y: Any) -> tuple[Request, str]:  # noqa: N803
        """Return the request on a table, and the target's name."""
        if isinstance(y, str):
            if self.scenario is None:
                raise UsageError(
                    "A frame needs a scenario.",
                    allowed="a scenario with the secret, the prior and the public columns",
                    instead=f"{type(self).__name__}(pf.Scenario(…), pf.Approx(1.0, 1e-6))",
                )
            return protect(X, self.scenario).request, y
        if isinstance(X, pl.LazyFrame) or (
            y is None and (isinstance(X, pl.DataFrame) or arrow_table(X) is not None)
        ):
            raise UsageError(
                "The target y is left out, or is not a name.",
                allowed=_ARRAYS,
                instead="model.fit(frame, y='pay')",
            )
        return self._of_arrays(X, y)

    def _of_arrays(self, X: Any, y: Any) -> tuple[Request, str]:  # noqa: N803
        if y is None:
            raise UsageError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.",
                allowed=_ARRAYS,
                instead="model.fit(X, y)",
            )
        numbers, target, names = read_arrays(self, X, y)
        if target.dtype.kind == "c":
            raise UsageError(
                "Complex data not supported: the target is complex.",
                allowed="numbers or labels",
                instead="y.real",
            )
        scenario = self._scenario_of(names)
        own = next((name for name in scenario.sensitive if name not in names), "y")
        values = pl.Series(own, target.tolist() if target.dtype == object else target, strict=False)
        frame = pl.DataFrame(
            {**{name: numbers[:, place] for place, name in enumerate(names)}, own: values}
        )
        return protect(frame, scenario).request, own

    def _scenario_of(self, names: Sequence[str]) -> Scenario:
        """Return the scenario for arrays: the given one if it needs neither groups nor times, or independent rows."""
        if self.scenario is None:
            return Scenario([*self._secrets(names)], Independent())
        given = self.scenario
        if (
            not all(prior.any_law or prior.any_correlation for prior in given.priors)
            or given.public
        ):
            raise UsageError(
                "The scenario has groups, an order or public columns, and arrays have no units or times.",
                allowed=_ARRAYS,
                instead="model.fit(frame, y='column')",
            )
        if not set(names) < set(given.sensitive):
            raise UsageError(
                "The columns of X are not those of the scenario.",
                allowed=f"the columns {', '.join(map(repr, given.sensitive))}, and y as the one that X lacks",
                instead="model.fit(frame, y='column')",
            )
        return given

    def _secrets(self, names: Sequence[str]) -> list[Secret]:
        """Return the columns of arrays with their declared bounds."""
        if self.bounds is None:
            raise UsageError(
                "Arrays without a scenario need bounds: we do not compute them from private rows.",
                allowed="bounds=(low, high) for all features, a list of pairs, or a mapping; and the target's",
                instead="bounds=(0, 10), target_bounds=(0, 1)",
            )
        pairs = read_bounds(self.bounds, names)
        features = [Secret(name, Interval(*pairs[name])) for name in names]
        return [*features, self._target_secret("y" if "y" not in names else "target y")]

    @abc.abstractmethod
    def _target_secret(self, name: str) -> Secret:
        """Return the target of arrays with its declared domain."""


@final
@dataclass(frozen=True, eq=False)
class ModelFacts:
    """The public facts that a mechanism is made for; `hidden` are the columns that the scenario hides."""

    order: PublicOrder
    hidden: Flags
    beliefs: tuple[ModelBelief, ...]
    promise: Guarantee
    columns: ModelColumns


def labels_of(given: object) -> list[Label]:
    """Return the two declared classes of a classifier."""
    plain: object = np.asarray(given).tolist()
    listed = cast(list[Label], plain) if isinstance(plain, list) else []
    if len(listed) != 2 or listed[0] == listed[1]:
        raise UsageError(
            f"classes is {quoted(given)}.", allowed="two different labels", instead="classes=(0, 1)"
        )
    return listed
