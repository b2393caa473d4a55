"""Domains as people type them: what a list, a tuple, a range and an array mean, and what is refused."""

from decimal import Decimal

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.models.secret import AnySecret

PUBLIC = pf.Reference("two meters", {"hour": range(6), "on": [0, 1, 0, 0, 1, 1]})
MAKERS = {
    "secret": lambda domain: pf.Secret("on", domain=domain),
    "initial": lambda domain: pf.Initial("on", domain=domain),
    "presence": lambda domain: pf.Presence("house", column="on", domain=domain),
    "derived": lambda domain: pf.Derived("cause", values=["a", "b"], column="on", domain=domain),
    "fitted chain": lambda domain: pf.MarkovChain.fit(PUBLIC, "on", "hour", domain=domain),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize(
    "ends", [(0, 99), (0, 1), (99, 0), (0.5, 2), (np.float64(0), 3), (Decimal(0), Decimal(9))]
)
def test_a_tuple_of_two_numbers_is_refused_with_both_readings(make, ends):
    """Other libraries read (0, 99) as bounds, Python as two values; the error offers both, and both work when typed."""
    with pytest.raises(pf.UsageError, match="tuple of two numbers") as refused:
        make(ends)
    interval, listed = refused.value.instead.removesuffix(" for two values").split(", or ")
    low, high = sorted(map(float, ends))
    read = [eval(text.removeprefix("domain="), {"pf": pf}) for text in (interval, listed)]  # noqa: S307
    assert read == [pf.Interval(low, high), [low, high]]


@pytest.mark.parametrize(
    "domain",
    [
        [0, 99],
        [0.0, 99.0],
        range(0, 100, 99),
        np.array([0, 99]),
        (0, 50, 99),
        ("low", "high"),
        (False, True),
    ],
    ids=str,
)
def test_what_can_only_be_values_is_a_list_of_values(domain):
    """Lists, ranges and arrays are values however few; so are tuples of labels, of booleans, and of three numbers."""
    secret = pf.Secret("on", domain=domain)
    assert list(secret.domain.points) == list(domain)
    assert AnySecret.from_stored(secret.stored()) == secret


@pytest.mark.parametrize("domain", [(5, 5), (0, float("inf")), (0, "a"), (0,), ()], ids=str)
def test_a_tuple_that_is_no_domain_at_all_is_refused_as_such(domain):
    """Equal ends, ends that are not finite, mixtures and single values are neither an interval nor a list."""
    with pytest.raises(pf.UsageError, match=r"^(?!.*tuple of two numbers)"):
        pf.Secret("on", domain=domain)


def test_the_values_of_a_derived_secret_may_stand_in_a_tuple():
    """They are values and never bounds, and a stored secret gives them back as they were."""
    secret = pf.Derived("cause", values=(0, 1), column="on", domain=pf.Interval(0, 99))
    assert secret.values == (0, 1)
    assert AnySecret.from_stored(secret.stored()) == secret


def test_a_stored_scenario_with_two_values_is_read_back():
    """What `to_json` wrote of a list of two numbers is a list of two numbers."""
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 99]), pf.Independent())
    assert pf.Scenario.from_json(scenario.to_json()) == scenario
    frame = pl.DataFrame({"on": [0, 99, 99]})
    assert pf.protect(frame, scenario).private_sum("on").plan(epsilon=1.0).guarantee == pf.Pure(1.0)
