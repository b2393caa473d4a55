"""Sums of functions of several columns on intervals: no more is lost than was guaranteed, by all rows there can be.

The truth is what the engine adds up for every tuple of a grid, with the ends of all domains and jumps: the loss of
independent Laplace noise between two tables is the sum of the answers' distances over scales.
"""

import itertools

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

A, B, C, WARD = pl.col("a"), pl.col("b"), pl.col("c"), pl.col("ward")
DOMAINS = {
    "a": pf.Interval(0, 5),
    "b": pf.Interval(-1, 2),
    "c": [0, 1, 4],
    "ward": ["east", "west"],
}
MISSING = {"a": 1.0, "b": 2.0, "c": 1, "ward": "west"}
SECRETS = [pf.Secret(name, own, missing=MISSING[name]) for name, own in DOMAINS.items()]
VALUES = {
    "a": [-3.0, 0.0, 1.3, 2.0, 5.0, None],
    "b": [-1.0, 0.0, 0.7, 2.0, 99.0],
    "c": [0, 1, 4],
    "ward": ["east", "west"],
}
ROWS = list(itertools.product(*VALUES.values()))
BATCHES = {
    "a sum": lambda batch: batch.private_sum(A + B),
    "a mean of differences": lambda batch: batch.private_mean((A - 2 * B) / 4, name="gap"),
    "intervals and lists": lambda batch: batch.private_sum(
        A.clip(1, 3) - C + (WARD == "east").cast(pl.Int64) * 2 + 7, name="mixed"
    ),
    "a sum and a difference": lambda batch: batch.private_sum(A + B, name="s").private_sum(
        A - B, name="d"
    ),
    "sums beside counts of one column": lambda batch: (
        batch.private_sum(A + B, name="s")
        .private_sum("a")
        .private_count(A > 1.3, name="above")
        .private_histogram("b", bins=[-1, 0, 1, 2])
        .private_sum(pl.mean_horizontal("a", "b", "c") - A.abs(), name="m")
    ),
    "a square beside a sum": lambda batch: batch.private_sum(B - A, name="s").private_variance("a"),
}


def frame_of(rows, *, apart=False):
    columns = dict(zip(VALUES, zip(*rows, strict=True), strict=True))
    return pl.DataFrame(
        {
            "unit": range(len(rows)) if apart else [0] * len(rows),
            "row": range(len(rows)),
            **columns,
        },
        schema_overrides={"a": pl.Float64, "b": pl.Float64},
    )


def scenario_of(secret, prior=None):
    return pf.Scenario(secret, prior or pf.Independent(), within="unit", public=["row"])


def added(ask, secret):
    """Return what each tuple adds to the sums of a batch, as the engine reads it: of shape (rows, sums)."""
    protected = pf.protect(frame_of(ROWS, apart=True), scenario_of(secret))
    request = ask(protected.group_by("row", keys=range(len(ROWS)))).request
    measures = [one for one in request.measures if one is not None]
    sums = iter(request.engine.tally(request.selection, measures).sums.T)
    ones = np.ones(len(ROWS))
    read = np.stack([ones if one is None else next(sums) for one in request.measures], axis=1)
    return read.astype(float)


def loss(sums, scales, rows=ROWS, pairs=None):
    """Return the largest loss between two tuples, or between those that differ in one column."""
    distances = (np.abs(sums[:, None] - sums[None]) / scales).sum(axis=2)
    if pairs is None:
        return float(distances.max())
    codes = np.array(
        [[own.index(one) for own, one in zip(VALUES.values(), row, strict=True)] for row in rows]
    )
    differ = (codes[:, None] != codes[None]).sum(axis=2)
    return float(distances[differ == 1].max())


def scales_of(plan):
    """Return the scales of the noise of all sums, in their steps."""
    noise = plan.mechanism.noise
    units = np.array([float(unit) for unit in noise.public.weights.units])
    return np.array([one.scale for one in noise.noises_in_units]) / units


@pytest.mark.parametrize("name", thinned(BATCHES, 0.5))
@pytest.mark.parametrize("pairs", ["all", "one column"])
def test_no_tuple_loses_more_than_is_promised(name, pairs):
    """Independent rows and every pair of tuples: the loss is below the guarantee, and near it for a single sum."""
    secret = pf.Secret.together(*SECRETS, pairs=pairs)
    plan = BATCHES[name](pf.protect(frame_of(ROWS[:1]), scenario_of(secret))).plan(pf.Pure(1.0))
    sums = added(BATCHES[name], secret)
    lost = loss(sums, scales_of(plan), pairs=None if pairs == "all" else pairs)
    assert lost <= 1.0
    if len(plan.request.measures) == 1:
        assert lost > 1 - 1e-6
        assert loss(sums, 0.9 * scales_of(plan), pairs=None if pairs == "all" else pairs) > 1.1


@pytest.mark.parametrize("name", thinned(BATCHES, 0.5))
@pytest.mark.parametrize(
    "prior", [pf.Independent(), pf.AnyCorrelation()], ids=["independent", "any"]
)
def test_no_unit_that_comes_or_goes_loses_more(name, prior):
    """Two rows of any tuples against none; where other rows may change with them, against any two others."""
    secret = pf.Presence("unit", list(DOMAINS), list(DOMAINS.values()), [*MISSING.values()], rows=2)
    ask = BATCHES[name]
    plan = ask(pf.protect(frame_of(ROWS[:1]), scenario_of(secret, prior))).plan(pf.Pure(1.0))
    sums = added(ask, secret) / scales_of(plan)
    lost = np.abs(sums).sum(axis=1).max() * 2
    if prior.any_correlation:
        lost = max(lost, 2 * loss(sums, np.ones(sums.shape[1])))
    assert lost <= 1.0
    if len(plan.request.measures) == 1:
        assert lost > 1 - 1e-6


def test_rows_of_a_group_that_may_depend_in_any_way_move_together():
    """Three rows of one group: three times the noise of one row, and all of it is needed."""
    asked = pf.protect(frame_of(ROWS[:3]), scenario_of(SECRETS, pf.AnyCorrelation()))
    plan = asked.private_sum(A + B).plan(pf.Pure(1.0))
    assert 3 * loss(added(BATCHES["a sum"], SECRETS), scales_of(plan)) == pytest.approx(1, rel=1e-9)
    assert next(iter(plan.noises.values())).scale == pytest.approx(24.0, rel=1e-9)


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        (A + B, pf.Interval(-1, 7)),
        (A - 2 * B, pf.Interval(-4, 7)),
        (pl.mean_horizontal("a", "b"), pf.Interval(-0.5, 3.5)),
        (A + C, pf.Interval(0, 9)),
    ],
)
def test_a_sum_costs_no_more_than_that_of_a_column_made_before(asked, made):
    """The same numbers in a column of their own, with their own interval: the noise is the same."""
    both = pf.protect(frame_of(ROWS[:3]), scenario_of(SECRETS)).private_sum(asked, name="x")
    column = frame_of(ROWS[:3]).with_columns(made=asked)
    alone = pf.protect(column, scenario_of(pf.Secret("made", made, missing=0))).private_sum("made")
    for promise, noise in ((pf.Pure(1.0), pf.Laplace), (pf.Renyi(4, 1.0), pf.Gaussian)):
        (scale,), (other,) = (
            [one.scale for one in batch.plan(promise, noise=noise).noises.values()]
            for batch in (both, alone)
        )
        assert scale <= other * (1 + 1e-12)


def test_two_users_with_ranges_of_their_own():
    """Rows r1 = 3 and r2 = 5 wide: 8 for both, and 5 where a single column differs."""
    domains = {"a": pf.Interval(0, 3), "b": pf.Interval(-2, 3)}
    own = [pf.Secret(name, domain, missing=0) for name, domain in domains.items()]
    for pairs, most in (("all", 8.0), ("one column", 5.0)):
        secret = pf.Secret.together(*own, pairs=pairs)
        plan = pf.protect(frame_of(ROWS[:2]), scenario_of(secret)).private_sum(A + B)
        (noise,) = plan.plan(pf.Pure(1.0)).noises.values()
        assert noise.scale == pytest.approx(most, rel=1e-12)


def test_an_answer_is_the_sum_of_the_columns_as_they_are_read():
    """Values outside the domain and nulls are read column by column, before they are added; weights multiply them."""
    frame = frame_of(ROWS).with_columns(price=pl.col("row") % 3)
    scenario = pf.Scenario(SECRETS, pf.Independent(), within="unit", public=["row", "price"])
    asked = {"x": A + 2 * B - C, "y": pl.sum_horizontal("a", "b") / 2, "z": -(A + B) * 3 - 1}
    read = frame.with_columns(
        A.fill_null(MISSING["a"]).clip(0, 5), B.clip(-1, 2), pl.col("price").cast(pl.Float64)
    )
    for weight in (None, pl.col("price")):
        batch = pf.protect(frame, scenario)
        for name, one in asked.items():
            batch = batch.private_sum(one if weight is None else one * weight, name=name)
        answers = batch.plan(pf.Pure(1e12)).release().frame
        for name, one in asked.items():
            truth = read.select((one if weight is None else one * weight).sum()).item()
            assert answers[name].item() == pytest.approx(truth, abs=1e-5)


def test_releases_add_up_to_what_they_lose_together():
    """A sum and a difference, released one after the other: their total is no less than what both tell of a tuple."""
    asked = pf.protect(frame_of(ROWS[:1]), scenario_of(SECRETS))
    plans = [asked.private_sum(one, name="x").plan(pf.Pure(0.5)) for one in (A + B, A - B)]
    total = pf.compose(plans, scenario_of(SECRETS)).total
    sums = added(BATCHES["a sum and a difference"], SECRETS)
    scales = np.concatenate([scales_of(plan) for plan in plans])
    assert loss(sums, scales) <= total <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (A * B, "is no sum of functions of one column each"),
        ((A + B).clip(0, 3), "is no sum of functions of one column each"),
        ((A > B).cast(pl.Int64), "is no sum of functions of one column each"),
        (A + B * A, "is no sum of functions of one column each"),
        (1 / (A + B), "is no sum of functions of one column each"),
        (A.sqrt() + B, "straight lines"),
        (A + B - pl.lit(None), "finite number"),
    ],
)
def test_what_is_no_sum_of_functions_of_columns_is_refused(asked, says):
    """Products, limits and comparisons of several columns are refused, and the error says what is allowed."""
    batch = pf.protect(frame_of(ROWS[:2]), scenario_of(SECRETS))
    with pytest.raises(pf.PufferflowError, match=says):
        batch.private_sum(asked, name="x")


def test_what_needs_single_rows_is_refused():
    """A variance of a sum, a count of one that is no predicate, and columns whose nulls are left out."""
    batch = pf.protect(frame_of(ROWS[:2]), scenario_of(SECRETS))
    with pytest.raises(pf.Refused, match="The square of"):
        batch.private_variance(A + B, name="x")
    with pytest.raises(pf.UsageError, match="no predicate"):
        batch.private_count(A + B, name="x")
    skipping = [pf.Secret("a", pf.Interval(0, 5), missing="skip"), SECRETS[1]]
    with pytest.raises(pf.Refused, match="missing values are left out"):
        pf.protect(frame_of(ROWS[:2]), scenario_of(skipping)).private_sum(A + B)


def test_what_a_sum_of_columns_on_intervals_has_not_is_said_at_once():
    """No missing="skip" where that is refused next, and no bounds by group, in the words of the user."""
    batch = pf.protect(frame_of(ROWS[:2]), scenario_of(SECRETS))
    with pytest.raises(pf.UsageError, match="tests for nulls of 'a'") as refused:
        batch.private_sum(A.fill_null(3) + B)
    assert "skip" not in refused.value.allowed + refused.value.instead
    with pytest.raises(pf.UsageError, match="tests for nulls of 'a'") as refused:
        batch.private_sum(A.fill_null(3))
    assert 'missing="skip"' in refused.value.instead
    with pytest.raises(pf.Refused, match=r"Bounds by group of a \+ b, a sum over several columns"):
        batch.group_by("row", keys=[0]).private_sum(A + B, bounds={0: (0, 3)})


def test_many_columns_move_by_their_ranges():
    """Sums over twelve columns, where corners would be too many: each sum moves by its whole range."""
    names = [f"x{place}" for place in range(12)]
    secrets = [pf.Secret(name, pf.Interval(0, 1), missing=0) for name in names]
    frame = pl.DataFrame({name: [0.5] for name in names})
    batch = pf.protect(frame, pf.Scenario(secrets, pf.Independent()))
    batch = batch.private_sum(pl.sum_horizontal(*names), name="s")
    (alone,) = batch.plan(pf.Pure(1.0)).noises.values()
    assert alone.scale == pytest.approx(12.0, rel=1e-9)
    both = batch.private_sum(pl.mean_horizontal(*names), name="m").plan(pf.Pure(1.0)).noises
    assert (
        sum(most / noise.scale for most, noise in zip((12, 1), both.values(), strict=True)) <= 1.0
    )
    together = pf.Secret.together(*secrets, pairs="one column")
    batch = pf.protect(frame, pf.Scenario(together, pf.Independent()))
    batch = batch.private_sum(pl.sum_horizontal(*names), name="s").private_sum("x3", name="t")
    both = batch.plan(pf.Pure(1.0)).noises.values()
    assert sum(1 / noise.scale for noise in both) == pytest.approx(1.0, rel=1e-6)
