"""The page that goes through the four papers item by item names what is there."""

import ast
import functools
import re
from collections import Counter

import pytest
from page_blocks import ROOT

import pufferflow as pf

PAGE = (ROOT / "docs" / "evidence" / "papers-item-by-item.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.split("\n")
    if re.match(r"\| [RDTG]\d+ \|", line)
]
ITEMS = {"R": 68, "D": 39, "T": 38, "G": 44}
VERDICTS = {"works", "corrected", "partly", "missing", "nothing to check"}


@functools.cache
def functions_of(file):
    """Return the names of the functions of a file of tests."""
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_item_has_its_row():
    """The 189 items follow one another, each with five cells and a verdict."""
    expected = [f"{letter}{i}" for letter, n in ITEMS.items() for i in range(1, n + 1)]
    assert [row[0] for row in ROWS] == expected
    assert {len(row) for row in ROWS} == {5}
    assert {row[4] for row in ROWS} <= VERDICTS


def test_the_page_counts_its_verdicts():
    """The table at the top has the numbers of the rows below."""
    counted = Counter(row[4] for row in ROWS)
    for verdict in VERDICTS:
        assert f"| {verdict} | {counted[verdict]} |" in PAGE
    assert f"| together | {len(ROWS)} |" in PAGE


def test_every_named_test_exists():
    """What is checked is a function of that name in that file; what works or is corrected has one."""
    missing = []
    for number, _, _, checked, verdict in ROWS:
        tests = re.findall(r"`([\w/]+\.py)::(\w+)`", checked)
        assert checked == "–" or len(tests) == checked.count("::"), number
        assert tests or verdict not in {"works", "corrected"}, number
        missing += [
            (number, file, name)
            for file, name in tests
            if not (ROOT / "tests" / file).exists() or name not in functions_of(file)
        ]
    assert missing == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_public_name_exists(row):
    """A name `pf.X.y` is an attribute, or a field, of what the library offers."""
    for name in re.findall(r"`pf\.([\w.]+)`", row[2]):
        found = pf
        for part in name.split("."):
            fields = getattr(found, "__annotations__", {})
            assert hasattr(found, part) or part in fields, name
            found = getattr(found, part, None)
