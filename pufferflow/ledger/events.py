"""The events of a ledger: what each one says, its canonical text, and the hash that ties it to all before it.

Everything else that a ledger knows is derived from these. An event's hash is sha256(hash before ‖ canonical text), in
hexadecimal digits, and the text includes the event's number; so none can be changed, left out or moved unseen.

Names that people give: accounts, data sets and releases.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar, final

import msgspec

from pufferflow.arguments import instance
from pufferflow.composition import COST_NAMES, Cost, Region, Shape, canonical
from pufferflow.errors import InternalError, Misuse
from pufferflow.guarantees import Promise

T = TypeVar("T")
_HEAD = re.compile(r"(0|[1-9][0-9]{0,17}):([0-9a-f]{64})")


class Head(NamedTuple):
    """The end of a log: the number of its last event, and that one's hash."""

    number: int
    hash: str

    def __str__(self) -> str:
        """Return the text that people keep."""
        return f"{self.number}:{self.hash}"

    def after(self, body: bytes) -> "Head":
        """Return the head after one more event."""
        return Head(self.number + 1, following(self.hash, body))


def following(before: str, body: bytes) -> str:
    """Return the hash of an event that comes after another one."""
    return hashlib.sha256(before.encode() + body).hexdigest()


NOTHING: Final = Head(0, "0" * 64)
"""The head of an empty log."""


def read_head(text: str) -> Head | None:
    """Return the head that a text tells of, or None."""
    found = _HEAD.fullmatch(text)
    return None if found is None else Head(int(found[1]), found[2])


@final
class Placed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False, rename=COST_NAMES):
    """A cost as an event tells it: its shape is named by the digest, and kept once for all events."""

    shape: str
    offset: int = 0
    steps_seen: tuple[int, int] | None = None
    start: float | None = None
    regions: dict[str, Region] = {}
    clock: str = ""

    @classmethod
    def of(cls, cost: Cost) -> "Placed":
        """Return a cost without its shape; all the rest must be in it, or later totals would be too small."""
        found = cls(cost.shape.digest, cost.offset, cost.steps_seen, cost.start, cost.regions, cost.clock)
        if found.cost(cost.shape) != cost:
            raise InternalError("A cost has more to it than a ledger keeps.", instead="reporting it")
        return found

    def cost(self, shape: Shape) -> Cost:
        """Return the cost again."""
        return Cost(shape, self.offset, self.steps_seen, self.start, self.regions, self.clock)


class _Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", gc=False):
    """Base: which event it is, of which account, and when; the time is for people and decides nothing."""

    number: int
    account: str
    at: str


@final
class Opened(_Event, frozen=True, tag="open"):
    """An account begins."""

    dataset: str
    separate: bool
    limit: Promise
    scenario: str
    fingerprint: str


@final
class Superseded(_Event, frozen=True, tag="supersede"):
    """From here on plans are made for another scenario, and totals hold for its priors too."""

    scenario: str
    fingerprint: str


@final
class Reserved(_Event, frozen=True, tag="reserve"):
    """The cost of a release is spent, before a private row is read.

    `plan` is the digest of the certificate. `total` is what everything so far tells together, this release included,
    or a number above that; `rule` carries it.
    """

    release: str
    plan: str
    fingerprint: str
    promise: Promise
    asked: tuple[str, ...]
    certainty: str
    cost: Placed
    total: float
    rule: str
    meter: str | None


@final
class Committed(_Event, frozen=True, tag="commit"):
    """A release is kept: `entry` is the number of its reservation, `payload` the digest of its bytes."""

    entry: int
    payload: str


Event = Opened | Superseded | Reserved | Committed


@final
class Counted(msgspec.Struct, frozen=True, tag_field="kind", tag="reserve", gc=False):
    """As much of a reservation as counting needs; long logs are read several times as quickly with it."""

    number: int
    account: str
    release: str
    fingerprint: str
    cost: Placed
    meter: str | None


@final
class Done(msgspec.Struct, frozen=True, tag_field="kind", tag="commit", gc=False):
    """As much of a commit as counting needs."""

    number: int
    account: str
    entry: int


Brief = Opened | Superseded | Counted | Done
_decoder = msgspec.json.Decoder(Event)
_all_decoder = msgspec.json.Decoder(list[Event])
_brief_decoder = msgspec.json.Decoder(list[Brief])


def decoded(body: bytes) -> Event | None:
    """Return the event of a canonical text; None for any other text."""
    try:
        event = _decoder.decode(body)
        return event if canonical(event) == body else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def decoded_all(bodies: Sequence[bytes]) -> list[Event] | None:
    """Return the events of many texts; None if one is no event."""
    return _listed(_all_decoder, bodies)


def briefly(bodies: Sequence[bytes]) -> list[Brief] | None:
    """Return as much of many events as counting needs; None if one is no event."""
    return _listed(_brief_decoder, bodies)


def _listed(decoder: msgspec.json.Decoder[list[T]], bodies: Sequence[bytes]) -> list[T] | None:
    try:
        found = decoder.decode(b"[" + b",".join(bodies) + b"]")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if len(found) == len(bodies) else None


def encoded(event: Event) -> bytes:
    """Return the canonical text of an event, which must read back as the same."""
    body = canonical(event)
    if _decoder.decode(body) != event:
        raise InternalError(
            f"An event of kind {type(event).__name__} does not read back as it was written.", instead="reporting it"
        )
    return body


_LONGEST = 200


def read_text(given: object, what: str, example: str) -> str:
    """Return a text of 1 to 200 printable characters without outer blanks, so that what looks alike is one (NFC)."""
    allowed = f"a text of 1 to {_LONGEST} printable characters, with no blank at its ends"
    given = instance(given, str, what, allowed=allowed, instead=example)
    if not 1 <= len(given) <= _LONGEST:
        raise Misuse(f"{what} has {len(given)} characters.", allowed=allowed, instead=example)
    if not given.isprintable():
        raise Misuse(f"{what} has characters that cannot be printed.", allowed=allowed, instead=example)
    if given != given.strip():
        raise Misuse(f"{what} has blanks at its ends.", allowed=allowed, instead=example)
    return unicodedata.normalize("NFC", given)


def read_flag(given: object, what: str) -> bool:
    """Return True or False; a text that says no would count as yes."""
    return instance(given, bool, what, allowed="True or False", instead=f"{what}=True")


def not_sent(what: str, instead: str) -> Misuse:
    """Return the error of what is pickled or copied and holds connections."""
    return Misuse(
        f"{what} cannot be pickled or copied.",
        allowed="a ledger opened in each process, or before it is forked off",
        instead=instead,
    )
