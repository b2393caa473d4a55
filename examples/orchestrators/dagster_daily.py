"""Run a pufferflow job in Dagster: an asset with a partition for every day, published at three in the morning.

    pip install pufferflow dagster dagster-dg-cli dagster-webserver
    pufferflow job init                               # a job to begin with; PUFFERFLOW_JOB names another one's file
    dg dev -f dagster_daily.py                        # then switch the schedule on
    dg launch -f dagster_daily.py --assets published --partition 2026-11-20

What `pufferflow run --since` makes good is a back-fill in Dagster: choose partitions, or only the missing ones. A
partition that is materialised again gives the same release back: nothing is drawn and nothing is charged, and its data
version, which is the entry in the ledger, stays what it was. If runs may start on several machines, the ledger has to
be a PostgreSQL database.
"""

import os

import dagster as dg

import pufferflow as pf

JOB = os.environ.get(
    "PUFFERFLOW_JOB", "job.toml"
)  # with attempts = 1 under [retries], since Dagster tries again
DAYS = dg.DailyPartitionsDefinition(
    start_date="2026-11-01", timezone="UTC"
)  # the zone of the job's own [schedule]
TRIES, WAIT = 4, 300


@dg.asset(partitions_def=DAYS)
def published(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Publish a day, once."""
    try:
        job = pf.Job.read(JOB)
        ran = job.run(context.partition_time_window.start)
        spent = job.account().spent()
    except (pf.SourceError, pf.LedgerError, pf.SinkError) as error:
        raise dg.RetryRequested(max_retries=TRIES, seconds_to_wait=WAIT) from error
    except pf.PufferflowError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    entry = ran.release.certificate.entry
    return dg.MaterializeResult(
        data_version=dg.DataVersion(entry),
        metadata={
            "epsilon spent": spent.epsilon,
            "folder": dg.MetadataValue.path(ran.folder),
            "entry": entry,
        },
    )


every_day = dg.define_asset_job("every_day", selection=[published])
at_three = dg.build_schedule_from_partitioned_job(every_day, hour_of_day=3)
defs = dg.Definitions(assets=[published], schedules=[at_three])
