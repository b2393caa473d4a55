"""Releases along one timeline: what all of them tell of every step, and the chain that the steps are of (M20)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from pufferflow.arrays import Flags, Indices
from pufferflow.chains import Chain, Chains, Exposures, Secrets, Window, exposures_of
from pufferflow.composition.cost import Cost, Shape
from pufferflow.errors import InternalError
from pufferflow.inference import value_places
from pufferflow.scenario import AnySecret, Initial, Scenario, Secret
from pufferflow.scenario.priors import ChainsBetween, MarkovChain

ChainPrior = MarkovChain | ChainsBetween


@final
@dataclass(frozen=True, eq=False)
class Timeline:
    """The costs of releases about rows of one sequence, each with a window of steps.

    Whoever the group is, the steps asked about are among those of the windows: messages grow with exposures, so what
    holds of them holds of every group (M20). `first` is the first step of the sequence that matters.
    """

    scenario: Scenario
    prior: ChainPrior
    costs: Sequence[Cost]
    seen: tuple[int, int] | None = None
    """The first and the last step of all rows that any release has seen, if that is more."""

    @staticmethod
    def fits(scenario: Scenario, prior: object, costs: Sequence[Cost]) -> bool:
        """Say whether all costs lie along one chain, with losses that are known step by step."""
        if not isinstance(prior, ChainPrior) or not isinstance(scenario.secret, Secret | Initial) or not costs:
            return False
        shapes = {id(one.shape): one.shape for one in costs}.values()
        placed = all(shape.rows and shape.rows.runs is not None for shape in shapes)
        known = (
            placed
            and all(shape.values is not None for shape in shapes)
            and None not in {one.steps_seen for one in costs}
        )
        starts, clocks = {one.start for one in costs}, {one.clock for one in costs}
        return known and len(starts) == len(clocks) == 1 and (None not in starts or prior.repeats is not None)

    @property
    def start(self) -> float | None:
        """Where all sequences began, if that is known."""
        return self.costs[0].start

    @cached_property
    def steps_seen(self) -> tuple[int, int]:
        """The first and the last step at which a group has a row."""
        hulls = [cost.steps_seen for cost in self.costs] + ([] if self.seen is None else [self.seen])
        ends = np.array(hulls, dtype=np.int64)
        first = int(ends[:, 0].min())
        if isinstance(self.scenario.secret, Initial) and self.start is not None:
            first = int(self.start)  # the row that the secret is about
        return first, int(ends[:, 1].max())

    def secrets(self, first: int, steps: int) -> Secrets:
        """Return which two states of which rows must look alike."""
        secret = self.scenario.secret
        rows = np.arange(first, first + steps) == self.start if isinstance(secret, Initial) else None
        return secrets_of(secret, rows)

    def turn(self) -> tuple[Chain | Chains, int]:
        """Return one turn of the chain's kernels, and its first step: the steps_seen's, or one a little before."""
        _, base = self.chain(self.steps_seen[0], self.steps_seen[0])
        period = self.prior.period or 1
        chain, first = self.chain(base, base + period)
        if first != base or len(chain.order) != period:
            raise InternalError("A turn of a chain has too many steps.", instead="reporting it, with the prior")
        return chain, base

    def chain(self, first: int, last: int) -> tuple[Chain | Chains, int]:
        """Return the chain along all steps up to the last, and the first step that it has."""
        steps = np.arange(first, last + 1, dtype=np.float64)
        begin = float(first) if self.start is None else self.start
        if isinstance(self.prior, MarkovChain):
            return self.prior.chain(steps, begin), first
        return self.prior.chains(steps, begin)

    def exposures(self, first: int, last: int) -> Exposures:
        """Return what all windows together tell at most of every step."""
        return exposed(self.costs, (first, last))[1]


def secrets_of(secret: AnySecret, rows: Flags | None = None) -> Secrets:
    """Return which two states must look alike, both ways round."""
    if not isinstance(secret, Secret | Initial):
        raise InternalError("A chain was asked about a secret that is no row's.", instead="reporting it")
    pairs = value_places(secret, secret.domain)
    return Secrets(np.concatenate([pairs, pairs[:, ::-1]]), rows)


def exposed(costs: Sequence[Cost], steps_seen: tuple[int, int] | None = None) -> tuple[int, Exposures]:
    """Return the first step, and what the windows of all costs tell at most of every step from there on."""
    shapes: dict[int, int] = {}
    windows = list[Window]()
    which = np.empty(len(costs), dtype=np.intp)
    for place, cost in enumerate(costs):
        which[place] = shapes.setdefault(id(cost.shape), len(windows))
        if which[place] == len(windows):
            spans = dict.fromkeys((low, high) for low, high, _ in runs_of(cost.shape))
            windows.append(Window(cost.shape.exposure, tuple(spans)))
    starts: Indices = np.fromiter((cost.offset for cost in costs), dtype=np.int64, count=len(costs))
    return exposures_of(windows, which, starts, steps_seen)


def window_of(cost: Cost) -> tuple[float, float]:
    """Return where the first step that a release asks about is, and where the last one ends; nowhere if none."""
    low, high = cost.shape.window
    return low + cost.offset, high + cost.offset


def runs_of(shape: Shape) -> tuple[tuple[int, int, int], ...]:
    """Return the stretches of steps that a release asks about, with their cells."""
    return () if shape.rows is None or shape.rows.runs is None else shape.rows.runs
