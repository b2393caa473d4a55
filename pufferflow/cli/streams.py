"""Writing to a stream that may lead nowhere: closed from the start, or left by its reader."""

import os
from typing import TextIO


def write(stream: TextIO | None, text: str, end: str = "\n") -> None:
    """Write text as it is; nobody may be there to read it."""
    if stream is None or stream.closed:
        return
    try:
        stream.write(text + end)
        stream.flush()
    except BrokenPipeError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """Let a stream lead nowhere, so that closing it at the end does not fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def is_terminal(stream: TextIO | None) -> bool:
    """Say whether a person looks at a stream."""
    return stream is not None and not stream.closed and stream.isatty()
