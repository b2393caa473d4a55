"""Groups of the answer have the noise that their own rows need, and every unit keeps the guarantee of all."""

import datetime as dt
import itertools
import math
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from alarms import alarms_twice
from thinned import nightly, thinned

import pufferflow as pf

TABLES = Path(os.environ.get("PUFFERFLOW_TABLES", Path(__file__).parents[3] / "shared" / "data"))


def chain_of(rng, low=0.1):
    stay = rng.uniform(low, 0.9, 2)
    return np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])


def latent(rows, transition):
    """Return the probability of each joint value of rows that share a hidden class, one of two."""
    return np.array(
        [
            0.4 * np.prod(transition[0][list(values)]) + 0.6 * np.prod(transition[1][list(values)])
            for values in rows
        ]
    )


def along_chain(rows, transition):
    """Return the probability of each path of a chain at rest."""
    start = np.array([transition[1, 0], transition[0, 1]]) / (transition[1, 0] + transition[0, 1])
    return np.array(
        [
            start[one[0]] * np.prod([transition[a, b] for a, b in itertools.pairwise(one)])
            for one in rows
        ]
    )


def true_loss(points, first, second, scales):
    """Return the largest log ratio of two laws of sums with Laplace noise: at a corner of the points, or beyond."""
    points = np.asarray(points, dtype=float)
    ends = [
        np.unique(np.append(own, [own.min() - 60 * b, own.max() + 60 * b]))
        for own, b in zip(points.T, scales, strict=True)
    ]
    corners = np.array(list(itertools.product(*ends)))
    density = np.exp(
        -(np.abs(corners[:, None, :] - points[None]) / scales).sum(axis=2) + 60 * len(scales)
    )
    return float(np.abs(np.log(density @ first) - np.log(density @ second)).max())


def loss_of_unit(cells, law, transition, scale_of):
    """Return the true loss about any row of a unit, whose row r is in cells[r] (None: not asked about)."""
    rows = list(itertools.product((0, 1), repeat=len(cells)))
    weights = law(rows, transition)
    own = sorted({cell for cell in cells if cell is not None})
    points = [
        [sum(x for x, cell in zip(row, cells, strict=True) if cell == one) for one in own]
        for row in rows
    ]
    worst = 0.0
    for place in range(len(cells)):
        given = [
            np.array(
                [w if row[place] == value else 0.0 for row, w in zip(rows, weights, strict=True)]
            )
            for value in (0, 1)
        ]
        worst = max(
            worst,
            true_loss(points, *(one / one.sum() for one in given), [scale_of[one] for one in own]),
        )
    return worst


def world(rng, *, crossing):
    """Return units of a few rows, each with its cells; some cross cells."""
    units = []
    for _ in range(int(rng.integers(3, 6))):
        town, size = int(rng.integers(0, 4)), int(rng.integers(1, 4))
        cells = [town] * size
        if crossing and rng.random() < 0.4:
            cells = [int(rng.integers(0, 4)) for _ in cells]
        cells = [None if rng.random() < 0.2 else cell for cell in cells]
        units.append(cells if any(cell is not None for cell in cells) else [town])
    return units


def batch_of(units, prior, *filters):
    rows = [
        (unit, hour, -1 if cell is None else cell)
        for unit, cells in enumerate(units)
        for hour, cell in enumerate(cells)
    ]
    frame = pl.DataFrame(rows, schema=["unit", "hour", "town"], orient="row").with_columns(
        on=pl.col("hour") % 2
    )
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), prior, order_by="hour", within="unit", public=["town"]
    )
    return (
        pf.protect(frame, scenario)
        .filter(pl.col("town") >= 0, *filters)
        .group_by("town")
        .private_sum("on")
    )


def scales_of(plan):
    table = plan.summary()
    return {
        int(group.removeprefix("town=")): scale
        for group, scale in table.select("group", "scale").iter_rows()
    }


LAWS = {"chain": along_chain, "class": latent}


def prior_of(kind, transition):
    if kind == "chain":
        return pf.MarkovChain(transition.tolist())
    return pf.LatentClass([0.4, 0.6], transition.tolist())


SEEDS = [7, pytest.param(8, marks=pytest.mark.slow), *nightly(range(9, 14))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("crossing", [False, True])
def test_every_unit_keeps_the_promise(kind, crossing, seed):
    """The true loss about every row of every unit, under the noise of its cells, is at most what was guaranteed."""
    rng, several = np.random.default_rng(seed), 0
    for _ in range(5):
        transition, units = chain_of(rng), world(rng, crossing=crossing)
        plan = batch_of(units, prior_of(kind, transition)).plan(pf.Pure(1.0))
        scales = scales_of(plan)
        several += len(set(scales.values())) > 1
        for cells in units:
            assert loss_of_unit(cells, LAWS[kind], transition, scales) <= 1.0 + 1e-9
    assert several or seed != SEEDS[0]  # in some worlds all units are tied together


@pytest.mark.parametrize("kind", LAWS)
def test_less_noise_in_any_one_cell_breaks_the_promise_of_a_unit_there(kind):
    """The noise of every cell is the least: with nine tenths of it in one cell, a unit there loses more."""
    transition = np.array([[0.8, 0.2], [0.2, 0.8]])
    units = [[0, 0, 0], [1, 1], [2], [0, 0], [3, 3], [3, 4]]
    plan = batch_of(units, prior_of(kind, transition)).plan(
        pf.Pure(1.0), bound=pf.Exact(), row_privacy=False
    )
    scales = scales_of(plan)
    assert scales[0] > scales[1] > scales[2]
    assert scales[3] == scales[4]  # joined by a unit with a row in each
    for cell in (0, 1, 2):
        less = scales | {cell: 0.9 * scales[cell]}
        assert (
            max(loss_of_unit(cells, LAWS[kind], transition, scales) for cells in units) <= 1 + 1e-9
        )
        assert (
            max(
                loss_of_unit(cells, LAWS[kind], transition, less)
                for cells in units
                if cell in cells
            )
            > 1.01
        )


def test_other_units_in_the_same_cells_change_nothing():
    """Enumerated over all rows of a small world, the loss about one row is that of its unit alone."""
    transition, units = np.array([[0.7, 0.3], [0.3, 0.7]]), [[0, 0], [0, 1], [1]]
    scales = {0: 1.3, 1: 0.8}
    every = list(itertools.product((0, 1), repeat=5))
    parts = [slice(0, 2), slice(2, 4), slice(4, 5)]
    weights = np.prod(
        [along_chain([row[part] for row in every], transition) for part in parts], axis=0
    )
    flat = [cell for cells in units for cell in cells]
    points = [
        [sum(x for x, cell in zip(row, flat, strict=True) if cell == one) for one in (0, 1)]
        for row in every
    ]
    for unit, part in enumerate(parts):
        losses = []
        for place in range(part.start, part.stop):
            given = [weights * [row[place] == value for row in every] for value in (0, 1)]
            losses.append(
                true_loss(points, *(one / one.sum() for one in given), [scales[0], scales[1]])
            )
        assert max(losses) <= loss_of_unit(units[unit], along_chain, transition, scales) + 1e-9


def families(sizes, prior=None, **public):
    """Return families of some sizes, each in a town of its own if towns are not given."""
    units = np.repeat(np.arange(len(sizes)), sizes)
    columns = {name: np.repeat(values, sizes) for name, values in public.items()} or {"town": units}
    frame = pl.DataFrame({"unit": units, **columns, "on": np.arange(len(units)) % 2})
    secret, chosen = pf.Secret("on", domain=[0, 1]), prior or pf.AnyCorrelation()
    return pf.protect(frame, pf.Scenario(secret, chosen, within="unit", public=[*columns]))


@pytest.mark.parametrize(
    ("promise", "noise"),
    [
        (pf.Pure(0.5), pf.Laplace),
        (pf.Pure(0.5), pf.GeneralizedCauchy.of(k=4)),
        (pf.Approx(1.0, 1e-6), pf.Gaussian),
        (pf.Renyi(4, 1.0), pf.Gaussian),
        (pf.RenyiCurve([2, 8], [0.5, 1.5]), pf.Laplace),
    ],
)
def test_families_have_noise_by_their_size(promise, noise):
    """Whatever the guarantee and the noise, a family of n rows needs n times what one row needs, and no more."""
    plan = families([1, 2, 3, 3]).group_by("town").private_sum("on").plan(promise, noise=noise)
    scales = plan.summary()["scale"].to_list()
    assert scales == pytest.approx(
        [scales[0], 2 * scales[0], 3 * scales[0], 3 * scales[0]], rel=1e-6
    )
    assert plan.noises["on_sum"].scale == max(scales)


def test_staircase_noise_is_the_same_for_all():
    """A noise whose losses may rise where it grows stays one for all groups."""
    plan = (
        families([1, 2]).group_by("town").private_sum("on").plan(pf.Pure(1.0), noise=pf.Staircase)
    )
    assert plan.summary()["scale"].n_unique() == 1


def test_one_row_keeps_its_floor_in_every_group():
    """Where a prior asks for less than one row alone, no group has less than one row needs."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.9, 0.1]])
    frame = pl.DataFrame({"unit": [1, 2, 2], "hour": [0, 0, 1], "town": [1, 2, 2], "on": [0, 1, 0]})
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), chain, order_by="hour", within="unit", public=["town"]
    )
    plan = pf.protect(frame, scenario).group_by("town").private_sum("on").plan(pf.Pure(1.0))
    assert plan.summary()["scale"].min() >= 1.0
    assert plan.ordinary.epsilon <= 1.0


def test_groups_that_need_the_same_have_the_same_plan():
    """Where no group needs less than another, or none may have less, nothing changes, not even the plan's name."""
    same = families([2, 2, 2]).group_by("town").private_sum("on")
    plans = [same.plan(pf.Pure(1.0), per_group=flag) for flag in (True, False)]
    assert len({plan.name for plan in plans}) == 1
    assert plans[0].certificate == plans[1].certificate
    other = families([1, 2]).group_by("town").private_sum("on")
    several, one = (other.plan(pf.Pure(1.0), per_group=flag) for flag in (True, False))
    assert one.summary()["scale"].n_unique() == 1
    assert several.name != one.name
    with pytest.raises(pf.UsageError, match="per_group"):
        other.plan(pf.Pure(1.0), per_group="yes")


def test_answers_have_their_own_noise_and_bars_that_cover():
    """Drawn noise is as wide as each group's scale says, with nine tenths it is not, and bars hold 95 of 100 times."""
    count = 3000
    plan = families([1, 3] * count).group_by("town").private_sum("on").plan(pf.Pure(1.0))
    exact = np.add.reduceat(np.arange(4 * count) % 2, np.cumsum([0, *([1, 3] * count)])[:-1])

    def look(_turn):
        release = plan.release()
        errors = np.abs(release.frame["on_sum"].to_numpy() - exact).reshape(count, 2).mean(axis=0)
        low, high = (release.intervals[f"on_sum_{end}"].to_numpy() for end in ("low", "high"))
        inside = ((low <= exact) & (exact <= high)).reshape(count, 2).mean(axis=0)
        assert np.unique(np.round(high - low, 6)).size == 2
        return errors != pytest.approx([1.0, 3.0], rel=0.08) or inside != pytest.approx(
            [0.95, 0.95], abs=0.02
        )

    assert not alarms_twice(look)


@pytest.mark.slow
def test_several_releases_count_each_group_by_its_own_noise():
    """Along one coupling a release costs what it guarantees, and all together no less than any unit really loses."""
    rng, near = np.random.default_rng(3), 0
    for _ in range(5):
        sizes = rng.integers(1, 5, 6)
        protected = families(sizes, town=rng.integers(0, 3, 6), street=rng.integers(0, 3, 6))
        plans = [
            protected.group_by(by).private_sum("on").plan(pf.Pure(1.0))
            for by in ("town", "street", ["town", "street"])
        ]
        total = pf.compose(plans, protected.request.scenario).total
        assert total <= 3.0 + 1e-9
        true = 0.0
        for unit, size in enumerate(sizes):
            row = protected.request.engine.table.collect().filter(unit=unit).row(0, named=True)
            losses = []
            for plan, by in zip(plans, (["town"], ["street"], ["town", "street"]), strict=True):
                group = ", ".join(f"{name}={row[name]}" for name in by)
                losses.append(size / plan.summary().filter(group=group)["scale"].item())
            true = max(true, sum(losses))
        assert true <= total * (1 + 1e-9)
        near += true > 0.95 * total  # with nine tenths of what movements count, this would fail
    assert near


def test_several_releases_along_a_chain_are_never_below_the_truth():
    """What two releases reveal about a unit, enumerated, is at most their total, whatever noise its groups have."""
    transition = np.array([[0.8, 0.2], [0.3, 0.7]])
    units = [[0, 0, 0], [1, 1], [2]]
    batch = batch_of(units, pf.MarkovChain(transition.tolist()))
    early = batch_of(units, pf.MarkovChain(transition.tolist()), pl.col("hour") < 1)
    plans = [batch.plan(pf.Pure(0.7)), early.plan(pf.Pure(0.7))]
    scales = [scales_of(plan) for plan in plans]
    total = pf.compose(plans, batch.request.scenario).total
    for cells in units:
        rows = list(itertools.product((0, 1), repeat=len(cells)))
        weights = along_chain(rows, transition)
        points = [[sum(row), row[0]] for row in rows]
        for place in range(len(cells)):
            given = [weights * [row[place] == value for row in rows] for value in (0, 1)]
            own = [scale[cells[0]] for scale in scales]
            assert true_loss(points, *(one / one.sum() for one in given), own) <= total + 1e-9


def days_of(rng, units):
    """Return for each of two days of three hours the hours of which each unit has a row, some at least."""
    return [
        [
            sorted(rng.choice(3, int(rng.integers(1, 4)), replace=False) + 3 * day)
            for _ in range(units)
        ]
        for day in (0, 1)
    ]


def daily(hours, chain):
    rows = [(unit, int(hour)) for unit, own in enumerate(hours) for hour in own]
    frame = pl.DataFrame(rows, schema=["unit", "hour"], orient="row").with_columns(
        on=pl.col("hour") % 2
    )
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), chain, order_by="hour", within="unit")
    return pf.protect(frame, scenario).group_by("unit").private_sum("on").plan(
        pf.Pure(0.8)
    ), scenario


@pytest.mark.parametrize("seed", thinned(range(4), 0.2))
def test_days_along_a_chain_count_each_unit_by_its_own_noise(seed):
    """Days of units with gaps tell no more together than their total, and not much less."""
    rng = np.random.default_rng(seed)
    transition, days = (
        chain_of(rng, 0.6),
        days_of(rng, 4),
    )  # messages are loose where neighbours differ
    (first, scenario), (second, _) = (
        daily(hours, pf.MarkovChain(transition.tolist())) for hours in days
    )
    total = pf.compose([first, second], scenario).total
    assert (
        total < pf.compose([without_parts(plan.cost) for plan in (first, second)], scenario).total
    )
    rows = list(itertools.product((0, 1), repeat=6))
    weights, true = along_chain(rows, transition), 0.0
    for units in itertools.product(
        range(4), repeat=2
    ):  # a unit may be as one on one day, as another on the next
        points = [
            [
                sum(row[hour] for hour in hours[unit])
                for unit, hours in zip(units, days, strict=True)
            ]
            for row in rows
        ]
        scales = [
            plan.summary()["scale"][unit] for unit, plan in zip(units, (first, second), strict=True)
        ]
        for place in range(6):
            given = [
                np.array([w * (row[place] == value) for row, w in zip(rows, weights, strict=True)])
                for value in (0, 1)
            ]
            true = max(true, true_loss(points, *(one / one.sum() for one in given), scales))
    assert true <= total * (1 + 1e-9)
    assert total <= 1.1 * true


def without_parts(cost):
    import msgspec

    rows = msgspec.structs.replace(cost.shape.rows, parts=())
    return msgspec.structs.replace(cost, shape=msgspec.structs.replace(cost.shape, rows=rows))


def test_windows_that_overlap_count_each_unit_by_its_own_noise():
    """A unit may be in any way in each of them, so all pairs of ways count; the least noise for all counts more."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    plan, scenario = daily([[0, 1, 2], [0]], chain)
    assert plan.cost.shape.rows.parts
    once, twice = (pf.compose([plan] * times, scenario).total for times in (1, 2))
    least = pf.compose([without_parts(plan.cost)] * 2, scenario).total
    assert once < twice < 0.9 * least
    assert twice <= 2 * once * (1 + 1e-6)


def test_a_source_whose_groups_moved_is_refused():
    """Equal patterns, keys and numbers of rows are not enough: which sizes are in which group must be as planned."""
    frame = pl.DataFrame({"unit": [1, 2, 2], "town": ["a", "b", "b"], "on": [0, 1, 1]})
    swapped = frame.with_columns(town=pl.Series(["b", "a", "a"]))
    held = {"rows": frame}
    lazy = pl.LazyFrame(schema=frame.schema).map_batches(
        lambda _: held["rows"], schema=frame.schema
    )
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), within="unit", public=["town"]
    )
    plan = pf.protect(lazy, scenario).group_by("town").private_sum("on").plan(pf.Pure(1.0))
    assert plan.summary()["scale"].n_unique() == 2
    assert plan.release().frame.height == 2
    held["rows"] = swapped
    with pytest.raises(pf.SourceError):
        plan.release()


def test_declared_groups_without_rows_have_no_more_noise_than_others():
    """A declared group of no row has the least noise of those with rows."""
    batch = families([1, 2]).group_by("town", keys=[0, 1, 2]).private_sum("on")
    assert batch.plan(pf.Pure(1.0)).summary()["scale"].to_list() == pytest.approx(
        [1.0, 2.0, 1.0], rel=1e-6
    )


@pytest.mark.slow
def test_an_account_charges_the_promise_and_finishes_what_was_reserved(tmp_path):
    """A release with noise by group costs its guarantee, also as another machine reserved it with other digits."""
    protected = families([1, 2, 3])
    plan = protected.group_by("town").private_sum("on").plan(pf.Pure(0.5))
    account = pf.Ledger(tmp_path / "ledger.db").open(
        "towns", protected.request.scenario, limit=pf.Pure(1.01), dataset="d"
    )
    assert account.remaining(plan) == 2
    plan.release(account, id="one")
    assert account.spent().epsilon == pytest.approx(0.5)
    cost = plan.cost
    noise = cost.shape.stored_noise
    near = replaced(cost, noise | {"scale": noise["scale"] * (1 + 1e-13)})
    other = plan.with_cost(near).mechanism.noise
    assert [one.noise.scale for one in other.by_noise] == pytest.approx([3 * 2, 2 * 2, 2], rel=1e-5)
    with pytest.raises(pf.UsageError, match="reserved"):
        plan.with_cost(replaced(cost, noise | {"scale": noise["scale"] * 0.9}))


@pytest.mark.slow
def test_a_limit_that_is_reached_names_the_plan_with_one_noise(tmp_path):
    """Where groups have noise of their own, the refusal of an account says what may cost less."""
    protected = families([1, 2])
    account = pf.Ledger(tmp_path / "ledger.db").open(
        "a", protected.request.scenario, limit=pf.Pure(0.1), dataset="d"
    )
    batch = protected.group_by("town").private_sum("on")
    for per_group, told in ((True, True), (False, False)):
        with pytest.raises(pf.LimitReached) as refusal:
            batch.plan(pf.Pure(0.5), per_group=per_group).release(account)
        assert ("per_group=False" in str(refusal.value)) == told


def replaced(cost, noise):
    import msgspec

    return msgspec.structs.replace(
        cost, shape=msgspec.structs.replace(cost.shape, stored_noise=noise)
    )


def test_a_wrong_prior_is_judged_by_the_least_noise():
    """What is left of a plan if answers' laws move is what is left where there is least noise."""
    plan = families([1, 4]).group_by("town").private_sum("on").plan(pf.Pure(1.0))
    assert pf.robustness(plan, 0.5).epsilon == pytest.approx(2.0, rel=1e-3)


@pytest.mark.slow
def test_the_certificate_and_the_words_say_so():
    """Certificate, summary, explanation, comparison and page speak of the noise of each group."""
    plan = families([1, 4]).group_by("town").private_mean("on").plan(pf.Pure(1.0))
    certificate = type(plan.certificate).from_json(plan.certificate.to_json())
    assert certificate == plan.certificate
    (quiet,) = certificate.quieter
    assert (quiet.groups, quiet.share) == (1, pytest.approx(0.25, rel=1e-6))
    assert "0.25 of that in 1 group" in str(certificate)
    assert "scale 1 to 4" in plan.explain()
    assert any("groups whose rows need less have less" in note for note in plan.compare()["note"])
    assert sorted(round(cell.scale) for cell in plan.evidence().cells) == [1, 4]


def test_units_under_several_priors_take_the_worst():
    """With several priors a group has the noise that the worst of them needs there."""
    priors = [pf.Independent(), pf.AnyCorrelation()]
    plan = families([1, 3], priors).group_by("town").private_sum("on").plan(pf.Pure(1.0))
    assert plan.summary()["scale"].to_list() == pytest.approx([1.0, 3.0], rel=1e-6)


@pytest.mark.slow
def test_very_many_sizes_have_few_noises():
    """With more sizes of units than patterns are told apart, noise is by sizes rounded up, and small units gain."""
    sizes = list(range(1, 201))
    plan = families(sizes).group_by("town").private_sum("on").plan(pf.Pure(1.0))
    scales = plan.summary()["scale"].to_numpy()
    assert (scales >= np.array(sizes) * (1 - 1e-9)).all()
    assert (scales <= np.array(sizes) * 1.15 + 1).all()
    assert len(np.unique(scales)) <= 64


def test_every_query_has_bars_of_its_own_noise():
    """Sums, means, counts, histograms, quantiles and variances cover what they say in groups of either noise."""
    count = 120
    sizes = [1, 4] * count
    level = np.arange(5 * count) % 4
    frame = pl.DataFrame({"unit": np.repeat(np.arange(2 * count), sizes), "level": level})
    frame = frame.with_columns(town=pl.col("unit") % 60)
    scenario = pf.Scenario(
        pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation(), within="unit", public=["town"]
    )
    batch = (
        pf.protect(frame, scenario)
        .group_by("town")
        .private_sum("level")
        .private_mean("level", name="mean")
    )
    batch = (
        batch.private_histogram("level").private_quantile("level", 0.5).private_variance("level")
    )
    plan = batch.plan(pf.Pure(20.0))
    release, (alike, other) = plan.release(), plan.mechanism.noise.by_noise
    assert len(alike.places) == len(other.places) == 30
    exact = frame.group_by("town").agg(
        level_sum=pl.col("level").sum(),
        mean=pl.col("level").mean(),
        level_variance=pl.col("level").var(ddof=0),
    )
    joined = (
        release.frame.join(release.intervals, on="town")
        .join(exact, on="town", suffix="_exact")
        .sort("town")
    )
    for name in ("level_sum", "mean", "level_variance"):
        true, low, high = (joined[f"{name}_{what}"].to_numpy() for what in ("exact", "low", "high"))
        inside = (low - 1e-9 <= true) & (true <= high + 1e-9)
        for some in (alike, other):
            assert inside[some.places].mean() > 0.7
    wide = joined["level_sum_high"].to_numpy() - joined["level_sum_low"].to_numpy()
    assert wide[alike.places].mean() == pytest.approx(4 * wide[other.places].mean(), rel=1e-3)


@pytest.mark.parametrize("kind", thinned([pf.Pure, pf.Approx.of(delta=1e-6)], 0.5))
def test_an_accuracy_is_kept_by_the_strongest_promise_of_all_groups(kind):
    """Each group's mean stays within the error; few rows need not have the noise of large families."""
    sizes = [2, *([15] * 10)]
    batch = families(sizes, town=[0, *([1] * 10)]).group_by("town").private_mean("on")
    plans = [batch.plan(kind, accuracy=pf.Within(2.0), per_group=flag) for flag in (True, False)]
    assert plans[0].guarantee.epsilon < plans[1].guarantee.epsilon / 5
    assert (plans[0].summary()["interval_95"] <= 2.0 + 1e-9).all()
    assert plans[0].summary()["interval_95"].max() > 1.9
    again = batch.plan(plans[0].guarantee, noise=type(plans[0].noises["on_mean"]))
    for found, true in zip(plans[0].summary()["scale"], again.summary()["scale"], strict=True):
        assert found == pytest.approx(true, rel=1e-6)


KEYS = {
    "floats": [math.nan, 1.0, None, -2.5],
    "texts": ["a", "b", None, "z"],
    "days": [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None, dt.date(2026, 1, 4)],
    "categories": pl.Series(["a", "b", None, "z"], dtype=pl.Categorical),
    "enums": pl.Series(["a", "b", None, "z"], dtype=pl.Enum(["z", "b", "a"])),
    "decimals": pl.Series(["1.5", "2.5", None, "4.5"]).cast(pl.Decimal(10, 2)),
}


@pytest.mark.parametrize("declared", thinned([False, True], 0.5))
@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type_have_their_noise(kind, declared):
    """Groups are found by keys of every type, null and NaN too, whether or not keys are declared."""
    keys = pl.Series("key", KEYS[kind])
    frame = pl.DataFrame({"unit": [0, 1, 1, 2, 2, 2, 3], "on": [0, 1] * 3 + [1]})
    frame = frame.with_columns(key=keys.gather(frame["unit"]))
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), within="unit", public=["key"]
    )
    options = {"keys": keys.to_list()} if declared else {}
    plan = (
        pf.protect(frame, scenario).group_by("key", **options).private_sum("on").plan(pf.Pure(1.0))
    )
    sizes = frame.group_by("key").len().with_columns(pl.col("key").cast(pl.String))
    release = plan.release().frame.with_columns(pl.col("key").cast(pl.String))
    lengths = [dict(sizes.iter_rows())[key] for key in release["key"]]
    assert plan.summary()["scale"].to_list() == pytest.approx(lengths, rel=1e-6)


def test_keys_with_parts_have_one_noise():
    """Keys that are lists cannot be told apart quickly: all groups have the noise of the worst."""
    frame = pl.DataFrame({"unit": [0, 1, 1], "on": [0, 1, 0], "key": [["a"], ["b"], ["b"]]})
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), pf.AnyCorrelation(), within="unit", public=["key"]
    )
    plan = pf.protect(frame, scenario).group_by("key").private_sum("on").plan(pf.Pure(1.0))
    assert plan.summary()["scale"].to_list() == pytest.approx([2.0, 2.0], rel=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(
    not (TABLES / "galton_families.parquet").exists(), reason="the real tables are not here"
)
def test_galton_by_family_size():
    """Mean heights by the size of families: one noise for all would be 165, families of two need 35."""
    frame = pl.read_parquet(TABLES / "galton_families.parquet")
    secret = pf.Secret("child_height_in", domain=pf.Interval(55, 80))
    prior = pf.GaussianPrior(covariance=pf.Exchangeable(0.4), variance=12.0, mean=67.0)
    scenario = pf.Scenario(secret, prior, within="family_id", public=["n_children"])
    batch = pf.protect(frame, scenario).group_by("n_children").private_mean("child_height_in")
    plans = [batch.plan(pf.Pure(1.0), per_group=flag) for flag in (True, False)]
    table = plans[0].summary()
    sizes = table["group"].str.strip_prefix("n_children=").cast(pl.Int64).to_numpy()
    assert table["scale"].to_numpy() == pytest.approx(25.0 * (1 + 0.4 * (sizes - 1)), rel=1e-3)
    assert plans[1].summary()["scale"].to_list() == pytest.approx([165.0] * 12, rel=1e-3)
    own, one = (pf.compose([plan, plan], scenario).total for plan in plans)
    assert own == pytest.approx(one, rel=1e-6)
