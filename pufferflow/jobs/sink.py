"""The interface to sinks: what a job needs of a sink, and what `[sink]` of a job file needs to open one.

A sink is a file with a `Sink` and a `TomlTable` that is a `SinkTable`, and an entry point in the group
`pufferflow.sinks`, whose name is what the key `kind` of `[sink]` says.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Protocol

import polars as pl

from pufferflow.core.errors import InternalError
from pufferflow.published.copies import Copy
from pufferflow.published.release import Release

PAGE = "report.html"
MOST_NEW = 8
"""How many of the newest releases are looked up, by each order that defines the newest."""


def release_id(job: str, label: str) -> str:
    """Return the id under which a job's release is kept, and known to sinks that several jobs may write to.

    >>> release_id("meters-daily", "2026-11-20.2")
    'meters-daily-2026-11-20.2'
    """
    return f"{job}-{label}"


class Sink(ABC):
    """Releases of one job, each at a place of its own by its label: "2026-11-20", or "2026-11-20.2" of a revision.

    What was published is never replaced by another release; the ledger's entry in the certificate identifies it.
    A place that cannot be read or written for a reason that may pass raises a `SinkError`, and is retried. Its message
    has no words of a server, since those may quote rows and passwords.
    """

    noun: ClassVar[str]
    """What a place is called in errors, such as "folder"."""

    @property
    @abstractmethod
    def root(self) -> str:
        """The whole sink, in words, without passwords."""

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
    def copies(self) -> Iterable[Copy]:
        """Return all that is published, to be compared with a ledger; what has no certificate, too."""

    @abstractmethod
    def send(self, label: str, release: Release) -> bool:
        """Write a release unless it is there whole, and return whether anything was written; refuse another's place.

        No part of it is visible before it is whole, and a killed process leaves nothing that hinders a second one. Of
        two processes at once one writes, and the other finds what that one wrote.
        """

    def check_free(self, label: str) -> None:  # noqa: B027 - of most sinks, whatever is there is a release
        """Refuse a place that holds something else than a release, before one is drawn."""

    def prepare(self, columns: pl.Schema) -> None:  # noqa: B027 - not every sink has something to prepare
        """Refuse a place that cannot take a release with such columns, before it is drawn; make what it goes into."""

    def lacks_page(self, label: str) -> bool:
        """Return whether a report is to be written beside a release; false for sinks without reports."""
        return False

    def add(self, label: str, name: str, body: bytes) -> None:
        """Write a report, or the evidence for it, beside a release; one of that name is replaced."""
        raise InternalError("A sink without reports was given one.", instead="reporting it to the maintainers")


class SinkTable(Protocol):
    """The keys that `[sink]` of a job file has for one kind of sink."""

    def check_address(self) -> None:
        """Refuse an unusable address; variables that the environment lacks are not checked."""
        ...

    def check_columns(self, columns: pl.Schema) -> None:
        """Refuse columns that the sink has no form for, before anything is drawn: keys, answers, bars and limits."""
        ...

    def open(self, folder: Path, job: str) -> Sink:
        """Return the sink of a job, given its name; paths are relative to the folder of the job file."""
        ...
