"""A month of nights in which everything goes wrong: crashes, retries, overlaps, full disks, rows that come late."""

import dataclasses
import math
import random
import signal
import threading
from unittest import mock

import jobs
import msgspec
import pytest

import pufferflow as pf
from pufferflow.jobs import job as running
from pufferflow.jobs import sink as folder_sink
from pufferflow.jobs.job import Job

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
"""Stopped just when a file was opened, nobody has closed it."""
FIRST = "2025-11-01"
WORST = (
    "job.py:release",
    "publish.py:draw_release",
    "release.py:_as_bytes",
    "folder.py:send",
    "durable_files.py:_move",
)
"""Where a run has planned, reserved, drawn, kept, and written beside the place."""


@pytest.fixture(scope="module")
def farm():
    with jobs.Farm() as found:
        yield found


class Nights:
    """A job, what was seen of it so far, and what can go wrong in a night."""

    def __init__(self, job, farm, seed):
        self.job, self.farm, self.rng = job, farm, random.Random(seed)  # noqa: S311 - when to crash, no noise
        self.seen, self.late = jobs.Seen(job), []
        self.lines = farm.run(jobs.made(job.folder / "other"), period=FIRST, count=True).words[-1][
            "lines"
        ]

    def night(self, label, trouble):
        """Let the rows of a day come, unless they are late; let something happen; look at what is there."""
        if trouble is not Nights.late_rows:
            jobs.arrive(self.job, label)
        trouble(self, label)
        self.seen.look(label)

    def fine(self, label, job=None):
        ran = (job or self.job).run(label, wait=self.waited)
        self.seen.gave(label, jobs.digest(ran.release))
        return ran

    def waited(self, seconds):
        assert seconds == 0

    def reported(self, label):
        """Write a page too."""
        sink = msgspec.structs.replace(self.job.file.sink, report=True)
        job = dataclasses.replace(self.job, file=msgspec.structs.replace(self.job.file, sink=sink))
        assert self.fine(label, job).notes == ()
        assert jobs.whole(self.job.folder_of(label)) == jobs.WHOLE | {
            "evidence.json",
            "report.html",
        }

    def killed(self, label):
        """Kill the run before any line, then run again."""
        found = self.farm.run(
            self.job, period=label, crash="kill", line=self.rng.randint(1, self.lines)
        )
        assert found.code in {0, -signal.SIGKILL}
        self.seen.words(found.words)
        self.seen.look(label)
        self.fine(label)

    def killed_at_any_moment(self, label):
        """Kill the run by the clock, wherever it is, then run again."""
        found = self.farm.run(self.job, period=label, after=self.rng.uniform(0.01, 0.4))
        assert found.code in {0, -signal.SIGALRM}
        self.seen.words(found.words)
        self.seen.look(label)
        self.fine(label)

    def killed_at_the_worst(self, label):
        """Kill the run between two of planning, reserving, drawing, keeping and sending, then run again."""
        place = self.rng.choice(WORST)
        found = self.farm.run(self.job, period=label, crash="kill", line=place)
        assert found.code == -signal.SIGKILL, place
        self.seen.look(label)
        self.fine(label)

    def stopped(self, label):
        """Stop the run with Ctrl-C before any line, then run again."""
        try:
            with jobs.Tracer(jobs.stop, self.rng.randint(1, self.lines)):
                self.fine(label)
        except KeyboardInterrupt:
            self.seen.look(label)
        self.fine(label)

    def overlapping(self, label):
        """Run at once in two processes, one of which is killed at some moment, and in two threads; look on."""
        numbers = [self.farm.start(self.job, period=label)]
        numbers.append(self.farm.start(self.job, period=label, after=self.rng.uniform(0.1, 0.4)))
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(Job.read(self.job.path).run(label)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.seen.look(label)
        first, second = self.farm.wait(*numbers)
        assert (first.code, len(found)) == (0, 2), first.words
        assert second.code in {0, -signal.SIGALRM}
        self.seen.words([*first.words, *second.words])
        for ran in found:
            self.seen.gave(label, jobs.digest(ran.release))

    def nowhere_to_write(self, label):
        """Have something in the folder's place for two attempts, or for longer than the job tries: nothing is drawn."""
        block, attempts = self.job.folder_of(label), self.rng.choice([1, 2, 3])
        block.parent.mkdir(exist_ok=True)
        block.touch()
        waits = []

        def waited(seconds):
            waits.append(seconds)
            if len(waits) == attempts:
                block.unlink()

        if attempts < self.job.file.retries.attempts:
            ran = self.job.run(label, wait=waited)
            assert (ran.attempts, ran.drawn, ran.sent, len(ran.notes)) == (
                attempts + 1,
                True,
                True,
                attempts,
            )
            self.seen.gave(label, jobs.digest(ran.release))
            return
        with pytest.raises(pf.SinkError):
            self.job.run(label, wait=waited)
        assert label not in jobs.states(self.job)
        block.unlink()
        assert self.fine(label).drawn

    def no_room(self, label):
        """Have a disk that is full once the release is drawn, for two attempts, or for longer than the job tries."""
        true, attempts, tried = folder_sink.send, self.rng.choice([1, 2, 3]), []

        def full(*given):
            tried.append(given)
            if len(tried) <= attempts:
                raise pf.SinkError("No space is left on the device.")
            return true(*given)

        with mock.patch.object(folder_sink, "send", full):
            if attempts < self.job.file.retries.attempts:
                ran = self.job.run(label, wait=self.waited)
                assert (ran.attempts, ran.drawn, ran.sent, len(ran.notes)) == (
                    attempts + 1,
                    False,
                    True,
                    attempts,
                )
                self.seen.gave(label, jobs.digest(ran.release))
                return
            with pytest.raises(pf.SinkError):
                self.job.run(label, wait=self.waited)
        assert jobs.states(self.job)[label] == "committed"
        assert not self.fine(label).drawn

    def late_rows(self, label):
        """Have no rows; they come in one of the nights after."""
        with pytest.raises(pf.SourceError, match="No file matches"):
            self.job.run(label, wait=self.waited)
        assert label not in jobs.states(self.job)
        self.late.append(label)

    def not_run(self, label):
        """Have nobody run anything; the job makes it good later."""
        self.late.append(label)

    def made_good(self):
        """Let late rows come, and release all that was missed."""
        for label in self.late:
            jobs.arrive(self.job, label)
        for ran in self.job.catch_up(FIRST, wait=self.waited):
            self.seen.gave(ran.period, jobs.digest(ran.release))
            assert ran.drawn
            self.late.remove(ran.period)
        assert self.late == []
        self.seen.look()


TROUBLES = [
    Nights.fine,
    Nights.reported,
    *[Nights.killed] * 5,
    *[Nights.killed_at_any_moment] * 2,
    *[Nights.killed_at_the_worst] * 4,
    *[Nights.stopped] * 4,
    *[Nights.overlapping] * 3,
    *[Nights.nowhere_to_write] * 2,
    *[Nights.no_room] * 2,
    *[Nights.late_rows] * 3,
    *[Nights.not_run] * 3,
]


def forecast_of(job, label):
    """Return what an account that is just opened says about a month."""
    plan, charged = job.plan(label), job.file.ledger
    with job.ledger() as ledger:
        limit = charged.limit.guarantee
        account = ledger.open(
            charged.account, plan.request.scenario, limit=limit, dataset=charged.dataset
        )
        return account.forecast(plan, every=job.every, until="30d")


def month(place, farm, monkeypatch, seed):
    """Live through a month; return how it was forecast and what was spent."""
    job, labels = jobs.made(place, data=True), jobs.days(30, FIRST)
    nights, today = Nights(job, farm, seed), [FIRST]
    monkeypatch.setattr(running, "last_complete", jobs.on(lambda: today[0]))
    troubles = nights.rng.sample(TROUBLES, len(TROUBLES))
    jobs.arrive(job, FIRST)
    forecast = forecast_of(job, FIRST)
    (job.folder / "data" / f"{FIRST}.parquet").unlink()
    for label, trouble in zip(labels, troubles, strict=True):
        today[0] = pf.Period.read(label).next()
        nights.night(label, trouble)
        if nights.rng.random() < 0.1:
            nights.made_good()
    nights.made_good()
    jobs.check_all(job, labels, nights.seen.known)
    assert job.missed(FIRST) == job.missed() == []
    return forecast, job.account().spent()


@pytest.mark.slow
def test_a_month(farm, tmp_path, monkeypatch):
    """After 30 bad nights there are 30 releases, each kept and charged once; what was spent is what was forecast."""
    forecast, spent = month(tmp_path, farm, monkeypatch, 1)
    assert forecast.releases == 30
    assert math.isclose(forecast.total, spent.epsilon, rel_tol=1e-12)
    assert spent.epsilon < 0.6


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 6))
def test_more_months(farm, tmp_path, monkeypatch, seed):
    """Whatever happens in whichever nights, a month ends well."""
    forecast, spent = month(tmp_path, farm, monkeypatch, seed)
    assert math.isclose(forecast.total, spent.epsilon, rel_tol=1e-12)
