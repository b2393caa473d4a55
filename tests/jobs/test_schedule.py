"""A schedule: what was missed is made good, what fails is left to the next time, and it stops when it is asked to."""

import os
import signal
import threading
import time
import types
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import jobs
import pytest

import pufferflow as pf
from pufferflow.jobs import job as running
from pufferflow.jobs import scheduling
from pufferflow.jobs import sink as folder_sink
from pufferflow.jobs.job import JobRun
from pufferflow.jobs.scheduling import next_time
from pufferflow.published import folder

DAYS = jobs.days(8)
GAP = 0.05
SLOW = """
def rows(period):
    import time

    with open("{note}", "a") as note:
        print("+", period, file=note, flush=True)
        time.sleep(0.3)
        print("-", period, file=note, flush=True)
    return _rows(period)
"""


@pytest.fixture(scope="module")
def farm():
    with jobs.Farm() as found:
        yield found


class Watch:
    """What a schedule told; each time that it reveals about the next, another day is over, until it is stopped."""

    def __init__(self, monkeypatch):
        self.told, self.today, self.stop_at, self.then = [], DAYS[3], 1, lambda: None
        monkeypatch.setattr(running, "last_complete", jobs.on(lambda: self.today))
        monkeypatch.setattr(scheduling, "next_time", jobs.soon(GAP))

    def __call__(self, what):
        self.told.append(what)
        if isinstance(what, datetime):
            self.today = str(pf.Period.read(self.today).next())
            self.then()
            self.stop_at -= 1
            if self.stop_at == 0:
                stop()

    @property
    def periods(self):
        """The periods that it revealed about."""
        return [what.period for what in self.told if isinstance(what, JobRun)]

    @property
    def kinds(self):
        return [type(what) for what in self.told]


def stop(which=signal.SIGTERM):
    os.kill(os.getpid(), which)


@pytest.fixture
def watch(monkeypatch):
    """Whoever hangs is woken after half a minute; signals and threads are as before afterwards."""

    def wake(*_):
        raise TimeoutError

    unhandled = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    known = signal.signal(signal.SIGALRM, wake)
    signal.alarm(30)
    yield Watch(monkeypatch)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, known)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert unhandled == []


@pytest.fixture
def job(tmp_path):
    return jobs.made(tmp_path, ("attempts = 3", "attempts = 1"))


@pytest.fixture
def fed(tmp_path):
    """A job whose rows come when they are told to."""
    return jobs.made(tmp_path, ("attempts = 3", "attempts = 1"), data=True)


# What it does


@pytest.mark.slow
def test_what_was_missed_comes_first_then_the_next(job, watch):
    """The missed periods are released, oldest first; then it is told when the next is due."""
    scheduling.schedule(job, DAYS[0], watch)
    assert watch.periods == DAYS[:3]
    assert watch.kinds == [JobRun, JobRun, JobRun, datetime]


@pytest.mark.slow
def test_every_period_in_its_time(job, watch):
    """Each time one more period is over, that one is released, and none again."""
    watch.stop_at = 4
    scheduling.schedule(job, None, watch)
    assert watch.periods == DAYS[2:6]
    assert all(what.drawn and what.sent for what in watch.told if isinstance(what, JobRun))
    assert jobs.states(job) == dict.fromkeys(DAYS[2:6], "committed")


def test_nothing_new(job, watch):
    """When nothing is due, nothing is told but when something is."""
    job.run(DAYS[2])
    scheduling.schedule(job, None, watch)
    assert watch.kinds == [datetime]


@pytest.mark.slow
def test_it_goes_on_after_a_source_that_failed(fed, watch):
    """Rows that are not there are revealed about and hold nothing up.

    When they have come, they are released next time.
    """
    come = iter([DAYS[3:4], DAYS[2:3], []])
    watch.stop_at, watch.then = 3, lambda: [jobs.arrive(fed, label) for label in next(come)]
    scheduling.schedule(fed, DAYS[2], watch)
    assert watch.kinds == [
        pf.SourceError,
        datetime,
        pf.SourceError,
        JobRun,
        datetime,
        JobRun,
        pf.SourceError,
        datetime,
    ]
    assert watch.periods == [DAYS[3], DAYS[2]]


@pytest.mark.slow
def test_a_period_that_failed_is_come_back_to(fed, watch):
    """Without `since` too, rows that come later than those of the next period are released when they are there."""
    jobs.arrive(fed, DAYS[1])
    fed.run(DAYS[1])
    come = iter([DAYS[3:4], DAYS[2:3], DAYS[4:6]])
    watch.stop_at, watch.then = 3, lambda: [jobs.arrive(fed, label) for label in next(come)]
    scheduling.schedule(fed, None, watch)
    assert watch.periods == [DAYS[3], DAYS[2]]


@pytest.mark.slow
def test_periods_asked_for_are_not_forgotten_when_the_first_time_fails(fed, watch, monkeypatch):
    """What `since` asks for stays asked for until it could be tried: a ledger may be away at first."""
    jobs.arrive(fed, DAYS[2])
    fed.run(DAYS[2])
    for label in DAYS[:2]:
        jobs.arrive(fed, label)
    whole, turns = type(fed).missed, []

    def missed(self, since=None, now=None):
        turns.append(since)
        if len(turns) == 1:
            raise pf.LedgerError("The ledger is away.")
        return whole(self, since, now)

    monkeypatch.setattr(type(fed), "missed", missed)
    watch.stop_at = 2
    scheduling.schedule(fed, DAYS[0], watch)
    assert watch.periods == DAYS[:2]


@pytest.mark.slow
def test_what_could_not_be_written_is_sent_at_the_next_time(job, watch, monkeypatch):
    """A release that is kept and could not be written is written when the sink is back, and not drawn again."""
    away = job.folder / "published"
    away.touch()
    watch.stop_at, watch.then = 2, lambda: away.is_file() and away.unlink()
    del monkeypatch
    scheduling.schedule(job, None, watch)
    assert pf.SinkError in watch.kinds
    assert watch.periods == DAYS[2:4]
    for label in DAYS[2:4]:
        assert jobs.whole(job.folder_of(label)) == jobs.WHOLE


@pytest.mark.slow
def test_a_limit_ends_it(tmp_path, watch):
    """Beyond the limit every time would fail: the schedule ends with that error, and what was released stays."""
    tight = jobs.made(tmp_path, ("epsilon = 9.0", "epsilon = 0.51"))
    watch.stop_at = 9
    with pytest.raises(pf.LimitReached):
        scheduling.schedule(tight, DAYS[0], watch)
    assert watch.periods == DAYS[:1]
    assert jobs.states(tight) == {DAYS[0]: "committed"}


def test_a_mistake_ends_it(job, watch):
    """What will not go away by itself ends the schedule, with its own error."""
    (job.folder / "job.py").write_text(
        "def build(frame, period):\n    return 3\n\ndef rows(period):\n    return None\n"
    )
    with pytest.raises(pf.UsageError, match="source is of type"):
        scheduling.schedule(job, None, watch)
    assert watch.told == []


def test_a_job_without_a_line(tmp_path):
    """There is no schedule without a cron line."""
    job = jobs.made(tmp_path, ('cron = "0 3', '# cron = "0 3'))
    with pytest.raises(pf.UsageError, match="no cron line"):
        scheduling.schedule(job)


@pytest.mark.slow
def test_no_two_runs_of_one_period(job, watch):
    """When a run takes longer than the gap, the next waits for it; no period is run twice, or while another is."""
    code, note = job.folder / "job.py", job.folder / "note"
    code.write_text(
        code.read_text().replace("def rows(", "def _rows(") + SLOW.format(note=str(note))
    )
    watch.stop_at = 3
    scheduling.schedule(job, None, watch)
    lines = note.read_text().split()
    assert lines[::4] == ["+"] * 3
    assert lines[2::4] == ["-"] * 3
    assert lines[1::4] == lines[3::4] == watch.periods == DAYS[2:5]


def test_a_long_rest(tmp_path, monkeypatch):
    """However long nobody ran the job, the newest periods are made good, as many as the file says."""
    job = jobs.made(
        tmp_path, ('period = "day"', 'period = "hour"'), ("# catch_up = 31", "catch_up = 2")
    )
    job.run("2022-11-01T05")
    monkeypatch.setattr(running, "last_complete", jobs.on(lambda: "2025-11-03"))
    assert [str(period) for period in job.missed()] == ["2025-11-02T22", "2025-11-02T23"]


# How it stops


@pytest.mark.slow
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_within_a_second_while_a_retry_is_waited_for(tmp_path, watch, which):
    """A long wait for the next attempt is cut short; nothing is told, since nothing was decided."""
    job = jobs.made(tmp_path, ('wait = "0s"', 'wait = "1h"'), data=True)
    threading.Timer(0.5, stop, [which]).start()
    began = time.monotonic()
    scheduling.schedule(job, None, watch)
    assert time.monotonic() - began < 1.5
    assert watch.told == []


@pytest.mark.slow
def test_it_stops_after_the_run_that_is_under_way(job, watch, monkeypatch):
    """A run is finished, its release written; what else was missed is left."""
    whole, times = folder.send, []

    def send(release, place, form):
        stop()
        stop()
        time.sleep(0.3)
        times.append(time.monotonic())
        return whole(release, place, form)

    monkeypatch.setattr(folder_sink, "send", send)
    scheduling.schedule(job, DAYS[0], watch)
    assert watch.periods == DAYS[:1]
    assert time.monotonic() - times[0] < 1
    assert jobs.whole(job.folder_of(DAYS[0])) == jobs.WHOLE


@pytest.mark.slow
def test_it_stops_between_two_sources_that_fail(fed, watch, monkeypatch):
    """Asked to stop, it does not try one period after the other, though all fail."""
    tried = []

    def plan(self, period=None):
        del self
        tried.append(str(period))
        stop()
        time.sleep(0.3)
        raise pf.SourceError("No rows.")

    monkeypatch.setattr(type(fed), "plan", plan)
    scheduling.schedule(fed, DAYS[0], watch)
    assert tried == DAYS[:1]


@pytest.mark.slow
def test_it_stops_though_it_has_not_begun(job, watch, monkeypatch):
    """A signal that comes before anything is released is not lost."""
    whole = type(job).missed

    def missed(self, since=None, now=None):
        stop()
        time.sleep(0.2)
        return whole(self, since, now)

    monkeypatch.setattr(type(job), "missed", missed)
    watch.stop_at = 0
    scheduling.schedule(job, None, watch)
    assert len(watch.periods) <= 1


# Restarts


def waiting(condition, seconds=30):
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGKILL])
def test_restarts(job, farm, which):
    """Ended in the middle of runs and started again, a schedule releases each period once, and all of them."""
    seen = jobs.Seen(job)
    for label in DAYS[1:6:2]:
        number = farm.start(job, "schedule", since=DAYS[0], today=DAYS[6])
        waiting(lambda label=label: label in (jobs.states(job) if job.account() else {}))
        farm.send(number, which)
        (found,) = farm.wait(number)
        assert found.code in {0, -which}
        seen.words(found.words)
        seen.look()
    found = farm.run(job, "schedule", today=DAYS[6], since=DAYS[0], turns=1)
    assert found.code == 0, found.words
    seen.words(found.words)
    jobs.check_all(job, DAYS[:6], seen.known)


@pytest.mark.slow
def test_killed_between_keeping_and_writing(job, farm):
    """A release that is kept and was never written is written by the schedule that is started next."""
    found = farm.run(job, period=DAYS[0], crash="kill", line="folder.py:send")
    assert found.code == -signal.SIGKILL
    assert jobs.states(job) == {DAYS[0]: "committed"}
    assert farm.run(job, "schedule", today=DAYS[1], turns=1).code == 0
    assert jobs.whole(job.folder_of(DAYS[0])) == jobs.WHOLE


# When it is due


def due(line, zone, after, times=1):
    """Return the next times of a line, on the clock on the wall."""
    moment, found = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)), []
    for _ in range(times):
        moment = next_time(line, zone, moment)
        found.append(moment.strftime("%a %Y-%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("line", "after", "times"),
    [
        ("0 3 * * 0", "2026-11-20", ["Sun 2026-11-22 03:00", "Sun 2026-11-29 03:00"]),
        ("0 3 * * 7", "2026-11-20", ["Sun 2026-11-22 03:00"]),
        ("0 3 * * 1", "2026-11-20", ["Mon 2026-11-23 03:00"]),
        ("0 3 * * 1-5", "2026-11-20T04:00", ["Mon 2026-11-23 03:00", "Tue 2026-11-24 03:00"]),
        ("0 3 * * MON", "2026-11-20", ["Mon 2026-11-23 03:00"]),
        (
            "0 3 1 * 1",
            "2026-11-24",
            ["Mon 2026-11-30 03:00", "Tue 2026-12-01 03:00", "Mon 2026-12-07 03:00"],
        ),
        ("0 3 1 * *", "2026-11-24", ["Tue 2026-12-01 03:00", "Fri 2027-01-01 03:00"]),
        ("0 0 29 2 *", "2026-11-20", ["Tue 2028-02-29 00:00", "Sun 2032-02-29 00:00"]),
        (
            "59 23 31 * *",
            "2026-11-20",
            ["Thu 2026-12-31 23:59", "Sun 2027-01-31 23:59", "Wed 2027-03-31 23:59"],
        ),
        ("*/20 * * * *", "2026-11-20T23:30", ["Fri 2026-11-20 23:40", "Sat 2026-11-21 00:00"]),
        ("0 3 * * *", "2026-11-20T03:00", ["Sat 2026-11-21 03:00"]),
    ],
)
def test_lines_are_read_as_cron_reads_them(line, after, times):
    """Sunday is 0 and 7; a day of the month and a weekday together mean either; days that are not there are skipped."""
    assert due(line, "UTC", after, len(times)) == times


@pytest.mark.parametrize(
    ("line", "after", "times"),
    [
        ("0 3 * * *", "2026-03-28T12:00", ["Sun 2026-03-29 03:00", "Mon 2026-03-30 03:00"]),
        ("30 2 * * *", "2026-03-28T12:00", ["Sun 2026-03-29 03:00", "Mon 2026-03-30 02:30"]),
        ("0 3 * * *", "2026-10-24T12:00", ["Sun 2026-10-25 03:00", "Mon 2026-10-26 03:00"]),
        ("30 2 * * *", "2026-10-24T12:00", ["Sun 2026-10-25 02:30", "Mon 2026-10-26 02:30"]),
    ],
)
def test_clock_changes(line, after, times):
    """A time that the clocks skip comes as soon as it can, one that they show twice comes once: none is left out."""
    assert due(line, "Europe/Berlin", after, len(times)) == times


def test_hourly_lines_over_a_clock_change():
    """What is due every hour is due in each hour that passes, the one included that comes twice."""
    moment, found = datetime(2026, 10, 24, 23, 30, tzinfo=UTC), []
    for _ in range(4):
        moment = next_time("0 * * * *", "Europe/Berlin", moment)
        found.append(moment.astimezone(UTC).hour)
    assert found == [0, 1, 2, 3]


def test_the_next_turn_begins_at_the_first_period_that_failed():
    """Of several failures the first counts, whatever was released between and behind them."""
    periods = [pf.Period.read(label) for label in DAYS[:4]]
    outcomes = [
        pf.SourceError("No."),
        object.__new__(JobRun),
        pf.SourceError("No."),
        object.__new__(JobRun),
    ]
    pairs = list(zip(periods, outcomes, strict=True))
    stop, heard = scheduling._Stop(), []
    job = types.SimpleNamespace(missed=lambda _: periods, release_each=lambda _, **__: iter(pairs))
    assert scheduling._release_missed(job, None, heard.append, stop) == periods[0]
    assert heard == outcomes
    job.release_each = lambda _, **__: iter(pairs[1:2])
    assert scheduling._release_missed(job, None, heard.append, stop) is None
