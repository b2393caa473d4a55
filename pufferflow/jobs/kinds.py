"""The kinds that a table of a job file may have: one of this library, and those that installed packages add."""

from dataclasses import dataclass
from typing import Any, Final, cast, final

import msgspec

from pufferflow.core.entry_points import Group, load, names_in
from pufferflow.core.errors import UsageError
from pufferflow.jobs.file_source import FileSource
from pufferflow.jobs.folder_sink import FolderTable
from pufferflow.jobs.toml import TomlTable


@final
@dataclass(frozen=True)
class Kinds:
    """The kinds of one table, such as `[source]`; its key `kind` says which, and is left out for the library's own."""

    table: str
    group: Group
    own: tuple[str, type[TomlTable]]
    implied: tuple[tuple[str, str], ...] = ()
    """Keys that say which kind it is, where `kind` is left out."""

    def read(self, values: object) -> type[TomlTable]:
        """Return the keys of a table, given its plain values; `kind`, which chooses them, is taken out."""
        name, own = self.own
        given = cast(dict[str, object], values) if isinstance(values, dict) else {}
        kind = given.pop("kind", next((other for key, other in self.implied if key in given), name))
        if kind == name:
            return own
        if not isinstance(kind, str):
            raise UsageError(
                "The kind is no text.", allowed=", ".join((name, *self._others())), instead=f'kind = "{name}"'
            )
        return self._of_package(kind)

    def _of_package(self, kind: str) -> type[TomlTable]:
        table = load(self.group, kind)
        if isinstance(table, type) and issubclass(table, TomlTable):
            return table
        raise UsageError(
            f"What is installed as the {self.table} {kind[:60]!r} has no keys for [{self.table}].",
            allowed="an entry point that names a TomlTable",
            instead="another version of the package that brings it",
        )

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return what a schema says of the table: one of the installed kinds; adds what they are to the definitions.

        Kinds whose packages lack something are left out: nothing of them could be run here.
        """
        tables: dict[str, type[TomlTable]] = dict([self.own])
        for kind in self._others():
            try:
                tables[kind] = self._of_package(kind)
            except UsageError:
                continue
        references, described = msgspec.json.schema_components(tables.values(), ref_template="#/$defs/{name}")
        for kind, reference in zip(tables, references, strict=True):
            own = described[reference["$ref"].rpartition("/")[2]]
            own["properties"] = {"kind": {"const": kind}, **own["properties"]}
            if kind != self.own[0] and kind not in dict(self.implied).values():
                own["required"] = ["kind", *own.get("required", [])]
        definitions.update(described)
        return {"anyOf": list(references)}

    def _others(self) -> tuple[str, ...]:
        return tuple(name for name in names_in(self.group) if name != self.own[0])


SINKS: Final = Kinds("sink", "pufferflow.sinks", ("folder", FolderTable))
SOURCES: Final = Kinds("source", "pufferflow.sources", ("files", FileSource), (("engine", "table"),))
