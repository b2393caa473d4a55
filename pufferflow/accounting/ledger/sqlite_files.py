"""The files of a ledger in SQLite: the database, and beside it the write-ahead log and the shared index.

Other programs can remove them while a connection is open. Then two processes have different logs, or one log and
different locks, and each overwrites what the other commits. So a connection remembers its files, and compares them
before and after each transaction. Writers take a lock of their own on the log as well, which holds where SQLite's are
lost. These are lost if the index with its locks was replaced, or a file of the ledger was closed elsewhere in the
process, which releases all locks that the process has on it (POSIX).
"""

import ctypes
import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, final

from pufferflow.accounting.ledger.address import Access, file_system
from pufferflow.accounting.ledger.tables import Transaction
from pufferflow.core.errors import LedgerError, UsageError

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed
    fcntl = None

Identity = tuple[int, int]
_ENDINGS = "", "-wal", "-shm", "-journal"
_SMALLEST_INDEX: Final = 32_768
_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""The first bytes of a write-ahead log."""
_PAUSE: Final = 0.001
_abandoned: set[object] = set()
"""Ledgers of which this process has a connection that must never be closed."""


def database_file(file: Path) -> Identity | None:
    """Return the identity of a ledger's file; None if there is none, or it cannot be read.

    A file with several names is refused: SQLite names the write-ahead log after the database, so there would be two.
    """
    status = _stat(str(file))
    if status is None:
        return None
    if status.st_nlink > 1 and file.is_file():
        raise LedgerError(
            f"The ledger's file has {status.st_nlink} names (hard links): what is written under one is lost under "
            "another.",
            allowed="a file with one name; symbolic links are fine",
            instead="removing the other names; ledger.copy_to(…) makes a copy",
        )
    identity = _identity(status)
    if identity in _abandoned:
        raise _lost(str(file))
    return identity


@final
class Watch:
    """The files that one connection has open, compared with those that have their names now."""

    def __init__(self, file: Path, address: str, access: Access, transaction: Transaction) -> None:
        self.access, self._address, self._transaction = access, address, transaction
        self._beside = os.path.realpath(file)  # the other files are beside the target of symbolic links
        self._log = -1
        self._opened = self._now()
        if not self._has_open():
            raise self._lost()
        if access is Access.WRITE and fcntl is not None:
            self._log = os.open(self._beside + "-wal", os.O_RDWR | os.O_CLOEXEC)
            self._check_lock(file)

    def same(self) -> bool:
        """Return whether the files are those that the connection has open."""
        return self._now() == self._opened

    def check(self) -> None:
        """Raise if the files were replaced: writes may be lost, and reads outdated."""
        if not self.same():
            raise self._lost()

    def check_log(self) -> None:
        """Raise if the log was emptied outside of a transaction, unless all its content was moved to the database."""
        if self._log < 0:
            return
        begins = os.pread(self._log, 4, 0)
        if begins in _MAGIC or (not begins and (self._moved() or os.pread(self._log, 4, 0) in _MAGIC)):
            return  # if it was empty and now is not, another connection has begun to write in between
        raise self._lost()

    def _moved(self) -> bool:
        """Return whether all content of the log is in the database."""
        return not self._transaction.execute("PRAGMA wal_checkpoint").fetchone()[1] > 0

    def _lost(self) -> LedgerError:
        if self.access is Access.AT_REST:
            return LedgerError(
                f"The ledger was written while it was read ({self._address}).",
                allowed="a ledger that nobody writes, or the permission to write to its folder",
                instead="trying again",
            )
        return _lost(self._address)

    @contextmanager
    def writing(self, wait: float) -> Generator[None]:
        """Exclude all other writers, those of this process too."""
        if self._log < 0 or fcntl is None:
            yield
            return
        deadline = time.monotonic() + wait
        while not _lock(self._log):
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"Others kept the ledger locked for too long. ({self._address})",
                    instead="trying again; or Ledger(address, wait=120)",
                )
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            if self._log >= 0:
                fcntl.flock(self._log, fcntl.LOCK_UN)

    def end(self, connection: Any) -> bool:
        """Release the lock's file; return whether the connection may be closed.

        The last connection that is closed moves its log into the database and removes the log by its name. A connection
        that has other files than those of that name would overwrite the writes of others, and must not be closed.
        """
        self._close_log()
        if self.access is not Access.WRITE or self.same():
            return True
        keep = getattr(sqlite3, "SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE", None)
        if keep is not None:  # Python 3.12 and later
            connection.connection.driver_connection.setconfig(keep)
            return True
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        _abandoned.add(self._opened[0])
        return False

    def _now(self) -> tuple[object, ...]:
        """Return the identities of the files; of a ledger at rest also sizes and times, which change with a write."""
        main, log = _stat(self._beside), _stat(self._beside + "-wal")
        if self.access is Access.AT_REST:
            written = None if main is None else (main.st_size, main.st_mtime_ns)
            return _identity(main), written, log is None or log.st_size == 0
        index = _stat(self._beside + "-shm")
        whole = index is not None and index.st_size >= _SMALLEST_INDEX
        return _identity(main), _identity(log), _identity(index) if whole else None

    def _has_open(self) -> bool:
        """Return whether this process has the files open: all its connections share an index, perhaps an old one."""
        if self.access is Access.AT_REST:
            return True
        try:
            descriptors = os.listdir("/dev/fd")  # noqa: PTH208 - numbers, no paths
        except OSError:
            return True
        open_now = {_identity(_stat(int(descriptor))) for descriptor in descriptors}
        return (open_now - {None}).issuperset(self._opened)

    def _check_lock(self, file: Path) -> None:
        """Refuse a file system that grants the same lock twice, or none."""
        other = os.open(self._beside + "-wal", os.O_RDWR | os.O_CLOEXEC)
        try:
            with self.writing(0):
                holds = not _lock(other)
        except LedgerError:
            holds = True  # another process has the lock
        except OSError:
            holds = False
        finally:
            os.close(other)
        if holds:
            return
        self._close_log()
        raise LedgerError(
            f"The file system keeps no locks ({file_system(file) or 'of an unknown kind'}, {self._address}): two "
            "processes would spend the same budget.",
            allowed="a disk of this machine, or PostgreSQL",
            instead='pf.Ledger("postgresql+psycopg://host/ledger")',
        )

    def _close_log(self) -> None:
        log, self._log = self._log, -1
        if log >= 0:
            os.close(log)


def _lost(address: str) -> LedgerError:
    return LedgerError(
        "The ledger's write-ahead log, or its index (the files ending with -wal and -shm), was taken away or replaced "
        f"while it was open ({address}); a charge may be lost, and nothing is given out.",
        allowed="files that no other program opens, copies or removes",
        instead="closing all that is open on the file, this process too; then ledger.verify(head). "
        "ledger.copy_to(…) makes copies",
    )


def _stat(place: str | int) -> os.stat_result | None:
    try:
        return os.stat(place)  # noqa: PTH116 - a path object is slower, and every transaction calls this
    except OSError:
        return None


def _identity(status: os.stat_result | None) -> Identity | None:
    return None if status is None else (status.st_dev, status.st_ino)


def _lock(descriptor: int) -> bool:
    """Take the lock of a file; return False if another has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def check_elsewhere(place: Path, file: Path | None) -> None:
    """Refuse to write over the files of a ledger."""
    if file is None:
        return
    for ending in _ENDINGS:
        own = Path(os.path.realpath(file) + ending)
        if Path(os.path.realpath(place)) == own or (place.exists() and own.exists() and place.samefile(own)):
            raise UsageError(
                f"The place {place.name[:200]!r} belongs to the ledger itself.",
                allowed="a place that is not the ledger's",
                instead='ledger.export("entries.ndjson")',
            )
