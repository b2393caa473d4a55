"""The address of a ledger, and the access that its place permits: to write, to read, or to read a file at rest.

SQLite's write-ahead log needs reliable locks and memory that all processes share, which only a disk of one machine has.
A ledger that cannot be written can still be read: with the log beside it or, without a log, as a file at rest.
"""

import os
import re
from contextlib import suppress
from enum import Enum, auto
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast, final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from pufferflow.core.addresses import scheme_of
from pufferflow.core.errors import LedgerError, UsageError

_ALLOWED = 'a file, a "sqlite:///…" address or a "postgresql+psycopg://…" address'
_INSTEAD = 'pf.Ledger("ledger.db")'
_POSTGRESQL, _SQLITE = {"postgresql", "postgresql+psycopg"}, {"sqlite", "sqlite+pysqlite"}
_WORDS = re.compile(r"(?i)(^|\s)\w*pass\w*\s*=|^\s*(host|hostaddr|port|dbname|user|service)\s*=\s*\S*\s+\w+\s*=")
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
        if _WORDS.search(text) or _LOGIN.match(text):  # meant for a server; errors would show it as a file's name
            raise UsageError(
                "An address of a server without its scheme.",
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
        raise UsageError("An address of a file with options.", allowed=_ALLOWED, instead=_INSTEAD)
    return _file_url(url.database or "")


def _file_url(path: str) -> URL:
    if path in {"", ":memory:"} or path.startswith("file:"):
        raise UsageError(
            "A ledger in memory forgets what was spent when the process ends.", allowed=_ALLOWED, instead=_INSTEAD
        )
    if "\0" in path:
        raise UsageError("The name of the file has a character that no file has.", allowed=_ALLOWED, instead=_INSTEAD)
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

    An address that was quoted wrongly is parsed into wrong parts, so a part of the password may be taken for a user, a
    host or a database.

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
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fakeowner", "fuse", "gfs2", "glusterfs", "gpfs"),
    *("lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"),
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
            f"The ledger's file is mounted without its folder ({address}): the write-ahead log beside it is out of "
            "sight, and a log of its own would overwrite what others commit.",
            allowed="a folder that is mounted as a whole",
            instead="docker run --volume /srv/ledger:/ledger, the folder with the ledger in it",
        )
    shared = _is_shared(place, mounts)
    if not _size(place) and _size(place + "-wal"):
        raise LedgerError(
            f"The ledger's file is gone or empty, and its last entries are in the file ending with -wal ({address}): "
            "a new ledger would take them away.",
            allowed="a ledger with all its files; or a place where none was",
            instead="bringing the file back; or another place for a new ledger",
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
            f"The ledger can only be read here ({address}), and its last entries, in the file ending with {logs[0]}, "
            "cannot: without them it would be an older one.",
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
            "SQLite's locks and shared memory do not hold: it can be read, and not written.",
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
