"""Names that people give: accounts, data sets and releases."""

from pufferflow.errors import Misuse

_LONGEST = 200


def read_text(given: object, what: str, example: str) -> str:
    """Return a text of 1 to 200 printable characters."""
    allowed = f"a text of 1 to {_LONGEST} printable characters"
    if not isinstance(given, str):
        raise Misuse(f"{what} is of type {type(given).__name__}.", allowed=allowed, instead=example)
    if not 1 <= len(given) <= _LONGEST:
        raise Misuse(f"{what} has {len(given)} characters.", allowed=allowed, instead=example)
    if not given.isprintable() or given.isspace():
        raise Misuse(f"{what} has characters that cannot be printed.", allowed=allowed, instead=example)
    return given
