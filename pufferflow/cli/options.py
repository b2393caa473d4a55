"""Arguments and options that several commands have, and what may stand where a file is to be written.

Where a ledger is that somebody wants to look at; looking must not make one.

Promises, for people in few words and for programs by their parts.

Whether an account that exists is the one that a job file asks for; if not, a new release is refused.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from pufferflow.arguments import local_path
from pufferflow.errors import Misuse, PufferflowError
from pufferflow.guarantees import Guarantee
from pufferflow.report import SPENT, downwards, upwards

JobPath = Annotated[Path, typer.Argument(metavar="JOB", help="The job file, such as job.toml.", show_default=False)]
PeriodName = Annotated[
    str | None,
    typer.Option(
        "--period",
        metavar="PERIOD",
        help="Which period: 2026-11-20T05, 2026-11-20, 2026-W47 or 2026-11. The last that is over, if left out.",
        show_default=False,
    ),
]
SinceName = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="PERIOD",
        help="Make good all periods from this one to the last that is over, oldest first.",
        show_default=False,
    ),
]
LedgerAddress = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER",
        help="The ledger: a file, or an address such as postgresql+psycopg://host/database.",
        show_default=False,
    ),
]
PAGE = typer.Option("--output", "-o", metavar="PAGE.html", help="Where the page is written.", show_default=False)
_PAGE, _DATABASE = b"<!doctype html", b"sqlite format 3"
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


def read_page(path: Path, *, force: bool) -> Path:
    """Return where a page goes: a new file, or in place of another page; of anything else only if that is wanted."""
    local_path(path, "The place of a page")
    if path.suffix.lower() not in {".html", ".htm"}:
        raise Misuse(
            f"A page would be written to {path.name[:200]!r}.",
            allowed="a name that ends in .html",
            instead="-o page.html",
        )
    if not _is_page(path):
        check_free(path, force=force)
    return path


def _is_page(path: Path) -> bool:
    """Say whether a file is a page; what a symbolic link leads to is somebody else's."""
    return not path.is_symlink() and _begins(path, _PAGE)


def _begins(path: Path, start: bytes) -> bool:
    """Say whether there is a file that begins so; it must not be open elsewhere in the process, for SQLite's locks."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(start)).lower() == start
    except OSError:
        return False


def check_free(path: Path, *, force: bool) -> None:
    """Refuse to write where something is, unless that is what is wanted; a ledger's file is never replaced."""
    local_path(path, "The place of a file")
    if _begins(path, _DATABASE):
        raise Misuse(f"The file {path.name[:200]!r} is a database.", allowed="a new file", instead="another name")
    if not force and (path.exists() or path.is_symlink()):
        raise Misuse(
            f"There is a file {path.name[:200]!r} already.", allowed="a new file", instead="--force, to replace it"
        )


if TYPE_CHECKING:
    from pufferflow.ledger import Ledger


def existing(address: str) -> "Ledger":
    """Return the ledger of a file that is there, or of an address as it is."""
    from pufferflow.ledger import Ledger, read_address

    read_address(address)  # refuses what has a password in it before it could be shown as a file
    if "://" not in address:
        _check_file(Path(address))
    return Ledger(address)


def without_password(ledger: "Ledger") -> str:
    """Return where a ledger is, as it may be shown."""
    return repr(ledger).removeprefix("<Ledger ").removesuffix(">")


def _check_file(path: Path) -> None:
    problem = ""
    if path.is_dir():
        problem = f"{path.name[:200]!r} is a folder."
    elif not path.exists():
        problem = f"There is no file {str(path)[-200:]!r}."
    elif path.is_file() and path.stat().st_size == 0:
        problem = f"The file {path.name[:200]!r} is empty."
    if problem:
        raise Misuse(
            problem, allowed="a ledger that a run has written", instead="pufferflow run job.toml, which makes it"
        )


def in_words(promise: Guarantee) -> str:
    """Return a promise as one would say it, its numbers rounded towards a weaker one.

    >>> from pufferflow.guarantees import Approx
    >>> in_words(Approx(0.5, 1e-6))
    'epsilon 0.5, delta 1e-06'
    """
    parts = _numbers(promise)
    weaker = {name: (downwards if name == "alpha" else upwards)(value, SPENT) for name, value in parts.items()}
    return ", ".join(f"{name} {value:g}" for name, value in weaker.items()) or repr(promise)


def of_limit(epsilon: float | None, limit: Guarantee) -> str:
    """Say how much of a limit is spent, by an epsilon of its kind.

    >>> from pufferflow.guarantees import Approx
    >>> of_limit(0.5, Approx(3.0, 1e-6))
    'epsilon 0.5 of 3, delta 1e-06'
    """
    rest = in_words(limit).removeprefix("epsilon ")
    return f"epsilon {'unknown' if epsilon is None else f'{upwards(epsilon, SPENT):g}'} of {rest}"


def epsilon_of(promise: Guarantee) -> float | None:
    """Return the epsilon of a promise; None if it has several."""
    found = getattr(promise, "epsilon", None)
    return found if isinstance(found, float) else None


def _numbers(promise: Guarantee) -> dict[str, Any]:
    parts = msgspec.to_builtins(promise)
    return {name: parts[name] for name in ("epsilon", "delta", "alpha") if name in parts}


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

    asked, found = job.file.ledger, list[str]()
    if asked.limit.guarantee != account.limit:
        found.append(_told(account, "limit", in_words(account.limit), in_words(asked.limit.guarantee)))
    if asked.dataset not in {None, account.dataset}:
        found.append(_told(account, "data set", repr(account.dataset), repr(asked.dataset)))
    return found


def _told(account: "Account", what: str, kept: str, asked: str) -> str:
    return f"The account {account.name!r} has the {what} {kept}, the file has {asked}: a new release will be refused."
