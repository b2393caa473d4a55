"""Checking a whole ledger and the published releases of any sink; copying and exporting a ledger.

Every entry must follow from the one before, be valid, and find all objects that it names by digest. A copy has the same
texts: it is a backup, or the way from a file to a server.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import sqlalchemy as sa

from pufferflow.accounting.ledger.account import Correction, corrections
from pufferflow.accounting.ledger.events import (
    EMPTY,
    Committed,
    Head,
    Opened,
    Reserved,
    Superseded,
    decode,
    misfit,
    read_head,
)
from pufferflow.accounting.ledger.log import Appender
from pufferflow.accounting.ledger.reader import Reader, decode_release, decode_shape, is_payload
from pufferflow.accounting.ledger.state import LedgerState
from pufferflow.accounting.ledger.tables import (
    ADD_EVENT,
    ADD_PAYLOAD,
    ADD_SHAPE,
    HASH,
    LAST,
    LEAST,
    NEWS,
    PAYLOADS,
    SHAPES,
    Transaction,
)
from pufferflow.core.durable_files import write_whole
from pufferflow.core.errors import LedgerError, UsageError, escape_controls
from pufferflow.core.notebook import InNotebooks
from pufferflow.published.files import CERTIFICATE
from pufferflow.published.folder import Copy, copies_in


@final
@dataclass(frozen=True)
class Published:
    """A published release: the entry in its certificate, its account, and its differences from the stored release.

    `label` is its name in the sink, such as that of a folder, and `place` its location. `account` and `release_id` are
    empty if the ledger has no such entry. `differs` is empty if nothing was changed.
    """

    label: str
    place: str
    entry: str
    account: str = ""
    release_id: str = ""
    differs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The place as a path, for releases in folders."""
        return Path(self.place)


def in_folder(folder: Path) -> list[Copy]:
    """Return what is published in a folder, of one release or of a sink; refuse an empty folder."""
    copies = copies_in(folder)
    if all(one.certificate is None for one in copies):
        raise UsageError(
            f"The folder {str(folder)[-200:]!r} has no {CERTIFICATE}, nor has a folder in it.",
            allowed="a folder of one release, or a job's sink with a folder for each",
            instead='"published"',
        )
    return copies


def compare(reader: Reader, copy: Copy, account: str | None) -> Published:
    """Compare a published release with the one that the ledger stores for its entry."""
    found = Published(copy.label, copy.place, copy.entry)
    if copy.certificate is None:
        return replace(found, differs=("it has no certificate",))
    if not copy.entry:
        return replace(
            found, differs=("its certificate cannot be read, or names no entry of a ledger",)
        )
    if not reader.has(copy.entry):
        return replace(found, differs=("the ledger has no such entry",))
    event, head = reader.event(int(copy.entry.partition(":")[0]))
    if not isinstance(event, Reserved):
        return replace(found, account=event.account, differs=("the entry is no release",))
    wrong = list[str]()
    if account is not None and account != event.account:
        wrong.append(f"the entry is of the account {event.account!r}")
    if copy.release_id not in {None, event.release}:
        wrong.append(
            f"it is the release {escape_controls(event.release)!r}, under the id of another"
        )
    body = reader.payload(reader.account(event.account), head.number)
    if body is None:
        wrong.append("nothing was committed for the entry")
    else:
        wrong += copy.differences(decode_release(body, head))
    return replace(found, account=event.account, release_id=event.release, differs=tuple(wrong))


def check_places(releases: Sequence[Published]) -> tuple[Published, ...]:
    """Return the same; a release that is in two places, or in one that is named after another release, differs."""
    counts = Counter(release.entry for release in releases if release.entry)
    names = {release.label for release in releases}
    return tuple(
        replace(
            release, differs=(*release.differs, *_misplaced(release, names, counts[release.entry]))
        )
        for release in releases
    )


def _misplaced(release: Published, names: set[str], places: int) -> Iterator[str]:
    if places > 1:
        yield "its entry is in more than one place"
    label = release.label
    own = max(
        (name for name in names if release.release_id.endswith(f"-{name}")), key=len, default=label
    )
    if own != label:
        yield f"it is the release {escape_controls(release.release_id)!r}, and lies in the place of another"


_COPIED: Final = 1_000
_EXPORTED: Final = 10_000


@final
@dataclass(frozen=True)
class Verified(InNotebooks):
    """The result for a sound ledger: its number of entries, and its head, to be stored elsewhere.

    `corrected` are entries with which an older version recorded a total that is too small; accounts go on with the
    corrected totals.
    """

    entries: int
    head: str
    corrected: tuple[Correction, ...] = ()


def read_kept_head(given: object) -> Head | None:
    """Parse a head that was stored elsewhere; None if none is given."""
    if given is None:
        return None
    head = read_head(given) if isinstance(given, str) else None
    if head is None:
        raise UsageError(
            "The head cannot be read.", allowed='a text "number:hash"', instead="ledger.head()"
        )
    return head


def verify(transaction: Transaction, trusted: Head | None = None) -> Verified:
    """Check a whole ledger, and that it has the given head; name the first entry that does not fit."""
    damaged = transaction.database == "sqlite" and transaction.execute(
        "PRAGMA quick_check(1)"
    ).fetchone() != ("ok",)
    if damaged:
        raise LedgerError(
            "The ledger's file is damaged.",
            instead="the last copy that ledger.verify(head) accepts",
        )
    named, state = _NamedBlobs(), LedgerState()
    state.catch_up(transaction, named.visit)
    for account in state.accounts.values():
        _ = account.scenarios  # each must be readable
    named.check(transaction)
    if trusted is not None:
        digest = (
            EMPTY.hash if trusted.number == 0 else transaction.value(HASH, number=trusted.number)
        )
        if digest != trusted.hash:
            raise LedgerError(
                f"The head that was kept is not in the ledger, which has {state.head.number} entries: "
                "the ledger was replaced by another one, or by an older copy.",
                allowed="a ledger that has grown since",
                instead="the copy that was in use when the head was kept",
            )
    reader = Reader(state, transaction)
    corrected = [one for name in state.accounts for one in corrections(reader, name)]
    return Verified(state.head.number, str(state.head), tuple(corrected))


class _NamedBlobs:
    """The digests that entries name: of each, the number of the first entry that does."""

    def __init__(self) -> None:
        self.shapes: dict[str, int] = {}
        self.payloads: dict[str, int] = {}
        self.entries: dict[int, int] = {}
        """The entry of each commit."""

    def visit(self, number: int, body: bytes) -> None:
        """Add what one entry names."""
        event = decode(body)
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

    def check(self, transaction: Transaction) -> None:
        """Check that blobs named by entries exist unchanged, and that there are no others."""
        for digest, body in transaction.run(SHAPES):
            number = _take(self.shapes, digest, "shape")
            if decode_shape(digest, body) is None:
                raise misfit(number, "the shape that it names was changed")
        for digest, body in transaction.run(PAYLOADS):
            number = _take(self.payloads, digest, "release")
            if not is_payload(digest, body):
                raise misfit(number, "the release that it names was changed")
            entry = self.entries[number]
            decode_release(body, Head(entry, transaction.value(HASH, number=entry)))
        for named, what in ((self.shapes, "shape"), (self.payloads, "release")):
            if named:
                raise misfit(min(named.values()), f"the {what} that it names is missing")


def _take(named: dict[str, int], digest: object, what: str) -> int:
    """Remove a digest and return the entry that names it."""
    number = named.pop(digest, None) if isinstance(digest, str) else None
    if number is None:
        raise LedgerError(
            f"The ledger has a {what} that no entry names: entries at its end are missing, or it was added later.",
            allowed="what entries name",
            instead="ledger.verify(head) on the last copy that you kept",
        )
    return number


def copy(source: Transaction, appender: Appender) -> Verified:
    """Copy all that a ledger holds into an empty one, and verify it before it is durable."""
    target = appender.transaction
    if appender.head != EMPTY or any(
        target.run(blobs).fetchone() is not None for blobs in (SHAPES, PAYLOADS)
    ):
        raise UsageError(
            f"The target has {appender.head.number} entries already.",
            allowed="a new ledger",
            instead="a file that does not exist yet, or an empty database",
        )
    tables: tuple[
        tuple[sa.ClauseElement, dict[str, int], sa.ClauseElement, tuple[str, ...]], ...
    ] = (
        (NEWS, {"known": LEAST}, ADD_EVENT, ("number", "body", "hash")),
        (SHAPES, {}, ADD_SHAPE, ("digest", "body")),
        (PAYLOADS, {}, ADD_PAYLOAD, ("digest", "body")),
    )
    for select, values, insert, names in tables:
        rows = source.run(select, **values)
        while batch := rows.fetchmany(_COPIED):
            target.add_all(insert, [dict(zip(names, row, strict=True)) for row in batch])
    verified = verify(target)
    last = source.run(LAST).fetchone()
    if verified.head != str(EMPTY if last is None else Head(*last)):
        raise LedgerError("The copy does not end as the ledger does.", instead="ledger.verify()")
    return verified


def export(transaction: Transaction, place: Path) -> None:
    """Write the log, an event a line with its hash; the file appears whole or not at all.

    A hash is sha256 of the hash in the line before (64 zeros before the first) and the bytes of `event`.
    """

    def lines() -> Iterator[bytes]:
        rows = transaction.run(NEWS, known=0)
        while batch := rows.fetchmany(_EXPORTED):
            yield from (
                f'{{"event":{body},"hash":"{digest}"}}\n'.encode() for _, body, digest in batch
            )

    problem = ""
    try:
        write_whole(place, lines())
    except OSError as error:
        problem = type(error).__name__
    if problem:
        raise UsageError(
            f"Nothing can be written to {str(place)[:200]!r}: {problem}.",
            allowed="a place that exists and may be written to",
            instead="another file",
        )
