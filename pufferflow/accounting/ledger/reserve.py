"""Reserving the cost of a release and committing the release: each is one transaction.

A cost is reserved durably before a private row is read; a later failure leaves it reserved. A release is returned only
after it is stored, and of several for one id only the first is.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import final

from msgspec import structs

from pufferflow.accounting.account_costs import AccountCosts, Composed
from pufferflow.accounting.ledger.events import Committed, Head, Reserved, StoredCost, misfit
from pufferflow.accounting.ledger.log import Appender, Log
from pufferflow.accounting.ledger.reader import (
    Reader,
    decode_release,
    digest_of_bytes,
    keep_payload,
    keep_shape,
)
from pufferflow.accounting.ledger.state import AccountState
from pufferflow.accounting.reserved import KeyDeltaPassed, TotalVariationPassed
from pufferflow.core.errors import InternalError, LimitReached, Refused, UsageError
from pufferflow.core.rounding import agree
from pufferflow.core.sandbox import capture
from pufferflow.published.certificate import Certificate, Reservable
from pufferflow.published.cost import Cost
from pufferflow.published.release import Release
from pufferflow.reports.numbers import SPENT, at_most


@final
@dataclass(frozen=True, eq=False)
class HeldReservation:
    """A cost that is reserved for one release; `stored` is the release if it is committed already."""

    log: Log
    account: str
    head: Head
    entry: str
    cost: Cost
    stored: Release | None = None
    notes: tuple[str, ...] = ()
    """The account's notes for the certificate of the release."""

    def certified(self, certificate: Certificate) -> Certificate:
        """Return a certificate that names the entry, with the notes of the account."""
        return structs.replace(
            certificate, entry=self.entry, notes=(*certificate.notes, *self.notes)
        )

    def commit(self, release: Release) -> Release:
        """Store a release, durably; return the one that is stored, which is another if another process was first."""
        outcome = capture(partial(self._commit, release))
        del release  # a release that was not stored must not be in a traceback
        return outcome.get()

    def _commit(self, release: Release) -> Release:
        if release.certificate.entry != self.entry:
            raise InternalError("A release is committed to another entry.", instead="reporting it")
        body = release.to_bytes()
        first = self.log.write(lambda appender: self._store(appender, body))
        return release if first is None else decode_release(first, self.head)

    def _store(self, appender: Appender, body: bytes) -> bytes | None:
        """Return the release that was stored first; None if that is this one."""
        first = appender.payload(appender.account(self.account), self.head.number)
        if first is None:
            digest = digest_of_bytes(body)
            keep_payload(appender.transaction, digest, body)
            appender.append(
                Committed(appender.next, self.account, appender.now, self.head.number, digest)
            )
        return first


@final
@dataclass(frozen=True, eq=False)
class ReservationRequest:
    """A release that is to be reserved, under an id."""

    account: str
    release: str
    cost: Cost
    certificate: Certificate
    plan: str
    """The name of the plan, shared by plans of the same queries on the same rows."""
    decision: Reservable

    @classmethod
    def of(cls, account: str, release: str, decision: Reservable) -> "ReservationRequest":
        """Return the request for the release that a plan has decided on."""
        return cls(account, release, decision.cost, decision.certificate, decision.name, decision)

    def reserve(self, log: Log) -> HeldReservation:
        """Return the reservation; refuse it if it would exceed the limit, with nothing appended."""
        if not log.knows(self.cost.shape.digest):
            log.read(self._total_ahead)
        outcome = log.write(self._reserve)
        if isinstance(outcome, Composed):
            raise log.read(lambda reader: self._refusal(reader, outcome))
        (head, cost, payload), notes = outcome
        stored = None if payload is None else decode_release(payload, head)
        return HeldReservation(log, self.account, head, str(head), cost, stored, notes)

    def _total_ahead(self, reader: Reader) -> None:
        """Compute the total for a new shape before taking the write lock; the result is cached."""
        account = reader.account(self.account)
        if self.release not in account.reserved:
            with suppress(Refused):  # raised again when it counts
                self._total(reader, account.limit.loss)

    def _total(self, reader: Reader, allowed: float) -> Composed:
        def total(spent: AccountCosts) -> Composed:
            return spent.total([spent.counted(self.decision)], enough=allowed)

        return reader.total(self.account, total, self.cost)

    def _reserve(
        self, appender: Appender
    ) -> tuple[tuple[Head, Cost, bytes | None], tuple[str, ...]] | Composed:
        """Return the reservation's entry, cost and stored release, and notes on it; or a total above the limit."""
        account = appender.account(self.account)
        if self.release in account.reserved:
            return self._reserved_before(account, appender), account.notes
        check_fingerprint(account, self.certificate.scenario)
        allowed = account.limit.loss
        try:
            total = self._total(appender, allowed)
        except (KeyDeltaPassed, TotalVariationPassed) as refusal:
            raise LimitReached(
                refusal.problem, allowed=refusal.allowed, instead=refusal.instead
            ) from refusal
        if not total.total <= allowed:
            return total
        shares, dead = appender.total(
            self.account, lambda spent: spent.fixed_by(spent.counted(self.decision)), self.cost
        )
        if self.cost.shape.digest not in appender.state.shapes:
            keep_shape(appender.transaction, self.cost.shape)
        known = self.certificate
        event = Reserved(
            number=appender.next,
            account=self.account,
            at=appender.now,
            release=self.release,
            plan=self.plan,
            fingerprint=known.scenario,
            promise=known.promise,
            asked=tuple(query.query for query in known.queries),
            certainty=known.certainty,
            cost=StoredCost.of(self.cost),
            total=total.total,
            rule=total.rule,
            method=total.method,
            shares=shares,
            dead=dead,
        )
        return (appender.append(event), self.cost, None), account.notes

    def _reserved_before(
        self, account: AccountState, reader: Reader
    ) -> tuple[Head, Cost, bytes | None]:
        number = account.reserved[self.release]
        event, head = reader.event(number)
        if not isinstance(event, Reserved):
            raise misfit(number, "it is no reservation")
        cost = event.cost.with_shape(reader.shape(event.cost.shape))
        payload = reader.payload(account, number)
        if event.plan != self.plan and not self._is_of_older(
            event, cost, None if payload is None else decode_release(payload, head)
        ):
            raise UsageError(
                f"The id {self.release!r} belongs to another plan.",
                allowed="the same plan again, which needs the same rows; or an id of its own for each plan",
                instead="another id (a job has --revision 2), or id=None",
            )
        return head, cost, payload

    def _is_of_older(self, event: Reserved, cost: Cost, stored: Release | None) -> bool:
        """Return whether an older version reserved this plan, which it named by all digits of a certificate."""
        if ":" in event.plan or event.plan == self.certificate.digest:
            return ":" not in event.plan
        if stored is not None:
            return stored.certificate.asks_as(self.certificate)
        queries = tuple(query.query for query in self.certificate.queries)
        return agree(
            (event.promise, event.asked, cost),
            (self.certificate.promise, queries, self.cost.as_known_to(cost)),
        )

    def _refusal(self, reader: Reader, total: Composed) -> LimitReached:
        limit = reader.account(self.account).limit
        before = reader.total(self.account, lambda spent: spent.total().total)
        left = reader.total(
            self.account, lambda spent: spent.remaining(spent.counted(self.decision)), self.cost
        )
        same = "one with per_group=False, " if self.certificate.quieter else ""
        held = reader.total(self.account, lambda spent: spent.methods)
        named = ", ".join(held.alive) if held is not None and len(held.shares) > 1 else ""
        counted = f" No accounting method of the account admits it: {named}." if named else ""
        return LimitReached(
            f"The release would bring the account {self.account!r} to {limit.measure} "
            f"{at_most(total.total, SPENT)}, above its limit {limit!r}; {at_most(before, SPENT)} is spent.{counted}",
            allowed=f"{left} more releases of this plan",
            instead=f"a plan with a smaller {limit.measure}, {same}or fewer releases; nothing was read or charged",
        )


def check_fingerprint(account: AccountState, fingerprint: str) -> None:
    """Refuse plans of another scenario than the account's."""
    if fingerprint != account.fingerprint:
        raise UsageError(
            f"The plan is of another scenario ({fingerprint[:12]}) than the account {account.name!r} "
            f"({account.fingerprint[:12]}).",
            allowed="plans of the account's scenario, the newest if it was superseded",
            instead="pf.protect(frame, account.scenario)",
        )
