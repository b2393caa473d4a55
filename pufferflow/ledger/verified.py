"""Walking through a whole ledger: every entry must follow, make sense, and find what it names by digest."""

from dataclasses import dataclass
from typing import final

from pufferflow.errors import LedgerFault, Misuse
from pufferflow.ledger.books import Books
from pufferflow.ledger.events import NOTHING, Committed, Head, Opened, Reserved, Superseded, decoded, read_head
from pufferflow.ledger.kept import misfit
from pufferflow.ledger.line import Line
from pufferflow.ledger.shelves import is_payload, read_shape
from pufferflow.ledger.stored import read_release
from pufferflow.ledger.tables import HASH, PAYLOADS, SHAPES


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
