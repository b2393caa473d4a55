"""What went wrong once: costs that were understated, streams that are full, files that were replaced."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.cli.output import write
from pufferflow.cli.promises import of_limit

DAY = "2026-11-20"
near = pytest.approx
MONTH = '[schedule]\nperiod = "month"\n'


def cost(give, day):
    return give("plan", "job.toml", "--period", day, "--json").document["cost"]


def spent(give, day):
    found = give("run", "job.toml", "--period", day, "--json").document
    return found["account"]["spent"]["epsilon"]


def changed(before, after):
    job = Path("job.toml")
    text = job.read_text()
    assert before in text
    job.write_text(text.replace(before, after))


def test_a_plan_tells_what_its_run_will_spend(make, give):
    """The total after a release is what the account has spent then, for a limit of another kind too."""
    make(limit=30)
    changed("epsilon = 0.5", "epsilon = 0.5\nalpha = 2")
    changed("{ epsilon = 30 }", "{ epsilon = 30, delta = 1e-6 }")
    for day in (DAY, "2026-11-19"):
        told = cost(give, day)["after"]
        assert told == spent(give, day) > 0.5
    assert cost(give, DAY)["after"] == told


def test_the_total_after_is_told_in_any_order(make, give):
    """A period between two that were released costs what it costs, not what the next in order would."""
    make(
        "scenario = pf.Scenario(pf.Secret('on', domain=[0, 1]), pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),"
        " order_by='hour', step='1h', within='meter')",
        limit=20,
    )
    for day in ("2026-10-01", "2026-10-03"):
        spent(give, day)
    told = cost(give, "2026-10-02")["after"]
    assert told == spent(give, "2026-10-02")


def test_months_are_not_forecast(make, give):
    """Why a schedule of months has no forecast is told."""
    make()
    changed("[schedule]\n", MONTH)
    assert give("run", "job.toml", "--period", "2026-09").exit == 0
    assert "periods differ in length" in give("plan", "job.toml", "--period", "2026-10").out


class Full:
    """A stream on a disk that is full."""

    closed = False

    def write(self, text):
        raise OSError(28, text)

    def fileno(self):
        raise ValueError


def test_a_stream_that_is_full_is_no_error():
    """A stream that cannot be written to, and has no file either, is left alone."""
    write(Full(), "a")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("more", [pytest.param([], marks=pytest.mark.slow), ["--json"]], ids=["words", "json"])
def test_a_full_disk_changes_no_exit_code(make, tmp_path, more):
    """A run whose words cannot be written ends with 0, without a traceback, and has released."""
    make()
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "pufferflow", "run", "job.toml", *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert (found.returncode, "Traceback" in found.stderr) == (0, False)
    assert len(pf.Ledger("ledger.db").account("hours-2026").history()) == 1


@pytest.mark.parametrize("value", ["", "0", "false", "no", "1"])
def test_the_variable_for_tracebacks_can_say_no(make, give, monkeypatch, value):
    """Only a value that says yes shows the words of a function that fails."""
    make("def build(frame, period): raise RuntimeError('row 987')")
    monkeypatch.setenv("PUFFERFLOW_TRACEBACK", value)
    assert ("row 987" in give("plan", "job.toml").err) == (value == "1")


@pytest.fixture
def released(make, give):
    """A job that has run once."""
    make()
    assert give("run", "job.toml", "--period", DAY).exit == 0


@pytest.mark.usefixtures("released")
def test_a_report_of_a_broken_ledger_says_so(give):
    """A ledger that does not verify has its page, a note, and exit code 6."""
    with sqlite3.connect("ledger.db") as base:
        base.execute("PRAGMA writable_schema = 0")
        for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            base.execute(f'DROP TRIGGER "{name}"')
        base.execute("UPDATE pufferflow_events SET body = replace(body, '2026', '2025') WHERE number = 3")
    base.close()
    assert give("ledger", "verify", "ledger.db").exit == 6
    found = give("report", "ledger.db", "-o", "page.html", "--json")
    assert (found.exit, found.document["exit"], found.document["sound"]) == (6, 6, False)
    assert "NOT SOUND" in found.err
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html")


WRITERS = {
    "x.json": ["job", "schema", "-o", "x.json"],
    "x.html": ["report", "ledger.db", "-o", "x.html"],
    "y.html": ["plan", "job.toml", "-o", "y.html"],
}


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("name", thinned(WRITERS, 0.33))
def test_nothing_is_written_over_or_through_a_link(give, name):
    """What is there and no page is replaced only with --force, and what a link leads to never."""
    Path(name).symlink_to("ledger.db")
    assert give(*WRITERS[name]).exit == 2
    assert give("ledger", "verify", "ledger.db").exit == 0
    Path(name).unlink()
    Path(name).write_text("mine")
    assert give(*WRITERS[name]).exit == 2
    assert Path(name).read_text() == "mine"
    assert give(*WRITERS[name], "--force").exit == 0
    assert give(*WRITERS[name]).exit == (2 if name == "x.json" else 0)


@pytest.mark.usefixtures("released")
def test_a_link_is_replaced_and_not_followed(give):
    """With --force the link gives way to the file; what it led to stays."""
    Path("job2.toml").write_text("mine")
    Path("y.html").symlink_to("job2.toml")
    assert give(*WRITERS["y.html"], "--force").exit == 0
    assert (Path("y.html").is_symlink(), Path("job2.toml").read_text()) == (False, "mine")


@pytest.mark.parametrize("address", ["ledger.html", "sqlite:///ledger.html"])
def test_no_page_replaces_the_ledger(make, give, address):
    """A ledger that is called like a page is not replaced by its page, whatever is asked for."""
    make()
    changed("[sink]", '[sink]\npath = "out"')
    changed("limit = ", 'address = "ledger.html"\nlimit = ')
    assert give("run", "job.toml", "--period", DAY).exit == 0
    for words in (["report", address], ["plan", "job.toml"]):
        assert give(*words, "-o", "ledger.html", "--force").exit == 2
    assert give("ledger", "verify", "ledger.html").exit == 0


def test_words_round_up():
    """What is spent is told as no less than it is, and not as more digits than people read."""
    assert of_limit(14.999999999999815, pf.Pure(15.0)) == "epsilon 15 of 15"
    assert of_limit(0.12345601, pf.Pure(0.3)) == "epsilon 0.123457 of 0.3"


@pytest.mark.usefixtures("released")
def test_a_revision_is_told_by_its_name(give):
    """The line of a revision names it."""
    assert give("run", "job.toml", "--period", DAY, "--revision", "2").out.startswith(f"{DAY}.2  released")


@pytest.mark.usefixtures("released")
def test_a_file_that_disagrees_with_its_account_is_noted(give):
    """Another limit or data set than the account's is noted before a run is refused."""
    assert give("job", "check", "job.toml").err == ""
    changed("{ epsilon = 1.0 }", '{ epsilon = 2.0 }\ndataset = "other"')
    found = give("plan", "job.toml", "--json")
    notes = found.document["notes"]
    assert ["limit epsilon 1, the file has epsilon 2" in notes[0], "data set 'hours-2026'" in notes[1]] == [True] * 2
    assert all(note in found.err and note in give("job", "check", "job.toml").err for note in notes)
    assert json.loads(give("job", "check", "job.toml", "--json").out)["exit"] == 0
    assert give("run", "job.toml").exit == 2


def test_a_plan_counts_what_is_reserved_once(make, give):
    """A period that is paid for and was not committed costs nothing more, and a plan says so."""
    make()
    job = pf.Job.read("job.toml")
    plan = job.plan(DAY)
    with pf.Ledger("ledger.db") as ledger:
        account = ledger.open("hours-2026", plan.questions.scenario, limit=pf.Pure(1.0))
        account.reserve(plan._decision, job.id_of(DAY))
    told = cost(give, DAY)
    assert (told["released"], told["after"]) == (False, told["spent"]["epsilon"])
    assert spent(give, DAY) == told["after"]


def test_evidence_of_another_plan_makes_no_page(make, give):
    """A page from a folder tells of its own release: evidence that promises otherwise is refused, with 2."""
    make()
    job = pf.Job.read("job.toml")
    folder = job.run("2026-10-20").folder
    evidence = job.plan("2026-10-20").evidence().to_json()
    (folder / "evidence.json").write_bytes(evidence)
    assert give("report", folder, "-o", "page.html").exit == 0
    (folder / "evidence.json").write_bytes(evidence.replace(b"Pure(epsilon=0.5)", b"Pure(epsilon=0.1)"))
    found = give("report", folder, "-o", "other.html", "--json")
    assert (found.exit, found.document["error"]["kind"]) == (2, "Misuse")
    assert not Path("other.html").exists()
