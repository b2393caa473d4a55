"""`pufferflow plan`: what would be released, how noisy, and at what cost; public columns alone are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pufferflow.cli.command import Answer
from pufferflow.cli.options import PAGE, Force, JobPath, PeriodName, read_page
from pufferflow.cli.screen import Screen

_MOST_CELLS = 20
"""So many numbers are listed one by one on a screen; the document and the page have all."""
_COLUMNS = ("query", "group", "noise", "scale", "expected_error", "interval_95")
_HEADS = ("query", "group", "noise", "scale", "expected error", "95 % within")


def plan(
    screen: Screen,
    job: JobPath,
    period: PeriodName = None,
    output: Annotated[Path | None, PAGE] = None,
    force: Force = False,  # noqa: FBT002
) -> Answer:
    """Show what would be released, how noisy, and at what cost.

    Reads public columns only. Of each number: the noise and its scale, the error that is to be expected, and how far
    off it is at most, 19 times out of 20. Then what the account has spent, and last the sentence that a person signs.
    """
    from pufferflow.cli.agreed import disagreements
    from pufferflow.cli.cost import cost_of
    from pufferflow.jobs import Job

    place = None if output is None else read_page(output, force=force)
    batch = Job.read(job)
    chosen = batch.period(period)
    found, account = batch.plan(chosen), batch.account()
    cells, cost = found.summary().to_dicts(), cost_of(batch, chosen, found, account)
    screen.say(f"{batch.name}, {chosen}: {len(cells)} numbers would be published, with this noise:")
    _show_cells(screen, cells)
    screen.say()
    screen.facts(cost.facts())
    screen.say()
    screen.say(found.explain())
    notes = disagreements(batch, account)
    for note in notes:
        screen.note(note)
    if place is not None:
        dataset = batch.file.ledger.dataset or ""
        found.report(place, account, batch.every, job=batch.name, period=str(chosen), dataset=dataset)
        screen.note(f"The page is {place}.")
    names = {"job": batch.name, "period": str(chosen), "id": batch.id_of(chosen), "promise": found.guarantee}
    told = {"cells": cells, "too_noisy": found.too_noisy(), "cost": cost.document(), "sentence": found.explain()}
    return Answer({**names, **told, "readings": found.readings(), "page": place, "notes": notes})


def _show_cells(screen: Screen, cells: Sequence[Mapping[str, Any]]) -> None:
    screen.table(_HEADS, [[cell[name] for name in _COLUMNS] for cell in cells[:_MOST_CELLS]])
    if len(cells) > _MOST_CELLS:
        screen.say(f"... and {len(cells) - _MOST_CELLS} more; --json and -o page.html have all")
