"""Who pays for a job's releases: an account of a ledger, which is opened by the first run."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from pufferflow.addresses import scheme_of
from pufferflow.jobs.file import Charged
from pufferflow.jobs.reading import with_variables
from pufferflow.ledger import Account, Ledger
from pufferflow.plan import Plan
from pufferflow.release import Release


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
