"""Linear models by noisy gradient descent, of which the last iterate alone is published (M33, M34)."""

import math
from collections.abc import Sequence
from typing import Any, Literal, final

import numpy as np

from pufferflow.core.arrays import Array, Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number_at_least_zero, quoted
from pufferflow.engines.model_rows import column_of
from pufferflow.learning.estimator import ModelFacts, PrivateModel, labels_of
from pufferflow.learning.model_columns import ModelColumns
from pufferflow.learning.model_plan import Mechanism
from pufferflow.learning.objectives import Name
from pufferflow.learning.ridge import PrivateRegressor
from pufferflow.learning.scikit import ClassifierMixin, accuracy
from pufferflow.learning.settings import descent_of
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Secret
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.release.publish import CostAccount

Auto = Literal["auto"]
_SETTINGS = ("alpha", "fit_intercept", "radius", "row_norm", "clip", "step_size", "batch_size", "passes", "warm_start")


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
        return f"a descent ({self._loss}{self._more}, {said})"

    @property
    def _loss(self) -> Name:
        return "logistic"

    @property
    def _more(self) -> str:
        return ""

    def _mechanism(self, facts: ModelFacts) -> tuple[Mechanism, bool, tuple[str, ...]]:
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
        rows = f"rows longer than {self.row_norm:g} in scaled features are cut to that" if self.row_norm else ""
        longest = descent.objective.clip
        gradients = f"gradients of rows longer than {longest:.4g} are cut to that" if longest < math.inf else ""
        return descent, False, tuple(filter(None, [done, rows, gradients]))


@final
class PrivateSGDRegressor(_Descending, PrivateRegressor):
    """Linear regression by noisy descent: squares, with a penalty ridge, or Huber's loss.

    Columns are scaled to [−1, 1] by their bounds. All constants follow from these, `radius` (of the ball of weights),
    `row_norm` (to which rows of features are cut), and `clip` (to which the gradient of each row is cut: noise is
    proportional to it; None cuts none), never from the rows. Noise is calibrated for the last iterate: the noise of all
    later steps hides the movement by a row. Settings that are "auto" follow from the number of rows and columns. The
    guarantee is a `guarantee`, or an `epsilon` with a `delta`; a descent keeps no pure one. `width` is where Huber's
    loss becomes linear, in units of half the target's range. `bounds` are those of features that no domain has: a pair
    for all, a list of pairs, or a mapping.

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
        self.scenario, self.guarantee, self.epsilon, self.delta = scenario, guarantee, epsilon, delta
        self.loss, self.width = loss, width
        self.alpha, self.features, self.fit_intercept, self.radius = alpha, features, fit_intercept, radius
        self.row_norm, self.clip, self.step_size = row_norm, clip, step_size
        self.batch_size, self.passes = batch_size, passes
        self.warm_start, self.bounds, self.target_bounds, self.account = warm_start, bounds, target_bounds, account

    @property
    def _loss(self) -> Name:
        if self.loss not in ("squared", "huber"):
            raise UsageError(f"loss is {quoted(self.loss)}.", allowed='"squared" or "huber"', instead='loss="huber"')
        return self.loss

    @property
    def _more(self) -> str:
        return f", width={self.width!r}" if self.loss == "huber" else ""


@final
class PrivateSGDClassifier(ClassifierMixin, _Descending):
    """Logistic regression by noisy descent, for two classes that the scenario declares.

    Settings are those of `PrivateSGDRegressor`. The classes are those of the target's domain; of arrays without a
    scenario they are declared in `classes`. Which of them the rows have is private: labels that are no class are read
    as the first one, and of one class alone a model is fitted like any other.

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
        self.scenario, self.guarantee, self.epsilon, self.delta = scenario, guarantee, epsilon, delta
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
        """Return the accuracy on rows; of private rows it is not private, and only their owner may look at it."""
        truth = column_of(X.lazy(), y) if isinstance(y, str) else y
        return accuracy(truth, self.predict(X), sample_weight)

    def _keep(self, columns: ModelColumns, found: Floats) -> None:
        self.coef_, self.intercept_ = found[None, 1:], found[:1]  # pyright: ignore[reportAttributeAccessIssue]
        self.classes_ = np.array(columns.classes)

    def _target_secret(self, name: str) -> Secret:
        return Secret(name, labels_of((0, 1) if self.classes is None else self.classes))
