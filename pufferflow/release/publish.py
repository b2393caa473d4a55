"""The release of a decision: compare the source, reserve the cost, read the private rows once, add noise, commit.

Each step is finished before the next begins. A failure after the reservation leaves the cost reserved, since it may
have revealed something. The source is compared again after it was read, unless it is certain to be the same. Between
reading and noise no stack frame, and no error, refers to an exact sum.
"""

from typing import Protocol

import numpy as np
import polars as pl
from msgspec import structs

from pufferflow.core.errors import InternalError, SourceError, UsageError
from pufferflow.core.sandbox import capture, check_threads, sandboxed
from pufferflow.core.validate import quoted
from pufferflow.engines.weights import weighted_tally
from pufferflow.published.certificate import Certificate, Reservable
from pufferflow.published.cost import Cost
from pufferflow.published.release import Release
from pufferflow.queries.engine_interface import Tally, changed_source
from pufferflow.release.draw import add_noise
from pufferflow.release.planning.decision import Decision
from pufferflow.release.planning.public_metadata import SourceDigest


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


def publish(decision: Decision, account: CostAccount | None, release_id: str | None, *, estimates: bool) -> Release:
    """Return the noisy answers of a decision."""
    if decision.certificate.certainty == "estimate" and not estimates:
        raise UsageError(
            "The noise was worked out from an estimate, which may be below the truth.",
            allowed="bounds that are exact or above the truth",
            instead="release(estimates=True), if an estimate suffices",
        )
    check_account(account, release_id)
    for noise in decision.noises:
        noise.check_drawable()
    check_threads()
    source = decision.source
    if account is None:
        return _draw_release(decision, source.verify_unchanged(decision.request), None)
    if release_id is None or account.find(release_id) is None:
        source = source.verify_unchanged(decision.request)  # a stored release needs no source any more
    reservation = account.reserve(decision, release_id)
    if reservation.stored is not None:
        return reservation.stored
    return reservation.commit(_draw_release(decision.at(reservation.cost), source, reservation))


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
            "An id for a release that no account counts.",
            allowed="an id together with an account",
            instead="id=None",
        )


def certified(certificate: Certificate, reservation: Reservation | None) -> Certificate:
    """Return the certificate of a release; without a reservation it names no entry of a ledger."""
    return certificate if reservation is None else reservation.certified(certificate)


def _draw_release(decision: Decision, source: SourceDigest, reservation: Reservation | None) -> Release:
    """Draw noise on the private sums of a source."""
    answers = capture(lambda: sandboxed(lambda: add_noise(decision, _read(decision, source)), _not_drawn)).get()
    known = certified(decision.certificate, reservation)
    certificate = structs.replace(known, notes=(*known.notes, *answers.notes), answered=answers.answered)
    return Release(answers.frame, answers.intervals, certificate, answers.limits)


def _not_drawn(kind: str) -> InternalError:
    return InternalError(f"The answers could not be drawn: {kind}.", instead="reporting it to the maintainers")


def _read(decision: Decision, source: SourceDigest) -> Tally:
    """Read the private rows, once, and check that noise and cost were made for them."""
    request = decision.request
    measures = [measure for measure in request.measures if measure is not None]
    again, counted = request.engine.counted_again and request.counts_are_public, list[Tally]()
    with request.engine.one_version() as one_version:  # where that can be had, sums and facts are of the same rows
        if again and not one_version:
            counted.append(request.engine.tally(request.selection))
        weights = decision.facts.weights
        together = weights.together if weights.grids else None
        read = weighted_tally(request.engine, request.selection, measures, weights.grids, together)
        tally = request.with_keys(read)
        selected = {source.selected, source.verify_unchanged(request).selected}
        if again:
            counted.append(request.engine.tally(request.selection))
    if counted and not any(_same_rows(read, one) for one in counted):
        raise _other_rows()
    if None not in selected and int(tally.rows.sum()) not in selected:
        raise changed_source()  # neither those of before nor those of afterwards
    if decision.channel is not None and int(tally.rows.sum()) != decision.channel.rows:
        raise changed_source()  # it was designed for so many rows
    if decision.cells is not None and not _same_keys(tally.keys, decision.facts.cells.keys):
        raise changed_source()  # each cell has noise of its own
    return tally


def _same_rows(read: Tally, counted: Tally) -> bool:
    """Return whether sums are of as many rows in each cell as were counted by themselves."""
    same = counted.keys is None or _same_keys(read.keys, counted.keys)
    return same and np.array_equal(read.rows, counted.rows)


def _other_rows() -> SourceError:
    return SourceError(
        "The engine added up other rows than it counted, or rows came or went meanwhile. Nothing was released.",
        allowed="a table that stays as it is while it is read, on an engine that reads each row once",
        instead="releasing again with the same id, which costs nothing more; if this comes back, another engine",
    )


def _same_keys(read: pl.DataFrame | None, planned: pl.DataFrame | None) -> bool:
    return read is not None and planned is not None and read.equals(planned, null_equal=True)
