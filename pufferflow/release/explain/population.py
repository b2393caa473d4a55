"""What a plan says of a secret about the whole data set: that the difference of its values is hidden by design (M59).

A rule that names one of two laws errs under one of them, however many rows there are. So the noise of a mean tends to
the *gap* divided by ε. The gap is how far a row's number moves between the two laws: their distance W_1.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.models.domain import Label
from pufferflow.models.population import Population
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.queries.aggregates import Count, Mean, Sum
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.request import Request
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.reports.numbers import even_odds


def hidden_by_design(request: Request, promise: Guarantee) -> dict[str, Any]:
    """Return how often a rule may name the right law, and the gap over ε of each query; {} for other secrets."""
    secret = request.scenario.secret
    if not isinstance(secret, Population) or not promise.divergence.about_odds:
        return {}
    pure = isinstance(promise, Pure) and promise.epsilon > 0
    return {
        "right": even_odds(promise.epsilon, promise.delta),
        "gaps": [(name, f"{gap / promise.epsilon:.4g}") for name, gap in _gaps(request, secret)]
        if pure
        else [],
    }


def rows_beyond(request: Request, public: PublicMetadata) -> dict[str, str]:
    """Return the number of selected rows and the declared one, if these are fewer; {} otherwise."""
    secret, prior = request.scenario.secret, request.scenario.priors[0]
    if not isinstance(secret, Population) or secret.rows is None:
        return {}
    selected = public.patterns(prior).selected
    return (
        {"selected": f"{selected:,}", "declared": f"{secret.rows}"}
        if selected > secret.rows
        else {}
    )


def _gaps(request: Request, secret: Population) -> Iterator[tuple[str, float]]:
    """Yield the sums, means and counts with their largest gap."""
    for query in request.queries:
        values = query.measures[0]
        if not isinstance(query, Sum | Mean | Count) or not isinstance(values, OnPoints):
            continue
        if values.weight is None and values.column == secret.column:
            yield query.name, largest_gap(secret, np.array(values.steps) * float(values.unit))


def largest_gap(secret: Population, numbers: Sequence[float] | Floats) -> float:
    """Return the largest W_1 between two laws of a row's number, over the pairs of the secret.

    >>> round(largest_gap(Population.share("ill", [0.1, 0.2, 0.4]), [0.0, 1.0]), 9)
    0.3
    """
    order = np.argsort(numbers, kind="stable")
    lengths = np.diff(np.asarray(numbers, dtype=np.float64)[order])
    laws = secret.arrays.astype(np.float64)[:, order]
    below: dict[Label, Floats] = dict(zip(secret.values, laws.cumsum(axis=1), strict=True))
    gaps = (np.abs(below[a] - below[b])[:-1] @ lengths for a, b in secret.value_pairs())
    return float(max(gaps))
