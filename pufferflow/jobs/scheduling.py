"""Running a job on its own cron line until somebody stops it; the ledger is all that has to survive a restart."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any, final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from pufferflow.errors import Misuse, PufferflowError
from pufferflow.jobs.job import AGAIN, Job, When
from pufferflow.jobs.ran import Ran

Told = Callable[[Ran | PufferflowError | datetime], object]
"""What is told of a batch that ran, of one that failed, and of when the next is due."""


def schedule(job: Job, since: When | None = None, told: Told = lambda _: None) -> None:
    """Release what was missed, then run at the times of the cron line; return when SIGINT or SIGTERM asks to stop.

    A run that is under way is finished first. What may go well later is left to the next time; any other error ends
    the schedule, since it would come back every time.
    """
    line = job.file.schedule.cron
    if line is None:
        raise Misuse("The job has no cron line.", allowed="a schedule", instead='[schedule] with cron = "0 3 * * *"')
    scheduler = _scheduler()
    turns = _Turns(job, since, told, line, scheduler)
    scheduler.add_job(
        turns.take,
        _trigger(line, job.file.schedule.timezone),
        next_run_time=datetime.now(UTC),
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
    )
    with _stopping(turns.stop):
        scheduler.start()
    turns.finish()


def next_time(line: str, zone: str, after: datetime | None = None) -> datetime | None:
    """Return when a cron line is due next; None if never again.

    >>> next_time("0 3 * * *", "Europe/Berlin", datetime(2026, 11, 20, 12, tzinfo=UTC)).isoformat()
    '2026-11-21T03:00:00+01:00'
    """
    return next(CronSim(line, (after or datetime.now(UTC)).astimezone(ZoneInfo(zone))), None)


@final
@dataclass
class _Turns:
    """What happens each time; after an error that will not go away, nothing more."""

    job: Job
    since: When | None
    told: Told
    line: str
    scheduler: Any

    def __post_init__(self) -> None:
        self.stopped, self.failure = threading.Event(), list[BaseException]()

    def take(self) -> None:
        try:
            since, self.since = self.since, None
            for ran in self.job.catch_up(since, wait=self._wait):
                self.told(ran)
                if self.stopped.is_set():
                    return
        except AGAIN as error:
            self.told(error)
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - this thread is not the one that can raise it
            self.failure.append(error)
            self.scheduler.shutdown(wait=False)
            return
        self._tell_next()

    def _tell_next(self) -> None:
        due = next_time(self.line, self.job.file.schedule.timezone)
        if due is not None:
            self.told(due)

    def _wait(self, seconds: float) -> None:
        if self.stopped.wait(seconds):
            raise _Stopped

    def stop(self) -> None:
        self.stopped.set()
        self.scheduler.shutdown(wait=True)

    def finish(self) -> None:
        if self.failure:
            raise self.failure[0]


class _Stopped(Exception):
    """Somebody asked to stop while a retry was waited for."""


@contextmanager
def _stopping(stop: Callable[[], None]) -> Generator[None]:
    """Let signals stop what runs inside; in other threads than the first, whoever runs it has to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        threading.Thread(target=stop).start()  # the handler interrupts the scheduler, whose lock it must not wait for

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


def _scheduler() -> Any:
    try:
        from apscheduler.schedulers.blocking import BlockingScheduler  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise Misuse(
            "APScheduler is not installed.",
            allowed="the extra 'schedule'",
            instead="pip install 'pufferflow[schedule]'; or pufferflow run, from cron",
        ) from None
    return BlockingScheduler(timezone=UTC)


def _trigger(line: str, zone: str) -> Any:
    """Return the trigger of a cron line as cron reads it, clock changes included.

    APScheduler's own counts weekdays from Monday and wants day and weekday both to fit.
    """
    from apscheduler.triggers.base import BaseTrigger  # pyright: ignore[reportMissingTypeStubs]

    class Cron(BaseTrigger):
        def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> Any:
            return next_time(line, zone, max(previous_fire_time or now, now))

    return Cron()
