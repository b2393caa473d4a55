"""The charts of a plan: the error bar of each number, the noise that each bound needs, and sensitivities of pairs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from pufferflow.reports.charts.base import (
    CALM,
    FIRST,
    ROW,
    SECOND,
    WARN,
    WIDTH,
    Chart,
    Spec,
    chart,
    colours,
    names,
    number,
    quantity,
    text,
    tooltip,
)
from pufferflow.reports.evidence import ORDINARY, BoundRow
from pufferflow.reports.numbers import counted, plain, upwards

MOST_GROUPS: Final = 40
MOST_OUTPUTS: Final = 12
MOST_VALUES: Final = 40
UNKNOWN_SIGNAL: Final = "not known: the error depends on private numbers"
MARKS: Final = "Black marks: the difference that a number has to show; signal= sets it."
_VERDICTS: Final = {
    "useful": FIRST,
    "weak": SECOND,
    "useless": WARN,
    UNKNOWN_SIGNAL: CALM,
}
CHOSEN, OTHER, ROWS_ALONE = (
    "the noise of this plan",
    "also keeps the guarantee",
    "differential privacy of one row, if rows were unrelated",
)
_BOUNDS: Final = {CHOSEN: FIRST, OTHER: CALM, ROWS_ALONE: WARN}


@final
class NumberNoise(NamedTuple):
    """The noise of one number: half its 95 % interval, the difference it has to show, and the verdict on both."""

    output: str
    group: str
    half: float | None
    signal: float | None
    verdict: str | None


def error_bars(rows: Sequence[NumberNoise]) -> tuple[list[Spec], list[str], str]:
    """Return a panel for each output, notes on what is not drawn, and a description."""
    outputs = list(dict.fromkeys(row.output for row in rows))
    present = {row.verdict or UNKNOWN_SIGNAL for row in rows}
    verdicts = {verdict: _VERDICTS[verdict] for verdict in _VERDICTS if verdict in present}
    panels, notes = list[Spec](), [MARKS]
    if len(outputs) > MOST_OUTPUTS:
        notes.append(f"The first {MOST_OUTPUTS} of {len(outputs):,} outputs.")
    for output in outputs[:MOST_OUTPUTS]:
        own = [row for row in rows if row.output == output]
        panels.append(_bars_of(output, own[:MOST_GROUPS], verdicts))
        if len(own) > MOST_GROUPS:
            notes.append(f"The first {MOST_GROUPS} of {len(own):,} groups of {output}.")
    unknown = sum(number(row.half) is None for row in rows)
    if unknown:
        notes.append(
            f"{counted(unknown, 'error bar depends', 'error bars depend')} on private numbers."
        )
    return panels, notes, " ".join(_describe(rows, output) for output in outputs[:MOST_OUTPUTS])


def _bars_of(output: str, rows: Sequence[NumberNoise], verdicts: Mapping[str, str]) -> Spec:
    values = [
        {
            "group": text(row.group),
            "half": number(row.half),
            "signal": number(row.signal),
            "verdict": row.verdict or UNKNOWN_SIGNAL,
            "bar": "not known" if row.half is None else f"± {plain(upwards(row.half, 3), 3)}",
            "difference": plain(row.signal, 3),
        }
        for row in rows
    ]
    shown = tooltip(
        group="group", bar="error bar", difference="difference to show", verdict="verdict"
    )
    group, axis = (
        names("group", None),
        f"error bar of {text(output)}: 95 % of the noise is within ±",
    )
    bar = {
        "y": group,
        "x": quantity("half", axis),
        "color": colours("verdict", "the number is", verdicts),
        "tooltip": shown,
    }
    tick = {"y": group, "x": quantity("signal", axis), "tooltip": shown}
    return {
        "data": {"values": values},
        "width": WIDTH,
        "height": {"step": ROW},
        "layer": [
            {"mark": {"type": "bar", "height": {"band": 0.6}}, "encoding": bar},
            {"mark": {"type": "tick", "thickness": 2, "color": "#000000"}, "encoding": tick},
        ],
    }


def _describe(rows: Iterable[NumberNoise], output: str) -> str:
    own = [row for row in rows if row.output == output]
    halves = [row.half for row in own if number(row.half) is not None and row.half is not None]
    if not halves:
        return f"{output}: the error bars depend on private numbers."
    least, most = (plain(upwards(half, 3), 3) for half in (min(halves), max(halves)))
    verdicts = [row.verdict or "not known" for row in own]
    kinds = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in dict.fromkeys(verdicts))
    wide = f"± {least}" if least == most else f"± {least} to ± {most}"
    return f"{output}: error bars of {wide}; {kinds}."


def bounds(rows: Sequence[BoundRow]) -> tuple[list[Spec], list[str], str]:
    """Return a panel for each output with the scale that each bound needs, notes, and a description."""
    outputs = list(dict.fromkeys(row.query for row in rows))[:MOST_OUTPUTS]
    panels = [
        _bounds_of(output, [row for row in rows if row.query == output]) for output in outputs
    ]
    refused = dict.fromkeys(row.bound for row in rows if row.scale is None)
    notes = [f"No such noise, or not tried: {', '.join(refused)}."] * bool(refused)
    said = [
        f"{row.bound} needs scale {plain(row.scale)} on {row.query}."
        for row in rows
        if row.scale is not None and row.query in outputs[:1]
    ]
    return panels, notes, " ".join(said)


def _bounds_of(output: str, rows: Sequence[BoundRow]) -> Spec:
    values = [
        {
            "bound": text(row.bound),
            "scale": number(row.scale),
            "kind": ROWS_ALONE if row.bound == ORDINARY else CHOSEN if row.chosen else OTHER,
            "words": plain(row.scale),
            "times": "" if row.times is None else f"{plain(row.times, 3)} times",
            "note": text(row.note, 300),
        }
        for row in rows
        if number(row.scale) is not None
    ]
    shown = tooltip(bound="bound", words="scale", times="against this plan", note="note")
    encoding = {
        "y": names("bound", None),
        "x": quantity("scale", f"scale of the noise on {text(output)}"),
        "color": colours("kind", None, _BOUNDS),
        "tooltip": shown,
    }
    mark = {"mark": {"type": "bar", "height": {"band": 0.6}}, "encoding": encoding}
    return {"data": {"values": values}, "width": WIDTH, "height": {"step": ROW}, "layer": [mark]}


def noise_chart(
    title: str, guarantee: str, parts: Sequence[tuple[list[Spec], list[str], str]]
) -> Chart:
    """Return panels below each other, with one legend for each kind of panel."""
    lines = [guarantee, *(note for _, notes, _ in parts for note in notes)]
    description = " ".join(said for _, _, said in parts)
    kinds = [panels[0] if len(panels) == 1 else {"vconcat": panels} for panels, _, _ in parts]
    if len(kinds) == 1:
        return chart(title, lines, description, kinds[0])
    body = {"vconcat": kinds, "apart": True}
    return chart(title, lines, description, body)


@final
class PairDistance(NamedTuple):
    """Two values of the secret, how far the answers move between them, and whether the pair decides on the noise."""

    first: str
    second: str
    distance: float | None
    decides: bool
    note: str | None = None


def sensitivity_chart(pairs: Sequence[PairDistance], guarantee: str, unit: str) -> Chart:
    """Return a heat map: how far the laws of the answers lie apart for each two values of the secret."""
    values = list(dict.fromkeys(name for pair in pairs for name in (pair.first, pair.second)))
    kept = set(values[:MOST_VALUES])
    farthest = dict[tuple[str, str], PairDistance]()
    for pair in pairs:
        place, distance = (pair.first, pair.second), number(pair.distance)
        if distance is None or not {pair.first, pair.second} <= kept:
            continue
        known = farthest.get(place)
        decides = pair.decides or (known is not None and known.decides)
        most = max(distance, -math.inf if known is None else known.distance or 0.0)
        farthest[place] = PairDistance(*place, most, decides)
    lines = [
        "Colour: the farthest that an answer moves between the two values, over all rows and priors (W_∞).",
        "A frame marks the pair that needs most noise.",
        "A place without colour has no row of its own in plan.sensitivities().",
        guarantee,
        *dict.fromkeys(f"Note: {pair.note}." for pair in pairs if pair.note),
        *[f"The first {MOST_VALUES} of {len(values):,} values."] * (len(values) > MOST_VALUES),
    ]
    return chart(
        "Which secrets are the hardest to hide",
        lines,
        _far(farthest.values()),
        _map(farthest.values(), unit),
    )


def _map(pairs: Iterable[PairDistance], unit: str) -> Spec:
    values: list[dict[str, Any]] = [
        {
            "first": text(pair.first),
            "second": text(pair.second),
            "distance": pair.distance,
            "decides": pair.decides,
            "words": plain(pair.distance),
        }
        for pair in pairs
    ]
    shown = tooltip(first="one value", second="other value", words="distance")
    scale = {"scheme": "blues", "zero": True}
    place: Spec = {
        "x": names("first", "one value of the secret"),
        "y": names("second", "the other value"),
        "tooltip": shown,
    }
    cell = place | {"color": quantity("distance", f"distance, {unit}", scale=scale)}
    frame = {"type": "rect", "filled": False, "stroke": WARN, "strokeWidth": 3}
    only = [{"filter": {"field": "decides", "equal": True}}]
    return {
        "data": {"values": values},
        "width": {"step": 28},
        "height": {"step": 28},
        "layer": [
            {"mark": "rect", "encoding": cell},
            {"mark": frame, "encoding": place, "transform": only},
        ],
    }


def _far(pairs: Iterable[PairDistance]) -> str:
    said = [
        f"{pair.first} against {pair.second}: {plain(pair.distance)}"
        for pair in sorted(pairs, key=lambda pair: -(pair.distance or 0.0))[:5]
    ]
    return f"The farthest pairs: {'; '.join(said)}." if said else "No distances are known."
