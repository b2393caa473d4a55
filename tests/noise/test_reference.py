"""Losses of single shifts, computed independently of this library, and those the literature printed wrong."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import pufferflow as pf

CASES = json.loads(
    (Path(__file__).parents[1] / "reference" / "calibration.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES["cauchy"], ids=lambda case: case["id"])
def test_generalized_cauchy(case):
    """M11's moments: the polynomial for whole m, quadrature otherwise."""
    noise = pf.GeneralizedCauchy(case["scale"], case["k"])
    assert noise.renyi(case["z"], case["alpha"]) == pytest.approx(case["value"], abs=1e-9)


@pytest.mark.parametrize(("shift", "value"), [(1, 0.40546510810816455), (2, 1.0986122886681098)])
def test_cauchy_of_order_two(shift, value):
    """k = 2, α = 2: log(1 + z²/(2λ²)), where RPP prints 1 + z²/λ²."""
    assert pf.GeneralizedCauchy(1.0).renyi(shift, 2) == pytest.approx(value, abs=1e-10)
    assert value == pytest.approx(math.log(1 + shift**2 / 2))


def test_generalized_cauchy_density_constant():
    """β_4 = Γ(2)/(√π Γ(3/2))."""
    assert math.exp(pf.GeneralizedCauchy(1.0, k=4).logpdf(0.0)) == pytest.approx(
        0.6366197723675814, abs=1e-9
    )


def test_generalized_cauchy_in_three_dimensions():
    """d = 3: the loss of (1, 1, 1) is 3·log(1 + 1/2), above the printed bound of .8630."""
    noise = pf.GeneralizedCauchy(1.0)
    true = 1.2163953243244932
    assert noise.renyi(np.ones(3), 2).sum() == pytest.approx(true, abs=1e-12)
    assert noise.renyi_within(math.sqrt(3), 2, dimension=3) == pytest.approx(true, abs=1e-12)


@pytest.mark.parametrize(("k", "shift", "epsilon"), [(2, 1.0, 0.5), (4, 3.0, 1.0), (3.5, 2.0, 2.0)])
def test_generalized_cauchy_pure_scale(k, shift, epsilon):
    """Pure ε needs λ = Δ/(2·sinh(ε/k))."""
    noise = pf.GeneralizedCauchy(shift / (2 * math.sinh(epsilon / k)), k)
    assert noise.pure(shift) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("shift", "scale", "alpha", "value"),
    [
        (1, 1, 2, 0.6191236299985928),
        (1, 2, 8, 0.4102678817622915),
        (3, 1.5, 1.5, 1.4368091584145997),
    ],
)
def test_laplace(shift, scale, alpha, value):
    """M9."""
    assert pf.Laplace(scale).renyi(shift, alpha) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(("shift", "scale", "alpha", "value"), [(1, 2, 8, 1.0), (3, 1.5, 1.5, 3.0)])
def test_gaussian(shift, scale, alpha, value):
    """M10."""
    assert pf.Gaussian(scale).renyi(shift, alpha) == pytest.approx(value, abs=1e-12)


def test_grid_mass_functions_are_other_noises():
    """M13: a discrete Laplace pmf with step b has D_2 = .735 at one step, Laplace noise .619: grids must be fine."""
    steps = np.arange(-400, 401)
    pmf = np.exp(-np.abs(steps)) / np.exp(-np.abs(steps)).sum()
    coarse = math.log((pmf[1:] ** 2 / pmf[:-1]).sum())
    assert coarse == pytest.approx(0.735, abs=1e-3)
    assert pf.Laplace(1).renyi(1, 2) == pytest.approx(0.619, abs=1e-3)
    with pytest.raises(pf.Refused, match="scale/1024"):
        pf.Laplace(1).release(0, grid=1)
