"""`pf.audit.attack`: how much of a secret noisy answers can be shown to tell."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast, final

from pufferflow.audit.choosing import Stakes
from pufferflow.audit.losses import epsilon_of, targets_of
from pufferflow.audit.measuring import measured
from pufferflow.audit.pairs import duels_of_pairs
from pufferflow.audit.plans import duels_of_plan
from pufferflow.audit.worlds import Duel, Generator, read_rng
from pufferflow.bounds import Pair
from pufferflow.calibration import Calibration
from pufferflow.calibration.asked import read_kind
from pufferflow.errors import Misuse
from pufferflow.guarantees import Guarantee, Kind, Pure
from pufferflow.noise import Noise
from pufferflow.plan import Plan
from pufferflow.reading import finite_number

_LEAST_TRIALS = 100
_MOST_LOOKED_AT = 500_000


@final
@dataclass(frozen=True, repr=False)
class Attack:
    """What an attack has shown: the ε that answers really tell is above `lower`, with a probability of `confidence`.

    `promised` is the promise that was attacked, None if noise came without one, and `against` the part of it that
    `lower` is about: of a curve one order, else all of it. `trials` are the draws under each secret, `event` says by
    what the secrets were told apart, and `pair` which of them, the one that makes the event likely first.
    """

    lower: float
    promised: Guarantee | None
    against: Guarantee | None
    confidence: float
    trials: int
    event: str
    pair: str

    @property
    def broken(self) -> bool:
        """Whether more than was promised was shown; by chance alone with a probability of 1 − confidence at most."""
        return self.against is not None and self.lower > epsilon_of(self.against)

    def __repr__(self) -> str:
        """Show the bound, the promise, and how it was found."""
        promised = "" if self.promised is None else f"promised={self.promised!r}, broken={self.broken}, "
        return (
            f"Attack(lower={self.lower:.6g}, {promised}confidence={self.confidence:g}, trials={self.trials}, "
            f"pair={self.pair!r}, event={self.event!r})"
        )


def attack(  # noqa: PLR0913 - the last four have defaults
    target: Plan | Calibration | Noise,
    laws: Iterable[Pair | tuple[object, object]] | None = None,
    *,
    promise: Guarantee | Kind | None = None,
    trials: int = 100_000,
    confidence: float = 0.99,
    rng: Generator | None = None,
) -> Attack:
    """Return a lower bound on ε that holds with this confidence, found by telling two secrets apart by noisy answers.

    A plan, or what `pf.calibrate` returns, is attacked through the pair that cost most. A noise needs `laws`, pairs as
    `pf.calibrate` takes them, and may have a `promise`, or its kind, such as `pf.Renyi.of(alpha=4)`; without one the
    bound is that of a pure promise. Of `trials` draws under each secret one half chooses an event, the other is counted
    with it. Noise comes from the sampler of releases, with the operating system's randomness unless `rng` is given.

    >>> import numpy as np, pufferflow as pf
    >>> pair = pf.Law.point(0), pf.Law.point(1)
    >>> found = attack(pf.Laplace(1.0), [pair], promise=pf.Pure(1.0), rng=np.random.default_rng(1))
    >>> 0.9 < found.lower < 1, found.broken
    (True, False)
    >>> attack(pf.Laplace(0.9), [pair], promise=pf.Pure(1.0), rng=np.random.default_rng(1)).broken
    True
    """
    draws, sure, source = _read_trials(trials), _read_confidence(confidence), read_rng(rng)
    duels, promised, kind = _read(target, laws, promise)
    if not duels:
        return Attack(0.0, promised, promised, sure, draws, "no row moves an answer", "no pair")
    looked_at = min(draws // 2, _MOST_LOOKED_AT)
    stakes = Stakes(tuple(targets_of(kind)), 1 - sure, draws - looked_at, claimed=promised is not None)
    found = measured(duels, stakes, looked_at, source)
    against = None if promised is None else found.target
    return Attack(found.lower, promised, against, sure, draws, found.event, found.pair)


def _read(target: object, laws: object, promise: Any) -> tuple[list[Duel], Guarantee | None, Guarantee]:
    """Return the pairs to tell apart, the promise if there is one, and of which kind the bound is."""
    if isinstance(target, Noise):
        if laws is None:
            raise Misuse(
                "A noise without laws of an answer.",
                allowed="a noise with pairs of laws, or a plan",
                instead="attack(pf.Laplace(1.0), [(pf.Law.point(0), pf.Law.point(1))])",
            )
        kind = _read_promise(promise)
        return duels_of_pairs(target, laws), promise if isinstance(promise, Guarantee) else None, kind
    if not isinstance(target, Plan | Calibration):
        raise Misuse(
            f"What is to be attacked is of type {type(target).__name__}.",
            allowed="a plan, what pf.calibrate returns, or a noise with pairs of laws",
            instead='attack(batch.private_sum("level").plan(pf.Pure(1.0)))',
        )
    if laws is not None or promise is not None:
        raise Misuse(
            f"A {type(target).__name__.lower()} has laws and a promise of its own.",
            allowed="laws and promise together with a noise",
            instead="attack(plan), or attack(plan.calibration.noise, laws)",
        )
    guarantee = target.calibration.guarantee if isinstance(target, Plan) else target.guarantee
    duels = duels_of_plan(target) if isinstance(target, Plan) else _of_calibration(target)
    return duels, guarantee, guarantee


def _of_calibration(found: Calibration) -> list[Duel]:
    if isinstance(found.witness, Pair):
        return duels_of_pairs(found.noise, [found.witness])
    raise Misuse(
        f"What {type(found.bound).__name__} found names a row and two values, not their laws.",
        allowed="a calibration whose witness is a pair of laws, or a plan",
        instead="attack(calibration.noise, pf.laws(scenario, statistic), promise=calibration.guarantee)",
    )


def _read_promise(promise: Any) -> Guarantee:
    if promise is None:
        return Pure(0.0)
    return promise if isinstance(promise, Guarantee) else read_kind(promise)


def _read_trials(trials: Any) -> int:
    if isinstance(trials, bool) or not hasattr(trials, "__index__") or trials.__index__() < _LEAST_TRIALS:
        given = f"is {trials!r}" if isinstance(trials, int | float) else f"is of type {type(trials).__name__}"
        raise Misuse(f"trials {given}.", allowed=f"a whole number, at least {_LEAST_TRIALS}", instead="trials=100_000")
    return int(cast(int, trials.__index__()))


def _read_confidence(confidence: Any) -> float:
    allowed, instead = "a number with 0 < confidence < 1", "confidence=0.99"
    share = finite_number(confidence, "confidence", allowed=allowed, instead=instead)
    if not 0 < share < 1:
        raise Misuse(f"confidence is {share}.", allowed=allowed, instead=instead)
    return share
