"""What goes wrong with a database, in plain words.

A driver's error can quote statements, parameters and stored bytes. So nothing of it is passed on but what kind it is,
and the error that is raised instead comes from outside of the handler, where no traceback leads back to it.
"""

from typing import Any, Final, final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pufferflow.errors import LedgerFault

_BUSY = "Others kept the ledger locked for too long.", "trying again; or Ledger(address, wait=120)"
_FULL = "The disk is full.", "making room, and trying again"
_READ_ONLY = "The ledger may be read but not written.", "the permissions of the file and of its folder"
_BROKEN = "The ledger's file is damaged.", "the last copy that ledger.verify(head) accepts"
_NO_DATABASE = "The file is no ledger: it is no SQLite database.", "another file"
_UNREACHABLE = "The ledger cannot be opened.", "a folder that exists and may be written to"
_DISK = "The disk failed while the ledger was read or written.", "the disk; then ledger.verify()"
_TOO_BIG = "The release is too big to be kept.", "fewer groups in one release"
_NO_TABLES = "The database has no ledger, or only a part of one.", "pf.Ledger(address), which makes one"
_SERVER = "The database server cannot be reached, or closed the connection.", "the server, the address, the password"
_FORBIDDEN = "The database server does not permit what a ledger needs.", "GRANT SELECT, INSERT, UPDATE, CREATE"
_RACE = "Too many others wrote at the same time.", "trying again"
_UNKNOWN = "The database failed.", "ledger.verify()"

_SQLITE: Final = {
    "BUSY": _BUSY,
    "LOCKED": _BUSY,
    "FULL": _FULL,
    "READONLY": _READ_ONLY,
    "CORRUPT": _BROKEN,
    "NOTADB": _NO_DATABASE,
    "CANTOPEN": _UNREACHABLE,
    "PERM": _UNREACHABLE,
    "AUTH": _UNREACHABLE,
    "IOERR": _DISK,
    "TOOBIG": _TOO_BIG,
    "ERROR": _NO_TABLES,
}
"""By the name of SQLite's primary code."""

_POSTGRESQL: Final = {
    "53": _FULL,
    "55": _BUSY,
    "25": _READ_ONLY,
    "XX": _BROKEN,
    "58": _DISK,
    "54": _TOO_BIG,
    "42501": _FORBIDDEN,
    "42P01": _NO_TABLES,
    "3D": _SERVER,
    "08": _SERVER,
    "28": _SERVER,
    "57": _SERVER,
    "40": _RACE,
}
"""By SQLSTATE, or by its class, the first two characters."""


@final
class Failure:
    """What went wrong: the error to raise, and whether the same may go well if it is tried again."""

    def __init__(self, error: Exception, address: str) -> None:
        original: Any = error.orig if isinstance(error, DBAPIError) else error
        state = str(getattr(original, "sqlstate", None) or "")
        self.again = state[:2] == "40"
        problem, instead = _words(original, state)
        self.fault = LedgerFault(f"{problem} ({type(original).__name__}, {address})", instead=instead)


def _words(original: Any, state: str) -> tuple[str, str]:
    name = str(getattr(original, "sqlite_errorname", ""))
    if name:
        return _SQLITE.get(name.removeprefix("SQLITE_").partition("_")[0], _UNKNOWN)
    if type(original).__module__.startswith("sqlite3"):  # text that is no UTF-8 has no code
        return _BROKEN
    if isinstance(original, SQLAlchemyError):
        return _UNKNOWN
    if not state:
        return _SERVER
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2], _UNKNOWN)
