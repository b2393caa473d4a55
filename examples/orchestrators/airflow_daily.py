"""Run a pufferflow job in Airflow (3.2 or newer): a DAG that publishes the day before, at three in the morning.

    pip install pufferflow apache-airflow
    pufferflow job init /srv/meters                   # a job to begin with
    export PUFFERFLOW_JOB=/srv/meters/job.toml        # wherever tasks run
    cp airflow_daily.py "$AIRFLOW_HOME/dags/"
    airflow standalone                                # then switch the DAG on
    airflow dags test every_day 2026-11-21T03:00      # one run, which publishes 20 November
    airflow backfill create --dag-id every_day --from-date 2026-11-02 --to-date 2026-11-22

A run publishes the last day that was over when the run was due. What `pufferflow run --since` makes good is `catchup`
in Airflow, from `start_date` on, or a back-fill. A run that is cleared gives the same release back: nothing is drawn
and nothing is charged. If tasks may run on several machines, the ledger has to be a PostgreSQL database.
"""

import os
from datetime import timedelta

import pendulum
from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

import pufferflow as pf

JOB = os.environ.get(
    "PUFFERFLOW_JOB", "job.toml"
)  # with attempts = 1 under [retries], since Airflow tries again


@dag(
    schedule="0 3 * * *",
    start_date=pendulum.datetime(2026, 11, 2, tz="UTC"),  # the zone of the job's own [schedule]
    catchup=True,
    max_active_runs=1,
)
def every_day() -> None:
    """Publish a day, every day."""

    @task(retries=4, retry_delay=timedelta(minutes=5))
    def publish(data_interval_end: pendulum.DateTime | None = None) -> dict[str, str]:
        """Publish the last complete day, once."""
        try:
            job = pf.Job.read(JOB)
            ran = job.run(job.period(now=data_interval_end))
            spent = job.account().spent()
        except (pf.SourceError, pf.LedgerError, pf.SinkError):
            raise
        except pf.PufferflowError as error:
            raise AirflowFailException(str(error)) from error
        return {
            "folder": str(ran.folder),
            "entry": ran.release.certificate.entry,
            "spent": str(spent),
        }

    publish()


every_day()
