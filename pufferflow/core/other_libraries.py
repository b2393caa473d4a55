"""Calls that users of Polars and of other libraries type, with the same calls in this library.

Every row runs, for a sensitive column "level", public columns "meter", "day" and "at", a batch, a plan or a release.
These names are examples: an error shows the columns of the batch in their place.
"""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, str]] = {
    "protect": "pf.protect(frame, scenario)",
    "Scenario": 'pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), prior=pf.Independent())',
    "Secret": 'pf.Secret("level", domain=[0, 1, 2, 3]), or domain=pf.Interval(0, 100)',
    "Initial": 'pf.Initial("level", domain=[0, 1, 2, 3])',
    "Presence": 'pf.Presence("meter", column="level", domain=pf.Interval(0, 100), rows=10)',
    "Derived": 'pf.Derived("diagnosis")',
    "Interval": "pf.Interval(0, 10)",
    "Bins": "pf.Bins([0, 1, 5], values=[0.5, 3])",
    "WithinDistance": "pf.WithinDistance(2)",
    "Within": "pf.Within(5, confidence=0.95)",
    "Pure": "pf.Pure(1.0)",
    "Approx": "pf.Approx(1.0, 1e-6)",
    "Renyi": "pf.Renyi(4, 1.0), with alpha and epsilon",
    "ApproxRenyi": "pf.ApproxRenyi(4, 1.0, 1e-6), with alpha, epsilon and delta",
    "Zcdp": "pf.Zcdp(0.5), with rho",
    "Gdp": "pf.Gdp(1.0), with mu",
    "TradeOff": "pf.TradeOff(1.0, 1e-6, tv=0.3), with epsilon, delta and tv",
    "Tv": "pf.Tv(0.3)",
    "Profile": "pf.tradeoff.Profile(1.0, tv=0.3)",
    "Laplace": "pf.Laplace(1.0)",
    "Gaussian": "pf.Gaussian(1.0)",
    "GWM": "pf.GWM()",
    "GAWM": "pf.GAWM(1e-3)",
    "MarkovChain": 'pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]], initial="stationary")',
    "Table": 'pf.Table({"ill": [0, 1], "probability": [0.9, 0.1]})',
    "Independent": "pf.Independent()",
    "AnyCorrelation": "pf.AnyCorrelation()",
    "Ledger": 'pf.Ledger("ledger.db")',
    "open": 'ledger.open("power", scenario, limit=pf.Pure(3.0))',
    "plan": "plan(pf.Pure(1.0))",
    "release": 'batch.release(epsilon=1.0), or plan.release(account, "monday")',
    "private_sum": 'private_sum("level")',
    "private_mean": 'private_mean("level")',
    "private_count": 'private_count(pl.col("level") >= 3)',
    "private_histogram": 'private_histogram("level")',
    "private_variance": 'private_variance("level")',
    "private_covariance": 'private_covariance("hours", "wage")',
    "private_median": 'private_median("level")',
    "private_quantile": 'private_quantile("level", 0.5)',
    "private_local": 'private_local("level")',
}
"""Calls that fit, by the class or function that is called."""


def _each(**ways: str) -> dict[str, str]:
    """Return a table with a row for each name of one whose keys are several names, with two underscores between."""
    return {name: way for names, way in ways.items() for name in names.split("__")}


_DOMAIN: Final = (
    'pf.Secret("level", domain=pf.Interval(0, 10)) in the scenario: values are read within these bounds; those of one '
    'group by private_sum("level", bounds={"north": (0, 5)}) after a group_by'
)
_UNIT: Final = 'pf.Presence("meter", rows=10) as the secret: at most so many rows of one meter are read'
_PROMISE: Final = ".plan(pf.Pure(1.0)) or .release(epsilon=1.0), after all queries: one guarantee for all of them"
_SCALE: Final = "plan(pf.Pure(1.0)), which finds the scale, or plan(accuracy=pf.Within(5)) for an error"
_RANDOM: Final = "nothing: noise of a release comes from the system's random bits"
_VALUES: Final = _each(
    bounds__limits__range__lower__upper__low__high__min__max="domain=pf.Interval(0, 10)",
    values__categories__labels__levels__states="domain=[0, 1, 2, 3]",
    neighbours__neighbors='pairs="adjacent", or pf.WithinDistance(2)',
    fill_null__null_value__default="missing=0",
)
_WEIGHTS: Final = 'private_mean("level", weights="price"), or private_sum(pl.col("level") * pl.col("price"))'
_PLAN: Final = _each(
    eps__budget__privacy_budget="epsilon=1.0",
    delta="plan(pf.Approx(1.0, 1e-6)), with epsilon and delta",
    alpha__order="plan(pf.Renyi(4, 1.0)), with alpha and epsilon",
    rho="plan(pf.Zcdp(0.5))",
    mu="plan(pf.Gdp(1.0))",
    tv="plan(pf.TradeOff(1.0, 1e-6, tv=0.3)), or plan(pf.Tv(0.3))",
    sensitivity__scale__sigma__noise_multiplier__noise_scale=_SCALE,
    within__error__max_error__confidence="plan(accuracy=pf.Within(5))",
    mechanism__family='noise="laplace"',
    weights__budgets='shares={"level_sum": 2, "level_mean": 1}',
    seed__rng__random_state=_RANDOM,
)
ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "private": _each(
        bounds__limits__range__lower__upper__low__high__min__max__clip__clamp__min_value__max_value=_DOMAIN,
        epsilon__eps__delta__budget__privacy_budget__guarantee=_PROMISE,
        sensitivity__scale__sigma__noise_multiplier__noise_scale__stddev=_SCALE,
        mechanism__noise='.plan(pf.Pure(1.0), noise="laplace"), after all queries',
        max_contributions__max_partitions_contributed__max_contributions_per_partition=_UNIT,
        privacy_id__privacy_unit__user_id__unit=_UNIT,
        share__shares='.plan(pf.Pure(1.0), shares={"level_sum": 2, "level_mean": 1}), after all queries',
        weight__weights__sample_weight=_WEIGHTS,
        seed__rng__random_state=_RANDOM,
        where__predicate__condition='.filter(pl.col("day") == 1), before the query',
        by__over__group_by='.group_by("day"), before the query',
        alias__output='name="load"',
        quantile__percentile__p="q=0.5",
    ),
    "plan": {**_PLAN, **_each(account__ledger__id='.plan(pf.Pure(1.0)).release(account, "monday")')},
    "release": _PLAN,
    "group_by": _each(
        maintain_order="nothing: groups come in growing order, or in that of keys",
        others__rest__remaining__default='.group_by("day", keys=[1, 2], other=-1)',
    ),
    "Secret": _VALUES,
    "Initial": _VALUES,
    "Presence": {
        **_VALUES,
        **_each(
            unit__user__person__privacy_unit='"meter"',
            max_rows__max_contributions="rows=10",
            max_groups__max_partitions__max_partitions_contributed="rows=1, groups=7, by='day'",
        ),
    },
    "Interval": _each(lower__min__start__left="low=0", upper__max__stop__end__right="high=10"),
    "Scenario": _each(
        secrets__sensitive__column__domain='secret=pf.Secret("level", domain=[0, 1, 2, 3])',
        priors__belief__model="prior=pf.Independent(), or a list of priors",
        group_by__by__groups__unit__partition_by='within="meter"',
        order__time__index__sort_by__timestamp='order_by="at"',
        every__freq__frequency__resolution='step="1h"',
        epsilon__eps__delta=_PROMISE,
    ),
    "MarkovChain": _each(P__matrix__transitions__kernel="transition=[[0.9, 0.1], [0.2, 0.8]]"),
    "Laplace": _each(epsilon__sensitivity="pf.Laplace(sensitivity / epsilon), or pf.calibrate for a guarantee"),
    "Gaussian": _each(sigma__std__stddev="scale=1.0", epsilon__sensitivity__delta="pf.calibrate, for a guarantee"),
    "Pure": _each(
        eps="pf.Pure(epsilon=1.0)", delta="pf.Approx(1.0, 1e-6)", alpha="pf.Renyi(4, 1.0)", rho="pf.Zcdp(0.5)"
    ),
    "Zcdp": _each(epsilon__eps="pf.Zcdp(0.5), with rho"),
    "Gdp": _each(epsilon__eps__sigma="pf.Gdp(1.0), with mu"),
}
"""Arguments elsewhere, by the class or method that is called here; "private" stands for all queries."""

_AFTER: Final = ", after a query"
_FRAME: Final = _each(
    select='select("level_sum")',
    head__limit__first="head()",
    tail__last="tail()",
    sort='sort("level_sum")',
    slice="slice(0, 5)",
    pivot='pivot("day", values="level_sum")',
    to_pandas="to_pandas()",
    to_arrow="to_arrow()",
    to_numpy="to_numpy()",
    to_dicts__iter_rows__rows="to_dicts()",
    columns__width="columns",
)
VERBS: Final = _each(
    sum__total='private_sum("level")',
    mean__avg__average='private_mean("level")',
    count__len__size__height__shape__n__any__all='private_count(pl.col("level") >= 3)',
    rate__share__fraction__proportion__ratio='private_mean(pl.col("level") >= 3)',
    median='private_median("level")',
    quantile='private_quantile("level", 0.9)',
    histogram__cut__qcut__binned='private_histogram("level")',
    variance='private_variance("level")',
    corr__cor__correlation__pearson_corr__spearman_corr__cov__covariance=(
        'private_covariance("hours", "wage"), with two columns that the secret lists; divided by the roots of both '
        "variances it is their correlation"
    ),
    iqr__spread='private_quantile("level", 0.25).private_quantile("level", 0.75)',
    clip__clamp='private_sum(pl.col("level").clip(0, 2))',
    cum_sum__cumsum__rolling_mean__rolling_sum__ewm_mean=(
        'group_by(date=pl.col("at").dt.truncate("1d")).private_sum("level"), and running sums of the release\'s frame'
    ),
    min__minimum='private_quantile("level", 0.01): the least value itself is the secret of one row',
    max__maximum='private_quantile("level", 0.99): the largest value itself is the secret of one row',
    std__stddev__stdev='private_variance("level"), and the root of its answer',
    var='private_variance("level")',
    hist__value_counts='private_histogram("level")',
    mode__top_k__topk__bottom_k__argmax__arg_max__argmin__arg_min__most_common=(
        'private_histogram("level"), and the largest of its numbers'
    ),
    unique__n_unique__nunique__distinct__count_distinct__approx_n_unique__n_distinct=(
        'private_histogram("level"), and the values whose numbers stand out of the noise'
    ),
    quantiles__percentile__quartile='private_quantile("level", 0.9)',
    describe__summary='private_mean("level").private_quantile("level", 0.1).private_quantile("level", 0.9)',
)
"""Queries elsewhere, whatever stands before them, as in `dp_sum`."""
ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Batch": {
        **VERBS,
        **{name: f".release(epsilon=1.0).frame.{call}{_AFTER}" for name, call in _FRAME.items()},
        **_each(
            collect__fetch__frame__result__execute__run__show__to_frame__to_polars=f".release(epsilon=1.0).frame{_AFTER}",
            write_csv__write_parquet__write_ndjson__sink_parquet__sink_csv=(
                f'.release(epsilon=1.0).write_parquet("monday"){_AFTER}'
            ),
            epsilon__delta__guarantee__promise__budget=f".plan(pf.Pure(1.0)).guarantee{_AFTER}",
            noise__noises__scale__sensitivity=f".plan(pf.Pure(1.0)).noises{_AFTER}",
            domain__domains__bounds__columns="batch.request.domains, which are declared in the scenario",
            agg__aggregate='.group_by("day").private_sum("level").private_mean("level")',
            group_by_dynamic__resample__rolling__upsample='.group_by(date=pl.col("at").dt.truncate("1d"))',
            groupby__partition_by__over='.group_by("day")',
            where__query__remove='.filter(pl.col("day") == 1)',
            assign__with_column='.with_columns(week=pl.col("day") // 7)',
            join='pf.protect(frame.join(others, on="meter", how="left"), scenario), or a join of the release\'s frame',
            rename='pf.protect(frame.rename({"old": "new"}), scenario), or name="load" in a query',
            cast__drop__with_row_index='pf.protect(frame.cast({"level": pl.Int64}), scenario)',
            drop_nulls__fill_null__drop_nans='pf.Secret("level", domain=[0, 1, 2, 3], missing=1) says what null is',
            schema__collect_schema__dtypes="batch.request.schema",
            build__evaluate__spend__quick_build=f".plan(pf.Pure(1.0)).release(){_AFTER}",
            explain__compare__summary=f".plan(pf.Pure(1.0)).explain(){_AFTER}",
            report=f'.plan(pf.Pure(1.0)).report("plan.html"){_AFTER}',
        ),
        "[…]": f'.private_sum("level"), or .release(epsilon=1.0).frame["level_sum"]{_AFTER}',
        "len()": 'private_count(pl.col("level") >= 3)',
    },
    "Plan": _each(
        collect__frame__result__execute__run="plan.release().frame",
        write__save__to_html='plan.report("plan.html")',
        describe__text="plan.explain()",
        noise__scale__scales="plan.noises",
        error__errors__intervals="plan.summary()",
        epsilon__delta__promise="plan.guarantee",
        sensitivity__loss__bound="plan.calibration",
    )
    | {"[…]": 'plan.release().frame["level_sum"], or plan.noises["level_sum"]', "len()": "plan.summary().height"},
    "Release": {
        **{name: f"release.frame.{call}" for name, call in _FRAME.items()},
        **_each(
            collect__result__answers__values__data="release.frame",
            height__shape="release.frame.shape",
            write__save__to_parquet__sink_parquet='release.write_parquet("monday")',
            to_csv__sink_csv='release.write_csv("monday")',
            error__errors__error_bars="release.intervals",
            epsilon__delta__guarantee__promise="release.certificate.promise",
            explain__describe="print(release.certificate)",
        ),
        "[…]": 'release.frame["level_sum"]',
        "len()": "release.frame.height",
    },
    "Puffer": {
        **{name: f"frame.puffer.protect(scenario).{way}" for name, way in VERBS.items()},
        **_each(
            filter='frame.puffer.protect(scenario).filter(pl.col("day") == 1)',
            group_by='frame.puffer.protect(scenario).group_by("day")',
            with_columns='frame.puffer.protect(scenario).with_columns(week=pl.col("day") // 7)',
            plan__release="frame.puffer.protect(scenario), and then queries before plan and release",
        ),
    },
    "pufferflow": _each(
        private_sum__private_mean__private_count__private_histogram__sum__mean__count=(
            'pf.protect(frame, scenario).private_sum("level")'
        ),
        DataFrame__LazyFrame__scan_parquet__read_csv="pf.protect(pl.scan_parquet(path), scenario), with Polars",
        Markov="pf.MarkovChain",
        account__Session__Context='pf.Ledger("ledger.db").open("power", scenario, limit=pf.Pure(3.0))',
    ),
}
"""Attributes elsewhere, by the class here that lacks them."""
PREFIXES: Final = ("private_", "dp_", "noisy_", "approx_", "laplace_", "gaussian_", "make_")

FRAMES: Final[Mapping[str, str]] = {
    "pandas.Series": "pf.protect(frame.to_frame(), scenario)",
    "modin": "pf.protect(frame.to_pandas(), scenario)",
    "dask": "pf.protect(frame.compute(), scenario), or pl.scan_parquet of its files",
    "pyspark": "pf.protect(pl.from_arrow(frame.toArrow()), scenario), or pl.scan_parquet of its files",
    "_duckdb": "pf.protect(frame.pl(), scenario)",
    "duckdb": "pf.protect(frame.pl(), scenario)",
    "narwhals": "pf.protect(frame.to_native(), scenario)",
    "datafusion": "pf.protect(frame.to_polars(), scenario)",
    "ibis": "pf.protect(frame.to_polars(), scenario)",
    "pyarrow.dataset": "pf.protect(pl.scan_pyarrow_dataset(frame), scenario)",
    "pyarrow._dataset": "pf.protect(pl.scan_pyarrow_dataset(frame), scenario)",
    "pyarrow": 'pf.protect(pa.table({"level": frame}), scenario), with all columns that are needed',
    "numpy": 'pf.protect(pl.DataFrame(frame, schema=["meter", "level"]), scenario), with names of columns',
    "polars.LazyGroupBy": 'pf.protect(frame, scenario).group_by("day"): the groups come after protect',
    "polars.GroupBy": 'pf.protect(frame, scenario).group_by("day"): the groups come after protect',
    "polars.Series": "pf.protect(frame.to_frame(), scenario)",
    "builtins.dict": "pf.protect(pl.DataFrame(frame), scenario)",
    "builtins.list": "pf.protect(pl.DataFrame(frame), scenario)",
    "builtins.str": "pf.protect(pl.scan_parquet(frame), scenario)",
    "pathlib": "pf.protect(pl.scan_parquet(frame), scenario)",
    "pufferflow.Scenario": "pf.protect(frame, scenario): the frame comes first",
    "pufferflow.Batch": "this batch as it is: it is under a scenario already",
}
"""Tables of others by the module of their type, with or without its name, and how they become a Polars frame."""
SCANS: Final = _each(csv="scan_csv", ndjson__jsonl="scan_ndjson", arrow__ipc__feather="scan_ipc")
