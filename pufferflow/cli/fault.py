"""What a command says when it fails: three lines for people, or one document for programs; never a value of a row."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, final

import typer

from pufferflow.cli.codes import MISUSE, STOPPED, exit_code
from pufferflow.errors import InternalError, PufferflowError

AGAIN = "the same command again: nothing is charged twice"
_MORE = "the same command with --traceback; a traceback can quote data"


@final
@dataclass(frozen=True)
class Fault:
    """What was wrong, what is allowed, what to try, and the code to exit with."""

    kind: str
    problem: str
    allowed: str
    instead: str
    exit: int

    def document(self) -> dict[str, Any]:
        """Return the fault for programs."""
        found = asdict(self)
        return {"error": found, "exit": found.pop("exit")}


def fault_of(error: BaseException) -> Fault:
    """Return what is told of an error."""
    if isinstance(error, InternalError):
        return _bug(type(error).__name__, f"This is a bug of ours: {error.problem}")
    if isinstance(error, PufferflowError):
        return Fault(type(error).__name__, error.problem, error.allowed, error.instead, exit_code(error))
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return Fault("Stopped", "Stopped.", "", AGAIN, STOPPED)
    if hasattr(error, "format_message"):  # typer's own, whose classes differ from version to version
        return _usage(error)
    if isinstance(error, MemoryError):
        return Fault(
            "MemoryError", "There is not enough memory.", "", "a bigger machine, or fewer rows", exit_code(error)
        )
    return _bug(type(error).__name__, f"This is a bug of ours: it stopped with {type(error).__name__}.")


def _bug(kind: str, problem: str) -> Fault:
    return Fault(kind, problem, "", _MORE, exit_code(InternalError(problem)))


def _usage(error: Any) -> Fault:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "pufferflow"
    commands: Iterable[str] = getattr(getattr(context, "command", None), "commands", ())
    allowed = ", ".join(commands) or (" ".join(context.get_usage().split()).removeprefix("Usage: ") if context else "")
    return Fault("Misuse", " ".join(error.format_message().split()), allowed, f"{path} --help", MISUSE)
