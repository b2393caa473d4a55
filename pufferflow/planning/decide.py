"""From a request and a promise to noise: balance the sums, derive their laws, calibrate, choose the noise.

What is asked of a plan: a promise or an accuracy, and how to get there.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.arguments import finite_number, instance, shown
from pufferflow.arrays import Floats
from pufferflow.bounds import Bounds, Calibration, Laws, calibrate_each, loss, read_family, read_kind
from pufferflow.errors import InternalError, Misuse, Refused
from pufferflow.guarantees import PURE, Guarantee, Kind, Pure, Within
from pufferflow.noise import Family, Gaussian, Laplace, Noise
from pufferflow.planning.facts import Facts
from pufferflow.planning.floor import least_scale, not_silent, read_floor, row_laws
from pufferflow.planning.outputs import half_width, unit_of
from pufferflow.planning.shares import balanced, read_shares
from pufferflow.planning.tables import Tables, free_tables, known_values, tables_of
from pufferflow.progress import working
from pufferflow.queries import Request
from pufferflow.rounding import UNIT, upwards
from pufferflow.scenario import AnySecret, Initial, Presence
from pufferflow.scenario.priors import Simulator
from pufferflow.suggestions import EXAMPLES


@final
@dataclass(frozen=True)
class Terms:
    """A promise; or errors, with the kind of promise whose ε is to be found. Noise and bound may be left open."""

    promise: Guarantee | Kind
    noise: Family | str = "auto"
    bound: Bounds = "auto"
    accuracy: Within | None = None
    shares: Mapping[str, float] | None = None
    floor: str | None = "row"
    """Whether noise has to be enough for one row alone ("row"), or for the prior only (None)."""
    seconds: float | None = None
    """After how many seconds no further bound is begun; None if time does not matter."""

    @property
    def example(self) -> Guarantee:
        """A promise of the kind that is asked for."""
        return self.promise if isinstance(self.promise, Guarantee) else self.promise.at(1.0)

    @property
    def kind(self) -> Kind:
        """The kind of promise, where errors are given."""
        return PURE if isinstance(self.promise, Guarantee) else self.promise


def read_seconds(given: object) -> float | None:
    """Return how long further bounds may be begun."""
    allowed, instead = "a finite number > 0 of seconds, or None", "seconds=10"
    if given is None:
        return None
    return finite_number(given, "seconds", allowed=allowed, instead=instead, fits=lambda seconds: seconds > 0)


def read_promise(guarantee: object, epsilon: float | None, accuracy: Within | None) -> Guarantee | Kind:
    """Return the promise that is asked for, or its kind where errors are given."""
    if epsilon is not None:
        if guarantee is not None:
            raise Misuse(
                "Both a promise and an epsilon are given.", allowed="one of them", instead="plan(pf.Pure(1.0))"
            )
        guarantee = Pure(epsilon)
    if accuracy is not None:
        if isinstance(guarantee, Guarantee):
            raise Misuse(
                "Both a promise and an accuracy are given.",
                allowed="an accuracy with a kind of promise (pf.Pure, if left out), or a promise alone",
                instead="plan(pf.Renyi.of(alpha=4), accuracy=pf.Within(5))",
            )
        instance(accuracy, Within, "accuracy", allowed="pf.Within(error)", instead="pf.Within(5)")
        return read_kind(Pure if guarantee is None else guarantee)
    if not isinstance(guarantee, Guarantee):
        raise _no_promise(guarantee)
    return guarantee


def _no_promise(given: object) -> Misuse:
    """Return the error for what is no promise: a number says how much, and not of which kind."""
    problem = "left out" if given is None else f"{shown(given)}, which does not say of which kind it is"
    if isinstance(given, type) and issubclass(given, Guarantee):
        problem = f"pf.{given.__name__} without its numbers"
        return Misuse(
            f"The promise is {problem}.",
            allowed="a promise, or a kind of promise together with an accuracy",
            instead=f"plan({EXAMPLES.get(given.__name__, 'pf.Pure(1.0)')}), or accuracy=pf.Within(5)",
        )
    epsilon = given if isinstance(given, int | float) and 0 < given < 1e6 else 1.0
    return Misuse(
        f"The promise is {problem}.",
        allowed="pf.Pure, pf.Approx, pf.Renyi, pf.RenyiCurve or pf.ApproxRenyi, or an epsilon",
        instead=f"pf.Pure({float(epsilon):g}), or epsilon={float(epsilon):g}",
    )


_CLOSER = 1e-7
_SLIGHTLY = 1e-12
_DIGITS = 16 * UNIT
"""By how many last digits noise may be wider than aimed at: the widest is so much less, and no digit decides."""
_MORE = 64 * UNIT
SURELY = 1 + 56 * UNIT
"""By how much more the noise of every sum is than that of the weighted sums, with what dividing by weights rounds."""


@final
@dataclass(frozen=True, eq=False)
class Planned:
    """The sums of a batch in units of their own (`weights`), and one noise for all, calibrated for a promise."""

    facts: Facts
    values: Floats
    """The functions of all sums at the points of the domain."""
    ways: list[list[Tables]]
    weights: Floats
    family: Family
    laws: Laws
    """The laws of the weighted sums."""
    calibration: Calibration
    row_laws: Laws | None
    """The laws of the weighted sums if the secret's row tells of itself alone; None if it is not asked about."""
    floor: bool
    """Whether noise was made to be enough for one row alone."""
    terms: Terms

    @property
    def request(self) -> Request:
        """What is asked."""
        return self.facts.request

    @cached_property
    def group_laws(self) -> Laws:
        """The laws if the rows of a group may have anything to do with each other: group privacy."""
        secret, column = self.request.scenario.secret, self.request.column
        return self.facts.laws([[free_tables(secret, column, self.values)]], self.weights)

    @cached_property
    def ordinary(self) -> Guarantee | None:
        """What the noise keeps of one row alone: ordinary differential privacy, over the pairs of the secret."""
        kind = self.calibration.guarantee.kind
        if self.row_laws is None:
            return None
        if kind is None:
            return self.calibration.guarantee if self.floor else None
        epsilon = loss(self.row_laws, self.calibration.noise, kind)
        return kind.at(epsilon) if math.isfinite(epsilon) else None

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of each sum in whole steps, its scale rounded up; none where no row moves the sum."""
        return noises_at(self.calibration.noise, self.weights)


def noises_at(noise: Noise, weights: Floats) -> tuple[Noise, ...]:
    """Return the noise of every sum for one of the weighted sums, by a few roundings more than it has to be.

    So the loss stays below a promise that is no short binary fraction, and ten times .1 fit into 1.
    """
    scales = [upwards(noise.scale / weight, _MORE) if weight > 0 else 0.0 for weight in weights.tolist()]
    return tuple(noise.at(scale) for scale in scales)


def planned(facts: Facts, terms: Terms) -> Planned:
    """Return the least noise for a promise or, if errors are given, the strongest promise that allows them."""
    request = facts.request
    if not request.queries:
        raise Misuse("Nothing is asked.", allowed="a batch with one or more queries", instead='.private_sum("level")')
    if any(isinstance(prior, Simulator) for prior in request.scenario.priors):
        raise Refused(
            "A simulator draws answers of one statistic, and nobody can check that they are those of this batch.",
            allowed="other priors in a batch",
            instead="pf.calibrate(pf.laws(scenario, statistic), promise), for one statistic",
        )
    shares, floor = read_shares(terms.shares, request.queries), read_floor(terms.floor)
    secret = request.scenario.secret
    values = known_values(request.measures, request.points, from_nothing=isinstance(secret, Presence))
    ways = [tables_of(prior, secret, request.measures, values) for prior in request.scenario.priors]
    found: list[Planned] = []
    refused: list[Refused] = []
    end = None if terms.seconds is None else time.monotonic() + terms.seconds
    with working("planning"):
        for family in _families(terms, secret):
            weights = _weights(request, values, shares, family(1.0).norm)
            try:
                laws = facts.laws(ways, weights)
                alone = row_laws(facts, values, weights, laws)
                enough_for = [laws] if alone is None or alone is laws or not floor else [laws, alone]
                calibration = _calibrated(facts, enough_for, weights, family, terms, end)
            except Refused as refusal:
                refused.append(refusal)
            else:
                found.append(Planned(facts, values, ways, weights, family, laws, calibration, alone, floor, terms))
    if not found:
        raise refused[0]
    return min(found, key=_error if terms.accuracy is None else lambda one: one.calibration.guarantee.epsilon)


def _families(terms: Terms, secret: AnySecret) -> list[Family]:
    """Return the noises to try: for a pure promise Laplace, for others Gaussian too; whichever errs less.

    Of first values Laplace alone: they are forgotten by and by, so from some day on the other would err less, which an
    account could not add to what it has counted, and which nothing but a coupling of all rows bounds along a chain.
    """
    if terms.noise == "auto":
        return [Laplace] if isinstance(terms.example, Pure) or isinstance(secret, Initial) else [Laplace, Gaussian]
    return [read_family(terms.noise, terms.example)]


def _weights(request: Request, values: Floats, shares: Floats, norm: float) -> Floats:
    """Return the weights; a sum that a row can move always has one, or it would be published without noise."""
    if isinstance(request.scenario.secret, Presence):
        values = np.pad(values, ((0, 0), (0, 1)))  # a row that is not there adds nothing
    weights = balanced(request.places, values, shares, norm)
    moved = values.max(axis=1) > values.min(axis=1)
    if not (np.isfinite(weights).all() and (weights[moved] > 0).all()):
        raise InternalError("A sum that rows move has no weight.", instead="reporting it, with the shares")
    return weights


def _calibrated(  # noqa: PLR0913, PLR0917 - what is asked, of which laws, with which noise, until when
    facts: Facts, laws: Sequence[Laws], weights: Floats, family: Family, terms: Terms, end: float | None
) -> Calibration:
    """Return the calibration of the laws of the scenario, which are the first; its noise is enough for all."""
    if terms.accuracy is not None:
        return _within(terms.accuracy, facts, laws, weights, family, terms, end)
    found = _least(laws, terms.example, family, terms, end)
    return not_silent(found, laws, terms.bound, least_scale(facts, weights, terms.example))


def _least(laws: Sequence[Laws], promise: Guarantee, family: Family, terms: Terms, end: float | None) -> Calibration:
    """Return the least noise that is enough for all laws; the bound that is asked for is that of the scenario's."""
    bounds = [terms.bound, *(["auto"] * (len(laws) - 1))]
    return calibrate_each(list(zip(laws, bounds, strict=True)), promise, family, end)[0]


def _within(  # noqa: PLR0913, PLR0917 - what is asked, of which laws, with which noise
    accuracy: Within,
    facts: Facts,
    laws: Sequence[Laws],
    weights: Floats,
    family: Family,
    terms: Terms,
    end: float | None,
) -> Calibration:
    """Return the strongest promise that an accuracy allows."""
    scale, kind = widest(facts, weights, family, accuracy), terms.kind
    noise = family(scale)
    epsilon = max(loss(laws[0], noise, kind, terms.bound, end), *(loss(one, noise, kind) for one in laws[1:]), 0.0)
    if math.isinf(epsilon):
        raise Refused(
            f"No promise of this kind holds with errors within {accuracy.error:g}.",
            allowed="larger errors, or another noise",
            instead=f"pf.Within({4 * accuracy.error:g})",
        )
    found = _least(laws, kind.at(epsilon), family, terms, end)
    while found.noise.scale > scale * (1 + _DIGITS):  # a calibration ends a little above the least scale
        epsilon = epsilon * (1 + _CLOSER) + _SLIGHTLY
        found = _least(laws, kind.at(epsilon), family, terms, end)
    return not_silent(found, laws, terms.bound, min(least_scale(facts, weights, kind.at(epsilon)), scale))


def widest(facts: Facts, weights: Floats, family: Family, accuracy: Within) -> float:
    """Return the largest common scale with which every answer has its error."""
    request = facts.request
    scales: list[float] = []
    for query, places in request.reads:
        if not query.linear:
            raise Refused(
                f"The error of {query.name!r} depends on the data, so that no promise about it can be made beforehand.",
                allowed="an accuracy of sums, counts, means and histograms",
                instead="a batch without it, or a promise with an epsilon",
            )
        for place in places:
            if weights[place] > 0:
                noise = family(float(unit_of(request.measures[place])) / weights[place])
                half = half_width(query, noise, facts.size, accuracy.confidence).max(initial=0.0)
                scales += [accuracy.error / float(half)] if half else []
    if not scales:
        raise Refused("No row moves an answer: there is nothing to hide.", allowed="answers that depend on values")
    return min(scales) * (1 - 8 * UNIT - _DIGITS)


def _error(one: Planned) -> float:
    """Return the sum over all noisy sums of expected error over what one row can add."""
    weights = one.weights[one.weights > 0]
    ranges = one.values.max(axis=1) - one.values.min(axis=1)
    own = np.maximum(ranges[one.weights > 0], 1e-300)
    return float((one.calibration.noise.expected_error / weights / own).sum()) if len(weights) else 0.0
