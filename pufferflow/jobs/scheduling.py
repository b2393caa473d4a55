"""Running a job on its own cron line until somebody stops it; the ledger is all that has to survive a restart."""

import logging
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import sleep
from types import FrameType
from typing import Any, final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from pufferflow.errors import Misuse, PufferflowError
from pufferflow.jobs.job import AGAIN, Job, Ran, When
from pufferflow.jobs.period import Period

_LOOK = 0.1
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
    scheduler, turns = _scheduler(), _Turns(job, since, told)
    scheduler.add_job(
        turns.take,
        _trigger(line, job.file.schedule.timezone),
        next_run_time=datetime.now(UTC),
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
    )
    with _stopping(turns):
        scheduler.start()
        while not turns.over:
            sleep(_LOOK)
        turns.stopped.set()
        scheduler.shutdown(wait=True)
    if turns.failure is not None:
        raise turns.failure


def next_time(line: str, zone: str, after: datetime | None = None) -> datetime | None:
    """Return when a cron line is due next; None if never again.

    >>> next_time("0 3 * * *", "Europe/Berlin", datetime(2026, 11, 20, 12, tzinfo=UTC)).isoformat()
    '2026-11-21T03:00:00+01:00'
    """
    return next(CronSim(line, (after or datetime.now(UTC)).astimezone(ZoneInfo(zone))), None)


@final
@dataclass
class _Turns:
    """What happens each time, until it is over: somebody asked to stop, or an error came up that will not go away."""

    job: Job
    since: When | None
    told: Told
    over: bool = False
    failure: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def take(self) -> None:
        if self.over:
            return
        try:
            self._release_missed()
        except AGAIN as error:
            self.told(error)
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - this thread is not the one that can raise it
            self.failure, self.over = error, True
            return
        plan = self.job.file.schedule
        due = next_time(plan.cron or "", plan.timezone)
        if due is not None and not self.over:
            self.told(due)

    def _release_missed(self) -> None:
        failed = list[Period]()
        for period, found in self.job.release_each(self.job.missed(self.since), wait=self._wait):
            self.told(found)
            if not isinstance(found, Ran):
                failed.append(period)
            if self.over:
                raise _Stopped
        self.since = failed[0] if failed else None  # the next time comes back to it, though later ones are released

    def _wait(self, seconds: float) -> None:
        if self.stopped.wait(seconds):
            raise _Stopped


class _Stopped(Exception):
    """Somebody asked to stop."""


@contextmanager
def _stopping(turns: _Turns) -> Generator[None]:
    """Let signals end what runs inside; in other threads than the first nobody gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        turns.over = True  # and no more: a handler must not wait for a lock that what it interrupts may have

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


def _scheduler() -> Any:
    try:
        from apscheduler.schedulers.background import BackgroundScheduler  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise Misuse(
            "APScheduler is not installed.",
            allowed="the extra 'schedule'",
            instead="pip install 'pufferflow[schedule]'; or pufferflow run, from cron",
        ) from None
    quiet = logging.getLogger("pufferflow.schedule")
    quiet.setLevel(logging.CRITICAL)  # it warns of every time that comes while a run goes on
    return BackgroundScheduler(timezone=UTC, logger=quiet)


def _trigger(line: str, zone: str) -> Any:
    """Return the trigger of a cron line as cron reads it, clock changes included.

    APScheduler's own counts weekdays from Monday and wants day and weekday both to fit.
    """
    from apscheduler.triggers.base import BaseTrigger  # pyright: ignore[reportMissingTypeStubs]

    class Cron(BaseTrigger):
        def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> Any:
            return next_time(line, zone, max(previous_fire_time or now, now))

    return Cron()
