"""Private models: ridge regression, and linear models by noisy gradient descent, with their settings."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import finite_number_at_least_zero, number_above, quoted, whole_number
from pufferflow.engines.model_rows import column_of
from pufferflow.learning.estimator import (
    ClassifierMixin,
    ModelFacts,
    PrivateModel,
    RegressorMixin,
    accuracy,
    labels_of,
    r2,
)
from pufferflow.learning.model_columns import ModelColumns, Name, Objective, read_pair
from pufferflow.learning.model_plan import Fitting
from pufferflow.learning.sums import TYPICAL, SumsOfProducts
from pufferflow.learning.training import Training
from pufferflow.models.domain import Interval
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Secret
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.release.publish import CostAccount

_SHARE = 2 / 3
"""The length to which gradients are cut, as a share of the length of a typical row."""
_REACH = 30.0
"""Step size times steps, after which features of mean square 1/6 are learnt up to e^−5."""


def descent_of(  # noqa: PLR0913 - the settings of a descent
    facts: ModelFacts,
    loss: Name,
    *,
    penalty: float = 0.0,
    intercept: bool = True,
    radius: Any = "auto",
    row_norm: Any = None,
    step_size: Any = "auto",
    batch_size: Any = "auto",
    passes: Any = "auto",
    width: float = 0.5,
    clip: Any = None,
) -> Training:
    """Return a descent for public facts; batches times passes are the steps that it takes to converge.

    A row of the last batch is hidden by the noise of one step only, a row of earlier passes by that of many.
    With as many passes as batches, all passes but the last together cost as much as that one. The noise is then that of
    all rows read at once.
    """
    count = len(facts.columns.features)
    longest = math.sqrt(count) if row_norm is None else _positive(row_norm, "row_norm")
    length = math.sqrt(min(longest, math.sqrt(count)) ** 2 + intercept) * (1 + 1e-12)
    ball = (5.0 if loss == "logistic" else 1.0) if radius == "auto" else _positive(radius, "radius")
    objective = Objective(
        loss,
        length,
        ball,
        _positive(width, "width"),
        _longest_gradient(clip, len(facts.columns.features) * TYPICAL + intercept),
        float(intercept),
    )
    size, rounds, steps = _batches(facts.order.rows, objective, penalty, batch_size, passes)
    most = 1 / (objective.smoothness + penalty)
    step = min(most, _REACH / steps) if step_size == "auto" else _positive(step_size, "step_size")
    training = Training(
        facts.order,
        facts.hidden,
        facts.beliefs,
        facts.promise,
        objective,
        penalty,
        step,
        size,
        rounds,
        intercept,
        math.inf if row_norm is None else longest,
    )
    _ = training.descent  # the step size is checked
    return training


def _batches(
    rows: int, objective: Objective, penalty: float, size: Any, passes: Any
) -> tuple[int, int, int]:
    """Return batches, passes, and their product."""
    wanted = max(math.ceil(_REACH * (objective.smoothness + penalty)), 64)
    if size == "auto" and passes != "auto":
        batches = min(rows, max(wanted // _whole(passes, "passes"), 1))
    elif size == "auto":
        batches = min(rows, max(math.isqrt(wanted) // 2, 1))
    else:
        batches = -(-rows // min(_whole(size, "batch_size"), rows))
    rounds = -(-wanted // batches) if passes == "auto" else _whole(passes, "passes")
    return batches, rounds, batches * rounds


def _longest_gradient(given: Any, square: float) -> float:
    """Return the largest length of gradients; "auto" is two thirds of the length of a row with this mean square."""
    if given is None:
        return math.inf
    return _SHARE * math.sqrt(square) if given == "auto" else _positive(given, "clip")


def _positive(given: object, name: str) -> float:
    return number_above(given, name, 0.0, f'{name}="auto"')


def _whole(given: Any, name: str) -> int:
    if given == 0:
        raise UsageError(
            f"{name} is {quoted(given)}, so no row would be read.",
            allowed="a whole number >= 1",
            instead=f'{name}="auto"',
        )
    return whole_number(given, name, allowed="a whole number >= 1", instead=f'{name}="auto"')


Solver = Literal["auto", "sums", "descent"]
_SUMS, _DESCENT = "noisy sums of products", "a noisy descent"


class PrivateRegressor(RegressorMixin, PrivateModel):
    """Base of the models that predict numbers."""

    target_bounds: Any

    def predict(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return predictions for rows: arrays, or a frame with the features' columns."""
        return self._scores(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return R² on rows. Of private rows the score is not private: only their owner may see it."""
        truth = column_of(X.lazy(), y) if isinstance(y, str) else y
        return r2(truth, self.predict(X), sample_weight)

    def _target_secret(self, name: str) -> Secret:
        if self.target_bounds is None:
            raise UsageError(
                "Arrays need target_bounds.",
                allowed="a pair (low, high)",
                instead="target_bounds=(0, 1)",
            )
        return Secret(name, Interval(*read_pair(self.target_bounds, "target_bounds")))


@final
class PrivateRidge(PrivateRegressor):
    """Ridge regression whose coefficients keep a guarantee about rows that may depend on each other.

    Noise is added to the sums of products X'X, X'y of the hidden columns (public ones need none), or to the steps of a
    descent. `solver="auto"` takes the one with the smaller expected error, by public numbers. `plan` and `certificate_`
    name it. The guarantee is a `guarantee`, or an `epsilon` with or without a `delta`.

    `alpha` penalises the coefficients of columns scaled to [−1, 1]. None takes the value with the least sum of bias and
    noise, by public numbers. `bounds` are for features without a domain: a pair for all, a list of pairs, or a mapping.

    >>> import numpy as np, polars as pl, pufferflow as pf
    >>> rng = np.random.default_rng(1)
    >>> hours = rng.uniform(0, 40, 5000)
    >>> work = pl.DataFrame({"hours": hours, "pay": 10 + 2 * hours + rng.normal(0, 5, 5000)})
    >>> secrets = [pf.Secret("hours", pf.Interval(0, 40)), pf.Secret("pay", pf.Interval(0, 100))]
    >>> model = PrivateRidge(pf.Scenario(secrets, pf.Independent()), pf.Approx(1.0, 1e-6)).fit(work, y="pay")
    >>> bool(1.7 < model.coef_[0] < 2.3)
    True
    """

    def __init__(  # noqa: PLR0913 - scikit-learn's models have their settings here
        self,
        scenario: Scenario | None = None,
        guarantee: Guarantee | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        alpha: float | None = None,
        features: Sequence[str] | None = None,
        fit_intercept: bool = True,
        solver: Solver = "auto",
        bounds: Any = None,
        target_bounds: Any = None,
        account: CostAccount | None = None,
    ) -> None:
        self.scenario, self.guarantee, self.epsilon, self.delta = (
            scenario,
            guarantee,
            epsilon,
            delta,
        )
        self.alpha, self.features, self.fit_intercept, self.solver = (
            alpha,
            features,
            fit_intercept,
            solver,
        )
        self.bounds, self.target_bounds, self.account = bounds, target_bounds, account

    def _in_words(self) -> str:
        return f"ridge regression (alpha={self.alpha}, fit_intercept={self.fit_intercept}, solver={self.solver!r})"

    def _fitting(self, facts: ModelFacts) -> tuple[Fitting, bool, tuple[str, ...]]:
        if self.solver not in ("auto", "sums", "descent"):
            raise UsageError(
                f"solver is {quoted(self.solver)}.",
                allowed="auto, sums or descent",
                instead='solver="auto"',
            )
        penalty = None if self.alpha is None else finite_number_at_least_zero(self.alpha, "alpha")
        sums = SumsOfProducts(
            facts.order,
            facts.hidden,
            facts.beliefs,
            facts.promise,
            penalty,
            intercept=bool(self.fit_intercept),
        )
        if self.solver == "sums":
            return sums, sums.pure, ()
        if self.solver == "auto" and isinstance(facts.promise, Pure):
            return sums, sums.pure, (f"{_SUMS}: a descent keeps no pure guarantee",)

        def descent() -> Training:
            penalised = (penalty or 0.0) / facts.order.rows
            # squares: no residual is above 2 while predictions stay within the range of the target
            return descent_of(
                facts, "huber", width=2.0, penalty=penalised, intercept=bool(self.fit_intercept)
            )

        if self.solver == "descent":
            return descent(), False, ()
        mechanism, note = _better(sums, descent, float(facts.columns.half[-1]))
        return mechanism, mechanism is sums and sums.pure, (note,)


def _better(
    sums: SumsOfProducts, descent: Callable[[], Training], half: float
) -> tuple[Fitting, str]:
    """Return the mechanism with the smaller expected error, of those the guarantee allows, and a note on the choice."""
    ways = {_SUMS: _if_possible(lambda: sums), _DESCENT: _if_possible(descent)}
    possible = {name: way for name, way in ways.items() if way is not None}
    if not possible:
        _ = sums.calibrated  # its refusal
    name, way = min(possible.items(), key=lambda one: one[1].expected_error)
    if len(possible) == 1:
        return way, f"{name}: the guarantee allows the other way no loss"
    errors = [f"{way.expected_error * half:.4g}" for way in possible.values()]
    return (
        way,
        f"{name}: of sums an error of about {errors[0]} is expected, of a descent {errors[1]}",
    )


def _if_possible(make: Callable[[], Fitting]) -> Fitting | None:
    """Return a mechanism, calibrated; None if the guarantee allows it no loss."""
    try:
        mechanism = make()
        _ = mechanism.noise
    except Refused:
        return None
    return mechanism


Auto = Literal["auto"]
_SETTINGS = (
    "alpha",
    "fit_intercept",
    "radius",
    "row_norm",
    "clip",
    "step_size",
    "batch_size",
    "passes",
    "warm_start",
)


class _Descending(PrivateModel):
    """The settings that all models by descent share."""

    alpha: float
    fit_intercept: bool
    radius: float | Auto
    row_norm: float | None
    clip: float | Auto | None
    step_size: float | Auto
    batch_size: int | Auto
    passes: int | Auto

    def _in_words(self) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in _SETTINGS)
        width = f", width={getattr(self, 'width', 0.5)!r}" if self._loss == "huber" else ""
        return f"a descent ({self._loss}{width}, {said})"

    @property
    def _loss(self) -> Name:
        return "logistic"

    def _fitting(self, facts: ModelFacts) -> tuple[Fitting, bool, tuple[str, ...]]:
        descent = descent_of(
            facts,
            self._loss,
            penalty=finite_number_at_least_zero(self.alpha, "alpha"),
            intercept=bool(self.fit_intercept),
            radius=self.radius,
            row_norm=self.row_norm,
            step_size=self.step_size,
            batch_size=self.batch_size,
            passes=self.passes,
            width=getattr(self, "width", 0.5),
            clip=self.clip,
        )
        done = (
            f"{descent.passes} passes of {descent.batches} batches with the step size {descent.step_size:.4g}, weights "
            f"of scaled columns at most {descent.objective.radius:g} long"
        )
        rows = (
            f"rows longer than {self.row_norm:g} in scaled features are cut to that"
            if self.row_norm
            else ""
        )
        longest = descent.objective.clip
        gradients = (
            f"gradients of rows longer than {longest:.4g} are cut to that"
            if longest < math.inf
            else ""
        )
        return descent, False, tuple(filter(None, [done, rows, gradients]))


@final
class PrivateSGDRegressor(_Descending, PrivateRegressor):
    """Linear regression by noisy descent: squares, with a penalty ridge, or Huber's loss.

    Columns are scaled to [−1, 1] by their bounds. All constants follow from these and from three settings, never from
    the rows. `radius` is that of the ball of weights. `row_norm` is the length to which rows of features are cut.
    `clip` is the length to which the gradient of each row is cut: noise is proportional to it; None cuts none.

    Noise is calibrated for the last iterate: the noise of all later steps hides the movement by a row. Settings that
    are "auto" follow from the number of rows and columns. The guarantee is a `guarantee`, or an `epsilon` with a
    `delta`; a descent keeps no pure one. `width` is where Huber's loss becomes linear, in units of half the target's
    range. `bounds` are for features without a domain: a pair for all, a list of pairs, or a mapping.

    >>> import numpy as np, polars as pl, pufferflow as pf
    >>> rng = np.random.default_rng(1)
    >>> hours = rng.uniform(0, 40, 20000)
    >>> work = pl.DataFrame({"hours": hours, "pay": 10 + 2 * hours + rng.normal(0, 5, 20000)})
    >>> secrets = [pf.Secret("hours", pf.Interval(0, 40)), pf.Secret("pay", pf.Interval(0, 100))]
    >>> model = PrivateSGDRegressor(pf.Scenario(secrets, pf.Independent()), pf.Approx(2.0, 1e-6)).fit(work, y="pay")
    >>> bool(1 < model.coef_[0] < 3)
    True
    """

    def __init__(  # noqa: PLR0913 - scikit-learn's models have their settings here
        self,
        scenario: Scenario | None = None,
        guarantee: Guarantee | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        loss: Literal["squared", "huber"] = "squared",
        width: float = 0.5,
        alpha: float = 0.0,
        features: Sequence[str] | None = None,
        fit_intercept: bool = True,
        radius: float | Auto = "auto",
        row_norm: float | None = None,
        clip: float | Auto | None = "auto",
        step_size: float | Auto = "auto",
        batch_size: int | Auto = "auto",
        passes: int | Auto = "auto",
        warm_start: bool = False,
        bounds: Any = None,
        target_bounds: Any = None,
        account: CostAccount | None = None,
    ) -> None:
        self.scenario, self.guarantee, self.epsilon, self.delta = (
            scenario,
            guarantee,
            epsilon,
            delta,
        )
        self.loss, self.width = loss, width
        self.alpha, self.features, self.fit_intercept, self.radius = (
            alpha,
            features,
            fit_intercept,
            radius,
        )
        self.row_norm, self.clip, self.step_size = row_norm, clip, step_size
        self.batch_size, self.passes = batch_size, passes
        self.warm_start, self.bounds, self.target_bounds, self.account = (
            warm_start,
            bounds,
            target_bounds,
            account,
        )

    @property
    def _loss(self) -> Name:
        if self.loss not in ("squared", "huber"):
            raise UsageError(
                f"loss is {quoted(self.loss)}.",
                allowed='"squared" or "huber"',
                instead='loss="huber"',
            )
        return self.loss


@final
class PrivateSGDClassifier(ClassifierMixin, _Descending):
    """Logistic regression by noisy descent, for two classes that the scenario declares.

    Settings are those of `PrivateSGDRegressor`. The classes are those of the target's domain; for arrays without a
    scenario `classes` declares them. Which of them the rows have is private. A label that is not a class is read as the
    first one, and rows of one class alone are fitted like any others.

    >>> import numpy as np, polars as pl, pufferflow as pf
    >>> rng = np.random.default_rng(1)
    >>> age = rng.uniform(0, 100, 20000)
    >>> people = pl.DataFrame({"age": age, "ill": (rng.uniform(0, 100, 20000) < age).astype(int)})
    >>> secrets = [pf.Secret("age", pf.Interval(0, 100)), pf.Secret("ill", [0, 1])]
    >>> model = PrivateSGDClassifier(pf.Scenario(secrets, pf.Independent()), pf.Approx(2.0, 1e-6)).fit(people, y="ill")
    >>> model.predict([[10.0], [90.0]]).tolist()
    [0, 1]
    """

    _labels = True
    classes_: Array

    def __init__(  # noqa: PLR0913 - scikit-learn's models have their settings here
        self,
        scenario: Scenario | None = None,
        guarantee: Guarantee | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        alpha: float = 0.0,
        classes: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        fit_intercept: bool = True,
        radius: float | Auto = "auto",
        row_norm: float | None = None,
        clip: float | Auto | None = "auto",
        step_size: float | Auto = "auto",
        batch_size: int | Auto = "auto",
        passes: int | Auto = "auto",
        warm_start: bool = False,
        bounds: Any = None,
        account: CostAccount | None = None,
    ) -> None:
        self.scenario, self.guarantee, self.epsilon, self.delta = (
            scenario,
            guarantee,
            epsilon,
            delta,
        )
        self.classes, self.alpha, self.features, self.fit_intercept, self.radius = (
            classes,
            alpha,
            features,
            fit_intercept,
            radius,
        )
        self.row_norm, self.clip, self.step_size = row_norm, clip, step_size
        self.batch_size, self.passes = batch_size, passes
        self.warm_start, self.bounds, self.account = warm_start, bounds, account

    def decision_function(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the log odds of the second class."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return the probabilities of both classes, a row each."""
        second = 1 / (1 + np.exp(-np.clip(self._scores(X), -700, 700)))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the more likely class of each row."""
        second = self._scores(X) > 0
        return self.classes_[second.astype(np.intp)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the accuracy on rows. Of private rows the score is not private: only their owner may see it."""
        truth = column_of(X.lazy(), y) if isinstance(y, str) else y
        return accuracy(truth, self.predict(X), sample_weight)

    def _keep(self, columns: ModelColumns, found: Floats) -> None:
        self.coef_, self.intercept_ = found[None, 1:], found[:1]  # pyright: ignore[reportAttributeAccessIssue]
        self.classes_ = np.array(columns.classes)

    def _target_secret(self, name: str) -> Secret:
        return Secret(name, labels_of((0, 1) if self.classes is None else self.classes))
