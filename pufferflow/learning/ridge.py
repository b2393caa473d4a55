"""Private ridge regression: from noisy sums of products, or by noisy descent, whichever has the smaller error."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.validate import finite_number_at_least_zero, quoted
from pufferflow.engines.model_rows import column_of
from pufferflow.learning.estimator import ModelFacts, PrivateModel
from pufferflow.learning.model_columns import read_pair
from pufferflow.learning.model_plan import Mechanism
from pufferflow.learning.scikit import RegressorMixin, r2
from pufferflow.learning.settings import descent_of
from pufferflow.learning.sums import SumsOfProducts
from pufferflow.learning.training import Training
from pufferflow.models.domain import Interval
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Secret
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.release.publish import CostAccount

Solver = Literal["auto", "sums", "descent"]
_SUMS, _DESCENT = "noisy sums of products", "a noisy descent"


class PrivateRegressor(RegressorMixin, PrivateModel):
    """Base of the models that predict numbers."""

    target_bounds: Any

    def predict(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return predictions for rows: arrays, or a frame with the features' columns."""
        return self._scores(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return R² on rows; of private rows it is not private, and only their owner may look at it."""
        truth = column_of(X.lazy(), y) if isinstance(y, str) else y
        return r2(truth, self.predict(X), sample_weight)

    def _target_secret(self, name: str) -> Secret:
        if self.target_bounds is None:
            raise UsageError(
                "Arrays without target_bounds.", allowed="a pair (low, high)", instead="target_bounds=(0, 1)"
            )
        return Secret(name, Interval(*read_pair(self.target_bounds, "target_bounds")))


@final
class PrivateRidge(PrivateRegressor):
    """Ridge regression whose coefficients keep a guarantee about rows that may depend on each other.

    Noise is added to the sums of products X'X, X'y of columns that a scenario hides (public ones have none), or to the
    steps of a descent. `solver="auto"` takes the one with the smaller expected error, by public numbers, and `plan` and
    `certificate_` name it. The guarantee is a `guarantee`, or an `epsilon` without a `delta` or with one. `alpha`
    penalises the coefficients of columns scaled to [−1, 1]; None takes the value with the least sum of bias and noise,
    by public numbers. `bounds` are those of features that no domain has: a pair for all, a list of pairs, or a mapping.

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
        self.scenario, self.guarantee, self.epsilon, self.delta = scenario, guarantee, epsilon, delta
        self.alpha, self.features, self.fit_intercept, self.solver = alpha, features, fit_intercept, solver
        self.bounds, self.target_bounds, self.account = bounds, target_bounds, account

    def _in_words(self) -> str:
        return f"ridge regression (alpha={self.alpha}, fit_intercept={self.fit_intercept}, solver={self.solver!r})"

    def _mechanism(self, facts: ModelFacts) -> tuple[Mechanism, bool, tuple[str, ...]]:
        if self.solver not in ("auto", "sums", "descent"):
            raise UsageError(
                f"solver is {quoted(self.solver)}.", allowed="auto, sums or descent", instead='solver="auto"'
            )
        penalty = None if self.alpha is None else finite_number_at_least_zero(self.alpha, "alpha")
        sums = SumsOfProducts(
            facts.order, facts.hidden, facts.beliefs, facts.promise, penalty, intercept=bool(self.fit_intercept)
        )
        if self.solver == "sums":
            return sums, sums.pure, ()
        if self.solver == "auto" and isinstance(facts.promise, Pure):
            return sums, sums.pure, (f"{_SUMS}: a descent keeps no pure guarantee",)

        def descent() -> Training:
            penalised = (penalty or 0.0) / facts.order.rows
            # squares: no residual is above 2 while predictions stay within the range of the target
            return descent_of(facts, "huber", width=2.0, penalty=penalised, intercept=bool(self.fit_intercept))

        if self.solver == "descent":
            return descent(), False, ()
        mechanism, note = _better(sums, descent, float(facts.columns.half[-1]))
        return mechanism, mechanism is sums and sums.pure, (note,)


def _better(sums: SumsOfProducts, descent: Callable[[], Training], half: float) -> tuple[Mechanism, str]:
    """Return the mechanism with the smaller expected error, of those the guarantee allows, and a note on the choice."""
    ways = {_SUMS: _if_possible(lambda: sums), _DESCENT: _if_possible(descent)}
    possible = {name: way for name, way in ways.items() if way is not None}
    if not possible:
        _ = sums.calibrated  # its refusal
    name, way = min(possible.items(), key=lambda one: one[1].expected_error)
    if len(possible) == 1:
        return way, f"{name}: the guarantee allows the other way no loss"
    errors = [f"{way.expected_error * half:.4g}" for way in possible.values()]
    return way, f"{name}: of sums an error of about {errors[0]} is expected, of a descent {errors[1]}"


def _if_possible(make: Callable[[], Mechanism]) -> Mechanism | None:
    """Return a mechanism, calibrated; None if the guarantee allows it no loss."""
    try:
        mechanism = make()
        _ = mechanism.noise
    except Refused:
        return None
    return mechanism
