"""The files of a ledger in SQLite: the database, and the write-ahead log beside it.

Other programs can take them away beneath an open connection. Copying the database file inside this process lets go of
its locks, as POSIX has it, and then another process may remove the log that is still written to.
"""

import os
from pathlib import Path

from pufferflow.errors import LedgerFault, Misuse

Identity = tuple[int, int]
_ENDINGS = "", "-wal", "-shm", "-journal"


def database_file(file: Path) -> Identity | None:
    """Return which file has a name; None if none has, or none that may be looked at; refuse one with more names.

    SQLite names the write-ahead log after the database, so under two names there would be two logs.
    """
    try:
        found = os.stat(file)  # noqa: PTH116 - a path object is slower, and every transaction asks
    except OSError:
        return None
    if found.st_nlink > 1 and file.is_file():
        raise LedgerFault(
            f"The ledger's file has {found.st_nlink} names (hard links): what is written under one is lost under "
            "another.",
            allowed="a file with one name; symbolic links are fine",
            instead="removing the other names; ledger.copy_to(…) makes a copy",
        )
    return found.st_dev, found.st_ino


def log_of(file: Path) -> str:
    """Return where the write-ahead log of a database is, which SQLite puts beside what symbolic links lead to."""
    return os.path.realpath(file) + "-wal"


def log_file(place: str) -> Identity | None:
    """Return which file is the write-ahead log; None if there is none."""
    try:
        found = os.stat(place)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_lost(address: str) -> LedgerFault:
    """Return the fault of a write-ahead log that is gone from beneath a connection."""
    return LedgerFault(
        f"The ledger's write-ahead log was taken away or replaced while it was open ({address}); "
        "a charge may be lost, and nothing is given out.",
        allowed="a file that no other program opens, copies or removes",
        instead="closing all that is open on the file; then ledger.verify(head). ledger.copy_to(…) makes copies",
    )


def check_elsewhere(place: Path, file: Path | None) -> None:
    """Refuse to write over the files of a ledger."""
    if file is None:
        return
    for ending in _ENDINGS:
        own = Path(os.path.realpath(file) + ending)
        if Path(os.path.realpath(place)) == own or (place.exists() and own.exists() and place.samefile(own)):
            raise Misuse(
                f"The place {place.name[:200]!r} belongs to the ledger itself.",
                allowed="a place that is not the ledger's",
                instead='ledger.export("entries.ndjson")',
            )
