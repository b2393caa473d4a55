"""A plan: what a release would publish, the mechanism, and the proof of its guarantee; no private row has been read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, final

import polars as pl
from msgspec import structs

from pufferflow.accounting.next_release import Past
from pufferflow.calibration.calibrate import Calibration
from pufferflow.core.errors import UsageError, escape_controls, warn_of_use
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.paths import local_path
from pufferflow.core.sandbox import check_threads
from pufferflow.core.suggestions import HelpfulAttributes
from pufferflow.noise.base import Noise
from pufferflow.noise.channel import Channel
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.certificate import Certificate, CoveredPeriod
from pufferflow.published.cost import Cost
from pufferflow.published.release import Release, put_text
from pufferflow.queries.names import examples_of
from pufferflow.queries.request import Request
from pufferflow.release.certificate import certificate_of, explanation_of
from pufferflow.release.explain.check import check, useless_outputs
from pufferflow.release.explain.compare import compare, summary
from pufferflow.release.explain.evidence import evidence
from pufferflow.release.explain.looks import ChartKind, card, plot, styled_plan
from pufferflow.release.explain.sensitivities import sensitivities
from pufferflow.release.explain.sentences import notes_on_missing, queries_in_words, untried_bounds
from pufferflow.release.mechanisms.additive import AdditiveNoise
from pufferflow.release.mechanisms.base import Mechanism
from pufferflow.release.mechanisms.optimal_channel import OptimalChannel, design_channel
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.release.planning.choose_noise import choose_noise
from pufferflow.release.planning.options import PlanOptions
from pufferflow.release.publish import CostAccount, ReleaseInMemory, publish
from pufferflow.reports.evidence import Evidence

if TYPE_CHECKING:
    from pufferflow.accounting.ledger.account import Account as LedgerAccount
    from pufferflow.reports.charts.base import Chart
    from pufferflow.reports.styled import StyledTable

M_co = TypeVar("M_co", bound=Mechanism, covariant=True)


@dataclass(frozen=True, eq=False, repr=False)
class BasePlan(InNotebooks, HelpfulAttributes, Generic[M_co]):
    """Base of plans: a request, a guarantee, and the mechanism that keeps it; no private row has been read.

    An account takes it: `account.remaining(plan)`, `account.after(plan)`.
    """

    mechanism: M_co
    period: CoveredPeriod | None = None
    """The period that a scheduled release is about."""

    def _own_examples(self) -> Mapping[str, str]:
        return examples_of(self.request)

    @property
    def request(self) -> Request:
        """The queries of the batch."""
        return self.mechanism.request

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee about all answers together."""
        return self.mechanism.guarantee

    @property
    def rows(self) -> int | None:
        """The number of rows that are queried; None where that is private."""
        return self.mechanism.rows if self.request.counts_are_public else None

    @property
    def cost(self) -> Cost:
        """The cost of a release, in numbers, for composition."""
        return self.mechanism.cost

    @property
    def joint_cost(self) -> Cost:
        """The cost with the exact sums behind it, by which an account with designed releases composes."""
        return self.mechanism.joint_cost

    @property
    def name(self) -> str:
        """A name that is the same on every machine for the same queries, options and public facts."""
        return self.mechanism.name

    @property
    def certificate(self) -> Certificate:
        """The certificate that a release would have."""
        return self._certificate

    @cached_property
    def _certificate(self) -> Certificate:
        return structs.replace(certificate_of(self.mechanism), period=self.period)

    @property
    def ordinary(self) -> Guarantee | None:
        """What the same answers keep as ordinary differential privacy, if all rows but one are known.

        It is over the pairs of values that the secret names; None where the value of a row is not the secret.

        >>> import polars as pl, pufferflow as pf
        >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour")
        >>> plan = pf.protect(pl.DataFrame({"hour": range(24), "on": [0, 1] * 12}), scenario).private_sum("on")
        >>> round(plan.plan(pf.Pure(1.0)).ordinary.epsilon, 3)
        0.123
        """
        return self.certificate.ordinary

    def value_handling(self) -> tuple[str, ...]:
        """Return a line for every query: what null, values outside the domain, unknown labels and classes are read as.

        They follow from schema and domain; how many values are read so is private.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("kw", domain=pf.Interval(0, 9), missing=1), pf.Independent())
        >>> batch = pf.protect(pl.DataFrame({"kw": [0.5, None, 12.0]}), scenario).private_mean("kw")
        >>> print(*batch.plan(pf.Pure(1.0)).value_handling())
        kw_mean: null and NaN in 'kw' count as 1, as missing= says; numbers below 0 as 0, numbers above 9 as 9
        """
        return tuple(
            escape_controls(line, one_line=True) for line in self.mechanism.value_handling()
        )

    def explain(self) -> str:
        """Return the text that a person signs: what is hidden, from whom, how well, and what could break it."""
        return explanation_of(self.mechanism, self.certificate)

    def covering(self, period: CoveredPeriod) -> Self:
        """Return the plan with a period in its certificate: the one that a scheduled release is about."""
        return replace(self, period=period)

    def with_cost(self, reserved: Cost) -> Self:
        """Return the plan with the cost that a ledger has reserved; refuse a cost that is not its own."""
        own = self.mechanism.with_cost(reserved)
        return self if own is self.mechanism else replace(self, mechanism=own)

    def _card(self) -> Card:
        return Card("Plan: what a release would publish", self.explain().split("\n"))

    def __copy__(self) -> Self:
        """Return the plan itself: nothing in it changes."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return the plan itself: nothing in it changes."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: a plan's facts of rows and files hold in this process only."""
        raise UsageError(
            "A plan cannot be pickled: it knows which versions of files it was made for, and holds the private frame.",
            allowed="planning where it is released; certificates, releases and scenarios can be pickled",
            instead="batch.plan(…) in the other process: it is the same plan, and an id gives the same release",
        )

    def __repr__(self) -> str:
        """Show the queries, the guarantee and the mechanism."""
        words = (
            f"<{type(self).__name__} {queries_in_words(self.request)}; "
            f"{self.guarantee!r}{self._mechanism_in_words()}>"
        )
        return escape_controls(words, one_line=True)

    def _mechanism_in_words(self) -> str:
        """Return what a repr shows of the mechanism."""
        return ""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Plan(BasePlan[AdditiveNoise]):
    """Noise for every sum of a batch, calibrated for one guarantee about all answers together.

    A batch's `plan` makes it; `release` publishes. `calibration` is that of the sums in the units in which they share
    the budget.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
    >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.5))
    >>> plan.noises["level_sum"], plan.guarantee
    (Laplace(scale=2.0...), Pure(epsilon=1.5))
    >>> plan.summary()["expected_error"].round(3).to_list()
    [2.0]
    """

    @property
    def _noise(self) -> CalibratedNoise:
        return self.mechanism.noise

    @property
    def calibration(self) -> Calibration:
        """The noise of the weighted sums, and why it suffices."""
        return self._noise.calibration

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """The calibration; where groups of the answer have noise of their own, those of all, in units of the least."""
        return self._noise.calibrations

    @property
    def largest_weight(self) -> float:
        """How far the weighted sums move together if the answers' sums move by 1, at most (for `pf.robustness`)."""
        return self._noise.largest_weight

    @property
    def key_delta(self) -> float:
        """The part of the guarantee's δ for keys that the data chooses (`keys="discover"`).

        The noise is for the rest.
        """
        return self._noise.key_delta

    @property
    def noises(self) -> dict[str, Noise]:
        """The noise behind each output, in the units of its sum (a mean's sum is not divided yet).

        Where groups of the answer have noise of their own, it is the largest; `summary` has that of each.
        """
        return {output.name: output.noise for output in self._noise.outputs}

    def queries(self) -> list[str]:
        """Return the queries of a release to the engine, as text; nothing is read.

        Of a frame it is the plan of one pass. Elsewhere public columns come first, as they are stored: their groups,
        then the moments of their rows, and rows one by one only of groups with gaps. The last query has the sums.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.5))
        >>> len(plan.queries())
        1
        """
        return self._noise.public.queries

    def summary(self) -> pl.DataFrame:
        """Return one row for each output cell: its noise, expected error, and half its 95 % interval.

        Errors of variances, quantiles and means of unknown numbers of rows depend on the answers and are null. Outputs
        that `same_noise_as` names are made of the same noisy sum, and err with this one; noises of those that
        `correlated_with` names do so in part. An average over them is no better than each.
        """
        return summary(self._noise)

    def sensitivities(self, p: float | Sequence[float] = (1, 2)) -> pl.DataFrame:
        """Return how far the laws of the answers lie apart: a row per secret pair, position or pattern, and prior.

        `w_inf`, `w_1` and `w_2` (W_p for each `p`) are distances of the two laws, `near` the z of their (z,
        δ)-nearness at the guarantee's δ. `gwm`, `gawm`, `dagwm` and `exact` are the scales that each bound requires
        for this pair alone; `decides` marks the pair that needs most noise. `position` is the step of the row, `groups`
        the number of groups with these public columns; both are null where rows are independent. Distances are in the
        norm of the noise: 1 for Laplace and staircase noise, 2 for Gaussian and Cauchy noise. A plan with one sum has
        them and its scales in the unit of the answer (a mean in that of its sum), others in units in which one row
        moves all sums by at most 1. Laws that list no pairs have a row with their farthest movement and a `note`. Of
        more than 100,000 pairs so many are shown. Reads public columns only.

        >>> import polars as pl, pufferflow as pf
        >>> chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="h")
        >>> plan = pf.protect(pl.DataFrame({"h": [0, 1], "on": [0, 1]}), scenario).private_sum("on").plan(pf.Pure(1.0))
        >>> plan.sensitivities().select("first", "second", "position", "w_inf", "gwm").rows()
        [('0', '1', 0.0, 2.0, 2.0...), ('0', '1', 1.0, 2.0, 2.0...)]
        """
        return sensitivities(self._noise, p)

    def compare(self) -> pl.DataFrame:
        """Return the noise that every bound, and group privacy, requires for the same guarantee."""
        return compare(self._noise)

    def release(
        self,
        account: CostAccount | None = None,
        id: str | None = None,  # noqa: A002 - the public name
        *,
        estimates: bool = False,
    ) -> Release:
        """Read the private rows once and return noisy answers; refused before that if the account's limit is reached.

        A source whose public facts, as far as noise and cost rest on them, changed since the plan is refused: plan
        again. Noise that rests on an estimate is refused unless `estimates` allows it. Before anything is spent, a
        `pf.UtilityWarning` names outputs that the noise makes useless.
        """
        check_threads()  # a child of a process in which Polars worked would wait without end
        warn_of_use(
            "Useless numbers", useless_outputs(self._noise), "plan.check() shows each number."
        )
        warn_of_use(
            "Larger noise", untried_bounds(self._noise), "A larger seconds= tries them too."
        )
        release = publish(self, ReleaseInMemory(), account, id, estimates=estimates)
        return (
            release
            if release.plan_evidence is not None
            else replace(release, plan_evidence=self.evidence)
        )

    def check(self, signal: float | Mapping[str, float] | None = None) -> pl.DataFrame:
        """Return for each output and group whether noise leaves anything to see: useful, weak or useless, and a way on.

        Half the 95 % interval is compared with `signal`, the difference that is looked for: one number, or one for some
        outputs by their names. Left out, it is a quarter of the range of possible answers; in a histogram an equal
        share of the rows. More than it is useless, more than a quarter of it weak. Nothing is spent, no private row is
        read.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("kw", domain=pf.Interval(0, 11), missing=0), pf.Independent())
        >>> plan = pf.protect(pl.DataFrame({"kw": [1.5, 1.4]}), scenario).private_mean("kw").plan(pf.Pure(1.0))
        >>> plan.check()["verdict"].to_list(), plan.check(signal=100)["verdict"].to_list()
        (['useless'], ['useful'])
        >>> print(plan.check()["finding"][0])
        Noise of ± 16.5 hides a difference of 2.75: this number says nothing.
        """
        return check(self._noise, signal)

    def plot(
        self, kind: ChartKind = "noise", signal: float | Mapping[str, float] | None = None
    ) -> "Chart":
        """Return a chart of the noise, made with Altair (the extra `notebook`); nothing is spent.

        `kind` is one of four. "error_bars": the error bar of each number, in the colour of its verdict, beside the
        difference that it has to show; `signal` is as in `check`. "bounds": the scale that each bound needs. "noise":
        both. "sensitivities": a map of how far the answers move between each two values of the secret.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.5))
        >>> plan.plot("error_bars").description
        'level_sum: error bars of ± 6; 1 useless.'
        >>> plan.plot("sensitivities").description
        'The farthest pairs: 0 against 3: 3; 0 against 2: 2; 0 against 1: 1.'
        """
        return plot(self._noise, kind, signal)

    @property
    def style(self) -> "StyledTable":
        """The noise of each number as a table of great_tables (the extra `notebook`), to be styled further.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.5))
        >>> "± 6" in plan.style.as_raw_html()
        True
        """
        return styled_plan(self._noise)

    def evidence(
        self,
        account: "LedgerAccount | None" = None,
        every: object = None,
        *,
        job: str = "",
        period: str = "",
        dataset: str = "",
    ) -> Evidence:
        """Return the evidence of the plan's report, as plain values: the worst pair, other bounds, what could break.

        With an account, also what is spent of its limit, and what will be if there is such a release `every` so often.
        `job`, `period` and `dataset` (left out, that of the account) are for the heading of a report.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())
        >>> plan = pf.protect(pl.DataFrame({"on": [0, 1]}), scenario).private_sum("on").plan(pf.Pure(1.0))
        >>> evidence = plan.evidence()
        >>> evidence.pair.first, evidence.pair.second, evidence.cells[0].largest
        ('0', '1', 2.0)
        >>> evidence.what_if[1].wrong, evidence.what_if[1].left
        ('if priors are off by a factor of up to 1.1 either way', 'epsilon 1.2 is left (M30)')
        """
        budget = None if account is None else account.budget(self, every)
        return evidence(
            self._noise, self.explain(), budget, job=job, period=period, dataset=dataset
        )

    def report(  # noqa: PLR0913 - what a page is about, in parts
        self,
        path: str | Path,
        account: "LedgerAccount | None" = None,
        every: object = None,
        *,
        job: str = "",
        period: str = "",
        dataset: str = "",
    ) -> Path:
        """Write a report for people, one HTML file that needs nothing else; arguments are those of `evidence`."""
        from pufferflow.reports.pages import plan_page

        content = self.evidence(account, every, job=job, period=period, dataset=dataset)
        file, page = (
            local_path(path, "The place of a report"),
            plan_page(content, datetime.now(UTC)),
        )
        put_text(file, page)
        return file

    def _mechanism_in_words(self) -> str:
        noise = ", ".join(f"{name}: {noise!r}" for name, noise in list(self.noises.items())[:6])
        return f" by {self.calibration.bound!r}; {noise}"

    def _card(self) -> Card:
        return card(self._noise, self.explain())


def plan_of(request: Request, options: PlanOptions) -> Plan:
    """Return the plan for a batch, with all that depends on public columns worked out."""
    way_on = 'missing="skip" leaves them out of answers; a value is read so.'
    warn_of_use("Assumed missing=", notes_on_missing(request), way_on)
    noise = choose_noise(request, options)
    plan = Plan(AdditiveNoise(noise))
    _ = noise.threshold, plan.certificate, plan.name
    return plan


@final
@dataclass(frozen=True, eq=False, repr=False)
class DesignedPlan(BasePlan[OptimalChannel]):
    """A channel that publishes one sum, designed for an account; no private row was read.

    It keeps the guarantee together with the outputs that the account had published: it is designed for that path, and
    would differ on others. So it can be released with this account only, which counts on the joint law of the answers.
    """

    @property
    def channel(self) -> Channel:
        """The channel, from exact answers to published outputs."""
        return self.mechanism.designed.channel

    @property
    def expected_loss(self) -> float:
        """The expected loss of the channel, by the prior."""
        return self.mechanism.next.expected_loss

    @property
    def solver_loss(self) -> float:
        """The least expected loss that the linear program finds, within the solver's tolerance."""
        return self.mechanism.next.solver_loss

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
        return publish(self, ReleaseInMemory(), account, id)

    def _mechanism_in_words(self) -> str:
        return f"; {self.channel!r}; expected loss {self.expected_loss:.6g}"


def designed_plan(
    request: Request,
    past: Past,
    guarantee: Guarantee | None,
    loss: Any,
    outputs: Sequence[float] | None,
) -> DesignedPlan:
    """Return the plan of the best next release of an account for a batch; reads public columns only."""
    return DesignedPlan(design_channel(request, past, guarantee, loss, outputs))
