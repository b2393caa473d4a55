"""What a ledger owes in odd surroundings: forks, files taken away, signals, strange rows, copies."""

import copy
import dataclasses
import math
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys

import ledgers
import polars as pl
import postgres
import pytest
import sqlalchemy as sa
from ledgers import SCENARIO, answer, plan, ready, release

import pufferflow as pf
from pufferflow.composition import AccountCosts
from pufferflow.ledger import Ledger
from pufferflow.ledger import reserve as reserving


@pytest.fixture
def ledger(file):
    with Ledger(file, wait=0.2) as found:
        yield found


@pytest.fixture
def account(ledger):
    return ledger.open("power", SCENARIO, limit=pf.Pure(30.0))


def raw(file, *statements):
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


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


def test_a_child_holds_locks_of_its_own(file):
    """A child's write-ahead log stays when its parent closes the ledger; what it reserves is not lost."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(ledgers.__file__)}  # noqa: PTH120 - a path as text
    command = [sys.executable, "-c", FORKED, str(file)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
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
        except pf.Misuse as error:
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


def test_a_log_that_is_taken_away(ledger, account, file):
    """Nothing is given out once the write-ahead log is another one, before or after the commit."""
    release(account, ready(), "1")

    def taken(appender):
        del appender
        file.with_name("ledger.db-wal").rename(file.with_name("gone"))

    with pytest.raises(pf.LedgerFault, match="a charge may be lost"):
        ledger._log.write(taken)
    assert ledger._log.database._session is None


def test_hard_links(ledger, account, file):
    """A file with two names would have two logs, and is refused; a symbolic link is fine."""
    (file.parent / "soft.db").symlink_to(file)
    with Ledger(file.parent / "soft.db") as soft:
        assert soft.accounts() == ("power",)
    os.link(file, file.parent / "hard.db")
    for call in (account.spent, ledger.verify, lambda: Ledger(file.parent / "hard.db")):
        with pytest.raises(pf.LedgerFault, match="hard links"):
            call()


def test_tables_are_in_the_file(ledger, file, tmp_path):
    """The file has its tables from the beginning; a database without tables is no new ledger, an empty file is."""
    shutil.copy(file, tmp_path / "copy.db")
    with sqlite3.connect(tmp_path / "copy.db") as connection:
        assert connection.execute("SELECT count(*) FROM pufferflow_migrations").fetchone() == (1,)
    connection.close()
    raw(tmp_path / "bare.db", "PRAGMA journal_mode=WAL")
    with pytest.raises(pf.LedgerFault, match="a database without tables"):
        Ledger(tmp_path / "bare.db")
    (tmp_path / "empty.db").touch()
    with Ledger(tmp_path / "empty.db") as empty:
        assert empty.accounts() == ledger.accounts() == ()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_an_export_onto_the_ledger(ledger, account, file, ending):
    """An export never takes the place of the ledger's own files, under whatever name."""
    (file.parent / "link").symlink_to(file.name + ending)
    for place in (str(file) + ending, file.parent / "link"):
        with pytest.raises(pf.Misuse, match="belongs to the ledger itself"):
            ledger.export(place)
    assert account.spent().epsilon == 0


def test_a_handler_that_asks_the_ledger(ledger, account):
    """A thread inside of a transaction is refused another one, and the first goes on unharmed."""
    asked = account.spent, ledger.verify, ledger.close, lambda: account.reserve(ready(), "inner")

    def work(appender):
        for ask in asked:
            with pytest.raises(pf.Misuse, match="this very thread"):
                ask()
        return appender.head.number

    assert ledger._log.write(work) == 1
    release(account, ready())
    assert ledger.verify().entries == 3


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, pf.LedgerFault, pf.InternalError])
def test_what_is_not_kept_is_nowhere(account, monkeypatch, failure):
    """No frame of a failed commit's traceback holds the release or its bytes."""
    made = ready()
    held = account.reserve(made, "x")

    def fail(transaction, digest, body):
        del transaction, digest, body
        raise failure("gone")

    monkeypatch.setattr(reserving, "keep_payload", fail)
    if failure is pf.InternalError:
        held = dataclasses.replace(held, entry="another")
    with pytest.raises(failure) as found:
        held.commit(ledgers.drawn(made, account.reserve(made, "x").entry))
    waiting, frames = [found.value], []
    while waiting:
        error = waiting.pop()
        trace = error.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        waiting += [one for one in (error.__cause__, error.__context__) if one is not None]
    assert len(frames) >= 2
    values = [value for frame in frames for value in frame.f_locals.values()]
    assert not any(isinstance(value, pf.Release | bytes | pl.DataFrame) for value in values)


ROWS = {
    "a text of bytes": "UPDATE pufferflow_events SET body = cast(body AS blob) WHERE number = 2",
    "a hash of bytes": "UPDATE pufferflow_events SET hash = cast(hash AS blob) WHERE number = 2",
    "a release of text": "UPDATE pufferflow_payloads SET body = 'abc'",
    "a release that is a number": "UPDATE pufferflow_payloads SET body = 1000000",
    "a shape of bytes": "UPDATE pufferflow_shapes SET body = cast(body AS blob)",
    "a shape that is a number": "UPDATE pufferflow_shapes SET body = 3",
    "a digest of bytes": "UPDATE pufferflow_shapes SET digest = cast(digest AS blob)",
    "a number below 1": "INSERT INTO pufferflow_events VALUES (-5, 'x', 'y')",
    "no steps": "DELETE FROM pufferflow_migrations",
}


def used(account):
    account.release("1")
    account.spent()


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_other_types(ledger, account, file, name):
    """A row of another type than was written is a fault, when it is verified and when it is used."""
    release(account, ready(), "1")
    ledger.close()
    raw(file, ROWS[name])
    with pytest.raises(pf.LedgerFault), Ledger(file) as other:
        other.verify()
    with pytest.raises(pf.LedgerFault), Ledger(file) as other:
        used(other.account("power"))


def test_what_nobody_names(ledger, account, file):
    """A shape or a release that no entry names is told as such, whatever is in it."""
    del account
    raw(file, "INSERT INTO pufferflow_payloads VALUES ('x', 'y')")
    with pytest.raises(pf.LedgerFault, match="a release that no entry names"):
        ledger.verify()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_encodings_of_a_server(server, encoding):
    """A server's database that cannot hold every text is refused."""
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(postgres.CREATE.format(name=encoding.lower(), encoding=encoding))
    with pytest.raises(pf.LedgerFault, match=f"has the encoding {encoding}"):
        Ledger(server.replace("/postgres?", f"/{encoding.lower()}?"))


def test_copies(ledger, account, addresses):
    """A copy has the same head and the same releases, in a file or on a server; only an empty target is taken."""
    first = release(account, ready(), "1")
    account.reserve(ready(0.5), "2")
    address = next(addresses)
    address = f"{address}.copy" if "://" not in address else address
    assert ledger.copy_to(address).head == ledger.head()
    with Ledger(address) as other:
        assert other.verify(ledger.head()).entries == 4
        assert answer(other.account("power").release("1")) == answer(first)
        assert other.account("power").spent() == account.spent()
    for target in (address, ledger._log.database.address):
        with pytest.raises(pf.Misuse, match="has 4 entries already"):
            ledger.copy_to(target)


def test_a_copy_of_a_changed_ledger(ledger, account, file, tmp_path):
    """What does not fit is not copied: the target stays empty."""
    release(account, ready(), "1")
    raw(file, "UPDATE pufferflow_payloads SET body = x'00'")
    with pytest.raises(pf.LedgerFault, match="was changed"):
        ledger.copy_to(tmp_path / "copy.db")
    with Ledger(tmp_path / "copy.db") as other:
        assert other.accounts() == ()


def test_names(ledger, account):
    """Names that look alike are one; outer blanks are refused; who asks for another is told of those that exist."""
    ledger.open("pow\u00e9r", SCENARIO, limit=pf.Pure(1.0))
    assert ledger.account("powe\u0301r").name == "pow\u00e9r"
    for name in ("power ", " power"):
        with pytest.raises(pf.Misuse, match="blanks at its ends"):
            account.release(name)
    with pytest.raises(pf.Misuse, match="was opened: 'powér', 'power'"):
        ledger.account("powr")
    with pytest.raises(pf.Misuse, match="separate is of type str"):
        ledger.open("more", SCENARIO, limit=pf.Pure(1.0), separate="no")


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_ledgers_stay_in_their_process(ledger, account, send):
    """Neither a ledger nor an account is sent elsewhere."""
    for what in (ledger, account):
        with pytest.raises(pf.Misuse, match="cannot be pickled or copied"):
            send(what)


def test_a_total_that_fails_begins_anew(account, monkeypatch):
    """What was half told of a total is thrown away, unless it was a refusal."""
    release(account, ready(), "1")
    for error, same in ((pf.Refused("no"), True), (pf.InternalError("ours"), False), (MemoryError(), False)):
        before = account._log.read(lambda reader: reader.spent("power"))

        def fail(spent, *_, error=error, **__):
            del spent
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(AccountCosts, "total", fail)
            with pytest.raises(type(error)):
                account.spent()
        assert (account._log.read(lambda reader: reader.spent("power")) is before) is same
    assert math.isclose(account.spent().epsilon, 1.0)


def test_after_is_what_will_be_spent(account):
    """The total with one more release of a plan is what is spent once it was made; asking charges nothing."""
    for count in (1, 2):
        told = account.after(plan(1.0))
        assert len(account.history()) == count - 1
        release(account, ready(1.0))
        assert told == account.spent()
        assert told.epsilon == pytest.approx(count)
    with pytest.raises(pf.Misuse):
        account.after(1.0)
