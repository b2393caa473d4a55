"""Random games of every rule and kind of limit: no adaptive strategy reveals more than the limit of its account."""

import os
import time
from pathlib import Path

import pytest
from games.player import Player
from games.report import RULES, play, table
from thinned import thinned

MOST = 1 + 1e-8
CELLS = [(rule, kind) for rule, (_, kinds) in RULES.items() for kind in kinds]
LONG = [pytest.param(0.5, marks=pytest.mark.slow), pytest.param(30.0, marks=pytest.mark.nightly)]
"""Seconds for each rule and kind, where tests may take minutes; one game at least is played."""


def told(played, depth=2):
    """Return what a strategy does, for a failing test."""
    game, found = played.game, played.found
    paths = Player(game.menu, game.referee, max(depth, game.depth)).choices(
        found.pair, found.measure
    )
    return f"seed {played.seed}, {game.limit!r}: {found!r}, {list(paths.items())[:4]}"


@pytest.mark.parametrize(("rule", "kind"), thinned(CELLS[::5], 0.2, unpack=True))
def test_no_strategy_tells_more_than_the_limit(rule, kind):
    """A few games with seeds that do not change."""
    for seed in (0,):
        played = play(rule, kind, seed)
        assert played is None or played.found.ratio <= MOST, told(played)


def seeds(first, seconds):
    """Yield seeds as long as there is time, one at least."""
    end = time.monotonic() + seconds
    yield first
    while time.monotonic() < end:
        first += 1
        yield first


@pytest.mark.parametrize("seconds", LONG)
@pytest.mark.parametrize(("rule", "kind"), CELLS)
def test_no_strategy_of_many_games_tells_more_than_the_limit(rule, kind, seconds, seed_of_run):
    """As many games as there is time for."""
    for one in seeds(seed_of_run + 1, seconds):
        played = play(rule, kind, one)
        assert played is None or played.found.ratio <= MOST, told(played)


@pytest.mark.parametrize("seconds", LONG)
@pytest.mark.parametrize(("rule", "kind"), CELLS[::5])
def test_three_releases_tell_no_more_than_the_limit(rule, kind, seconds, seed_of_run):
    """One release more, for fewer games."""
    for one in seeds(seed_of_run + 500, seconds):
        played = play(rule, kind, one, depth=3)
        assert played is None or played.found.ratio <= MOST, told(played, depth=3)


@pytest.mark.slow
def test_the_table_of_games_has_a_row_for_every_rule(tmp_path):
    """The numbers of games and the largest parts of limits; in the file that PUFFERFLOW_GAMES names, if it does."""
    path = Path(os.environ.get("PUFFERFLOW_GAMES", tmp_path / "games.md"))
    path.write_text("\n".join(table(10.0)), encoding="utf-8")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2 + len(RULES)
