"""Values in notebooks: a card with a title, facts and a table, in light and dark, without scripts.

Every public value inherits `InNotebooks`. Its card has texts only; the template escapes them. jinja2 is loaded with the
first text, page or card.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

from pufferflow.core.errors import escape_controls

MOST_ROWS: Final = 20
"""The number of rows that a card shows of a table."""
_MOST_LETTERS: Final = 2000


@final
@dataclass(frozen=True)
class Card:
    """What a notebook shows for a value: texts alone, from public facts and published numbers.

    `lines` are sentences, `facts` names with values, and `rows` belong under `head`.
    """

    title: str
    lines: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()
    code: str = ""
    of: int = 0
    """The number of rows that there are, where `rows` has only the first of them."""

    @property
    def below(self) -> list[str]:
        """The notes, and before them one on rows that are left out."""
        rows = max(len(self.rows), self.of)
        more = [f"The first {MOST_ROWS} of {rows:,} rows."] if rows > MOST_ROWS else []
        return [*more, *self.notes]

    def html(self) -> str:
        """Return the card as HTML that needs nothing else.

        >>> "a &lt; b" in Card("Sum", facts=[("where", "a < b")]).html()
        True
        """
        rows = self.rows[:MOST_ROWS]
        return str(_environment().get_template("notebook.html").render(card=self, rows=rows))


class InNotebooks:
    """Base of public values: a notebook shows their card.

    >>> class Answer(InNotebooks):
    ...     "An answer."
    ...     def __repr__(self) -> str:
    ...         return "Answer(1 < 2)"
    >>> "<code>Answer(1 &lt; 2)</code>" in Answer()._repr_html_()
    True
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the value as HTML for a notebook."""
        return self._card().html()

    def _card(self) -> Card:
        """Return what a notebook shows; a class with more to show overrides it."""
        return Card(_title(type(self)), lines=[first_line(type(self))], code=repr(self))


def first_line(kind: type) -> str:
    """Return the first sentence of a class's docstring, as plain text.

    >>> first_line(Card)
    'What a notebook shows for a value: texts alone, from public facts and published numbers.'
    """
    paragraph = (inspect.getdoc(kind) or "").partition("\n\n")[0]
    sentence, full_stop, _ = " ".join(paragraph.split()).partition(". ")
    return (sentence + full_stop.strip()).replace("`", "")


def _title(kind: type) -> str:
    return kind.__name__.lstrip("_")


def _printed(given: Any) -> str:
    """Return the text to print: on one line, without control characters, and not too long."""
    text = escape_controls(given, one_line=True)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} …"


def environment_of(
    package: str, *, autoescape: bool, finalize: Callable[[Any], Any], **options: Any
) -> Any:
    """Return an environment for the folder `templates` of a package; a name that is not given is an error.

    `finalize` returns the text for a printed value, before it is escaped.

    >>> environment_of("pufferflow.core", autoescape=True, finalize=str).list_templates()
    ['notebook.css', 'notebook.html']
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        auto_reload=False,  # or each text would look for changes of its templates
        autoescape=autoescape,  # noqa: S701 - a text is no markup, a page is
        finalize=finalize,
        keep_trailing_newline=True,
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        **options,
    )


@cache
def _environment() -> Any:
    return environment_of(
        "pufferflow.core",
        autoescape=True,
        finalize=_printed,
        lstrip_blocks=True,
        trim_blocks=True,
    )
