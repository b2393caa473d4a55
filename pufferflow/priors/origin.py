"""Where the rows of a frame come from, so that a prior fitted on the private rows is noticed."""

import re
import weakref
from dataclasses import dataclass, field
from typing import Any, final

import polars as pl

_SCAN = re.compile(r"SCAN \[(.*?)\]")


@final
@dataclass(frozen=True)
class Origin:
    """The files that a frame scans, and the frame itself while it lives; it is not stored."""

    files: frozenset[str]
    frame: Any = field(compare=False, repr=False, default=None)

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
    files: set[str] = set()
    if isinstance(frame, pl.LazyFrame):
        try:
            plan = frame.explain(optimized=False)
        except (pl.exceptions.PolarsError, OSError):  # it cannot be read either, and says so then
            plan = ""
        for scanned in _SCAN.findall(plan):
            files.update(path.strip() for path in scanned.split(","))
    return Origin(frozenset(files), weakref.ref(frame))
