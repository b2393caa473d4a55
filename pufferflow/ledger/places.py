"""Where a ledger in a file lies, and so in which way it may be opened: to write, to read, or as a file at rest.

SQLite's write-ahead log needs locks that hold and memory that all processes share, which only a disk of one machine
gives. What cannot be written can still be read: with the log beside it, or, if there is none, as a file that rests.
"""

import os
import re
from enum import Enum, auto
from pathlib import Path
from typing import final

from pufferflow.errors import LedgerFault

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fakeowner", "fuse", "gfs2", "glusterfs", "gpfs"),
    *("lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"),
    *("vmhgfs", "wekafs"),
}
"""File systems that other machines may write to meanwhile."""
_OWN = {"fuse.fuse-overlayfs"}
"""Those that a program gives and no other machine sees; of the rest nobody can say."""
_OF_SANDBOXES = {"9p", "virtiofs"}
"""What containers with a kernel of their own have as their root, which nobody else writes to."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


@final
class Way(Enum):
    """How a ledger's file is opened."""

    WRITE = auto()
    READ = auto()
    REST = auto()
    """It cannot be written, and no log is beside it: nothing is locked, and nothing else is looked at."""


def way_of(file: Path, address: str) -> Way:
    """Return how a file may be opened; refuse one whose last entries could not be seen."""
    place = os.path.realpath(file)
    if any(point == place for point, _ in _mounts()):
        raise LedgerFault(
            f"The ledger's file is mounted without its folder ({address}): the write-ahead log beside it is out of "
            "sight, and a log of its own would overwrite what others commit.",
            allowed="a folder that is mounted as a whole",
            instead="docker run --volume /srv/ledger:/ledger, the folder with the ledger in it",
        )
    shared = _is_shared(place)
    if not _size(place) and _size(place + "-wal"):
        raise LedgerFault(
            f"The ledger's file is gone or empty, and its last entries are in the file ending with -wal ({address}): "
            "a new ledger would take them away.",
            allowed="a ledger with all its files; or a place where none was",
            instead="bringing the file back; or another place for a new ledger",
        )
    if not Path(place).exists():
        if shared:
            raise read_only(file, address)
        return Way.WRITE
    if _writable(place) and not shared:
        return Way.WRITE
    logs = [ending for ending in ("-wal", "-journal") if _size(place + ending)]
    if logs and (shared or logs != ["-wal"] or not os.access(place + "-shm", os.R_OK)):
        raise LedgerFault(
            f"The ledger can only be read here ({address}), and its last entries, in the file ending with {logs[0]}, "
            "cannot: without them it would be an older one.",
            allowed="a ledger that was closed, or one with all files beside it on a disk of this machine",
            instead="ledger.copy_to(…) where it is written; or a copy of all its files, in a folder to write to",
        )
    return Way.READ if logs else Way.REST


def read_only(file: Path, address: str) -> LedgerFault:
    """Return the fault of writing what can only be read."""
    if _is_shared(os.path.realpath(file)):
        return LedgerFault(
            f"The ledger is on a file system that other machines may write to ({file_system(file)}, {address}), where "
            "SQLite's locks and shared memory do not hold: it can be read, and not written.",
            allowed="a disk of this machine, or PostgreSQL",
            instead='ledger.copy_to("postgresql+psycopg://host/ledger"), which moves it',
        )
    return LedgerFault(
        f"The ledger may be read but not written ({address}).",
        allowed="a file and a folder that may be written to",
        instead="the permissions of the file and of its folder; the options of its mount",
    )


def file_system(file: Path | str) -> str:
    """Return the kind of file system that a file is on; an empty text where that is not told."""
    return _mount_of(os.path.realpath(file))[1]


def _mount_of(place: str) -> tuple[str, str]:
    """Return where the innermost mount around a place is, and its kind."""
    found = ("", "")
    for point, kind in _mounts():
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found[0]):
            found = point, kind
    return found


def _is_shared(place: str) -> bool:
    point, kind = _mount_of(place)
    own = kind in _OWN or (point == "/" and kind in _OF_SANDBOXES)
    return not own and kind.partition(".")[0] in _SHARED


def _mounts() -> list[tuple[str, str]]:
    """Return where what kind of file system is mounted, the later ones above those before."""
    try:
        text = _MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return []
    rows = [line.partition(" - ") for line in text.splitlines()]
    return [(_plain(left.split(" ")[4]), right.split(" ")[0]) for left, _, right in rows if left.count(" ") > 3]


def _plain(point: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)


def _writable(place: str) -> bool:
    beside = os.access(os.path.dirname(place), os.W_OK) or all(  # noqa: PTH120 - a path as text
        os.access(place + ending, os.W_OK) for ending in ("-wal", "-shm")
    )
    return os.access(place, os.W_OK) and beside


def _size(place: str) -> int:
    try:
        return os.stat(place).st_size  # noqa: PTH116 - a path as text
    except OSError:
        return 0
