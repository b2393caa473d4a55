"""Reserving the cost of a release and keeping the release: each is one transaction.

A cost is reserved durably before a private row is read; what fails afterwards leaves it reserved. A release is given
out only after it is kept, and of several for one id only the first is.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import final

from pufferflow.composition import Composed, Cost
from pufferflow.errors import InternalError, LimitReached, Misuse, Refused
from pufferflow.guarded import outcome_of
from pufferflow.ledger.blobs import digest_of_bytes, keep_payload, keep_shape, shape_of
from pufferflow.ledger.connect import Line
from pufferflow.ledger.events import Committed, Head, Placed, Reserved
from pufferflow.ledger.log import Log, Pen
from pufferflow.ledger.state import Books, Kept, misfit
from pufferflow.ledger.verify import event_of, kept_release, read_release
from pufferflow.planning import Certificate, Decision
from pufferflow.release import Release
from pufferflow.report import SPENT, at_most
from pufferflow.rounding import agree


@final
@dataclass(frozen=True, eq=False)
class Held:
    """A cost that is reserved for one release; `stored` is the release if it is kept already."""

    log: Log
    account: str
    number: int
    entry: str
    cost: Cost
    stored: Release | None = None

    def commit(self, release: Release) -> Release:
        """Keep a release, durably; return the one that is kept, which is another if another process was first."""
        outcome = outcome_of(partial(self._committed, release))
        del release  # what was not kept must not be found in a traceback
        return outcome.get()

    def _committed(self, release: Release) -> Release:
        self._check(release)
        body = release.to_bytes()
        first = self.log.write(lambda pen: self._kept_before(pen, body))
        return release if first is None else read_release(first, self.entry)

    def _check(self, release: Release) -> None:
        if release.certificate.entry != self.entry:
            raise InternalError("A release is committed to another entry.", instead="reporting it")

    def _kept_before(self, pen: Pen, body: bytes) -> bytes | None:
        """Return what was kept first; None if that is this release, from now on."""
        before = kept_release(pen.books.account(self.account), pen.line, self.number)
        if before is not None:
            return before
        digest = digest_of_bytes(body)
        keep_payload(pen.line, digest, body)
        pen.append(Committed(pen.next, self.account, pen.now, self.number, digest))
        return None


@final
@dataclass(frozen=True)
class Over:
    """What one more release would make the total, which is too much."""

    total: Composed


@final
@dataclass(frozen=True, eq=False)
class Wish:
    """A release that is to be reserved, under an id."""

    account: str
    release: str
    cost: Cost
    certificate: Certificate
    plan: str
    """What plans share that ask the same of the same rows."""

    @classmethod
    def of(cls, account: str, release: str, decision: Decision) -> "Wish":
        """Return the wish for the release that a plan has decided on."""
        return cls(account, release, decision.cost, decision.certificate, decision.name)

    def reserve(self, log: Log) -> Held:
        """Return the reservation; refuse it if the limit would be passed, with nothing appended."""
        if not log.knows(self.cost.shape.digest):
            log.read(self._weigh)
        found = log.write(self._reserved)
        if isinstance(found, Over):
            raise log.read(lambda books, line: self._refusal(books, line, found.total))
        head, cost, payload = found
        return Held(log, self.account, head.number, str(head), cost, _read(payload, head))

    def _weigh(self, books: Books, line: Line) -> None:
        """Work a total with a new shape out before others have to wait for it; what it takes is remembered."""
        kept = books.account(self.account)
        if self.release not in kept.reserved:
            with suppress(Refused):  # said again when it counts
                self._total(books, line, kept.limit.epsilon)

    def _total(self, books: Books, line: Line, allowed: float) -> Composed:
        return books.told(self.account, line, lambda spent: spent.total([self.cost], enough=allowed))

    def _reserved(self, pen: Pen) -> tuple[Head, Cost, bytes | None] | Over:
        kept = pen.books.account(self.account)
        if self.release in kept.reserved:
            return self._again(kept, pen)
        check_fingerprint(kept, self.certificate.scenario)
        allowed = kept.limit.epsilon
        total = self._total(pen.books, pen.line, allowed)
        if not total.total <= allowed:
            return Over(total)
        if self.cost.shape.digest not in pen.books.shapes:
            keep_shape(pen.line, self.cost.shape)
        return pen.append(self._event(pen, total)), self.cost, None

    def _again(self, kept: Kept, pen: Pen) -> tuple[Head, Cost, bytes | None]:
        """Return the entry that the id has, its cost, and what is kept under it."""
        number = kept.reserved[self.release]
        event, digest = event_of(pen.line, number)
        if not isinstance(event, Reserved):
            raise misfit(number, "it is no reservation")
        head, cost = Head(number, digest), event.cost.cost(shape_of(pen.line, event.cost.shape))
        payload = kept_release(kept, pen.line, number)
        if event.plan != self.plan and not self._is_of_older(event, cost, _read(payload, head)):
            raise Misuse(
                f"The id {self.release!r} belongs to another plan.",
                allowed="the same plan again, which needs the same rows; or an id of its own for each plan",
                instead="another id (a job has --revision 2), or id=None",
            )
        return head, cost, payload

    def _is_of_older(self, event: Reserved, cost: Cost, stored: Release | None) -> bool:
        """Say whether an older version reserved this plan, which it knew by all digits of a certificate."""
        if ":" in event.plan or event.plan == self.certificate.digest:
            return ":" not in event.plan
        if stored is not None:
            return stored.certificate.asks_as(self.certificate)
        asked = tuple(query.query for query in self.certificate.queries)
        return agree((event.promise, event.asked, cost), (self.certificate.promise, asked, self.cost))

    def _event(self, pen: Pen, total: Composed) -> Reserved:
        known = self.certificate
        return Reserved(
            number=pen.next,
            account=self.account,
            at=pen.now,
            release=self.release,
            plan=self.plan,
            fingerprint=known.scenario,
            promise=known.promise,
            asked=tuple(query.query for query in known.queries),
            certainty=known.certainty,
            cost=Placed.of(self.cost),
            total=total.total,
            rule=total.rule,
            meter=total.meter,
        )

    def _refusal(self, books: Books, line: Line, total: Composed) -> LimitReached:
        limit = books.account(self.account).limit
        before = books.told(self.account, line, lambda spent: spent.total().guarantee.epsilon)
        left = books.told(self.account, line, lambda spent: spent.remaining(self.cost))
        return LimitReached(
            f"The release would bring the account {self.account!r} to epsilon {at_most(total.total, SPENT)}, above "
            f"its limit {limit!r}; {at_most(before, SPENT)} is spent.",
            allowed=f"{left} more releases of this plan",
            instead="a plan with a smaller epsilon, or fewer releases; nothing was read or charged",
        )


def _read(payload: bytes | None, head: Head) -> Release | None:
    return None if payload is None else read_release(payload, str(head))


def check_fingerprint(kept: Kept, fingerprint: str) -> None:
    """Refuse plans of another scenario than the account's."""
    if fingerprint != kept.fingerprint:
        raise Misuse(
            f"The plan is of another scenario ({fingerprint[:12]}) than the account {kept.name!r} "
            f"({kept.fingerprint[:12]}).",
            allowed="plans of the account's scenario, the newest if it was superseded",
            instead="pf.protect(frame, account.scenario)",
        )
