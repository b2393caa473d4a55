"""Publish the pay of one firm, where a collective agreement moves all salaries together.

The data is made up: salaries of a few hundred people whose yearly raises go up and down together. What must stay hidden
is anybody's salary up to differences of 10 thousand. A correlation of 0.05 between any two people is small, but over
all of them its effect is large, and group privacy would need too much noise. Run it as `python examples/salaries.py`.
"""

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import pufferflow as pf

PEOPLE, LOW, HIGH = 400, 20.0, 120.0


def staff(rng: np.random.Generator) -> pl.DataFrame:
    """Return people with their team and salary in thousands."""
    common, own = rng.normal(), rng.normal(size=PEOPLE)
    pay = 60 + 15 * (np.sqrt(0.05) * common + np.sqrt(0.95) * own)
    return pl.DataFrame(
        {"person": np.arange(PEOPLE), "team": np.arange(PEOPLE) % 4, "salary": pay.clip(LOW, HIGH)}
    )


def scenario(prior: pf.Prior) -> pf.Scenario:
    """Return the scenario for one prior about how salaries depend on each other."""
    secret = pf.Secret(
        "salary", domain=pf.Interval(LOW, HIGH), pairs=pf.WithinDistance(10), missing=LOW
    )
    return pf.Scenario(secret, prior, order_by="person", public=["team"])


def main() -> None:
    """Print the noise on the mean salary under three priors, and publish one mean."""
    frame = staff(np.random.default_rng(5))
    beliefs = {
        "independent": pf.Independent(),
        "correlation 0.05": pf.GaussianPrior(pf.Exchangeable(0.05), variance=15.0**2, mean=60.0),
        "anything at all": pf.AnyCorrelation(),
    }
    plans = {
        name: pf.protect(frame, scenario(prior)).private_mean("salary").plan(pf.Approx(1.0, 1e-6))
        for name, prior in beliefs.items()
    }
    console = Console()
    table = Table(title=f"Mean salary of {PEOPLE} people, in thousands, (1, 1e-6)-private")
    for column in ("salaries under the prior", "noise", "expected error"):
        table.add_column(column, justify="left" if column.startswith("s") else "right")
    for name, plan in plans.items():
        row = plan.summary().row(0, named=True)
        table.add_row(name, row["noise"], f"{row['expected_error']:.2f}")
    console.print(table)
    release = plans["correlation 0.05"].release()
    low, high = release.intervals.row(0)
    console.print(
        f"Published: {release.frame['salary_mean'][0]:.1f} thousand, between {low:.1f} and {high:.1f}."
    )


if __name__ == "__main__":
    main()
