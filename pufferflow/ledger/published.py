"""What was published beside what a ledger keeps: every release of a folder, its numbers and its certificate."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from pufferflow.errors import Misuse, visible
from pufferflow.ledger.books import Books
from pufferflow.ledger.events import Reserved, read_head
from pufferflow.ledger.line import Line
from pufferflow.ledger.stored import event_of, kept_release, read_release
from pufferflow.ledger.tables import HASH
from pufferflow.release.files import CERTIFICATE, OURS
from pufferflow.release.folder import differences, entry_of


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
