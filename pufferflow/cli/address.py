"""Where a ledger is that somebody wants to look at; looking must not make one."""

from pathlib import Path
from typing import TYPE_CHECKING

from pufferflow.errors import Misuse

if TYPE_CHECKING:
    from pufferflow.ledger import Ledger


def existing(address: str) -> "Ledger":
    """Return the ledger of a file that is there, or of an address as it is."""
    from pufferflow.ledger import Ledger
    from pufferflow.ledger.address import read_address

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
