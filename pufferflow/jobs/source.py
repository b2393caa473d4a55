"""The interface to private rows: what `[source]` of a job file needs to return those of a period.

A source is a `TomlTable` that is a `SourceTable`, and an entry point in the group `pufferflow.sources`, whose name is
what the key `kind` of `[source]` says.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

import polars as pl
from msgspec import Meta

from pufferflow.core.errors import UsageError
from pufferflow.core.paths import scheme_of
from pufferflow.jobs.period import Period
from pufferflow.jobs.toml import with_variables

Options = Annotated[
    dict[str, str | int | float | bool],
    Meta(description="region, endpoint and credentials of an object store; ${NAME} is looked up"),
]
ColumnType = Literal["integer", "float", "text", "boolean", "date", "datetime"]
COLUMNS: Final = '[source.columns] with hour = "datetime", level = "integer"'
FUNCTION: Final = '[source] function = "job.py:rows", which can read anything'
_PLACE: Final = re.compile(r"(?<!\$)\{(?P<name>[^}]*)\}")
_FORM: Final = re.compile(r"period(:(?P<form>(%[YmdHGVjy]|[^%{}])+))?")


class SourceTable(Protocol):
    """The keys that `[source]` of a job file has for one kind of source."""

    def check_address(self) -> None:
        """Refuse an unusable address; variables that the environment lacks are not checked."""
        ...

    def rows(self, folder: Path, period: Period) -> Any:
        """Return the rows for a period, as `pf.protect` takes them; paths are relative to the job file's folder.

        A source that has versions, or can be read once, returns rows that are the same each time they are read. Errors
        have no words of a server, which may quote rows and passwords. A failure that may pass is a `SourceError`.
        """
        ...


def check_address(address: str, schemes: Collection[str], reader: str) -> None:
    """Refuse an address with a scheme that a reader does not know; the error shows only the scheme."""
    scheme = scheme_of(address)
    if scheme is not None and not (scheme in schemes and "://" in address):
        raise UsageError(
            f"The source is an address with '{scheme}:', which {reader} does not read.",
            allowed=f"files, or addresses with {', '.join(f'{name}://' for name in schemes)}",
            instead=FUNCTION,
        )


def dtypes_of(columns: Mapping[str, ColumnType]) -> dict[str, pl.DataType]:
    """Return the types of declared columns.

    >>> dtypes_of({"day": "date", "level": "integer"})
    {'day': Date, 'level': Int64}
    """
    return {name: _DTYPES[kind] for name, kind in columns.items()}


_DTYPES: Final[Mapping[ColumnType, pl.DataType]] = {
    "integer": pl.Int64(),
    "float": pl.Float64(),
    "text": pl.String(),
    "boolean": pl.Boolean(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}


def looked_up(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options with their variables."""
    return {name: with_variables(value) if isinstance(value, str) else value for name, value in (options or {}).items()}


def check_places(text: str, what: str) -> None:
    """Refuse a text with other places than {period}, such as a misspelt one."""
    for place in _PLACE.finditer(text):
        if not names_period(place["name"]):
            raise UsageError(
                f"The {what} has {{{place['name'][:60]}}}.",
                allowed="{period}, {period:%Y-%m} of its first moment, and ${NAME} of the environment",
                instead='path = "data/{period}.parquet"',
            )


def placed(text: str, period: Period) -> str:
    """Return a text with its variables and its period.

    >>> placed("year={period:%Y}/month={period:%m}/{period}.parquet", Period.read("2026-11-20"))
    'year=2026/month=11/2026-11-20.parquet'
    """
    return with_variables(_PLACE.sub(lambda place: word_of(place["name"], period), text))


def word_of(place: str, period: Period) -> str:
    """Return the replacement of a place that names the period: its name, or its first moment in a form.

    >>> word_of("period:%Y-%m", Period.read("2026-11-20"))
    '2026-11'
    """
    found = _FORM.fullmatch(place)
    form = None if found is None else found["form"]
    return str(period) if form is None else period.start.strftime(form)


def names_period(place: str) -> bool:
    """Return whether a place names the period, by itself or with a form.

    >>> names_period("period"), names_period("period:%Y"), names_period("perod")
    (True, True, False)
    """
    return _FORM.fullmatch(place) is not None
