"""From a request and its terms to a decision: balance the sums, derive their laws, calibrate, choose the noise."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.bounds import Calibration, Laws, calibrate_each, loss, read_family
from pufferflow.errors import InternalError, Misuse, Refused
from pufferflow.guarantees import Guarantee, Kind, Pure
from pufferflow.noise import Family, Gaussian, Laplace
from pufferflow.planning.accuracy import DIGITS, strongest_by_cell, widest
from pufferflow.planning.cell_noise import Demand, noise_by_cell
from pufferflow.planning.certificate import Certificate
from pufferflow.planning.decision import Decision
from pufferflow.planning.facts import PublicFacts
from pufferflow.planning.floor import least_scale, not_silent, row_laws
from pufferflow.planning.key_threshold import for_sums
from pufferflow.planning.kind_weights import weights_by_kind
from pufferflow.planning.shares import balanced, read_shares
from pufferflow.planning.sum_tables import known_values, tables_of
from pufferflow.planning.terms import Terms, Within, check_floor
from pufferflow.progress import working
from pufferflow.queries import Request
from pufferflow.scenario import AnySecret, Initial, Presence
from pufferflow.scenario.priors import Simulator

_CLOSER = 1e-7
_SLIGHTLY = 1e-12


def make_decision(request: Request, terms: Terms, certify: Callable[[Decision], Certificate]) -> Decision:
    """Return the least noise for a promise or, given an accuracy, the strongest promise that allows it.

    All public columns that the decision depends on are read here.
    """
    request = request.with_rows_counted
    facts = PublicFacts(request)
    if not request.queries:
        raise Misuse("Nothing is asked.", allowed="a batch with one or more queries", instead='.private_sum("level")')
    secret, priors = request.scenario.secret, request.scenario.priors
    if any(isinstance(prior, Simulator) for prior in priors):
        raise Refused(
            "A simulator draws answers of one statistic, and nobody can check that they are those of this batch.",
            allowed="other priors in a batch",
            instead="pf.calibrate(pf.laws(scenario, statistic), promise), for one statistic",
        )
    of_sums = _of_sums(terms) if request.discovers else terms
    shares = read_shares(terms.shares, request.queries)
    check_floor(terms.floor)
    facts.weights.check()
    values = known_values(
        request.measures, request.domain, from_nothing=isinstance(secret, Presence), factors=facts.weights.factors
    )
    tables = [tables_of(prior, secret, request.measures, values, facts.weights.factors) for prior in priors]
    decisions: list[Decision] = []
    refused: list[Refused] = []
    end = None if terms.seconds is None else time.monotonic() + terms.seconds
    with working("planning"):
        equal = [(family, _weights(request, values, shares, family(1.0).norm)) for family in _families(of_sums, secret)]
        by_kind = (
            (family, weights_by_kind(Demand(facts, of_sums, tables, weights, family, None, end), values))
            for family, weights in equal
        )
        for family, weights in (*equal, *by_kind):
            if weights is None:
                continue
            try:
                laws = facts.laws(tables, weights)
                of_row = row_laws(facts, values, weights, laws)
                enough_for = [laws] if of_row is None or of_row is laws or terms.floor is None else [laws, of_row]
                calibration = _Search(facts, of_sums, enough_for, weights, family, end).calibration()
            except Refused as refusal:
                refused.append(refusal)
            else:
                decisions.append(
                    Decision(facts, terms, values, tables, weights, family, laws, of_row, calibration, certify)
                )
        if not decisions:
            raise refused[0]
        best = _by_cell(min(decisions, key=_error if terms.accuracy is None else _epsilon), end)
        _ = best.threshold, best.certificate, best.name
    return best


def _of_sums(terms: Terms) -> Terms:
    """Return the terms for noisy sums, where the keys of the answer take a part of the promise."""
    promise = terms.promise
    kept = for_sums(promise) if isinstance(promise, Guarantee) else Kind(for_sums(promise.example))
    return replace(terms, promise=kept)


def _by_cell(decision: Decision, end: float | None) -> Decision:
    """Return the decision with less noise in the cells that need less."""
    of_row = decision.row_laws if decision.floor and decision.row_laws is not decision.laws else None
    demand = Demand(decision.facts, decision.terms, decision.tables, decision.weights, decision.family, of_row, end)
    decision = replace(decision, cells=noise_by_cell(demand, decision.calibration))
    accuracy = decision.terms.accuracy
    return decision if accuracy is None else strongest_by_cell(decision, demand, accuracy)


def _families(terms: Terms, secret: AnySecret) -> list[Family]:
    """Return the families to try: for a pure promise Laplace, for others Gaussian too; the smaller error decides.

    For first values Laplace alone: chains forget them, so from some step on Gaussian noise would have the smaller
    error, which an account could not add to its total, and which only a coupling of all rows bounds along a chain.
    """
    if terms.noise == "auto":
        return [Laplace] if isinstance(terms.example, Pure) or isinstance(secret, Initial) else [Laplace, Gaussian]
    return [read_family(terms.noise, terms.example)]


def _weights(request: Request, values: Floats, shares: Floats, norm: float) -> Floats:
    """Return the weights; a sum that a row can move always has one, or it would be published without noise."""
    if isinstance(request.scenario.secret, Presence):
        values = np.pad(values, ((0, 0), (0, 1)))  # a row that is not there adds nothing
    exclusive = [place for place, query in enumerate(request.queries) if query.exclusive]
    weights = balanced(request.places, values, shares, norm, exclusive)
    moved = values.max(axis=1) > values.min(axis=1)
    if not (np.isfinite(weights).all() and (weights[moved] > 0).all()):
        raise InternalError("A sum that rows move has no weight.", instead="reporting it, with the shares")
    return weights


@final
@dataclass(frozen=True, eq=False)
class _Search:
    """The search for one family's noise, which suffices for all `laws`; the first are those of the scenario."""

    facts: PublicFacts
    terms: Terms
    laws: Sequence[Laws]
    weights: Floats
    family: Family
    end: float | None

    def calibration(self) -> Calibration:
        """Return the least noise for the promise, or for the strongest promise that an accuracy allows."""
        if self.terms.accuracy is not None:
            return self._within(self.terms.accuracy)
        promise = self.terms.example
        floor = least_scale(self.facts, self.weights, promise)
        return not_silent(self._least(promise), self.laws, self.terms.bound, floor)

    def _least(self, promise: Guarantee) -> Calibration:
        """Return the least noise for a promise; the bound of the terms is that of the scenario's laws."""
        bounds = [self.terms.bound, *(["auto"] * (len(self.laws) - 1))]
        return calibrate_each(list(zip(self.laws, bounds, strict=True)), promise, self.family, self.end)[0]

    def _within(self, accuracy: Within) -> Calibration:
        scale, kind, bound = widest(self.facts, self.weights, self.family, accuracy), self.terms.kind, self.terms.bound
        noise, others = self.family(scale), self.laws[1:]
        epsilon = max(
            loss(self.laws[0], noise, kind, bound, self.end), *(loss(one, noise, kind) for one in others), 0.0
        )
        if math.isinf(epsilon):
            raise Refused(
                f"No promise of this kind holds with errors within {accuracy.error:g}.",
                allowed="larger errors, or another noise",
                instead=f"pf.Within({4 * accuracy.error:g})",
            )
        calibration = self._least(kind.at(epsilon))
        while calibration.noise.scale > scale * (1 + DIGITS):  # a calibration ends a little above the least scale
            epsilon = epsilon * (1 + _CLOSER) + _SLIGHTLY
            calibration = self._least(kind.at(epsilon))
        floor = min(least_scale(self.facts, self.weights, kind.at(epsilon)), scale)
        return not_silent(calibration, self.laws, bound, floor)


def _epsilon(decision: Decision) -> float:
    return decision.calibration.guarantee.loss


def _error(decision: Decision) -> float:
    """Return the sum over all noisy sums of expected error over what one row can add."""
    weights = decision.weights[decision.weights > 0]
    ranges = decision.values.max(axis=1) - decision.values.min(axis=1)
    own = np.maximum(ranges[decision.weights > 0], 1e-300)
    return float((decision.calibration.noise.expected_error / weights / own).sum()) if len(weights) else 0.0
