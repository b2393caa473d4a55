"""Copies of published releases, to be compared with the releases in a ledger.

The certificate of each copy names the ledger's entry that paid for it, and is compared field by field. The sink reads
the numbers back.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import final

import msgspec

from pufferflow.core.errors import UsageError
from pufferflow.published.certificate import Certificate
from pufferflow.published.release import Release


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
        return [*_certificate_differences(self.certificate, release.certificate), *self.tables(release)]


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
        f"The {noun} {place[:200]!r} has {theirs}, and the release to be sent is {own}.",
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
