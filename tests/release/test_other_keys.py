"""`group_by(…, keys=…, other=…)`: one further group for all rows with none of the keys, exact and paid for as it is."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.release.planning.selected_rows import regions

NAN = math.nan
VALUES = {
    "texts": (pl.String, ["a", "b", "", None, "elsewhere", "c"], ["b", "a"], "elsewhere"),
    "null is a key": (pl.String, ["a", "b", None, "c"], ["a", None], "other"),
    "whole numbers": (pl.Int8, [1, -2, 0, None, 127], [127, 0], -1),
    "floats": (pl.Float64, [0.0, -0.0, NAN, None, math.inf, 5e-324], [0.0, math.inf], -1),
    "NaN is a key": (pl.Float32, [0.1, NAN, -0.0, None], [NAN, -0.0, None], 7),
    "wide numbers": (pl.Int128, [2**100, 2**100 + 1, None], [2**100], 0),
    "truth": (pl.Boolean, [True, None, None], [True], False),
    "categories": (pl.Categorical, ["a", "b", "c", None], ["c", "b"], "d"),
    "an Enum with the label": (pl.Enum(["a", "b", "c"]), ["a", "b", "c", None], ["b"], "c"),
    "an Enum without the label": (
        pl.Enum(["a", "b", "c"]),
        ["a", "b", "c", None],
        ["b"],
        "elsewhere",
    ),
    "cents": (
        pl.Decimal(10, 2),
        [Decimal("1.10"), Decimal("1.11"), None],
        [Decimal("1.10")],
        Decimal(-1),
    ),
    "days": (
        pl.Date,
        [date(2026, 1, 1), date(2026, 1, 2), None],
        [date(2026, 1, 2)],
        date(1, 1, 1),
    ),
    "spans": (pl.Duration, [timedelta(1), timedelta(2), None], [timedelta(2)], timedelta(0)),
    "moments": (
        pl.Datetime("us", "Europe/Berlin"),
        [
            datetime(2026, 10, 25, hour, tzinfo=UTC) for hour in (0, 1, 2)
        ],  # two of them are 02:00 there
        [datetime(2026, 10, 25, 1, tzinfo=UTC)],
        datetime(2000, 1, 1, tzinfo=UTC),
    ),
}


def exact(batch):
    """Return keys, rows and sums as a release reads them, before noise."""
    request = batch.request
    measures = [measure for measure in request.measures if measure is not None]
    tally = request.with_keys(request.engine.tally(request.selection, measures))
    return tally.keys, tally.rows.tolist(), tally.sums[:, 0].tolist()


def form(value):
    """Return a value as keys are compared: NaN is NaN, and of an hour that comes twice each is itself."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return "NaN" if value != value else value  # noqa: PLR0124 - of every type


@pytest.mark.parametrize("name", VALUES)
def test_every_row_is_in_the_group_of_its_key_or_in_the_further_one(name):
    """Of every type, with nulls and NaN; a row whose own value is the label is one of the others."""
    dtype, values, keys, label = VALUES[name]
    own = pl.Series(values * 2, dtype=dtype)
    rows = pl.DataFrame({"key": own, "x": [2**place for place in range(len(own))]})
    scenario = pf.Scenario(pf.Secret("x", domain=[0, *rows["x"]]), pf.Independent(), public=["key"])
    batch = pf.protect(rows.lazy(), scenario).group_by(
        "key", keys=pl.Series(keys, dtype=dtype), other=label
    )
    found, counts, sums = exact(batch.private_sum("x"))
    texts = name in ("categories", "an Enum without the label")
    assert list(map(form, found["key"])) == list(map(form, [*pl.Series(keys, dtype=dtype), label]))
    assert found["key"].dtype == (pl.String if texts else own.dtype)
    assert (
        name == "categories" or batch.request.key_types == found.schema
    )  # by which sinks make their tables
    cells = {form(key): place for place, key in enumerate(pl.Series(keys, dtype=dtype).to_list())}
    place = [cells.get(form(value), len(keys)) for value in own.to_list()]
    assert counts == np.bincount(place, minlength=len(keys) + 1).tolist()
    assert (
        sums == np.bincount(place, weights=rows["x"], minlength=len(keys) + 1).astype(int).tolist()
    )


@pytest.mark.parametrize("labels", [("a", "b", "c"), ("b",), ("a", "c"), ("c",)], ids="".join)
def test_of_several_columns_those_with_a_label_are_open(labels):
    """Rows of no listed tuple are in the group of their values in all columns without a label, if that is listed."""
    draw = np.random.default_rng(7)
    columns = {name: draw.integers(0, 5, 400) for name in "abc"}
    rows = (
        pl.DataFrame(columns)
        .with_columns(pl.when(pl.all() > 0).then(pl.all()))
        .with_columns(pl.col("b").cast(pl.String), x=draw.integers(0, 4, 400))
    )
    keys = rows.select("a", "b", "c").unique(maintain_order=True)[:9]
    label = {"a": -1, "b": "rest", "c": -3}
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1, 2, 3]), pf.Independent(), public=["a", "b", "c"]
    )
    given = {name: label[name] for name in labels}
    grouped = (
        pf.protect(rows, scenario).group_by("c", "a", "b", keys=keys, other=given).private_sum("x")
    )
    found, counts, sums = exact(grouped)

    listed, groups = set(keys.iter_rows()), dict.fromkeys([*keys.iter_rows()], (0, 0))
    groups |= {_key(row, labels, label): (0, 0) for row in keys.iter_rows()}
    for *row, x in rows.iter_rows():
        own = tuple(row) if tuple(row) in listed else _key(row, labels, label)
        if own in groups:
            groups[own] = groups[own][0] + 1, groups[own][1] + x
    known = [*found.select("a", "b", "c").iter_rows()]
    assert known[:9] == [*keys.iter_rows()]
    assert dict(zip(known, zip(counts, sums, strict=True), strict=True)) == groups
    assert sum(counts) == 400 or len(labels) < 3


def _key(row, labels, label):
    return tuple(
        label[name] if name in labels else own for name, own in zip("abc", row, strict=True)
    )


STAY = [[0.9, 0.1], [0.1, 0.9]]
HOUSES = pl.DataFrame(
    {
        "house": [1, 1, 1, 2, 2, 2, 2, 3, 3, 4],
        "hour": [0, 1, 2, 0, 1, 2, 3, 0, 1, 0],
        "town": ["a", "a", "a", "c", "d", "c", None, "d", "b", "b"],
        "on": [0, 1] * 5,
    }
)
BELIEFS = {
    "chain": pf.MarkovChain(STAY),
    "any correlation": pf.AnyCorrelation(),
    "independent": pf.Independent(),
}


def houses(prior, public=("town",)):
    scenario = pf.Scenario(
        pf.Secret("on", [0, 1]), prior, order_by="hour", within="house", public=public
    )
    return pf.protect(HOUSES, scenario)


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("keys", thinned([["a"], ["a", "b"]], 0.5), ids=len)
def test_noise_and_cost_are_those_of_the_column_that_merges_the_others(belief, keys):
    """A house in two towns that are others has all its rows in one group, and the noise of that, cell by cell."""
    batch = houses(BELIEFS[belief])
    merged = pl.when(pl.col("town").is_in(keys)).then(pl.col("town")).otherwise(pl.lit("elsewhere"))
    asked = (
        batch.group_by("town", keys=keys, other="elsewhere"),
        batch.group_by(t=merged, keys=[*keys, "elsewhere"]),
    )
    ours, theirs = (one.private_sum("on").plan(pf.Pure(1.0)) for one in asked)
    assert ours.noises == theirs.noises
    assert ours.summary()["scale"].to_list() == theirs.summary()["scale"].to_list()
    assert ours.cost.shape == theirs.cost.shape
    answers = [
        one.private_sum("on").private_mean("on").release(epsilon=1e7).frame[:, 1:] for one in asked
    ]
    assert np.allclose(*answers, atol=1e-3)


@pytest.mark.slow
def test_groups_of_units_and_of_moments_stay_what_they_are():
    """Others are together in the answer alone: units are units, and rows follow each other as they did."""
    batch = houses(BELIEFS["chain"])
    for name, keys in (("house", [2]), ("hour", [0, 1])):
        new = pl.when(pl.col(name).is_in(keys)).then(pl.col(name)).otherwise(pl.lit(-1))
        ours = batch.group_by(name, keys=keys, other=-1).private_sum("on").plan(pf.Pure(1.0))
        theirs = batch.group_by(t=new, keys=[*keys, -1]).private_sum("on").plan(pf.Pure(1.0))
        assert ours.summary()["scale"].to_list() == theirs.summary()["scale"].to_list()
        assert ours.cost.shape == theirs.cost.shape


def test_filters_come_before_and_see_values_as_they_are():
    """A filter on the grouped column is about its values, not about the label."""
    batch = houses(BELIEFS["independent"]).filter(pl.col("town") != "d")
    assert exact(batch.group_by("town", keys=["a"], other="elsewhere").private_sum("on"))[1] == [
        3,
        4,
    ]
    no_rows = batch.filter(pl.col("town") == "elsewhere").group_by(
        "town", keys=["a"], other="elsewhere"
    )
    assert exact(no_rows.private_sum("on"))[1] == [0, 0]


def test_the_others_have_rows_of_any_value():
    """Releases of other keys are no releases about other rows; a column without a label still limits them."""
    batch = houses(BELIEFS["independent"], public=("town", "hour"))
    listed = regions(batch.group_by("town", keys=["a"]).private_sum("on").request)
    assert listed["town"].labels == ("a",)
    assert not regions(batch.group_by("town", keys=["a"], other="rest").private_sum("on").request)
    tuples = [("a", 0), ("b", 1)]
    half = regions(
        batch.group_by("town", "hour", keys=tuples, other={"town": "rest"})
        .private_sum("on")
        .request
    )
    assert {name: set(region.labels) for name, region in half.items()} == {"hour": {0, 1}}
    plans = [
        batch.group_by("town", keys=[key], other="rest").private_sum("on").plan(pf.Pure(1.0))
        for key in ("a", "b")
    ]
    assert pf.compose(
        [plan.release() for plan in plans], batch.request.scenario
    ).total == pytest.approx(2.0)


def test_what_is_published_says_what_the_group_is():
    """The sentence and the certificate name the label; so does the digest of questions."""
    batch = houses(BELIEFS["independent"])
    plan = (
        batch.group_by("town", keys=["a"], other="elsewhere").private_sum("on").plan(pf.Pure(1.0))
    )
    assert "for each town, all other rows as 'elsewhere'." in plan.explain()
    release = plan.release()
    assert release.certificate.where == ("all other rows as 'elsewhere'",)
    assert (
        release.frame["town"].to_list() == release.intervals["town"].to_list() == ["a", "elsewhere"]
    )
    listed = batch.group_by("town", keys=["a", "elsewhere"]).private_sum("on").request
    assert listed.digest != plan.request.digest


def test_under_presence_the_group_is_there_without_rows_too():
    """Which groups there are follows from what was declared; categories of an Enum stay private."""
    scenario = pf.Scenario(pf.Presence("who", rows=1), pf.Independent(), public=["town"])
    rows = pl.DataFrame(
        {"who": [1, 2], "town": pl.Series(["a", "b"], dtype=pl.Enum(["a", "b", "zoe"]))}
    )
    batch = (
        pf.protect(rows, scenario).group_by("town", keys=["a", "c"], other="zoe").private_count()
    )
    for given, expected in ((batch, [1, 0, 1]), (pf.protect(rows[:1], scenario), [1, 0, 0])):
        asked = (
            given
            if given is batch
            else given.group_by("town", keys=["a", "c"], other="zoe").private_count()
        )
        frame = asked.release(epsilon=1e6).frame
        assert frame["town"].to_list() == ["a", "c", "zoe"]
        assert frame.schema["town"] == pl.String
        assert frame["count"].round().to_list() == expected


REFUSED = {
    "no keys": (lambda b: b.group_by("town", other="x"), "no keys"),
    "a key": (lambda b: b.group_by("town", keys=["a", "b"], other="b"), "listed keys of 'town'"),
    "a key of one of the columns": (
        lambda b: b.group_by(
            "town", "house", keys=[("a", 1), ("b", 2)], other={"town": "c", "house": 2}
        ),
        "listed keys of 'house'",
    ),
    "another type": (lambda b: b.group_by("house", keys=[1], other="elsewhere"), "no Int64"),
    "one label for two types": (
        lambda b: b.group_by("town", "house", keys=[("a", 1)], other="x"),
        "of 'house'",
    ),
    "a number for a text": (lambda b: b.group_by("town", keys=["a"], other=7), "no String"),
    "a truth for a number": (
        lambda b: b.group_by("house", keys=[2], other=True),
        "True is no Int64",
    ),
    "a list": (lambda b: b.group_by("town", keys=["a"], other=["x"]), "of type list"),
    "an expression": (
        lambda b: b.group_by("town", keys=["a"], other=pl.col("hour")),
        "of type Expr",
    ),
    "no label": (lambda b: b.group_by("town", keys=["a"], other={}), "is not a label"),
    "null": (lambda b: b.group_by("town", keys=["a"], other={"town": None}), "is not a label"),
    "a typo": (lambda b: b.group_by("town", keys=["a"], other={"twon": "x"}), "other={'town': …}"),
    "any object": (lambda b: b.group_by("town", keys=["a"], other=object()), "no String"),
    "a huge number": (lambda b: b.group_by("house", keys=[1], other=2**200), "no Int64"),
    "a pattern": (
        lambda _: pf.protect(
            HOUSES.with_columns(pl.col("town").alias("^t.*$")),
            pf.Scenario(pf.Secret("on", [0, 1]), pf.Independent(), public=["^t.*$", "town"]),
        ).group_by("^t.*$", keys=["a"], other="x"),
        "pattern",
    ),
    "lists": (
        lambda b: b.with_columns(l=pl.struct("town")).group_by(
            "l", keys=[{"town": "a"}], other="x"
        ),
        "structs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_labels_that_do_not_fit_are_refused(name):
    """At once, by name, with what fits."""
    ask, offender = REFUSED[name]
    with pytest.raises(pf.UsageError) as caught:
        ask(houses(BELIEFS["independent"]))
    assert offender in str(caught.value)
    assert "allowed" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 5


@pytest.mark.parametrize(
    ("name", "keys", "counts"), [("house", [1, 2], [3, 4, 3]), ("hour", [None, 3], [0, 1, 9])]
)
def test_the_way_out_of_a_type_is_accepted(name, keys, counts):
    """Numbers whose others are to have a name are grouped as texts, also where it is secret which rows there are."""
    secrets = pf.Secret("on", [0, 1]), pf.Presence("house", "on", [0, 1], rows=9)
    for secret in secrets:
        batch = pf.protect(HOUSES, pf.Scenario(secret, pf.Independent(), public=["house", "hour"]))
        with pytest.raises(pf.UsageError) as caught:
            batch.group_by(name, keys=keys, other="elsewhere")
        asked = eval(f"batch{caught.value.instead}", {"batch": batch, "pl": pl})  # noqa: S307 - our own text
        assert exact(asked.private_sum("on"))[1] == counts
