"""The ledger: a durable account of the total privacy loss of releases."""

from pufferflow.ledger.account import Account, Prospect
from pufferflow.ledger.address import check_scheme, read_address, shown_address
from pufferflow.ledger.corrections import Correction
from pufferflow.ledger.ledger import Ledger, facts_of
from pufferflow.ledger.published import Published
from pufferflow.ledger.reader import Entry
from pufferflow.ledger.verify import Verified

__all__ = [
    "Account",
    "Correction",
    "Entry",
    "Ledger",
    "Prospect",
    "Published",
    "Verified",
    "check_scheme",
    "facts_of",
    "read_address",
    "shown_address",
]
