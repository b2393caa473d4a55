"""A request on a frame, before anything is read: public filters and columns, groups, and queries."""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import polars as pl

from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.tables import exactly, type_name, with_texts
from pufferflow.models.declared_columns import DeclaredColumns
from pufferflow.models.domain import Domain, Label, Product
from pufferflow.models.population import Population
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import ROW, Presence, Secret
from pufferflow.queries.aggregates import Count, MeanOfUnknown
from pufferflow.queries.engine_interface import Engine, Measure, Selection, Tally, UnitLimit
from pufferflow.queries.expressions.public import identity, public_words, read_public
from pufferflow.queries.expressions.tree import read_tree
from pufferflow.queries.expressions.values import Values, Weight
from pufferflow.queries.expressions.weights import bounds_of_product, factors_of, multiplied
from pufferflow.queries.expressions.words import fitting, like
from pufferflow.queries.keys import (
    DISCOVER,
    OtherKeys,
    check_discoverable,
    published,
    read_keys,
    unused,
    with_others,
)
from pufferflow.queries.statistic import Query

_LARGEST = Fraction(2) ** 300
ENDS = ("low", "high", "least", "most")
"""The endings of the columns beside an output: the ends of its error bar, and of its possible values."""


@final
@dataclass(frozen=True, eq=False)
class Request:
    """A table, a scenario, and queries: frozen, every change gives another one."""

    engine: Engine
    """It holds the table, and reads it."""
    scenario: Scenario
    derived: tuple[tuple[str, pl.Expr], ...] = ()
    filters: tuple[pl.Expr, ...] = ()
    by: tuple[str, ...] = ()
    keys: pl.DataFrame | None = None
    queries: tuple[Query, ...] = ()
    others: OtherKeys | None = None
    """The labels for rows of no other key, which are the last keys."""
    discovers: bool = False
    """Whether the keys are those of the rows and private: a key appears only if it has enough rows."""

    @property
    def frame(self) -> Any:
        """The protected table."""
        return self.engine.table

    @property
    def selection(self) -> Selection:
        """The selected rows, in cells; these have numbers, where some keys are labels that rows do not have."""
        if self.others is None:
            return Selection(
                self.scenario.public, self.derived, self.filters, self.by, self.keys, self.limit
            )
        name = unused("group", self.schema)
        derived = (*self.derived, (name, self.others.number().alias(name)))
        keys = pl.DataFrame({name: range(self.others.keys.height)}, schema={name: pl.Int64})
        return Selection(self.scenario.public, derived, self.filters, (name,), keys, self.limit)

    def with_keys(self, tally: Tally) -> Tally:
        """Return what an engine has read of the selection, with the keys of the answer."""
        return tally if self.others is None else replace(tally, keys=published(self.others.keys))

    @property
    def limit(self) -> UnitLimit | None:
        """The rows of each unit that are read; None for all.

        A table without an order is put in the order of all columns that are ever read, private ones last: rows that are
        equal in these are equal for every query. So the rows read of a unit never depend on other units' rows.
        """
        scenario, secret = self.scenario, self.scenario.secret
        if not isinstance(secret, Presence) or secret.rows is None or secret.each_row:
            return None
        order = [] if scenario.order_by is None else [scenario.order_by]
        order += [] if self.engine.in_order else [*scenario.public, *self.domains]
        return UnitLimit(
            secret.within,
            secret.rows,
            tuple(name for name in dict.fromkeys(order) if name != secret.within),
            secret.by,
            secret.groups,
        )

    @cached_property
    def schema(self) -> pl.Schema:
        """The columns of the table, with the derived ones; no row is read."""
        return self.engine.schema(self.derived)

    @property
    def public(self) -> tuple[str, ...]:
        """The columns that can filter and group; numbers of rows cannot."""
        known = (name for name in self.scenario.public if name != ROW)
        return (*known, *(name for name, _ in self.derived))

    @property
    def key_types(self) -> pl.Schema:
        """The columns of keys with their types."""
        known = self.schema if self.others is None else self.others.keys.schema
        return pl.Schema(
            {
                name: with_texts(known[name], enums=True) if self.discovers else known[name]
                for name in self.by
            }
        )

    @property
    def counts_are_public(self) -> bool:
        """Whether row counts are public (false for `pf.Presence`)."""
        return not isinstance(self.scenario.secret, Presence)

    @property
    def domains(self) -> dict[str, Domain]:
        """The sensitive columns of the table, with their domains; those that a prior names may be missing."""
        known = {
            name: domain for prior in self.scenario.priors for name, domain in prior.columns.items()
        }
        known = {
            name: domain for name, domain in known.items() if name not in self.scenario.secret.made
        }
        known |= self.scenario.secret.columns
        return {
            name: domain
            for name, domain in known.items()
            if name in self.schema and name not in self.public
        }

    def missing(self, column: str) -> Label:
        """Return the value as which null, NaN and unknown labels of a column are read."""
        secret = self.scenario.secret
        if self.tuples is not None and column not in self.domains:
            return self.tuples.first  # of tuples every column has its own
        return (
            secret.read_missing(column)[0]
            if column in secret.columns
            else self.domains[column].points[0]
        )

    def missing_chosen(self, column: str) -> bool | None:
        """Return whether that value was declared; None if unknown, as for a stored scenario."""
        secret = self.scenario.secret
        return secret.read_missing(column)[1] if column in secret.columns else False

    @property
    def columns(self) -> DeclaredColumns:
        """The columns by their possible uses, for the suggestions of errors."""
        return DeclaredColumns(self.schema, tuple(self.domains), self.public, self.scenario.secret)

    @property
    def domain(self) -> Domain | None:
        """The values of the queried column; None if only rows are counted, and no column is declared."""
        if self.tuples is not None:
            return self.tuples
        domains = self.domains
        known = self.column if self.column is not None else next(iter(domains), None)
        return None if known is None else domains[known]

    @property
    def column(self) -> str | None:
        """The sensitive column that the queries read; that of tuples, if the secret has several columns."""
        read = next(
            (measure.values.column for measure in self.measures if measure is not None), None
        )
        return read if read is None or self.tuples is None else self.tuples.name

    @property
    def tuples(self) -> Product | None:
        """The tuples of values that the secret hides; None if it hides a single column."""
        return self.scenario.secret.tuples

    @cached_property
    def measures(self) -> tuple[Measure | None, ...]:
        """The different sums that the queries read; None stands for the number of rows.

        Sums that are equal for all rows are one, under whatever names queries use them.
        """
        functions = self._graphs.values()
        return tuple(
            None if values is None else Measure(values, self.missing(values.column))
            for values in functions
        )

    @property
    def units(self) -> tuple[Fraction, ...]:
        """The widths of the measures' steps; rows are counted one by one."""
        return tuple(
            Fraction(1) if measure is None else measure.values.unit for measure in self.measures
        )

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """Which of the measures each query reads."""
        place_of = {graph: place for place, graph in enumerate(self._graphs)}
        return tuple(
            tuple(place_of[values and values.graph] for values in query.measures)
            for query in self.queries
        )

    @property
    def reads(self) -> tuple[tuple[Query, tuple[int, ...]], ...]:
        """Each query with the places of its measures."""
        return tuple(zip(self.queries, self.places, strict=True))

    @cached_property
    def _graphs(self) -> dict[Hashable, Values | None]:
        """The functions that are added up, each in its first form."""
        by_graph: dict[Hashable, Values | None] = {}
        for values in (values for query in self.queries for values in query.measures):
            graph = values and values.graph
            by_graph[graph] = by_graph.get(graph) or values  # a form with a column is preferred
        return by_graph

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of all columns of the answer beside the keys."""
        return tuple(name for query in self.queries for name in query.outputs)

    @property
    def where(self) -> tuple[str, ...]:
        """The filters and the derived columns, in words."""
        made = (f"{name} = {public_words(expression)}" for name, expression in self.derived)
        others = () if self.others is None else (self.others.words,)
        return (*made, *map(public_words, self.filters), *others)

    @property
    def conditions(self) -> tuple[list[tuple[str, str]], list[str]]:
        """The derived columns and the filters, as texts that identify them."""
        made = [(name, identity(expression)) for name, expression in self.derived]
        return made, [identity(one) for one in self.filters]

    @cached_property
    def digest(self) -> str:
        """A hash that identifies the queries and the columns they read."""
        made, filters = self.conditions
        keys = (
            None
            if self.keys is None
            else list(zip(*map(exactly, self.keys.get_columns()), strict=True))
        )
        others = () if self.others is None else (self.others.listed, self.others.labelled)
        others = (DISCOVER,) if self.discovers else others
        content = made, filters, self.by, keys, self.queries, self.measures, *others
        return hashlib.sha256(repr(content).encode()).hexdigest()

    def is_whole(self, column: str) -> bool:
        """Return whether all values of a sensitive column are read as whole numbers, by its type and its domain."""
        dtype, domain = self.schema[column], self.domains[column]
        whole = dtype.is_integer() or (isinstance(dtype, pl.Decimal) and dtype.scale == 0)
        points, missing = domain.present.points, self.missing(column)
        ends: list[Any] = [points[0], points[-1], *([] if domain.skips else [missing])]
        return whole and domain.numeric and all(float(end).is_integer() for end in ends)

    def weight(self, given: object) -> Weight:
        """Return the weight of each row, an expression of public columns; it is a number, and has bounds if private."""
        self.check_weighable()
        read = self._read(given)
        factors = list(factors_of(read))
        for factor, _ in factors:
            said, dtype = public_words(factor), self._type(factor)
            if not (dtype.is_numeric() or dtype == pl.Boolean):
                raise UsageError(
                    f"The weight {said} is {type_name(dtype)}, and nothing can be multiplied by that.",
                    allowed="numbers, or true and false",
                    instead=f"({said}).cast(pl.Float64), or another public column",
                )
        floats = multiplied([(factor.cast(pl.Float64), divides) for factor, divides in factors])
        bounds = None if self.counts_are_public else self._bounds(read, factors)
        return Weight(identity(read), public_words(read), floats, bounds)

    def _bounds(
        self, weight: pl.Expr, factors: Sequence[tuple[pl.Expr, bool]]
    ) -> tuple[Fraction, Fraction]:
        """Return the declared bounds of a weight if rows come and go, and their weights with them."""
        said = public_words(weight)
        written = f"pl.col({said!r})" if weight.meta.is_column() else f"({said})"
        bounds = bounds_of_product(factors, self.schema)
        if bounds is None:
            raise UsageError(
                f"The weight {said} has no declared bounds. Under pf.Presence rows are secret, and so are their "
                "weights.",
                allowed="weights within numbers that are written down: .clip(low, high), true and false, divisors that "
                "are never 0",
                instead=f"{written}.clip(0, 100), with the largest weight that one row may have",
            )
        if max(map(abs, bounds)) > _LARGEST or 0 < max(map(abs, bounds)) < 1 / _LARGEST:
            raise UsageError(
                f"The bounds of the weight {said} are beyond 2^300, or below 2^-300.",
                allowed="bounds of common size",
                instead=f"{written}.clip(0, 100)",
            )
        return bounds

    def check_weighable(self, what: str = "Public weights") -> None:
        """Refuse weights if no bound is known on how far rows of different weights move together; `what` needs them."""
        scenario = self.scenario
        if isinstance(scenario.secret, Presence):
            return
        if not isinstance(scenario.secret, Secret | Population):
            raise _unweighted(f"{what} under the secret pf.{type(scenario.secret).__name__}")
        for prior in scenario.priors:
            if not (prior.independent_rows or prior.allows_weights):
                raise _unweighted(f"{what} under the prior pf.{type(prior).__name__}")

    # Changes

    def with_filter(self, predicate: object) -> "Request":
        """Return a copy about the rows for which a predicate of public columns holds."""
        self._before_queries("filter", ".filter(…)")
        read = self._read(predicate)
        if self._type(read) != pl.Boolean:
            raise UsageError(
                "A filter is not true or false.",
                allowed="a comparison",
                instead='.filter(pl.col("district") == "north")',
            )
        self._check_runs(read)
        return replace(self, filters=(*self.filters, read))

    def _check_runs(self, predicate: pl.Expr) -> None:
        """Refuse comparisons of values of different types or time zones, which fail only when rows are read."""
        with suppress(pl.exceptions.PolarsError):  # its text may quote the source
            self._no_rows.filter(predicate)
            return
        raise self._misfit(predicate)

    def _misfit(self, expression: pl.Expr) -> UsageError:
        """Return the error for an expression that does not fit the types of its columns, with a likely correction."""
        tree = read_tree(expression)
        types = {name: self.schema[name] for name in self.public}
        types_in_words = ", ".join(
            f"{name!r} is {type_name(types[name])}" for name in tree.columns[:3]
        )
        return UsageError(
            f"{public_words(expression)} does not fit the types of its columns: values of different types, or of "
            "different time zones, are not compared.",
            allowed=f"values of the column's own type: {types_in_words}"
            if types_in_words
            else "an expression of public columns",
            instead=fitting(tree, types) or like(tree, types),
        )

    def with_columns(self, named: Mapping[str, object]) -> "Request":
        """Return a copy with further public columns, computed from those there are."""
        if named:
            self._before_queries("with_columns", ".with_columns(…)")
        derived = list(self.derived)
        current = self
        for name, expression in named.items():
            if name in current.schema:
                raise UsageError(
                    f"A new column is called {name!r}, which is there already.",
                    allowed="names that no column has",
                    instead=f'.alias("{name}_2"), or {name}_2=…',
                )
            read = current._read(expression).alias(name)
            current._type(read)
            derived.append((name, read))
            current = replace(self, derived=tuple(derived))
        return current

    def selected(self, expression: pl.Expr) -> list[str] | None:
        """Return the public columns that an expression names unchanged; None if it makes a new one."""
        if not expression.meta.is_column_selection():
            return None
        for name in expression.meta.root_names():
            if name not in self.public:
                raise self.columns.not_public(name)
        with suppress(pl.exceptions.PolarsError):
            return self._no_rows.select(expression).columns
        raise UsageError(
            "The selector names a column that is not public.",
            allowed=f"public columns: {', '.join(map(repr, self.public))}",
            instead=f".group_by({self.public[0] if self.public else 'day'!r})",
        )

    def grouped(self, by: Sequence[str], keys: object, other: object = None) -> "Request":
        """Return a copy about each group of rows with the same public values, and about all `other` ones."""
        self.check_groups_first(by)
        if self.by:
            raise UsageError(
                "group_by is called a second time.",
                allowed="one group_by with all its columns",
                instead='.group_by("district", "day")',
            )
        for name in by:
            if name not in self.public:
                raise self.columns.not_public(name)
        if not by or len(set(by)) < len(by):
            raise UsageError(
                "group_by names no column, or one twice.",
                allowed="one or more public columns, each once",
                instead='.group_by("day")',
            )
        if isinstance(keys, str) and keys == DISCOVER:
            check_discoverable(by, self.schema, public=self.counts_are_public, other=other)
            return replace(self, by=tuple(by), discovers=True)
        if keys is None and not self.counts_are_public:
            raise UsageError(
                "The groups are private, since the secret is whether rows are there at all.",
                allowed=f'the keys of the answer, listed; or keys="{DISCOVER}", under a guarantee with a delta',
                instead=f'.group_by("{by[0]}", keys=["a", "b"])',
            )
        if keys is None:
            if other is not None:
                raise UsageError(
                    "other= is about all rows with none of the keys, and no keys are listed.",
                    allowed="the keys of the answer, listed",
                    instead=f'.group_by("{by[0]}", keys=["a", "b"], other="elsewhere")',
                )
            return replace(self, by=tuple(by))
        read = read_keys(keys, by, self.schema, public=self.counts_are_public)
        others = None if other is None else with_others(read, other)
        return replace(
            self, by=tuple(by), keys=read if others is None else others.keys, others=others
        )

    def asking(self, query: Query) -> "Request":
        """Return a copy with one more query."""
        ends = {f"{name}_{end}" for name in (*self.outputs, *query.outputs) for end in ENDS}
        taken = {*self.outputs, *self.by}
        for name in (*query.outputs, *(ends & set(self.by))):
            if name in taken:
                raise UsageError(
                    f"The answer would have two columns {name!r}.",
                    allowed="a name of its own for every query",
                    instead=f'name="{name}_2"',
                )
        self._check_name(query)
        queries = (*self.queries, query)
        self._check_columns(queries)
        graphs = {
            values.graph
            for one in queries
            if one.linear
            for values in one.measures
            if values is not None
        }
        return replace(
            self,
            queries=tuple(
                one.beside(graphs) if isinstance(one, MeanOfUnknown) else one for one in queries
            ),
        )

    @property
    def with_rows_counted(self) -> "Request":
        """The request with the number of rows of each key, by which keys appear, unless it is a query already."""
        if not self.discovers or not self.queries or None in self.measures:
            return self
        taken = {*self.schema, *self.by, *self.outputs}
        name = "rows"
        while name in taken:
            name = f"{name}_2"
        return self.asking(Count.of(name, None))

    def _check_columns(self, queries: Sequence[Query]) -> None:
        """Refuse queries about several columns whose secret is not the tuple of all of them."""
        functions = (values for query in queries for values in query.measures if values is not None)
        read = dict.fromkeys(column for values in functions for column in values.columns)
        if len(read) > 1 and not (self.tuples is not None and self.tuples.has(read)):
            first, other, *_ = read
            raise Refused(
                f"One batch has queries about {first!r} and {other!r}.",
                allowed="queries about one sensitive column, or about several that the secret lists",
                instead=f"pf.Scenario(secret=[pf.Secret({first!r}, …), pf.Secret({other!r}, …)], …), or "
                f"pf.protect(frame, scenario).private_sum({other!r}), a batch of its own",
            )

    def _check_name(self, query: Query) -> None:
        """Refuse the name of another declared column, as in private_sum("level", "price"): two sums were meant."""
        columns = {
            column for values in query.measures if values is not None for column in values.columns
        }
        if query.name in {*self.public, *self.domains} - columns:
            raise UsageError(
                f"The answer would be called {query.name!r}, the name of a column that the query does not read.",
                allowed="one column for a query, and a name that no other column has",
                instead=f'a query of its own for {query.name!r}, or name="{query.name}_2"',
            )

    def check_groups_first(self, by: Sequence[str]) -> None:
        """Refuse a group_by after a query."""
        named = ", ".join(f'"{name}"' for name in by) or '"day"'
        self._before_queries("group_by", f".group_by({named})")

    def _before_queries(self, what: str, typed: str) -> None:
        if not self.queries:
            return
        asked = self.queries[0].words
        raise UsageError(
            f"{what} after a query, {asked}: all queries of a batch are about the same rows in the same groups.",
            allowed="filter, with_columns and group_by first, then the queries",
            instead=f'{typed}.private_sum("level"), in this order; for other rows or groups another batch',
        )

    @property
    def _no_rows(self) -> pl.DataFrame:
        return pl.DataFrame(schema={name: self.schema[name] for name in self.public})

    def _type(self, expression: pl.Expr) -> pl.DataType:
        """Return the type of a public expression, so that one that does not fit its columns is found at once."""
        with suppress(pl.exceptions.PolarsError):  # its text may quote the source
            return self._no_rows.lazy().select(expression.alias("it")).collect_schema()["it"]
        raise self._misfit(expression)

    def _read(self, expression: object) -> pl.Expr:
        known = {name: self.schema[name] for name in self.public}
        return read_public(
            cast(Any, expression),
            known,
            self.columns.not_public,
            never_fails=not self.counts_are_public,
        )


def _unweighted(what: str) -> Refused:
    return Refused(
        f"{what} are refused: no bound is known on how far rows of different weights move together.",
        allowed="pf.Secret with pf.Independent(), pf.MarkovChain, pf.GaussianPrior, pf.LatentClass or "
        "pf.AnyCorrelation()",
        instead="prior=pf.AnyCorrelation(), or .group_by of the weight without it, and products of the answers",
    )
