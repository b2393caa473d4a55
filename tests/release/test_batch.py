"""What is asked is checked when it is asked, before any row is read; a batch never changes."""

import math
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

import pufferflow as pf

ASKING = Path(__file__).parents[2] / "docs" / "reference" / "queries.md"
ROWS = pl.DataFrame(
    {
        "meter": [1, 1, 2, 2],
        "hour": [datetime.fromisoformat(f"2026-01-01T0{hour}:00") for hour in (0, 1, 0, 1)],
        "district": ["north", "north", "south", "south"],
        "level": [0, 3, 2, 1],
        "salary": [1.0, 2.0, 3.0, 4.0],
    }
)
CHAIN = pf.MarkovChain([[0.7, 0.1, 0.1, 0.1]] * 4)


def scenario(**options):
    given = {
        "order_by": "hour",
        "step": "1h",
        "within": "meter",
        "public": ["district"],
        "prior": CHAIN,
    }
    return pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), **(given | options))


def batch(rows=ROWS, **options):
    return pf.protect(rows, scenario(**options))


def test_all_three_ways_in_are_one():
    """The function, the sugar on lazy frames and the sugar on frames give the same plan."""
    ways = [
        pf.protect(ROWS, scenario()),
        ROWS.puffer.protect(scenario()),
        ROWS.lazy().puffer.protect(scenario()),
    ]
    plans = [way.private_sum("level").plan(pf.Pure(1.0)) for way in ways]
    assert len({repr(plan.noises) for plan in plans}) == 1


def test_a_batch_never_changes():
    """Asking returns a new batch, so that a common part can be used twice."""
    start = batch()
    first, second = start.private_sum("level"), start.private_mean("level")
    assert (start.request.outputs, first.request.outputs) == ((), ("level_sum",))
    assert second.request.outputs == ("level_mean",)
    with pytest.raises(AttributeError):
        start.request = first.request


def test_a_batch_is_no_way_to_the_rows():
    """A batch has no method of a frame beyond those that ask."""
    for name in (
        "collect",
        "select",
        "head",
        "sink_parquet",
        "fetch",
        "join",
        "map_batches",
        "explain",
        "columns",
    ):
        assert not hasattr(batch(), name)


DEFAULT_NAMES = {
    "level_sum": lambda b: b.private_sum("level"),
    "level_mean": lambda b: b.private_mean(pl.col("level") * 2),
    "level_count": lambda b: b.private_count(pl.col("level") >= 3),
    "level_variance": lambda b: b.private_variance("level"),
    "level_quantile_0.5": lambda b: b.private_quantile("level", 0.5),
    "double": lambda b: b.private_sum((pl.col("level") * 2).alias("double")),
    "load": lambda b: b.private_sum("level", name="load"),
}


@pytest.mark.parametrize("name", DEFAULT_NAMES)
def test_default_names(name):
    """An output is named after its column and query, its alias, or as it is told."""
    assert DEFAULT_NAMES[name](batch()).request.outputs == (name,)


def test_a_histogram_has_a_column_for_each_value():
    """The columns of a histogram are named after the values."""
    names = batch().private_histogram("level").request.outputs
    assert names == (
        "level_histogram_0",
        "level_histogram_1",
        "level_histogram_2",
        "level_histogram_3",
    )


REFUSED = {
    "sum of an undeclared column": (lambda b: b.private_sum("salary"), "salary"),
    "sum of a column that is not there": (lambda b: b.private_sum("nothing"), "nothing"),
    "two columns": (lambda b: b.private_sum(pl.col("level") + pl.col("salary")), "salary"),
    "less its mean": (lambda b: b.private_sum(pl.col("level") - pl.col("level").mean()), "mean"),
    "clipped to its maximum": (
        lambda b: b.private_sum(pl.col("level").clip(0, pl.col("level").max())),
        "max",
    ),
    "filled with its mean": (
        lambda b: b.private_sum(pl.col("level").fill_null(pl.col("level").mean())),
        "mean",
    ),
    "window": (lambda b: b.private_sum(pl.col("level").sum().over("level")), "over"),
    "shift": (lambda b: b.private_sum(pl.col("level").shift(1)), "shift"),
    "python": (
        lambda b: b.private_sum(pl.col("level").map_elements(abs, return_dtype=pl.Int64)),
        "Python",
    ),
    "no predicate": (lambda b: b.private_count(pl.col("level") + 1), "predicate"),
    "count of all": (lambda b: b.private_count(), "public"),
    "filter on the secret": (lambda b: b.filter(pl.col("level") > 1), "level"),
    "filter on an undeclared column": (lambda b: b.filter(pl.col("salary") > 1), "salary"),
    "filter that is no predicate": (lambda b: b.filter(pl.col("meter")), "true or false"),
    "column made of the secret": (lambda b: b.with_columns(x=pl.col("level")), "level"),
    "column that is there": (lambda b: b.with_columns(district=pl.col("meter")), "district"),
    "column that hides the secret": (lambda b: b.with_columns(level=pl.col("meter")), "level"),
    "column over rows": (lambda b: b.with_columns(x=pl.col("meter").sum()), "sum"),
    "group by the secret": (lambda b: b.group_by("level"), "level"),
    "group by nothing": (lambda b: b.group_by(), "group_by"),
    "group twice": (lambda b: b.group_by("meter").group_by("district"), "second time"),
    "one column twice": (lambda b: b.group_by("meter", "meter"), "twice"),
    "the same name": (lambda b: b.private_sum("level").private_sum("level"), "level_sum"),
    "the name of a key": (
        lambda b: b.group_by("meter").private_sum("level", name="meter"),
        "meter",
    ),
    "filter after asking": (lambda b: b.private_sum("level").filter(pl.col("meter") > 1), "filter"),
    "group after asking": (lambda b: b.private_sum("level").group_by("meter"), "group_by"),
    "a name that cannot be written": (lambda b: b.private_sum("level", name="\ud800"), "name"),
    "empty name": (lambda b: b.private_sum("level", name=""), "name"),
    "quantile beyond 1": (lambda b: b.private_quantile("level", 1.5), "q is"),
    "quantile of nothing": (lambda b: b.private_quantile("salary", 0.5), "salary"),
    "quantile NaN": (lambda b: b.private_quantile("level", math.nan), "q is"),
    "keys twice": (lambda b: b.group_by("meter", keys=[1, 1]), "twice"),
    "keys of another type": (lambda b: b.group_by("meter", keys=["a"]), "keys"),
    "keys of no type": (lambda b: b.group_by("meter", keys=7), "keys"),
    "keys of the wrong width": (lambda b: b.group_by("meter", "district", keys=[1, 2]), "keys"),
    "no keys": (lambda b: b.group_by("meter", keys=[]), "keys"),
    "histogram of an expression": (lambda b: b.private_histogram(pl.col("level") * 2), "name"),
    "a number for a column": (lambda b: b.private_sum(3), "3"),
    "nothing asked": (lambda b: b.plan(pf.Pure(1.0)), "no query"),
    "no guarantee": (lambda b: b.private_sum("level").plan(), "guarantee"),
    "two guarantees": (lambda b: b.private_sum("level").plan(pf.Pure(1.0), epsilon=1.0), "Both"),
    "NaN epsilon": (lambda b: b.private_sum("level").release(epsilon=math.nan), "epsilon"),
    "negative epsilon": (lambda b: b.private_sum("level").release(epsilon=-1.0), "epsilon"),
    "infinite epsilon": (lambda b: b.private_sum("level").release(epsilon=math.inf), "epsilon"),
    "an id without an account": (
        lambda b: b.private_sum("level").release(epsilon=1.0, id="a"),
        "account",
    ),
    "shares of others": (
        lambda b: b.private_sum("level").plan(pf.Pure(1.0), shares={"x": 1}),
        "shares",
    ),
    "a share of 0": (
        lambda b: b.private_sum("level").plan(pf.Pure(1.0), shares={"level_sum": 0}),
        "share",
    ),
    "no name of a noise": (
        lambda b: b.private_sum("level").plan(pf.Pure(1.0), noise="laplce"),
        "noise",
    ),
    "Gaussian noise for a pure guarantee": (
        lambda b: b.private_sum("level").plan(pf.Pure(1.0), noise=pf.Gaussian),
        "Gaussian",
    ),
    "a number for an accuracy": (lambda b: b.private_sum("level").plan(accuracy=5), "accuracy"),
    "an accuracy of a variance": (
        lambda b: b.private_variance("level").plan(accuracy=pf.Within(5)),
        "variance",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    """What cannot be asked is refused at once, by name, in at most five lines."""
    ask, offender = REFUSED[name]
    with pytest.raises(pf.PufferflowError) as caught:
        ask(batch())
    text = str(caught.value)
    assert offender in text
    assert len(text.splitlines()) <= 5
    assert "allowed" in text


def test_the_scenario_is_checked_against_the_frame():
    """Missing columns, wrong types and things that are no frames are found when the frame is protected."""
    with pytest.raises(pf.UsageError, match="'hour'"):
        batch(ROWS.drop("hour"))
    with pytest.raises(pf.UsageError, match="domain of numbers"):
        batch(ROWS.with_columns(pl.col("level").cast(pl.String)))
    with pytest.raises(pf.UsageError, match="list"):
        pf.protect([1, 2], scenario())
    with pytest.raises(pf.UsageError, match=r"pf\.Scenario"):
        pf.protect(ROWS, "scenario")


def test_keys_may_be_values_tuples_or_a_frame():
    """Keys given in any of these ways are the keys of the answer, in their order."""
    one = (
        batch()
        .group_by("district", keys=["west", "north"])
        .private_sum("level")
        .release(epsilon=1.0)
    )
    assert one.frame["district"].to_list() == ["west", "north"]
    given = [("south", 2), ("north", 1), ("north", 2)]
    two = (
        batch().group_by("district", "meter", keys=given).private_sum("level").release(epsilon=1.0)
    )
    assert two.frame.select("district", "meter").rows() == given
    frame = pl.DataFrame(given, schema=["district", "meter"], orient="row")
    three = (
        batch().group_by("district", "meter", keys=frame).private_sum("level").release(epsilon=1.0)
    )
    assert three.frame.select("district", "meter").rows() == given


def test_public_columns_can_be_derived():
    """Dates out of times filter and group like declared columns."""
    found = (
        batch()
        .with_columns(day=pl.col("hour").dt.date())
        .filter(pl.col("day") == date(2026, 1, 1), pl.col("district") != "south")
        .group_by("day")
        .private_sum("level")
        .release(epsilon=1.0)
    )
    assert found.frame["day"].to_list() == [date(2026, 1, 1)]
    grouped = (
        batch()
        .group_by(pl.col("hour").dt.hour().alias("of_day"))
        .private_sum("level")
        .release(epsilon=1.0)
    )
    assert grouped.frame["of_day"].to_list() == [0, 1]


def test_a_batch_is_no_lock():
    """Whoever holds a batch holds the frame, and the documentation says so."""
    rows = pl.DataFrame({"day": [1, 1, 2], "level": [0, 3, 2]})
    levels = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"])
    batch = pf.protect(rows, levels).group_by("day").private_sum("level")
    assert batch.request.frame.collect().equals(rows)
    for text in (pf.Batch.__doc__ or "", ASKING.read_text(encoding="utf-8")):
        assert "batch.request.frame" in text
        assert "no way through" not in text
