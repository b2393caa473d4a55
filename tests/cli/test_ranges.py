"""`run --since --until` counts what it does, and goes on after a period that fails; retries and waits are said."""

import json
import logging

import pytest

from pufferflow.jobs import job as running

LIMIT = 9.0
SINCE, UNTIL = "2026-11-17", "2026-11-20"
DAYS = ["2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20"]
RANGE = ("--since", SINCE, "--until", UNTIL)
MISSING = """
def rows(period, real=rows):
    if str(period) in {"2026-11-18"}:
        raise pf.SourceError("The rows have not come.")
    return real(period)
"""


@pytest.mark.slow
def test_a_range_says_how_far_it_is(make, give):
    """The first line counts, each further line has its place, and a second time nothing is left."""
    make(limit=LIMIT)
    assert give("run", "job.toml", "--period", DAYS[1]).exit == 0
    told = give("run", "job.toml", *RANGE)
    assert told.exit == 0
    lines = told.out.splitlines()
    assert lines[0] == f"4 periods from {SINCE} until {UNTIL}: 3 to release, 1 released before."
    assert [line.split()[:3] for line in lines[1:]] == [
        [f"[{number}/3]", day, "released"]
        for number, day in enumerate([DAYS[0], DAYS[2], DAYS[3]], 1)
    ]
    assert (
        give("run", "job.toml", *RANGE).out
        == f"4 periods from {SINCE} until {UNTIL}: all are released.\n"
    )


@pytest.mark.slow
def test_a_range_for_programs(make, give):
    """The document has the range, a run for each period, and what failed; after a failure too."""
    make(MISSING, limit=LIMIT)
    found = give("run", "job.toml", *RANGE, "--json")
    assert found.exit == 5
    document = found.document
    assert document["range"] == {"since": SINCE, "until": UNTIL, "periods": 4, "released_before": 0}
    assert [run["period"] for run in document["runs"]] == [DAYS[0], DAYS[2], DAYS[3]]
    assert [(one["period"], one["error"]["kind"]) for one in document["failures"]] == [
        (DAYS[1], "SourceError")
    ]
    assert "[2/4] 2026-11-18  failed  SourceError: The rows have not come." in found.err
    make(limit=LIMIT)
    again = give("run", "job.toml", *RANGE, "--json").document
    assert (again["range"]["released_before"], [run["period"] for run in again["runs"]]) == (
        3,
        [DAYS[1]],
    )
    assert json.loads(give("run", "job.toml", "--period", DAYS[0], "--json").out)["range"] is None


@pytest.mark.parametrize(
    "given", [("--until", UNTIL), ("--since", UNTIL, "--until", SINCE), ("--period", UNTIL, *RANGE)]
)
def test_ranges_that_are_none_are_misuse(make, give, given):
    """They end with 2, and nothing is released."""
    make()
    assert give("run", "job.toml", *given).exit == 2


def test_retries_are_said_while_they_are_waited_for(make, give, change, monkeypatch):
    """On stderr stands what failed, which attempt it was and how long is waited, and the document stays one line."""
    monkeypatch.setattr(
        running.Job.run,
        "__kwdefaults__",
        {**running.Job.run.__kwdefaults__, "wait": lambda _: None},
    )
    make("def build(frame, period): raise pf.SourceError('The rows have not come.')")
    change("attempts = 1", 'attempts = 3\nwait = "30s"')
    found = give("run", "job.toml", "--period", UNTIL, "--json")
    start = f"hours-{UNTIL}: attempt"
    assert found.err.splitlines() == [
        f"{start} {number} of 3 failed: The rows have not come. Waiting 30s before the next."
        for number in (1, 2)
    ]
    assert found.document["exit"] == 5


def test_verbose_says_each_step(make, give):
    """With -v the steps of a run are on stderr, without it nothing is; loggers are left as they were."""
    make()
    assert give("run", "job.toml", "--period", DAYS[0]).err == ""
    found = give("run", "job.toml", "--period", DAYS[1], "-v")
    assert "planning" in found.err
    assert "reading the private rows" in found.err
    logger = logging.getLogger("pufferflow")
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)


def test_a_changed_time_zone_is_said_by_plan_check_and_run(make, give, change):
    """Before it is released, and when it is refused."""
    make()
    assert give("run", "job.toml", "--period", DAYS[0]).exit == 0
    change("[schedule]", '[schedule]\ntimezone = "Europe/Berlin"')
    words = "released in the time zone 'UTC', and the job now has 'Europe/Berlin'"
    assert words in give("plan", "job.toml", "--period", DAYS[1]).err
    assert words in give("job", "check", "job.toml").err
    refused = give("run", "job.toml", "--period", DAYS[1])
    assert (refused.exit, words in refused.err) == (2, True)
