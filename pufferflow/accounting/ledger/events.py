"""The events of a ledger: their fields, canonical text, and the hash that chains each to all before it.

Everything else in a ledger is derived from its events. The hash of one is sha256(hash before ‖ canonical text), in
hexadecimal digits, and the text includes the event's number. So no event can be changed, left out or moved without
detection.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar, final

import msgspec

from pufferflow.accounting.reserved import ReservedProfile
from pufferflow.core.errors import InternalError, LedgerError, UsageError
from pufferflow.core.validate import instance
from pufferflow.privacy.by_name import StoredGuarantee
from pufferflow.published.cost import COST_NAMES, Cost, Region, Shape, canonical

T = TypeVar("T")
_HEAD = re.compile(r"(0|[1-9][0-9]{0,17}):([0-9a-f]{64})")


class Head(NamedTuple):
    """The end of a log: the number of its last event, and that one's hash; as text "number:hash"."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    def after(self, body: bytes) -> "Head":
        """Return the head after one more event."""
        return Head(self.number + 1, chain_hash(self.hash, body))


EMPTY: Final = Head(0, "0" * 64)
"""The head of an empty log."""


def chain_hash(before: str, body: bytes) -> str:
    """Return the hash of an event, from that of the event before it."""
    return hashlib.sha256(before.encode() + body).hexdigest()


def read_head(text: str) -> Head | None:
    """Parse a head; None for any other text."""
    match = _HEAD.fullmatch(text)
    return None if match is None else Head(int(match[1]), match[2])


def misfit(number: int, problem: str) -> LedgerError:
    """Return the fault of an entry that does not fit."""
    return LedgerError(
        f"Entry {number} does not fit: {problem}.",
        allowed="a log that nobody has changed",
        instead="ledger.verify(head) on the last copy that you kept",
    )


@final
class StoredCost(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
    rename=COST_NAMES,
):
    """A cost in an event: its shape is named by the digest, and stored once for all events."""

    shape: str
    offset: int = 0
    steps_seen: tuple[int, int] | None = None
    start: float | None = None
    regions: dict[str, Region] = {}
    clock: str = ""

    @classmethod
    def of(cls, cost: Cost) -> "StoredCost":
        """Return a cost without its shape; a cost with further parts is refused, as later totals would be too small."""
        stored = cls(
            cost.shape.digest, cost.offset, cost.steps_seen, cost.start, cost.regions, cost.clock
        )
        if stored.with_shape(cost.shape) != cost:
            raise InternalError(
                "A cost has fields that a ledger does not store.", instead="reporting it"
            )
        return stored

    def with_shape(self, shape: Shape) -> Cost:
        """Return the cost with its shape."""
        return Cost(shape, self.offset, self.steps_seen, self.start, self.regions, self.clock)


class _Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", gc=False):
    """Base: the event's number, its account, and when it was written; the time is for information only."""

    number: int
    account: str
    at: str


RULES: Final = 3
"""The version of today's rules, by which an account holds several accounting methods with shares of its limit.

Version 1 took the least total over accounting methods after the answers. Version 2 kept the method that suited the
first release.
"""
CHOSEN: Final = 2
"""The version since which methods are chosen before the first answer."""


@final
class Opened(_Event, frozen=True, tag="open", omit_defaults=True):
    """An account begins."""

    dataset: str
    separate: bool
    limit: StoredGuarantee
    scenario: str
    fingerprint: str
    profiles: tuple[ReservedProfile, ...] = ()
    """Profiles that bound what releases may reveal, if reserved; none in an account that counts what they reveal."""
    keys_delta: float | None = None
    """The part of the limit's δ for keys that the data chooses; None in older ledgers: the default."""
    rules: int = 1
    """The version of the rules by which the account counts from its first release on; see `corrections`."""
    methods: tuple[str, ...] = ()
    """The names of the accounting methods that the account may count by; () for all."""


@final
class Superseded(_Event, frozen=True, tag="supersede", omit_defaults=True):
    """From this event on plans are made for another scenario, and totals hold for its priors too."""

    scenario: str
    fingerprint: str
    regardless_of_answers: bool = False
    """Whether it was declared that no answer of the account decided on the new prior; unknown in older ledgers."""


@final
class Reserved(_Event, frozen=True, tag="reserve", omit_defaults=True):
    """The cost of a release is charged, before a private row is read."""

    release: str
    plan: str
    """The name of the plan, shared by plans of the same queries on the same rows."""
    fingerprint: str
    promise: StoredGuarantee
    asked: tuple[str, ...]
    certainty: str
    cost: StoredCost
    total: float
    """The total of all releases so far, this one included, or an upper bound of it."""
    rule: str
    """The rule of composition that proves `total`."""
    method: str | None = msgspec.field(name="meter")
    """The accounting method that proves `total`; in accounts of older versions the only one that counts."""
    shares: dict[str, float] = {}
    """The accounting methods of the account and their shares, with the first release about a row."""
    dead: tuple[str, ...] = ()
    """The accounting methods that do not admit this release, and none after it."""


@final
class Committed(_Event, frozen=True, tag="commit"):
    """A release is stored: `entry` is the number of its reservation, `payload` the digest of its bytes."""

    entry: int
    payload: str


Event = Opened | Superseded | Reserved | Committed


@final
class ReservedSummary(msgspec.Struct, frozen=True, tag_field="kind", tag="reserve", gc=False):
    """The fields of a reservation that totals need; reading only these is several times as fast for long logs."""

    number: int
    account: str
    release: str
    fingerprint: str
    cost: StoredCost
    method: str | None = msgspec.field(name="meter")
    shares: dict[str, float] = {}
    dead: tuple[str, ...] = ()


@final
class CommittedSummary(msgspec.Struct, frozen=True, tag_field="kind", tag="commit", gc=False):
    """The fields of a commit that totals need."""

    number: int
    account: str
    entry: int


EventSummary = Opened | Superseded | ReservedSummary | CommittedSummary
_decoder = msgspec.json.Decoder(Event)
_all_decoder = msgspec.json.Decoder(list[Event])
_summary_decoder = msgspec.json.Decoder(list[EventSummary])


def decode(body: bytes) -> Event | None:
    """Return the event of a canonical text; None for any other text."""
    try:
        event = _decoder.decode(body)
        return event if canonical(event) == body else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def decode_all(bodies: Sequence[bytes]) -> list[Event] | None:
    """Return the events of many texts; None if one is no event."""
    return _decode_list(_all_decoder, bodies)


def summarize(bodies: Sequence[bytes]) -> list[EventSummary] | None:
    """Return the summaries of many events; None if one is no event."""
    return _decode_list(_summary_decoder, bodies)


def _decode_list(decoder: msgspec.json.Decoder[list[T]], bodies: Sequence[bytes]) -> list[T] | None:
    try:
        events = decoder.decode(b"[" + b",".join(bodies) + b"]")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return events if len(events) == len(bodies) else None


def encode(event: Event) -> bytes:
    """Return the canonical text of an event, which must read back as the same."""
    body = canonical(event)
    if _decoder.decode(body) != event:
        raise InternalError(
            f"An event of kind {type(event).__name__} does not read back as it was written.",
            instead="reporting it",
        )
    return body


_LONGEST = 200


def read_text(given: object, what: str, example: str) -> str:
    """Return a text of 1 to 200 printable characters without outer blanks, normalized (NFC)."""
    allowed = f"a text of 1 to {_LONGEST} printable characters, with no blank at its ends"
    given = instance(given, str, what, allowed=allowed, instead=example)
    if not 1 <= len(given) <= _LONGEST:
        problem = f"has {len(given)} characters"
    elif not given.isprintable():
        problem = "has characters that cannot be printed"
    elif given != given.strip():
        problem = "has blanks at its ends"
    else:
        return unicodedata.normalize("NFC", given)
    raise UsageError(f"{what} {problem}.", allowed=allowed, instead=example)
