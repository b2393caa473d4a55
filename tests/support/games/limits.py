"""Limits of every kind, and guarantees of plans that are about some part of a limit."""

import pufferflow as pf

KINDS = ("pure", "approx", "tv", "tradeoff", "renyi", "approx renyi", "zcdp", "gdp")


def limit_of(kind, rng):
    """Return a limit of some kind, of a size at which the best strategies differ visibly."""
    size = float(rng.uniform(0.5, 2.0))
    delta = float(rng.choice([0.003, 0.02, 0.08, 0.2]))
    alpha = float(rng.choice([1.5, 2.0, 3.0, 6.0]))
    return {
        "pure": lambda: pf.Pure(size),
        "approx": lambda: pf.Approx(size, delta),
        "tv": lambda: pf.Tv(min(0.25 * size, 0.6)),
        "tradeoff": lambda: pf.TradeOff(size, delta, tv=min(0.25 * size + delta, 0.6)),
        "renyi": lambda: pf.Renyi(alpha, size / 2),
        "approx renyi": lambda: pf.ApproxRenyi(alpha, size / 2, 1e-7),
        "zcdp": lambda: pf.Zcdp(size / 3),
        "gdp": lambda: pf.Gdp(size),
    }[kind]()


def part_of(limit, share):
    """Return a guarantee of the limit's own kind that is about so large a part of it."""
    least = min(share, 1.0)
    parts = {
        pf.Pure: lambda: pf.Pure(limit.epsilon * share),
        pf.TradeOff: lambda: pf.TradeOff(
            limit.epsilon * share, limit.delta * least, tv=limit.tv * least
        ),
        pf.Approx: lambda: (
            pf.Approx(limit.epsilon * share, limit.delta)
            if limit.epsilon
            else pf.Tv(limit.delta * least)
        ),
        pf.Renyi: lambda: pf.Renyi(limit.alpha, limit.epsilon * share),
        pf.ApproxRenyi: lambda: pf.ApproxRenyi(limit.alpha, limit.epsilon * share, limit.delta),
        pf.Zcdp: lambda: pf.Zcdp(limit.rho * share),
        pf.Gdp: lambda: pf.Gdp(limit.mu * share),
    }
    return parts[type(limit)]()


def whole_of(limit, promise):
    """Return the largest number of a guarantee, pf.Pure or pf.Gdp, from which the limit follows."""
    low, high = 0.0, 40.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if limit.kind.loss_from(promise(middle)) <= limit.loss else (low, middle)
        )
    return max(low, 1e-3)
