"""Pieces of HTML. All text is escaped here, once, where it becomes markup."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import repeat
from typing import final

from pufferflow.core.errors import escape_controls

_NEVER = (*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF)
_CONTROLS = dict.fromkeys(_NEVER, "\N{REPLACEMENT CHARACTER}")
ELLIPSIS = "…"
_LONG = 28
_WIDE = 90


@final
@dataclass(frozen=True)
class Section:
    """A part of a report: `anchor` is its id, `body` is markup."""

    anchor: str
    title: str
    body: str


@final
@dataclass(frozen=True)
class Column:
    """A column of a table: its head, its cells as text, whether these are numbers, and the anchors they link to."""

    head: str
    cells: Sequence[str]
    number: bool = False
    anchors: Sequence[str] = ()


def text(given: str) -> str:
    """Return text as markup: nothing in it is a tag, an entity or a control character.

    >>> text('<b>"&"</b>')
    '&lt;b&gt;&quot;&amp;&quot;&lt;/b&gt;'
    """
    return escape("\t".join(map(escape_controls, given.translate(_CONTROLS).split("\t"))))


def link(given: str, anchor: str) -> str:
    """Return text as a link to an anchor of the report, if there is one.

    >>> link("GWM", "word-gwm"), link("GWM", "")
    ('<a href="#word-gwm">GWM</a>', 'GWM')
    """
    return f'<a href="#{anchor}">{text(given)}</a>' if anchor else text(given)


def shortened(given: str, most: int) -> str:
    r"""Return text on one line that is no longer than `most` characters.

    >>> shortened("a long\nname", 8)
    'a long…'
    """
    line = " ".join(given.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + ELLIPSIS


def paragraph(given: str, kind: str = "") -> str:
    """Return a paragraph of plain text, with a direction of writing of its own."""
    return f'<p dir="auto"{_kind(kind)}>{text(given)}</p>'


def listed(items: Iterable[str]) -> str:
    """Return a list of plain texts; empty for no items."""
    return listed_markup(map(text, items))


def listed_markup(items: Iterable[str]) -> str:
    """Return a list of pieces of markup; empty for no items."""
    rows = "".join(f'<li dir="auto">{item}</li>' for item in items)
    return f"<ul>{rows}</ul>" if rows else ""


def facts(pairs: Iterable[tuple[str, str]], kind: str = "facts") -> str:
    """Return pairs of a name and a value."""
    rows = "".join(
        f'<div{_kind("wide" * (len(value) > _WIDE))}><dt>{text(name)}</dt><dd dir="auto">{text(value)}</dd></div>'
        for name, value in pairs
    )
    return f"<dl{_kind(kind)}>{rows}</dl>"


def table(caption: str, columns: Sequence[Column], *, marked: int | None = None, only: str = "") -> str:
    """Return a table that scrolls by itself and takes the keyboard's focus; the first column names the rows.

    `only` restricts it to a screen or to paper.
    """
    head = "".join(
        f'<th scope="col"{_kind(_shape(column, column.head))} dir="auto">{text(column.head)}</th>' for column in columns
    )
    cells = (map(partial(_cell, column), column.cells, column.anchors or repeat("")) for column in columns)
    rows = zip(*cells, strict=True)
    body = "".join(f"<tr{_kind('marked' * (number == marked))}>{_row(row)}</tr>" for number, row in enumerate(rows))
    name = text("Table: " + shortened(caption, 120))
    return (
        f'<div{_kind(f"scroll {only}".rstrip())} tabindex="0" role="region" aria-label="{name}">'
        f'<p dir="auto">{text(caption)}</p><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: Sequence[tuple[str, str]]) -> str:
    (kind, name), *rest = cells
    named = f'<th scope="row"{kind} dir="auto">{name}</th>'
    return named + "".join(f'<td{kind} dir="auto">{cell}</td>' for kind, cell in rest)


def _cell(column: Column, given: str, anchor: str) -> tuple[str, str]:
    """Return the class of a cell and its markup."""
    return _kind(_shape(column, given)), link(given, anchor)


def _shape(column: Column, cell: str) -> str:
    return "number" if column.number else "long" * (len(cell) > _LONG)


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
