"""Queries spelled as Polars users spell them: `pl.col("level").puffer.sum()`, for `batch.agg`.

An expression is kept with the name of a query and its arguments. `batch.agg` calls the method of the batch that has
this name, so there is one implementation of every query. It alone checks the query and raises its errors.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Never, cast, final

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import VERBS, HelpfulAttributes, suggests_arguments

ColumnOrExpr = str | pl.Expr
_SUM: Final = 'pl.col("level").puffer.sum(), or private_sum("level")'
_KINDS: Final = {"var": "variance"}
"""Aggregations of Polars whose queries have other names."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class QueryExpression(HelpfulAttributes):
    """A query spelled in full, which `batch.agg` adds to a batch; it is frozen, and reads nothing.

    >>> import polars as pl, pufferflow as pf
    >>> pf.query("level").sum().alias("load")
    pl.col("level").puffer.sum().alias("load")
    """

    expression: pl.Expr
    kind: str
    """The name of the query, as in the method `private_…` of a batch."""
    arguments: tuple[tuple[str, Any], ...]
    """The further arguments of that method, without those left out."""
    name: str | None = None

    def alias(self, name: str) -> "QueryExpression":
        """Return the query with a name for its answer.

        >>> import polars as pl, pufferflow as pf
        >>> pf.query("level").mean().alias("m").name
        'm'
        """
        return replace(self, name=name)

    @property
    def column(self) -> pl.Expr | None:
        """The expression as the methods of a batch take it: nothing for `pl.len()`, the number of all rows."""
        return None if self._of_all_rows else self.expression

    @property
    def answer(self) -> str | None:
        """The name of the answer; None for the default one of the method."""
        if self.name is None and self._of_all_rows:
            called = self.expression.meta.output_name()
            return None if called == "len" else called
        return self.name

    @property
    def _of_all_rows(self) -> bool:
        return self.kind in ("count", "sum") and _is_len(self.expression)

    @property
    def method(self) -> str:
        """The method of a batch that adds the query."""
        return "private_count" if self._of_all_rows else f"private_{self.kind}"

    def __repr__(self) -> str:
        """Show the query as it is typed."""
        given = ", ".join(
            f"{name}={_shown(value) if isinstance(value, pl.Expr) else repr(value)}"
            for name, value in self.arguments
        )
        named = "" if self.name is None else f".alias({json.dumps(self.name)})"
        return f"{_shown(self.expression)}.puffer.{self.kind}({given}){named}"

    if not TYPE_CHECKING:  # type checkers know that a query has no operators

        def _refuse(self, *_other: object) -> Never:
            raise UsageError(
                "A query is not a number yet, so it cannot be part of a calculation.",
                allowed="arithmetic on each row before the query, or on the released numbers",
                instead='(pl.col("level") * 2).puffer.sum(), or release.frame.with_columns(…)',
            )

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
        __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __neg__ = _refuse
        __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __invert__ = _refuse


@final
class ExpressionQueries(HelpfulAttributes):
    """The queries of an expression: the namespace `pl.col("level").puffer`, for `batch.agg`.

    Each query is the one that `batch.private_…` of the same name adds, with the same arguments, noise and default name.
    An expression works row by row, such as `pl.col("level").clip(0, 2)` or `pl.col("level") >= 3`.

    Editors and type checkers do not see a namespace that is registered while a program runs. `pl.col("level").puffer`
    works, and they report it, as they do for every plugin of Polars. `pf.query("level")` is the same with its types, as
    `pf.protect(frame, scenario)` is for `frame.puffer.protect(scenario)`. A notebook completes both.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"])
    >>> batch = pf.protect(pl.DataFrame({"day": [1, 1, 2], "level": [0, 3, 2]}), scenario).group_by("day")
    >>> asked = batch.agg(pl.col("level").puffer.sum(), peaks=(pl.col("level") >= 3).puffer.sum())
    >>> asked.release(epsilon=1.0).frame.columns
    ['day', 'level_sum', 'peaks']
    """

    def __init__(self, expression: pl.Expr) -> None:
        self._expression = expression

    def sum(
        self, name: str | None = None, *, bounds: Any = None, otherwise: Any = None
    ) -> QueryExpression:
        """Return the sum, as `private_sum` adds it; for a predicate, the number of rows where it is true.

        >>> import polars as pl, pufferflow as pf
        >>> pf.query(pl.col("level").clip(0, 2)).sum("load").name
        'load'
        """
        return self._query("sum", name, bounds=bounds, otherwise=otherwise)

    def mean(
        self,
        name: str | None = None,
        *,
        weights: ColumnOrExpr | None = None,
        bounds: Any = None,
        otherwise: Any = None,
    ) -> QueryExpression:
        """Return the mean, as `private_mean` adds it; with public `weights`, the weighted one.

        >>> import pufferflow as pf
        >>> pf.query("level").mean(weights="price")
        pl.col("level").puffer.mean(weights='price')
        """
        return self._query("mean", name, weights=weights, bounds=bounds, otherwise=otherwise)

    def count(self, name: str | None = None) -> QueryExpression:
        """Return the number of rows where a predicate is true, as `private_count` adds it.

        Polars' own `count` counts values that are not null. `pl.len().puffer.count()` is the number of all rows. It is
        private under `pf.Presence`, where the secret is whether rows are there.

        >>> import polars as pl, pufferflow as pf
        >>> pf.query(pl.col("level") >= 3).count("peaks").kind
        'count'
        """
        return self._query("count", name)

    def median(
        self, name: str | None = None, *, bins: Sequence[float] | None = None
    ) -> QueryExpression:
        """Return the median of a column, as `private_median` adds it.

        >>> import pufferflow as pf
        >>> pf.query("level").median()
        pl.col("level").puffer.median()
        """
        return self._query("median", name, bins=bins)

    def quantile(
        self, q: float, name: str | None = None, *, bins: Sequence[float] | None = None
    ) -> QueryExpression:
        """Return a quantile of a column, as `private_quantile` adds it.

        >>> import pufferflow as pf
        >>> pf.query("kwh").quantile(0.9, bins=[0, 1, 5])
        pl.col("kwh").puffer.quantile(q=0.9, bins=[0, 1, 5])
        """
        return self._query("quantile", name, q=q, bins=bins)

    def histogram(
        self, name: str | None = None, *, bins: Sequence[float] | None = None
    ) -> QueryExpression:
        """Return the number of rows at each value of a column, as `private_histogram` adds it.

        >>> import pufferflow as pf
        >>> pf.query("level").histogram()
        pl.col("level").puffer.histogram()
        """
        return self._query("histogram", name, bins=bins)

    def variance(self, name: str | None = None) -> QueryExpression:
        """Return the variance, as `private_variance` adds it.

        >>> import pufferflow as pf
        >>> pf.query("level").variance()
        pl.col("level").puffer.variance()
        """
        return self._query("variance", name)

    def covariance(self, second: ColumnOrExpr, name: str | None = None) -> QueryExpression:
        """Return the covariance with a second column that the secret lists, as `private_covariance` adds it.

        >>> import pufferflow as pf
        >>> pf.query("hours").covariance("wage")
        pl.col("hours").puffer.covariance(second='wage')
        """
        return self._query("covariance", name, second=second)

    def __repr__(self) -> str:
        """Show the expression."""
        return f"{_shown(self._expression)}.puffer"

    def _query(self, kind: str, name: str | None, **arguments: object) -> QueryExpression:
        given = tuple((key, value) for key, value in arguments.items() if value is not None)
        return QueryExpression(self._expression, kind, given, name)


KINDS: Final = tuple(name for name in vars(ExpressionQueries) if not name.startswith("_"))
"""The queries of an expression, by their names."""


@suggests_arguments
def query(column: ColumnOrExpr) -> ExpressionQueries:
    """Return the queries of a column or an expression: `pl.col(column).puffer`, in a form that editors complete.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
    >>> batch = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario)
    >>> batch.agg(pf.query("level").mean(), peaks=pf.query(pl.col("level") >= 3).count()).request.outputs
    ('level_mean', 'peaks')
    """
    if isinstance(column, str):
        return ExpressionQueries(pl.col(column))
    if not isinstance(cast(object, column), pl.Expr):
        raise UsageError(
            f"The column of a query is of type {type(column).__name__}.",
            allowed="the name of a column, or a Polars expression",
            instead='pf.query("level").sum(), or pf.query(pl.col("level") >= 3).count()',
        )
    return ExpressionQueries(column)


def read_queries(
    listed: Iterable[object], named: Mapping[str, object]
) -> Iterator[QueryExpression]:
    """Yield the queries that `batch.agg` is given, in order; refuse anything else, or none at all."""
    if not (listed or named):
        raise UsageError(
            "agg is given no query.",
            allowed="one query or more",
            instead='agg(pl.col("level").puffer.sum())',
        )
    for given in listed:
        yield _checked(given)
    for name, given in named.items():
        yield _checked(given).alias(name)


def _checked(given: object) -> QueryExpression:
    if isinstance(given, QueryExpression):
        return given
    what, instead = f"a value of type {type(given).__name__}", _SUM
    if isinstance(given, pl.Expr):
        what = f"{str(given)[:80]}, an expression of Polars: its exact answer is not published"
        instead = _meant(given)
    elif isinstance(given, str):
        what, instead = f"the text {given[:80]!r}", _spelled(given, "sum")
    elif isinstance(given, ExpressionQueries):
        what, instead = f"{given!r} without a query", f"{given!r}.sum()"
    raise UsageError(
        f"agg is given {what}.",
        allowed=f"queries of an expression, such as .puffer.sum(): {', '.join(KINDS)}",
        instead=instead,
    )


def _meant(given: pl.Expr) -> str:
    """Return the query for an aggregation of Polars, as it is typed."""
    if _is_len(given):
        return "pl.len().puffer.count(), where the secret is pf.Presence"
    columns = given.meta.root_names() or ["level"]
    called = _aggregation(given)
    kind = _KINDS.get(called, called)
    if kind in ("median", "quantile"):  # the batch knows whether these need bins
        return _spelled("level", kind, "0.5" if kind == "quantile" else "")
    if kind in ("sum", "mean", "variance"):
        return _spelled(columns[0], kind)
    return VERBS.get(called, _spelled(columns[0], "sum")).replace('"level"', _in_quotes(columns[0]))


def _spelled(column: str, kind: str, argument: str = "") -> str:
    own, more = _in_quotes(column), f", {argument}" if argument else ""
    return f"pl.col({own}).puffer.{kind}({argument}), or private_{kind}({own}{more})"


def _in_quotes(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _aggregation(given: pl.Expr) -> str:
    """Return the outermost method of an expression, in one word; empty for one without."""
    found = re.search(r"\.(\w+)\([^()]*\)$", str(given.meta.undo_aliases()))
    return found[1] if found else ""


def _shown(given: pl.Expr) -> str:
    """Return an expression as Polars shows it; a column as it is typed."""
    return f"pl.{given}" if given.meta.is_column() else str(given)


def _is_len(given: pl.Expr) -> bool:
    return given.meta.undo_aliases().meta.eq(pl.len())
