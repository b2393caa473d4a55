"""Run a job on its own cron line until a signal stops it; only the ledger has to survive a restart."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, sleep
from types import FrameType
from typing import final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from pufferflow.core.errors import PufferflowError, UsageError
from pufferflow.jobs.job import AGAIN, Job, JobRun, When
from pufferflow.jobs.period import Period

_LOOK = 0.1
"""Seconds between two looks at the clock, and at whether a signal has come."""
Report = Callable[[JobRun | PufferflowError | datetime], object]
"""Takes the outcome of each run, each failure, and the time at which the next run is due."""


def schedule(job: Job, since: When | None = None, report: Report = lambda _: None) -> None:
    """Release the missed periods, then run at the times of the cron line; return after SIGINT or SIGTERM.

    A run that is under way is finished first. After an error that may pass, the schedule goes on; any other error ends
    it, since it would recur every time.
    """
    line, zone = job.file.schedule.cron, job.file.schedule.timezone
    if line is None:
        raise UsageError(
            "The job has no cron line.",
            allowed="a schedule",
            instead='[schedule] with cron = "0 3 * * *"',
        )
    with _stop_signals() as stop:
        while not stop.requested:
            try:
                since = _release_missed(job, since, report, stop)
            except AGAIN as error:
                report(error)
            except _Stopped:
                return
            due = next_time(line, zone)
            if due is not None and not stop.requested:
                report(due)
            stop.wait_until(due)


def next_time(line: str, zone: str, after: datetime | None = None) -> datetime | None:
    """Return when a cron line is due next; None if never again.

    >>> next_time("0 3 * * *", "Europe/Berlin", datetime(2026, 11, 20, 12, tzinfo=UTC)).isoformat()
    '2026-11-21T03:00:00+01:00'
    """
    return next(CronSim(line, (after or datetime.now(UTC)).astimezone(ZoneInfo(zone))), None)


class _Stopped(Exception):
    """A signal came in the middle of a turn."""


@final
@dataclass
class _Stop:
    """Whether a signal has come; its handler sets a flag and takes no lock that the interrupted code may hold."""

    requested: bool = False

    def wait_until(self, due: datetime | None) -> None:
        """Return at a time on the clock (None: at no time), or when a signal comes."""
        while not self.requested and (due is None or datetime.now(UTC) < due):
            sleep(
                _LOOK
                if due is None
                else min(_LOOK, max((due - datetime.now(UTC)).total_seconds(), 0))
            )

    def wait(self, seconds: float) -> None:
        """Wait between two attempts; a signal ends the turn."""
        end = monotonic() + seconds
        while not self.requested and monotonic() < end:
            sleep(min(_LOOK, max(end - monotonic(), 0)))
        if self.requested:
            raise _Stopped


def _release_missed(job: Job, since: When | None, report: Report, stop: _Stop) -> Period | None:
    """Release all missed periods; return the first that failed: the next turn begins there, whatever came later."""
    failed = list[Period]()
    for period, outcome in job.release_each(job.missed(since), wait=stop.wait):
        report(outcome)
        if not isinstance(outcome, JobRun):
            failed.append(period)
        if stop.requested:
            raise _Stopped
    return failed[0] if failed else None


@contextmanager
def _stop_signals() -> Generator[_Stop]:
    """Let SIGINT and SIGTERM request the end of the work inside; only the main thread gets signals."""
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.requested = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, known in before.items():
            signal.signal(number, known)
