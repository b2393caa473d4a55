"""The examples run as they are, as scripts, without a warning."""

import subprocess
import sys
from pathlib import Path

import pytest
from strict import STRICT

ARGUMENTS = {"year_of_days": ["12"]}
FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))  # those about papers: tests/docs/test_paper_scripts.py


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(script, tmp_path):
    """Each example ends well in an empty folder and prints something."""
    result = subprocess.run(
        [
            sys.executable,
            *STRICT,
            script,
            *ARGUMENTS.get(script.stem, []),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.strip()
