"""Who admits releases: an account of a ledger, or its running total asked as the ledger asks it."""

import inspect
from functools import cached_property
from itertools import count
from tempfile import TemporaryDirectory

import pufferflow as pf
from pufferflow.composition import AccountCosts
from pufferflow.ledger.ledger import read_reserved


class Referee:
    """An account's running total, asked about paths of releases as a ledger asks it before each release.

    The first release that is about a row says by what the account counts from then on.
    """

    def __init__(self, scenario, limit, reserve=None):
        self.scenario, self.limit, self._known = scenario, limit, {(): (True, None)}
        self.reserved = None if reserve is None else read_reserved(reserve, scenario, limit).within_limit()

    def admits(self, path):
        """Say whether the account lets all of these releases through, one after another."""
        return self._verdict(tuple(path))[0]

    def total(self, path):
        """Return the total of a path as the account states it; None if it is refused."""
        try:
            return self._begun(tuple(path)).total()
        except pf.Refused:
            return None

    @cached_property
    def _options(self):
        """What accounts are opened with beside their limit, in versions that have it: the share of keys."""
        if "keys_delta" not in inspect.signature(AccountCosts).parameters:
            return {}
        present = isinstance(self.scenario.secret, pf.Presence)
        return {"keys_delta": self.limit.delta / 2 if present else 0.0}

    def _begun(self, path):
        account = AccountCosts([self.scenario], self.limit, reserved=self.reserved, **self._options)
        for place, release in enumerate(path):
            if account.meter is None and not release.cost.silent:
                account.meter = self._verdict(path[: place + 1])[1]
            account.add(release.cost)
        return account

    def _verdict(self, path):
        key = tuple(id(one.cost) for one in path)
        if key not in self._known:
            before = path[:-1]
            self._known[key] = self._asked(before, path[-1].cost) if self._verdict(before)[0] else (False, None)
        return self._known[key]

    def _asked(self, before, cost):
        account = self._begun(before)
        try:
            total = account.total([cost], enough=self.limit.loss)
        except pf.Refused:
            return False, None
        return bool(total.total <= self.limit.loss), total.meter


class LedgerReferee:
    """Accounts of a real ledger: each path of releases is made in an account of its own, through the public door."""

    def __init__(self, scenario, limit, **options):
        self._scenario, self._limit, self._options = scenario, limit, options
        self._known, self._names = {(): True}, count()

    def admits(self, path):
        """Say whether an account lets all of these releases through, one after another."""
        key = tuple(id(one) for one in path)
        if key not in self._known:
            self._known[key] = self.admits(path[:-1]) and self._made(path)
        return self._known[key]

    def _made(self, path):
        with TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
            account = ledger.open("game", self._scenario, limit=self._limit, **self._options)
            try:
                for release in path:
                    release.plan.release(account)
            except pf.Refused:
                return False
        return True


class Composing:
    """pf.compose: paths whose total it says to be within a limit although later queries depend on earlier answers."""

    def __init__(self, scenario, limit, **options):
        self._scenario, self._limit, self._options, self._known = scenario, limit, options, {}

    def admits(self, path):
        """Say whether all releases of a path have such a total."""
        key = tuple(id(one) for one in path)
        if key not in self._known:
            self._known[key] = self._within(path)
        return self._known[key]

    def _within(self, path):
        try:
            found = pf.compose([one.plan for one in path], self._scenario, self._limit.kind, **self._options)
        except pf.Refused:
            return False
        return found.adaptive and found.total <= self._limit.loss


class Everything:
    """A referee for checks of the engine: it admits every path, or those given with all their beginnings."""

    def __init__(self, *paths):
        self._paths = paths

    def admits(self, path):
        """Say whether a path is allowed."""
        names = [one.name for one in path]
        return not self._paths or any([one.name for one in some[: len(names)]] == names for some in self._paths)
