"""The folders of a sink: releases in them that the account has to know, and the page beside a release.

A folder that would make a job pay twice, or publish what is another job's, is refused before anything is drawn.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pufferflow.errors import InternalError, Misuse, PufferflowError
from pufferflow.guarded import guarded
from pufferflow.jobs.file import JobFile
from pufferflow.ledger import Ledger
from pufferflow.release import CERTIFICATE, Release, add, entry_of
from pufferflow.report.evidence import Evidence

EVIDENCE, PAGE = "evidence.json", "report.html"
_NEWEST: Final = 8
"""How many of the newest certificates are looked up, by each way of telling which are the newest."""


def has_release(folder: Path) -> bool:
    """Say whether a folder has a release, whoever made it."""
    return (folder / CERTIFICATE).exists()


def check_known(folder: Path) -> None:
    """Refuse a folder with a release that the account does not know."""
    if has_release(folder):
        raise Misuse(
            f"The folder {str(folder)[-200:]!r} has a release that the account does not know. Nothing was drawn.",
            allowed="the ledger and the account that paid for what is published; a sink for each job",
            instead="a look at [ledger]: is its address right, was the file moved? Is the [sink] another job's?",
        )


def check_not_lost(sink: Path) -> None:
    """Refuse to begin a new ledger where releases are that some ledger paid for: it would forget what they cost."""
    if any(has_release(folder) for folder in _folders(sink)):
        raise Misuse(
            f"The ledger is not there, and {str(sink)[-200:]!r} has releases that one paid for. Nothing was drawn.",
            allowed="the ledger that paid for them",
            instead="a look at [ledger] address: was the file moved? Or another [sink], for a new beginning",
        )


def check_not_older(sink: Path, ledger: Ledger) -> None:
    """Refuse a ledger that lacks what the newest certificates of the sink name: it would forget what was spent."""
    for folder in _newest(sink):
        entry = entry_of(folder)
        if entry and not ledger.knows(entry):
            raise Misuse(
                f"The release in {str(folder)[-200:]!r} was paid for by entry {entry[:30]}…, and the ledger has no "
                "such entry: it is an older copy, restored from a backup, or another. Nothing was drawn or charged.",
                allowed="the ledger that paid for what is published, with all its entries",
                instead="the newest copy of the ledger (pufferflow verify, on the sink, tells what a copy lacks); or "
                "another [sink] for another ledger",
            )


def _newest(sink: Path) -> list[Path]:
    """Return the folders of the newest releases, by their periods and by when they were written."""
    places = [(folder.name, _written_at(folder), folder) for folder in _folders(sink) if has_release(folder)]
    by_name = sorted(places, key=lambda one: one[0])[-_NEWEST:]
    by_time = sorted(places, key=lambda one: one[1])[-_NEWEST:]
    return [folder for _, _, folder in dict.fromkeys([*by_name[::-1], *by_time[::-1]])]


def _written_at(folder: Path) -> float:
    with suppress(OSError):
        return (folder / CERTIFICATE).stat().st_mtime
    return 0.0


def changed(file: JobFile, release: Release) -> Iterator[str]:
    """Tell if a release that is kept was made for another promise than the job's of today."""
    asked, made = file.guarantee and file.guarantee.guarantee, release.certificate.promise
    if asked is not None and asked != made:
        yield f"it was released with {made!r}, before the job asked for {asked!r}"


def _folders(sink: Path) -> Iterator[Path]:
    return (place for place in sink.iterdir() if place.is_dir()) if sink.is_dir() else iter(())


def write_page(
    release: Release, folder: Path, job: str, period: str, gather: Callable[[], Evidence]
) -> tuple[str, ...]:
    """Write the page of a release and its evidence beside it, unless they are there; a failure becomes a note.

    The release is what was promised. Where rows or priors are gone by now, its page is written without evidence.
    """
    if (folder / PAGE).exists():
        return ()
    notes, evidence = list[str](), None

    def add_evidence() -> Evidence:
        gathered = gather()
        add(folder, EVIDENCE, gathered.to_json())
        return gathered

    try:
        evidence = guarded(add_evidence, _failed)
    except PufferflowError as error:
        notes.append(f"the page has no evidence: {error.problem}")
    try:
        guarded(lambda: add(folder, PAGE, release.page(evidence, job, period).encode()), _failed)
    except PufferflowError as error:
        notes.append(f"the page could not be written: {error.problem}")
    return tuple(notes)


def _failed(kind: str) -> InternalError:
    return InternalError(f"its making stopped with {kind}.", instead="reporting it to the maintainers")
