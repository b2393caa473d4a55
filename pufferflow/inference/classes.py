"""Classes of Markov chains: messages that hold for every member (M20), and group privacy."""

from collections.abc import Iterator, Sequence
from typing import NoReturn, final

import numpy as np

from pufferflow.bounds import ChainWalk, Laws, Pair, Place, Reach, Walk
from pufferflow.errors import Refused
from pufferflow.inference.implied import asked, implied
from pufferflow.inference.transfer import Rows, value_places
from pufferflow.messages import Chains, Secrets
from pufferflow.messages.stretches import Whole
from pufferflow.priors import ChainsBetween
from pufferflow.queries import Statistic
from pufferflow.secrets import AnySecret, Domain, Initial
from pufferflow.transport import Certainty


@implied.register
def _(prior: ChainsBetween, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = asked(prior, statistic, secret)
    rows = Rows.of(statistic, domain, first=isinstance(secret, Initial))
    chains, start = prior.chains(rows.positions, statistic.start)
    return ClassLaws(prior, chains, rows.along(start, chains.length), value_places(secret, domain), domain)


@final
class ClassLaws(Laws):
    """The laws of sums under every chain of a class; they are never listed."""

    def __init__(self, prior: ChainsBetween, chains: Chains, rows: Rows, pairs: Whole, domain: Domain) -> None:
        self._prior, self._chains, self._rows, self._pairs = prior, chains, rows, pairs
        self._labels = domain.points

    @property
    def dimension(self) -> int:
        """The number of coordinates of the answer."""
        return len(self._rows.tables)

    def walks(self) -> Sequence[Walk]:
        """Return all steps of the chains, those without a row too."""
        both = np.concatenate([self._pairs, self._pairs[:, ::-1]])
        secrets, rows = Secrets(both, self._rows.secret), self._rows
        return [ChainWalk(self.dimension, self._chains, rows.shifts, rows.kinds, secrets, self._prior, self._labels)]

    def span(self, norm: float) -> Reach:
        """Return the movement of all rows over all states (M7)."""
        certainty = Certainty.EXACT if self.dimension == 1 else Certainty.UPPER_BOUND
        return Reach(self._rows.group(norm), certainty, self._somewhere())

    def least_winf(self, norm: float) -> Reach:
        """Return 0: no movement is quickly known."""
        del norm
        return Reach(0.0, Certainty.UPPER_BOUND, self._somewhere())

    def __len__(self) -> int:  # noqa: PLE0303 - there is no number to return
        """Refuse: there are infinitely many pairs."""
        self._refuse()

    def __getitem__(self, place: int) -> Pair:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices here
        """Refuse: there are infinitely many pairs."""
        self._refuse()

    def __iter__(self) -> Iterator[Pair]:
        """Refuse: there are infinitely many pairs."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Refused(
            "The laws of a class of chains one by one: it has infinitely many members.",
            allowed="bound=pf.Messages(), which bounds all members at once, or bound=pf.Group()",
            instead="a list of single chains as prior, if the class has only a few",
        )

    def _somewhere(self) -> Place:
        first, second = (self._labels[int(state)] for state in self._pairs[0])
        return Place(self.dimension, self._prior, (first, second), 0)
