"""Short texts for guarantees, and a check that an existing account agrees with its job file."""

from typing import TYPE_CHECKING

from pufferflow.core.errors import PufferflowError
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.reports.numbers import SPENT, downwards, upwards

if TYPE_CHECKING:
    from pufferflow.accounting.ledger.account import Account
    from pufferflow.jobs.job import Job


def in_words(promise: Guarantee) -> str:
    """Return a guarantee as text, its numbers rounded towards a weaker one.

    >>> from pufferflow.privacy.guarantee import Approx
    >>> in_words(Approx(0.5, 1e-6))
    'epsilon 0.5, delta 1e-06'
    """
    parts = promise.numbers()
    weaker = {
        name: (downwards if name == "alpha" else upwards)(value, SPENT)
        for name, value in parts.items()
    }
    return ", ".join(f"{name} {value:g}" for name, value in weaker.items()) or repr(promise)


def of_limit(loss: float | None, limit: Guarantee) -> str:
    """Return how much of a limit is spent, by a loss of its kind.

    >>> from pufferflow.privacy.guarantee import Approx
    >>> of_limit(0.5, Approx(3.0, 1e-6))
    'epsilon 0.5 of 3, delta 1e-06'
    """
    rest = in_words(limit).removeprefix(f"{limit.measure} ")
    return f"{limit.measure} {'unknown' if loss is None else f'{upwards(loss, SPENT):g}'} of {rest}"


def loss_of(promise: Guarantee) -> float | None:
    """Return the loss of a guarantee: its epsilon, rho or mu; None if it has several numbers."""
    return None if promise.kind is None else promise.loss


def differences(job: "Job") -> list[str]:
    """Return the differences of a job file and its account; an unreadable ledger is a note, too."""
    try:
        account = job.account()
    except PufferflowError as error:
        return [f"The account was not checked: {error.problem}"]
    return disagreements(job, account)


def disagreements(job: "Job", account: "Account | None") -> list[str]:
    """Return the differences of a job file and an account, a sentence each; empty without an account."""
    if account is None:
        return []
    from pufferflow.jobs.missed import zone_changed

    charged, wrong = job.file.ledger, list[str]()
    if charged.limit.guarantee != account.limit:
        wrong.append(
            _disagreement(
                account, "limit", in_words(account.limit), in_words(charged.limit.guarantee)
            )
        )
    if charged.dataset not in {None, account.dataset}:
        wrong.append(
            _disagreement(account, "data set", repr(account.dataset), repr(charged.dataset))
        )
    schedule = job.file.schedule
    if changed := zone_changed(account, job.name, schedule.period, schedule.timezone):
        wrong.append(f"{changed} A new release will be refused.")
    return wrong


def _disagreement(account: "Account", what: str, ours: str, theirs: str) -> str:
    return f"The account {account.name!r} has the {what} {ours}, the file has {theirs}: a new release will be refused."
