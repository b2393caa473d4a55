"""Which tests reach the function of each planted bug: one run of a suite, with a probe in every such function.

A probe writes the name of the bug and of the running test into a file. Processes that a test starts inherit its name.
Bugs that stand outside of functions are reached by every test.
"""

import ast
import collections
import json
from pathlib import Path

from tests.mutants.catalogue import Mutant

PROBE = "__import__('mutant_probe').reached({names!r})"
SOURCE = """
import os

_seen = set()

def reached(names):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if (test, names) not in _seen:
        _seen.add((test, names))
        with open(os.environ["REACHED"], "a", encoding="utf-8") as file:
            file.write(f"{names}\\t{test}\\n")
"""


def plant_probes(mutants: list[Mutant], folder: Path) -> list[str]:
    """Write the probes into a copy of the tree, and return the names of the bugs that have none."""
    (folder / "mutant_probe.py").write_text(SOURCE, encoding="utf-8")
    files: dict[str, list[Mutant]] = collections.defaultdict(list)
    for mutant in mutants:
        files[mutant.file].append(mutant)
    without: list[str] = []
    for file, inside in files.items():
        probed, outside = with_probes(inside[0].source(), inside)
        (folder / file).write_text(probed, encoding="utf-8")
        without += outside
    return without


def with_probes(source: str, mutants: list[Mutant]) -> tuple[str, list[str]]:
    """Return a source with a probe at the start of each function with a bug, and the bugs outside of functions."""
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    at: dict[int, list[str]] = collections.defaultdict(list)
    outside: list[str] = []
    for mutant in mutants:
        line = (
            source[: source.index(mutant.old) + len(mutant.old) - len(mutant.old.lstrip())].count(
                "\n"
            )
            + 1
        )
        around = [
            node for node in functions if node.body[0].lineno <= line <= (node.end_lineno or 0)
        ]
        if around:
            at[first_line(max(around, key=lambda node: node.lineno))].append(mutant.name)
        else:
            outside.append(mutant.name)
    lines = source.split("\n")
    for number, names in sorted(at.items(), reverse=True):
        indent = lines[number - 1][: len(lines[number - 1]) - len(lines[number - 1].lstrip())]
        lines.insert(number - 1, indent + PROBE.format(names=" ".join(names)))
    return "\n".join(lines), outside


def first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line of the first statement behind the docstring; a docstring alone is one itself."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = function.body[1] if documented and len(function.body) > 1 else first
    return min([body.lineno, *(one.lineno for one in getattr(body, "decorator_list", []))])


def read_reached(file: Path, seconds: Path) -> dict[str, list[str]]:
    """Return the tests that reach each bug, the quickest first."""
    took: dict[str, float] = collections.defaultdict(float)
    for line in seconds.read_text(encoding="utf-8").splitlines():
        name, duration = json.loads(line)
        took[name] += duration
    found: dict[str, set[str]] = collections.defaultdict(set)
    for line in file.read_text(encoding="utf-8").splitlines():
        names, _, test = line.partition("\t")
        for name in names.split():
            if test in took:
                found[name].add(test)
    return {name: sorted(tests, key=lambda test: took[test]) for name, tests in found.items()}
