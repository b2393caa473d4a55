"""What the numbers below scenarios are: losses, distances, calibrations, totals of a chain, and attacks."""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from readings import attributes, outcome, plain
from recordings import BOUNDS, PROMISES

import pufferflow as pf

THIRD = Fraction(1, 3)
PAIRS: dict[str, tuple[Any, Any]] = {
    "far": (pf.Law([0, 1], [0.5, 0.5]), pf.Law([0, 1, 50], [0.4, 0.597, 0.003])),
    "near": (pf.Law([0, 1, 2], [0.2, 0.5, 0.3]), pf.Law([0, 1, 2], [0.3, 0.4, 0.3])),
    "thirds": (pf.Law([0, 1], [THIRD, 1 - THIRD]), pf.Law([0, 2], [THIRD, 1 - THIRD])),
    "points": (pf.Law.point(0), pf.Law.point(3)),
    "plane": (
        pf.Law([[0, 0], [1, 0], [0, 1]], [0.5, 0.25, 0.25]),
        pf.Law([[0, 0], [1, 1], [2, 1]], [0.4, 0.4, 0.2]),
    ),
    "gaussian": (pf.GaussianLaw(0.0, 1.0), pf.GaussianLaw(1.5, 1.0)),
    "gaussian, wide": (
        pf.GaussianLaw([0.0, 1.0], [[1.0, 0.2], [0.2, 2.0]]),
        pf.GaussianLaw([1.0, 1.0], [[1.0, 0.2], [0.2, 2.0]]),
    ),
}
FAMILIES: dict[str, Any] = {
    "laplace": pf.Laplace,
    "gaussian": pf.Gaussian,
    "cauchy": pf.GeneralizedCauchy.of(k=4),
    "cauchy, two": pf.GeneralizedCauchy,
    "staircase": pf.Staircase,
    "staircase, of": pf.Staircase.of(epsilon=1.0),
}
ALL_PROMISES = PROMISES | {
    "curve": pf.RenyiCurve([2, 8], [0.5, 2.0]),
    "approx renyi": pf.ApproxRenyi(4, 1.0, 1e-4),
}
SLOW = {("plane", "gaussian"), ("gaussian, wide", "laplace"), ("plane", "cauchy, two")}
DRAWN = [
    pf.Laplace(2.0),
    pf.Gaussian(1.5),
    pf.GeneralizedCauchy(1.0, k=3),
    pf.Staircase(2.0, 1.0, 0.4),
]
KINDS = {"pure": pf.Pure, "renyi": pf.Renyi.of(alpha=4), "approx": pf.Approx.of(delta=1e-5)}


def calibrated(pair: str, family: str) -> dict[str, Any]:
    """Return the least noise of a family for a pair of laws, for each guarantee and bound."""
    laws, bounds = [PAIRS[pair]], {"auto": "auto", **BOUNDS}
    slow = (pair, family) == ("plane", "laplace")
    promises = ("pure", "renyi") if slow else ALL_PROMISES
    found = {
        f"{promise}, {bound}": outcome(
            lambda p=promise, b=bound: pf.calibrate(
                laws, ALL_PROMISES[p], noise=FAMILIES[family], bound=bounds[b]
            )
        )
        for promise, bound in itertools.product(promises, bounds)
        if family != "staircase, of" or bound == "gwm"
    }
    if family in ("laplace", "gaussian"):
        for promise in ("pure", "renyi"):
            found[f"{promise}, exact"] = outcome(
                lambda p=promise: pf.calibrate(
                    laws, ALL_PROMISES[p], noise=FAMILIES[family], bound=pf.Exact()
                )
            )
    return found


def losses(pair: str) -> dict[str, Any]:
    """Return what noises guarantee for a pair of laws."""
    bounds = {"gwm": pf.GWM(), "dagwm": pf.DAGWM(), "exact": pf.Exact()}
    return {
        f"{noise!r}, {kind}, {bound}": outcome(
            lambda n=noise, k=kind, b=bound: pf.loss([PAIRS[pair]], n, KINDS[k], bound=bounds[b])
        )
        for noise, kind, bound in itertools.product(DRAWN, KINDS, bounds)
        if kind != "approx" or isinstance(noise, pf.Laplace | pf.Gaussian)  # others take long
    }


def distances() -> dict[str, Any]:
    """Return how far laws are apart, in every norm, and by which movement."""

    def of(mu: Any, nu: Any, norm: float) -> dict[str, Any]:
        return {
            "winf": outcome(lambda: pf.winf(mu, nu, norm=norm)),
            "coupled": outcome(lambda: _coupling(pf.winf(mu, nu, norm=norm, coupling=True))),
            "one": outcome(lambda: pf.wasserstein(mu, nu, p=1, norm=norm)),
            "two": outcome(lambda: pf.wasserstein(mu, nu, p=2, norm=norm)),
            "near": outcome(lambda: pf.near(mu, nu, delta=0.01, norm=norm)),
            "nearly": outcome(lambda: pf.near(mu, nu, delta=Fraction(1, 10), norm=norm)),
        }

    pairs = {**PAIRS, "mixed": (PAIRS["far"][0], PAIRS["gaussian"][0])}
    return {
        f"{name}, {norm}": of(*pair, norm)
        for name, pair in pairs.items()
        for norm in (1, 2, np.inf)
    }


def _coupling(found: Any) -> Any:
    made = found.coupling
    return [
        float(found),
        *(plain(getattr(made, name, None)) for name in ("masses", "differences", "matrix")),
    ]


def noises() -> dict[str, Any]:
    """Return what each noise reveals about itself: losses of shifts, widths, density, and drawn numbers."""
    shifts = np.array([0.0, 0.25, 1.0, 3.0, -2.0])

    def of(noise: pf.Noise) -> dict[str, Any]:
        return attributes(
            noise,
            "expected_error",
            "variance",
            repr=lambda: repr(noise),
            pure=lambda: noise.pure(shifts),
            renyi=lambda: [noise.renyi(shifts, alpha) for alpha in (1.5, 2, 4, 32)],
            delta=lambda: [noise.delta(shifts, epsilon) for epsilon in (0.1, 1.0)],
            tv=lambda: noise.tv(shifts),
            density=lambda: noise.logpdf(shifts),
            interval=lambda: [noise.interval(share) for share in (0.5, 0.95, 0.999)],
            drawn=lambda: noise.release([10.0, 20.5, -3.0]).values,
            grid=lambda: noise.release([1.0]).grid,
            sample=lambda: noise.sample(4),
            seeded=lambda: noise.sample(4, rng=np.random.default_rng(3)),
            at=lambda: noise.at(0.5),
        )

    return {
        repr(noise): of(noise)
        for noise in (*DRAWN, pf.Laplace(1e-9), pf.Gaussian(1e12), pf.GeneralizedCauchy(1.0))
    }


def promises() -> dict[str, Any]:
    """Return how guarantees are stored, shown, and turned into others."""
    known = (*ALL_PROMISES.values(), pf.Pure(0.1), pf.Renyi(8, 0.5), pf.Approx(0.3, 1e-9))
    return {
        repr(one): attributes(
            one,
            "to_json",
            approx=lambda one=one: [one.to_approx(delta) for delta in (1e-3, 1e-6, 1e-9)],
            implies=lambda one=one: {repr(other): one.implies(other) for other in known},
            again=lambda one=one: pf.Guarantee.from_json(one.to_json()) == one,
        )
        for one in known
    }


def leakage() -> dict[str, Any]:
    """Return what a loss at every step reveals about a chain."""
    chains: dict[str, Any] = {
        "two": [[0.9, 0.1], [0.1, 0.9]],
        "uneven": [[0.95, 0.05], [0.3, 0.7]],
        "three": [[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]],
        "round": [[0.0, 1.0], [1.0, 0.0]],
    }

    def of(chain: Any, **options: Any) -> Any:
        return outcome(lambda: pf.temporal_leakage(chain, **options))

    size = {name: len(chain) for name, chain in chains.items()}
    return {
        f"{name}, {called}": of(chain, **options)
        for name, chain in chains.items()
        for called, options in {
            "for ever": {"exposure": 0.1},
            "much": {"exposure": 2.0},
            "ten": {"exposure": 0.1, "steps": 10},
            "free": {"exposure": 0.3, "steps": 7, "initial": "free"},
            "matrix": {
                "exposure": (
                    0.2 * np.abs(np.subtract.outer(range(size[name]), range(size[name])))
                ).tolist()
            },
        }.items()
    }


def attacks() -> dict[str, Any]:
    """Return what attacks find, with draws that repeat."""

    def of(*arguments: Any, **options: Any) -> Any:
        found = pf.audit.attack(*arguments, rng=np.random.default_rng(1), trials=4000, **options)
        return attributes(
            found, "lower", "broken", "pair", "event", "promised", "confidence", "trials"
        )

    pair = pf.Law([0, 1], [0.7, 0.3]), pf.Law([1, 2], [0.4, 0.6])
    found = pf.calibrate([pair], pf.Pure(1.0))
    return {
        "calibration": outcome(lambda: of(found)),
        "noise": outcome(lambda: of(pf.Laplace(0.5), [pair], promise=pf.Pure(1.0))),
        "renyi": outcome(lambda: of(pf.Gaussian(2.0), [pair], promise=pf.Renyi.of(alpha=4))),
    }


TOPICS: dict[str, Callable[[], Any]] = {
    "distances": distances,
    "noises": noises,
    "promises": promises,
    "leakage": leakage,
    "attacks": attacks,
    **{f"loss, {pair}": lambda pair=pair: losses(pair) for pair in PAIRS},
    **{
        f"calibrate, {pair}, {family}": lambda pair=pair, family=family: calibrated(pair, family)
        for pair in PAIRS
        for family in FAMILIES
        if (pair, family) not in SLOW
    },
}
