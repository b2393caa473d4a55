"""Which periods are to be released: those that are over and that nobody released, by what the account remembers."""

from collections.abc import Mapping

from pufferflow.errors import Misuse
from pufferflow.jobs.period import Every, Period
from pufferflow.ledger import Account

_MOST = 10_000


def states_of(account: Account | None, prefix: str, every: Every) -> dict[str, str]:
    """Return of every period that was paid for whether its release is kept: "reserved" or "committed"."""
    found = dict[str, str]()
    for entry in () if account is None else account.history():
        label = entry.release_id.removeprefix(prefix)
        if label != entry.release_id and _names_a_period(label, every):
            found[label] = entry.state
    return found


def since(states: Mapping[str, str], first: Period, last: Period) -> list[Period]:
    """Return the periods from the first to the last whose release is not kept."""
    found = list[Period]()
    while first.start <= last.start:
        if states.get(first.label) != "committed":
            found.append(first)
        if len(found) > _MOST:
            raise Misuse(
                f"More than {_MOST} periods were missed since then.", allowed=f"up to {_MOST}", instead="a later period"
            )
        first = first.next()
    return found


def after_the_last(states: Mapping[str, str], last: Period, at_most: int) -> list[Period]:
    """Return the periods after the last that was released, the newest of them, and those that are paid for already."""
    kept = [label for label, state in states.items() if state == "committed"]
    if not kept:
        return sorted({*_unfinished(states, last), last}, key=lambda period: period.start)
    first = Period.read(max(kept), last.every, last.zone).next()
    missed = since(states, first, last)[-at_most:]
    return [*(one for one in _unfinished(states, last) if one not in missed), *missed]


def _unfinished(states: Mapping[str, str], last: Period) -> list[Period]:
    paid = sorted(label for label, state in states.items() if state == "reserved")
    return [Period.read(label, last.every, last.zone) for label in paid]


def _names_a_period(label: str, every: Every) -> bool:
    try:
        Period.read(label, every)
    except Misuse:
        return False
    return True
