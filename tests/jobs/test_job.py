"""A period is released once, whatever fails and however often it is run; what goes wrong is told by its kind."""

import datetime as dt
import json

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.jobs import job as room
from pufferflow.jobs import starter
from pufferflow.jobs.job import JobAccount
from pufferflow.jobs.sink import PAGE
from pufferflow.published.files import EVIDENCE
from pufferflow.release.mechanisms import additive as releasing

DAY = "2026-10-20"


def stop(*_):
    raise KeyboardInterrupt


def entries(job):
    account = job.account()
    return (
        [] if account is None else [(entry.release_id, entry.state) for entry in account.history()]
    )


@pytest.mark.slow
def test_the_starter_runs_from_an_empty_folder(tmp_path):
    """The starter plans, runs and gives the same release again, with a page, evidence and a ledger that is sound."""
    written = starter.write(tmp_path / "new")
    assert sorted(path.name for path in written) == ["job.py", "job.schema.json", "job.toml"]
    job = pf.Job.read(tmp_path / "new" / "job.toml")
    assert job.account() is None
    assert job.plan(DAY).rows == 24_000
    assert not (tmp_path / "new" / "ledger.db").exists()
    first, again = job.run(DAY), job.run(DAY)
    assert (first.state, again.state, first.notes, again.notes) == ("released", "kept", (), ())
    assert again.release.frame.equals(first.release.frame)
    folder = tmp_path / "new" / "published" / DAY
    assert pf.Release.read(folder).frame.equals(first.release.frame)
    assert (folder / PAGE).read_text().startswith("<!doctype html>")
    assert json.loads((folder / EVIDENCE).read_text())["budget"]["account"] == "meters-2026"
    with job.ledger() as ledger:
        assert ledger.verify().entries == 3
    with pytest.raises(pf.UsageError, match=r"has a file 'job\.toml' already"):
        starter.write(tmp_path / "new")


def test_a_period_is_released_once(make):
    """The second run draws nothing, charges nothing and writes nothing."""
    job = make()
    first, again = job.run(DAY), job.run(pf.Period.read(DAY))
    assert (first.drawn, first.sent, again.drawn, again.sent) == (True, True, False, False)
    assert again.release.to_bytes() == first.release.to_bytes()
    assert entries(job) == [(f"hours-{DAY}", "committed")]


def test_what_was_released_stays_though_everything_else_is_gone(make):
    """A period that was released is given again without its rows, and without a plan of its own."""
    job = make()
    first = job.run(DAY)
    gone = make(
        "def rows(period): raise OSError('gone')\ndef build(frame, period): raise OSError('gone')"
    )
    assert gone.run(DAY).release.to_bytes() == first.release.to_bytes()


@pytest.mark.slow
def test_a_revision_is_a_release_of_its_own(make):
    """Late rows are released as a revision, which is drawn, charged and written by itself."""
    job = make(limit=2.0)
    first, second = job.run(DAY), job.run(DAY, revision=2)
    assert second.drawn
    assert second.folder.name == f"{DAY}.2"
    assert entries(job) == [(f"hours-{DAY}", "committed"), (f"hours-{DAY}.2", "committed")]
    assert first.release.certificate.entry != second.release.certificate.entry
    for wrong in (0, -1, True, "2", 1.0):
        with pytest.raises(pf.UsageError, match="revision"):
            job.run(DAY, revision=wrong)


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_sinks(form, make):
    """A release is written in the form that is asked for, with its certificate beside it."""
    ran = make(form=form).run(DAY)
    assert {path.name for path in ran.folder.iterdir()} >= {
        f"release.{form}",
        f"intervals.{form}",
        "certificate.json",
    }
    read = pf.Release.read(ran.folder)
    assert read.frame.equals(ran.release.frame)
    assert read.certificate == ran.release.certificate


def test_a_sink_that_has_no_form_for_a_key_is_refused_before_anything_is_paid(make):
    """Keys that a CSV file cannot hold are found while planning."""
    keyed = """
    public = pf.Scenario(scenario.secret, chain, order_by="hour", step="1h", within="meter", public=["code"])
    def rows(period, real=rows): return real(period).with_columns(code=pl.lit(b"a"))
    def build(frame, period): return pf.protect(frame, public).group_by("code").private_sum("on")
    """
    assert make(keyed).plan(DAY).rows > 0
    job = make(keyed, form="csv")
    with pytest.raises(pf.UsageError, match="Binary"):
        job.run(DAY)
    assert entries(job) == []


@pytest.mark.slow
def test_a_sink_that_fails_after_the_commit_keeps_the_release(make, monkeypatch):
    """The release is kept and sent on the next run, never drawn again; until then the error says so."""
    job, true = make(report="true"), JobAccount.release

    def blocked(*given, **options):
        (job.folder / "published").write_text("in the way")
        return true(*given, **options)

    monkeypatch.setattr(JobAccount, "release", blocked)
    with pytest.raises(pf.SinkError, match="kept"):
        job.run(DAY)
    assert entries(job) == [(f"hours-{DAY}", "committed")]
    kept = job.account().release(f"hours-{DAY}")
    (job.folder / "published").unlink()
    ran = job.run(DAY)
    assert (ran.state, ran.drawn, ran.notes) == ("sent again", False, ())
    assert ran.release.to_bytes() == kept.to_bytes()
    assert (ran.folder / PAGE).exists()


def test_a_source_that_changes_after_its_plan_is_planned_again(make, monkeypatch):
    """Rows that come between plan and release are refused before anything is paid; the next attempt plans with them."""
    job = make(
        """
    from pathlib import Path
    place = Path(__file__).parent / "rows.csv"
    def rows(period, real=rows):
        if not place.exists():
            real(period).with_columns(on=pl.col("on").cast(pl.Int64)).collect().write_csv(place)
        return pl.scan_csv(place, schema={"meter": pl.Int64, "hour": pl.Datetime, "on": pl.Int64})
    """,
        attempts=2,
    )
    place, true, plans = job.folder / "rows.csv", JobAccount.release, []

    def late(payer, plan, *given, **options):
        plans.append(plan)
        if len(plans) == 1:
            lines = place.read_text().splitlines(keepends=True)
            place.write_text("".join([lines[0], *lines[25:]]))
        return true(payer, plan, *given, **options)

    monkeypatch.setattr(JobAccount, "release", late)
    ran = job.run(DAY, wait=lambda _: entries_are_none(job))
    assert ran.attempts == 2
    assert entries(job) == [(f"hours-{DAY}", "committed")]
    assert plans[0].cost.steps_seen != plans[1].cost.steps_seen
    assert ran.release.certificate.cost == plans[1].cost


def entries_are_none(job):
    assert entries(job) == []


def test_what_fails_is_tried_again(make):
    """Sources, ledgers and sinks are tried again as often as the file says, with its wait; notes reveal about it."""
    failing = """
    calls = []
    def build(frame, period, real=build):
        calls.append(period)
        if len(calls) < 3:
            raise pf.SourceError("The rows have not come.")
        return real(frame, period)
    """
    waits = []
    ran = make(failing, attempts=3).run(DAY, wait=waits.append)
    assert (ran.attempts, waits) == (3, [7, 7])
    assert ran.notes == ("attempt 1: The rows have not come.", "attempt 2: The rows have not come.")
    again = make(failing, attempts=2)
    with pytest.raises(pf.SourceError, match="not come"):
        again.run("2026-10-19", wait=waits.append)
    assert waits == [7, 7, 7]


@pytest.mark.parametrize("error", ["Refused", "UsageError", "LimitReached"])
def test_what_trying_again_cannot_mend_is_told_at_once(error, make):
    """An error that would come back is not tried again."""
    job = make(f"def build(frame, period): raise pf.{error}('no')", attempts=5)
    with pytest.raises(getattr(pf, error), match="no"):
        job.run(DAY, wait=lambda _: pytest.fail("tried again"))


@pytest.mark.slow
def test_an_account_over_its_limit(make):
    """A release beyond the limit is refused before a row is read; those before it stay."""
    job = make(limit=0.5)
    job.run(DAY)
    with pytest.raises(pf.LimitReached):
        job.run("2026-10-21")
    assert entries(job) == [(f"hours-{DAY}", "committed")]
    assert job.run(DAY).state == "kept"


@pytest.mark.parametrize("day", ["2026-08-01", "2026-01-01"])
def test_a_period_outside_of_the_data(day, make):
    """A period of which there are no rows is a failed source, and costs nothing."""
    job = make()
    with pytest.raises(pf.SourceError, match=f"no rows for the period {day}"):
        job.run(day)
    assert entries(job) == []


def test_periods_that_are_not_over_or_not_the_jobs(make):
    """A period is released when it is over; it is one of the job's own kind."""
    job, now = make(), dt.datetime(2026, 10, 21, 12, tzinfo=dt.UTC)
    assert str(job.period(None, now)) == DAY
    assert str(job.period(dt.date(2026, 10, 19), now)) == "2026-10-19"
    assert str(job.period(dt.datetime(2026, 10, 19, 23, tzinfo=dt.UTC), now)) == "2026-10-19"
    with pytest.raises(
        pf.UsageError, match="2026-10-21 is not over: it ends at 2026-10-22T00:00:00"
    ):
        job.period("2026-10-21", now)
    with pytest.raises(pf.UsageError, match="a week in 'UTC'"):
        job.period(pf.Period.read("2026-W40", "week"), now)
    with pytest.raises(pf.UsageError, match="name of one day"):
        job.period("2026-W40", now)


@pytest.mark.parametrize(
    ("python", "told"),
    [
        (
            "def build(frame, period): raise KeyError('4711')",
            r"build\(\) failed: KeyError in own.py, line \d+",
        ),
        ("def build(frame, period): return frame", "returns LazyFrame"),
        ("def build(frame, period): return None", "returns NoneType"),
        ("def build(frame): return None", "failed: TypeError"),
        ("def build(frame, period): return pf.protect(frame, scenario)", "The batch has no query"),
        ("build = 3", "no function 'build'"),
        ("def rows(period): return []", "source is of type list"),
    ],
)
def test_functions_that_do_not_do_their_work(python, told, make):
    """A function with a mistake is misuse, and nothing is charged."""
    job = make(python)
    with pytest.raises(pf.UsageError, match=told) as caught:
        job.run(DAY)
    assert "4711" not in str(caught.value)
    assert entries(job) == []


def test_the_same_rows_that_a_function_gives_eagerly(make):
    """A DataFrame is as good as a LazyFrame."""
    assert make("def rows(period, real=rows): return real(period).collect()").run(DAY).drawn


def test_missed_periods(make):
    """What was missed is what is over, after the last that was released; with `since`, every gap."""
    job, now = make(), dt.datetime(2026, 10, 24, 12, tzinfo=dt.UTC)

    def missed(since=None):
        return [str(period)[-2:] for period in job.missed(since, now)]

    assert missed() == ["23"]
    assert missed("2026-10-20") == ["20", "21", "22", "23"]
    job.run("2026-10-21")
    assert missed() == ["22", "23"]
    assert missed("2026-10-20") == ["20", "22", "23"]
    job.run("2026-10-23")
    assert missed() == []
    assert missed("2026-10-20") == ["20", "22"]


@pytest.mark.slow
def test_no_more_is_made_good_than_the_file_allows(make):
    """`catch_up` bounds what a schedule makes good by itself; since a period, all is made good."""
    job = make(file="[schedule]\ncatch_up = 2\n")
    job.run("2026-10-10")
    now = dt.datetime(2026, 10, 24, 12, tzinfo=dt.UTC)
    assert [str(period) for period in job.missed(None, now)] == ["2026-10-22", "2026-10-23"]
    assert len(job.missed("2026-10-10", now)) == 13
    with pytest.raises(pf.UsageError, match="more than 20000 periods from 1950"):
        job.missed("1950-01-01", now)


@pytest.mark.slow
def test_a_cost_that_is_paid_is_used(make, monkeypatch):
    """A period that was reserved and never released is due, however long ago that is."""
    job = make()
    with monkeypatch.context() as stopped:
        stopped.setattr(releasing, "add_noise", stop)
        with pytest.raises(KeyboardInterrupt):
            job.run("2026-10-18")
    assert entries(job) == [("hours-2026-10-18", "reserved")]
    job.run("2026-10-22")
    now = dt.datetime(2026, 10, 24, 12, tzinfo=dt.UTC)
    assert [str(period) for period in job.missed(None, now)] == ["2026-10-18", "2026-10-23"]
    assert job.run("2026-10-18").drawn
    assert entries(job) == [("hours-2026-10-18", "committed"), ("hours-2026-10-22", "committed")]


@pytest.mark.slow
def test_catching_up_goes_on_past_rows_that_are_missing(make, monkeypatch):
    """A period whose rows cannot be read is told at the end, and holds up none of the others."""
    job = make(
        "def rows(period, real=rows): return real(period).filter(pl.col('hour').dt.day() != 12)"
    )
    monkeypatch.setattr(
        room, "last_complete", lambda every, zone, _: pf.Period.read("2026-10-15", every, zone)
    )
    found = []
    with pytest.raises(pf.SourceError, match="2026-10-12"):
        found.extend(str(ran.period) for ran in job.catch_up("2026-10-10"))
    assert found == ["2026-10-10", "2026-10-11", "2026-10-13", "2026-10-14", "2026-10-15"]


def test_the_ledger_may_be_named_by_the_environment(make, monkeypatch, tmp_path):
    """An address may hold variables, so that passwords stand in no file."""
    monkeypatch.setenv("LEDGERS", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    job = make()
    text = (
        (tmp_path / "job.toml")
        .read_text()
        .replace("[ledger]", '[ledger]\naddress = "${LEDGERS}/own.db"')
    )
    (tmp_path / "job.toml").write_text(text)
    pf.Job.read(job.path).run(DAY)
    assert (tmp_path / "elsewhere" / "own.db").exists()
    monkeypatch.delenv("LEDGERS")
    with pytest.raises(pf.UsageError, match="environment variable 'LEDGERS'"):
        pf.Job.read(job.path).run(DAY)


def test_an_accuracy_instead_of_a_guarantee(make, tmp_path):
    """The strongest guarantee whose errors stay within what is asked."""
    job = make()
    text = job.path.read_text().replace("[guarantee]\nepsilon = 0.5", "[accuracy]\nerror = 20")
    (tmp_path / "job.toml").write_text(text)
    plan = pf.Job.read(job.path).plan(DAY)
    assert plan.summary()["interval_95"].max() == pytest.approx(20, rel=1e-6)


@pytest.mark.slow
def test_a_page_that_cannot_be_made_holds_nothing_up(make, monkeypatch):
    """Numbers go out though their page cannot be drawn; a note says so, and the next run makes it."""
    job = make(report="true")
    with monkeypatch.context() as broken:
        broken.setattr(pf.Release, "page", lambda *_, **__: 1 / 0)
        ran = job.run(DAY)
    assert ran.state == "released"
    assert ran.notes == (
        "the report could not be written: its making stopped with ZeroDivisionError.",
    )
    assert pl.read_parquet(ran.folder / "release.parquet").equals(ran.release.frame)
    assert job.run(DAY).notes == ()
    assert (ran.folder / PAGE).exists()
