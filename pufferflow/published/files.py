"""A release as files of a folder: two tables in one of the formats, and the certificate.

The table of error bars has columns of limits beside them, except in releases of older versions.

CSV and NDJSON have a file `schema.json` too, by which they are read back with the dtypes they had. The certificate is
written last and removed first, so no certificate is ever beside another release's numbers.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple, final

import msgspec
import polars as pl

from pufferflow.core.durable_files import exclusive_access, make, write_whole
from pufferflow.core.errors import InternalError, SourceError, UsageError
from pufferflow.core.sandbox import sandboxed
from pufferflow.published.certificate import Certificate
from pufferflow.published.table_texts import READERS, WRITERS, TextColumn, TextTable
from pufferflow.reports.evidence import Evidence

FORMATS = ("parquet", *WRITERS)
CERTIFICATE, SCHEMA, EVIDENCE = "certificate.json", "schema.json", "evidence.json"
TABLES = ("release", "intervals")
OURS = frozenset({SCHEMA, CERTIFICATE, *(f"{name}.{form}" for name in TABLES for form in FORMATS)})


@final
class Parts(NamedTuple):
    """A release as it is written: the numbers, their error bars with limits, and the certificate."""

    frame: pl.DataFrame
    ends: pl.DataFrame
    certificate: Certificate


@final
class StoredSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file `schema.json`."""

    release: TextTable
    intervals: TextTable
    version: Literal[1] = 1


def check_format(schema: pl.Schema, format: str) -> None:  # noqa: A002 - what it is called everywhere
    """Refuse a format that is unknown, or has no form for a column: before a release is drawn.

    >>> check_format(pl.Schema({"day": pl.Date, "load": pl.Float64}), "csv")
    """
    if format not in FORMATS:
        raise UsageError(
            f"The format is {format[:100]!r}.",
            allowed=", ".join(f'"{known}"' for known in FORMATS),
            instead=f'"{FORMATS[0]}"',
        )
    if format in WRITERS:
        for name, dtype in schema.items():
            TextColumn.of(name, dtype)


def bodies(parts: Parts, format: str) -> dict[str, bytes]:  # noqa: A002 - as above
    """Return the files in the order they are written, by name."""
    tables = dict(zip(TABLES, (parts.frame, parts.ends), strict=True))
    for frame in tables.values():
        check_format(frame.schema, format)
    write = WRITERS.get(format, _to_parquet)
    files = dict[str, bytes]()
    if format in WRITERS:
        schema = StoredSchema(release=TextTable.of(parts.frame, format), intervals=TextTable.of(parts.ends, format))
        files[SCHEMA] = msgspec.json.format(msgspec.json.encode(schema), indent=2)
    for name, frame in tables.items():
        files[f"{name}.{format}"] = sandboxed(partial(write, frame), _not_written)
    return {**files, CERTIFICATE: parts.certificate.to_json().encode()}


def write(parts: Parts, folder: Path, format: str) -> None:  # noqa: A002 - as above
    """Write a release into a folder, whatever was there; an OSError says why not.

    A folder that is not there appears whole. In one that is there, each file is replaced whole; files that are not a
    release's stay as they are.
    """
    files, place = bodies(parts, format), true_place(folder)
    if place.exists() or not make(place, files):
        with exclusive_access(place):
            replace(place, files)


def true_place(folder: Path) -> Path:
    """Return where the folder is, or will be: a link stays a link."""
    return Path(os.path.realpath(folder))


def replace(place: Path, files: dict[str, bytes]) -> None:
    """Replace the files of a release in a folder; those of other formats go, first if they may be another release's."""
    certificate, others = place / CERTIFICATE, sorted(OURS - files.keys())
    if not (certificate.exists() and certificate.read_bytes() == files[CERTIFICATE]):
        _remove(place, [CERTIFICATE, *others])
    for name, body in files.items():
        write_whole(place / name, [body])
    _remove(place, others)


def _remove(place: Path, names: Sequence[str]) -> None:
    for name in names:
        (place / name).unlink(missing_ok=True)


def read(folder: Path) -> Parts:
    """Return the release of a folder, whichever format it is in."""
    formats = [form for form in FORMATS if all((folder / f"{name}.{form}").is_file() for name in TABLES)]
    if not formats or not (folder / CERTIFICATE).is_file():
        raise _failed(f"The folder has no {CERTIFICATE if formats else 'release'}.")
    try:
        frames = [table(lambda file: (folder / file).read_bytes(), name, formats[0]) for name in TABLES]
        certificate = (folder / CERTIFICATE).read_bytes()
    except OSError as error:
        kind = type(error).__name__
    else:
        return Parts(frames[0], frames[1], Certificate.from_json(certificate))
    raise _failed(f"The folder cannot be read: {kind}.")


def read_evidence(folder: Path) -> Evidence | None:
    """Return the evidence that lies beside a release; None if there is none."""
    file = folder / EVIDENCE
    return Evidence.from_json(file.read_bytes()) if file.is_file() else None


def table(read: Callable[[str], bytes], name: str, format: str) -> pl.DataFrame:  # noqa: A002 - as above
    """Return a table, given how files are read by their names; SourceError if it is not all there."""
    body = read(f"{name}.{format}")
    if format not in READERS:
        return sandboxed(lambda: pl.read_parquet(BytesIO(body)), _damaged)
    stored = read(SCHEMA)
    described = getattr(sandboxed(lambda: msgspec.json.decode(stored, type=StoredSchema), _damaged), name)
    frame = sandboxed(lambda: READERS[format](body, described), _damaged)
    if frame.height != described.rows or (body and not body.endswith(b"\n")):
        raise _damaged("missing lines")
    return frame


def _to_parquet(frame: pl.DataFrame) -> bytes:
    place = BytesIO()
    frame.write_parquet(place)
    return place.getvalue()


def _not_written(kind: str) -> InternalError:
    return InternalError(f"The table could not be written: {kind}.", instead="reporting it to the maintainers")


def _damaged(kind: str) -> SourceError:
    return _failed(f"A table of the folder is damaged: {kind}.")


def _failed(problem: str) -> SourceError:
    return SourceError(
        problem,
        allowed="a folder that write_parquet, write_csv or write_ndjson wrote",
        instead="release.write_parquet(folder)",
    )
