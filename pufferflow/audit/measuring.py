"""An attack on one pair or several: some draws to choose a pair and a test, all others to count with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pufferflow.audit.choosing import Stakes, Test, chosen
from pufferflow.audit.counting import at_least, at_most
from pufferflow.audit.losses import of_nested
from pufferflow.audit.scores import Scores
from pufferflow.audit.worlds import Duel, Generator
from pufferflow.guarantees import Guarantee
from pufferflow.progress import working

_AT_ONCE = 1 << 18
_LEAST_PILOT = 500


@final
@dataclass(frozen=True)
class Found:
    """A lower bound of the loss of a target, and how it came about."""

    lower: float
    target: Guarantee
    event: str
    pair: str


def measured(duels: Sequence[Duel], stakes: Stakes, looked_at: int, rng: Generator | None) -> Found:
    """Return a lower bound that is wrong with a probability of at most `stakes.error`.

    Everything that depends on draws is chosen on the `looked_at` first ones. Of the others only the counts of the
    events are used: each of the 2m probabilities of m events has its share of the error.
    """
    with working("attacking", total=_chunks(stakes.draws, duels[0])) as work:
        duel = _worst(duels, stakes, looked_at, rng)
        scores, test = _chosen(duel, stakes, looked_at, rng)
        counts = np.zeros((2, len(test.cuts)), dtype=np.int64)
        for size in _sizes(stakes.draws, duel):
            for side in (0, 1):
                counts[side] += test.counts(scores(duel.draw(side, size, rng)))
            work.advance()
    return _found(duel, scores, test, counts, stakes)


def _found(duel: Duel, scores: Scores, test: Test, counts: npt.NDArray[np.int64], stakes: Stakes) -> Found:
    share = stakes.error / (2 * len(test.cuts))
    p = at_least(counts[test.first], stakes.draws, share)
    q = at_most(counts[1 - test.first], stakes.draws, share)
    losses = [of_nested(target, p, q) for target in stakes.targets]  # the bounds hold for all of them at once
    place = max(range(len(losses)), key=lambda k: stakes.size(stakes.targets[k], losses[k]))
    event = scores.words(test.score, test.sign, test.cuts, test.first)
    note = f"; {duel.note}" if duel.note else ""
    return Found(losses[place], stakes.targets[place], f"{event}{note}", duel.words(test.first))


def _chosen(duel: Duel, stakes: Stakes, draws: int, rng: Generator | None) -> tuple[Scores, Test]:
    """Return a test; scores are learnt on half of the draws, and compared on the rest."""
    first, second = (_drawn(duel, side, draws, rng) for side in (0, 1))
    half = draws // 2
    scores = Scores.of(duel, first[:half], second[:half])
    return scores, chosen((scores(first[half:]), scores(second[half:])), stakes)


def _worst(duels: Sequence[Duel], stakes: Stakes, draws: int, rng: Generator | None) -> Duel:
    """Return the pair that looks worst at a first glance."""
    if len(duels) == 1:
        return duels[0]
    glance = max(min(draws // len(duels), draws), _LEAST_PILOT)
    tests = [_chosen(duel, stakes, glance, rng)[1] for duel in duels]
    return duels[max(range(len(duels)), key=lambda k: tests[k].expected)]


def _drawn(duel: Duel, side: int, draws: int, rng: Generator | None) -> npt.NDArray[np.float64]:
    return np.concatenate([duel.draw(side, size, rng) for size in _sizes(draws, duel)])


def _sizes(draws: int, duel: Duel) -> list[int]:
    """Return how many to draw at a time, so that what is in memory stays small."""
    step = _step(duel)
    return [min(step, draws - at) for at in range(0, draws, step)]


def _chunks(draws: int, duel: Duel) -> int:
    return -(-draws // _step(duel))


def _step(duel: Duel) -> int:
    return max(_AT_ONCE // len(duel.mechanism.noises), 1)
