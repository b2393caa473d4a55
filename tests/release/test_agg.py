"""`batch.agg(pl.col("level").puffer.sum())` is `batch.private_sum("level")`: one query, spelled in two ways."""

import inspect
import pickle

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.queries.query_expressions import KINDS, ExpressionQueries

ROWS = pl.DataFrame(
    {
        "day": [1, 1, 2, 2],
        "price": [1.0, 2.0, 3.0, 4.0],
        "level": [0, 3, 2, 1],
        "kwh": [0.5, 1.0, 2.0, 3.0],
        "hours": [0, 20, 40, 20],
        "wage": [15, 30, 30, 15],
    }
)
LEVEL = pl.col("level")


def of(secret, rows=ROWS):
    return pf.protect(rows, pf.Scenario(secret, pf.Independent(), public=["day", "price"]))


def levels():
    return of(pf.Secret("level", [0, 1, 2, 3])).group_by("day")


def kwh():
    return of(pf.Secret("kwh", pf.Interval(0, 4)))


def both():
    return of([pf.Secret("hours", domain=[0, 20, 40]), pf.Secret("wage", domain=[15, 30])])


def presence():
    return of(pf.Presence("day", "kwh", pf.Interval(0, 4), rows=2))


SAME = [
    (levels, LEVEL.puffer.sum(), lambda b: b.private_sum("level")),
    (levels, LEVEL.puffer.sum().alias("load"), lambda b: b.private_sum("level", "load")),
    (levels, LEVEL.puffer.sum("load"), lambda b: b.private_sum("level", "load")),
    (levels, LEVEL.alias("load").puffer.sum(), lambda b: b.private_sum(LEVEL.alias("load"))),
    (
        levels,
        (LEVEL.clip(0, 2) * 2).puffer.sum(),
        lambda b: b.private_sum(LEVEL.clip(0, 2) * 2),
    ),
    (
        levels,
        (LEVEL * pl.col("price")).puffer.sum(),
        lambda b: b.private_sum(LEVEL * pl.col("price")),
    ),
    (
        levels,
        (LEVEL >= 3).puffer.sum().alias("peaks"),
        lambda b: b.private_sum(LEVEL >= 3, "peaks"),
    ),
    (
        levels,
        LEVEL.puffer.sum(bounds={1: (0, 2)}, otherwise=(0, 3)),
        lambda b: b.private_sum("level", bounds={1: (0, 2)}, otherwise=(0, 3)),
    ),
    (levels, LEVEL.puffer.mean(), lambda b: b.private_mean("level")),
    (
        levels,
        LEVEL.puffer.mean(weights="price"),
        lambda b: b.private_mean("level", weights="price"),
    ),
    (
        levels,
        LEVEL.puffer.mean(bounds={1: (0, 2)}),
        lambda b: b.private_mean("level", bounds={1: (0, 2)}),
    ),
    (levels, (LEVEL >= 3).puffer.count(), lambda b: b.private_count(LEVEL >= 3)),
    (presence, pl.len().puffer.count(), lambda b: b.private_count()),
    (presence, pl.len().puffer.sum(), lambda b: b.private_count()),
    (presence, pl.len().alias("n").puffer.count(), lambda b: b.private_count(name="n")),
    (presence, pl.len().puffer.count().alias("n"), lambda b: b.private_count(name="n")),
    (levels, LEVEL.puffer.median(), lambda b: b.private_median("level")),
    (
        kwh,
        pl.col("kwh").puffer.median(bins=[1, 2]),
        lambda b: b.private_median("kwh", bins=[1, 2]),
    ),
    (levels, LEVEL.puffer.quantile(0.9), lambda b: b.private_quantile("level", 0.9)),
    (levels, LEVEL.puffer.quantile(q=0), lambda b: b.private_quantile("level", 0)),
    (
        kwh,
        pl.col("kwh").puffer.quantile(0.9, bins=[1, 2]),
        lambda b: b.private_quantile("kwh", 0.9, bins=[1, 2]),
    ),
    (levels, LEVEL.puffer.histogram(), lambda b: b.private_histogram("level")),
    (
        kwh,
        pl.col("kwh").puffer.histogram("h", bins=[1, 2]),
        lambda b: b.private_histogram("kwh", "h", bins=[1, 2]),
    ),
    (levels, LEVEL.puffer.variance(), lambda b: b.private_variance("level")),
    (
        both,
        pl.col("hours").puffer.covariance("wage"),
        lambda b: b.private_covariance("hours", "wage"),
    ),
    (
        both,
        pl.col("hours").puffer.covariance(pl.col("wage"), "together"),
        lambda b: b.private_covariance("hours", pl.col("wage"), "together"),
    ),
]
"""A batch, a query of an expression, and the same query as a method."""
METHODS = {
    name.removeprefix("private_") for name in vars(pf.Batch) if name.startswith("private_")
} - {"local"}
"""The queries that a batch has; rows published one by one are none."""


@pytest.mark.parametrize(("batch", "query", "method"), SAME, ids=[str(case[1]) for case in SAME])
def test_a_query_of_an_expression_is_the_method(batch, query, method):
    """It makes the same request and the same plan: its name, its noise, its cost."""
    first, second = batch().agg(query), method(batch())
    assert first.request.digest == second.request.digest
    assert first.request.outputs == second.request.outputs
    plans = [one.plan(pf.Pure(1.0)) for one in (first, second)]
    assert plans[0].name == plans[1].name
    assert plans[0].noises == plans[1].noises


def test_every_query_of_a_batch_has_an_expression():
    """A method `private_…` that is added needs a query of the same name, and a case above."""
    assert set(KINDS) == METHODS == {query.kind for _, query, _ in SAME}


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_are_those_of_the_method(kind):
    """They have the same names, order, kinds and defaults; the first one of the method is the expression."""
    own = list(inspect.signature(getattr(ExpressionQueries, kind)).parameters.values())[1:]
    method = inspect.signature(getattr(pf.Batch, f"private_{kind}")).parameters.values()
    assert own == list(method)[2:]


def test_queries_are_given_as_polars_takes_them():
    """One by one, by name, in lists, tuples and generators, one after the other."""
    wanted = levels().private_sum("level").private_mean("level", "m").request.digest
    total, mean = LEVEL.puffer.sum(), LEVEL.puffer.mean()
    for batch in (
        levels().agg(total, mean.alias("m")),
        levels().agg(total, m=mean),
        levels().agg([total, mean.alias("m")]),
        levels().agg((total,), m=mean.alias("another")),
        levels().agg(one for one in (total, mean.alias("m"))),
        levels().agg(total).agg(m=mean),
        levels().private_sum("level").agg(m=mean),
        levels().agg(pf.query("level").sum(), m=pf.query(LEVEL).mean()),
    ):
        assert batch.request.digest == wanted


def test_a_named_query_may_be_called_anything():
    """Names of the arguments of a method are names of answers, too."""
    batch = levels().agg(self=LEVEL.puffer.sum(), queries=LEVEL.puffer.mean())
    assert batch.request.outputs == ("self", "queries")


def test_the_namespace_of_a_frame_leads_to_a_release():
    """`frame.puffer.protect(scenario).group_by("day").agg(…)` is planned and released like any batch."""
    scenario = levels().request.scenario
    release = (
        ROWS.lazy().puffer.protect(scenario).group_by("day").agg(load=LEVEL.puffer.sum())
    ).release(epsilon=50.0)
    assert release.frame.columns == ["day", "load"]
    assert (release.frame["load"] - pl.Series([3.0, 3.0])).abs().max() < 2


REFUSED = {
    "a sum of Polars": (LEVEL.sum(), 'pl.col("level").puffer.sum()'),
    "a mean of Polars": (LEVEL.mean(), 'pl.col("level").puffer.mean()'),
    "a named sum": (LEVEL.sum().alias("m"), 'pl.col("level").puffer.sum()'),
    "var": (LEVEL.var(), 'pl.col("level").puffer.variance()'),
    "std": (LEVEL.std(), 'private_variance("level")'),
    "max": (LEVEL.max(), 'private_quantile("level", 0.99)'),
    "count": (LEVEL.count(), 'private_count(pl.col("level") >= 3)'),
    "a quantile": (LEVEL.quantile(0.3), 'pl.col("level").puffer.quantile(0.5)'),
    "a column": (LEVEL, 'pl.col("level").puffer.sum()'),
    "a name": ("level", 'pl.col("level").puffer.sum()'),
    "no query yet": (LEVEL.puffer, 'pl.col("level").puffer.sum()'),
    "all rows": (pl.len(), "pl.len().puffer.count()"),
    "a frame": (ROWS, 'pl.col("level").puffer.sum()'),
    "a batch": (levels(), 'pl.col("level").puffer.sum()'),
    "None": (None, 'pl.col("level").puffer.sum()'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused_with_the_query(name):
    """Exact answers of Polars, columns and frames are refused, and the error says what to type; nothing is added."""
    given, instead = REFUSED[name]
    for refused in (lambda: levels().agg(given), lambda: levels().agg(x=given)):
        with pytest.raises(pf.UsageError, match="agg is given") as caught:
            refused()
        assert caught.value.instead.startswith(instead)


def test_medians_of_an_interval_are_shown_with_bins():
    """What the error says to type runs, where a median needs bins."""
    with pytest.raises(pf.UsageError) as caught:
        kwh().agg(pl.col("kwh").median())
    typed = caught.value.instead.partition(", or ")[0]
    query = eval(typed, {"pl": pl})  # noqa: S307 - the text of an error of our own
    assert kwh().agg(query).request.outputs == ("kwh_median",)


@pytest.mark.parametrize("nothing", [(), ([],), ([], ())])
def test_no_query_is_refused(nothing):
    """An empty list is no query either."""
    with pytest.raises(pf.UsageError, match="agg is given no query"):
        levels().agg(*nothing)


def test_names_are_used_once():
    """Two queries of one name are refused, as methods are; so is a group_by after a query."""
    with pytest.raises(pf.UsageError, match="two columns 'level_sum'"):
        levels().agg(LEVEL.puffer.sum(), LEVEL.puffer.sum())
    with pytest.raises(pf.UsageError, match="group_by after a query"):
        of(pf.Secret("level", [0, 1, 2, 3])).agg(LEVEL.puffer.sum()).group_by("day")


def test_errors_of_queries_are_those_of_the_methods():
    """What a method refuses, agg refuses with the same words."""
    for query, method in (
        (pl.col("price").puffer.sum(), lambda b: b.private_sum("price")),
        (LEVEL.puffer.quantile(90), lambda b: b.private_quantile("level", 90)),
        (LEVEL.puffer.count(), lambda b: b.private_count(LEVEL)),
        (LEVEL.shift(1).puffer.sum(), lambda b: b.private_sum(LEVEL.shift(1))),
        (pl.len().puffer.count(), lambda b: b.private_count()),
    ):
        with pytest.raises(pf.PufferflowError) as first:
            levels().agg(query)
        with pytest.raises(pf.PufferflowError) as second:
            method(levels())
        assert str(first.value) == str(second.value)


def test_a_query_is_a_frozen_value_without_operators():
    """It shows how it is typed, can be pickled, and is computed with before or after, not in between."""
    query = LEVEL.puffer.mean(weights="price").alias("m")
    assert repr(query) == 'pl.col("level").puffer.mean(weights=\'price\').alias("m")'
    assert eval(repr(query), {"pl": pl}).name == "m"  # noqa: S307 - our own text
    with pytest.raises(AttributeError):
        query.name = "n"
    assert levels().agg(pickle.loads(pickle.dumps(query))).request.outputs == ("m",)
    for compute in (lambda: query * 2, lambda: 1 - query, lambda: query / query, lambda: query > 1):
        with pytest.raises(pf.UsageError, match="cannot be part of a calculation"):
            compute()
    with pytest.raises(TypeError):
        ROWS.select(query)


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        ("level.puffer.std()", 'private_variance("level")'),
        ("level.puffer.dp_max()", 'private_quantile("level", 0.99)'),
        ("level.puffer.summ()", "sum"),
        ("level.puffer.local()", 'private_local("level")'),
        ('level.puffer.alias("m")', ".puffer.sum().alias("),
        ("level.puffer.sum(epsilon=1.0)", ".plan(pf.Pure(1.0))"),
        ("level.puffer.quantile()", "puffer.quantile(q, name, bins)"),
        ('level.puffer.sum().over("day")', '.group_by("day").agg('),
        ("pf.query()", 'pf.query("level").sum()'),
        ("pf.query(3)", 'pf.query("level").sum()'),
        ("rows.puffer.agg(level.puffer.sum())", "frame.puffer.protect(scenario).agg("),
    ],
)
def test_names_and_arguments_that_are_not_there(wrong, instead):
    """What was probably meant is named."""
    with pytest.raises(pf.UsageError) as caught:
        eval(wrong, {"pf": pf, "level": LEVEL, "rows": ROWS})  # noqa: S307 - our own text
    assert instead in str(caught.value)
