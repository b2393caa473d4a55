"""Ranges of periods, in order and each once; what a job waits for is said; what would go wrong later is found first."""

import datetime as dt
import logging
import os
import threading

import msgspec
import pytest

import pufferflow as pf
from pufferflow.core import durable_files as durable
from pufferflow.core import progress
from pufferflow.jobs import job as room

SINCE, UNTIL = "2026-10-18", "2026-10-21"
DAYS = ["2026-10-18", "2026-10-19", "2026-10-20", "2026-10-21"]
ZONED = '[schedule]\ntimezone = "{}"\n'


def entries(job):
    account = job.account()
    return (
        [] if account is None else [(entry.release_id, entry.state) for entry in account.history()]
    )


def labels(job):
    return [name.removeprefix("hours-") for name, state in entries(job) if state == "committed"]


@pytest.mark.slow
def test_a_range_is_released_in_order_and_each_period_once(make):
    """From `since` until `until`, both included; what is there already is left out."""
    job = make(limit=9.0)
    job.run(DAYS[2])
    job.run("2026-10-24")
    assert [str(period) for period in job.missed(SINCE, until=UNTIL)] == [DAYS[0], DAYS[1], DAYS[3]]
    assert [ran.period for ran in job.catch_up(SINCE, until=UNTIL)] == [DAYS[0], DAYS[1], DAYS[3]]
    assert list(job.catch_up(SINCE, until=UNTIL)) == []
    assert sorted(labels(job)) == [*DAYS, "2026-10-24"]


@pytest.mark.slow
def test_a_range_before_the_first_release_is_a_range_too(make):
    """Old periods are released after newer ones: the order of the range is that of time."""
    job = make(limit=9.0)
    job.run(DAYS[3])
    assert [ran.period for ran in job.catch_up(DAYS[0], until=DAYS[1])] == DAYS[:2]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"until": UNTIL}, "without since"),
        ({"since": UNTIL, "until": SINCE}, "from 2026-10-21 until 2026-10-18, which is earlier"),
        ({"since": SINCE, "until": "2999-01-01"}, "not over"),
        ({"since": SINCE, "until": "2026-W43"}, "name of one day"),
    ],
)
def test_ranges_that_are_none_are_refused(make, given, told):
    """A range has a beginning that is not after its end, and an end that is over."""
    with pytest.raises(pf.UsageError, match=told):
        make().missed(**given)


def test_all_periods_of_a_range_are_known_beforehand(make):
    """Whether they were released or not, so that progress can be counted."""
    assert [str(period) for period in make().between(SINCE, UNTIL)] == DAYS


# What is said while nothing moves


def test_a_failed_attempt_is_logged_with_what_comes_next(make, caplog):
    """The line has the release, the attempt of how many, what failed, and how long until the next."""
    job = make(
        "def build(frame, period): raise pf.SourceError('The rows have not come.')", attempts=3
    )
    seen = []
    with caplog.at_level(logging.WARNING, "pufferflow"), pytest.raises(pf.SourceError):
        job.run(DAYS[0], wait=lambda _: seen.append(caplog.messages[-1]))
    start = f"hours-{DAYS[0]}: attempt "
    assert seen == [
        f"{start}{number} of 3 failed: The rows have not come. Waiting 7s before the next."
        for number in (1, 2)
    ]
    assert caplog.messages == seen


def test_steps_are_logged_for_whoever_wants_them(make, caplog):
    """A run says when it plans and when it reads private rows, at a level that is not shown by default."""
    with caplog.at_level(logging.INFO, "pufferflow"):
        make().run(DAYS[0])
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert [text.split(": ")[1].split()[0] for text in caplog.messages] == ["planning;", "reading"]


def test_a_wait_is_logged_once_it_lasts(monkeypatch, caplog):
    """A short wait says nothing; a long one says what is awaited, and for how long at most."""
    monkeypatch.setattr(progress, "SAID_AFTER", 0.01)
    said = threading.Event()
    monkeypatch.setattr(
        progress._log, "warning", lambda *given: said.set() or caplog.records.append(given)
    )
    with progress.waiting_for("the ledger", 30):
        assert said.wait(10)
    assert caplog.records == [("Waiting for %s%s.", "the ledger", ", for up to 30 s")]
    monkeypatch.setattr(progress, "SAID_AFTER", 60)
    with progress.waiting_for("nothing"):
        pass
    assert len(caplog.records) == 1


def test_waits_for_a_folder_and_for_a_ledger_are_said(tmp_path, monkeypatch, caplog):
    """Whoever holds the lock of a folder, or of a ledger, is waited for with a word."""
    monkeypatch.setattr(progress, "SAID_AFTER", 0.01)
    folder, handle = tmp_path / "there", None
    folder.mkdir()
    with durable.exclusive_access(folder):
        handle = os.open(folder, os.O_RDONLY)
        monkeypatch.setattr(durable, "_A_MINUTE", 0.3)
        with durable.exclusive_access(folder):
            os.close(handle)
    assert any("another process that writes to" in text for text in caplog.messages)
    pf.Ledger(tmp_path / "ledger.db").close()
    import sqlite3

    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())
    with pf.Ledger(tmp_path / "ledger.db", wait=0.3) as ledger, pytest.raises(pf.LedgerError):
        ledger.open("a", scenario, limit=pf.Pure(1.0))
    other.close()
    assert any("Waiting for the ledger" in text for text in caplog.messages)


# What is found before anything is paid


def test_a_sink_that_is_a_file_is_found_before_the_charge(make):
    """Nothing is charged for a release that could not be written; when the file is gone, the run goes on."""
    job = make()
    (job.folder / "published").write_text("in the way")
    with pytest.raises(pf.SinkError, match="Nothing could be written"):
        job.run(DAYS[0])
    assert entries(job) == []
    (job.folder / "published").unlink()
    assert job.run(DAYS[0]).state == "released"
    assert sorted(path.name for path in (job.folder / "published").iterdir()) == [DAYS[0]]


def test_a_sink_below_a_file_is_found_before_the_charge(make):
    """Nor can a folder be made below a file."""
    job = make()
    (job.folder / "job.toml").write_text(
        (job.folder / "job.toml").read_text().replace("[sink]", '[sink]\npath = "a/b"')
    )
    (job.folder / "a").write_text("in the way")
    with pytest.raises(pf.SinkError):
        pf.Job.read(job.path).run(DAYS[0])
    assert entries(job) == []


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_sink_that_may_not_be_written_to_is_found_before_the_charge(make):
    """Permissions are tried, not guessed."""
    job = make()
    (job.folder / "published").mkdir(mode=0o500)
    with pytest.raises(pf.SinkError, match="denied"):
        job.run(DAYS[0])
    assert entries(job) == []


@pytest.mark.parametrize("what", ["file", "table", "schema"])
def test_a_place_that_is_taken_is_found_before_the_charge(make, what):
    """The place of the period itself may be a file, or a folder with files that are called as a release's are."""
    job = make()
    place = job.folder / "published" / DAYS[0]
    if what == "file":
        place.parent.mkdir()
        place.write_text("in the way")
    else:
        place.mkdir(parents=True)
        (place / {"table": "release.parquet", "schema": "schema.json"}[what]).write_text(
            "somebody's"
        )
    with pytest.raises((pf.SinkError, pf.UsageError), match="Nothing was drawn or charged"):
        job.run(DAYS[0])
    assert entries(job) == []


def test_a_folder_that_is_there_with_other_files_is_no_obstacle(make):
    """Notes beside a release are nobody's business."""
    job = make()
    place = job.folder / "published" / DAYS[0]
    place.mkdir(parents=True)
    (place / "notes.txt").write_text("mine")
    assert job.run(DAYS[0]).state == "released"


# Time zones


def test_the_certificate_names_the_period_and_its_time_zone(make):
    """So the ledger, which keeps it, knows in which zone a period was."""
    ran = make(file=ZONED.format("Europe/Berlin")).run(DAYS[0])
    period = ran.release.certificate.period
    assert (period.name, period.every, period.zone) == (DAYS[0], "day", "Europe/Berlin")
    assert ("period", f"{DAYS[0]}, a day in Europe/Berlin") in ran.release.certificate.rows()
    assert pf.Certificate.from_json(ran.release.certificate.to_json()) == ran.release.certificate
    assert (
        make(file=ZONED.format("Europe/Berlin")).account().release(ran.id).certificate.period
        == period
    )


@pytest.mark.slow
def test_a_changed_time_zone_is_refused_before_the_charge(make):
    """Some rows would be in two periods, or in none; what was released before comes back, with a note."""
    make(file=ZONED.format("Europe/Berlin"), limit=9.0).run(DAYS[0])
    job = make(file=ZONED.format("America/New_York"), limit=9.0)
    with pytest.raises(
        pf.UsageError,
        match=r"'Europe/Berlin', and the job now has 'America/New_York'.*in two periods",
    ):
        job.run(DAYS[1])
    assert labels(job) == [DAYS[0]]
    again = job.run(DAYS[0])
    assert (again.state, again.notes) == (
        "kept",
        ("it is of the period in 'Europe/Berlin', before the job had 'America/New_York'",),
    )
    assert make(file=ZONED.format("Europe/Berlin"), limit=9.0).run(DAYS[1]).drawn


def test_a_job_of_another_name_may_have_another_time_zone(make):
    """The way on: its periods are others, and the account may be the same."""
    make(file=ZONED.format("Europe/Berlin"), limit=9.0).run(DAYS[0])
    job = make(file=ZONED.format("America/New_York"), limit=9.0)
    text = (
        job.path.read_text()
        .replace('"hours"', '"new-york"')
        .replace("[sink]", '[sink]\npath = "other"')
    )
    job.path.write_text(text)
    assert pf.Job.read(job.path).run(DAYS[1]).drawn


def test_releases_of_older_versions_say_no_time_zone_and_stop_nothing(make, monkeypatch):
    """Their certificates have no period."""
    monkeypatch.setattr(pf.Plan, "covering", lambda plan, _: plan)
    make(limit=9.0).run(DAYS[0])
    monkeypatch.undo()
    assert make(file=ZONED.format("Europe/Berlin"), limit=9.0).run(DAYS[1]).drawn


def test_a_cost_that_an_older_version_reserved_is_completed(make, monkeypatch):
    """The period is no part of what a reserved cost is compared by."""
    job = make()

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pf.Plan, "covering", lambda plan, _: plan)
        patched.setattr(room, "_log", logging.getLogger("pufferflow.test"))
        from pufferflow.release.mechanisms import additive as publication

        patched.setattr(publication, "add_noise", stop)
        with pytest.raises(KeyboardInterrupt):
            job.run(DAYS[0])
    assert entries(job) == [(f"hours-{DAYS[0]}", "reserved")]
    ran = job.run(DAYS[0])
    assert ran.drawn
    assert ran.release.certificate.period.zone == "UTC"
    assert entries(job) == [(f"hours-{DAYS[0]}", "committed")]


def test_periods_of_plans_are_in_their_certificates(make):
    """A plan shows what will be certified; the digest of a certificate is that of the plan without a period."""
    plan = make().plan(dt.date(2026, 10, 20))
    assert plan.certificate.period.name == "2026-10-20"
    without = msgspec.structs.replace(plan.certificate, period=None)
    assert without.digest == plan.certificate.digest
