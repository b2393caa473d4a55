"""Public references: named public tables from which priors are fitted, and the origin of frames.

The origin shows whether a prior was fitted on the private rows themselves, and which files may change.
"""

import hashlib
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

import polars as pl

from pufferflow.core.errors import SourceError, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.suggestions import did_you_mean, suggests_arguments
from pufferflow.core.tables import ArrowTable, SourceVersion, unnamed_index, versions_in, with_index
from pufferflow.core.validate import set_fields
from pufferflow.models.stored import Stored

_SCAN = re.compile(r"(\w+) SCAN \[(.*)\]$", re.MULTILINE)
_BARE_SCAN = re.compile(
    r"\w+ SCAN \[(?:(?!, )[^\n\[\]])+\](?:\n(?:PROJECT [^\n]*|ESTIMATED ROWS: \d+))*"
)
"""The plan of a bare scan of one file: any further operation may give other rows each time, or add rows."""
_COLUMNAR = {"Parquet", "Ipc"}
_NAMELESS = {"PythonDataset", "PYTHON"}
"""Tables of many files, which Polars looks up when it reads, and functions: all of a kind have one name."""


@final
@dataclass(frozen=True)
class FrameOrigin:
    """The files that a frame scans, and the frame itself while it lives; it is not stored."""

    files: frozenset[str]
    frame: Any = field(compare=False, repr=False, default=None)
    columnar: frozenset[str] = frozenset()
    """Those of the files whose layout Polars looks up once for a frame, so that it cannot read another version."""
    files_only: bool = False
    """Whether the frame is a scan of one file and no more, so that its rows are those of the file each time."""
    versions: tuple[SourceVersion, ...] = ()
    """The versions of tables that the frame reads, as far as it says so; their places are among the files."""
    zoned: bool | None = None
    """Whether the times that a period was fitted on have a time zone; None without such times."""

    def check_public(self, what: str, private: Any) -> None:
        """Refuse a reference that is the private frame, or that scans a file of it; `what` names the reference.

        Two filters on one file may leave the same rows, and no row is read here to compare them. If their rows differ,
        collect the reference first.

        >>> frame = pl.DataFrame({"x": [1]})
        >>> frame_origin(frame).check_public("The reference 'a survey'", pl.DataFrame({"x": [1]}))
        """
        table = private.given if isinstance(private, ArrowTable) else private
        if self.frame is not None and self.frame() is table:
            raise UsageError(
                f"{what} is the private frame itself.",
                allowed="a prior that is declared, or fitted on other, public rows",
                instead='pf.Reference("a public survey", other_frame)',
            )
        if files := sorted(self.files & frame_origin(private).files):
            raise UsageError(
                f"{what} comes from the same file as the private frame: {files[0][-200:]!r}.",
                allowed="other, public rows; if the rows of both differ, collect the reference first",
                instead='pf.Reference("an earlier year", frame.filter(…).collect())',
            )

    def check_clock(self, column: str, dtype: Any) -> None:
        """Refuse private times with a zone where the period was fitted on times without one, and the reverse.

        Positions count from 1970-01-01, in UTC where there is a zone: a table of the period would have another hour.

        >>> FrameOrigin(frozenset(), zoned=False).check_clock("hour", pl.Datetime())
        """
        private = zoned(dtype)
        if self.zoned is None or private is None or self.zoned == private:
            return
        have = {True: "have a time zone", False: "have none"}
        raise UsageError(
            f"The private times in {column!r} {have[private]}; those that the period was fitted on {have[self.zoned]}.",
            allowed="both with a time zone, or both without one: else the table of an hour is used at another hour",
            instead=f'frame.with_columns(pl.col("{column}").dt.convert_time_zone("Europe/Vienna").dt.replace_time_zone(None))'
            if private
            else f'frame.with_columns(pl.col("{column}").dt.replace_time_zone("Europe/Vienna"))',
        )


def zoned(dtype: Any) -> bool | None:
    """Return whether moments of a type have a time zone; None for dates and for what is no time.

    >>> zoned(pl.Datetime("us", "UTC")), zoned(pl.Datetime()), zoned(pl.Date())
    (True, False, None)
    """
    return dtype.time_zone is not None if dtype == pl.Datetime else None


def frame_origin(frame: Any) -> FrameOrigin:
    """Return the origin of a frame, as far as its plan contains it."""
    if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
        return FrameOrigin(frozenset(), weakly(frame))
    files, columnar, plan = set[str](), set[str](), ""
    if isinstance(frame, pl.LazyFrame):
        try:
            plan = frame.explain(optimized=False)
        except (pl.exceptions.PolarsError, OSError):  # it cannot be read either, and says so then
            plan = ""
    versions = versions_in(plan)
    files |= {place for _, place in versions}
    for reader, scanned in _SCAN.findall(plan):
        if reader in _NAMELESS:
            continue
        paths = set(scanned.split(", "))
        files |= paths
        columnar |= paths if reader in _COLUMNAR else set()
    only = bool(files) and _BARE_SCAN.fullmatch(plan.strip()) is not None
    names = tuple(version for version, _ in versions)
    return FrameOrigin(frozenset(files), weakref.ref(frame), frozenset(columnar), only, names)


def weakly(table: Any) -> Any:
    """Return a reference to a table of another library that does not keep it; None for what has none."""
    try:
        return weakref.ref(table)
    except TypeError:
        return None


_AT_ONCE = 1 << 17
_INSTEAD = 'pf.Reference("census 2020", frame)'


@final
@suggests_arguments
@dataclass(frozen=True, eq=False)
class Reference(InNotebooks):
    """A table that is declared to be public, with a name for people.

    `frame` is a Polars frame, lazy or not, or whatever `pl.DataFrame` takes. Whatever is fitted on it counts as public,
    so it must not hold rows that a release protects.

    >>> Reference("three households", {"size": [1, 2, 4]}).read(["size"]).height
    3
    """

    name: str
    frame: pl.LazyFrame
    origin: FrameOrigin

    def __init__(self, name: str, frame: Any) -> None:
        if not isinstance(cast(object, name), str) or not name.strip():
            raise UsageError(
                f"The name of a public reference is {name!r}.",
                allowed="what people call it",
                instead=_INSTEAD,
            )
        set_fields(self, name=name, frame=_lazy(frame), origin=frame_origin(frame))

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return some columns, which are public, and read nothing else."""
        try:
            known = self.frame.collect_schema().names()
            missing = [column for column in columns if column not in known]
            if not missing:
                return self.frame.select(columns).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise SourceError(f"The public reference {self.name!r} could not be read.") from error
        if (
            problem := unnamed_index(self.origin.frame and self.origin.frame(), missing[0])
        ) is not None:
            raise problem
        raise UsageError(
            f"The public reference {self.name!r} has no column {missing[0]!r}.{did_you_mean(missing[0], known)}",
            allowed=f"one of {known[:6]}{' …' if len(known) > 6 else ''}",
            instead="the name of one of its columns",
        )

    def digest(self, columns: Sequence[str]) -> str:
        """Return a short fingerprint of some columns."""
        return digest_of(self.read(columns))


def digest_of(frame: pl.DataFrame) -> str:
    """Return a short fingerprint of a public table: of its names and values, row by row.

    >>> digest_of(pl.DataFrame({"size": [1, 2, 4]})) == digest_of(pl.DataFrame({"size": [1, 2]}))
    False
    """
    digest = hashlib.sha256(repr(frame.columns).encode())
    for part in frame.iter_slices(_AT_ONCE):
        digest.update(part.write_csv(include_header=False, null_value="\0").encode())
    return digest.hexdigest()[:16]


def read_reference(given: object) -> Reference:
    """Return a reference; a bare frame is refused, since nothing declares it public."""
    if isinstance(given, Reference):
        return given
    raise UsageError(
        f"The reference is of type {type(given).__name__}, which says neither its name nor that it is public.",
        allowed="a pf.Reference",
        instead=_INSTEAD,
    )


def _lazy(frame: Any) -> pl.LazyFrame:
    if isinstance(frame, pl.LazyFrame):
        return frame
    if isinstance(frame, pl.DataFrame):
        return frame.lazy()
    try:
        if not isinstance(frame, str | bytes) and frame is not None:
            return pl.DataFrame(with_index(frame)).lazy()
        problem = f"The frame of a public reference is of type {type(frame).__name__}."
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        problem = f"pl.DataFrame does not take the frame of type {type(frame).__name__} ({type(error).__name__})."
    raise UsageError(
        problem,
        allowed="a Polars frame, or what pl.DataFrame takes",
        instead='pl.scan_parquet("file")',
    )


@final
@dataclass(frozen=True)
class Provenance(Stored):
    """The source of a prior: declared by a person, or fitted on a named public reference."""

    reference: str | None = None
    rows: int = 0
    digest: str = ""
    notes: tuple[str, ...] = field(default=())
    origin: FrameOrigin | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without the origin, which belongs to this process."""
        return Provenance, (self.reference, self.rows, self.digest, self.notes)

    def describe(self) -> str:
        """Return the source in words, and the defects that fitting found."""
        return "; ".join([self.origin_in_words, *self.notes])

    def noted(self, *notes: str) -> "Provenance":
        """Return the same with further notes."""
        return Provenance(
            self.reference, self.rows, self.digest, (*self.notes, *notes), self.origin
        )

    @property
    def origin_in_words(self) -> str:
        """The source alone."""
        if self.reference is None:
            return "declared"
        return f"fitted on {self.rows} rows of the public reference {self.reference!r}"

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Provenance":
        return cls(stored["reference"], stored["rows"], stored["digest"], tuple(stored["notes"]))
