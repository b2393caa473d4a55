"""Releases that were committed: which entry each belongs to, and reading them back."""

from pufferflow.errors import LedgerFault, Misuse, SourceFailed
from pufferflow.ledger.events import Committed, Event, Head, decoded
from pufferflow.ledger.kept import Kept, misfit
from pufferflow.ledger.line import Line
from pufferflow.ledger.shelves import payload_of
from pufferflow.ledger.tables import EVENT
from pufferflow.release import Release


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
