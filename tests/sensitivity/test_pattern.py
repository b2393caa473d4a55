"""Laws of what a batch asks about a public pattern, against all that small groups can do (M2, M20, M21, M23)."""

import itertools

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.movement import Movement
from pufferflow.sensitivity.pattern import of_pattern
from tests.support.chains import kernel
from tests.support.patterns import chain_loss, pattern, star_loss, sub_patterns, values

NOISE = pf.Laplace(2.0)


def sticky(rng, states):
    """Return a chain that likes to stay, where messages are near the truth."""
    matrix = kernel(rng, states) + 3 * np.eye(states)
    return matrix / matrix.sum(axis=1, keepdims=True)


WINDOWS = [
    (2, [0, 0, 1, 1], [0, 1, 2, 3], 1),
    (2, [0, 1, 0, -1, 1], [0, 1, 3, 4, 5], 2),
    (2, [0, -1, 1, 2], [1, 2, 3, 5], 2),
    (3, [0, 0, 1, 1], [0, 1, 2, 3], 1),
    (3, [0, 1, 1], [0, 1, 3], 2),
]


@pytest.mark.parametrize(
    ("states", "cells", "positions", "measures"), thinned(WINDOWS, 0.4, unpack=True), ids=str
)
def test_losses_of_windows_are_those_of_all_paths_or_more(
    states, cells, positions, measures, monkeypatch
):
    """Measures of several windows, listed or covered: no bound is below the exact loss, and messages are near it."""
    rng = np.random.default_rng(states * 10 + measures + len(cells))
    matrix, law = sticky(rng, states), rng.dirichlet(np.ones(states))
    tables = rng.integers(0, 3, (measures, states)).astype(float)
    tables[0] = np.arange(states)
    where, prior = pattern(cells, positions), pf.MarkovChain(matrix, initial=law.tolist())
    truth = chain_loss([matrix], law, where, tables, NOISE.scale)
    for covered in (False, True):
        if covered:
            monkeypatch.setattr("pufferflow.sensitivity.pattern._MOST_COMPARED", 0.5)
        laws = of_pattern(prior, values(states), where, tables, "x")
        assert isinstance(laws, Movement) == covered
        assert laws.dimension == measures * (max(cells) + 1)
        for bound in (pf.Messages(), pf.GWM(), pf.Kantorovich(), pf.Group(), pf.Quilt()):
            assert truth <= pf.loss(laws, NOISE, pf.Pure, bound=bound) * (1 + 1e-9)
        assert truth > pf.loss(laws, pf.Laplace(NOISE.scale / 0.75), pf.Pure, bound=pf.Messages())


def test_a_count_of_sticky_rows_in_windows_is_tight():
    """With two states that stay, messages about windows cost what is true to a few per cent: less noise will not do."""
    matrix, tables = np.array([[0.95, 0.05], [0.05, 0.95]]), np.array([[0.0, 1.0]])
    where = pattern([0, 0, 1, 1], range(4))
    laws = of_pattern(pf.MarkovChain(matrix), values(2), where, tables, "x")
    found = pf.calibrate(laws, pf.Pure(1.0), bound=pf.Messages()).noise.scale
    assert chain_loss([matrix], [0.5, 0.5], where, tables, found) == pytest.approx(1.0, abs=0.03)
    assert chain_loss([matrix], [0.5, 0.5], where, tables, 0.9 * found) > 1.04


CHAINS = {
    "known start": lambda matrix: pf.MarkovChain(matrix, initial=[0.2, 0.8]),
    "free start": lambda matrix: pf.MarkovChain(matrix, initial="free"),
    "stationary": pf.MarkovChain,
    "a period": lambda matrix: pf.MarkovChain([matrix, matrix[::-1, ::-1]], period=2),
    "a class": lambda matrix: pf.MarkovChain.between(matrix - 0.02, matrix + 0.02),
}


@pytest.mark.parametrize("name", thinned(CHAINS, 0.2))
@pytest.mark.parametrize("secret", [pf.Secret, pf.Initial], ids=["every row", "first row"])
def test_a_cover_costs_no_less_than_the_patterns_inside(name, secret):
    """Rows with gaps, filters and windows lose no more than all rows asked about in one cell, by every bound."""
    rng = np.random.default_rng(len(name))
    prior, hidden, tables = (
        CHAINS[name](sticky(rng, 2)),
        secret("x", domain=[0, 1]),
        np.array([[0.0, 1.0]]),
    )
    cover = of_pattern(prior, hidden, pattern([0] * 7, range(7), covers=True), tables, "x")
    bounds = [pf.Messages(), pf.Group(), *([] if name == "a class" else [pf.Quilt()])]
    noises = NOISE, pf.GeneralizedCauchy(1.5)
    most = {
        (noise, bound): pf.loss(cover, noise, pf.Pure, bound=bound)
        for noise in noises
        for bound in bounds
    }
    for where in [*sub_patterns(rng, 6, 7), pattern(range(7), range(7))]:
        laws = of_pattern(prior, hidden, where, tables, "x")
        for (noise, bound), limit in most.items():
            assert pf.loss(laws, noise, pf.Pure, bound=bound) <= limit * (1 + 1e-7)


def test_a_cover_is_not_below_the_truth_of_the_patterns_inside():
    """The exact loss of random patterns inside stays below the cover's, and one of them comes near it."""
    rng = np.random.default_rng(8)
    matrix, law, tables = sticky(rng, 2), [0.3, 0.7], np.array([[0.0, 1.0]])
    prior, whole = pf.MarkovChain(matrix, initial=law), pattern([0] * 5, range(5), covers=True)
    most = pf.loss(of_pattern(prior, values(2), whole, tables, "x"), NOISE, pf.Pure)
    inside = [
        *sub_patterns(rng, 12, 5),
        pattern([0] * 5, range(5)),
        pattern([0, 1, 2, 1, 0], range(5)),
    ]
    found = [
        chain_loss([matrix], law, where, tables, NOISE.scale) for where in inside if where.answers
    ]
    assert max(found) <= most * (1 + 1e-9)
    assert max(found) > 0.93 * most


def test_rows_that_cancel_do_not_in_a_pattern_inside():
    """Rows that alternate have one sum; every other of them, as a filter leaves, move together, and a cover says so."""
    prior, tables = pf.MarkovChain([[0, 1], [1, 0]], initial=[0.5, 0.5]), np.array([[0.0, 1.0]])
    inside = of_pattern(prior, values(2), pattern([0, -1, 0, -1], range(4)), tables, "x")
    assert inside.winf(1).length == 2
    for cells in (None, 1):
        cover = of_pattern(
            prior, values(2), pattern([0] * 4, range(4), covers=True), tables, "x", cells=cells
        )
        for promise, noise in ((pf.Pure(1.0), pf.Laplace), (pf.Renyi(2, 1.0), pf.Gaussian)):
            scales = [
                pf.calibrate(laws, promise, noise=noise).noise.scale for laws in (inside, cover)
            ]
            assert 0 < scales[0] <= scales[1]


LATENT = pf.LatentClass([0.4, 0.6], [[0.9, 0.1], [0.3, 0.7]])
LATENT_DRAWS = [(c, x, x, LATENT.weights[c] * LATENT.rows[c][x]) for c in (0, 1) for x in (0, 1)]
DRAWS = [(0, 0, 0, 0.3), (0, 1, 0, 0.2), (0, 1, 1, 0.1), (1, 0, 1, 0.2), (1, 1, 1, 0.2)]
COLUMNS = dict(
    zip(("town", "ill", "x", "probability"), map(list, zip(*DRAWS, strict=True)), strict=True)
)
STARS = {
    "latent class": (values(2), LATENT, LATENT_DRAWS),
    "hidden class": (pf.Derived("kind", column="x", domain=[0, 1]), LATENT, LATENT_DRAWS),
    "shared table": (
        pf.Derived("ill", column="x", domain=[0, 1]),
        pf.Table(COLUMNS, shared="town"),
        DRAWS,
    ),
}


@pytest.mark.parametrize("name", STARS)
def test_rows_that_share_a_class_in_cells(name):
    """Enumerated losses of cells stay below those guaranteed, and below those of a cover of as many rows."""
    secret, prior, draws = STARS[name]
    tables = np.array([[0.0, 1.0], [1.0, 0.0]])
    cover = of_pattern(prior, secret, pattern([0], counts=[4], covers=True), tables, "x")
    most, found = pf.loss(cover, NOISE, pf.Pure), list[float]()
    for cells in ([0, 0, 1], [0, -1, -1, 1], [0, 0, 0, 0], [0, 0, 0, -1]):
        promised = pf.loss(
            of_pattern(prior, secret, pattern(cells), tables, "x"),
            NOISE,
            pf.Pure,
            bound=pf.Messages(),
        )
        found.append(star_loss(draws, cells, tables, NOISE.scale, of_class=name == "hidden class"))
        assert found[-1] <= promised * (1 + 1e-9) <= most * (1 + 2e-9)
    assert max(found) > (0.6 if name == "shared table" else 0.9) * most


def test_rows_that_stand_alone_need_one_row():
    """Independent rows and draws from a table move one cell: laws are those of one row, asked about if any is."""
    table = pf.Table({"ill": [0, 0, 1, 1], "x": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.2, 0.3]})
    tables = np.array([[0.0, 1.0], [1.0, 0.0]])
    for prior, secret in (
        (pf.Independent(), values(2)),
        (table, pf.Derived("ill", column="x", domain=[0, 1])),
    ):
        one = implied(prior, pf.Statistic([[1], [1]], tables, column="x"), secret)
        for cells, covers in itertools.product(([0, -1, 1, 0], [0]), (False, True)):
            laws = of_pattern(prior, secret, pattern(cells, covers=covers), tables, "x")
            assert [(pair.mu, pair.nu) for pair in laws] == [(pair.mu, pair.nu) for pair in one]
    first = pf.Initial("x", domain=[0, 1])
    for cells, moved in (([0, -1], 2.0), ([-1, 0], 0.0)):
        laws = of_pattern(pf.Independent(), first, pattern(cells, [3, 4], start=3.0), tables, "x")
        assert laws.winf(1).length == moved


NOTHING = [
    pf.Independent(),
    pf.AnyCorrelation(),
    LATENT,
    pf.MarkovChain(kernel(np.random.default_rng(2), 2)),
]


@pytest.mark.parametrize("prior", NOTHING, ids=lambda prior: type(prior).__name__)
@pytest.mark.parametrize("covers", [False, True], ids=["a pattern", "a cover"])
def test_nothing_asked_moves_nothing(prior, covers):
    """A group none of whose rows is asked about needs no noise."""
    where = pattern([-1, -1], [0, 1], covers=covers)
    laws = of_pattern(prior, values(2), where, np.array([[0.0, 1.0]]), "x")
    assert pf.calibrate(laws, pf.Pure(1.0)).noise.scale == 0


def test_measures_have_their_place():
    """Coordinates go cell by cell, and measure by measure within a cell."""
    where, tables = pattern([0, 1, 1]), np.array([[0.0, 1.0], [0.0, 10.0]])
    prior = pf.LatentClass([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    (pair, *_) = of_pattern(prior, values(2), where, tables, "x")
    assert pair.nu.values.tolist() == [[1, 10, 2, 20]]
    with pytest.raises(pf.InternalError, match="positions"):
        of_pattern(pf.MarkovChain(np.eye(2) / 2 + 0.25), values(2), where, tables, "x")


STEADY = {
    "chain": (pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), 1),
    "period": (pf.MarkovChain([[[0.9, 0.1], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]], period=2), 2),
    "class": (pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]]), 1),
    "AR1": (pf.GaussianPrior(pf.AR1(-0.5)), 1),
    "kernel": (pf.GaussianPrior(pf.Kernel([1.0, 0.4])), 1),
    "exchangeable": (pf.GaussianPrior(pf.Exchangeable(0.4)), 1),
    "independent": (pf.Independent(), 1),
    "known start": (pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]], initial=[1, 0]), None),
    "free start": (
        pf.MarkovChain.between([[0.8, 0.1], [0.1, 0.8]], [[0.9, 0.2], [0.2, 0.9]], initial="free"),
        None,
    ),
    "matrix": (pf.GaussianPrior(np.eye(9)), None),
    "diffusion": (pf.Diffusion(1.0), None),
    "simulated": (pf.Simulator(lambda *_: np.zeros(10)), None),
}


@pytest.mark.parametrize("name", STEADY)
def test_shifts_that_change_no_law(name):
    """Positions shifted by a multiple of what a prior says have the same losses and movements."""
    prior, repeats = STEADY[name]
    assert prior.repeats == repeats
    found = []
    for shift in (0, 5, 1000) if repeats else ():
        where = pattern(
            [0, 0, 1, -1, 0],
            np.array([0, 1, 2, 4, 7]) + shift * repeats,
            start=float(shift * repeats),
        )
        laws = of_pattern(prior, values(2), where, np.array([[0.0, 1.0]]), "x")
        found.append(
            [laws.span(2).length, pf.loss(laws, NOISE, pf.Pure, bound=[pf.Messages(), pf.Group()])]
        )
    assert all(one == pytest.approx(found[0], rel=1e-7) for one in found)
