"""One run of a job: in a line for people, and in parts for programs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferflow.cli.screen import Screen

if TYPE_CHECKING:
    from pufferflow.jobs import Job, Ran
    from pufferflow.ledger import Account


def tell_run(screen: Screen, job: "Job", ran: "Ran", before: str = "") -> None:
    """Tell of a run, a line for it and one for each note."""
    from pufferflow.cli.promises import epsilon_of, of_limit

    account = job.account()
    spent = "" if account is None else f"  spent {of_limit(epsilon_of(account.spent()), account.limit)}"
    screen.log(f"{before}{ran.id.removeprefix(f'{ran.job}-')}  {ran.state}  {_noise(ran)}{spent}  {near(ran.folder)}")
    for note in ran.notes:
        screen.log(f"{before}  note: {note}")


def run_document(ran: "Ran") -> dict[str, Any]:
    """Return a run for programs."""
    certificate = ran.release.certificate
    return {
        "period": ran.period,
        "id": ran.id,
        "state": ran.state,
        "drawn": ran.drawn,
        "sent": ran.sent,
        "attempts": ran.attempts,
        "folder": ran.folder,
        "promise": certificate.promise,
        "noise": [{"sum": one.sum, "noise": one.noise, "scale": one.scale} for one in certificate.sums],
        "entry": certificate.entry,
        "notes": ran.notes,
    }


def account_document(account: "Account | None") -> dict[str, Any] | None:
    """Return an account for programs; None before there is one."""
    if account is None:
        return None
    return {"name": account.name, "spent": account.spent(), "limit": account.limit}


def near(path: Path) -> str:
    """Return a path as it is written from here, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _noise(ran: "Ran") -> str:
    kinds: Sequence[str] = list(dict.fromkeys(f"{one.noise} {one.scale:.4g}" for one in ran.release.certificate.sums))
    return kinds[0] if len(kinds) == 1 else f"{kinds[0]} and {len(kinds) - 1} more"
