"""Run a command, print its answer or its error, and exit with its code.

A command is a function of a screen and its own options, which returns the document for programs.
"""

import inspect
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Annotated, Any, Final, NamedTuple, cast, final

import typer
from typer.core import TyperGroup

from pufferflow.cli.errors import STOPPED, fault_of
from pufferflow.cli.output import write
from pufferflow.cli.screen import Screen
from pufferflow.core.errors import UsageError, UtilityWarning

_JSON: Final = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document on stdout, for errors too, and nothing else there."
    ),
]
_VERBOSE: Final = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Log each step on stderr. Retries and waits are always logged."
    ),
]
_TRACEBACK: Final = Annotated[
    bool, typer.Option("--traceback", help="Show the traceback of an error, which can quote data.")
]


class Answer(NamedTuple):
    """The document for programs, and the exit code."""

    document: Mapping[str, Any]
    exit: int = 0


Command = Callable[..., Answer]


def command(app: typer.Typer, name: str, *, example: str) -> Callable[[Command], Command]:
    """Add a command to an app, with the options of all commands; its docstring is its help."""

    def add(function: Command) -> Command:
        def run(context: typer.Context, **given: Any) -> Answer:
            del (
                given["json"],
                given["traceback"],
                given["verbose"],
            )  # the screen has read them already, for errors in the arguments
            return _call(function, cast(Screen, context.obj), given)

        _sign(run, function)
        app.command(name, help=_reflow(function.__doc__ or ""), epilog=f"Example:\n\n{example}")(
            run
        )
        return function

    return add


def _call(function: Command, screen: Screen, given: Mapping[str, Any]) -> Answer:
    """Call a command; what functions of a job print goes to stderr beside a document, and SystemExit is an error."""
    aside = redirect_stdout(sys.stderr) if screen.json else nullcontext()
    try:
        with aside:
            return function(screen, **given)
    except SystemExit:
        problem = "A function of the job ended the program."
    raise UsageError(
        problem,
        allowed="a function that returns, or raises an error",
        instead="no sys.exit() in it",
    )


def _sign(run: Callable[..., Answer], function: Command) -> None:
    """Give a function the parameters of another, and those of all commands."""
    own = list(inspect.signature(function).parameters.values())[1:]
    options = {"json": _JSON, "verbose": _VERBOSE, "traceback": _TRACEBACK}
    shared = [_parameter(name, option, default=False) for name, option in options.items()]
    context = _parameter("context", typer.Context)
    parameters = [
        context,
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        *shared,
    ]
    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess] - PEP 362
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _parameter(
    name: str, annotation: object, default: object = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def _reflow(text: str) -> str:
    """Return paragraphs in one line each, which the terminal wraps."""
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
        given = list(sys.argv[1:] if args is None else args)
        screen, parent = Screen.of(given), super()

        def work() -> object:
            return parent.main(
                given,
                "pufferflow",
                complete_var,
                False,
                windows_expand_args,
                **{**extra, "obj": screen},
            )

        sys.exit(run_to_end(screen, work))


def run_to_end(screen: Screen, work: Callable[[], object]) -> int:
    """Run a command, print its document or its error, and return the exit code."""
    try:
        with _with_words(screen), _with_log(screen), _with_warnings(screen):
            result = work()
        if isinstance(result, Answer):
            screen.answer(result.document, result.exit)
            return result.exit
        if result == STOPPED:
            return report_error(screen, KeyboardInterrupt())
        return result if isinstance(result, int) else 0
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - neither a panic of an engine nor Ctrl-C is an Exception
        return report_error(screen, error)


@contextmanager
def _with_warnings(screen: Screen) -> Generator[None]:
    """Print warnings of useless numbers without the place in the program."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, UtilityWarning):
                screen.note(f"Warning: {message}")
            else:
                show(message, category, *where, **more)

        warnings.showwarning = say
        yield


@contextmanager
def _with_words(screen: Screen) -> Generator[None]:
    """Show the messages of errors in the job's functions, with `--traceback`."""
    if not screen.traceback:
        yield
        return
    from pufferflow.jobs.sources import TRACEBACK

    before = os.environ.get(TRACEBACK)
    os.environ[TRACEBACK] = "1"
    try:
        yield
    finally:
        os.environ.pop(TRACEBACK)
        if before is not None:
            os.environ[TRACEBACK] = before


@contextmanager
def _with_log(screen: Screen) -> Generator[None]:
    """Print the log on stderr: retries and waits, and with `--verbose` each step."""
    logger, handler = logging.getLogger("pufferflow"), _LogLines(screen)
    before = logger.level
    logger.setLevel(logging.INFO if screen.verbose else logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@final
class _LogLines(logging.Handler):
    """The log of a command, as notes."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.note(record.getMessage())


def report_error(screen: Screen, error: BaseException) -> int:
    """Print an error, and return its exit code."""
    fault = fault_of(error)
    if not isinstance(error, KeyboardInterrupt | typer.Abort) and _shows_traceback(screen, error):
        screen.note("A traceback can quote data: read it before you share it.")
        write(sys.stderr, "".join(traceback.format_exception(error)), end="")
    screen.fail(fault)
    return fault.exit


def _shows_traceback(screen: Screen, error: BaseException) -> bool:
    """Return whether an error is shown with its traceback; that of a mistyped command only on request."""
    if screen.traceback or hasattr(error, "format_message"):
        return screen.traceback
    from pufferflow.jobs.sources import tracebacks  # not above: help loads few modules

    return tracebacks()
