"""Diffusions: the reference's movements, and that the paper's exponent would be caught."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.models.priors.simple import Diffusion
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.movement import Movement

REFERENCE = {0.1: 1.7214159528501156, 0.5: 0.9447331054820294, 1.0: 0.44626032029685964}


def laws(prior, positions, weights=None, domain=None):
    statistic = pf.Statistic(
        np.ones(len(positions)) if weights is None else weights, positions=positions
    )
    return implied(prior, statistic, pf.Initial("x", domain=domain or pf.Interval(0, 2)))


@pytest.mark.parametrize("time", REFERENCE)
def test_movements_are_those_of_the_reference(time):
    """C = 1.5, from 0 or 2: |a − b|·e^(−C·t); the paper's e^(−2·C·t) lies far below."""
    reach = laws(Diffusion(1.5), [time]).winf(1)
    assert reach.length == pytest.approx(REFERENCE[time], rel=1e-12)
    assert reach.length >= REFERENCE[time] * (1 - 1e-15)
    assert reach.certainty == pf.Certainty.EXACT


def test_an_ornstein_uhlenbeck_process_moves_so_far():
    """The quadratic potential attains the bound: its two laws at t differ by the whole movement."""
    contraction, time, start = 1.5, 0.5, 2.0
    variance = (1 - math.exp(-2 * contraction * time)) / contraction
    pair = (
        pf.GaussianLaw(0.0, variance),
        pf.GaussianLaw(start * math.exp(-contraction * time), variance),
    )
    found = laws(Diffusion(contraction), [time])
    noise, asked = pf.Gaussian(0.3), pf.Renyi.of(alpha=4.0)
    assert pf.winf(*pair) <= found.winf(2).length
    assert pf.winf(*pair) > start * math.exp(-2 * contraction * time)
    assert pf.loss([pair], noise, asked, bound=pf.Exact()) == pytest.approx(
        2.9363422330285633, rel=1e-9
    )
    assert pf.loss(found, noise, asked, bound=pf.GWM()) == pytest.approx(
        19.83379201319376, rel=1e-9
    )
    assert pf.loss(found, noise, asked, bound=pf.Exact()) == pytest.approx(
        19.83379201319376, rel=1e-9
    )


def test_paths_together_stay_as_near_as_their_sum_says():
    """Two paths with the same noise in a convex potential, sums of both signs: never farther apart than guaranteed."""
    rng, step, contraction = np.random.default_rng(0), 1e-3, 0.8
    weights = np.array([1.0, -2.0, 0.5])
    positions = np.array([0.0, 0.7, 1.5])
    paths = np.zeros((2, 200))
    paths[1] = 2.0
    seen = [paths.clip(0, 2)]
    for at in range(1, 1501):
        noise = rng.normal(size=200) * math.sqrt(2 * step)
        paths = paths - step * (contraction * paths + paths**3) + noise
        if at in (700, 1500):
            seen.append(paths.clip(0, 2))
    answers = np.tensordot(weights, np.array(seen), axes=1)
    found = laws(Diffusion(contraction), positions, weights).winf(1).length
    assert np.abs(answers[0] - answers[1]).max() <= found
    assert found == pytest.approx(2 + 2 * 2 * math.exp(-0.56) + 0.5 * 2 * math.exp(-1.2))


def test_classes_are_crossed_however_late():
    """Where values are read in classes, a movement too small for a float still crosses a border; 0 is the start."""
    found = laws(Diffusion(5.0), [0, 1, 1000], domain=[0, 1, 3]).winf(1)
    assert found.length == 3 + 2 + 2
    assert found.certainty == pf.Certainty.UPPER_BOUND
    alone = laws(Diffusion(5.0), [0], domain=[0, 1, 3])
    assert (alone.winf(1).length, alone.certainty) == (3, pf.Certainty.EXACT)


def test_histograms_count_a_row_once():
    """A row that changes its class moves two counts by 1 each: 2 in the norm 1, not one for each of all classes."""
    domain = [0, 1, 2, 3]
    statistic = pf.Statistic(np.ones((4, 3)), np.eye(4))
    found = implied(Diffusion(0.5), statistic, pf.Initial("x", domain=domain))
    assert isinstance(found, Movement)
    assert found.winf(1).length == 6
    assert found.winf(2).length == pytest.approx(3 * math.sqrt(2))
    assert found.winf(np.inf).length == 3


@pytest.mark.parametrize("contraction", [-0.1, math.nan, math.inf, "1", True, None])
def test_bad_contractions_are_refused(contraction):
    """A contraction is a finite number, not below 0."""
    with pytest.raises(pf.UsageError):
        Diffusion(contraction)


@pytest.mark.parametrize(
    "secret", [pf.Secret("x", domain=[0, 1]), pf.Presence("p"), pf.Initial("x", domain=["a", "b"])]
)
def test_secrets_other_than_the_start_are_refused(secret):
    """Only the start is a secret that two paths with one noise tell apart."""
    with pytest.raises(pf.UsageError):
        Diffusion(1.0).check(secret)


@given(st.floats(0, 100))
def test_what_is_stored_gives_an_equal_prior_back(contraction):
    """Stored, restored and compared; a path's share of a difference falls from 1 and never reaches 0."""
    prior = Diffusion(contraction)
    assert Diffusion.restored({"contraction": prior.stored()["contraction"]}) == prior
    shares = prior.shares(np.array([0.0, 0.5, 3.0, 1e6]))
    assert shares[0] == 1
    assert (np.diff(shares) <= 0).all()
    assert shares[-1] > 0
