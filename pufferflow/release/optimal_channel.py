"""The plan of a designed release: its channel, its expected loss, and the certificate of the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
from msgspec import structs

from pufferflow.accounting.next_release import NextRelease, Past, design_next
from pufferflow.calibration.calibrate import Calibration
from pufferflow.calibration.distance_bounds import Group
from pufferflow.calibration.laws import Place
from pufferflow.core.errors import LimitReached, Refused, UsageError, escape_controls
from pufferflow.core.validate import instance
from pufferflow.distributions.coupling import Certainty
from pufferflow.models.secret import ValueSecret
from pufferflow.noise.channel import Channel
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Approx, Guarantee, Pure
from pufferflow.published.certificate import Certificate
from pufferflow.published.cost import ExactSums
from pufferflow.published.release import Release
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.explain.sentences import queries_in_words
from pufferflow.release.plan import PlanOfDecision, certificate_of
from pufferflow.release.planning.decision import Decision
from pufferflow.release.planning.exact_sums import DesignedChannel, exact_sums, reads_exactly
from pufferflow.release.planning.options import PlanOptions
from pufferflow.release.planning.public_metadata import PublicMetadata
from pufferflow.release.planning.sum_tables import tables_of
from pufferflow.release.planning.units import regions
from pufferflow.release.publish import CostAccount, publish
from pufferflow.reports.numbers import promise_in_words

COMPOSITION: Final = (
    "the channel of least expected loss within the account's limit, after what was published (M23, M32)"
)
_SAME_ROWS: Final = (
    "all releases of the account about these {rows} rows are about one table, whose rows stay as they are, each an "
    "independent draw from the prior"
)
_ONE: Final = "designing one sum or count without groups, such as .private_sum(column) or .private_count(condition)"


@final
@dataclass(frozen=True, eq=False, repr=False)
class DesignedPlan(PlanOfDecision):
    """A channel that publishes one sum, designed for an account; no private row was read.

    It keeps the guarantee together with the outputs that the account had published: it is designed for that path, and
    would differ on others. So it can be released with this account only, which counts on the joint law of the answers.
    """

    _next: NextRelease

    @property
    def channel(self) -> Channel:
        """The channel, from exact answers to published outputs."""
        return cast(DesignedChannel, self._decision.channel).channel

    @property
    def expected_loss(self) -> float:
        """The expected loss of the channel, by the prior."""
        return self._next.expected_loss

    @property
    def solver_loss(self) -> float:
        """The least expected loss that the linear program finds, within the solver's tolerance."""
        return self._next.solver_loss

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee about all releases of the account about these rows together, this one included."""
        return self._decision.calibration.guarantee

    def explain(self) -> str:
        """Return the text that a person signs: what is published, what is hidden, how well, and what is assumed."""
        known = self.certificate
        lines = [
            f"Published: {queries_in_words(self.request)}.",
            *known.hidden.split("\n"),
            f"Guarantee: {promise_in_words(self.guarantee)}, together with all that the account has published.",
            f"Channel: {self.channel!r}; expected loss {self.expected_loss:.6g}.",
            *(f"Read: {line}." for line in self.value_handling()),
            f"Carried by: {known.composition}.",
            *(f"Assumed: {line}." for line in known.assumptions),
            *(f"Note: {line}." for line in known.notes),
        ]
        return "\n".join(escape_controls(line, one_line=True) for line in lines)

    def release(self, account: CostAccount, id: str | None = None) -> Release:  # noqa: A002 - the public name
        """Read the private rows once and publish the channel's output, drawn with the operating system's randomness.

        It is refused before that if it would exceed the account's limit, as for a plan that was designed before another
        release.
        """
        if account is None:  # pyright: ignore[reportUnnecessaryComparison] - callers without types
            raise UsageError(
                "A designed release without an account: it keeps its guarantee together with what that has published.",
                allowed="the account that it was designed for",
                instead="plan.release(account)",
            )
        return publish(self._decision, account, id, estimates=False)

    def __repr__(self) -> str:
        """Show the query, the guarantee and the channel."""
        return escape_controls(
            f"<DesignedPlan {queries_in_words(self.request)}; {self.guarantee!r}; {self.channel!r}; "
            f"expected loss {self.expected_loss:.6g}>",
            one_line=True,
        )


def designed_plan(
    request: Request, past: Past, guarantee: Guarantee | None, loss: Any, outputs: Sequence[float] | None
) -> DesignedPlan:
    """Return the plan of the best next release of an account for a batch; reads public columns only."""
    sums, promise = _sums_of(request, past), _promise(past, guarantee)
    numbers = None if outputs is None else _numbers(outputs)
    (query,) = request.queries
    best = design_next(past, sums, regions(request), promise, name=query.name, loss=loss, outputs=numbers)
    kept = past.limit if past.limit.delta else promise  # shares of δ are kept by all releases, not by some
    return DesignedPlan(_decision(request, DesignedChannel(best.exact_sums), kept), best)


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
            f"The design of {queries_in_words(request) if request.queries else 'nothing'}"
            f"{' in groups' if request.by else ''}.",
            allowed=_ONE,
            instead=".private_sum(column), and of a mean the sum over the public number of rows",
        )
    if not reads_exactly(request):
        raise Refused(
            "The batch adds up no functions of a finite domain over rows that are draws from a table.",
            allowed="pf.Table without shared columns, pf.Secret or pf.Derived, finite domains, no weights",
            instead="additive noise: batch.plan(…)",
        )
    rows = int(PublicMetadata(request).cells.rows.sum())
    sums = exact_sums(request, rows, ()) if rows else None
    if sums is None:
        raise Refused("The design of a sum over no rows.", allowed="filters that select rows", instead="batch.plan(…)")
    return sums


def _promise(past: Past, guarantee: Guarantee | None) -> Guarantee:
    """Return the guarantee for all releases together, from which the limit must follow."""
    if not isinstance(past.limit, Pure | Approx):
        raise Refused(
            f"The design of a release under the limit {past.limit!r}: it bounds no ratio of likelihoods.",
            allowed="accounts with a limit of pf.Pure or pf.Approx",
            instead="additive noise: batch.plan(…)",
        )
    if guarantee is None:
        return past.limit
    instance(guarantee, Guarantee, "guarantee", allowed="a guarantee", instead=f"guarantee={past.limit!r}")
    shares = isinstance(guarantee, Approx) and guarantee.loss == past.limit.loss and guarantee.delta > 0
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
    fits = all(isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 2**53 for one in listed)
    if not fits or not listed or len(set(listed)) < len(listed):
        raise UsageError(
            "outputs are no different finite numbers.", allowed="a list of numbers", instead="outputs=range(0, 101, 5)"
        )
    return sorted(listed)


def _decision(request: Request, channel: DesignedChannel, promise: Guarantee) -> Decision:
    """Return a decision whose noise exposes rows at least as much as the channel does, whatever other rows are."""
    facts, secret = PublicMetadata(request), request.scenario.secret
    weights = np.ones(1)
    tables = [tables_of(prior, secret, facts.functions) for prior in request.scenario.priors]
    pair: Any = secret.value_pairs()[0] if isinstance(secret, ValueSecret) else None
    return Decision(
        facts=facts,
        terms=PlanOptions(promise, Laplace),
        tables=tables,
        weights=weights,
        family=Laplace,
        laws=facts.laws(tables, weights),
        row_laws=None,
        calibration=Calibration(
            *(Laplace(channel.least_scale), promise, promise.loss, 0.0),
            *(Place(1, request.scenario.priors[0], pair, 0), Certainty.EXACT, Group()),
            by_movement=False,
        ),
        certify=_certificate,
        channel=channel,
    )


def _certificate(decision: Decision) -> Certificate:
    """Return the certificate of a batch with these exposures, in the words of a channel."""
    known, channel = certificate_of(decision), cast(DesignedChannel, decision.channel)
    shape = structs.replace(
        known.cost.shape,
        priors=(),
        coupled_movements={},
        group_movement=None,
        row_by_row=True,
        exact_sums=channel.exact_sums,
    )
    size = f"{len(channel.channel.inputs)} answers, {len(channel.outputs)} outputs"
    return structs.replace(
        known,
        sums=(),
        sensitivity=0.0,
        sensitivity_unit="is not what the channel was made for: its likelihoods are",
        bound=f"pf.confounding.design, of {size}",
        witness="the pairs of the secret, each in both orders",
        composition=COMPOSITION,
        cost=structs.replace(known.cost, shape=shape),
        ordinary=None,
        assumptions=(
            *known.assumptions,
            _SAME_ROWS.format(rows=channel.rows),
        ),
        notes=(
            "the guarantee is about all releases of the account about these rows: without them it is not known",
            "no differential privacy of a row alone is guaranteed: what others add hides it",
            *known.notes,
        ),
    )
