"""The public API.

Every guaranteed name is there, documented with an example that runs, and nothing loads before it is used.
"""

import doctest
import importlib
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import pufferflow as pf

HEAVY = [
    "numpy",
    "scipy",
    "ot",
    "sklearn",
    "sqlalchemy",
    "matplotlib",
    "jinja2",
    "markupsafe",
    "msgspec",
    "rich",
]


def test_dir_lists_the_public_names():
    """`dir` and `__all__` are the same names, each of which can be had; anything else is refused by name."""
    assert sorted(pf.__all__) == dir(pf)
    for name in pf.__all__:
        assert getattr(pf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'epsilon'"):
        _ = pf.epsilon


def test_the_stub_names_where_each_name_is_defined():
    """Names are imported from the files that define them, so that a reader is one step from the code."""
    stub = Path(pf.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = [
        re.fullmatch(r"from ([\w.]+) import (\w+) as \2", line)
        for line in stub.splitlines()
        if "import" in line
    ]
    assert len(lines) == len(pf.__all__)
    for line in lines:
        source = Path(importlib.import_module(line[1]).__file__).read_text(encoding="utf-8")
        defined = re.search(rf"^(class|def) {line[2]}\b|^{line[2]} =", source, re.MULTILINE)
        assert defined or inspect.ismodule(getattr(pf, line[2]))


def test_the_reference_has_every_name():
    """The pages of the reference list every public name once."""
    pages = (Path(__file__).parents[1] / "docs").rglob("*.md")
    listed = [
        line.removeprefix("::: pufferflow.")
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("::: ")
    ]
    assert not set(pf.__all__) - set(listed)
    assert len(listed) == len(set(listed))


def exempt(name):
    """Errors, abstract bases and plain result fields explain themselves."""
    value = getattr(pf, name)
    return (isinstance(value, type) and issubclass(value, pf.PufferflowError)) or name in {
        "Certainty",
        "Coupling",
        "AffineCoupling",
        "Guarantee",
        "Noise",
        "Bound",
    }


@pytest.mark.parametrize("name", [name for name in pf.__all__ if not exempt(name)])
def test_every_public_name_has_an_example(name):
    """Each public function and class shows a short example in its docstring (which the test run executes)."""
    value = getattr(pf, name)
    examples = doctest.DocTestFinder().find(value, name, module=types.ModuleType("none"), globs={})
    own = [example for test in examples if test.name == name for example in test.examples]
    assert own or ">>>" in (value.__doc__ or "")


def test_import_loads_nothing_heavy():
    """`import pufferflow` loads Polars, for the sugar on frames, and no other library; they load when first used."""
    code = f"import sys, pufferflow; print([m for m in {HEAVY} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_grouped_sum_loads_polars_and_numpy_alone():
    """Planning and releasing a sum in groups, of independent rows, needs no part of SciPy and nothing of a ledger.

    What it says of missing values is a template.
    """
    use = """
import polars as pl, pufferflow as pf
scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["key"])
rows = pl.DataFrame({"key": [1, 1, 2], "level": [0, 3, 2]})
batch = pf.protect(rows, scenario).group_by("key").private_sum("level").private_count(pl.col("level") > 2, name="n")
batch.release(epsilon=1.0)
"""
    heavy = [
        *HEAVY,
        *(
            f"scipy.{part}"
            for part in ("special", "sparse", "linalg", "optimize", "stats", "spatial")
        ),
    ]
    known = ("numpy", "scipy", "msgspec", "jinja2", "markupsafe")
    code = f"import sys{use}print([m for m in {heavy} if m in sys.modules and m not in {known}])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.slow
def test_line_distances_do_not_load_pot():
    """Laws on the line do without POT, which takes the longest to load."""
    use = "a = pf.Law.point(0); pf.winf(a, a); pf.wasserstein(a, a)"
    code = f"import sys, pufferflow as pf; {use}; print('ot' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
