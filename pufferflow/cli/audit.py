"""`pufferflow audit`: attack what a job promises, on worlds that are made up, and see whether the promise holds."""

from typing import Annotated

import typer

from pufferflow.cli.codes import REFUSED
from pufferflow.cli.command import Answer
from pufferflow.cli.options import JobPath, PeriodName
from pufferflow.cli.screen import Screen
from pufferflow.errors import Misuse

Trials = Annotated[int, typer.Option("--trials", metavar="N", help="How many releases are drawn and attacked.")]
Confidence = Annotated[
    float, typer.Option("--confidence", metavar="C", help="How sure the lower bound is, between 0 and 1.")
]

_MOST_TRIALS = 100_000_000


def audit(
    screen: Screen, job: JobPath, period: PeriodName = None, trials: Trials = 20_000, confidence: Confidence = 0.99
) -> Answer:
    """Attack the promise of a job by drawing its noise many times.

    Reads no private row. A lower bound above the promised epsilon shows that the promise is broken: exit code 3. One
    below it shows no more than that this attack has not broken it.
    """
    _check_trials(trials)
    from pufferflow.audit import attack
    from pufferflow.cli.promises import in_words
    from pufferflow.jobs import Job
    from pufferflow.report.numbers import downwards

    batch = Job.read(job)
    chosen = batch.period(period)
    plan = batch.plan(chosen)
    found = attack(plan, trials=trials, confidence=confidence)
    lower = downwards(found.lower, 6)
    verdict = "THE PROMISE IS BROKEN" if found.broken else "the promise holds against this attack"
    screen.facts(
        [
            ("promised", in_words(plan.guarantee)),
            ("found", f"epsilon {lower:g} or more, {found.trials} trials, confidence {found.confidence:g}"),
            ("pair", found.pair),
            ("event", found.event),
            ("verdict", verdict),
        ]
    )
    if found.broken:
        screen.note(f"{verdict}: publish nothing of this job, and report it to the maintainers.")
    shown = {"promised": plan.guarantee, "lower": found.lower, "confidence": found.confidence, "trials": found.trials}
    names = {"job": batch.name, "period": str(chosen), "pair": found.pair, "event": found.event}
    return Answer({**names, **shown, "holds": not found.broken}, REFUSED if found.broken else 0)


def _check_trials(trials: int) -> None:
    """Refuse more draws than a machine has room for."""
    if trials > _MOST_TRIALS:
        raise Misuse(
            f"trials is {trials}.", allowed=f"a whole number from 100 to {_MOST_TRIALS}", instead="--trials 100000"
        )
