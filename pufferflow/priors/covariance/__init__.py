"""Covariances of rows that are jointly Gaussian; one kind per file (M15)."""

from pufferflow.priors.covariance.ar1 import AR1
from pufferflow.priors.covariance.covariance import Covariance
from pufferflow.priors.covariance.exchangeable import Exchangeable
from pufferflow.priors.covariance.kernel import Kernel
from pufferflow.priors.covariance.matrix import Matrix, read_covariance
from pufferflow.priors.covariance.restored import restored_covariance

__all__ = ["AR1", "Covariance", "Exchangeable", "Kernel", "Matrix", "read_covariance", "restored_covariance"]
