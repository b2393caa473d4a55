"""What quadrature and cells rely on: how far noisy densities can move around a point, for complex and real steps."""

import math

import numpy as np
import pytest
from laws import float_law_of, random_law
from thinned import thinned

import pufferflow as pf
from pufferflow.calibration.exact import quadrature
from pufferflow.calibration.exact import quadrature as cells
from pufferflow.calibration.exact.cauchy import CauchyField
from pufferflow.calibration.exact.gaussian import GaussianField
from pufferflow.calibration.exact.laplace import LaplaceField
from pufferflow.calibration.exact.quadrature import PairAtoms

NOISES = {
    "laplace": (LaplaceField, pf.Laplace(1.0), lambda u: np.exp(-np.sqrt(u * u))),
    "gaussian": (GaussianField, pf.Gaussian(1.0), lambda u: np.exp(-u * u / 2)),
    "cauchy": (CauchyField, pf.GeneralizedCauchy(1.0, 3.5), lambda u: (1 + u * u) ** -1.75),
}


def fields(name, seed, count):
    field, noise, _ = NOISES[name]
    rng = np.random.default_rng(seed)
    for _ in range(count):
        mu, nu = (float_law_of(random_law(rng)) for _ in range(2))
        stretch = rng.choice([0.3, 1.0, 4.0])
        mu, nu = (law.map(lambda x, s=stretch: x * s) for law in (mu, nu))
        yield rng, field(PairAtoms(pf.Pair(mu, nu), float(pf.winf(mu, nu))), noise)


def density(mixture, kernel, points):
    """The density at complex points, up to a constant, by the kernel's own formula."""
    return kernel(points[:, None] - mixture.atoms[None, :, 0]) @ np.exp(mixture.log_weights)


@pytest.mark.parametrize("name", thinned(["laplace", "gaussian", "cauchy"], 0.33))
@pytest.mark.parametrize("alpha", [1.5, 4.0])
def test_no_complex_step_gains_more_than_growth_says(name, alpha):
    """|p^α q^{1−α}| within an ellipse around a point stays below f in its centre times e^gain."""
    kernel = NOISES[name][2]
    tried = 0
    for rng, field in fields(name, 1, 40):
        for _ in range(20):
            centre = rng.uniform(field.low[0] - 4, field.high[0] + 4)
            room = np.abs(field.knots[0] - centre).min() if name == "laplace" else 1.0
            size = float(0.6 * room * rng.random())
            _, gain, real_gain = field.growth(np.array([[centre]]), np.array([[size]]), alpha)
            angles = rng.uniform(0, 2 * math.pi, 50)
            for steps, allowed in (
                (size * np.exp(1j * angles), gain[0]),
                (size * np.cos(angles) + 0j, real_gain[0]),
            ):
                if not math.isfinite(allowed):
                    continue
                p, q = (
                    np.abs(density(side, kernel, centre + steps)) for side in (field.p, field.q)
                )
                p0, q0 = (
                    np.abs(density(side, kernel, np.array([centre + 0j])))
                    for side in (field.p, field.q)
                )
                found = alpha * np.log(p / p0) - (alpha - 1) * np.log(q / q0)
                assert found.max() <= allowed + 1e-9
                tried += 1
    assert tried > 400


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "cauchy"])
def test_the_log_ratio_moves_no_more_than_its_cell_allows(name):
    """In a cell of any size, near the atoms and far away, log(p/q) stays within what `ratio` states; so does p."""
    for rng, field in fields(name, 2, 60):
        for _ in range(20):
            centre = rng.normal() * rng.choice([1.0, 10.0])
            size = 10 ** rng.uniform(-4, 0.7)
            level, down, up = field.ratio(np.array([[centre]]), np.array([[size]]))
            y = centre + size * np.linspace(-1, 1, 41)[:, None]
            log_p, log_q = field.log_densities(y)
            assert (log_p - log_q).max() <= level[0] + up[0] + 1e-11
            assert (log_p - log_q).min() >= level[0] - down[0] - 1e-11
            rise = field.steepest(np.array([[centre]]), np.array([[size]]))[0]
            assert log_p.max() <= field.p.log_density(np.array([[centre]]))[0] + rise + 1e-11


@pytest.mark.parametrize("name", thinned(["gaussian", "cauchy"], 0.33))
@pytest.mark.parametrize("most", [0, 30, 300])
def test_cells_that_stay_undecided_count_in_full(name, most, monkeypatch):
    """Stopped after few cells, the hockey stick and the supremum are larger than they were, never smaller."""
    for _, field in fields(name, 3, 12):
        exact = (
            cells.hockey_stick(field, 0.3, *field.horizon()),
            cells.supremum(field, *field.horizon()),
        )
        monkeypatch.setattr(cells, "_MOST_CELLS", most)
        rough = (
            cells.hockey_stick(field, 0.3, *field.horizon()),
            cells.supremum(field, *field.horizon()),
        )
        monkeypatch.undo()
        assert rough[0] >= exact[0] * (1 - 2e-7)
        assert rough[1] >= exact[1] * (1 - 1e-8)


@pytest.mark.parametrize("name", ["gaussian", "cauchy"])
def test_what_lies_beyond_the_cells_is_counted(name):
    """With a horizon just outside the atoms the hockey stick takes all mass beyond it."""
    for _, field in fields(name, 4, 8):
        near = cells.hockey_stick(field, 0.2, 0.5, math.inf)
        assert near >= cells.hockey_stick(field, 0.2, *field.horizon()) * (1 - 1e-6)
        ends = np.array([[-math.inf, field.low[0] - 0.5], [field.high[0] + 0.5, math.inf]])
        assert near >= float(np.sum(field.p.mass(ends[:, 0], ends[:, 1])[0])) * (1 - 1e-9)


def test_quadrature_charges_what_coarse_rules_miss(monkeypatch):
    """With rules of two nodes the divergence stays above the truth, by their own error terms."""
    coarse = {1: (quadrature.QuadratureRule(2, 40.0), quadrature.QuadratureRule(3, 2.8))}
    for name in NOISES:
        for _, field in fields(name, 5, 6):
            fine = quadrature.divergence(field, 2.5)
            monkeypatch.setattr(quadrature, "_RULES", coarse)
            monkeypatch.setattr(quadrature, "_NEGLIGIBLE", -14.0)
            rough = quadrature.divergence(field, 2.5)
            monkeypatch.undo()
            assert rough >= fine * (1 - 1e-12) - 1e-14


@pytest.mark.slow
def test_boxes_passed_over_are_charged(monkeypatch):
    """Where boxes of e⁻² of the integral are passed over, their upper bounds stand in for them."""
    passed_over = 0
    for name in NOISES:
        for _, field in fields(name, 6, 6):
            fine = quadrature.divergence(field, 2.5)
            monkeypatch.setattr(quadrature, "_NEGLIGIBLE", -2.0)
            monkeypatch.setattr(quadrature, "_MOST_GAIN", 0.1)
            rough = quadrature.divergence(field, 2.5)
            monkeypatch.undo()
            assert rough >= fine * (1 - 1e-12) - 1e-14
            passed_over += rough > fine * (1 + 1e-9)
    assert passed_over >= 5
