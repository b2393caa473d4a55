"""The program around all commands: it runs one, tells how it ended, and exits with the code of that.

How commands are made: each is a function of a screen and its own options, and returns what programs are told.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Annotated, Any, Final, NamedTuple, cast, final

import typer
from typer.core import TyperGroup

from pufferflow.cli.errors import STOPPED, fault_of
from pufferflow.cli.output import write
from pufferflow.cli.screen import Screen
from pufferflow.errors import Misuse

_JSON: Final = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, for errors too, and nothing else there.")
]
_TRACEBACK: Final = Annotated[
    bool, typer.Option("--traceback", help="Show where an error came up; a traceback can quote data.")
]


class Answer(NamedTuple):
    """What a program is told, and the code to exit with."""

    document: Mapping[str, Any]
    exit: int = 0


Command = Callable[..., Answer]


def command(app: typer.Typer, name: str, *, example: str) -> Callable[[Command], Command]:
    """Add a command to an app, with the options that all have; its docstring is its help."""

    def add(function: Command) -> Command:
        def run(context: typer.Context, **given: Any) -> Answer:
            del given["json"], given["traceback"]  # the screen has read them, as it must before mistakes are found
            return _called(function, cast(Screen, context.obj), given)

        _sign(run, function)
        app.command(name, help=_reflowed(function.__doc__ or ""), epilog=f"Example:\n\n{example}")(run)
        return function

    return add


def _called(function: Command, screen: Screen, given: Mapping[str, Any]) -> Answer:
    """Call a command; what functions of a job print is no part of a document, and they may not end the program."""
    aside = redirect_stdout(sys.stderr) if screen.json else nullcontext()
    try:
        with aside:
            return function(screen, **given)
    except SystemExit:
        problem = "A function of the job asked for the program to end."
    raise Misuse(problem, allowed="a function that returns, or raises an error", instead="no sys.exit() in it")


def _sign(run: Callable[..., Answer], function: Command) -> None:
    """Give a function the parameters of another, and those that all commands have."""
    own = list(inspect.signature(function).parameters.values())[1:]
    shared = [_parameter("json", _JSON, default=False), _parameter("traceback", _TRACEBACK, default=False)]
    context = _parameter("context", typer.Context)
    parameters = [context, *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *shared]
    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess] - PEP 362
    run.__annotations__ = {one.name: one.annotation for one in parameters}


def _parameter(name: str, annotation: object, default: object = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _reflowed(text: str) -> str:
    """Return paragraphs in one line each: a terminal breaks them where it ends."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


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
    from pufferflow.jobs import TRACEBACK

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
    from pufferflow.jobs import tracebacks  # not above: help loads little

    return tracebacks()
