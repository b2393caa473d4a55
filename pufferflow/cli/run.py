"""`pufferflow run`: one scheduled batch, or all that were missed; running it twice gives the same release once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pufferflow.cli.command import Answer
from pufferflow.cli.options import JobPath, PeriodName, SinceName
from pufferflow.cli.screen import Screen
from pufferflow.errors import Misuse

if TYPE_CHECKING:
    from pufferflow.jobs import Job, Ran

Revision = Annotated[
    int,
    typer.Option(
        "--revision", metavar="N", help="2, 3, ...: corrected rows, as a release of its own that costs again."
    ),
]


def run(
    screen: Screen, job: JobPath, period: PeriodName = None, since: SinceName = None, revision: Revision = 1
) -> Answer:
    """Release one period, or all since one; each is paid for once.

    Tells of each period whether its release was drawn now (released), written again (sent again) or there before
    (kept), then the noise, what the account has spent, and the folder. A second time the same release comes back, and
    nothing is charged: whoever is not sure whether it ran may run it again.
    """
    from pufferflow.cli.told import account_document, run_document, tell_run
    from pufferflow.jobs import Job

    _check(period, since, revision)
    batch = Job.read(job)
    runs = list[object]()
    screen.so_far.update(job=batch.name, runs=runs)
    for ran in _runs(batch, period, since, revision):
        tell_run(screen, batch, ran)
        runs.append(run_document(ran))
    if not runs:
        screen.say(f"Every period since {since} is released.")
    return Answer({**screen.so_far, "account": account_document(batch.account())})


def _runs(job: "Job", period: str | None, since: str | None, revision: int) -> "Iterator[Ran]":
    if since is not None:
        yield from job.catch_up(since)
    else:
        yield job.run(period, revision=revision)


def _check(period: str | None, since: str | None, revision: int) -> None:
    if since is None:
        return
    if period is not None:
        raise Misuse("There is a --period and a --since.", allowed="one of them", instead=f"--since {since}")
    if revision != 1:
        raise Misuse("There is a --since and a --revision.", allowed="a revision of one period", instead="--period")
