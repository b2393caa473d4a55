"""`pufferflow verify`: whether what is published is what its ledger keeps, release by release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pufferflow.cli.address import existing, without_password
from pufferflow.cli.codes import EXITS
from pufferflow.cli.command import Answer
from pufferflow.cli.screen import Screen
from pufferflow.errors import LedgerFault

if TYPE_CHECKING:
    from pufferflow.ledger.published import Published

Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="The folder of a release, or a sink with many.", show_default=False),
]
PaidBy = Annotated[
    str,
    typer.Option("--ledger", metavar="LEDGER", help="The ledger that paid: a file or an address.", show_default=False),
]
OfAccount = Annotated[
    str | None,
    typer.Option("--account", metavar="NAME", help="All are to be of this account.", show_default=False),
]


def verify(screen: Screen, folder: Folder, ledger: PaidBy, account: OfAccount = None) -> Answer:
    """Compare published releases with their ledger.

    Tells of each release whether all its numbers and its certificate are those that the ledger keeps, and if not, what
    was changed: exit code 6. Pages are not compared.
    """
    with existing(ledger) as found:
        place, releases = without_password(found), found.compare(folder, account)
    changed = [one for one in releases if one.differs]
    columns = ("release", "entry", "account", "state")
    screen.table(columns, [[one.folder.name, *_shown(one)] for one in releases])
    screen.say(f"{len(releases) - len(changed)} of {len(releases)} as the ledger keeps them.")
    if changed:
        screen.note(f"PUBLISHED RELEASES ARE NOT WHAT THE LEDGER KEEPS: {len(changed)}")
    document = {"ledger": place, "folder": folder, "releases": [_document(one) for one in releases]}
    return Answer({**document, "same": not changed}, EXITS[LedgerFault] if changed else 0)


def _shown(one: "Published") -> list[str]:
    return [one.entry.partition(":")[0], one.account, "; ".join(one.differs) or "same"]


def _document(one: "Published") -> dict[str, Any]:
    return {
        "folder": one.folder,
        "entry": one.entry or None,
        "account": one.account or None,
        "release": one.release_id or None,
        "same": not one.differs,
        "differs": one.differs,
    }
