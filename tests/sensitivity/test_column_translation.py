"""Several Gaussian columns: how far answers move, against all ways in which rows may follow and be read.

The truth shares nothing with the library: factors by a solver of their own, changes of the secret row from a grid, and
every row and column moving by all of its translation, as far as the domain is wide, or by none of it.
"""

import itertools

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.core.rounding import UNIT
from pufferflow.sensitivity.implied_laws import implied

WIDTHS = np.array([10.0, 4.0])
DOMAINS = [pf.Interval(-5, 5), pf.Interval(0, 4)]
NAMES = ["load", "temp"]
BOTH = pf.Secret.together(
    *(pf.Secret(name, domain) for name, domain in zip(NAMES, DOMAINS, strict=True))
)
ONE_BY_ONE = pf.Secret.together(
    *(pf.Secret(name, domain) for name, domain in zip(NAMES, DOMAINS, strict=True)),
    pairs="one column",
)
HIDDEN = pf.Derived("temp", column=NAMES, domain=DOMAINS)
FACTORS = np.array([1.0, -2.0])
GAP = pf.Derived("gap", of={"load": 1, "temp": -2}, column=NAMES, domain=DOMAINS)
NEAR = pf.Derived(
    "gap", of={"load": 1, "temp": -2}, column=NAMES, domain=DOMAINS, pairs=pf.WithinDistance(1.5)
)
DISTANCES = {"gap": 18.0, "near gap": 1.5}
ROWS = 3


def random_covariance(rng, size):
    root = rng.normal(size=(size, size))
    return root @ root.T + 0.1 * np.diag(rng.random(size))


def at_corners(slopes):
    """Return functions Σ_c slopes[c]·x_c at the corners of the product of domains."""
    corners = np.array(list(itertools.product(*(domain.points for domain in DOMAINS))))
    return slopes @ corners.T


def translations(covariance, row, kind):
    """Yield the translations of all columns of all rows for changes of a row: the ends, and some in between."""
    own = [2 * row, 2 * row + 1]
    shares = (-1, -0.5, 0, 0.5, 1)
    if kind in DISTANCES:
        toward = covariance[:, own] @ FACTORS
        for share in shares:
            yield toward / (FACTORS @ toward[own]) * share * DISTANCES[kind]
        return
    if kind == "temp":
        for share in shares:
            yield covariance[:, own[1]] / covariance[own[1], own[1]] * share * WIDTHS[1]
        return
    for first, second in itertools.product(shares, repeat=2):
        if kind == "both" or not (first and second):
            change = np.array([first, second]) * WIDTHS
            yield covariance[:, own] @ np.linalg.solve(covariance[np.ix_(own, own)], change)


def farthest(covariance, weights, slopes, kind, norm):
    """Return the longest movement of the answers Σ_r w_r Σ_c slope_c X_rc over all that rows may do."""
    flags = np.array(list(itertools.product([0, 1], repeat=2 * ROWS)))
    terms = (weights[:, :, None] * slopes[:, None, :]).reshape(len(weights), -1)
    longest = 0.0
    for row in range(ROWS):
        for moved in translations(covariance, row, kind):
            read = np.clip(moved, -np.tile(WIDTHS, ROWS), np.tile(WIDTHS, ROWS))
            longest = max(
                longest, float(np.linalg.norm((flags * read) @ terms.T, norm, axis=1).max())
            )
    return longest


@pytest.mark.parametrize("seed", thinned(range(24), 0.25, slow=0.5))
@pytest.mark.parametrize(
    ("kind", "secret"),
    [("both", BOTH), ("one", ONE_BY_ONE), ("temp", HIDDEN), ("gap", GAP), ("near gap", NEAR)],
)
def test_no_movement_is_longer_than_is_said(kind, secret, seed):
    """Random covariances of three rows and two columns, whole or as products; one answer of one column is exact."""
    rng = np.random.default_rng(seed)
    weights, slopes = (
        rng.integers(-2, 3, (2, ROWS)).astype(float),
        rng.integers(-2, 3, (2, 2)).astype(float),
    )
    rows, across = random_covariance(rng, ROWS), random_covariance(rng, 2)
    whole = random_covariance(rng, 2 * ROWS)
    priors = [
        (pf.GaussianPrior(rows, across=across), np.kron(rows, across)),
        (pf.GaussianPrior(whole), whole),
        (
            pf.GaussianPrior(pf.AR1(-0.6), across=across),
            np.kron((-0.6) ** abs(np.subtract.outer(*[range(3)] * 2)), across),
        ),
    ]
    for (prior, covariance), norm in itertools.product(priors, (1, 2)):
        laws = implied(prior, pf.Statistic(weights, at_corners(slopes)), secret)
        truth = farthest(covariance, weights, slopes, kind, norm)
        assert laws.winf(norm).length >= truth * (1 - 4 * UNIT)
        assert laws.winf(norm).length <= laws.span(norm).length
        single = implied(prior, pf.Statistic(weights[0], at_corners(np.array([1.0, 0.0]))), secret)
        truth = farthest(covariance, weights[:1], np.array([[1.0, 0.0]]), kind, 1)
        assert single.winf(1).length >= truth * (1 - 4 * UNIT)
        if prior.across is not None:
            assert single.winf(1).length <= truth * (1 + 1e-9)


def test_the_joint_matrix_of_a_product_moves_as_the_product_does():
    """Covariances that are products, as such and as one matrix: equal movements of both columns of many rows."""
    across = np.array([[4.0, 1.5], [1.5, 1.0]])
    lags = np.abs(np.subtract.outer(range(20), range(20)))
    weights = np.random.default_rng(1).normal(size=(2, 20))
    statistic = pf.Statistic(weights, at_corners(np.eye(2)))
    for secret, norm in itertools.product((BOTH, ONE_BY_ONE, HIDDEN, GAP, NEAR), (1, 2)):
        product, joint = (
            implied(prior, statistic, secret).winf(norm).length
            for prior in (
                pf.GaussianPrior(pf.AR1(0.8), across=across),
                pf.GaussianPrior(np.kron(0.8**lags, across)),
            )
        )
        assert joint == pytest.approx(product, rel=1e-9)


def test_limits_may_be_reached_between_the_ends():
    """Two rows follow d₁ + 10·d₂ and d₁ − 10·d₂: with limits both move farthest where d₂ stays, and that is covered."""
    slopes = np.array([[1.0, 10.0], [1.0, -10.0]])  # of rows 2 and 3 in the first column, on row 1
    covariance = np.eye(6)
    covariance[np.ix_([2, 4], [0, 1])] = slopes
    covariance[np.ix_([0, 1], [2, 4])] = slopes.T
    covariance[np.ix_([2, 4], [2, 4])] = slopes @ slopes.T + 0.1 * np.eye(2)
    domains = [pf.Interval(0, 1), pf.Interval(0, 1)]
    secret = pf.Secret.together(
        *(pf.Secret(name, domain) for name, domain in zip(NAMES, domains, strict=True))
    )
    corners = np.array(list(itertools.product(*(domain.points for domain in domains))))
    laws = implied(
        pf.GaussianPrior(covariance), pf.Statistic([0.0, 1.0, 1.0], corners[:, 0]), secret
    )
    assert laws.winf(1).length >= 2


def test_a_difference_as_the_paper_has_it():
    """RPP Prop. F.1: the translation of a sum by a difference, where each column is read by itself (M60 (iv))."""
    names, covariance = ["a", "b", "c"], [[4, 1, 0.5], [1, 2, 0.3], [0.5, 0.3, 1]]
    domains = [pf.Interval(-50, 50)] * 3
    corners = np.array([sum(ends) for ends in itertools.product((-50, 50), repeat=3)])
    near = pf.WithinDistance(1)
    secret = pf.Derived("gap", of={"a": 1, "b": -1}, column=names, domain=domains, pairs=near)
    for prior in (pf.GaussianPrior([[1.0]], across=covariance), pf.GaussianPrior(covariance)):
        moved = implied(prior, pf.Statistic([[1.0]], corners), secret).winf(1).length
        assert 0.8 <= moved <= 0.8 * (1 + 1e-12)


def test_a_function_of_one_column_hides_what_the_column_does():
    """Twice a column, with twice the distance, is the column itself."""
    statistic = pf.Statistic(np.ones(3), at_corners(np.array([1.0, 2.0])))
    double = pf.Derived("double", of={"temp": -2}, column=NAMES, domain=DOMAINS)
    for prior in (
        pf.GaussianPrior(pf.AR1(0.7), across=[[4, 1], [1, 2]]),
        pf.GaussianPrior(random_covariance(np.random.default_rng(3), 6)),
    ):
        one, other = (implied(prior, statistic, one).winf(1).length for one in (HIDDEN, double))
        assert other == pytest.approx(one, rel=1e-12)


def test_a_function_under_bounds_of_factors_is_refused():
    """Of a class of covariances only single columns are known to drag others along."""
    across = pf.GaussianPrior.fit(
        pf.Reference(
            "study",
            pl.DataFrame(
                {"g": [0, 0, 1, 1, 2, 2, 3, 3], "load": [1.0, 2.0, 2.0, 4.0, 3.0, 1.0, 0.0, 2.5]}
            ).with_columns(
                temp=pl.col("load") * 0.5 + pl.Series([0.1, -0.3, 0.2, 0.0, 0.4, 0.0, -0.2, 1.0])
            ),
        ),
        NAMES,
        "g",
        slack=0.1,
    )
    with pytest.raises(pf.Refused, match="only bounds on factors"):
        pf.Scenario(GAP, across)
    pf.Scenario(HIDDEN, across)
