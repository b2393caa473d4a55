"""The entry to the library: a private frame under a scenario, and batches of queries on it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Unpack, cast, final

import polars as pl

from pufferflow.calibration.calibrate import Bounds
from pufferflow.core.errors import Refused, UsageError, escape_controls
from pufferflow.core.notebook import Card, InNotebooks
from pufferflow.core.suggestions import EXAMPLES, HelpfulAttributes, suggests_arguments
from pufferflow.core.tables import ArrowStream
from pufferflow.core.validate import finite_number, instance, quoted
from pufferflow.engines.backend import Backend
from pufferflow.engines.column_measures import check_column
from pufferflow.engines.connect import RemoteTable, checked_engine
from pufferflow.models.domain import TIMES, Domain, Interval
from pufferflow.models.scenario import Scenario
from pufferflow.noise.base import Family
from pufferflow.noise.channel import Channel
from pufferflow.noise.joint_gaussian import JointGaussian
from pufferflow.privacy.guarantee import AnyGuaranteeFamily, Guarantee
from pufferflow.published.release import Release
from pufferflow.queries.aggregates import (
    Count,
    Covariance,
    Histogram,
    Mean,
    MeanOfUnknown,
    Quantile,
    Sum,
    Variance,
    WeightedMean,
    WeightedSum,
)
from pufferflow.queries.expressions.compiler import classes, indicators, read_values
from pufferflow.queries.expressions.values import Values
from pufferflow.queries.expressions.weights import has_weight, split_weight, with_weight
from pufferflow.queries.group_bounds import Bounded, BoundedMean, BoundedSum, bounded
from pufferflow.queries.names import (
    answer_name,
    column_name,
    examples_of,
    named_columns,
    one_by_one,
    read_name,
)
from pufferflow.queries.query_expressions import QueryExpression, read_queries
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query
from pufferflow.release.local.plan import LocalBatch, local_batch
from pufferflow.release.plan import DesignedPlan, Plan, designed_plan, plan_of
from pufferflow.release.planning.options import (
    PlanArguments,
    PlanOptions,
    Within,
    read_per_group,
    read_promise,
    read_row_privacy,
    read_seconds,
)
from pufferflow.release.publish import CostAccount

if TYPE_CHECKING:
    from pufferflow.accounting.ledger.account import Account

ColumnOrExpr = str | pl.Expr
_OF_ONE_COLUMN: Final = (
    "sums, means, counts, histograms, quantiles and variances of a column, without bounds by group"
)


@suggests_arguments
def protect(
    frame: pl.LazyFrame | pl.DataFrame | ArrowStream | RemoteTable | Backend, scenario: Scenario
) -> "Batch":
    """Put a private frame under a scenario, so that answers to queries on it are published with noise.

    Only the names and types of columns are checked; no row of a Polars frame is read. A table that gives an Arrow
    stream (pandas, pyarrow, results of DuckDB or ADBC) is copied into memory once. A relation of DuckDB, a dataframe of
    Spark and a `pf.table(address, name)` stay where they are: their engine computes the sums.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"])
    >>> rows = pl.DataFrame({"day": [1, 1, 2], "level": [0, 3, 2]})
    >>> pf.protect(rows, scenario).group_by("day").private_sum("level").release(epsilon=1.0).frame.columns
    ['day', 'level_sum']
    """
    instead = f"pf.protect(frame, {EXAMPLES['Scenario']})"
    instance(
        scenario,
        Scenario,
        "The scenario",
        allowed="a pf.Scenario, after the frame",
        instead=instead,
    )
    scenario.check_sound()
    request = Request(checked_engine(frame, scenario), scenario)
    for column, domain in request.domains.items():
        check_column(column, request.schema[column], domain)
    return Batch(request)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Batch(InNotebooks, HelpfulAttributes):
    """Queries about a protected frame. Every method returns a new batch; no private row is read before `release`.

    First select rows (`filter`, `with_columns`, `group_by`, all by public columns), then add queries (`private_sum` and
    the like), then `plan` or `release`. No method shows rows. This guards against mistakes, not against whoever holds
    the batch: it contains the frame (`batch.request.frame`).

    >>> batch = _example().group_by("day").private_sum("level").private_count(pl.col("level") >= 3, name="peaks")
    >>> batch.release(epsilon=1.0).frame.columns
    ['day', 'level_sum', 'peaks']
    """

    request: Request

    def _own_examples(self) -> Mapping[str, str]:
        return examples_of(self.request)

    # Which rows

    def filter(self, *predicates: ColumnOrExpr | Iterable[ColumnOrExpr], **equal: Any) -> "Batch":
        """Select the rows for which predicates of public columns hold; other rows stay secret and enter no answer.

        `day=1` keeps the rows where the column `day` is 1.

        >>> batch = _example().filter(pl.col("day") > 1)
        >>> batch = _example().filter(day=1)
        """
        request = self.request
        for predicate in (
            *one_by_one(predicates),
            *(pl.col(name) == value for name, value in equal.items()),
        ):
            request = request.with_filter(predicate)
        return Batch(request)

    def with_columns(
        self, *expressions: pl.Expr | Iterable[pl.Expr], **named: pl.Expr | str
    ) -> "Batch":
        """Add public columns, computed row by row from existing ones.

        >>> batch = _example().with_columns(week=pl.col("day") // 7)
        """
        flat = one_by_one(expressions)
        listed = {column_name(expression): expression for expression in flat}
        if len(listed) < len(flat) or set(listed) & set(named):
            raise UsageError(
                "with_columns makes two columns with the same name.",
                allowed="a different name for each column",
                instead='.alias("week")',
            )
        return Batch(self.request.with_columns(listed | named))

    def group_by(
        self,
        *by: ColumnOrExpr | Iterable[ColumnOrExpr],
        keys: Any = None,
        other: Any = None,
        **named: ColumnOrExpr,
    ) -> "Batch":
        """Group rows by public columns, or by `named` expressions of them.

        The answer has exactly the groups `keys` (values, tuples, or a frame), also those without rows. Without `keys`
        it has the groups of the selected rows, in growing order. `other` is the label of one further group, for all
        rows with none of the keys, null included. For several columns, `other` may be a mapping with labels for some of
        them.

        >>> batch = _example().group_by("day", keys=[1, 2, 3])
        >>> batch = _example().group_by("day", keys=[1], other=0)
        >>> batch = _example().group_by(week=pl.col("day") // 7)
        """
        request, names = self.request, list[str]()
        request.check_groups_first(
            [*(key for key in one_by_one(by) if isinstance(key, str)), *named]
        )
        for key in one_by_one(by):
            columns = request.selected(key) if isinstance(key, pl.Expr) else [column_name(key)]
            if columns is None:
                request = request.with_columns({column_name(key): key})
            names += columns or [column_name(key)]
        return Batch(
            request.with_columns(named_columns(named)).grouped([*names, *named], keys, other)
        )

    # Queries

    def private_sum(
        self,
        column: ColumnOrExpr,
        name: str | None = None,
        *,
        bounds: Any = None,
        otherwise: Any = None,
    ) -> "Batch":
        """Add the sum of a column, or of a function of it, such as `pl.col("kwh").clip(0, 9) * 2`.

        Public columns may be factors of it, or divisors: `pl.col("kwh") * pl.col("price")`. They weight each row; the
        noise hides the row, or group of rows, with the largest weight. After a `group_by`, `bounds` maps labels of
        groups to bounds of their own. Values are clipped to these bounds, and noise is made for them. All other groups
        have the bounds `otherwise`, or those of the domain.

        >>> batch = _example().private_sum("level")
        >>> batch = _example().private_sum(pl.col("level") * pl.col("day"))
        >>> batch = _example().group_by("day").private_sum("level", bounds={1: (0, 2)})
        """
        if bounds is not None or otherwise is not None:
            return self._bounded(BoundedSum, column, name, bounds, otherwise)
        public = self.request.public
        if isinstance(column, pl.Expr) and has_weight(column, public):
            inner, weight = split_weight(column, public)
            values = with_weight(self._read(inner), self.request.weight(weight), column)
            return self._asking(WeightedSum.of(answer_name(name, values, "sum"), values))
        values = self._read(column)
        return self._asking(Sum.of(answer_name(name, values, "sum"), values))

    def private_mean(
        self,
        column: ColumnOrExpr,
        name: str | None = None,
        *,
        weights: ColumnOrExpr | None = None,
        bounds: Any = None,
        otherwise: Any = None,
    ) -> "Batch":
        """Add the mean of a column, or of a function of it; with public `weights`, Σ w·φ / Σ w.

        Groups may have bounds of their own, as in `private_sum`.

        >>> batch = _example().private_mean("level")
        >>> batch = _example().private_mean("level", weights="day")
        """
        if bounds is not None or otherwise is not None:
            return self._bounded(BoundedMean, column, name, bounds, otherwise, weights)
        values = self._read(column)
        called = answer_name(name, values, "mean")
        weight = None if weights is None else self.request.weight(weights)
        present = self._present(column)
        if self.request.counts_are_public and present is None:
            if weight is not None:
                return self._asking(
                    WeightedMean.of(called, with_weight(values, weight), values.words)
                )
            return self._asking(Mean.of(called, values))
        if present is not None and weight is not None and self.request.counts_are_public:
            raise Refused(
                f'Public weights of {quoted(values.column)} with missing="skip": their sum is then private.',
                allowed="the two noisy sums that such a mean divides",
                instead=f"private_sum({values.words} * …) and private_sum of the weights where a value is there",
            )
        return self._asking(
            MeanOfUnknown.of(called, values, *self._centered(column, values), present, weight)
        )

    def private_count(self, predicate: pl.Expr | None = None, name: str | None = None) -> "Batch":
        """Add the number of rows with a property, such as `pl.col("level") >= 3`; without one, the number of all rows.

        >>> batch = _example().private_count(pl.col("level") >= 3)
        """
        if predicate is None:
            if self.request.counts_are_public:
                column = next(iter(self.request.domains), "level")
                raise UsageError(
                    "The number of all rows is public in this scenario, so it needs no noise.",
                    allowed="a property of a sensitive column, or a scenario whose secret is pf.Presence",
                    instead=f'private_count(pl.col("{column}") >= 3), or frame.group_by("day").len() with Polars',
                )
            return self._asking(Count.of(read_name(name, "count"), None))
        values = self._read(predicate)
        if not values.boolean:
            raise UsageError(
                f"The property {values.words} is no predicate: its values are not true or false.",
                allowed="a comparison",
                instead=f'pl.col("{values.column}") >= 3',
            )
        return self._asking(Count.of(answer_name(name, values, "count"), values))

    def private_median(
        self, column: ColumnOrExpr, name: str | None = None, *, bins: Sequence[float] | None = None
    ) -> "Batch":
        """Add the median, which is the quantile 0.5.

        >>> _example().private_median("level").request.outputs
        ('level_median',)
        """
        known, _ = self._column(column)
        return self.private_quantile(
            known, 0.5, f"{known}_median" if name is None else name, bins=bins
        )

    def private_histogram(
        self, column: ColumnOrExpr, name: str | None = None, *, bins: Sequence[float] | None = None
    ) -> "Batch":
        """Add the number of rows at each value of the domain, or between `bins`, which an interval needs.

        The answer has a column for each value: `level_histogram_0`, `level_histogram_1`, …

        >>> batch = _example().private_histogram("level")
        """
        known, domain = self._column(column)
        bars = indicators(known, domain, bins)
        return self._asking(Histogram.of(read_name(name, f"{known}_histogram"), bars))

    def private_variance(self, column: ColumnOrExpr, name: str | None = None) -> "Batch":
        """Add the variance: the mean squared distance from the mean.

        >>> batch = _example().private_variance("level")
        """
        values = self._read(column)
        _, centered = self._centered(column, values)
        squares = centered.squared(Fraction(0))
        called = answer_name(name, values, "variance")
        present = self._present(column)
        counted = () if self.request.counts_are_public and present is None else (present,)
        return self._asking(Variance.of(called, centered, squares, values.words, counted))

    def private_covariance(
        self, first: ColumnOrExpr, second: ColumnOrExpr, name: str | None = None
    ) -> "Batch":
        """Add the covariance of two columns of a secret that lists both: the mean product of distances from the means.

        >>> import pufferflow as pf
        >>> secret = [pf.Secret("hours", domain=[0, 20, 40]), pf.Secret("wage", domain=[15, 30])]
        >>> batch = protect(pl.DataFrame({"hours": [20, 40], "wage": [15, 30]}), Scenario(secret, pf.Independent()))
        >>> batch.private_covariance("hours", "wage").request.outputs
        ('hours_wage_covariance',)
        """
        (middle, own), (other_middle, other) = (
            self._centered(one, self._read(one)) for one in (first, second)
        )
        if own.columns == other.columns:
            raise UsageError(
                f"The covariance of {quoted(own.column)} with itself is its variance.",
                allowed="two columns that the secret lists",
                instead=f"private_variance({quoted(own.column)})",
            )
        columns = [pl.col(one) if isinstance(one, str) else one for one in (first, second)]
        products = self._read((columns[0] - middle) * (columns[1] - other_middle))
        for column in (*own.columns, *other.columns):
            self.request.domains[column].check_complete(column, "The covariance of", _OF_ONE_COLUMN)
        called = read_name(name, f"{own.column}_{other.column}_covariance".replace(TIMES, "_"))
        words = f"{self._read(first).words} and {self._read(second).words}"
        public = self.request.counts_are_public
        return self._asking(
            Covariance.of(called, products, own, other, words, counts_are_public=public)
        )

    def private_quantile(
        self,
        column: ColumnOrExpr,
        q: float,
        name: str | None = None,
        *,
        bins: Sequence[float] | None = None,
    ) -> "Batch":
        """Add a quantile, from a noisy histogram over the domain, or over `bins`, which an interval needs.

        The least and the largest value belong to single rows and stay secret; q=0.01 and q=0.99 come close.

        >>> batch = _example().private_quantile("level", 0.5)
        """
        known, domain = self._column(column)
        allowed, some = "a number from 0 to 1", _some_bins(domain)
        share = finite_number(
            q, "q", allowed=allowed, instead=f"private_quantile({quoted(known)}, 0.5{some})"
        )
        if not 0 <= share <= 1:
            meant = share / 100 if 1 < share <= 100 else 0.5
            instead = f"private_quantile({quoted(known)}, {meant:g}{some})"
            raise UsageError(f"q is {share:g}.", allowed=allowed, instead=instead)
        numbers = domain.present.numbers  # refused for labels
        called = read_name(name, f"{known}_quantile_{share:g}")
        if isinstance(domain, Interval):
            ends, inside = classes(known, domain, bins)
            whole_numbers = self.request.is_whole(known)
            return self._asking(
                Quantile.of(
                    *(called, share, inside, ends, known),
                    whole_numbers=whole_numbers,
                    counts_values=domain.skips,
                )
            )
        bars: list[Values] = [values for _, values in indicators(known, domain, bins)]
        order: list[int] = numbers.argsort(kind="stable").tolist()
        rising = [bars[place] for place in order]
        edges = sorted(numbers.tolist())
        return self._asking(
            Quantile.of(called, share, rising, edges, known, counts_values=domain.skips)
        )

    def agg(
        self,
        /,
        *queries: QueryExpression | Iterable[QueryExpression],
        **named: QueryExpression,
    ) -> "Batch":
        """Add queries spelled as in Polars: `pl.col("level").puffer.sum()` is `private_sum("level")`.

        Each query of an expression has the name and the arguments of the method, and the same noise. `.alias("load")`
        or `load=…` names its answer. `pf.query("level").sum()` is the same, in a form that editors complete.

        >>> level = pl.col("level").puffer
        >>> batch = _example().group_by("day").agg(level.sum(), level.mean().alias("m"))
        >>> batch.agg(peaks=(pl.col("level") >= 3).puffer.sum()).request.outputs
        ('level_sum', 'm', 'peaks')
        """
        batch = self
        for query in read_queries(one_by_one(queries), named):
            ask = getattr(batch, query.method)
            batch = ask(query.column, name=query.answer, **dict(query.arguments))
        return batch

    def private_local(self, column: ColumnOrExpr, mechanism: Channel | None = None) -> LocalBatch:
        """Publish a column row by row, each value through a random channel, beside the public columns.

        The default mechanism is `pf.local.randomized_response` on the values of the domain, with the ε that a plan
        finds. Other queries need a batch of their own, which is charged separately.

        >>> _example().private_local("level").release(epsilon=1.0).frame.collect().shape
        (3, 2)
        """
        known, domain = self._column(column)
        domain.check_complete(
            known,
            "Row by row the column",
            "a value that null is read as, which the channel then hides too",
        )
        return local_batch(self.request, known, domain, mechanism)

    # What becomes of it

    def plan(  # noqa: PLR0913 - a guarantee, and by name how to keep it
        self,
        guarantee: Guarantee | AnyGuaranteeFamily | None = None,
        *,
        noise: Family | type[JointGaussian] | str = "auto",
        bound: Bounds = "auto",
        accuracy: Within | None = None,
        shares: Mapping[str, float] | None = None,
        epsilon: float | None = None,
        row_privacy: bool = True,
        seconds: float | None = None,
        per_group: bool = True,
    ) -> Plan:
        """Return a plan: the noise that one guarantee about all answers together requires.

        Left out, `noise` (`pf.Laplace`, or "laplace") and `bound` (`pf.GWM()`, or "gwm") are those with the least
        expected error. With `accuracy` the plan finds the strongest guarantee that allows so much error. `shares`
        divides the budget among the queries, by name; by default equally. The noise is at least what a single
        independent row needs, so every release is differentially private too. `row_privacy=False` drops this floor and
        calibrates for the prior alone. After so many `seconds` the search ends with the best proof so far; without them
        no clock decides. Each group of the answer has the noise that its own rows need; `per_group=False` gives all
        groups the same noise. Reads public columns only.

        >>> _example().private_sum("level").plan(epsilon=1.0).guarantee
        Pure(epsilon=1.0)
        """
        promise = read_promise(guarantee, epsilon, accuracy)
        return plan_of(
            self.request,
            PlanOptions(
                promise,
                noise,
                bound,
                accuracy,
                shares,
                read_row_privacy(row_privacy),
                read_seconds(seconds),
                read_per_group(per_group),
            ),
        )

    def design(
        self,
        account: "Account",
        guarantee: Guarantee | None = None,
        *,
        loss: Any = "absolute",
        outputs: Sequence[float] | None = None,
    ) -> DesignedPlan:
        """Return the plan of the best release for an account within its limit; `account.design(batch)` is the same."""
        return designed_plan(self.request, account.past(), guarantee, loss, outputs)

    def release(
        self,
        guarantee: Guarantee | None = None,
        *,
        epsilon: float | None = None,
        account: CostAccount | None = None,
        id: str | None = None,  # noqa: A002 - the public name
        estimates: bool = False,
        **options: Unpack[PlanArguments],
    ) -> Release:
        """Plan and release in one step, with the arguments of `plan` and of its `release`.

        >>> _example().private_sum("level").release(epsilon=1.0).frame.shape
        (1, 1)
        """
        return self.plan(guarantee, epsilon=epsilon, **options).release(
            account, id, estimates=estimates
        )

    def _card(self) -> Card:
        from pufferflow.release.explain.sentences import queries_in_words

        request = self.request
        queries = queries_in_words(request) if request.queries else "no queries yet"
        lines = [f"Queries: {queries}.", *request.scenario.describe().split("\n")]
        return Card(
            "Batch", lines, notes=["Nothing has been read. plan(…) says how noisy the answers are."]
        )

    def __repr__(self) -> str:
        """Show the queries so far."""
        from pufferflow.release.explain.sentences import queries_in_words

        queries = queries_in_words(self.request) if self.request.queries else "no queries yet"
        return escape_controls(f"<Batch {queries}; {self.request.scenario!r}>", one_line=True)

    # Reading arguments

    def _asking(self, query: Query) -> "Batch":
        return Batch(self.request.asking(query))

    def _bounded(  # noqa: PLR0913, PLR0917 - the arguments of a query
        self,
        kind: type[Bounded],
        column: Any,
        name: str | None,
        bounds: Any,
        otherwise: Any,
        weights: Any = None,
    ) -> "Batch":
        if weights is not None or has_weight(column, self.request.public):
            raise Refused(
                "Bounds by group together with public weights: it is unclear whether they include the weights.",
                allowed="one of the two",
                instead='a filter for each group, then private_sum(pl.col("level").clip(0, 9) * pl.col("price"))',
            )
        values = self._read(column)
        for read in values.columns:
            self.request.domains[read].check_complete(read, "Bounds by group of", _OF_ONE_COLUMN)
        called = answer_name(name, values, "sum" if kind is BoundedSum else "mean")
        expression = pl.col(column) if isinstance(column, str) else column
        return self._asking(
            bounded(kind, called, self.request, expression, bounds, otherwise, self._read)
        )

    def _read(self, given: object) -> Values:
        known = self.request
        return read_values(
            cast(Any, given), known.domains, known.columns.not_sensitive, known.tuples
        )

    def _centered(self, given: ColumnOrExpr, values: Values) -> tuple[float, Values]:
        """Return the middle of the range, and the function less its middle, which has smaller squares."""
        low, high = values.range_present
        middle = float((low + high) * values.unit / 2)
        column = pl.col(given) if isinstance(given, str) else given
        return middle, self._read(column - middle)

    def _present(self, given: ColumnOrExpr) -> Values | None:
        """Return the function that is 1 where a function of a column is not null; None if that is everywhere."""
        column = pl.col(given) if isinstance(given, str) else given
        if not any(self.request.domains[name].skips for name in column.meta.root_names()):
            return None
        present = self._read(column.is_not_null())
        return None if present.low == present.high else present

    def _column(self, column: object) -> tuple[str, Domain]:
        known = self.request.domains
        if isinstance(column, pl.Expr) and column.meta.is_column():
            column = column.meta.output_name()
        if not isinstance(column, str) or column not in known:
            if isinstance(column, str):
                raise self.request.columns.not_sensitive(column)
            bins = _some_bins(next(iter(known.values()), None))
            raise UsageError(
                f"The column is {quoted(column)}.",
                allowed=f"the name of a sensitive column: {', '.join(map(repr, known))}",
                instead=f"private_histogram({next(iter(known), 'level')!r}{bins})",
            )
        return column, known[column]


def _some_bins(domain: Domain | None) -> str:
    """Return the further argument that a histogram on an interval needs; nothing for other domains."""
    return f", {domain.some_bins}" if isinstance(domain, Interval) else ""


def _example() -> Batch:  # pyright: ignore[reportUnusedFunction] - the examples that the tests run use it
    """Return the batch of the examples above."""
    from pufferflow.models.priors.simple import Independent
    from pufferflow.models.secret import Secret

    scenario = Scenario(Secret("level", domain=[0, 1, 2, 3]), Independent(), public=["day"])
    return protect(pl.DataFrame({"day": [1, 1, 2], "level": [0, 3, 2]}), scenario)
