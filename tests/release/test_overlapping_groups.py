"""Groups of one batch that rows are in by public columns: the row that is in most loses what is guaranteed (M27)."""

import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core.errors import SourceError
from pufferflow.engines.connect import engine_of
from pufferflow.engines.weighted_rows import (
    WeightedRows,
    grids_of,
    largest_together,
    weighted_tally,
    weights_of,
)

LEVELS = [0, 1, 3]
HOSPITALS = ["a", "b", "c", "d"]
INDEPENDENT = pf.Independent()


def table(memberships):
    """A row for each, with a column for each hospital: by how much the row counts there."""
    counts = {f"at_{name}": [float(row.get(name, 0)) for row in memberships] for name in HOSPITALS}
    return pl.DataFrame(
        {**counts, "level": [LEVELS[place % 3] for place in range(len(memberships))]}
    )


def batch(frame, prior=INDEPENDENT, domain=LEVELS):
    secret = pf.Secret("level", domain=domain)
    return pf.protect(
        frame, pf.Scenario(secret, prior, public=[f"at_{name}" for name in HOSPITALS])
    )


def by_hospital(asked):
    """A sum for each hospital."""
    for name in HOSPITALS:
        asked = asked.private_sum(pl.col("level") * pl.col(f"at_{name}"), name=name)
    return asked


def losses(memberships, plan, width=3):
    """The loss of each row between its two values that are farthest apart, all other rows being known."""
    return [
        math.fsum(plan.noises[name].pure(width * abs(row.get(name, 0))) for name in HOSPITALS)
        for row in memberships
    ]


@pytest.mark.parametrize(
    ("memberships", "scale"),
    thinned(
        [
            ([{"a": 1}, {"b": 1}, {"c": 1}, {"d": 1}], 3),
            ([{"a": 1, "b": 1}, {"c": 1}, {"b": 1, "d": 1}], 6),
            ([{"a": 1, "b": 1, "c": 1}, {"d": 1}], 9),
            ([{"a": 1, "b": 1, "c": 1, "d": 1}], 12),
        ],
        0.2,
        unpack=True,
    ),
)
def test_overlapping_groups_pay_for_the_most_that_a_row_is_in(memberships, scale):
    """Disjoint groups pay once, groups of three hospitals three times, whatever other groups there are."""
    plan = by_hospital(batch(table(memberships))).plan(pf.Pure(1.0))
    assert max(losses(memberships, plan)) == pytest.approx(1.0)
    assert max(losses(memberships, plan)) <= 1.0
    assert min(noise.scale for noise in plan.noises.values()) <= scale * (1 + 1e-9)
    rows = [{place for place, row in enumerate(memberships) if name in row} for name in HOSPITALS]
    groups = pf.granularity.Overlapping(rows)
    kept = [3 / plan.noises[name].scale for name in HOSPITALS]
    assert groups.total(kept, pf.granularity.in_place) == pytest.approx(1.0)
    assert "Pure" in repr(plan.release().certificate.promise)
    assert plan.explain()
    assert plan.summary().height == 4


LOOSE = 11
"""The seed of weights for which the noise is a third more than the worst row needs; it is never too little."""


@pytest.mark.parametrize("seed", thinned(range(12), 0.34))
@pytest.mark.parametrize("prior", [INDEPENDENT, pf.AnyCorrelation()], ids=["independent", "any"])
def test_no_row_loses_more_than_is_promised(seed, prior):
    """Random weights: the exact loss of the worst row is what is guaranteed, and more with a tenth less noise."""
    rng = np.random.default_rng(seed)
    memberships = [
        {name: float(rng.choice([0, 0, 1, -1, 2.5, 0.125])) for name in HOSPITALS}
        for _ in range(rng.integers(1, 7))
    ]
    plan = by_hospital(batch(table(memberships), prior)).plan(pf.Pure(1.0))
    worst = max(losses(memberships, plan))
    assert worst <= 1.0
    if prior == INDEPENDENT and any(any(row.values()) for row in memberships):
        assert worst / 0.9 > 1.0 or seed == LOOSE
        two = pf.compose([plan, plan], plan.request.scenario)
        assert 2 * worst <= two.total <= 2.0


@pytest.mark.slow
def test_many_kinds_of_rows_are_taken_together():
    """Where rows have too many kinds of weights, each sum pays for its largest one, which is never too little."""
    angles = np.linspace(0, np.pi / 2, 400)
    memberships = [
        {"a": round(1024 * math.cos(angle)) / 1024, "b": round(1024 * math.sin(angle)) / 1024}
        for angle in angles
    ]
    plan = by_hospital(batch(table(memberships))).plan(pf.Pure(1.0))
    assert max(losses(memberships, plan)) < 0.75
    few = by_hospital(batch(table(memberships[::4]))).plan(pf.Pure(1.0))
    assert 0.95 < max(losses(memberships[::4], few)) <= 1.0


def test_gaussian_noise_adds_squares_of_one_rows_groups():
    """A row of two hospitals moves both; rows of others do not count."""
    memberships = [{"a": 1, "b": 1}, {"c": 1}, {"d": 1}]
    plan = by_hospital(batch(table(memberships))).plan(pf.Renyi(2, 1.0), noise=pf.Gaussian)
    moved = [
        math.fsum((3 * row.get(name, 0) / plan.noises[name].scale) ** 2 for name in HOSPITALS)
        for row in memberships
    ]
    assert max(moved) == pytest.approx(1.0)
    assert max(moved) <= 1.0 + 1e-12


def test_an_interval_and_a_plain_sum_beside_groups():
    """Any row is in the plain sum, at most one of two groups beside it."""
    memberships = [{"a": 1}, {"b": 1}]
    asked = by_hospital(batch(table(memberships), domain=pf.Interval(0, 3))).private_sum(
        "level", name="all"
    )
    plan = asked.plan(pf.Pure(1.0))
    each = [3 / plan.noises["all"].scale + loss for loss in losses(memberships, plan)]
    assert 0.999 < max(each) <= 1.0


def test_rows_of_other_groups_than_were_planned_with_are_refused():
    """A row of two groups, where noise was made for rows of one: nothing is released."""
    of_first, of_second = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    columns = {
        "at_a": of_first,
        "at_b": of_second,
        "at_c": np.zeros(2),
        "at_d": np.zeros(2),
        "level": np.array([1, 3]),
    }
    frame = pl.DataFrame([pl.Series(name, values) for name, values in columns.items()])
    plan = by_hospital(batch(frame)).plan(pf.Pure(1.0))
    assert plan.release().frame.height == 1
    of_second[:] = 1.0
    with pytest.raises(SourceError, match="other rows than when the plan was made"):
        plan.release()
    asked, weights = plan.request, plan.mechanism.noise.public.weights
    with pytest.raises(SourceError, match="other weights"):  # found when sums are read, too
        weighted_tally(
            asked.engine, asked.selection, asked.measures, weights.grids, weights.together
        )


def test_kinds_of_rows_are_those_that_no_other_row_passes():
    """Each once, whatever the signs; every row has no more of each weight than one of them."""
    frame = table([{"a": 1}, {"a": 2, "b": 1}, {"b": -1}, {"a": 1, "b": 1}, {"c": 1}])
    request = by_hospital(batch(frame)).request
    engine, weights = engine_of(frame), weights_of(request.measures)
    weighted = WeightedRows.of(engine, request.selection, weights)
    found = largest_together(weighted, grids_of(weighted))
    assert sorted(map(tuple, found.tolist())) == [(0, 0, 1, 0), (2, 1, 0, 0)]
    assert all((np.abs(row) <= found).all(axis=1).any() for row in frame.drop("level").rows())
