"""Walking through a whole ledger: every entry must follow, make sense, and find what it names by digest.

Copying a ledger, text by text: a backup, or the way from a file to a server.

A ledger as lines of JSON, for people and other programs.

What was published beside what a ledger keeps: every release of a folder, its numbers and its certificate.

Releases that were committed: which entry each belongs to, and reading them back.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

import sqlalchemy as sa

from pufferflow.errors import LedgerFault, Misuse, SourceFailed, visible
from pufferflow.ledger.blobs import is_payload, payload_of, read_shape
from pufferflow.ledger.connect import (
    ADD_EVENT,
    ADD_PAYLOAD,
    ADD_SHAPE,
    EVENT,
    HASH,
    LAST,
    LEAST,
    NEWS,
    PAYLOADS,
    SHAPES,
    Line,
)
from pufferflow.ledger.events import NOTHING, Committed, Event, Head, Opened, Reserved, Superseded, decoded, read_head
from pufferflow.ledger.log import Pen
from pufferflow.ledger.state import Books, Kept, misfit
from pufferflow.release import CERTIFICATE, OURS, Release, differences, entry_of


def release_of(kept: Kept, line: Line, release: str) -> Release:
    """Return the release that is kept under an id, or say that there is none."""
    found = found_release(kept, line, release)
    if found is not None:
        return found
    reserved = release in kept.reserved
    raise Misuse(
        f"The account {kept.name!r} has no release {release!r}"
        + (": it is reserved, and not committed yet." if reserved else "."),
        allowed="the id of a release that was committed",
        instead=f"plan.release(account, id={release!r})" if reserved else "account.history(), for the ids",
    )


def found_release(kept: Kept, line: Line, release: str) -> Release | None:
    """Return the release that is kept under an id; None if none is."""
    number = kept.reserved.get(release)
    body = None if number is None else kept_release(kept, line, number)
    if number is None or body is None:
        return None
    return read_release(body, str(Head(number, event_of(line, number)[1])))


def kept_release(kept: Kept, line: Line, number: int) -> bytes | None:
    """Return the bytes of the release that is kept for an entry; None if none is."""
    commit = kept.committed.get(number)
    if commit is None:
        return None
    event, _ = event_of(line, commit)
    if not isinstance(event, Committed) or event.entry != number:
        raise misfit(commit, f"it is no commit of entry {number}")
    return payload_of(line, event.payload)


def event_of(line: Line, number: int) -> tuple[Event, str]:
    """Return an event that is there, and its hash."""
    body, digest = line.run(EVENT, number=number).fetchone() or (None, None)
    event = decoded(body.encode()) if isinstance(body, str) else None
    if event is None or not isinstance(digest, str):
        raise misfit(number, "it is missing, or no event")
    return event, digest


def read_release(body: bytes, entry: str) -> Release:
    """Return the release of some bytes, which must name the entry that they are kept under."""
    found = None
    try:
        found = Release.from_bytes(body)
    except (Misuse, SourceFailed):
        found = None
    if found is None:
        raise LedgerFault("A stored release cannot be read.", instead="the pufferflow that wrote it")
    if found.certificate.entry != entry:
        raise misfit(int(entry.partition(":")[0]), "the release that is kept for it names another entry")
    return found


@final
@dataclass(frozen=True)
class Verified:
    """A ledger in which everything fits: how many entries it has, and its head, to be kept elsewhere."""

    entries: int
    head: str


def read_kept_head(given: object) -> Head | None:
    """Return a head that somebody kept."""
    if given is None:
        return None
    head = read_head(given) if isinstance(given, str) else None
    if head is None:
        raise Misuse("The head cannot be read.", allowed='a text "number:hash"', instead="ledger.head()")
    return head


def verified(line: Line, kept: Head | None) -> Verified:
    """Return that everything fits, or name the first entry that does not."""
    _check_pages(line)
    walk = _Walk()
    books = Books()
    books.catch_up(line, walk.see)
    for account in books.accounts.values():
        _ = account.scenarios
    walk.check_shelves(line)
    _check_head(line, books.head, kept)
    return Verified(books.head.number, str(books.head))


class _Walk:
    """What the entries name by digest: by each digest, the number of the first entry that does."""

    def __init__(self) -> None:
        self.shapes: dict[str, int] = {}
        self.payloads: dict[str, int] = {}
        self.entries: dict[int, int] = {}
        """The entry of each commit."""

    def see(self, number: int, body: bytes) -> None:
        """Look at one entry."""
        event = decoded(body)
        if event is None:
            raise misfit(number, "it is not written as this library writes")
        match event:
            case Reserved():
                self.shapes.setdefault(event.cost.shape, event.number)
            case Committed():
                self.payloads.setdefault(event.payload, event.number)
                self.entries[event.number] = event.entry
            case Opened() | Superseded():
                pass

    def check_shelves(self, line: Line) -> None:
        """Check that what the entries name is there and as it was."""
        for digest, body in line.run(SHAPES):
            number = _named(self.shapes, digest, "shape")
            if read_shape(digest, body) is None:
                raise misfit(number, "the shape that it names was changed")
        for digest, body in line.run(PAYLOADS):
            number = _named(self.payloads, digest, "release")
            if not is_payload(digest, body):
                raise misfit(number, "the release that it names was changed")
            entry = self.entries[number]
            read_release(body, str(Head(entry, line.value(HASH, number=entry))))
        for named, what in ((self.shapes, "shape"), (self.payloads, "release")):
            if named:
                raise misfit(min(named.values()), f"the {what} that it names is missing")


def _named(named: dict[str, int], digest: object, what: str) -> int:
    """Return the entry that names a digest, which is ticked off."""
    number = named.pop(digest, None) if isinstance(digest, str) else None
    if number is None:
        raise LedgerFault(
            f"The ledger has a {what} that no entry names: entries at its end are missing, or somebody added it.",
            allowed="what entries name",
            instead="ledger.verify(head) on the last copy that you kept",
        )
    return number


def _check_pages(line: Line) -> None:
    if line.database == "sqlite" and line.say("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise LedgerFault("The ledger's file is damaged.", instead="the last copy that ledger.verify(head) accepts")


def _check_head(line: Line, head: Head, kept: Head | None) -> None:
    if kept is None:
        return
    found = NOTHING.hash if kept.number == 0 else line.value(HASH, number=kept.number)
    if found != kept.hash:
        raise LedgerFault(
            f"The head that was kept is not in the ledger, which has {head.number} entries: "
            "it was replaced by another, or by an older copy.",
            allowed="a ledger that has grown since",
            instead="the copy that was in use when the head was kept",
        )


_AT_ONCE: Final = 1_000


def copied(source: Line, pen: Pen) -> Verified:
    """Copy all that a ledger holds into an empty one, and verify it before it is durable."""
    target = pen.line
    if pen.head != NOTHING or any(target.run(what).fetchone() is not None for what in (SHAPES, PAYLOADS)):
        raise Misuse(
            f"The target has {pen.head.number} entries already.",
            allowed="a new ledger",
            instead="a file that does not exist yet, or an empty database",
        )
    _copy(source.run(NEWS, known=LEAST), target, ADD_EVENT, ("number", "body", "hash"))
    _copy(source.run(SHAPES), target, ADD_SHAPE, ("digest", "body"))
    _copy(source.run(PAYLOADS), target, ADD_PAYLOAD, ("digest", "body"))
    found = verified(target, None)
    if found.head != str(_end(source)):
        raise LedgerFault("The copy does not end as the ledger does.", instead="ledger.verify()")
    return found


def _copy(rows: Any, target: Line, statement: sa.ClauseElement, names: tuple[str, ...]) -> None:
    while batch := rows.fetchmany(_AT_ONCE):
        target.add_all(statement, [dict(zip(names, row, strict=True)) for row in batch])


def _end(line: Line) -> Head:
    row = line.run(LAST).fetchone()
    return NOTHING if row is None else Head(*row)


_LINES_AT_ONCE: Final = 10_000


def export(line: Line, place: Path) -> None:
    """Write the log, an event a line with its hash; the file appears whole or not at all.

    A hash is sha256 of the hash in the line before (64 zeros before the first) and the bytes of `event`.
    """
    problem = ""
    try:
        _written(line, place)
    except OSError as error:
        problem = type(error).__name__
    if problem:
        raise Misuse(
            f"Nothing can be written to {str(place)[:200]!r}: {problem}.",
            allowed="a place that exists and may be written to",
            instead="another file",
        )


def _written(line: Line, place: Path) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:50]}-")
    try:
        with os.fdopen(handle, "wb") as file:
            rows = line.run(NEWS, known=0)
            while batch := rows.fetchmany(_LINES_AT_ONCE):
                file.writelines(f'{{"event":{body},"hash":"{digest}"}}\n'.encode() for _, body, digest in batch)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(place)
    finally:
        Path(name).unlink(missing_ok=True)


@final
@dataclass(frozen=True)
class Published:
    """A folder with a release: which entry its certificate names, whose that is, and in what it is not what was kept.

    `account` and `release_id` are empty where the ledger has no such entry, `differs` where nothing was changed.
    """

    folder: Path
    entry: str
    account: str = ""
    release_id: str = ""
    differs: tuple[str, ...] = ()


def knows(line: Line, entry: str) -> bool:
    """Say whether an entry, as certificates name it, is in the ledger."""
    head = read_head(entry)
    return head is not None and line.value(HASH, number=head.number) == head.hash


def published_in(folder: Path) -> list[Path]:
    """Return the folders with a release, of one release or of a sink."""
    if (folder / CERTIFICATE).is_file():
        return [folder]
    found = sorted({place.parent for place in folder.glob("*/*") if place.name in OURS})
    if not any((one / CERTIFICATE).is_file() for one in found):
        raise Misuse(
            f"The folder {str(folder)[-200:]!r} has no {CERTIFICATE}, nor has a folder in it.",
            allowed="a folder of one release, or a job's sink with a folder for each",
            instead='"published"',
        )
    return found


def in_their_places(releases: Sequence[Published]) -> tuple[Published, ...]:
    """Return the same; a release that is in two folders, or in one that is named after another release, differs."""
    often = Counter(one.entry for one in releases if one.entry)
    names = {one.folder.name for one in releases}
    return tuple(
        replace(one, differs=(*one.differs, *_displaced(one, names, often[one.entry] > 1))) for one in releases
    )


def _displaced(one: Published, names: set[str], twice: bool) -> Iterator[str]:  # noqa: FBT001
    if twice:
        yield "its entry is in more than one folder"
    own = max((name for name in names if one.release_id.endswith(f"-{name}")), key=len, default=one.folder.name)
    if own != one.folder.name:
        yield f"it is the release {visible(one.release_id)!r}, and lies in the folder of another"


def compared(books: Books, line: Line, folder: Path, account: str | None) -> Published:
    """Return what became of one release since it was kept."""
    if not (folder / CERTIFICATE).is_file():
        return Published(folder, "", differs=("it has no certificate",))
    entry = entry_of(folder)
    if not entry:
        return Published(folder, "", differs=("its certificate cannot be read, or names no entry of a ledger",))
    if not knows(line, entry):
        return Published(folder, entry, differs=("the ledger has no such entry",))
    number = int(entry.partition(":")[0])
    event, _ = event_of(line, number)
    if not isinstance(event, Reserved):
        return Published(folder, entry, event.account, differs=("the entry is no release",))
    kept = kept_release(books.account(event.account), line, number)
    wrong = list[str]()
    if account is not None and account != event.account:
        wrong.append(f"the entry is of the account {event.account!r}")
    wrong += ["nothing was committed for the entry"] if kept is None else differences(folder, read_release(kept, entry))
    return Published(folder, entry, event.account, event.release, tuple(wrong))
