"""Families of noise and bounds have names wherever a plan is asked for; those with a number have a table in a job."""

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.jobs.file import read_text

JOB = """
name = "meters"
build = "job.py:build"
{}
[source]
path = "rows.parquet"
[guarantee]
epsilon = 1.0
delta = 1e-2
[ledger]
address = "sqlite:///ledger.db"
account = "meters"
[ledger.limit]
epsilon = 9.0
delta = 1e-1
"""
BATCH = pf.protect(
    pl.DataFrame({"x": [0, 1, 2]}), pf.Scenario(pf.Secret("x", domain=[0, 1, 2]), pf.Independent())
).private_sum("x")


def arguments(text):
    return read_text(JOB.format(text), "job.toml").plan_arguments


def test_every_family_and_bound_has_a_name():
    noises = {"laplace": pf.Laplace, "gaussian": pf.Gaussian, "cauchy": pf.GeneralizedCauchy}
    for name, family in noises.items():
        plan = BATCH.plan(pf.Renyi(4, 1.0), noise=name)
        assert plan.noises == BATCH.plan(pf.Renyi(4, 1.0), noise=family).noises
    approx = pf.Approx(1.0, 1e-2)
    bounds = {"gwm": pf.GWM(), "gawm": pf.GAWM(5e-3), "dagwm": pf.DAGWM(), "exact": pf.Exact(), "group": pf.Group()}
    for name, bound in bounds.items():
        plan = BATCH.plan(approx, bound=name)
        assert plan.calibration.bound == bound
        assert plan.noises == BATCH.plan(approx, bound=bound).noises


def test_a_name_with_a_number_that_the_promise_lacks_is_refused():
    with pytest.raises(pf.Misuse, match="no δ that it could leave out"):
        BATCH.plan(pf.Pure(1.0), bound="gawm")


def test_a_job_names_them_with_their_numbers():
    given = arguments('noise = { family = "cauchy", k = 4 }\nbound = { name = "gawm", delta = 1e-3 }')
    assert given["noise"](2.0) == pf.GeneralizedCauchy(2.0, k=4)
    assert given["bound"] == pf.GAWM(1e-3)
    plain = arguments('noise = "cauchy"\nbound = "gawm"')
    assert (plain["noise"], plain["bound"]) == ("cauchy", "gawm")
    tables = arguments('noise = { family = "laplace" }\nbound = { name = "gwm" }')
    assert (tables["noise"], tables["bound"]) == ("laplace", "gwm")
    assert BATCH.plan(**given).noises["x_sum"].k == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('noise = { family = "laplace", k = 4 }', "k for the generalized Cauchy noise only"),
        ('noise = { family = "cauchi" }', "cauchy, gaussian"),
        ('noise = { family = "cauchy", k = 1 }', "k"),
        ('bound = { name = "gwm", delta = 0.1 }', "delta for gawm only"),
        ('bound = { name = "gawm", delta = 2 }', "delta"),
    ],
)
def test_numbers_that_do_not_belong_are_refused(text, said):
    with pytest.raises(pf.Misuse) as refused:
        arguments(text)
    assert said in str(refused.value)
