"""Which versions of its files a frame reads, as far as that can be told: what is still the same is not read twice.

A file is told from another version of it by device, inode, size, and the times of its last changes; what is written
through shared memory has these times only once it reaches the disk. Only a bare scan of one file is known by its
version: frames in memory, several files, files on other machines, functions, and whatever is done to rows before they
are protected may give other rows each time.
"""

import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import polars as pl

from pufferflow.guarded import guarded
from pufferflow.scenario.fitting import frame_origin

Version = tuple[int, ...]
SETTLED: Final = 2 * 10**9
"""Nanoseconds after which a change of a file has another time than the last one, on every file system."""


@final
@dataclass(frozen=True)
class Snapshot:
    """The versions of files at one moment; None for what is no file here."""

    versions: Mapping[str, Version | None]
    columnar: frozenset[str]
    """The files of which the frame remembers where their columns lie."""
    complete: bool
    """Whether the versions tell all rows."""

    @classmethod
    def of(cls, frame: pl.LazyFrame) -> "Snapshot":
        """Return the versions of the files that a frame reads; its rows are not read."""
        now, origin = time.time_ns(), guarded(lambda: frame_origin(frame))
        versions = {path: _version(path) for path in origin.files}
        # what was written a moment ago may be written again within one tick of the clock
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
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
