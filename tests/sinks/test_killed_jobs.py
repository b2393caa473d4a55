"""Jobs that are killed at random moments and run by several machines at once, with ledger and sink on a server."""

import itertools
import random
import time

import jobs
import postgres
import pytest
from thinned import nightly

import pufferflow as pf

DAYS = jobs.days(3)
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def farm():
    with jobs.Farm() as found:
        yield found


@pytest.fixture
def machines(postgres_of_sinks, tmp_path, monkeypatch):
    """Four machines with one ledger and one sink, each a schema of its own, and what their processes have to know."""
    environment = {
        name: postgres.database(postgres_of_sinks, f"{name.lower()}_{next(_NUMBERS)}")
        for name in ("TEST_LEDGER", "TEST_SINK")
    }
    for name, address in environment.items():
        monkeypatch.setenv(name, address)
    made = [_made(tmp_path / f"machine-{number}") for number in range(4)]
    return made, environment


def _made(place):
    job = jobs.made(place, ('address = "ledger.db"', 'address = "${TEST_LEDGER}"'))
    text = job.path.read_text()
    start, end = text.index("[sink]"), text.index("[schedule]")
    sink = '[sink]\nkind = "sql"\naddress = "${TEST_SINK}"\ntable = "meters"\n\n'
    job.path.write_text(text[:start] + sink + text[end:])
    return pf.Job.read(job.path)


def check(job, days):
    """Check that there is one release for each day, in the ledger and, whole, in the sink."""
    assert jobs.states(job) == dict.fromkeys(days, "committed")
    with job.ledger() as ledger:
        ledger.verify()
        compared = ledger.compare(job.published(), job.file.ledger.account)
    assert [(one.release_id, one.differs) for one in compared] == [
        (job.id_of(day), ()) for day in days
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *nightly([2])])
def test_a_job_that_is_killed_at_random_moments_publishes_once(machines, farm, seed):
    """Whenever it is killed, nobody sees a part of a release, and the run that is let be completes it."""
    (job, *_), environment = machines
    rng = random.Random(seed)  # noqa: S311 - moments of kills
    for day in DAYS:
        for _ in range(6):
            (ended,) = farm.wait(
                farm.start(job, period=day, environment=environment, after=rng.uniform(0.02, 1.5)),
            )
            known = jobs.states(job)
            with job.ledger() as ledger:
                for one in ledger.compare(job.published()):
                    assert one.differs == ()
                    assert known[one.release_id.removeprefix(f"{job.name}-")] == "committed", (
                        "sent before it was kept"
                    )
            if ended.code == 0:
                break
        job.run(day)
    check(job, DAYS)


@pytest.mark.slow
def test_machines_that_run_at_once_publish_once(machines, farm):
    """Four at the same moment: one draws, one sends, and all have the same numbers."""
    made, environment = machines
    for day in DAYS[:2]:
        options = {"period": day, "environment": environment, "at_time": time.time() + 1.0}
        found = farm.wait(*(farm.start(job, **options) for job in made))
        assert [one.code for one in found] == [0] * 4, [one.words for one in found]
        words = [word for one in found for word in one.words if "gave" in word]
        assert len({tuple(word["gave"]) for word in words}) == 1
        assert [word["sent"] for word in words].count(True) == 1
    check(made[0], DAYS[:2])
