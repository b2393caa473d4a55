"""Sources of private rows: versions of tables, and queries of databases."""

import polars as pl

from pufferflow.plugins import SourceError, SourceVersion, sandboxed, with_version


def whole_version(
    frame: pl.LazyFrame, files: pl.LazyFrame, version: SourceVersion, place: str
) -> pl.LazyFrame:
    """Return a scan of a version with its mark, after the ends of all its files were read; no row is read.

    Old versions lose files when tables are cleaned up, which shows only when the files are read. `files` is a scan that
    takes no number of rows from the table's log.
    """

    def gone(kind: str) -> SourceError:
        return SourceError(
            f"Version {version.version} of the {version.kind} table cannot be read whole ({kind}): files are gone, or "
            "out of reach. Nothing was released.",
            allowed="a version whose files are there",
            instead="the newest version, or cleaning up the table after the release",
        )

    sandboxed(files.select(pl.len()).collect, gone)
    return with_version(frame, version, place)
