"""P10: durable releases in a ledger beside bare SQLite transactions with the same durability (ratio at most 2).

A release is two durable transactions: its cost is reserved before private rows are read, the release is kept before it
is given out. The peer writes as many bytes in two bare transactions (write-ahead log, every commit flushed). The limit
is for what the ledger adds: checking the total, hashing, reading what others wrote. Turning the frames of a release
into bytes is shown apart, and so is PostgreSQL, beside SQLite, if a server can be started here.
"""

import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import polars as pl
from measure import compare, report

import pufferflow as pf
from pufferflow.accounting.ledger.ledger import Ledger

EACH = 100
WAL = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL")
TESTS = Path(__file__).parents[1] / "tests" / "support"


def small_plan() -> tuple[pf.Scenario, pf.Plan]:
    """Return a plan for ten sums, and its scenario."""
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation(), within="meter", public="key"
    )
    frame = pl.DataFrame(
        {
            "meter": range(1000),
            "key": [n % 10 for n in range(1000)],
            "level": [n % 4 for n in range(1000)],
        }
    )
    return scenario, pf.protect(frame, scenario).group_by("key").private_sum("level").plan(
        pf.Pure(1e-3)
    )


class Ready:
    """A release whose bytes are made already."""

    def __init__(self, entry: str, body: bytes) -> None:
        self.certificate, self._body = SimpleNamespace(entry=entry), body + entry.encode()

    def to_bytes(self) -> bytes:
        """Return the bytes."""
        return self._body


def releasing(
    address: str, plan: pf.Plan, scenario: pf.Scenario, release: pf.Release, *, whole: bool
) -> Callable[[], None]:
    """Return a call that releases many times: the transactions alone, or the making of bytes as well."""
    account, body = Ledger(address).open("bench", scenario, limit=pf.Pure(1e6)), release.to_bytes()

    def call() -> None:
        for _ in range(EACH):
            held = account.reserve(plan, None)
            if whole:
                counted = msgspec.structs.replace(release.certificate, entry=held.entry)
                held.commit(pf.Release(release.frame, release.intervals, counted))
            else:
                held.commit(Ready(held.entry, body))

    return call


def bare(file: str, log: str) -> Callable[[], None]:
    """Return a call that makes the same transactions with the same bytes, and nothing else."""
    with sqlite3.connect(log) as written:
        events = written.execute(
            "SELECT body, hash FROM pufferflow_events ORDER BY number DESC LIMIT 2"
        ).fetchall()
        (payload,) = written.execute("SELECT body FROM pufferflow_payloads LIMIT 1").fetchone()
    written.close()
    connection = sqlite3.connect(file, isolation_level=None)
    for pragma in WAL:
        connection.execute(pragma)
    connection.execute("CREATE TABLE events (number INTEGER PRIMARY KEY, body TEXT, hash TEXT)")
    connection.execute("CREATE TABLE payloads (digest TEXT PRIMARY KEY, body BLOB)")

    def call() -> None:
        for _ in range(EACH):
            for place, event in enumerate(reversed(events)):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO events (body, hash) VALUES (?, ?)", event)
                if place:
                    connection.execute(
                        "INSERT INTO payloads VALUES (?, ?)", (os.urandom(32).hex(), payload)
                    )
                connection.execute("COMMIT")

    return call


if __name__ == "__main__":
    scenario, plan = small_plan()
    release, rows = plan.release(), []
    with tempfile.TemporaryDirectory() as folder:
        product = releasing(f"{folder}/ledger.db", plan, scenario, release, whole=False)
        product()
        peer = bare(f"{folder}/bare.db", f"{folder}/ledger.db")
        rows.append(
            compare(f"{EACH} releases, SQLite", product, "bare SQLite", peer, limit=2.0, rounds=11)
        )
        whole = releasing(f"{folder}/whole.db", plan, scenario, release, whole=True)
        rows.append(
            compare(
                f"{EACH} releases, frames to bytes as well", whole, "bare SQLite", peer, rounds=5
            )
        )
        sys.path.insert(0, str(TESTS))
        import postgres

        if (place := postgres.binaries()) is None:
            print("PostgreSQL is missing: no initdb and postgres were found")
        else:
            with postgres.server(place) as address:
                server = releasing(address, plan, scenario, release, whole=False)
                rows.append(
                    compare(
                        f"{EACH} releases, PostgreSQL",
                        server,
                        "ledger in SQLite",
                        product,
                        rounds=5,
                    )
                )
    report("p10_ledger", rows)
