"""The chart of an account: what its releases have spent together, one after the other, against the limit."""

from typing import Final

import numpy as np

from pufferflow.reports.charts.base import (
    FIRST,
    SECOND,
    WARN,
    WIDTH,
    Chart,
    Spec,
    chart,
    colours,
    number,
    quantity,
    text,
    tooltip,
)
from pufferflow.reports.evidence import Budget, Charge
from pufferflow.reports.numbers import counted, total

SPENT, AHEAD, LIMIT, ENDLESS = "spent", "forecast", "limit", "forecast of an endless schedule"
_COLOURS: Final = {SPENT: FIRST, AHEAD: SECOND, LIMIT: WARN, ENDLESS: "#555555"}


def spending_chart(budget: Budget, measure: str) -> Chart:
    """Return the totals after each release and of releases ahead; `measure` is what is spent, such as epsilon."""
    releases = max(budget.releases, len(budget.charges))
    places = np.round(np.linspace(1, releases, len(budget.charges))).astype(int).tolist()
    past = [
        _row(place, SPENT, charge.total, _said(charge))
        for place, charge in zip(places, budget.charges, strict=True)
    ]
    further = _further(budget)
    start = _row(releases, AHEAD, budget.spent, "spent so far")
    ahead = [
        _row(releases + place, AHEAD, value, f"forecast after {counted(place, 'further release')}")
        for place, value in enumerate(further, 1)
    ]
    lines = [(LIMIT, budget.limit_epsilon), (ENDLESS, budget.endless)]
    rules = [
        _row(0, kind, value, kind)
        for kind, value in lines
        if value is not None and number(value) is not None
    ]
    values = [_row(0, SPENT, 0.0, "nothing"), *past, *([start, *ahead] if ahead else []), *rules]
    title = f"Account {budget.account}: {measure} spent"
    return chart(
        title,
        _below(budget, measure, releases),
        _describe(budget, measure, releases),
        _drawn(values, measure),
    )


def _further(budget: Budget) -> list[float]:
    """Return the totals of further releases, as far as the limit allows them."""
    return [value for value in budget.ahead if value <= budget.limit_epsilon]


def _row(place: int, kind: str, value: float, said: str) -> dict[str, object]:
    return {
        "release": place,
        "kind": kind,
        "total": number(value),
        "words": total(value),
        "said": text(said),
    }


def _said(charge: Charge) -> str:
    return f"{charge.release}, {charge.state} {charge.at}: {charge.promise}"


def _drawn(values: list[dict[str, object]], measure: str) -> Spec:
    present = {
        kind: colour
        for kind, colour in _COLOURS.items()
        if any(row["kind"] == kind for row in values)
    }
    whole = {"axis": {"tickMinStep": 1, "format": "d"}}
    own = {
        "y": quantity("total", f"{measure} of all releases together"),
        "color": colours("kind", None, present),
        "tooltip": tooltip(said="release", words=measure),
    }
    steps: Spec = {
        "transform": [{"filter": {"field": "kind", "oneOf": [SPENT, AHEAD]}}],
        "mark": {"type": "line", "interpolate": "step-before", "point": True},
        "encoding": own | {"x": quantity("release", "releases, the oldest first", **whole)},
    }
    rules: Spec = {
        "transform": [{"filter": {"field": "kind", "oneOf": [LIMIT, ENDLESS]}}],
        "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [6, 3]},
        "encoding": own,
    }
    return {"data": {"values": values}, "width": WIDTH, "height": 220, "layer": [steps, rules]}


def _below(budget: Budget, measure: str, releases: int) -> list[str]:
    spent = f"{measure} {total(budget.spent)} of {total(budget.limit_epsilon)} is spent."
    every = (
        f"The forecast has one release every {budget.every}."
        if budget.ahead and budget.every
        else ""
    )
    some = f"{counted(len(budget.charges), 'release is', 'releases are')} drawn."
    return [
        line
        for line in (spent, every, some * (len(budget.charges) < releases), _note(budget))
        if line
    ]


def _note(budget: Budget) -> str:
    return f"{budget.note[:1].upper()}{budget.note[1:].rstrip('.')}." if budget.note else ""


def _describe(budget: Budget, measure: str, releases: int) -> str:
    said = f"{counted(releases, 'release')} of account {budget.account} spent {measure} {total(budget.spent)}"
    said += f"; the limit is {total(budget.limit_epsilon)}."
    if further := _further(budget):
        said += f" After {len(further)} more it would be {total(further[-1])}."
    return said
