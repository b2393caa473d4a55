"""What a planned release would cost its account: spent so far, the total after it, and how many more fit."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

from pufferflow.errors import PufferflowError, Refused

if TYPE_CHECKING:
    from pufferflow.composition import Forecast
    from pufferflow.guarantees import Guarantee
    from pufferflow.jobs import Job, Period
    from pufferflow.ledger import Account
    from pufferflow.plan import Plan

_UNEQUAL = "periods differ in length, so the schedule is not forecast"


@final
@dataclass(frozen=True)
class Cost:
    """`after` and `endless` are epsilons of the limit's kind: the total after this release, and of an endless schedule.

    `fits` counts further releases about the same rows, `ahead` those of the next periods; None is any number of them.
    What nobody can tell is None as well. Before the first run there is no account, and `after` is what it will show.
    """

    account: str
    opened: bool
    released: bool
    limit: "Guarantee"
    spent: "Guarantee | None" = None
    after: float | None = None
    fits: int | None = None
    ahead: int | None = None
    endless: float | None = None
    rule: str = ""
    note: str = ""

    def document(self) -> dict[str, Any]:
        """Return it by its names."""
        return asdict(self)

    def facts(self) -> list[tuple[str, str]]:
        """Return what people are told."""
        from pufferflow.cli.promises import epsilon_of, of_limit

        if self.spent is None:
            after = of_limit(self.after, self.limit)
            return [("account", f"{self.account}; the first run opens it"), ("after this", after)]
        after = "the same: this period is released already" if self.released else of_limit(self.after, self.limit)
        return [
            ("account", self.account),
            ("spent", of_limit(epsilon_of(self.spent), self.limit)),
            ("after this", after),
            ("left", f"room for {_many(self.fits)} about the same rows"),
            ("schedule", self._schedule(of_limit(self.endless, self.limit))),
        ]

    def _schedule(self, total: str) -> str:
        if self.endless is not None and self.ahead is None:
            return f"may go on for ever, at {total} ({self.rule})"
        return self.note if self.ahead is None else f"room for {_many(self.ahead)} about the periods that follow"


def cost_of(job: "Job", period: "Period", plan: "Plan", account: "Account | None") -> Cost:
    """Return what a release of a plan would cost."""
    from pufferflow.cli.promises import epsilon_of

    charged, name = job.file.ledger, job.id_of(period)
    if account is None:
        limit = charged.limit.guarantee
        return Cost(charged.account, opened=False, released=False, limit=limit, after=_first(plan, limit))
    spent, released = account.spent(), account.find(name) is not None
    paid = released or any(entry.release_id == name for entry in account.history())
    all_of_them = _forecast(account, plan, job.every)
    after = epsilon_of(spent) if paid else _after(account, plan)
    return Cost(
        charged.account,
        opened=True,
        released=released,
        limit=account.limit,
        spent=spent,
        after=after,
        fits=_whole(account.remaining(plan)),
        ahead=all_of_them and _whole(all_of_them.fits),
        endless=all_of_them.total if all_of_them and math.isfinite(all_of_them.total) else None,
        rule=all_of_them.rule if all_of_them else "",
        note=all_of_them.note if all_of_them else _UNEQUAL if job.every is None else "nobody can tell",
    )


def _first(plan: "Plan", limit: "Guarantee") -> float | None:
    """Return the total of a plan alone, in the kind of the limit; None if no rule tells it."""
    from pufferflow.cli.promises import epsilon_of
    from pufferflow.composition import Spent

    try:
        return epsilon_of(Spent([plan.questions.scenario], limit).total([plan.cost]).guarantee)
    except Refused:
        return None


def _after(account: "Account", plan: "Plan") -> float | None:
    """Return the total with one more release of a plan; None if no rule tells it."""
    from pufferflow.cli.promises import epsilon_of

    try:
        return epsilon_of(account.after(plan))
    except Refused:
        return None


def _forecast(account: "Account", plan: "Plan", every: str | None) -> "Forecast | None":
    """Return what a schedule will have spent; None where it has no steps to be counted in, as months have none."""
    try:
        return None if every is None else account.forecast(plan, every)
    except PufferflowError:
        return None


def _whole(number: float) -> int | None:
    return None if math.isinf(number) else int(number)


def _many(count: int | None) -> str:
    if not count:
        return "any number of releases" if count is None else "no more releases"
    return "1 more release" if count == 1 else f"{count} more releases"
