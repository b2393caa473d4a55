"""The walls script: it passes on this tree and fails on every breach it is meant to catch."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SOUND = {
    "pufferflow/__init__.py": "from pufferflow.law import Law as Law\n",
    "pufferflow/errors.py": "x = 1\n" * 50,
    "pufferflow/law.py": "from pufferflow.errors import UsageError\n" + "x = 1\n" * 50,
    "pufferflow/transport/__init__.py": "from pufferflow.transport.line import winf\n",
    "pufferflow/transport/line.py": "import ot\nfrom pufferflow.law import Law\n" + "x = 1\n" * 50,
    "pufferflow/engine/__init__.py": "from pufferflow.engine.read import read\n",
    "pufferflow/engine/read.py": "def read(frame):\n    return frame.collect()\n" + "x = 1\n" * 50,
    "pufferflow/frame.py": "import polars\nfrom pufferflow.engine import read\n" + "x = 1\n" * 50,
    "connectors/pufferflow_connectors/__init__.py": "import pufferflow as pf\nfrom pufferflow import Law\n",
}

BREACHES = {
    "an import that points up": ({"pufferflow/errors.py": "from pufferflow.law import Law\n"}, "errors imports law"),
    "an import that points up, inside a function": (
        {"pufferflow/errors.py": "def f():\n    from pufferflow import transport\n"},
        "errors imports transport, which stands above it",
    ),
    "an import that points up, for types only": (
        {"pufferflow/errors.py": "if TYPE_CHECKING:\n    import pufferflow.law\n"},
        "errors imports law",
    ),
    "an import that points up, by name at run time": (
        {"pufferflow/errors.py": "import_module('pufferflow.law')\n"},
        "errors imports law",
    ),
    "a relative import that points up": ({"pufferflow/errors.py": "from .law import Law\n"}, "errors imports law"),
    "an import of the public API": ({"pufferflow/law.py": "import pufferflow as pf\n"}, "law imports the public API"),
    "a circle": (
        {
            "pufferflow/transport/line.py": "from pufferflow.transport.space import a\n",
            "pufferflow/transport/space.py": "from pufferflow.transport import line\n",
        },
        "circle: ",
    ),
    "POT outside transport": ({"pufferflow/law.py": "import ot\n"}, "ot may be imported only in transport"),
    "SQLAlchemy outside the ledger": (
        {"pufferflow/law.py": "from sqlalchemy import text\n"},
        "sqlalchemy may be imported only in ledger",
    ),
    "plots outside the report": (
        {"pufferflow/law.py": "import matplotlib.pyplot as plt\n"},
        "matplotlib may be imported only in report",
    ),
    "Polars among the numbers": ({"pufferflow/transport/line.py": "import polars as pl\n"}, "numbers only"),
    "Polars behind the numbers": (
        {"pufferflow/dtypes.py": "import polars\n", "pufferflow/law.py": "from pufferflow.dtypes import with_texts\n"},
        "law knows numbers only, and reaches polars by pufferflow.dtypes",
    ),
    "rows read outside the engine": ({"pufferflow/frame.py": "frame.lazy().collect()\n"}, ".collect() only in engine"),
    "a package entered behind its __init__": (
        {"pufferflow/frame.py": "from pufferflow.engine.read import read\n"},
        "frame imports pufferflow.engine.read; a package is entered by what its __init__ lists",
    ),
    "packages in a circle": (
        {
            "pufferflow/plan.py": "from pufferflow.frame import protect\n",
            "pufferflow/frame.py": "from pufferflow.explain import words\n",
            "pufferflow/explain/__init__.py": "from pufferflow.explain.words import words\n",
            "pufferflow/explain/words.py": "from pufferflow.plan import Plan\n",
        },
        "circle of packages: ",
    ),
    "a connector imported by the product": (
        {"pufferflow/law.py": "import pufferflow_connectors\n"},
        "never imports pufferflow_connectors",
    ),
    "a connector behind the public API": (
        {"connectors/pufferflow_connectors/x.py": "from pufferflow.law import Law\n"},
        "plugins only, not",
    ),
    "a module behind the public API": (
        {"connectors/pufferflow_connectors/x.py": "import pufferflow.law\n"},
        "plugins only, not",
    ),
    "a package in no layer": ({"pufferflow/utils.py": ""}, "the package 'utils' is in no layer"),
    "a file that is too long": ({"pufferflow/law.py": "x = 1\n" * 501}, "asking to be two"),
    "a file that is too short": ({"pufferflow/law.py": "x = 1\n" * 49}, "asking to be part of another"),
}


def run(root):
    return subprocess.run(
        [sys.executable, ROOT / ".ci" / "walls.py", root], capture_output=True, text=True, check=False
    )


def build(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.slow
def test_this_tree_keeps_its_walls():
    """The product itself has no breach."""
    result = run(ROOT)
    assert result.returncode == 0, result.stdout


def test_a_sound_tree_passes(tmp_path):
    """The smallest tree that uses everything allowed has no breach."""
    build(tmp_path, SOUND)
    result = run(tmp_path)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_fails(tmp_path, breach):
    """Each breach is named, with its place, and the script exits with 1."""
    files, says = BREACHES[breach]
    build(tmp_path, SOUND | files)
    result = run(tmp_path)
    assert result.returncode == 1
    assert says in result.stdout
