"""A run that is crashed before any of its lines: the next one ends it, with one charge, one release, a whole folder."""

import contextlib
import signal

import jobs
import polars as pl
import pytest
from thinned import nightly

import pufferflow as pf
from pufferflow.jobs import job as running
from pufferflow.jobs.job import Job

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
"""Stopped just when a file was opened, nobody has closed it."""
SKIP, FEW = 60, 30
"""Of so many places one is crashed at in the default tests; at so many places one job in the slow ones."""
PAGE = ("report = false", "report = true")
CSV = ('format = "parquet"', 'format = "csv"')


@pytest.fixture(scope="module")
def farm():
    with jobs.Farm() as found:
        yield found


def nothing(label):
    del label


class Story:
    """A job that is crashed at one place after the other, each time for another day."""

    def __init__(self, place, *changes):
        self.job = jobs.made(place, *changes)
        self.seen, self.crashes = jobs.Seen(self.job), 0
        self.files = {name.replace("parquet", "csv") for name in jobs.WHOLE} | {"schema.json"}
        self.files = self.files if CSV in changes else jobs.WHOLE
        self.beside = {"evidence.json", "report.html"} if PAGE in changes else set()
        self.days = iter(jobs.days(3000, "2010-01-01"))

    def places(self, prepare=nothing):
        """Return the places that a run comes by, each line of a file once."""
        label = next(self.days)
        prepare(label)
        with jobs.Tracer() as tracer:
            self.gave(Job.read(self.job.path).run(label))
        return list(tracer.places)

    def gave(self, ran):
        self.seen.gave(ran.period, jobs.digest(ran.release))
        return ran

    def sent_before(self, label):
        """Let a day be released, and its folder lose two of its files."""
        ran = self.gave(self.job.run(label))
        (ran.folder / "certificate.json").unlink()
        (ran.folder / "intervals.parquet").unlink()

    def stop(self, place, prepare=nothing):
        """Stop a run with Ctrl-C at a place, then end it; return whether it left something unfinished."""
        label = next(self.days)
        prepare(label)
        with contextlib.suppress(KeyboardInterrupt), jobs.Tracer(jobs.stop, place) as tracer:
            self.gave(Job.read(self.job.path).run(label))
        self.crashes += tracer.at is None
        self.at_once(label, prepare)
        return self.ended(label)

    def kill(self, farm, place, prepare=nothing):
        """Kill a run at a place, then end it."""
        label = next(self.days)
        prepare(label)
        found = farm.run(self.job, period=label, crash="kill", line=place)
        assert found.code in {0, -signal.SIGKILL}
        self.crashes += found.code != 0
        self.seen.words(found.words)
        self.at_once(label, prepare)
        self.ended(label)

    def at_once(self, label, prepare):
        """Check that a folder that was not there is whole, or is not there yet."""
        found = jobs.whole(self.job.folder_of(label))
        assert prepare == self.sent_before or not found or found >= self.files

    def ended(self, label):
        """Run what was crashed again; check that nothing is charged or drawn twice, and that all is whole."""
        self.seen.look(label)
        before, left = jobs.states(self.job), jobs.age(self.job.folder)
        ran = self.gave(self.job.run(label))
        assert ran.drawn == (before.get(label) != "committed")
        assert ran.notes == ()
        assert jobs.states(self.job) == {**before, label: "committed"}
        assert jobs.whole(ran.folder) == self.files | self.beside
        assert jobs.unfinished(self.job.folder) == []
        self.seen.look(label)
        return left

    def end(self, places):
        """Check that crashes happened, and that all is well in the end."""
        assert self.crashes >= 0.5 * len(places) > 0
        jobs.check_all(self.job, list(self.seen.known), self.seen.known, self.files)


def stopped(story, places, *prepare):
    """Stop runs at places; only what stops the cleaning itself may leave something unfinished."""
    leaving = {place for place in places if story.stop(place, *prepare)}
    assert {place.split(":")[0] for place in leaving} <= {"durable_files.py"}, leaving
    assert len(leaving) <= 4
    story.end(places)


@pytest.mark.slow
def test_stopped_at_some_lines(tmp_path):
    """Stopped by Ctrl-C before a line, a run is ended by the next."""
    story = Story(tmp_path)
    stopped(story, story.places()[::SKIP])


@pytest.mark.nightly
def test_stopped_at_some_lines_while_it_is_sent_again(tmp_path):
    """Stopped by Ctrl-C while a folder is mended, a run is ended by the next, which draws nothing."""
    story = Story(tmp_path)
    places = [
        place
        for place in story.places(story.sent_before)
        if place.startswith(("durable_files.py", "files.py"))
    ]
    stopped(story, places[::3], story.sent_before)


@pytest.mark.slow
def test_killed_at_some_lines(farm, tmp_path):
    """Killed before a line, a run is ended by the next."""
    story = Story(tmp_path)
    places = story.places()[SKIP // 2 :: 3 * SKIP]
    for place in places:
        story.kill(farm, place)
    story.end(places)


@pytest.mark.slow
def test_a_cost_that_is_paid_for_rows_that_changed(tmp_path, monkeypatch):
    """Rows that came after a crash make another plan, which is refused and holds up no other; a revision settles it."""
    job = jobs.made(tmp_path, data=True)
    monkeypatch.setattr(running, "last_complete", jobs.on(lambda: "2025-11-03"))
    for label in jobs.days(2):
        jobs.arrive(job, label)
    whole = pl.read_parquet(tmp_path / "data" / "2025-11-01.parquet")
    whole.filter(pl.col("hour").dt.hour() < 5).write_parquet(
        tmp_path / "data" / "2025-11-01.parquet"
    )
    with pytest.raises(KeyboardInterrupt), jobs.Tracer(jobs.stop, "publish.py:draw_release"):
        job.run("2025-11-01")
    jobs.arrive(job, "2025-11-01")
    with pytest.raises(pf.UsageError, match="another plan"):
        list(job.catch_up())
    assert job.run("2025-11-01", revision=2).drawn
    assert list(job.catch_up()) == []
    assert job.missed() == job.missed("2025-11-01") == []
    assert jobs.states(job) == {
        "2025-11-01": "reserved",
        "2025-11-01.2": "committed",
        "2025-11-02": "committed",
    }


def stories(place, *changes, again=False, every=1):
    """Return jobs, what prepares a day of each, and the places to crash it at: all or one of so many, a few to a job.

    What an account has to go through grows with each day.
    """
    first = Story(place / "first", *changes)
    places = first.places(first.sent_before if again else nothing)[::every]
    for start in range(0, len(places), FEW):
        story = Story(place / str(start), *changes)
        yield story, story.sent_before if again else nothing, places[start : start + FEW]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "every"),
    [
        ([], 24),
        ([PAGE], 128),
        ([CSV], 40),
        *nightly([([], 8), ([PAGE], 64), ([CSV], 20)], unpack=True),
    ],
    ids=["", "page", "csv", "more", "page, more", "csv, more"],
)
def test_stopped_at_more_lines(tmp_path, changes, every):
    """Stopped by Ctrl-C before lines of a run, with a page or without, it is ended by the next."""
    for story, prepare, places in stories(tmp_path, *changes, every=every):
        stopped(story, places, prepare)


@pytest.mark.slow
@pytest.mark.parametrize("every", [24, *nightly([8])])
def test_stopped_at_more_lines_while_it_is_sent_again(tmp_path, every):
    """Stopped by Ctrl-C before lines of mending a folder, it is ended by the next."""
    for story, prepare, places in stories(tmp_path, again=True, every=every):
        stopped(story, places, prepare)


@pytest.mark.slow
@pytest.mark.parametrize("every", [36, *nightly([12])])
@pytest.mark.parametrize("again", [False, True])
def test_killed_at_more_lines(farm, tmp_path, again, every):
    """Killed before lines of a run, or of mending its folder, it is ended by the next."""
    for story, prepare, places in stories(tmp_path, again=again, every=every):
        for place in places:
            story.kill(farm, place, prepare)
        story.end(places)
