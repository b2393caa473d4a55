"""What a ledger owes where it lies: what cannot be written can be looked at, what cannot be counted on is refused."""

import os
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import ledgers
import pytest
from ledgers import SCENARIO, ready, release
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.ledger import address as files
from pufferflow.accounting.ledger import address as places
from pufferflow.accounting.ledger import reserve as reserving
from pufferflow.accounting.ledger.ledger import Ledger


@pytest.fixture
def filled(file):
    """The file of a ledger that was closed, with one release of 1.0 out of 3.0."""
    with Ledger(file) as ledger:
        release(ledger.open("power", SCENARIO, limit=pf.Pure(3.0)), ready(), "1")
    return file


@pytest.fixture
def left_open(filled, tmp_path):
    """The files of the same, with one more release, as they are when a process dies: its last entries in the log."""
    (tmp_path / "left").mkdir()
    with Ledger(filled) as ledger:
        release(ledger.account("power"), ready(), "2")
        command = [
            "cp",
            filled,
            f"{filled}-wal",
            f"{filled}-shm",
            tmp_path / "left",
        ]  # here it would undo locks
        subprocess.run(command, check=True)
    return tmp_path / "left" / filled.name


def run(code, *arguments, before=()):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(ledgers.__file__)}  # noqa: PTH120 - a path as text
    command = [*before, sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def looked_at(ledger, folder):
    """Look at a ledger in all ways, and return what is spent."""
    account = ledger.account("power")
    assert ledger.verify(ledger.head()).entries == 1 + 2 * len(account.history())
    assert account.release("1").certificate.entry
    assert account.remaining(ledgers.plan()) == 3 - len(account.history())
    assert ledger.export(folder / "entries.ndjson").stat().st_size
    assert "power" in ledger.report(folder / "page.html").read_text(encoding="utf-8")
    return account.spent().epsilon


def unwritable(monkeypatch):
    """Let nothing be written, as on a mount that is for reading only; root may write whatever a mode says."""
    true = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and true(path, mode))


def test_a_ledger_at_rest(filled, monkeypatch, tmp_path):
    """A ledger that may only be read is looked at without a file beside it; whoever writes is told."""
    unwritable(monkeypatch)
    beside = tmp_path / "elsewhere"
    beside.mkdir()
    with Ledger(filled) as ledger:
        assert looked_at(ledger, beside) == pytest.approx(1.0)
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["ledger.db"]
        for call in (
            lambda: release(ledger.account("power"), ready()),
            lambda: ledger.open("more", SCENARIO, limit=pf.Pure(1.0)),
        ):
            with pytest.raises(pf.LedgerError, match="may be read but not written"):
                call()


def test_a_ledger_at_rest_that_is_written_elsewhere(filled, monkeypatch, tmp_path):
    """What others commit is seen by the next who looks; what changes while it is read is not told."""
    unwritable(monkeypatch)
    with Ledger(filled) as ledger:
        account = ledger.account("power")
        assert account.spent().epsilon == pytest.approx(1.0)
        monkeypatch.undo()
        with Ledger(filled) as other:
            release(other.account("power"), ready(), "2")
        unwritable(monkeypatch)
        assert account.spent().epsilon == pytest.approx(2.0)

        def meanwhile(reader):
            del reader
            os.utime(filled, ns=(1, 1))

        with pytest.raises(pf.LedgerError, match="wrote the ledger while it was read"):
            ledger._log.read(meanwhile)
        assert looked_at(ledger, tmp_path) == pytest.approx(2.0)


@pytest.mark.parametrize("ending", ["-shm", "-wal", "-journal"])
def test_entries_that_cannot_be_seen(left_open, ending, monkeypatch, tmp_path):
    """Entries in a log are read with it, or the ledger is refused: an older state would allow too much."""
    unwritable(monkeypatch)
    if ending == "-wal":
        with Ledger(left_open) as ledger:
            assert looked_at(ledger, tmp_path) == pytest.approx(2.0)
        return
    if ending == "-shm":
        Path(f"{left_open}-shm").unlink()
    else:
        Path(f"{left_open}-journal").write_bytes(b"x")
    with pytest.raises(pf.LedgerError, match="Without them it would be an older ledger"):
        Ledger(left_open)


MOUNTED = """
mkdir -p "$0" && mount --bind "$1" "$0" && mount -o remount,ro,bind "$0" && shift 1 && exec "$@"
"""
LOOK = """
import sys, pufferflow as pf
from ledgers import ready, release
with pf.Ledger(sys.argv[1]) as ledger:
    account = ledger.account("power")
    print(account.spent().epsilon, ledger.verify().entries)
    try:
        release(account, ready())
    except pf.LedgerError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_mount_for_reading(left_open, tmp_path):
    """A real mount that is for reading only: with a log beside the ledger, and at rest."""
    if run("", before=["unshare", "-Urm"]).returncode:
        pytest.skip("mounts cannot be made here")
    for _ in range(2):
        place = tmp_path / "mounted"
        command = ["unshare", "-Urm", "sh", "-c", MOUNTED, str(place), str(left_open.parent)]
        found = run(LOOK, place / left_open.name, before=command)
        spent, entries = found.stdout.split()[:2]
        assert (round(float(spent), 6), int(entries)) == (2.0, 5)
        assert "may be read but not written" in found.stdout
        Ledger(left_open).close()


def mounts(monkeypatch, tmp_path, *rows):
    table = tmp_path / "mountinfo"
    lines = [
        f"{n} 1 8:1 / {point} rw,relatime shared:1 - {kind} /dev/x rw"
        for n, (point, kind) in enumerate(rows)
    ]
    table.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(places, "_MOUNTS", table)


@pytest.mark.parametrize(
    "kind",
    thinned(
        ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse", "virtiofs", "lustre"], 0.22
    ),
)
def test_shared_file_systems(filled, monkeypatch, tmp_path, kind):
    """Where other machines may write, locks do not hold: nothing is made or written, but a copy can be looked at."""
    mounts(
        monkeypatch, tmp_path, ("/", "ext4"), (filled.parent, kind), (f"{filled.parent}x", "ext4")
    )
    with Ledger(filled) as ledger:
        assert looked_at(ledger, tmp_path) == pytest.approx(1.0)
        with pytest.raises(pf.LedgerError, match="other machines may write to") as found:
            release(ledger.account("power"), ready())
        assert "postgresql" in found.value.instead
    with pytest.raises(pf.LedgerError, match=rf"other machines may write to \({kind}"):
        Ledger(filled.with_name("new.db"))
    assert not filled.with_name("new.db").exists()


def test_shared_file_systems_with_a_log(left_open, monkeypatch, tmp_path):
    """Entries in a log on a shared file system are out of reach."""
    mounts(monkeypatch, tmp_path, (left_open.parent, "nfs4"))
    with pytest.raises(pf.LedgerError, match="Without them it would be an older ledger"):
        Ledger(left_open)


@pytest.mark.parametrize("kind", ["ext4", "overlay", "tmpfs", "fuse.fuse-overlayfs", "fuseblk"])
def test_file_systems_of_one_machine(filled, monkeypatch, tmp_path, kind):
    """Disks of this machine are used, under whatever names; what is mounted later lies above."""
    mounts(monkeypatch, tmp_path, (filled.parent, "nfs4"), (filled.parent, kind))
    with Ledger(filled) as ledger:
        release(ledger.account("power"), ready())
        assert [entry.state for entry in ledger.account("power").history()] == ["committed"] * 2


@pytest.mark.parametrize(("kind", "writes"), [("9p", True), ("virtiofs", True), ("nfs4", False)])
def test_roots_of_sandboxes(filled, monkeypatch, tmp_path, kind, writes):
    """The root of a container with a kernel of its own is nobody else's; that of a machine without disks may be."""
    mounts(monkeypatch, tmp_path, ("/", kind))
    with (
        Ledger(filled) as ledger,
        nullcontext() if writes else pytest.raises(pf.LedgerError, match="other machines"),
    ):
        release(ledger.account("power"), ready())


def test_names_of_mounts(monkeypatch, tmp_path):
    """A mount with a blank in its name is told with another sign for it."""
    mounts(monkeypatch, tmp_path, ("/", "ext4"), (r"/a\040b", "nfs4"))
    assert [places.file_system(name) for name in ("/a b/c", "/a b", "/a", "/a bc")] == [
        "nfs4",
        "nfs4",
        "ext4",
        "ext4",
    ]
    monkeypatch.setattr(places, "_MOUNTS", tmp_path / "nowhere")
    assert places.file_system("/a") == ""


def test_a_file_that_is_mounted_alone(filled, monkeypatch, tmp_path):
    """A file without its folder would have a log of its own in each container."""
    mounts(monkeypatch, tmp_path, ("/", "ext4"), (filled, "ext4"))
    with pytest.raises(pf.LedgerError, match="mounted without its folder"):
        Ledger(filled)


@pytest.mark.parametrize("error", [None, OSError(95, "no locks")])
def test_a_file_system_without_locks(filled, monkeypatch, error):
    """Locks that are granted twice, or not at all, are noticed before anything is charged."""

    def granted(descriptor, operation):
        del descriptor, operation
        if error is not None:
            raise error

    monkeypatch.setattr(files.fcntl, "flock", granted)
    with Ledger(filled) as ledger, pytest.raises(pf.LedgerError, match="keeps no locks"):
        ledger.account("power")


def test_a_file_system_without_shared_memory(filled, monkeypatch):
    """Where no log can be written ahead, SQLite says that it keeps another journal."""
    true = sqlite3.connect

    class Journal(sqlite3.Connection):
        def execute(self, text, *values):
            return super().execute("SELECT 'delete'" if "journal_mode" in text else text, *values)

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: true(*a, **k, factory=Journal))
    with Ledger(filled) as ledger, pytest.raises(pf.LedgerError, match="no memory to share"):
        ledger.account("power")


def test_a_journal_that_others_chose(filled):
    """Whatever journal another program has chosen meanwhile, the log is written ahead again, and nothing is lost."""
    with Ledger(filled) as ledger:
        account = ledger.account("power")
        ledger._log.database.rest()
        other = sqlite3.connect(filled)
        assert other.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        other.close()
        release(account, ready(), "2")
        assert Path(f"{filled}-wal").exists()
    assert sqlite3.connect(filled).execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("inside", [True, False])
def test_a_log_that_is_emptied(filled, inside):
    """A log that somebody cuts short is found out, inside of a transaction or between two."""
    with Ledger(filled) as ledger:
        account = ledger.account("power")
        account.reserve(ready(0.1), "2")

        def cut(appender):
            if inside:
                reserving.keep_payload(appender.transaction, "x", b"y")
            os.truncate(f"{filled}-wal", 0)

        if not inside:
            cut(None)
        with pytest.raises(pf.LedgerError):
            ledger._log.write(
                cut if inside else lambda one: reserving.keep_payload(one.transaction, "x", b"y")
            )


def test_a_log_that_is_moved_to_the_database(filled):
    """A log that is empty because all of it was moved to the database is as it should be, at any time."""
    with Ledger(filled) as ledger:
        account = ledger.account("power")
        release(account, ready(0.1), "2")
        other = sqlite3.connect(filled)

        def moved():
            return other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

        assert moved() == 0
        assert Path(f"{filled}-wal").stat().st_size == 0
        assert account.spent().epsilon == pytest.approx(1.1)
        release(account, ready(0.1), "3")
        assert moved() == 0
        release(account, ready(0.1), "4")
        other.close()
        assert ledger.verify().entries == 9


@pytest.mark.parametrize("emptied", [False, True])
def test_a_log_without_its_ledger(left_open, emptied):
    """A ledger that is away while its log is there is not made anew: SQLite would take its last entries away."""
    away = left_open.rename(left_open.with_name("away.db"))
    if emptied:
        left_open.touch()
    with pytest.raises(pf.LedgerError, match="gone or empty"):
        Ledger(left_open)
    away.rename(left_open)
    with Ledger(left_open) as ledger:
        assert len(ledger.account("power").history()) > 0
