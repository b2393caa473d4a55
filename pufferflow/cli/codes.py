"""With which code a command exits: one table, which the help and the documentation show."""

from typing import Final

from pufferflow.errors import (
    InternalError,
    LedgerFault,
    LimitReached,
    Misuse,
    Refused,
    SinkFailed,
    SourceFailed,
)

BUG: Final = 1
MISUSE: Final = 2
REFUSED: Final = 3
STOPPED: Final = 130

EXITS: Final[dict[type[BaseException], int]] = {
    InternalError: BUG,
    Misuse: MISUSE,
    Refused: REFUSED,
    LimitReached: 4,
    SourceFailed: 5,
    LedgerFault: 6,
    SinkFailed: 7,
    KeyboardInterrupt: STOPPED,
}
"""The code of each kind of error; whatever is none of these is a bug of ours."""

MEANINGS: Final[dict[int, str]] = {
    0: "done",
    BUG: "a bug of ours, or the machine ran out of something",
    MISUSE: "an argument, a file or a setting is not as it has to be",
    REFUSED: "there is no such promise, or an audit broke one",
    4: "the release would pass the limit of its account",
    5: "data could not be read; nothing was released",
    6: "the ledger could not be read, written or verified",
    7: "released, but not written where it should go",
    STOPPED: "stopped by Ctrl-C",
}
"""What each code says to whoever reads it."""


def exit_code(error: BaseException) -> int:
    """Return the code of an error.

    >>> exit_code(LimitReached("…")), exit_code(ZeroDivisionError())
    (4, 1)
    """
    return next((EXITS[kind] for kind in type(error).__mro__ if kind in EXITS), BUG)


def table() -> str:
    """Return the codes and their meanings, a line each."""
    return "\n".join(f"{code:>5}  {meaning}" for code, meaning in MEANINGS.items())
