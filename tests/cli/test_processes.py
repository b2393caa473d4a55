"""The program as a process of its own: how fast it answers, what signals do to it, and who reads what it writes."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from strict import STRICT
from thinned import nightly

import pufferflow as pf
from pufferflow.jobs import starter

HEAVY = ["numpy", "scipy", "ot", "sklearn", "sqlalchemy", "matplotlib", "jinja2"]
PROGRAM = [sys.executable, *STRICT, "-m", "pufferflow"]
SLOW = """
def build(frame, period):
    import pathlib, time
    pathlib.Path("begun").touch()
    {}
"""
WAITS = {"words": "time.sleep(60)", "json": "exec('time.sleep(60)')"}


def environment(**more):
    known = {
        name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}
    }
    return {**known, "COLUMNS": "80", **more}


def run(*arguments, **given):
    more = given.pop("env", {})
    return subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(**more),
        **given,
    )


def start(*arguments, cwd, **given):
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=pipe,
        stderr=pipe,
        text=True,
        cwd=cwd,
        env=environment(),
        **given,
    )


def until(happened, seconds=30):
    """Wait for something to happen."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.mark.slow
def test_help_and_version_load_little():
    """Help and version load neither numbers nor databases, and Polars only as far as the public API does."""
    code = f"""
import sys
from pufferflow.cli.app import app
for words in (["--help"], ["plan", "--help"], ["--version"]):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code
sys.stderr.write(repr([name for name in {HEAVY} if name in sys.modules]))
sys.stderr.write(repr([name for name in sys.modules if name.startswith("pufferflow.") and "cli" not in name]))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.startswith("[]")
    loaded = set(re.findall(r"'pufferflow\.([\w.]+)'", found.stderr))
    assert loaded <= {"namespace", "core", "core.errors", "core.paths", "core.sandbox"}


@pytest.mark.slow
def test_help_answers_at_once():
    """Help takes less than three times the processor time that Polars takes to start, each at its best of ten turns."""

    def processor_time(*command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run(command, capture_output=True, check=True)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    turns = [  # in turns, because other tests run beside them
        (processor_time(*PROGRAM, "--help"), processor_time(sys.executable, "-c", "import polars"))
        for _ in range(10)
    ]
    helps, starts = zip(*turns, strict=True)
    assert min(helps) < 3 * min(starts)


def test_the_program_is_installed_under_its_name():
    """The entry point of the package is `main`, and that is what `python -m pufferflow` calls."""
    from importlib.metadata import entry_points

    import pufferflow.__main__
    from pufferflow.cli import main

    (found,) = entry_points(group="console_scripts", name="pufferflow") or (None,)
    if found is not None:  # a checkout that was installed before there was a program has none
        assert found.value == "pufferflow.cli:main"
    assert pufferflow.cli.main is main


@pytest.mark.parametrize("how", WAITS)
@pytest.mark.slow
def test_ctrl_c_ends_a_command_calmly(make, tmp_path, how):
    """Ctrl-C in the middle of a run, inside of exec too, ends it with 130, one calm line, and no traceback."""
    make(SLOW.format(WAITS[how]))
    process = start("run", "job.toml", *(["--json"] if how == "json" else []), cwd=tmp_path)
    until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    if how == "json":
        assert json.loads(out)["error"]["kind"] == "Stopped"
    else:
        assert (out, err) == (
            "",
            "Stopped.\n  try: the same command again: nothing is charged twice\n",
        )


@pytest.mark.slow
def test_a_schedule_ends_calmly(make, tmp_path):
    """SIGTERM ends a schedule with 0, after it has revealed about what was missed and of the next run."""
    make()
    process = start("schedule", "job.toml", "--json", cwd=tmp_path)
    lines = [process.stderr.readline(), process.stderr.readline()]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["runs"]) == (0, 1)
    assert "  released  " in lines[0]
    assert "The next run is at" in lines[1]
    assert err.endswith("Stopped.\n")
    assert pf.Ledger(tmp_path / "ledger.db").verify().entries == 3


@pytest.mark.slow
def test_a_reader_that_goes_away_changes_nothing(make, tmp_path):
    """What nobody reads any more is written nowhere, without words; the work is done to its end."""
    make(limit=1000)
    process = start("plan", "job.toml", cwd=tmp_path)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=30), err) == (0, "")


@pytest.mark.slow
def test_a_terminal_without_unicode(make, tmp_path):
    """In ASCII nothing fails: signs that it does not have are question marks, and documents have none of them."""
    job = make()
    job.write_text(job.read_text().replace("hours-2026", "électricité-電"), encoding="utf-8")
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    told = run("run", "job.toml", cwd=tmp_path, env=env)
    assert (told.returncode, told.stderr) == (0, "")
    told = run("ledger", "show", "ledger.db", "--json", cwd=tmp_path, env=env)
    assert json.loads(told.stdout)["accounts"][0]["name"] == "électricité-電"


@pytest.mark.slow
def test_completion_can_be_shown():
    """The shell is taught by a script that calls the program, and completes commands."""
    shown = run(env={"_PUFFERFLOW_COMPLETE": "source_bash"})
    assert "_PUFFERFLOW_COMPLETE" in shown.stdout
    words = {
        "_PUFFERFLOW_COMPLETE": "complete_bash",
        "COMP_WORDS": "pufferflow le",
        "COMP_CWORD": "1",
    }
    assert run(env=words).stdout.split() == ["ledger"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("script") is None, reason="the program script makes a terminal")
@pytest.mark.parametrize("width", [40, *nightly([80, 120])])
def test_a_real_terminal(tmp_path, width):
    """On a terminal of any width a starter is planned, run and looked at, and no line is too wide."""
    starter.write(tmp_path)
    for words in (
        "plan job.toml",
        "run job.toml",
        "ledger show ledger.db --account meters-2026",
        "plan --help",
    ):
        command = f"stty cols {width}; {' '.join(PROGRAM)} {words}"
        found = subprocess.run(
            ["script", "-qec", command, "/dev/null"],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            env={**environment(TERM="xterm"), "COLUMNS": ""},
        )
        assert found.returncode == 0, found.stdout
        plain = re.sub(r"\x1b\[[0-9;?]*m", "", found.stdout)
        lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\n", plain).splitlines()  # moves of the cursor
        assert max(map(len, lines)) <= width, words


@pytest.mark.slow
def test_two_runs_at_once_release_once(make, tmp_path):
    """Eight processes that run the same period at once leave one charge, one folder, and eight times the same."""
    make()
    processes = [
        start("run", "job.toml", "--period", "2026-11-20", "--json", cwd=tmp_path) for _ in range(8)
    ]
    found = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert [one["exit"] for one in found] == [0] * 8
    assert len({one["runs"][0]["entry"] for one in found}) == 1
    assert sum(one["runs"][0]["sent"] for one in found) == 1
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        assert len(ledger.account("hours-2026").history()) == 1
