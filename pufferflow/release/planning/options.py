"""The options of a plan: guarantee or accuracy, noise, bound, shares of the sums, and row privacy.

A guarantee or an accuracy (`Within`), and the choices of noise, bound, shares and row privacy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypedDict, cast, final

from pufferflow.calibration.calibrate import Bounds, read_kind
from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.suggestions import EXAMPLES, suggests_arguments
from pufferflow.core.validate import finite_number, instance, quoted
from pufferflow.models.priors.table import Table
from pufferflow.noise.base import Family
from pufferflow.noise.cauchy import GeneralizedCauchy
from pufferflow.noise.joint_gaussian import JointGaussian
from pufferflow.privacy.guarantee import PURE, Guarantee, GuaranteeFamily, Pure
from pufferflow.privacy.renyi import Renyi
from pufferflow.queries.request import Request

_TAILS: Final = GeneralizedCauchy.of(k=4)
"""Even, so that balls of vectors have a loss, and the least such k with a variance, by which errors are stated."""
_MOST_SUMS: Final = 9


@final
@suggests_arguments
@dataclass(frozen=True)
class Within(InNotebooks):
    """An accuracy: with probability `confidence` each single answer is within `error` of its value without noise.

    >>> Within(5, confidence=0.95)
    Within(error=5.0, confidence=0.95)
    """

    error: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Read both numbers."""
        error = finite_number(
            self.error, "error", allowed="a finite number > 0", instead="pf.Within(5)"
        )
        allowed, instead = "a number between 0 and 1", "pf.Within(5, confidence=0.95)"
        confidence = finite_number(self.confidence, "confidence", allowed=allowed, instead=instead)
        if error <= 0:
            raise UsageError(
                f"error is {error:g}.", allowed="a finite number > 0", instead="pf.Within(5)"
            )
        if not 0 < confidence < 1:
            raise UsageError(f"confidence is {confidence:g}.", allowed=allowed, instead=instead)
        object.__setattr__(self, "error", error)
        object.__setattr__(self, "confidence", confidence)


class PlanArguments(TypedDict, total=False):
    """The arguments of `batch.plan` beside the guarantee, which `batch.release` takes too, for editors to complete."""

    noise: Family | type[JointGaussian] | str
    bound: Bounds
    accuracy: Within | None
    shares: Mapping[str, float] | None
    row_privacy: bool
    seconds: float | None
    per_group: bool


@final
@dataclass(frozen=True)
class PlanOptions:
    """A guarantee; or an accuracy, with the kind of guarantee whose ε is to be found.

    Noise and bound may be left open.
    """

    promise: Guarantee | GuaranteeFamily
    noise: Family | type[JointGaussian] | str = "auto"
    bound: Bounds = "auto"
    accuracy: Within | None = None
    shares: Mapping[str, float] | None = None
    row_privacy: bool = True
    """Whether noise has to suffice for a single row too, or for the prior only."""
    seconds: float | None = None
    """The time after which no further bound is begun; None for no limit."""
    per_group: bool = True
    """Whether each group of the answer may have the noise that its own rows need, or all have the same."""

    @property
    def example(self) -> Guarantee:
        """A guarantee of the required kind."""
        return self.promise if isinstance(self.promise, Guarantee) else self.promise.at(1.0)

    @property
    def kind(self) -> GuaranteeFamily:
        """The kind of guarantee, where an accuracy is given."""
        return PURE if isinstance(self.promise, Guarantee) else self.promise


def wants_joint(noise: object) -> bool:
    """Return whether the terms require Gaussian noise that is correlated where this is less (M28)."""
    return noise is JointGaussian or (isinstance(noise, str) and noise.casefold() == "joint")


def heavy_tails(terms: PlanOptions, request: Request) -> list[Family]:
    """Return generalized Cauchy noise under a Rényi guarantee where rows are draws from tables, else nothing.

    Far but rare movements cost it little (M5, M11). Sums of one draw have laws given the secret, with outliers;
    constants and movements have none. Along chains the search would take as long again, and rows are bounded.
    """
    wanted = (
        terms.noise == "auto"
        and isinstance(terms.example, Renyi)
        and len(request.measures) <= _MOST_SUMS
    )
    draws = [
        isinstance(prior, Table) and prior.independent_rows for prior in request.scenario.priors
    ]
    return [_TAILS] if wanted and all(draws) else []


def read_seconds(given: object) -> float | None:
    """Validate the time after which no further bound is begun."""
    allowed, instead = "a finite number > 0 of seconds, or None", "seconds=10"
    if given is None:
        return None
    return finite_number(
        given, "seconds", allowed=allowed, instead=instead, fits=lambda seconds: seconds > 0
    )


def read_per_group(given: object) -> bool:
    """Validate whether groups of an answer may have noise of their own."""
    allowed = "True: groups have the noise that their own rows need; False: all have the same"
    return instance(given, bool, "per_group", allowed=allowed, instead="per_group=False")


def read_row_privacy(given: object) -> bool:
    """Validate whether noise has to suffice for a single row too."""
    allowed = "True: at least the noise of ordinary differential privacy of one row; False: what the prior needs"
    return instance(
        given, bool, "row_privacy", allowed=allowed, instead="row_privacy=True, or leaving it out"
    )


def read_promise(
    guarantee: object, epsilon: float | None, accuracy: Within | None
) -> Guarantee | GuaranteeFamily:
    """Return the guarantee, or its kind where an accuracy is given."""
    if epsilon is not None:
        if guarantee is not None:
            raise UsageError(
                "Both a guarantee and an epsilon are given.",
                allowed="one of them",
                instead="release(account=account, epsilon=1.0)"
                if hasattr(guarantee, "spent")
                else "plan(pf.Pure(1.0))",
            )
        guarantee = Pure(epsilon)
    if accuracy is not None:
        if isinstance(guarantee, Guarantee):
            raise UsageError(
                "Both a guarantee and an accuracy are given.",
                allowed="an accuracy with a kind of guarantee (pf.Pure, if left out), or a guarantee alone",
                instead="plan(pf.Renyi.of(alpha=4), accuracy=pf.Within(5))",
            )
        number = isinstance(cast(object, accuracy), int | float)
        instead = f"pf.Within({accuracy})" if number else "pf.Within(5)"
        instance(accuracy, Within, "accuracy", allowed="pf.Within(error)", instead=instead)
        return read_kind(Pure if guarantee is None else guarantee)
    if not isinstance(guarantee, Guarantee):
        raise _no_promise(guarantee)
    return guarantee


def _no_promise(given: object) -> UsageError:
    """Return the error for an object that is no guarantee, such as a number, which has no kind."""
    problem = (
        "left out" if given is None else f"{quoted(given)}, which does not say of which kind it is"
    )
    if isinstance(given, type) and issubclass(given, Guarantee):
        return UsageError(
            f"The guarantee is pf.{given.__name__} without its numbers.",
            allowed="a guarantee, or a kind of guarantee together with an accuracy",
            instead=f"plan({EXAMPLES.get(given.__name__, 'pf.Pure(1.0)')}), or accuracy=pf.Within(5)",
        )
    epsilon = given if isinstance(given, int | float) and 0 < given < 1e6 else 1.0
    return UsageError(
        f"The guarantee is {problem}.",
        allowed="a guarantee, such as pf.Pure, pf.Approx, pf.Zcdp, pf.Gdp or pf.Renyi, or an epsilon",
        instead=f"pf.Pure({float(epsilon):g}), or epsilon={float(epsilon):g}",
    )
