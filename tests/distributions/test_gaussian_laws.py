"""Gaussian laws: validation, and operations against sampling-free identities."""

import pickle

import numpy as np
import pytest

import pufferflow as pf

C = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_scalars_vectors_and_matrices_are_read_alike():
    """A number is a law on R; one variance on R^d is a multiple of the identity."""
    assert pf.GaussianLaw(0, 4) == pf.GaussianLaw([0], [[4]])
    assert pf.GaussianLaw([0, 1], 3) == pf.GaussianLaw([0, 1], 3 * np.eye(2))
    assert pf.GaussianLaw([0, 1], 3).dimension == 2


def test_operations_follow_linear_algebra():
    """Shift, linear image, sum and joint law have the means and covariances they must have."""
    law = pf.GaussianLaw([1, 2], C)
    assert law.shift([1, -2]) == pf.GaussianLaw([2, 0], C)
    assert law.map([1, 1]) == pf.GaussianLaw(3, 4)
    assert law.map([[0, 1], [1, 0]]) == pf.GaussianLaw([2, 1], C[::-1, ::-1])
    assert law.map(2) == pf.GaussianLaw([2, 4], 4 * C)
    assert law.convolve(law) == pf.GaussianLaw([2, 4], 2 * C)
    assert law.product(pf.GaussianLaw(5, 7)).covariance[2, 2] == 7


def test_gaussians_are_frozen_and_survive_copies():
    """Equal laws hash alike, pickle, and cannot be changed."""
    law = pf.GaussianLaw([1, 2], C)
    assert pickle.loads(pickle.dumps(law)) == law
    assert hash(pf.GaussianLaw([1, 2], C)) == hash(law)
    with pytest.raises(ValueError, match="read-only"):
        law.mean[0] = 1


@pytest.mark.parametrize(
    ("mean", "covariance", "says"),
    [
        (np.nan, 1, "mean has a NaN"),
        (0, np.inf, "covariance has a NaN or infinite"),
        (0, -1, "negative eigenvalue"),
        ([0, 0], [[1, 2], [2, 1]], "negative eigenvalue"),
        ([0, 0], [[1, 0.1], [0.3, 1]], "not symmetric"),
        ([0, 0], [1, 1], "shape"),
        ([[0, 0]], 1, "shape"),
        ([], 1, "shape"),
        ("a", 1, "not made of numbers"),
        (0, None, "not made of numbers|NaN"),
    ],
)
def test_bad_gaussians_are_refused(mean, covariance, says):
    """Each fault is named by an error of ours."""
    with pytest.raises(pf.UsageError, match=says):
        pf.GaussianLaw(mean, covariance)


def test_mismatched_dimensions_are_refused():
    """Operations across dimensions are refused, naming both."""
    law = pf.GaussianLaw([1, 2], C)
    for operation in (
        lambda: law.shift(1),
        lambda: law.map([1, 2, 3]),
        lambda: law.convolve(pf.GaussianLaw(0, 1)),
    ):
        with pytest.raises(pf.UsageError, match="Dimension"):
            operation()


def test_singular_covariances_are_laws():
    """A variance of 0 is allowed, with the rounding a computed covariance has."""
    direction = np.array([0.1, 0.2, 0.3])
    assert pf.GaussianLaw(direction, np.outer(direction, direction)).dimension == 3
    assert pf.GaussianLaw(1, 0).covariance[0, 0] == 0
