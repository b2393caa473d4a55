"""Draw the map of the source, `docs/map.md`: the layers of the import rules, and what each package and file holds.

Run as `python .ci/map.py`; with `--check` it exits with 1 if the map is not what it would write.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "map.md"
CONNECTORS = ROOT / "connectors" / "pufferflow_connectors"
HEAD = ("| file | what is inside |", "| --- | --- |")
START = """# Map of the source

`make map` draws this page from the import rules in `pyproject.toml` and from the first line of every file. Numbers such
as M20 are [statements](reference/statements.md); GWM, GAWM and DAGWM are in the [glossary](reference/glossary.md).

## The way of a release

1. `release/batch.py`: `pf.protect` puts a frame under a scenario, and each `private_…` method adds a query.
2. `queries/request.py` holds what was requested; `queries/expressions/` makes an expression a function φ.
3. `engines/patterns.py` finds the distinct public patterns of groups; no private column is read.
4. `sensitivity/pattern.py` derives the laws of the answer under each secret, from the prior and the pattern.
5. `calibration/proof_search.py` searches the least noise that a bound proves, for `release/planning/choose_noise.py`.
6. `release/mechanisms/` has what draws answers: additive noise in blocks of cells, or an optimal channel.
   `release/plan.py` is the plan: `explain`, `check` and `report` say what it will cost, before anything is spent.
7. `release/publish.py` compares the source, reserves the cost (`accounting/ledger/reserve.py`), lets the mechanism
   read the private rows once (`engines/one_pass.py`) and draw (`noise/sampler.py`), and commits.
8. `published/release.py` is what comes out: numbers, error bars and a certificate.

## Layers

A package imports packages of the layers below its own, never of its own layer or above. Lowest first.

| layer | package | what is inside |
| --- | --- | --- |
"""


def layers() -> list[list[str]]:
    """Return the packages of each layer, lowest first, as the import rules list them."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    listed = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in reversed(listed)]


def sentence(path: Path) -> str:
    """Return the first line of a file's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def place(name: str) -> Path:
    """Return the file that says what a package or module is."""
    folder = ROOT / "pufferflow" / name
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def drawn() -> Iterator[str]:
    """Yield the lines of the map."""
    yield from START.splitlines()
    for level, names in enumerate(layers(), 1):
        for name in names:
            shown = f"[`{name}/`](#{name})" if place(name).stem == "__init__" else f"`{name}.py`"
            yield f"| {level} | {shown} | {sentence(place(name))} |"
    for name in (name for names in layers() for name in names if place(name).stem == "__init__"):
        yield from ("", f"## {name}", "", sentence(place(name)), "", *HEAD)
        yield from rows(place(name).parent)
    yield from ("", "## connectors", "", sentence(CONNECTORS / "__init__.py"), "", *HEAD)
    yield from rows(CONNECTORS)


def rows(folder: Path, within: str = "") -> Iterator[str]:
    """Yield a row for every file of a package, those of its subpackages after its own."""
    for path in sorted(folder.glob("*.py")):
        if path.stem != "__init__":
            yield f"| `{within}{path.name}` | {sentence(path)} |"
    for inner in sorted(folder.glob("*/__init__.py")):
        inside = f"{within}{inner.parent.name}/"
        yield f"| **`{inside}`** | **{sentence(inner)}** |"
        yield from rows(inner.parent, inside)


def main() -> int:
    """Write the map, or compare it."""
    text = "\n".join(drawn()) + "\n"
    if sys.argv[1:] != ["--check"]:
        MAP.write_text(text, encoding="utf-8")
        return 0
    same = MAP.exists() and MAP.read_text(encoding="utf-8") == text
    print("" if same else "docs/map.md is not what `make map` draws.", end="\n" * (not same))
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
