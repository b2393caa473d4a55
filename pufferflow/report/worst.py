"""The worst pair of secrets in numbers: two laws of the answer, their noisy densities, and the ratio of these (M2)."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy import special

from pufferflow.errors import PufferflowError
from pufferflow.noise import Gaussian, GeneralizedCauchy, Laplace, Noise, Staircase
from pufferflow.report.evidence import Atoms, WorstPair

Floats = npt.NDArray[np.float64]
_POINTS, _MOST_ATOMS = 481, 400
_COVERED = 0.98


@final
@dataclass(frozen=True, eq=False)
class Curves:
    """The logarithms of both noisy densities at the places `at`."""

    at: Floats
    first: Floats
    second: Floats

    @property
    def ratio(self) -> Floats:
        """The log of the ratio of the densities: what one look at a noisy number tells."""
        return self.first - self.second


def curves_of(pair: WorstPair) -> Curves | None:
    """Return the noisy laws of a pair; None where there is no noise, or a noise whose density is not known by name."""
    noise = noise_of(pair)
    mu, nu = atoms_of(pair.mu), atoms_of(pair.nu)
    if noise is None or not (math.isfinite(pair.scale) and pair.scale > 0 and len(mu[0]) and len(nu[0])):
        return None
    at = _places(noise, np.concatenate([mu[0], nu[0]]))
    if not np.isfinite(at).all() or at[0] == at[-1]:
        return None
    return Curves(at, _noisy(noise, mu, at), _noisy(noise, nu, at))


def noise_of(pair: WorstPair) -> Noise | None:
    """Return the noise that is added, from its name; None if there is none of this name.

    >>> point = Atoms((0.0,), (1.0,))
    >>> noise_of(WorstPair("load", "0", "3", point, point, "GeneralizedCauchy", 2.0, 4.0))
    GeneralizedCauchy(scale=2.0, k=4.0)
    """
    try:
        match pair.noise:
            case "Laplace":
                return Laplace(pair.scale)
            case "Gaussian":
                return Gaussian(pair.scale)
            case "GeneralizedCauchy":
                return GeneralizedCauchy(pair.scale, pair.shape or 2.0)
            case "Staircase":
                fall = pair.shape or pair.epsilon
                return Staircase(pair.scale, fall) if fall else None
            case _:
                return None
    except PufferflowError:
        return None


def atoms_of(law: Atoms) -> tuple[Floats, Floats]:
    """Return the values of a law that can happen, and how likely they are; very many are gathered."""
    values, weights = np.array(law.values, dtype=np.float64), np.array(law.weights, dtype=np.float64)
    kept = (weights > 0) & np.isfinite(values)
    values, weights = values[kept], weights[kept]
    if len(values) <= _MOST_ATOMS:
        return values, weights
    edges = np.linspace(float(values.min()), float(values.max()), _MOST_ATOMS + 1)
    slots = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _MOST_ATOMS - 1)
    gathered: Floats = np.bincount(slots, weights, _MOST_ATOMS).astype(np.float64)
    return ((edges[1:] + edges[:-1]) / 2)[gathered > 0], gathered[gathered > 0]


def _places(noise: Noise, values: Floats) -> Floats:
    """Return where densities are drawn: around all values as far as noise mostly goes, and at these themselves."""
    reach = min(noise.interval(_COVERED)[1], 8 * noise.scale)
    low, high = float(values.min()) - reach, float(values.max()) + reach
    return np.unique(np.concatenate([np.linspace(low, high, _POINTS), values]))


def _noisy(noise: Noise, law: tuple[Floats, Floats], at: Floats) -> Floats:
    values, weights = law
    logs = noise.logpdf((at[:, None] - values[None, :]).ravel()).reshape(len(at), len(values))
    return np.asarray(special.logsumexp(logs + np.log(weights)[None, :], axis=1), dtype=np.float64)
