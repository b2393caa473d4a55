"""The total loss of several releases: rules, forecasts, and the ledger that keeps what was spent (M20, M23–M27)."""
