"""Edge cases of batches in which noise could be too small, a value could leak, or a valid batch could fail."""

import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

LEVEL = pf.Secret("level", domain=[0, 1])


def scales(frame, scenario, *asked, **wanted):
    """Return the scales of the noises of sums and counts of expressions."""
    batch = pf.protect(frame, scenario)
    for place, expression in enumerate(asked):
        batch = batch.private_sum(expression, name=f"q{place}")
    plan = batch.plan(**(wanted or {"guarantee": pf.Pure(1.0)}))
    return [noise.scale for noise in plan.noises.values()]


def test_rows_count_without_public_columns():
    """Where no column is public all rows are still there, and depend on each other."""
    frame = pl.DataFrame({"level": [0, 1] * 50})
    assert scales(frame, pf.Scenario(LEVEL, pf.AnyCorrelation()), "level") == [pytest.approx(100)]


def test_presence_hides_all_that_hangs_together():
    """Whether one person is there cannot be hidden among others who may come and go with it."""
    scenario = pf.Scenario(pf.Presence("person", rows=1), pf.AnyCorrelation(), within="house")
    frame = pl.DataFrame({"house": [1] * 10, "person": range(10)})
    with pytest.raises(pf.Refused, match="correlated within 'house'"):
        pf.protect(frame, scenario).private_count().plan(epsilon=1.0)


@pytest.mark.parametrize(
    "prior", [pf.Independent(), pf.AnyCorrelation()], ids=["independent", "any"]
)
def test_presence_on_an_interval_moves_all_sums_at_once(prior):
    """A row of −10 that comes moves the sum of x and that of |x| by 10 each."""
    scenario = pf.Scenario(pf.Presence("p", "x", pf.Interval(-10, 0), rows=1), prior)
    frame = pl.DataFrame({"p": [1, 2], "x": [-10.0, -1.0]})
    first, second = scales(frame, scenario, pl.col("x"), pl.col("x").abs())
    assert 10 / first + 10 / second <= 1 + 1e-9


def test_functions_that_rise_and_fall_move_with_every_correlation():
    """|x| of two people with opposite salaries moves one way, though the salaries move in opposite directions."""
    prior = pf.GaussianPrior(pf.Exchangeable(-0.9), variance=1.0)
    scenario = pf.Scenario(pf.Secret("x", pf.Interval(-8, 8), pairs=pf.WithinDistance(1)), prior)
    (scale,) = scales(pl.DataFrame({"x": [1.0, -1.0]}), scenario, pl.col("x").abs())
    assert scale >= 1.9


def test_priors_know_the_same_values():
    """Two tables with different scores give one sum two meanings."""
    tables = [
        pf.Table(
            pl.DataFrame(
                {"ill": ["a", "b", "a"], "score": scores, "probability": [0.25, 0.5, 0.25]}
            )
        )
        for scores in ([0, 1, 10], [0, 9, 10])
    ]
    with pytest.raises(pf.UsageError, match="different values"):
        pf.Scenario(pf.Derived("ill", values=["a", "b"]), tables)


def test_distances_of_decimals():
    """0.7 and 0.8 are no farther apart than 0.1, whatever floats say."""
    secret = pf.Secret("x", [0, 0.1, 0.7, 0.8], pairs=pf.WithinDistance(0.1))
    assert secret.value_pairs() == [(0, 0.1), (0.7, 0.8)]
    frame = pl.DataFrame({"x": [0.7, 0.8]})
    plan = (
        pf.protect(frame, pf.Scenario(secret, pf.Independent()))
        .private_count(pl.col("x") >= 0.75)
        .plan(epsilon=1.0)
    )
    assert plan.noises["x_count"].scale >= 1


def test_large_offsets_cost_no_precision():
    """A function with a large offset and a small range has noise for the range, to the last digit."""
    prior = pf.LatentClass([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    frame = pl.DataFrame({"level": [0] * 100, "unit": 1})
    far = pl.when(pl.col("level") == 0).then(791648372000).otherwise(791648371997)
    (scale,) = scales(frame, pf.Scenario(LEVEL, prior, within="unit"), far)
    assert scale >= 300


def test_simulators_are_not_trusted_in_batches():
    """A function that draws answers may draw those of another statistic than the batch's."""
    prior = pf.Simulator(lambda value, _row, _statistic, draws, rng: rng.normal(value, 1.0, draws))
    with pytest.raises(pf.Refused, match="simulator"):
        scales(pl.DataFrame({"level": [0, 1]}), pf.Scenario(LEVEL, prior), "level")


@pytest.mark.parametrize("shares", [(1e308, 1e308), (1e308, 9e307), (1e-300, 1e-300)])
def test_no_share_switches_noise_off(shares):
    """Shares of any size are shares."""
    frame = pl.DataFrame({"level": [0, 1]})
    given = dict(zip(("q0", "q1"), shares, strict=True))
    found = scales(
        frame,
        pf.Scenario(LEVEL, pf.Independent()),
        "level",
        pl.col("level") * 3,
        epsilon=1.0,
        shares=given,
    )
    assert found == [pytest.approx(2, rel=0.1), pytest.approx(6, rel=0.1)]


PRIORS = {
    "any": pf.AnyCorrelation(),
    "class": pf.LatentClass([0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]),
    "chain": pf.MarkovChain([[0.8, 0.2], [0.3, 0.7]]),
    "chains": pf.MarkovChain.between([[0.7, 0.1], [0.2, 0.6]], [[0.9, 0.3], [0.4, 0.8]]),
    "independent": pf.Independent(),
}


@pytest.mark.parametrize("prior", thinned(PRIORS, 0.2))
def test_groups_may_touch_different_numbers_of_cells(prior):
    """One meter has a day more than the other."""
    frame = pl.DataFrame(
        {"meter": [1, 1, 2], "hour": [0, 24, 0], "day": [0, 1, 0], "level": [0, 1, 1]}
    )
    scenario = pf.Scenario(LEVEL, PRIORS[prior], order_by="hour", within="meter", public=["day"])
    for promise in (pf.Pure(1.0), pf.Renyi(4, 1.0)):
        plan = pf.protect(frame, scenario).group_by("day").private_sum("level").plan(promise)
        assert plan.release().frame.height == 2
        assert plan.compare().height > 3


def test_rows_can_be_counted_where_a_column_is_declared():
    """Presence with a column still counts rows."""
    scenario = pf.Scenario(pf.Presence("p", "level", [0, 1, 2, 3], rows=2), pf.Independent())
    plan = (
        pf.protect(pl.DataFrame({"p": [1, 2], "level": [0, 1]}), scenario)
        .private_count()
        .plan(epsilon=1.0)
    )
    assert plan.noises["count"].scale == pytest.approx(2)
    assert plan.compare().height > 3


def test_secrets_behind_the_data_need_no_column():
    """An illness that only the prior knows is no column of the frame, and measurements may be asked about."""
    table = pf.Table(
        pl.DataFrame(
            {
                "ill": ["no", "no", "yes", "yes"],
                "fever": [0, 1, 0, 1],
                "probability": [0.4, 0.1, 0.1, 0.4],
            }
        )
    )
    scenario = pf.Scenario(pf.Derived("ill"), table, public=["ward"])
    frame = pl.DataFrame({"ward": [1, 1, 2], "fever": [0, 1, 1]})
    plan = pf.protect(frame, scenario).group_by("ward").private_sum("fever").plan(epsilon=1.0)
    assert plan.release().frame.columns == ["ward", "fever_sum"]
    assert plan.compare().height > 3
    assert "depend on each other in any way" in plan.explain()
    with pytest.raises(pf.UsageError, match="both secret and public"):
        pf.Scenario(pf.Derived("ill"), table, public=["ill"])


@pytest.mark.parametrize("keys", [[1.5, 2.0], [2**70], ["1x"]])
def test_keys_that_no_group_can_have(keys):
    """Keys are not bent to fit their column."""
    frame = pl.DataFrame({"key": [1, 2], "level": [0, 1]})
    batch = pf.protect(frame, pf.Scenario(LEVEL, pf.Independent(), public=["key"]))
    with pytest.raises(pf.UsageError, match="keys"):
        batch.group_by("key", keys=keys)


@pytest.mark.parametrize(
    "name", ["__asked", "__known", "__row", "^level$", "*", "^.*$", "asked_right", "len"]
)
def test_public_columns_of_any_name(name):
    """No name of a public column stands for another column, nor for one of our own."""
    frame = pl.DataFrame({name: [False] * 6, "level": [0, 1] * 3})
    scenario = pf.Scenario(LEVEL, pf.AnyCorrelation(), public=[name])
    batch = (
        pf.protect(frame, scenario)
        .group_by(name, keys=[False, True])
        .private_sum("level", name="q")
    )
    plan = batch.plan(epsilon=1.0)
    assert plan.noises["q"].scale == pytest.approx(6)
    assert plan.release().frame.columns == [name, "q"]


def test_bars_need_names_too():
    """A key cannot have the name of an end of an error bar."""
    frame = pl.DataFrame({"q_low": [1, 2], "level": [0, 1]})
    batch = pf.protect(frame, pf.Scenario(LEVEL, pf.Independent(), public=["q_low"])).group_by(
        "q_low"
    )
    with pytest.raises(pf.UsageError, match="q_low"):
        batch.private_sum("level", name="q")


def test_a_table_without_a_header_is_not_quoted(tmp_path):
    """The names of a frame's columns may be its first row."""
    (tmp_path / "x.csv").write_text("17,SECRET,3\n18,OTHER,1\n")
    with pytest.raises(pf.UsageError) as caught:
        pf.protect(pl.scan_csv(tmp_path / "x.csv"), pf.Scenario(LEVEL, pf.Independent()))
    assert "SECRET" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    """A missing or broken file is a source that failed, without the engine's words."""
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no parquet")
    for file in ("x.parquet", "nothing.parquet"):
        with pytest.raises(pf.SourceError):
            pf.protect(pl.scan_parquet(tmp_path / file), pf.Scenario(LEVEL, pf.Independent()))


def test_a_class_of_error_tells_nothing():
    """The name of an error's class may quote data too."""

    def rows(*_):
        raise type("Row4Has123456789", (Exception,), {})("123456789")
        yield

    source = pl.io.plugins.register_io_source(rows, schema={"level": pl.Int64})
    with pytest.raises(pf.SourceError) as caught:
        pf.protect(source, pf.Scenario(LEVEL, pf.Independent())).private_sum("level").release(
            epsilon=1.0
        )
    assert "123456789" not in str(caught.value)


def test_a_chain_that_never_moves():
    """A chain whose rows are all alike costs what the group costs."""
    frame = pl.DataFrame({"hour": np.arange(60), "level": 0})
    (scale,) = scales(
        frame, pf.Scenario(LEVEL, pf.MarkovChain(np.eye(2), [0.5, 0.5]), order_by="hour"), "level"
    )
    assert scale == pytest.approx(60, rel=1e-5)
    assert scale >= 60


def test_beginnings_have_to_be_known():
    """A prior about the beginning of sequences needs to know when they began."""
    prior = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]], initial=[1.0, 0.0])
    times = pl.datetime_range(pl.datetime(2026, 1, 1), pl.datetime(2026, 1, 1, 5), "1h", eager=True)
    frame = pl.DataFrame({"hour": times, "level": [0, 0, 1, 1, 0, 0]})
    scenario = pf.Scenario(LEVEL, prior, order_by="hour", step="1h")
    with pytest.raises(pf.UsageError, match="where sequences start"):
        scales(frame, scenario, "level")
    began = pf.Scenario(LEVEL, prior, order_by="hour", step="1h", start="2026-01-01")
    assert math.isfinite(scales(frame, began, "level")[0])


@pytest.mark.slow
def test_bins_that_do_not_reach_the_ends():
    """Quantiles of an interval work with bins inside of it."""
    frame = pl.DataFrame({"x": np.linspace(0, 10, 101)})
    batch = pf.protect(frame, pf.Scenario(pf.Secret("x", pf.Interval(0, 10)), pf.Independent()))
    for bins in ([3, 6, 9], np.array([2.0, 3.0]), [1], [-5, 0, 5, 20]):
        for q in (0.0, 0.5, 0.99, 1.0):
            found = batch.private_quantile("x", q, bins=bins).release(epsilon=1e6).frame.item()
            assert 0 <= found <= 10
    middle = batch.private_quantile("x", 0.5, bins=[4, 5, 6]).release(epsilon=1e6).frame.item()
    assert middle == pytest.approx(5, abs=0.3)


def test_nothing_stops_at_one_row_where_rows_are_secret():
    """Expressions that fail at some value are refused under presence; dates and numbers can still filter and group."""
    days = pl.date_range(pl.date(2026, 1, 1), pl.date(2026, 1, 9), "1d", eager=True)
    frame = pl.DataFrame({"p": range(9), "day": days, "age": range(20, 29), "name": ["a"] * 9})
    scenario = pf.Scenario(
        pf.Presence("p", rows=1), pf.Independent(), public=["day", "age", "name"]
    )
    batch = pf.protect(frame, scenario)
    for stops in (
        pl.col("day").dt.add_business_days(1) > pl.date(2026, 1, 5),
        2 ** pl.col("age") > 5,
        pl.col("name").cast(pl.Int64) > 0,
        pl.lit(pl.Series([True] * 9)),
    ):
        with pytest.raises(pf.PufferflowError):
            batch.filter(stops)
    kept = batch.filter(pl.col("age") >= 21, pl.col("day").dt.weekday() < 6, pl.col("name") == "a")
    grouped = kept.with_columns(week=pl.col("day").dt.truncate("1w"), decade=pl.col("age") // 10)
    keys = [(pl.date(2026, 1, 5), 2)]
    with pytest.raises(pf.UsageError, match="keys"):
        grouped.group_by("week", "decade", keys=keys)


@pytest.mark.parametrize("seconds", thinned([4, 60], 0.5))
def test_coarse_steps_of_large_numbers_are_covered(seconds):
    """Times of day in seconds since 1970 have steps of seconds, and rounding them moves sums too."""
    start = 1_700_000_000
    domain = pf.Interval(start, start + seconds)
    scenario = pf.Scenario(pf.Secret("t", domain), pf.Independent())
    tent = (pl.col("t") - (start + seconds / 2 + 0.9)).abs()
    batch = pf.protect(pl.DataFrame({"t": [float(start)]}), scenario)
    plan = batch.private_sum(tent, name="tent").private_sum("t", name="t").plan(epsilon=1.0)
    times = start + np.linspace(0, seconds, 2001)
    steps = [
        pl.DataFrame({"t": times}).select(measure.values.read(pl.col("t"))).to_series().to_numpy()
        for measure in plan.request.measures
    ]
    loss = sum(
        np.abs(one[:, None] - one[None, :]) / noise.scale
        for one, noise in zip(steps, plan.mechanism.noise.noises, strict=True)
    )
    assert loss.max() <= 1 + 1e-9


@pytest.mark.slow
def test_very_many_corners_under_presence():
    """More classes than are looked at one by one leave sums of both signs as far from nothing as they are."""
    scenario = pf.Scenario(pf.Presence("p", "x", pf.Interval(-10, 0), rows=1), pf.Independent())
    batch = pf.protect(pl.DataFrame({"p": [1], "x": [-10.0]}), scenario)
    asked = batch.private_sum("x", name="x").private_sum(pl.col("x").abs(), name="a")
    asked = asked.private_histogram("x", name="h", bins=np.linspace(-10, 0, 200).tolist())
    plan = asked.private_histogram("x", name="g", bins=np.linspace(-10, 0, 190).tolist()).plan(
        epsilon=1.0, shares={"x": 10, "a": 10, "h": 0.01, "g": 0.01}
    )
    assert 10 / plan.noises["x"].scale + 10 / plan.noises["a"].scale <= 1 + 1e-9


@pytest.mark.parametrize(
    "prior", [pf.Independent(), pf.AnyCorrelation(), pf.GaussianPrior(pf.Exchangeable(0.2), 1.0)]
)
def test_functions_that_are_the_same_everywhere(prior):
    """What no value changes may be asked, and needs no noise."""
    scenario = pf.Scenario(pf.Secret("x", pf.Interval(0, 10)), prior)
    batch = pf.protect(pl.DataFrame({"x": [1.0, 2.0]}), scenario)
    plan = (
        batch.private_sum((pl.col("x") >= 0).cast(pl.Float64), name="all")
        .private_sum("x")
        .plan(epsilon=1.0)
    )
    assert plan.noises["all"].scale == 0
    assert plan.release().frame["all"][0] == 2
    alone = batch.private_sum(pl.col("x") * 0.0 + 3, name="all").release(epsilon=1.0)
    assert alone.frame["all"][0] == 6


def test_what_stands_in_for_the_answers_is_not_exact():
    """A bound that was worked out for other functions says that it is one."""
    scenario = pf.Scenario(
        pf.Secret("x", pf.Interval(0, 10), pairs=pf.WithinDistance(1)), pf.Independent()
    )
    batch = pf.protect(pl.DataFrame({"x": [1.0, 2.0]}), scenario)
    line = batch.private_sum("x").plan(epsilon=1.0)
    clips = batch.private_sum(pl.col("x").clip(0, 5), name="a").private_sum(
        pl.col("x").clip(5, 10), name="b"
    )
    assert line.calibration.certainty.value == "exact"
    assert clips.plan(epsilon=1.0).calibration.certainty.value == "upper_bound"
