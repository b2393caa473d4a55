"""Every command: what people are told, and the keys that programs may count on, which are documented."""

import json
from pathlib import Path

import pytest
from documented import KEYS, PARTS
from thinned import thinned

import pufferflow as pf

DAY = "2026-11-20"
near = pytest.approx


def check(document, command):
    """The keys of a document are those that the documentation lists, and `exit`."""
    assert set(document) == {*KEYS[command], "exit"}, command


def check_parts(parts, command, name):
    """So are those of each of its parts."""
    assert parts
    for part in parts:
        assert set(part) == set(PARTS[command, name])


@pytest.fixture
def spent(make, give):
    """A job that has run once; its folder is the current one."""
    make()
    assert give("run", "job.toml", "--period", DAY).exit == 0


def test_plan_tells_noise_cost_and_the_sentence(make, give):
    """A plan before the first run opens no account, makes no ledger, and ends with the sentence to sign."""
    make()
    told = give("plan", "job.toml", "--period", DAY)
    assert (told.exit, told.err) == (0, "")
    for part in (
        "on_sum",
        "Laplace",
        "the first run opens it",
        "epsilon 0.5 of 1",
        "Published: the sum of on",
    ):
        assert part in told.out
    assert "Read: on_sum: null in 'on' counts as 0" in told.out
    assert not Path("ledger.db").exists()


def test_plan_for_programs(make, give):
    """The document of a plan has its cells, its cost and the sentence."""
    make()
    found = give("plan", "job.toml", "--period", DAY, "--json").document
    check(found, "plan")
    check_parts(found["cells"], "plan", "cells")
    cost = {
        "account": "hours-2026",
        "opened": False,
        "released": False,
        "spent": None,
        "after": near(0.5),
    }
    assert {name: found["cost"][name] for name in cost} == cost
    assert found["promise"] == {"promise": "Pure", "epsilon": 0.5}
    assert found["id"] == "hours-2026-11-20"
    assert found["value_handling"] == [
        "on_sum: null in 'on' counts as 0; numbers below 0 as 0, numbers above 1 as 1"
    ]


@pytest.mark.usefixtures("spent")
def test_plan_counts_on_its_account(give):
    """After a run, a plan says what is spent, the total after it, and how many more fit."""
    again = give("plan", "job.toml", "--period", DAY, "--json").document["cost"]
    assert again["released"]
    assert again["spent"]["epsilon"] == again["after"] == near(0.5)
    other = give("plan", "job.toml", "--period", "2026-11-19", "--json").document["cost"]
    assert (other["released"], other["after"], other["fits"], other["endless"]) == (
        False,
        near(1),
        1,
        None,
    )
    told = give("plan", "job.toml", "--period", "2026-11-19").out
    assert "epsilon 0.5 of 1" in told
    assert "1 more release about the same rows" in told


def test_plan_reads_no_private_row(make, give):
    """A source that fails at the private column does not stop a plan."""
    make(
        """
        def explode(values):
            raise RuntimeError("read")

        def rows(period):
            frame = pl.LazyFrame({"meter": [1, 1], "hour": [period.start, period.start.replace(hour=1)]})
            return frame.with_columns(pl.col("hour").map_batches(explode, return_dtype=pl.Int64).alias("on"))
        """
    )
    assert give("plan", "job.toml").exit == 0
    assert give("run", "job.toml").exit == 5


@pytest.mark.slow
def test_plan_writes_its_page(make, give):
    """With -o the page is there, and its path is told; a name that is no page's is refused."""
    make()
    found = give("plan", "job.toml", "-o", "plan.html", "--json")
    assert "The report is plan.html." in found.err
    assert found.document["page"] == "plan.html"
    assert Path("plan.html").read_text(encoding="utf-8").startswith("<!doctype html")
    assert give("plan", "job.toml", "-o", "job.toml").exit == 2


@pytest.mark.slow
def test_plan_says_which_numbers_say_nothing(make, give):
    """On the screen below the numbers and in the sentence; programs have the whole check; and it is on the page."""
    make()
    line = "on_sum says nothing: noise of ± 144 hides a difference of 6"
    out = give("plan", "job.toml", "--period", DAY, "-o", "plan.html").out
    assert out.count(f"Note: {line}.") == 1
    assert "1 of 1 numbers is useless, such as on_sum:\n  Noise of ± 144" in out
    assert "Remedies: 96 times the epsilon" in out
    (check,) = give("plan", "job.toml", "--period", DAY, "--json").document["check"]
    assert (check["verdict"], check["query"], check["signal"]) == ("useless", "on_sum", 6.0)
    page = Path("plan.html").read_text(encoding="utf-8")
    first = page[: page.index("</header>")]
    assert "Useless" in first
    assert first.index("on_sum") < first.index("I approve this plan")
    Path("job.toml").write_text(
        Path("job.toml").read_text().replace("epsilon = 0.5", "epsilon = 500")
    )
    (check,) = give("plan", "job.toml", "--period", DAY, "--json").document["check"]
    assert check["verdict"] == "useful"


@pytest.mark.slow
def test_pages_say_which_job_and_period_they_are_of(make, give):
    """The page of a plan, that of a run, and one that is written again name the job, the period and the data set."""
    path = make()
    text = (
        path.read_text()
        .replace("report = false", "")
        .replace("[sink]", 'dataset = "meters"\n[sink]')
    )
    path.write_text(text)
    assert give("plan", "job.toml", "--period", DAY, "-o", "plan.html").exit == 0
    assert give("run", "job.toml", "--period", DAY).exit == 0
    assert give("report", Path("published", DAY), "-o", "again.html").exit == 0
    for page in (Path("plan.html"), Path("published", DAY, "report.html"), Path("again.html")):
        html = page.read_text(encoding="utf-8")
        heading = html[: html.index("<nav")]
        assert all(f">{name}</dd>" in heading for name in ("hours", DAY, "meters"))
        assert "<dt>Written</dt>" in heading


def test_run_is_one_line_a_period(make, give):
    """A first run releases, a second keeps, and a folder that went away is written again."""
    make()
    told = [give("run", "job.toml", "--period", DAY).out for _ in range(2)]
    Path("published", DAY, "release.parquet").unlink()
    told.append(give("run", "job.toml", "--period", DAY).out)
    assert [line.split()[1] for line in told] == ["released", "kept", "sent"]
    assert all("spent epsilon 0.5 of 1" in line and f"published/{DAY}" in line for line in told)
    assert len(pf.Ledger("ledger.db").account("hours-2026").history()) == 1


def test_run_for_programs(make, give):
    """The document of a run reveals about each period, and of the account."""
    make()
    found = give("run", "job.toml", "--period", DAY, "--json").document
    check(found, "run")
    check_parts(found["runs"], "run", "runs")
    assert found["account"] == {
        "name": "hours-2026",
        "spent": {"promise": "Pure", "epsilon": near(0.5)},
        "limit": {"promise": "Pure", "epsilon": 1.0},
    }
    assert found["runs"][0]["noise"][0]["noise"] == "Laplace"


@pytest.mark.usefixtures("spent")
def test_a_revision_is_paid_for(give):
    """A revision is a release of its own, in a folder of its own."""
    found = give("run", "job.toml", "--period", DAY, "--revision", 2, "--json").document
    assert found["runs"][0]["id"].endswith("-2026-11-20.2")
    assert found["account"]["spent"]["epsilon"] == near(1)


def test_since_tells_of_each_period(make, give):
    """Periods that were missed are made good, oldest first; a second time there is nothing left to do."""
    make(limit=1000)
    yesterday = pf.Job.read("job.toml").period()
    first = str(yesterday.previous())
    assert give("run", "job.toml", "--since", first, "--json").document["account"]["spent"][
        "epsilon"
    ] == near(1)
    told = give("run", "job.toml", "--since", first)
    assert (told.exit, told.out) == (
        0,
        f"2 periods from {first} until {yesterday}: all are released.\n",
    )


def test_an_error_on_the_way_tells_what_was_done(make, give):
    """Of --since, what was done is told, then the error, with the error's code."""
    make(limit=0.7)
    first = str(pf.Job.read("job.toml").period().previous())
    found = give("run", "job.toml", "--since", first, "--json")
    assert (found.exit, found.document["exit"]) == (4, 4)
    assert [one["state"] for one in found.document["runs"]] == ["released"]
    assert found.document["error"]["kind"] == "LimitReached"
    told = give("run", "job.toml", "--since", first)
    assert (told.exit, told.out.count("\n")) == (4, 1)
    assert told.err.startswith("LimitReached: ")


@pytest.mark.usefixtures("spent")
def test_ledger_show(give):
    """All accounts, or the history of one."""
    told = give("ledger", "show", "ledger.db")
    assert [line.split()[0] for line in told.out.splitlines()] == ["account", "hours-2026"]
    assert "hours-2026-11-20" in give("ledger", "show", "ledger.db", "--account", "hours-2026").out
    found = give("ledger", "show", "ledger.db", "--json").document
    check(found, "ledger show")
    check_parts(found["accounts"], "ledger show", "accounts")
    one = give("ledger", "show", "ledger.db", "--account", "hours-2026", "--json").document[
        "accounts"
    ][0]
    check_parts(one.pop("history"), "ledger show", "history")
    assert one == found["accounts"][0]
    assert give("ledger", "show", "ledger.db", "--account", "other").exit == 2


def test_ledger_show_without_accounts(tmp_path, give):
    """A ledger without accounts is no error."""
    pf.Ledger(tmp_path / "new.db").close()
    assert give("ledger", "show", tmp_path / "new.db").out == "The ledger has no account.\n"


@pytest.mark.usefixtures("spent")
def test_ledger_verify(give):
    """A ledger verifies, compares with a head that was kept, and exits with 6 if it is another's."""
    found = give("ledger", "verify", "ledger.db", "--json").document
    check(found, "ledger verify")
    assert (found["sound"], found["compared"], found["entries"]) == (True, False, 3)
    kept = give("ledger", "verify", "ledger.db", "--head", found["head"], "--json").document
    assert kept["compared"]
    assert "all sound" in give("ledger", "verify", "ledger.db").out
    assert give("ledger", "verify", "ledger.db", "--head", "2:" + "0" * 64).exit == 6
    assert give("ledger", "verify", "ledger.db", "--head", "nonsense").exit == 2


@pytest.mark.usefixtures("spent")
def test_ledger_export(give):
    """Entries are written once, and replaced only if one says so."""
    found = give("ledger", "export", "ledger.db", "-o", "entries.ndjson", "--json").document
    check(found, "ledger export")
    lines = Path("entries.ndjson").read_text(encoding="utf-8").splitlines()
    assert (len(lines), found["bytes"]) == (found["entries"], Path("entries.ndjson").stat().st_size)
    assert give("ledger", "export", "ledger.db", "-o", "entries.ndjson").exit == 2
    assert give("ledger", "export", "ledger.db", "-o", "entries.ndjson", "--force").exit == 0
    assert give("ledger", "export", "ledger.db", "-o", "ledger.db", "--force").exit == 2
    assert give("ledger", "verify", "ledger.db").exit == 0


@pytest.mark.usefixtures("spent")
@pytest.mark.parametrize("kind", thinned(["ledger", "release"], 0.5))
def test_report(give, kind):
    """A release and a ledger have pages; what is written is told with its size."""
    what = "ledger.db" if kind == "ledger" else f"published/{DAY}"
    found = give("report", what, "-o", "page.html", "--json").document
    check(found, "report")
    size, sound = Path("page.html").stat().st_size, True if kind == "ledger" else None
    assert found == {"kind": kind, "path": "page.html", "bytes": size, "sound": sound, "exit": 0}
    assert give("report", what, "-o", "page.html").out.startswith("page.html: the report on a ")
    assert give("report", what, "-o", "ledger.db").exit == 2
    assert give("ledger", "verify", "ledger.db").exit == 0


@pytest.mark.slow
@pytest.mark.usefixtures("spent")
def test_report_uses_the_evidence_beside_a_release(give):
    """Evidence in the folder makes the page longer; damaged evidence is an error, not a shorter page."""
    folder = Path("published", DAY)
    plain = give("report", folder, "-o", "page.html", "--json").document["bytes"]
    job = pf.Job.read("job.toml")
    (folder / "evidence.json").write_bytes(job.evidence(job.plan(DAY)).to_json())
    assert give("report", folder, "-o", "page.html", "--json").document["bytes"] > plain
    (folder / "evidence.json").write_text("{}")
    assert give("report", folder, "-o", "page.html").exit == 2


def test_audit(make, give, monkeypatch):
    """An attack that breaks nothing exits with 0; a guarantee that is broken exits with 3, loudly."""
    make()
    found = give("audit", "job.toml", "--trials", 20_000, "--json")
    check(found.document, "audit")
    assert (found.exit, found.document["holds"], found.document["trials"]) == (0, True, 20_000)

    def broken(plan, **given):
        return pf.audit.Attack(
            2.0, plan.guarantee, plan.guarantee, given["confidence"], given["trials"], "e", "p"
        )

    monkeypatch.setattr("pufferflow.audit.attack", broken)
    found = give("audit", "job.toml", "--json")
    assert (found.exit, found.document["exit"], found.document["holds"]) == (3, 3, False)
    told = give("audit", "job.toml")
    assert told.exit == 3
    assert "THE GUARANTEE IS BROKEN" in told.out
    assert "THE GUARANTEE IS BROKEN" in told.err


def test_job_init(tmp_path, monkeypatch, give):
    """A starter is written here or in another folder, says what to do next, and replaces nothing."""
    monkeypatch.chdir(tmp_path)
    told = give("job", "init")
    assert "pufferflow plan job.toml" in told.out
    assert give("job", "init").exit == 2
    found = give("job", "init", "a/b", "--json").document
    check(found, "job init")
    assert all(Path(name).is_file() for name in found["files"])
    assert found["next"][0] == "pufferflow plan a/b/job.toml"


def test_job_schema(tmp_path, monkeypatch, give):
    """The schema comes on stdout, in a file, or in a document."""
    monkeypatch.chdir(tmp_path)
    schema = json.loads(give("job", "schema").out)
    found = give("job", "schema", "-o", "job.schema.json", "--json").document
    check(found, "job schema")
    assert (
        schema == found["schema"] == json.loads(Path("job.schema.json").read_text(encoding="utf-8"))
    )
    assert give("job", "schema", "-o", "job.toml").exit == 2
    assert give("job", "schema", "-o", "no/such/folder.json").exit == 2


def test_job_check_touches_no_data(make, give):
    """A check imports functions and calls none; it says what is due, and makes no ledger."""
    make("def rows(period): raise RuntimeError")
    found = give("job", "check", "job.toml", "--json").document
    check(found, "job check")
    assert found["next"].endswith("03:00:00+00:00")
    assert "epsilon 0.5" in give("job", "check", "job.toml").out
    assert not Path("ledger.db").exists()
    make("del build")
    assert give("job", "check", "job.toml").exit == 2


def test_schedule_tells_of_runs_failures_and_the_next_time(make, give, monkeypatch):
    """A schedule logs what it is told, with the time, and counts it for the document."""
    make()
    ran = pf.Job.read("job.toml").run(DAY)

    def keep_running(job, since, told):
        assert since is None
        told(ran)
        told(pf.SourceError("No file."))
        told(job.period().ends)

    monkeypatch.setattr("pufferflow.jobs.scheduling.schedule", keep_running)
    lines = give("schedule", "job.toml").out.splitlines()
    assert [DAY in lines[0], "SourceError: No file." in lines[1], "next run" in lines[2]] == [
        True
    ] * 3
    assert lines[3].endswith("Stopped.")
    found = give("schedule", "job.toml", "--json")
    check(found.document, "schedule")
    assert (found.document["runs"], found.document["failures"]) == (1, 1)
    assert len(found.err.splitlines()) == 4
