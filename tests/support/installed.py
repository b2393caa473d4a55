"""Packages that add engines, sources and sinks, as pip leaves them: a folder of metadata with their entry points."""

import contextlib
import importlib
import sys
import tomllib
from pathlib import Path

from pufferflow.core import entry_points

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


@contextlib.contextmanager
def package(place, group, names):
    """Install a package in a folder, with these names in a group of entry points."""
    metadata = place / "added-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1.0\n")
    lines = [f"{name} = {target}" for name, target in names.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    sys.path.insert(0, str(place))
    _forget()
    try:
        yield
    finally:
        sys.path.remove(str(place))
        _forget()


def of_this_tree(group):
    """Return the names that this tree has in a group of entry points, whether or not it is installed."""
    return PROJECT["entry-points"][group]


def loaded(target):
    """Return what "module:name" stands for."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _forget():
    importlib.invalidate_caches()
    entry_points.names_in.cache_clear()
