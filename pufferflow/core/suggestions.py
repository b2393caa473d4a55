"""Suggestions in errors: the nearest name, and the calls of this library for those of Polars and of others.

Calls that users of Polars and of other libraries type, with the same calls in this library.

Every row runs, for a sensitive column "level", public columns "meter", "day" and "at", a batch, a plan or a release.
These names are examples: an error shows the columns of the batch in their place.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pufferflow.core.errors import NoSuchAttribute, NoSuchCall, PufferflowError

EXAMPLES: Final[Mapping[str, str]] = {
    "protect": "pf.protect(frame, scenario)",
    "Scenario": 'pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), prior=pf.Independent())',
    "Secret": 'pf.Secret("level", domain=[0, 1, 2, 3]), or domain=pf.Interval(0, 100)',
    "Initial": 'pf.Initial("level", domain=[0, 1, 2, 3])',
    "Presence": 'pf.Presence("meter", column="level", domain=pf.Interval(0, 100), rows=10)',
    "Derived": 'pf.Derived("diagnosis")',
    "Population": 'pf.Population.share("ill", [0.1, 0.2]), with shares of rows',
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
    "query": 'pf.query("level").sum()',
}
"""Calls that fit, by the class or function that is called."""


def _each(**ways: str) -> dict[str, str]:
    """Return a table with a row for each name of one whose keys are several names, with two underscores between."""
    return {name: way for names, way in ways.items() for name in names.split("__")}


_DOMAIN: Final = (
    'pf.Secret("level", domain=pf.Interval(0, 10)) in the scenario: values are read within these bounds; those of one '
    'group by private_sum("level", bounds={"north": (0, 5)}) after a group_by'
)
_UNIT: Final = (
    'pf.Presence("meter", rows=10) as the secret: at most so many rows of one meter are read'
)
_PROMISE: Final = (
    ".plan(pf.Pure(1.0)) or .release(epsilon=1.0), after all queries: one guarantee for all of them"
)
_SCALE: Final = (
    "plan(pf.Pure(1.0)), which finds the scale, or plan(accuracy=pf.Within(5)) for an error"
)
_RANDOM: Final = "nothing: noise of a release comes from the system's random bits"
_VALUES: Final = _each(
    bounds__limits__range__lower__upper__low__high__min__max="domain=pf.Interval(0, 10)",
    values__categories__labels__levels__states="domain=[0, 1, 2, 3]",
    neighbours__neighbors='pairs="adjacent", or pf.WithinDistance(2)',
    fill_null__null_value__default="missing=0",
)
_WEIGHTS: Final = (
    'private_mean("level", weights="price"), or private_sum(pl.col("level") * pl.col("price"))'
)
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
    "plan": {
        **_PLAN,
        **_each(account__ledger__id='.plan(pf.Pure(1.0)).release(account, "monday")'),
    },
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
    "Laplace": _each(
        epsilon__sensitivity="pf.Laplace(sensitivity / epsilon), or pf.calibrate for a guarantee"
    ),
    "Gaussian": _each(
        sigma__std__stddev="scale=1.0", epsilon__sensitivity__delta="pf.calibrate, for a guarantee"
    ),
    "Pure": _each(
        eps="pf.Pure(epsilon=1.0)",
        delta="pf.Approx(1.0, 1e-6)",
        alpha="pf.Renyi(4, 1.0)",
        rho="pf.Zcdp(0.5)",
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
            aggregate='.group_by("day").agg(pl.col("level").puffer.sum())',
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
    | {
        "[…]": 'plan.release().frame["level_sum"], or plan.noises["level_sum"]',
        "len()": "plan.summary().height",
    },
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
            agg='frame.puffer.protect(scenario).agg(pl.col("level").puffer.sum())',
            plan__release="frame.puffer.protect(scenario), and then queries before plan and release",
        ),
    },
    "ExpressionQueries": {
        **VERBS,
        **_each(
            alias='pl.col("level").puffer.sum().alias("load")',
            local='private_local("level"), a method of the batch',
            over__group_by='.group_by("day").agg(pl.col("level").puffer.sum())',
        ),
    },
    "QueryExpression": _each(
        over__group_by='.group_by("day").agg(pl.col("level").puffer.sum())',
        filter__where='.filter(pl.col("day") == 1).agg(pl.col("level").puffer.sum())',
        round__cast__abs__sqrt__clip="release.frame.with_columns(…), which computes with published numbers",
        release__plan='batch.agg(pl.col("level").puffer.sum()), and then plan or release',
    ),
    "pufferflow": _each(
        private_sum__private_mean__private_count__private_histogram__sum__mean__count=(
            'pf.protect(frame, scenario).private_sum("level")'
        ),
        DataFrame__LazyFrame__scan_parquet__read_csv="pf.protect(pl.scan_parquet(path), scenario), with Polars",
        Markov="pf.MarkovChain",
        account__Session__Context='pf.Ledger("ledger.db").open("power", scenario, limit=pf.Pure(3.0))',
        QueryBuilder__query_builder="pf.protect(frame, scenario).group_by(…).private_sum(…)",
        PureDPBudget__loss_of__max_divergence="pf.Pure(1.0)",
        RhoZCDPBudget__zero_concentrated_divergence="pf.Zcdp(0.5)",
        ApproxDPBudget__fixed_smoothed_max_divergence="pf.Approx(1.0, 1e-6)",
        KeySet__keyset='batch.group_by("town", keys=["A", "B"])',
        unit_of__AddOneRow__AddMaxRows__AddRowsWithID__MaxRowsPerID=(
            'pf.Presence("person", rows=10), or within="person"'
        ),
        dp__prelude__t__m="pf.protect(frame, scenario): there are no constructors to chain",
        BudgetAccountant__PrivacyAccountant='pf.Ledger("ledger.db").open("power", scenario, limit=pf.Pure(3.0))',
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


T = TypeVar("T")
_LONG: Final = 3


def instead_of_argument(callee: str, name: str) -> str:
    """Return what to type instead of an argument that a callable here does not have; "" if no table has it.

    >>> instead_of_argument("private_sum", "alias")
    'name="load"'
    """
    of_query = callee.startswith(("private_", "puffer."))
    known = ARGUMENTS.get("private" if of_query else callee, {})
    return known.get(name, "")


def instead_of_attribute(kind: str, name: str) -> str:
    """Return what to type instead of an attribute that a class does not have; "" if no table has it.

    >>> instead_of_attribute("Batch", "dp_sum"), instead_of_attribute("Release", "collect")
    ('private_sum("level")', 'release.frame')
    """
    known = ATTRIBUTES.get(kind, {})
    if name in known:
        return known[name]
    bare = next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), "")
    return known[bare] if bare in VERBS and kind in ("Batch", "Puffer", "ExpressionQueries") else ""


def way_to_protect(given: object) -> str:
    """Return how another table becomes a Polars frame; its library is not imported, nor its rows read.

    >>> way_to_protect({"level": [0, 1]}), way_to_protect("rows.csv")
    ('pf.protect(pl.DataFrame(frame), scenario)', 'pf.protect(pl.scan_csv(frame), scenario)')
    """
    kind = type(given)
    parts = kind.__module__.split(".")
    tried = [
        f"{parts[0]}.{kind.__name__}",
        *(".".join(parts[:count]) for count in range(len(parts), 0, -1)),
    ]
    found = next((FRAMES[one] for one in tried if one in FRAMES), "")
    if isinstance(given, str | PurePath) and PurePath(given).suffix[1:] in SCANS:
        return found.replace("scan_parquet", SCANS[PurePath(given).suffix[1:]])
    return found or "pf.protect(pl.scan_parquet(path), scenario)"


def noun(kind: str) -> str:
    """Return what a value of a class is called at the beginning of a sentence.

    >>> noun("Batch"), noun("Puffer")
    ('A batch', 'frame.puffer')
    """
    called = {"Puffer": "frame.puffer", "ExpressionQueries": 'pl.col("level").puffer'}
    return {**called, "QueryExpression": "A query"}.get(kind, f"A {kind.lower()}")


def nearest(given: object, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names whose spelling is nearest to the given one, the nearest first, or that begin with it.

    Upper and lower case count as equal.

    >>> nearest("distrct", ["meter", "district"]), nearest("GWM", ["gwm", "exact"]), nearest("load", ["district"])
    (['district'], ['gwm'], [])
    """
    if not isinstance(given, str):
        return []
    folded, wanted = {name.casefold(): name for name in known}, given.casefold()
    found = difflib.get_close_matches(wanted, folded, count, cutoff)
    begun = [name for name in folded if name.startswith(wanted) and len(wanted) >= _LONG]
    return [folded[name] for name in found or begun[:count]]


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """Return the suggestion that follows a misspelt name, with a space before it; nothing if no name is near.

    >>> did_you_mean("adjacant", ["all", "adjacent"])
    " Did you mean 'adjacent'?"
    """
    return "".join(f" Did you mean {name!r}?" for name in nearest(given, known))


def suggests_arguments(thing: T) -> T:
    """Decorate a function or a class so that its refusal of an unknown argument suggests the ones that it takes.

    Signature, docstring and type stay, for editors and for doctest.
    """
    if isinstance(thing, FunctionType):
        return cast(T, _with_suggestions(thing))
    init = vars(thing).get("__init__")
    if isinstance(init, FunctionType):
        setattr(thing, "__init__", _with_suggestions(init))  # noqa: B010 - pyright knows no such method of a T
    return thing


def call_or_refuse(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    given: Mapping[str, Any],
    refusal: Callable[[str], NoSuchCall],
) -> Any:
    """Call a function; if it does not take such arguments, raise the refusal made of Python's own message."""
    try:
        return function(*args, **given)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from within the function, not from binding its arguments
        why = str(error)
    raise refusal(why)


def make_struct(
    struct: Any, make: Callable[..., T], args: tuple[Any, ...], given: Mapping[str, Any]
) -> T:
    """Return a new struct, whose fields are its parameters."""
    return call_or_refuse(
        make, args, given, lambda why: misfit(struct.__name__, struct.__struct_fields__, given, why)
    )


def _with_suggestions(function: FunctionType) -> Callable[..., Any]:
    # in the closure, since `call` gets the globals of another module
    attempt, refusal, reworded, errors = call_or_refuse, wrong_call, in_own_words, PufferflowError

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return attempt(function, args, kwargs, lambda why: refusal(function, args, kwargs, why))
        except errors as error:
            reworded(error, args[0] if args else None)
            raise

    # doctest takes a function for one of a module if its globals are the module's
    own = FunctionType(
        call.__code__, function.__globals__, function.__name__, None, call.__closure__
    )
    return wraps(function)(own)


def wrong_call(
    function: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any], why: str
) -> NoSuchCall:
    """Return the error for arguments that a function does not take; `why` is Python's own message."""
    callee = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
    if function.__qualname__.startswith("ExpressionQueries."):
        callee = f"puffer.{callee}"
    known = inspect.signature(function).parameters.values()
    parameters = [
        item.name
        for item in known
        if item.name not in ("self", "cls") and item.kind is not item.VAR_KEYWORD
    ]
    return misfit(callee, parameters, given, why)


def misfit(
    callee: str, parameters: Iterable[str], given: Mapping[str, Any], why: str
) -> NoSuchCall:
    """Return the error for arguments that do not fit the parameters of a function or class of this name."""
    known = list(parameters)
    called = f"pf.{callee}" if callee[:1].isupper() or callee in ("protect", "query") else callee
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        said = why.partition("() ")[2] or f"{why[:1].lower()}{why[1:]}"
        example = EXAMPLES.get(callee, f"{called}({', '.join(known)})")
        return NoSuchCall(
            f"{called}() {said}.", allowed=f"{called}({', '.join(known)})", instead=example
        )
    elsewhere, near = instead_of_argument(callee, unknown), nearest(unknown, known)
    question = "" if elsewhere else did_you_mean(unknown, known)
    instead = elsewhere or (f"{near[0]}=…" if near else EXAMPLES.get(callee, ""))
    return NoSuchCall(
        f"{called}() has no argument {unknown!r}.{question}",
        allowed=", ".join(known),
        instead=instead,
    )


class HelpfulAttributes:
    """Base of classes that are mistaken for frames: errors about missing names and arguments suggest what to type.

    >>> class Batch(HelpfulAttributes):
    ...     pass
    >>> hasattr(Batch(), "collect")
    False
    """

    def _own_examples(self) -> Mapping[str, str]:
        """Return replacements for parts of examples, such as a column of this value for "level"."""
        return {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, function in list(vars(cls).items()):
            if isinstance(function, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _with_suggestions(function))

    if not TYPE_CHECKING:  # editors and type checkers know the names that there are

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                return object.__getattribute__(
                    self, name
                )  # a property failed: let its own error be seen
            missing = no_attribute(type(self), name)
            raise in_own_words(missing, self) if isinstance(missing, PufferflowError) else missing

        def __getitem__(self, key: Any) -> Any:
            del key
            raise in_own_words(_no_frame(type(self), "[…]"), self)

        def __len__(self) -> int:
            raise in_own_words(_no_frame(type(self), "len()"), self)

        def __bool__(self) -> bool:
            return True


E = TypeVar("E", bound=PufferflowError)


def in_own_words(error: E, value: object) -> E:
    """Return an error whose examples name the columns of the value that it is about."""
    own: Mapping[str, str] = {}
    if isinstance(value, HelpfulAttributes):
        with suppress(Exception):  # examples are not worth another error
            own = value._own_examples()  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
    if own:
        parts = re.compile("|".join(map(re.escape, sorted(own, key=len, reverse=True))))
        error.reword(lambda text: parts.sub(lambda found: own[found[0]], text))
    return error


def no_attribute(kind: type, name: str) -> AttributeError:
    """Return the error for an attribute that a class does not have; Python's protocols get the plain one."""
    if name.startswith("_"):
        return AttributeError(
            f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=None
        )
    fields = getattr(kind, "__dataclass_fields__", ())
    known = sorted(one for one in {*fields, *dir(kind)} if not one.startswith("_"))
    instead = instead_of_attribute(kind.__name__, name)
    near = nearest(name, known)
    return NoSuchAttribute(
        f"{noun(kind.__name__)} has no {name!r}.{'' if instead else did_you_mean(name, known)}",
        allowed=", ".join(known),
        instead=instead or (EXAMPLES.get(near[0], near[0]) if near else ""),
        name=name,
    )


def _no_frame(kind: type, what: str) -> NoSuchCall:
    return NoSuchCall(
        f"{noun(kind.__name__)} has no {what}: it is no frame.",
        instead=instead_of_attribute(kind.__name__, what),
    )


def no_public_name(name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that `pf` does not have, in Python's words and with what was probably meant."""
    problem = f"module 'pufferflow' has no attribute {name!r}"
    names = [one for one in known if not one.startswith("_")]
    near, instead = nearest(name, names), instead_of_attribute("pufferflow", name)
    if name.startswith("_") or not (near or instead):
        return AttributeError(problem, name=name, obj=None)
    said = did_you_mean(name, names)
    return NoSuchAttribute(
        f"{problem}.{'' if instead else said}",
        instead=instead or ", ".join(f"pf.{one}" for one in near),
        name=name,
    )
