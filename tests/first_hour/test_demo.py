"""`make demo` is the first thing that a stranger runs: a story in a terminal of 80 columns, the same every time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from strict import STRICT

SCRIPT = Path(__file__).parents[2] / "examples" / "district_of_meters.py"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What two runs in one folder print, and the folder."""
    folder = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "COLUMNS": "80"}
    printed = [
        subprocess.run(
            [sys.executable, *STRICT, SCRIPT],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env=environment,
        )
        for _ in range(2)
    ]
    assert [one.stderr for one in printed] == ["", ""]
    return [one.stdout for one in printed], folder


def test_it_fits_a_terminal_of_80_columns(runs):
    """No line is wrapped or longer than 80 signs, and all of it is about a screen and a half."""
    for text in runs[0]:
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        assert 30 <= len(lines) <= 55


def test_it_has_a_story(runs):
    """What is protected from whom, what ordinary differential privacy keeps, the noise, numbers, account, report."""
    text = runs[0][0]
    parts = (
        *("Protected", "Not hidden", "ordinary differential privacy", "epsilon 11.1"),
        *("66,385-fold", "scale 104", "2026-11-02", "Epsilon 1 of 2 is spent", "The report"),
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert len(re.findall(r"2026-11-0\d   -?[\d,]+ ± 313 +-?[\d,]+ ± 104 +#+", text)) == 7


def test_a_second_run_returns_the_same_release(runs):
    """It draws no noise and charges nothing, and says so; the head of the ledger stays."""
    first, second = (text.splitlines() for text in runs[0])
    differ = [
        place for place, (one, other) in enumerate(zip(first, second, strict=True)) if one != other
    ]
    assert len(differ) == 1
    assert "A second run returns the same numbers" in first[differ[0]]
    assert "This run returned the numbers of the first" in second[differ[0]]


def test_the_report_is_there(runs):
    """The report that is named lies in the folder, with a line to sign."""
    (name,) = re.findall(r"Open (\S+) in a browser", runs[0][0])
    assert 'class="sign"' in (runs[1] / name).read_text(encoding="utf-8")
