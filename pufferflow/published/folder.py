"""Folders of published releases: sent once, repaired if not whole, and their copies compared with a ledger.

Copies of published releases, to be compared with the releases in a ledger.

The certificate of each copy names the ledger's entry that paid for it, and is compared field by field. The sink reads
the numbers back.

The folder that a release is sent to: sent once, repaired if it is not whole, and never taken from another release.

The release is the one that its ledger keeps, so sending again changes nothing: a second process finds what the first
wrote. A table that is whole and has other numbers is never replaced: it was published.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, final

import msgspec
import polars as pl

from pufferflow.core.durable_files import exclusive_access, make, try_folder, write_whole
from pufferflow.core.errors import PufferflowError, SinkError, SourceError, UsageError
from pufferflow.published.certificate import Certificate
from pufferflow.published.files import (
    CERTIFICATE,
    FORMATS,
    OURS,
    SCHEMA,
    TABLES,
    Parts,
    bodies,
    replace,
    table,
    true_place,
)
from pufferflow.published.release import Release

T = TypeVar("T")


class Head(msgspec.Struct, frozen=True):
    """The fields of a certificate that every version has."""

    version: int
    entry: str | None = None


@final
@dataclass(frozen=True, eq=False)
class Copy:
    """A published release: its name there, its place in words, and its certificate, None if there is none.

    `tables` says in what the numbers there are not those of a release. `release_id` is the id under which it was
    published, None where a place has only labels.
    """

    label: str
    place: str
    certificate: bytes | None
    tables: Callable[[Release], Sequence[str]]
    release_id: str | None = None

    @property
    def entry(self) -> str:
        """The ledger's entry that the certificate names; empty if it names none, or cannot be read."""
        return entry_in(self.certificate or b"")

    def differences(self, release: Release) -> list[str]:
        """Return in what it is not the release that was kept: its certificate field by field, and every number."""
        return [
            *_certificate_differences(self.certificate, release.certificate),
            *self.tables(release),
        ]


def entry_in(certificate: bytes) -> str:
    """Return the ledger's entry that the text of a certificate names; empty if it names none, or cannot be read."""
    head = head_of(certificate)
    return "" if head is None else head.entry or ""


def head_of(certificate: bytes) -> Head | None:
    """Return what any version of a certificate has; None if the text is no certificate."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(certificate, type=Head)
    return None


def certificate_of(body: bytes) -> Certificate | None:
    """Return the certificate of a text; None if this version cannot read it."""
    try:
        return Certificate.from_json(body)
    except UsageError:
        return None


def other_release(stored: bytes, release: Release) -> str:
    """Return in a few words whose certificate is stored if it is another release's; empty if it is this one's.

    It is also empty for a text that is damaged, or of a version that has other fields.
    """
    ours, head = release.certificate, head_of(stored)
    if stored == ours.to_json().encode() or head is None:
        return ""
    if head.entry != ours.entry:
        return f"entry {head.entry}" if head.entry else "a release without an entry"
    theirs = certificate_of(stored) if head.version == ours.version else None
    return "another certificate of that name" if theirs is not None and theirs != ours else ""


def place_taken(noun: str, place: str, theirs: str, release: Release) -> UsageError:
    """Return the refusal to send a release to a place that has another one."""
    entry = release.certificate.entry
    own = f"entry {entry}" if entry else "a release without an entry"
    return UsageError(
        f"The {noun} {place[:200]!r} already has {theirs}, but the release to be sent is {own}.",
        allowed=f"an empty {noun}, or one with this very release; what was published is never replaced",
        instead="another sink, or another revision: revision=2",
    )


def _certificate_differences(body: bytes | None, certificate: Certificate) -> list[str]:
    known = None if body is None else certificate_of(body)
    if known is None:
        return ["the certificate cannot be read"]
    ours, theirs = (msgspec.structs.asdict(document) for document in (certificate, known))
    names = [name for name, value in ours.items() if value != theirs[name]]
    return [f"the certificate was edited: {', '.join(names)}"] if names else []


def send(release: Release, folder: Path, format: str) -> bool:  # noqa: A002 - what it is called everywhere
    """Write a release into a folder, unless the folder has it; return whether anything was written.

    What is missing or damaged is written anew; another format takes the place of the one that is there. A folder with
    another release is refused with nothing touched. Of two processes at once one writes, and the other returns False.
    """
    place, files = true_place(folder), files_of(release, format)

    def write() -> bool:
        if not place.exists() and make(place, files):
            return True
        with exclusive_access(place):
            if _has(release, place, format, files):
                return False
            replace(place, files)
            return True

    return _attempt(write, folder, _KEPT if release.certificate.entry is not None else _ANOTHER)


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made, or written to, before anything is drawn; nothing is left in it."""
    place = next(one for one in (true_place(folder), *true_place(folder).parents) if one.exists())
    _attempt(lambda: try_folder(place / folder.name), folder, _UNTOUCHED)


def check_free(folder: Path) -> None:
    """Refuse the place of a release that is a file, or a folder with release files without a certificate."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise SinkError(
            f"{str(folder)[-200:]!r} is not a folder that a release can go to. Nothing was drawn or charged.",
            allowed="an empty place, or a folder",
            instead="moving that file, and running again",
        )
    if theirs := sorted(OURS.intersection(path.name for path in folder.iterdir())):
        raise UsageError(
            f"The folder {str(folder)[-200:]!r} has a file {theirs[0]} that belongs to no release of this account. "
            "Nothing was drawn or charged.",
            allowed="an empty folder",
            instead="another sink, or another place for that file",
        )


def files_of(release: Release, format: str) -> dict[str, bytes]:  # noqa: A002 - as above
    """Return the files of a release by their names, in the order they are written: the certificate last."""
    return bodies(Parts(release.frame, release.ends, release.certificate), format)


def add(folder: Path, name: str, body: bytes) -> None:
    """Put one more file beside a release; one of that name is replaced."""
    if Path(name).name != name or name in {"", "..", *OURS}:
        raise UsageError(
            f"A file beside a release cannot be called {name[:100]!r}.",
            allowed="a plain name, other than those of the release's own files",
            instead='"report.html"',
        )
    _attempt(lambda: write_whole(true_place(folder) / name, [body]), folder / name, _KEPT)


def copies_in(folder: Path) -> list[Copy]:
    """Return what is published in a folder, of one release or of a sink, in order."""
    if (folder / CERTIFICATE).is_file():
        return [_copy(folder)]
    return [
        _copy(place)
        for place in sorted({place.parent for place in folder.glob("*/*") if place.name in OURS})
    ]


def entry_of(folder: Path) -> str:
    """Return the ledger's entry that the certificate of a folder names; empty if it names none, or cannot be read."""
    with suppress(OSError):
        return entry_in((folder / CERTIFICATE).read_bytes())
    return ""


def table_differences(
    names: Collection[str], read: Callable[[str], bytes], release: Release
) -> list[str]:
    """Return the differences between the tables among some files and a release's; reports and the like are ignored."""
    tables = [(name, form) for form in FORMATS for name in TABLES if f"{name}.{form}" in names]
    lines = [] if {name for name, _ in tables} == set(TABLES) else ["a table is missing"]
    for name, form in tables:
        try:
            same = _same(table(read, name, form), _tables_of(release)[name])
        except (PufferflowError, OSError):
            same = False
        if not same:
            lines.append(f"{name}.{form} has other numbers, or is damaged")
    return lines


def _copy(folder: Path) -> Copy:
    def tables(release: Release) -> list[str]:
        names = {path.name for path in folder.iterdir()}
        return table_differences(names, lambda name: (folder / name).read_bytes(), release)

    certificate = _bytes(folder / CERTIFICATE) if (folder / CERTIFICATE).is_file() else None
    return Copy(folder.name, str(folder), certificate, tables)


def _has(release: Release, place: Path, format: str, files: dict[str, bytes]) -> bool:  # noqa: A002 - as above
    """Return whether a folder has the release, whole and in this format; another one is place_taken."""
    ours = _has_certificate(release, place)
    whole = ours and not any((place / name).exists() for name in OURS - files.keys())
    for known_format in FORMATS:
        for name, frame in _tables_of(release).items():
            stored = _read_table(
                place, name, known_format, described=ours and known_format == format
            )
            if stored is not None and not _same(stored, frame):
                raise place_taken("folder", str(place), "other numbers", release)
            whole &= stored is not None or known_format != format
    return whole


def _has_certificate(release: Release, place: Path) -> bool:
    """Return whether the release's certificate is there; another one is place_taken, a damaged one is none."""
    stored = _bytes(place / CERTIFICATE)
    if stored is None:
        return False
    if theirs := other_release(stored, release):
        raise place_taken("folder", str(place), theirs, release)
    return certificate_of(stored) == release.certificate


def _tables_of(release: Release) -> dict[str, pl.DataFrame]:
    return dict(zip(TABLES, (release.frame, release.ends), strict=True))


def _read_table(place: Path, name: str, format: str, *, described: bool) -> pl.DataFrame | None:  # noqa: A002 - as above
    """Return a table, or None if it is missing or damaged; refuse text without a description, which is not ours."""
    path = place / f"{name}.{format}"
    if not path.exists():
        return None
    if not described and format != FORMATS[0] and not (place / SCHEMA).exists():
        raise UsageError(
            f"The folder {str(place)[:200]!r} has a file {path.name} that is no release's.",
            allowed="an empty folder, or one with this very release",
            instead="another sink, or another place for that file",
        )
    try:
        return table(lambda file: (place / file).read_bytes(), name, format)
    except (SourceError, FileNotFoundError):  # the description may be what is not there
        return None


def _same(first: pl.DataFrame, second: pl.DataFrame) -> bool:
    return first.schema == second.schema and first.equals(second)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


_KEPT = "removing the cause and running again: the release is kept in the ledger, and the next run sends it"
_ANOTHER = "another folder"
_UNTOUCHED = "removing the cause, or another folder; nothing was drawn or charged"


def _attempt(work: Callable[[], T], place: Path, instead: str) -> T:
    """Return the result of work on a place, or raise that it failed; the system's words for its number hold no data."""
    try:
        return work()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
    raise SinkError(
        f"Nothing could be written to {str(place)[:200]!r}: {reason}.",
        allowed="a folder that can be made or written to, on a disk with free space",
        instead=instead,
    )
