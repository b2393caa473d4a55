"""Published releases read back as a frame: from a folder, from a table that a sink wrote, or from the sink of a job.

All of them become one table in the form of `PublishedRows`: a row of a release has its id, its number in it, keys,
numbers, error bars and limits. A release counts if it is whole, which its certificate shows: it is written last.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec
import polars as pl

from pufferflow.core.entry_points import names_in
from pufferflow.core.errors import SourceError, UsageError
from pufferflow.core.paths import local_path, scheme_of
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.tables import ArrowStream, gives_arrow, type_name
from pufferflow.engines.connect import RemoteTable
from pufferflow.jobs.file import SINKS
from pufferflow.jobs.job import Job
from pufferflow.jobs.sink import (
    CERTIFICATE_COLUMN,
    RELEASE_COLUMN,
    ROW_COLUMN,
    Sink,
    SinkTable,
    rows_of_folders,
)
from pufferflow.published.files import CERTIFICATE, OURS, TABLES
from pufferflow.queries.expressions.tree import named
from pufferflow.queries.request import ENDS

ReleaseSource = (
    str
    | Path
    | Job
    | Mapping[str, object]
    | pl.LazyFrame
    | pl.DataFrame
    | ArrowStream
    | RemoteTable
)
Missing = Literal["raise", "insert"]
_OWN: Final = (RELEASE_COLUMN, ROW_COLUMN, CERTIFICATE_COLUMN)
_LABEL: Final = r"\d{4}-(?:W\d{2}|\d{2}(?:-\d{2}(?:T\d{2})?)?)"
_ID: Final = re.compile(rf"(?:(?P<job>.+)-)?(?P<period>{_LABEL})(?:\.(?P<revision>\d+))?")
"""The id of a release of a job: "meters-daily-2026-11-20.2", or without a job the name of its folder."""
_KINDS: Final = (
    "a folder of releases, one of them, a table that a sink wrote, a pf.Job, or the keys of [sink]"
)
_SQL: Final = (
    'pf.scan_release({"kind": "sql", "address": "sqlite:///published.db", "table": "meters"})'
)
_FOLDER: Final = 'pf.scan_release("published"), the folder that a job publishes to'


@suggests_arguments
def scan_release(  # noqa: PLR0913 - options of Polars' scans, by name
    source: ReleaseSource,
    *,
    intervals: bool = False,
    job: str | None = None,
    missing_columns: Missing = "raise",
    period: str = "period",
    revision: str = "revision",
) -> pl.LazyFrame:
    """Return published releases as a lazy frame, with the period and the revision of each before its own columns.

    The source is one of these:

    - a folder that a job publishes to, the folder of one release, or a file in it
    - a Delta table, or a frame of the table that a sink wrote, such as `pl.scan_delta(path)`
    - a `pf.Job`, or a dictionary with the keys of its `[sink]`, of any kind

    Only whole releases are returned: one that is being written, or was interrupted, has no certificate yet. Releases
    are small, so they are read and checked now, and a damaged file is an error.

    With `intervals=True` the ends of its error bar follow each number. If a table has releases of several jobs, name
    one with `job`. If releases have different columns, `missing_columns="insert"` reads null for those that one lacks,
    as in `pl.scan_parquet`. `period` and `revision` are the names of these two columns.

    >>> import tempfile, polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent(), public=["day"])
    >>> rows = pl.DataFrame({"day": [1, 1, 2], "level": [0, 3, 2]})
    >>> batch = pf.protect(rows, scenario).group_by("day").private_sum("level")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for week in ("2026-W47", "2026-W48"):
    ...         _ = batch.release(epsilon=1.0).write_parquet(f"{folder}/{week}")
    ...     published = pf.scan_release(folder, intervals=True)
    >>> published.collect_schema().names()
    ['period', 'revision', 'day', 'level_sum', 'level_sum_low', 'level_sum_high']
    >>> published.filter(pl.col("period") == "2026-W48").select("day").collect().to_series().to_list()
    [1, 2]
    """
    rows = _rows(source, missing_columns)
    if rows.width == 0 or not set(_OWN[:2]) <= set(rows.columns):
        raise _no_table(rows)
    whole = _of_job(_whole(rows), source.name if isinstance(source, Job) else job)
    return _arranged(whole, (period, revision), intervals=intervals).lazy()


# Where releases are


def _rows(source: object, missing: Missing) -> pl.DataFrame:
    """Return the rows of all releases of a source."""
    match source:
        case str() | Path():
            return _of_path(source, missing)
        case Job():
            return _of_sink(source.file.sink.open(source.folder, source.name), missing)
        case RemoteTable():
            schema, _, table = source.name.rpartition(".")
            within = {"schema": schema} if schema else {}
            keys = {"kind": "sql", "address": source.address, "table": table, **within}
            return _of_keys({**keys}, missing)
        case Mapping():
            return _of_keys(dict(cast(Mapping[str, object], source)), missing)
        case _:
            return _of_frame(source)


def _of_frame(source: object) -> pl.DataFrame:
    """Return the rows of a table that a reader of its own has read, or will read."""
    if isinstance(source, pl.DataFrame):
        return source
    if isinstance(source, pl.LazyFrame):
        return sandboxed(source.collect, _unreadable)
    if gives_arrow(source):
        return sandboxed(lambda: pl.DataFrame(cast(Any, source)), _unreadable)
    raise UsageError(
        f"Releases are read from a value of type {type(source).__name__}.",
        allowed=_KINDS,
        instead=_FOLDER,
    )


def _of_keys(keys: dict[str, object], missing: Missing) -> pl.DataFrame:
    """Return the rows of the sink that has these keys in `[sink]`."""
    if "kind" not in keys:
        raise UsageError(
            "The keys of the sink have no kind.",
            allowed=", ".join(names_in("pufferflow.sinks")),
            instead=_SQL,
        )
    kind = SINKS.read(keys)  # takes out the kind
    problem = ""
    try:
        table: Any = msgspec.convert(keys, kind, strict=True)
    except msgspec.ValidationError as error:
        problem = str(error)
    else:
        return _of_sink(cast(SinkTable, table).open(Path(), ""), missing)
    raise UsageError(
        f"The keys of the sink do not fit: {problem[:200]}.",
        allowed=", ".join(kind.__struct_fields__),
        instead=_SQL,
    )


def _of_sink(sink: Sink, missing: Missing) -> pl.DataFrame:
    rows = sink.rows(insert=_inserts(missing))
    if rows is None or rows.is_empty():
        raise _nothing(sink.root)
    return rows


def _of_path(given: str | Path, missing: Missing) -> pl.DataFrame:
    """Return the rows of a folder of releases, of one release, or of a Delta table."""
    if scheme := scheme_of(str(given)):
        instead = _SQL if scheme.startswith(("sqlite", "postgres")) else _OTHERS.format(scheme)
        raise UsageError(
            f"The source is an address with '{scheme}:'.", allowed=_KINDS, instead=instead
        )
    place = local_path(given, "The source").expanduser()
    if place.is_file():
        place = _folder_of(place)
    if not place.is_dir():
        raise UsageError(
            f"There is no folder {str(place)[-200:]!r}.", allowed=_KINDS, instead=_FOLDER
        )
    if (place / "_delta_log").is_dir():
        return _of_keys({"kind": "delta", "path": str(place)}, missing)
    one = [place] if OURS.intersection(file.name for file in place.iterdir()) else None
    rows = rows_of_folders(one or sorted(place.iterdir()), insert=_inserts(missing))
    if rows is None:
        raise _nothing(str(place)) if one is None else _unfinished(place)
    return rows


def _folder_of(file: Path) -> Path:
    """Return the folder of the release that a file belongs to; refuse a file that belongs to none."""
    if file.name in OURS and not file.name.startswith(f"{TABLES[1]}."):
        return file.parent
    instead = _FOLDER
    if file.name.startswith(f"{TABLES[1]}."):
        instead = f"pf.scan_release({str(file.parent)[-200:]!r}, intervals=True)"
    elif file.suffix == ".toml":
        instead = f"pf.scan_release(pf.Job.read({str(file)[-200:]!r}))"
    elif file.suffix in (".db", ".sqlite"):
        instead = _SQL
    raise UsageError(
        f"The file {str(file)[-200:]!r} does not have the numbers of a release.",
        allowed=f"{TABLES[0]}.parquet, .csv or .ndjson of a release, with {CERTIFICATE} beside it",
        instead=instead,
    )


def _inserts(missing: object) -> bool:
    if missing not in ("raise", "insert"):
        raise UsageError(
            f"missing_columns is {str(missing)[:60]!r}.",
            allowed='"raise" or "insert"',
            instead='missing_columns="insert"',
        )
    return missing == "insert"


# From rows to releases


def _whole(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of releases with a certificate; refuse those whose rows are not all there, or twice.

    A table of a SQL database has no certificates: a release is one transaction there. A release without a group has one
    row, which has no number.
    """
    release, number = named(RELEASE_COLUMN), named(ROW_COLUMN)
    if CERTIFICATE_COLUMN in rows.columns:
        rows = rows.filter(named(CERTIFICATE_COLUMN).is_not_null().any().over(release))
    rows = rows.filter(number.is_not_null()).sort(release, number)
    counted = rows.group_by(release, maintain_order=True).agg(
        (number == pl.int_range(pl.len())).all().alias("counted")
    )
    wrong = counted.filter(~pl.col("counted"))[RELEASE_COLUMN].to_list()
    if wrong:
        raise SourceError(
            f"The rows of the release {str(wrong[0])[:100]!r} are not all there, or are there twice.",
            allowed="the whole table that a sink wrote",
            instead="pf.scan_release of the table as it is, and filters afterwards",
        )
    return rows


def _of_job(rows: pl.DataFrame, job: str | None) -> pl.DataFrame:
    """Return the rows of one job's releases, with the period and the revision of each.

    Names of folders have no job, since a folder belongs to one.
    """
    read = [(str(one), _parsed(str(one))) for one in rows[RELEASE_COLUMN].unique()]
    jobs = sorted({parsed[0] for _, parsed in read})
    if job is None and len(jobs) > 1:
        raise UsageError(
            f"The table has releases of several jobs: {', '.join(map(repr, jobs[:5]))}.",
            allowed="one of them",
            instead=f"job={jobs[-1]!r}",
        )
    if job is not None and jobs and not {job, ""} & set(jobs):
        raise UsageError(
            f"There is no release of the job {job[:60]!r}.",
            allowed=", ".join(map(repr, jobs[:5])),
            instead=f"job={jobs[-1]!r}",
        )
    found = pl.DataFrame(
        [(one, *parsed[1:]) for one, parsed in read if job is None or parsed[0] in (job, "")],
        schema={RELEASE_COLUMN: pl.String, _PERIOD: pl.String, _REVISION: pl.Int64},
        orient="row",
    )
    return rows.join(found, on=RELEASE_COLUMN, maintain_order="left")


def _parsed(release: str) -> tuple[str, str, int]:
    """Return the job, the period and the revision of a release's id.

    >>> _parsed("meters-daily-2026-11-20.2"), _parsed("2026-W47"), _parsed("monday")
    (('meters-daily', '2026-11-20', 2), ('', '2026-W47', 1), ('', 'monday', 1))
    """
    found = _ID.fullmatch(release)
    if found is None:
        return "", release, 1
    return found["job"] or "", found["period"], int(found["revision"] or 1)


def _arranged(rows: pl.DataFrame, names: tuple[str, str], *, intervals: bool) -> pl.DataFrame:
    """Return the columns in order: the period and the revision, keys, and each number, with its bar if wanted."""
    there = [name for name in rows.columns if name not in (*_OWN, _PERIOD, _REVISION)]
    low, high = ENDS[:2]
    outputs = [name for name in there if {f"{name}_{low}", f"{name}_{high}"} <= set(there)]
    ends = {f"{name}_{end}" for name in outputs for end in ENDS}
    columns = list[str]()
    for name in (one for one in there if one not in ends):
        bars = (f"{name}_{low}", f"{name}_{high}") if intervals and name in outputs else ()
        columns += [name, *bars]
    _check_names(names, columns)
    ordered = rows.sort(_PERIOD, _REVISION, ROW_COLUMN, maintain_order=True)
    own = (named(one).alias(name) for one, name in zip((_PERIOD, _REVISION), names, strict=True))
    return ordered.select(*own, *map(named, columns))


def _check_names(names: Sequence[str], columns: Sequence[str]) -> None:
    for what, name in zip(("period", "revision"), names, strict=True):
        if name in columns or names[0] == names[1]:
            raise UsageError(
                f"Two columns would be called {name[:60]!r}.",
                allowed="a name that no column of the releases has",
                instead=f'{what}="release_{what}"',
            )


_PERIOD, _REVISION = "\0period", "\0revision"
"""Columns that no release has."""
_OTHERS: Final = 'pf.scan_release({{"kind": "object", "address": "{0}://…"}}), or {{"kind": "delta", "path": "{0}://…"}}'


def _nothing(place: str) -> SourceError:
    return SourceError(
        f"There is no whole release in {place[-200:]!r}.",
        allowed=f"folders with a {CERTIFICATE} each, which is written last; or a table of releases",
        instead=_FOLDER,
    )


def _unfinished(folder: Path) -> SourceError:
    return SourceError(
        f"The release in {str(folder)[-200:]!r} is not whole: it has no {CERTIFICATE}.",
        allowed="a release whose files are all written",
        instead="running its job again, which writes what is missing",
    )


def _no_table(rows: pl.DataFrame) -> UsageError:
    some = ", ".join(
        f"{name[:30]!r} ({type_name(kind)})" for name, kind in list(rows.schema.items())[:4]
    )
    return UsageError(
        f"The frame is not a table that a sink wrote: its columns are {some or 'none'}.",
        allowed=f"a table with the columns {RELEASE_COLUMN!r} and {ROW_COLUMN!r}",
        instead="pf.scan_release(pl.scan_delta(path)); or release.frame, the numbers of one release",
    )


def _unreadable(kind: str) -> SourceError:
    return SourceError(
        f"The frame could not be read: {kind}.",
        allowed="a frame of a table that can be read",
        instead="frame.collect(), which shows why",
    )
