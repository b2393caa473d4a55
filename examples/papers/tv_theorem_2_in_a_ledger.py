"""Theorem 2 of "Total Variation Meets Differential Privacy" in a ledger: five staircases within a limit of ε = 3.

Each release has staircase noise with ε = 1 and γ = .0139, whose total variation is .3234. The paper's theorem is about
k releases, each chosen after the answers before. Three accounts take them: with five profiles reserved, without, and
with a limit for ε, δ and the total variation at once. A fourth account adds up losses, at the same δ. What the paper
says is worked out by its own formula, as in `tv_figure_4.py`.

Run it as `python examples/papers/tv_theorem_2_in_a_ledger.py [FILE.svg]`; without matplotlib
(`pip install ".[report]"`) it prints the table alone.
"""

import math
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from side_by_side import Row, number, save_picture, show
from tv_figure_4 import corner

import pufferflow as pf

EPSILON, GAMMA, TIMES, DELTA = 1.0, 0.0139, 5, 0.0954
SCENARIO = pf.Scenario(
    pf.Secret("on", domain=[0, 1], missing=0), pf.AnyCorrelation(), within="person"
)
PEOPLE = pl.DataFrame({"person": range(200), "on": [0, 1] * 100})
PLAN = (
    pf.protect(PEOPLE, SCENARIO)
    .private_sum("on")
    .plan(pf.Pure(EPSILON), noise=pf.Staircase.of(EPSILON, GAMMA), row_privacy=False)
)
ALPHA = 1 - pf.Staircase(1.0, EPSILON, GAMMA).tv(1.0) / math.tanh(EPSILON / 2)
LIMIT = pf.Approx(3.0, DELTA)
ACCOUNTS: dict[str, tuple[pf.Guarantee, dict[str, Any]]] = {
    "profiles reserved": (LIMIT, {"reserve": [(PLAN, TIMES)]}),
    "none reserved": (LIMIT, {}),
    "ε, δ and η limited": (pf.TradeOff(3.0, 0.0955, tv=0.64), {}),
    "losses added": (LIMIT, {"methods": ["pure"]}),
}
WHY = {
    "ε, δ and η limited": "same; here δ = .0955, and the total variation is at most .64",
    "losses added": "sums of losses know no total variation; δ is used once, in the end",
}


def theorem(times: int, delta: float = DELTA) -> float:
    """Return ε of Theorem 2 at a δ, which falls between two corners as a line in e^ε."""
    places = range(times, -1, -1)
    deltas = [corner(times, place, ALPHA) for place in places]
    return math.log(np.interp(delta, deltas, [math.exp(place * EPSILON) for place in places]))


def released(account: pf.Account) -> list[float]:
    """Return ε after each release, until the account refuses one."""
    spent = list[float]()
    while account.remaining(PLAN) and len(spent) <= TIMES:
        PLAN.release(account)
        spent.append(account.spent().epsilon)
    return spent


def main() -> None:
    """Print what the accounts take and cost beside Theorem 2, and draw the totals."""
    rows, spent = list[Row](), dict[str, list[float]]()
    with TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        for name, (limit, options) in ACCOUNTS.items():
            account = ledger.open(name, SCENARIO, limit=limit, dataset=name, **options)
            spent[name] = released(account)
            rows += rows_of(name, spent[name], limit)
    show(f"Theorem 2 on accounts with a limit of ε = 3 at δ = {DELTA}: staircases, ε = 1", rows)
    save_picture(lambda figure: draw(figure, spent), "tv_theorem_2_in_a_ledger.svg", (6, 4))


def rows_of(name: str, spent: list[float], limit: pf.Guarantee) -> list[Row]:
    """Return the rows of an account: how many releases it takes, and what they cost."""
    fit = sum(theorem(times, limit.delta) <= limit.loss for times in range(1, 2 * TIMES))
    printed = number(theorem(len(spent), limit.delta))
    why = (WHY[name],) if name in WHY else ()
    return [
        Row(f"{name}: releases that fit", str(fit), str(len(spent)), *why),
        Row(f"{name}: ε of {len(spent)}", printed, number(spent[-1]), *why),
    ]


def draw(figure: Any, spent: dict[str, list[float]]) -> None:
    """Draw the total after each release, for every account."""
    axes = figure.subplots()
    for name in ("profiles reserved", "none reserved", "losses added"):
        axes.plot(range(1, len(spent[name]) + 1), spent[name], marker="o", label=name)
    counts = range(1, TIMES + 2)
    axes.plot(counts, [theorem(count) for count in counts], "k:", label="Theorem 2")
    axes.axhline(LIMIT.epsilon, color="tab:gray", linewidth=1)
    axes.set(xlabel="releases", ylabel=f"ε at δ = {DELTA}")
    axes.legend()


if __name__ == "__main__":
    main()
