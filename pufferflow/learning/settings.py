"""The settings of a descent: given ones, or those that follow from public numbers."""

import math
from typing import Any

from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number, quoted, whole_number
from pufferflow.learning.estimator import ModelFacts
from pufferflow.learning.objectives import Name, Objective
from pufferflow.learning.sums import TYPICAL
from pufferflow.learning.training import Training

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

    A row of the last batch is hidden by the noise of one step only, and those of earlier passes by many. With as many
    passes as batches all but the last cost as much as that one, and noise is that of all rows read at once.
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


def _batches(rows: int, objective: Objective, penalty: float, size: Any, passes: Any) -> tuple[int, int, int]:
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
    return finite_number(
        given, name, allowed="a finite number > 0", instead=f'{name}="auto"', fits=lambda value: value > 0
    )


def _whole(given: Any, name: str) -> int:
    if given == 0:
        raise UsageError(
            f"{name} is {quoted(given)}: no row is read.",
            allowed="a whole number >= 1",
            instead=f'{name}="auto"',
        )
    return whole_number(given, name, allowed="a whole number >= 1", instead=f'{name}="auto"')
