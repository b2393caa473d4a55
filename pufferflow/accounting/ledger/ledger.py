"""A ledger: accounts of what was spent, in a database that only grows.

This module opens and closes it, opens its accounts and gives them new scenarios, and verifies, copies, exports and
reports the whole of it.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, final

from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.ledger.account import Account, not_sent
from pufferflow.accounting.ledger.address import check_elsewhere, read_address
from pufferflow.accounting.ledger.database import Database
from pufferflow.accounting.ledger.events import RULES, Opened, Superseded, read_text
from pufferflow.accounting.ledger.log import Appender, Log
from pufferflow.accounting.ledger.reader import Reader
from pufferflow.accounting.ledger.state import AccountState
from pufferflow.accounting.ledger.verify import (
    Published,
    Verified,
    check_places,
    compare,
    copy,
    export,
    in_folder,
    read_kept_head,
    verify,
)
from pufferflow.accounting.methods import read_methods
from pufferflow.accounting.reserved import (
    Opening,
    ReservedProfiles,
    read_keys_delta,
    read_reserved,
)
from pufferflow.core.errors import LedgerError, PufferflowError, UsageError
from pufferflow.core.notebook import MOST_ROWS, Card, InNotebooks
from pufferflow.core.paths import local_path
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, instance
from pufferflow.models.scenario import Scenario
from pufferflow.privacy.guarantee import Guarantee
from pufferflow.published.folder import Copy
from pufferflow.published.release import put_text
from pufferflow.reports.evidence import Budget, LedgerFacts

_NAME = 'ledger.open("power-2026", scenario, limit=pf.Pure(3.0))'


def _read_scenario(given: object) -> Scenario:
    instead = 'pf.Scenario(secret=pf.Secret("level", domain=[0, 1, 2]), prior=pf.Independent())'
    return instance(given, Scenario, "The scenario", allowed="a pf.Scenario", instead=instead)


def differences(first: Scenario, second: Scenario) -> list[str]:
    """Return the names of the parts in which two scenarios differ.

    >>> import pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> differences(pf.Scenario(secret, pf.Independent()), pf.Scenario(secret, pf.AnyCorrelation(), public="day"))
    ['prior', 'public']
    """
    ours, theirs = json.loads(first.to_json()), json.loads(second.to_json())
    parts = sorted(part for part in {*ours, *theirs} if ours.get(part) != theirs.get(part))
    return ["prior" if part == "priors" else part for part in parts]


@final
@dataclass(frozen=True, eq=False)
class AccountRequest:
    """An account that is to be opened, unless it exists; without a data set it is the one it has, or its name."""

    name: str
    scenario: Scenario
    limit: Guarantee
    dataset: str | None
    separate: bool
    profiles: ReservedProfiles | None = None
    """The profiles to reserve; an account that exists has those that it was opened with."""
    keys_delta: float | None = None
    """The part of δ for keys that the data chooses; None for that of the account, or the default."""
    methods: tuple[str, ...] = ()
    """The accounting methods; () for those of the account, or all."""

    def find(self, reader: Reader) -> AccountState | None:
        """Return the account if it exists; it must be as requested."""
        account = reader.state.accounts.get(self.name)
        if account is None:
            return None
        wrong = [f"limit ({account.limit!r})"] if account.limit != self.limit else []
        if self.dataset not in {None, account.dataset}:
            wrong.append(f"dataset ({account.dataset!r})")
        if self.profiles is not None and not self.profiles.agrees(account.opening.reserved):
            wrong.append("reserve")
        share = account.opening.share_of_keys(self.scenario, account.limit)
        if self.keys_delta not in {None, share}:
            wrong.append(f"keys_delta ({share:g})")
        if self.methods and set(self.methods) != set(account.opening.methods or ()):
            wrong.append("methods")
        if self.scenario.fingerprint != account.fingerprint:
            wrong += differences(account.scenarios[-1], self.scenario)
        if wrong:
            raise UsageError(
                f"The account {self.name!r} exists and has another {', '.join(wrong)}.",
                allowed="the scenario, limit, data set and profiles that it was opened with",
                instead=f"ledger.account({self.name!r}); or ledger.replace_prior, for another prior",
            )
        return account

    def open(self, appender: Appender) -> None:
        """Open the account, unless another process has opened it."""
        if self.find(appender) is not None:
            return
        self.scenario.check_sound()
        dataset = self.name if self.dataset is None else self.dataset
        others = [
            account.name
            for account in appender.state.accounts.values()
            if account.dataset == dataset
        ]
        if others and not self.separate:
            raise UsageError(
                f"The data set {dataset!r} has the account {others[0]!r}; two would ignore each other's spending.",
                allowed="one account for a data set",
                instead=f"ledger.account({others[0]!r}); or separate=True, if the two are about different people",
            )
        self._check_named(appender)
        share = Opening(self.profiles, self.keys_delta).share_of_keys(self.scenario, self.limit)
        appender.append(
            Opened(
                *(appender.next, self.name, appender.now, dataset, self.separate),
                limit=self.limit,
                scenario=self.scenario.to_json(),
                fingerprint=self.scenario.fingerprint,
                profiles=() if self.profiles is None else tuple(self.profiles.profiles),
                keys_delta=share or self.keys_delta,  # 0 is stored where it was named
                rules=RULES,
                methods=self.methods,
            )
        )

    def _check_named(self, appender: Appender) -> None:
        """Refuse a second account on the same secrets if no `dataset` says whether it is about the same people."""
        if self.dataset is not None or self.separate:
            return
        for other in appender.state.accounts.values():
            settings = set[str]()
            with suppress(LedgerError):  # another version wrote it
                settings = {scenario.setting for scenario in other.scenarios}
            if self.scenario.setting in settings:
                raise UsageError(
                    f"The account {other.name!r} hides the same secrets, and no dataset= says whose rows they are.",
                    allowed="a name for the people behind the rows, or one account for all their releases",
                    instead=f"ledger.account({other.name!r}); or dataset={self.name!r}, if these are other people",
                )


@final
@suggests_arguments
class Ledger(InNotebooks):
    """A durable record of the privacy loss of all releases, in a file or in PostgreSQL.

    `address` is a file, a "sqlite:///…" address or a "postgresql+psycopg://…" address; a missing ledger is made. `wait`
    is how many seconds to wait for other writers. Threads and forked processes may share a ledger; without write access
    it can still be read. It is a log of events that only grows, and a hash ties each event to all before it. Keep its
    `head()` elsewhere: the ledger alone cannot detect that it was replaced by an older copy of itself.

    >>> import tempfile, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
    >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
    ...     account = ledger.open("levels", scenario, limit=pf.Pure(3.0))
    ...     print(ledger.accounts(), account.spent(), ledger.verify().entries)
    ('levels',) Pure(epsilon=0.0) 1
    """

    def __init__(self, address: str | PathLike[str], *, wait: float = 30.0) -> None:
        allowed, instead = "a number of seconds, 0 or more", "wait=30"
        seconds = finite_number(
            wait, "wait", allowed=allowed, instead=instead, fits=lambda wait: 0 <= wait <= 1e6
        )
        self._log = Log(Database(read_address(address), seconds))

    @suggests_arguments
    def open(  # noqa: PLR0913 - all that an account is opened with
        self,
        name: str,
        scenario: Scenario,
        *,
        limit: Guarantee,
        dataset: str | None = None,
        separate: bool = False,
        reserve: Iterable[tuple[object, int]] | None = None,
        keys_delta: float | None = None,
        methods: Iterable[str] | str = "all",
    ) -> Account:
        """Return the account of this name, opened if it is missing; an existing one must agree with the arguments.

        `dataset` names the data, by default as the account. A second account on the same data is refused, since neither
        would count what the other spends. `separate` declares that the two are about different people.

        `reserve` fixes the number of releases and their minimum privacy beforehand: pairs of a plan or a guarantee and
        a number, as in `reserve=[(plan, 365)]`. It needs a limit with a δ. The releases are then counted together by
        the laws of their losses (M26), which often allows many times as many. Queries may still depend on earlier
        answers. `pf.compare_accounting` compares this with the other methods.

        `keys_delta` is the part of the limit's δ for keys that releases take from the data (`keys="discover"`); sums
        keep the rest. By default it is half of δ under `pf.Presence`, where keys may be discovered, and 0 otherwise or
        for a `pf.Tv`. It is fixed here, since answers must not decide whether keys or sums take it.

        `methods` are the accounting methods that may prove totals under limits other than `pf.Pure`. By default the
        account keeps all that bound its first release, and answers while one of them stays within its share of the
        limit. The one that suits the first release has the largest share. A list of names keeps these only, such as
        `methods=["pure"]`; one of them has the whole limit.
        """
        scenario, name = _read_scenario(scenario), read_text(name, "name", _NAME)
        limit = instance(
            limit, Guarantee, "The limit", allowed="a guarantee", instead="limit=pf.Pure(3.0)"
        )
        AccountCosts([scenario], limit)  # refuses guarantees that have no single epsilon
        request = AccountRequest(
            *(name, scenario, limit),
            None if dataset is None else read_text(dataset, "dataset", 'dataset="power"'),
            instance(
                separate, bool, "separate", allowed="True or False", instead="separate=True"
            ),  # "no" is no False
            None if reserve is None else read_reserved(reserve, scenario, limit).within_limit(),
            None if keys_delta is None else read_keys_delta(keys_delta, scenario, limit),
            read_methods(methods, scenario, limit),
        )
        if request.profiles is not None and request.keys_delta:
            raise UsageError(
                "keys_delta together with reserve: profiles do not cover keys that the data chooses.",
                allowed="reserve for listed keys, or keys_delta without reserve",
                instead="reserve alone, which has all of delta",
            )
        if request.profiles is not None and request.methods:
            raise UsageError(
                "methods together with reserve: reserved profiles are counted by the laws of their losses alone.",
                allowed="reserve, or accounting methods without reserve",
                instead="reserve alone, which has all of the limit",
            )
        state = self._log.read(request.find)
        if state is not None:
            return Account(self._log, state)
        self._log.write(request.open)
        return self._account(name)

    def account(self, name: str) -> Account:
        """Return an account that exists."""
        return self._account(read_text(name, "name", _NAME))

    def accounts(self) -> tuple[str, ...]:
        """Return the names of all accounts, the oldest first."""
        return self._log.read(lambda reader: tuple(reader.state.accounts))

    @suggests_arguments
    def replace_prior(
        self, name: str, scenario: Scenario, *, regardless_of_answers: bool = False
    ) -> Account:
        """Continue an account with a better prior: past costs stay charged, and totals hold under all priors so far.

        From now on plans must be of the new scenario, which may differ only in its prior. It is refused if no rule
        totals the past costs under all priors together.

        The total under the new prior counts all releases, earlier ones included. Later releases may be chosen by
        earlier answers. But answers must not decide whether there is a new prior, or which. Once there are releases,
        `regardless_of_answers=True` declares just that: the prior comes from a survey, a calendar, a review. If answers
        did decide, totals under the new prior hold only for the sequences of answers that led to it.
        """
        name, scenario = read_text(name, "name", _NAME), _read_scenario(scenario)
        declared = instance(
            regardless_of_answers,
            bool,
            "regardless_of_answers",
            allowed="True or False",
            instead="regardless_of_answers=True",
        )

        def append(appender: Appender) -> None:
            account = appender.account(name)
            if account.fingerprint == scenario.fingerprint:
                return
            wrong = [
                part for part in differences(account.scenarios[-1], scenario) if part != "prior"
            ]
            if wrong:
                raise UsageError(
                    f"The new scenario has another {', '.join(wrong)}.",
                    allowed="the same scenario with another prior",
                    instead="another account, for another data set",
                )
            regardless = declared or not account.reserved
            if not regardless:
                raise _undeclared(name)
            scenario.check_sound()
            appender.check_composes(account, scenario)
            stated = scenario.to_json(), scenario.fingerprint
            appender.append(Superseded(appender.next, name, appender.now, *stated, regardless))

        self._log.write(append)
        return self._account(name)

    def verify(self, head: str | None = None) -> Verified:
        """Walk through all entries; raise `LedgerError`, naming the first that does not fit, or return the new head.

        With a head that was kept, an older copy of the ledger is detected too.
        """
        head_given = read_kept_head(head)
        return self._log.snapshot(lambda transaction: verify(transaction, head_given))

    def knows(self, entry: str) -> bool:
        """Return whether the ledger has the entry that `release.certificate.entry` names; an older copy may lack it."""
        return self._log.read(lambda reader: reader.has(entry))

    def compare(
        self, published: str | PathLike[str] | Sequence[Copy], account: str | None = None
    ) -> tuple[Published, ...]:
        """Compare published releases, in a folder or from `job.published()`, with those stored in the ledger.

        The folder is of one release or of a sink. Every number and every field of the certificates is compared; reports
        are not. If an account is given, releases of other accounts are reported.

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
        if isinstance(published, Sequence) and not isinstance(published, str):
            copies = published
        else:
            copies = in_folder(local_path(published, "The folder"))
        name = None if account is None else self._account(read_text(account, "account", _NAME)).name
        releases = self._log.read(lambda reader: [compare(reader, one, name) for one in copies])
        return check_places(releases)

    def head(self) -> str:
        """Return "number:hash" of the last entry: keep it elsewhere, for `verify`."""
        return self._log.read(lambda reader: str(reader.state.head))

    def export(self, path: str | PathLike[str]) -> Path:
        """Write all entries as lines of JSON, without the stored releases."""
        place = local_path(path, "The place of an export")
        check_elsewhere(place, self._log.database.file)
        self._log.snapshot(lambda transaction: export(transaction, place))
        return place

    def report(self, path: str | PathLike[str]) -> Path:
        """Verify the ledger and write a report of it, one HTML file: every account, and its spending.

        >>> import tempfile, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     _ = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     page = ledger.report(f"{folder}/ledger.html").read_text(encoding="utf-8")
        >>> "levels" in page
        True
        """
        from pufferflow.reports.pages import ledger_page

        place = local_path(path, "The place of a page")
        check_elsewhere(place, self._log.database.file)
        page = ledger_page(facts_of(self))
        put_text(place, page)
        return place

    def copy_to(self, address: str | PathLike[str]) -> Verified:
        """Copy all entries and releases into a new ledger, verify it, and return its head: a backup, or a move.

        The new ledger may be a file or in PostgreSQL, and must have no entries. The copy is complete, with the same
        texts and hashes, or it fails. Charge releases to only one of the two: neither counts what the other spends.

        >>> import tempfile, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.AnyCorrelation())
        >>> with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        ...     _ = ledger.open("levels", scenario, limit=pf.Pure(3.0))
        ...     copy = ledger.copy_to(f"{folder}/backup.db")
        ...     print(copy.entries, copy.head == ledger.head())
        1 True
        """
        target = Log(Database(read_address(address), self._log.database.wait))
        try:
            return self._log.snapshot(
                lambda source: target.write(lambda appender: copy(source, appender))
            )
        finally:
            target.close()

    @property
    def address(self) -> str:
        """Where the ledger is, as it may be shown: without a password."""
        return self._log.database.address

    def close(self) -> None:
        """Close the connections; forgetting it loses nothing."""
        self._log.close()

    def _account(self, name: str) -> Account:
        return Account(self._log, self._log.read(lambda reader: reader.account(name)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise not_sent(
            "A ledger", "pf.Ledger(address) in each process; ledger.copy_to(…) copies what is in it"
        )

    def _card(self) -> Card:
        try:
            names = self.accounts()
            accounts = [self.account(name) for name in names[:MOST_ROWS]]
            rows = [(one.name, one.dataset, repr(one.limit), repr(one.spent())) for one in accounts]
        except PufferflowError:  # closed, not sound, or with a total that no rule bounds
            return super()._card()
        head = ("account", "data set", "limit", "spent")
        return Card("Ledger", facts=[("place", self.address)], head=head, rows=rows, of=len(names))

    def __repr__(self) -> str:
        return f"<Ledger {self.address}>" if hasattr(self, "_log") else "<Ledger, not opened>"


def _undeclared(name: str) -> UsageError:
    return UsageError(
        f"The account {name!r} has releases, whose answers must not have influenced the new prior.",
        allowed="a declaration that no answer of the account influenced the prior",
        instead=f"ledger.replace_prior({name!r}, scenario, regardless_of_answers=True); else a new account",
    )


def facts_of(ledger: Ledger) -> LedgerFacts:
    """Return a whole ledger as plain values for a report; of an unsound one, its readable part."""
    try:
        verified = ledger.verify()
    except LedgerError as fault:
        return _facts_of_damaged(ledger, fault.problem)
    accounts = tuple(ledger.account(name).budget() for name in ledger.accounts())
    return LedgerFacts(
        ledger.address, verified.head, verified.entries, sound=True, accounts=accounts
    )


def _facts_of_damaged(ledger: Ledger, fault: str) -> LedgerFacts:
    head, names, budgets = "", tuple[str, ...](), list[Budget]()
    try:
        head, names = ledger.head(), ledger.accounts()
        for name in names:
            budgets.append(ledger.account(name).budget())
    except LedgerError as another:
        fault = fault if another.problem == fault else f"{fault} {another.problem}"
    number = int(head.partition(":")[0] or 0)
    return LedgerFacts(
        ledger.address, head, number, sound=False, accounts=tuple(budgets), fault=fault
    )
