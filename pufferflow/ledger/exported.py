"""A ledger as lines of JSON, for people and other programs."""

import os
import tempfile
from pathlib import Path
from typing import Final

from pufferflow.errors import Misuse
from pufferflow.ledger.line import Line
from pufferflow.ledger.tables import NEWS

_AT_ONCE: Final = 10_000


def export(line: Line, place: Path) -> None:
    """Write the log, an event a line with its hash; the file appears whole or not at all.

    A hash is sha256 of the hash in the line before (64 zeros before the first) and the bytes of `event`.
    """
    problem = ""
    try:
        _written(line, place)
    except OSError as error:
        problem = type(error).__name__
    if problem:
        raise Misuse(
            f"Nothing can be written to {str(place)[:200]!r}: {problem}.",
            allowed="a place that exists and may be written to",
            instead="another file",
        )


def _written(line: Line, place: Path) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:50]}-")
    try:
        with os.fdopen(handle, "wb") as file:
            rows = line.run(NEWS, known=0)
            while batch := rows.fetchmany(_AT_ONCE):
                file.writelines(f'{{"event":{body},"hash":"{digest}"}}\n'.encode() for _, body, digest in batch)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(place)
    finally:
        Path(name).unlink(missing_ok=True)
