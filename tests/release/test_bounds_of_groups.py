"""Bounds of values by public group: no more is lost than was guaranteed, by all data sets of small worlds."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from thinned import thinned

import pufferflow as pf

LEVELS = [0, 1, 3]
BOUNDS = {"a": (0, 1), "b": (0, 3), "c": (1, 3)}
INDEPENDENT, ANY = pf.Independent(), pf.AnyCorrelation()
STAY = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
WEIGHTS, CLASSES = [0.4, 0.6], np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
CROSSING = (["a", "a", "b", "b", "c", "a", "b"], [1, 1, 1, 1, 2, 2, 2])
OF_UNITS = (["a", "a", "a", "b", "b", "b", "c"], [1, 1, 1, 2, 2, 2, 3])
OF_STEPS = (["a", "b", "c", "b", "a", "b", "c"], [1, 1, 1, 1, 2, 2, 2])


def rows(groups, houses):
    hours = [sum(other == house for other in houses[:place]) for place, house in enumerate(houses)]
    return pl.DataFrame(
        {"grade": groups, "house": houses, "hour": hours, "level": [LEVELS[0]] * len(groups)}
    )


def batch(frame, prior=INDEPENDENT, domain=LEVELS, *, ordered=False, **grouping):
    order = {"order_by": "hour"} if ordered else {}
    scenario = pf.Scenario(
        pf.Secret("level", domain), prior, within="house", public=["grade"], **order
    )
    return pf.protect(frame, scenario).group_by("grade", **grouping)


def scale_of(plan, name="level_sum"):
    """Return the scale of each group's noise."""
    own = plan.summary().filter(pl.col("query") == name)
    return {
        group.removeprefix("grade="): scale for group, scale in own.select("group", "scale").rows()
    }


def worlds(prior, count):
    """Yield all values of a unit's rows, by their places in the domain, with their probability."""
    for path in itertools.product(range(len(LEVELS)), repeat=count):
        if isinstance(prior, str) and prior == "class":
            yield (
                path,
                float((WEIGHTS * np.prod([CLASSES[:, state] for state in path], axis=0)).sum()),
            )
        else:
            steps = STAY if isinstance(prior, str) else prior
            start = np.linalg.matrix_power(steps, 300)[0]
            yield path, start[path[0]] * math.prod(steps[a, b] for a, b in itertools.pairwise(path))


def contributions(paths, groups, bounds):
    """Return what a unit adds to the sum of each of its groups, for all values of its rows."""
    values = np.array(LEVELS, dtype=float)[np.array(paths)]
    clipped = np.stack(
        [np.clip(values[:, row], *bounds[group]) for row, group in enumerate(groups)], axis=1
    )
    named = sorted(set(groups))
    return named, np.stack(
        [clipped[:, [own == group for own in groups]].sum(axis=1) for group in named], axis=1
    )


def true_loss(prior, groups, bounds, scales):
    """Return the largest log ratio of densities of the published vector between two values of a row."""
    paths, masses = zip(*worlds(prior, len(groups)), strict=True)
    states, masses = np.array(paths), np.log(masses)
    named, atoms = contributions(paths, groups, bounds)
    axes = [np.unique([column.min() - 1e4, *column, column.max() + 1e4]) for column in atoms.T]
    places = np.array(list(itertools.product(*axes)))
    near = -(np.abs(places[:, None] - atoms[None]) / [scales[group] for group in named]).sum(axis=2)
    worst = 0.0
    for row in range(len(groups)):
        given = [states[:, row] == state for state in range(len(LEVELS))]
        logs = [
            logsumexp(near[:, own] + masses[own], axis=1) - logsumexp(masses[own]) for own in given
        ]
        worst = max(worst, *(float((a - b).max()) for a, b in itertools.permutations(logs, 2)))
    return worst


def free_loss(groups, bounds, scales):
    """Return the largest loss between any two data sets of a unit."""
    named, atoms = contributions(
        list(itertools.product(range(3), repeat=len(groups))), groups, bounds
    )
    return float(
        (np.abs(atoms[:, None] - atoms[None]) / [scales[group] for group in named])
        .sum(axis=2)
        .max()
    )


def units(groups, houses):
    for house in sorted(set(houses)):
        yield [group for group, own in zip(groups, houses, strict=True) if own == house]


PRIORS = {
    "any": (ANY, False),
    "chain": (pf.MarkovChain(STAY), True),
    "class": (pf.LatentClass(WEIGHTS, CLASSES), False),
}


TABLES = {"crossing": CROSSING, "of units": OF_UNITS, "of steps": OF_STEPS}


@pytest.mark.parametrize("table", thinned(TABLES, 0.34))
@pytest.mark.parametrize("kind", PRIORS)
def test_dependent_rows_lose_no_more_than_is_promised(kind, table):
    """By all rows of each unit.

    The loss of the published vector is what is guaranteed, more with a tenth less noise.
    """
    prior, ordered = PRIORS[kind]
    plan = (
        batch(rows(*TABLES[table]), prior, ordered=ordered)
        .private_sum("level", bounds=BOUNDS)
        .plan(pf.Pure(1.0))
    )
    worst = worst_loss(kind, TABLES[table], scale_of(plan))
    assert worst <= 1.0
    if (kind, table) != ("chain", "crossing"):  # there every step counts with the rows of all kinds
        assert worst_loss(kind, TABLES[table], scale_of(plan), 0.9) > 1.0
    two = pf.compose([plan, plan], plan.request.scenario).total
    assert (
        worst_loss(kind, TABLES[table], scale_of(plan), 0.5) <= two < math.inf
    )  # seen at equal answers


def worst_loss(kind, table, scales, factor=1.0):
    scales = {group: scale * factor for group, scale in scales.items()}
    return max(
        free_loss(groups, BOUNDS, scales)
        if kind == "any"
        else true_loss(kind, groups, BOUNDS, scales)
        for groups in units(*table)
    )


@pytest.mark.slow
def test_units_that_look_like_those_of_one_kind_are_hidden_too():
    """A unit that crosses kinds of groups, and one of one kind with the same rows in as many groups: both are safe."""
    steps = np.array([[0.9, 0.05, 0.05], [0.05, 0.475, 0.475], [0.05, 0.475, 0.475]])
    bounds = {"a": (0, 1), "b": (1, 3), "c": (1, 3)}
    table = ["b", "c", "b", "a"], [1, 1, 2, 2]
    asked = batch(rows(*table), pf.MarkovChain(steps), ordered=True).private_sum(
        "level", bounds=bounds
    )
    scales = scale_of(asked.plan(pf.Pure(1.0)))
    assert max(true_loss(steps, groups, bounds, scales) for groups in units(*table)) <= 1.0
    assert scales["b"] > 1.02 * scale_of(first_unit(table, steps, bounds))["b"]


def first_unit(table, steps, bounds):
    """Return the plan for the first two rows alone."""
    own = rows(table[0][:2], table[1][:2])
    asked = batch(own, pf.MarkovChain(steps), ordered=True)
    return asked.private_sum("level", bounds={group: bounds[group] for group in "bc"}).plan(
        pf.Pure(1.0)
    )


@pytest.mark.parametrize(
    "prior", thinned([ANY, pf.LatentClass(WEIGHTS, CLASSES)], 0.5), ids=["any", "class"]
)
def test_very_different_units_are_covered(prior):
    """More than 64 kinds of units, across groups: no more is lost than is guaranteed by any of them."""
    sizes = [
        unit
        for size in range(1, 7)
        for unit in itertools.combinations_with_replacement("abc", size)
    ]
    frame = rows(
        [group for unit in sizes for group in unit],
        [place for place, unit in enumerate(sizes) for _ in unit],
    )
    scales = scale_of(batch(frame, prior).private_sum("level", bounds=BOUNDS).plan(pf.Pure(1.0)))
    if prior == ANY:
        widths = [
            sum((BOUNDS[group][1] - BOUNDS[group][0]) / scales[group] for group in unit)
            for unit in sizes
        ]
        assert 0.999 < max(widths) <= 1.0
    else:
        assert max(true_loss("class", unit, BOUNDS, scales) for unit in sizes[9:19:3]) <= 1.0


@pytest.mark.parametrize("kind", thinned(["any", "chain"], 0.5))
def test_units_of_one_kind_need_what_they_need_alone(kind):
    """A group of units of its own has the noise of a batch that asks about it alone, whatever others there are."""
    prior, ordered = PRIORS[kind]
    whole = batch(rows(*OF_UNITS), prior, ordered=ordered).private_sum("level", bounds=BOUNDS)
    for group, scale in scale_of(whole.plan(pf.Pure(1.0))).items():
        alone = pf.protect(rows(*OF_UNITS), whole.request.scenario).filter(grade=group)
        needed = alone.private_sum(pl.col("level").clip(*BOUNDS[group])).plan(pf.Pure(1.0))
        assert scale == pytest.approx(needed.noises["level_sum"].scale, rel=2e-3)


@pytest.mark.parametrize(
    "domain", thinned([LEVELS, pf.Interval(0, 3)], 0.5), ids=["list", "interval"]
)
@pytest.mark.parametrize(
    ("noise", "promise"),
    [
        (pf.Laplace, pf.Pure(1.0)),
        (pf.Gaussian, pf.Approx(1.0, 1e-5)),
        (pf.Gaussian, pf.Renyi(2, 1.0)),
        (pf.GeneralizedCauchy.of(k=4), pf.Pure(1.0)),
    ],
    ids=["laplace", "delta", "renyi", "cauchy"],
)
def test_independent_rows_need_for_each_group_what_it_needs_alone(domain, noise, promise, tmp_path):
    """A row moves the sum of its own group by the width of its bounds; accounts charge what one release costs."""
    asked = batch(rows(*CROSSING), INDEPENDENT, domain).private_sum("level", bounds=BOUNDS)
    plan = asked.plan(promise, noise=noise)
    for group, scale in scale_of(plan).items():
        alone = pf.protect(rows(*CROSSING), asked.request.scenario).filter(grade=group)
        needed = alone.private_sum(pl.col("level").clip(*BOUNDS[group])).plan(promise, noise=noise)
        assert scale == pytest.approx(needed.noises["level_sum"].scale, rel=1e-3)
        assert scale >= needed.noises["level_sum"].scale * (1 - 1e-9)
    if isinstance(promise, pf.Pure):
        account = pf.Ledger(tmp_path / "l.db").open("a", asked.request.scenario, limit=pf.Pure(2.0))
        released = [plan.release(account, id=str(place)) for place in range(2)]
        stored = pf.Certificate.from_json(released[0].certificate.to_json())
        assert stored == released[0].certificate
        assert account.spent().epsilon == pytest.approx(2.0)


@pytest.mark.parametrize("kind", ["ar1", "negative", "exchangeable"])
@pytest.mark.parametrize("table", thinned(TABLES, 0.34))
def test_gaussian_rows_move_each_group_within_its_bounds(kind, table):
    """By all rows that move as far as the secret moves them, or within bounds of their group, or not at all."""
    lags = abs(np.subtract.outer(range(4), range(4)))
    covariance, factors = {
        "ar1": (pf.AR1(0.7), 0.7**lags),
        "negative": (pf.AR1(-0.7), (-0.7) ** lags),
        "exchangeable": (pf.Exchangeable(0.4), 0.4 + 0.6 * (lags == 0)),
    }[kind]
    ordered = kind != "exchangeable"
    asked = batch(
        rows(*TABLES[table]), pf.GaussianPrior(covariance), pf.Interval(0, 3), ordered=ordered
    )
    scales = scale_of(asked.private_sum("level", bounds=BOUNDS).plan(pf.Pure(1.0)))
    worst = max(moved(groups, factors, scales) for groups in units(*TABLES[table]))
    assert worst <= 1.0
    if table == "of units":
        assert worst > 0.998


def moved(groups, factors, scales):
    """Return the longest movement of all sums, each in units of its noise, over the secret's row and signs."""
    widths = np.array([BOUNDS[group][1] - BOUNDS[group][0] for group in groups])
    farthest = 0.0
    for own in factors[: len(groups), : len(groups)]:
        steps = np.sign(own) * np.minimum(np.abs(own) * 3, widths)
        parts = [
            steps[[other == group for other in groups]] / scales[group] for group in set(groups)
        ]
        farthest = max(
            farthest, sum(max(part[part > 0].sum(), -part[part < 0].sum()) for part in parts)
        )
    return farthest


@pytest.mark.slow
def test_several_queries_share_the_budget_once():
    """A mean is a sum of the same values, and costs nothing beside it; a count of all groups shares with both."""
    asked = batch(rows(*CROSSING)).private_sum("level", bounds=BOUNDS)
    both = asked.private_mean("level", bounds=BOUNDS)
    alone = scale_of(asked.plan(pf.Pure(1.0)))
    assert scale_of(both.plan(pf.Pure(1.0))) == pytest.approx(alone, rel=1e-9)
    plan = asked.private_count(pl.col("level") >= 1, name="n").plan(pf.Pure(1.0))
    counts = scale_of(plan, "n")
    for group, scale in scale_of(plan).items():
        values = [(level, np.clip(level, *BOUNDS[group])) for level in LEVELS]
        pairs = itertools.permutations(values, 2)
        loss = max(
            abs(a[1] - b[1]) / scale + ((a[0] > 0) != (b[0] > 0)) / counts[group] for a, b in pairs
        )
        assert 0.9 < loss <= 1.0
        assert scale == pytest.approx(2 * alone[group], rel=1e-3)  # an equal share, not one of four
    close = asked.plan(accuracy=pf.Within(5)).summary()
    assert close["interval_95"].max() == pytest.approx(5.0)


@pytest.mark.slow
def test_answers_bars_and_limits_are_those_of_each_group():
    """Sums and means of clipped values; groups without rows, and other ones, have their own bars and limits."""
    frame = rows(["a", "a", "b", "x", None], [1] * 5).with_columns(level=pl.Series([3, 1, 3, 3, 3]))
    asked = batch(frame, keys=["b", "a", "c"], other="rest")
    bounds = {"a": (0, 0.5), "rest": (1, 2), "c": (0.5, 2.5)}
    both = asked.private_sum("level", "s", bounds=bounds).private_mean("level", "m", bounds=bounds)
    released = both.release(epsilon=1e6)
    assert released.frame["grade"].to_list() == ["b", "a", "c", "rest"]
    assert released.frame["s"].to_list() == pytest.approx([3, 1, 0, 4], abs=1e-3)
    assert released.frame["m"].to_list()[:2] == pytest.approx([3, 0.5], abs=1e-3)
    assert released.limits.select("s_least", "s_most").rows() == [(0, 3), (0, 1), (0, 0), (2, 4)]
    assert released.limits.select("m_least", "m_most").rows() == [
        (0, 3),
        (0, 0.5),
        (None, None),
        (1, 2),
    ]
    assert released.intervals.row(2)[-2:] == (0.5, 2.5)
    default = asked.private_sum("level", bounds={"a": (0, 0.5)}, otherwise=(0, 1)).release(
        epsilon=1e6
    )
    assert default.frame["level_sum"].to_list() == pytest.approx([1, 1, 0, 2], abs=1e-3)
    wide = both.plan(pf.Pure(1.0))
    halves = dict(
        wide.summary().filter(pl.col("query") == "s").select("group", "interval_95").rows()
    )
    bars = wide.release().intervals
    widths = (bars["s_high"] - bars["s_low"]).to_list()
    assert widths == pytest.approx([2 * halves[f"grade={group}"] for group in bars["grade"]])
    assert "0 to 0.5 for grade=a" in wide.explain()
    assert "0 to 0.5 for grade=a" in str(wide.certificate)
    assert "0 to 0.5 for grade=a" in wide.value_handling()[0]


@pytest.mark.slow
def test_labels_are_tuples_or_those_of_one_column():
    """Of several grouping columns; the digest tells bounds apart."""
    frame = rows(*CROSSING).with_columns(level=pl.lit(3))
    scenario = pf.Scenario(pf.Secret("level", LEVELS), INDEPENDENT, public=["grade", "house"])
    asked = pf.protect(frame, scenario).group_by("grade", "house")
    by_both = asked.private_sum("level", bounds={("a", 1): (0, 1)})
    by_one = asked.private_sum("level", bounds={"house": {1: (0, 1)}})
    assert by_both.release(epsilon=1e6).frame["level_sum"].round(2).to_list() == [2, 3, 6, 3, 3]
    assert by_one.release(epsilon=1e6).frame["level_sum"].round(2).to_list() == [2, 3, 2, 3, 3]
    others = [
        by_both,
        by_one,
        asked.private_sum("level", bounds={("a", 1): (1, 3)}),
        asked.private_sum("level"),
    ]
    assert len({one.request.digest for one in others}) == len(others)
    again = asked.private_sum("level", bounds={("a", 1): (0, 1)})
    assert again.request.digest == by_both.request.digest


@pytest.mark.parametrize("kind", thinned(["any", "chain"], 0.5))
def test_units_of_other_kinds_after_the_plan_are_refused(kind):
    """A unit that moved to another group, with rows as before: noise was not made for it."""
    prior, ordered = PRIORS[kind]
    grades = np.array([0, 0, 0, 1, 1, 1, 2])
    frame = rows(*OF_UNITS).with_columns(pl.Series("grade", grades), level=pl.lit(0))
    bounds = {0: (0, 1), 1: (0, 3), 2: (1, 3)}
    plan = (
        batch(frame, prior, ordered=ordered, keys=[0, 1, 2])
        .private_sum("level", bounds=bounds)
        .plan(pf.Pure(1.0))
    )
    assert plan.release().frame.height == 3
    grades[:] = [2, 2, 2, 1, 1, 1, 0]
    with pytest.raises(pf.PufferflowError, match="other rows"):
        plan.release()


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({}, "names no group"),
        ((0, 1), "of type tuple"),
        (pl.DataFrame({"grade": ["a"], "high": [1]}), "of type DataFrame"),
        ({"z": (0, 1)}, "not a listed key"),
        ({None: (0, 1)}, "not a listed key"),
        ({1: (0, 1)}, "do not fit the grouping columns"),
        ({"a": (1, 0)}, "1 to 0"),
        ({"a": (0, 9)}, "0 to 9"),
        ({"a": (0, math.nan)}, "is nan"),
        ({"a": ("0", 1)}, "of type str"),
        ({"a": None}, "of type NoneType"),
        ({"house": {1: (0, 1)}}, "a mapping for 'house'"),
        (None, "of type NoneType"),
    ],
)
def test_bounds_that_are_none_are_refused(bounds, words):
    """Bounds, labels and columns that do not fit are named, before anything is read."""
    with pytest.raises(pf.UsageError, match=words):
        batch(rows(*CROSSING), keys=["a", "b", "c"]).private_sum(
            "level", bounds=bounds, otherwise=(0, 1)
        )


def test_what_has_no_bounds_by_group_is_refused():
    """Where rows come and go, with weights, of predicates, and without groups."""
    asked, there = batch(rows(*CROSSING)), pf.Presence("house", "level", LEVELS, rows=4)
    private = pf.protect(rows(*CROSSING), pf.Scenario(there, INDEPENDENT, public=["grade"]))
    with pytest.raises(pf.Refused, match=r"do not work under pf.Presence"):
        private.group_by("grade", keys=["a"]).private_sum("level", bounds={"a": (0, 1)})
    with pytest.raises(pf.Refused, match="together with public weights"):
        asked.private_mean("level", weights="grade", bounds=BOUNDS)
    with pytest.raises(pf.UsageError, match="true or false"):
        asked.private_sum(pl.col("level") > 1, bounds={"a": (0, 1)})
    with pytest.raises(pf.UsageError, match="there is no group_by"):
        pf.protect(rows(*CROSSING), asked.request.scenario).private_sum("level", bounds=BOUNDS)


def test_a_label_that_no_row_has_makes_no_noise():
    """The sum of its kind is 0 everywhere: noise is that of the other groups alone."""
    frame = pl.DataFrame({"grade": ["a", "b"] * 4, "pay": [1.0] * 8})
    scenario = pf.Scenario(
        pf.Secret("pay", domain=pf.Interval(0, 100)), pf.Independent(), public=["grade"]
    )
    batch = (
        pf.protect(frame, scenario)
        .group_by("grade")
        .private_sum("pay", bounds={"A": (0, 90)}, otherwise=(0, 5))
    )
    assert batch.plan(pf.Pure(1.0)).summary()["scale"].to_list() == pytest.approx([5, 5], rel=1e-3)
