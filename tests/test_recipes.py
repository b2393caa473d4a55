"""The recipes of CONTRIBUTING are true: each adds something by the files that its row names, and contracts hold."""

import os
import re
import subprocess
import sys

import pytest
import recipes
from import_rules import LINT_IMPORTS
from thinned import nightly

RECIPES = {one.name: one for one in recipes.every_recipe()}
QUICK = {"function"}
"""The recipes whose results are tried by default."""
RUFF = [sys.executable, "-m", "ruff"]


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """A copy of the tree in which all recipes are carried out one after the other, and the files that each touched."""
    tree = recipes.copy_of_the_tree(tmp_path_factory.mktemp("tree"))
    touched, before = dict[str, set[str]](), contents(tree)
    for name, recipe in RECIPES.items():
        recipe.carry_out(tree)
        now = contents(tree)
        touched[name] = {file for file, text in now.items() if before.get(file) != text}
        before = now
    run(
        tree, *RUFF, "check", "--quiet", "--fix", "--select", "I,RUF022", *modules(touched)
    )  # lines in their order
    run(tree, *RUFF, "format", "--quiet", *modules(touched))
    return tree, touched


def modules(touched):
    return sorted(
        {file for files in touched.values() for file in files if file.endswith((".py", ".pyi"))}
    )


def contents(tree):
    return {
        str(file.relative_to(tree)): file.read_bytes()
        for file in tree.rglob("*")
        if file.suffix in {".py", ".pyi", ".md", ".toml", ".json"}
    }


def run(tree, *command):
    """Run a program in a tree, with the product that is there."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'connectors'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_touches_the_files_that_its_row_names(added, name):
    """No file of product, tests and docs is missing in the row of CONTRIBUTING, and none is named in vain."""
    _, touched = added
    assert touched[name] == RECIPES[name].named


@pytest.mark.slow
def test_the_tree_with_all_recipes_keeps_the_import_rules(added):
    """What was added imports what its layer may, and has the style of the rest."""
    tree, touched = added
    run(tree, *LINT_IMPORTS)
    run(tree, sys.executable, ".ci/files.py")
    run(tree, *RUFF, "check", *modules(touched))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow][one in QUICK :]) for one in RECIPES]
)
def test_what_a_recipe_adds_goes_the_whole_way(added, name):
    """What was added is calibrated, planned, released, kept and shown, as far as that is said of its kind."""
    passes(added, RECIPES[name].own_test)


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly(RECIPES, but=0.4))
def test_what_a_recipe_adds_passes_the_contracts(added, name):
    """What was added keeps what all others of its kind keep."""
    for arguments in RECIPES[name].contracts:
        passes(added, *arguments)


def passes(added, *arguments):
    tree, _ = added
    out = run(
        tree, sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments
    )
    assert re.search(r"[1-9]\d* passed", out), out
