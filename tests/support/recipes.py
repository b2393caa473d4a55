"""The recipes of CONTRIBUTING, carried out: how a copy of the tree is changed, and which files a row names.

A recipe is a folder of `tests/recipes`. It has the files that are added, and a `recipe.py` that says which row of the
table it follows (`ROW`), where its own files go (`ADDED`), what changes in files that are there (`CHANGED`), and which
tests the result has to pass (`CONTRACTS`, as arguments of pytest), beside those of its own in `test_added.py`. A change
is a function from text to text.
"""

import importlib.util
import re
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "recipes"
COPIED = (
    "pufferflow",
    "connectors",
    "tests",
    "docs",
    "examples",
    ".ci",
    "pyproject.toml",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "README.md",
)
LEFT_OUT = ("__pycache__", "recipes", "golden.jsonl.xz", "written", "older")
STUB, REFERENCE, CHANGELOG = "pufferflow/__init__.pyi", "docs/reference/api", "CHANGELOG.md"
Change = Callable[[str], str]


def after(anchor: str, added: str) -> Change:
    """Return the change that adds a text behind another one, which occurs once."""
    return instead(anchor, anchor + added)


def instead(old: str, new: str) -> Change:
    """Return the change that replaces a text that occurs once."""

    def change(text: str) -> str:
        assert text.count(old) == 1, (
            f"{old!r} occurs {text.count(old)} times; the recipe has to be mended"
        )
        return text.replace(old, new)

    return change


def each(*changes: Change) -> Change:
    """Return several changes of one file, one after the other."""

    def change(text: str) -> str:
        for one in changes:
            text = one(text)
        return text

    return change


def with_public_name(module: str, name: str, page: str) -> dict[str, Change]:
    """Return what "in the public API" means: the row "a public name" of the table, and the page of its kind."""
    return {
        STUB: lambda text: f"from pufferflow.{module} import {name} as {name}\n{text}",
        f"{REFERENCE}/{page}.md": lambda text: f"{text}\n::: pufferflow.{name}\n",
        CHANGELOG: lambda text: f"{text}- `pf.{name}`.\n",
    }


class Recipe:
    """A folder of `tests/recipes`."""

    def __init__(self, folder: Path) -> None:
        spec = importlib.util.spec_from_file_location(
            f"recipe_of_{folder.name}", folder / "recipe.py"
        )
        written = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(written)
        self.name, self.folder = folder.name, folder
        self.row: str = written.ROW
        self.added: dict[str, str] = getattr(written, "ADDED", {})
        self.changed: dict[str, Change] = written.CHANGED
        self.own_test = f"tests/test_added_{folder.name}.py"
        self.contracts: list[list[str]] = written.CONTRACTS

    def carry_out(self, tree: Path) -> None:
        """Add and change the files of a tree."""
        for own, place in self.added.items():
            assert not (tree / place).exists(), place
            shutil.copyfile(self.folder / own, tree / place)
        for place, change in self.changed.items():
            file = tree / place
            text = file.read_text(encoding="utf-8")
            file.write_text(change(text), encoding="utf-8")
            assert file.read_text(encoding="utf-8") != text, place

    @property
    def named(self) -> set[str]:
        """The files that the row names; `x` stands for the name of what is added."""
        row = rows()[self.row]
        names = [Path(place).stem.removeprefix("test_") for place in self.added.values()]
        return {place for name in names or [""] for place in files_in(row, name)}


def every_recipe() -> list[Recipe]:
    """Return all recipes, by their names."""
    return [Recipe(file.parent) for file in sorted(FOLDER.glob("*/recipe.py"))]


def rows() -> dict[str, str]:
    """Return the rows of the table "Where things are added", by what is added."""
    text = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .partition("\n## Where things are added\n")[2]
    )
    lines = [
        line.strip("|").split(" | ", 1)
        for line in text.partition("\n## ")[0].splitlines()
        if line[:2] == "| "
    ]
    return {what.strip(): how for what, how in lines[1:] if not what.startswith(" ---")}


def files_in(row: str, name: str) -> set[str]:
    """Return the files that a row names, but for those that are needed only in some case.

    "In the public API" stands for the files of the row "a public name".
    """
    always = re.sub(r"(; [^;|]*only if|\([^)]*only if)[^;|]*", "", row)
    words = re.findall(r"`([\w./-]+\.(?:pyi?|md|toml))`", always)
    written = {re.sub(r"(?<=[/_])x\.py$", f"{name}.py", word) for word in words}
    public = files_in(rows()["a public name"], name) if "in the public API" in always else set()
    return public | {
        word if word.partition("/")[0] in COPIED else f"pufferflow/{word}" for word in written
    }


def copy_of_the_tree(place: Path) -> Path:
    """Return a copy of what recipes change and contracts need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copyfile(source, place / name)
    for recipe in every_recipe():
        shutil.copyfile(recipe.folder / "test_added.py", place / recipe.own_test)
    return place
