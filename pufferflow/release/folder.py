"""The folder that a release is sent to: sent once, mended if it is not whole, and never taken from another release.

A release that was sent is the one that its ledger keeps, so sending again changes nothing: whoever comes second finds
what the first left. A table that is whole and has other numbers is never replaced: it was published.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec
import polars as pl

from pufferflow.errors import Misuse, PufferflowError, SinkFailed, SourceFailed
from pufferflow.planning import Certificate
from pufferflow.release.durable import exclusive_access, make, write_whole
from pufferflow.release.files import CERTIFICATE, FORMATS, OURS, SCHEMA, Parts, bodies, replace, table, true_place
from pufferflow.release.release import Release


def send(release: Release, folder: Path, format: str) -> bool:  # noqa: A002 - what it is called everywhere
    """Write a release into a folder, unless the folder has it; return whether anything was written.

    What is missing or damaged is written anew; another format takes the place of the one that is there. A folder with
    another release is refused with nothing touched. Of two processes at once one writes, and the other returns False.
    """
    place, files = true_place(folder), bodies(Parts(release.frame, release.ends, release.certificate), format)
    try:
        if not place.exists() and make(place, files):
            return True
        with exclusive_access(place):
            if _has(release, place, format, files):
                return False
            replace(place, files)
            return True
    except OSError as error:
        failed = error
    raise _failed(folder, failed, counted=release.certificate.entry is not None)


def add(folder: Path, name: str, body: bytes) -> None:
    """Put one more file beside a release; one of that name is replaced."""
    if Path(name).name != name or name in {"", "..", *OURS}:
        raise Misuse(
            f"A file beside a release is to be called {name[:100]!r}.",
            allowed="a plain name, other than those of the release's own files",
            instead='"report.html"',
        )
    try:
        write_whole(true_place(folder) / name, [body])
    except OSError as error:
        failed = error
    else:
        return
    raise _failed(folder / name, failed, counted=True)


def entry_of(folder: Path) -> str:
    """Return the ledger's entry that the certificate of a folder names; empty if it names none, or cannot be read."""
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode((folder / CERTIFICATE).read_bytes(), type=_Head).entry or ""
    return ""


def differences(folder: Path, release: Release) -> list[str]:
    """Return in what a folder is not the release that was kept: its certificate field by field, and every table.

    The page and what it was made of are not compared.
    """
    lines = _certificate_differences(_bytes(folder / CERTIFICATE), release.certificate)
    tables = [
        (name, known_format)
        for known_format in FORMATS
        for name in ("release", "intervals")
        if (folder / f"{name}.{known_format}").exists()
    ]
    if {name for name, _ in tables} != {"release", "intervals"}:
        lines.append("a table is missing")
    for name, known_format in tables:
        frame = release.frame if name == "release" else release.ends
        try:
            same = _same(table(folder, name, known_format), frame)
        except (PufferflowError, OSError):
            same = False
        if not same:
            lines.append(f"{name}.{known_format} has other numbers, or is damaged")
    return lines


def _certificate_differences(body: bytes | None, certificate: Certificate) -> list[str]:
    known = None if body is None else _certificate(body)
    if known is None:
        return ["the certificate cannot be read"]
    ours, theirs = (msgspec.structs.asdict(document) for document in (certificate, known))
    names = [name for name, value in ours.items() if value != theirs[name]]
    return [f"the certificate was edited: {', '.join(names)}"] if names else []


class _Head(msgspec.Struct, frozen=True):
    """As much of a certificate as any version of it has."""

    version: int
    entry: str | None = None


def _has(release: Release, place: Path, format: str, files: dict[str, bytes]) -> bool:  # noqa: A002 - as above
    """Return whether a folder has the release, whole and in this format; another one is refused."""
    ours = _has_certificate(release, place, files[CERTIFICATE])
    whole = ours and not any((place / name).exists() for name in OURS - files.keys())
    for known_format in FORMATS:
        for name, frame in (("release", release.frame), ("intervals", release.ends)):
            stored = _read_table(place, name, known_format, described=ours and known_format == format)
            if stored is not None and not _same(stored, frame):
                raise _other(place, "other numbers", release)
            whole &= stored is not None or known_format != format
    return whole


def _has_certificate(release: Release, place: Path, certificate: bytes) -> bool:
    """Return whether the release's certificate is there; another one is refused, a damaged one is none."""
    stored = _bytes(place / CERTIFICATE)
    if stored is None or stored == certificate:
        return stored is not None
    try:
        head = msgspec.json.decode(stored, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    if head.entry != release.certificate.entry:
        raise _other(place, f"entry {head.entry}" if head.entry else "a release without an entry", release)
    theirs = _certificate(stored) if head.version == release.certificate.version else None
    if theirs is not None and theirs != release.certificate:
        raise _other(place, "another certificate of that name", release)
    return theirs is not None


def _certificate(body: bytes) -> Certificate | None:
    try:
        return Certificate.from_json(body)
    except Misuse:
        return None


def _read_table(place: Path, name: str, format: str, *, described: bool) -> pl.DataFrame | None:  # noqa: A002 - as above
    """Return a table, or None if it is not there or damaged; text that was never described is somebody else's."""
    path = place / f"{name}.{format}"
    if not path.exists():
        return None
    if not described and format != FORMATS[0] and not (place / SCHEMA).exists():
        raise Misuse(
            f"The folder {str(place)[:200]!r} has a file {path.name} that is no release's.",
            allowed="an empty folder, or one with this very release",
            instead="another sink, or another place for that file",
        )
    try:
        return table(place, name, format)
    except (SourceFailed, FileNotFoundError):  # the description may be what is not there
        return None


def _same(first: pl.DataFrame, second: pl.DataFrame) -> bool:
    return first.schema == second.schema and first.equals(second)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _other(place: Path, theirs: str, release: Release) -> Misuse:
    entry = release.certificate.entry
    own = f"entry {entry}" if entry else "a release without an entry"
    return Misuse(
        f"The folder {str(place)[:200]!r} has {theirs}, and the release to be sent is {own}.",
        allowed="an empty folder, or one with this very release; what was published is never replaced",
        instead="another sink, or another revision: revision=2",
    )


def _failed(place: Path, error: OSError, *, counted: bool) -> SinkFailed:
    """Return the error; the system's own words for its number hold no data."""
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return SinkFailed(
        f"Nothing could be written to {str(place)[:200]!r}: {reason}.",
        allowed="a folder that can be made or written to, on a disk with room",
        instead="mending that and running again: the release is kept in the ledger, and the next run sends it again"
        if counted
        else "another folder",
    )
