"""How commands are made: each is a function of a screen and its own options, and returns what programs are told."""

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout
from typing import Annotated, Any, Final, NamedTuple, cast

import typer

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
