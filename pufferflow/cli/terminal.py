"""Draw tables and texts on a terminal with rich: within its width, nothing cut off, no markup read from names."""

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
"""The least width to which a column of text is folded."""
_BETWEEN = 2


def draw_text(stream: TextIO | None, text: str, style: str = "") -> None:
    """Draw a text, wrapped between words."""
    _draw(stream, Text(safe(text), style=style))


def draw_table(
    stream: TextIO | None, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """Draw a table; on a terminal too narrow for it, each row as a list of its cells."""
    cells = [[cell_text(value) for value in row] for row in rows]
    numbers = [is_number(rows, place) for place in range(len(columns))]
    if _least_width(columns, cells, numbers) > _width():
        for row in cells:
            draw_facts(stream, list(zip(columns, row, strict=True)))
            _draw(stream, Text(""))
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name, number in zip(columns, numbers, strict=True):
        table.add_column(
            Text(name), justify="right" if number else "left", overflow="fold", no_wrap=number
        )
    for row in cells:
        table.add_row(*map(Text, row))
    _draw(stream, table)


def draw_facts(stream: TextIO | None, pairs: Sequence[tuple[str, object]]) -> None:
    """Draw names and values, folded where a value is long."""
    table = Table.grid(padding=(0, _BETWEEN, 0, 0))
    table.add_column(overflow="fold", no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), Text(safe(str(value))))
    _draw(stream, table)


def _least_width(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool]
) -> int:
    total = 0
    for place, name in enumerate(columns):
        widest = max((cell_len(row[place]) for row in cells), default=0)
        total += max(cell_len(name), widest if numbers[place] else min(widest, _LEAST)) + _BETWEEN
    return total


def _draw(stream: TextIO | None, thing: RenderableType) -> None:
    """Draw into memory first: rich would end the program if a reader has closed the pipe."""
    if stream is not None:
        write(stream, rendered(thing, _width(), stream.encoding), end="")


def rendered(thing: RenderableType, width: int, encoding: str | None) -> str:
    """Return the output for a terminal of this width, without colours by NO_COLOR or a plain TERM."""
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in {"dumb", "unknown"}
    page = io.TextIOWrapper(
        io.BytesIO(), encoding=encoding or "ascii", errors="replace", newline=""
    )
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
