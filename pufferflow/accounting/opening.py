"""What is fixed when an account is opened, before its first answer: profiles, and a part of δ for keys.

The part of δ is for keys that the data chooses; the sums of all releases keep the rest. Whatever keys the noisy numbers
of rows make appear, all releases together are those of listed keys outside an event of the probability that keys take
(`planning.key_threshold`). If each path took as much δ for keys as it needs, answers could decide whether keys or sums
take it, and together they would take more than δ.
"""

from dataclasses import dataclass
from typing import Final, final

from pufferflow.accounting.reserved import ReservedProfiles
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import finite_number
from pufferflow.models.scenario import Scenario
from pufferflow.models.secret import Presence
from pufferflow.privacy.guarantee import Approx, Guarantee
from pufferflow.privacy.renyi import ApproxRenyi
from pufferflow.privacy.tradeoff import TradeOff

LEAST_KEYS_DELTA: Final = 1e-290
"""A smaller δ is not divided between keys and sums."""
_INSTEAD: Final = "keys_delta=0.0, for an account whose keys are all listed"


@final
@dataclass(frozen=True)
class Opening:
    """What an account was opened with beside its limit; the default part of δ if none is named."""

    reserved: ReservedProfiles | None = None
    keys_delta: float | None = None

    def share_of_keys(self, scenario: Scenario, limit: Guarantee) -> float:
        """Return the part of the limit's δ for keys: the named one, else the default; 0 with profiles."""
        if self.keys_delta is not None:
            return self.keys_delta
        return 0.0 if self.reserved is not None else default_keys_delta(scenario, limit)


def may_discover(scenario: Scenario, limit: Guarantee) -> bool:
    """Return whether releases under a scenario may take keys from the data, and a limit has a δ for them."""
    carries = isinstance(limit, Approx | ApproxRenyi | TradeOff) and limit.delta >= LEAST_KEYS_DELTA
    return carries and isinstance(scenario.secret, Presence)


def default_keys_delta(scenario: Scenario, limit: Guarantee) -> float:
    """Return half of the limit's δ if keys may be discovered, else 0; 0 for a total variation, too.

    A `pf.Tv` has no other number than δ: sums would have half of it only, for keys that are seldom requested.

    >>> import pufferflow as pf
    >>> visits = pf.Scenario(pf.Presence("person", "visits", domain=[0, 1, 2], rows=1), pf.Independent())
    >>> default_keys_delta(visits, pf.Approx(1.0, 1e-6)), default_keys_delta(visits, pf.Pure(1.0))
    (5e-07, 0.0)
    """
    return limit.delta / 2 if may_discover(scenario, limit) and limit.epsilon > 0 else 0.0


def read_keys_delta(given: object, scenario: Scenario, limit: Guarantee) -> float:
    """Return the given share, or the default; refuse a share that the limit does not have."""
    if given is None:
        return default_keys_delta(scenario, limit)
    share = finite_number(
        given,
        "keys_delta",
        allowed=f"a number from 0 to the delta {limit.delta:g} of the limit",
        instead=f"keys_delta={limit.delta / 2:g}",
        fits=lambda number: 0 <= number <= limit.delta,
    )
    if share and not may_discover(scenario, limit):
        raise UsageError(
            f"keys_delta is {share:g}, and no release of the account can take keys from the data.",
            allowed="a part of delta for keys under pf.Presence, and a limit with a delta",
            instead=_INSTEAD,
        )
    return share
