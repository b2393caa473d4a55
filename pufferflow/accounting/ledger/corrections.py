"""Entries whose recorded total is below the one proven today, since an older version counted too little.

Totals are computed anew whenever a ledger is opened, so accounts go on with the corrected ones. The total recorded with
an entry stays in the log, which only grows; here such entries are named.

An older version took the least total over accounting methods after the answers were known. This concerns hidden classes
and columns under Rényi limits, δ of keys that the data chooses, profiles of releases about rows that others had not
seen, and designed releases after others or under limits of other kinds than `pf.Approx`. It also stored too short a
movement of a row for sums with public weights under a `pf.Table`. Accounts that were opened since need no correction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.ledger.budget import places_among
from pufferflow.accounting.ledger.events import RULES
from pufferflow.accounting.ledger.reader import Entry, Reader
from pufferflow.accounting.rules.additive import is_understated
from pufferflow.core.errors import Refused
from pufferflow.models.priors.empirical import Empirical
from pufferflow.models.priors.gaussian_mixture import GaussianMixture
from pufferflow.models.priors.table import Table
from pufferflow.privacy.guarantee import Divergence
from pufferflow.published.cost import digest_of

_MORE: Final = 1e-5
"""The relative difference that totals of two machines may have."""
_MOST: Final = 200
"""The most entries of an account that are examined; of more, some at even distances."""


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
    """Return the entries of an account whose totals are corrected, in order; of very many, some and the last."""
    if not _may_differ(reader, name):
        return ()
    entries = reader.entries(name)
    return _corrected(reader, name, [entries[place] for place in places_among(len(entries), _MOST)])


def last_corrected(reader: Reader, name: str) -> Correction | None:
    """Return the newest entry of an account if its total is corrected."""
    found = _corrected(reader, name, reader.entries(name)[-1:]) if _may_differ(reader, name) else ()
    return found[-1] if found else None


def _corrected(reader: Reader, name: str, entries: Sequence[Entry]) -> tuple[Correction, ...]:
    account, spent = reader.account(name), reader.spent(name)
    views = {count: account.under(spent, count) for count in {account.scenarios_known(one.place) for one in entries}}
    found = list[Correction]()
    for entry in entries:
        total = _total(views[account.scenarios_known(entry.place)], entry.place)
        if not total <= entry.at_most * (1 + _MORE):
            found.append(Correction(name, entry.number, entry.release_id, entry.at_most, total))
    return tuple(found)


def _may_differ(reader: Reader, name: str) -> bool:
    """Return whether an older version may have counted too little."""
    account = reader.account(name)
    if account.rules >= RULES:
        return False
    spent = reader.spent(name)
    known = list({id(cost.shape): cost.shape for cost in spent.costs}.values())
    if any(is_understated(prior, digest_of(prior), shape) for prior in spent.priors for shape in known):
        return True
    if spent.limit.divergence is Divergence.LOG_RATIO:
        return False
    mixed = any(isinstance(prior, GaussianMixture | Table | Empirical) for prior in spent.priors)
    special = bool(spent.keys_delta) or spent.reserved is not None or any(shape.exact_sums for shape in known)
    return special or (mixed and spent.limit.divergence is Divergence.RENYI)


def _total(spent: AccountCosts, place: int) -> float:
    try:
        return spent.first(place + 1).total().total
    except Refused:
        return float("inf")
