"""A ledger belongs to one process: a child that is forked off has connections and locks of its own, or refuses."""

import copy
import os
import pickle
import subprocess
import sys

import ledgers
import pytest
from ledgers import SCENARIO

import pufferflow as pf
from pufferflow.accounting.ledger.ledger import Ledger


@pytest.fixture
def ledger(file):
    with Ledger(file, wait=0.2) as found:
        yield found


@pytest.fixture
def account(ledger):
    return ledger.open("power", SCENARIO, limit=pf.Pure(30.0))


FORKED = """
import os, sys, pufferflow as pf
from pathlib import Path
from ledgers import SCENARIO, ready
ledger = pf.Ledger(sys.argv[1], wait=5)
account = ledger.open("power", SCENARIO, limit=pf.Pure(30.0))
account.reserve(ready(), "1")
told, said = os.pipe()
ended, end = os.pipe()
child = os.fork()
if child == 0:
    account.spent()
    os.write(said, b"x")
    os.read(ended, 1)
    account.reserve(ready(), "2")
    assert Path(sys.argv[1] + "-wal").exists()
    os._exit(len(account.history()))
os.read(told, 1)
ledger.close()
os.write(end, b"x")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
assert len(pf.Ledger(sys.argv[1]).account("power").history()) == 2
"""


@pytest.mark.slow
def test_a_child_holds_locks_of_its_own(file):
    """A child's write-ahead log stays when its parent closes the ledger; what it reserves is not lost."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(ledgers.__file__)}  # noqa: PTH120 - a path as text
    command = [sys.executable, "-c", FORKED, str(file)]
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stderr


WORKING = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
import polars as pl
when, file = sys.argv[1:]
if when != "late":
    import pufferflow as pf


def released(file):
    import pufferflow as pf
    scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
    def planned():
        return pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
    def kept():
        with pf.Ledger(file) as ledger:
            account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
            return (PLAN or planned()).release(account, id="today").frame.height
    told = []
    for work in (planned, kept):
        try:
            told.append(str(work()))
        except pf.UsageError as error:
            told.append(error.instead)
    return told[-1] if PLAN else " ".join(told)


PLAN = None
if __name__ == "__main__":
    if when == "used":
        pl.Series([2, 1]).sort()
    if when == "late":
        pl.DataFrame({"a": [2, 1]}).lazy().sort("a").collect()
    if when == "planned":
        scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        PLAN = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        print(pool.submit(released, file).result(timeout=30))
    if os.path.exists(file):
        import pufferflow as pf
        with pf.Ledger(file) as ledger:
            print([(entry.state) for name in ledger.accounts() for entry in ledger.account(name).history()])
"""


def forked_off(when, file):
    """Return what a release in a forked child says, and the entries that its ledger has then."""
    command = [sys.executable, "-W", "ignore", "-c", WORKING, when, str(file)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    "when", ["used", *(pytest.param(when, marks=pytest.mark.slow) for when in ("planned", "late"))]
)
def test_a_child_without_the_threads_of_polars(file, when):
    """A child of a process in which Polars worked refuses to plan and to release, and charges nothing."""
    told, *entries = forked_off(when, file)
    assert 'get_context("spawn")' in told
    assert entries in ([], ["[]"])


@pytest.mark.slow
def test_a_child_of_a_process_that_only_imported(file):
    """Servers that load the library before they fork off workers may plan and release in these."""
    told, entries = forked_off("unused", file)
    assert told.endswith(" 1")
    assert entries == "['committed']"


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_ledgers_stay_in_their_process(ledger, account, send):
    """Neither a ledger nor an account is sent elsewhere."""
    for what in (ledger, account):
        with pytest.raises(pf.UsageError, match="cannot be pickled or copied"):
            send(what)
