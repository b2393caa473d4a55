"""Writing to a stream that may lead nowhere: closed from the start, left by its reader, or on a disk that is full."""

import os
from contextlib import suppress
from typing import TextIO


def write(stream: TextIO | None, text: str, end: str = "\n") -> None:
    """Write text as it is; that nobody can read it is no reason to stop, nor to exit otherwise."""
    if stream is None or stream.closed:
        return
    try:
        stream.write(text + end)
        stream.flush()
    except OSError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Let a stream lead nowhere, so that closing it at the end does not fail once more."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def is_terminal(stream: TextIO | None) -> bool:
    """Say whether a person looks at a stream."""
    return stream is not None and not stream.closed and stream.isatty()
