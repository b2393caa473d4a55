"""Values that are stored: frozen dataclasses that write their fields as plain values and are read back by kind.

Stored values are hashed into fingerprints and stay in ledgers: the names of fields and the kinds must not change.
"""

from dataclasses import Field, fields
from functools import cache
from typing import Any, ClassVar, Self, cast

from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks

ADDED = {"added": True}
"""Metadata of a field that older versions lack: it is left out where it has its default."""


def stored_as(name: str) -> dict[str, str]:
    """Return the metadata of a field that is stored under another name."""
    return {"name": name}


class Stored(InNotebooks):
    """Base of stored values. Fields that comparisons ignore are not stored.

    The base of a family of kinds is a subclass with `family`; a member of it has its `kind`:

    >>> from dataclasses import dataclass
    >>> class Shape(Stored, family="shape"): ...
    >>> @dataclass(frozen=True)
    ... class Circle(Shape, kind="circle"):
    ...     radius: float
    >>> Circle(2.0).stored()
    {'kind': 'circle', 'radius': 2.0}
    >>> Shape.from_stored({"kind": "circle", "radius": 2.0})
    Circle(radius=2.0)
    """

    family: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    kinds: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, *, family: str = "", kind: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if family:
            cls.family, cls.kinds = family, {}
        if kind:
            cls.kind, cls.kinds[kind] = kind, cls

    @classmethod
    @cache
    def _fields(cls) -> list[tuple[str, Field[Any]]]:
        return [
            (one.metadata.get("name", one.name), one)
            for one in fields(cast(Any, cls))
            if one.compare
        ]

    def stored(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON and the fingerprint."""
        plain: dict[str, Any] = {"kind": self.kind} if self.kind else {}
        for name, one in self._fields():
            value = getattr(self, one.name)
            if "added" not in one.metadata or value != one.default:
                plain[name] = value.stored() if isinstance(value, Stored) else value
        return plain

    def fingerprint(self) -> Any:
        """Return plain values that identify this value; those of `stored`, if it can be stored."""
        return self.stored()

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Self:
        """Return the value of this class with the stored fields."""
        needed = [
            (name, one)
            for name, one in cls._fields()
            if name in stored or "added" not in one.metadata
        ]
        return cls(**{one.name: stored[name] for name, one in needed})

    @classmethod
    def from_stored(cls, stored: Any) -> Self:
        """Return the member of this family that is stored."""
        stored = dict(stored)
        kind = stored.pop("kind", None)
        if kind not in cls.kinds:
            raise cls.unknown(kind)
        return cls.kinds[kind].restored(stored)

    @classmethod
    def unknown(cls, kind: object) -> UsageError:
        """Return the error for a kind that the family does not have."""
        del kind
        return UsageError(
            f"The stored {cls.family} is of no known kind.", allowed="what to_json wrote"
        )


class StoredPart(Stored):
    """Base of families that are parts of other stored values: any damage is reported as an unknown kind."""

    @classmethod
    def from_stored(cls, stored: Any) -> Self:
        fields = cast(dict[str, Any], stored) if isinstance(stored, dict) else {}
        for kind, member in cls.kinds.items():
            needed = {name for name, one in member._fields() if "added" not in one.metadata}
            if fields.get("kind") == kind and fields.keys() >= needed:
                return member.restored(fields)
        raise cls.unknown(None)
