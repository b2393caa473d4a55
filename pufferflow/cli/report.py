"""`pufferflow report`: a page for people, of one release or of a whole ledger."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pufferflow.cli.address import existing
from pufferflow.cli.command import Answer
from pufferflow.cli.options import PAGE, read_page
from pufferflow.cli.screen import Screen
from pufferflow.errors import Misuse

if TYPE_CHECKING:
    from pufferflow.report.evidence import Evidence

What = Annotated[
    str,
    typer.Argument(
        metavar="RELEASE|LEDGER", help="A release's folder, or a ledger: a file or an address.", show_default=False
    ),
]


def report(screen: Screen, what: What, output: Annotated[Path, PAGE]) -> Answer:
    """Write a page for people about a release or a ledger.

    One HTML file that needs nothing else, to be sent or printed.
    """
    place, folder = read_page(output), Path(what)
    if "://" not in what and folder.is_dir():
        kind, page = "release", _release_page(folder, place)
    else:
        with existing(what) as ledger:
            kind, page = "ledger", ledger.report(place)
    size = page.stat().st_size
    screen.say(f"{page}: the page of a {kind}, {size} bytes.")
    return Answer({"kind": kind, "path": page, "bytes": size})


def _release_page(folder: Path, place: Path) -> Path:
    from pufferflow.release import Release

    if not (folder / "certificate.json").is_file():
        raise Misuse(
            f"The folder {folder.name[:200]!r} has no certificate.json.",
            allowed="a folder of one release, such as a run writes, or a ledger",
            instead="one of the folders in it",
        )
    return Release.read(folder).report(place, _evidence(folder / "evidence.json"))


def _evidence(file: Path) -> "Evidence | None":
    from pufferflow.report.evidence import Evidence

    return Evidence.from_json(file.read_bytes()) if file.is_file() else None
