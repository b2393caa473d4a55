"""An attack with few draws says that they were too few, not that the guarantee holds."""

import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned
from typer.testing import CliRunner

import pufferflow as pf
from pufferflow.audit.event_losses import WORSE, draws_needed, of_events
from pufferflow.cli.app import app
from pufferflow.jobs import starter

SCENARIO = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
PROMISES = [
    pf.Pure(0.5),
    pf.Pure(1.0),
    pf.Approx(1.0, 1e-6),
    pf.Renyi(4, 1.0),
    pf.Zcdp(0.5),
    pf.Gdp(1.0),
    pf.Tv(0.3),
]


def attacked(promise, trials, noise=1.0):
    plan = (
        pf.protect(pl.DataFrame({"level": [0, 3, 2]}), SCENARIO).private_sum("level").plan(promise)
    )
    if noise == 1.0:
        return pf.audit.attack(plan, trials=trials, rng=np.random.default_rng(1))
    own = plan.noises["level_sum"]
    pair = pf.Law.point(0), pf.Law.point(3)
    quieter = own.at(own.scale * noise)
    return pf.audit.attack(
        quieter, [pair], promise=promise, trials=trials, rng=np.random.default_rng(1)
    )


@pytest.mark.parametrize("promise", thinned(PROMISES, 0.1), ids=repr)
def test_few_draws_tell_nothing_and_many_do(promise):
    """With 300 trials nothing is said of the guarantee; with 40,000 it holds, and half of the noise breaks it."""
    few, many = attacked(promise, 300), attacked(promise, 40_000)
    assert (few.holds, few.broken) == (None, False)
    assert few.needed > 300
    assert "too few trials" in repr(few)
    assert (many.holds, many.broken) == (True, False)
    assert many.needed <= 40_000
    assert attacked(promise, 40_000, noise=0.5).holds is False


def test_without_a_promise_there_is_no_verdict():
    """A lower bound alone neither holds nor is broken."""
    found = pf.audit.attack(pf.Laplace(1.0), [(pf.Law.point(0), pf.Law.point(1))], trials=1_000)
    assert (found.holds, found.broken, found.needed) == (None, False, 0)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_so_many_draws_show_a_breach_more_often_than_not(epsilon):
    """Counts of an event at the loss that has to be seen are above the guarantee in most experiments."""
    target, error, p = pf.Pure(epsilon), 0.01, 0.5
    q = p * math.exp(-WORSE * epsilon)
    assert of_events(target, np.array([p]), np.array([q])).item() == pytest.approx(WORSE * epsilon)
    draws = int(draws_needed(target, [p], error))
    assert shown(target, draws, (p, q), error) > 0.6
    assert shown(target, draws // 4, (p, q), error) < 0.4


def shown(target, draws, shares, error):
    """Return in how many of many experiments, always the same ones, a breach is shown."""
    from pufferflow.audit.event_losses import at_least, at_most

    rng = np.random.default_rng(7)
    counts = [rng.binomial(draws, share, 400) for share in shares]
    bounds = at_least(counts[0], draws, error / 2), at_most(counts[1], draws, error / 2)
    return float((of_events(target, *bounds) > target.loss).mean())


def test_events_that_cannot_show_a_breach_are_never_enough():
    """Of an event that hardly happens, under a guarantee with a larger δ, no number of draws tells anything."""
    assert draws_needed(pf.Approx(1.0, 0.01), [0.005], 0.01) == math.inf
    assert draws_needed(pf.Approx(1.0, 0.01), [0.005, 0.4], 0.01) < math.inf


@pytest.mark.slow
def test_the_command_says_too_few_trials(tmp_path, monkeypatch):
    """The verdict, a note with what to try, null for programs, and an exit code that is not that of success."""
    monkeypatch.chdir(tmp_path)
    starter.write(tmp_path)
    given = ["audit", "job.toml", "--period", "2026-10-20", "--trials", "100"]
    told = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
    assert told.exit_code == 2
    assert "too few trials: about" in told.stdout
    assert "holds against" not in told.stdout
    assert "Too few trials: use --trials " in told.stderr
    document = CliRunner().invoke(app, [*given, "--json"]).stdout
    assert '"holds": null' in document
