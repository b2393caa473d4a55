"""The program around all commands: it runs one, tells how it ended, and exits with the code of that."""

import os
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, final

import typer
from typer.core import TyperGroup

from pufferflow.cli.codes import STOPPED
from pufferflow.cli.command import Answer
from pufferflow.cli.fault import fault_of
from pufferflow.cli.screen import Screen
from pufferflow.cli.streams import write


@final
class Root(TyperGroup):
    """The group of all commands."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the signature is typer's
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002
        **extra: Any,
    ) -> Any:
        """Run the command, and exit with its code."""
        del prog_name, standalone_mode
        given = list(sys.argv[1:] if args is None else args)
        screen, parent = Screen.asked_by(given), super()

        def work() -> object:
            return parent.main(
                given, "pufferflow", complete_var, False, windows_expand_args, **{**extra, "obj": screen}
            )

        sys.exit(ended(screen, work))


def ended(screen: Screen, work: Callable[[], object]) -> int:
    """Return the code with which some work ends, and tell what came of it."""
    try:
        with _words(screen):
            found = work()
        if isinstance(found, Answer):
            screen.answer(found.document, found.exit)
            return found.exit
        if found == STOPPED:
            return failed(screen, KeyboardInterrupt())
        return found if isinstance(found, int) else 0
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of an engine is no Exception, and Ctrl-C is none either
        return failed(screen, error)


@contextmanager
def _words(screen: Screen) -> Generator[None]:
    """Let functions of a job that fail keep their words, if that is asked for."""
    if not screen.traceback:
        yield
        return
    from pufferflow.jobs.functions import TRACEBACK

    before = os.environ.get(TRACEBACK)
    os.environ[TRACEBACK] = "1"
    try:
        yield
    finally:
        os.environ.pop(TRACEBACK)
        if before is not None:
            os.environ[TRACEBACK] = before


def failed(screen: Screen, error: BaseException) -> int:
    """Tell of an error, and return its code."""
    fault = fault_of(error)
    if not isinstance(error, KeyboardInterrupt | typer.Abort) and _quotes(screen, error):
        screen.note("A traceback can quote data: look at it before you pass it on.")
        write(sys.stderr, "".join(traceback.format_exception(error)), end="")
    screen.fail(fault)
    return fault.exit


def _quotes(screen: Screen, error: BaseException) -> bool:
    """Say whether an error is shown with its traceback; that of a mistyped command helps nobody who did not ask."""
    if screen.traceback or hasattr(error, "format_message"):
        return screen.traceback
    from pufferflow.jobs.functions import tracebacks  # not above: help loads little

    return tracebacks()
