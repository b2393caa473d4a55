"""Laws of answers, finite or Gaussian; nothing here knows of privacy."""

from pufferflow.law.finite import Law
from pufferflow.law.gaussian import GaussianLaw

__all__ = ["GaussianLaw", "Law"]
