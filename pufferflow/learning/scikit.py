"""The parts of scikit-learn that estimators use, typed here, since it ships no types; nothing else imports it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedBaseClass=false

import inspect
from collections.abc import Iterator
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils import get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused

__all__ = ["ClassifierMixin", "Estimator", "RegressorMixin", "accuracy", "r2", "read_arrays", "read_features"]

_SEARCH = GridSearchCV.__mro__[1]
"""The base of all searches."""


class Estimator(BaseEstimator):
    """Base of private estimators: how they are copied, and their interface to scikit-learn."""

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same settings and the same account, which charges each fit."""
        if any(isinstance(caller, _SEARCH) for caller in _fitting()):
            raise Refused(
                "A search over settings by scores on private rows: their choice depends on them, and is not counted.",
                allowed="settings that follow from public numbers, or that were found on a public reference",
                instead="model.plan(frame, y=…).expected_error for each of the settings",
            )
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # null and NaN are read as a declared value: an error would reveal them
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
    return cast(Floats, validate_data(model, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"))


def check_fitted(model: Estimator) -> None:
    """Refuse a model that was not fitted."""
    check_is_fitted(model)


def r2(truth: Any, predicted: Array, weights: Any) -> float:
    """Return the share of the variance that is explained."""
    return float(r2_score(truth, predicted, sample_weight=weights))


def accuracy(truth: Any, predicted: Array, weights: Any) -> float:
    """Return the share of labels that are right."""
    return float(accuracy_score(truth, predicted, sample_weight=weights))


def check_steps() -> None:
    """Refuse a fit inside a pipeline, of which another step learns from the rows that the model is fitted to."""
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
    return [("transformer", cast(Any, caller).transformer)] if isinstance(caller, TransformedTargetRegressor) else []


def _learns(step: Any) -> bool:
    """Return whether a step learns more of rows than their number of columns."""
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
