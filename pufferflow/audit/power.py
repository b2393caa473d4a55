"""The number of draws that an attack needs to show a breach: it decides what an attack without a finding means.

An attack without a finding supports the guarantee only if it would have found a breach. The breach considered has a
loss half as large again as guaranteed, shown by the events that the attack has chosen.
"""

from typing import Any, Final

import numpy as np

from pufferflow.audit.event_losses import at_least, at_most, of_events
from pufferflow.core.arrays import Floats
from pufferflow.privacy.guarantee import Guarantee

WORSE: Final = 1.5
"""The loss of the breach that has to be found, as a part of the guaranteed one."""
_HALVINGS: Final = 100
_MOST: Final = 1 << 40


def draws_needed(target: Guarantee, shares: Any, error: float) -> float:
    """Return how many draws, counted under each secret, are likely to show a loss half as large again as guaranteed.

    `shares` are the probabilities of events under the secret that makes them likely. Those above a half count as a
    half, since an event that is likely under one secret is not rare under the other. Likely means: also if counts fall
    a standard deviation to the wrong side. ∞ if these events cannot show it.

    >>> from pufferflow.privacy.guarantee import Pure
    >>> 300 < draws_needed(Pure(1.0), [0.5], 0.01) < 3000 < draws_needed(Pure(0.2), [0.5], 0.01)
    True
    """
    p, q = _events_of(target, np.minimum(np.asarray(shares, dtype=np.float64), 0.5))
    low, high = 1, 2
    while not _shows(target, p, q, high, error):
        low, high = high, 2 * high
        if not len(p) or high > _MOST:
            return np.inf
    while high - low > max(low // 100, 1):
        middle = (low + high) // 2
        low, high = (low, middle) if _shows(target, p, q, middle, error) else (middle, high)
    return high


def _events_of(target: Guarantee, shares: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities P(S) and Q(S) of events at the breach; of those that can show it at all."""
    if target.loss <= 0:  # all of the guarantee is its δ
        possible = shares > WORSE * target.delta
        return shares[possible], shares[possible] - WORSE * target.delta
    low, high = np.full_like(shares, 1e-300), shares.copy()
    possible = of_events(target, shares, low) >= WORSE * target.loss
    for _ in range(_HALVINGS):
        middle = np.sqrt(low) * np.sqrt(high)
        enough = of_events(target, shares, middle) >= WORSE * target.loss
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return shares[possible], low[possible]


def _shows(target: Guarantee, p: Floats, q: Floats, draws: int, error: float) -> bool:
    """Return whether this number of draws is likely to show a loss above the guarantee by one of the events."""
    off_p, off_q = (np.sqrt(draws * share * (1 - share)) for share in (p, q))
    least = at_least(np.floor(np.maximum(draws * p - off_p, 0)), draws, error / 2)
    most = at_most(np.ceil(np.minimum(draws * q + off_q, draws)), draws, error / 2)
    return bool(np.any(of_events(target, least, most) > target.loss))
