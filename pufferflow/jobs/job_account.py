"""The account that pays for a job's releases; the first run opens it."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from pufferflow.accounting.ledger.account import Account
from pufferflow.accounting.ledger.ledger import Ledger
from pufferflow.core.addresses import scheme_of
from pufferflow.jobs.file import Charged
from pufferflow.jobs.toml import with_variables
from pufferflow.published.release import Release
from pufferflow.release.plan import Plan


@final
@dataclass(frozen=True)
class JobAccount:
    """The `[ledger]` of a job file, and the folder that paths in it are relative to."""

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
        return None if self.no_file else self.account_in(self.ledger())

    def account_in(self, ledger: Ledger) -> Account | None:
        """Return the account in a ledger that is open."""
        name = self.charged.account
        return ledger.account(name) if name in ledger.accounts() else None

    def has_paid(self, release_id: str) -> bool:
        """Return whether the cost of a release is reserved, and the release not committed."""
        account = self.account()
        history = () if account is None else account.history()
        return any(entry.release_id == release_id and entry.state == "reserved" for entry in history)

    def release(self, plan: Plan, ledger: Ledger, release_id: str, *, estimates: bool) -> Release:
        """Release a plan on the account, which is opened if need be."""
        charged = self.charged
        scenario, limit = plan.request.scenario, charged.limit.guarantee
        reserve = None
        if charged.reserve is not None and charged.account not in ledger.accounts():
            reserve = [(plan, charged.reserve)]  # only for a new account: later plans may differ in last digits
        account = ledger.open(
            charged.account,
            scenario,
            limit=limit,
            dataset=charged.dataset,
            reserve=reserve,
            keys_delta=charged.keys_delta,
        )
        return plan.release(account, release_id, estimates=estimates)
