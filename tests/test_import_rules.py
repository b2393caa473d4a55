"""The import rules of pyproject.toml and the check of files pass on this tree, and fail on every breach planted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from import_rules import LINT_IMPORTS

ROOT = Path(__file__).parents[1]
LAYERS = "Packages import downwards; those of one layer do not import each other"
NO_CYCLES = "Files and packages import each other without cycles"
NO_FRAMES = "Mathematics never sees a dataframe"
NO_POLARS = "Accounts name no function of Polars, although packages they import do"
ONE_USER = "Each of these libraries is imported by one package"
NO_CONNECTORS = "The library does not know its connectors"
PUBLIC_NAMES = "Connectors use the public names and pufferflow.plugins"
UPWARDS = "from pufferflow.release.plan import Plan\n"
BREACHES = {
    "an import that points up": ("pufferflow/core/errors.py", UPWARDS, LAYERS),
    "one inside a function": ("pufferflow/queries/names.py", f"def late():\n    {UPWARDS}", LAYERS),
    "one for types only": (
        "pufferflow/queries/names.py",
        f"if TYPE_CHECKING:\n    {UPWARDS}",
        LAYERS,
    ),
    "packages of one layer": (
        "pufferflow/models/domain.py",
        "import pufferflow.noise.base\n",
        LAYERS,
    ),
    "a package in no layer": ("pufferflow/utilities.py", "", LAYERS),
    "files in a cycle": (
        "pufferflow/models/reference.py",
        "from pufferflow.models.priors.base import Prior\n",
        NO_CYCLES,
    ),
    "Polars in mathematics": ("pufferflow/noise/laplace.py", "import polars\n", NO_FRAMES),
    "Polars behind mathematics": (
        "pufferflow/noise/laplace.py",
        "from pufferflow.core.tables import with_texts\n",
        NO_FRAMES,
    ),
    "Polars in an account": ("pufferflow/accounting/compose.py", "import polars\n", NO_POLARS),
    "POT beside its file": ("pufferflow/distributions/common_units.py", "import ot\n", ONE_USER),
    "SQL beside the ledger": ("pufferflow/accounting/compose.py", "import sqlalchemy\n", ONE_USER),
    "plots beside figures": ("pufferflow/reports/pages.py", "import matplotlib\n", ONE_USER),
    "charts beside their package": ("pufferflow/reports/pages.py", "import altair\n", ONE_USER),
    "markup beside templates": ("pufferflow/reports/pages.py", "import markupsafe\n", ONE_USER),
    "a connector in the library": (
        "pufferflow/jobs/sink.py",
        "import pufferflow_connectors.spark\n",
        NO_CONNECTORS,
    ),
    "a package in a connector": (
        "connectors/pufferflow_connectors/spark.py",
        "import pufferflow.engines.backend\n",
        PUBLIC_NAMES,
    ),
}
LONG, SHORT = "x = 1\n" * 701, "x = 1\n" * 39
FILES = {
    "rows read beside the engines": (
        "pufferflow/release/mechanisms/additive.py",
        "frame.lazy().collect()\n",
        "only the engines read",
    ),
    "a file that is too long": ("pufferflow/core/rounding.py", LONG, "split it in two"),
    "a file that is too short": ("pufferflow/core/new.py", SHORT, "join it to a neighbour"),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the source and the rules."""
    place = tmp_path_factory.mktemp("tree")
    for name in ("pufferflow", "connectors"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", place / "pyproject.toml")
    return place


@pytest.fixture
def planted(tree):
    """Return a function that adds a text to a file of the copy until the test ends."""
    kept = {}

    def plant(name, text):
        file = tree / name
        kept[file] = file.read_text(encoding="utf-8") if file.exists() else None
        file.write_text((kept[file] or "") + text, encoding="utf-8")

    yield plant
    for file, text in kept.items():
        file.unlink() if text is None else file.write_text(text, encoding="utf-8")


def lint_imports(tree):
    """Return the code and the output of import-linter."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "connectors")]),
    }
    result = subprocess.run(
        LINT_IMPORTS, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout + result.stderr


def check_files(tree):
    """Return the code and the output of the check of files."""
    command = [sys.executable, ROOT / ".ci" / "files.py", tree]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


@pytest.mark.slow
def test_this_tree_keeps_the_rules(tree):
    """The product itself has no breach."""
    for code, output in (lint_imports(tree), check_files(tree)):
        assert code == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_of_the_import_rules_fails(tree, planted, breach):
    """Each breach breaks its contract, which is named."""
    file, text, contract = BREACHES[breach]
    planted(file, text)
    code, output = lint_imports(tree)
    assert code == 1
    assert f"{contract} BROKEN" in " ".join(output.split())


@pytest.mark.slow
@pytest.mark.parametrize("breach", FILES)
def test_a_breach_in_a_file_fails(tree, planted, breach):
    """Each breach is named, with its place."""
    file, text, says = FILES[breach]
    planted(file, text)
    code, output = check_files(tree)
    assert code == 1
    assert file in output
    assert says in output


def test_the_eight_steps_of_a_release_are_where_the_guide_says():
    """The table of CONTRIBUTING.md names types and files, and each type is defined in a file of its row."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if re.match(r"\| [1-8] ", line)]
    assert len(rows) == 8
    for _, step, kind, files, *_ in rows:
        name = kind.strip(" `")
        places = [ROOT / "pufferflow" / file for file in re.findall(r"`([a-z_/]+\.py)`", files)]
        assert places, step
        assert any(
            re.search(rf"^class {name}\b", place.read_text(encoding="utf-8"), re.MULTILINE)
            for place in places
        ), step
