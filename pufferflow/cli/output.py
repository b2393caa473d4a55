"""Text that is safe on a terminal, plain tables, JSON documents, and streams that may be closed or full."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, TextIO, cast

import msgspec

from pufferflow.core.errors import escape_controls

NONE = "-"


def safe(text: str) -> str:
    r"""Return a `escape_controls` text with blanks for tabs, and `?` for all else that a terminal does not print.

    >>> print(safe("a\x1b[2Jb\tc"))
    a\x1b[2Jb c
    """
    printable = escape_controls(text.replace("\t", " "))
    return "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in printable)


def cell_text(value: object) -> str:
    """Return a value as a cell of a table shows it, in one line.

    >>> cell_text(0.123456), cell_text(None), cell_text(float("inf"))
    ('0.1235', '-', 'inf')
    """
    if value is None or value == "":
        return NONE
    if isinstance(value, float):
        return f"{value:.4g}"
    return " ".join(safe(str(value)).split("\n"))


def lines_of(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a table without colours, each row on one line of any length."""
    cells = [[cell_text(value) for value in row] for row in rows]
    widths = [max(len(row[place]) for row in (columns, *cells)) for place in range(len(columns))]
    right = [is_number(rows, place) for place in range(len(columns))]
    aligned = (zip(row, widths, right, strict=True) for row in (columns, *cells))
    return [
        "  ".join(
            cell.rjust(width) if ahead else cell.ljust(width) for cell, width, ahead in row
        ).rstrip()
        for row in aligned
    ]


def is_number(rows: Sequence[Sequence[object]], place: int) -> bool:
    """Return whether a column has numbers only."""
    values = [row[place] for row in rows if row[place] is not None]
    return bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )


def document(value: Mapping[str, Any]) -> str:
    """Return a value as one line of JSON in ASCII; infinite numbers are null.

    >>> document({"limit": float("inf"), "at": date(2026, 11, 20)})
    '{"limit": null, "at": "2026-11-20"}'
    """
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value).items()
        return {str(key): _finite(inner) for key, inner in pairs}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in cast(Sequence[Any], value)]
    if isinstance(value, msgspec.Struct):
        return _finite(msgspec.to_builtins(value))
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else value


def write(stream: TextIO | None, text: str, end: str = "\n") -> None:
    """Write text as it is; a closed or full stream changes neither the run nor its exit code."""
    if stream is None or stream.closed:
        return
    try:
        stream.write(text + end)
        stream.flush()
    except OSError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that Python's last flush cannot fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()
