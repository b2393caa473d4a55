"""Releases of which some come from an optimal channel: their joint law, and limits with a δ in shares (M31).

A channel that was designed after earlier published outputs keeps the guarantee on this path, and may not on others. So
its loss alone does not count. What counts is the ratio of likelihoods at the published outputs, times any output that
is not published yet. Each is the end of one path of queries, so later queries may depend on earlier outputs.

Of a channel only this law is used and, as for rows published one by one (M35), its exposures. A guarantee that the
channel keeps by itself is not known.

Releases some of which were designed for an account, under a limit with a δ: shares of δ for every possible output.

A δ is about all possible outputs, and later queries may depend on those that were published. So each path of outputs y
has a budget b(y) of its own, which all later releases have to keep. At first b = δ. Let a release have outputs z with
the excess c(y, z) = (J_s(y, z) − t·J_s′(y, z))_+, where t = e^ε. With Δ(y) = Σ_z c(y, z), the budgets after it are

    b(y, z) = c(y, z) + (b(y) − Δ(y))·w(z|y),

where w(z|y) is the mean of P(z|y, s) and P(z|y, s′). A release keeps its budget if Δ(y) ≤ b(y) for every y. Since Σ_z
b(y, z) = b(y) and c ≤ b at every end, the excess over all paths sums to at most δ. This holds whatever the queries on
each path (M31).

Releases before the first designed one were counted by pure losses, and so are the following ones on other paths. All of
these together may reach a ratio m above t, the largest such that (m, 0) keeps (ε, δ). The excess below an outcome y is
then at most (m − t)·(m·J_s(y) − J_s′(y))_+/(m² − 1). These shares sum to δ over all y, so designed releases start with
them as budgets. Equal shares would leave more than pure losses do where J_s(y) is small, and together with these more
than δ.

Noise is replaced by a channel that reveals at least as much. The published output is a random function of the channel's
output, and so is the next query.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np

from pufferflow.accounting.exact_answers import ExactRelease, JointAnswers, table_of
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
from pufferflow.confounding.law_pairs import ExactPair, likelihood_below
from pufferflow.confounding.target import PastOutcomes
from pufferflow.core.arrays import Array
from pufferflow.core.errors import Refused
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.cost import Cost


def exact_release(cost: Cost) -> ExactRelease | None:
    """Return the exact sums of a release, and what was published of them; None if they are unknown."""
    sums, answered = cost.shape.exact_sums, cost.answered
    if answered is None:
        return None if sums is None else ExactRelease(sums)
    own = sums if answered.exact_sums is None else answered.exact_sums
    return None if own is None else ExactRelease(own, answered.outputs or None)


def joint_answers(releases: UnitReleases) -> JointAnswers | None:
    """Return the joint law of the exact answers of releases some of which were designed; None if it is unknown."""
    if all(cost.shape.exact_sums is None for cost in releases.costs):
        return None
    known = [exact_release(cost) for cost in releases.costs]
    listed = [one for one in known if one is not None]
    about = {one.exact_sums.same_rows for one in listed}
    if (
        len(listed) < len(known)
        or len(about) != 1
        or table_of(releases.prior, releases.scenario.secret) is None
    ):
        return None
    return JointAnswers.of([releases.prior], releases.scenario.secret, listed)


@final
class ExactRule(CompositionRule):
    """Releases about the same rows of a table, some of them by channels that were designed for the account.

    The rule does not apply where exact sums are unknown, or releases are about different rows.
    """

    name = "the joint law of exact answers, at what was published (M23, M31)"
    why = "only pure totals: the exact ratio of likelihoods at the outputs of the path, and at any output to come (M31)"

    def pure(self, releases: UnitReleases) -> float:
        joint = joint_answers(releases)
        return math.inf if joint is None else joint.pure


RULE: Final = "the joint law of exact answers, with a share of delta for every output (M23, M31)"
_ERROR_OF_NOISES: Final = Fraction(1, 10**9)
"""The relative error of the likelihoods of all noises together, kept as a margin from the first release on."""
_BEYOND: Final = 1 + 1e-6


@final
@dataclass(frozen=True, eq=False)
class Budgets:
    """The outcomes of all releases so far, and for each table the part of δ left to each pair at each outcome.

    `kept` says whether no release has passed its budget; `used` is the excess so far, of shape (pairs, outcomes).
    """

    joint: JointAnswers
    outcomes: PastOutcomes
    likelihood: Fraction
    left: tuple[Array, ...]
    used: tuple[Array, ...]
    kept: bool

    @classmethod
    def of(cls, joint: JointAnswers, limit: Guarantee) -> "Budgets":
        """Return the budgets after all releases, whatever their published outputs."""
        likelihood = likelihood_below(limit.loss) * (1 - 4 * _ERROR_OF_NOISES)
        first = PastOutcomes.of_nothing(len(joint.seen.points))
        delta = np.full(
            (len(joint.seen.pairs), 1),
            Fraction(limit.delta) * (1 - 4 * _ERROR_OF_NOISES),
            dtype=object,
        )
        nothing = np.zeros_like(delta) * Fraction(0)
        tables = len(joint.seen.laws)
        now = cls(joint, first, likelihood, (delta,) * tables, (nothing,) * tables, kept=True)
        pure = joint.steps_before_designed
        for number, step in enumerate(joint.steps, 1):
            now = now._after(step)
            if number == pure:
                now = now.after_pure(Fraction(limit.delta))
        if now.outcomes.off > _ERROR_OF_NOISES:
            raise Refused(
                "Too many noisy releases.",
                allowed="some hundred of them",
                instead="another account",
            )
        return now

    def _after(self, step: PastOutcomes) -> "Budgets":
        """Return the budgets after one more sum was published."""
        before = self.outcomes
        outcomes, parents = before.followed_by(step, len(self.joint.seen.values))
        left, used, kept, pairs = list[Array](), list[Array](), self.kept, self.joint.seen.pairs
        for place, (laws, total) in enumerate(self.joint.seen.laws):
            now = _fractions(laws @ outcomes.masses, total * outcomes.unit)
            was = _fractions(laws @ before.masses, total * before.unit)
            excess = np.array(
                [np.maximum(now[one] - self.likelihood * now[other], 0) for one, other in pairs]
            )
            spent = np.zeros_like(self.left[place]) * Fraction(0)
            np.add.at(spent.T, parents, excess.T)
            spare = self.left[place] - spent
            kept = kept and bool((spare >= 0).all())
            left.append(
                excess + np.maximum(spare, 0)[:, parents] * self._shares(now, was[:, parents])
            )
            used.append(excess)
        return Budgets(self.joint, outcomes, self.likelihood, tuple(left), tuple(used), kept)

    def after_pure(self, delta: Fraction) -> "Budgets":
        """Return the budgets after releases that were counted by pure losses; earlier budgets do not matter."""
        left, kept = list[Array](), True
        for place, (laws, total) in enumerate(self.joint.seen.laws):
            masses = _fractions(laws @ self.outcomes.masses, total * self.outcomes.unit)
            pairs = self.joint.seen.pairs
            left.append(
                np.array(
                    [
                        self._shares_of_pure(masses[one], masses[other], delta)
                        for one, other in pairs
                    ]
                )
            )
            kept = kept and bool((self.used[place] <= left[place]).all())
        return replace(self, left=tuple(left), kept=kept)

    def _shares_of_pure(self, first: Array, second: Array, delta: Fraction) -> Array:
        """Return (m − t)·(m·p − q)_+/(m² − 1), rounded down by the relative error of the likelihoods t and masses.

        It is δ·(m·p − q)/(m − 1), which falls or rises with m.
        """
        shares = list[Array]()
        for likelihood in (self.likelihood, self.likelihood * (1 + 16 * _ERROR_OF_NOISES)):
            most = (likelihood + delta) / (1 - delta)
            shares.append(
                np.maximum(most * (1 - 8 * _ERROR_OF_NOISES) * first - second, 0)
                * (delta / (most - 1))
            )
        return np.minimum(*shares) * (1 - 4 * _ERROR_OF_NOISES)

    def _shares(self, now: Array, was: Array) -> Array:
        """Return w(z|y); 0 for outcomes of probability 0 under both secrets."""
        rows = [
            (now[one] + now[other], was[one] + was[other]) for one, other in self.joint.seen.pairs
        ]
        return np.array(
            [[a / b if b else Fraction(0) for a, b in zip(*row, strict=True)] for row in rows],
            dtype=object,
        )

    def portion(self, share: Fraction) -> tuple[Array, ...]:
        """Return the part of the remaining δ that the next release may use."""
        return tuple(
            used + (left - used) * share for left, used in zip(self.left, self.used, strict=True)
        )


def _fractions(masses: Array, unit: int) -> Array:
    return np.array(
        [[Fraction(int(one), unit) for one in row] for row in masses.tolist()], dtype=object
    )


def epsilon_within(releases: UnitReleases, limit: Guarantee) -> float:
    """Return the ε of a limit if all releases about a unit keep its budgets; else a larger one, ∞ if none is known.

    Noise whose outputs no channel with finitely many can represent is refused.
    """
    joint = joint_answers(releases)
    if joint is None:
        return math.inf
    budgets = Budgets.of(joint.unpublished, limit)
    if budgets.kept:
        return limit.loss
    return max(limit.loss * _BEYOND, _fixed_epsilon(joint, budgets.outcomes, limit.delta))


def _fixed_epsilon(joint: JointAnswers, outcomes: PastOutcomes, delta: float) -> float:
    """Return the ε at δ of releases that were all chosen beforehand."""
    found: list[float] = [0.0]
    for laws, total in joint.seen.laws:
        masses, unit = laws @ outcomes.masses, total * outcomes.unit
        found += [
            ExactPair(masses[one], masses[other], unit).epsilon(delta)
            for one, other in joint.seen.pairs
        ]
    return max(found)
