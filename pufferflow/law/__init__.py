"""Laws of answers, finite or Gaussian, without any notion of privacy."""

from pufferflow.law.atoms import as_fractions, log_quotient
from pufferflow.law.finite import Law
from pufferflow.law.gaussian import GaussianLaw
from pufferflow.law.lattice import (
    BITS,
    SPAN,
    Gap,
    Levels,
    Masses,
    Yardstick,
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
    "Gap",
    "GaussianLaw",
    "Law",
    "Levels",
    "Masses",
    "Yardstick",
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
