"""Three examples of DCP whose secret is a hidden state over time: sensing, a changing preference, feedback control.

The paper (its appendix on S ↔ X) describes them in words, to say that differential privacy of a row does not fit, and
has no numbers for them. Here each is a `pf.HiddenMarkov`: a chain of hidden states, each of which shows what a row
has. The secret is the state of every hour; a sum of 24 hours is released at ε = 1. Beside it stand the noise without
any prior, that for hiding states and rows together by `pf.MarkovChain`, and the loss of one such sum a day, for ever.

With feedback the next set point follows from what was read. So the hidden state is the pair of set point and reading,
and only pairs with different set points are to be indistinguishable.

Run it as `python examples/papers/dcp_hidden_states.py [FILE.svg]`.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from side_by_side import Row, number, save_picture, show

import pufferflow as pf

HOURS = 24
LENGTHS = (1, 2, 4, 8, 12, 24)
UNCERTAIN = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.45, 0.48, 0.5)
"""How often a sensor is wrong."""
NO_NUMBER = "no number"
JOINT = "both are the values of one pf.MarkovChain"
FOR_EVER = "about one hour, of all days for ever; each day by itself has ε = 1"


@dataclass(frozen=True)
class Example:
    """A hidden chain of the paper's examples, and what it leaves out."""

    name: str
    prior: pf.HiddenMarkov
    values: int
    why: str
    pairs: Any = "all"

    def scenario(self) -> pf.Scenario:
        """Return the scenario that hides the state of every hour."""
        names = None if self.pairs == "all" else self.prior.names
        domain = list(range(self.values))
        secret = pf.Derived("state", names, self.pairs, column="x", domain=domain, missing=0)
        return pf.Scenario(secret, self.prior, order_by="hour")

    def both_hidden(self) -> pf.Scenario:
        """Return the scenario that hides state and value together, as the values of one chain.

        Where states are pairs with the value, any two of them are to be indistinguishable.
        """
        if self.pairs != "all":
            return replace(self, pairs="all").scenario()
        kernel, emission = np.array(self.prior.transition[0]), np.array(self.prior.emission)
        joint = np.einsum("st,ty->sty", kernel, emission).reshape(len(kernel), -1)
        start = (self.prior.chain.initial_laws[0][:, None] * emission).reshape(-1)
        secrets = [
            pf.Secret("state", domain=list(range(len(kernel))), missing=0),
            pf.Secret("x", domain=list(range(self.values)), missing=0),
        ]
        chain = pf.MarkovChain(joint.repeat(self.values, axis=0), start)
        return pf.Scenario(secrets, chain, order_by="hour")


def laws_of_count(most: int, chance: float) -> list[float]:
    """Return the law of how many of some sensors say yes."""
    return [math.comb(most, k) * chance**k * (1 - chance) ** (most - k) for k in range(most + 1)]


def sensing(error: float = 0.15) -> Example:
    """Let three agents report whether a target is near; they are wrong now and then."""
    emission = [laws_of_count(3, error), laws_of_count(3, 1 - error)]
    prior = pf.HiddenMarkov([[0.97, 0.03], [0.1, 0.9]], emission, states=["clear", "near"])
    return Example(
        "sensing", prior, 4, "ours; agents do not move the target (else the state is a pair)"
    )


def preference() -> Example:
    """Let what a viewer likes drift; each hour shows how many clips of one kind were watched."""
    drift = [[0.96, 0.03, 0.01], [0.02, 0.96, 0.02], [0.01, 0.03, 0.96]]
    watched = [[0.8, 0.15, 0.05], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]]
    prior = pf.HiddenMarkov(drift, watched, states=["news", "mixed", "sport"])
    return Example("preference", prior, 3, "ours; what the platform advises is a part of the drift")


def feedback() -> Example:
    """Raise a set point after a low reading, and lower it after a high one."""
    raised = {0: 0.8, 1: 0.5, 2: 0.2}
    """How likely the set point is high after each reading."""
    reads = {"low": (0.6, 0.3, 0.1), "high": (0.1, 0.4, 0.5)}
    states = list(itertools.product(reads, raised))
    kernel = [
        [
            (raised[seen] if point == "high" else 1 - raised[seen]) * reads[point][reading]
            for point, reading in states
        ]
        for _, seen in states
    ]
    emission = [[float(reading == shown) for shown in raised] for _, reading in states]
    names = [f"{point}, {reading}" for point, reading in states]
    pairs = [
        (a, b) for a, b in itertools.combinations(names, 2) if a.split(",")[0] != b.split(",")[0]
    ]
    prior = pf.HiddenMarkov(kernel, emission, states=names)
    return Example(
        "feedback", prior, 3, "ours; the state is a pair of set point and reading", pairs
    )


def scale(scenario: pf.Scenario, hours: int, bound: Any = "auto") -> float:
    """Return the noise of a sum over so many hours at ε = 1."""
    rows = {"hour": range(hours), "x": [0] * hours, "state": [0] * hours}
    plan = pf.protect(pl.DataFrame(rows), scenario).private_sum("x")
    plan = plan.plan(pf.Pure(1), bound=bound)
    return plan.noises["x_sum"].scale


def for_ever(example: Example) -> float:
    """Return the loss of a sum of every day, without end, each at ε = 1 by itself."""
    rows = pl.DataFrame({"hour": range(HOURS), "x": [0] * HOURS})
    plan = pf.protect(rows, example.scenario()).private_sum("x")
    plan = plan.plan(pf.Pure(1))
    away = np.abs(np.subtract.outer(range(example.values), range(example.values)))
    losses = away / plan.noises["x_sum"].scale
    return pf.temporal_leakage(example.prior.transition[0], losses, emission=example.prior.emission)


def rows_of(example: Example) -> list[Row]:
    """Return the numbers of an example."""
    hidden, both = (
        scale(example.scenario(), HOURS),
        scale(example.both_hidden(), HOURS, pf.Messages()),
    )
    whole = HOURS * (example.values - 1)
    return [
        Row(f"{example.name}: noise without a prior", NO_NUMBER, number(whole), "group privacy"),
        Row(f"{example.name}: state and rows hidden", NO_NUMBER, number(both), JOINT),
        Row(f"{example.name}: the state hidden", NO_NUMBER, number(hidden), example.why),
        Row(f"{example.name}: ε of a sum a day", NO_NUMBER, number(for_ever(example)), FOR_EVER),
    ]


def raw(error: float) -> float:
    """Return the loss about the target if all reports are published as they are, for ever."""
    example = sensing(error)
    return pf.temporal_leakage(example.prior.transition[0], 1e5, emission=example.prior.emission)


def main() -> None:
    """Print the three examples, and draw their noise and the loss of raw reports."""
    examples = [sensing(), preference(), feedback()]
    rows = [row for example in examples for row in rows_of(example)]
    show("Hidden states over time: Laplace scale of a sum of 24 hours at ε = 1", rows)
    noise = {one.name: [scale(one.scenario(), hours) for hours in LENGTHS] for one in examples}
    losses = [raw(error) for error in UNCERTAIN]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for name, scales in noise.items():
            left.plot(LENGTHS, scales, marker="o", label=name)
        left.set(xlabel="hours in the sum", ylabel="Laplace scale at ε = 1", ylim=0.0)
        left.set_xticks(LENGTHS)
        left.legend()
        right.plot(UNCERTAIN, losses, marker="o", color="tab:red")
        right.set(xlabel="how often a sensor is wrong", ylabel="ε of raw reports, for ever")

    save_picture(draw, "dcp_hidden_states.svg")


if __name__ == "__main__":
    main()
