"""What is the same sum whatever the rows is one, under whatever names it is asked for, and is paid for once."""

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

X = pl.col("x")
ASKED = {
    "sum": lambda batch: batch.private_sum("x", name="a"),
    "mean": lambda batch: batch.private_mean("x", name="b"),
    "count of ones": lambda batch: batch.private_count(X == 1, name="c"),
    "count above nothing": lambda batch: batch.private_count(X > 0, name="d"),
    "count of what is no zero": lambda batch: batch.private_count(X != 0, name="e"),
    "sum of a predicate": lambda batch: batch.private_sum((X >= 1).cast(pl.Int64), name="f"),
    "once more": lambda batch: batch.private_sum(X * 1, name="g"),
}
ORDINARY = "sum", "mean", "count of ones"


def batch_of(domain, secret=None, values=(0, 1, 1)):
    """Return a batch about a few rows."""
    chosen = pf.Secret("x", domain) if secret is None else secret
    frame = pl.DataFrame({"x": values, "unit": range(len(values))})
    return pf.protect(
        frame, pf.Scenario(chosen, pf.Independent(), public="day" if "day" in frame.columns else ())
    )


def presence(domain):
    """Return a secret whose number of rows is private."""
    return pf.Presence("unit", "x", domain, rows=1)


def planned(batch, *names):
    """Return the plan of some questions."""
    for name in names:
        batch = ASKED[name](batch)
    return batch.plan(pf.Pure(1.0))


@pytest.mark.parametrize("other", [name for name in ASKED if name != "sum"])
def test_one_sum_is_paid_for_once(other):
    """Of zeros and ones all these are the same sum: one noise, as small as for one question, in one noisy number."""
    alone, both = planned(batch_of([0, 1]), "sum"), planned(batch_of([0, 1]), "sum", other)
    assert len(both.certificate.sums) == 1
    assert {noise.scale for noise in both.noises.values()} == {alone.noises["a"].scale}
    assert both.cost.shape.values == alone.cost.shape.values
    assert both.ordinary.epsilon == pytest.approx(1.0)
    found = both.release()
    first, second = found.frame.row(0)
    assert first == pytest.approx(second * (3 if other == "mean" else 1))
    ends = found.intervals.row(0)
    assert ends[0] < first < ends[1]
    assert ends[:2] == pytest.approx([end * (3 if other == "mean" else 1) for end in ends[2:]])


def test_all_names_of_one_sum():
    """In any number and order; each query still says what it was asked."""
    plan = planned(batch_of([0, 1]), *reversed(ASKED))
    assert len(plan.certificate.sums) == 1
    assert [query.sums for query in plan.certificate.queries] == [(0,)] * len(ASKED)
    assert len({query.query for query in plan.certificate.queries}) > 3


@pytest.mark.parametrize("domain", [[0, 1, 2], [0, 1, -1], ["0", "1"], pf.Interval(0, 1)], ids=str)
def test_what_differs_at_one_value_is_not_one_sum(domain):
    """Ones are counted apart from what is added up wherever a row may have another value; so are ones and twos."""
    batch = batch_of(domain, values=[0.5] if isinstance(domain, pf.Interval) else domain)
    one = batch.private_count(domain[1] == X if isinstance(domain, list) else X >= 1)
    two = (
        one.private_count(domain[1] != X, name="other")
        if domain == ["0", "1"]
        else one.private_sum("x")
    )
    assert len(two.plan(pf.Pure(1.0)).certificate.sums) == 2


@pytest.mark.parametrize(
    ("scaled", "sums"), [(X * 2, 2), (X + 1, 2), (-X, 2), (X.clip(0, 1), 1)], ids=str
)
def test_multiples_are_sums_of_their_own(scaled, sums):
    """Functions are compared with their unit, as they are."""
    plan = batch_of([0, 1]).private_sum("x").private_sum(scaled, name="other").plan(pf.Pure(1.0))
    assert len(plan.certificate.sums) == sums


def test_bars_that_are_counts():
    """A bar of a histogram is the count of its value, on an interval that of its class."""
    listed = (
        batch_of([0, 1, 2])
        .private_histogram("x")
        .private_count(X == 2)
        .private_count(X.is_in([2]), name="two")
    )
    assert len(listed.plan(pf.Pure(1.0)).certificate.sums) == 3
    classes = (
        batch_of(pf.Interval(0, 4)).private_histogram("x", bins=[0, 1, 4]).private_count(X >= 1)
    )
    assert len(classes.plan(pf.Pure(1.0)).certificate.sums) == 2


def test_booleans():
    """The sum of a Boolean column counts what is true."""
    batch = batch_of([False, True], values=[True, False, True])
    plan = (
        batch.private_mean("x")
        .private_count(X, name="n")
        .private_count(X.not_().not_(), name="m")
        .plan(pf.Pure(1))
    )
    assert len(plan.certificate.sums) == 1


@pytest.mark.parametrize(
    "domain", thinned([[0, 1], [-1, 0, 3], pf.Interval(-1, 1), pf.Interval(0, 9)], 0.25), ids=str
)
@pytest.mark.parametrize("names", [("sum", "mean"), ("mean", "sum")])
def test_mean_and_sum_where_the_number_of_rows_is_private(domain, names):
    """The mean is made of the sum that is asked for as well, and of the number of rows."""
    batch = batch_of(domain, presence(domain))
    plan = planned(batch, *names)
    assert len(plan.certificate.sums) == 2
    assert (
        plan.noises["a"].scale
        < planned(batch.private_variance("x", name="v"), *names).noises["a"].scale
    )
    counted = (
        ASKED["mean"](ASKED["sum"](batch)).private_count(name="n").plan(pf.Pure(1.0)).release()
    )
    total, mean, rows = counted.frame.row(0)
    least, most = (
        (domain.low, domain.high) if isinstance(domain, pf.Interval) else (min(domain), max(domain))
    )
    assert mean == pytest.approx(min(max(total / max(rows, 1), least), most))


def test_means_far_from_nothing_stay_centred():
    """Where values are far from 0 the mean keeps its own sum: the noise of the number of rows would count for much."""
    domain = pf.Interval(1000, 1001)
    assert len(planned(batch_of(domain, presence(domain)), "sum", "mean").certificate.sums) == 3


def test_a_property_of_every_row_is_the_number_of_rows():
    """Where that number is private, whether asked about by a property or not; null is read as a value too."""
    batch = batch_of([0, 1], presence([0, 1]), values=[0, None, 1])
    plan = batch.private_count(X >= 0, name="all").private_count(name="n").plan(pf.Pure(1.0))
    assert len(plan.certificate.sums) == 1
    assert (
        plan.noises["n"].scale == batch.private_count(name="n").plan(pf.Pure(1.0)).noises["n"].scale
    )
    found = plan.release().frame.row(0)
    assert found[0] == found[1]


def test_sums_of_ones_are_the_number_of_rows_in_any_order():
    """Where rows are private, a property that every row has counts them; whichever is asked for first."""
    frame, x = pl.DataFrame({"u": [0, 1, 2], "x": [0, 1, 1]}), pl.col("x")
    batch = pf.protect(frame, pf.Scenario(pf.Presence("u", "x", [0, 1], rows=1), pf.Independent()))
    for both in (
        batch.private_count(x >= 0, name="all").private_count(name="n"),
        batch.private_count(name="n").private_count(x >= 0, name="all"),
    ):
        found = both.plan(pf.Pure(1.0)).release().frame
        assert found["all"][0] == found["n"][0]
