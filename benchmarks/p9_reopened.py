"""P9: a ledger of 10^5 releases of identical windows, one a day, is opened again and totalled: at most a second.

The peer is the least work of a reader that checks the log: bare SQLite reads all entries, and each is hashed with
the one before it. The entries are written in one transaction, which no account would do; only reading is timed.
"""

import hashlib
import sqlite3
import tempfile
from pathlib import Path

import polars as pl
from measure import compare, report

import pufferflow as pf
from pufferflow.accounting.ledger.events import Committed, Reserved, StoredCost
from pufferflow.accounting.ledger.log import Appender
from pufferflow.accounting.ledger.reader import keep_payload, keep_shape

RELEASES = 10**5
HOURS = 24


def fill(path: Path) -> None:
    """Write an account with a release for each day."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Secret("on", [0, 1]), chain, order_by="hour", within="house")
    frame = pl.DataFrame(
        {"house": ["a"] * HOURS, "hour": range(HOURS), "on": [0, 1] * (HOURS // 2)}
    )
    cost = pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(0.822639)).cost

    def write(appender: Appender) -> None:
        keep_shape(appender.transaction, cost.shape)
        payload = hashlib.sha256(b"release").hexdigest()
        keep_payload(appender.transaction, payload, b"release")
        for day in range(RELEASES):
            where = StoredCost(
                cost.shape.digest, day * HOURS, (day * HOURS, day * HOURS + HOURS - 1), 0.0
            )
            reserved = Reserved(
                number=appender.next,
                account="days",
                at=appender.now,
                release=f"day-{day}",
                plan=cost.shape.digest,
                fingerprint=scenario.fingerprint,
                promise=pf.Pure(0.822639),
                asked=("the sum of on",),
                certainty="upper_bound",
                cost=where,
                total=0.8724,
                rule="messages along the chain (M20)",
                method=None,
            )
            entry = appender.append(reserved).number
            appender.append(Committed(appender.next, "days", appender.now, entry, payload))

    with pf.Ledger(path) as ledger:
        ledger.open("days", scenario, limit=pf.Pure(1.0))
        ledger._log.write(write)  # noqa: SLF001 - the public API does not write so much at once


def reopened(path: Path) -> float:
    """Return what an account has spent, of a ledger that is opened for it."""
    with pf.Ledger(path) as ledger:
        return ledger.account("days").spent().epsilon


def bare(path: Path) -> str:
    """Read and hash all entries."""
    connection, last = sqlite3.connect(path), "0" * 64
    for body, _ in connection.execute("SELECT body, hash FROM pufferflow_events ORDER BY number"):
        last = hashlib.sha256(last.encode() + body.encode()).hexdigest()
    connection.close()
    return last


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ledger.db"
        fill(place)
        row = compare(
            f"{RELEASES} releases, opened again and totalled",
            lambda: reopened(place),
            "bare reading and hashing",
            lambda: bare(place),
            rounds=3,
        )
        report("p9_reopened", [row])
        print(f"{row.seconds:.2f} s (limit 1 s); total {reopened(place):.4f}")
