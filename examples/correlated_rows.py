"""Six kinds of correlated data, and the noise that one sum needs in each: under a prior, and under any correlation.

Every scenario names a secret and a prior; the library derives the laws of the answer and the noise for ε = 1. The last
column is the ε that the noise of a differential-privacy library (for one row) guarantees there.
"""

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import pufferflow as pf

PROMISE = pf.Pure(1.0)


def meters() -> tuple[pf.Scenario, pf.Statistic]:
    """Take the hours of one meter, fitted on a generated public one: 24 matrices, since days have a rhythm."""
    rng = np.random.default_rng(1)
    hours = np.arange(24 * 400)
    chance = 0.15 + 0.35 * (np.sin(2 * np.pi * (hours % 24 - 8) / 24) > 0)
    state = np.zeros(len(hours), dtype=np.int64)
    for hour in hours[1:]:
        state[hour] = state[hour - 1] if rng.random() < 0.6 else rng.random() < chance[hour]
    public = pf.Reference("a volunteer's meter", pl.DataFrame({"hour": hours, "on": state}))
    secret = pf.Secret("on", domain=[0, 1])
    prior = pf.MarkovChain.fit(public, "on", "hour", domain=secret.domain, period=24)
    return pf.Scenario(
        secret=secret, prior=prior, order_by="hour", within="meter"
    ), pf.Statistic.total(24)


def salaries() -> tuple[pf.Scenario, pf.Statistic]:
    """Take twenty salaries of one firm, in thousands, with one common cause: any two correlate by .3."""
    secret = pf.Secret("salary", domain=pf.Interval(0, 200), pairs=pf.WithinDistance(20))
    prior = pf.GaussianPrior(pf.Exchangeable(0.3), variance=900, mean=60)
    return pf.Scenario(secret=secret, prior=prior, within="firm"), pf.Statistic.total(20)


def households() -> tuple[pf.Scenario, pf.Statistic]:
    """Take four people of a household that is careful or not, on which illness depends."""
    prior = pf.LatentClass([0.8, 0.2], [[0.97, 0.03], [0.6, 0.4]])
    return pf.Scenario(
        secret=pf.Secret("ill", domain=[0, 1]), prior=prior, within="house"
    ), pf.Statistic.total(4)


def diagnosis() -> tuple[pf.Scenario, pf.Statistic]:
    """Hide a diagnosis that no column states, behind two measurements in classes."""
    table = {
        "diagnosis": ["well", "well", "well", "ill", "ill", "ill"],
        "pressure": [0, 1, 2, 0, 1, 2],
        "probability": [0.45, 0.2, 0.05, 0.05, 0.1, 0.15],
    }
    return pf.Scenario(secret=pf.Derived("diagnosis"), prior=pf.Table(table)), pf.Statistic.total(
        10
    )


def visits() -> tuple[pf.Scenario, pf.Statistic]:
    """Hide whether a person is in the data at all, with up to five visits: the secret of differential privacy."""
    return pf.Scenario(
        secret=pf.Presence(within="person"), prior=pf.Independent()
    ), pf.Statistic.total(5)


def walks() -> tuple[pf.Scenario, pf.Statistic]:
    """Hide the first place of a walk, an hour and more before the queried places."""
    drift = [[0.7, 0.3, 0.0, 0.0], [0.2, 0.6, 0.2, 0.0], [0.0, 0.2, 0.6, 0.2], [0.0, 0.0, 0.3, 0.7]]
    secret = pf.Initial("cell", domain=[0, 1, 2, 3])
    scenario = pf.Scenario(
        secret=secret, prior=pf.MarkovChain(drift, initial="free"), order_by="minute", step=15
    )
    return scenario, pf.Statistic([1, 1, 1], positions=[4, 5, 6])


def main() -> None:
    """Print the noise of each scenario."""
    table = Table(title="Laplace noise for one sum, ε = 1")
    for column in ("data", "prior", "bound", "noise", "nothing assumed", "ε of one row's noise"):
        table.add_column(
            column, justify="left" if column in {"data", "prior", "bound"} else "right"
        )
    for make in (meters, salaries, households, diagnosis, visits, walks):
        scenario, statistic = make()
        laws = pf.laws(scenario, statistic)
        found = pf.calibrate(laws, PROMISE)
        group = pf.calibrate(laws, PROMISE, bound=pf.Group()).noise.scale
        alone = (
            20.0
            if make is salaries
            else 3.0
            if make is walks
            else 2.0
            if make is diagnosis
            else 1.0
        )
        kept = pf.loss(laws, pf.Laplace(alone), pf.Pure)
        prior = type(scenario.priors[0]).__name__
        cells = (
            make.__name__,
            prior,
            type(found.bound).__name__,
            f"{found.noise.scale:.3g}",
            f"{group:.4g}",
        )
        table.add_row(*cells, f"{kept:.2f}")
    console = Console(width=110)
    console.print(table)
    console.print(meters()[0].describe())


if __name__ == "__main__":
    main()
