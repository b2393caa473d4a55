"""All that is compared: a name for each case, and the function that gives what is recorded of it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import recordings
from batches import recorded
from calculations import TOPICS
from commands import SHORT, commands
from readings import of_one_process, outcome, repeatable
from scenarios import NAMES

Case = Callable[[], Any]
PAGED = {
    "chain": "by expression",
    "gaussian, ar1": "count",
    "any": "shares",
    "independent, labels": "histogram",
}
"""Scenarios and kinds of batches of which pages are recorded."""
QUICK = ("count", "cut sum", "by expression", "histogram", "within", "no floor", "shares")
"""Kinds of batches over which scenarios of the default tests take turns; of the others there is one each."""
LONG = (
    "table, derived",
    "chain, pairs",
    "chain, closer, missing",
    "several kinds",
    "chains between, four",
)
"""Scenarios of which no account is recorded: others have the same, and sooner."""
TIED = ("chain, closer, missing", "curve")
"""The batch of which two secrets cost the same but for the last bits of a machine, so that either may be named."""


def _plans() -> dict[str, Case]:
    return {
        f"plan/{name}/{batch}": lambda name=name, batch=batch: recordings.plan(name, batch)
        for place, name in enumerate(NAMES)
        for batch in recorded(name, place)
        if (name, batch) != TIED
    }


def _of_each(
    kind: str, record: Callable[[str], Any], names: Sequence[str] = NAMES
) -> dict[str, Case]:
    return {f"{kind}/{name}": lambda name=name: record(name) for name in names}


CASES: dict[str, Case] = {
    **_of_each("scenario", recordings.scenario),
    **_of_each("laws", recordings.laws),
    **_plans(),
    **_of_each("evidence", recordings.evidence),
    **_of_each("ledger", recordings.ledger, [name for name in NAMES if name not in LONG]),
    **{f"numbers/{topic}": calculation for topic, calculation in TOPICS.items()},
    **{
        f"pages/{name}": lambda name=name, batch=batch: recordings.pages(name, batch)
        for name, batch in PAGED.items()
    },
    "commands/words": commands,
    "commands/json": lambda: commands(json=True),
    "commands/short": lambda: commands(SHORT, json=True),
}


def record(name: str) -> Any:
    """Return what is recorded of a case, the same in every process."""
    with repeatable():
        found = outcome(CASES[name])
    return of_one_process(found) if name.split("/")[1] in recordings.OWN else found


def _few() -> list[str]:
    chosen = [f"scenario/{name}" for name in NAMES]
    chosen += [
        f"plan/{name}/{QUICK[place % len(QUICK)]}"
        for place, name in enumerate(NAMES)
        if place % 4 == 1
    ]
    chosen += [
        "plan/independent/variance",
        "plan/any/cauchy",
        "plan/independent/quantiles",
        "plan/diffusion/curve",
    ]
    chosen += [
        "plan/independent/mean by day",
        "plan/gaussian, matrix/staircase",
        "plan/gaussian, first/exact",
    ]
    chosen += [f"evidence/{name}" for name in ("chain, two steps", "independent, closer")]
    chosen += [f"laws/{name}" for name in ("gaussian, ar1", "independent", "simulator")]
    chosen += [f"numbers/{name}" for name in ("noises", "promises", "leakage")]
    return chosen


FEW: Final = _few()
"""The cases of the default tests: each scenario, every fourth with a kind of batch, and some of all else."""
