"""Plays random games of every rule and kind of limit for so many seconds, and prints what they came to.

PYTHONPATH=tests/support python -m games.report 600 table.md
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pufferflow as pf
from games import cells, mixtures
from games.limits import KINDS

_DELTA = ("approx", "tv", "tradeoff")
RULES = {
    "any correlation": (cells.additive, KINDS),
    "independent rows": (cells.independent, KINDS),
    "presence": (cells.present, KINDS),
    "discovered keys": (cells.keys, ("approx", "approx renyi")),
    "chain": (cells.chain, KINDS),
    "hidden chain": (cells.hidden, KINDS),
    "table": (cells.tables, KINDS),
    "independent parts": (cells.parts, ("renyi", "approx renyi")),
    "tables near": (cells.near, KINDS),
    "latent class": (cells.star, KINDS),
    "population": (cells.population, KINDS),
    "gaussian classes": (mixtures.classes, ("renyi", "approx renyi")),
    "classes, thresholds": (mixtures.thresholds, ("pure", "renyi", "approx renyi")),
    "sequence": (mixtures.sequences, KINDS),
    "row by row": (cells.local, KINDS),
    "designed": (cells.budgets, _DELTA),
    "reserved": (cells.reserving, _DELTA),
    "compose": (cells.composing, KINDS),
    "staircases": (cells.staircases, _DELTA),
}
"""Where random games come from, and the kinds of limit that make sense there."""


@dataclass(frozen=True, eq=False)
class Played:
    """A game that was played, and the best strategy that was found."""

    seed: int
    game: Any
    found: Any


def play(rule, kind, seed, depth=2):
    """Play one random game; None if nothing can be asked, or the account cannot be opened."""
    deal, _ = RULES[rule]
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    try:
        game = deal(rng, kind)
    except (pf.Refused, pf.LimitReached):
        return None
    return Played(seed, game, game.play(depth)) if game.menu else None


def table(seconds, depth=2, first=1000):
    """Return lines of a table: for each rule and kind how many games were played, and the largest part of a limit."""
    listed = [(rule, kind) for rule, (_, kinds) in RULES.items() for kind in kinds]
    played = {one: [] for one in listed}
    end, seed = time.monotonic() + seconds, first
    while time.monotonic() < end:
        for rule, kind in listed:
            result = play(rule, kind, seed, depth)
            played[rule, kind] += [] if result is None else [result]
            if time.monotonic() > end:
                break
        seed += 1
    lines = ["| rule | " + " | ".join(KINDS) + " |", "| --- " * (1 + len(KINDS)) + "|"]
    return lines + [
        f"| {rule} | " + " | ".join(_told(played.get((rule, kind))) for kind in KINDS) + " |"
        for rule in RULES
    ]


def _told(results):
    if not results:
        return "–"
    worst = max(results, key=lambda one: one.found.ratio)
    return f"{len(results)}: {worst.found.ratio:.4f} (seed {worst.seed})"


if __name__ == "__main__":
    text = "\n".join(table(float(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 2)) + "\n"
    Path(sys.argv[2]).write_text(text, encoding="utf-8")
    sys.stdout.write(text)
