"""The account that admits releases, as the ledger asks it: before each release, and counted by the first one's meter."""

import inspect
from functools import cached_property

import pufferflow as pf
from pufferflow.composition import AccountCosts
from pufferflow.errors import Refused
from pufferflow.ledger.ledger import read_reserved


class Referee:
    """An account with a limit, asked about paths of releases."""

    def __init__(self, scenario, limit, reserve=None, keys_delta=None):
        self.scenario, self.limit, self._known = scenario, limit, {(): (True, None)}
        self.reserved = None if reserve is None else read_reserved(reserve, scenario, limit).within_limit()
        self._keys_delta = keys_delta

    @cached_property
    def _options(self):
        """What accounts have beside their limit, in versions that have it."""
        known = inspect.signature(AccountCosts).parameters
        if "keys_delta" not in known:
            return {}
        delta = getattr(self.limit, "delta", 0.0)
        present = isinstance(self.scenario.secret, pf.Presence)
        return {"keys_delta": (delta / 2 if present else 0.0) if self._keys_delta is None else self._keys_delta}

    def begun(self, costs):
        """Return the account after some costs, all of which it admitted."""
        account = AccountCosts([self.scenario], self.limit, reserved=self.reserved, **self._options)
        for place, cost in enumerate(costs):
            if account.meter is None and not cost.silent:
                account.meter = self._meter(costs[: place + 1])
            account.add(cost)
        return account

    def admits(self, costs):
        """Say whether the account would have let all of these releases through, one after another."""
        return self._verdict(tuple(costs))[0]

    def total(self, costs):
        """Return the total of a path as the account states it; None if it is refused."""
        try:
            return self.begun(tuple(costs)).total()
        except Refused:
            return None

    def _meter(self, costs):
        return self._verdict(tuple(costs))[1]

    def _verdict(self, costs):
        key = tuple(map(id, costs))
        if key not in self._known:
            before = costs[:-1]
            self._known[key] = self._asked(before, costs[-1]) if self._verdict(before)[0] else (False, None)
        return self._known[key]

    def _asked(self, before, cost):
        account = self.begun(before)
        try:
            total = account.total([cost], enough=self.limit.loss)
        except Refused:
            return False, None
        return bool(total.total <= self.limit.loss), total.meter


class Everything:
    """A referee that admits every path of at most so many releases: for compose, and for checks of the engine."""

    def __init__(self, paths=None):
        self._paths = paths

    def admits(self, costs):
        """Say whether a path is one of those allowed, or the beginning of one."""
        if self._paths is None:
            return True
        keys = tuple(map(id, costs))
        return any(tuple(map(id, path))[: len(keys)] == keys for path in self._paths)
