"""From stored values back to covariances."""

from typing import Any

from pufferflow.errors import Misuse
from pufferflow.priors.covariance.ar1 import AR1
from pufferflow.priors.covariance.covariance import Covariance
from pufferflow.priors.covariance.exchangeable import Exchangeable
from pufferflow.priors.covariance.kernel import Kernel
from pufferflow.priors.covariance.matrix import Matrix


def restored_covariance(stored: dict[str, Any]) -> Covariance:
    """Return the covariance that `stored` tells of."""
    match stored:
        case {"kind": "exchangeable", "rho": rho}:
            return Exchangeable(rho)
        case {"kind": "ar1", "phi": phi}:
            return AR1(phi)
        case {"kind": "kernel", "correlations": correlations}:
            return Kernel(correlations)
        case {"kind": "matrix", "entries": entries}:
            return Matrix(entries)
        case _:
            raise Misuse("The stored covariance is of no known kind.", allowed="what to_json wrote")
