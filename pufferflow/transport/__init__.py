"""Distances of two laws: W_∞, W_p, nearness, and the couplings that attain them."""

from pufferflow.transport.distance import AffineCoupling, Certainty, Coupling, Distance
from pufferflow.transport.distances import near, wasserstein, winf

__all__ = ["AffineCoupling", "Certainty", "Coupling", "Distance", "near", "wasserstein", "winf"]
