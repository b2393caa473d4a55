"""The truth about noisy laws, found slowly: SciPy's densities, integrated panel by panel between all kinks.

Nothing here is the library's but the laws and the noises' parameters.
"""

import math

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import logsumexp

import pufferflow as pf

NODES, WEIGHTS = np.polynomial.legendre.leggauss(30)


def log_density(noise, x):
    """The log density of a noise, from SciPy's distributions (staircase: from its definition)."""
    x = np.asarray(x, dtype=float)
    match noise:
        case pf.Laplace(b):
            return stats.laplace.logpdf(x, scale=b)
        case pf.Gaussian(sigma):
            return stats.norm.logpdf(x, scale=sigma)
        case pf.GeneralizedCauchy(scale, k):
            return stats.t.logpdf(x, df=k - 1, scale=scale / math.sqrt(k - 1))
        case pf.Staircase(width, epsilon, gamma):
            height = (1 - math.exp(-epsilon)) / (
                2 * width * (gamma + math.exp(-epsilon) * (1 - gamma))
            )
            steps = np.abs(x) / width
            return math.log(height) - epsilon * (np.floor(steps) + (steps % 1 >= gamma))


def mixture(law, noise, y):
    """The log density of X + noise at y."""
    return logsumexp(
        log_density(noise, y[:, None] - law.values[None, :]), b=law.probabilities[None, :], axis=1
    )


def nodes_for(mu, nu, noise, alpha):
    """Quadrature nodes and weights: short panels over the hull and what shifts it, longer and longer ones beyond."""
    low, high = min(mu.values[0], nu.values[0]), max(mu.values[-1], nu.values[-1])
    reach = (alpha + 1) * (high - low) if isinstance(noise, pf.Gaussian) else 0.0
    inner = np.linspace(low - reach - 3 * noise.scale, high + reach + 3 * noise.scale, 400)
    far = {"Laplace": 60.0, "Gaussian": 12.0, "GeneralizedCauchy": 1e14, "Staircase": 1e-2}[
        type(noise).__name__
    ]
    if isinstance(noise, pf.GeneralizedCauchy):
        far = far ** max(1, 1 / (noise.k - 1))
    outside = noise.scale * np.geomspace(1e-3, far, 40 * int(math.log10(far) + 8))
    kinks = [mu.values, nu.values]
    if isinstance(noise, pf.Staircase):
        count = math.ceil(45 / noise.epsilon + (high - low) / noise.scale)
        steps = np.arange(-count, count + 1)
        jumps = np.concatenate(
            [steps, np.where(steps >= 0, steps + noise.gamma, steps + 1 - noise.gamma)]
        )
        kinks += [
            (atoms[:, None] + noise.scale * jumps).ravel() for atoms in (mu.values, nu.values)
        ]
    ends = np.unique(np.concatenate([*kinks, inner, inner[-1] + outside, inner[0] - outside]))
    half = np.diff(ends) / 2
    return ((ends[:-1] + half)[:, None] + half[:, None] * NODES).ravel(), (
        half[:, None] * WEIGHTS
    ).ravel()


def renyi(mu, nu, noise, alpha):
    """D_α of the noisy laws, the larger of both orders."""
    y, weights = nodes_for(mu, nu, noise, alpha)
    p, q = mixture(mu, noise, y), mixture(nu, noise, y)
    logs = [logsumexp(alpha * a - (alpha - 1) * b, b=weights) for a, b in ((p, q), (q, p))]
    return max(logs) / (alpha - 1)


def delta(mu, nu, noise, epsilon):
    """The hockey stick of the noisy laws, the larger of both orders: masses between the roots of log(p/q) − ε."""
    if isinstance(noise, pf.Staircase):
        y, weights = nodes_for(mu, nu, noise, 1.0)
        p, q = np.exp(mixture(mu, noise, y)), np.exp(mixture(nu, noise, y) + epsilon)
        back = np.exp(mixture(nu, noise, y)), np.exp(mixture(mu, noise, y) + epsilon)
        return max(float(np.sum(weights * np.maximum(a - b, 0.0))) for a, b in ((p, q), back))
    y = np.unique(np.concatenate([nodes_for(mu, nu, noise, 1.0)[0][::3], mu.values, nu.values]))
    return max(_one_way(a, b, noise, epsilon, y) for a, b in ((mu, nu), (nu, mu)))


def _one_way(mu, nu, noise, epsilon, y):
    def excess(x):
        return (
            mixture(mu, noise, np.atleast_1d(x)) - mixture(nu, noise, np.atleast_1d(x)) - epsilon
        )[0]

    above = mixture(mu, noise, y) - mixture(nu, noise, y) > epsilon
    turns = np.flatnonzero(above[1:] != above[:-1])
    roots = [brentq(excess, y[i], y[i + 1], xtol=1e-14 * max(1.0, abs(y[i]))) for i in turns]
    ends = [-math.inf, *roots, math.inf]
    total = 0.0
    for k in range(len(ends) - 1):
        if above[0] == (k % 2 == 0):
            masses = [_mass(law, noise, ends[k], ends[k + 1]) for law in (mu, nu)]
            total += masses[0] - math.exp(epsilon) * masses[1]
    return total


def _mass(law, noise, low, high):
    match noise:
        case pf.Laplace(b):
            known = stats.laplace(scale=b)
        case pf.Gaussian(sigma):
            known = stats.norm(scale=sigma)
        case pf.GeneralizedCauchy(scale, k):
            known = stats.t(df=k - 1, scale=scale / math.sqrt(k - 1))
    low, high = low - law.values, high - law.values
    upper = known.sf(low) - known.sf(high)
    lower = known.cdf(high) - known.cdf(low)
    return float(np.where(low > 0, upper, lower) @ law.probabilities)


def pure(mu, nu, noise):
    """The largest log ratio of the noisy laws at any node (a lower bound of the supremum)."""
    y, _ = nodes_for(mu, nu, noise, 1.0)
    y = np.concatenate([y, mu.values, nu.values])
    return float(np.abs(mixture(mu, noise, y) - mixture(nu, noise, y)).max())
