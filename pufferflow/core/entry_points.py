"""Engines, sources and sinks of installed packages, each under a name in a group of entry points.

Nothing is imported to list names; the package behind a name is imported when the name is used.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Final, Literal

from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import nearest

Group = Literal["pufferflow.engines", "pufferflow.sources", "pufferflow.sinks"]
_EXTRAS: Final = {"postgresql": "postgres", "object": "objects", "pyspark": "spark", "sc": "spark"}
"""The extras of this package whose names differ from those of what they bring."""


@cache
def names_in(group: Group) -> tuple[str, ...]:
    """Return the names that installed packages have in a group, in order.

    >>> sorted(names_in("pufferflow.engines")) == list(names_in("pufferflow.engines"))
    True
    """
    return tuple(sorted(_entries(group)))


def load(group: Group, name: str) -> object:
    """Return the object behind a name; refuse unknown names, and packages that are not installed.

    It is not cached: that would keep a package's modules for longer than DuckDB allows when Python ends.
    """
    entries = _entries(group)
    if name not in entries:
        close = nearest(name, entries)
        what = group.rpartition(".")[2]
        raise UsageError(
            f"There is no {what.removesuffix('s')} {name[:60]!r}.",
            allowed=f"an installed one: {', '.join(sorted(entries))}",
            instead=repr(close[0] if close else min(entries, default="")),
        )
    try:
        return entries[name].load()
    except ImportError as error:
        missing = error.name or "a package"
    except AttributeError:
        missing = ""
    if not missing:
        raise UsageError(
            f"The entry point of {name[:60]!r} names an object that its package does not have.",
            allowed="packages whose versions fit together",
            instead="pip install --upgrade, with that package and pufferflow",
        )
    extra = _EXTRAS.get(name, name)
    raise UsageError(
        f"{name!r} needs {missing.partition('.')[0]!r}, which is not installed.",
        allowed="the packages of its extra",
        instead=f'pip install ".[{extra}]"',
    )


def _entries(group: Group) -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points  # takes longer to load than most of this library

    return {entry.name: entry for entry in entry_points(group=group)}
