"""Who pays for a job's releases: an account of a ledger, which is opened by the first run.

What would make a job pay twice or publish what is not its own: noticed before anything is drawn.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from pufferflow.addresses import scheme_of
from pufferflow.errors import Misuse
from pufferflow.jobs.file import Charged, JobFile, with_variables
from pufferflow.ledger import Account, Ledger
from pufferflow.plan import Plan
from pufferflow.release import CERTIFICATE, Release, entry_of


@final
@dataclass(frozen=True)
class Payer:
    """What a job file says of its ledger, and the folder that paths in it are relative to."""

    charged: Charged
    folder: Path

    @property
    def address(self) -> str:
        """Where the ledger is; a file by its whole path, however it is written."""
        address = with_variables(self.charged.address)
        for start in ("sqlite:///", "sqlite+pysqlite:///"):
            address = address.removeprefix(start)
        return str(self.folder / Path(address).expanduser()) if scheme_of(address) is None else address

    @property
    def no_file(self) -> bool:
        """Whether the ledger is a file that is not there."""
        address = self.address
        return scheme_of(address) is None and not Path(address).exists()

    def ledger(self) -> Ledger:
        """Return the ledger, made if need be."""
        return Ledger(self.address)

    def account(self) -> Account | None:
        """Return the account; None before the first run has opened it."""
        return None if self.no_file else self._account_of(self.ledger())

    def kept(self, ledger: Ledger, chosen: str) -> Release | None:
        """Return the release that is kept under an id."""
        account = self._account_of(ledger)
        return None if account is None else account.find(chosen)

    def has_paid(self, chosen: str) -> bool:
        """Say whether the cost of an id is paid, and its release not kept."""
        account = self.account()
        history = () if account is None else account.history()
        return any(entry.release_id == chosen and entry.state == "reserved" for entry in history)

    def release(self, plan: Plan, ledger: Ledger, chosen: str, *, estimates: bool) -> Release:
        """Release a plan on the account, which is opened if need be."""
        charged = self.charged
        scenario, limit = plan.questions.scenario, charged.limit.guarantee
        account = ledger.open(charged.account, scenario, limit=limit, dataset=charged.dataset)
        return plan.release(account, chosen, estimates=estimates)

    def _account_of(self, ledger: Ledger) -> Account | None:
        name = self.charged.account
        return ledger.account(name) if name in ledger.accounts() else None


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
