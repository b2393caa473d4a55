"""Every argument of the package, with values that it cannot have: refused in words, or read as what it plainly says."""

import contextlib
import datetime as dt
import decimal
import fractions
import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

L = pf.learning
ODD = [
    *(
        "a",
        "auto",
        b"x",
        None,
        [],
        {},
        (),
        [1, 2],
        (1, 2),
        ("a", "b"),
        {"a": 1},
        {1, 2},
        range(3),
        [[1], [2, 3]],
    ),
    *(
        math.nan,
        math.inf,
        -math.inf,
        -1,
        -0.5,
        0,
        1,
        0.5,
        5,
        True,
        False,
        10**400,
        2**63,
        1e308,
        1e-320,
        1j,
        [1j],
    ),
    *(
        np.int64(5),
        np.float32(0.3),
        np.float64(0.3),
        np.bool_(True),
        np.array(3),
        np.array([1.0, 2.0]),
    ),
    *(
        decimal.Decimal("0.3"),
        decimal.Decimal("NaN"),
        decimal.Decimal("sNaN"),
        fractions.Fraction(1, 3),
    ),
    *(
        object(),
        lambda one: one,
        dt.date(2020, 1, 1),
        pl.Series([1, 2]),
        np.array([[1, "a"]], dtype=object),
    ),
    *(
        [None, 1],
        ["a", 1],
        [math.nan, 1],
        [True, False],
        [[0, 1], [1, 0]],
        [[-1, 1]],
        [([1],)],
        [([1], ["a"])],
    ),
]
RENYI = pf.Renyi.of(alpha=2)
DESCENT = L.Descent(10, 0.1, 1.0, 1.0, 1.0, data_lipschitz=1.0)
TWO, TEN = L.Iteration(2, pf.Gaussian(1.0)), DESCENT.iteration
LAW, SWAPPED = pf.Law([(0, 0), (1, 1)], [0.5, 0.5]), pf.Law([(0, 1), (1, 0)], [0.5, 0.5])


def of_descent(**given):
    descent = L.Descent(**given)
    if descent.rows <= 1000 and descent.passes <= 1000:
        L.iteration_loss(descent.iteration, descent.all_rows(), RENYI)


def of_iteration(**given):
    iteration = L.Iteration(**given)
    assert repr(iteration)
    if iteration.steps <= 1000:
        L.iteration_loss(iteration, [1.0] * iteration.steps, RENYI)


CALLS = {
    "descent": (
        of_descent,
        {
            "rows": 10,
            "step_size": 0.1,
            "noise": 1.0,
            "lipschitz": 1.0,
            "smoothness": 1.0,
            "data_lipschitz": 1.0,
        }
        | {"batch_size": 2, "passes": 2, "strong_convexity": 0.1, "convex": True},
    ),
    "iteration": (
        of_iteration,
        {"steps": 3, "noise": pf.Laplace(1.0), "contraction": 0.5, "dimension": 1},
    ),
    "chain": (
        lambda **given: L.iteration_loss(TEN, L.ChainRows(**given), RENYI),
        {
            "prior": pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]),
            "distances": [[0, 1], [1, 0]],
            "descent": DESCENT,
        }
        | {"rows": None, "positions": None, "pairs": None},
    ),
    "gaussian": (
        lambda **given: L.iteration_loss(TEN, L.GaussianRows(**given), RENYI),
        {
            "prior": pf.GaussianPrior(pf.AR1(0.5)),
            "reach": 1.0,
            "descent": DESCENT,
            "rows": None,
            "positions": None,
        },
    ),
    "trajectories": (
        lambda **given: L.iteration_loss(TWO, L.Trajectories(**given), RENYI),
        {"sizes": [[0, 1], [0, 1]], "masses": [0.5, 0.5]},
    ),
    "laws": (
        lambda **given: L.iteration_loss(TWO, L.TrajectoryLaws(**given), RENYI),
        {"left": LAW, "right": SWAPPED, "lipschitz": 1.0},
    ),
    "marginals": (
        lambda **given: L.iteration_loss(TWO, L.Marginals(**given), RENYI),
        {"left": [pf.Law.point(0)] * 2, "right": [pf.Law.point(1)] * 2, "lipschitz": 1.0}
        | {"independent_given_secret": True},
    ),
    "displacements": (L.Displacements.of, {"given": [0, 1.0], "steps": 2}),
    "arrays of displacements": (
        L.Displacements,
        {"first": np.array([0, 1]), "at": np.array([0]), "sizes": np.ones(1)},
    ),
    "loss": (L.iteration_loss, {"iteration": TWO, "moved": [0, 1], "kind": RENYI}),
    "one row": (DESCENT.independent_rows, {"distance": 1.0}),
    "all rows": (DESCENT.all_rows, {"distance": 1.0}),
    "distances": (DESCENT.displacements, {"distances": np.ones(10)}),
    "moved rows": (DESCENT.displacements_of, {"moved": [([1], [1.0])]}),
}


@pytest.mark.parametrize(("call", "good"), thinned(CALLS.values(), 0.64, unpack=True), ids=CALLS)
def test_odd_arguments_are_refused_in_words_or_read(call, good):
    # no bare error of Python, NumPy or Polars, whatever is given for one argument
    call(**good)
    for name in good:
        for odd in ODD:
            with contextlib.suppress(pf.PufferflowError):
                call(**{**good, name: odd})


def test_numbers_of_numpy_are_numbers():
    # counts and constants that were worked out by NumPy
    descent = L.Descent(
        np.int64(10), np.float32(0.5), np.float64(1), np.int32(1), 1, batch_size=np.int64(3)
    )
    assert (descent.iteration.steps, descent.step_size) == (4, 0.5)
    assert L.Iteration(np.int64(4), pf.Gaussian(1.0), dimension=np.int64(2)).steps == 4


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: L.TrajectoryLaws(LAW, SWAPPED, lipschitz=[1, 2]), "lipschitz is of type list"),
        (lambda: L.TrajectoryLaws(LAW, SWAPPED, lipschitz=math.inf), "lipschitz is inf"),
        (
            lambda: L.Marginals(pf.Law.point(0), [], independent_given_secret=True),
            "left is of type Law",
        ),
        (lambda: L.Descent(10, 0.1, 1.0, 1.0, 1.0, convex="no"), "convex is of type str"),
        (lambda: L.Descent(2**40, 0.1, 1.0, 1.0, 1.0, passes=2**20), "rows times passes"),
        (lambda: L.Descent(10, 0.1, 1.0, 1.0, 1.0, strong_convexity=2), "above smoothness"),
        (lambda: DESCENT.displacements_of([]), "No row and distance"),
        (
            lambda: L.Displacements(np.array([0, 2]), np.array([0]), np.ones(1)),
            "do not fit each other",
        ),
    ],
)
def test_what_is_wrong_is_named(make, problem):
    with pytest.raises(pf.UsageError, match=problem):
        make()


def test_rows_are_refused_an_iteration_whose_steps_are_not_the_descents():
    # displacements of a descent fit steps that bring iterates as near, or less near, and gradients of its norm
    descent = L.Descent(10, 0.5, 1.0, 1.0, 1.0, data_lipschitz=1.0, strong_convexity=0.2)
    chain = L.ChainRows(pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), [[0, 1], [1, 0]], descent)
    for rows in (L.GaussianRows(pf.GaussianPrior(pf.AR1(0.5)), 1.0, descent), chain):
        exact = L.iteration_loss(descent.iteration, rows, RENYI).value
        for contraction in (0.5, [1.0] * 9 + [0.8]):
            with pytest.raises(pf.UsageError, match="contraction"):
                L.iteration_loss(L.Iteration(10, pf.Gaussian(1.0), contraction), rows, RENYI)
        assert L.iteration_loss(L.Iteration(10, pf.Gaussian(1.0)), rows, RENYI).value > exact
        assert (
            L.iteration_loss(L.Iteration(10, pf.Gaussian(1.0), dimension=7), rows, RENYI).value
            > exact
        )
    laplace = L.GaussianRows(pf.GaussianPrior(pf.AR1(0.5)), 1.0, descent)
    with pytest.raises(pf.Refused, match="several dimensions"):
        L.iteration_loss(L.Iteration(10, pf.Laplace(1.0), dimension=2), laplace, RENYI)
    assert L.iteration_loss(L.Iteration(10, pf.Laplace(1.0)), laplace, RENYI).value > 0
