"""Guarantees: pure and approximate, Rényi and concentrated, Gaussian and total-variation privacy, and conversions."""

from pufferflow.privacy import renyi as renyi
from pufferflow.privacy import tradeoff as tradeoff
