"""A ledger: accounts of what was spent, in a database that only grows.

Opening accounts, and superseding the scenario of one.

Whether two scenarios are the same, and if not, in what they differ.

A whole ledger as plain values for a page: whether it is sound, and every account.
"""

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self, final

from pufferflow.addresses import local_path
from pufferflow.arguments import finite_number, instance
from pufferflow.composition import AccountCosts
from pufferflow.errors import LedgerFault, Misuse
from pufferflow.guarantees import Guarantee
from pufferflow.ledger.account import Account
from pufferflow.ledger.address import read_address
from pufferflow.ledger.connect import Line
from pufferflow.ledger.database import Store
from pufferflow.ledger.events import Opened, Superseded, not_sent, read_flag, read_text
from pufferflow.ledger.log import Log, Pen
from pufferflow.ledger.sqlite_files import check_elsewhere
from pufferflow.ledger.state import Books, Kept
from pufferflow.ledger.verify import (
    Published,
    Verified,
    compared,
    copied,
    export,
    in_their_places,
    knows,
    published_in,
    read_kept_head,
    verified,
)
from pufferflow.release import put_text
from pufferflow.report.evidence import Budget, LedgerFacts
from pufferflow.scenario import Scenario
from pufferflow.suggestions import explained

_NAMES = {"priors": "prior"}


def read_scenario(given: object) -> Scenario:
    """Return a scenario, or say what was given."""
    instead = 'pf.Scenario(secret=pf.Secret("level", domain=[0, 1, 2]), prior=pf.Independent())'
    return instance(given, Scenario, "The scenario", allowed="a pf.Scenario", instead=instead)


def differences(first: Scenario, second: Scenario) -> list[str]:
    """Return the names of the parts in which two scenarios differ.

    >>> import pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> differences(pf.Scenario(secret, pf.Independent()), pf.Scenario(secret, pf.AnyCorrelation(), public="day"))
    ['prior', 'public']
    """
    ours, theirs = _parts(first), _parts(second)
    return [_NAMES.get(name, name) for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]


def _parts(scenario: Scenario) -> dict[str, Any]:
    return json.loads(scenario.to_json())


def read_limit(given: object, scenario: Scenario) -> Guarantee:
    """Return a limit of a kind that totals can be told in."""
    limit = instance(given, Guarantee, "The limit", allowed="a promise", instead="limit=pf.Pure(3.0)")
    AccountCosts([scenario], limit)  # refuses promises that have no single epsilon
    return limit


@final
@dataclass(frozen=True, eq=False)
class Opening:
    """An account as somebody asks for it; a data set that is not named is the one it has, or its name."""

    name: str
    scenario: Scenario
    limit: Guarantee
    dataset: str | None
    separate: bool

    def exists(self, books: Books, line: Line) -> bool:
        """Say whether the account is there; it must be as it is asked for."""
        del line
        kept = books.accounts.get(self.name)
        if kept is not None:
            self._check(kept)
        return kept is not None

    def open(self, pen: Pen) -> None:
        """Open the account, unless it is there."""
        if self.exists(pen.books, pen.line):
            return
        self.scenario.check_sound()
        dataset = self.name if self.dataset is None else self.dataset
        others = [kept.name for kept in pen.books.accounts.values() if kept.dataset == dataset]
        if others and not self.separate:
            raise Misuse(
                f"The data set {dataset!r} has the account {others[0]!r}; two would forget what the other spends.",
                allowed="one account for a data set",
                instead=f"ledger.account({others[0]!r}); or separate=True, if the two are about different people",
            )
        pen.append(
            Opened(
                *(pen.next, self.name, pen.now, dataset, self.separate),
                limit=self.limit,
                scenario=self.scenario.to_json(),
                fingerprint=self.scenario.fingerprint,
            )
        )

    def _check(self, kept: Kept) -> None:
        wrong = [f"limit ({kept.limit!r})"] if kept.limit != self.limit else []
        if self.dataset not in {None, kept.dataset}:
            wrong.append(f"dataset ({kept.dataset!r})")
        if self.scenario.fingerprint != kept.fingerprint:
            wrong += differences(kept.scenarios[-1], self.scenario)
        if wrong:
            raise Misuse(
                f"The account {self.name!r} exists and has another {', '.join(wrong)}.",
                allowed="the scenario, limit and data set that it was opened with",
                instead=f"ledger.account({self.name!r}); or ledger.supersede, for another prior",
            )


def supersede(pen: Pen, name: str, scenario: Scenario) -> None:
    """Let an account go on with another scenario, if what was spent can be told under all priors together."""
    kept = pen.books.account(name)
    if kept.fingerprint == scenario.fingerprint:
        return
    wrong = [part for part in differences(kept.scenarios[-1], scenario) if part != "prior"]
    if wrong:
        raise Misuse(
            f"The new scenario has another {', '.join(wrong)}.",
            allowed="the same scenario with another prior",
            instead="another account, for another data set",
        )
    scenario.check_sound()
    kept.superseded(pen.line, pen.books.shapes, scenario).total()
    pen.append(Superseded(pen.next, name, pen.now, scenario.to_json(), scenario.fingerprint))


class SoundLedger(Protocol):
    """A ledger, as far as a page asks."""

    def verify(self) -> Verified:
        """Return that everything fits, or raise what does not."""
        ...

    def head(self) -> str:
        """Return the name of the last entry."""
        ...

    def accounts(self) -> tuple[str, ...]:
        """Return the names of the accounts."""
        ...

    def account(self, name: str) -> Account:
        """Return an account."""
        ...


def facts_of(ledger: SoundLedger, address: str) -> LedgerFacts:
    """Return what a ledger tells; of one that is not sound, what can still be read of it."""
    try:
        found = ledger.verify()
    except LedgerFault as fault:
        return _of_damaged(ledger, address, fault.problem)
    accounts = tuple(ledger.account(name).budget() for name in ledger.accounts())
    return LedgerFacts(address, found.head, found.entries, sound=True, accounts=accounts)


def _of_damaged(ledger: SoundLedger, address: str, fault: str) -> LedgerFacts:
    budgets = list[Budget]()
    head, names = "", tuple[str, ...]()
    try:
        head, names = ledger.head(), ledger.accounts()
        for name in names:
            budgets.append(ledger.account(name).budget())
    except LedgerFault as another:
        fault = fault if another.problem == fault else f"{fault} {another.problem}"
    number = head.partition(":")[0]
    return LedgerFacts(address, head, int(number or 0), sound=False, accounts=tuple(budgets), fault=fault)


_NAME = 'ledger.open("power-2026", scenario, limit=pf.Pure(3.0))'


@final
@explained
class Ledger:
    """A durable account of what releases tell, in a file or in PostgreSQL.

    `address` is a file, a "sqlite:///…" address or a "postgresql+psycopg://…" address; what is not there is made.
    `wait` is how many seconds to wait for others that write. A ledger may be used from several threads, and by
    processes that are forked off; where it can only be read it can be looked at. It is a log of events, each tied to
    all before it by a hash, and nothing in it is ever changed. Keep its `head()` elsewhere: that a file was replaced by
    an older copy of itself cannot be seen from inside.

    >>> import tempfile, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
    >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
    ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
    ...     print(ledger.accounts(), account.spent(), ledger.verify().entries)
    ('levels',) Pure(epsilon=0.0) 1
    """

    def __init__(self, address: str | PathLike[str], *, wait: float = 30.0) -> None:
        allowed, instead = "a number of seconds, 0 or more", "wait=30"
        seconds = finite_number(wait, "wait", allowed=allowed, instead=instead, fits=lambda wait: 0 <= wait <= 1e6)
        self._log = Log(Store(read_address(address), seconds))

    @explained
    def open(
        self,
        name: str,
        scenario: Scenario,
        *,
        limit: Guarantee,
        dataset: str | None = None,
        separate: bool = False,
    ) -> Account:
        """Return the account of this name, opened if need be; one that exists must be as it is asked for.

        `dataset` names the data, and is the account's name if left out. A second account on it is refused, since each
        would forget what the other spends, unless `separate` says that they are about different people.
        """
        asked = read_scenario(scenario)
        opening = Opening(
            read_text(name, "name", _NAME),
            asked,
            read_limit(limit, asked),
            None if dataset is None else read_text(dataset, "dataset", 'dataset="power"'),
            read_flag(separate, "separate"),
        )
        if not self._log.read(opening.exists):
            self._log.write(opening.open)
        return Account(self._log, opening.name)

    def account(self, name: str) -> Account:
        """Return an account that exists."""
        return Account(self._log, read_text(name, "name", _NAME))

    def accounts(self) -> tuple[str, ...]:
        """Return the names of all accounts, the oldest first."""
        return self._log.read(lambda books, _: tuple(books.accounts))

    def supersede(self, name: str, scenario: Scenario) -> Account:
        """Let an account go on with a better prior: what was spent stays charged, and all priors so far must be kept.

        Plans must be of the new scenario from now on, which may differ in nothing but its prior. Refused if what was
        spent cannot be told under all priors together.
        """
        chosen, newer = read_text(name, "name", _NAME), read_scenario(scenario)
        self._log.write(lambda pen: supersede(pen, chosen, newer))
        return Account(self._log, chosen)

    def verify(self, head: str | None = None) -> Verified:
        """Walk through all entries; raise `LedgerFault`, naming the first that does not fit, or return the new head.

        With a head that was kept, an older copy of the ledger is found out too.
        """
        kept = read_kept_head(head)
        return self._log.apart(lambda line: verified(line, kept))

    def knows(self, entry: str) -> bool:
        """Say whether the ledger has an entry, as `release.certificate.entry` names it: an older copy may lack it."""
        return self._log.read(lambda _, line: knows(line, entry))

    def compare(self, folder: str | PathLike[str], account: str | None = None) -> tuple[Published, ...]:
        """Compare what is published in a folder, of one release or of a sink, with the releases that are kept.

        Every number and every field of the certificates is compared, pages are not. With an account, releases of
        others are told.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     release = plan.release(ledger.open("levels", scenario, limit=pf.Pure(3.0)), id="monday")
        ...     place = release.write_csv(f"{folder}/monday")
        ...     text = (place / "certificate.json").read_text().replace('"epsilon":1.0', '"epsilon":0.1')
        ...     print(ledger.compare(place)[0].differs, (place / "certificate.json").write_text(text) > 0)
        ...     print(ledger.compare(place)[0].differs)
        () True
        ('the certificate was edited: promise, cost',)
        """
        places = published_in(local_path(folder, "The folder"))
        chosen = None if account is None else Account(self._log, read_text(account, "account", _NAME)).name
        found = self._log.read(lambda books, line: [compared(books, line, one, chosen) for one in places])
        return in_their_places(found)

    def head(self) -> str:
        """Return "number:hash" of the last entry: keep it elsewhere, for `verify`."""
        return self._log.read(lambda books, _: str(books.head))

    def export(self, path: str | PathLike[str]) -> Path:
        """Write all entries as lines of JSON, the stored releases left out."""
        place = local_path(path, "The place of an export")
        check_elsewhere(place, self._log.store.file)
        self._log.apart(lambda line: export(line, place))
        return place

    def report(self, path: str | PathLike[str]) -> Path:
        """Verify the ledger and write a page of it for people, one HTML file: every account, and what is spent.

        >>> import tempfile, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     _ = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     page = ledger.report(f"{folder}/ledger.html").read_text(encoding="utf-8")
        >>> "levels" in page
        True
        """
        from pufferflow.report import ledger_page

        place = local_path(path, "The place of a page")
        check_elsewhere(place, self._log.store.file)
        page = ledger_page(facts_of(self, self._log.store.address))
        put_text(place, page)
        return place

    def copy_to(self, address: str | PathLike[str]) -> Verified:
        """Copy all entries and releases into a new ledger, verify it, and return its head: a backup, or a move.

        The new ledger may be of the other kind, a file or in PostgreSQL, and must have no entries. It has the same
        texts and the same hashes, all of them or none. Count in one of the two only: each forgets what the other
        spends.

        >>> import tempfile, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     _ = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     copy = ledger.copy_to(f"{folder}/backup.db")
        ...     print(copy.entries, copy.head == ledger.head())
        1 True
        """
        target = Log(Store(read_address(address), self._log.store.wait))
        try:
            return self._log.apart(lambda source: target.write(lambda pen: copied(source, pen)))
        finally:
            target.close()

    def close(self) -> None:
        """Close the connections; nothing is lost by not doing so."""
        self._log.close()

    def __enter__(self) -> Self:
        """Return the ledger, to be closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the ledger."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or sent: connections belong to one process."""
        raise not_sent("A ledger", "pf.Ledger(address) in each process; ledger.copy_to(…) copies what is in it")

    def __repr__(self) -> str:
        """Show where the ledger is."""
        return f"<Ledger {self._log.store.address}>"
