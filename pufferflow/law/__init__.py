"""Laws of answers, finite or Gaussian; nothing here knows of privacy."""

from pufferflow.law.atoms import exactly, log_quotient
from pufferflow.law.finite import Law
from pufferflow.law.gaussian import GaussianLaw
from pufferflow.law.lattice import (
    BITS,
    SPAN,
    Gap,
    Levels,
    Masses,
    Yardstick,
    convolved,
    gap,
    holds,
    levels,
    mixed,
    normalised,
    settled,
    shifted,
    tight,
    within,
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
    "convolved",
    "exactly",
    "gap",
    "holds",
    "levels",
    "log_quotient",
    "mixed",
    "normalised",
    "settled",
    "shifted",
    "tight",
    "within",
    "yardstick",
]
