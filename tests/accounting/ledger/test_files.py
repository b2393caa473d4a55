"""The files and tables of a ledger: what is taken away, linked, edited or of other types is found; copies are whole."""

import os
import shutil
import sqlite3

import postgres
import pytest
import sqlalchemy as sa
from ledgers import SCENARIO, answer, ready, release

import pufferflow as pf
from pufferflow.accounting.ledger.ledger import Ledger


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


def test_a_log_that_is_taken_away(ledger, account, file):
    """Nothing is given out once the write-ahead log is another one, before or after the commit."""
    release(account, ready(), "1")

    def taken(appender):
        del appender
        file.with_name("ledger.db-wal").rename(file.with_name("gone"))

    with pytest.raises(pf.LedgerError, match="A charge may be lost"):
        ledger._log.write(taken)
    assert ledger._log.database._session is None


def test_hard_links(ledger, account, file):
    """A file with two names would have two logs, and is refused; a symbolic link is fine."""
    (file.parent / "soft.db").symlink_to(file)
    with Ledger(file.parent / "soft.db") as soft:
        assert soft.accounts() == ("power",)
    os.link(file, file.parent / "hard.db")
    for call in (account.spent, ledger.verify, lambda: Ledger(file.parent / "hard.db")):
        with pytest.raises(pf.LedgerError, match="hard links"):
            call()


def test_tables_are_in_the_file(ledger, file, tmp_path):
    """The file has its tables from the beginning; a database without tables is no new ledger, an empty file is."""
    shutil.copy(file, tmp_path / "copy.db")
    with sqlite3.connect(tmp_path / "copy.db") as connection:
        assert connection.execute("SELECT count(*) FROM pufferflow_migrations").fetchone() == (1,)
    connection.close()
    raw(tmp_path / "bare.db", "PRAGMA journal_mode=WAL")
    with pytest.raises(pf.LedgerError, match="a database without tables"):
        Ledger(tmp_path / "bare.db")
    (tmp_path / "empty.db").touch()
    with Ledger(tmp_path / "empty.db") as empty:
        assert empty.accounts() == ledger.accounts() == ()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_an_export_onto_the_ledger(ledger, account, file, ending):
    """An export never takes the place of the ledger's own files, under whatever name."""
    (file.parent / "link").symlink_to(file.name + ending)
    for place in (str(file) + ending, file.parent / "link"):
        with pytest.raises(pf.UsageError, match="belongs to the ledger itself"):
            ledger.export(place)
    assert account.spent().epsilon == 0


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
    with pytest.raises(pf.LedgerError), Ledger(file) as other:
        other.verify()
    with pytest.raises(pf.LedgerError), Ledger(file) as other:
        used(other.account("power"))


def test_what_nobody_names(ledger, account, file):
    """A shape or a release that no entry names is told as such, whatever is in it."""
    del account
    raw(file, "INSERT INTO pufferflow_payloads VALUES ('x', 'y')")
    with pytest.raises(pf.LedgerError, match="a release that no entry names"):
        ledger.verify()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_encodings_of_a_server(server, encoding):
    """A server's database that cannot hold every text is refused."""
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(postgres.CREATE.format(name=encoding.lower(), encoding=encoding))
    with pytest.raises(pf.LedgerError, match=f"has the encoding {encoding}"):
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
        with pytest.raises(pf.UsageError, match="has 4 entries already"):
            ledger.copy_to(target)


def test_a_copy_of_a_changed_ledger(ledger, account, file, tmp_path):
    """What does not fit is not copied: the target stays empty."""
    release(account, ready(), "1")
    raw(file, "UPDATE pufferflow_payloads SET body = x'00'")
    with pytest.raises(pf.LedgerError, match="was changed"):
        ledger.copy_to(tmp_path / "copy.db")
    with Ledger(tmp_path / "copy.db") as other:
        assert other.accounts() == ()


@pytest.mark.skipif(os.name != "posix", reason="logs are watched where files can be read at places")
def test_a_log_that_another_connection_begins_is_no_other_log(account, file, monkeypatch):
    """Between a look at an empty log and one at its index somebody may write; a log that stays empty is lost."""
    release(account, ready(), "1")
    log, true, looks = file.with_name("ledger.db-wal").stat().st_ino, os.pread, []

    def looked(descriptor, size, place):
        found = true(descriptor, size, place)
        if (size, place) != (4, 0) or os.fstat(descriptor).st_ino != log:
            return found
        looks.append(found)
        return b"" if len(looks) == 1 else found

    monkeypatch.setattr(os, "pread", looked)
    assert account.spent().epsilon == pytest.approx(1.0)
    assert len(looks) > 1
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    with pytest.raises(pf.LedgerError, match="was removed or replaced"):
        account.spent()
