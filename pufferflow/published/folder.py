"""The folder that a release is sent to: sent once, repaired if it is not whole, and never taken from another release.

The release is the one that its ledger keeps, so sending again changes nothing: a second process finds what the first
wrote. A table that is whole and has other numbers is never replaced: it was published.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import polars as pl

from pufferflow.core.durable_files import exclusive_access, make, name_beside, write_whole
from pufferflow.core.errors import PufferflowError, SinkError, SourceError, UsageError
from pufferflow.published.copies import Copy, certificate_of, entry_in, other_release, place_taken
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


def send(release: Release, folder: Path, format: str) -> bool:  # noqa: A002 - what it is called everywhere
    """Write a release into a folder, unless the folder has it; return whether anything was written.

    What is missing or damaged is written anew; another format takes the place of the one that is there. A folder with
    another release is refused with nothing touched. Of two processes at once one writes, and the other returns False.
    """
    place, files = true_place(folder), files_of(release, format)
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
    raise _failed(folder, failed, _KEPT if release.certificate.entry is not None else _ANOTHER)


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made, or written to, before anything is drawn; nothing is left in it."""
    place = next(one for one in (true_place(folder), *true_place(folder).parents) if one.exists())
    trial = name_beside(place / folder.name)
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        failed = error
    else:
        return
    raise _failed(folder, failed, _UNTOUCHED)


def check_free(folder: Path) -> None:
    """Refuse the place of a release that is a file, or a folder with release files without a certificate."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise SinkError(
            f"{str(folder)[-200:]!r} is where a release goes, and it is no folder. Nothing was drawn or charged.",
            allowed="an empty place, or a folder",
            instead="moving that file away, and running again",
        )
    if theirs := sorted(OURS.intersection(path.name for path in folder.iterdir())):
        raise UsageError(
            f"The folder {str(folder)[-200:]!r} has a file {theirs[0]} that is no release's of this account. "
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
    raise _failed(folder / name, failed, _KEPT)


def copies_in(folder: Path) -> list[Copy]:
    """Return what is published in a folder, of one release or of a sink, in order."""
    if (folder / CERTIFICATE).is_file():
        return [_copy(folder)]
    return [_copy(place) for place in sorted({place.parent for place in folder.glob("*/*") if place.name in OURS})]


def entry_of(folder: Path) -> str:
    """Return the ledger's entry that the certificate of a folder names; empty if it names none, or cannot be read."""
    with suppress(OSError):
        return entry_in((folder / CERTIFICATE).read_bytes())
    return ""


def table_differences(names: Collection[str], read: Callable[[str], bytes], release: Release) -> list[str]:
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
            stored = _read_table(place, name, known_format, described=ours and known_format == format)
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


_KEPT = "mending that and running again: the release is kept in the ledger, and the next run sends it again"
_ANOTHER = "another folder"
_UNTOUCHED = "mending that, or another folder; nothing was drawn or charged"


def _failed(place: Path, error: OSError, instead: str) -> SinkError:
    """Return the error; the system's own words for its number hold no data."""
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return SinkError(
        f"Nothing could be written to {str(place)[:200]!r}: {reason}.",
        allowed="a folder that can be made or written to, on a disk with free space",
        instead=instead,
    )
