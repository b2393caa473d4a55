"""Run queries and private work so that no error carries data to the caller; refuse an engine that would hang.

Messages of Polars may quote rows, tracebacks keep the error they came from, and frames their variables. So the error
that is raised instead comes from outside of the handler and names only a class of Polars or of Python itself. An error
while exact sums are in memory, even Ctrl-C, is raised anew without a reference to them.

A forked process has none of its parent's threads. If Polars had begun to work in the parent, it waits in the child for
threads that do not exist, without end.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar, cast, final

from pufferflow.core.errors import PufferflowError, SourceError, UsageError

T = TypeVar("T")
_KNOWN = ("builtins", "polars", "pyo3_runtime", "pyarrow", "duckdb", "_duckdb")
_TASKS = Path("/proc/self/task")
_THREADS = ("async-executor", "tokio-rt-worker", *(f"polars-{digit}" for digit in range(10)))
_FORKED_ONLY = 0x40
"""The flag with which Linux marks a process that was forked and has run no other program since."""
_PATIENCE = 5.0


def source_failed(kind: str) -> PufferflowError:
    """Return the error for a source that could not be read."""
    return SourceError(
        f"The data could not be read: the engine stopped with {kind}. Nothing was released.",
        allowed="a source that can be read to its end",
        instead="frame.head().collect() on a copy that may be looked at, to see what is wrong",
    )


def sandboxed(work: Callable[[], T], failed: Callable[[str], PufferflowError] = source_failed) -> T:
    """Return the result of `work`, or raise that it failed; errors of this library pass, and so does Ctrl-C.

    >>> sandboxed(lambda: 3)
    3
    """
    check_threads()
    kind = ""
    try:
        return work()
    except (PufferflowError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the engine is no Exception
        whose = type(error)
        kind = (
            whose.__name__
            if whose.__module__.partition(".")[0] in _KNOWN
            else "an error of its own"
        )
    raise failed(kind)


def check_threads() -> None:
    """Refuse to read in a process that was forked after Polars had begun to work: it would wait without end.

    >>> check_threads()
    """
    global _threads  # noqa: PLW0603 - one state for the process
    if _threads == "unknown":
        _threads = "here" if _answers() else "lost"
    if _threads == "lost":
        raise UsageError(
            "This process was forked off from one in which Polars had begun to work. Its threads stayed behind, and "
            "reading would never end; nothing was read or charged.",
            allowed="a process that starts anew; or one that is forked off before Polars is used",
            instead='multiprocessing.get_context("spawn") or "forkserver", ProcessPoolExecutor(mp_context=…); in a '
            "server, plan and release in its workers only",
        )


def _at_work() -> bool | None:
    """Return whether Polars has threads in this process; None if the system does not show it."""
    if "polars" not in sys.modules:
        return False
    if not _TASKS.is_dir():
        return None
    return any(_name(task).startswith(_THREADS) for task in _TASKS.iterdir())


def _name(task: Path) -> str:
    with suppress(OSError):  # a thread may end meanwhile
        return (task / "comm").read_text()
    return ""


def _answers() -> bool:
    """Return whether Polars ends a small piece of work, tried on a thread that may be left behind."""
    if _at_work() or "polars" not in sys.modules:
        return True
    frame = sys.modules["polars"].DataFrame({"a": [2, 1]})
    thread = threading.Thread(target=lambda: frame.sort("a"), daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return not thread.is_alive()


def _at_import() -> Literal["here", "unknown"]:
    """Return where the threads are of a process that may have been forked off before this file was imported."""
    with suppress(OSError, ValueError, IndexError):
        flags = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[6])
        return (
            "unknown"
            if flags & _FORKED_ONLY and _at_work() is False and "polars" in sys.modules
            else "here"
        )
    return "here"


def _before_fork() -> None:
    global _left_behind  # noqa: PLW0603 - what the child has to know
    _left_behind = _at_work()


def _in_child() -> None:
    global _threads  # noqa: PLW0603 - as above
    if _left_behind:
        _threads = "lost"
    elif _left_behind is None and _threads == "here":
        _threads = "unknown"


_threads: Literal["here", "unknown", "lost"] = _at_import()
_left_behind: bool | None = False
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)


@final
@dataclass(frozen=True, eq=False)
class Outcome(Generic[T]):
    """The result of work, or the error that it raised, without a reference to frames or to other errors."""

    value: T | None
    error: BaseException | None = None

    def get(self) -> T:
        """Return the value, or raise the error from here."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


def capture(work: Callable[[], T]) -> Outcome[T]:
    """Run work that has private numbers in its frames; its outcome has no reference to these frames.

    >>> capture(lambda: 3).get()
    3
    """
    outer = _outcome_of(
        lambda: _outcome_of(work)
    )  # a second Ctrl-C may come while the frames of the first are let go
    return Outcome(None, outer.error) if outer.value is None else outer.value


def _outcome_of(work: Callable[[], T]) -> Outcome[T]:
    try:
        return Outcome(work())
    except BaseException as error:  # noqa: BLE001 - the caller raises it again, also Ctrl-C
        drop_frames(error)
        return Outcome(None, error)


def drop_frames(error: BaseException) -> None:
    """Remove from an error its references to frames, which keep their variables, and to earlier errors.

    Notes are removed too: a private number may be in such texts.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    vars(error).pop("__notes__", None)
    for member in getattr(error, "exceptions", ()):
        drop_frames(member)
