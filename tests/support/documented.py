"""What the reference page of commands and the README say, in parts that tests compare with the program."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
_SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
SECTIONS = {text.partition("\n")[0]: text for text in _SECTIONS if "Keys: " in text}
"""The section of each command."""


def _names(text):
    return re.findall(r"`([a-z_0-9]+)`", text)


KEYS = {name: _names(re.search(r"Keys: ([^.;]*)[.;]", text)[1]) for name, text in SECTIONS.items()}
"""The keys of each command's document, but for `exit`."""
PARTS = {
    (name, part): _names(keys)
    for name, text in SECTIONS.items()
    for part, keys in re.findall(
        r"`(\w+)`(?:, whose entries)? (?:has|have)\s((?:`\w+`[,;\s]*)+)",
        text.partition("Keys: ")[2],
    )
}
"""The keys of the parts that documents have several of."""
TABLE = {
    int(code): meaning
    for code, meaning in re.findall(r"^\| (\d+) \| ([^|]*?) \|", PAGE, re.MULTILINE)
}
"""The table of exit codes."""


def commands(text):
    """Return the commands in the blocks of a page."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("pufferflow ")]
