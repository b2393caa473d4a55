"""Entries whose recorded total is below what is proven today, since an older version counted too little.

Totals are worked out anew whenever a ledger is opened, so accounts go on with the corrected ones. What was recorded
when an entry was charged stays in the log, which only grows; here such entries are named.

An older version took the least total over ways of counting after the answers were known: hidden classes and columns
under Rényi limits, δ of keys that the data chooses, profiles of releases about rows that others had not seen, designed
releases after others or under limits of other kinds than `pf.Approx`. Pure totals are what they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from pufferflow.composition import AccountCosts
from pufferflow.errors import Refused
from pufferflow.guarantees import Divergence
from pufferflow.ledger.reader import Entry, Reader
from pufferflow.scenario.priors import Empirical, GaussianMixture, Table

_MORE: Final = 1e-5
"""Totals of two machines may differ by less, relatively."""
_MOST: Final = 1_000
"""So many entries of an account are looked at, of more some that lie evenly among them."""


@final
@dataclass(frozen=True)
class Correction:
    """An entry of an account, the total that was recorded with it, and the one that is proven today."""

    account: str
    number: int
    release_id: str
    recorded: float
    total: float
    """∞ where no rule bounds it."""


def corrections(reader: Reader, name: str) -> tuple[Correction, ...]:
    """Return the entries of an account whose totals are corrected, in order."""
    account = reader.account(name)
    if account.limit.divergence is Divergence.LOG_RATIO or not _may_differ(spent := reader.spent(name)):
        return ()
    entries = reader.entries(name)
    views = {count: account.under(spent, count) for count in {account.scenarios_known(one.place) for one in entries}}
    found = list[Correction]()
    for entry in _some(entries):
        total = _total(views[account.scenarios_known(entry.place)], entry.place)
        if not total <= entry.at_most * (1 + _MORE):
            found.append(Correction(name, entry.number, entry.release_id, entry.at_most, total))
    return tuple(found)


def _may_differ(spent: AccountCosts) -> bool:
    """Return whether an older version may have counted too little."""
    mixed = any(isinstance(prior, GaussianMixture | Table | Empirical) for prior in spent.priors)
    special = any(cost.shape.key_delta or cost.shape.exact_sums for cost in spent.costs)
    return spent.reserved is not None or special or (mixed and spent.limit.divergence is Divergence.RENYI)


def _some(entries: Sequence[Entry]) -> Sequence[Entry]:
    last, count = len(entries) - 1, min(len(entries), _MOST)
    return [entries[place] for place in sorted({round(at * last / max(count - 1, 1)) for at in range(count)})]


def _total(spent: AccountCosts, place: int) -> float:
    try:
        return spent.first(place + 1).total().total
    except Refused:
        return float("inf")
