"""Distances of two laws: W_∞, W_p, nearness, and the couplings that attain them."""

from pufferflow.transport import emd, line, masses
from pufferflow.transport.coupling import (
    AffineCoupling,
    Certainty,
    Coupling,
    Distance,
    TransportPlan,
    all_differences,
    plan_of_coupling,
)
from pufferflow.transport.distances import MOST_PAIRS, near, wasserstein, winf
from pufferflow.transport.emd import small_plans
from pufferflow.transport.line import longest

__all__ = [
    "MOST_PAIRS",
    "AffineCoupling",
    "Certainty",
    "Coupling",
    "Distance",
    "TransportPlan",
    "all_differences",
    "emd",
    "line",
    "longest",
    "masses",
    "near",
    "plan_of_coupling",
    "small_plans",
    "wasserstein",
    "winf",
]
