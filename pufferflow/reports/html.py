"""Pages, sections and blocks are templates of the folder `templates`; here they become markup.

A template prints text, which is escaped as it is printed. Markup comes from templates and the figures' canvas only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, final

from pufferflow.core.errors import escape_controls
from pufferflow.reports.text import environment_of

_NEVER = (
    *range(9),
    11,
    12,
    *range(14, 32),
    *range(127, 160),
    *range(0xD800, 0xE000),
    0xFFFE,
    0xFFFF,
)
_CONTROLS = dict.fromkeys(_NEVER, "\N{REPLACEMENT CHARACTER}")
ELLIPSIS = "…"


@final
@dataclass(frozen=True)
class Section:
    """A part of a report: `anchor` is its id, `body` is markup; without a body it is left out."""

    anchor: str
    title: str
    body: str


@final
@dataclass(frozen=True)
class Group:
    """The sections of a report for one reader, under a heading of their own."""

    anchor: str
    title: str
    about: str
    parts: Sequence[Section]

    @property
    def kept(self) -> "Group":
        """The same group without empty sections."""
        return replace(self, parts=[part for part in self.parts if part.body.strip()])


def values_of(template: str, /, **values: Any) -> Any:
    """Return what a template sets, by name; as markup it is what the template prints."""
    return environment().get_template(template).make_module(values)


def section(name: str, anchor: str = "", /, **values: Any) -> Section:
    """Return the section of a template, which says its title; by default its anchor is the template's name."""
    made = values_of(f"sections/{name}.html", **values)
    return Section(anchor or name, made.title, made.__html__())


def rendered(template: str, /, **values: Any) -> str:
    """Return a template filled in, as text for a file: where it is printed, it is escaped."""
    return str(values_of(template, **values))


def said(what: str, /, *values: Any) -> str:
    """Return what is said of a figure, as markup."""
    return getattr(values_of("figures.html"), what)(*values)


def visible(given: str) -> str:
    r"""Return text without control characters; only text can be printed, so that no page says `None`.

    >>> print(visible("a\ttab, \x00, \u202eright to left"))
    a	tab, �, \u202eright to left
    """
    return "\t".join(map(escape_controls, given.translate(_CONTROLS).split("\t")))


def shortened(given: str, most: int) -> str:
    r"""Return text on one line that is no longer than `most` characters.

    >>> shortened("a long\nname", 8)
    'a long…'
    """
    line = " ".join(given.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + ELLIPSIS


def as_sentence(given: str) -> str:
    """Return a remark as a sentence.

    >>> as_sentence("by movement alone")
    'By movement alone.'
    """
    return f"{given[:1].upper()}{given[1:].rstrip('.')}."


def _printed(given: Any) -> Any:
    """Return what stands for a printed value: markup is left as it is."""
    return given if hasattr(given, "__html__") else visible(given)


@cache
def environment() -> Any:
    """Return what fills in templates of pages."""
    made = environment_of(
        autoescape=True,
        finalize=_printed,
        lstrip_blocks=True,
        trim_blocks=True,
    )
    for named in (as_sentence, shortened):
        made.filters[named.__name__] = named
    return made
