"""Planning reads public columns, showing a plan reads nothing, and releasing reads private rows exactly once."""

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

ROWS = pl.DataFrame(
    {
        "meter": [1] * 8 + [2] * 8,
        "hour": [*range(8)] * 2,
        "day": [0, 0, 0, 0, 1, 1, 1, 1] * 2,
        "on": [0, 1] * 8,
    }
)
ON = pf.Secret("on", domain=[0, 1])
CHAIN = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
CLASSES = pf.LatentClass([0.5, 0.5], rows=[[0.8, 0.2], [0.3, 0.7]])
TIED = {
    "chain": CHAIN,
    "classes": CLASSES,
    "any correlation": pf.AnyCorrelation(),
    "both": [CLASSES, CHAIN],
}
BATCHES = {
    "all rows": lambda batch: batch,
    "days of the rows": lambda batch: batch.group_by("day"),
    "declared days": lambda batch: batch.filter(pl.col("hour") > 1).group_by("day", keys=[0, 1, 2]),
}


@pytest.fixture
def reads(monkeypatch):
    """A list of the queries that are run on the rows, each as "private" or "public"."""
    runs = []

    def watched(name):
        true = getattr(pl.LazyFrame, name)

        def read(self, *args, **options):
            query = self.explain()
            if 'DF ["meter", "hour"' in query:  # others are about what was read
                runs.append("private" if f'col("{ON.column}")' in query else "public")
            return true(self, *args, **options)

        return read

    for name in (
        "collect",
        "collect_async",
        "collect_batches",
        "sink_parquet",
        "sink_csv",
        "sink_ipc",
        "sink_ndjson",
    ):
        monkeypatch.setattr(pl.LazyFrame, name, watched(name))
    return runs


def planned(prior, batch):
    scenario = pf.Scenario(ON, prior, order_by="hour", within="meter", public=["day"])
    return batch(pf.protect(ROWS.lazy(), scenario)).private_sum("on").plan(pf.Pure(1.0))


@pytest.mark.parametrize("name", thinned(BATCHES, 0.5))
@pytest.mark.parametrize("prior", thinned(TIED, 0.5))
def test_a_plan_reads_public_columns_and_a_release_private_rows_once(prior, name, reads):
    """Nothing that a plan shows reads anything more; a release compares public facts, then reads, and compares."""
    plan = planned(TIED[prior], BATCHES[name])
    assert reads
    assert set(reads) == {"public"}
    reads.clear()
    shown(plan)
    assert reads == []
    plan.release()
    assert reads.count("private") == 1
    assert reads[0] == "public"
    assert reads[-1] == "public"


def test_rows_in_order_are_read_once(reads):
    """Patterns where rows stand, up to shifts, and without order come from one query, after the fingerprint of rows."""
    planned([CLASSES, CHAIN], BATCHES["all rows"])
    assert reads == ["public"] * 2


def test_independent_rows_are_read_once_in_all(reads):
    """Where rows reveal nothing about each other, a plan reads nothing, and a release the private rows alone."""
    plan = planned(pf.Independent(), BATCHES["days of the rows"])
    assert (repr(plan), plan.noises, plan.cost, plan.certificate) is not None
    assert reads == []
    plan.release()
    assert reads == ["private"]


@pytest.mark.parametrize("bounds", [None, {0: (0, 1), 1: (0, 0.5)}])
@pytest.mark.parametrize("prior", TIED)
def test_weights_are_read_once(prior, bounds, reads):
    """Weights and cells come from one query, which counts cells elsewhere; rows in order need one more for places.

    A release finds by their fingerprint that rows have the same weights, as it does without any.
    """
    scenario = pf.Scenario(ON, TIED[prior], order_by="hour", within="meter", public=["day"])
    batch = pf.protect(ROWS.lazy(), scenario).group_by("day")
    batch.private_sum("on").plan(pf.Pure(1.0))
    without = len(reads)
    reads.clear()
    asked = pl.col("on") * pl.col("hour") if bounds is None else "on"
    plan = batch.private_sum(asked, bounds=bounds).plan(pf.Pure(1.0))
    assert len(reads) == without + any(one.ordered for one in scenario.priors)
    reads.clear()
    plan.release()
    assert reads == ["public", "private", "public"]


def shown(plan):
    return (
        repr(plan),
        plan.noises,
        plan.cost,
        plan.certificate,
        plan.rows,
        plan.explain(),
        plan.summary(),
        plan.evidence(),
    )
