"""Scheduled batches: a file says what is released for every period, and each release happens once."""

from pufferflow.jobs import starter
from pufferflow.jobs.file import check_addresses, schema
from pufferflow.jobs.file_source import FileSource
from pufferflow.jobs.folder_sink import FolderTable
from pufferflow.jobs.job import Job, JobRun
from pufferflow.jobs.period import Period
from pufferflow.jobs.published import zone_changed
from pufferflow.jobs.scheduling import next_time, schedule
from pufferflow.jobs.sink import MOST_NEW, PAGE, Sink, SinkTable, release_id
from pufferflow.jobs.source import (
    ColumnType,
    Options,
    SourceTable,
    check_address,
    check_places,
    dtypes_of,
    looked_up,
    names_period,
    placed,
    word_of,
)
from pufferflow.jobs.sources import TRACEBACK, tracebacks
from pufferflow.jobs.table_source import TableSource
from pufferflow.jobs.toml import TomlTable, resolved, with_variables

__all__ = [
    "MOST_NEW",
    "PAGE",
    "TRACEBACK",
    "ColumnType",
    "FileSource",
    "FolderTable",
    "Job",
    "JobRun",
    "Options",
    "Period",
    "Sink",
    "SinkTable",
    "SourceTable",
    "TableSource",
    "TomlTable",
    "check_address",
    "check_addresses",
    "check_places",
    "dtypes_of",
    "looked_up",
    "names_period",
    "next_time",
    "placed",
    "release_id",
    "resolved",
    "schedule",
    "schema",
    "starter",
    "tracebacks",
    "with_variables",
    "word_of",
    "zone_changed",
]
