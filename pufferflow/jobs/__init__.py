"""Scheduled batches: a file says what is released for every period, and whoever runs it, it is released once."""

from pufferflow.jobs.job import Job
from pufferflow.jobs.period import Period
from pufferflow.jobs.ran import Ran
from pufferflow.jobs.reading import schema
from pufferflow.jobs.scheduling import next_time, schedule

__all__ = ["Job", "Period", "Ran", "next_time", "schedule", "schema"]
