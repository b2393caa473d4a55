"""What a planned release would cost its account: spent so far, the total after it, and how many more fit."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

from pufferflow.errors import PufferflowError

if TYPE_CHECKING:
    from pufferflow.composition import Forecast
    from pufferflow.guarantees import Guarantee
    from pufferflow.jobs import Job, Period
    from pufferflow.ledger import Account
    from pufferflow.plan import Plan


@final
@dataclass(frozen=True)
class Cost:
    """`after` and `endless` are epsilons of the limit's kind: the total after this release, and of an endless schedule.

    `fits` counts further releases about the same rows, `ahead` those of the next periods; None is any number of them.
    What nobody can tell is None as well. Before the first run there is no account, and `after` is the promise alone.
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
            ("still fit", f"{_many(self.fits)} about the same rows"),
            ("schedule", self._schedule(of_limit(self.endless, self.limit))),
        ]

    def _schedule(self, total: str) -> str:
        if self.endless is not None and self.ahead is None:
            return f"may go on for ever, at {total} ({self.rule})"
        return self.note if self.ahead is None else f"{_many(self.ahead)} about the periods that follow"


def cost_of(job: "Job", period: "Period", plan: "Plan", account: "Account | None") -> Cost:
    """Return what a release of a plan would cost."""
    from pufferflow.cli.promises import epsilon_of

    charged, alone = job.file.ledger, epsilon_of(plan.guarantee)
    if account is None:
        return Cost(charged.account, opened=False, released=False, limit=charged.limit.guarantee, after=alone)
    spent, released = account.spent(), account.find(job.id_of(period)) is not None
    one, all_of_them = _forecast(account, plan, job.every, job.every), _forecast(account, plan, job.every)
    after = epsilon_of(spent) if released else one and one.total
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
        note=all_of_them.note if all_of_them else "nobody can tell",
    )


def _forecast(account: "Account", plan: "Plan", every: str | None, until: str | None = None) -> "Forecast | None":
    """Return what a schedule will have spent; None where it has no steps to be counted in, as months have none."""
    try:
        return None if every is None else account.forecast(plan, every, until)
    except PufferflowError:
        return None


def _whole(number: float) -> int | None:
    return None if math.isinf(number) else int(number)


def _many(count: int | None) -> str:
    return "any number of releases" if count is None else "1 release more" if count == 1 else f"{count} releases more"
