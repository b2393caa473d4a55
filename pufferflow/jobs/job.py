"""A scheduled batch: the same queries for one period after the other, each released once on one account.

The ledger is the only state. A period's release has an id of its own. The first run commits it. All other runs, later
or at the same time, get that release and draw nothing. One run opens the ledger once.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property, partial
from pathlib import Path
from time import sleep
from typing import Any, Final, final

import polars as pl
from msgspec import structs

from pufferflow.accounting.ledger.account import Account
from pufferflow.accounting.ledger.ledger import Ledger
from pufferflow.core.errors import LedgerError, PufferflowError, SinkError, SourceError, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.paths import scheme_of
from pufferflow.core.progress import waiting_for
from pufferflow.core.rounding import agree
from pufferflow.jobs.file import Charged, JobFile, check_addresses, read_file
from pufferflow.jobs.missed import (
    History,
    check_known,
    check_not_lost,
    check_not_older,
    check_same_zone,
    in_order,
    promise_changes,
    write_page,
    zone_note,
)
from pufferflow.jobs.period import DURATIONS, Period, last_complete
from pufferflow.jobs.sink import Sink, release_id
from pufferflow.jobs.sources import FileSource, call_safely, frame_of, functions_of
from pufferflow.jobs.toml import with_variables
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.certificate import CoveredPeriod
from pufferflow.published.folder import Copy
from pufferflow.published.release import Release
from pufferflow.release.batch import Batch
from pufferflow.release.mechanisms.additive import columns_of
from pufferflow.release.plan import Plan
from pufferflow.reports.evidence import Evidence


@final
@dataclass(frozen=True)
class JobAccount:
    """The `[ledger]` of a job file, and the folder that paths in it are relative to."""

    charged: Charged
    folder: Path

    @property
    def address(self) -> str:
        """Where the ledger is; a file by its whole path, however it is written."""
        address = with_variables(self.charged.address)
        for start in ("sqlite:///", "sqlite+pysqlite:///"):
            address = address.removeprefix(start)
        return (
            str(self.folder / Path(address).expanduser()) if scheme_of(address) is None else address
        )

    @property
    def no_file(self) -> bool:
        """Whether the ledger is a file that is not there."""
        address = self.address
        return scheme_of(address) is None and not Path(address).exists()

    def ledger(self) -> Ledger:
        """Return the ledger, which is made if it is missing."""
        return Ledger(self.address)

    def account(self) -> Account | None:
        """Return the account; None before the first run has opened it."""
        return None if self.no_file else self.account_in(self.ledger())

    def account_in(self, ledger: Ledger) -> Account | None:
        """Return the account in a ledger that is open."""
        name = self.charged.account
        return ledger.account(name) if name in ledger.accounts() else None

    def has_paid(self, release_id: str) -> bool:
        """Return whether the cost of a release is reserved, and the release not committed."""
        account = self.account()
        history = () if account is None else account.history()
        return any(
            entry.release_id == release_id and entry.state == "reserved" for entry in history
        )

    def release(self, plan: Plan, ledger: Ledger, release_id: str, *, estimates: bool) -> Release:
        """Release a plan on the account, which is opened if it is missing."""
        charged = self.charged
        scenario, limit = plan.request.scenario, charged.limit.guarantee
        reserve = None
        if charged.reserve is not None and charged.account not in ledger.accounts():
            reserve = [
                (plan, charged.reserve)
            ]  # only for a new account: later plans may differ in last digits
        account = ledger.open(
            charged.account,
            scenario,
            limit=limit,
            dataset=charged.dataset,
            reserve=reserve,
            keys_delta=charged.keys_delta,
            methods=charged.methods or "all",
        )
        return plan.release(account, release_id, estimates=estimates)


@final
@dataclass(frozen=True, eq=False)
class JobRun(InNotebooks):
    """A batch that is released, and the place in its sink.

    `drawn` says whether noise was drawn now; otherwise the ledger had the release, and it is the same. `sent` says
    whether it was written now; otherwise the sink had it. `notes` lists problems that did not stop the run. `spent` is
    what the account had spent of its `limit` after the run; None if the ledger could not be read then.

    >>> import tempfile, pufferflow as pf
    >>> from pufferflow.jobs import starter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = starter.write(folder)
    ...     ran = pf.Job.read(f"{folder}/job.toml").run("2026-11-20")
    ...     print(ran.state, ran.id, ran.folder.name, ran.release.frame.height)
    released meters-daily-2026-11-20 2026-11-20 4
    """

    job: str
    period: str
    id: str
    release: Release
    place: str
    drawn: bool
    sent: bool
    attempts: int = 1
    notes: tuple[str, ...] = ()
    spent: Guarantee | None = None
    limit: Guarantee | None = None

    @property
    def folder(self) -> Path:
        """The place as a path, for sinks that are folders."""
        return Path(self.place)

    @property
    def state(self) -> str:
        """What happened, in a word: "released", "sent again" or "kept"."""
        return "released" if self.drawn else "sent again" if self.sent else "kept"


_log: Final = logging.getLogger(__name__)
AGAIN = SourceError, LedgerError, SinkError
"""The errors after which a run is retried."""
When = str | date | Period


@final
@dataclass(frozen=True, eq=False)
class Job(InNotebooks):
    """A batch that is released for every period; `Job.read` reads its file.

    >>> import tempfile
    >>> from pufferflow.jobs import starter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = starter.write(folder)
    ...     job = Job.read(f"{folder}/job.toml")
    ...     first, again = job.run("2026-11-20"), job.run("2026-11-20")
    ...     print(first.state, again.state, again.release.frame.equals(first.release.frame))
    released kept True
    """

    path: Path
    file: JobFile

    @classmethod
    def read(cls, path: str | Path) -> "Job":
        """Return the job of a file; nothing is run yet."""
        if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise UsageError(
                f"The path is of type {type(path).__name__}.",
                allowed="a path",
                instead='"job.toml"',
            )
        place = Path(path).absolute()
        return cls(place, read_file(place))

    def planned_with(self, noise: str | None = None, bound: str | None = None) -> "Job":
        """Return the job with another noise or bound by its name, to plan with; None is that of its file."""
        given = {
            name: value for name, value in (("noise", noise), ("bound", bound)) if value is not None
        }
        return replace(self, file=structs.replace(self.file, **given))

    @property
    def name(self) -> str:
        """The name of the job, with which its releases' ids begin."""
        return self.file.name

    @property
    def folder(self) -> Path:
        """Where the file is: paths in it are relative to this."""
        return self.path.parent

    @property
    def every(self) -> str | None:
        """The interval between releases, as forecasts take it; None for months, which differ in length."""
        return DURATIONS.get(self.file.schedule.period)

    # Periods

    def period(self, when: When | None = None, now: datetime | None = None) -> Period:
        """Return the period of a name, the one that holds a date or a moment, or the last that is over."""
        schedule = self.file.schedule
        if when is None:
            return last_complete(schedule.period, schedule.timezone, now)
        if isinstance(when, Period):
            chosen = when
        elif isinstance(when, date):
            chosen = Period.holding(when, schedule.period, schedule.timezone)
        else:
            chosen = Period.read(when, schedule.period, schedule.timezone)
        if (chosen.every, chosen.zone) != (schedule.period, schedule.timezone):
            raise UsageError(
                f"The period is a {chosen.every} in {chosen.zone!r}.",
                allowed=f"a {schedule.period} in {schedule.timezone!r}, as the job has them",
                instead="job.period(…)",
            )
        if not chosen.over(now):
            raise UsageError(
                f"The period {chosen} is not over: it ends at {chosen.ends.isoformat()}.",
                allowed="periods that are over",
                instead=f'"{last_complete(schedule.period, schedule.timezone, now)}"',
            )
        return chosen

    def missed(
        self, since: When | None = None, now: datetime | None = None, *, until: When | None = None
    ) -> list[Period]:
        """Return the periods that are over and were not released, or not written to the sink, oldest first.

        With `since` these are the ones from it to `until`, or to the last that is over; both are included.

        Without `since` three kinds are returned. Of the last `catch_up` periods: those after the last that was
        released, and those whose release is in the ledger and not in the sink. Of all periods: those whose cost is paid
        and whose release is not in the ledger. If nothing was released so far, it is the last period.
        """
        schedule = self.file.schedule
        last = self._last(since, until, now)
        known = History.of(self.account(), f"{self.name}-", schedule.period, self._sink().has)
        if since is None:
            return known.after_the_last(last, schedule.catch_up)
        return known.since(self.period(since, now), last)

    def between(
        self, since: When, until: When | None = None, now: datetime | None = None
    ) -> list[Period]:
        """Return all periods from one to another that is over, released or not, oldest first."""
        return in_order(self.period(since, now), self._last(since, until, now))

    def _last(self, since: When | None, until: When | None, now: datetime | None) -> Period:
        last = self.period(until, now)
        if until is not None and since is None:
            raise UsageError(
                "until is given without since.",
                allowed="both, or neither",
                instead=f'since="{last}"',
            )
        if since is not None and (first := self.period(since, now)).start > last.start:
            raise UsageError(
                f"The periods are from {first} until {last}, which is earlier.",
                allowed="a first period that is not after the last",
                instead=f'since="{last}", until="{first}"',
            )
        return last

    def id_of(self, period: When, revision: int = 1) -> str:
        """Return the id under which a period's release is kept; a revision is a release of its own, and paid for."""
        return release_id(self.name, self._label(period, revision))

    def folder_of(self, period: When, revision: int = 1) -> Path:
        """Return where a period's release is written, for sinks that are folders."""
        return Path(self.place_of(period, revision))

    def place_of(self, period: When, revision: int = 1) -> str:
        """Return where a period's release goes, in words: of a folder its path."""
        return self._sink().place(self._label(period, revision))

    def published(self) -> tuple[Copy, ...]:
        """Return what is in the sink, of any kind, for `ledger.compare`.

        >>> import tempfile
        >>> from pufferflow.jobs import starter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = starter.write(folder)
        ...     job = Job.read(f"{folder}/job.toml")
        ...     _ = job.run("2026-11-20")
        ...     with job.ledger() as ledger:
        ...         [(one.label, one.differs) for one in ledger.compare(job.published())]
        [('2026-11-20', ())]
        """
        return tuple(self._sink().copies())

    def _sink(self) -> Sink:
        return self.file.sink.open(self.folder, self.name)

    def _label(self, period: When, revision: int) -> str:
        if isinstance(revision, bool) or not isinstance(revision, int) or revision < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                "The revision is not a whole number above 0.",
                allowed="1, or 2 for a correction",
                instead="revision=2",
            )
        return f"{self.period(period)}" + (f".{revision}" if revision > 1 else "")

    # What would be released

    def batch(self, period: When | None = None) -> Batch:
        """Return the batch for a period; no row is read, but rows are copied if the source is a query."""
        chosen = self.period(period)
        build, rows = self.functions
        frame = frame_of(self.file.source, rows, self.folder, chosen)
        batch = call_safely(build, (frame, chosen), UsageError)
        if not isinstance(batch, Batch):
            raise UsageError(
                f"The job's {self.file.build} returns {type(batch).__name__}.",
                allowed="a batch: a protected frame with queries",
                instead='return pf.protect(frame, scenario).private_sum("level")',
            )
        return batch

    def plan(self, period: When | None = None) -> Plan:
        """Return what would be released for a period, and how noisy; reads public columns only."""
        check_addresses(self.file)
        chosen = self.period(period)
        plan = self.batch(chosen).plan(**self.file.plan_arguments)
        self.file.sink.check_columns(_columns(plan))
        plan = plan.covering(CoveredPeriod(str(chosen), chosen.every, chosen.zone))
        if plan.rows == 0:
            raise SourceError(
                f"The source has no rows for the period {chosen}. Nothing was released or charged.",
                allowed="periods of which there are rows",
                instead="another period, or running the job again when the rows have come",
            )
        return plan

    def evidence(self, plan: Plan, period: When | None = None) -> Evidence:
        """Return the report's evidence of a plan for a period, with what the account has spent and will spend."""
        return self._evidence(
            plan, "" if period is None else str(self.period(period)), self.account()
        )

    def _evidence(self, plan: Plan, period: str, account: Account | None) -> Evidence:
        return plan.evidence(
            account,
            self.every,
            job=self.name,
            period=period,
            dataset=self.file.ledger.dataset or "",
        )

    # Who pays

    @cached_property
    def _payer(self) -> JobAccount:
        return JobAccount(self.file.ledger, self.folder)

    @property
    def ledger_address(self) -> str:
        """Where the ledger is, with its password; a file by its whole path."""
        return self._payer.address

    def ledger(self) -> Ledger:
        """Return the ledger, which is made if it is missing."""
        return self._payer.ledger()

    def account(self) -> Account | None:
        """Return the account; None before the first run has opened it."""
        return self._payer.account()

    # Releasing

    def run(
        self,
        period: When | None = None,
        *,
        revision: int = 1,
        wait: Callable[[float], object] = sleep,
    ) -> JobRun:
        """Release a period, once: a second run, or one at the same time, returns the same release.

        Failures that may pass are retried, as the file says; `wait` is called with the seconds in between. A line of
        the log says what failed and when it is retried. Late or corrected rows are a new `revision`, which is released
        and paid for by itself.
        """
        chosen, retries, notes = self.period(period), self.file.retries, list[str]()
        while True:
            try:
                return self._run(chosen, revision, notes)
            except AGAIN as error:
                notes.append(f"attempt {len(notes) + 1}: {error.problem}")
                if len(notes) >= retries.attempts:
                    raise
                _log.warning(
                    "%s: attempt %d of %d failed: %s Waiting %s before the next.",
                    *(
                        self.id_of(chosen, revision),
                        len(notes),
                        retries.attempts,
                        error.problem,
                        retries.wait,
                    ),
                )
            wait(retries.seconds)

    def catch_up(
        self,
        since: When | None = None,
        *,
        until: When | None = None,
        wait: Callable[[float], object] = sleep,
    ) -> Iterator[JobRun]:
        """Release all periods that were missed, oldest first; of a range, those that `missed` returns.

        A period that fails by itself does not hold up the others: the first such error is raised at the end.
        """
        errors = list[PufferflowError]()
        for _, outcome in self.release_each(self.missed(since, until=until), wait=wait):
            if isinstance(outcome, JobRun):
                yield outcome
            else:
                errors.append(outcome)
        if errors:
            raise errors[0]

    def release_each(
        self, periods: Iterable[Period], *, wait: Callable[[float], object] = sleep
    ) -> Iterator[tuple[Period, JobRun | PufferflowError]]:
        """Release periods, one after the other; yield the run or the error of each.

        Errors of one period are yielded: rows that cannot be read, a folder that cannot be written, and a cost that was
        paid for another plan. Errors that would recur in every period are raised.
        """
        for period in periods:
            outcome: JobRun | PufferflowError
            try:
                outcome = self.run(period, wait=wait)
            except (SourceError, SinkError) as error:
                outcome = error
            except UsageError as error:
                if not self._payer.has_paid(self.id_of(period)):
                    raise
                outcome = error
            yield period, outcome

    def _run(self, period: Period, revision: int, attempts: Sequence[str]) -> JobRun:
        name, label, sink = (
            self.id_of(period, revision),
            self._label(period, revision),
            self._sink(),
        )
        if self._payer.no_file:
            check_not_lost(sink)
        with closing(self._payer.ledger()) as ledger:
            release, plan = self._committed(name, label, sink, ledger), None
            if drawn := release is None:
                check_known(sink, label)
                sink.check_free(label)
                check_not_older(sink, ledger)
                check_same_zone(
                    self._payer.account_in(ledger), self.name, period.every, period.zone
                )
                plan = self._planned(name, period)
                with waiting_for(f"the sink {sink.root!r}"):
                    sink.prepare(_columns(plan))
                _log.info("%s: reading the private rows and drawing noise.", name)
                release = self._payer.release(plan, ledger, name, estimates=self.file.estimates)
            notes = [
                *attempts,
                *promise_changes(self.file, release),
                *zone_note(release, period.zone),
            ]
            with waiting_for(f"the sink {sink.root!r}"):
                sent = sink.send(label, release)
            gather = partial(self._gather, period, plan, release, ledger)
            notes += write_page(
                sink, label, gather, partial(release.page, job=self.name, period=str(period))
            )
            spent, limit = self._total(ledger, notes)
        place, attempt = sink.place(label), len(attempts) + 1
        return JobRun(
            self.name,
            str(period),
            name,
            release,
            place,
            drawn,
            sent,
            attempt,
            tuple(notes),
            spent,
            limit,
        )

    def _planned(self, name: str, period: Period) -> Plan:
        _log.info("%s: planning; public columns alone are read.", name)
        with waiting_for("the plan, which reads public columns of the source"):
            return self.plan(period)

    def _committed(self, name: str, label: str, sink: Sink, ledger: Ledger) -> Release | None:
        """Return the release that the account has under a name; another machine may be quicker at any time."""
        for _ in range(2):
            account = self._payer.account_in(ledger)
            release = None if account is None else account.find(name)
            if release is not None or not sink.has(label):
                return release
        return None

    def _gather(
        self, period: Period, plan: Plan | None, release: Release, ledger: Ledger
    ) -> Evidence:
        """Return the evidence for a release's report, if job and rows are as they were at the release."""
        made = self.plan(period) if plan is None else plan
        if not agree(made.certificate.facts, release.certificate.facts):
            raise UsageError("the job, or its rows, have changed since the release.")
        return self._evidence(made, str(period), self._payer.account_in(ledger))

    def _total(self, ledger: Ledger, notes: list[str]) -> tuple[Guarantee | None, Guarantee | None]:
        """Return what the account has spent, and its limit; a ledger that is gone by now is not an error."""
        try:
            account = self._payer.account_in(ledger)
            return (None, None) if account is None else (account.spent(), account.limit)
        except LedgerError as error:
            notes.append(f"the total could not be read: {error.problem}")
            return None, None

    @cached_property
    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """The functions that the file names, imported: the one that builds the batch, and that of rows, if any."""
        source = self.file.source
        call = source.function if isinstance(source, FileSource) else None  # pyright: ignore[reportUnnecessaryIsInstance] - other kinds
        functions = functions_of([self.file.build, *([] if call is None else [call])], self.folder)
        return functions[0], functions[1] if len(functions) > 1 else None

    def __repr__(self) -> str:
        """Show the name and the file."""
        return (
            f"<Job {self.name!r} of {str(self.path)!r}: one release a {self.file.schedule.period}>"
        )


def _columns(plan: Plan) -> pl.Schema:
    return columns_of(plan.request.key_types, plan.request.queries)
