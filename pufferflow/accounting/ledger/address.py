"""The address of a ledger, the access that its place permits, and the files of a ledger in SQLite.

SQLite's write-ahead log needs reliable locks and memory that all processes share, which only a disk of one machine has.
A ledger that cannot be written can still be read: with the log beside it or, without a log, as a file at rest.

The files of a ledger in SQLite: the database, and beside it the write-ahead log and the shared index.

Other programs can remove them while a connection is open. Then two processes have different logs, or one log and
different locks, and each overwrites what the other commits. So a connection remembers its files, and compares them
before and after each transaction. Writers also take a lock of their own on the log, which holds where SQLite's are
lost. SQLite's locks are lost if the index that has them is replaced. They are also lost if the process closes a file of
the ledger elsewhere, since POSIX then releases all its locks on that file.
"""

import ctypes
import os
import re
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, cast, final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from pufferflow.accounting.ledger.tables import Transaction
from pufferflow.core.errors import LedgerError, UsageError
from pufferflow.core.paths import scheme_of

_ALLOWED = 'a file, a "sqlite:///…" address or a "postgresql+psycopg://…" address'
_INSTEAD = 'pf.Ledger("ledger.db")'
_POSTGRESQL, _SQLITE = {"postgresql", "postgresql+psycopg"}, {"sqlite", "sqlite+pysqlite"}
_WORDS = re.compile(
    r"(?i)(^|\s)\w*pass\w*\s*=|^\s*(host|hostaddr|port|dbname|user|service)\s*=\s*\S*\s+\w+\s*="
)
_LOGIN = re.compile(r"(?![A-Za-z]:[/\\])[^/\\:]*:([^/\\]*@|[^@]*@[^/\\]*/)")
_HARMLESS = re.compile(r"[\w.,\-]+|\[?[0-9A-Fa-f:.%]+\]?", re.ASCII)


def read_address(given: Any) -> URL:
    """Return the place of a ledger; files by their absolute path, so that the working directory does not matter."""
    if isinstance(given, URL):
        return _check_url(given)
    kind = type(given).__name__
    text: object = fspath(cast(str, given)) if isinstance(given, str | PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"The address is of type {kind}.", allowed=_ALLOWED, instead=_INSTEAD)
    check_scheme(text)
    if "://" not in text:
        if _WORDS.search(text) or _LOGIN.match(
            text
        ):  # meant for a server; errors would show it as a file's name
            raise UsageError(
                "The address names a server, but no scheme.",
                allowed=_ALLOWED,
                instead='pf.Ledger("postgresql+psycopg://user@host/ledger"); "./…" for a file of such a name',
            )
        return _file_url(text)
    url: URL | None = None
    with suppress(ArgumentError, ValueError):  # the text may hold a password
        url = make_url(text)
    if url is None:
        raise UsageError("The address cannot be read.", allowed=_ALLOWED, instead=_INSTEAD)
    return _check_url(url)


def _check_url(url: URL) -> URL:
    if url.drivername in _POSTGRESQL:
        return url.set(drivername="postgresql+psycopg")
    check_scheme(f"{url.drivername}://")
    if url.query:
        raise UsageError("The address of a file has options.", allowed=_ALLOWED, instead=_INSTEAD)
    return _file_url(url.database or "")


def _file_url(path: str) -> URL:
    if path in {"", ":memory:"} or path.startswith("file:"):
        raise UsageError(
            "A ledger in memory forgets what was spent when the process ends.",
            allowed=_ALLOWED,
            instead=_INSTEAD,
        )
    if "\0" in path:
        raise UsageError(
            "The name of the file has a character that file names cannot have.",
            allowed=_ALLOWED,
            instead=_INSTEAD,
        )
    return URL.create("sqlite+pysqlite", database=str(Path(path).absolute()))


def check_scheme(address: str) -> None:
    """Refuse an address with a scheme in which no ledger can be kept; the rest may hold a password and is not shown.

    >>> check_scheme("ledger.db"), check_scheme("postgresql+psycopg://host/ledger")
    (None, None)
    """
    scheme = scheme_of(address)
    known = {*_POSTGRESQL, *_SQLITE} if "://" in address else set[str]()
    if scheme is not None and scheme not in known:
        raise UsageError(f"A ledger in {scheme!r}.", allowed=_ALLOWED, instead=_INSTEAD)


def shown_address(url: URL) -> str:
    """Return an address as it may be shown: without a password, options, or any text that may be a part of one.

    A wrongly quoted address is parsed into wrong parts. Then a part of the password may be taken for a user, a host or
    a database.

    >>> shown_address(URL.create("postgresql+psycopg", "me:secret", "more", "host", 5432, "ledger"))
    'postgresql+psycopg://***:***@host:5432/ledger'
    """
    if url.drivername in _SQLITE:
        return url.database or ""
    user, host, database = (
        part if not part or _HARMLESS.fullmatch(part) else "***"
        for part in (url.username or "", url.host or "", url.database or "")
    )
    login = f"{user}:***@" if url.password is not None else f"{user}@" if user else ""
    port = "" if url.port is None else f":{url.port}"
    return f"{url.drivername}://{login}{host}{port}/{database}"


_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = {
    *(
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "fakeowner",
        "fuse",
        "gfs2",
        "glusterfs",
        "gpfs",
    ),
    *(
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "prl_fs",
        "pvfs2",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
    ),
    *("vmhgfs", "wekafs"),
}
"""File systems that other machines may write to meanwhile."""
_OWN = {"fuse.fuse-overlayfs"}
"""File systems of a program, which no other machine sees; others are unknown."""
_OF_SANDBOXES = {"9p", "virtiofs"}
"""The root file systems of containers with a kernel of their own, which no other machine writes to."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


@final
class Access(Enum):
    """The access that the place of a ledger's file permits."""

    WRITE = auto()
    READ = auto()
    AT_REST = auto()
    """Read without a lock: the file cannot be written, and no write-ahead log is beside it."""


def access_to(file: Path, address: str) -> Access:
    """Return the access to a file; refuse one whose last entries would be invisible."""
    place, mounts = os.path.realpath(file), _mounts()
    if any(point == place for point, _ in mounts):
        raise LedgerError(
            f"The ledger's file is mounted without its folder ({address}). The write-ahead log beside it cannot be "
            "seen, and a second log would overwrite what others commit.",
            allowed="a folder that is mounted as a whole",
            instead="docker run --volume /srv/ledger:/ledger, the folder with the ledger in it",
        )
    shared = _is_shared(place, mounts)
    if not _size(place) and _size(place + "-wal"):
        raise LedgerError(
            f"The ledger's file is gone or empty, but its last entries are in the file ending with -wal ({address}). "
            "A new ledger would delete them.",
            allowed="a ledger with all its files, or a place without any of them",
            instead="restoring the file; or another place for a new ledger",
        )
    if not Path(place).exists():
        if shared:
            raise read_only(file, address)
        return Access.WRITE
    folder = os.access(os.path.dirname(place), os.W_OK)  # noqa: PTH120 - a path as text
    beside = folder or all(os.access(place + ending, os.W_OK) for ending in ("-wal", "-shm"))
    if os.access(place, os.W_OK) and beside and not shared:
        return Access.WRITE
    logs = [ending for ending in ("-wal", "-journal") if _size(place + ending)]
    if logs and (shared or logs != ["-wal"] or not os.access(place + "-shm", os.R_OK)):
        raise LedgerError(
            f"The ledger can only be read here ({address}), but its last entries, in the file ending with {logs[0]}, "
            "cannot. Without them it would be an older ledger.",
            allowed="a ledger that was closed, or one with all files beside it on a disk of this machine",
            instead="ledger.copy_to(…) where it is written; or a copy of all its files, in a folder to write to",
        )
    return Access.READ if logs else Access.AT_REST


def _size(place: str) -> int:
    try:
        return os.stat(place).st_size  # noqa: PTH116 - a path as text
    except OSError:
        return 0


def read_only(file: Path, address: str) -> LedgerError:
    """Return the fault of writing to a file that can only be read."""
    if _is_shared(os.path.realpath(file), _mounts()):
        return LedgerError(
            f"The ledger is on a file system that other machines may write to ({file_system(file)}, {address}), where "
            "SQLite's locks and shared memory do not work. It can be read, but not written.",
            allowed="a disk of this machine, or PostgreSQL",
            instead='ledger.copy_to("postgresql+psycopg://host/ledger"), which moves it',
        )
    return LedgerError(
        f"The ledger may be read but not written ({address}).",
        allowed="a file and a folder that may be written to",
        instead="the permissions of the file and of its folder; the options of its mount",
    )


def file_system(file: Path | str) -> str:
    """Return the type of the file system of a file; an empty text if unknown."""
    return _mount_of(os.path.realpath(file), _mounts())[1]


def _is_shared(place: str, mounts: list[tuple[str, str]]) -> bool:
    point, kind = _mount_of(place, mounts)
    own = kind in _OWN or (point == "/" and kind in _OF_SANDBOXES)
    return not own and kind.partition(".")[0] in _SHARED


def _mount_of(place: str, mounts: list[tuple[str, str]]) -> tuple[str, str]:
    """Return where the innermost mount around a place is, and its kind."""
    innermost = ("", "")
    for point, kind in mounts:
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(innermost[0]):
            innermost = point, kind
    return innermost


def _mounts() -> list[tuple[str, str]]:
    """Return the mounted file systems with their types, later ones above those before."""
    try:
        text = _MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return []
    rows = [line.partition(" - ") for line in text.splitlines()]
    return [
        (_ESCAPED.sub(lambda code: chr(int(code[1], 8)), left.split(" ")[4]), right.split(" ")[0])
        for left, _, right in rows
        if left.count(" ") > 3
    ]


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
            f"The ledger's file has {status.st_nlink} names (hard links): entries written under one are lost under "
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
        self._beside = os.path.realpath(
            file
        )  # the other files are beside the target of symbolic links
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
        if begins in _MAGIC or (
            not begins and (self._moved() or os.pread(self._log, 4, 0) in _MAGIC)
        ):
            return  # if it was empty and now is not, another connection has begun to write in between
        raise self._lost()

    def _moved(self) -> bool:
        """Return whether all content of the log is in the database."""
        return not self._transaction.execute("PRAGMA wal_checkpoint").fetchone()[1] > 0

    def _lost(self) -> LedgerError:
        if self.access is Access.AT_REST:
            return LedgerError(
                f"Another process wrote the ledger while it was read ({self._address}).",
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
                    f"Other processes kept the ledger locked for too long. ({self._address})",
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
            "processes could spend the same budget.",
            allowed="a disk of this machine, or PostgreSQL",
            instead='pf.Ledger("postgresql+psycopg://host/ledger")',
        )

    def _close_log(self) -> None:
        log, self._log = self._log, -1
        if log >= 0:
            os.close(log)


def _lost(address: str) -> LedgerError:
    return LedgerError(
        "A file of the open ledger, ending with -wal or -shm, was removed or replaced by another program "
        f"({address}). A charge may be lost, so nothing is released.",
        allowed="files that no other program opens, copies or removes",
        instead="closing every program that has the file open, this one too; then ledger.verify(head). "
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
        if Path(os.path.realpath(place)) == own or (
            place.exists() and own.exists() and place.samefile(own)
        ):
            raise UsageError(
                f"The place {place.name[:200]!r} belongs to the ledger itself.",
                allowed="a place that is not the ledger's",
                instead='ledger.export("entries.ndjson")',
            )
