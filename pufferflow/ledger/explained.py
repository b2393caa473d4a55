"""Why an account's total is what it is, and what its releases keep if a belief is wrong: sentences of plain values."""

from pufferflow.composition import Composed, Spent
from pufferflow.composition.coupling import Coupling
from pufferflow.composition.if_wrong import asks_elsewhere, differential_privacy, group_privacy
from pufferflow.guarantees import Approx, ApproxRenyi, Guarantee, Renyi
from pufferflow.priors import AnyCorrelation, ChainsBetween, LatentClass, MarkovChain, Prior
from pufferflow.priors.forgetting import forgotten_after, measure_of_memory
from pufferflow.priors.steps import step_in_words
from pufferflow.report.evidence import WhatIf
from pufferflow.report.numbers import SPENT, at_most, counted, downwards
from pufferflow.scenario import Scenario
from pufferflow.secrets import Derived, Initial, Presence
from pufferflow.secrets.secret import ValueSecret


def why(spent: Spent, total: Composed) -> str:
    """Say why releases tell so much together, and no more: what they tell of rows that they do not ask about."""
    scenario, belief = spent.scenario, total.belief
    if isinstance(scenario.secret, Presence) and spent.costs:
        return "Every release that reads the rows of a unit tells whether they are there, so all of them add up."
    if belief is None:
        return ""
    whose = f"Most is told to somebody who believes that {belief.describe()}. " if len(spent.priors) > 1 else ""
    return whose + _because(scenario, belief, total.rule)


def if_wrong(spent: Spent) -> tuple[WhatIf, ...]:
    """Return what all releases keep together if rows are independent, and if they hang together in any way."""
    row, group = differential_privacy(spent), group_privacy(spent)
    return (
        WhatIf(_independent(spent.scenario), _told(row, _no_row(spent)), _epsilon(row)),
        WhatIf(
            f"whatever {_group(spent.scenario)} have to do with each other (group privacy)",
            _told(group, _no_group(spent)),
            _epsilon(group),
        ),
    )


def _because(scenario: Scenario, belief: Prior, rule: str) -> str:
    group = _group(scenario)
    if belief.alone:
        return "Rows tell nothing of each other, so only releases about the same row add up."
    if isinstance(belief, AnyCorrelation):
        return f"{_begun(group)} may have anything to do with each other, so what all releases tell of them adds up."
    if isinstance(belief, LatentClass):
        return f"{_begun(group)} share a class, of which every release tells, whichever of these rows it is about."
    chain = isinstance(belief, MarkovChain | ChainsBetween)
    if rule == Coupling.name and not chain:
        return f"All of {group} move together in one way, and every release adds how far that moves it."
    if rule == Coupling.name and not _never(belief):
        return (
            "How soon a row is forgotten along the chain is not counted (the noise has no pure loss, or rows are on no "
            f"common clock), so every release adds what it tells if {group} change all at once (group privacy)."
        )
    return _remembered(scenario, belief)


def _never(belief: Prior) -> bool:
    """Say whether a row is never forgotten, so far as that is known."""
    return measure_of_memory(belief) is not None and forgotten_after(belief) is None


def _remembered(scenario: Scenario, belief: Prior) -> str:
    """Say after how many steps a row is forgotten, if it ever is."""
    what = "The value of a row"
    if isinstance(scenario.secret, ValueSecret):
        first = "first " if isinstance(scenario.secret, Initial) else ""
        what = f"A row's {scenario.secret.column!r}" if not first else f"The first {scenario.secret.column!r}"
    if measure_of_memory(belief) is None:
        return f"{what} is told of by releases about rows near it; how soon it is forgotten is not one number."
    steps = forgotten_after(belief)
    if steps is None:  # as along chains that go round, or stay
        return f"{what} is not forgotten along the way, so releases about rows however far apart add up."
    far = counted(steps, "step") + (f" ({step_in_words(steps * scenario.step)})" if scenario.timed else "")
    if isinstance(scenario.secret, Initial):
        return f"{what} is forgotten to 1 % after {far}: releases about rows from there on tell hardly anything of it."
    return f"{what} is forgotten to 1 % after {far}: releases about rows so far apart hardly add up."


def _independent(scenario: Scenario) -> str:
    """Return what ordinary differential privacy is of, in words."""
    secret = scenario.secret
    row = "the first row of a sequence" if isinstance(secret, Initial) else "one row"
    some = isinstance(secret, ValueSecret) and secret.pairs != "all"
    pairs = ", between the values that are hidden from each other" if some else ""
    return f"if rows have nothing to do with each other (differential privacy of {row}{pairs})"


def _no_row(spent: Spent) -> str:
    secret = spent.scenario.secret
    if isinstance(secret, Presence):
        return "nothing is said of a row's value: what is hidden is whether the rows of a unit are there"
    if isinstance(secret, Derived):
        return "nothing is said of a row's value: what is hidden is no column"
    if isinstance(secret, ValueSecret) and asks_elsewhere(spent.costs, secret.column):
        return f"nothing is said of a row's {secret.column!r}: another column was asked about"
    return "not known"


def _no_group(spent: Spent) -> str:
    if isinstance(spent.scenario.secret, Presence):
        return "not known: units are believed to come and go by themselves"
    if all(prior.alone for prior in spent.priors):
        return "not known: rows are believed to be independent, and how many there are in a group was not looked at"
    return "not known"


def _told(guarantee: Guarantee | None, unknown: str) -> str:
    if guarantee is None:
        return unknown
    parts = [f"epsilon {at_most(_epsilon(guarantee) or 0.0, SPENT)}"]
    if isinstance(guarantee, Renyi | ApproxRenyi):
        parts.append(f"at alpha {downwards(guarantee.alpha, SPENT):g}")
    if isinstance(guarantee, Approx | ApproxRenyi):
        parts.append(f"with delta {at_most(guarantee.delta, SPENT)}")
    return f"all releases together keep {' '.join(parts)}"


def _epsilon(guarantee: Guarantee | None) -> float | None:
    return None if guarantee is None else float(getattr(guarantee, "epsilon", 0.0))


def _group(scenario: Scenario) -> str:
    """Return the rows of one group in words."""
    return f"the rows of one {', '.join(scenario.within)}" if scenario.within else "the rows of the whole frame"


def _begun(words: str) -> str:
    return words[:1].upper() + words[1:]
