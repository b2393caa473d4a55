"""Publish how households of a survey earn, although the people of one household earn alike.

The data is made up: people whose income class (0 to 4) depends on a hidden class of their household. What must stay
hidden is the class of any person; whoever knows the others of the household knows a lot about the last. Noise made for
independent people would be too small, noise made for whole households larger than it has to be. Run it as
`python examples/households.py`.
"""

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import pufferflow as pf

HOUSEHOLDS, CLASSES = 4000, [0, 1, 2, 3, 4]
WEALTH = [0.3, 0.5, 0.2]
"""How many households are poor, in the middle, and rich."""
INCOMES = [
    [0.45, 0.30, 0.15, 0.07, 0.03],
    [0.10, 0.25, 0.30, 0.25, 0.10],
    [0.03, 0.07, 0.20, 0.30, 0.40],
]
"""How likely each income class is for a person of a household of each kind."""


def people(rng: np.random.Generator) -> pl.DataFrame:
    """Return people with their household, its town, and their income class."""
    sizes = rng.integers(1, 6, HOUSEHOLDS)
    kind = np.repeat(rng.choice(3, HOUSEHOLDS, p=WEALTH), sizes)
    income = (rng.random(len(kind))[:, None] > np.array(INCOMES).cumsum(axis=1)[kind][:, :-1]).sum(
        axis=1
    )
    household = np.repeat(np.arange(HOUSEHOLDS), sizes)
    town = np.array(["Arden", "Bree", "Clun"])[household % 3]
    return pl.DataFrame({"household": household, "town": town, "income": income})


def scenario(prior: pf.Prior) -> pf.Scenario:
    """Return the scenario for one prior about how the people of a household depend on each other."""
    return pf.Scenario(
        pf.Secret("income", domain=CLASSES, missing=0), prior, within="household", public=["town"]
    )


def main() -> None:
    """Print the mean income class of each town, and the noise under each prior."""
    frame = people(np.random.default_rng(11))
    beliefs = {
        "independent people": pf.Independent(),
        "a hidden class": pf.LatentClass(WEALTH, INCOMES),
        "anything at all": pf.AnyCorrelation(),
    }
    plans = {
        name: pf.protect(frame, scenario(prior))
        .group_by("town")
        .private_mean("income")
        .private_histogram("income")
        .plan(pf.Pure(1.0))
        for name, prior in beliefs.items()
    }
    console = Console()
    table = Table(title="Noise under each prior: scale on each town's sum of incomes")
    table.add_column("prior on the people of a household")
    table.add_column("scale", justify="right")
    for name, plan in plans.items():
        table.add_row(name, f"{plan.noises['income_mean'].scale:.2f}")
    console.print(table)
    release = plans["a hidden class"].release()
    console.print(release.frame.select(pl.col("town"), pl.exclude("town").round(2)))
    console.print(release.certificate.assumptions[0], "|", release.certificate.assumptions[1])


if __name__ == "__main__":
    main()
