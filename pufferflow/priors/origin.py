"""Where the rows of a frame come from, so that a prior fitted on the private rows is noticed, and files that change."""

import re
import weakref
from dataclasses import dataclass, field
from typing import Any, final

import polars as pl

_SCAN = re.compile(r"(\w+) SCAN \[(.*)\]$", re.MULTILINE)
_BARE_SCAN = re.compile(r"\w+ SCAN \[(?:(?!, )[^\n\[\]])+\](?:\n(?:PROJECT [^\n]*|ESTIMATED ROWS: \d+))*")
"""One file and nothing else: whatever is done to its rows may give others each time, or bring in rows of its own."""
_COLUMNAR = {"Parquet", "Ipc"}


@final
@dataclass(frozen=True)
class Origin:
    """The files that a frame scans, and the frame itself while it lives; it is not stored."""

    files: frozenset[str]
    frame: Any = field(compare=False, repr=False, default=None)
    columnar: frozenset[str] = frozenset()
    """Those of the files whose layout Polars looks up once for a frame, so that it cannot read another version."""
    files_only: bool = False
    """Whether the frame is a scan of one file and no more, so that its rows are those of the file each time."""

    def holds(self, other: Any) -> bool:
        """Say whether another frame is this one, or reads one of its files; no row is read to find out.

        >>> frame = pl.DataFrame({"x": [1]})
        >>> origin_of(frame).holds(frame), origin_of(frame).holds(pl.DataFrame({"x": [1]}))
        (True, False)
        """
        same = self.frame is not None and self.frame() is other
        return same or bool(self.files & origin_of(other).files)


def origin_of(frame: Any) -> Origin:
    """Return where a frame comes from, as far as its plan tells."""
    if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
        return Origin(frozenset())
    files, columnar, plan = set[str](), set[str](), ""
    if isinstance(frame, pl.LazyFrame):
        try:
            plan = frame.explain(optimized=False)
        except (pl.exceptions.PolarsError, OSError):  # it cannot be read either, and says so then
            plan = ""
    for reader, scanned in _SCAN.findall(plan):
        paths = set(scanned.split(", "))
        files |= paths
        columnar |= paths if reader in _COLUMNAR else set()
    only = _BARE_SCAN.fullmatch(plan.strip()) is not None
    return Origin(frozenset(files), weakref.ref(frame), frozenset(columnar), only)
