"""The versions of the files that a frame reads, so that public columns of unchanged files are not read twice.

Versions of a file differ in device, inode, size, or the times of the last changes; writes through shared memory set
these times only once they reach the disk. Only a bare scan of one file is identified by its version: frames in memory,
several files, files on other machines, functions, and any step between the scan and `protect` may give other rows each
time.
"""

import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import polars as pl

from pufferflow.core.sandbox import sandboxed
from pufferflow.models.reference import frame_origin

Version = tuple[int, ...]
SETTLED: Final = 2 * 10**9
"""Nanoseconds after which a change of a file has another time than the last one, on every file system."""


@final
@dataclass(frozen=True)
class Snapshot:
    """The versions of files at one moment; None for a path that is no file on this machine."""

    versions: Mapping[str, Version | None]
    columnar: frozenset[str]
    """The files whose column layout the frame has cached."""
    complete: bool
    """Whether the versions determine all rows."""

    @classmethod
    def of(cls, frame: pl.LazyFrame) -> "Snapshot":
        """Return the versions of the files that a frame reads; its rows are not read."""
        now, origin = time.time_ns(), sandboxed(lambda: frame_origin(frame))
        versions = {path: _version(path) for path in origin.files}
        # a file written a moment ago may be written again within one tick of the clock
        settled = all(version is not None and max(version[-2:]) < now - SETTLED for version in versions.values())
        return cls(versions, origin.columnar, origin.files_only and settled)

    @property
    def holds(self) -> bool:
        """Whether the frame is certain to have the rows that it had then."""
        return self.complete and all(_version(path) == version for path, version in self.versions.items())

    @property
    def outdated(self) -> bool:
        """Whether the frame would read a file by the layout of another version of it."""
        return any(_version(path) != self.versions[path] for path in self.columnar)


NO_FILES: Final = Snapshot({}, frozenset(), complete=False)


def _version(path: str) -> Version | None:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
