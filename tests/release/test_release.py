"""What a release owes: nothing in the data makes it fail or changes anything but the numbers; costs come first."""

import json
import math
from datetime import date, datetime
from decimal import Decimal

import msgspec
import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.engines import polars_engine
from pufferflow.release.mechanisms.additive import read_exact_sums
from pufferflow.release.mechanisms.base import PrivateReader

LEVELS = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["key"])
KWH = pf.Scenario(pf.Secret("kwh", domain=pf.Interval(0, 10)), pf.Independent(), public=["key"])
SHARP = 1e9
"""An ε so large that noise is far below 1, to see the sums themselves."""


def levels(values, dtype=None, keys=None):
    return pl.DataFrame(
        {
            "key": keys or [1] * len(values),
            "level": pl.Series("level", values, dtype=dtype, strict=False),
        }
    )


def total(frame, scenario=LEVELS, column="level"):
    found = pf.protect(frame, scenario).private_sum(column).release(epsilon=SHARP)
    return found.frame[f"{column}_sum"][0]


COLUMNS = {
    "null": ([None, 2, 3], pl.Int64, 5),
    "NaN": ([math.nan, 2.0, 3.0], pl.Float64, 5),
    "infinite": ([math.inf, -math.inf, 2.0], pl.Float64, 5),
    "outside": ([99, -99, 2], pl.Int64, 5),
    "between values": ([1.4, 1.6, 2.0], pl.Float64, 5),
    "all null": ([None, None], pl.Int64, 0),
    "null type": ([None, None], pl.Int8, 0),
    "unsigned and huge": ([2**64 - 1, 1], pl.UInt64, 4),
    "small type": ([3, 3, 3, 3] * 50, pl.Int8, 600),
    "boolean": ([True, False, True], pl.Boolean, 2),
    "decimal": ([Decimal("2.9"), Decimal("1.1")], pl.Decimal(10, 2), 4),
    "float 32": ([1.0, math.nan, math.inf], pl.Float32, 4),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_no_value_is_too_odd(name):
    """Null, NaN and infinite values, values outside the domain and any numeric type follow the domain's rule."""
    values, dtype, expected = COLUMNS[name]
    assert total(levels(values, dtype)) == pytest.approx(expected, abs=1e-6)


def test_intervals_clip_and_fill():
    """On an interval values outside are read as the nearer end, null and NaN as `missing`."""
    scenario = pf.Scenario(pf.Secret("kwh", domain=pf.Interval(0, 10), missing=5), pf.Independent())
    frame = pl.DataFrame({"kwh": [None, math.nan, math.inf, -math.inf, 11.0, 2.5]})
    assert total(frame, scenario, "kwh") == pytest.approx(5 + 5 + 10 + 0 + 10 + 2.5, abs=1e-5)


def test_labels():
    """Labels are counted; unknown ones and null are read as the first."""
    scenario = pf.Scenario(pf.Secret("job", domain=["nurse", "clerk"]), pf.Independent())
    for dtype in (pl.String, pl.Categorical, pl.Enum(["nurse", "clerk", "thief"])):
        frame = pl.DataFrame({"job": pl.Series(["clerk", "thief", None, "nurse"], dtype=dtype)})
        found = pf.protect(frame, scenario).private_histogram("job").release(epsilon=SHARP).frame
        assert found["job_histogram_nurse"][0] == pytest.approx(3, abs=1e-6)
        assert found["job_histogram_clerk"][0] == pytest.approx(1, abs=1e-6)


def test_every_query_without_noise():
    """With hardly any noise each query gives what Polars gives."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"key": rng.integers(0, 3, 500), "level": rng.integers(0, 4, 500)})
    x = pl.col("level")
    found = (
        pf.protect(frame, LEVELS)
        .group_by("key")
        .private_sum("level")
        .private_mean("level")
        .private_count(x >= 3)
        .private_variance("level")
        .private_quantile("level", 0.5)
        .private_histogram("level")
        .private_sum(pl.when(x > 1).then(x * 2).otherwise(-1), name="odd")
        .release(epsilon=SHARP)
        .frame
    )
    plain = (
        frame.group_by("key")
        .agg(
            x.sum().alias("level_sum"),
            x.mean().alias("level_mean"),
            (x >= 3).sum().alias("level_count"),
            x.var(ddof=0).alias("level_variance"),
            x.quantile(0.5, "lower").alias("level_quantile_0.5"),
            *[(x == v).sum().alias(f"level_histogram_{v}") for v in range(4)],
            pl.when(x > 1).then(x * 2).otherwise(-1).sum().alias("odd"),
        )
        .sort("key")
    )
    assert found.columns == plain.columns
    for name in plain.columns[1:]:
        assert found[name].to_list() == pytest.approx(plain[name].to_list(), abs=1e-5), name


@pytest.mark.slow
def test_every_query_on_an_interval():
    """Sums, means, counts, variances, histograms and quantiles of an interval are what Polars gives."""
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({"key": rng.integers(0, 2, 400), "kwh": rng.uniform(0, 10, 400)})
    x = pl.col("kwh")
    edges = [0, 2, 5, 10]
    found = (
        pf.protect(frame, KWH)
        .group_by("key")
        .private_sum(x.clip(1, 9) * 2, name="clipped")
        .private_mean("kwh")
        .private_count(x >= 3)
        .private_variance("kwh")
        .private_histogram("kwh", bins=edges)
        .private_quantile("kwh", 0.5, bins=list(range(11)))
        .release(epsilon=SHARP)
        .frame
    )
    plain = (
        frame.group_by("key")
        .agg(
            (x.clip(1, 9) * 2).sum(), x.mean().alias("m"), (x >= 3).sum().alias("c"), x.var(ddof=0).alias("v"),
            *[((x >= a) & (x < b)).sum().alias(f"h{a}") for a, b in ((0, 2), (2, 5), (5, 10))],
            x.median().alias("q"),
        )
        .sort("key")
    )  # fmt: skip
    for mine, theirs in zip(found.columns[1:-1], plain.columns[1:-1], strict=True):
        assert found[mine].to_list() == pytest.approx(plain[theirs].to_list(), rel=1e-4), mine
    assert found[found.columns[-1]].to_list() == pytest.approx(plain["q"].to_list(), abs=0.3)


KEYS = {
    "whole numbers": ([3, 1, 2], None),
    "texts": (["b", "a", "ü\u2603"], None),
    "dates": ([date(2026, 1, 2), date(2026, 1, 1), None], None),
    "times": (
        [
            datetime.fromisoformat(text)
            for text in ("2026-01-01T05:00", "2026-01-01T04:00", "2025-01-01")
        ],
        None,
    ),
    "booleans": ([True, False, None], None),
    "decimals": ([Decimal("1.5"), Decimal(-2), None], pl.Decimal(10, 1)),
    "categories": (["b", "a", None], pl.Categorical),
    "floats": ([0.5, -1.0, math.nan], None),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_any_type(name):
    """Groups come in growing order, nulls first, in the type of their column, and given keys in the order given."""
    values, dtype = KEYS[name]
    keys = pl.Series("key", values, dtype=dtype)
    frame = pl.DataFrame({"key": keys, "level": [1, 2, 3]})
    batch = pf.protect(frame, LEVELS)
    found = batch.group_by("key").private_sum("level").release(epsilon=SHARP).frame
    assert found.schema["key"] == (pl.String if dtype == pl.Categorical else keys.dtype)
    assert found.height == 3
    expected = frame.with_columns(
        pl.col("key").cast(pl.String) if dtype == pl.Categorical else pl.col("key")
    )
    assert found["level_sum"].to_list() == pytest.approx(
        expected.sort("key", nulls_last=False)["level"].to_list(), abs=1e-6
    )
    given = (
        batch.group_by("key", keys=pl.DataFrame({"key": keys}))
        .private_sum("level")
        .release(epsilon=SHARP)
        .frame
    )
    assert given["level_sum"].to_list() == pytest.approx([1, 2, 3], abs=1e-6)


def test_empty_groups_are_noisy():
    """A key without rows has a noisy answer like any other: no gap, no infinity, and never the same number twice."""
    batch = pf.protect(levels([1, 2]), LEVELS).group_by("key", keys=[1, 7, 8])
    found = (
        batch.private_sum("level")
        .private_mean("level")
        .private_variance("level")
        .private_quantile("level", 0.5)
    )
    frame = found.release(epsilon=1.0).frame
    assert frame["key"].to_list() == [1, 7, 8]
    assert np.isfinite(frame.drop("key").to_numpy()).all()
    again = found.release(epsilon=1.0).frame
    assert frame["level_sum"].to_list() != again["level_sum"].to_list()


def test_empty_frames():
    """A frame without rows is answered with noise; grouped without keys it has no groups."""
    empty = pl.DataFrame(schema={"key": pl.Int64, "level": pl.Int64})
    assert pf.protect(empty, LEVELS).private_sum("level").release(epsilon=1.0).frame.height == 1
    grouped = pf.protect(empty, LEVELS).group_by("key").private_sum("level").release(epsilon=1.0)
    assert grouped.frame.shape == (0, 2)
    chain = pf.Scenario(
        pf.Secret("level", domain=[0, 1]),
        pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
        order_by="key",
        step=1,
    )
    assert pf.protect(empty, chain).private_sum("level").release(epsilon=1.0).frame.height == 1


def test_names_of_any_script():
    """Columns and keys may have any text as their name."""
    name = "Zähler ✓ {x}"
    scenario = pf.Scenario(pf.Secret(name, domain=[0, 1]), pf.Independent(), public=["日"])
    frame = pl.DataFrame({name: [0, 1], "日": ["a", "b"]})
    plan = pf.protect(frame, scenario).group_by("日").private_sum(name).plan(pf.Pure(1.0))
    assert plan.release().frame.columns == ["日", f"{name}_sum"]
    assert plan.summary().height == 2
    assert name in plan.explain()


@pytest.mark.slow
def test_many_groups():
    """A million groups are answered in one go."""
    rows = 1_000_000
    frame = pl.DataFrame({"key": np.arange(rows), "level": np.ones(rows, dtype=np.int8)})
    found = pf.protect(frame, LEVELS).group_by("key").private_sum("level").release(epsilon=1.0)
    assert found.frame.height == rows
    assert abs(found.frame["level_sum"].mean() - 1) < 0.1


def _failing():
    """A source that fails after its first rows, quoting one of them."""

    def rows(columns, *_):
        yield levels([1, 2, 3]).select(columns or ["key", "level"])
        raise RuntimeError("row 4 has the value 123456789")

    return pl.io.plugins.register_io_source(rows, schema={"key": pl.Int64, "level": pl.Int64})


def test_a_source_that_fails_tells_nothing():
    """Of an engine's failure nothing is passed on: no message, no cause and no context, which may quote data."""
    with pytest.raises(pf.SourceError) as caught:
        pf.protect(_failing(), LEVELS).private_sum("level").release(epsilon=1.0)
    assert "123456789" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


class Recorder:
    """An account that writes down what happens, in order."""

    def __init__(self):
        self.events, self.stored = [], None

    def find(self, release_id):
        self.asked = release_id
        return self.stored

    def reserve(self, ready, release_id):
        self.events.append(("reserve", release_id, ready.certificate.promise))
        self.cost = ready.cost
        return self

    entry = "entry 1"

    def certified(self, certificate):
        return msgspec.structs.replace(certificate, entry=self.entry)

    def commit(self, release):
        self.events.append(("commit", release.certificate.entry))
        return release


def test_the_cost_is_reserved_before_any_row_is_read(monkeypatch):
    """An account hears of a release before data is read, and again when it is done; a failure leaves the cost."""
    account = Recorder()
    collect = pl.LazyFrame.collect

    def counting(self, **options):
        account.events.append(("read",))
        return collect(self, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", counting)
    batch = pf.protect(levels([1, 2]), LEVELS).private_sum("level")
    release = batch.release(epsilon=1.0, account=account, id="monday")
    assert account.events == [("reserve", "monday", pf.Pure(1.0)), ("read",), ("commit", "entry 1")]
    assert release.certificate.entry == "entry 1"
    account.events.clear()
    with pytest.raises(pf.SourceError):
        pf.protect(_failing(), LEVELS).private_sum("level").release(epsilon=1.0, account=account)
    assert account.events == [("reserve", None, pf.Pure(1.0)), ("read",)]


def test_a_stored_release_is_not_drawn_again(monkeypatch):
    """Where the account knows the release already, it comes back and no row is read."""
    account = Recorder()
    batch = pf.protect(levels([1, 2]), LEVELS).private_sum("level")
    account.stored = batch.release(epsilon=1.0)
    monkeypatch.setattr(pl.LazyFrame, "collect", None)
    assert batch.release(epsilon=1.0, account=account, id="a") is account.stored


def test_nobody_is_counting():
    """Without an account certificate and repr say that nobody is counting."""
    release = pf.protect(levels([1, 2]), LEVELS).private_sum("level").release(epsilon=1.0)
    assert "nobody is counting" in repr(release)
    assert "nobody is counting" in str(release.certificate)


def test_certificates_and_releases_are_stored(tmp_path):
    """A release written to a folder is read back with the same numbers, bars and certificate."""
    frame = levels([1, 2, 3], keys=[1, 1, 2])
    release = (
        pf.protect(frame, LEVELS)
        .group_by("key")
        .private_sum("level")
        .private_mean("level")
        .release(epsilon=1.0)
    )
    back = pf.Release.read(release.write_parquet(tmp_path / "monday"))
    assert back.frame.equals(release.frame)
    assert back.intervals.equals(release.intervals)
    assert back.certificate == release.certificate
    assert pf.Certificate.from_json(release.certificate.to_json()) == release.certificate
    newer = json.loads(release.certificate.to_json()) | {"version": 99}
    with pytest.raises(pf.UsageError, match="newer"):
        pf.Certificate.from_json(json.dumps(newer))
    for text in ("{}", "", "null", "[1]", '{"version": 1}'):
        with pytest.raises(pf.UsageError):
            pf.Certificate.from_json(text)
    with pytest.raises(pf.SourceError):
        pf.Release.read(tmp_path / "nothing")


def test_the_engine_runs_once(monkeypatch):
    """A release reads once; a plan of independent rows reads nothing."""
    runs = []
    collect, private = polars_engine.collect, polars_engine.PRIVATE
    monkeypatch.setattr(
        polars_engine,
        "collect",
        lambda frame, what: (runs.append(1 if what == private else 2), collect(frame))[1],
    )
    plan = (
        pf.protect(levels([1, 2]), LEVELS).group_by("key").private_sum("level").plan(pf.Pure(1.0))
    )
    assert runs == []
    plan.release()
    assert runs == [1]


def test_sums_do_not_depend_on_the_order_of_rows():
    """Shuffled and split into chunks, the same rows have the same sums before noise, to the last bit."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.uniform(0, 1e-9, 1000), rng.uniform(0, 10, 1000)])
    frame = pl.DataFrame({"key": 1, "kwh": values})
    found = set()
    for order in (np.arange(2000), np.arange(2000)[::-1], rng.permutation(2000)):
        shuffled = pl.concat([frame[order[part::3].tolist()] for part in range(3)], rechunk=False)
        mechanism = pf.protect(shuffled, KWH).private_sum("kwh").plan(pf.Pure(1.0)).mechanism
        reading = PrivateReader(mechanism.request, mechanism.source)
        found.add(int(read_exact_sums(mechanism.noise, reading).sums[0, 0]))
    assert len(found) == 1
