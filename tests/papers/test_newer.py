"""What the scripts about other papers rest on: synthetic chains, composition, noise reduction and W_α."""

import importlib.util
import sys
from pathlib import Path

import pytest

import pufferflow as pf

FOLDER = Path(__file__).parents[2] / "examples" / "papers"


def script(name):
    """Return a script as a module."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.35, 0.45])
def test_gk16_is_never_below_the_truth(alpha, monkeypatch):
    """Noise by the influences of neighbours keeps ε about every row of each corner."""
    song = script("song_synthetic_chains")
    monkeypatch.setattr(song, "ROWS", 8)
    factor = song.reach(alpha)
    for laws in song.laws(alpha):
        for epsilon in (0.2, 5.0):
            noise = pf.Laplace(factor / epsilon)
            assert pf.loss(laws, noise, pf.Pure, bound=pf.Exact()) <= epsilon


def test_gk16_does_not_apply_to_chains_that_stay():
    """Where a row's neighbours nearly fix it, the spectral norm of the influences is 1 or more."""
    song = script("song_synthetic_chains")
    assert song.reach(0.3) == float("inf")
    assert song.reach(0.33) < float("inf")


@pytest.mark.slow
def test_errors_of_synthetic_chains():
    """Group privacy has the errors of the caption; quilts have those of the reference, over 100 rows."""
    song = script("song_synthetic_chains")
    assert [song.error("group", 0.1, epsilon) for epsilon in (0.2, 1, 5)] == [5, 1, 0.2]
    assert song.error("quilt", 0.4, 1.0) == pytest.approx(0.035718, rel=1e-4)
    assert song.error("messages", 0.4, 1.0) == pytest.approx(0.014673, rel=1e-4)


def test_no_function_of_w_alpha_bounds_the_loss():
    """A smaller mass farther away: W₂ stays 0.1, and the loss of order 2 grows."""
    far = script("alpha_wasserstein").far
    assert [pf.wasserstein(*far(place), 2) for place in (1.0, 5.0, 7.0)] == pytest.approx([0.1] * 3)
    kind = pf.Renyi.of(alpha=2)
    losses = [
        pf.loss([far(place)], pf.Gaussian(1.0), kind, bound=pf.Exact()) for place in (5.0, 7.0)
    ]
    assert losses == pytest.approx([9.351995, 32.006019], rel=1e-6)
    laplace = pf.loss([far(3.0)], pf.Laplace(0.1), kind, bound=pf.Exact())
    assert laplace == pytest.approx(15.989746, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("an outlier at 50", 14.067141),
        ("three values", 5.974358),
        ("a count of four", 7.989990),
    ],
)
def test_scales_of_noise_reduction(name, least):
    """The exact scale at ε = 0.1 is the least, and a coupling's lies between it and W_∞'s."""
    reduction = script("noise_reduction")
    pair = reduction.MADE_UP[name]
    exact, coupled, moved = (
        reduction.scale([pair], bound) for bound in (pf.Exact(), pf.Kantorovich(), pf.GWM())
    )
    assert exact == pytest.approx(least, rel=1e-6)
    assert exact <= coupled <= moved


@pytest.mark.slow
def test_an_influence_curve_composes():
    """Releases with losses b about each row lose a(Σ b) together, which is at most the sum of all a(b)."""
    chains = script("composition_on_chains")
    assert chains.curve(0.9, 0.05) == pytest.approx(0.446328, rel=1e-5)
    assert chains.curve(0.9, 1.0) <= 10 * chains.curve(0.9, 0.1)
    assert chains.curve(0.9, chains.inverse(0.9, 1.0)) <= 1.0
