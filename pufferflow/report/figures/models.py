"""The same promise under three models of how rows hang together: not at all, as the plan believes, in any way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pufferflow.report.evidence import GROUP_PRIVACY, ORDINARY, BoundRow
from pufferflow.report.figures.bars import Bar, bars_figure, uneven
from pufferflow.report.figures.canvas import Words
from pufferflow.report.numbers import plain

THIS_PLAN = "this plan"


@final
@dataclass(frozen=True)
class Model:
    """The noise that a promise asks for on one output under a model, and a note on what that keeps here."""

    name: str
    output: str
    scale: float
    note: str = ""


def models_of(rows: Sequence[BoundRow]) -> list[Model]:
    """Return what ordinary differential privacy, the plan and group privacy ask of the plan's first output."""
    own = next((row for row in rows if row.chosen and row.scale), None)
    if own is None:
        return []
    known = {row.bound: row for row in rows if row.query == own.query and row.worked_out}
    named = ((ORDINARY, known.get(ORDINARY)), (THIS_PLAN, own), (GROUP_PRIVACY, known.get(GROUP_PRIVACY)))
    return [
        Model(name, row.query, row.scale, "" if row is own else row.note)
        for name, row in named
        if row is not None and row.scale is not None and np.isfinite(row.scale)
    ]


def models_figure(models: Sequence[Model]) -> str:
    """Return the figure; nothing if there is only the plan itself."""
    if len(models) < 2:
        return ""
    words = Words(
        "models",
        title="Noise that the same promise takes, by how much is believed of how rows hang together",
        told=" ".join(f"{model.name}: noise of scale {plain(model.scale)} on {model.output}." for model in models),
        caption=(
            f"The scale of the noise on {models[0].output} that the same promise takes, in the unit of the answer; on "
            f"other outputs noise grows alike.{uneven([model.scale for model in models])}"
        ),
    )
    bars = [Bar(model.name, model.scale, plain(model.scale), own=model.name == THIS_PLAN) for model in models]
    return bars_figure(words, bars)
