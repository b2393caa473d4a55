"""Rows that can be read once, copied into a private file, which is removed with the last frame that reads it.

The file is Parquet in the folder for temporary files (TMPDIR), and may be read by its owner alone. On Linux it has no
name: nobody else can open it, and nothing of it is left when the process ends, also by a kill or a power cut.
Elsewhere it has a name until it is closed.
"""

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast, final

import polars as pl
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]
from polars.io.plugins import register_io_source

_OPEN_FILES: Final = Path("/proc/self/fd")


def copied(batches: Iterable[pl.DataFrame], schema: pl.Schema) -> pl.LazyFrame:
    """Return a frame of the rows of all batches, of which one at a time is in memory."""
    rows = _Copy(schema)
    rows.write(batches)
    # the plan of a frame keeps the function, and the function its file
    return register_io_source(rows.read, schema=schema, is_pure=True, explain_name="a private copy")


@final
class _Copy:
    """The file, while it is open."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema
        unnamed = _OPEN_FILES.is_dir() and os.name == "posix"
        self._file: Any = tempfile.TemporaryFile() if unnamed else tempfile.NamedTemporaryFile()  # noqa: SIM115 - kept open
        weakref.finalize(self, self._file.close)
        self._path = str(_OPEN_FILES / str(self._file.fileno())) if unnamed else self._file.name

    def write(self, batches: Iterable[pl.DataFrame]) -> None:
        writer, empty = cast(Any, pq).ParquetWriter, cast(Any, pl.DataFrame(schema=self._schema).to_arrow())
        with writer(self._file, empty.schema) as file:
            for batch in batches:
                file.write_table(batch.to_arrow())
        self._file.flush()

    def read(
        self, columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield rows as Polars requests them."""
        scan = pl.scan_parquet(self._path, glob=False, hive_partitioning=False)
        if predicate is not None:
            scan = scan.filter(predicate)
        if columns is not None:
            scan = scan.select(columns)
        yield from (scan if rows is None else scan.head(rows)).collect_batches(maintain_order=True, chunk_size=batch)
