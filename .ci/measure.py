"""Measure the source: `measure.py [FOLDER …]`, each folder a package; without one, this project with its connectors.

With `--check` the measurements are compared with `size.toml`: none may rise without its new value there, and a reason.

Lines and files; tokens a line of code; code lines a function; the share of private functions, and how many of these are
named in one place only; packages and modules at the top, the imports between them, and how many levels these go down.
"""

import ast
import collections
import io
import json
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, quantiles

ROOT = Path(__file__).parents[1]
LIMITS = Path(__file__).with_name("size.toml")
NEAR = 0.97
OWN = (ROOT / "pufferflow", ROOT / "connectors" / "pufferflow_connectors")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Print the measurements of each folder, or what has risen."""
    if sys.argv[1:] == ["--check"]:
        problems = list(
            risen(measured(list(OWN)), tomllib.loads(LIMITS.read_text(encoding="utf-8")))
        )
        print("\n".join(problems), end="\n" * bool(problems))
        return int(bool(problems))
    for folders in [[Path(name)] for name in sys.argv[1:]] or [list(OWN)]:
        print(folders[0].name, json.dumps(measured(folders), indent=2))
    return 0


def risen(found: dict[str, float], limits: dict[str, dict[str, float]]) -> Iterator[str]:
    """Yield a line for every measurement above its limit, and for every limit that nothing comes near any more."""
    for name, limit in limits.items():
        if found[name] > limit["most"]:
            yield f"{name}: {found[name]}, at most {limit['most']}: make it smaller, or raise it and say why"
        elif found[name] < limit["most"] * NEAR:
            yield f"{name}: {found[name]}, far below {limit['most']}: lower it in .ci/size.toml"


def measured(folders: list[Path]) -> dict[str, float]:
    """Return the measurements of some folders together; imports are those within the first."""
    sources = {
        path: path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
    }
    trees = {path: ast.parse(source) for path, source in sources.items()}
    code = [code_of(source, trees[path]) for path, source in sources.items()]
    lines = sum(source.count("\n") for source in sources.values())
    functions = [
        node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, Function)
    ]
    sizes = [size for path, tree in trees.items() for size in function_sizes(tree, sources[path])]
    private = [
        node.name
        for node in functions
        if node.name.startswith("_") and not node.name.endswith("__")
    ]
    named = collections.Counter(name for tree in trees.values() for name in names_in(tree))
    imports = imports_within(folders[0], trees)
    return {
        "files": len(sources),
        "lines": lines,
        "lines a file": round(lines / len(sources)),
        "tokens a line of code": round(sum(map(sum, code)) / sum(map(len, code)), 2),
        "functions": len(functions),
        "code lines a function": round(mean(sizes), 1),
        "code lines a function, 95 of 100": quantiles(sizes, n=100)[94],
        "code lines of the longest function": max(sizes),
        "private functions, in 100": round(100 * len(private) / len(functions), 1),
        "private functions named once": sum(named[name] == 1 for name in private),
        "packages and modules": len(imports),
        "imports between them": sum(map(len, imports.values())),
        "levels of imports": levels(imports),
    }


def code_of(source: str, tree: ast.Module) -> list[int]:
    """Return the number of tokens of every line of code; docstrings and comments are none."""
    texts = docstring_lines(tree)
    count = collections.Counter[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE and token.start[0] not in texts:
            count[token.start[0]] += 1
    return list(count.values())


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines of all texts that stand alone: docstrings, and those behind fields."""
    alone = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    texts = [node for node in alone if isinstance(node.value, str)]
    return {
        line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def function_sizes(tree: ast.Module, source: str) -> Iterator[int]:
    """Yield the number of code lines of every function, its head included."""
    texts, lines = docstring_lines(tree), source.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, Function):
            inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            code = [line for line in inside if line not in texts and lines[line - 1].strip()]
            yield sum(not lines[line - 1].lstrip().startswith("#") for line in code)


def names_in(tree: ast.AST) -> Iterator[str]:
    """Yield every name that is used, once for each use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def imports_within(folder: Path, trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """Return what each package or module at the top of a folder imports of the others when it is loaded."""
    tops = {
        path.stem
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    tops -= {"__init__", "__main__"}
    found: dict[str, set[str]] = {top: set() for top in tops}
    for path, tree in trees.items():
        if (
            path.is_relative_to(folder)
            and (own := path.relative_to(folder).parts[0].removesuffix(".py")) in tops
        ):
            found[own] |= {
                name for name in imported(tree, folder.name, path) if name in tops and name != own
            }
    return found


def imported(tree: ast.Module, package: str, path: Path) -> Iterator[str]:
    """Yield the part at the top of a package of every import in a module, those under TYPE_CHECKING left out."""
    loaded = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    for node in (inner for outer in loaded for inner in ast.walk(outer)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*absolute(node, package, path), *(node.module or "").split(".")]
            names = [".".join([*filter(None, base), alias.name]) for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith(f"{package}."))


def absolute(node: ast.ImportFrom, package: str, path: Path) -> list[str]:
    """Return the package that a relative import starts from; nothing for others."""
    if not node.level:
        return []
    parts = list(path.parts)
    inside = parts[len(parts) - 1 - parts[::-1].index(package) : -1]
    return inside[: len(inside) - node.level + 1]


def levels(imports: dict[str, set[str]]) -> int:
    """Return the number of names on the longest way down; names that import each other are on one level."""
    depth: dict[str, int] = {}

    def of(name: str, above: frozenset[str]) -> int:
        if name not in depth:
            below = [of(other, above | {name}) for other in imports[name] if other not in above]
            depth[name] = 1 + max(below, default=0)
        return depth[name]

    return max(of(name, frozenset()) for name in imports)


if __name__ == "__main__":
    sys.exit(main())
