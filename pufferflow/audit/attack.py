"""`pf.audit.attack`: a lower bound on the loss of noisy answers, by distinguishing two secrets.

Some draws choose a pair and a test: which secret comes first, which score orders answers, and where it is cut. All
other draws are counted with this test. The best test is the one whose bound is largest even if the counted draws fall a
little worse than those examined: of many events with few draws, some have a large bound by chance.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt

from pufferflow.audit.event_losses import (
    RATIO,
    Scores,
    at_least,
    at_most,
    draws_needed,
    of_events,
    of_nested,
)
from pufferflow.audit.targets import duels_of_pairs, duels_of_plan
from pufferflow.audit.worlds import Duel, Generator, read_rng
from pufferflow.calibration.calibrate import Calibration, read_kind
from pufferflow.calibration.laws import Pair
from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.progress import working
from pufferflow.core.validate import confidence_level
from pufferflow.noise.base import Noise
from pufferflow.privacy.guarantee import AnyGuaranteeFamily, Divergence, Guarantee, Pure
from pufferflow.release.plan import Plan

_MOST_CUTS = 256
_FEW_CUTS = 32
_MOST_LEVELS = 12
_WORTH = 1e-3
_REFINED = 3
_DOUBT = 1e-2
_PLAINER = 1.02
"""The margin by which another score must be better than the ratio: chance alone makes a smaller one."""


@final
@dataclass(frozen=True, eq=False)
class Test:
    """The events {sign·score ≥ threshold}, the widest first, that distinguish `first` from the other secret."""

    first: int
    score: int
    sign: int
    cuts: Floats
    expected: float
    """The expected bound of a test, as a part of the guarantee or as an ε."""

    def counts(self, scores: Floats) -> npt.NDArray[np.int64]:
        """Return the number of answers in each event."""
        own = np.sort(self.sign * scores[self.score])
        return len(own) - np.searchsorted(own, self.cuts, side="left")


@final
@dataclass(frozen=True)
class Stakes:
    """The aim of an attack: a guarantee of one of these kinds, an error, and a number of draws."""

    targets: tuple[Guarantee, ...]
    error: float
    draws: int
    claimed: bool
    """Whether the ε are claims, and not 0 for lack of one."""

    def size(self, target: Guarantee, loss: float) -> float:
        """Return a loss as a share of the guaranteed one."""
        promised = target.loss
        return loss / promised if self.claimed and promised > 0 else loss


def choose_test(scores: tuple[Floats, Floats], stakes: Stakes) -> Test:
    """Return the test with the largest expected bound, for the scores of answers of both worlds."""
    candidates: list[_Candidate] = []
    for first, towards in ((0, 1), (1, -1)):
        for score in range(len(scores[0])):
            signs = (towards, -towards) if score != RATIO else (towards,)
            candidates += [_best_event(first, score, sign, scores, stakes) for sign in signs]
    best = sorted(candidates, key=lambda candidate: candidate.appeal, reverse=True)[:_REFINED]
    refined = [_with_more_cuts(candidate, stakes) for candidate in best]
    return max(refined, key=lambda candidate: candidate.appeal).test


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A test, first with one event: thresholds to choose from, and the likely number of answers beyond each."""

    test: Test
    target: Guarantee
    cuts: Floats
    counts: Floats
    best: int
    loss: float

    @property
    def appeal(self) -> float:
        return self.test.expected * (_PLAINER if self.test.score == RATIO else 1.0)


def _best_event(
    first: int, score: int, sign: int, scores: tuple[Floats, Floats], stakes: Stakes
) -> _Candidate:
    """Return the best single event of a score, for the part of the guarantee that it bounds best."""
    own, other = (np.sort(sign * scores[side][score]) for side in (first, 1 - first))
    cuts, counts = _cuts(own, other, stakes.draws)
    p, q = _bounds(counts, stakes, events=1)
    losses = [of_events(target, p, q) for target in stakes.targets]
    place = max(
        range(len(losses)), key=lambda k: stakes.size(stakes.targets[k], float(losses[k].max()))
    )
    target, best = stakes.targets[place], int(losses[place].argmax())
    loss = float(losses[place][best])
    test = Test(first, score, sign, cuts[[best]], stakes.size(target, loss))
    return _Candidate(test, target, cuts, counts, best, loss)


def _with_more_cuts(candidate: _Candidate, stakes: Stakes) -> _Candidate:
    """Return a test with more and more cuts, as long as another one is worth its share of the error."""
    if candidate.target.divergence not in (Divergence.RENYI, Divergence.CONCENTRATED):
        return candidate
    places = sorted(
        {candidate.best, *range(0, len(candidate.cuts), max(len(candidate.cuts) // _FEW_CUTS, 1))}
    )
    cuts, loss = [candidate.best], candidate.loss
    while len(cuts) < _MOST_LEVELS:
        p, q = _bounds(candidate.counts, stakes, events=len(cuts) + 1)
        trials = [sorted([*cuts, another]) for another in places if another not in cuts]
        losses = [of_nested(candidate.target, p[those], q[those]) for those in trials]
        if not losses or max(losses) <= loss * (1 + _WORTH):
            break
        loss = max(losses)
        cuts = trials[losses.index(loss)]
    expected = stakes.size(candidate.target, loss)
    return replace(
        candidate,
        test=replace(candidate.test, cuts=candidate.cuts[cuts], expected=expected),
        loss=loss,
    )


def _bounds(counts: Floats, stakes: Stakes, events: int) -> tuple[Floats, Floats]:
    share = stakes.error / (2 * events)
    return at_least(counts[0], stakes.draws, share), at_most(counts[1], stakes.draws, share)


def _cuts(own: Floats, other: Floats, draws: int) -> tuple[Floats, Floats]:
    """Return thresholds that fall on answers, densest in both tails, and how many of `draws` are likely beyond them."""
    both = np.sort(np.concatenate([own, other]))
    tail = np.geomspace(1, len(both) / 2, _MOST_CUTS // 4).astype(np.intp)
    ranks = np.concatenate(
        [np.linspace(0, len(both) - 1, _MOST_CUTS // 2).astype(np.intp), tail, len(both) - tail]
    )
    cuts = np.unique(both[np.minimum(ranks, len(both) - 1)])
    beyond = [
        len(answers) - np.searchsorted(answers, cuts, side="left") for answers in (own, other)
    ]
    likely = at_least(beyond[0], len(own), _DOUBT), at_most(beyond[1], len(other), _DOUBT)
    return cuts, np.array(likely) * draws


_AT_ONCE = 1 << 18
_LEAST_PILOT = 500


@final
@dataclass(frozen=True)
class LowerBound:
    """A lower bound of the loss of a target, with its event and pair."""

    lower: float
    target: Guarantee
    event: str
    pair: str
    needed: float
    """The number of draws that are likely to show a breach by these events."""


def count_events(
    duels: Sequence[Duel], stakes: Stakes, looked_at: int, rng: Generator | None
) -> LowerBound:
    """Return a lower bound that is wrong with a probability of at most `stakes.error`.

    Everything that depends on draws is chosen on the first `looked_at` ones. From the others only the counts of the
    events are used: each of the 2m probabilities of m events has its share of the error.
    """
    with working("attacking", total=len(_sizes(stakes.draws, duels[0]))) as work:
        duel = _worst_duel(duels, stakes, looked_at, rng)
        scores, test = _learn(duel, stakes, looked_at, rng)
        counts = np.zeros((2, len(test.cuts)), dtype=np.int64)
        for size in _sizes(stakes.draws, duel):
            for side in (0, 1):
                counts[side] += test.counts(scores(duel.draw(side, size, rng)))
            work.advance()
    share = stakes.error / (2 * len(test.cuts))
    p = at_least(counts[test.first], stakes.draws, share)
    q = at_most(counts[1 - test.first], stakes.draws, share)
    losses = [
        of_nested(target, p, q) for target in stakes.targets
    ]  # the bounds hold for all of them at once
    place = max(range(len(losses)), key=lambda k: stakes.size(stakes.targets[k], losses[k]))
    event = scores.words(test.score, test.sign, test.cuts, test.first)
    note = f"; {duel.note}" if duel.note else ""
    target = stakes.targets[place]
    needed = (
        draws_needed(target, counts[test.first] / stakes.draws, stakes.error)
        if stakes.claimed
        else 0.0
    )
    return LowerBound(losses[place], target, f"{event}{note}", duel.words(test.first), needed)


def _learn(duel: Duel, stakes: Stakes, draws: int, rng: Generator | None) -> tuple[Scores, Test]:
    """Return a test; scores are learnt on half of the draws, and compared on the rest."""
    sizes = _sizes(draws, duel)
    first, second = (
        np.concatenate([duel.draw(side, size, rng) for size in sizes]) for side in (0, 1)
    )
    half = draws // 2
    scores = Scores.of(duel, first[:half], second[:half])
    return scores, choose_test((scores(first[half:]), scores(second[half:])), stakes)


def _worst_duel(duels: Sequence[Duel], stakes: Stakes, draws: int, rng: Generator | None) -> Duel:
    """Return the pair with the largest expected bound by few draws."""
    if len(duels) == 1:
        return duels[0]
    glance = max(min(draws // len(duels), draws), _LEAST_PILOT)
    tests = [_learn(duel, stakes, glance, rng)[1] for duel in duels]
    return duels[max(range(len(duels)), key=lambda k: tests[k].expected)]


def _sizes(draws: int, duel: Duel) -> list[int]:
    """Return how many to draw at a time, so that they fit in memory."""
    step = max(_AT_ONCE // len(duel.mechanism.noises), 1)
    return [min(step, draws - at) for at in range(0, draws, step)]


_LEAST_TRIALS = 100
_MOST_LOOKED_AT = 500_000


@final
@dataclass(frozen=True, repr=False)
class Attack(InNotebooks):
    """The result of an attack: the ε of the answers is above `lower`, with a probability of `confidence`.

    `promised` is the guarantee that was attacked, None if noise came without one. `against` is the part of it that
    `lower` is about: one order of a curve, otherwise all of it. `trials` are the draws under each secret. `event` is
    what distinguishes the secrets. `pair` names them, first the one that makes the event likely.

    `needed` is the number of trials that would probably show a loss 1.5 times as large as guaranteed. With fewer
    trials, an attack without a finding means nothing.
    """

    lower: float
    promised: Guarantee | None
    against: Guarantee | None
    confidence: float
    trials: int
    event: str
    pair: str
    needed: float = 0.0

    @property
    def holds(self) -> bool | None:
        """Whether the guarantee holds against this attack.

        None if there were too few trials, or no guarantee.
        """
        if self.broken:
            return False
        return True if self.promised is not None and self.trials >= self.needed else None

    @property
    def broken(self) -> bool:
        """Whether a loss above the guarantee was shown; this is wrong with a probability of at most 1 − confidence."""
        return self.against is not None and self.lower > self.against.loss

    def __repr__(self) -> str:
        """Show the bound, the guarantee, and the attack."""
        promised = (
            "" if self.promised is None else f"promised={self.promised!r}, broken={self.broken}, "
        )
        if self.promised is not None and self.holds is None:
            promised += f"too few trials, needed={self.needed:g}, "
        return (
            f"Attack(lower={self.lower:.6g}, {promised}confidence={self.confidence:g}, trials={self.trials}, "
            f"pair={self.pair!r}, event={self.event!r})"
        )


def attack(  # noqa: PLR0913 - the last four have defaults
    target: Plan | Calibration | Noise,
    laws: Iterable[Pair | tuple[object, object]] | None = None,
    *,
    promise: Guarantee | AnyGuaranteeFamily | None = None,
    trials: int = 100_000,
    confidence: float = 0.99,
    rng: Generator | None = None,
) -> Attack:
    """Return a lower bound on ε that holds with this confidence, by distinguishing two secrets from noisy answers.

    A plan, or the result of `pf.calibrate`, is attacked through the pair that cost most. A noise needs `laws`: pairs as
    `pf.calibrate` takes them. It may have a `promise`, a guarantee or its kind, such as `pf.Renyi.of(alpha=4)`. Without
    one the bound is that of a pure guarantee. Of `trials` draws under each secret one half chooses an event, and the
    other half is counted with it. Noise comes from the sampler of releases, with the operating system's randomness
    unless `rng` is given.

    >>> import numpy as np, pufferflow as pf
    >>> pair = pf.Law.point(0), pf.Law.point(1)
    >>> result = attack(pf.Laplace(1.0), [pair], promise=pf.Pure(1.0), rng=np.random.default_rng(1))
    >>> 0.9 < result.lower < 1, result.broken
    (True, False)
    >>> attack(pf.Laplace(0.9), [pair], promise=pf.Pure(1.0), rng=np.random.default_rng(1)).broken
    True
    """
    draws, sure, source = (
        _read_trials(trials),
        confidence_level(confidence, "confidence=0.99"),
        read_rng(rng),
    )
    duels, promised, kind = _read(target, laws, promise)
    if not duels:
        return Attack(0.0, promised, promised, sure, draws, "no row moves an answer", "no pair")
    looked_at = min(draws // 2, _MOST_LOOKED_AT)
    stakes = Stakes(tuple(kind.singles), 1 - sure, draws - looked_at, claimed=promised is not None)
    bound = count_events(duels, stakes, looked_at, source)
    against = None if promised is None else bound.target
    return Attack(
        bound.lower,
        promised,
        against,
        sure,
        draws,
        bound.event,
        bound.pair,
        _trials_for(bound.needed),
    )


def _trials_for(counted: float) -> float:
    """Return the number of trials that leaves this number of draws to be counted, rounded up to two digits."""
    trials = counted + min(counted, _MOST_LOOKED_AT)
    if not 0 < trials < np.inf:
        return trials
    step = 10.0 ** max(np.floor(np.log10(trials)) - 1, 0)
    return float(np.ceil(trials / step) * step)


def _read(
    target: object, laws: object, promise: Any
) -> tuple[list[Duel], Guarantee | None, Guarantee]:
    """Return the pairs to distinguish, the guarantee if there is one, and the kind of the bound."""
    if isinstance(target, Noise):
        if laws is None:
            raise UsageError(
                "A noise is given without pairs of laws.",
                allowed="a noise with pairs of laws, or a plan",
                instead="attack(pf.Laplace(1.0), [(pf.Law.point(0), pf.Law.point(1))])",
            )
        kind = _read_promise(promise)
        return (
            duels_of_pairs(target, laws),
            promise if isinstance(promise, Guarantee) else None,
            kind,
        )
    if not isinstance(target, Plan | Calibration):
        raise UsageError(
            f"The target of the attack is of type {type(target).__name__}.",
            allowed="a plan, what pf.calibrate returns, or a noise with pairs of laws",
            instead='attack(batch.private_sum("level").plan(pf.Pure(1.0)))',
        )
    if laws is not None or promise is not None:
        raise UsageError(
            f"A {type(target).__name__.lower()} has laws and a guarantee of its own.",
            allowed="laws and guarantee together with a noise",
            instead="attack(plan), or attack(plan.calibration.noise, laws)",
        )
    guarantee = target.calibration.guarantee if isinstance(target, Plan) else target.guarantee
    duels = duels_of_plan(target) if isinstance(target, Plan) else _of_calibration(target)
    return duels, guarantee, guarantee


def _of_calibration(calibration: Calibration) -> list[Duel]:
    if isinstance(calibration.witness, Pair):
        return duels_of_pairs(calibration.noise, [calibration.witness])
    raise UsageError(
        f"What {type(calibration.bound).__name__} found names a row and two values, not their laws.",
        allowed="a calibration whose witness is a pair of laws, or a plan",
        instead="attack(calibration.noise, pf.laws(scenario, statistic), promise=calibration.guarantee)",
    )


def _read_promise(promise: Any) -> Guarantee:
    if promise is None:
        return Pure(0.0)
    return promise if isinstance(promise, Guarantee) else read_kind(promise).example


def _read_trials(trials: Any) -> int:
    if (
        isinstance(trials, bool)
        or not hasattr(trials, "__index__")
        or trials.__index__() < _LEAST_TRIALS
    ):
        given = (
            f"is {trials!r}"
            if isinstance(trials, int | float)
            else f"is of type {type(trials).__name__}"
        )
        raise UsageError(
            f"trials {given}.",
            allowed=f"a whole number, at least {_LEAST_TRIALS}",
            instead="trials=100_000",
        )
    return int(cast(int, trials.__index__()))
