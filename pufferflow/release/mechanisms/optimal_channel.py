"""The optimal channel as a mechanism: one sum published through a channel that is designed for an account (M32)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Self, cast, final

import numpy as np
import polars as pl
from msgspec import structs

from pufferflow.accounting.next_release import NextRelease, Past, design_next
from pufferflow.calibration.calibrate import Calibration
from pufferflow.calibration.distance_bounds import Group
from pufferflow.calibration.laws import Place
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import LimitReached, Refused, UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.core.validate import instance
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.secret import ValueSecret
from pufferflow.noise.channel import Channel
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Approx, Guarantee, Pure
from pufferflow.published.cost import Answered, Cost, ExactSum, ExactSums
from pufferflow.queries.engine_interface import changed_source
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.explain.sentences import queries_in_words
from pufferflow.release.mechanisms.additive import limits_of, read_exact_sums, with_keys
from pufferflow.release.mechanisms.base import (
    Description,
    DrawnAnswers,
    Explanation,
    PrivateReader,
    SumsMechanism,
    reservation_mismatch,
)
from pufferflow.release.planning.basis import Basis, EachSum
from pufferflow.release.planning.blocks import Block
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.laws_of_sums import laws_of
from pufferflow.release.planning.options import PlanOptions
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.selected_rows import exact_sums, reads_exactly, regions
from pufferflow.release.planning.sum_functions import tables_of

COMPOSITION: Final = (
    "the channel of least expected loss within the account's "
    "limit, after what was published (M23, M32)"
)
_SAME_ROWS: Final = (
    "all releases of the account about these {rows} rows read one table; its rows do not change, and each is drawn "
    "from the prior independently"
)
_ONE: Final = "designing one sum or count without groups, such as .private_sum(column) or .private_count(condition)"


_NOTES: Final = (
    "the guarantee covers all releases of the account about these rows; for this release alone none is known",
    "a single row has no differential privacy: the sum of the other rows hides it",
)
COVERED = Fraction(95, 100)
"""The probability with which an error bar holds the exact answer."""


@final
@dataclass(frozen=True, eq=False)
class DesignedChannel:
    """The sum that a channel reads, about so many rows; it was designed for an account."""

    exact_sums: ExactSums

    @property
    def rows(self) -> int:
        """How many rows are added up."""
        return self.exact_sums.rows

    @property
    def sum(self) -> ExactSum:
        """The only sum."""
        return self.exact_sums.sums[0]

    @cached_property
    def channel(self) -> Channel:
        """The channel, whose inputs are answers in ascending order."""
        return Channel.from_json(self.sum.channel)

    @property
    def outputs(self) -> tuple[float, ...]:
        """The numbers that can be published."""
        return cast(tuple[float, ...], self.channel.outputs)

    @cached_property
    def name(self) -> str:
        """A digest of the sum and its channel."""
        return hashlib.sha256(repr(self.exact_sums).encode()).hexdigest()

    def draw(self, steps: int) -> int:
        """Return the place of an output for a sum of so many steps, with the operating system's randomness.

        Sums that the table holds impossible are read as the nearest possible one, and no error reveals about them.
        """
        nearest = min(self._steps, key=lambda one: (abs(one - steps), one))
        return int(self.channel.draw(np.array([self._steps.index(nearest)], dtype=np.intp))[0])

    @cached_property
    def _steps(self) -> list[int]:
        unit = Fraction(self.sum.unit)
        return [int(Fraction(cast(float, one)) / unit) for one in self.channel.inputs]

    def bar(self, output: int) -> tuple[float, float]:
        """Return the ends of the answers for which an output is among the likeliest that make up 95 %."""
        inputs = [float(cast(float, one)) for one in self.channel.inputs]
        held = [
            answer for answer, likely in zip(inputs, self._likely, strict=True) if output in likely
        ]
        return (min(held), max(held)) if held else (inputs[0], inputs[-1])

    @cached_property
    def _likely(self) -> list[set[int]]:
        """For every answer, the fewest outputs with 95 % of its probability."""
        found: list[set[int]] = []
        for row in self.channel.probabilities:
            order, mass, likely = (
                sorted(range(len(row)), key=lambda at: (-row[at], at)),
                Fraction(0),
                set[int](),
            )
            for at in order:
                if mass >= COVERED:
                    break
                mass, likely = mass + row[at], {*likely, at}
            found.append(likely)
        return found

    @cached_property
    def least_scale(self) -> float:
        """A scale of Laplace noise whose exposures are those of the channel or more, whatever other rows are; maybe 0.

        The log ratio of likelihoods at sums d steps apart is at most d over the scale.
        """
        matrix: Floats = self.channel.matrix
        if (matrix <= 0).any() or len(self._steps) != self._steps[-1] - self._steps[0] + 1:
            return 0.0
        logs = np.log(matrix)
        widest = [
            float(np.abs(logs[apart:] - logs[:-apart]).max()) / apart
            for apart in range(1, len(logs))
        ]
        steepest = max(widest, default=0.0)
        return 1 / (steepest * (1 + 64 * UNIT) + 64 * UNIT) if steepest else 1.0


@final
@dataclass(frozen=True, eq=False)
class OptimalChannel(SumsMechanism):
    """A channel in place of noise on the only sum, designed for an account.

    It keeps the guarantee together with the outputs that the account had published: it is designed for that path, and
    would differ on others. So the guarantee is about all releases of the account about these rows.
    """

    designed: DesignedChannel
    next: NextRelease

    def compute_name(self) -> str:
        return self.noise.name(self.designed.name)

    def compute_cost(self) -> Cost:
        known, sums = super().compute_cost(), self.designed.exact_sums
        by_rows: dict[str, Any] = {
            "priors": (),
            "coupled_movements": {},
            "group_movement": None,
            "row_by_row": True,
        }
        return structs.replace(
            known, shape=structs.replace(known.shape, exact_sums=sums, **by_rows)
        )

    def describe(self) -> Description:
        channel = self.designed
        size = f"{len(channel.channel.inputs)} answers, {len(channel.outputs)} outputs"
        known = self.described(
            bound=f"pf.confounding.design, of {size}",
            sensitivity=0.0,
            sensitivity_unit="is not what the channel was made for: its likelihoods are",
            witness="the pairs of the secret, each in both orders",
            composition=COMPOSITION,
            ordinary=None,
        )
        same_rows = _SAME_ROWS.format(rows=channel.rows)
        return replace(
            known, assumptions=(*known.assumptions, same_rows), notes=(*_NOTES, *known.notes)
        )

    def explain(self) -> Explanation:
        loss = f"{self.next.expected_loss:.6g}"
        values = {"channel": repr(self.designed.channel), "loss": loss, "composition": COMPOSITION}
        return Explanation("optimal_channel", values)

    def with_cost(self, reserved: Cost) -> Self:
        if reserved != self.cost:
            raise reservation_mismatch()
        return self

    def draw(self, reading: PrivateReader) -> DrawnAnswers:
        """Return the answer that the channel draws in place of the only sum."""
        request, channel = self.request, self.designed
        tally = read_exact_sums(self.noise, reading)
        if int(tally.rows.sum()) != channel.rows:
            raise changed_source()  # it was designed for so many rows
        (query,), (name,) = request.queries, request.queries[0].outputs
        output = channel.draw(
            int(tally.rows[0] if request.measures[0] is None else tally.sums[0, 0])
        )
        answer, (low, high) = float(channel.outputs[output]), channel.bar(output)
        bars = [pl.Series(f"{name}_low", [low]), pl.Series(f"{name}_high", [high])]
        columns = (
            [pl.Series(name, [answer])],
            bars,
            limits_of(query, tally.rows.astype(np.float64), 1),
        )
        frame, intervals, limits = (with_keys(tally, own) for own in columns)
        return DrawnAnswers(frame, intervals, limits, answered=Answered((str(output),)))


def design_channel(
    request: Request,
    past: Past,
    guarantee: Guarantee | None,
    loss: Any,
    outputs: Sequence[float] | None,
) -> OptimalChannel:
    """Return the channel of the best next release of an account for a batch; reads public columns only."""
    sums, promise = _sums_of(request, past), _promise(past, guarantee)
    numbers = None if outputs is None else _numbers(outputs)
    (query,) = request.queries
    best = design_next(
        past, sums, regions(request), promise, name=query.name, loss=loss, outputs=numbers
    )
    kept = (
        past.limit if past.limit.delta else promise
    )  # shares of δ are kept by all releases, not by some
    channel = DesignedChannel(best.exact_sums)
    return OptimalChannel(_exposure(request, channel, kept), channel, best)


def _sums_of(request: Request, past: Past) -> ExactSums:
    """Return the only sum of a batch, about a public number of rows; refuse others."""
    if request.scenario.fingerprint != past.scenario.fingerprint:
        raise UsageError(
            "The batch is of another scenario than the account.",
            allowed="a batch of the account's scenario, the newest if it was superseded",
            instead="pf.protect(frame, account.scenario)",
        )
    finished = any(type(query).finish is not Query.finish for query in request.queries)
    if len(request.queries) != 1 or len(request.measures) != 1 or request.by or finished:
        raise Refused(
            f"No release can be designed for {queries_in_words(request) if request.queries else 'no query'}"
            f"{' in groups' if request.by else ''}.",
            allowed=_ONE,
            instead=".private_sum(column), and of a mean the sum over the public number of rows",
        )
    if not reads_exactly(request):
        raise Refused(
            "A release can be designed only for sums over independent rows that follow a table, on finite domains.",
            allowed="pf.Table without shared columns, pf.Secret or pf.Derived, finite domains, no weights",
            instead="additive noise: batch.plan(…)",
        )
    rows = int(PublicMetadata(request).cells.rows.sum())
    sums = exact_sums(request, rows, ()) if rows else None
    if sums is None:
        raise Refused(
            "No rows are selected, so there is no sum to design a release for.",
            allowed="filters that select rows",
            instead="batch.plan(…)",
        )
    return sums


def _promise(past: Past, guarantee: Guarantee | None) -> Guarantee:
    """Return the guarantee for all releases together, from which the limit must follow."""
    if not isinstance(past.limit, Pure | Approx):
        raise Refused(
            f"No release can be designed under the limit {past.limit!r}: it does not bound ratios of likelihoods.",
            allowed="accounts with a limit of pf.Pure or pf.Approx",
            instead="additive noise: batch.plan(…)",
        )
    if guarantee is None:
        return past.limit
    instance(
        guarantee,
        Guarantee,
        "guarantee",
        allowed="a guarantee",
        instead=f"guarantee={past.limit!r}",
    )
    shares = (
        isinstance(guarantee, Approx) and guarantee.loss == past.limit.loss and guarantee.delta > 0
    )
    if type(guarantee) is not type(past.limit) or (past.limit.delta and not shares):
        raise UsageError(
            f"guarantee is {guarantee!r}, and the account's limit {past.limit!r}.",
            allowed="a guarantee of the limit's kind; with a delta, the limit's epsilon and a smaller delta",
            instead=f"guarantee={past.limit!r}",
        )
    if guarantee.loss > past.limit.loss or guarantee.delta > past.limit.delta:
        raise LimitReached(
            f"{guarantee!r} is above the account's limit {past.limit!r}.",
            allowed="a guarantee within the limit",
            instead=f"guarantee={past.limit!r}",
        )
    return guarantee


def _numbers(outputs: Sequence[float]) -> list[Any]:
    """Return outputs that are different finite numbers, in ascending order."""
    given: Any = outputs
    listed: list[Any] = list(given.tolist() if hasattr(given, "tolist") else given)
    fits = all(
        isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 2**53
        for one in listed
    )
    if not fits or not listed or len(set(listed)) < len(listed):
        raise UsageError(
            "outputs repeats a number, is empty, or has a value that is no finite number.",
            allowed="a list of numbers",
            instead="outputs=range(0, 101, 5)",
        )
    return sorted(listed)


def _exposure(request: Request, channel: DesignedChannel, promise: Guarantee) -> CalibratedNoise:
    """Return noise that exposes rows at least as much as the channel does, whatever other rows are."""
    public, secret = PublicMetadata(request), request.scenario.secret
    basis = Basis(EachSum(), public.functions, np.ones(1))
    tables = [tables_of(prior, secret, public.functions) for prior in request.scenario.priors]
    pair: Any = secret.value_pairs()[0] if isinstance(secret, ValueSecret) else None
    calibration = Calibration(
        *(Laplace(channel.least_scale), promise, promise.loss, 0.0),
        *(Place(1, request.scenario.priors[0], pair, 0), Certainty.EXACT, Group()),
        by_movement=False,
    )
    block = Block(slice(None), laws_of(public, tables, basis.weights), calibration)
    return CalibratedNoise(
        public, PlanOptions(promise, Laplace), tables, basis, Laplace, None, (block,)
    )
