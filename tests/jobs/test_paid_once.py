"""A job pays once: not by another ledger, not in another job's folder, and one failing period holds up no other."""

import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.jobs import job as room

DAY, NEXT = "2026-10-20", "2026-10-21"


@pytest.fixture
def today(monkeypatch):
    """The last period that is over is the 22nd of October."""
    monkeypatch.setattr(
        room, "last_complete", lambda every, zone, _: pf.Period.read("2026-10-22", every, zone)
    )


def entries(job):
    return [(entry.release_id, entry.state) for entry in job.account().history()]


def test_a_ledger_that_was_moved_away_is_not_begun_anew(make, tmp_path):
    """Where releases are that a ledger paid for, another one that knows nothing of them does not begin."""
    job = make()
    job.run(DAY)
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    for day in (DAY, NEXT):
        with pytest.raises(pf.UsageError, match="ledger is missing"):
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
        (tmp_path / "other.toml").write_text(
            text.replace(old, new).replace("[ledger]", '[ledger]\ndataset = "b"')
        )
        other = pf.Job.read(tmp_path / "other.toml")
        with pytest.raises(pf.UsageError, match="does not know"):
            other.run(DAY)
    assert entries(job) == [(f"hours-{DAY}", "committed")]
    assert pf.Release.read(ran.folder).frame.equals(ran.release.frame)


@pytest.mark.parametrize("start", thinned(["sqlite:///", "sqlite+pysqlite:///"], 0.5))
def test_a_ledger_is_where_the_file_says_from_wherever_it_is_run(
    start, make, tmp_path, monkeypatch
):
    """A relative address is relative to the job file, also as a URL: one account, not one for each folder."""
    job = make()
    job.path.write_text(
        job.path.read_text().replace("[ledger]", f'[ledger]\naddress = "{start}own.db"')
    )
    (tmp_path / "away").mkdir()
    for place, day in ((tmp_path, DAY), (tmp_path / "away", NEXT)):
        monkeypatch.chdir(place)
        pf.Job.read(job.path).run(day)
    assert len(entries(pf.Job.read(job.path))) == 2
    assert not list((tmp_path / "away").iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("today")
def test_one_folder_that_cannot_be_written_holds_up_no_other(make):
    """The periods after one whose place is taken are released; the error is told at the end."""
    job = make()
    job.run("2026-10-19")
    (job.folder / "published" / DAY).write_text("in the way")
    found = []
    with pytest.raises(pf.SinkError):
        found.extend(ran.period for ran in job.catch_up())
    assert found == [NEXT, "2026-10-22"]
    (job.folder / "published" / DAY).unlink()
    assert [(ran.period, ran.state) for ran in job.catch_up(DAY)] == [(DAY, "released")]


def test_an_empty_variable_is_no_place(make, monkeypatch):
    """A sink whose variable is empty would be the folder of the job itself."""
    job = make()
    job.path.write_text(job.path.read_text().replace("[sink]", '[sink]\npath = "${NOWHERE}"'))
    monkeypatch.setenv("NOWHERE", "")
    with pytest.raises(pf.UsageError, match="NOWHERE"):
        pf.Job.read(job.path).run(DAY)


def test_a_job_opens_its_account_with_a_part_of_delta_for_keys(make):
    """The account has it from its first release on; a part that is more than there is, is refused."""
    visits = (
        "scenario = pf.Scenario(pf.Presence('meter', 'on', domain=[0, "
        "1], rows=24), pf.Independent(), public=['hour'])"
    )
    job = make(visits, limit="3.0, delta = 1e-6")
    text = job.path.read_text()
    job.path.write_text(text.replace("[ledger]", "[ledger]\nkeys_delta = 2e-7"))
    job = pf.Job.read(job.path)
    job.run(DAY)
    assert job.account().keys_delta == 2e-7
    job.path.write_text(text.replace("[ledger]", "[ledger]\nkeys_delta = 2e-6"))
    with pytest.raises(pf.UsageError, match="keys_delta"):
        pf.Job.read(job.path).run(NEXT)


def test_a_job_names_the_accounting_methods_of_its_account(make):
    """The account keeps these from its first release on; names that there are not are refused."""
    unknown = "scenario = pf.Scenario(pf.Secret('on', domain=[0, 1]), pf.AnyCorrelation(), order_by='hour', step='1h')"
    job = make(unknown, limit="3.0, delta = 1e-6")
    text = job.path.read_text()
    job.path.write_text(text.replace("[ledger]", '[ledger]\nmethods = ["pure"]'))
    job = pf.Job.read(job.path)
    job.run(DAY)
    assert [(one.name, one.share) for one in job.account().methods()] == [("pure", 1.0)]
    job.path.write_text(text.replace("[ledger]", '[ledger]\nmethods = ["zcdp"]'))
    with pytest.raises(pf.UsageError, match="no accounting method 'zcdp'"):
        pf.Job.read(job.path).run(NEXT)


@pytest.mark.slow
def test_a_job_reserves_its_releases_when_its_account_is_opened(make):
    """As many periods are released as were reserved, at one total; under a pure limit the key is refused."""
    unknown = "scenario = pf.Scenario(pf.Secret('on', domain=[0, 1]), pf.AnyCorrelation(), order_by='hour', step='1h')"
    job = make(unknown, limit="3.0, delta = 1e-6")
    job.path.write_text(job.path.read_text().replace("[ledger]", "[ledger]\nreserve = 2"))
    job = pf.Job.read(job.path)
    totals = []
    for day in (DAY, NEXT):
        job.run(day)
        totals.append(job.account().spent())
    assert totals[0] == totals[1]
    with pytest.raises(pf.LimitReached, match="of 3 releases the last has none"):
        job.run("2026-10-22")
    job.path.write_text(job.path.read_text().replace(", delta = 1e-6", ""))
    with pytest.raises(pf.UsageError, match="reserve is for a limit with a delta"):
        pf.Job.read(job.path)
