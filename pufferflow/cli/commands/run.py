"""`pufferflow run`: release one period, or all missed ones; `schedule`: run a job on its own cron line."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final
from zoneinfo import ZoneInfo

import typer

from pufferflow.cli.errors import fault_of
from pufferflow.cli.options import JobPath, PeriodName, SinceName, UntilName
from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen
from pufferflow.core.errors import PufferflowError, UsageError

if TYPE_CHECKING:
    from pufferflow.jobs.job import Job, JobRun


def log_run(screen: Screen, ran: "JobRun", before: str = "") -> None:
    """Log a run in one line, and each note in another."""
    from pufferflow.cli.guarantee_texts import loss_of, of_limit
    from pufferflow.reports.text import lines

    for line in lines(
        "commands/run",
        run=ran,
        before=before,
        period=ran.id.removeprefix(f"{ran.job}-"),
        noise=list(
            dict.fromkeys(f"{part.noise} {part.scale:.4g}" for part in ran.release.certificate.sums)
        ),
        spent=""
        if ran.spent is None or ran.limit is None
        else of_limit(loss_of(ran.spent), ran.limit),
        place=near(ran.place),
    ):
        screen.log(line)


def run_document(ran: "JobRun") -> dict[str, Any]:
    """Return a run for programs."""
    certificate = ran.release.certificate
    return {
        "period": ran.period,
        "id": ran.id,
        "state": ran.state,
        "drawn": ran.drawn,
        "sent": ran.sent,
        "attempts": ran.attempts,
        "folder": ran.place,
        "promise": certificate.promise,
        "noise": [
            {"sum": part.sum, "noise": part.noise, "scale": part.scale} for part in certificate.sums
        ],
        "entry": certificate.entry,
        "notes": ran.notes,
    }


def near(place: Path | str) -> str:
    """Return a path relative to the current folder, if it is below; other places unchanged."""
    here = Path.cwd()
    return str(Path(place).relative_to(here)) if Path(place).is_relative_to(here) else str(place)


Revision = Annotated[
    int,
    typer.Option(
        "--revision",
        metavar="N",
        help="2, 3, ...: release corrected rows as a further release, which is charged again.",
    ),
]


def run(  # noqa: PLR0913, PLR0917 - one option each
    screen: Screen,
    job: JobPath,
    period: PeriodName = None,
    since: SinceName = None,
    until: UntilName = None,
    revision: Revision = 1,
) -> Answer:
    """Release one period, or a range of them; each is charged once.

    Charges the ledger, reads the private rows, adds noise, and writes the numbers to the job's sink. Prints for each
    period whether its release is new (released), was written again (sent again) or was there before (kept). Then come
    the noise, what the account has spent, and the folder. Running it again returns the same release and charges
    nothing.
    """
    from pufferflow.jobs.job import Job

    _check(period, since, until, revision)
    batch, runs, failures = Job.read(job), list[object](), list[object]()
    screen.so_far.update(job=batch.name, range=None, runs=runs, failures=failures)
    if since is not None:
        last = _run_range(screen, batch, since, until)
    else:
        last = batch.run(period, revision=revision)
        log_run(screen, last)
        runs.append(run_document(last))
    return Answer({**screen.so_far, "account": _account(batch, last)})


def _run_range(screen: Screen, job: "Job", since: str, until: str | None) -> "JobRun | None":
    """Release the unreleased periods of a range in order; raise the first error after all were tried."""
    from pufferflow.reports.numbers import counted

    periods, todo = job.between(since, until), job.missed(since, until=until)
    before = len(periods) - len(todo)
    ends = {"since": str(periods[0]), "until": str(periods[-1])}
    screen.so_far["range"] = {**ends, "periods": len(periods), "released_before": before}
    of_them = f"{len(todo)} to release, {before} released before" if todo else "all are released"
    screen.log(
        f"{counted(len(periods), 'period')} from {periods[0]} until {periods[-1]}: {of_them}."
    )
    last, errors = None, list[PufferflowError]()
    for number, (period, outcome) in enumerate(job.release_each(todo), 1):
        place = f"[{number}/{len(todo)}] "
        if isinstance(outcome, PufferflowError):
            screen.log(f"{place}{period}  failed  {type(outcome).__name__}: {outcome.problem}")
            screen.so_far["failures"].append(
                {"period": str(period), "error": fault_of(outcome).document()["error"]}
            )
            errors.append(outcome)
        else:
            log_run(screen, outcome, place)
            screen.so_far["runs"].append(run_document(outcome))
            last = outcome
    if errors:
        raise errors[0]
    return last


def _account(job: "Job", last: "JobRun | None") -> dict[str, Any] | None:
    """Return the account after the last run; None before there is one."""
    if last is not None and last.spent is not None:
        return {"name": job.file.ledger.account, "spent": last.spent, "limit": last.limit}
    account = job.account()
    return (
        None
        if account is None
        else {"name": account.name, "spent": account.spent(), "limit": account.limit}
    )


def _check(period: str | None, since: str | None, until: str | None, revision: int) -> None:
    if since is None:
        if until is not None:
            raise UsageError(
                "--until is given without --since.",
                allowed="both",
                instead=f"--since … --until {until}",
            )
        return
    if period is not None:
        raise UsageError(
            "--period and --since are given together.",
            allowed="one of them",
            instead=f"--since {since}",
        )
    if revision != 1:
        raise UsageError(
            "--since and --revision are given together.",
            allowed="a revision of one period",
            instead="--period",
        )


def schedule(screen: Screen, job: JobPath, since: SinceName = None) -> Answer:
    """Keep running, and release each period when the cron line says so.

    The cron line is that of the job file. Begins with the periods that were missed. Ctrl-C and SIGTERM end it after the
    current run.
    """
    from pufferflow.jobs.job import Job
    from pufferflow.jobs.scheduling import schedule as keep_running

    batch = Job.read(job)
    log = _ScheduleLog(screen, batch)
    with _end_quietly():
        keep_running(batch, since, log.add)
    screen.log(f"{log.now}Stopped.")
    return Answer(log.counts)


@final
class _ScheduleLog:
    """Logs runs and failures of a schedule with the time, and counts them for the document."""

    def __init__(self, screen: Screen, job: "Job") -> None:
        self._screen, self._job = screen, job
        self.counts: dict[str, Any] = screen.so_far
        self.counts.update(job=job.name, runs=0, failures=0, last=None)

    @property
    def now(self) -> str:
        return (
            datetime.now(ZoneInfo(self._job.file.schedule.timezone)).isoformat(" ", "seconds")
            + "  "
        )

    def add(self, what: "JobRun | PufferflowError | datetime") -> None:
        if isinstance(what, datetime):
            self._screen.log(f"{self.now}The next run is at {what.isoformat(' ', 'minutes')}.")
        elif isinstance(what, PufferflowError):
            self.counts["failures"] += 1
            self._screen.log(
                f"{self.now}{type(what).__name__}: {what.problem} It is tried again at the next run."
            )
        else:
            self.counts["runs"] += 1
            self.counts["last"] = run_document(what)
            log_run(self._screen, what, self.now)


@contextmanager
def _end_quietly() -> Generator[None]:
    """End quietly on a signal that comes before the schedule handles signals."""
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
