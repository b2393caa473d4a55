"""The kinds of sink: a folder, and those that installed packages add under a name in `pufferflow.sinks`."""

from typing import Any, Final, cast

import msgspec

from pufferflow.entry_points import load, names_in
from pufferflow.errors import Misuse
from pufferflow.jobs.folder_sink import FolderTable
from pufferflow.jobs.sink import SinkTable
from pufferflow.jobs.toml import TomlTable

FOLDER: Final = "folder"
"""The kind of sink that is meant where none is said."""


def sink_table(values: object) -> type[SinkTable]:
    """Return the keys that `[sink]` has, given its plain values; `kind`, which chooses them, is taken out.

    >>> sink_table({"path": "published"}).__name__, sink_table({"kind": "sql", "table": "meters"}).__name__
    ('Sink', 'SqlTable')
    """
    kind: object = cast(dict[str, object], values).pop("kind", FOLDER) if isinstance(values, dict) else FOLDER
    if kind == FOLDER:
        return FolderTable
    if not isinstance(kind, str):
        raise Misuse("The kind is no text.", allowed=", ".join((FOLDER, *_others())), instead=f'kind = "{FOLDER}"')
    table = load("pufferflow.sinks", kind)
    if not (isinstance(table, type) and issubclass(table, TomlTable)):
        raise Misuse(
            f"What is installed as the sink {kind[:60]!r} has no keys for [sink].",
            allowed="an entry point that names a TomlTable",
            instead="another version of the package that brings it",
        )
    return cast(type[SinkTable], table)


def sink_schemas(definitions: dict[str, Any]) -> dict[str, Any]:
    """Return what a schema says of `[sink]`: one of the installed kinds; adds what they are to the definitions.

    Kinds whose packages lack something are left out: nothing of them could be run here.
    """
    tables: dict[str, type[SinkTable]] = {FOLDER: FolderTable}
    for kind in _others():
        try:
            tables[kind] = sink_table({"kind": kind})
        except Misuse:
            continue
    references, described = msgspec.json.schema_components(tables.values(), ref_template="#/$defs/{name}")
    for kind, reference in zip(tables, references, strict=True):
        own = described[reference["$ref"].rpartition("/")[2]]
        own["properties"] = {"kind": {"const": kind}, **own["properties"]}
        if kind != FOLDER:
            own["required"] = ["kind", *own["required"]]
    definitions.update(described)
    return {"anyOf": list(references), "default": {}}


def _others() -> tuple[str, ...]:
    return tuple(name for name in names_in("pufferflow.sinks") if name != FOLDER)
