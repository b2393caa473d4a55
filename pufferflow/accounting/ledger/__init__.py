"""The ledger: a durable account of the total privacy loss of releases."""
