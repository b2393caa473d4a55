"""Movements along an autoregressive sequence: those of one dense statistic, step by step, and for ever with a δ."""

import math
import time
from itertools import accumulate

import msgspec
import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.forecast import forecast
from pufferflow.accounting.methods import Methods
from pufferflow.accounting.rules.autoregression import Movements, RepeatedRelease, distance
from pufferflow.published.cost import Cost, Rows, Shape
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.shift import scattered

STEP = 2.0**-30
PHIS = [0.9, -0.8, (-0.3, 0.8)]
MORE = [0.0, 0.97, -0.2, (0.3, 0.6), (-0.7, 0.4)]
DOMAINS = [
    pf.Interval(0, 1),
    pf.Interval(-3, 5),
    [0, 1, 3],
    pf.Bins([0, 1, 2.5], values=[0.0, 1.0]),
]
DAY = 24


def scenario_of(phi, domain, secret=pf.Secret, **options):
    return pf.Scenario(
        secret("x", domain),
        pf.GaussianPrior(pf.AR1(phi), variance=options.pop("variance", 1.0)),
        order_by="hour",
        **options,
    )


def shape_of(rng, scenario, noise, sums=2):
    """Return a random shape: runs with gaps and cells, functions that rise or fall, of which rows may move apart."""
    points = len(scenario.secret.domain.points)
    tables = tuple(
        tuple(row) for row in (rng.random((sums, points)) * rng.choice([1, 10])).tolist()
    )
    ends = list(accumulate(rng.integers(1, 4, 6).tolist()))
    runs = tuple(
        (low, high, cell % 2)
        for cell, (low, high) in enumerate(zip(ends[::2], ends[1::2], strict=True))
    )
    whole = not scenario.secret.domain.finite
    return Shape(
        promise=pf.Pure(1.0),
        setting="",
        priors=(),
        stored_noise=noise(float(rng.uniform(1, 20))).stored(),
        dimension=sums,
        values=None if whole else tables,
        slopes=tables if whole else None,
        rounding=(STEP,) * sums if whole else None,
        unsigned=whole and bool(rng.integers(2)),
        column="x",
        rows=Rows(6, 0, runs, covers=bool(rng.integers(4) == 0)),
    )


def dense(scenario, costs, norm):
    """Return the movement of all sums as answers of one statistic, each with what rounding adds: as by definition."""
    spans = [
        (low + cost.offset, high + cost.offset)
        for cost in costs
        for low, high, _ in cost.shape.rows.runs
    ]
    first, last = min(low for low, _ in spans), max(high for _, high in spans)
    if isinstance(scenario.secret, pf.Initial):
        first = min(first, int(costs[0].start))
    weights, tables, rounding = [], [], []
    for cost in costs:
        shape = cost.shape
        given = np.array(shape.slopes if shape.slopes is not None else shape.values)
        for cell in sorted({cell for _, _, cell in shape.rows.runs}):
            row = np.zeros(last - first)
            for low, high, own in shape.rows.runs:
                if own == cell:
                    row[low + cost.offset - first : high + cost.offset - first] = 1.0
            for table, grown in zip(given, shape.rounding or (0.0,) * len(given), strict=True):
                weights.append(row)
                tables.append((table - table.min()) / shape.noise.scale)
                rounding.append(row.sum() * grown / shape.noise.scale)
    statistic = pf.Statistic(
        np.array(weights), np.array(tables), np.arange(last - first, dtype=float), column="x"
    )
    apart = any(cost.shape.unsigned or cost.shape.rows.covers for cost in costs)
    laws = (scattered if apart else implied)(scenario.priors[0], statistic, scenario.secret)
    return laws.winf(norm).length + float(np.linalg.norm(rounding, norm)), apart


@pytest.mark.parametrize(
    "phis", thinned([PHIS, pytest.param(MORE, marks=pytest.mark.slow)], 0.25), ids=["few", "more"]
)
@pytest.mark.parametrize(
    ("domain", "norm", "noise", "secret"),
    thinned(
        [
            (domain, norm, noise, secret)
            for domain in DOMAINS
            for norm, noise in ((1, pf.Laplace), (2, pf.Gaussian))
            for secret in (pf.Secret, pf.Initial)
        ],
        0.44,
        unpack=True,
    ),
)
def test_sums_step_by_step_are_those_of_one_dense_statistic(domain, norm, noise, secret, phis):
    """Windows anywhere, in any order, that overlap: never below, and no more where each release is bounded alike."""
    for seed, phi in enumerate(phis):
        rng = np.random.default_rng(10 * norm + seed)
        scenario = scenario_of(phi, domain, secret)
        shapes = [shape_of(rng, scenario, noise, sums) for sums in (1, 2)]
        often = (
            1 if scenario.secret.domain.finite else 2
        )  # in classes one pair of values is the worst for all functions
        costs = [
            Cost(shapes[int(rng.integers(often))], int(rng.integers(0, 90)), start=0.0)
            for _ in range(6)
        ]
        costs += [costs[0]] * 2
        movements = Movements(scenario, scenario.priors[0], costs[:2])
        found = [movements.length(norm), movements.length(norm, costs[2:])]
        for cost in costs[2:]:
            movements.add(cost)
        assert movements.length(norm) == pytest.approx(found[1], rel=1e-12)
        for one, some in zip(found, (costs[:2], costs), strict=True):
            wanted, apart = dense(scenario, some, norm)
            assert one <= wanted * (1 + 1e-9) + 1e-10
            if not apart:  # else only releases whose rows are apart pay for that
                assert one >= wanted * (1 - 1e-14)
            assert one >= max(dense(scenario, [cost], norm)[0] for cost in some) * (1 - 1e-12)


def plan_of(phi, promise, domain=None, **options):
    scenario = scenario_of(phi, pf.Interval(0, 1) if domain is None else domain)
    data = pl.DataFrame(
        {"hour": range(DAY), "x": [0.5 if domain is None else domain.values[0]] * DAY}
    )
    return scenario, pf.protect(data, scenario).private_sum("x").plan(promise, **options)


def on_day(cost, day):
    return msgspec.structs.replace(cost, offset=DAY * day, steps_seen=(0, DAY * day + DAY - 1))


LIMITS = {
    "pure": (pf.Pure(0.1), pf.Pure(2.0), {}),
    "approx": (pf.Pure(0.1), pf.Approx(2.0, 1e-6), {}),
    "gaussian": (pf.Approx(0.5, 1e-6), pf.Approx(2.0, 1e-6), {"noise": pf.Gaussian}),
    "renyi": (pf.Renyi(4, 0.3), pf.Renyi(4, 2.0), {"noise": pf.Gaussian}),
    "approximate renyi": (
        pf.ApproxRenyi(4, 0.3, 1e-6),
        pf.ApproxRenyi(4, 2.0, 1e-6),
        {"noise": pf.Gaussian},
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_year_of_days_does_not_jump(limit):
    """Totals grow by next to nothing after a month, are quick, and never above what is forecast."""
    promise, allowed, options = LIMITS[limit]
    scenario, plan = plan_of(0.9, promise, **options)
    first = AccountCosts([scenario], allowed).total([plan.cost])
    spent = AccountCosts([scenario], allowed, Methods.only(first.method))
    before = forecast(spent, plan.cost, every=DAY, limit=allowed)
    totals = list[float]()
    for day in range(400):
        cost = on_day(plan.cost, day)
        if day < 5 or day % 30 == 0 or 285 < day < 292:
            totals.append(spent.total([cost], enough=allowed.epsilon).total)
        spent.add(cost)
    assert totals == sorted(totals)
    assert totals[-1] <= totals[6] * (1 + 1e-5)
    assert totals[-1] <= before.total
    after = forecast(spent, plan.cost, every=DAY, limit=allowed)
    assert (math.isinf(after.total), after.fits > 100_000) == (
        not getattr(allowed, "delta", 0),
        True,
    )
    if math.isfinite(after.total):
        assert after.total == pytest.approx(before.total, rel=1e-9)
        assert after.total == pytest.approx(totals[-1], rel=2e-5)
        assert "delta" in after.note
    else:
        assert "step of the grid" in after.note
    start = time.perf_counter()
    spent.total([on_day(plan.cost, 400)], enough=allowed.epsilon)
    assert time.perf_counter() - start < 0.5


def test_a_decade_of_classes_ends_where_delta_allows():
    """Read in classes a row may cross a border however far away it is: only with δ do far days stop to count."""
    domain = pf.Bins([-20, 0, 20], values=[0.0, 1.0])
    scenario, plan = plan_of(0.6, pf.Pure(0.02), domain)
    costs = [on_day(plan.cost, day) for day in range(60)]
    allowed = pf.Approx(2.0, 1e-4)
    spent, pure = (
        AccountCosts([scenario], allowed, Methods.only("pure")),
        AccountCosts([scenario], pf.Pure(2.0)),
    )
    for cost in costs:
        spent.add(cost)
        pure.add(cost)
    assert pure.total().total > 50 * 0.02
    assert math.isinf(forecast(pure, plan.cost, every=DAY, limit=pf.Pure(2.0)).total)
    ever = forecast(spent, plan.cost, every=DAY, limit=allowed)
    assert spent.total().total <= ever.total < 10 * 0.02
    assert ever.fits == math.inf


@pytest.mark.parametrize("phi", [0.3, -0.6, 0.9, (-0.5, 0.8)])
@pytest.mark.parametrize("mean", [0.0, 0.7, -4.0])
def test_far_rows_cross_borders_as_seldom_as_is_said(phi, mean):
    """Exact probabilities that rows beyond the distance change class, summed, are no more than is to spare."""
    prior = pf.GaussianPrior(pf.AR1(phi), variance=0.25, mean=mean)
    domain, spare = pf.Bins([-1, 0, 0.5, 2], values=[0, 1, 2]), 1e-5
    far = distance(prior, pf.Secret("x", domain), spare)
    for size in np.abs(np.atleast_1d(phi)):

        def crossing(d, size=size, low=-1.0, high=2.0):
            scale, centre, move = (
                0.5 * math.sqrt(1 - size ** (2 * d)),
                mean + size**d * (low - mean),
                size**d * (high - low),
            )
            return sum(
                ndtr((edge - centre) / scale) - ndtr((edge - move - centre) / scale)
                for edge in domain.edges
            )

        assert 2 * sum(crossing(d) for d in range(int(far) + 1, int(far) + 400)) <= spare
    if mean >= 0:  # where the borders are, it is not much farther than it needs to be
        assert 2 * crossing(int(far) // 3) > spare


def test_what_a_far_class_tells_is_within_delta():
    """The exact hockey-stick divergence of two answers, one about a row far away, is at most δ at the total's ε."""
    phi, share = 0.5, 1e-3
    domain = pf.Bins([-3, 0, 3], values=[0.0, 1.0])
    scenario = scenario_of(phi, domain, pf.Initial)
    prior, b = scenario.priors[0], 0.05
    far = int(distance(prior, scenario.secret, share * 2.0**-16)) + 1
    shape = msgspec.structs.replace(
        shape_of(np.random.default_rng(0), scenario, pf.Laplace, 1),
        stored_noise=pf.Laplace(b).stored(),
        values=((0.0, 1.0),),
        rows=Rows(1, 0, ((0, 1, 0),)),
    )
    spent = AccountCosts([scenario], pf.Approx(99.0, share), Methods.only("pure"))
    for place in (0, far):
        spent.add(Cost(shape, place, (0, far), 0.0))
    total = spent.total().total
    assert total < 1.5 / b  # one row's answer, not two
    scale = math.sqrt(1 - phi ** (2 * far))
    p, q = (1 - ndtr((0 - phi**far * value) / scale) for value in (-3.0, 3.0))
    y = np.linspace(-2, 3, 20_001)
    left, right = (np.exp(-np.abs(y - at) / b) / (2 * b) for at in (0.0, 1.0))
    first = -1 / b  # the most that the answer about the row itself tells
    for one, other in ((p, q), (q, p)):
        mixed = (1 - one) * left + one * right, (1 - other) * left + other * right
        excess = np.maximum(mixed[0] - np.exp(total + first) * mixed[1], 0.0).sum() * (y[1] - y[0])
        assert excess <= share


def test_rows_that_are_read_again_and_again_move_for_certain():
    """Functions chosen after a row was read thousands of times might look for it: then nothing is left out of δ."""
    scenario, plan = plan_of(0.5, pf.Pure(1e-5))
    limit = pf.Approx(5.0, 1e-6)
    few, many = (
        AccountCosts([scenario], limit, Methods.only("pure")),
        AccountCosts([scenario], limit, Methods.only("pure")),
    )
    for turn in range(5000):
        many.add(plan.cost)
        if turn < 1000:
            few.add(plan.cost)
    assert math.isfinite(forecast(few, plan.cost, every=DAY, limit=limit).total)
    assert math.isinf(forecast(many, plan.cost, every=DAY, limit=limit).total)
    assert math.isfinite(many.total().total)


@pytest.mark.parametrize("times", [1, 2, 7, 40, math.inf])
@pytest.mark.parametrize("every", [5, 24, 31])
def test_a_schedule_is_its_releases(every, times):
    """What a schedule moves is what its releases move, one by one, after others; for ever, what very many do."""
    rng = np.random.default_rng(every)
    scenario = scenario_of(0.8, pf.Interval(0, 1))
    shapes = [shape_of(rng, scenario, pf.Laplace) for _ in range(2)]
    made = [Cost(shapes[1], int(shift)) for shift in rng.integers(0, 200, 6)]
    movements = Movements(scenario, scenario.priors[0], made)
    listed = [
        Cost(shapes[0], every * turn) for turn in range(200 if math.isinf(times) else int(times))
    ]
    spare = 1e-9 if math.isinf(times) else 0.0
    one = movements.length(1, listed, spare=spare)
    all_at_once = movements.length(
        1, schedule=RepeatedRelease(listed[0], every, times), spare=spare
    )
    assert one <= all_at_once * (1 + 1e-12)
    assert all_at_once == pytest.approx(one, rel=1e-8)


def test_a_release_that_was_only_asked_about_changes_nothing():
    """An account that says what a release would cost is none the worse for it, whatever its clock."""
    scenario, plan = plan_of(0.9, pf.Pure(0.1))
    spent = AccountCosts([scenario], pf.Pure(2.0))
    spent.total([msgspec.structs.replace(plan.cost, clock="another")], enough=2.0)
    for day in range(3):
        spent.add(on_day(plan.cost, day))
    assert "translation" in spent.total(enough=2.0).rule


def test_places_that_were_left_count_with_the_most_that_there_was(monkeypatch):
    """Very long accounts keep the newest steps; who goes back to old ones pays for the worst of all."""
    monkeypatch.setattr("pufferflow.accounting.rules.autoregression._MOST_PARTS", 2)
    scenario, plan = plan_of(0.5, pf.Pure(0.1))
    movements, exact = (Movements(scenario, scenario.priors[0]) for _ in range(2))
    for day in (0, 1, 400, 800, 1200, 0):
        movements.add(on_day(plan.cost, day))
        found = movements.length(1)
        exact.add(on_day(plan.cost, day))
    monkeypatch.setattr("pufferflow.accounting.rules.autoregression._MOST_PARTS", 99)
    assert exact.length(1) <= found <= 2 * exact.length(1)
