"""Names that people give: accounts, data sets and releases."""

import unicodedata

from pufferflow.errors import Misuse

_LONGEST = 200


def read_text(given: object, what: str, example: str) -> str:
    """Return a text of 1 to 200 printable characters without outer blanks, so that what looks alike is one (NFC)."""
    allowed = f"a text of 1 to {_LONGEST} printable characters, with no blank at its ends"
    if not isinstance(given, str):
        raise Misuse(f"{what} is of type {type(given).__name__}.", allowed=allowed, instead=example)
    if not 1 <= len(given) <= _LONGEST:
        raise Misuse(f"{what} has {len(given)} characters.", allowed=allowed, instead=example)
    if not given.isprintable():
        raise Misuse(f"{what} has characters that cannot be printed.", allowed=allowed, instead=example)
    if given != given.strip():
        raise Misuse(f"{what} has blanks at its ends.", allowed=allowed, instead=example)
    return unicodedata.normalize("NFC", given)


def read_flag(given: object, what: str) -> bool:
    """Return True or False; a text that says no would count as yes."""
    if not isinstance(given, bool):
        raise Misuse(f"{what} is of type {type(given).__name__}.", allowed="True or False", instead=f"{what}=True")
    return given


def not_sent(what: str, instead: str) -> Misuse:
    """Return the error of what is pickled or copied and holds connections."""
    return Misuse(
        f"{what} cannot be pickled or copied.",
        allowed="a ledger opened in each process, or before it is forked off",
        instead=instead,
    )
