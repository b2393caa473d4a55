"""The version of a table, as the table's own log names it, carried by the plan of the frame that reads it.

Every operation on a lazy frame keeps its scans in the plan; so the version is stored there, as a text in a column that
is dropped again, and that no query computes. A certificate has only the versions that were read: a digest of contents
would reveal information about rows.
"""

import re
from typing import Final, final
from urllib.parse import quote, unquote

import msgspec
import polars as pl

_MARK: Final = "pufferflow source"
_COLUMN: Final = "__pufferflow_source"
_MARKED: Final = re.compile(rf'"{_MARK} (?P<kind>\S+) (?P<version>\S+) (?P<place>\S+)"\.alias\("{_COLUMN}"\)')


@final
class SourceVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A version of a table of some kind, such as 7 of a Delta table, or the identifier of a snapshot.

    >>> print(SourceVersion("delta", "7"))
    delta table, version 7
    """

    kind: str
    version: str

    def __str__(self) -> str:
        """Return the version as certificates show it."""
        return f"{self.kind} table, version {self.version}"


def with_version(frame: pl.LazyFrame, version: SourceVersion, place: str) -> pl.LazyFrame:
    """Return a scan of one version of the table at a place, which is certain to have the same rows each time.

    >>> frame = with_version(pl.LazyFrame({"level": [0, 1]}), SourceVersion("delta", "7"), "s3://bucket/meters")
    >>> versions_in(frame.filter(pl.col("level") > 0).explain(optimized=False))
    [(SourceVersion(kind='delta', version='7'), 's3://bucket/meters')]
    """
    words = " ".join(quote(text, safe="") for text in (version.kind, version.version, place))
    return frame.with_columns(pl.lit(f"{_MARK} {words}").alias(_COLUMN)).drop(_COLUMN)


def versions_in(plan: str) -> list[tuple[SourceVersion, str]]:
    """Return the versions that a plan reads, each with its place, in the order of the plan.

    Several tables may have the same version, so each place is listed once.
    """
    found = (
        (SourceVersion(unquote(mark["kind"]), unquote(mark["version"])), unquote(mark["place"]))
        for mark in _MARKED.finditer(plan)
    )
    return list(dict.fromkeys(found))
