"""Opening accounts, and superseding the scenario of one."""

from dataclasses import dataclass
from typing import Any, cast, final

from pufferflow.composition import Spent
from pufferflow.errors import Misuse
from pufferflow.guarantees import Guarantee
from pufferflow.ledger.agreement import differences
from pufferflow.ledger.books import Books
from pufferflow.ledger.events import Opened, Superseded
from pufferflow.ledger.kept import Kept
from pufferflow.ledger.line import Line
from pufferflow.ledger.log import Pen
from pufferflow.scenario import Scenario


def read_limit(given: object, scenario: Scenario) -> Guarantee:
    """Return a limit of a kind that totals can be told in."""
    if not isinstance(given, Guarantee):
        raise Misuse(f"The limit is of type {type(given).__name__}.", allowed="a promise", instead="limit=pf.Pure(3.0)")
    Spent([scenario], given)  # refuses promises that have no single epsilon
    return given


@final
@dataclass(frozen=True, eq=False)
class Opening:
    """An account as somebody asks for it; a data set that is not named is the one it has, or its name."""

    name: str
    scenario: Scenario
    limit: Guarantee
    dataset: str | None
    separate: bool

    def exists(self, books: Books, line: Line) -> bool:
        """Say whether the account is there; it must be as it is asked for."""
        del line
        kept = books.accounts.get(self.name)
        if kept is not None:
            self._check(kept)
        return kept is not None

    def open(self, pen: Pen) -> None:
        """Open the account, unless it is there."""
        if self.exists(pen.books, pen.line):
            return
        self.scenario.check_sound()
        dataset = self.name if self.dataset is None else self.dataset
        others = [kept.name for kept in pen.books.accounts.values() if kept.dataset == dataset]
        if others and not self.separate:
            raise Misuse(
                f"The data set {dataset!r} has the account {others[0]!r}; two would forget what the other spends.",
                allowed="one account for a data set",
                instead=f"ledger.account({others[0]!r}); or separate=True, if the two are about different people",
            )
        pen.append(
            Opened(
                *(pen.next, self.name, pen.now, dataset, self.separate),
                limit=cast(Any, self.limit),  # every kind of promise is one of the union
                scenario=self.scenario.to_json(),
                fingerprint=self.scenario.fingerprint,
            )
        )

    def _check(self, kept: Kept) -> None:
        wrong = [f"limit ({kept.limit!r})"] if kept.limit != self.limit else []
        if self.dataset not in {None, kept.dataset}:
            wrong.append(f"dataset ({kept.dataset!r})")
        if self.scenario.fingerprint != kept.fingerprint:
            wrong += differences(kept.scenarios[-1], self.scenario)
        if wrong:
            raise Misuse(
                f"The account {self.name!r} exists and has another {', '.join(wrong)}.",
                allowed="the scenario, limit and data set that it was opened with",
                instead=f"ledger.account({self.name!r}); or ledger.supersede, for another prior",
            )


def supersede(pen: Pen, name: str, scenario: Scenario) -> None:
    """Let an account go on with another scenario, if what was spent can be told under all priors together."""
    kept = pen.books.account(name)
    if kept.fingerprint == scenario.fingerprint:
        return
    wrong = [part for part in differences(kept.scenarios[-1], scenario) if part != "prior"]
    if wrong:
        raise Misuse(
            f"The new scenario has another {', '.join(wrong)}.",
            allowed="the same scenario with another prior",
            instead="another account, for another data set",
        )
    scenario.check_sound()
    kept.superseded(pen.line, pen.books.shapes, scenario).total()
    pen.append(Superseded(pen.next, name, pen.now, scenario.to_json(), scenario.fingerprint))
