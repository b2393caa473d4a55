"""What a limit allows: for each statement that it makes, what a player gains at an outcome, and the most allowed."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

import pufferflow as pf

NEGLIGIBLE = 1e-285
_SURELY = 30.0
"""A log ratio that nothing but an event of δ reaches."""


@dataclass(frozen=True, eq=False)
class Measure:
    """A divergence of two laws: `gain` of their masses at outcomes, added up (or the largest), and what follows."""

    name: str
    gain: Any
    allowed: float
    largest: bool = False
    finish: Any = None

    def value(self, gained):
        """Return the divergence of a sum of gains."""
        return gained if self.finish is None else self.finish(gained)

    def ratio(self, gained):
        """Return the divergence as a part of what is allowed."""
        value = self.value(gained)
        return value / self.allowed if self.allowed > 0 else (0.0 if value <= 1e-12 else math.inf)


def log_ratio(epsilon):
    """The largest log ratio of likelihoods."""

    def gain(p, q):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(p > NEGLIGIBLE, np.log(p) - np.log(np.maximum(q, NEGLIGIBLE)), -np.inf)

    return Measure("log ratio", gain, epsilon, largest=True)


def hockey_stick(epsilon, delta):
    """The excess of one law over e^ε times the other."""
    factor = math.exp(epsilon)
    return Measure(f"delta at {epsilon:.4g}", lambda p, q: np.maximum(p - factor * q, 0.0), delta)


def renyi(alpha, epsilon, *, spare=False):
    """The Rényi divergence of one order; with `spare`, but for outcomes that only one law can have."""

    def gain(p, q):
        safe = np.maximum(q, NEGLIGIBLE)
        possible = (p > NEGLIGIBLE) & (q > NEGLIGIBLE) if spare else p > NEGLIGIBLE
        with np.errstate(over="ignore"):  # where it is not possible
            return np.where(
                possible, safe * np.exp(alpha * np.log(np.maximum(p, NEGLIGIBLE) / safe)), 0.0
            )

    return Measure(
        f"D_{alpha:g}",
        gain,
        epsilon,
        finish=lambda total: math.log(max(total, 1e-300)) / (alpha - 1),
    )


def delta_of_gdp(mu, epsilon):
    """δ at ε of μ-Gaussian differential privacy."""
    return float(
        special.ndtr(mu / 2 - epsilon / mu)
        - math.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu)
    )


def measures_of(limit):
    """Return every divergence that a limit bounds, as far as this file knows them."""
    measures = {
        pf.Pure: lambda: [log_ratio(limit.epsilon)],
        pf.TradeOff: lambda: [
            hockey_stick(limit.epsilon, limit.delta),
            hockey_stick(0.0, limit.tv),
        ],
        pf.Approx: lambda: [hockey_stick(limit.epsilon, limit.delta)],
        pf.Renyi: lambda: [renyi(limit.alpha, limit.epsilon)],
        # leaving out events of a tiny δ changes an order's sum by no more than about δ
        pf.ApproxRenyi: lambda: [
            renyi(limit.alpha, limit.epsilon, spare=True),
            hockey_stick(_SURELY, limit.delta),
        ],
        pf.Zcdp: lambda: [renyi(alpha, alpha * limit.rho) for alpha in (1.3, 2.0, 4.0, 12.0)],
        pf.Gdp: lambda: [
            hockey_stick(x * limit.mu, delta_of_gdp(limit.mu, x * limit.mu))
            for x in (0.0, 0.7, 1.5, 2.5)
        ],
    }
    return measures[type(limit)]()
