"""The columns that a scenario declares, and the errors for columns that it does not."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import final

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import did_you_mean, nearest
from pufferflow.core.tables import moment_source
from pufferflow.core.validate import quoted
from pufferflow.models.domain import Interval
from pufferflow.models.secret import AnySecret, Presence

_SOME = 8
_COMPARISON = re.compile(
    r"\s*(?P<column>\w+)\s*(?P<operator>==?|<|>)\s*(?P<value>'[^']*'|\"[^\"]*\"|-?[\d.]+)\s*"
)


def no_column(name: str, frame: Iterable[str], needed: Sequence[str]) -> UsageError:
    """Return the error for a column that a scenario names and a frame does not have."""
    columns = list(frame)
    near = nearest(name, [column for column in columns if column not in needed])
    instead = f'frame.rename({{"…": "{name[:40]}"}}); a CSV file may need has_header=False'
    if near:
        renamed = f"frame.rename({{{near[0]!r}: {name[:40]!r}}})"
        instead = f"{near[0]!r} instead of {name[:40]!r} in the scenario, or {renamed}"
    problem = f"The frame has no column {name!r}.{did_you_mean(name, near)}"
    return UsageError(problem, allowed=f"a frame with {listed(needed)}", instead=instead)


def no_unit(name: str, frame: Iterable[str], needed: Sequence[str]) -> UsageError:
    """Return the error for a missing column of units; it suggests `Presence.of_rows`, which makes one for each row."""
    missing = no_column(name, frame, needed)
    made = "pf.Presence.of_rows(…), if each row is a unit of its own: it makes an id"
    near = nearest(name, [column for column in frame if column not in needed])
    return UsageError(
        f"{missing.problem} It says whose row each row is.",
        allowed=missing.allowed,
        instead=f"{missing.instead}; or {made}" if near else made,
    )


@final
@dataclass(frozen=True)
class DeclaredColumns:
    """The columns of a frame with their types, and which of them a scenario declares to be sensitive or public."""

    frame: Mapping[str, pl.DataType]
    sensitive: tuple[str, ...]
    public: tuple[str, ...]
    secret: AnySecret

    def not_sensitive(self, name: str, together: Sequence[str] = ()) -> UsageError:
        """Return the error for a query of a column without a declared domain, alone or with others."""
        allowed = (
            listed(self.sensitive)
            or "counts of rows, private_count(): no column is declared with a domain"
        )
        if name not in self.frame:
            return self._not_there(name, self.sensitive or self.frame, allowed)
        hidden = next((column for column in together if column in self.sensitive), None)
        if name in self.public:
            return self._public(name, hidden, allowed)
        if isinstance(self.secret, Presence) and not self.sensitive:
            problem = f"pf.Presence({self.secret.within!r}) names no column, and a query reads {quoted(name)}."
            return UsageError(problem, allowed=allowed, instead=self._presence_of(name))
        if hidden is not None:
            return UsageError(
                f"The column {quoted(name)} is not declared, and a query reads it together with {hidden!r}.",
                allowed=allowed,
                instead='frame.with_columns(both=…) of this expression before protect, and pf.Secret("both", …)',
            )
        return UsageError(
            f"The column {quoted(name)} is not declared: it is neither secret with a domain nor public.",
            allowed=allowed,
            instead=f"pf.Secret({quoted(name)}, domain={self._domain_of(name)}) in a scenario of its own",
        )

    def not_public(self, name: str) -> UsageError:
        """Return the error for a filter or group by a column that is not public."""
        allowed = (
            f"public columns: {listed(self.public[:_SOME])}"
            if self.public
            else "public columns: none yet"
        )
        if name in self.sensitive:
            domain = self.secret.columns.get(name)
            bins = f", {domain.some_bins}" if isinstance(domain, Interval) else ""
            return UsageError(
                f"The column {quoted(name)} is secret, not public: filters and groups by it would reveal its values.",
                allowed=allowed,
                instead=f".private_histogram({quoted(name)}{bins}), or .private_count(pl.col({quoted(name)}) == …)",
            )
        if name not in self.frame:
            return self._not_there(name, self.public, allowed)
        if isinstance(self.secret, Presence):
            return UsageError(
                f"The column {quoted(name)} is not declared as public.",
                allowed=f"{allowed}. Under pf.Presence that means its possible values; those of each unit stay hidden",
                instead=f"pf.Scenario(..., public=[{quoted(name)}]) if everybody may know which values there can be",
            )
        return UsageError(
            f"The column {quoted(name)} is not public.",
            allowed=allowed,
            instead=f"pf.Scenario(..., public=[{quoted(name)}]) if everybody may know it, row by row",
        )

    def _not_there(self, name: str, wanted: Iterable[str], allowed: str) -> UsageError:
        near = nearest(name, wanted) or nearest(name, self.frame)
        instead = repr(near[0]) if near else "batch.request.schema, which lists all columns"
        said = did_you_mean(name, near)
        moment = _moment(name)
        if not near and moment is not None:
            instead, said = f"{moment}: in Polars a text beside a column is the name of another", ""
        elif not near and not name.isidentifier():
            instead = _compared(name)
        return UsageError(
            f"The frame has no column {quoted(name)}.{said}", allowed=allowed, instead=instead
        )

    def _public(self, name: str, hidden: str | None, allowed: str) -> UsageError:
        if isinstance(self.secret, Presence):
            instead = f".group_by({quoted(name)}, keys=[…]).private_count(), or public without {quoted(name)} and "
            return UsageError(
                f"The column {quoted(name)} is public, and queries are about sensitive columns.",
                allowed=allowed,
                instead=instead + self._presence_of(name),
            )
        if hidden is not None:
            product = f"pl.col({hidden!r}) * pl.col({quoted(name)})"
            return UsageError(
                f"The public column {quoted(name)} stands in a query beside {hidden!r}.",
                allowed="public columns as factors in private_sum, or as weights of private_mean",
                instead=f".private_sum({product}), or .private_mean({hidden!r}, weights={quoted(name)})",
            )
        return UsageError(
            f"The column {quoted(name)} is public: everybody may know it, and it needs no noise.",
            allowed=allowed,
            instead=f"frame.select({quoted(name)}) with Polars; pf.Secret({quoted(name)}, domain=…) if it is secret",
        )

    def _domain_of(self, name: str) -> str:
        """Return a domain that a column of this type can have."""
        dtype = self.frame[name]
        if dtype == pl.Boolean:
            return "[False, True]"
        return "pf.Interval(0, 100)" if dtype.is_numeric() else '["low", "high"]'

    def _presence_of(self, name: str) -> str:
        rows = getattr(self.secret, "rows", None) or 10
        within = getattr(self.secret, "within", "")
        return f"pf.Presence({within!r}, column={quoted(name)}, domain={self._domain_of(name)}, rows={rows})"


def listed(names: Iterable[str]) -> str:
    """Return names in quotes, with commas."""
    return ", ".join(map(repr, names))


def _compared(text: str) -> str:
    """Return a comparison that is given as a text as an expression; an example for another text."""
    parts = _COMPARISON.fullmatch(text)
    if parts is None:
        return 'pl.col("district") == "north", as an expression of Polars'
    return f'pl.col("{parts["column"]}") {parts["operator"].replace("==", "=").replace("=", "==")} {parts["value"]}'


def _moment(text: str) -> str | None:
    """Return the literal of a date or time that is given as a text; None for another text."""
    try:
        return moment_source(datetime.fromisoformat(text), is_date=len(text) == 10)
    except ValueError:
        return None
