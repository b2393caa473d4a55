"""`pufferflow run` says on stderr, before anything is spent, which numbers say nothing."""

import warnings

import pytest

import pufferflow as pf

DAY = "2026-11-20"
MEAN = """
def build(frame, period):
    return pf.protect(frame.head(1), scenario).private_mean("on")
"""


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_run_warns_of_useless_numbers(make, give, options):
    """Without the place in the program, and not on stdout."""
    make(MEAN)
    with warnings.catch_warnings():
        warnings.simplefilter("always", pf.UtilityWarning)
        told = give("run", "job.toml", "--period", DAY, *options)
    assert told.exit == 0, told.err
    assert "Warning: Useless numbers: on_mean says nothing: noise of ± " in told.err
    assert "UtilityWarning" not in told.err
    assert "says nothing" not in told.out


def test_a_weak_number_is_not_warned_of(make, give):
    """A mean of 24 independent rows is ± 0.25, and a difference of as much can just be seen."""
    make("""
    def build(frame, period):
        alone = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())
        return pf.protect(frame, alone).private_mean("on")
    """)
    with warnings.catch_warnings():
        warnings.simplefilter("always", pf.UtilityWarning)
        told = give("run", "job.toml", "--period", DAY)
    assert told.exit == 0, told.err
    assert "says nothing" not in told.err


def test_as_an_error_nothing_is_spent(make, give):
    """Who turns the warning into an error has no release, and the account nothing to pay."""
    make(MEAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pf.UtilityWarning)
        told = give("run", "job.toml", "--period", DAY)
    assert told.exit != 0
    shown = give("plan", "job.toml", "--period", DAY, "--json").document
    assert shown["cost"]["released"] is False
