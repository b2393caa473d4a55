"""What a chain fails to reproduce of its reference is found, and a chain that fits raises no alarm."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from thinned import nightly, thinned

from pufferflow.models.domain import Bins
from pufferflow.models.fitting.markov import diagnose, fit_chain
from pufferflow.models.fitting.sequences import read_sequences
from pufferflow.models.reference import Reference

CHAINS = {
    "a chain that stays": 0.9 * np.eye(3) + 0.1 / 3,
    "a chain that turns back": np.array([[0.05, 0.95], [0.9, 0.1]]),
    "a chain that goes round": np.array(
        [[0.02, 0.97, 0.01], [0.01, 0.02, 0.97], [0.97, 0.01, 0.02]]
    ),
    "rare states": np.array([[0.9995, 0.0005], [0.2, 0.8]]),
    "rare bursts": np.array([[0.999, 0.0005, 0.0005], [0.05, 0.05, 0.9], [0.05, 0.9, 0.05]]),
    "a slow chain": np.array([[0.995, 0.005], [0.005, 0.995]]),
}


def simulated(kernels, rows, sequences=1, seed=0, start=None):
    """States of sequences side by side, from kernels that take turns."""
    rng, kernels = np.random.default_rng(seed), np.atleast_3d(np.array(kernels, ndmin=3))
    steps, states = kernels.cumsum(axis=2), kernels.shape[1]
    state = rng.integers(states, size=sequences) if start is None else np.full(sequences, start)
    found = np.empty((sequences, rows), dtype=int)
    for t in range(rows):
        found[:, t] = state
        state = np.minimum(
            (rng.random((sequences, 1)) > steps[t % len(steps)][state]).sum(axis=1), states - 1
        )
    return found


def table(states):
    """States as a reference, hour by hour."""
    units, rows = states.shape
    return pl.DataFrame(
        {
            "unit": np.repeat(np.arange(units), rows),
            "hour": np.tile(np.arange(rows), units),
            "state": states.ravel(),
        }
    )


def fit(frame, **options):
    return fit_chain(Reference("a study", frame), "state", "hour", "unit", **options)


def day(rows, seed=0, states=3):
    """Hours of days: the law of the state depends on the hour and on the state before."""
    rng = np.random.default_rng(99)
    return simulated(rng.dirichlet(np.full(states, 0.7), (24, states)), rows, seed=seed)


@pytest.mark.parametrize("chain", thinned(CHAINS, 0.25))
@pytest.mark.parametrize(("rows", "sequences", "start"), [(3000, 1, None), (30, 300, 0)])
def test_a_chain_raises_no_alarm(chain, rows, sequences, start):
    """A reference that is a chain has no misses and no second step: long, or in many short pieces from one state."""
    for seed in range(4):
        frame = table(simulated(CHAINS[chain], rows, sequences, seed, start))
        fitted = fit(frame, domain=list(range(len(CHAINS[chain]))))
        assert fitted.diagnosis.misses == (), fitted.diagnosis.text
        assert not fitted.second_step.present


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    ("rows", "sequences"),
    nightly([(300, 1), (30_000, 1), (400, 20), (30, 500)], but=0.5, unpack=True),
)
def test_alarms_are_rare(chain, rows, sequences):
    """In 20 references there is at most one alarm."""
    alarms = 0
    for seed in range(20):
        frame = table(simulated(CHAINS[chain], rows, sequences, seed))
        fitted = fit(frame, domain=list(range(len(CHAINS[chain]))))
        alarms += bool(fitted.diagnosis.misses) or fitted.second_step.present
    assert alarms <= 1


def test_a_daily_cycle_is_reported_and_a_period_mends_it():
    """A one-step chain is told to try the period; with it there is nothing left to report."""
    frame = table(day(24 * 200))
    plain = fit(frame).diagnosis
    assert 24 in plain.misses
    assert "a one-step chain misses a cycle: at lag 24 " in plain.text
    assert "; try period=24 " in plain.text
    assert plain.text in fit(frame).provenance.notes
    assert fit(frame, period=12).diagnosis.text.startswith(
        "a chain of period 12 misses a cycle: at lag 24 "
    )
    periodic = fit(frame, period=24)
    assert periodic.diagnosis.misses == ()
    assert periodic.diagnosis.text.startswith(
        "a chain of period 24 reproduces the autocorrelation at lags 1 to 336"
    )
    assert periodic.diagnosis.text not in periodic.provenance.notes


def test_a_cycle_of_labels_is_reported():
    """Labels have no numbers: the correlation of their indicators shows the cycle, whatever they are called."""
    names = np.array(["out", "in", "asleep"])
    diagnosis = fit(table(names[day(24 * 200)])).diagnosis
    other = fit(table(names[[1, 2, 0]][day(24 * 200)])).diagnosis
    assert "try period=24" in diagnosis.text
    assert (diagnosis.text, diagnosis.misses) == (other.text, other.misses)
    assert diagnosis.observed == pytest.approx(other.observed)


def test_a_cycle_shows_through_gaps():
    """A tenth of the hours is missing, and a month: the cycle is found by position, not by row."""
    rng = np.random.default_rng(5)
    frame = table(day(24 * 200)).filter(
        pl.Series(rng.random(24 * 200) < 0.9), ~pl.col("hour").is_between(999, 1700)
    )
    moment = pl.lit(dt.datetime(2024, 1, 1)) + pl.duration(hours="hour")  # noqa: DTZ001
    frame = frame.with_columns(moment.alias("moment")).sample(fraction=1, shuffle=True, seed=1)
    fitted = fit_chain(Reference("r", frame), "state", "moment", "unit", step="1h")
    assert "try period=24" in fitted.diagnosis.text


def test_lasting_levels_are_reported():
    """Half of the sequences are often on and half seldom: correlation stays above the chain's at all lags."""
    states = np.vstack(
        [simulated([[0.3, 0.7]] * 2, 500, 6, 1), simulated([[0.7, 0.3]] * 2, 500, 6, 2)]
    )
    fitted = fit(table(states))
    assert fitted.diagnosis.text.startswith(
        "a one-step chain misses lasting differences of level: "
    )


def test_a_second_step_is_reported():
    """The next state is the one before the last, often: found, with about the size it has."""
    rng, states = np.random.default_rng(1), [0, 1]
    for uniform in rng.random(5000):
        states.append(states[-2] if uniform < 0.3 else int(rng.random() < 0.5))
    fitted = fit(table(np.array([states])))
    assert fitted.second_step.chance < 1e-9
    assert fitted.second_step.effect == pytest.approx(0.15, abs=0.02)
    assert any(
        note.startswith("the next state depends on more than the last one; ")
        for note in fitted.provenance.notes
    )
    assert 2 in fitted.diagnosis.misses


def test_counting_noise_is_no_second_step():
    """Few rows and many states: what counting alone makes of the difference is taken off."""
    frame = table(np.random.default_rng(2).integers(6, size=(1, 1500)))
    assert abs(fit(frame).second_step.effect) < 0.02


def test_figures_are_those_of_the_definition():
    """Observed correlations are means over the pairs of rows that have values; implied ones are the chain's own."""
    states = simulated(CHAINS["a chain that stays"], 2000, 1, 3)[0].astype(float)
    states[np.random.default_rng(0).random(2000) < 0.2] = np.nan
    frame = table(states[None]).with_columns(pl.col("state").fill_nan(None))
    fitted = fit(frame)
    numbers = states - np.nanmean(states)
    observed = [np.nanmean(numbers[lag:] * numbers[:-lag]) for lag in fitted.diagnosis.lags]
    assert np.allclose(
        fitted.diagnosis.observed, np.array(observed) / np.nanmean(numbers**2), atol=1e-12
    )
    seen = np.bincount(states[~np.isnan(states)].astype(int)) / (~np.isnan(states)).sum()
    values = np.arange(3) - seen @ np.arange(3)
    implied = [
        (seen * values) @ np.linalg.matrix_power(fitted.transitions[0], lag) @ values
        for lag in fitted.diagnosis.lags
    ]
    assert np.allclose(fitted.diagnosis.implied, np.array(implied) / (seen @ values**2), atol=0.01)


def test_a_periodic_chain_implies_its_cycle():
    """The implied correlation of a chain with a period is what long simulation of it gives."""
    kernels = np.random.default_rng(1).dirichlet(np.full(3, 0.3), (4, 3))
    frame = table(simulated(kernels, 20_000))
    sequences = read_sequences(frame, "state", "hour", ["unit"], period=4)
    diagnosis = diagnose(sequences, kernels)
    assert np.allclose(diagnosis.observed[:20], diagnosis.implied[:20], atol=0.03)
    assert max(np.abs(diagnosis.implied[:20])) > 0.2
    assert diagnosis.misses == ()
    assert diagnose(sequences, np.roll(kernels, 1, axis=0)).misses != ()


def test_too_little_is_said_to_be_too_little():
    """Where nothing can be told a note says so, and nothing is reported as a miss."""
    for states in ([[0, 1, 1, 0]], [[0, 1] * 30], [[0] * 400 + [1] * 2 + [0] * 400]):
        fitted = fit(table(np.array(states)), domain=[0, 1])
        assert not fitted.diagnosis.conclusive
        assert fitted.diagnosis.misses == ()
        assert fitted.diagnosis.text in fitted.provenance.notes


def household(tables, **options):
    frame = pl.read_parquet(tables / "household_power_hourly.parquet")
    domain = Bins([0.34, 0.8, 1.58], values=[0, 1, 2, 3])
    return fit_chain(
        Reference("a house", frame), "active_power_kw", "time", domain=domain, step="1h", **options
    )


def test_the_household_has_a_daily_cycle(tables):
    """Four years of hourly power in four classes: a one-step chain forgets the day, and is reported."""
    fitted = household(tables)
    assert fitted.provenance.rows == 34_589
    assert fitted.provenance.notes[0] == "504 rows without a value break their sequences"
    text = fitted.diagnosis.text
    assert text.startswith(
        "a one-step chain misses a cycle: at lag 24 the reference has autocorrelation 0.48, the chain 0.0"
    )
    assert "try period=24" in text
    assert fitted.second_step.present


def test_a_daily_period_leaves_the_seasons(tables):
    """With 24 kernels the worst miss is halved; seasons and a weaker weekly cycle remain, and are reported."""
    plain, daily = (household(tables, period=period).diagnosis for period in (1, 24))
    worst = [np.abs(np.subtract(found.observed, found.implied)).max() for found in (plain, daily)]
    assert worst[1] < worst[0] / 2
    assert daily.text.startswith("a chain of period 24 misses lasting differences of level: ")
    assert "a weaker cycle returns after 168 steps" in daily.text
