"""Rows published one by one: the column, the channel, and the loss under a scenario from the channel's ε (M35).

The exposure of a mechanism is what it reveals about one row given all others, and it bounds the loss. If rows are
independent, the loss is ε itself. Along chains and trees it is the result of messages, as for noisy sums with these
exposures. Under any prior it is at most k·ε if a group has k published rows. The least of these that apply counts. For
the secret's own column it is never below ε: each release is differentially private for one row, too.

No row is read here. The noise behind a plan has the exposures of the channel: those of counts of each value with
Laplace noise of scale 1/ε, where each of the two counts that differ moves by half. So an account adds them to those of
other releases (M35). Only the pure losses of the two are the same, so no rule that uses other losses applies.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self, cast, final

import numpy as np
from msgspec import structs

from pufferflow.calibration.bound import Bound
from pufferflow.calibration.calibrate import Calibration
from pufferflow.calibration.chain_bounds import Messages
from pufferflow.calibration.distance_bounds import Group
from pufferflow.calibration.laws import DependentRows, Place, Witness, read_laws
from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import Refused, UsageError, escape_controls
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.paths import local_path
from pufferflow.core.rounding import agree, float_above, largest, smallest
from pufferflow.core.suggestions import HelpfulAttributes
from pufferflow.core.validate import quoted
from pufferflow.distributions.coupling import Certainty
from pufferflow.engines.row_by_row import RowByRow
from pufferflow.models.domain import Domain, Interval, Label
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.secret import AnySecret, Derived, Presence, Secret, ValueSecret
from pufferflow.noise.channel import Channel
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.published.cost import Cost
from pufferflow.queries.expressions.compiler import indicators
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.local.mechanisms import MOST_LABELS, check_labels, randomized_response
from pufferflow.release.local.release import LocalRelease, RowsDestination
from pufferflow.release.mechanisms.base import (
    Description,
    DrawnAnswers,
    Explanation,
    PrivateReader,
    SumsMechanism,
    reservation_mismatch,
)
from pufferflow.release.plan import BasePlan
from pufferflow.release.planning.basis import Basis, EachSum
from pufferflow.release.planning.blocks import Block
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.laws_of_sums import laws_of
from pufferflow.release.planning.options import PlanOptions, read_promise
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.sum_functions import Tables, tables_of
from pufferflow.release.publish import CostAccount, publish

HALF = 0.5
"""The weight of each of a row's two counts that differ between two values: together they move by 1."""
_LARGER = 1 + 2.0**-40
_CLOSE_LOSS = 1e-7
_DIGITS = 6
_LONG = 5e7
"""The number of entries from which on messages are coarse: about a second for each ε that is tried."""


@final
@dataclass(frozen=True, eq=False)
class RowLoss:
    """A loss, the bound that proves it, and the costliest pair of secrets."""

    value: float
    bound: Bound
    witness: Witness


@final
@dataclass(frozen=True, eq=False)
class RowLosses:
    """The loss under a request's scenario if each selected row goes through a channel with some ε."""

    public: PublicMetadata

    @property
    def values(self) -> Floats:
        """The counts of every value, at the points of the domain."""
        return self.public.functions.at_values

    @cached_property
    def basis(self) -> Basis:
        """These counts and their weights."""
        return Basis(
            EachSum(), self.public.functions, np.full(len(self.public.request.measures), HALF)
        )

    @cached_property
    def tables(self) -> list[list[Tables]]:
        """For each prior the counts as the planner represents them."""
        scenario = self.public.request.scenario
        return [
            tables_of(prior, scenario.secret, self.public.functions) for prior in scenario.priors
        ]

    @cached_property
    def _beliefs(self) -> "list[tuple[Sequence[Tables], int, _Walks | None]]":
        """For each prior its counts, the most published rows of a group, and the walks along its rows."""
        return [(tables, self._rows(tables), self._walks(tables)) for tables in self.tables]

    def of(self, epsilon: float) -> RowLoss:
        """Return the loss under the worst prior, rounded up."""
        return max(
            (self._under(*belief, epsilon) for belief in self._beliefs), key=lambda loss: loss.value
        )

    def largest_epsilon(self, loss: float, most: float) -> float:
        """Return an ε, `most` or less, whose loss is at most a given one: near the largest, in few digits.

        Losses grow with exposures, and are at most as many times ε as a group has rows (M36).
        """
        if self.of(most).value <= loss:
            return most
        rows = max(rows for _, rows, _ in self._beliefs)
        least = loss / max(rows, 1) * (1 - _CLOSE_LOSS)
        inverse = smallest(
            lambda inverse: self.of(1 / inverse).value - loss, 1 / least, _CLOSE_LOSS
        )
        return _rounded_down(1 / inverse)

    def _under(
        self, tables: Sequence[Tables], rows: int, walks: "_Walks | None", epsilon: float
    ) -> RowLoss:
        """Return the loss under one prior."""
        secret = self.public.request.scenario.secret
        named: Any = secret.value_pairs()[0] if isinstance(secret, ValueSecret) else None
        place = Place(len(self.values), tables[0].prior, named, 0)
        group = RowLoss(float_above(max(rows, 1) * Fraction(epsilon)), Group(), place)
        if walks is None:
            return group
        try:
            walked = walks.loss(epsilon)
        except Refused:
            return group
        return min(group, walked, key=lambda loss: loss.value)

    def _rows(self, tables: Sequence[Tables]) -> int:
        """Return how many published rows a group may have; independent rows are each a group."""
        prior = tables[0].prior
        if prior.independent_rows:
            return 1
        return max(
            (pattern.selected for pattern in self.public.patterns(prior).distinct), default=0
        )

    def _walks(self, tables: Sequence[Tables]) -> "_Walks | None":
        """Return the walks along the chains or trees of a prior; None for other priors."""
        of_secret = tells_of_itself(self.public.request.scenario.secret, self.public.request.column)
        # a row alone reveals its own value by ε; walks of a mixture follow whole answers, not rows
        if (of_secret and self._rows(tables) <= 1) or isinstance(tables[0].prior, GaussianMixture):
            return None
        try:
            pieces = read_laws(laws_of(self.public, [tables], self.basis.weights))
            coarse = any(
                laws.size.messages > _LONG and math.isfinite(laws.size.coarse) for laws in pieces
            )
            walks = [walk.coarse() if coarse else walk for laws in pieces for walk in laws.walks()]
        except Refused:
            return None
        return _Walks(walks, Messages(coarse=coarse), of_secret)


@final
@dataclass(frozen=True, eq=False)
class _Walks:
    """The walks along correlated rows, and the bound that they are."""

    walks: Sequence[DependentRows]
    bound: Messages
    of_secret: bool
    """Whether the published column is the secret's: then its own row loses ε, whatever the prior."""

    def loss(self, epsilon: float) -> RowLoss:
        """Return the largest loss."""
        value, witness = max(
            (walk.loss(noise_like(epsilon)) for walk in self.walks), key=lambda found: found[0]
        )
        return RowLoss(max(value, epsilon) if self.of_secret else value, self.bound, witness)


def noise_like(epsilon: float) -> Laplace:
    """Return the noise that exposes a row to sums of its counts a little more than a channel with this ε does."""
    return Laplace(1 / (epsilon * _LARGER))


def _rounded_down(number: float) -> float:
    short = float(f"{number:.{_DIGITS}g}")
    return (
        short if short <= number else float(f"{number * (1 - 10.0 ** (1 - _DIGITS)):.{_DIGITS}g}")
    )


def tells_of_itself(secret: AnySecret, column: str | None) -> bool:
    """Return whether a published column is the secret's own: then a row's draw loses all of its ε about it."""
    own = secret.name if isinstance(secret, Derived) else getattr(secret, "column", None)
    return own is not None and column == own


COMPOSITION: Final = "each row through a channel of its own, by what it reveals about the row (M35)"
_MOST_EPSILON: Final = 20.0
_CLOSE: Final = 1e-6
_TRIES: Final = 8


@final
@dataclass(frozen=True)
class PerturbedColumn(Query):
    """A column of which every row is published through a channel; `measures` are the rows with each value."""

    linear = False
    channel: str = ""
    """Its labels and probabilities; if its ε is to be found, those that it has at ε = 1."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class LocalBatch(InNotebooks, HelpfulAttributes):
    """A column to be published row by row; `plan` finds the channel for a guarantee, and `release` publishes.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"])
    >>> rows = pf.protect(pl.DataFrame({"day": [1, 1, 2], "level": [0, 3, 2]}), scenario).private_local("level")
    >>> rows.release(epsilon=1.0).frame.collect().columns
    ['day', 'level']
    """

    request: Request
    column: str
    channel: Channel
    given: bool = True
    """Whether the caller chose the channel, which is then used as it is if no guarantee is requested."""

    def plan(
        self, guarantee: Guarantee | None = None, *, epsilon: float | None = None
    ) -> "LocalPlan":
        """Return a plan: the channel with the largest ε that keeps a guarantee, or the given channel as it is.

        The search is among channels of the mechanism's kind. Reads public columns only.

        >>> import polars as pl, pufferflow as pf
        >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
        >>> batch = pf.protect(pl.DataFrame({"hour": range(24), "on": [0, 1] * 12}), scenario)
        >>> plan = batch.private_local("on").plan(pf.Pure(1.0))
        >>> round(plan.channel.epsilon, 4), plan.guarantee
        (0.1227, Pure(epsilon=1.0))
        """
        promised = None
        if (
            guarantee is not None or epsilon is not None or not self.given
        ):  # otherwise the channel is given
            promised = cast(Guarantee, read_promise(guarantee, epsilon, None))
        # a channel that is to be found is named by one of its kind
        known = (
            self.channel.at(1.0) if promised is not None and self.channel.family else self.channel
        )
        asking = repr(
            (
                known.inputs,
                known.outputs,
                [[str(one) for one in row] for row in known.probabilities],
            )
        )
        measures = tuple(
            values for _, values in indicators(self.column, self.request.domains[self.column])
        )
        words = f"every row of {self.column}, each through a channel of its own"
        request = self.request.asking(PerturbedColumn(self.column, measures, words, asking))
        losses = RowLosses(PublicMetadata(request))
        if promised is None:
            loss = losses.of(self.channel.epsilon).value
            return _plan(losses, self.channel, Pure(_few_digits(loss)))
        channel = self._keeping(losses, promised)
        return _plan(losses, channel, promised)

    def release(
        self,
        path: str | Path | None = None,
        guarantee: Guarantee | None = None,
        *,
        epsilon: float | None = None,
        account: CostAccount | None = None,
        id: str | None = None,  # noqa: A002 - the public name
    ) -> LocalRelease:
        """Plan and release in one step."""
        return self.plan(guarantee, epsilon=epsilon).release(path, account, id)

    def _keeping(self, losses: RowLosses, promise: Guarantee) -> Channel:
        """Return the channel with the largest ε that keeps a guarantee; a given one without a family stays as it is."""
        pure = _pure_for(promise)
        if self.channel.family is None:
            own = losses.of(self.channel.epsilon).value
            if own > pure:
                raise Refused(
                    f"The channel has epsilon {self.channel.epsilon:.6g}, and its loss in this scenario is {own:.6g}.",
                    allowed=f"a loss of at most {pure:.6g}, for the guarantee",
                    instead="pf.local.randomized_response(labels, epsilon=1.0), whose epsilon a plan finds",
                )
            return self.channel
        epsilon = losses.largest_epsilon(pure, _MOST_EPSILON)
        for _ in range(_TRIES):
            channel = self.channel.at(epsilon)
            if losses.of(channel.epsilon).value <= pure:
                return channel
            epsilon *= 1 - _CLOSE
        raise Refused(
            f"The guarantee leaves only epsilon {epsilon:g} for each row, too little for a channel to reveal anything.",
            allowed="a weaker guarantee, or groups of fewer rows",
            instead="pf.Pure(1.0)",
        )

    def __repr__(self) -> str:
        """Show the column, the channel and the scenario."""
        return escape_controls(
            f"<Perturbation of {self.column!r} by {self.channel!r}; {self.request.scenario!r}>",
            one_line=True,
        )


@final
@dataclass(frozen=True, eq=False)
class LocalChannel(SumsMechanism):
    """A channel through which every row of a column goes by itself."""

    channel: Channel

    @cached_property
    def row_by_row(self) -> RowByRow:
        """The rows to publish."""
        (query,) = self.request.queries
        return row_by_row(self.request, query.name, self.channel)

    def compute_cost(self) -> Cost:
        known = super().compute_cost()
        return structs.replace(
            known, shape=structs.replace(known.shape, coupled_movements={}, row_by_row=True)
        )

    def describe(self) -> Description:
        secret = self.request.scenario.secret
        of_row = isinstance(secret, Secret) and self.request.column == secret.column
        known = self.described(
            sensitivity=self.channel.epsilon,
            sensitivity_unit="is the epsilon of each row's own channel",
            composition=COMPOSITION,
            ordinary=Pure(self.channel.epsilon) if of_row else None,
        )
        return replace(
            known,
            notes=(f"the perturbed column is undone by pf.local: {self.channel!r}", *known.notes),
        )

    def explain(self) -> Explanation:
        channel, bound, loss = (
            self.channel,
            self.noise.calibration.bound,
            self.noise.calibration.loss,
        )
        values = {
            "channel": repr(channel),
            "composition": COMPOSITION,
            "bound": repr(bound),
            "loss": f"{loss:.6g}",
        }
        return Explanation("local_channel", values)

    def with_cost(self, reserved: Cost) -> Self:
        """Return the channel; refuse a cost that differs from its own by more than rounding."""
        exposed = Fraction(1) / Fraction(reserved.shape.noise.scale)
        if not agree(self.cost.as_known_to(reserved), reserved) or exposed < Fraction(
            self.channel.epsilon
        ):
            raise reservation_mismatch()
        return self

    def draw(self, reading: PrivateReader) -> DrawnAnswers:
        """Return the rows in memory."""
        engine = self.request.engine
        return DrawnAnswers(
            reading.read(lambda _: self.row_by_row.in_memory(engine), lambda frame: frame.height)
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class LocalPlan(BasePlan[LocalChannel]):
    """A channel for every row of a column, and the guarantee that it keeps under the scenario about all rows together.

    Accounts accept it as a plan: `account.remaining(plan)`, `account.after(plan)`.
    """

    @property
    def channel(self) -> Channel:
        """The channel of each row."""
        return self.mechanism.channel

    @property
    def loss(self) -> float:
        """The pure loss proven for the channel under the scenario."""
        return self.mechanism.noise.calibration.loss

    def release(
        self,
        path: str | Path | None = None,
        account: CostAccount | None = None,
        id: str | None = None,  # noqa: A002 - the public name
    ) -> LocalRelease:
        """Read the private rows once and publish them: to a Parquet file, row by row, or without a path in memory.

        Every release draws anew, and a reader can average several. So with an account each one is charged, once. The
        same id returns the same rows. A file appears whole and is never overwritten; its order reveals nothing about
        the order of the source.
        """
        if hasattr(path, "reserve"):
            raise UsageError(
                "The first argument is an account, where a path is expected.",
                allowed="a path, or None for rows in memory; then the account",
                instead="plan.release(account=account)",
            )
        place = None if path is None else local_path(path, "The place of the rows")
        return publish(
            self, RowsDestination(self.channel, self.mechanism.row_by_row, place), account, id
        )

    def _mechanism_in_words(self) -> str:
        return f"; {self.channel!r}"


def local_batch(request: Request, column: str, domain: Domain, mechanism: object) -> LocalBatch:
    """Return the publication of a column row by row; refuse what the rows or the scenario do not allow."""
    _check(request, column, domain)
    channel = (
        randomized_response(domain.points, 1.0)
        if mechanism is None
        else _read_channel(mechanism, column, domain)
    )
    row_by_row(request, column, channel).check(request.engine)
    return LocalBatch(request, column, channel, given=mechanism is not None)


def row_by_row(request: Request, column: str, channel: Channel) -> RowByRow:
    """Return the rows to publish: public columns, those of groups and steps first, and the perturbed one."""
    scenario, domain = request.scenario, request.domains[column]
    first = [*scenario.within, *([scenario.order_by] if scenario.order_by is not None else [])]
    keep = tuple(
        dict.fromkeys(name for name in (*first, *request.public) if name in request.schema)
    )
    outputs = cast("tuple[Label | None, ...]", channel.outputs)
    return RowByRow(
        request.selection,
        keep,
        column,
        domain,
        request.missing(column),
        outputs,
        _draw(channel, domain),
    )


def _draw(channel: Channel, domain: Domain) -> Callable[[Indices], Indices]:
    """Return the draw from places in the domain, with the operating system's random bits."""
    places = np.array([channel.inputs.index(point) for point in domain.points], dtype=np.intp)
    return lambda values: channel.draw(places[values])


def _check(request: Request, column: str, domain: Domain) -> None:
    secret = request.scenario.secret
    if request.queries or request.by:
        raise UsageError(
            "private_local after a query or group_by: it publishes single rows.",
            allowed="only filter and with_columns before it",
            instead=f"pf.protect(frame, scenario).private_local({quoted(column)})",
        )
    if isinstance(secret, Presence):
        raise Refused(
            "The scenario hides whether rows are there, and publishing them one by one would reveal it.",
            allowed="a scenario with pf.Secret, in which the existence of rows is public",
            instead=f"private_histogram({quoted(column)})",
        )
    if isinstance(domain, Interval):
        raise Refused(
            f"The values of {quoted(column)} fill an interval, and a channel needs labels.",
            allowed="a list of values, or classes",
            instead="pf.Bins(edges, values) as the domain",
        )
    if not 2 <= len(domain.points) <= MOST_LABELS:
        raise Refused(
            f"The domain has {len(domain.points)} values: too many or too few for a channel.",
            allowed=f"2 to {MOST_LABELS} values",
            instead="wider pf.Bins",
        )


def _read_channel(given: object, column: str, domain: Domain) -> Channel:
    """Return a channel that accepts every value of the domain, and whose outputs exclude no value."""
    instead = "mechanism=pf.local.randomized_response([0, 1, 2, 3], epsilon=1.0)"
    if not isinstance(given, Channel):
        raise UsageError(
            f"The mechanism is {quoted(given)}.",
            allowed="a channel of pf.local, or None",
            instead=instead,
        )
    unknown = [point for point in domain.points if point not in given.inputs]
    if unknown or len(given.inputs) > len(domain.points):
        which = (
            f"it has no input {quoted(unknown[0])}"
            if unknown
            else "it has inputs that the domain does not have"
        )
        raise UsageError(
            f"The channel does not fit the domain: {which}.",
            allowed="a channel whose inputs are the values of the domain",
            instead=instead,
        )
    if given.reads not in {(), (column,)}:
        raise UsageError(
            f"The channel reads {', '.join(map(repr, given.reads))}.",
            allowed=f"a channel of {column!r}, or of no column by name",
            instead=f"mechanism=channel.reading({column!r})",
        )
    check_labels(given.outputs, "outputs", at_least=1)
    if given.epsilon == math.inf:
        raise Refused(
            "Some output of the channel is possible for one value but not for another, so it would reveal the value.",
            allowed="channels with a finite epsilon",
            instead=instead,
        )
    return given


def _plan(losses: RowLosses, channel: Channel, promise: Guarantee) -> LocalPlan:
    """Return the plan of a channel, with noise that exposes rows a little more than it does."""
    noise, loss, public, basis = (
        noise_like(channel.epsilon),
        losses.of(channel.epsilon),
        losses.public,
        losses.basis,
    )
    calibration = Calibration(
        noise,
        promise,
        loss.value,
        channel.epsilon,
        loss.witness,
        Certainty.UPPER_BOUND,
        loss.bound,
        by_movement=False,
    )
    block = Block(slice(None), laws_of(public, losses.tables, basis.weights), calibration)
    options = PlanOptions(promise, Laplace, loss.bound)
    return LocalPlan(
        LocalChannel(
            CalibratedNoise(public, options, losses.tables, basis, Laplace, None, (block,)), channel
        )
    )


def _pure_for(promise: Guarantee) -> float:
    """Return the largest pure loss from which a guarantee follows (M29)."""
    if isinstance(promise, Pure):
        return promise.epsilon
    return largest(lambda epsilon: promise.follows_from(Pure(epsilon)), 2 * _MOST_EPSILON)


def _few_digits(loss: float) -> float:
    """Return a loss rounded up to few digits, on which machines agree."""
    return max(float(f"{loss * (1 + _CLOSE):.9g}"), loss)
