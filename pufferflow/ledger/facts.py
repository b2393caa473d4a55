"""A whole ledger as plain values for a page: whether it is sound, and every account."""

from typing import Protocol

from pufferflow.errors import LedgerFault
from pufferflow.ledger.account import Account
from pufferflow.ledger.verified import Verified
from pufferflow.report.evidence import Budget, LedgerFacts


class Kept(Protocol):
    """A ledger, as far as a page asks."""

    def verify(self) -> Verified:
        """Return that everything fits, or raise what does not."""
        ...

    def head(self) -> str:
        """Return the name of the last entry."""
        ...

    def accounts(self) -> tuple[str, ...]:
        """Return the names of the accounts."""
        ...

    def account(self, name: str) -> Account:
        """Return an account."""
        ...


def facts_of(ledger: Kept, address: str) -> LedgerFacts:
    """Return what a ledger tells; of one that is not sound, what can still be read of it."""
    try:
        found = ledger.verify()
    except LedgerFault as fault:
        return _of_damaged(ledger, address, fault.problem)
    accounts = tuple(ledger.account(name).budget() for name in ledger.accounts())
    return LedgerFacts(address, found.head, found.entries, sound=True, accounts=accounts)


def _of_damaged(ledger: Kept, address: str, fault: str) -> LedgerFacts:
    budgets = list[Budget]()
    head, names = "", tuple[str, ...]()
    try:
        head, names = ledger.head(), ledger.accounts()
        for name in names:
            budgets.append(ledger.account(name).budget())
    except LedgerFault as another:
        fault = fault if another.problem == fault else f"{fault} {another.problem}"
    number = head.partition(":")[0]
    return LedgerFacts(address, head, int(number or 0), sound=False, accounts=tuple(budgets), fault=fault)
