"""One way of every release: compare the source, reserve the cost, read the private rows once, draw, commit.

Each step is finished before the next begins. A failure after the reservation leaves the cost reserved, since it may
have revealed something. The source is compared again after it was read, unless it is certain to be the same. Between
reading and noise no stack frame, and no error, refers to an exact sum.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar, final

from msgspec import structs

from pufferflow.core.errors import InternalError, UsageError
from pufferflow.core.sandbox import capture, check_threads, sandboxed
from pufferflow.core.validate import quoted
from pufferflow.published.certificate import Certificate, Reservable
from pufferflow.published.cost import Cost
from pufferflow.published.release import Release
from pufferflow.release.mechanisms.base import Mechanism, PrivateReader

R_co = TypeVar("R_co", covariant=True)


class Reservation(Protocol):
    """A cost that is reserved for one release."""

    @property
    def entry(self) -> str:
        """The name of the ledger's entry."""
        ...

    @property
    def cost(self) -> Cost:
        """The reserved cost, which may be from another machine."""
        ...

    @property
    def stored(self) -> Release | None:
        """The release, if it was committed before under the same id."""
        ...

    def certified(self, certificate: Certificate) -> Certificate:
        """Return a certificate that names the entry, with the facts of the account."""
        ...

    def commit(self, release: Release) -> Release:
        """Store a release; return the stored one, which is another if another process was first."""
        ...


class CostAccount(Protocol):
    """An account that adds up the costs of releases."""

    def find(self, id: str) -> Release | None:  # noqa: A002 - the public name
        """Return the release stored under an id; None if there is none yet."""
        ...

    def reserve(self, decision: Reservable, release_id: str | None) -> Reservation:
        """Reserve the cost of a release, durably, or refuse."""
        ...


class Publishable(Reservable, Protocol):
    """A plan, as far as its release depends on it."""

    @property
    def mechanism(self) -> Mechanism:
        """What draws the answers."""
        ...

    def with_cost(self, reserved: Cost) -> Self:
        """Return the plan with the cost that a ledger has reserved; refuse a cost that is not its own."""
        ...


@final
@dataclass(frozen=True, eq=False)
class DrawnRelease:
    """What was drawn: the release to keep, and the file that is not in its place yet."""

    release: Release
    beside: Path | None = None


class Destination(Protocol[R_co]):
    """Where answers go, and what a caller gets."""

    def check(self, mechanism: Mechanism, *, kept: bool) -> None:
        """Refuse a place that cannot take the answers, before anything is spent; an account may keep them."""
        ...

    def draw(
        self, mechanism: Mechanism, reading: PrivateReader, certificate: Certificate
    ) -> DrawnRelease:
        """Draw the answers."""
        ...

    def deliver_again(self, stored: Release) -> R_co:
        """Return answers that were published before."""
        ...

    def deliver(self, stored: Release, drawn: DrawnRelease) -> R_co:
        """Return the answers that are published: those received, unless another process was first."""
        ...


@final
class ReleaseInMemory:
    """Answers as a release in memory."""

    def check(self, mechanism: Mechanism, *, kept: bool) -> None:
        del mechanism, kept

    def draw(
        self, mechanism: Mechanism, reading: PrivateReader, certificate: Certificate
    ) -> DrawnRelease:
        return DrawnRelease(draw_release(mechanism, reading, certificate))

    def deliver_again(self, stored: Release) -> Release:
        return stored

    def deliver(self, stored: Release, drawn: DrawnRelease) -> Release:
        del drawn
        return stored


def publish(
    plan: Publishable,
    to: Destination[R_co],
    account: CostAccount | None,
    release_id: str | None,
    *,
    estimates: bool = False,
) -> R_co:
    """Return the answers of a plan, drawn once; with an account charged before private rows are read."""
    mechanism = plan.mechanism
    if plan.certificate.certainty == "estimate" and not estimates:
        raise UsageError(
            "The noise rests on an estimate, so it may be too small for the guarantee.",
            allowed="bounds that are exact or proven from above",
            instead="release(estimates=True), if an estimate suffices",
        )
    check_account(account, release_id)
    mechanism.check_drawable()
    check_threads()
    source = mechanism.source
    if account is None or release_id is None or account.find(release_id) is None:
        if account is not None or not mechanism.compares_rows_while_reading:
            source = source.verify_unchanged()  # a stored release needs no source any more
        to.check(mechanism, kept=account is not None)
    if account is None:
        drawn = to.draw(mechanism, PrivateReader(mechanism.request, source), plan.certificate)
        return to.deliver(drawn.release, drawn)
    reservation = account.reserve(plan, release_id)
    if reservation.stored is not None:
        return to.deliver_again(reservation.stored)
    charged = plan.with_cost(reservation.cost)
    reading = PrivateReader(charged.mechanism.request, source)
    drawn = to.draw(charged.mechanism, reading, reservation.certified(charged.certificate))
    return to.deliver(reservation.commit(drawn.release), drawn)


def draw_release(mechanism: Mechanism, reading: PrivateReader, certificate: Certificate) -> Release:
    """Read the private rows and return what is published of them; no error refers to an exact sum."""
    drawn = capture(lambda: sandboxed(lambda: mechanism.draw(reading), _not_drawn)).get()
    known = structs.replace(
        certificate, notes=(*certificate.notes, *drawn.notes), answered=drawn.answered
    )
    return Release(drawn.frame, drawn.intervals, known, drawn.limits)


def _not_drawn(kind: str) -> InternalError:
    return InternalError(
        f"The answers could not be drawn: {kind}.", instead="reporting it to the maintainers"
    )


def check_account(account: CostAccount | None, release_id: str | None) -> None:
    """Refuse what is no account, and an id without one."""
    if account is not None and not hasattr(account, "reserve"):
        ledger = "ledger" if hasattr(account, "open") else 'pf.Ledger("ledger.db")'
        name = repr(account) if isinstance(account, str) else '"power"'
        raise UsageError(
            f"The account is {quoted(account)}.",
            allowed="an account of a ledger, or None",
            instead=f"{ledger}.open({name}, scenario, limit=pf.Pure(3.0))",
        )
    if account is None and release_id is not None:
        raise UsageError(
            "An id for a release without an account.",
            allowed="an id together with an account",
            instead="id=None",
        )
