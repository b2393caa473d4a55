"""Whether an account that exists is the one that a job file asks for; if not, a new release is refused."""

from typing import TYPE_CHECKING

from pufferflow.errors import PufferflowError

if TYPE_CHECKING:
    from pufferflow.jobs import Job
    from pufferflow.ledger import Account


def differences(job: "Job") -> list[str]:
    """Return in what a file and its account differ; that the ledger cannot be read is no fault of the file."""
    try:
        account = job.account()
    except PufferflowError as error:
        return [f"The account was not looked at: {error.problem}"]
    return disagreements(job, account)


def disagreements(job: "Job", account: "Account | None") -> list[str]:
    """Return in what a file and an account differ, a sentence each; nothing before there is an account."""
    if account is None:
        return []
    from pufferflow.cli.promises import in_words

    asked, found = job.file.ledger, list[str]()
    if asked.limit.guarantee != account.limit:
        found.append(_told(account, "limit", in_words(account.limit), in_words(asked.limit.guarantee)))
    if asked.dataset not in {None, account.dataset}:
        found.append(_told(account, "data set", repr(account.dataset), repr(asked.dataset)))
    return found


def _told(account: "Account", what: str, kept: str, asked: str) -> str:
    return f"The account {account.name!r} has the {what} {kept}, the file has {asked}: a new release will be refused."
