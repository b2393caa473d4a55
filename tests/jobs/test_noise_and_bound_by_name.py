"""Noises and bounds by name: the same names in Python, in job files and in errors, alone or with their numbers."""

from importlib.resources import files

import polars as pl
import pytest

import pufferflow as pf
from pufferflow.calibration.bound_names import BOUNDS
from pufferflow.jobs.file import read_text, schema
from pufferflow.noise.names import NOISES

STARTER = (files("pufferflow.jobs.starter") / "job.toml").read_text()
SCENARIO = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())
BATCH = pf.protect(pl.DataFrame({"on": [0, 1, 1]}), SCENARIO).private_sum("on")
GUARANTEE = pf.ApproxRenyi(4, 1.0, 1e-3)


def job(line):
    """Return the arguments of a plan from the starter with one line changed."""
    key = line.split(" = ")[0]
    assert f'# {key} = "auto"' in STARTER
    return read_text(STARTER.replace(f'# {key} = "auto"', f"{line} #"), "job.toml").plan_arguments


@pytest.mark.slow
def test_cauchy_and_gawm_are_names_everywhere():
    """Every family and bound has a name, which plans and job files take."""
    assert "cauchy" in NOISES
    assert {"gwm", "gawm", "dagwm", "exact"} <= set(BOUNDS)
    for name in NOISES:
        assert job(f'noise = "{name}"')["noise"] == name
    for name in BOUNDS:
        assert job(f'bound = "{name}"')["bound"] == name


@pytest.mark.slow
def test_a_name_means_the_object():
    """The noise is that of the class, and the bound that with the guarantee's own delta."""
    named = BATCH.plan(GUARANTEE, noise="cauchy", bound="gawm")
    meant = BATCH.plan(GUARANTEE, noise=pf.GeneralizedCauchy, bound=pf.GAWM(1e-3))
    assert named.noises == meant.noises
    assert repr(named.calibration.bound) == repr(pf.GAWM(1e-3))
    assert named.certificate == meant.certificate


def test_the_name_of_gawm_leaves_room_for_noise_with_a_delta_of_its_own():
    """Under (ε, δ) Gaussian noise needs some of δ, Laplace noise none."""
    approx = pf.Approx(1.0, 1e-3)
    assert BATCH.plan(approx, noise="gaussian", bound="gawm").calibration.bound.delta == 5e-4
    assert BATCH.plan(approx, noise="laplace", bound="gawm").calibration.bound.delta == 1e-3


def test_gawm_without_a_delta_is_refused_with_a_way_on():
    """A guarantee without a delta has none for GAWM to leave out."""
    with pytest.raises(
        pf.UsageError, match=r"no δ to leave out(.|\n)*try: pf.Approx\(epsilon, 1e-6\)"
    ):
        BATCH.plan(pf.Renyi(4, 1.0), bound="gawm")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"noise": "cauchi"}, "cauchy"),
        ({"bound": "gavm"}, "gawm"),
        ({"bound": ["gwm", "dagvm"]}, "dagwm"),
    ],
)
def test_misspelt_names_are_answered_with_the_nearest(given, meant):
    """An error asks what was meant."""
    with pytest.raises(pf.UsageError, match=f"Did you mean '{meant}'"):
        BATCH.plan(GUARANTEE, **given)


def test_tables_of_a_job_file_have_numbers():
    """A family has its parameters, and a bound its delta; the plan is that of the objects."""
    arguments = job('noise = { family = "cauchy", k = 4 }')
    noise = BATCH.plan(GUARANTEE, noise=arguments["noise"]).noises["on_sum"]
    assert isinstance(noise, pf.GeneralizedCauchy)
    assert noise.k == 4
    assert (
        job('noise = { family = "staircase", epsilon = 2.0, gamma = 0.5 }')["noise"](1.0).gamma
        == 0.5
    )
    assert job('noise = { family = "laplace" }')["noise"] is pf.Laplace
    assert job('bound = { name = "gawm", delta = 1e-3 }')["bound"] == pf.GAWM(1e-3)
    assert job('bound = { name = "gawm" }')["bound"] == "gawm"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('noise = "chauchy"', 'noise = "cauchy"'),
        ('noise = { family = "cauchi", k = 4 }', 'family = "cauchy"'),
        ('noise = { familly = "cauchy" }', "try: family"),
        ('noise = { family = "laplace", k = 4 }', "Laplace noise has no parameter 'k'"),
        ('noise = { family = "cauchy", k = 1 }', "a number > 1"),
        ('bound = "gavm"', 'bound = "gawm"'),
        ('bound = { name = "dagvm" }', 'name = "dagwm"'),
        ('bound = { name = "gwm", delta = 1e-3 }', 'The bound "gwm" has no delta'),
        ('bound = { name = "gawm", delta = 1 }', "a number with 0 < delta < 1"),
    ],
)
def test_mistakes_in_a_job_file_are_answered_with_what_was_meant(line, told):
    """Names that are near are suggested, and numbers that a family does not have are refused."""
    with pytest.raises(pf.UsageError) as caught:
        job(line)
    assert told in str(caught.value)


def test_editors_know_the_tables():
    """The schema of job files offers a name or a table."""
    tables = schema()["$defs"]["JobFile"]["properties"]
    assert {kind.get("$ref", "").rpartition("/")[2] for kind in tables["noise"]["anyOf"]} >= {
        "NoiseTable"
    }
    assert {kind.get("$ref", "").rpartition("/")[2] for kind in tables["bound"]["anyOf"]} >= {
        "BoundTable"
    }


@pytest.mark.slow
def test_a_plan_is_compared_with_gawm_by_the_delta_of_the_guarantee():
    """The row of GAWM has the scale that the plan would have by its name; the plan's own bound is always a row."""
    prior = pf.Table(
        {"ill": [0, 0, 1, 1], "kw": [0, 1, 1, 50], "probability": [0.25, 0.25, 0.495, 0.005]}
    )
    scenario = pf.Scenario(pf.Secret("ill", domain=[0, 1]), prior)
    frame = pl.DataFrame({"ill": [0, 1], "kw": [1, 50]})
    asked = pf.protect(frame, scenario).private_sum("kw")
    guarantee = pf.Approx(1.0, 0.02)
    plan = asked.plan(guarantee, noise="laplace", row_privacy=False)
    rows = {row["bound"]: row for row in plan.compare().to_dicts()}
    named = asked.plan(guarantee, noise="laplace", bound="gawm", row_privacy=False)
    assert rows[repr(named.calibration.bound)]["scale"] == pytest.approx(
        named.noises["kw_sum"].scale
    )
    own = asked.plan(guarantee, noise="laplace", bound=pf.GAWM(0.012), row_privacy=False)
    assert repr(pf.GAWM(0.012)) in own.compare()["bound"].to_list()
