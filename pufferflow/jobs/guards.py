"""What would make a job pay twice or publish what is not its own: noticed before anything is drawn."""

from collections.abc import Iterator
from pathlib import Path

from pufferflow.errors import Misuse
from pufferflow.jobs.file import JobFile
from pufferflow.release import Release
from pufferflow.release.files import CERTIFICATE


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


def changed(file: JobFile, release: Release) -> Iterator[str]:
    """Tell if a release that is kept was made for another promise than the job's of today."""
    asked, made = file.guarantee and file.guarantee.guarantee, release.certificate.promise
    if asked is not None and asked != made:
        yield f"it was released with {made!r}, before the job asked for {asked!r}"


def _folders(sink: Path) -> Iterator[Path]:
    return (place for place in sink.iterdir() if place.is_dir()) if sink.is_dir() else iter(())
