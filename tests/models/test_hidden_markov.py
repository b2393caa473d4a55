"""The prior of hidden states: what it refuses, how it is counted in a reference, and how it is stored."""

import numpy as np
import polars as pl
import pytest
from hidden_chains import LEVELS, SHOWS, STAY, scenario_of

import pufferflow as pf

STATE = pf.Derived("home", column="level", domain=LEVELS)
VALUE = pf.Secret("level", domain=LEVELS)
PRIOR = pf.HiddenMarkov(STAY, SHOWS, states=["away", "home"])


def _scenario(secret, prior=PRIOR):
    return pf.Scenario(secret, prior, order_by="hour")


def test_it_says_what_is_hidden_and_comes_back_from_json():
    """With names, with a period, with matrices that never repeat, and with numbers for names."""
    priors = [
        PRIOR,
        pf.HiddenMarkov([STAY, STAY], SHOWS, period=2),
        pf.HiddenMarkov([STAY, STAY], SHOWS, "free"),
        pf.HiddenMarkov(STAY, SHOWS, [0.25, 0.75]),
    ]
    for prior in priors:
        scenario = _scenario(STATE, prior)
        assert pf.Scenario.from_json(scenario.to_json()) == scenario
    assert "'away' or 'home'" in PRIOR.describe()
    assert len({_scenario(STATE, prior).fingerprint for prior in priors}) == len(priors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((STAY, [[0.5, 0.5]]), r"emission has shape \(1, 2\)"),
        ((STAY, [[0.5], [0.5]]), "emission has shape"),
        ((STAY, [[0.5, 0.4], [0.5, 0.5]]), "Row 0 of emission has sum 0.9"),
        ((STAY, [[1.5, -0.5], [0.5, 0.5]]), "not a number from 0 to 1"),
        ((STAY, [[0.5, "x"], [0.5, 0.5]]), "not made of numbers"),
        ((STAY, [[0.5, 0.5], [1.0]]), "not made of numbers, or its rows"),
        ((STAY, [[np.nan, 0.5], [0.5, 0.5]]), "not a number from 0 to 1"),
        (([[0.5, 0.4], [0.5, 0.5]], SHOWS), "Row 0 of transition has sum"),
        ((STAY, SHOWS, "stationry"), "initial is 'stationry'"),
        ((STAY, SHOWS, [0.5, 0.4]), "initial is not a list of probabilities"),
        ((STAY, SHOWS, "stationary", None, ["away"]), "states has 1 name,"),
        ((STAY, SHOWS, "stationary", None, ["a", "b", "c"]), "states has 3 names"),
        (([STAY, STAY], SHOWS), "no stationary law"),
    ],
)
def test_wrong_laws_are_refused(arguments, message):
    """Each with its reason, before any data are read."""
    with pytest.raises((pf.UsageError, pf.Refused), match=message):
        pf.HiddenMarkov(*arguments)


def test_what_is_too_large_is_refused():
    """More than 30 hidden states, or 256 values."""
    with pytest.raises(pf.Refused, match="31 hidden states"):
        pf.HiddenMarkov(np.full((31, 31), 1 / 31), np.full((31, 2), 0.5))
    with pytest.raises(pf.Refused, match="257 values"):
        pf.HiddenMarkov(STAY, np.full((2, 257), 1 / 257))


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (pf.Initial("level", domain=LEVELS), "does not work with the secret pf.Initial"),
        (pf.Presence("meter", "level", LEVELS), "does not work with the secret pf.Presence"),
        (pf.Derived("home"), "names no column"),
        (pf.Derived("level", column="level", domain=LEVELS), "hidden state as a column"),
        (pf.Derived("home", column="level", domain=[0, 1, 2]), "4 entries, and the domain 3"),
        (pf.Secret("level", domain=pf.Interval(0, 3)), "all points of an interval"),
        (pf.Derived("home", ["away", "hom"], column="level", domain=LEVELS), "never produces"),
    ],
)
def test_secrets_without_a_law_are_refused(secret, message):
    """Rows have no first state that is known, and all are there."""
    with pytest.raises(pf.UsageError, match=message):
        _scenario(secret)


def test_what_can_never_be_is_no_secret():
    """A symbol that no state shows is refused as a value; a state that never is has no pair with others."""
    never_shown = pf.HiddenMarkov(STAY, [[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]])
    with pytest.raises(pf.UsageError, match="gives x = 2 no probability"):
        scenario_of(never_shown, [0, 1, 2], hidden=False, start=0)
    assert scenario_of(never_shown, [0, 1, 2], hidden=True, start=0)
    kernel = [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.5, 0.5]]
    shows = [[0.8, 0.2], [0.3, 0.7], [0.0, 1.0]]
    gone = scenario_of(pf.HiddenMarkov(kernel, shows), [0, 1], hidden=True)
    pairs = {pair.secrets for pair in pf.laws(gone, pf.Statistic.total(2))}
    assert pairs == {(0, 1)}
    with pytest.raises(pf.UsageError, match="never produces s = 2"):
        pf.Scenario(
            pf.Derived("s", [0, 2], column="x", domain=[0, 1]), gone.priors[0], order_by="t"
        )


def test_the_hidden_state_itself_cannot_be_released():
    """It is no column of the data; a query that reads one of this name is refused."""
    frame = pl.DataFrame({"hour": [0, 1], "home": ["away", "home"], "level": [0, 3]})
    with pytest.raises(pf.PufferflowError):
        pf.protect(frame, _scenario(STATE)).private_count(pl.col("home") == "home").plan(pf.Pure(1))


def test_pairs_and_tuples_and_missing_values():
    """Some pairs of states only; several columns as symbols; a symbol for missing values."""
    some = pf.Derived("s", ["a", "b", "c"], [("a", "b")], column="x", domain=[0, 1])
    kernel = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    prior = pf.HiddenMarkov(kernel, [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]], states=["a", "b", "c"])
    few, every = (
        pf.loss(pf.laws(scenario, pf.Statistic.total(5)), pf.Laplace(1.0), pf.Pure)
        for scenario in (
            pf.Scenario(some, prior, order_by="t"),
            pf.Scenario(pf.Derived("s", column="x", domain=[0, 1]), prior, order_by="t"),
        )
    )
    assert few < every
    columns = pf.Derived("s", column=["x", "y"], domain=[[0, 1], [0, 1]])
    two = pf.HiddenMarkov(STAY, [[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    frame = pl.DataFrame({"t": [0, 1], "x": [0, 1], "y": [1, 1]})
    plan = pf.protect(frame, pf.Scenario(columns, two, order_by="t")).private_sum("y")
    assert plan.plan(pf.Pure(1)).noises["y_sum"].scale > 0
    skipped = pf.Derived("s", column="x", domain=[0, 1], missing="skip")
    lost = pf.HiddenMarkov(STAY, [[0.5, 0.3, 0.2], [0.2, 0.7, 0.1]])
    frame = pl.DataFrame({"t": [0, 1], "x": [0, None]})
    plan = pf.protect(frame, pf.Scenario(skipped, lost, order_by="t")).private_sum("x")
    assert plan.plan(pf.Pure(1)).noises["x_sum"].scale > 0


def _drawn(rows=4000, sticky=0.0):
    """Return a table that was drawn from a hidden chain; `sticky` rows repeat the level before them."""
    rng = np.random.default_rng(4)
    states, levels = [0], [0]
    for _ in range(rows):
        states.append(int(rng.random() < STAY[states[-1]][1]))
        fresh = int(rng.choice(4, p=SHOWS[states[-1]]))
        levels.append(levels[-1] if rng.random() < sticky else fresh)
    home = [["away", "home"][state] for state in states]
    return pl.DataFrame({"hour": range(rows + 1), "home": home, "level": levels})


def test_a_fit_finds_the_laws_that_a_reference_was_drawn_from():
    """Transitions and emissions to a few hundredths, without a note."""
    fitted = pf.HiddenMarkov.fit(pf.Reference("drawn", _drawn()), "level", "home", "hour")
    assert fitted.states == ("away", "home")
    assert np.abs(np.array(fitted.transition[0]) - STAY).max() < 0.05
    assert np.abs(np.array(fitted.emission) - SHOWS).max() < 0.05
    assert not [note for note in fitted.provenance.notes if "more than its state" in note]
    scenario = _scenario(STATE, fitted)
    assert pf.Scenario.from_json(scenario.to_json()) == scenario
    assert "drawn" in scenario.describe()


def test_counts_have_half_a_draw_more():
    """As in other fits; a state without rows shows anything."""
    rows = pl.DataFrame({"t": range(4), "s": [0, 0, 1, 1], "x": ["a", "b", "b", None]})
    fitted = pf.HiddenMarkov.fit(
        pf.Reference("four", rows), "x", "s", "t", states=[0, 1, 2], domain=["a", "b"]
    )
    assert np.array(fitted.emission) == pytest.approx(
        np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    )
    assert any("rows reveal what 3 of 3 states show" in note for note in fitted.provenance.notes)


def test_values_that_depend_on_each_other_beyond_their_states_are_noted():
    """Levels that linger break the prior; the note says by how much."""
    fitted = pf.HiddenMarkov.fit(
        pf.Reference("sticky", _drawn(sticky=0.5)), "level", "home", "hour"
    )
    assert any("depends on more than its state" in note for note in fitted.provenance.notes)


def test_states_of_a_fit_are_those_of_the_column():
    """One state, a misspelt one and a misspelt column are refused with the names that the reference has."""
    given = pf.Reference("r", _drawn(40))
    with pytest.raises(pf.UsageError, match=r"states has 1 of.*\n.*\n.*states=\['away', 'home'\]"):
        pf.HiddenMarkov.fit(given, "level", "home", "hour", states=["away"])
    with pytest.raises(pf.UsageError, match=r"'awai' has no row in 'home'\. Did you mean 'away'"):
        pf.HiddenMarkov.fit(given, "level", "home", "hour", states=["awai", "home"])
    with pytest.raises(pf.UsageError, match=r"no column 'levl'\. Did you mean 'level'"):
        pf.HiddenMarkov.fit(given, "levl", "home", "hour")


@pytest.mark.parametrize("period", [42, 10**6, 10**30])
def test_a_period_longer_than_the_reference_is_refused_at_once(period):
    """Some of its phases have no row; the same for a chain whose states are shown."""
    given = pf.Reference("r", _drawn(40))
    with pytest.raises(pf.UsageError, match="and the reference has 41 rows"):
        pf.HiddenMarkov.fit(given, "level", "home", "hour", period=period)
    with pytest.raises(pf.UsageError, match="and the reference has 41 rows"):
        pf.MarkovChain.fit(given, "home", "hour", period=period)


@pytest.mark.parametrize(
    "arguments",
    [
        (STAY, SHOWS, "stationary", 24),
        ([[0.9, 0.2], [0.2, 0.8]], SHOWS),
        ([0.9], SHOWS),
        ([STAY, STAY], SHOWS),
    ],
)
def test_errors_of_the_hidden_chain_advise_this_prior(arguments):
    """What is to be typed instead is a hidden chain."""
    with pytest.raises((pf.UsageError, pf.Refused)) as refused:
        pf.HiddenMarkov(*arguments)
    assert refused.value.instead.startswith("pf.HiddenMarkov(emission=")
    assert "MarkovChain" not in str(refused.value)


def test_numbers_of_32_bits_are_refused_with_what_mends_them():
    """Their sums are off by 1e-8; the advice makes them pass."""
    law = np.array([[0.1, 0.7, 0.2], [0.9, 0.05, 0.05]], dtype=np.float32)
    square = np.array([[0.9, 0.1], [0.7, 0.3]], dtype=np.float32)
    for arguments in [(STAY, law), (square, law / law)]:
        with pytest.raises(pf.UsageError, match="a cast to float64, then"):
            pf.HiddenMarkov(*arguments)
    rows = law.astype(np.float64)
    assert pf.HiddenMarkov(STAY, rows / rows.sum(axis=-1, keepdims=True)).row_values == 3


def test_a_state_for_missing_values_is_a_column_of_the_emission():
    """Three values and missing ones: three columns are refused in these words, and four plan and release."""
    secret = pf.Secret("x", [0, 1, 2], missing="skip")
    stay, shows = [[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.2, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1]]
    three = pf.HiddenMarkov(stay, [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    with pytest.raises(
        pf.UsageError, match=r"the last of which is the state for missing(.|\n)*last column"
    ):
        pf.Scenario(secret, three, order_by="t")
    table = pl.DataFrame({"t": range(4), "x": [0, None, 2, 1]})
    scenario = pf.Scenario(secret, pf.HiddenMarkov(stay, shows), order_by="t")
    plan = pf.protect(table, scenario).private_sum("x").plan(pf.Pure(1e4))
    assert plan.release().frame["x_sum"][0] == pytest.approx(3, abs=0.1)


def test_fits_that_prove_nothing_are_refused():
    """No column for the state, the same column for both, and the private rows themselves."""
    table = _drawn(40)
    with pytest.raises(pf.Refused, match="several hidden chains may fit it equally well"):
        pf.HiddenMarkov.fit(pf.Reference("r", table), "level", None, "hour")
    with pytest.raises(pf.UsageError, match="both the hidden state and what it shows"):
        pf.HiddenMarkov.fit(pf.Reference("r", table), "level", "level", "hour")
    fitted = pf.HiddenMarkov.fit(pf.Reference("r", table), "level", "home", "hour", domain=LEVELS)
    with pytest.raises(pf.PufferflowError, match="fitted on"):
        pf.protect(table, _scenario(STATE, fitted))
