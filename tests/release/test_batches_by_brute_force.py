"""The loss of a batch, pair of rows by pair of rows, is never above the guarantee; sums may share rows of a table."""

import random

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

FRAME = pl.DataFrame({"p": range(6), "a": [0.0] * 6, "g": ["x"] * 3 + ["y"] * 3})
KINDS = (
    "all",
    "near",
    "list",
    "near in a list",
    "neighbours in a list",
    "presence",
    "any correlation",
)
PROMISES = (pf.Pure(1.0), pf.Renyi(4, 1.0), pf.Zcdp(0.5))


def scenario_of(rng, kind):
    high = rng.choice([1, 10, 100])
    whole = pf.Interval(0, high)
    if "list" in kind:
        values = sorted(rng.sample(range(-200, 200), rng.choice([20, 70, 120])))
        pairs = {"list": "all", "near in a list": pf.WithinDistance(40)}.get(kind, "adjacent")
        return pf.Scenario(
            pf.Secret("a", domain=values, pairs=pairs, missing=values[0]), pf.Independent()
        )
    if kind == "presence":
        return pf.Scenario(pf.Presence("p", "a", whole, rows=rng.choice([1, 3])), pf.Independent())
    if kind == "any correlation":
        secret = pf.Secret("a", domain=whole, missing=0)
        return pf.Scenario(secret, pf.AnyCorrelation(), within="g", public=["g"])
    pairs = pf.WithinDistance(high / rng.choice([3, 9])) if kind == "near" else "all"
    return pf.Scenario(pf.Secret("a", domain=whole, pairs=pairs, missing=0), pf.Independent())


def batch_of(rng, scenario):
    (domain,) = scenario.secret.columns.values()
    listed = domain.finite
    low, high = min(domain.points), max(domain.points)
    frame = FRAME.with_columns(pl.lit(low).alias("a")) if listed else FRAME
    batch, x = pf.protect(frame.lazy(), scenario), pl.col("a")
    for place in range(rng.choice([1, 2, 3])):
        name, start = f"q{place}", rng.uniform(low, high)
        bins = {} if listed else {"bins": np.linspace(low, high, rng.choice([3, 8, 40, 200]) + 1)}
        asked = rng.choice(["sum", "count", "histogram", "median", "variance", "distance"])
        if asked == "count":
            batch = batch.private_count(
                rng.choice([x > start, x.is_between(start, start + (high - low) / 4)]), name
            )
        elif asked == "distance":
            batch = batch.private_sum((x - (low + high) / 2).abs(), name)
        elif asked in ("histogram", "median"):
            batch = getattr(batch, f"private_{asked}")("a", name, **bins)
        else:
            batch = getattr(batch, f"private_{asked}")("a", name)
    return batch


def steps_at(measure, xs):
    """What a row of each value adds to a sum, as it is read."""
    if measure is None:
        return np.ones(len(xs))
    values = measure.values
    if hasattr(values, "steps"):
        place = {point: at for at, point in enumerate(values.domain.points)}
        return np.array([values.steps[place[x]] for x in xs], dtype=float)
    return (
        pl.DataFrame({"x": np.array(xs, dtype=float)})
        .select(values.read(pl.col("x")))
        .to_series()
        .to_numpy()
    )


def movements(rng, scenario, table, xs):
    """How far pairs of rows, or rows that come and go, move all sums: of shape (sums, movements)."""
    secret, many = scenario.secret, len(xs)
    if isinstance(secret, pf.Presence):
        drawn = [
            table[:, [rng.randrange(many) for _ in range(secret.rows)]].sum(axis=1)
            for _ in range(100)
        ]
        return np.concatenate([table * secret.rows, np.array(drawn).T], axis=1)
    first, second = np.triu_indices(many, 1)
    if scenario.within:
        drawn = [
            sum(table[:, rng.randrange(many)] - table[:, rng.randrange(many)] for _ in range(3))
            for _ in range(100)
        ]
        return np.concatenate([3 * (table[:, first] - table[:, second]), np.array(drawn).T], axis=1)
    numbers = np.array(xs, dtype=float)
    near = np.ones(len(first), dtype=bool)
    if isinstance(secret.pairs, pf.WithinDistance):
        near = np.abs(numbers[first] - numbers[second]) <= secret.pairs.distance
    elif secret.pairs == "adjacent":
        near = second == first + 1
    return table[:, first[near]] - table[:, second[near]]


def largest_share(seed):
    """The largest loss of any movement over the guaranteed one."""
    rng = random.Random(seed)  # noqa: S311 - which cases are tried
    scenario, promise = scenario_of(rng, KINDS[seed % len(KINDS)]), rng.choice(PROMISES)
    noise = (
        "auto" if isinstance(promise, pf.Pure) else rng.choice(["auto", pf.Laplace, pf.Gaussian])
    )
    decision = batch_of(rng, scenario).plan(promise, noise=noise).mechanism.noise
    (domain,) = scenario.secret.columns.values()
    low, high = min(domain.points), max(domain.points)
    ends = [low + (high - low) * place / 8 for place in range(9)]
    inside = [rng.uniform(low, high) for _ in range(30)] + [
        float(np.nextafter(end, 1e9)) for end in ends[:-1]
    ]
    xs = list(domain.points) if domain.finite else sorted({*inside, *map(float, ends)})
    table = np.array([steps_at(measure, xs) for measure in decision.request.measures], dtype=float)
    losses = 0.0
    for moved, own in zip(
        np.abs(movements(rng, scenario, table, xs)), decision.noises, strict=True
    ):
        if own.scale == 0:
            assert not moved.any(), "what moves has noise"
        elif isinstance(promise, pf.Pure):
            losses = losses + own.pure(moved)
        else:
            losses = losses + (
                own.renyi(moved, 4.0) if isinstance(promise, pf.Renyi) else own.zcdp(moved)
            )
    return float(np.max(losses, initial=0.0)) / promise.loss


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 84, 21))
def test_no_pair_of_rows_loses_more_than_is_promised(first):
    """And some lose as much: with nine tenths of the noise these tests fail."""
    shares = [largest_share(seed) for seed in range(first, first + 21)]
    assert max(shares) <= 1 + 1e-9
    assert max(shares) > 0.99
