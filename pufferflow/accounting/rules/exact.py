"""Releases some of which were designed for an account: the joint law of answers at the published outputs (M23, M31).

A channel that was designed after earlier published outputs keeps the guarantee on this path, and may not on others. So
its loss alone does not count. What counts is the ratio of likelihoods at the published outputs, times any output that
is not published yet. Each is the end of one path of queries, so later queries may depend on earlier outputs.

Of a channel only this law is used and, as for rows published one by one (M35), its exposures. A guarantee that the
channel keeps by itself is not known.
"""

import math
from typing import final

from pufferflow.accounting.exact_answers import ExactRelease, JointAnswers, table_of
from pufferflow.accounting.rules.base import CompositionRule, UnitReleases
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
    if len(listed) < len(known) or len(about) != 1 or table_of(releases.prior, releases.scenario.secret) is None:
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
