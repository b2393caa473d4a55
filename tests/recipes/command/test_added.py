"""The command answers people and programs, and its mistakes are errors like all others."""

import json
import subprocess
import sys


def convert(*arguments):
    run = [sys.executable, "-m", "pufferflow", "convert", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_it_answers_people_and_programs():
    """(8, 0.5)-Rényi privacy is worth what `to_approx` says."""
    assert convert("0.5", "--alpha", "8") == (
        0,
        "guarantee  epsilon 0.5, alpha 8\nfollows    epsilon 2.04305, delta 1e-06\n",
    )
    code, out = convert("0.5", "--alpha", "8", "--json")
    assert code == json.loads(out)["exit"] == 0
    assert json.loads(out)["follows"]["promise"] == "Approx"


def test_what_is_no_promise_is_a_mistake():
    """An order below 1 exits with 2."""
    code, out = convert("0.5", "--alpha", "0.5", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, "UsageError")
