"""What an adversary does not know: the data sets that there may be, with their laws under two secrets."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from games.tables import merged, noisy, together


@dataclass(frozen=True, eq=False)
class Pair:
    """Two laws of the data sets, in one order: those under secret a and under secret b."""

    name: str
    a: Any
    b: Any

    def reversed(self):
        """Return the other order."""
        return Pair(f"{self.name}, reversed", self.b, self.a)


@dataclass(frozen=True, eq=False)
class World:
    """The data sets, and pairs of their laws that must be indistinguishable."""

    rows: Any
    """The data sets, in order; what they are is known to the questions."""
    pairs: list

    @classmethod
    def given(cls, rows, chances, secrets, listed=None):
        """Return the world of one law of all data sets; `secrets` has a value for every data set.

        All pairs of values in both orders, or those `listed`.
        """
        chances, secrets = np.asarray(chances, np.float64), list(secrets)
        values = sorted(set(secrets))
        places = {value: np.array([one == value for one in secrets]) for value in values}
        laws = {value: np.where(place, chances, 0.0) for value, place in places.items()}
        laws = {value: law / law.sum() for value, law in laws.items() if law.sum() > 0}
        chosen = listed or [(a, b) for a in laws for b in laws if a < b]
        pairs = [
            Pair(f"{a} against {b}", laws[a], laws[b]) for a, b in chosen if a in laws and b in laws
        ]
        return cls(rows, [order for pair in pairs for order in (pair, pair.reversed())])


@dataclass(frozen=True, eq=False)
class Release:
    """A release of a menu: its plan, and the probabilities of its binned answer on every data set."""

    name: str
    plan: Any
    table: Any = field(repr=False)
    touches: frozenset = frozenset()
    """Rows whose values are part of the noise of the table: no other release of a path may read them."""

    @property
    def cost(self):
        """The cost that an account counts."""
        return getattr(self.plan, "cost", self.plan)

    @property
    def joint_cost(self):
        """The cost with exact sums, as an account counts it where some release was designed for it."""
        return getattr(self.plan, "joint_cost", self.cost)

    @property
    def designed(self):
        """Whether it was designed for an account."""
        return self.cost.shape.exact_sums is not None

    def after(self, before):
        """Return the release itself: what is asked does not hang on what was asked before."""
        return self


def release_of(name, plan, *answers, most=60, quieter=1.0):
    """Return a release of noisy numbers, by the noises that its plan has; `quieter` multiplies their scales.

    `answers` are the exact numbers on every data set, in the order of the plan's columns.
    """
    noises = list(plan.noises.values())
    assert len(noises) == len(answers), (name, noises)
    tables = [
        noisy(noise.at(noise.scale * quieter), answer, most)
        for noise, answer in zip(noises, answers, strict=True)
    ]
    return Release(name, plan, together(tables))


def finite(name, plan, table):
    """Return a release with finitely many outputs: the probability of every output on every data set."""
    return Release(name, plan, merged(np.asarray(table, np.float64)))
