"""Classes of Markov chains: messages that hold for every member (M20), and group privacy."""

from collections.abc import Iterator
from typing import NoReturn, final

from pufferflow.bounds import Laws, Pair
from pufferflow.errors import Refused
from pufferflow.inference.along import AlongLaws, Rows, value_places
from pufferflow.inference.free import row_by_row
from pufferflow.inference.implied import asked, implied
from pufferflow.messages import Chains
from pufferflow.priors import ChainsBetween
from pufferflow.queries import Statistic
from pufferflow.secrets import AnySecret, Initial


@implied.register(ChainsBetween)
@row_by_row
def _(prior: ChainsBetween, statistic: Statistic, secret: AnySecret) -> Laws:
    _, domain = asked(prior, statistic, secret)
    rows = Rows.of(statistic, domain, first=isinstance(secret, Initial))
    chains, start = prior.chains(rows.positions, statistic.start)
    return ClassLaws(prior, chains, rows.along(start, chains.length), value_places(secret, domain), domain.points)


@final
class ClassLaws(AlongLaws[Chains]):
    """The laws of sums under every chain of a class; they are never listed."""

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
