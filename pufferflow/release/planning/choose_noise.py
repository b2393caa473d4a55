"""From a request and its options to noise: balance the sums, derive their laws, calibrate, choose the family."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

import numpy as np

from pufferflow.calibration.calibrate import Calibration, calibrate_each, loss, read_family
from pufferflow.calibration.laws import Laws
from pufferflow.calibration.proof_search import Untried
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import InternalError, Refused, UsageError
from pufferflow.core.progress import OutOfTimeError, until, working
from pufferflow.models.priors.simple import Independent
from pufferflow.models.priors.simulator import Simulator
from pufferflow.models.secret import AnySecret, Initial, Presence, ValueSecret
from pufferflow.noise.base import Family, Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee, GuaranteeFamily, Pure
from pufferflow.queries.request import Request
from pufferflow.release.planning.accuracy import DIGITS, strongest_by_cell, widest
from pufferflow.release.planning.basis import (
    Basis,
    EachSum,
    balanced,
    distinct,
    longest_move,
    proposed,
    read_shares,
)
from pufferflow.release.planning.blocks import (
    Block,
    Demand,
    blocks_of,
    least_scale,
    not_silent,
    row_laws,
    weights_by_kind,
)
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.key_threshold import for_sums
from pufferflow.release.planning.laws_of_sums import laws_of
from pufferflow.release.planning.options import PlanOptions, Within, heavy_tails, wants_joint
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.sum_functions import on_interval, tables_of

_CLOSER = 1e-7
_FEW_QUERIES = 32
_RTOL = 1e-12


def choose_noise(request: Request, options: PlanOptions) -> CalibratedNoise:
    """Return the least noise for a guarantee or, given an accuracy, the strongest guarantee that allows it.

    All public columns that the noise depends on are read here.
    """
    request = request.with_rows_counted
    _check(request)
    public, end = (
        PublicMetadata(request),
        None if options.seconds is None else time.monotonic() + options.seconds,
    )
    public.weights.check()
    tried = _Candidates(options, end)
    measured = _error if options.accuracy is None else _epsilon
    with working("planning"):
        for demand in _demands(public, options, end):
            tried.add(demand)
        if not tried.found:
            raise tried.refused[0]
        with suppress(OutOfTimeError), until(end):
            tried.found += _with_joint_noise(tried.found, options, end)
        best = _with_untried(min(tried.found, key=measured), tried.late)
        with suppress(OutOfTimeError), until(end):
            best = _by_cell(best, end)
    return best


def _check(request: Request) -> None:
    if not request.queries:
        raise UsageError(
            "The batch has no query.",
            allowed="a batch with one or more queries",
            instead='.private_sum("level")',
        )
    if any(isinstance(prior, Simulator) for prior in request.scenario.priors):
        raise Refused(
            "A simulator draws answers of one statistic, and nothing shows that this batch computes the same.",
            allowed="other priors in a batch",
            instead="pf.calibrate(pf.laws(scenario, statistic), guarantee), for one statistic",
        )


def _demands(public: PublicMetadata, options: PlanOptions, end: float | None) -> Iterator[Demand]:
    """Return what noise may be made for: each family with equal shares, then with weights by kinds of rows."""
    request, scenario = public.request, public.request.scenario
    of_sums = _of_sums(options) if request.discovers else options
    shares = read_shares(options.shares, request.queries)
    tables = [tables_of(prior, scenario.secret, public.functions) for prior in scenario.priors]
    equal = list[Demand]()
    for family in [*_families(of_sums, scenario.secret), *heavy_tails(of_sums, request)]:
        basis = Basis(EachSum(), public.functions, _weights(public, shares, family, of_sums))
        equal.append(Demand(public, of_sums, tables, basis, family, end=end))
    yield from equal
    for demand in equal:
        weights = None
        with suppress(OutOfTimeError), until(end):
            weights = weights_by_kind(demand)
        if weights is not None:
            yield replace(demand, basis=demand.basis.weighted(weights))


@final
@dataclass
class _Candidates:
    """The noises that were found, the refusals, and the bounds for which there was no time."""

    options: PlanOptions
    end: float | None
    found: list[CalibratedNoise] = field(default_factory=list[CalibratedNoise])
    refused: list[Refused] = field(default_factory=list[Refused])
    late: list[Untried] = field(default_factory=list[Untried])

    def add(self, demand: Demand) -> None:
        """Calibrate noise for a demand: the first whatever time that takes, since something has to be found."""
        try:
            with until(self.end if self.found else None):
                self.found.append(
                    _calibrated(replace(demand, beat=self._beat(demand)), self.options)
                )
        except Refused as refusal:
            self.refused.append(refusal)
        except OutOfTimeError as over:
            self.late += [Untried(bound, 1.0, late=True) for bound in over.args]

    def _beat(self, demand: Demand) -> float:
        """Return the scale with the least error found; with several sums joint noise may need a larger one."""
        if (
            not self.found
            or self.options.accuracy is not None
            or len(demand.public.request.measures) > 1
        ):
            return math.inf
        return min(map(_error, self.found)) / max(
            _error_of(demand, demand.family(1.0)), math.ulp(0.0)
        )


def _with_untried(noise: CalibratedNoise, late: Sequence[Untried]) -> CalibratedNoise:
    """Return noise whose calibration names the bounds for which there was no time."""
    if not late:
        return noise
    (block,), calibration = noise.blocks, noise.calibration
    calibration = replace(calibration, untried=(*calibration.untried, *late))
    return replace(noise, blocks=(replace(block, calibration=calibration),))


def _calibrated(demand: Demand, options: PlanOptions) -> CalibratedNoise:
    """Return the noise of one family; the options of the demand are those of the sums, keys may take a part."""
    public, basis = demand.public, demand.basis
    laws = laws_of(public, demand.tables, basis.weights)
    of_row = row_laws(public, basis, laws)
    enough_for = (
        [laws] if of_row is None or of_row is laws or not options.row_privacy else [laws, of_row]
    )
    block = Block(slice(None), laws, _Search(demand, enough_for).calibration())
    return CalibratedNoise(public, options, demand.tables, basis, demand.family, of_row, (block,))


def _of_sums(options: PlanOptions) -> PlanOptions:
    """Return the options for noisy sums, where the keys of the answer take a part of the guarantee."""
    promise = options.promise
    kept = (
        for_sums(promise)
        if isinstance(promise, Guarantee)
        else GuaranteeFamily(for_sums(promise.example))
    )
    return replace(options, promise=kept)


def _with_joint_noise(
    found: Sequence[CalibratedNoise], options: PlanOptions, end: float | None
) -> list[CalibratedNoise]:
    """Return correlated Gaussian noise, where what one row moves says that it has less error (M28).

    Every answer has to be a sum times a public factor, since the errors of other answers depend on correlations. The
    values have to be listed: on an interval the movement by rounding is known for each sum alone. Unless the options
    require more, only the bound of independent noise is tried, which takes no longer.
    """
    alone = min(
        (one for one in found if isinstance(one.calibration.noise, Gaussian)),
        key=_error,
        default=None,
    )
    wanted = options.noise == "auto" or wants_joint(options.noise)
    if alone is None or not wanted or not _may_be_combined(alone):
        return []
    public, secret = alone.public, alone.request.scenario.secret
    proposal = proposed(secret, _with_absence(secret, public.functions.at_values), alone.basis)
    if proposal is None or (
        options.accuracy is None and _error(alone) * proposal.share >= min(map(_error, found))
    ):
        return []
    bound = options.bound if wants_joint(options.noise) else alone.calibration.bound
    tables = proposal.tables(alone.tables)
    demand = Demand(
        public, replace(options, bound=bound), tables, proposal.basis, Gaussian, end=end
    )
    try:
        return [_calibrated(demand, options)]
    except Refused:
        return []


def _may_be_combined(noise: CalibratedNoise) -> bool:
    """Return whether all sums are of listed values, each by itself, and alone make the answers."""
    request = noise.request
    weighted = any(
        measure is not None and measure.values.weight is not None for measure in request.measures
    )
    if request.discovers or on_interval(request) or weighted or noise.public.weights.grids:
        return False
    tables = [one for own in noise.tables for one in own]
    linear = all(query.linear for query in request.queries)
    return linear and all(
        one.rounding is None and one.values is noise.public.functions.at_values for one in tables
    )


def _by_cell(noise: CalibratedNoise, end: float | None) -> CalibratedNoise:
    """Return less noise in the cells that need less."""
    of_row = noise.row_laws if noise.row_privacy and noise.row_laws is not noise.laws else None
    demand = Demand(
        noise.public, noise.options, noise.tables, noise.basis, noise.family, of_row, end
    )
    noise = replace(noise, blocks=blocks_of(demand, noise.blocks[0]))
    accuracy = noise.options.accuracy
    return noise if accuracy is None else strongest_by_cell(noise, demand, accuracy)


def _families(options: PlanOptions, secret: AnySecret) -> list[Family]:
    """Return the families to try: for a pure guarantee Laplace, for others Gaussian too; the smaller error decides.

    For first values Laplace alone. Chains forget them, so from some step on Gaussian noise would have the smaller
    error. But along a chain only a coupling of all rows bounds its loss, and an account could not add it to its total.
    """
    if wants_joint(options.noise):
        return [Gaussian]
    if options.noise == "auto":
        return (
            [Laplace]
            if isinstance(options.example, Pure) or isinstance(secret, Initial)
            else [Laplace, Gaussian]
        )
    return [read_family(options.noise, options.example)]


def _weights(
    public: PublicMetadata, shares: Floats, family: Family, options: PlanOptions
) -> Floats:
    """Return the weights; a sum that a row can move always has one, or it would be published without noise."""
    request, functions = public.request, public.functions
    rows = _with_absence(request.scenario.secret, functions.rows)
    ranges = functions.folding.of_sums(np.ptp(rows, axis=1))
    exclusive = {tuple(places) for query, places in request.reads if query.exclusive}
    own = distinct(request.places, shares)
    weights = balanced(own, ranges, partial(_need, public, rows, family, options), exclusive)
    if not (np.isfinite(weights).all() and (weights[ranges > 0] > 0).all()):
        raise InternalError(
            "A sum that rows move has no weight.", instead="reporting it, with the shares"
        )
    return weights


def _need(  # noqa: PLR0913, PLR0917 - the queries, their noise, and how it is shared
    public: PublicMetadata,
    rows: Floats,
    family: Family,
    options: PlanOptions,
    weights: Floats,
    share: float,
) -> float:
    """Return the scale that weighted sums need with a share of a guarantee, or what is in proportion to it.

    In the l1 norm shares are of ε; in the l2 norm of ε², which is what Gaussian noise adds up. Other noise is
    calibrated for each query, if they are few. Where no other row follows a row, it moves between the pairs of the
    secret.
    """
    secret, priors, noise = (
        public.request.scenario.secret,
        public.request.scenario.priors,
        family(1.0),
    )
    part = share if noise.norm == 1 else math.sqrt(share)
    known = isinstance(secret, Presence) or (
        isinstance(secret, ValueSecret) and public.request.column == secret.column
    )
    alone = len(set(public.request.places)) == 1  # its unit does not matter
    least = 0.0
    if not alone and known and not public.weights.grids and all(prior.any_law for prior in priors):
        laws = laws_of(public, [tables_of(Independent(), secret, public.functions)], weights)
        adds_up = isinstance(noise, Gaussian) or (
            isinstance(noise, Laplace) and isinstance(options.example, Pure)
        )
        if not adds_up and options.accuracy is None and len(public.request.queries) <= _FEW_QUERIES:
            with suppress(Refused):
                least = calibrate_each([(laws, "auto")], options.example.portion(share), family)[
                    0
                ].noise.scale
        least = least or laws.winf(noise.norm).length / part
    if least > 0:
        return least
    own = public.functions.folding.weights(
        weights
    )  # also where no pair of the secret moves the sums
    return longest_move(rows[own > 0] * own[own > 0, None], noise.norm) / part


def _with_absence(secret: AnySecret, values: Floats) -> Floats:
    """Return functions with a further point where rows come and go: a row that is not there adds nothing."""
    return np.pad(values, ((0, 0), (0, 1))) if isinstance(secret, Presence) else values


@final
@dataclass(frozen=True, eq=False)
class _Search:
    """The search for one family's noise, which suffices for all `laws`; the first are those of the scenario."""

    demand: Demand
    laws: Sequence[Laws]

    def calibration(self) -> Calibration:
        """Return the least noise for the guarantee, or for the strongest guarantee that an accuracy allows."""
        demand, accuracy = self.demand, self.demand.options.accuracy
        if accuracy is not None:
            return self._within(accuracy)
        promise = demand.options.example
        floor = least_scale(demand.public, demand.basis, promise)
        return not_silent(self._least(promise), self.laws, demand.options.bound, floor)

    def _least(self, promise: Guarantee) -> Calibration:
        """Return the least noise for a guarantee; the bound of the options is that of the scenario's laws."""
        demand = self.demand
        bounds = [demand.options.bound, *(["auto"] * (len(self.laws) - 1))]
        return calibrate_each(
            list(zip(self.laws, bounds, strict=True)),
            promise,
            demand.family,
            demand.end,
            demand.beat,
        )[0]

    def _within(self, accuracy: Within) -> Calibration:
        demand, kind, bound = self.demand, self.demand.options.kind, self.demand.options.bound
        scale = widest(demand.public, demand.basis, demand.family, accuracy)
        noise, others = demand.family(scale), self.laws[1:]
        epsilon = max(
            loss(self.laws[0], noise, kind, bound, demand.end),
            *(loss(one, noise, kind) for one in others),
            0.0,
        )
        if math.isinf(epsilon):
            raise Refused(
                f"No guarantee of this kind holds with errors within {accuracy.error:g}.",
                allowed="larger errors, or another noise",
                instead=f"pf.Within({4 * accuracy.error:g})",
            )
        calibration = self._least(kind.at(epsilon))
        while calibration.noise.scale > scale * (
            1 + DIGITS
        ):  # a calibration ends a little above the least scale
            epsilon = epsilon * (1 + _CLOSER) + _RTOL
            calibration = self._least(kind.at(epsilon))
        floor = min(least_scale(demand.public, demand.basis, kind.at(epsilon)), scale)
        return not_silent(calibration, self.laws, bound, floor)


def _epsilon(noise: CalibratedNoise) -> float:
    return noise.calibration.guarantee.loss


def _error(noise: CalibratedNoise) -> float:
    return _error_of(noise, noise.calibration.noise)


def _error_of(found: CalibratedNoise | Demand, noise: Noise) -> float:
    """Return the expected error of a query's sums over what one row can add, of all queries by their shares."""
    errors, request = found.basis.expected_errors(noise), found.public.request
    shares = read_shares(found.options.shares, request.queries)
    return float(
        sum(
            share * errors[list(own)].mean()
            for share, own in zip(shares, request.places, strict=True)
        )
    )
