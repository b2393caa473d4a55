"""`pufferflow plan`: show the numbers to be released, their noise, and their cost; reads public columns only.

The cost is that of the account: spent so far, the total after the release, and how many more fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer

from pufferflow.cli.options import PAGE, Force, JobPath, PeriodName, read_page
from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen
from pufferflow.core.errors import Refused

if TYPE_CHECKING:
    from pufferflow.accounting.ledger.account import Account
    from pufferflow.jobs.job import Job
    from pufferflow.jobs.period import Period
    from pufferflow.privacy.guarantee import Guarantee
    from pufferflow.release.plan import Plan

_UNEQUAL = "periods differ in length, so there is no forecast"


@final
@dataclass(frozen=True)
class ReleaseCost:
    """`after` and `endless` are losses of the limit's kind: the total after this release, and of an endless schedule.

    `fits` counts further releases about the same rows, `ahead` those of the next periods; None is any number of them.
    Unknown values are None too. Before the first run there is no account, and `after` is its total after that run.
    """

    account: str
    opened: bool
    released: bool
    limit: "Guarantee"
    spent: "Guarantee | None" = None
    after: float | None = None
    fits: int | None = None
    ahead: int | None = None
    endless: float | None = None
    rule: str = ""
    note: str = ""

    def document(self) -> dict[str, Any]:
        """Return the cost as a document."""
        return asdict(self)

    def facts(self) -> list[tuple[str, str]]:
        """Return the names and values for people."""
        from pufferflow.cli.guarantee_texts import loss_of, of_limit
        from pufferflow.reports.text import facts

        totals = {
            "spent": "" if self.spent is None else of_limit(loss_of(self.spent), self.limit),
            "after": of_limit(self.after, self.limit),
            "endless": "" if self.endless is None else of_limit(self.endless, self.limit),
        }
        return facts("commands/cost", **{**self.document(), **totals})


def cost_of(job: "Job", period: "Period", plan: "Plan", account: "Account | None") -> ReleaseCost:
    """Return the cost of a planned release for its account, whose ledger is read once."""
    from pufferflow.cli.guarantee_texts import loss_of

    charged = job.file.ledger
    if account is None:
        limit = charged.limit.guarantee
        return ReleaseCost(
            charged.account, opened=False, released=False, limit=limit, after=_first(plan, limit)
        )
    prospect = account.prospect(plan, job.id_of(period), job.every)
    cost = ReleaseCost(
        charged.account,
        opened=True,
        released=prospect.committed,
        limit=account.limit,
        spent=prospect.spent,
        after=None if prospect.after is None else loss_of(prospect.after),
        fits=_whole(prospect.remaining),
        note=_UNEQUAL if job.every is None else "unknown",
    )
    schedule = prospect.schedule
    if schedule is None:
        return cost
    endless = schedule.total if math.isfinite(schedule.total) else None
    return replace(
        cost, ahead=_whole(schedule.fits), endless=endless, rule=schedule.rule, note=schedule.note
    )


def _first(plan: "Plan", limit: "Guarantee") -> float | None:
    """Return the total of a single plan, in the kind of the limit; None if no rule composes it."""
    from pufferflow.accounting.account_costs import AccountCosts
    from pufferflow.cli.guarantee_texts import loss_of

    try:
        return loss_of(AccountCosts([plan.request.scenario], limit).total([plan.cost]).guarantee)
    except Refused:
        return None


def _whole(number: float) -> int | None:
    return None if math.isinf(number) else int(number)


_MOST_CELLS = 20
"""The most numbers that a screen lists; the document and the report have all."""
_SENSITIVITIES = typer.Option(
    "--sensitivities",
    help="Show for each pair of secrets how far apart they put the answer.",
)
_NOISE = typer.Option(
    "--noise",
    metavar="NAME",
    help="Plan with this noise instead of the job's, such as cauchy.",
    show_default=False,
)
_BOUND = typer.Option(
    "--bound",
    metavar="NAME",
    help="Plan with this bound instead of the job's, such as gawm.",
    show_default=False,
)
_COLUMNS = ("query", "group", "noise", "scale", "expected_error", "interval_95")
_HEADS = ("query", "group", "noise", "scale", "expected error", "95 % within")


def plan(  # noqa: PLR0913, PLR0917 - one option each
    screen: Screen,
    job: JobPath,
    period: PeriodName = None,
    output: Annotated[Path | None, PAGE] = None,
    force: Force = False,  # noqa: FBT002
    sensitivities: Annotated[bool, _SENSITIVITIES] = False,  # noqa: FBT002
    noise: Annotated[str | None, _NOISE] = None,
    bound: Annotated[str | None, _BOUND] = None,
) -> Answer:
    """Show what would be released, how noisy it is, and what it costs.

    Releases nothing, and reads public columns only. Prints the noise of each number, its expected error, and the error
    that it stays within in 19 of 20 cases. Then prints what the account has spent, and the sentence that a person
    signs.
    """
    from pufferflow.cli.guarantee_texts import disagreements
    from pufferflow.jobs.job import Job

    place = None if output is None else read_page(output, force=force)
    batch = Job.read(job).planned_with(noise, bound)
    chosen = batch.period(period)
    draft, account = batch.plan(chosen), batch.account()
    cells, check, sentence = draft.summary().to_dicts(), draft.check().to_dicts(), draft.explain()
    cost = cost_of(batch, chosen, draft, account)
    screen.say(f"{batch.name}, {chosen}: {len(cells)} numbers would be published, with this noise:")
    _show_cells(screen, cells)
    _show_findings(screen, check)
    screen.say()
    screen.facts(cost.facts())
    screen.say()
    pairs = draft.sensitivities().to_dicts() if sensitivities else None
    if pairs is not None:
        _show_pairs(screen, pairs)
        screen.say()
    screen.say(sentence)
    notes = disagreements(batch, account)
    for note in notes:
        screen.note(note)
    if place is not None:
        dataset = batch.file.ledger.dataset or ""
        draft.report(
            place, account, batch.every, job=batch.name, period=str(chosen), dataset=dataset
        )
        screen.note(f"The report is {place}.")
    names = {
        "job": batch.name,
        "period": str(chosen),
        "id": batch.id_of(chosen),
        "promise": draft.guarantee,
    }
    contents: dict[str, Any] = {
        "cells": cells,
        "check": check,
        "cost": cost.document(),
        "sentence": sentence,
    }
    contents["sensitivities"] = pairs
    return Answer(
        {
            **names,
            **contents,
            "value_handling": draft.value_handling(),
            "page": place,
            "notes": notes,
        }
    )


def _show_cells(screen: Screen, cells: Sequence[Mapping[str, Any]]) -> None:
    screen.table(_HEADS, [[cell[name] for name in _COLUMNS] for cell in cells[:_MOST_CELLS]])
    if len(cells) > _MOST_CELLS:
        screen.say(f"... and {len(cells) - _MOST_CELLS} more; --json and -o page.html have all")


def _show_findings(screen: Screen, check: Sequence[Mapping[str, Any]]) -> None:
    """Print how many numbers are useless or weak, with remedies."""
    from pufferflow.release.explain.compare import ALL_ROWS
    from pufferflow.reports.text import lines

    of_verdict = {
        name: [one for one in check if one["verdict"] == name] for name in ("useless", "weak")
    }
    findings = [(name, len(own), own[0]) for name, own in of_verdict.items() if own]
    grouped = any(one["group"] != ALL_ROWS for one in check)
    for line in lines("commands/findings", findings=findings, numbers=len(check), grouped=grouped):
        screen.say(line)


def _show_pairs(screen: Screen, pairs: Sequence[Mapping[str, Any]]) -> None:
    """Print distances and scales of the farthest pairs, the deciding one first."""
    ranked = sorted(pairs, key=lambda pair: (pair["decides"], pair["w_inf"]), reverse=True)
    names = [name for name in ranked[0] if name not in {"note", "prior", "decides"}]
    if len({pair["prior"] for pair in pairs}) > 1:
        names.append("prior")
    rows = [
        [pair[name] for name in names] + ["decides" if pair["decides"] else ""]
        for pair in ranked[:_MOST_CELLS]
    ]
    screen.say("Distances between the laws of the answer, and the scale that each bound needs:")
    screen.table([*names, ""], rows)
    if len(pairs) > _MOST_CELLS:
        screen.say(f"... and {len(pairs) - _MOST_CELLS} more; --json has all")
    for note in dict.fromkeys(pair["note"] for pair in pairs if pair["note"]):
        screen.say(f"Note: {note}.")
