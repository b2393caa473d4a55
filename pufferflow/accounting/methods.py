"""The accounting methods of an account: what share of the limit each has, and which still admit its releases (M61).

An accounting method is one way to prove totals, such as pure losses or squared movements along one coupling. By itself
it holds for every adversary whose releases it admits. An account answers while some method admits all its releases. So
over all paths of answers, what it guarantees is what its methods guarantee together.

Each method has a share of the limit, fixed with the first release: a part of δ, or of what takes its place for other
guarantees. Pure totals bound every output by itself, so they take no share of a small δ. A method that does not admit
some release is dead from then on, which the ledger records.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, final

import msgspec

from pufferflow.accounting.rules.choice import PAIR, PURE, methods_for
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import UNIT
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.correlations import AR1
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.scenario import Scenario
from pufferflow.privacy.guarantee import Divergence, Guarantee, GuaranteeFamily
from pufferflow.privacy.renyi import ApproxRenyi
from pufferflow.privacy.tradeoff import TradeOff

COUNTED: Final = {
    "pure": "pure losses",
    "gaussian": "standard deviations of Gaussian noise",
    "rows": "what single rows reveal while all others are fixed",
    "answers": "Rényi losses of answers about one row each",
    "latent": "what rows reveal of one of them, and of the class or law behind all",
    "renyi": "Rényi losses",
    "classes": "Rényi losses within hidden classes",
    "zcdp": "Rényi losses of all orders",
    PAIR: "the loss and the total variation of the first release",
}
"""What each accounting method counts."""
SUITED: Final = 0.95
"""The share of the method that suits the first release; the others have the rest, in equal parts."""
SUITED_OF_DELTA: Final = 0.9
"""The same of a δ, which costs less: losses grow with the root of its logarithm."""
_ROUNDED = 1 - 1e-12
_MORE = 1 + 1e-12
_WORTH = 1.01
"""A pure method takes a share of δ only if with all of δ its totals would be lower by this factor."""
_FLAT = 1 - 1e-9
_LARGEST = 700.0
_FOR_CROSSED_STEPS = 2.0**-10
"""The share of pure totals under autoregressive priors, for distant rows that cross a step of the grid (M4)."""


@final
@dataclass(frozen=True)
class Methods:
    """The accounting methods of an account with their shares, and those that are dead.

    >>> methods = Methods({"pure": 0.0, "gaussian": 0.9, "rows": 0.1})
    >>> methods.without(["gaussian"]).alive
    ['pure', 'rows']
    """

    shares: Mapping[str, float]
    dead: frozenset[str] = field(default=frozenset())

    @classmethod
    def only(cls, method: str) -> "Methods":
        """Return one method that has the whole limit."""
        return cls({method: 1.0})

    @classmethod
    def of_fixed(cls, methods: Sequence[str]) -> "Methods":
        """Return methods that each have the whole limit: for releases that were all chosen beforehand."""
        return cls(dict.fromkeys(methods, 1.0))

    @property
    def alive(self) -> list[str]:
        """The methods that may still admit a release."""
        return [method for method in self.shares if method not in self.dead]

    @property
    def mortal(self) -> list[str]:
        """The methods that are dead once they do not admit a release: all but pure totals without a share.

        >>> Methods({"pure": 0.0, "gaussian": 1.0}).mortal, Methods({"pure": 0.5, "zcdp": 0.5}).mortal
        (['gaussian'], ['pure', 'zcdp'])
        """
        if len(self.shares) == 1:
            return []
        return [method for method in self.alive if method != PURE or self.shares[method]]

    def without(self, dead: Collection[str]) -> "Methods":
        """Return the methods after some more have died."""
        return replace(self, dead=self.dead.union(dead)) if dead else self

    def kind(self, method: str, limit: Guarantee, kind: GuaranteeFamily) -> GuaranteeFamily:
        """Return the kind of guarantee that a method proves, with its part of δ."""
        share, example = self.shares[method], kind.example
        if share >= 1 or not example.delta:
            return kind
        delta = max(math.nextafter(example.delta * share, 0.0), 0.0)
        if not isinstance(example, TradeOff):
            return GuaranteeFamily(msgspec.structs.replace(example, delta=delta))
        tv = example.tv if len(limit.singles) == 1 else example.tv * share * _ROUNDED
        return TradeOff.of(min(delta, tv), tv)

    def whole(self, method: str, kind: GuaranteeFamily, loss: float) -> float:
        """Return the account's loss if a method proves a loss within its share; rounded up.

        A probability δ was divided before. Rényi moments less 1 add up over methods, and so do ρ. For Gaussian
        trade-offs the total variations add.

        >>> from pufferflow.privacy.renyi import Renyi
        >>> halves = Methods({"renyi": 0.5, "classes": 0.5})
        >>> round(halves.whole("renyi", Renyi.of(2), 0.62011451), 6)
        1.0
        """
        share, divergence = self.shares[method], kind.example.divergence
        if share >= 1 or loss == 0 or math.isinf(loss) or divergence is Divergence.HOCKEY_STICK:
            return loss
        if divergence is Divergence.CONCENTRATED:
            return loss / share * _MORE
        if divergence is Divergence.GAUSSIAN:
            from scipy.special import erfinv  # takes longer to import than plans need

            apart = math.erf(loss / math.sqrt(8)) / share * (1 + 8 * UNIT)
            return math.sqrt(8) * float(erfinv(apart)) * _MORE if apart < _FLAT else math.inf
        order = kind.example.alpha - 1
        if order * loss > _LARGEST:
            return (loss - math.log(share) / order) * _MORE
        return math.log1p(math.expm1(order * loss) / share) / order * _MORE


def read_methods(given: object, scenario: Scenario, limit: Guarantee) -> tuple[str, ...]:
    """Return the names of accounting methods; () for all."""
    if given == "all" or limit.kind is None:
        return ()
    known = methods_for(limit.kind, scenario.priors)
    allowed = f'"all", or a list of {", ".join(map(repr, known))}'
    named = [given] if isinstance(given, str) else given
    names = list(cast(Iterable[Any], named)) if isinstance(named, Iterable) else []
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise UsageError(
            f"There is no accounting method {wrong[0]!r} under this limit and these priors."
            if wrong
            else "methods names no accounting method.",
            allowed=allowed,
            instead='methods="all"',
        )
    return tuple(method for method in known if method in names)


def methods_in_words(methods: Methods, deciding: str | None) -> str:
    """Say by which methods an account counts; empty if it has one only.

    >>> methods_in_words(Methods({"pure": 0.0, "gaussian": 1.0}), "gaussian")
    'Counted by standard deviations of Gaussian noise. Also kept: pure losses.'
    """
    if deciding is None or len(methods.shares) == 1:
        return ""
    others = [COUNTED[method] for method in methods.alive if method != deciding]
    ended = [COUNTED[method] for method in methods.shares if method in methods.dead]
    parts = [f"Counted by {COUNTED[deciding]}."]
    parts += [f"Also kept: {' and '.join(others)}."] if others else []
    parts += [f"No longer within the limit: {' and '.join(ended)}."] if ended else []
    return " ".join(parts)


def shared_out(shares: Mapping[str, float]) -> bool:
    """Return whether shares are of one limit.

    >>> shared_out({"pure": 0.0, "gaussian": 1.0}), shared_out({"gaussian": 0.6, "rows": 0.6})
    (True, False)
    """
    return all(0 <= share <= 1 for share in shares.values()) and sum(shares.values()) <= 1 + UNIT


def shares_for(limit: Guarantee, priors: Sequence[Prior], firsts: Mapping[str, float]) -> Methods:
    """Return the methods of an account and their shares, from what each says of the first release with all of δ.

    The first release was chosen before any answer, so what it decides is free. A method that does not bound it is left
    out. The pair of the first release stands beside pure totals only, so no other method has less of δ for it. It suits
    a release that has no loss at the limit's δ, since its draws are fewer than pure losses allow. Under a limit in
    approximate Rényi losses no shares are proven, and the method that suits the release is kept.
    """
    known = {method: total for method, total in firsts.items() if math.isfinite(total)}
    suited = min(known, key=lambda method: (known[method], method != PAIR), default=PURE)
    if len(known) <= 1 or isinstance(limit, ApproxRenyi):
        return Methods.only(suited)
    free, plain = pure_is_free(limit), all(_plain(prior) for prior in priors)
    if PAIR in known and not (set(known) <= {PURE, PAIR} and (free or (plain and suited == PAIR))):
        return shares_for(limit, priors, {name: firsts[name] for name in known if name != PAIR})
    suits = SUITED_OF_DELTA if limit.divergence is Divergence.HOCKEY_STICK else SUITED
    takers = [method for method in known if method != PURE or not free]
    if not free and suited != PURE and plain:
        takers = [method for method in takers if method != PURE]
    if not free or PURE not in known:
        return Methods(_divided(takers, suited, suits))
    crossed = _FOR_CROSSED_STEPS if any(_translated(prior) for prior in priors) else 0.0
    return Methods({PURE: crossed} | _divided(takers, suited, suits, 1 - crossed))


def _divided(
    methods: Sequence[str], suited: str, suits: float, whole: float = 1.0
) -> dict[str, float]:
    """Return shares that sum to at most the whole, with that of the suited method."""
    if len(methods) == 1:
        return {methods[0]: whole}
    whole *= _ROUNDED
    if suited not in methods:
        return dict.fromkeys(methods, whole / len(methods))
    rest = (1 - suits) / (len(methods) - 1)
    return {method: whole * (suits if method == suited else rest) for method in methods}


def pure_is_free(limit: Guarantee) -> bool:
    """Return whether pure totals need no share: under a small δ without a total variation of its own.

    >>> from pufferflow.privacy.guarantee import Approx
    >>> pure_is_free(Approx(1.0, 1e-6)), pure_is_free(Approx(0.0, 0.3))
    (True, False)
    """
    if limit.divergence is not Divergence.HOCKEY_STICK or len(limit.singles) > 1:
        return False
    epsilon, delta = limit.loss, limit.delta
    if epsilon > _LARGEST:
        return True
    return math.log((math.exp(epsilon) + delta) / (1 - delta)) <= _WORTH * epsilon


def _translated(prior: Prior) -> bool:
    return isinstance(prior, GaussianPrior) and isinstance(prior.covariance, AR1)


def _plain(prior: Prior) -> bool:
    """Return whether rules total other losses under a prior as they total pure ones: then pure totals gain nothing."""
    return prior.any_correlation or prior.any_law or isinstance(prior, GaussianPrior)
