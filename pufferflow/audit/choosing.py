"""Choosing a test: which secret is called first, by which score answers are ordered, and where it is cut.

All is chosen on draws that are not counted afterwards. What counts as best is the bound that would come out if the
draws to be counted fell a little worse than those looked at: of many events with few draws, some look good by chance.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.audit.counting import at_least, at_most
from pufferflow.audit.losses import epsilon_of, of_events, of_nested
from pufferflow.audit.scores import RATIO
from pufferflow.guarantees import Approx, Guarantee, Pure

Floats = npt.NDArray[np.float64]
_MOST_CUTS = 256
_FEW_CUTS = 32
_MOST_LEVELS = 12
_WORTH = 1e-3
_REFINED = 3
_DOUBT = 1e-2
_PLAINER = 1.02
"""By how much another score has to look better than the ratio: chance makes it look so by less."""


@final
@dataclass(frozen=True, eq=False)
class Test:
    """The events {sign·score ≥ threshold}, the widest first, with which `first` is told from the other secret."""

    first: int
    score: int
    sign: int
    cuts: Floats
    expected: float
    """How large a part of the promise, or which ε, the bound is likely to be."""

    def counts(self, scores: Floats) -> npt.NDArray[np.int64]:
        """Return how many answers each event holds."""
        own = np.sort(self.sign * scores[self.score])
        return len(own) - np.searchsorted(own, self.cuts, side="left")


@final
@dataclass(frozen=True)
class Stakes:
    """What is to be shown: a promise of one of these, with which error, by how many draws."""

    targets: tuple[Guarantee, ...]
    error: float
    draws: int
    claimed: bool
    """Whether the ε are claims, and not 0 for want of one."""

    def size(self, target: Guarantee, loss: float) -> float:
        """Return a loss as a part of what was promised."""
        promised = epsilon_of(target)
        return loss / promised if self.claimed and promised > 0 else loss


def chosen(scores: tuple[Floats, Floats], stakes: Stakes) -> Test:
    """Return the test that promises most, for the scores of answers of both worlds."""
    found: list[_Single] = []
    for first in (0, 1):
        towards = 1 if first == 0 else -1
        for score in range(len(scores[0])):
            signs = (towards, -towards) if score != RATIO else (towards,)
            found += [_single(first, score, sign, scores, stakes) for sign in signs]
    best = sorted(found, key=lambda one: one.appeal, reverse=True)[:_REFINED]
    refined = [_refined(one, stakes) for one in best]
    return max(refined, key=lambda one: one.appeal).test


@dataclass(frozen=True, eq=False)
class _Single:
    """A test, first with one event: where it might be cut, and how many answers might be beyond."""

    test: Test
    target: Guarantee
    cuts: Floats
    counts: Floats
    best: int
    loss: float

    @property
    def appeal(self) -> float:
        return self.test.expected * (_PLAINER if self.test.score == RATIO else 1.0)


def _single(first: int, score: int, sign: int, scores: tuple[Floats, Floats], stakes: Stakes) -> _Single:
    """Return the best single event of a score, for the part of the promise that it says most about."""
    own, other = (np.sort(sign * scores[side][score]) for side in (first, 1 - first))
    cuts, counts = _cuts(own, other, stakes.draws)
    p, q = _bounds(counts, stakes, events=1)
    losses = [of_events(target, p, q) for target in stakes.targets]
    place = max(range(len(losses)), key=lambda k: stakes.size(stakes.targets[k], float(losses[k].max())))
    target, best = stakes.targets[place], int(losses[place].argmax())
    loss = float(losses[place][best])
    test = Test(first, score, sign, cuts[[best]], stakes.size(target, loss))
    return _Single(test, target, cuts, counts, best, loss)


def _refined(one: _Single, stakes: Stakes) -> _Single:
    """Return a test with more and more cuts, as long as another one is worth its share of the error."""
    if isinstance(one.target, Pure | Approx):
        return one
    some = sorted({one.best, *range(0, len(one.cuts), max(len(one.cuts) // _FEW_CUTS, 1))})
    cuts, loss = [one.best], one.loss
    while len(cuts) < _MOST_LEVELS:
        p, q = _bounds(one.counts, stakes, events=len(cuts) + 1)
        tried = [sorted([*cuts, another]) for another in some if another not in cuts]
        losses = [of_nested(one.target, p[those], q[those]) for those in tried]
        if not losses or max(losses) <= loss * (1 + _WORTH):
            break
        loss = max(losses)
        cuts = tried[losses.index(loss)]
    expected = stakes.size(one.target, loss)
    return replace(one, test=replace(one.test, cuts=one.cuts[cuts], expected=expected), loss=loss)


def _bounds(counts: Floats, stakes: Stakes, events: int) -> tuple[Floats, Floats]:
    share = stakes.error / (2 * events)
    return at_least(counts[0], stakes.draws, share), at_most(counts[1], stakes.draws, share)


def _cuts(own: Floats, other: Floats, draws: int) -> tuple[Floats, Floats]:
    """Return thresholds that fall on answers, densest in both tails, and how many of `draws` might be beyond them."""
    both = np.sort(np.concatenate([own, other]))
    tail = np.geomspace(1, len(both) / 2, _MOST_CUTS // 4).astype(np.intp)
    ranks = np.concatenate([np.linspace(0, len(both) - 1, _MOST_CUTS // 2).astype(np.intp), tail, len(both) - tail])
    cuts = np.unique(both[np.minimum(ranks, len(both) - 1)])
    beyond = [len(one) - np.searchsorted(one, cuts, side="left") for one in (own, other)]
    likely = at_least(beyond[0], len(own), _DOUBT), at_most(beyond[1], len(other), _DOUBT)
    return cuts, np.array(likely) * draws
