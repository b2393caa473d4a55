"""The index of errors lists texts that the library has."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
LISTED = re.findall(
    r"^\| `(.+?)` \| [^|]+ \| [^|]+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)
LISTED = [text for text in LISTED if not text.startswith("pf.")]
LEFT_OUT = "\0"
"""Stands for a value in a text of the library."""


@cache
def texts():
    """Return all texts of the library, one a line."""
    files = [*(ROOT / "pufferflow").rglob("*.py"), *(ROOT / "connectors").rglob("*.py")]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    return "\n".join(text for tree in trees for text in map(text_of, ast.walk(tree)) if text)


def text_of(node):
    """Return the text of a string, with a sign for each value in it."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else LEFT_OUT for part in node.values]
        return "".join(parts)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def is_there(listed):
    """Say whether the library has a text; what the page leaves out may be anything."""
    parts = [re.escape(part.strip()) for part in listed.split("…")]
    return re.search(r"[^\n]*".join(parts), texts()) is not None


def test_the_index_is_long_enough_to_be_one():
    """The table is read as it is written: a row that is not found here is not checked either."""
    assert len(LISTED) >= 35
    assert len(set(LISTED)) == len(LISTED)


def test_each_listed_text_is_one_of_the_library():
    """Whoever changes the words of an error changes them in the index, too."""
    assert [listed for listed in LISTED if not is_there(listed)] == []


def test_a_text_that_the_library_does_not_have_is_found_out():
    """Neither other words nor another order of words pass."""
    assert not is_there("The batch has … no query at all.")
    assert not is_there("belongs to another plan. … The id")
