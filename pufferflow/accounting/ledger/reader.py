"""Reading within one transaction: accounts and their totals, entries, and the blobs that events name by digest.

Shapes of costs and bytes of releases are stored once each under their sha256, and checked whenever they are read.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeGuard, TypeVar, final

import msgspec

from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.ledger.events import (
    Committed,
    Event,
    Head,
    Reserved,
    decode,
    decode_all,
    misfit,
    read_head,
)
from pufferflow.accounting.ledger.state import AccountState, LedgerState
from pufferflow.accounting.ledger.tables import (
    ADD_PAYLOAD,
    ADD_SHAPE,
    EVENT,
    HASH,
    PAYLOAD,
    RANGE,
    SHAPE,
    Transaction,
)
from pufferflow.accounting.next_release import Past
from pufferflow.core.errors import InternalError, LedgerError, Refused, SourceError, UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.models.scenario import Scenario
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.cost import Cost, Shape, canonical
from pufferflow.published.release import Release

T = TypeVar("T")


@final
@dataclass(frozen=True)
class Entry(InNotebooks):
    """A charged release: its guarantee, and the total of all releases up to it.

    `state` is "reserved" until the release is stored, then "committed". Times are the writers' clocks, in UTC. A
    release is charged as soon as some proof keeps to the limit: `at_most` is the total by that proof, an epsilon of the
    kind of the account's limit, by `at_most_rule`. The least total that is proven, `total`, may be less.
    """

    number: int
    release_id: str
    state: str
    at: str
    committed_at: str | None
    promise: Guarantee
    asked: tuple[str, ...]
    certainty: str
    at_most: float
    at_most_rule: str
    method: str | None = None
    """The accounting method that proved it, if there are several."""
    dead: tuple[str, ...] = ()
    """The accounting methods that did not admit the release, and none since."""
    so_far: AccountCosts | None = field(default=None, repr=False, compare=False)
    """The account's costs, of which those of the releases up to this one count; None if they cannot be read."""
    place: int = field(default=0, repr=False, compare=False)

    @property
    def total(self) -> float:
        """The total of all releases up to this one, under the present priors; of the newest, the spending.

        It is computed on first use. If it cannot be computed any more, it is `at_most`.
        """
        return self._least[0]

    @property
    def rule(self) -> str:
        """The rule of composition that proves the total."""
        return self._least[1]

    @cached_property
    def _least(self) -> tuple[float, str]:
        composed = None if self.so_far is None else self.so_far.first(self.place + 1).proven()
        return (
            (self.at_most, self.at_most_rule)
            if composed is None
            else (composed.total, composed.rule)
        )


class Reader:
    """The ledger as one transaction sees it: the state up to the last event, and the database behind it."""

    def __init__(self, state: LedgerState, transaction: Transaction) -> None:
        self.state, self.transaction = state, transaction

    def account(self, name: str) -> AccountState:
        """Return an account that exists."""
        return self.state.account(name)

    def spent(self, name: str) -> AccountCosts:
        """Return the running total of an account, after adding the costs that it lacks."""
        account = self.account(name)
        spent = account.begin() if account.spent is None else account.spent
        account.spent = None  # if what follows is interrupted, the next call begins anew
        costs = self._costs(account, len(spent))
        if not account.designed and any(cost.shape.exact_sums is not None for cost in costs):
            account.designed, spent = True, account.begin()  # from now on what was published counts
            costs = self._costs(account)
        account.add(costs, spent)
        account.spent = spent
        return spent

    def total(self, name: str, ask: Callable[[AccountCosts], T], cost: Cost | None = None) -> T:
        """Apply `ask` to an account's running total; an error but `Refused` may leave it half updated, and drops it.

        If `ask` adds a `cost` that was designed for the account, published outputs count in the total.
        """
        account = self.account(name)
        if cost is not None and cost.shape.exact_sums is not None and not account.designed:
            account.designed, account.spent = True, None
        spent = self.spent(name)
        account.spent = None
        try:
            answer = ask(spent)
        except Refused:
            account.spent = spent
            raise
        account.spent = spent
        return answer

    def check_composes(self, account: AccountState, scenario: Scenario) -> None:
        """Refuse one more scenario if the costs so far have no total under the priors of all."""
        spent = account.begin(scenario)
        account.add(self._costs(account), spent)
        spent.total()

    def _costs(self, account: AccountState, first: int = 0) -> list[Cost]:
        """Return the costs from one on, and read their shapes where they are not in memory."""
        stored, shapes = account.costs[first:], self.state.shapes
        for digest in {cost.shape for cost in stored}.difference(shapes):
            shapes[digest] = self.shape(digest)
        costs = [cost.with_shape(shapes[cost.shape]) for cost in stored]
        numbers = list(account.reserved.values())[first:]
        return (
            [*map(partial(self._answered, account), costs, numbers)] if account.designed else costs
        )

    def _answered(self, account: AccountState, cost: Cost, number: int) -> Cost:
        """Return a cost with its published outputs in place of exact sums, if they are known."""
        body = self.payload(account, number)
        if body is None:
            return cost
        answered = decode_release(body, self.event(number)[1]).certificate.answered
        sums = cost.shape.exact_sums
        if sums is not None and (answered is None or len(answered.outputs) != len(sums.sums)):
            raise misfit(
                number, "the release that is kept for it does not say what its channel published"
            )
        return msgspec.structs.replace(cost, answered=answered)

    def past(self, name: str) -> Past:
        """Return all releases of an account, with their published outputs, for the design of a further one."""
        account, methods = self.account(name), self.spent(name).methods
        account.designed, account.spent = True, None
        costs = self._costs(account)
        account.designed = any(cost.shape.exact_sums is not None for cost in costs)
        unfinished = [
            release
            for release, number in account.reserved.items()
            if number not in account.committed
        ]
        return Past(
            account.scenarios,
            account.limit,
            tuple(costs),
            tuple(unfinished),
            account.opening.reserved is not None,
            () if methods is None else tuple(methods.shares),
        )

    def shape(self, digest: str) -> Shape:
        """Return a stored shape."""
        body = self.transaction.value(SHAPE, digest=digest)
        shape = None if body is None else decode_shape(digest, body)
        if shape is None:
            raise _changed("shape", digest)
        return shape

    def entries(self, name: str) -> tuple[Entry, ...]:
        """Return the entries of an account, in order."""
        account, spent = self.account(name), None
        with suppress(LedgerError):  # damaged costs: entries show what they were charged
            spent = self.spent(name)
        rows = self.transaction.run(RANGE, first=account.first, last=account.last).fetchall()
        bodies = [body.encode() for _, body in rows if isinstance(body, str)]
        events = decode_all(bodies)
        if events is None or len(bodies) != len(rows):
            raise LedgerError("An entry of the account cannot be read.", instead="ledger.verify()")
        own = [event for event in events if event.account == name]
        commits = {event.entry: event.at for event in own if isinstance(event, Committed)}
        return tuple(
            Entry(
                number=event.number,
                release_id=event.release,
                state="committed" if event.number in commits else "reserved",
                at=event.at,
                committed_at=commits.get(event.number),
                promise=event.promise,
                asked=event.asked,
                certainty=event.certainty,
                at_most=event.total,
                at_most_rule=event.rule,
                method=event.method,
                dead=event.dead,
                so_far=spent,
                place=place,
            )
            for place, event in enumerate(event for event in own if isinstance(event, Reserved))
        )

    def event(self, number: int) -> tuple[Event, Head]:
        """Return an existing event, and the head at that event."""
        body, digest = self.transaction.run(EVENT, number=number).fetchone() or (None, None)
        event = decode(body.encode()) if isinstance(body, str) else None
        if event is None or not isinstance(digest, str):
            raise misfit(number, "it is missing, or no event")
        return event, Head(number, digest)

    def has(self, entry: str) -> bool:
        """Return whether an entry, as certificates name it, is in the ledger."""
        head = read_head(entry)
        return head is not None and self.transaction.value(HASH, number=head.number) == head.hash

    def find(self, name: str, release: str) -> Release | None:
        """Return the release that was committed under an id; None if none was."""
        account = self.account(name)
        number = account.reserved.get(release)
        body = None if number is None else self.payload(account, number)
        if number is None or body is None:
            return None
        return decode_release(body, self.event(number)[1])

    def newest(self, name: str, wanted: Callable[[str], bool]) -> Release | None:
        """Return the newest committed release whose id is wanted."""
        account = self.account(name)
        committed = (
            one for one, number in reversed(account.reserved.items()) if number in account.committed
        )
        release = next(filter(wanted, committed), None)
        return None if release is None else self.find(name, release)

    def payload(self, account: AccountState, number: int) -> bytes | None:
        """Return the bytes of the release that was committed for an entry; None if none was."""
        commit = account.committed.get(number)
        if commit is None:
            return None
        event, _ = self.event(commit)
        if not isinstance(event, Committed) or event.entry != number:
            raise misfit(commit, f"it is no commit of entry {number}")
        body = self.transaction.value(PAYLOAD, digest=event.payload)
        if not is_payload(event.payload, body):
            raise _changed("release", event.payload)
        return body


def _changed(what: str, digest: str) -> LedgerError:
    return LedgerError(
        f"The {what} {digest[:12]}… is missing or was changed.",
        allowed="a ledger that nobody has changed",
        instead="ledger.verify(head) on the last copy that you kept",
    )


def decode_shape(digest: str, body: object) -> Shape | None:
    """Return the shape of a text; None if it is not the one that the digest names."""
    if not isinstance(body, str) or digest_of_bytes(body.encode()) != digest:
        return None
    try:
        return msgspec.json.decode(body.encode(), type=Shape)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def keep_shape(transaction: Transaction, shape: Shape) -> None:
    """Store a shape, unless it is stored already; it must read back as the same."""
    body = canonical(shape)
    if transaction.value(SHAPE, digest=shape.digest) is not None:
        return
    if decode_shape(shape.digest, body.decode()) != shape:
        raise InternalError(
            "The shape of a cost does not read back as it was written.", instead="reporting it"
        )
    transaction.run(ADD_SHAPE, digest=shape.digest, body=body.decode())


def digest_of_bytes(body: bytes) -> str:
    """Return the digest that a body is stored under."""
    return hashlib.sha256(body).hexdigest()


def is_payload(digest: str, body: object) -> TypeGuard[bytes]:
    """Return whether something is the bytes that a digest names."""
    return isinstance(body, bytes) and digest_of_bytes(body) == digest


def keep_payload(transaction: Transaction, digest: str, body: bytes) -> None:
    """Store the bytes of a release; they name their entry, so no two entries have the same."""
    transaction.run(ADD_PAYLOAD, digest=digest, body=body)


def decode_release(body: bytes, entry: Head) -> Release:
    """Return the release of some bytes, which must name the entry that they are stored under."""
    release = None
    with suppress(UsageError, SourceError):
        release = Release.from_bytes(body)
    if release is None:
        raise LedgerError(
            "A stored release cannot be read.", instead="the pufferflow that wrote it"
        )
    if release.certificate.entry != str(entry):
        raise misfit(entry.number, "the release that is kept for it names another entry")
    return release
