"""Which mechanism needs the least noise on each paper's own example, for three families of noise.

The rows are RPP's examples and its Table 1, a pair with an outlier, Song's chain, TV's count and GRAN's hospitals. The
confounded releases of DCP are channels, to which no noise is added: `pf.confounding.design` finds theirs. Noises of
different families are compared by half the width of their 95 % interval. At a Rényi loss GAWM has no place, for it
needs a δ; so there are two guarantees. The bound by exact laws wins where it can, and is first to fail if the prior is
wrong. For one plan, `plan.compare()` lists the same bounds, but for those that take long. Plans here have
`row_privacy=False`, so that no noise is kept for adversaries who know all other rows. "Group" moves all rows that the
prior ties.

Run it as `python examples/papers/which_mechanism_wins.py [FILE.svg] [FOLDER]`.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from side_by_side import WIDTH, Row, save_picture, show
from side_by_side.tables import SECRETS, VALUES, counts_of, prior_of

import pufferflow as pf

GUARANTEES = {"Rényi (2, 1)": pf.Renyi(2, 1.0), "(1, 0.01)": pf.Approx(1.0, 0.01)}
NOISES = {
    "Laplace": pf.Laplace,
    "Gaussian": pf.Gaussian,
    "Cauchy": pf.GeneralizedCauchy.of(k=4),
}
BOUNDS = ("GWM", "GAWM", "DAGWM", "Exact", "group")
OUTLIER = {
    "s": [0, 0, 1, 1, 1],
    "x": [0, 1, 0, 1, 50],
    "probability": [0.25, 0.25, 0.2, 0.2985, 0.0015],
}
SAYS = {
    "RPP Example 1, ρ = 0.5": "DAGWM before GWM = group",
    "RPP Example 1, ρ = −0.4": "DAGWM before GWM = group",
    "RPP Example 2": "GAWM before GWM",
    "RPP Example 3": "GWM before group",
    "RPP Table 1, Student": "DAGWM before GWM",
    "RPP Table 1, Heart": "DAGWM before GWM",
    "RPP Table 1, Adult": "DAGWM before GWM",
    "Song, chain of 10": "quilts before group",
}


def count_of_two(correlation: float) -> pf.Batch:
    """Return RPP's Example 1: the number of ones of two correlated rows."""
    one = 0.5 + correlation / 2
    secret = pf.Secret("x", domain=[0, 1], missing=0)
    scenario = pf.Scenario(secret, pf.MarkovChain([[one, 1 - one], [1 - one, one]]), order_by="t")
    return pf.protect(pl.DataFrame({"t": [0, 1], "x": [0, 1]}), scenario).private_sum("x")


def mean_of_two() -> pf.Batch:
    """Return RPP's Example 2: the mean of two salaries."""
    secret = pf.Secret("x", domain=[1, 2, 100], missing=1)
    prior = pf.Table({"x": [1, 2, 100], "probability": [0.5, 0.499, 0.001]})
    return pf.protect(pl.DataFrame({"x": [1, 2]}), pf.Scenario(secret, prior)).private_mean("x")


def sum_with_ranges() -> pf.Batch:
    """Return RPP's Example 3: the sum of two values with ranges 3 and 5."""
    rows = pl.DataFrame({"share": [0.3, 0.5], "range": [3.0, 5.0]})
    secret = pf.Secret("share", domain=pf.Interval(0, 1), missing=0)
    scenario = pf.Scenario(secret, pf.AnyCorrelation(), public=["range"])
    return pf.protect(rows, scenario).private_sum(pl.col("share") * pl.col("range"), name="x")


def outlier() -> pf.Batch:
    """Return a value that is 50 for a few of those who have the secret."""
    secret = pf.Derived("s", column="x", domain=[0, 1, 50], missing=0)
    scenario = pf.Scenario(secret, pf.Table(OUTLIER))
    return pf.protect(pl.DataFrame({"x": [0]}), scenario).private_sum("x", name="x")


def published(name: str) -> pf.Batch:
    """Return RPP's Table 1: one value of a row, where another attribute is secret."""
    column = VALUES[name]
    values = sorted(set().union(*counts_of(name).values()))
    secret = pf.Derived(SECRETS[name], column=column, domain=values, missing=values[0])
    batch = pf.protect(pl.DataFrame({column: values[:1]}), pf.Scenario(secret, prior_of(name)))
    return batch.private_sum(column, name="x")


def chain_of_10() -> pf.Batch:
    """Return Song's synthetic chain: the number of ones of rows that stay with probability 0.8; ten, for time."""
    secret = pf.Secret("x", domain=[0, 1], missing=0)
    scenario = pf.Scenario(secret, pf.MarkovChain([[0.8, 0.2], [0.2, 0.8]]), order_by="t")
    rows = pl.DataFrame({"t": range(10), "x": [0, 1] * 5})
    return pf.protect(rows, scenario).private_sum("x")


def count_of_independent() -> pf.Batch:
    """Return TV's count: rows are independent, and each moves it by one."""
    secret = pf.Secret("x", domain=[0, 1], missing=0)
    rows = pl.DataFrame({"x": [0, 1, 1]})
    return pf.protect(rows, pf.Scenario(secret, pf.Independent())).private_sum("x")


def hospitals() -> pf.Batch:
    """Return GRAN's Example IV.5: counts of patients, each of whom is in up to three of seven hospitals."""
    rows = pl.DataFrame({"patient": [0, 0, 0, 1], "hospital": [0, 1, 2, 6]})
    scenario = pf.Scenario(pf.Presence("patient", rows=3), pf.Independent())
    return pf.protect(rows, scenario).private_count(name="x")


EXAMPLES: dict[str, Callable[[], pf.Batch]] = {
    "RPP Example 1, ρ = 0.5": lambda: count_of_two(0.5),
    "RPP Example 1, ρ = −0.4": lambda: count_of_two(-0.4),
    "RPP Example 2": mean_of_two,
    "RPP Example 3": sum_with_ranges,
    "outlier": outlier,
    "RPP Table 1, Student": lambda: published("student"),
    "RPP Table 1, Heart": lambda: published("heart"),
    "RPP Table 1, Adult": lambda: published("adult"),
    "Song, chain of 10": chain_of_10,
    "TV, a count": count_of_independent,
    "GRAN Example IV.5": hospitals,
}


def bounds_for(noise: str, guarantee: str) -> dict[str, pf.Bound]:
    """Return the bounds to try; integrals of Cauchy noise over many values take long, and are left out."""
    found: dict[str, pf.Bound] = {"GWM": pf.GWM(), "DAGWM": pf.DAGWM(), "group": pf.Group()}
    if guarantee == "(1, 0.01)":
        found["GAWM"] = pf.GAWM(0.01 if noise == "Laplace" else 0.005)
    return found if noise == "Cauchy" else found | {"Exact": pf.Exact()}


@cache
def widths(example: str, guarantee: str) -> dict[tuple[str, str], float]:
    """Return half the width of the 95 % interval, for each bound and noise."""
    found = {}
    for noise, family in NOISES.items():
        batch, privacy = EXAMPLES[example](), GUARANTEES[guarantee]
        for name, bound in bounds_for(noise, guarantee).items():
            plan = batch.plan(privacy, noise=family, bound=bound, row_privacy=False)
            chosen = plan.summary().row(0, named=True)
            found[name, noise] = chosen["interval_95"]
    return found


def best(example: str, guarantee: str, bound: str) -> tuple[float, str]:
    """Return the least width of a bound, and its noise."""
    own = [
        (width, noise)
        for (name, noise), width in widths(example, guarantee).items()
        if name == bound
    ]
    return min(own, default=(math.inf, ""))


def row(example: str, guarantee: str) -> Row:
    """Return who wins among the bounds but `Exact`, beside what the paper says."""
    found = {name: best(example, guarantee, name) for name in ("GWM", "GAWM", "DAGWM", "group")}
    least, noise = min(found.values())
    names = [name for name, (width, _) in found.items() if width <= least * (1 + 1e-6)]
    exact, whole = best(example, guarantee, "Exact")[0], found["group"][0]
    known = "" if exact == math.inf else f"; Exact {exact:.4g}"
    shown = f"{' = '.join(names)}, {noise}: {least:.4g}"
    return Row(example, SAYS.get(example, "–"), shown, f"group privacy {whole:.4g}{known}")


def show_all(guarantee: str) -> None:
    """Print the least width for each example and bound."""
    table = Table("", *BOUNDS, title=f"Half the 95 % interval, {guarantee}")
    for example in EXAMPLES:
        found = [best(example, guarantee, bound) for bound in BOUNDS]
        cells = ("–" if width == math.inf else f"{width:.4g} {noise}" for width, noise in found)
        table.add_row(example, *cells)
    Console(width=WIDTH).print(table)


def draw(figure: Any) -> None:
    """Draw each bound's width relative to group privacy's, for both guarantees."""
    panels = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(EXAMPLES))
    for axes, guarantee in zip(panels, GUARANTEES, strict=True):
        whole = np.array([best(one, guarantee, "group")[0] for one in EXAMPLES])
        for bound, marker in zip(BOUNDS, "os^*|", strict=True):
            own = np.array([best(one, guarantee, bound)[0] for one in EXAMPLES])
            axes.plot(own / whole, places, marker, label=bound, markersize=7)
        axes.set(title=guarantee, xlabel="width of the noise, group privacy = 1", xscale="log")
        axes.grid(axis="y", alpha=0.3)
    panels[0].set_yticks(places, list(EXAMPLES))
    panels[0].invert_yaxis()
    panels[0].legend()


def main() -> None:
    """Print which mechanism wins where, and draw it."""
    for guarantee in GUARANTEES:
        show_all(guarantee)
        show(f"Who wins, {guarantee}", [row(example, guarantee) for example in EXAMPLES])
    save_picture(draw, "which_mechanism_wins.svg", (11, 4.5))


if __name__ == "__main__":
    main()
