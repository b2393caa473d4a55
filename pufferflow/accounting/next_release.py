"""The best next release of an account: `confounding.design` for what its past releases leave (M32).

Only releases about the same rows matter: rows are independent, so releases about other rows reveal nothing about them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, final

from msgspec import structs

from pufferflow.accounting.exact_answers import ExactRelease, JointAnswers, table_of
from pufferflow.accounting.reserved import designed_too_late
from pufferflow.accounting.rules.additive import sets_of
from pufferflow.accounting.rules.choice import PURE
from pufferflow.accounting.rules.exact import Budgets, exact_release
from pufferflow.confounding.design import Loss, best_channel, check_probabilities, named_loss
from pufferflow.confounding.target import Target
from pufferflow.core.errors import Refused, UsageError
from pufferflow.models.priors.base import Prior
from pufferflow.models.scenario import Scenario
from pufferflow.noise.channel import Channel
from pufferflow.noise.laplace import Laplace
from pufferflow.privacy.guarantee import Guarantee, Pure
from pufferflow.published.cost import Cost, ExactSums, Region, Shape, digest_of

_LEFT = Fraction(1, 1024)
"""The part of δ that a design leaves unused, so that the solver's rounding does not cost a worse channel."""


@final
@dataclass(frozen=True, eq=False)
class Past:
    """All releases of an account, with their published outputs."""

    scenarios: tuple[Scenario, ...]
    limit: Guarantee
    costs: tuple[Cost, ...]
    unfinished: tuple[str, ...] = ()
    """The ids of releases that are reserved and not committed; for channels among them all outputs count."""
    reserved: bool = False
    """Whether the account counts by profiles that were reserved."""
    methods: tuple[str, ...] = ()
    """The accounting methods of the account, once they are fixed."""

    @property
    def scenario(self) -> Scenario:
        """The newest scenario."""
        return self.scenarios[-1]

    @property
    def priors(self) -> list[Prior]:
        """The priors of all scenarios, each once."""
        return list(
            {digest_of(prior): prior for one in self.scenarios for prior in one.priors}.values()
        )

    def about(self, sums: ExactSums, regions: dict[str, Region]) -> list[ExactRelease]:
        """Return the releases about the selected rows; refuse those that may be about some of them only."""
        overlapping = [cost for cost in self.costs if self._overlaps(cost, regions)]
        first_is_noise = bool(overlapping) and overlapping[0].shape.exact_sums is None
        if self.limit.delta and first_is_noise and self.methods not in {(), (PURE,)}:
            raise designed_too_late(self.methods)
        releases = [exact_release(cost) for cost in overlapping]
        for one in releases:
            if one is None and self.unfinished:
                raise UsageError(
                    f"The release {self.unfinished[0]!r} is reserved and not committed: its sums are not recorded.",
                    allowed="a design after all noisy releases are committed",
                    instead=f"plan.release(account, id={self.unfinished[0]!r}), which costs nothing more",
                )
            if one is None:
                raise Refused(
                    "A release of the account about some of these rows has no exact sums on record.",
                    allowed="releases without groups, of this version of pufferflow, by private_sum and private_count",
                    instead="an account whose releases all have them, or additive noise: batch.plan(…)",
                )
            if one.exact_sums.same_rows != sums.same_rows:
                raise Refused(
                    f"A release of the account is about {one.exact_sums.rows} rows that are selected in another way, "
                    f"and this batch about {sums.rows}: how many rows both have is not known.",
                    allowed="the same filters, or filters on literals that no row passes both of",
                    instead="the same filters as before, or additive noise: batch.plan(…)",
                )
        return [one for one in releases if one is not None]

    def _overlaps(self, cost: Cost, regions: dict[str, Region]) -> bool:
        """Return whether a release and the selected region may share a row."""
        shape = Shape(Pure(0.0), "", (), Laplace(1.0).stored(), 1)
        both = [cost, Cost(shape, regions=regions)]
        return not cost.selects_nothing and any(
            len(some) > 1 for prior in self.priors for some in sets_of(self.scenario, prior, both)
        )


@final
@dataclass(frozen=True, eq=False)
class NextRelease:
    """The designed sum with its channel, and its expected loss: after the repair, and as the solver found."""

    exact_sums: ExactSums
    expected_loss: float
    solver_loss: float


def design_next(  # noqa: PLR0913 - the query, and the data of the program
    past: Past,
    sums: ExactSums,
    regions: dict[str, Region],
    guarantee: Guarantee,
    *,
    name: str,
    loss: Loss,
    outputs: Sequence[Any] | None,
) -> NextRelease:
    """Return the channel of least expected loss for one sum that keeps a guarantee together with the past."""
    _check(past)
    (own,) = sums.sums
    step = math.gcd(*(one - own.terms[0] for one in own.terms)) or 1
    possible = sums.rows * (max(own.terms) - min(own.terms)) // step + 1
    check_probabilities(possible, possible if outputs is None else len(outputs))
    joint = JointAnswers.of(
        past.priors, past.scenario.secret, [*past.about(sums, regions), ExactRelease(sums)]
    )
    place = joint.answers[-1][0]
    column, answer = (joint.seen.columns[place],), own.answer
    steps = sorted({cast(int, point[place]) for point in joint.seen.points})
    grid = [answer(one) for one in steps] if outputs is None else outputs
    target = _target(past, joint, column, guarantee)
    best = best_channel(joint.seen, target, guarantee, column, _in_steps(loss, answer), grid)
    channel = Channel(
        name, [answer(one) for one in steps], best.channel.outputs, best.channel.probabilities
    )
    designed = structs.replace(sums, sums=(structs.replace(own, channel=channel.to_json()),))
    return NextRelease(designed, best.expected_loss, best.solver_loss)


def _target(past: Past, joint: JointAnswers, column: tuple[str], guarantee: Guarantee) -> Target:
    """Return the constraints: of a pure guarantee at the published outputs, of one with δ at all possible outputs."""
    if not past.limit.delta:
        return Target.after(joint.seen, joint.past, column, guarantee)
    budgets = Budgets.of(joint.unpublished, past.limit)
    if not budgets.kept:
        raise Target.after(joint.seen, budgets.outcomes, column, past.limit).broken(
            past.limit, None
        )
    share = min(Fraction(guarantee.delta) / Fraction(past.limit.delta), 1 - _LEFT)
    return Target.sharing(
        joint.seen, budgets.outcomes, column, budgets.likelihood, budgets.portion(share)
    )


def _in_steps(loss: Any, answer: Callable[[int], float]) -> Any:
    """Return a loss as a function of steps instead of answers; a matrix stays as it is."""
    measured: Any = named_loss(loss) if isinstance(loss, str) else loss

    def of_steps(output: Any, steps: int) -> float:
        return measured(output, answer(steps))

    return of_steps if callable(measured) else measured


def _check(past: Past) -> None:
    """Refuse accounts for which no release can be designed."""
    if any(table_of(prior, past.scenario.secret) is None for prior in past.priors):
        believed = ", ".join(dict.fromkeys(f"pf.{type(prior).__name__}" for prior in past.priors))
        raise Refused(
            f"A release cannot be designed under {believed}: only tables have a known joint law of exact answers.",
            allowed="pf.Table without shared columns, and pf.Secret or pf.Derived as the secret",
            instead="additive noise: batch.plan(…)",
        )
    if past.reserved:
        raise Refused(
            "The account counts by reserved profiles, which do not use the published outputs.",
            allowed="an account that was opened without reserve=",
            instead='ledger.open("another", scenario, limit=pf.Pure(1.0))',
        )
