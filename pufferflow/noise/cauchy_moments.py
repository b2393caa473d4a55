"""The Rényi moment of generalized Cauchy noise, E = exp((α−1)·D_α) at a shift of u scales (M11), never below the truth.

With m = k(α−1)/2 and w = u², E = β_k ∫ (1 + w cos²t − 2√w sin t cos t)^m cos^{k−2}t dt over (−π/2, π/2). For whole m it
is a polynomial in w with positive coefficients.

For other m put τ = 2·asinh(u/2). Then the base is cosh τ + sinh τ·cos(2t + φ), and T = tan(t + φ/2) makes the integral

    E = β_k ∫ h(T)^m · |c + sT|^{k−2} · (1 + T²)^{−k/2} dT,    h(T) = (e^τ + e^{−τ}T²)/(1 + T²),

with c = (1 + e^{−τ})^{−1/2} and s = e^{−τ/2}·c. Its special points are T = 0, T = ∞ and T = −e^{τ/2}. Between each two
of them an exponential substitution gives an integrand that is analytic in the strip |Im| < π/2 whatever u, so the
trapezoid rule converges geometrically at a rate that does not depend on u, with an error that is known: in the strip
|Im| ≤ a the integrand's size is at most C = cos(a)^{−m−k/2}·cos(a/2)^{−2m−k−4} times its value on the real line, hence
the sum with step q is off by at most 2C/(e^{2πa/q} − 1) of the integral.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from pufferflow.rounding import UNIT, lifted

Floats = npt.NDArray[np.float64]
_REACH = 44.0
_LONGEST = 4000.0
_CELLS = 2_000_000


def log_constant(k: float) -> float:
    """Return log β_k, β_k = Γ(k/2)/(√π·Γ((k−1)/2))."""
    return -float(special.betaln(0.5, (k - 1) / 2))


def log_moment(units: Floats, k: float, m: float) -> Floats:
    """Return log E at shifts u > 0, rounded up."""
    if m % 1 == 0:
        return _polynomial(units, k, round(m))
    # log E is convex in m, and 0 at 0: between whole m the chord is above it
    share = m % 1
    below = _polynomial(units, k, math.floor(m)) if m > 1 else np.zeros(units.shape)
    chord = (1 - share) * below + share * _polynomial(units, k, math.ceil(m))
    return np.minimum(lifted(chord, 4 * UNIT), _quadrature(units, k, m))


def _polynomial(units: Floats, k: float, m: int) -> Floats:
    """Return log Σ a_r u^{2r}, the sum of r = 1..m taken in logarithms and 1 added last."""
    r = np.arange(m, dtype=np.float64)
    steps = np.log((m - r) / (r + 1)) + np.log((m + k / 2 + r) / (k / 2 + 2 * r))
    steps += np.log(((k - 1) / 2 + r) / (k / 2 + 2 * r + 1))
    coefficients = np.cumsum(steps)
    rows = max(_CELLS // max(m, 1), 1)
    logs = np.empty(units.shape)
    for start in range(0, len(units), rows):
        size = 2 * np.log(units[start : start + rows, None])
        terms = coefficients + (r + 1) * size
        rounding = 8 * UNIT * (np.abs(steps).sum() + m * np.abs(size[:, 0]) + m + 4)
        logs[start : start + rows] = np.logaddexp(0.0, special.logsumexp(terms, axis=1) + rounding)
    return lifted(logs, 4 * UNIT)


def _quadrature(units: Floats, k: float, m: float) -> Floats:
    """Return log E by three trapezoid sums, with their errors added."""
    strip = min(math.pi / 3, math.sqrt(12 / (2 * m + k + 4)))
    growth = -(m + k / 2) * math.log(math.cos(strip)) - (2 * m + k + 4) * math.log(math.cos(strip / 2))
    step = _short(2 * math.pi * strip / (growth + math.log(2) + _REACH - 6))
    missed = 2 * math.exp(growth) / math.expm1(2 * math.pi * strip / step)
    slow = min(_REACH / min(k - 1, 1.0), _LONGEST)
    logs = np.empty(units.shape)
    widest = 2 * float(np.arcsinh(units.max() / 2))
    rows = max(int(_CELLS * step / (2 * slow + 2 * _REACH + widest)), 1)
    for start in range(0, len(units), rows):
        tau = 2 * np.arcsinh(units[start : start + rows, None] / 2)
        longest = float(tau.max())
        middle = _multiples(step, -_REACH, longest + _REACH)
        outer = _multiples(step, -slow, longest / 2 + _REACH)
        parts = [_segment(tau, middle, k, m), *_ends(tau, outer, k, m)]
        sums = special.logsumexp(np.concatenate(parts, axis=1), axis=1) + math.log(step)
        # beyond the ends the integrand falls geometrically, at a rate of min(1, k−1) or more
        edges = np.stack([part[:, i] for part in parts for i in (0, -1)], axis=1)
        tails = special.logsumexp(edges, axis=1) + math.log(2 / min(1.0, k - 1) + step)
        rounding = 16 * UNIT * (m * tau[:, 0] + m + k + 16)
        logs[start : start + rows] = np.logaddexp(sums, tails) + log_constant(k) - math.log1p(-missed) + rounding
    return np.maximum(logs, 0.0)


def _short(step: float) -> float:
    """Return a step no longer than this one, of so few bits that its multiples are exact."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(mantissa * 1024), exponent - 10)


def _multiples(step: float, low: float, high: float) -> Floats:
    """Return the multiples of a step from below one number to above another."""
    return step * np.arange(math.floor(low / step) - 1, math.ceil(high / step) + 2, dtype=np.float64)


def _segment(tau: Floats, v: Floats, k: float, m: float) -> Floats:
    """Return the log integrand over T = e^v, between T = 0 and ∞."""
    gap = np.logaddexp(0.0, v - tau / 2) - np.log1p(np.exp(-tau)) / 2  # log(c + sT)
    return m * _log_base(tau, v) + (k - 2) * gap - k / 2 * np.logaddexp(0.0, 2 * v) + v


def _ends(tau: Floats, s: Floats, k: float, m: float) -> tuple[Floats, Floats]:
    """Return the log integrands over T = −e^v on both sides of v = τ/2, where c + sT vanishes."""
    soft = np.logaddexp(0.0, s)
    constant = -np.log1p(np.exp(-tau)) / 2
    inner, outer = tau / 2 - soft, tau / 2 + soft
    before = (k - 2) * constant + (k - 1) * (s - soft) + inner
    after = (k - 2) * constant + (k - 1) * s + tau / 2
    return (
        m * _log_base(tau, inner) - k / 2 * np.logaddexp(0.0, 2 * inner) + before,
        m * _log_base(tau, outer) - k / 2 * np.logaddexp(0.0, 2 * outer) + after,
    )


def _log_base(tau: Floats, v: Floats) -> Floats:
    """Return log h at T = ±e^v."""
    return np.logaddexp(tau, 2 * v - tau) - np.logaddexp(0.0, 2 * v)
