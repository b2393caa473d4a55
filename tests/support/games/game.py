"""A random game: a world, what may be asked of it, an account's limit, and the menu that is made of them."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
import numpy as np

import pufferflow as pf
from games.limits import limit_of, part_of, whole_of
from games.measures import measures_of
from games.player import Player
from games.referee import Referee
from games.world import release_of

BOUNDS = (*[pf.GWM()] * 5, pf.Exact())
"""Bounds that need no search for a transport plan."""
SHARES = (0.02, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Question:
    """A batch and its exact answers on every data set, or how to make a release of a plan."""

    name: str
    batch: Any
    answers: Any
    noises: tuple = (pf.Laplace, pf.Gaussian)
    release: Any = None
    """A function of name and plan, where the answer is not the noisy number itself."""
    options: Any = field(default_factory=dict)
    own: bool = False
    """Whether plans are for the limit's own kind of guarantee only."""


@dataclass(frozen=True, eq=False)
class Game:
    """All that a player needs."""

    scenario: Any
    limit: Any
    world: Any
    menu: list
    referee: Any
    depth: int = 2
    """So many releases at least."""

    def play(self, depth=2, most=6):
        """Return the strategy that comes closest to the limit or beyond, over at most so many pairs of laws."""
        return Player(self.menu, self.referee, max(depth, self.depth)).best_of(
            self.world.pairs[:most], measures_of(self.limit)
        )


class Dealer:
    """Makes releases for a menu: of random questions and sizes, and such that fill up what a first one leaves."""

    def __init__(self, rng, limit, referee, questions, bins=24):
        self.rng, self.limit, self.referee, self.request, self.bins = (
            rng,
            limit,
            referee,
            questions,
            bins,
        )

    def any_of(self, some):
        """Return one of some things."""
        return some[self.rng.integers(len(some))]

    @cache  # noqa: B019 - a dealer lives for one game
    def _whole(self, promise):
        return whole_of(self.limit, promise)

    def release(self, question, noise, share, *, own=False):
        """Return the release of a question with about so large a part of the limit; None if it is refused.

        Its noise is made for a pure loss or for standard deviations, whatever the limit is, or for the limit's `own`
        kind: an account counts what a release may tell, not what it was planned for.
        """
        promise, options = self._promise(noise, share), {"bound": pf.GWM(), **question.options}
        if own or question.own:
            promise, options = (
                part_of(self.limit, share),
                {"bound": self.any_of(BOUNDS), **question.options},
            )
        if noise is None:  # rows one by one
            options = {}
        try:
            plan = question.batch.plan(promise, noise=noise, **options)
        except (pf.Refused, pf.UsageError):
            return None
        name = f"{question.name} {promise!r} {getattr(noise, '__name__', noise)}"
        if question.release is not None:
            return question.release(name, plan)
        return release_of(name, plan, *np.atleast_2d(question.answers), most=self.bins)

    def _promise(self, noise, share):
        if getattr(self.limit, "delta", 0) and self.rng.random() < 0.1:
            return part_of(self.limit, share)
        kind = pf.Gdp if noise is pf.Gaussian else pf.Pure
        return kind(self._whole(kind) * share)

    def random(self, own=0.15):
        """Return a release of a random question and size; None if it is refused."""
        question = self.any_of(self.request)
        own = self.rng.random() < own or None in question.noises
        return self.release(
            question, self.any_of(question.noises), float(self.any_of(SHARES)), own=own
        )

    def filling(self, before, question):
        """Return the least noisy release of a question that an account admits after another, or None.

        The noise of a cost is scaled to find about where that is; then a plan is made.
        """
        noise = self.any_of(question.noises)
        first = self.release(question, noise, 0.5) if noise is not None else None
        if first is None:
            return None
        if question.own:
            return self._searched(before, question, noise)
        low, high = 0.0, 4.0
        for _ in range(12):
            middle = (low + high) / 2
            fits = self.referee.fits((before,), quieter(first.cost, middle))
            low, high = (middle, high) if fits else (low, middle)
        for share in (0.5 * low, 0.499 * low):
            release = self.release(question, noise, share)
            if release is not None and self.referee.admits((before, release)):
                return release
        return None

    def _searched(self, before, question, noise, steps=6):
        """Return the least noisy release by bisection over plans."""
        low, high, found = 0.0, 1.1, None
        for _ in range(steps):
            middle = (low + high) / 2
            release = self.release(question, noise, middle)
            if release is not None and self.referee.admits((before, release)):
                low, found = middle, release
            else:
                high = middle
        return found


def quieter(cost, factor):
    """Return a cost with noise that is so many times less wide."""
    noise = cost.shape.noise
    stored = noise.at(noise.scale / max(factor, 1e-9)).stored()
    return msgspec.structs.replace(
        cost, shape=msgspec.structs.replace(cost.shape, stored_noise=stored)
    )


def game_of(rng, kind, scenario, world, questions, *, size=9, fills=4, reserve=None, referee=None):
    """Return a game: a menu of random parts of the limit, some of which fill up what a first release leaves."""
    limit = limit_of(kind, rng)
    options = {} if reserve is None else {"reserve": reserve(limit)}
    referee = (referee or Referee)(scenario, limit, **options)
    dealer = Dealer(rng, limit, referee, questions)
    drawn = (dealer.random() for _ in range(2 * size))
    menu = [one for one in drawn if one is not None][: size - fills]
    first = [one for one in menu if referee.admits((one,))]
    if first:
        before = dealer.any_of(first)
        places = rng.choice(len(questions), min(fills, len(questions)), replace=False)
        filled = (dealer.filling(before, questions[place]) for place in places)
        menu += [one for one in filled if one is not None]
    return Game(scenario, limit, world, menu, referee)
