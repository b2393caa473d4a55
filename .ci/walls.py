"""The import rules: which package may import which, what of it may be imported, and what stays inside one package.

Run as `python .ci/walls.py [ROOT]`; prints every breach and exits with 1 if there is one. Imports are read from the
source, those inside functions and under TYPE_CHECKING too. The seven layers are the architecture; a new room is added
to LAYERS.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LAYERS = {
    "ground": (
        *(
            "errors",
            "arrays",
            "rounding",
            "roots",
            "addresses",
            "arguments",
            "dtypes",
            "suggestions",
            "habits",
            "sandbox",
            "progress",
            "arrow_tables",
            "source_version",
        ),
        *("conversions", "guarantees", "entry_points", "workers"),
    ),
    "numbers": ("law", "transport", "noise", "chains", "channels", "bounds", "granularity", "tradeoff"),
    "secrets, priors and queries": ("scenario", "expressions", "engine", "queries"),
    "from prior to laws, from releases to totals": ("inference", "composition", "confounding"),
    "deciding, publishing, counting": ("report", "planning", "release", "ledger"),
    "explanations and plans": ("explain", "plan", "designed", "local", "learning", "frame", "namespace"),
    "using": ("audit", "beliefs", "jobs", "plugins", "cli", "__main__"),
}
"""Lowest layer first: a package imports packages of its own layer, without circles, and of those below."""
LAYER_OF = {room: floor for floor, rooms in enumerate(LAYERS.values()) for room in rooms}

ENTERED_BEHIND = ("scenario.priors", "scenario.fitting", "report.evidence")
"""Parts of packages with an __init__ of their own; every other room is entered by what its `__init__` lists."""

ONLY_IN = {
    "ot": {"transport"},
    "sqlalchemy": {"ledger"},
    "matplotlib": {"report"},
    "plotly": {"report"},
    "typer": {"cli"},
    "cronsim": {"jobs"},
}
"""Third-party packages that one package imports."""

NUMBERS_ONLY = {"errors", "arrays", "rounding", "roots", "conversions", "guarantees", *LAYERS["numbers"]}
"""Packages that never see a dataframe, nor import a package that does."""
NO_FRAMES = {"composition", "confounding", "ledger"}
"""Packages that name no function of Polars, although packages they import do."""

COLLECTS = {
    *("collect", "collect_async", "collect_batches", "fetch"),
    *("sink_parquet", "sink_csv", "sink_ipc", "sink_ndjson"),
}
"""The methods that make a lazy frame read its rows."""
MAY_COLLECT = {"engine"}
PUBLIC_READERS = {"pufferflow.scenario.fitting.reference"}
"""Files that read tables which are declared to be public, and no others."""
LONGEST_FILE, SHORTEST_FILE = 500, 50
MAY_BE_SHORT = {"__init__", "__main__", "arrays", "namespace", "plugins"}
PRODUCT, CONNECTORS = "pufferflow", "pufferflow_connectors"
DOORS = {PRODUCT, "pufferflow.plugins"}
"""What packages of connectors may import."""


@dataclass(frozen=True)
class Module:
    """A source file: its dotted name, what it imports, and the calls it makes by attribute."""

    path: Path
    name: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The room of the file; the public API (`pufferflow/__init__.py`) is a package of its own."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield the dotted names that the file imports, with their lines."""
        package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*up, *([node.module] if node.module else [])])
                yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)
            elif isinstance(node, ast.Call) and _called(node) in {"import_module", "__import__"}:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value, node.lineno


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def modules(root: Path, package: str) -> list[Module]:
    """Read the source files of a package below `root`."""
    found: list[Module] = []
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(path, name, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def breaches(root: Path) -> list[str]:
    """Return what is wrong with the tree, a line each."""
    product = modules(root, PRODUCT)
    connectors = modules(root / "connectors", CONNECTORS)
    names = {module.name for module in product}
    found = [line for module in product for line in _in_product(module, names)]
    found += [line for module in connectors for line in _in_connectors(module, names)]
    found += [f"circle: {trail}" for trail in _circles(_edges(product, names))]
    found += [f"circle of packages: {trail}" for trail in _circles(_room_edges(product, names))]
    found += _frames_behind_numbers(product, names)
    return found + [line for module in product + connectors for line in _lengths(module)]


def _lengths(module: Module) -> Iterator[str]:
    lines = len(module.path.read_text(encoding="utf-8").splitlines())
    if lines > LONGEST_FILE:
        yield f"{module.path}: {lines} lines; past {LONGEST_FILE} a file is asking to be two"
    if lines < SHORTEST_FILE and module.path.stem not in MAY_BE_SHORT:
        yield f"{module.path}: {lines} lines; below {SHORTEST_FILE} a file is asking to be part of another"


def _in_product(module: Module, names: set[str]) -> Iterator[str]:
    if module.room and module.room not in LAYER_OF:
        yield f"{module.path}: the package '{module.room}' is in no layer; add it to LAYERS in .ci/walls.py"
        return
    for name, line in module.imports():
        at, package = f"{module.path}:{line}", name.partition(".")[0]
        if package == CONNECTORS:
            yield f"{at}: {PRODUCT} never imports {CONNECTORS}"
        if package in ONLY_IN and module.room not in ONLY_IN[package]:
            yield f"{at}: {package} may be imported only in {', '.join(sorted(ONLY_IN[package]))}"
        if package == "polars" and module.room in NUMBERS_ONLY | NO_FRAMES:
            yield f"{at}: {module.room} knows numbers only, not polars"
        if package == PRODUCT and module.room:
            yield from _entered(at, module.room, name, names)
    if module.room not in MAY_COLLECT and module.name not in PUBLIC_READERS:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in COLLECTS:
                yield f"{module.path}:{node.lineno}: .{node.func.attr}() only in {', '.join(sorted(MAY_COLLECT))}"


def _entered(at: str, room: str, name: str, names: set[str]) -> Iterator[str]:
    """Yield what is wrong with an import of `name` from inside of a package."""
    target = _resolved(name, names)
    other = target.split(".")[1] if "." in target else ""
    if not other:
        yield f"{at}: {room} imports the public API; import the package that has the name"
    elif LAYER_OF.get(other, 0) > LAYER_OF[room]:
        yield f"{at}: {room} imports {other}, which stands above it"
    elif other != room and not _by_a_door(name, target):
        yield f"{at}: {room} imports {target}; a package is entered by what its __init__ lists"


def _by_a_door(name: str, target: str) -> bool:
    """Return whether a target is a package's `__init__`, a file that is a package, or has an __init__ of its own."""
    inner = ".".join(target.split(".")[2:])
    full = ".".join(target.split(".")[1:])
    return not inner or full in ENTERED_BEHIND or (name == target and name.rpartition(".")[0].count(".") == 1)


def _edges(product: list[Module], names: set[str]) -> dict[str, set[str]]:
    """Return which file imports which; a package's `__init__` hands names on and closes no circle by itself."""
    return {
        module.name: {_resolved(name, names) for name, _ in module.imports() if name.partition(".")[0] == PRODUCT}
        - {module.name}
        for module in product
        if module.room
    }


def _room_edges(product: list[Module], names: set[str]) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {}
    for name, targets in _edges(product, names).items():
        room = name.split(".")[1]
        edges.setdefault(room, set()).update(other.split(".")[1] for other in targets if "." in other)
        edges[room].discard(room)
    return edges


def _frames_behind_numbers(product: list[Module], names: set[str]) -> Iterator[str]:
    """Yield the packages of numbers that import, by however many steps, a file that imports Polars."""
    edges = _edges(product, names)
    frames = {module.name for module in product if any(name.split(".")[0] == "polars" for name, _ in module.imports())}
    for module in product:
        reached, waiting = {module.name}, [module.name]
        while waiting and module.room in NUMBERS_ONLY:
            new = edges.get(waiting.pop(), set()) - reached
            reached |= new
            waiting += new
        if module.room in NUMBERS_ONLY and (behind := (reached & frames) - {module.name}):
            yield f"{module.path}: {module.room} knows numbers only, and reaches polars by {min(behind)}"


def _in_connectors(module: Module, names: set[str]) -> Iterator[str]:
    for name, line in module.imports():
        if name.partition(".")[0] == PRODUCT and _resolved(name, names) not in DOORS:
            yield f"{module.path}:{line}: connectors use {' and '.join(sorted(DOORS))} only, not {name}"


def _resolved(name: str, names: set[str]) -> str:
    """Return the module that an imported name is, or is in."""
    while name not in names and "." in name:
        name = name.rpartition(".")[0]
    return name


def _circles(edges: dict[str, set[str]]) -> list[str]:
    """Return the circles of a graph, each as the trail that closes it."""
    done: set[str] = set()
    found: list[str] = []

    def visit(name: str, trail: list[str]) -> None:
        if name in trail:
            found.append(" -> ".join([*trail[trail.index(name) :], name]))
        elif name not in done:
            for target in sorted(edges.get(name, ())):
                visit(target, [*trail, name])
            done.add(name)

    for name in sorted(edges):
        visit(name, [])
    return found


def main() -> int:
    """Print the breaches of the tree given on the command line, or of this one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    found = breaches(root)
    print("\n".join(found) if found else f"walls: {len(modules(root, PRODUCT))} files, all in their packages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
