"""Several machines with one ledger in PostgreSQL: whoever is first draws, and all end with the same numbers."""

import os
import time

import jobs
import postgres
import pytest
from thinned import nightly

from pufferflow.jobs.job import Job

MACHINES = 4
DAYS = 5


@pytest.fixture(scope="module")
def farm():
    with jobs.Farm() as found:
        yield found


@pytest.fixture(scope="module")
def server():
    with postgres.for_tests() as address:
        yield address


class Machines:
    """Machines with a job file each, and one ledger."""

    def __init__(self, server, folder, farm, *, shared=False):
        self.address = postgres.database(
            server, f"jobs_{folder.name}_{int(shared)}".replace("-", "_")
        )
        os.environ["TEST_LEDGER"] = self.address
        changes = [('address = "ledger.db"', 'address = "${TEST_LEDGER}"')]
        if shared:
            changes.append(('path = "published"', f'path = "{folder}/shared"'))
        self.jobs = [
            jobs.made(folder / f"machine-{number}", *changes) for number in range(MACHINES)
        ]
        self.farm, self.environment = farm, {"TEST_LEDGER": self.address}
        self.seen = jobs.Seen(self.jobs[0])

    def race(self, call="run", **options):
        """Let all do the same at the same moment; return what each told."""
        options |= {"at_time": time.time() + 0.5, "environment": self.environment}
        found = self.farm.wait(*(self.farm.start(job, call, **options) for job in self.jobs))
        assert [one.code for one in found] == [0] * MACHINES, [one.words for one in found]
        words = [[word for word in one.words if "gave" in word] for one in found]
        for told in words:
            self.seen.words(told)
        return words

    def check(self, labels):
        """Check one entry and one release for each period, whole wherever it was sent."""
        for job in self.jobs:
            jobs.check_all(job, labels, self.seen.known)


@pytest.fixture
def machines(server, farm, tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_LEDGER", "")
    return lambda **options: Machines(server, tmp_path, farm, **options)


@pytest.mark.slow
def test_one_period_at_once(machines):
    """Machines that run a period at the same moment get the same numbers, each in its own folder, for one charge."""
    four = machines()
    words = four.race(period="2025-11-01")
    assert all(one["sent"] for (one,) in words)
    assert any(one["drawn"] for (one,) in words)
    four.check(["2025-11-01"])
    assert jobs.unfinished(four.jobs[0].folder.parent) == []


@pytest.mark.slow
def test_one_period_at_once_into_one_folder(machines):
    """Machines that share a folder write the release once."""
    four = machines(shared=True)
    words = four.race(period="2025-11-01")
    assert [one["sent"] for (one,) in words].count(True) == 1
    four.check(["2025-11-01"])
    assert jobs.unfinished(four.jobs[0].folder.parent) == []
    assert not Job.read(four.jobs[2].path).run("2025-11-01").sent


@pytest.mark.slow
@pytest.mark.parametrize("shared", [pytest.param(False, marks=pytest.mark.slow), True])
def test_several_periods_are_made_good_at_once(machines, shared):
    """Machines that make the same days good at once release each day once."""
    four, labels = machines(shared=shared), jobs.days(DAYS)
    four.race("catch_up", since=labels[0], today="2025-11-06")
    for job in four.jobs:
        for label in labels:
            job.run(label)
    four.check(labels)


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, *nightly([1])])
def test_machines_that_are_killed(machines, farm, step):
    """Machines that are killed while they race, sooner or later, leave nothing that the next race does not end."""
    turns = range(0, 20, step)
    four, labels = machines(), jobs.days(len(turns))
    for turn, label in zip(turns, labels, strict=True):
        options = {"period": label, "environment": four.environment}
        numbers = [
            farm.start(job, after=0.05 * (turn + place), **options)
            for place, job in enumerate(four.jobs)
        ]
        for found in farm.wait(*numbers):
            four.seen.words(found.words)
        four.seen.look(label)
        four.race(period=label)
    four.check(labels)
