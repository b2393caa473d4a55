"""A sink in the memory of a process."""

from typing import Annotated, ClassVar

from msgspec import Meta

from pufferflow.plugins import Copy, Sink, TomlTable

SHELVES = {}


class ShelfTable(TomlTable, frozen=True):
    """Releases in the memory of a process."""

    shelf: Annotated[str, Meta(min_length=1)]

    def check_address(self):
        pass

    def check_columns(self, columns):
        pass

    def open(self, folder, job):
        return Shelf(f"memory:{self.shelf}", SHELVES.setdefault(f"{folder}/{self.shelf}", {}))


class Shelf(Sink):
    noun: ClassVar[str] = "shelf"

    def __init__(self, root, releases):
        self._root, self.releases = root, releases

    @property
    def root(self):
        return self._root

    def place(self, label):
        return f"{self._root}/{label}"

    def has(self, label):
        return label in self.releases

    def newest(self):
        return (
            (self.place(label), release.certificate.entry)
            for label, release in self.releases.items()
        )

    def copies(self):
        return [
            Copy(label, self.place(label), one.certificate.to_json().encode(), lambda _: ())
            for label, one in self.releases.items()
        ]

    def send(self, label, release):
        return self.releases.setdefault(label, release) is release
