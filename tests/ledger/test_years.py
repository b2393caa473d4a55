"""Simulated years: what a forecast says fits goes through, for every kind of belief, promise and secret."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

WINDOW = 4
"""So many steps are a day."""
ON, LEVEL = [0, 1], pf.Interval(0, 1)
STAY, MOVE = [[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.3, 0.7]]
BETWEEN = pf.MarkovChain.between([[0.85, 0.05], [0.05, 0.85]], [[0.95, 0.15], [0.15, 0.95]])
CLASSES = pf.LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.2, 0.8]])
TABLE = {"ill": [0, 0, 1, 1], "on": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.2, 0.3]}
SEEN = pf.Reference("others", {"ill": [0, 0, 0, 1, 1], "on": [0, 0, 1, 0, 1]})
ILL = pf.Derived("ill", column="on", domain=ON)


@dataclass(frozen=True)
class Case:
    """A belief with the secrets that it knows; `same` if every day's plan has the noise of the first."""

    prior: Any
    domain: Any = field(default_factory=lambda: ON)
    secrets: tuple[str, ...] = ("secret",)
    derived: Any = None

    def scenario(self, secret: str) -> pf.Scenario:
        """Return the scenario of one secret."""
        chosen = {
            "secret": lambda: pf.Secret("on", self.domain),
            "initial": lambda: pf.Initial("on", self.domain),
            "presence": lambda: pf.Presence("house", "on", self.domain, rows=WINDOW),
            "derived": lambda: self.derived,
        }[secret]()
        start = {"start": 0} if secret == "initial" else {}
        return pf.Scenario(chosen, self.prior, order_by="hour", within="house", **start)


BOTH = "secret", "initial"
CASES = {
    "independent": Case(pf.Independent(), secrets=("secret", "initial", "presence")),
    "chain": Case(pf.MarkovChain(STAY), secrets=BOTH),
    "chain with a start": Case(pf.MarkovChain(STAY, initial=[0.5, 0.5]), secrets=("initial",)),
    "chain with a period": Case(pf.MarkovChain([STAY, MOVE], period=2), secrets=BOTH),
    "chain that starts anywhere": Case(pf.MarkovChain(MOVE, initial="free"), secrets=BOTH),
    "chains between": Case(BETWEEN, secrets=BOTH),
    "autoregressive": Case(pf.GaussianPrior(pf.AR1(0.5)), LEVEL, BOTH),
    "exchangeable": Case(pf.GaussianPrior(pf.Exchangeable(0.3)), LEVEL, BOTH),
    "kernel": Case(pf.GaussianPrior(pf.Kernel([0.5**lag for lag in range(40)])), LEVEL, BOTH),
    "latent class": Case(CLASSES),
    "table": Case(pf.Table(TABLE), secrets=("derived",), derived=ILL),
    "empirical": Case(pf.Empirical(SEEN, secret="ill", released="on"), secrets=("derived",), derived=ILL),
    "weakly dependent": Case(pf.WeaklyDependent(0.5), LEVEL),
    "diffusion": Case(pf.Diffusion(0.5), LEVEL, ("initial",)),
    "any correlation": Case(pf.AnyCorrelation(), secrets=("secret", "initial", "presence")),
}
PROMISES = {
    "pure": (pf.Pure(0.5), pf.Pure(4.0), {}),
    "approx, Gaussian": (pf.Approx(0.5, 1e-6), pf.Approx(4.0, 1e-5), {"noise": pf.Gaussian}),
    "approx, Laplace": (pf.Approx(0.5, 1e-6), pf.Approx(4.0, 1e-5), {"noise": pf.Laplace}),
    "approx": (pf.Approx(0.5, 1e-6), pf.Approx(4.0, 1e-5), {}),
    "Rényi": (pf.Renyi(4, 0.5), pf.Renyi(4, 4.0), {}),
}


def plan_of(scenario, promise, day, **options):
    """Return the plan of one day, made of a frame that has this day only."""
    first = WINDOW * day
    frame = pl.DataFrame({"hour": range(first, first + WINDOW), "on": [0] * WINDOW, "house": ["a"] * WINDOW})
    batch = pf.protect(frame, scenario).filter(pl.col("hour").is_between(first, first + WINDOW - 1))
    return batch.private_sum("on").plan(promise, **options)
