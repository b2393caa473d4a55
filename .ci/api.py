"""Write the summary tables of the API pages in `docs/reference/api` from the docstrings of the names that they list.

Each page has lines `::: pufferflow.NAME`. Between its two marks stand a table of these names and one of the members of
each class, with those that it inherits if `inherited_members: [...]` below the name lists them.

Run as `python .ci/api.py`; with `--check` it exits with 1 if a page has other tables than it would write.
"""

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pufferflow as pf

PAGES = Path(__file__).parents[1] / "docs" / "reference" / "api"
START, END = "<!-- names: written by .ci/api.py -->", "<!-- end of names -->"
LISTED = re.compile(r"^::: (?P<name>\S+)$(?P<options>(?:\n {4}.*)*)", re.MULTILINE)
INHERITED = re.compile(r"inherited_members: \[([^\]]*)\]")


def main() -> int:
    """Write all pages, or compare them, and return whether one differs."""
    differ = 0
    for page in sorted(PAGES.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = with_tables(old)
        if new == old:
            continue
        differ += 1
        if "--check" in sys.argv:
            print(f"{page.name}: its tables are not those of the docstrings; run python .ci/api.py")
        else:
            page.write_text(new, encoding="utf-8")
    return int("--check" in sys.argv and bool(differ))


def with_tables(text: str) -> str:
    """Return a page with its tables as the docstrings have them; a page without marks as it is."""
    if START not in text:
        return text
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{tables(listed(after))}\n{END}{after}"


def listed(text: str) -> dict[str, list[str]]:
    """Return the names that a page lists, in their order, and which inherited members it lists of each."""
    return {
        entry["name"]: re.findall(r"\w+", inherited[1])
        if (inherited := INHERITED.search(entry["options"]))
        else []
        for entry in LISTED.finditer(text)
    }


def tables(names: dict[str, list[str]]) -> str:
    """Return the table of names, and a table for each class that has members."""
    lines = ["| name | what it is |", "| --- | --- |"]
    lines += [*(row(public(name), name, found(name)) for name in names), ""]
    for name, inherited in names.items():
        value = found(name)
        members = [*members_of(value), *((own, getattr(value, own)) for own in inherited)]
        if members:
            lines += [f"Of `{public(name)}`:", "", "| member | what it is |", "| --- | --- |"]
            lines += [row(member, f"{name}.{member}", value) for member, value in members]
            lines += [""]
    return "\n".join(lines)


def row(shown: str, target: str, value: Any) -> str:
    """Return the row of a name, with a link to its entry below."""
    return f"| [`{shown}`][{target}] | {summary(value)} |"


def summary(value: Any) -> str:
    """Return the first sentence or paragraph of a docstring in one line."""
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return text.replace("|", "\\|")


def members_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class defines and describes itself, in the order of the source."""
    if not isinstance(value, type) or issubclass(value, Exception):
        return
    kinds = (property, functools.cached_property, classmethod, staticmethod)
    for name, member in vars(value).items():
        shown = isinstance(member, kinds) or inspect.isfunction(member)
        if shown and not name.startswith("_") and member.__doc__:
            yield name, member


def found(name: str) -> Any:
    """Return what a dotted name stands for: what its module defines, in a module with the same name too."""
    parent, _, own = name.rpartition(".")
    if not parent:
        return importlib.import_module(own)
    try:
        return getattr(importlib.import_module(parent), own)
    except ModuleNotFoundError:
        return getattr(found(parent), own)


def public(name: str) -> str:
    """Return the name by which users reach what a dotted name stands for."""
    *modules, own = name.split(".")
    short = modules[1:2] if len(modules) > 1 else []
    shown = ".".join(["pf", *short, own])
    value: Any = pf
    for part in shown.split(".")[1:]:
        value = getattr(value, part, None)
    return shown if value is found(name) else name


if __name__ == "__main__":
    sys.exit(main())
