"""Run a pufferflow job in Prefect: a flow that publishes, at three in the morning, all days that were missed.

    pip install pufferflow prefect
    pufferflow job init                               # a job to begin with; PUFFERFLOW_JOB names another one's file
    prefect server start                              # or PREFECT_API_URL of a server that is there
    python prefect_daily.py                           # serves the flow on its cron line
    prefect deployment run every-day/nightly -p since=2026-11-01

The last line is a back-fill: `since` is `--since` of `pufferflow run`, all days from then on that were not published.
Without it the flow takes those after the last one that was. A day that is run again gives the same release back:
nothing is drawn and nothing is charged. So runs that Prefect makes up for, or two at once, publish no day twice. If
flows may run on several machines, the ledger has to be a PostgreSQL database.
"""

import os
from typing import Any

from prefect import State, Task, flow, task
from prefect.client.schemas.objects import TaskRun
from prefect.schedules import Cron

import pufferflow as pf

JOB = os.environ.get(
    "PUFFERFLOW_JOB", "job.toml"
)  # with attempts = 1 under [retries], since Prefect tries again


def may_pass(_task: Task[..., Any], _run: TaskRun, state: State) -> bool:
    """Say whether a failure may be gone at the next try."""
    return isinstance(
        state.result(raise_on_failure=False), pf.SourceError | pf.LedgerError | pf.SinkError
    )


@task(retries=4, retry_delay_seconds=300, retry_condition_fn=may_pass)
def missed(since: str | None) -> list[str]:
    """Return the days that are not yet published."""
    return [str(period) for period in pf.Job.read(JOB).missed(since)]


@task(
    retries=4,
    retry_delay_seconds=300,
    retry_condition_fn=may_pass,
    task_run_name="publish {period}",
)
def publish(period: str) -> str:
    """Publish a day, once; return its entry in the ledger."""
    job = pf.Job.read(JOB)
    ran = job.run(period)
    print(f"{ran.folder}: entry {ran.release.certificate.entry}, {job.account().spent()} is spent")
    return ran.release.certificate.entry


@flow(name="every-day", log_prints=True)
def every_day(since: str | None = None) -> list[State]:
    """Publish what was missed; a day that fails keeps no other day back, and fails the flow at its end."""
    return [publish(period, return_state=True) for period in missed(since)]


if __name__ == "__main__":
    every_day.serve("nightly", schedule=Cron("0 3 * * *", timezone="UTC"), limit=1)
