"""`pufferflow schedule`: keep running a job on its own cron line until somebody stops it."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, final
from zoneinfo import ZoneInfo

from pufferflow.cli.command import Answer
from pufferflow.cli.options import JobPath, SinceName
from pufferflow.cli.screen import Screen
from pufferflow.errors import PufferflowError

if TYPE_CHECKING:
    from pufferflow.jobs import Job, Ran


def schedule(screen: Screen, job: JobPath, since: SinceName = None) -> Answer:
    """Keep running a job on its own cron line.

    Begins with what was missed while nobody ran it. Ctrl-C and SIGTERM end it, after the run that is under way.
    """
    from pufferflow.jobs import Job
    from pufferflow.jobs import schedule as keep_running

    batch = Job.read(job)
    diary = _Diary(screen, batch)
    with _calm():
        keep_running(batch, since, diary.tell)
    screen.log(f"{diary.now}Stopped.")
    return Answer(diary.counts)


@final
class _Diary:
    """What is told of a schedule, a line each with the time, and counted for the document at the end."""

    def __init__(self, screen: Screen, job: "Job") -> None:
        self._screen, self._job = screen, job
        self.counts: dict[str, Any] = screen.so_far
        self.counts.update(job=job.name, runs=0, failures=0, last=None)

    @property
    def now(self) -> str:
        return datetime.now(ZoneInfo(self._job.file.schedule.timezone)).isoformat(" ", "seconds") + "  "

    def tell(self, what: "Ran | PufferflowError | datetime") -> None:
        from pufferflow.cli.told import run_document, tell_run

        if isinstance(what, datetime):
            self._screen.log(f"{self.now}The next run is at {what.isoformat(' ', 'minutes')}.")
        elif isinstance(what, PufferflowError):
            self.counts["failures"] += 1
            self._screen.log(f"{self.now}{type(what).__name__}: {what.problem} It is tried again at the next time.")
        else:
            self.counts["runs"] += 1
            self.counts["last"] = run_document(what)
            tell_run(self._screen, self._job, what, self.now)


@contextmanager
def _calm() -> Generator[None]:
    """Let a signal that comes before the schedule listens to any end it as calmly."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
