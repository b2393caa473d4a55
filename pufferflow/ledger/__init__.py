"""The ledger: a durable account of what releases about private data tell together."""

from pufferflow.ledger.account import Account
from pufferflow.ledger.entry import Entry
from pufferflow.ledger.ledger import Ledger
from pufferflow.ledger.verified import Verified

__all__ = ["Account", "Entry", "Ledger", "Verified"]
