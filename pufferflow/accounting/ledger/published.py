"""Published releases of any sink, compared with the ledger's entries that their certificates name."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from pufferflow.accounting.ledger.events import Reserved
from pufferflow.accounting.ledger.reader import Reader, decode_release
from pufferflow.core.errors import UsageError, escape_controls
from pufferflow.published.copies import Copy
from pufferflow.published.files import CERTIFICATE
from pufferflow.published.folder import copies_in


@final
@dataclass(frozen=True)
class Published:
    """A published release: the entry in its certificate, its account, and its differences from the stored release.

    `label` is its name in the sink, such as that of a folder, and `place` its location. `account` and `release_id` are
    empty if the ledger has no such entry, `differs` if nothing was changed.
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
        return replace(found, differs=("its certificate cannot be read, or names no entry of a ledger",))
    if not reader.has(copy.entry):
        return replace(found, differs=("the ledger has no such entry",))
    event, head = reader.event(int(copy.entry.partition(":")[0]))
    if not isinstance(event, Reserved):
        return replace(found, account=event.account, differs=("the entry is no release",))
    wrong = list[str]()
    if account is not None and account != event.account:
        wrong.append(f"the entry is of the account {event.account!r}")
    if copy.release_id not in {None, event.release}:
        wrong.append(f"it is the release {escape_controls(event.release)!r}, under the id of another")
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
        replace(release, differs=(*release.differs, *_misplaced(release, names, counts[release.entry])))
        for release in releases
    )


def _misplaced(release: Published, names: set[str], places: int) -> Iterator[str]:
    if places > 1:
        yield "its entry is in more than one place"
    label = release.label
    own = max((name for name in names if release.release_id.endswith(f"-{name}")), key=len, default=label)
    if own != label:
        yield f"it is the release {escape_controls(release.release_id)!r}, and lies in the place of another"
