"""The priors that fit a public reference, their costs for a batch, and what is left if one is wrong.

All fits are to public data, and plans read public columns alone: no suggestion depends on a private value. A person
makes the choice: a prior that fits a reference shows nothing about how near the reference is to the data.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, final

import polars as pl

from pufferflow.core.errors import PufferflowError, Refused, UsageError, escape_controls
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.paths import local_path
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import instance
from pufferflow.models.priors.base import Prior, belief_in_words
from pufferflow.models.priors.correlations import AR1, Exchangeable, spanned
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.latent_class import LatentClass
from pufferflow.models.priors.markov import MarkovChain
from pufferflow.models.priors.simple import AnyCorrelation, Independent
from pufferflow.models.reference import Reference
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import ValueSecret
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.published.release import put_text
from pufferflow.release.batch import Batch
from pufferflow.release.explain.what_if import under_group
from pufferflow.release.plan import Plan
from pufferflow.reports.numbers import UNKNOWN, at_most, plain, promise_in_words
from pufferflow.reports.pages import BeliefRow, beliefs_page

_MOST_STATES = 10
_MOST_CLASSES = 3
_ESTIMATED = "lie in joint"


@final
@dataclass(frozen=True)
class Suggestion(InNotebooks):
    """A prior: what the reference says `against` it, its cost on one output, and what is left if it is wrong.

    `prior` is ready for a `pf.Scenario`, and refused if none could be fitted (`fitted` is None there). `note` gives the
    reason for a missing answer. `error` is the largest expected error of the batch's first output; `left` is the
    epsilon that the same noise keeps if rows of a group depend on each other in any way.

    >>> Suggestion("rows are independent of each other", Independent(), error=2.0, left=12.0).against
    ()
    """

    belief: str
    fitted: Prior | None
    against: tuple[str, ...] = ()
    error: float | None = None
    left: float | None = None
    note: str = ""

    @property
    def prior(self) -> Prior:
        """The prior that was fitted; refused where there is none."""
        if self.fitted is not None:
            return self.fitted
        raise Refused(
            f"No prior was fitted for the assumption that {self.belief}: {self.note or 'the reference allows none'}",
            allowed="a row of suggestions whose `fitted` is a prior",
            instead="next(row.prior for row in found.rows if row.fitted is not None)",
        )


@final
@dataclass(frozen=True)
class Suggestions(InNotebooks):
    """The priors that `pf.suggest` tried, those that cost least first; printed as text, written as a page.

    >>> row = Suggestion("rows are independent of each other", Independent(), error=2.0)
    >>> print(Suggestions("a study", "load", Pure(1.0), (row,)).table["expected_error"][0])
    2.0
    """

    reference: str
    output: str
    promise: Guarantee
    rows: tuple[Suggestion, ...]

    @property
    def table(self) -> pl.DataFrame:
        """One row for each prior; errors are in the unit of the answer."""
        return pl.DataFrame(
            {
                "belief": [row.belief for row in self.rows],
                "expected_error": [row.error for row in self.rows],
                "left_if_wrong": [row.left for row in self.rows],
                "against": ["; ".join(row.against) for row in self.rows],
                "note": [row.note for row in self.rows],
            },
            schema_overrides={"expected_error": pl.Float64, "left_if_wrong": pl.Float64},
        )

    def __str__(self) -> str:
        lines = [
            f"Priors about {self.output}, examined in {self.reference!r}; {promise_in_words(self.promise)}."
        ]
        for row in self.rows:
            error = (
                f"expected error {plain(row.error)}"
                if row.error is not None
                else f"no answer: {row.note}"
            )
            left = (
                f"; if it is wrong epsilon {at_most(row.left)} is left"
                if row.left is not None
                else ""
            )
            lines.append(f"- {row.belief}: {error}{left}".rstrip(".") + ".")
            lines += [f"    against it: {one}" for one in row.against]
        return escape_controls("\n".join(lines))

    def _card(self) -> Card:
        rows = [
            (
                row.belief,
                plain(row.error),
                UNKNOWN if row.left is None else at_most(row.left),
                "; ".join(filter(None, [*row.against, row.note])),
            )
            for row in self.rows
        ]
        head = ("prior", "expected error", "epsilon left if it is wrong", "against it")
        lines = [
            f"For {self.output}, from the reference {self.reference}.",
            promise_in_words(self.promise),
        ]
        return Card("Priors that a public reference supports", lines, head=head, rows=rows)

    def report(self, path: str | Path) -> Path:
        """Write a report with a figure, as one HTML file without external parts."""
        file = local_path(path, "The place of a page")
        rows = [
            BeliefRow(row.belief, row.error, row.left, row.against, row.note) for row in self.rows
        ]
        put_text(
            file, beliefs_page(self.reference, self.output, promise_in_words(self.promise), rows)
        )
        return file


@suggests_arguments
def suggest(reference: Reference, batch: Batch, promise: Guarantee | None = None) -> Suggestions:
    """Return the priors that a public reference speaks for or against, and the cost of each for a batch.

    The reference has the columns of the batch's scenario: the secret's, `within`, `order_by`; public columns that all
    rows of a group share are tried as its class. Priors are fitted with slack="confidence". The batch's own prior does
    not matter, and no private row is read. A prior without anything against it is not proven: the reference only did
    not refute it.

    >>> import polars as pl, pufferflow as pf
    >>> heights = pl.DataFrame({"family": [f for f in range(60) for _ in range(3)], "height": [60, 61, 62] * 60})
    >>> scenario = pf.Scenario(pf.Secret("height", domain=pf.Interval(50, 80)), pf.Independent(), within="family")
    >>> batch = pf.protect(pl.DataFrame({"family": [1, 1], "height": [64, 65]}), scenario).private_mean("height")
    >>> found = suggest(pf.Reference("a public study", heights), batch)
    >>> found.rows[0].belief
    'rows are independent of each other'
    """
    read = instance(
        reference,
        Reference,
        "The reference",
        allowed="a pf.Reference",
        instead='pf.Reference("a study", frame)',
    )
    asked = instance(
        batch,
        Batch,
        "The batch",
        allowed="a batch with queries",
        instead="pf.protect(frame, scenario).private_sum(…)",
    )
    scenario = asked.request.scenario
    if not isinstance(scenario.secret, ValueSecret):
        raise UsageError(
            "Suggestions for a secret that is no value of a row.",
            allowed="pf.Secret or pf.Initial",
            instead="pf.Table.fit or pf.LatentClass.fit, for pf.Derived",
        )
    if not asked.request.queries:
        raise UsageError(
            "The batch has no query yet.",
            allowed="a batch with queries",
            instead='batch.private_sum("x")',
        )
    read.origin.check_public(f"The reference {read.name!r}", asked.request.engine.original)
    wanted = Pure(1.0) if promise is None else promise
    rows = [
        _tried(asked, wanted, name, fit)
        for name, fit in _candidates(read, scenario, scenario.secret)
    ]
    rows.sort(key=lambda row: (row.error is None, row.error or 0.0))
    return Suggestions(read.name, asked.request.queries[0].name, wanted, tuple(rows))


Fit = Callable[[], tuple[Prior, tuple[str, ...]]]


def _candidates(
    reference: Reference, scenario: Scenario, secret: ValueSecret
) -> Iterator[tuple[str, Fit]]:
    """Yield the names of priors, and how each is fitted; those that do not apply to the columns are left out."""
    column, within, order, domain = (
        secret.column,
        list(scenario.within),
        scenario.order_by,
        secret.domain,
    )
    step = _step_of(scenario)
    numeric = not domain.finite or domain.numeric
    measured = _Correlations.of(reference, scenario, column)
    yield (
        "rows are independent of each other",
        lambda: (Independent(), measured.against_independence()),
    )
    if order is not None and domain.finite and len(domain.points) <= _MOST_STATES:
        yield (
            "a row depends on the one before it",
            lambda: _fitted(
                MarkovChain.fit(
                    reference,
                    column,
                    order,
                    within or None,
                    domain=domain,
                    step=step,
                    slack="confidence",
                )
            ),
        )
    if order is not None and numeric:
        yield (
            "rows are Gaussian, near ones correlated",
            lambda: _fitted(
                GaussianPrior.fit(
                    reference,
                    column,
                    within or None,
                    covariance="ar1",
                    order_by=order,
                    step=step,
                    slack="confidence",
                )
            ),
        )
    if within and numeric:
        yield (
            "rows of a group are Gaussian, equally correlated",
            lambda: _fitted(
                GaussianPrior.fit(reference, column, within, slack="confidence"),
                *measured.against_equal_correlation(),
            ),
        )
    if within and domain.finite:
        others = [name for name in scenario.public if name not in {*within, order}][:_MOST_CLASSES]
        for name in others:
            yield (
                f"rows of a group share a class, its {name!r}",
                lambda name=name: _fitted(
                    LatentClass.fit(
                        reference, column, name, within, domain=domain, slack="confidence"
                    )
                ),
            )
    yield "rows of a group may determine each other", lambda: (AnyCorrelation(), ())


@dataclass(frozen=True)
class _Correlations:
    """The correlations of numbers in a reference, as intervals at 95 %; None where none was fitted."""

    of_groups: tuple[float, float] | None
    of_neighbours: tuple[float, float] | None

    @classmethod
    def of(cls, reference: Reference, scenario: Scenario, column: str) -> "_Correlations":
        """Fit both; labels, and references that are too small, have none."""
        return cls(
            _fitted_span(reference, scenario, column, "exchangeable") if scenario.within else None,
            _fitted_span(reference, scenario, column, "ar1") if scenario.order_by else None,
        )

    def against_independence(self) -> tuple[str, ...]:
        """Return the correlations that chance does not explain."""
        named = {"rows of a group": self.of_groups, "neighbouring rows": self.of_neighbours}
        return tuple(
            f"{whose} have a correlation between {span[0]:.2f} and {span[1]:.2f}"
            for whose, span in named.items()
            if span is not None and (span[0] > 0 or span[1] < 0)
        )

    def against_equal_correlation(self) -> tuple[str, ...]:
        """Return the correlation of neighbours, if it is not that of any two rows of a group."""
        near, group = self.of_neighbours, self.of_groups
        if near is None or group is None or (near[0] <= group[1] and group[0] <= near[1]):
            return ()
        found = f"neighbouring rows have a correlation between {near[0]:.2f} and {near[1]:.2f}"
        return (f"{found}, all rows of a group one between {group[0]:.2f} and {group[1]:.2f}",)


def _fitted_span(
    reference: Reference, scenario: Scenario, column: str, kind: Literal["exchangeable", "ar1"]
) -> tuple[float, float] | None:
    """Return the interval of a correlation in a reference; None if none can be fitted."""
    try:
        prior = GaussianPrior.fit(
            reference,
            column,
            list(scenario.within) or None,
            covariance=kind,
            order_by=scenario.order_by if kind == "ar1" else None,
            step=_step_of(scenario),
            slack="confidence",
        )
    except PufferflowError:
        return None
    return _span(prior)


def _step_of(scenario: Scenario) -> Any:
    """Return the step of a scenario as its fits take it."""
    return scenario.step_in_words if scenario.timed else scenario.step


def _span(prior: GaussianPrior) -> tuple[float, float]:
    """Return the bounds on its one correlation."""
    match prior.covariance:
        case AR1(phi):
            return spanned(phi)
        case Exchangeable(rho):
            return spanned(rho)
        case _:
            return 0.0, 0.0


def _fitted(prior: Prior, *against: str) -> tuple[Prior, tuple[str, ...]]:
    """Return a prior with the evidence against it: its notes, except the one that states its slack."""
    notes = (note for note in prior.provenance.notes if _ESTIMATED not in note)
    return prior, (*against, *notes)


def _tried(batch: Batch, promise: Guarantee, name: str, fit: Fit) -> Suggestion:
    """Return the cost of a prior; if it cannot be fitted or planned with, the reason."""
    try:
        prior, against = fit()
    except PufferflowError as refusal:
        return Suggestion(name, None, note=refusal.problem)
    words = name if prior.provenance.reference is None else f"{name} ({belief_in_words(prior)})"
    try:
        plan = _plan(batch, prior, promise)
    except PufferflowError as refusal:
        return Suggestion(words, prior, against, note=refusal.problem)
    left = None if prior.any_correlation else under_group(plan.mechanism.noise)
    return Suggestion(
        words, prior, against, _error(plan, batch.request.queries[0].outputs[0]), left
    )


def _error(plan: Plan, output: str) -> float:
    """Return the largest expected error of an output; if it depends on the answers, the scale of the noise."""
    rows = plan.summary().filter(pl.col("query") == output)
    errors = rows["expected_error"].drop_nulls().to_list()
    return max(errors) if errors else float(rows["scale"][0])


def _plan(batch: Batch, prior: Prior, promise: Guarantee) -> Plan:
    given = batch.request.scenario
    scenario = Scenario(
        given.secret,
        prior,
        order_by=given.order_by,
        step=_step_of(given),
        start=None if given.order_by is None else given.start,
        within=given.within,
        public=given.public,
    )
    return Batch(replace(batch.request, scenario=scenario)).plan(promise)
