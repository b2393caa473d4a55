"""What commands say beside their answers: pages of ledgers that are broken, revisions, files that disagree."""

import json
import sqlite3
from pathlib import Path

import pytest

import pufferflow as pf

DAY = "2026-11-20"


@pytest.mark.usefixtures("released")
def test_a_report_of_a_broken_ledger_says_so(give):
    """A ledger that does not verify has its page, a note, and exit code 6."""
    with sqlite3.connect("ledger.db") as base:
        base.execute("PRAGMA writable_schema = 0")
        for (name,) in base.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            base.execute(f'DROP TRIGGER "{name}"')
        base.execute(
            "UPDATE pufferflow_events SET body = replace(body, '2026', '2025') WHERE number = 3"
        )
    base.close()
    assert give("ledger", "verify", "ledger.db").exit == 6
    found = give("report", "ledger.db", "-o", "page.html", "--json")
    assert (found.exit, found.document["exit"], found.document["sound"]) == (6, 6, False)
    assert "NOT SOUND" in found.err
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html")


@pytest.mark.usefixtures("released")
def test_a_revision_is_told_by_its_name(give):
    """The line of a revision names it."""
    assert give("run", "job.toml", "--period", DAY, "--revision", "2").out.startswith(
        f"{DAY}.2  released"
    )


@pytest.mark.usefixtures("released")
def test_a_file_that_disagrees_with_its_account_is_noted(give, change):
    """Another limit or data set than the account's is noted before a run is refused."""
    assert give("job", "check", "job.toml").err == ""
    change("{ epsilon = 1.0 }", '{ epsilon = 2.0 }\ndataset = "other"')
    found = give("plan", "job.toml", "--json")
    notes = found.document["notes"]
    assert [
        "limit epsilon 1, the file has epsilon 2" in notes[0],
        "data set 'hours-2026'" in notes[1],
    ] == [True] * 2
    assert all(note in found.err and note in give("job", "check", "job.toml").err for note in notes)
    assert json.loads(give("job", "check", "job.toml", "--json").out)["exit"] == 0
    assert give("run", "job.toml").exit == 2


@pytest.mark.slow
def test_evidence_of_another_plan_makes_no_page(make, give):
    """A page from a folder reveals about its own release: evidence that guarantees otherwise is refused, with 2."""
    make()
    job = pf.Job.read("job.toml")
    folder = job.run("2026-10-20").folder
    evidence = job.plan("2026-10-20").evidence().to_json()
    (folder / "evidence.json").write_bytes(evidence)
    assert give("report", folder, "-o", "page.html").exit == 0
    (folder / "evidence.json").write_bytes(
        evidence.replace(b"Pure(epsilon=0.5)", b"Pure(epsilon=0.1)")
    )
    found = give("report", folder, "-o", "other.html", "--json")
    assert (found.exit, found.document["error"]["kind"]) == (2, "UsageError")
    assert not Path("other.html").exists()
