"""Arguments and options that several commands share, and checks of paths that are written or read.

Commands that only read a ledger never create one.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pufferflow.core.errors import UsageError
from pufferflow.core.paths import local_path

if TYPE_CHECKING:
    from pufferflow.accounting.ledger.ledger import Ledger

JobPath = Annotated[
    Path, typer.Argument(metavar="JOB", help="The job file, such as job.toml.", show_default=False)
]
PeriodName = Annotated[
    str | None,
    typer.Option(
        "--period",
        metavar="PERIOD",
        help="An hour 2026-11-20T05, day 2026-11-20, week 2026-W47 or month 2026-11. Default: the last that is over.",
        show_default=False,
    ),
]
SinceName = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="PERIOD",
        help="Release every period from this one on that was not released, oldest first.",
        show_default=False,
    ),
]
UntilName = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="PERIOD",
        help="With --since: the last period to release. Default: the last that is over.",
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
PAGE = typer.Option(
    "--output", "-o", metavar="PAGE.html", help="Write the report to this file.", show_default=False
)
_PAGE, _DATABASE = b"<!doctype html", b"sqlite format 3"
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def read_page(path: Path, *, force: bool) -> Path:
    """Return the path of a report: a new file or another report; any other file is replaced by force only."""
    local_path(path, "The path of a report")
    if path.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(
            f"A report would be written to {path.name[:200]!r}.",
            allowed="a name that ends in .html",
            instead="-o page.html",
        )
    if path.is_symlink() or not _begins(path, _PAGE):  # a symbolic link does not count as a report
        check_free(path, force=force)
    return path


def _begins(path: Path, start: bytes) -> bool:
    """Return whether a file begins with these bytes; SQLite's locks forbid that the process has it open elsewhere."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(start)).lower() == start
    except OSError:
        return False


def check_free(path: Path, *, force: bool) -> None:
    """Refuse to write over a file, except by force; the file of a ledger is never replaced."""
    local_path(path, "The path of a file")
    if _begins(path, _DATABASE):
        raise UsageError(
            f"The file {path.name[:200]!r} is a database.",
            allowed="a new file",
            instead="another name",
        )
    if not force and (path.exists() or path.is_symlink()):
        raise UsageError(
            f"There is a file {path.name[:200]!r} already.",
            allowed="a new file",
            instead="--force, to replace it",
        )


def existing(address: str) -> "Ledger":
    """Return the ledger of an existing file, or of an address."""
    from pufferflow.accounting.ledger.address import read_address
    from pufferflow.accounting.ledger.ledger import Ledger

    read_address(address)  # refuses a password, which would otherwise be shown as a file name
    if "://" not in address:
        _check_file(Path(address))
    return Ledger(address)


def _check_file(path: Path) -> None:
    problem = ""
    if path.is_dir():
        problem = f"{path.name[:200]!r} is a folder."
    elif not path.exists():
        problem = f"There is no file {str(path)[-200:]!r}."
    elif path.is_file() and path.stat().st_size == 0:
        problem = f"The file {path.name[:200]!r} is empty."
    if problem:
        raise UsageError(
            problem,
            allowed="a ledger that a run has written",
            instead="pufferflow run job.toml, which makes it",
        )
