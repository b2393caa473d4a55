"""Priors that are Python functions: no two share a fingerprint, and what outlives the process refuses them."""

import copy
import gc
import pickle

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.models.priors import simulator as functions
from pufferflow.published.cost import digest_of

SECRET = pf.Secret("x", domain=pf.Interval(0, 10))
CAUSE = pf.Derived("cause", values=[0, 1], column="x", domain=pf.Interval(0, 10))
FRAME = pl.DataFrame({"at": range(30), "x": [1.0, 5.0, 9.0] * 10})


def smooth(lag):
    """Correlations that fall off within some steps."""
    return np.exp(-((lag / 5.0) ** 2))


def with_kernel(function):
    return pf.Scenario(SECRET, pf.GaussianPrior(pf.Kernel(function)), order_by="at")


def bent(where, *, by=0.5):
    """The same function by name and source, but for the lags from one on, which it closes over."""

    def function(lag):
        return np.where(lag == 0, 1.0, np.where(lag >= where, by, 0.9) * 0.5)

    return function


def falling(length):
    return lambda lag: np.exp(-lag / length)


def draws(shift):
    """The same function by name and source, but for what it closes over."""

    def function(value, row, statistic, number, rng):  # noqa: ARG001
        return rng.normal(shift * value, 1.0, number)

    return function


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (bent(1025), bent(5000)),
        (bent(3), bent(2000)),
        (falling(2.0), falling(3.0)),
        (
            lambda lag: np.cos(np.pi * lag * 0.3) * np.exp(-lag),
            lambda lag: np.cos(np.pi * lag * 0.3) * np.exp(-lag),
        ),
    ],
)
def test_two_kernels_known_by_a_function_never_share_a_fingerprint(one, other):
    """They may differ at any lag, between lags, or nowhere: nobody can tell, so each is known by itself."""
    first, second = with_kernel(one), with_kernel(other)
    assert first.fingerprint != second.fingerprint
    assert digest_of(first.priors[0]) != digest_of(second.priors[0])
    assert with_kernel(one).fingerprint == first.fingerprint


@pytest.mark.parametrize(("one", "other"), [(draws(0.1), draws(9.0)), (lambda *_: 0, lambda *_: 0)])
def test_two_simulators_never_share_a_fingerprint(one, other):
    """Source and name say nothing of what a function closes over."""
    first, second = (pf.Scenario(CAUSE, pf.Simulator(fn)) for fn in (one, other))
    assert first.fingerprint != second.fingerprint
    assert pf.Scenario(CAUSE, pf.Simulator(one)).fingerprint == first.fingerprint


def test_a_function_that_is_gone_leaves_its_fingerprint_to_nobody():
    """Python gives the place of an object that is gone to another one, which is not taken for it."""
    prints = set[str]()
    for length in range(200):
        prints.add(digest_of(pf.GaussianPrior(pf.Kernel(falling(2.0 + length)))))
        gc.collect(0)
    assert len(prints) == 200
    assert len(functions._KNOWN) < 150


def test_a_kernel_whose_function_changes_is_refused():
    """One function is one prior: what it gives for a lag must not depend on what happened since."""
    length = [24.0]

    def changing(lag):
        return np.exp(-lag / length[0])

    scenario = with_kernel(changing)
    plan = pf.protect(FRAME, scenario).private_sum("x").plan(epsilon=1.0)
    length[0] = 48.0
    with pytest.raises(pf.UsageError, match="another correlation for a lag than before"):
        with_kernel(changing)
    with pytest.raises(pf.UsageError, match="another correlation for a lag than before"):
        pf.protect(FRAME, scenario).private_sum("x").plan(epsilon=1.0)
    assert plan.guarantee == pf.Pure(1.0)


def test_copies_and_pickles_are_the_same_belief_in_one_process():
    """A copy has the same function, so it has its fingerprint."""
    scenario = with_kernel(smooth)
    for again in (
        copy.copy(scenario),
        copy.deepcopy(scenario),
        pickle.loads(pickle.dumps(scenario)),
    ):
        assert again == scenario
        assert again.fingerprint == scenario.fingerprint


def test_releases_under_a_function_are_composed_in_their_process():
    """Plans and releases of one scenario add up; under another function the guarantee of one says nothing."""
    scenario = with_kernel(smooth)
    release = pf.protect(FRAME, scenario).private_sum("x").release(epsilon=1.0)
    assert pf.compose([release], scenario).total == pytest.approx(1.0)
    other = pf.compose([release], with_kernel(falling(1e6)))
    assert other.total > 1.0
    assert "own guarantee" not in other.rule


def test_what_is_stored_refuses_a_function_and_says_what_to_write_instead(tmp_path):
    """Accounts and JSON outlive the process; the list that the error offers is the same prior as far as rows reach."""
    scenario = with_kernel(smooth)
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        with pytest.raises(pf.UsageError, match="smooth, which cannot be stored") as refused:
            ledger.open("levels", scenario, limit=pf.Pure(3.0))
        assert ledger.accounts() == ()
        listed = eval(refused.value.instead, {"pf": pf, "np": np, "function": smooth})  # noqa: S307
        stored = pf.Scenario(SECRET, pf.GaussianPrior(listed), order_by="at")
        account = ledger.open("levels", stored, limit=pf.Pure(3.0))
        plans = [
            pf.protect(FRAME, one).private_sum("x").plan(epsilon=1.0) for one in (scenario, stored)
        ]
        assert plans[0].noises["x_sum"].scale == plans[1].noises["x_sum"].scale
        plans[1].release(account, id="today")
        with pytest.raises(pf.UsageError, match="another scenario"):
            plans[0].release(account, id="tomorrow")
    simulated = pf.Scenario(CAUSE, pf.Simulator(draws(0.1)))
    with (
        pf.Ledger(tmp_path / "ledger.db") as ledger,
        pytest.raises(pf.Refused, match="cannot be stored"),
    ):
        ledger.open("causes", simulated, limit=pf.Pure(3.0))


def test_long_and_short_evaluations_agree():
    """A long and a short evaluation in any order give the same for each lag, and never more than was asked."""
    kernel = pf.Kernel(falling(7.0))
    long, short = kernel._given(5000), kernel._given(10)
    assert (len(long), len(short)) == (5000, 10)
    assert (long[:10] == short).all()
