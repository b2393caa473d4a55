"""The seam to where releases go: what a job needs of a sink, and what `[sink]` of a job file needs to open one.

A sink is a file of its own with a `Sink` and a `TomlTable` that is a `SinkTable`, and a row in `SINKS` of `file.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Protocol

import polars as pl

from pufferflow.release import Release

EVIDENCE, PAGE = "evidence.json", "report.html"


class Sink(ABC):
    """Releases of one job, each at a place of its own by its label: "2026-11-20", or "2026-11-20.2" of a revision.

    What was published is never replaced by another release; the ledger's entry in the certificate tells which it is.
    """

    noun: ClassVar[str]
    """What a place is called in errors, such as "folder"."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The whole sink, in words."""

    @abstractmethod
    def place(self, label: str) -> str:
        """Return the place of a release in words; it need not be there yet."""

    @abstractmethod
    def has(self, label: str) -> bool:
        """Return whether a place has a release, by whichever job or ledger."""

    @abstractmethod
    def newest(self) -> Iterator[tuple[str, str]]:
        """Yield places of the newest releases, with the ledger's entry that each names; empty if it names none."""

    @abstractmethod
    def send(self, label: str, release: Release) -> bool:
        """Write a release unless it is there whole, and return whether anything was written; refuse another's place."""

    @abstractmethod
    def lacks_page(self, label: str) -> bool:
        """Return whether a page is to be written beside a release; false for sinks without pages."""

    @abstractmethod
    def add(self, label: str, name: str, body: bytes) -> None:
        """Write a page, or the evidence for it, beside a release; one of that name is replaced."""


class SinkTable(Protocol):
    """The keys that `[sink]` of a job file has for one kind of sink."""

    def check_address(self) -> None:
        """Refuse an address that leads nowhere; variables that the environment lacks are left open."""
        ...

    def check_keys(self, schema: pl.Schema) -> None:
        """Refuse key columns that the sink has no form for, before anything is drawn."""
        ...

    def open(self, folder: Path) -> Sink:
        """Return the sink; paths are relative to the folder of the job file."""
        ...
