"""Laws of answers, finite or Gaussian, without any notion of privacy."""

from pufferflow.law.atoms import as_fractions, log_quotient
from pufferflow.law.finite import Law
from pufferflow.law.gaussian import GaussianLaw
from pufferflow.law.lattice import (
    BITS,
    SPAN,
    DistanceInterval,
    Levels,
    Masses,
    Precision,
    convolve,
    disjoint_planes,
    gap,
    levels,
    levels_within,
    mix,
    normalise,
    rescale,
    shift,
    winf_at_most,
    yardstick,
)

__all__ = [
    "BITS",
    "SPAN",
    "DistanceInterval",
    "GaussianLaw",
    "Law",
    "Levels",
    "Masses",
    "Precision",
    "as_fractions",
    "convolve",
    "disjoint_planes",
    "gap",
    "levels",
    "levels_within",
    "log_quotient",
    "mix",
    "normalise",
    "rescale",
    "shift",
    "winf_at_most",
    "yardstick",
]
