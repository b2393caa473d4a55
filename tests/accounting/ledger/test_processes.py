"""What a ledger owes however many use it and whenever they die: never overspent, never lost, one noise for an id."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from strict import STRICT
from thinned import nightly

HERE = Path(__file__).parent


def holds(*stories, timeout=900):
    """Run stories in processes of their own: what happens, where, how often; all end with no guarantee broken."""
    path = os.pathsep.join([str(HERE.parents[1] / "support"), str(HERE.parents[2])])
    words = [str(word) for story in stories for word in story]
    command = [
        sys.executable,
        *STRICT,
        str(HERE / "processes.py"),
        *words,
    ]
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as errors:  # processes that are left would keep a pipe open
        with subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment,
            start_new_session=True,
        ) as story:
            try:
                code = story.wait(timeout)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(story.pid, signal.SIGKILL)
        errors.seek(0)
        assert code == 0, errors.read()[-3000:]


@pytest.mark.slow
def test_races_and_deaths(addresses):
    """Racing processes make one ledger, spend no more than the budget, share one noise; killed ones lose nothing."""
    holds(
        ("first", next(addresses), 6),
        ("budget", next(addresses), 4),
        ("one_id", next(addresses), 4),
        ("lines", next(addresses), -80),
    )


@pytest.mark.slow
def test_files_that_are_taken_away(tmp_path):
    """Whatever is removed, replaced or emptied beneath processes that release, what is given out is charged."""
    holds(("taken", tmp_path / "taken", 13), ("overtaken", tmp_path / "overtaken", 1))


@pytest.mark.slow
def test_files_that_are_taken_away_in_all_ways(tmp_path):
    """The same for each file and each way, and for processes that only close what they had open."""
    holds(("taken", tmp_path / "taken", 1), ("overtaken", tmp_path / "overtaken", 5))


@pytest.mark.slow
def test_many_race(addresses):
    """However many race, all of the budget is spent and no more, and each id has one noise."""
    holds(
        *(("budget", next(addresses), count) for count in (2, 8, 16)),
        ("one_id", next(addresses), 16),
    )


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, *nightly([2])])
def test_killed_between_statements(addresses, times):
    """Killed between any two statements of reserving, reading, drawing and committing, as often as is said."""
    holds(("steps", next(addresses), times))


@pytest.mark.slow
@pytest.mark.parametrize("times", [-9, *nightly([1])], ids=["every ninth", "each"])
def test_killed_before_every_line(addresses, times):
    """Killed before any line of the ledger's own code."""
    holds(("lines", next(addresses), times))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [100, *nightly([500])])
def test_killed_at_any_moment(addresses, kills):
    """Two processes at the same ids, killed at random moments: nothing is lost, and no id has two noises."""
    holds(("moments", next(addresses), kills))


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, *nightly([1])])
def test_killed_while_it_is_made(tmp_path, every):
    """A ledger that is killed while it is made, before one of so many lines, is made by the next that opens it."""
    holds(("opening", tmp_path / "ledger.db", every))
