"""What reviews found: ways to pay twice, to publish another job's numbers, to lose a release, to say what is not so."""

import datetime as dt
import json
import re
from zoneinfo import ZoneInfo

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.jobs import job as room
from pufferflow.jobs.sink import EVIDENCE, PAGE

DAY, NEXT = "2026-10-20", "2026-10-21"


@pytest.fixture
def today(monkeypatch):
    """The last period that is over is the 22nd of October."""
    monkeypatch.setattr(room, "last_complete", lambda every, zone, _: pf.Period.read("2026-10-22", every, zone))


def entries(job):
    return [(entry.release_id, entry.state) for entry in job.account().history()]


def test_a_ledger_that_was_moved_away_is_not_begun_anew(make, tmp_path):
    """Where releases are that a ledger paid for, another one that knows nothing of them does not begin."""
    job = make()
    job.run(DAY)
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    for day in (DAY, NEXT):
        with pytest.raises(pf.Misuse, match="ledger is not there"):
            job.run(day)
    assert not (tmp_path / "ledger.db").exists()
    (tmp_path / "elsewhere.db").rename(tmp_path / "ledger.db")
    assert job.run(DAY).state == "kept"


def test_a_folder_of_another_ledger_or_job_is_refused_before_anything_is_paid(make, tmp_path):
    """A period's folder with a release that the account does not know costs nothing and stays as it is."""
    job = make()
    ran = job.run(DAY)
    text = job.path.read_text()
    for old, new in (('name = "hours"', 'name = "other"'), ("hours-2026", "another-account")):
        (tmp_path / "other.toml").write_text(text.replace(old, new).replace("[ledger]", '[ledger]\ndataset = "b"'))
        other = pf.Job.read(tmp_path / "other.toml")
        with pytest.raises(pf.Misuse, match="does not know"):
            other.run(DAY)
    assert entries(job) == [(f"hours-{DAY}", "committed")]
    assert pf.Release.read(ran.folder).frame.equals(ran.release.frame)


@pytest.mark.parametrize("start", ["sqlite:///", "sqlite+pysqlite:///"])
def test_a_ledger_is_where_the_file_says_from_wherever_it_is_run(start, make, tmp_path, monkeypatch):
    """A relative address is relative to the job file, also as a URL: one account, not one for each folder."""
    job = make()
    job.path.write_text(job.path.read_text().replace("[ledger]", f'[ledger]\naddress = "{start}own.db"'))
    (tmp_path / "away").mkdir()
    for place, day in ((tmp_path, DAY), (tmp_path / "away", NEXT)):
        monkeypatch.chdir(place)
        pf.Job.read(job.path).run(day)
    assert len(entries(pf.Job.read(job.path))) == 2
    assert not list((tmp_path / "away").iterdir())


def test_a_page_tells_of_the_release_and_not_of_todays_job(make):
    """After the job was edited, the page of a release that is kept has no evidence of another promise."""
    job = make()
    job.run(DAY)
    text = job.path.read_text().replace("epsilon = 0.5", "epsilon = 0.25").replace("report = false", "report = true")
    job.path.write_text(text)
    ran = pf.Job.read(job.path).run(DAY)
    assert ran.state == "kept"
    assert any("Pure(epsilon=0.5), before the job asked for Pure(epsilon=0.25)" in note for note in ran.notes)
    assert any("no evidence" in note for note in ran.notes)
    assert not (ran.folder / EVIDENCE).exists()
    assert "epsilon=0.25" not in (ran.folder / PAGE).read_text()


@pytest.mark.usefixtures("today")
def test_one_folder_that_cannot_be_written_holds_up_no_other(make):
    """The periods after one whose place is taken are released; the error is told at the end."""
    job = make()
    job.run("2026-10-19")
    (job.folder / "published" / DAY).write_text("in the way")
    found = []
    with pytest.raises(pf.SinkFailed):
        found.extend(ran.period for ran in job.catch_up())
    assert found == [NEXT, "2026-10-22"]
    (job.folder / "published" / DAY).unlink()
    assert [(ran.period, ran.state) for ran in job.catch_up()] == [(DAY, "sent again")]


def test_an_empty_variable_is_no_place(make, monkeypatch):
    """A sink whose variable is empty would be the folder of the job itself."""
    job = make()
    job.path.write_text(job.path.read_text().replace("[sink]", '[sink]\npath = "${NOWHERE}"'))
    monkeypatch.setenv("NOWHERE", "")
    with pytest.raises(pf.Misuse, match="NOWHERE"):
        pf.Job.read(job.path).run(DAY)


ZONED = """
aware = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), order_by="at", step="1h", within="meter")
def rows(period, real=rows):
    return real(period).with_columns(at=pl.col("hour").dt.replace_time_zone("UTC"))
def build(frame, period):
    {moments}
    return pf.protect(frame, aware).filter(at >= start, at < end).private_sum("on")
"""


@pytest.mark.parametrize(
    "moments",
    [
        'at, start, end = pl.col("at"), period.start, period.end',
        'at, start, end = pl.col("at"), period.begins, period.ends',
    ],
)
def test_times_of_other_zones_are_misuse_and_not_rows_that_are_late(moments, make):
    """What compares times of different zones will not go away by waiting: it is told at once, and how to mend it."""
    job = make(ZONED.format(moments=moments), file='[schedule]\ntimezone = "Europe/Berlin"\n')
    with pytest.raises(pf.Misuse, match="different time zones") as caught:
        job.run(DAY)
    assert "convert_time_zone" in caught.value.instead


def test_times_in_the_zone_of_the_job(make):
    """Brought to the job's zone, times in UTC are those of its local day."""
    moments = 'at, start, end = pl.col("at").dt.convert_time_zone(period.zone), period.begins, period.ends'
    job = make(ZONED.format(moments=moments), file='[schedule]\ntimezone = "Europe/Berlin"\n')
    assert job.plan(DAY).rows == 24
    assert job.plan("2026-10-25").rows == 25
    assert job.period(dt.datetime(2026, 10, 20, 1, tzinfo=ZoneInfo("Europe/Berlin"))).label == DAY


def test_evidence_is_of_the_plan_that_was_released(make):
    """The page's evidence has the promise, the scenario and the noise of the certificate."""
    ran = make(report="true").run(DAY)
    evidence = json.loads((ran.folder / EVIDENCE).read_text())
    certificate = ran.release.certificate
    assert evidence["scenario"] == certificate.hidden
    assert evidence["promise"] == repr(certificate.promise)
    assert evidence["cells"][0]["scale"] == pytest.approx(certificate.sums[0].scale)
    other = make().plan(DAY).evidence()
    wrong = type(other)(**{name: getattr(other, name) for name in other.__struct_fields__} | {"promise": "Pure(0.1)"})
    with pytest.raises(pf.Misuse, match="another plan"):
        ran.release.report(ran.folder / "other.html", wrong)
    assert re.search(r"data-figure=\"laws\"", (ran.folder / PAGE).read_text())
    assert pl.read_parquet(ran.folder / "release.parquet").equals(ran.release.frame)
