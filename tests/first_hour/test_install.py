"""The first command installs the core, and the demo needs no more; every other target installs what it asks for."""

import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTRAS = (
    "duckdb",
    "psycopg",
    "adbc_driver_postgresql",
    "pyspark",
    "obstore",
    "deltalake",
    "pyiceberg",
    "matplotlib",
)
FIRST_HOUR = """
import sys

class WithoutExtras:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, path, target)

sys.meta_path = [WithoutExtras(finder) for finder in sys.meta_path]
import re
from pathlib import Path
blocks = re.findall("^```python$(.*?)^```$", Path("README.md").read_text("utf-8"), re.M | re.S)
for block in blocks:
    exec(block)
import polars as pl, pufferflow as pf
scenario = pf.Scenario(pf.Secret("on", [0, 1]), pf.Independent())
batch = pf.protect(pl.DataFrame({"on": [0, 1]}), scenario).private_sum("on")
page = batch.release(epsilon=1.0).report(sys.argv[1] + "/page.html")
from pufferflow.jobs import starter
starter.write(sys.argv[1])
ran = pf.Job.read(sys.argv[1] + "/job.toml").run("2026-10-20")
print(len(blocks), page.exists(), ran.state)
"""


def recipe(target):
    """Return what make would run for a target in a clone where nothing is installed."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    given = ["make", "--dry-run", "VENV=/nowhere/venv", target]
    return subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def installs(target):
    """Return what is installed for a target, in order."""
    return re.findall(r"pip install .* -e (\S+)", recipe(target))


def test_the_first_command_of_the_readme_installs_the_core():
    """Without extras; these are named further below."""
    commands = re.findall(r"`(pip install [^`]*)`", README)
    assert commands[0] == "pip install ."
    core = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
    names = {re.split(r"[^\w-]", line)[0] for line in core}
    assert not names & {
        "duckdb",
        "pyspark",
        "psycopg",
        "matplotlib",
        "obstore",
        "deltalake",
        "pyiceberg",
    }


def test_the_demo_installs_the_core_alone():
    """It has a stamp of its own, so that nobody waits for engines who wants to see the demo."""
    assert installs("demo") == ["."]
    assert "district_of_meters.py" in recipe("demo")


@pytest.mark.parametrize("target", ["test", "slow", "nightly", "lint", "types", "docs", "bench"])
def test_all_other_targets_install_everything(target):
    """Tests of engines ask for their extras, so a target that runs them installs these first."""
    assert installs(target) == [".", "'.[all,dev]'"]


def test_ci_runs_all_tests_from_nothing():
    """Both halves of the tests are called by name, in an environment that is new."""
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert {"step make slow", "step make test"} <= set(steps.splitlines())
    assert 'export VENV="$scratch/venv"' in steps


@pytest.mark.slow
def test_the_first_hour_needs_no_extra(tmp_path):
    """The README, a page and a job of the starter run where no extra can be imported."""
    script = tmp_path / "first.py"
    script.write_text(f"EXTRAS = {EXTRAS!r}\n{textwrap.dedent(FIRST_HOUR)}")
    given = [sys.executable, script, tmp_path]
    ran = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1:] == ["1 True released"], ran.stdout + ran.stderr
