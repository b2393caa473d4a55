"""Plain texts are templates of the folder `templates/texts`; here they become lines and phrases.

A printed value stands on one line and moves no cursor, so that no name of a column adds a line of its own.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from pufferflow.core import notebook
from pufferflow.core.errors import escape_controls
from pufferflow.reports.numbers import at_most, counted, fold, percent, plain, total, upwards


def lines(template: str, /, **values: Any) -> tuple[str, ...]:
    """Return the lines that a template prints, without empty ones.

    >>> lines("untried", seconds="2", untried=["GWM()", "GAWM()"])
    ('planning was limited to 2 s: GWM(), GAWM() might need less noise, not tried',)
    """
    printed = environment().get_template(f"texts/{template}.txt").render(values)
    return tuple(line for line in printed.split("\n") if line.strip())


def facts(template: str, /, **values: Any) -> list[tuple[str, str]]:
    """Return the names and values that a template prints, on each line a name, a colon and a value."""
    return [
        (name, value)
        for name, _, value in (line.partition(": ") for line in lines(template, **values))
    ]


def phrase(name: str, /, *values: Any) -> str:
    """Return a phrase, which is a macro of `phrases.txt`.

    >>> phrase("any_way", "household")
    'if the rows of one household depend on each other in any way'
    """
    return str(getattr(environment().get_template("texts/phrases.txt").module, name)(*values))


@cache
def environment() -> Any:
    """Return what fills in templates of texts."""
    return environment_of(autoescape=False, finalize=_printed)


def _printed(given: str) -> str:
    """Return what stands for a printed value; only text can be printed, so that no text says `None`."""
    return escape_controls(given, one_line=True)


def environment_of(*, autoescape: bool, finalize: Callable[[Any], Any], **options: Any) -> Any:
    """Return an environment for the folder `templates`, with filters for numbers."""
    made = notebook.environment_of(
        "pufferflow.reports", autoescape=autoescape, finalize=finalize, **options
    )
    for named in (at_most, counted, fold, percent, plain, repr, total, upwards):
        made.filters[named.__name__] = named
    return made
