"""What becomes of a ledger whose disk, file, server or neighbours fail: a clear word, nothing lost, nothing told."""

import os
import pickle
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import ledgers
import msgspec
import polars as pl
import pytest
import sqlalchemy as sa
from ledgers import SCENARIO, answer, ready, release

import pufferflow as pf
from pufferflow.accounting.ledger import database, log
from pufferflow.accounting.ledger.address import read_address, shown_address
from pufferflow.accounting.ledger.ledger import Ledger
from pufferflow.accounting.ledger.state import AccountState


@pytest.fixture
def account(file):
    with Ledger(file, wait=0.2) as ledger:
        yield ledger.open("power", SCENARIO, limit=pf.Pure(1e6))


WORDS = re.compile(r"INSERT|SELECT|UPDATE|VALUES|pufferflow_events|parameters|Traceback")


def silent(error):
    """Check that an error quotes no statement and leads back to no driver."""
    assert not WORDS.search(str(error))
    assert error.__context__ is None
    assert error.__cause__ is None
    lines = "".join(traceback.format_exception(error))
    assert "sqlite3." not in lines.replace("/sqlite3", "")
    assert pickle.loads(pickle.dumps(error)).problem == error.problem


ADDRESSES = {
    ":memory:": "forgets what was spent",
    "": "forgets what was spent",
    "sqlite://": "forgets what was spent",
    "sqlite:///:memory:": "forgets what was spent",
    "sqlite:///file:x?mode=memory&uri=true": "file has options",
    "file:ledger?mode=memory": "forgets what was spent",
    "mysql://somebody:secret@host/x": "A ledger in 'mysql'",
    "postgresql+asyncpg://host/x": r"A ledger in 'postgresql\+asyncpg'",
    "://secret": "cannot be read",
    "led\0ger": "a character that file names cannot have",
    b"ledger.db": "of type bytes",
    3: "of type int",
    None: "of type NoneType",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_that_are_none(address, tmp_path, monkeypatch):
    """What keeps nothing, or is nowhere, is refused without repeating a password."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pf.UsageError, match=ADDRESSES[address]) as found:
        Ledger(address)
    assert "secret" not in str(found.value)
    assert not list(tmp_path.iterdir())


def test_addresses_of_one_file(tmp_path, monkeypatch):
    """A name, a path and an address of one file are one ledger, also after changing the folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a b?c#d%20.db"
    with (
        Ledger(file.name) as one,
        Ledger(file) as two,
        Ledger(sa.URL.create("sqlite", database=str(file))) as three,
    ):
        monkeypatch.chdir("/")
        one.open("power", SCENARIO, limit=pf.Pure(1.0))
        assert two.accounts() == three.accounts() == ("power",)
        assert file.name in repr(one)
    with Ledger(f"sqlite:///{tmp_path}/plain.db") as ledger:
        assert ledger.accounts() == ()


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), "1", None, True])
def test_waiting_is_a_number(file, wait):
    """Seconds to wait are a finite number, not below 0."""
    with pytest.raises(pf.UsageError, match="wait is"):
        Ledger(file, wait=wait)


def test_no_folder(tmp_path):
    """A file in a folder that is not there cannot be made."""
    with pytest.raises(pf.LedgerError, match="cannot be opened") as found:
        Ledger(tmp_path / "nowhere" / "ledger.db")
    silent(found.value)
    with pytest.raises(pf.LedgerError, match="cannot be opened"):
        Ledger(tmp_path)


def test_not_a_database(file):
    """A file of something else is refused and left as it is."""
    file.write_bytes(b"a diary, page one\n" * 500)
    with pytest.raises(pf.LedgerError, match="it is no SQLite database") as found:
        Ledger(file)
    silent(found.value)
    assert file.read_bytes().startswith(b"a diary, page one\n")


def test_another_programs_database(file):
    """A database of another program is refused and left as it is."""
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE diary (page TEXT)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(pf.LedgerError, match="tables of another program"):
        Ledger(file)
    assert file.read_bytes() == before
    assert not list(file.parent.glob("*-wal"))


def test_a_server_with_other_tables(new_database):
    """On a server a ledger lives beside other tables."""
    address = new_database()
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE diary (page TEXT)")
    with Ledger(address) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(1.0))
        release(account, ready())
        assert [entry.state for entry in account.history()] == ["committed"]
        ledger.verify()


def altered(address, *statements):
    engine = sa.create_engine(
        address if "://" in address else f"sqlite:///{address}", poolclass=sa.NullPool
    )
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_a_newer_ledger(address):
    """A ledger that a newer version wrote is not touched; nor is one whose steps have gaps, or that lacks tables."""
    Ledger(address).close()
    altered(address, "INSERT INTO pufferflow_migrations VALUES (2, 'later')")
    with pytest.raises(pf.LedgerError, match="written by a newer pufferflow"):
        Ledger(address)
    altered(address, "DELETE FROM pufferflow_migrations WHERE number = 1")
    with pytest.raises(pf.LedgerError, match="newer pufferflow"):
        Ledger(address)
    altered(address, "DROP TABLE pufferflow_migrations")
    with pytest.raises(pf.LedgerError, match="only a part of a ledger"):
        Ledger(address)


def test_a_lost_table(address):
    """A table that goes away is a fault, not a fresh start."""
    with Ledger(address) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        altered(address, "DROP TABLE pufferflow_payloads")
        with pytest.raises(pf.LedgerError, match="or only a part of one") as found:
            release(account, ready())
        silent(found.value)
        altered(address, "DROP TABLE pufferflow_events")
        for call in (
            ledger.head,
            account.spent,
            ledger.verify,
            lambda: account.reserve(ready(), None),
        ):
            with pytest.raises(pf.LedgerError, match="or only a part of one"):
                call()


def test_locked_for_too_long(account, file):
    """Who waits in vain is told so; when the lock is gone everything goes on."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(pf.LedgerError, match="kept the ledger locked for too long") as found:
        account.reserve(ready(), "x")
    silent(found.value)
    assert account.history() == ()
    other.execute("ROLLBACK")
    other.close()
    release(account, ready(), "x")


@pytest.mark.slow
def test_locked_on_a_server(new_database):
    """A server's ledger that somebody locks is waited for, and not for ever."""
    address = new_database()
    with Ledger(address, wait=0.2) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        engine = sa.create_engine(address, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql("LOCK TABLE pufferflow_migrations IN EXCLUSIVE MODE")
            with pytest.raises(pf.LedgerError, match="locked for too long") as found:
                account.reserve(ready(), "x")
            silent(found.value)
            assert account.spent().epsilon == 0
        release(account, ready(), "x")


def test_a_short_lock_is_waited_for(file):
    """Somebody who writes for a moment delays others, and fails nobody."""
    with Ledger(file, wait=20) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.2, lambda: other.execute("COMMIT"))
        timer.start()
        release(account, ready())
        timer.join()
        other.close()
        assert [entry.state for entry in account.history()] == ["committed"]


def full(account):
    """Let the disk of a ledger have hardly any room left."""
    connection = account._log.database._session.transaction.driver
    used = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={used}")


def test_a_full_disk_at_the_reservation(account):
    """What cannot be written down is not reserved, so nothing is read."""
    full(account)
    refused = None
    while refused is None:
        before = account.spent()
        try:
            account.reserve(ready(), None)
        except pf.LedgerError as error:
            refused = error
    assert "The disk is full" in str(refused)
    silent(refused)
    assert account.spent() == before


def test_a_full_disk_at_the_commit(account, file):
    """A release that cannot be kept is not given out; the charge stays, and a retry with room completes it."""
    made = ready()
    held = account.reserve(made, "x")
    full(account)
    large = ledgers.drawn(made, held.entry)
    large = pf.Release(pl.concat([large.frame] * 9000), large.intervals, large.certificate)
    with pytest.raises(pf.LedgerError, match="The disk is full") as found:
        held.commit(large)
    silent(found.value)
    assert [entry.state for entry in account.history()] == ["reserved"]
    assert account.spent().epsilon == pytest.approx(1.0)
    with pytest.raises(pf.UsageError, match="not committed yet"):
        account.release("x")
    with Ledger(file) as ledger:
        release(ledger.account("power"), made, "x")
        assert len(ledger.account("power").history()) == 1
        ledger.verify()


AS_NOBODY = """
import os, sys, pufferflow as pf
from pufferflow.accounting.ledger.ledger import Ledger
pf.Pure, pf.Scenario
with Ledger(sys.argv[1], wait=1) as ledger:  # loads all that nobody may not
    ledger.account("power").spent()
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
"""


def unprivileged(code, *arguments):
    """Run code as somebody who may not write everywhere, which root may."""
    command = [sys.executable, "-c", AS_NOBODY + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


LOOKED_AT = """
with Ledger(sys.argv[1], wait=1) as ledger:
    print(ledger.accounts(), ledger.account("power").spent())
    try:
        ledger.open("more", ledger.account("power").scenario, limit=pf.Pure(1.0))
    except pf.LedgerError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_file_that_may_not_be_written():
    """A ledger that may only be read can be looked at; whoever writes is told why it cannot be."""
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "ledger.db"
        with Ledger(file) as ledger:
            ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        folder.chmod(0o777)
        file.chmod(0o444)
        found = unprivileged(LOOKED_AT, file)
        assert "('power',) Pure(epsilon=0.0)" in found.stdout, found.stderr
        assert "may be read but not written" in found.stdout
        folder.chmod(0o755)
        found = unprivileged("Ledger(sys.argv[1] + '.other')", file)
        assert "LedgerError: The ledger cannot be opened" in found.stderr


@pytest.mark.slow
def test_a_damaged_page(file):
    """A file with a damaged page is a fault when it is read or verified, wherever the damage is."""
    with Ledger(file) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(1e6))
        for _ in range(30):
            release(account, ready())
    whole = file.read_bytes()
    size = 4096
    assert len(whole) > 10 * size
    for page in range(len(whole) // size):
        damaged = bytearray(whole)
        damaged[page * size + (100 if page == 0 else 0) : (page + 1) * size] = bytes(
            size - (100 if page == 0 else 0)
        )
        file.write_bytes(damaged)
        with pytest.raises(pf.LedgerError) as found, Ledger(file) as ledger:
            ledger.verify()
        silent(found.value)
    file.write_bytes(whole)
    with Ledger(file) as ledger:
        assert ledger.verify().entries == 61


def test_single_bytes(file):
    """Any byte of the log that is changed in the file is found."""
    with Ledger(file) as ledger:
        release(ledger.open("power", SCENARIO, limit=pf.Pure(3.0)), ready(), "monday")
        head = ledger.head()
    whole = file.read_bytes()
    places = [
        place
        for word in (b'"monday"', b'"reserve"', head[2:].encode(), b'"total"')
        for place in _all(whole, word)
    ]
    assert len(places) >= 4
    for place in places:
        damaged = bytearray(whole)
        damaged[place + 2] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(pf.LedgerError), Ledger(file) as ledger:
            ledger.verify(head)
    damaged = bytearray(whole)
    damaged[places[0] + 2] = 0xFF  # no UTF-8
    file.write_bytes(damaged)
    with pytest.raises(pf.LedgerError), Ledger(file) as ledger:
        ledger.account("power")


def _all(text, word):
    return [found.start() for found in re.finditer(re.escape(word), text)]


def test_a_file_that_goes_away(file):
    """A ledger whose file was moved away is a fault; it comes back with the file, and no other one is made."""
    with Ledger(file) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        first = release(account, ready(), "x")
        moved = file.with_name("moved")
        file.rename(moved)
        for call in (lambda: account.reserve(ready(), None), account.spent, ledger.verify):
            with pytest.raises(pf.LedgerError, match="file is gone"):
                call()
        assert not file.exists()
        moved.rename(file)
        assert answer(account.release("x")) == answer(first)


def test_a_server_that_is_not_there(tmp_path):
    """A server that cannot be reached is a fault without the password."""
    with pytest.raises(pf.LedgerError, match="cannot be reached") as found:
        Ledger(f"postgresql+psycopg://me:secret@/postgres?host={tmp_path}", wait=0)
    silent(found.value)
    assert "secret" not in str(found.value)


PASSWORDS = [
    "postgresql+psycopg://me%3Asecret@/postgres?host={nowhere}",
    "postgresql+psycopg://me:secret@/postgres?host={nowhere}",
    "postgresql+psycopg://:secret@/postgres?host={nowhere}",
    "postgresql://me:p%40secret@/postgres?host={nowhere}",
    "postgresql://me:p@secret@/postgres?host={nowhere}",
    "postgresql://m/e:x@secret:1@/postgres?host={nowhere}",
    "postgresql://me@/postgres?host={nowhere}&password=secret",
    "postgresql://me@/postgres?host={nowhere}&sslpassword=secret&passfile=/secret&service=secret",
    "postgresql://me@/post%20gres%3Asecret?host={nowhere}",
    "host=localhost password=secret dbname=ledger",
    "dbname = ledger user=secret",
    "me:secret@localhost/ledger",
    "me:sec/ret@localhost/ledger",
    "postgres://me:secret@localhost/ledger",
]


@pytest.mark.parametrize("address", PASSWORDS)
def test_passwords_are_nowhere(address, tmp_path, monkeypatch):
    """However an address is written, no part of a password is shown, and no file of such a name is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pf.PufferflowError) as found:
        Ledger(address.format(nowhere=tmp_path / "nowhere"), wait=0)
    shown = "".join(traceback.format_exception(found.value)) + repr(found.value)
    shown = shown.partition("pufferflow.core.errors.")[2]  # not the lines of this test
    assert "secret" not in shown
    assert "sec/ret" not in shown
    assert not list(tmp_path.iterdir())


def test_addresses_that_are_shown():
    """What can be no password is shown."""
    url = sa.make_url(
        "postgresql+psycopg://some_body:secret@db-1.example.org:5433/ledger-2?sslmode=require"
    )
    assert shown_address(url) == "postgresql+psycopg://some_body:***@db-1.example.org:5433/ledger-2"
    assert (
        shown_address(sa.make_url("postgresql://[2001:db8::1]/x")) == "postgresql://2001:db8::1/x"
    )
    for name in ("user=3/ledger.db", "data@home/ledger.db", "C:/people/me@home/ledger.db"):
        assert read_address(name).database.endswith(name)


ENDED = """
import signal, sys
import postgres, pufferflow as pf
from ledgers import SCENARIO, ready, release
with postgres.server(postgres.binaries(), "fsync=off") as address:
    ledger = pf.Ledger(address, wait=1)
    account = ledger.open("power", SCENARIO, limit=pf.Pure(9.0))
    release(account, ready(), "x")

    END = "SELECT pg_terminate_backend(pg_backend_pid())"
    for work in (
        lambda: ledger._log.write(lambda appender: appender.transaction.execute(END)),
        lambda: ledger._log.read(lambda reader: reader.transaction.execute(END)),
    ):
        try:
            work()
        except pf.LedgerError as error:
            print(error.problem)
try:
    account.spent()
except pf.LedgerError as error:
    print(error.problem)
ledger.close()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("server")
def test_a_server_that_goes_away_is_told_once():
    """A server that ends a connection, or itself, is told by our own error and by nothing on stderr."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(ledgers.__file__)}  # noqa: PTH120 - a path as text
    command = [sys.executable, "-c", ENDED]
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.stderr == ""
    assert found.stdout.count("cannot be reached, or closed the connection") == 3


@pytest.mark.slow
def test_a_server_that_drops_connections(new_database):
    """Connections that the server closed are made anew."""
    address = new_database()
    with Ledger(address) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        for turn in range(2):
            engine = sa.create_engine(address, poolclass=sa.NullPool)
            with engine.begin() as connection:
                query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                connection.exec_driver_sql(f"{query} AND usename = 'ledger'")
            release(account, ready(), str(turn))
        assert len(account.history()) == 2


def test_an_event_that_does_not_read_back(account):
    """What would not be read back as it was written is not written."""
    made = ready()
    account.reserve(made, "x")
    made = ready(0.5)
    made.cost = msgspec.structs.replace(made.cost, start=float("inf"))
    with pytest.raises(pf.InternalError, match="does not read back"):
        account.reserve(made, "y")
    made.cost = msgspec.structs.replace(
        made.cost,
        start=None,
        shape=msgspec.structs.replace(made.cost.shape, coupled_movements={"x": float("nan")}),
    )
    with pytest.raises(pf.InternalError, match="does not read back"):
        account.reserve(made, "y")
    assert len(account.history()) == 1


def test_an_interrupted_reading_begins_anew(account, file, monkeypatch):
    """Whoever is stopped while reading goes on as if nothing had been read."""
    with Ledger(file) as other:
        for turn in range(3):
            release(other.account("power"), ready(), str(turn))
    true = AccountState.apply
    calls = []

    def stopped(self, event):
        calls.append(event)
        if len(calls) == 3:
            raise KeyboardInterrupt
        true(self, event)

    monkeypatch.setattr(AccountState, "apply", stopped)
    with pytest.raises(KeyboardInterrupt):
        account.spent()
    assert account.spent().epsilon == pytest.approx(3.0)
    assert len(account.history()) == 3


def test_an_interrupted_writing_begins_anew(account, monkeypatch):
    """Whoever is stopped after a cost is durable, and before all of it is learned, finds it once."""
    true = AccountState._reserve

    def stopped(self, event):
        true(self, event)
        monkeypatch.setattr(AccountState, "_reserve", true)
        raise KeyboardInterrupt

    monkeypatch.setattr(AccountState, "_reserve", stopped)
    with pytest.raises(KeyboardInterrupt):
        account.reserve(ready(), "x")
    assert account.spent().epsilon == pytest.approx(1.0)
    release(account, ready(), "x")
    assert len(account.history()) == 1


def test_commits_are_flushed(account):
    """SQLite keeps a write-ahead log and flushes every commit to the disk before it says that it is done."""

    def told(reader):
        return [
            reader.transaction.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]

    assert account._log.read(told) == ["wal", 2]


def test_commits_are_flushed_on_a_server(new_database):
    """A server that would say too early that it is done is told not to; serialisable transactions are asked for."""
    address = new_database()
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    for given, expected in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        with engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER ROLE ledger SET synchronous_commit = {given}")
        try:
            with Ledger(address) as ledger:

                def told(appender):
                    names = "synchronous_commit", "transaction_isolation"
                    return [
                        appender.transaction.execute(f"SHOW {name}").fetchone()[0] for name in names
                    ]

                assert ledger._log.write(told) == [expected, "serializable"]
        finally:
            with engine.begin() as connection:
                connection.exec_driver_sql("ALTER ROLE ledger RESET synchronous_commit")


class Collision(sqlite3.Error):
    """What a server says of two transactions of which only one could be."""

    sqlstate = "40001"


@pytest.mark.parametrize(
    ("error", "failures", "calls"), [(Collision, 2, 3), (Collision, 99, 12), (sqlite3.Error, 1, 1)]
)
def test_only_collisions_are_tried_again(account, error, failures, calls, monkeypatch):
    """A transaction that collided is tried again, not for ever; any other failure is one at once."""
    monkeypatch.setattr(database, "_LONGEST_PAUSE", 0)
    made = []

    def work(reader):
        made.append(reader)
        if len(made) <= failures:
            raise error("secret")
        return "done"

    if failures < calls:
        assert account._log.read(work) == "done"
    else:
        with pytest.raises(pf.LedgerError) as found:
            account._log.read(work)
        silent(found.value)
        assert "secret" not in str(found.value)
    assert len(made) == calls


class Stopping:
    """Interrupts a thread before one line of some files, counted as they are run."""

    def __init__(self, line, *modules):
        self.left, self._files = line, {module.__file__ for module in modules}

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def during(self, work):
        sys.settrace(self)
        try:
            return work()
        finally:
            sys.settrace(None)


@pytest.mark.slow
def test_an_interrupt_at_any_line(account):
    """Whoever is stopped at any line of a transaction's ways in and out can go on, and nothing is counted twice."""
    counted = Stopping(0, log, database)
    counted.during(lambda: account.reserve(ready(1e-3), "counted"))
    assert counted.left < -40
    for line in range(1, 1 - counted.left):
        with suppress(KeyboardInterrupt):
            Stopping(line, log, database).during(
                lambda line=line: account.reserve(ready(1e-3), str(line))
            )
        account.reserve(ready(1e-3), str(line))
    assert len(account.history()) == -counted.left + 1
    assert account.spent().epsilon == pytest.approx(1e-3 * (1 - counted.left))


@pytest.mark.slow
def test_clocks_that_jump(file, monkeypatch):
    """Times are for people: entries are in order, counted and sound whatever a clock says."""
    years = iter([2030, 1970, 9999, 2001, 2026, 1, 2031])

    class Clock:
        @staticmethod
        def now(zone):
            return datetime(next(years), 2, 3, 4, 5, tzinfo=zone)

    with Ledger(file) as ledger:
        monkeypatch.setattr(log, "datetime", Clock)
        account = ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
        for turn in range(3):
            release(account, ready(), str(turn))
        monkeypatch.undo()
        assert [entry.release_id for entry in account.history()] == ["0", "1", "2"]
        with pytest.raises(pf.LimitReached):
            account.reserve(ready(), "3")
        past = account.budget(ahead=0)
        assert [charge.number for charge in past.charges] == [2, 4, 6]
        assert "power" in ledger.report(file.with_name("page.html")).read_text(encoding="utf-8")
    with Ledger(file) as ledger:
        assert ledger.verify().entries == 7
        assert ledger.account("power").spent().epsilon == pytest.approx(3.0)
