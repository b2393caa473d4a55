"""From a request and its terms to a decision: balance the sums, derive their laws, calibrate, choose the noise."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from pufferflow.calibration.calibrate import Bounds, Calibration, calibrate_each, loss, read_family
from pufferflow.calibration.laws import Laws
from pufferflow.calibration.proof_search import Untried
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import InternalError, Refused, UsageError
from pufferflow.core.progress import OutOfTimeError, until, working
from pufferflow.models.priors.simple import Independent
from pufferflow.models.priors.simulator import Simulator
from pufferflow.models.secret import AnySecret, Initial, Presence, ValueSecret
from pufferflow.noise.base import Family
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily, Pure
from pufferflow.published.certificate import Certificate
from pufferflow.queries.request import Request
from pufferflow.release.planning.accuracy import DIGITS, strongest_by_cell, widest
from pufferflow.release.planning.cell_noise import (
    Demand,
    least_scale,
    noise_by_cell,
    not_silent,
    row_laws,
    weights_by_kind,
)
from pufferflow.release.planning.combined import balanced, distinct, longest_move, proposed, read_shares
from pufferflow.release.planning.decision import Decision, noises_at
from pufferflow.release.planning.key_threshold import for_sums
from pufferflow.release.planning.options import PlanOptions, Within, heavy_tails, wants_joint
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.sum_tables import Tables, on_interval, tables_of

_CLOSER = 1e-7
_FEW_QUERIES = 32
_RTOL = 1e-12


def make_decision(request: Request, terms: PlanOptions, certify: Callable[[Decision], Certificate]) -> Decision:
    """Return the least noise for a guarantee or, given an accuracy, the strongest guarantee that allows it.

    All public columns that the decision depends on are read here.
    """
    request = request.with_rows_counted
    facts = PublicMetadata(request)
    if not request.queries:
        raise UsageError(
            "The batch has no query.", allowed="a batch with one or more queries", instead='.private_sum("level")'
        )
    secret, priors = request.scenario.secret, request.scenario.priors
    if any(isinstance(prior, Simulator) for prior in priors):
        raise Refused(
            "A simulator draws answers of one statistic, and no check shows that they are those of this batch.",
            allowed="other priors in a batch",
            instead="pf.calibrate(pf.laws(scenario, statistic), guarantee), for one statistic",
        )
    of_sums = _of_sums(terms) if request.discovers else terms
    shares = read_shares(terms.shares, request.queries)
    facts.weights.check()
    tables = [tables_of(prior, secret, facts.functions) for prior in priors]
    decisions: list[Decision] = []
    refused: list[Refused] = []
    late: list[Untried] = []
    end = None if terms.seconds is None else time.monotonic() + terms.seconds
    measured = _error if terms.accuracy is None else _epsilon
    with working("planning"):
        families = [*_families(of_sums, secret), *heavy_tails(of_sums, request)]
        equal = [(family, _weights(facts, shares, family, of_sums)) for family in families]
        by_kind = (
            (family, _weights_by_kind(Demand(facts, of_sums, tables, weights, family, None, end)))
            for family, weights in equal
        )
        for family, weights in (*equal, *by_kind):
            if weights is None:
                continue
            sums = _Sums(facts, tables, weights)
            try:
                with until(end if decisions else None):  # something has to be decided, however long it takes
                    decisions.append(_decided(sums, terms, _Effort(of_sums, family, terms.bound, end), certify))
            except Refused as refusal:
                refused.append(refusal)
            except OutOfTimeError as over:
                late += [Untried(bound, 1.0, late=True) for bound in over.args]
        if not decisions:
            raise refused[0]
        with suppress(OutOfTimeError), until(end):
            decisions += _with_joint_noise(decisions, terms, end)
        best = _with_untried(min(decisions, key=measured), late)
        with suppress(OutOfTimeError), until(end):
            best = _by_cell(best, end)
        _ = best.threshold, best.certificate, best.name
    return best


def _weights_by_kind(demand: Demand) -> Floats | None:
    """Return weights by kinds of rows; None where there are none, or no time to find them."""
    with suppress(OutOfTimeError), until(demand.end):
        return weights_by_kind(demand)
    return None


def _with_untried(decision: Decision, late: Sequence[Untried]) -> Decision:
    """Return a decision whose calibration names the bounds for which there was no time."""
    if not late:
        return decision
    calibration = decision.calibration
    return replace(decision, calibration=replace(calibration, untried=(*calibration.untried, *late)))


@final
@dataclass(frozen=True, eq=False)
class _Sums:
    """What noise is added to: the tables of all sums for each prior, and their weights."""

    facts: PublicMetadata
    tables: list[list[Tables]]
    weights: Floats


@final
@dataclass(frozen=True)
class _Effort:
    """What is tried for the least noise: a family, the bounds for the scenario's laws, and until when.

    The terms are those of the sums: keys of the answer may take a part of the guarantee.
    """

    terms: PlanOptions
    family: Family
    bound: Bounds
    end: float | None


def _decided(sums: _Sums, terms: PlanOptions, effort: _Effort, certify: Callable[[Decision], Certificate]) -> Decision:
    """Return the decision for one family of noises."""
    facts, tables, weights = sums.facts, sums.tables, sums.weights
    laws = facts.laws(tables, weights)
    of_row = row_laws(facts, weights, laws)
    enough_for = [laws] if of_row is None or of_row is laws or not terms.row_privacy else [laws, of_row]
    calibration = _Search(facts, effort.terms, enough_for, weights, effort).calibration()
    return Decision(facts, terms, tables, weights, effort.family, laws, of_row, calibration, certify)


def _of_sums(terms: PlanOptions) -> PlanOptions:
    """Return the terms for noisy sums, where the keys of the answer take a part of the guarantee."""
    promise = terms.promise
    kept = for_sums(promise) if isinstance(promise, Guarantee) else GuaranteeFamily(for_sums(promise.example))
    return replace(terms, promise=kept)


def _with_joint_noise(decisions: Sequence[Decision], terms: PlanOptions, end: float | None) -> list[Decision]:
    """Return the decision with correlated Gaussian noise, where what one row moves says that it has less error (M28).

    Only where every answer is a sum times a public factor, since the errors of others depend on correlations; and where
    values are listed, since on an interval the movement by rounding is known of each sum alone.
    Unless the terms require it, it is proven by the bound of independent noise alone, which takes no longer.
    """
    alone = min((one for one in decisions if isinstance(one.calibration.noise, Gaussian)), key=_error, default=None)
    wanted = terms.noise == "auto" or wants_joint(terms.noise)
    if alone is None or not wanted or not _may_be_combined(alone):
        return []
    facts, secret = alone.facts, alone.request.scenario.secret
    proposal = proposed(secret, _with_absence(secret, facts.functions.at_values), alone.weights)
    if proposal is None or (terms.accuracy is None and _error(alone) * proposal.share >= min(map(_error, decisions))):
        return []
    combined = proposal.combined
    sums = _Sums(facts.combining(combined), proposal.tables(alone.tables), proposal.weights)
    bound = terms.bound if wants_joint(terms.noise) else alone.calibration.bound
    try:
        return [_decided(sums, terms, _Effort(terms, Gaussian, bound, end), alone.certify)]
    except Refused:
        return []


def _may_be_combined(decision: Decision) -> bool:
    """Return whether all sums of a decision are of listed values, each by itself, and alone make its answers."""
    request = decision.request
    weighted = any(measure is not None and measure.values.weight is not None for measure in request.measures)
    if request.discovers or on_interval(request) or weighted or decision.facts.weights.grids:
        return False
    tables = [one for own in decision.tables for one in own]
    linear = all(query.linear for query in request.queries)
    return linear and all(one.rounding is None and one.values is decision.facts.functions.at_values for one in tables)


def _by_cell(decision: Decision, end: float | None) -> Decision:
    """Return the decision with less noise in the cells that need less."""
    of_row = decision.row_laws if decision.row_privacy and decision.row_laws is not decision.laws else None
    demand = Demand(decision.facts, decision.terms, decision.tables, decision.weights, decision.family, of_row, end)
    decision = replace(decision, cells=noise_by_cell(demand, decision.calibration))
    accuracy = decision.terms.accuracy
    return decision if accuracy is None else strongest_by_cell(decision, demand, accuracy)


def _families(terms: PlanOptions, secret: AnySecret) -> list[Family]:
    """Return the families to try: for a pure guarantee Laplace, for others Gaussian too; the smaller error decides.

    For first values Laplace alone: chains forget them, so from some step on Gaussian noise would have the smaller
    error, which an account could not add to its total, and which only a coupling of all rows bounds along a chain.
    """
    if wants_joint(terms.noise):
        return [Gaussian]
    if terms.noise == "auto":
        return [Laplace] if isinstance(terms.example, Pure) or isinstance(secret, Initial) else [Laplace, Gaussian]
    return [read_family(terms.noise, terms.example)]


def _weights(facts: PublicMetadata, shares: Floats, family: Family, terms: PlanOptions) -> Floats:
    """Return the weights; a sum that a row can move always has one, or it would be published without noise."""
    request, functions = facts.request, facts.functions
    rows = _with_absence(request.scenario.secret, functions.rows)
    ranges = functions.folding.of_sums(np.ptp(rows, axis=1))
    exclusive = {tuple(places) for query, places in request.reads if query.exclusive}
    own = distinct(request.places, shares)
    weights = balanced(own, ranges, partial(_need, facts, rows, family, terms), exclusive)
    if not (np.isfinite(weights).all() and (weights[ranges > 0] > 0).all()):
        raise InternalError("A sum that rows move has no weight.", instead="reporting it, with the shares")
    return weights


def _need(  # noqa: PLR0913, PLR0917 - the queries, their noise, and how it is shared
    facts: PublicMetadata, rows: Floats, family: Family, terms: PlanOptions, weights: Floats, share: float
) -> float:
    """Return the scale that weighted sums need with a share of a guarantee, or what is in proportion to it.

    In the l1 norm shares are of ε; in the l2 norm of ε², which is what Gaussian noise adds up. Other noise is
    calibrated for each query, if they are few. Where no other row follows a row, it moves between the pairs of the
    secret.
    """
    secret, priors, noise = facts.request.scenario.secret, facts.request.scenario.priors, family(1.0)
    part = share if noise.norm == 1 else math.sqrt(share)
    known = isinstance(secret, Presence) or (isinstance(secret, ValueSecret) and facts.request.column == secret.column)
    alone = len(set(facts.request.places)) == 1  # its unit does not matter
    least = 0.0
    if not alone and known and not facts.weights.grids and all(prior.any_law for prior in priors):
        laws = facts.laws([tables_of(Independent(), secret, facts.functions)], weights)
        adds_up = isinstance(noise, Gaussian) or (isinstance(noise, Laplace) and isinstance(terms.example, Pure))
        if not adds_up and terms.accuracy is None and len(facts.request.queries) <= _FEW_QUERIES:
            with suppress(Refused):
                least = calibrate_each([(laws, "auto")], terms.example.portion(share), family)[0].noise.scale
        least = least or laws.winf(noise.norm).length / part
    if least > 0:
        return least
    own = facts.functions.folding.weights(weights)  # also where no pair of the secret moves the sums
    return longest_move(rows[own > 0] * own[own > 0, None], noise.norm) / part


def _with_absence(secret: AnySecret, values: Floats) -> Floats:
    """Return functions with a further point where rows come and go: a row that is not there adds nothing."""
    return np.pad(values, ((0, 0), (0, 1))) if isinstance(secret, Presence) else values


@final
@dataclass(frozen=True, eq=False)
class _Search:
    """The search for one family's noise, which suffices for all `laws`; the first are those of the scenario."""

    facts: PublicMetadata
    terms: PlanOptions
    laws: Sequence[Laws]
    weights: Floats
    effort: _Effort

    def calibration(self) -> Calibration:
        """Return the least noise for the guarantee, or for the strongest guarantee that an accuracy allows."""
        if self.terms.accuracy is not None:
            return self._within(self.terms.accuracy)
        promise = self.terms.example
        floor = least_scale(self.facts, self.weights, promise)
        return not_silent(self._least(promise), self.laws, self.effort.bound, floor)

    def _least(self, promise: Guarantee) -> Calibration:
        """Return the least noise for a guarantee; the bound of the effort is that of the scenario's laws."""
        bounds = [self.effort.bound, *(["auto"] * (len(self.laws) - 1))]
        return calibrate_each(list(zip(self.laws, bounds, strict=True)), promise, self.effort.family, self.effort.end)[
            0
        ]

    def _within(self, accuracy: Within) -> Calibration:
        scale, kind, bound = (
            widest(self.facts, self.weights, self.effort.family, accuracy),
            self.terms.kind,
            self.effort.bound,
        )
        noise, others = self.effort.family(scale), self.laws[1:]
        epsilon = max(
            loss(self.laws[0], noise, kind, bound, self.effort.end), *(loss(one, noise, kind) for one in others), 0.0
        )
        if math.isinf(epsilon):
            raise Refused(
                f"No guarantee of this kind holds with errors within {accuracy.error:g}.",
                allowed="larger errors, or another noise",
                instead=f"pf.Within({4 * accuracy.error:g})",
            )
        calibration = self._least(kind.at(epsilon))
        while calibration.noise.scale > scale * (1 + DIGITS):  # a calibration ends a little above the least scale
            epsilon = epsilon * (1 + _CLOSER) + _RTOL
            calibration = self._least(kind.at(epsilon))
        floor = min(least_scale(self.facts, self.weights, kind.at(epsilon)), scale)
        return not_silent(calibration, self.laws, bound, floor)


def _epsilon(decision: Decision) -> float:
    return decision.calibration.guarantee.loss


def _error(decision: Decision) -> float:
    """Return the expected error of a query's sums over what one row can add, of all queries by their shares."""
    errors, request = _errors(decision), decision.request
    shares = read_shares(decision.terms.shares, request.queries)
    return float(sum(share * errors[list(own)].mean() for share, own in zip(shares, request.places, strict=True)))


def _errors(decision: Decision) -> Floats:
    """Return the expected error of each noisy sum over what one row can add."""
    combined, noise, weights = decision.facts.combined, decision.calibration.noise, decision.weights
    if combined is None:
        moved = weights > 0
        ranges, errors = decision.facts.functions.ranges, np.zeros(len(weights))
        errors[moved] = noise.expected_error / weights[moved]
    else:
        ranges = np.ptp(combined.to_sums(decision.facts.functions.at_values.T), axis=0)
        errors = np.array([own.expected_error for own in combined.of_sums(noises_at(noise, weights))])
    return np.where(errors > 0, errors / np.maximum(ranges, 1e-300), 0.0)
