"""Errors of commands: three lines for people, or one document for programs, without any value of a row.

Exit codes are in one table, which the help and the documentation show.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, final

import typer

from pufferflow.core.errors import (
    InternalError,
    LedgerError,
    LimitReached,
    PufferflowError,
    Refused,
    SinkError,
    SourceError,
    UsageError,
)

BUG: Final = 1
MISUSE: Final = 2
REFUSED: Final = 3
STOPPED: Final = 130

EXITS: Final[dict[type[BaseException], int]] = {
    InternalError: BUG,
    UsageError: MISUSE,
    Refused: REFUSED,
    LimitReached: 4,
    SourceError: 5,
    LedgerError: 6,
    SinkError: 7,
    KeyboardInterrupt: STOPPED,
}
"""The exit code of each kind of error; any other error is a bug."""

MEANINGS: Final[dict[int, str]] = {
    0: "done",
    BUG: "a bug of ours, or the machine ran out of something",
    MISUSE: "an argument, a file or a setting is wrong",
    REFUSED: "the guarantee cannot be given, or an audit broke it",
    4: "the release would pass the limit of its account",
    5: "data could not be read; nothing was released",
    6: "the ledger could not be read, written or verified",
    7: "the sink cannot be read or written; the ledger keeps the release",
    STOPPED: "stopped by Ctrl-C",
}
"""The meaning of each exit code."""


def exit_code(error: BaseException) -> int:
    """Return the code of an error.

    >>> exit_code(LimitReached("…")), exit_code(ZeroDivisionError())
    (4, 1)
    """
    return next((EXITS[kind] for kind in type(error).__mro__ if kind in EXITS), BUG)


def table() -> str:
    """Return the table of codes and meanings, a line each."""
    return "\n".join(f"{code:>5}  {meaning}" for code, meaning in MEANINGS.items())


AGAIN = "the same command again: nothing is charged twice"
_MORE = "the same command with --traceback; a traceback can quote data"


@final
@dataclass(frozen=True)
class Fault:
    """The problem of an error, what is allowed, what to try, and the exit code."""

    kind: str
    problem: str
    allowed: str
    instead: str
    exit: int

    def document(self) -> dict[str, Any]:
        """Return the fault for programs."""
        fields = asdict(self)
        return {"error": fields, "exit": fields.pop("exit")}


def fault_of(error: BaseException) -> Fault:
    """Return the fault that is reported for an error."""
    if isinstance(error, InternalError):
        return _bug(type(error).__name__, f"This is a bug of ours: {error.problem}")
    if isinstance(error, PufferflowError):
        return Fault(
            type(error).__name__, error.problem, error.allowed, error.instead, exit_code(error)
        )
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return Fault("Stopped", "Stopped.", "", AGAIN, STOPPED)
    if hasattr(
        error, "format_message"
    ):  # typer's own errors, whose classes differ between versions
        return _usage(error)
    if isinstance(error, MemoryError):
        return Fault(
            "MemoryError",
            "There is not enough memory.",
            "",
            "a bigger machine, or fewer rows",
            exit_code(error),
        )
    return _bug(
        type(error).__name__, f"This is a bug of ours: it stopped with {type(error).__name__}."
    )


def _bug(kind: str, problem: str) -> Fault:
    return Fault(kind, problem, "", _MORE, exit_code(InternalError(problem)))


def _usage(error: Any) -> Fault:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "pufferflow"
    commands: Iterable[str] = getattr(getattr(context, "command", None), "commands", ())
    allowed = ", ".join(commands) or (
        " ".join(context.get_usage().split()).removeprefix("Usage: ") if context else ""
    )
    return Fault(
        "UsageError", " ".join(error.format_message().split()), allowed, f"{path} --help", MISUSE
    )
