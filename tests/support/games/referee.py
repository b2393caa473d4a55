"""Who admits releases: an account of a ledger, or its running total asked as the ledger asks it."""

import atexit
from functools import cache
from itertools import count
from tempfile import TemporaryDirectory

import pufferflow as pf
from pufferflow.accounting.rules.choice import PAIR, methods_for

_NAMES = count()


@cache
def _ledger():
    """Return a ledger for accounts that nothing is ever released with, which goes away with the process."""
    folder = TemporaryDirectory()
    ledger = pf.Ledger(f"{folder.name}/ledger.db")
    atexit.register(folder.cleanup)
    atexit.register(ledger.close)
    return ledger


class Referee:
    """An account's running total, asked about paths of releases as a ledger asks it before each release.

    The first release that is about a row fixes the methods and their shares; methods that do not admit one are dead.
    """

    def __init__(self, scenario, limit, **options):
        self.limit, self._known = limit, {}
        name = f"game {next(_NAMES)}"
        self._account = _ledger().open(name, scenario, limit=limit, dataset=name, **options)

    def admits(self, path):
        """Say whether the account lets all of these releases through, one after another."""
        return self._verdict(tuple(path))

    def fits(self, path, cost):
        """Say whether the account lets one more cost through after a path that it admits."""
        return self._asked(tuple(path), cost)

    def total(self, path):
        """Return the total of a path as the account states it; None if it is refused."""
        try:
            return self._begun(tuple(path), joint=False).total()
        except pf.Refused:
            return None

    def _begun(self, path, *, joint):
        """Return an account with the releases of a path, each counted as a ledger records it."""
        name = self._account.name
        account = self._account._log.read(lambda reader: reader.account(name).begin())
        for release in path:
            cost = release.joint_cost if joint else release.cost
            begun = account.begun(cost)
            dead = begun.dying([cost])
            account.methods = begun.methods
            account.add(cost)
            account.bury(dead)
        return account

    def _verdict(self, path):
        if not path:
            return True
        if path not in self._known:
            before, last = path[:-1], path[-1]
            designed = any(one.designed for one in path)
            cost = last.joint_cost if designed else last.cost
            fits = self._verdict(before)
            self._known[path] = self._asked(before, cost, joint=designed) if fits else False
        return self._known[path]

    def _asked(self, before, cost, *, joint=False):
        try:
            total = self._begun(before, joint=joint).total([cost], enough=self.limit.loss)
        except pf.Refused:
            return False
        return bool(total.total <= self.limit.loss)


class LedgerReferee:
    """Accounts of a real ledger: each path of releases is made in an account of its own, through the public API."""

    def __init__(self, scenario, limit, **options):
        self._scenario, self._limit, self._options = scenario, limit, options
        self._known = {(): True}

    def admits(self, path):
        """Say whether an account lets all of these releases through, one after another."""
        path = tuple(path)
        if path not in self._known:
            self._known[path] = self.admits(path[:-1]) and self.account(path) is not None
        return self._known[path]

    def account(self, path):
        """Return an account with all of these releases; None if it refuses one."""
        name = f"game {next(_NAMES)}"
        account = _ledger().open(
            name, self._scenario, limit=self._limit, dataset=name, **self._options
        )
        try:
            for release in path:
                release.plan.release(account)
        except (pf.Refused, pf.LimitReached):
            return None
        return account


def _last_method(kind, priors):
    """Return the last accounting method that counts Laplace and Gaussian noise."""
    return [method for method in methods_for(kind, priors) if method != PAIR][-1]


class Composing:
    """pf.compose: paths whose total it says to be within a limit although later queries depend on earlier answers.

    Where totals need an accounting method that was chosen beforehand, it is the last one for the kind of limit.
    """

    def __init__(self, scenario, limit, **options):
        chosen = (
            {}
            if isinstance(limit, pf.Pure)
            else {"method": _last_method(limit.kind, scenario.priors)}
        )
        self._scenario, self.limit, self._options, self._known = (
            scenario,
            limit,
            {**chosen, **options},
            {},
        )

    def admits(self, path):
        """Say whether all releases of a path have such a total."""
        path = tuple(path)
        if path not in self._known:
            self._known[path] = self.fits(path[:-1], path[-1].plan)
        return self._known[path]

    def fits(self, path, last):
        """Say whether a path with one more plan or cost has such a total."""
        plans = [*(one.plan for one in path), last]
        try:
            found = pf.compose(plans, self._scenario, self.limit, **self._options)
        except pf.Refused:
            return False
        return found.adaptive and found.total <= self.limit.loss


class Everything:
    """A referee for checks of the engine: it admits every path, or those given with all their beginnings."""

    def __init__(self, *paths):
        self._paths = paths

    def admits(self, path):
        """Say whether a path is allowed."""
        names = [one.name for one in path]
        return not self._paths or any(
            [one.name for one in some[: len(names)]] == names for some in self._paths
        )
