"""The recipes for orchestrators: each is installed into an environment of its own and runs the starter job for real."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from thinned import nightly

import pufferflow as pf
from pufferflow.cli.errors import EXITS
from pufferflow.jobs import starter

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "orchestrators"
PAGE = (ROOT / "docs" / "how-to" / "orchestrators.md").read_text(encoding="utf-8")
AGAIN = pf.SourceError, pf.LedgerError, pf.SinkError

QUIET = {
    "DO_NOT_TRACK": "1",
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "false",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}
"""Nothing is reported to anybody, and a busy machine has time."""
OTHERS = "PYTHON", "DAGSTER", "PREFECT", "AIRFLOW"
"""How variables begin that would lead a command to what is installed or runs outside of the test."""

LATE_ROWS = '''

def late(period: pf.Period) -> pl.LazyFrame:
    """Fail so many times for each period, and keep count."""
    from pathlib import Path

    tries = Path(__file__).with_name(f"tries-{period}")
    done = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("." * (done + 1))
    if done < FAILURES:
        raise pf.SourceError("The rows have not come yet.", allowed="rows", instead="another try")
    return rows(period)
'''


@dataclass(frozen=True)
class Orchestrator:
    """What to install, the wait that a test cannot afford, and the commands that prepare and run a recipe."""

    packages: tuple[str, ...]
    recipe: str
    wait: tuple[str, str]
    run: str
    prepare: str = ""


FLOW = "import sys, prefect_daily as recipe; sys.exit(recipe.every_day('{day}', return_state=True).is_failed())"
ORCHESTRATORS = {
    "dagster": Orchestrator(
        packages=("dagster==1.13.29",),
        recipe="dagster_daily.py",
        wait=("WAIT = 4, 300", "WAIT = 4, 0"),
        run="dagster asset materialize -f dagster_daily.py --select published --partition {day}",
    ),
    "prefect": Orchestrator(
        packages=(
            "prefect==3.8.8",
            "fastapi==0.150.0",
        ),  # newer ones lack an argument that this server passes
        recipe="prefect_daily.py",
        wait=("retry_delay_seconds=300", "retry_delay_seconds=0"),
        run=f'python -c "{FLOW}"',
    ),
    "airflow": Orchestrator(
        packages=("apache-airflow==3.3.2",),
        recipe="airflow_daily.py",
        wait=("timedelta(minutes=5)", "timedelta(seconds=0)"),
        prepare="airflow db migrate",
        run="airflow dags test every_day {morning}",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", nightly(ORCHESTRATORS, but=0.34), indirect=True)
def test_recipe_publishes_once_tries_again_what_may_pass_and_nothing_else(run, tmp_path):
    """A day run twice is one entry and one release; a late source is tried until it comes; a full account is not."""
    good = job_in(tmp_path / "good")
    late = job_in(tmp_path / "late", failures=2)
    full = job_in(tmp_path / "full", limit=0.1)
    day = str(good.period(datetime.now(UTC) - timedelta(days=2)))

    assert run(good, day) == 0
    first = pf.Release.read(good.folder_of(day))
    assert run(good, day) == 0
    assert pf.Release.read(good.folder_of(day)).frame.equals(first.frame)
    assert (states(good, day), tries(good, day)) == (["committed"], 1)

    assert run(late, day) == 0
    assert (states(late, day), tries(late, day)) == (["committed"], 3)

    assert run(full, day) != 0
    assert (states(full, day), tries(full, day)) == ([], 1)


@pytest.fixture
def run(request, tmp_path):
    """What runs a recipe for a day of a job, in an environment that has nothing but its orchestrator and this tree."""
    orchestrator, place = ORCHESTRATORS[request.param], tmp_path / "venv"
    yield Runner(orchestrator, installed(orchestrator, place), tmp_path / "home")
    shutil.rmtree(place)  # a gigabyte, of which pytest would keep three


def installed(orchestrator, place):
    """Return the programs of an environment that has this tree, as its users would install it, and the orchestrator."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        place / "bin" / "python",
        "--disable-pip-version-check",
    ]
    wanted = [ROOT, *engines(), *orchestrator.packages]
    result = subprocess.run(
        [*pip, "install", "--quiet", "--no-compile", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode and not os.environ.get("CI"):
        pytest.skip(f"pip could not install {orchestrator.packages[0]}: {result.stderr[-300:]}")
    assert result.returncode == 0, result.stderr
    return place / "bin"


def engines():
    """Return our own dependencies in the versions that are tested together; an orchestrator has others of its own."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
    names = {need.partition(">=")[0].lower() for need in needs}
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [pin for pin in pins if pin.partition("==")[0].lower() in names]


class Runner:
    """Runs a recipe for a day of a job, in a home of its own."""

    def __init__(self, orchestrator, programs, home):
        self.orchestrator, self.programs, self.home = orchestrator, programs, home
        dags = self.home / "dags"
        dags.mkdir(parents=True)
        recipe = (RECIPES / orchestrator.recipe).read_text(encoding="utf-8")
        assert orchestrator.wait[0] in recipe
        (dags / orchestrator.recipe).write_text(
            recipe.replace(*orchestrator.wait), encoding="utf-8"
        )
        (self.home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", encoding="utf-8")
        if orchestrator.prepare:
            assert self.start(orchestrator.prepare) == 0

    def __call__(self, job, day):
        morning = f"{datetime.fromisoformat(day) + timedelta(days=1, hours=3):%Y-%m-%dT%H:%M}"
        return self.start(self.orchestrator.run.format(day=day, morning=morning), job)

    def start(self, command, job=None):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(OTHERS)},
            **dict.fromkeys(("DAGSTER_HOME", "PREFECT_HOME", "AIRFLOW_HOME"), str(self.home)),
            **QUIET,
            "PUFFERFLOW_JOB": str(job.path) if job else "",
        }
        program, *arguments = shlex.split(command)
        result = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.home / "dags",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        print(result.stdout[-20_000:], result.stderr[-20_000:])  # noqa: T201 - shown when the test fails
        return result.returncode


def job_in(folder, failures=0, limit=1.0):
    """Return the starter job, with a source that fails at first and with another limit."""
    starter.write(folder)
    text = (folder / "job.toml").read_text(encoding="utf-8")
    for old, new in (
        ('function = "job.py:rows"', 'function = "job.py:late"'),
        ("limit = { epsilon = 1.0 }", f"limit = {{ epsilon = {limit} }}"),
        ("attempts = 3", "attempts = 1"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "job.toml").write_text(text, encoding="utf-8")
    with (folder / "job.py").open("a", encoding="utf-8") as file:
        file.write(LATE_ROWS.replace("FAILURES", str(failures)))
    return pf.Job.read(folder / "job.toml")


def states(job, day):
    """Return the states of what a ledger has of a day."""
    account = job.account()
    return (
        [entry.state for entry in account.history() if entry.release_id == job.id_of(day)]
        if account
        else []
    )


def tries(job, day):
    """Return how often the source was asked for a day."""
    return len((job.folder / f"tries-{day}").read_text(encoding="utf-8"))


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.py")), ids=lambda path: path.stem)
def test_recipe_names_what_is_there_and_says_how_it_runs(recipe):
    """Every recipe has a test and a place on the page, uses public names only, and tries again three errors."""
    assert recipe.name in {orchestrator.recipe for orchestrator in ORCHESTRATORS.values()}
    assert recipe.name in PAGE
    tree = ast.parse(recipe.read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and is_door(node.value)
    }
    assert all(hasattr(pf, name) for name in used)
    assert used >= {kind.__name__ for kind in AGAIN}
    assert "PostgreSQL" in (ast.get_docstring(tree) or "")


def is_door(node):
    """Say whether an expression is `pf`."""
    return isinstance(node, ast.Name) and node.id == "pf"


def test_page_shows_the_recipes_as_they_are():
    """Every block of Python on the page stands in a recipe, word for word."""
    recipes = "".join(path.read_text(encoding="utf-8") for path in RECIPES.glob("*.py"))
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    assert all(block in recipes for block in blocks)


def test_page_tries_again_by_the_codes_of_the_command_line():
    """The table has the codes of the errors that may pass; timers and pods give up at those of all others."""
    rows = re.findall(r"^\| (\d+) \| `pf\.(\w+)` \|", PAGE, re.MULTILINE)
    assert {getattr(pf, name): int(code) for code, name in rows} == {
        kind: EXITS[kind] for kind in AGAIN
    }
    for_good = sorted(
        code for kind, code in EXITS.items() if kind not in (*AGAIN, KeyboardInterrupt)
    )
    assert f"RestartPreventExitStatus={' '.join(map(str, for_good))}\n" in PAGE
    assert f"values: {for_good}\n" in PAGE
