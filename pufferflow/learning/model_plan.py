"""A planned model: the proofs that apply under its prior, its noise, guarantee, cost and certificate.

Under every prior the noise may hide the movement along a coupling (`Coupling`). Along a chain it may instead hide the
movement of a single row by fewer deviations. That hides all rows that depend on it too (M37, M38). The least noise
counts.

The movement of a model between two secrets is measured along one coupling of whole data sets. Its unit is the deviation
of one Gaussian, or ε for Laplace noise. So an account adds it to other releases along that coupling (M24).
"""

import abc
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self, final

import numpy as np
import polars as pl

from pufferflow.accounting.rules.single_rows import chained_rows
from pufferflow.calibration.chain_bounds import ROW_BY_ROW, ChainedRows
from pufferflow.core.arrays import Flags, Floats
from pufferflow.core.errors import Refused
from pufferflow.core.rounding import agree
from pufferflow.distributions.coupling import Certainty
from pufferflow.engines.groups import not_told_apart
from pufferflow.engines.model_rows import ModelRows, PublicOrder, without_rows
from pufferflow.learning.displacements import GROUP, Coupling, coupling_of
from pufferflow.learning.iteration import deviations_of, pure_of
from pufferflow.learning.model_columns import (
    ModelColumns,
    RowsOfTable,
    ScaledRows,
    value_handling_of,
)
from pufferflow.models.priors.markov import ChainPrior
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Initial, Secret, ValueSecret
from pufferflow.noise.base import Noise
from pufferflow.noise.gaussian import Gaussian
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.privacy.tradeoff import Gdp
from pufferflow.published.certificate import AskedQuery, NoisySum
from pufferflow.published.cost import Cost, Rows, Shape, digest_of
from pufferflow.published.release import Release
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.mechanisms.base import (
    Description,
    DrawnAnswers,
    Explanation,
    Mechanism,
    PrivateReader,
    reservation_mismatch,
)
from pufferflow.release.plan import BasePlan
from pufferflow.release.planning.calibrated_noise import SCHEME
from pufferflow.release.planning.selected_rows import regions
from pufferflow.release.publish import CostAccount, ReleaseInMemory, publish

_LONGEST = 2**53


@final
@dataclass(frozen=True, eq=False)
class Carried:
    """The scale of the noise that a proof needs under a prior, and the coupling along which movements count."""

    scale: float
    proof: str
    coupling: Coupling


@final
@dataclass(frozen=True, eq=False)
class ModelBelief:
    """The coupling of whole data sets under one prior, that of a single row, and the chain, if rows are along one."""

    coupling: Coupling
    single: Coupling
    chained: ChainedRows | None = None

    @property
    def exact(self) -> bool:
        """Whether the proofs use everything that is known about the prior."""
        return self.coupling.exact or self.chained is not None

    def carried(
        self,
        length: Callable[[Coupling], float],
        promise: Guarantee,
        *,
        pure: bool,
        spare: float = 0.0,
    ) -> Carried:
        """Return the proof that needs the least noise; `length` is the movement along a coupling at noise of scale 1.

        Lengths are deviations of Gaussian noise, or ε of Laplace noise if `pure`. The share `spare` of every budget
        stays unused.
        """
        group = length(self.coupling)
        ways = [
            (
                pure_of(promise) if pure else deviations_of(promise),
                self.coupling.proof,
                self.coupling,
            )
        ]
        if self.chained is not None and group > 0:
            ways.append(
                (
                    *self._of_rows(self.chained, promise, group / length(self.single), pure=pure),
                    self.single,
                )
            )
        possible = [
            Carried(length(coupling) / (budget - spare), proof, coupling)
            for budget, proof, coupling in ways
            if budget > spare
        ]
        if not possible:
            raise Refused(
                "The guarantee is so strong that rounding to a grid uses all of it.",
                allowed="weaker guarantees",
                instead="fewer features; for a descent fewer batches or passes",
            )
        return min(possible, key=lambda one: one.scale)

    @staticmethod
    def _of_rows(
        rows: ChainedRows, promise: Guarantee, group: float, *, pure: bool
    ) -> tuple[float, str]:
        """Return the largest movement of a single row, and the proof, if a group moves `group` times as far."""
        if pure:
            return rows.pure_row(pure_of(promise)), ROW_BY_ROW
        return rows.deviations(promise, group)


def beliefs_of(
    scenario: Scenario, columns: Sequence[str], order: PublicOrder
) -> tuple[ModelBelief, ...]:
    """Return the couplings under each prior, in order, for all rows of a table in a public order."""
    hidden = np.array([float(name in scenario.sensitive) for name in columns])
    return tuple(
        ModelBelief(
            single=Coupling(None, hidden, "one row", single=True),
            chained=_chained(prior, scenario, order) if isinstance(prior, ChainPrior) else None,
            coupling=coupling_of(prior, scenario, columns),
        )
        for prior in scenario.priors
    )


def _chained(prior: ChainPrior, scenario: Scenario, order: PublicOrder) -> ChainedRows | None:
    """Return the chain that covers all groups; None if the steps of rows along it are unknown.

    A model reads every row of its table, so no other row is hidden; a first value may come before them.
    """
    if not isinstance(scenario.secret, Secret | Initial):
        return None
    lows, highs = order.positions[order.first[:-1]], order.positions[order.first[1:] - 1]
    inside = np.ones(order.rows, dtype=np.bool_)
    inside[order.first[:-1]] = False
    if (np.diff(order.positions, prepend=-np.inf)[inside] <= 0).any():
        raise not_told_apart(scenario)
    if (order.positions != np.rint(order.positions)).any() or max(
        -lows.min(), highs.max()
    ) >= _LONGEST:
        return None
    steps = int(lows.min()), int(highs.max())
    if prior.repeats is not None:  # of the position of groups only the phase matters
        steps = 0, int((highs - lows + lows % prior.repeats).max())
    try:
        return chained_rows(scenario, prior, steps, order.start)
    except Refused:
        return None


TERM, VALUE = "term", "coefficient"
INTERCEPT: Final = "(intercept)"
_SURELY: Final = 1 + 2.0**-30
_ANY_WAY: Final = (
    "no better coupling is known of this prior: all rows of a group may move in any way (M7)"
)


@final
@dataclass(frozen=True)
class FittedModel(Query):
    """A model, as the query of a request; it reads whole rows."""

    linear = False


@dataclass(frozen=True, eq=False)
class Fitting(abc.ABC):
    """Base of the ways to fit a model with noise, calibrated for some priors: by noisy sums or by a noisy descent."""

    proof: ClassVar[str]
    """The proof of its loss."""
    order: PublicOrder
    hidden: Flags
    """The columns that are hidden; the target is the last column."""
    beliefs: tuple[ModelBelief, ...]
    promise: Guarantee

    @property
    @abc.abstractmethod
    def noise(self) -> NoisySum:
        """Its noise, in words."""

    @property
    @abc.abstractmethod
    def expected_error(self) -> float:
        """The error of predictions expected from noise, in units of the scaled target, by public facts."""

    @property
    @abc.abstractmethod
    def carried(self) -> tuple[Carried, ...]:
        """The proof of each prior, with the noise that it needs."""

    @abc.abstractmethod
    def movement(self, coupling: Coupling) -> float:
        """Return the largest movement along a coupling, in deviations (for Laplace noise, in ε)."""

    @abc.abstractmethod
    def fit(self, rows: ScaledRows, start: Floats | None) -> Floats:
        """Return the coefficients of scaled columns with the intercept first, from rows; noise is drawn here."""

    @cached_property
    def known_movements(self) -> dict[object, float]:
        """The movements that were computed before."""
        return {}


@final
@dataclass(frozen=True, eq=False)
class PlannedTable:
    """A table's rows, with the groups and positions that they had when a model was planned."""

    rows: ModelRows
    order: PublicOrder

    @property
    def selected(self) -> int:
        """The number of rows."""
        return self.order.rows

    def verify_unchanged(self) -> "PlannedTable":
        """Return itself; refuse a source whose groups and positions have changed."""
        self.rows.confirm(self.order)
        return self


@final
@dataclass(frozen=True, eq=False)
class ModelTraining(Mechanism):
    """The fit of a model to all rows of a table, with noise."""

    compares_rows_while_reading: ClassVar[bool] = True
    promise: Guarantee
    fitted: Request
    columns: ModelColumns
    table: PlannedTable
    beliefs: tuple[ModelBelief, ...]
    fitting: Fitting
    pure: bool
    """Whether noise is Laplace's, and movements are counted in ε."""
    chosen: tuple[str, ...] = ()
    """Notes on choices, and their reasons."""
    start: Floats | None = None
    """The scaled coefficients that a descent begins with; they were published before."""

    @property
    def request(self) -> Request:
        return self.fitted

    @property
    def guarantee(self) -> Guarantee:
        return self.promise

    @property
    def rows(self) -> int:
        return self.table.order.rows

    @property
    def source(self) -> PlannedTable:
        return self.table

    def compute_cost(self) -> Cost:
        scenario, secret = self.request.scenario, self.request.scenario.secret
        noise: Noise = Laplace(1.0) if self.pure else Gaussian(1.0)
        single_rows, movement = self.table.rows.single_rows, self.fitting.movement
        row = movement(self._single) * _SURELY
        moved = {
            digest_of(prior): movement(belief.coupling) * _SURELY
            for prior, belief in zip(scenario.priors, self.beliefs, strict=True)
        }
        interval = isinstance(secret, ValueSecret) and not secret.domain.finite
        shape = Shape(
            promise=self.promise,
            setting=scenario.setting,
            priors=tuple(digest_of(prior) for prior in scenario.priors),
            stored_noise=noise.stored(),
            dimension=1,
            independent_moves=((0.0, row),) if interval else None,
            coupled_movements=moved,
            group_movement=None if single_rows else movement(self._group) * _SURELY,
            row_movement=None if interval else row,
            column=self._column,
            rows=None if single_rows else self._rows,
        )
        selected, span, order = regions(self.request), self._span, self.table.order
        if span is None:
            return Cost(shape, regions=selected)
        return Cost(shape, span[0], span, order.start, selected, order.clock)

    @property
    def _rows(self) -> Rows:
        """The rows of a group; along a chain at any step from the first to the last of all groups."""
        most, span = int(np.diff(self.table.order.first).max()), self._span
        return (
            Rows(most)
            if span is None
            else Rows(most, runs=((0, span[1] - span[0] + 1, 0),), covers=True)
        )

    @property
    def _span(self) -> tuple[int, int] | None:
        """The first and the last step of rows, if they are along a chain."""
        if all(belief.chained is None for belief in self.beliefs):
            return None
        return int(self.table.order.positions.min()), int(self.table.order.positions.max())

    @property
    def _column(self) -> str | None:
        """The sensitive column that accounts know the model by."""
        tuples = self.request.tuples
        if tuples is not None:
            return tuples.name
        return next((name for name in self.columns.names if name in self.request.domains), None)

    @property
    def _group(self) -> Coupling:
        """All rows of a group, in any way."""
        return Coupling(None, self._hidden, GROUP)

    @property
    def _single(self) -> Coupling:
        return Coupling(None, self._hidden, "one row", single=True)

    @property
    def _hidden(self) -> Floats:
        return np.array([float(name in self.request.domains) for name in self.columns.names])

    @cached_property
    def ordinary(self) -> Guarantee | None:
        """The differential privacy of one row that the model keeps, if all others are known."""
        kind = self.promise.kind
        if kind is None or not isinstance(self.request.scenario.secret, ValueSecret):
            return None
        moved = self.fitting.movement(self._single) * _SURELY
        loss = kind.loss_from(Pure(moved) if self.pure else Gdp(moved))
        return kind.at(min(loss, self.promise.loss))

    def compute_name(self) -> str:
        parts = (
            *(
                self.request.scenario.fingerprint,
                self.request.digest,
                self.promise,
                self.table.order.digest,
            ),
            None if self.start is None else self.start.tolist(),
        )
        return SCHEME + hashlib.sha256(repr(parts).encode()).hexdigest()

    def value_handling(self) -> tuple[str, ...]:
        return value_handling_of(self.columns)

    def describe(self) -> Description:
        (query,), worst = self.request.queries, self._worst
        exact = all(belief.exact for belief in self.beliefs)
        return Description(
            queries=(AskedQuery(query.words, (VALUE,), (0,)),),
            sums=(self.fitting.noise,),
            loss=self.promise.loss,
            bound=worst.proof,
            sensitivity=self.fitting.movement(worst.coupling),
            sensitivity_unit="in epsilon"
            if self.pure
            else "in standard deviations of one Gaussian",
            witness=f"any two secrets: {worst.proof}",
            certainty=Certainty.UPPER_BOUND.value,
            composition=self.fitting.proof,
            assumptions=tuple(self._assumptions()),
            notes=self.chosen if exact else (*self.chosen, _ANY_WAY),
            ordinary=self.ordinary,
            readings=self.value_handling(),
        )

    @property
    def _worst(self) -> Carried:
        """The proof that needs most noise."""
        return max(self.fitting.carried, key=lambda one: one.scale)

    def _assumptions(self) -> list[str]:
        scenario = self.request.scenario
        said = [
            f"rows depend on each other as the prior says: {prior.describe()}"
            for prior in scenario.priors
        ]
        if scenario.within:
            said.append(
                f"rows that differ in {', '.join(scenario.within)} are independent of each other"
            )
        return [
            *said,
            "which rows exist, and the declared bounds of all columns, are public",
        ]

    def explain(self) -> Explanation:
        (query,), noisy = self.request.queries, self.fitting.noise
        values = {
            "fitted": query.words,
            "noise": noisy.noise,
            "scale": f"{noisy.scale:.6g}",
            "sum": noisy.sum,
            "error": f"{self.expected_error:.4g}",
            "target": self.columns.target,
            "proofs": [self.fitting.proof, self._worst.proof],
        }
        return Explanation("model_training", values)

    @property
    def expected_error(self) -> float:
        """The root mean squared error of a prediction expected from noise, in the target's unit.

        It follows from the noise and public bounds, for features that are uniform between their bounds.
        """
        return float(self.fitting.expected_error * self.columns.half[-1])

    def with_cost(self, reserved: Cost) -> Self:
        if not agree(self.cost, reserved):
            raise reservation_mismatch()
        return self

    def draw(self, reading: PrivateReader) -> DrawnAnswers:
        """Return the coefficients of the columns in their own units, the intercept first."""
        reading.begin()
        return DrawnAnswers(
            pl.DataFrame({TERM: [INTERCEPT, *self.columns.features], VALUE: self.coefficients()})
        )

    def coefficients(self) -> Floats:
        """Fit the model to the rows of the table, with noise."""
        rows = RowsOfTable(self.table.rows, self.columns, self.table.order)
        return in_own_units(self.columns, self.fitting.fit(rows, self.start))


@final
@dataclass(frozen=True, eq=False, repr=False)
class ModelPlan(BasePlan[ModelTraining]):
    """A model to be fitted, with its guarantee, its noise and its cost; only public facts are read.

    An account takes it as a plan: `account.remaining(plan)`, `account.after(plan)`.
    """

    @property
    def columns(self) -> ModelColumns:
        """The columns that the model reads."""
        return self.mechanism.columns

    @property
    def expected_error(self) -> float:
        """The root mean squared error of a prediction expected from noise, in the target's unit.

        It follows from the noise and public bounds, for features that are uniform between their bounds.
        """
        return self.mechanism.expected_error

    def release(self, account: CostAccount | None = None, id: str | None = None) -> Release:  # noqa: A002 - the public name
        """Read the private rows once and return noisy coefficients; an account is charged before that.

        The same id gives the same coefficients, and costs once.
        """
        return publish(self, ReleaseInMemory(), account, id)

    def __reduce__(self) -> Any:
        """Return what a pickle keeps, as for a fitted estimator: the plan of an empty table."""
        mechanism, table = self.mechanism, self.mechanism.table
        engine = without_rows(self.request.engine)
        known = replace(table, rows=replace(table.rows, engine=engine))
        request = replace(self.request, engine=engine)
        return ModelPlan, (replace(mechanism, fitted=request, table=known), self.period)


def in_own_units(columns: ModelColumns, scaled: Floats) -> Floats:
    """Return coefficients of scaled columns in the columns' own units; the target of a classifier stays scaled."""
    half, middle = (1.0, 0.0) if columns.classes else (columns.half[-1], columns.middle[-1])
    slopes = scaled[1:] * half / columns.half[:-1]
    return np.append(scaled[0] * half + middle - slopes @ columns.middle[:-1], slopes)


def in_scaled_units(columns: ModelColumns, own: Floats) -> Floats:
    """Return the inverse of `in_own_units`."""
    half, middle = (1.0, 0.0) if columns.classes else (columns.half[-1], columns.middle[-1])
    return np.append(
        (own[0] + own[1:] @ columns.middle[:-1] - middle) / half, own[1:] * columns.half[:-1] / half
    )
