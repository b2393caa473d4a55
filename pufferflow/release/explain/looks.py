"""The charts, the styled table and the notebook card of a plan, from its checks, its bounds and its sensitivities."""

from typing import TYPE_CHECKING, Final, Literal, get_args

from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import MOST_ROWS, Card
from pufferflow.core.suggestions import did_you_mean
from pufferflow.core.validate import quoted
from pufferflow.release.explain.check import Signal, check
from pufferflow.release.explain.compare import bound_rows, summary
from pufferflow.release.explain.sensitivities import sensitivities
from pufferflow.release.planning.calibrated_noise import CalibratedNoise
from pufferflow.reports.numbers import UNKNOWN, plain, promise_in_words, upwards

if TYPE_CHECKING:
    from pufferflow.reports.charts.base import Chart
    from pufferflow.reports.styled import StyledTable

ChartKind = Literal["noise", "error_bars", "bounds", "sensitivities"]
KINDS: Final[tuple[str, ...]] = get_args(ChartKind)
_BAR: Final = (
    "An error bar (±) holds 95 % of the noise or more. "
    "The verdict compares it with the difference that the number has to show."
)
_HEAD: Final = ("output", "group", "error bar", "expected error", "verdict")


def plot(plan: CalibratedNoise, kind: str, signal: Signal) -> "Chart":
    """Return a chart of a plan."""
    if kind not in KINDS:
        raise UsageError(
            f"There is no chart of a plan called {quoted(kind)}.{did_you_mean(kind, list(KINDS))}",
            allowed=", ".join(map(repr, KINDS)),
            instead='plan.plot(), or plan.plot("sensitivities")',
        )
    if kind == "sensitivities":
        return _sensitivities(plan)
    return _noise(plan, kind, signal)


def _noise(plan: CalibratedNoise, kind: str, signal: Signal) -> "Chart":
    from pufferflow.reports.charts.noise import NumberNoise, bounds, error_bars, noise_chart

    parts = list[tuple[list[dict[str, object]], list[str], str]]()
    if kind in {"noise", "error_bars"}:
        columns = ["query", "group", "interval_95", "signal", "verdict"]
        checked = check(plan, signal).select(columns)
        parts.append(error_bars([NumberNoise(*row) for row in checked.iter_rows()]))
    if kind in {"noise", "bounds"}:
        parts.append(bounds(bound_rows(plan)))
    title = "The noise that each bound needs" if kind == "bounds" else "How noisy each number is"
    return noise_chart(title, _guarantee(plan), parts)


def _sensitivities(plan: CalibratedNoise) -> "Chart":
    from pufferflow.reports.charts.noise import PairDistance, sensitivity_chart

    rows = sensitivities(plan, ()).select("first", "second", "w_inf", "decides", "note")
    pairs = [PairDistance(*row) for row in rows.iter_rows()]
    return sensitivity_chart(pairs, _guarantee(plan), plan.sensitivity_unit[1])


def styled_plan(plan: CalibratedNoise) -> "StyledTable":
    """Return the noise of each number as a table of great_tables."""
    from pufferflow.reports.styled import styled

    rows = _texts(plan)
    notes = [_BAR, _guarantee(plan)]
    return styled(
        "The noise of each number", "before anything is published", _HEAD, rows, notes, (2, 3)
    )


def card(plan: CalibratedNoise, explanation: str) -> Card:
    """Return what a notebook shows of a plan."""
    rows = _texts(plan)
    return Card(
        "Plan: what a release would publish",
        explanation.split("\n"),
        head=_HEAD,
        rows=rows[:MOST_ROWS],
        of=len(rows),
        notes=[_BAR],
    )


def _texts(plan: CalibratedNoise) -> list[tuple[str, ...]]:
    """Return the numbers of a plan as rows of texts."""
    checked, expected = check(plan), summary(plan)["expected_error"]
    columns = checked.select("query", "group", "interval_95", "verdict").with_columns(expected)
    return [
        (
            query,
            group,
            UNKNOWN if half is None else f"± {plain(upwards(half, 3), 3)}",
            plain(error, 3),
            verdict or "not known: depends on private numbers",
        )
        for query, group, half, verdict, error in columns.iter_rows()
    ]


def _guarantee(plan: CalibratedNoise) -> str:
    return f"Guarantee: {promise_in_words(plan.calibration.guarantee)}."
