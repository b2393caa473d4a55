"""Public weights: no more is lost than was guaranteed, by all data sets of small worlds; answers are exact sums."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core.errors import PufferflowError, Refused, UsageError
from pufferflow.engines.weighted_rows import WeightedRows, grids_of, weighted_tally

LEVELS = [0, 1, 3]
LEVEL = pf.Secret("level", domain=LEVELS)
PUBLIC = ["day", "price", "rate", "name", "house"]
ANY, INDEPENDENT = pf.AnyCorrelation(), pf.Independent()
level, price, rate = pl.col("level"), pl.col("price"), pl.col("rate")
COST = (level * price).alias("cost")


def rows(prices, rates=None, days=None, houses=None, levels=None):
    count = len(prices)
    return pl.DataFrame(
        {
            "day": days or [1] * count,
            "price": pl.Series(prices, dtype=pl.Float64),
            "rate": pl.Series(rates or [1.0] * count, dtype=pl.Float64),
            "name": ["a"] * count,
            "house": houses or [1] * count,
            "level": levels or [LEVELS[place % 3] for place in range(count)],
        }
    )


def batch(frame, prior=INDEPENDENT, secret=LEVEL):
    return pf.protect(frame, pf.Scenario(secret, prior, within="house", public=PUBLIC))


def scales(plan):
    return {name: noise.scale for name, noise in plan.noises.items()}


def random_weights(rng, count):
    """Return weights of many kinds, as they are read: to 30 binary digits of the largest."""
    weights = np.array(drawn_weights(rng, count))
    unit = 2.0 ** (math.frexp(np.abs(weights).max())[1] - 30)
    return (np.rint(weights / unit) * unit).tolist()


def drawn_weights(rng, count):
    kind = rng.integers(4)
    if kind == 0:
        return rng.integers(-3, 4, count).astype(float).tolist()
    if kind == 1:
        return (10.0 ** rng.uniform(-6, 6, count)).tolist()
    return (rng.normal(size=count) * rng.choice([1.0, 0.0, 0.1], count)).tolist()


# What is guaranteed


@pytest.mark.parametrize("seed", thinned(range(12), 0.5))
def test_independent_rows_lose_no_more_than_is_promised(seed):
    """The row that moves all noisy sums farthest loses what is guaranteed, and more with a tenth less noise."""
    rng = np.random.default_rng(seed)
    prices = random_weights(rng, 9)
    plan = batch(rows(prices)).private_sum(COST).plan(pf.Pure(1.0))
    scale = scales(plan)["cost"]
    true = max(abs(one) for one in prices) * 3 / scale
    if any(prices):
        assert 0.99 <= true <= 1.0
        assert true / 0.9 > 1.05


@pytest.mark.parametrize("seed", thinned(range(9), 0.34))
def test_sums_of_several_weights_and_of_none_are_paid_for_together(seed):
    """One row moves all sums of a batch, each by its own weight: the worst row loses no more than is guaranteed."""
    rng = np.random.default_rng(seed)
    prices, rates = random_weights(rng, 7), (2.0 ** rng.integers(-2, 3, 7)).tolist()
    asked = batch(rows(prices, rates, days=[1, 1, 2, 2, 2, 3, 3])).group_by("day").private_sum(COST)
    plan = asked.private_sum("level").private_sum((level / rate).alias("part")).plan(pf.Pure(1.0))
    scale = scales(plan)
    losses = [
        abs(a - b)
        * (abs(own) / scale["cost"] + 1 / scale["level_sum"] + 1 / divisor / scale["part"])
        for (own, divisor), (a, b) in itertools.product(
            zip(prices, rates, strict=True), itertools.permutations(LEVELS, 2)
        )
        if scale["cost"] or not own
    ]
    assert max(losses) <= 1.0


def group_loss(weights, cells, scale):
    """Return the largest loss between any two data sets of a group, listed one by one."""
    worlds = np.array(list(itertools.product(LEVELS, repeat=len(weights))), dtype=float) * np.array(
        weights
    )
    sums = np.stack(
        [worlds[:, np.array(cells) == cell].sum(axis=1) for cell in sorted(set(cells))], axis=1
    )
    return float(np.abs(sums[:, None] - sums[None]).sum(axis=2).max()) / scale


@pytest.mark.parametrize("seed", thinned(range(12), 0.5))
def test_groups_whose_rows_depend_in_any_way_lose_no_more_than_is_promised(seed):
    """Between any two data sets of the worst group the loss is what is guaranteed, and more with a tenth less noise."""
    rng = np.random.default_rng(seed)
    prices = random_weights(rng, 8)
    houses, days = [1, 1, 1, 1, 2, 2, 2, 3], rng.integers(1, 3, 8).tolist()
    plan = (
        batch(rows(prices, days=days, houses=houses), ANY)
        .group_by("day")
        .private_sum(COST)
        .plan(pf.Pure(1.0))
    )
    scale = scales(plan)["cost"]
    groups = [[place for place in range(8) if houses[place] == house] for house in (1, 2, 3)]
    true = max(
        group_loss([prices[row] for row in own], [days[row] for row in own], scale)
        for own in groups
    )
    assert true <= 1.0
    if any(prices):
        assert true > 0.99
        assert true / 0.9 > 1.05


@pytest.mark.parametrize("seed", range(4))
def test_gaussian_noise_hides_the_row_of_the_largest_weight(seed):
    """The exact hockey stick of the longest shift stays below delta, and passes it with a tenth less noise."""
    prices = random_weights(np.random.default_rng(seed + 10), 6)
    plan = batch(rows(prices)).private_sum(COST).plan(pf.Approx(1.0, 1e-5), noise=pf.Gaussian)
    shift = max(map(abs, prices)) * 3

    def delta(scale):
        u, half = shift / scale, math.sqrt(0.5)
        below, above = math.erfc((1 / u - u / 2) * half) / 2, math.erfc((1 / u + u / 2) * half) / 2
        return below - math.e * above

    scale = scales(plan)["cost"]
    if any(prices):
        assert delta(scale) <= 1e-5 < delta(0.9 * scale)


@pytest.mark.parametrize("prior", thinned([INDEPENDENT, ANY], 0.5), ids=["independent", "any"])
@pytest.mark.parametrize("weight", thinned([2.5, 1.0, -3.0, 0.1], 0.5))
@pytest.mark.parametrize(
    ("noise", "promise"),
    [
        (pf.Laplace, pf.Pure(1.0)),
        (pf.GeneralizedCauchy.of(k=4), pf.Pure(1.0)),
        (pf.Gaussian, pf.Approx(1.0, 1e-5)),
    ],
    ids=["laplace", "cauchy", "gaussian"],
)
def test_one_weight_needs_the_noise_of_the_domain(prior, weight, noise, promise):
    """Where all weights are equal, the noise is that of the same question with the weight in the domain."""
    frame = rows([weight] * 6, houses=[1, 1, 2, 2, 2, 3])
    own = batch(frame, prior).private_sum(COST).plan(promise, noise=noise)
    inside = (
        batch(frame, prior).private_sum((level * weight).alias("cost")).plan(promise, noise=noise)
    )
    assert scales(own)["cost"] == pytest.approx(scales(inside)["cost"], rel=2e-3)
    assert scales(own)["cost"] >= scales(inside)["cost"] * (1 - 1e-9)


def test_few_heavy_rows_cost_less_than_many_of_them():
    """A group of one heavy row and light ones needs about the noise of the heavy one."""
    frame = rows([10.0, 0.5, 0.5, 1.0], houses=[1, 1, 1, 1])
    assert scales(batch(frame, ANY).private_sum(COST).plan(pf.Pure(1.0)))["cost"] == pytest.approx(
        36.0, rel=1e-3
    )


@pytest.mark.parametrize("prior", [INDEPENDENT, ANY], ids=["independent", "any"])
def test_a_column_may_fill_an_interval(prior):
    """On an interval a row moves by its weight times the width of the interval."""
    frame = rows([0.3, -2.0, 1.7], houses=[1, 1, 2]).with_columns(level=pl.Series([0.1, 0.7, 3.9]))
    asked = batch(frame, prior, pf.Secret("level", domain=pf.Interval(0, 4)))
    most = 2.0 if prior is INDEPENDENT else 2.3
    assert (
        most * 4 <= scales(asked.private_sum(COST).plan(pf.Pure(1.0)))["cost"] <= most * 4 * 1.003
    )
    bent = asked.private_sum((level.clip(1, 2) * price).alias("cost")).plan(pf.Pure(1.0))
    assert most <= scales(bent)["cost"] <= most * 1.003
    assert asked.private_sum(COST).release(epsilon=1e6).frame["cost"].item() == pytest.approx(
        0.03 - 1.4 + 6.63, abs=1e-3
    )


def test_functions_of_several_secret_columns_have_weights():
    """A function of several secret columns is multiplied as one of a single column is."""
    frame = rows([1.5, -2.0, 0.5], levels=[3, 1, 1]).with_columns(hours=pl.Series([1, 2, 1]))
    both = batch(frame, INDEPENDENT, [LEVEL, pf.Secret("hours", domain=[1, 2])])
    asked = both.private_sum((level * pl.col("hours") * price).alias("cost"))
    assert scales(asked.plan(pf.Pure(1.0)))["cost"] == pytest.approx(2.0 * 6, rel=1e-3)
    assert asked.release(epsilon=1e7).frame["cost"].item() == pytest.approx(4.5 - 4 + 0.5, abs=1e-3)


@pytest.mark.parametrize(
    "noise", thinned([pf.Laplace, pf.GeneralizedCauchy.of(k=4)], 0.5), ids=["laplace", "cauchy"]
)
def test_accounts_count_no_less_than_releases_of_different_weights_tell(noise, tmp_path):
    """What an account has spent is at least what the worst row, or group, loses to all its releases."""
    rng = np.random.default_rng(3)
    prices, rates, houses = (
        random_weights(rng, 6),
        rng.uniform(0.5, 2, 6).tolist(),
        [1, 1, 1, 2, 2, 3],
    )
    for prior in (INDEPENDENT, ANY):
        asked = batch(rows(prices, rates, houses=houses), prior)
        asks = [asked.private_sum((level * one).alias("cost")) for one in (price, rate)]
        plans = [ask.plan(pf.Pure(0.5), noise=noise) for ask in asks]
        ledger = pf.Ledger(tmp_path / f"{type(prior).__name__}.db")
        account = ledger.open("cost", asked.request.scenario, limit=pf.Pure(3.0))
        for place, plan in enumerate(plans):
            plan.release(account, id=str(place))
        whole = np.arange(6) if prior is INDEPENDENT else np.array(houses)
        moves = [np.bincount(whole, 3 * np.abs(own)) for own in (prices, rates)]
        lost = [plan.noises["cost"].pure(own) for plan, own in zip(plans, moves, strict=True)]
        worst = np.sum(lost, axis=0).max()
        assert worst <= account.spent().epsilon <= 1.0 + 1e-9


# What is answered


@pytest.mark.parametrize("seed", thinned([*range(6)], 0.5))
def test_sums_are_exact_in_every_order(seed):
    """Sums of products are those of whole numbers, by cell, with and without keys, whatever the order of the rows."""
    rng = np.random.default_rng(seed)
    days = rng.choice([1, 2, 5], 200).tolist()
    frame = rows(random_weights(rng, 200), days=days, levels=rng.choice(LEVELS, 200).tolist())
    asked = batch(frame).group_by("day").private_sum(COST).private_sum("level").request
    grids = grids_of(
        WeightedRows.of(asked.engine, asked.selection, [asked.measures[0].values.weight])
    )
    ((_, grid),) = grids.items()
    steps = grid.steps(frame["price"].to_numpy())
    assert (
        np.abs(steps * float(grid.unit) - frame["price"].to_numpy()).max()
        <= grid.largest * float(grid.unit) / 2**29
    )
    tally = weighted_tally(asked.engine, asked.selection, asked.measures, grids)
    for place, day in enumerate(tally.keys["day"].to_list()):
        own = [row for row in range(200) if days[row] == day]
        levels = frame["level"].to_list()
        expected = [
            sum(int(steps[row]) * levels[row] for row in own),
            sum(levels[row] for row in own),
        ]
        assert tally.rows[place] == len(own)
        unit = asked.measures[1].values.unit
        assert [int(one) for one in tally.sums[place]] == [expected[0], int(expected[1] / unit)]
    mixed = (
        batch(frame.sample(fraction=1, shuffle=True, seed=seed)).group_by("day").private_sum(COST)
    )
    again = mixed.private_sum("level").request
    other = weighted_tally(again.engine, again.selection, again.measures, grids)
    assert other.sums.tolist() == tally.sums.tolist()
    listed = (
        batch(frame).group_by("day", keys=[5, 7, 1]).private_sum(COST).private_sum("level").request
    )
    chosen = weighted_tally(listed.engine, listed.selection, listed.measures, grids)
    by_day = dict(zip(tally.keys["day"].to_list(), tally.sums.tolist(), strict=True))
    assert chosen.sums.tolist() == [by_day[5], [0, 0], by_day[1]]


@pytest.mark.slow
def test_products_quotients_and_names_are_read():
    """Products in any order, divisors, constants and names stand in an expression as in Polars."""
    frame = rows([0.5, 3.0, -2.0], [2.0, 4.0, 8.0], levels=[3, 1, 0])
    loud = {
        "(2·x·p/r)": ((2 * level * price / rate).alias("it"), 2 * 3 * 0.5 / 2 + 2 * 3 / 4),
        "p·(x+1)": ((price * (level + 1)).alias("it"), 0.5 * 4 + 3 * 2 - 2),
        "1/r": ((level / rate).alias("it"), 3 / 2 + 1 / 4),
        "predicates": (((level >= 1) * price).alias("it"), 3.5),
        "public predicates": ((level * (price > 0)).alias("it"), 4),
        "x·p·p": ((level * price * price).alias("it"), 3 * 0.25 + 9),
    }
    for expression, expected in loud.values():
        found = batch(frame).private_sum(expression).release(epsilon=1e7).frame["it"].item()
        assert found == pytest.approx(expected, abs=1e-3)
    assert batch(frame).private_sum(level * price).request.outputs == ("level_sum",)
    assert batch(frame).private_sum(level * price, name="it").request.outputs == ("it",)


def test_weighted_means_are_divided_by_the_weights():
    """A weighted mean is Σ w φ / Σ w, its bars and limits are within the domain, and empty groups are noise."""
    frame = rows([1.0, 3.0, 2.0, 0.0], days=[1, 1, 2, 2], levels=[3, 1, 3, 0])
    asked = batch(frame).group_by("day", keys=[1, 2, 9]).private_mean("level", weights="price")
    released = asked.release(epsilon=1e6)
    assert released.frame["level_mean"].to_list()[:2] == pytest.approx([1.5, 3.0], abs=1e-3)
    assert released.intervals.row(2)[1:] == (0.0, 3.0)
    assert released.clipped().frame["level_mean"].to_list()[2] is None
    assert any("no rows" in note for note in released.certificate.notes)
    plan = asked.plan(pf.Pure(1.0))
    assert plan.summary()["scale"].to_list() == pytest.approx([9.0] * 3)
    assert plan.summary()["expected_error"].to_list()[:2] == pytest.approx([9 / 4, 9 / 2], rel=1e-6)


@pytest.mark.slow
def test_plans_are_told_and_stored(tmp_path):
    """What is revealed about a plan names the product, whatever is asked of it, and its certificate is read back."""
    for prior in (INDEPENDENT, ANY):
        asked = (
            batch(rows([0.5, 3.0, -2.0, 0.0], days=[1, 1, 2, 2]), prior)
            .group_by("day")
            .private_sum(COST)
        )
        plan = asked.plan(pf.Pure(1.0))
        assert "level * price" in plan.explain()
        assert plan.compare().height > 3
        assert plan.queries()
        release = plan.release()
        assert release.certificate.sums[0].sum == "level * price"
        assert (
            type(release.certificate).from_json(release.certificate.to_json())
            == release.certificate
        )
        plan.report(tmp_path / "plan.html")
        weaker = asked.plan(accuracy=pf.Within(5.0))
        assert scales(weaker)["cost"] * 3 == pytest.approx(5.0, rel=0.02)


def test_requests_of_other_weights_are_other_requests():
    """Digests of requests, which ledgers keep, tell weights apart, and are as before without them."""
    frame = rows([0.5, 3.0])
    digests = {
        batch(frame).private_sum(one, name="it").request.digest
        for one in (level, level * price, level * rate, level * price * 2, level * price * price)
    }
    assert len(digests) == 5
    assert "weight" not in repr(batch(frame).private_sum("level").request.measures)


def test_survey_weights_of_real_rows(tables):
    """Hours by education, weighted to the population: the bars cover the truth, and errors are a small part of it."""
    adult = pl.read_parquet(tables / "adult_train.parquet").rename(
        lambda name: name.replace("-", "_")
    )
    secret = pf.Secret("hours_per_week", domain=list(range(100)))
    scenario = pf.Scenario(secret, INDEPENDENT, public=["education", "fnlwgt"])
    asked = (
        pf.protect(adult, scenario)
        .group_by("education")
        .private_mean("hours_per_week", weights="fnlwgt")
    )
    release = asked.release(epsilon=10.0)
    hours, weight = pl.col("hours_per_week").cast(pl.Int64), pl.col("fnlwgt").cast(pl.Int64)
    truth = (
        adult.group_by("education").agg(it=(hours * weight).sum() / weight.sum()).sort("education")
    )
    assert release.frame["education"].to_list() == truth["education"].to_list()
    low, high = (
        release.intervals["hours_per_week_mean_low"],
        release.intervals["hours_per_week_mean_high"],
    )
    assert ((low <= truth["it"]) & (truth["it"] <= high)).sum() >= 10
    assert (release.frame["hours_per_week_mean"] - truth["it"]).abs().median() < 1.0


# What is refused


@pytest.mark.parametrize("bad", thinned([None, math.nan, math.inf, -math.inf], 0.5))
def test_weights_that_are_no_numbers_are_refused_by_name(bad):
    """Null, NaN and infinite weights of selected rows are refused when planning; those of other rows do not matter."""
    frame = rows([1.0, bad, 2.0], days=[1, 2, 1])
    for prior in (INDEPENDENT, ANY):
        with pytest.raises(UsageError, match="price is null, NaN or infinite"):
            batch(frame, prior).private_sum(COST).plan(pf.Pure(1.0))
        for chosen in (
            batch(frame, prior).filter(day=1),
            batch(frame, prior).group_by("day", keys=[1]),
        ):
            assert scales(chosen.private_sum(COST).plan(pf.Pure(1.0)))["cost"] >= 6.0
    with pytest.raises(UsageError, match="is null, NaN or infinite"):
        batch(rows([1.0], [0.0])).private_sum(level / rate).plan(pf.Pure(1.0))


def test_means_are_not_divided_by_nothing():
    """Weighted means with negative weights, or with groups without any weight, are refused when planning."""
    frame = rows([1.0, -1.0, 2.0, 0.0], days=[1, 1, 2, 3])
    mean = batch(frame).private_mean("level", weights="price")
    with pytest.raises(Refused, match="negative"):
        mean.plan(pf.Pure(1.0))
    alone = (
        batch(frame)
        .filter(pl.col("price") >= 0)
        .group_by("day")
        .private_mean("level", weights="price")
    )
    with pytest.raises(UsageError, match="divided by 0"):
        alone.plan(pf.Pure(1.0))


@pytest.mark.parametrize(
    "expression",
    [
        level + price,
        (level + price) * 2,
        level * price + level,
        pl.when(price > 0).then(level).otherwise(0),
    ],
    ids=["sum", "product of a sum", "sum of products", "choice"],
)
def test_what_is_no_product_is_refused(expression):
    """Public columns stand in a sum as factors of the whole expression, and nowhere else."""
    with pytest.raises(Refused, match="times one of public columns"):
        batch(rows([1.0])).private_sum(expression)


def test_other_beliefs_and_other_weights_are_refused_at_once():
    """Priors without a rule for weights, rows that come and go, labels as weights, and secret weights are refused."""
    frame = rows([1.0, 2.0]).with_columns(t=pl.Series([0, 1]))
    with pytest.raises(Refused, match="WeaklyDependent"):
        pf.protect(frame, pf.Scenario(LEVEL, pf.WeaklyDependent(1.0), public=PUBLIC)).private_sum(
            COST
        )
    first = pf.Initial("level", domain=LEVELS)
    with pytest.raises(Refused, match="Initial"):
        pf.protect(frame, pf.Scenario(first, INDEPENDENT, order_by="t", public=PUBLIC)).private_sum(
            COST
        )
    there = pf.Presence("house", "level", LEVELS, rows=2)
    with pytest.raises(UsageError, match=r"Under pf.Presence rows are secret"):
        pf.protect(frame, pf.Scenario(there, INDEPENDENT, public=["house", "price"])).private_sum(
            COST
        )
    both = pf.Presence("house", ["level", "price"], [LEVELS, [1, 2]], rows=2)
    sensitive = pf.protect(frame, pf.Scenario(both, INDEPENDENT, public=["house"])).private_sum(
        COST
    )
    assert scales(sensitive.plan(pf.Pure(1.0)))["cost"] == pytest.approx(2 * 3 * 2)
    for wrong in (level * pl.col("name"), level * pl.col("day").cast(pl.String)):
        with pytest.raises(PufferflowError):
            batch(frame).private_sum(wrong)
    with pytest.raises(UsageError, match="is secret, not public"):
        batch(frame).private_mean("level", weights="level")
    for refused in (
        lambda asked: asked.private_count((level >= 1) * price),
        lambda asked: asked.private_mean(COST),
        lambda asked: asked.private_variance(COST),
    ):
        with pytest.raises(UsageError):
            refused(batch(frame))


@pytest.mark.parametrize(
    ("prior", "changed"),
    [
        (INDEPENDENT, [2.0, 5.0, 1.0]),
        (INDEPENDENT, [2.0, 0.3, 1.0]),
        (ANY, [2.0, 2.0, 1.0]),
        (ANY, [1.0, math.nan, 2.0]),
    ],
)
def test_weights_that_change_after_the_plan_are_refused_before_anything_is_charged(
    prior, changed, tmp_path
):
    """A source of larger weights, of another grid, or with heavier groups than planned with is not read or charged."""
    prices = np.array([2.0, 1.0, 1.0])
    asked = batch(rows([0.0] * 3).with_columns(pl.Series("price", prices)), prior)
    plan = asked.private_sum(COST).plan(pf.Pure(1.0))
    account = pf.Ledger(tmp_path / "ledger.db").open(
        "cost", asked.request.scenario, limit=pf.Pure(3.0)
    )
    prices[:] = changed
    with pytest.raises(PufferflowError, match=r"other rows|null, NaN"):
        plan.release(account, id="one")
    assert account.spent().epsilon == 0
    prices[:] = [1.0, 2.0, 1.0]
    plan.release(account, id="one")
    assert account.spent().epsilon == pytest.approx(1.0)
