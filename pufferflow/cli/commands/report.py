"""`pufferflow report`: write a report on one release or a whole ledger.

`pufferflow audit`: attack the guarantee of a job on made-up data.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pufferflow.cli.errors import EXITS, MISUSE, REFUSED
from pufferflow.cli.options import PAGE, Force, JobPath, PeriodName, existing, read_page
from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen
from pufferflow.core.errors import LedgerError, UsageError

What = Annotated[
    str,
    typer.Argument(
        metavar="RELEASE|LEDGER",
        help="The folder of a release, or a ledger: a file or an address.",
        show_default=False,
    ),
]


PaidBy = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="LEDGER",
        help="Compare the release with this ledger first.",
        show_default=False,
    ),
]


def report(
    screen: Screen,
    what: What,
    output: Annotated[Path, PAGE],
    ledger: PaidBy = None,
    force: Force = False,  # noqa: FBT002
) -> Answer:
    """Write an HTML report on a release or a ledger.

    The report is one file without external parts, to send or print. If a ledger does not verify, the report shows what
    can still be read, and the exit code is 6. With --ledger a release that differs from the ledger gets no report. The
    report then leaves out the figures of the plan, which are in evidence.json and in no ledger.
    """
    place, folder = read_page(output, force=force), Path(what)
    fault, sound = "", None
    if "://" not in what and folder.is_dir():
        sound = None if ledger is None else _check_is_kept(folder, ledger)
        kind, page = "release", _release_page(folder, compared=ledger is not None)
    else:
        _check_no_second(ledger)
        kind, (page, fault) = "ledger", _ledger_page(what)
    from pufferflow.published.release import put_text

    put_text(place, page)
    size = place.stat().st_size
    screen.say(f"{place}: the report on a {kind}, {size} bytes.")
    if fault:
        screen.note(f"THE LEDGER IS NOT SOUND: {fault}")
    if kind == "ledger":
        sound = not fault
    elif sound is None:
        screen.note("The release was not compared with its ledger: --ledger LEDGER does that.")
    return Answer(
        {"kind": kind, "path": place, "bytes": size, "sound": sound},
        EXITS[LedgerError] if fault else 0,
    )


def _check_is_kept(folder: Path, address: str) -> bool:
    """Return True, or raise the differences of a published release from its ledger."""
    with existing(address) as ledger:
        (published,) = ledger.compare(folder)
    if published.differs:
        raise LedgerError(
            f"The release differs from the ledger: {'; '.join(published.differs)}.",
            allowed="a folder as a run wrote it, and the ledger that was charged",
            instead="pufferflow run with its period, into a folder of its own: the stored release is sent again",
        )
    return True


def _check_no_second(ledger: str | None) -> None:
    if ledger is not None:
        raise UsageError(
            "--ledger is given with a ledger.",
            allowed="--ledger with the folder of a release",
            instead="no --ledger",
        )


def _ledger_page(address: str) -> tuple[str, str]:
    """Return the report on a ledger, and its fault."""
    from pufferflow.accounting.ledger.ledger import facts_of
    from pufferflow.reports.pages import ledger_page

    with existing(address) as ledger:
        facts = facts_of(ledger)
    return ledger_page(facts), "" if facts.sound else facts.fault or "it does not verify."


def _release_page(folder: Path, *, compared: bool) -> str:
    """Return the report on a release; without the plan's evidence if it was compared with a ledger."""
    from pufferflow.published.files import CERTIFICATE
    from pufferflow.published.release import Release

    if not (folder / CERTIFICATE).is_file():
        raise UsageError(
            f"The folder {folder.name[:200]!r} has no {CERTIFICATE}.",
            allowed="a folder of one release, such as a run writes, or a ledger",
            instead="one of the folders in it",
        )
    release = Release.read(folder)
    return (replace(release, plan_evidence=None) if compared else release).page()


Trials = Annotated[
    int, typer.Option("--trials", metavar="N", help="How many releases are drawn and attacked.")
]
Confidence = Annotated[
    float,
    typer.Option(
        "--confidence", metavar="C", help="The confidence of the lower bound, between 0 and 1."
    ),
]

_MOST_TRIALS = 100_000_000


def audit(
    screen: Screen,
    job: JobPath,
    period: PeriodName = None,
    trials: Trials = 20_000,
    confidence: Confidence = 0.99,
) -> Answer:
    """Attack the guarantee of a job by drawing its noise many times.

    Reads no private row, and prints a lower bound on the true loss. A bound above the guarantee shows that it is
    broken: exit code 3. A bound below it shows only that this attack did not break it. With too few trials it shows
    nothing: exit code 2.
    """
    _check_trials(trials)
    from pufferflow.audit import attack
    from pufferflow.cli.guarantee_texts import in_words
    from pufferflow.jobs.job import Job
    from pufferflow.reports.numbers import downwards
    from pufferflow.reports.text import facts

    batch = Job.read(job)
    chosen = batch.period(period)
    plan = batch.plan(chosen)
    result = attack(plan, trials=trials, confidence=confidence)
    lower = downwards(result.lower, 6)
    few = (
        f"too few trials: about {result.needed:,.0f} would detect a loss of 1.5 times the guarantee"
    )
    verdicts = {
        False: "THE GUARANTEE IS BROKEN",
        True: "the guarantee holds against this attack",
        None: few,
    }
    verdict = verdicts[result.holds]
    values = {
        "guaranteed": in_words(plan.guarantee),
        "lower": f"{plan.guarantee.measure} {lower:g}",
    }
    screen.facts(facts("commands/audit", found=result, verdict=verdict, **values))
    if result.broken:
        screen.note(f"{verdict}: publish nothing from this job, and report it to the maintainers.")
    if result.holds is None:
        screen.note(f"Too few trials: use --trials {max(result.needed, 2 * trials):.0f}.")
    bound = {
        "promised": plan.guarantee,
        "lower": result.lower,
        "confidence": result.confidence,
        "trials": result.trials,
    }
    names = {"job": batch.name, "period": str(chosen), "pair": result.pair, "event": result.event}
    code = {False: REFUSED, True: 0, None: MISUSE}[result.holds]
    return Answer({**names, **bound, "needed": result.needed, "holds": result.holds}, code)


def _check_trials(trials: int) -> None:
    """Refuse more draws than fit into memory."""
    if trials > _MOST_TRIALS:
        raise UsageError(
            f"trials is {trials}.",
            allowed=f"a whole number from 100 to {_MOST_TRIALS}",
            instead="--trials 100000",
        )
