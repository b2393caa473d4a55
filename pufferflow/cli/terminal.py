"""Tables and texts on a terminal, drawn with rich: never wider than it, nothing cut off, no markup read from names."""

import io
import os
import shutil
from collections.abc import Sequence
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from pufferflow.cli.output import cell_text, is_number, safe, write

_LEAST = 14
"""A column of text may be folded to this width."""
_BETWEEN = 2


def draw_text(stream: TextIO | None, text: str, style: str = "") -> None:
    """Show a text, broken between words."""
    _draw(stream, Text(safe(text), style=style))


def draw_table(stream: TextIO | None, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Show a table; where a terminal is too narrow for it, each row as a list of its cells."""
    cells = [[cell_text(value) for value in row] for row in rows]
    numbers = [is_number(rows, place) for place in range(len(columns))]
    if _least_width(columns, cells, numbers) > _width():
        for row in cells:
            draw_facts(stream, list(zip(columns, row, strict=True)))
            _draw(stream, Text(""))
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name, number in zip(columns, numbers, strict=True):
        table.add_column(Text(name), justify="right" if number else "left", overflow="fold", no_wrap=number)
    for row in cells:
        table.add_row(*map(Text, row))
    _draw(stream, table)


def draw_facts(stream: TextIO | None, pairs: Sequence[tuple[str, object]]) -> None:
    """Show names and values, a line each or as many as a value needs."""
    table = Table.grid(padding=(0, _BETWEEN, 0, 0))
    table.add_column(overflow="fold", no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), Text(safe(str(value))))
    _draw(stream, table)


def _least_width(columns: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool]) -> int:
    total = 0
    for place, name in enumerate(columns):
        widest = max((cell_len(row[place]) for row in cells), default=0)
        total += max(cell_len(name), widest if numbers[place] else min(widest, _LEAST)) + _BETWEEN
    return total


def _draw(stream: TextIO | None, thing: RenderableType) -> None:
    """Draw into memory first: a reader that has gone away must not end the program, as rich would."""
    if stream is not None:
        write(stream, rendered(thing, _width(), stream.encoding), end="")


def rendered(thing: RenderableType, width: int, encoding: str | None) -> str:
    """Return what a terminal of this width is sent; without colours where nobody wants or understands them."""
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in {"dumb", "unknown"}
    page = io.TextIOWrapper(io.BytesIO(), encoding=encoding or "ascii", errors="replace", newline="")
    console = Console(
        file=page,
        width=width,
        force_terminal=colours,
        no_color=not colours,
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(thing)
    page.flush()
    page.seek(0)
    return page.read()


def _width() -> int:
    return max(20, shutil.get_terminal_size((80, 24)).columns)
