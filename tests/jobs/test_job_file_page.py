"""The page about `job.toml` has every key of the schema, with its type and default, and no other."""

import re
from pathlib import Path

import pytest

from pufferflow.jobs.file import schema

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "job-file.md").read_text(
    encoding="utf-8"
)
DEFINITIONS = schema()["$defs"]
TABLES = dict(re.findall(r"<!-- keys=\"(\w+)\" -->\n\n((?:\|.*\n)+)", PAGE))
TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "object": "table",
    "array": "list of texts",
}


def rows_of(table):
    """Return the key, the type and the default in each row of a table of the page."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return {row[0].strip("`"): (row[1], row[2]) for row in rows[2:]}


def type_of(given):
    """Return the words of the page for a type of the schema."""
    if "anyOf" in given:
        kinds = [type_of(one) for one in given["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in given:
        return ", ".join(f'`"{value}"`' for value in given["enum"])
    if "const" in given:
        return f'`"{given["const"]}"`'
    return TYPES[given.get("type", "object")]


def default_of(name, given, definition):
    """Return the words of the page for the default of a key."""
    if name in definition["required"]:
        return "required"
    default = given.get("default")
    if default is None or isinstance(default, dict):
        return "–"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


def test_the_page_has_a_table_for_each_part_of_the_file():
    """Nothing that a file may have is left out."""
    assert set(TABLES) == set(DEFINITIONS)


@pytest.mark.parametrize("part", DEFINITIONS)
def test_keys_types_and_defaults_are_those_of_the_schema(part):
    """A key that is added, removed or changed fails here."""
    definition = DEFINITIONS[part]
    assert rows_of(TABLES[part]) == {
        name: (type_of(given), default_of(name, given, definition))
        for name, given in definition["properties"].items()
    }
