"""How far answers about cells move, in both norms, against all values and all ways to round them (M7, M13–M17)."""

import itertools
import math

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.queries.statistic import Kinds
from pufferflow.sensitivity.movement import group_movement
from pufferflow.sensitivity.pattern import of_pattern
from tests.support.chains import kernel
from tests.support.patterns import answers, farthest, pattern, values

CELLS = [[0, 0, 1], [0, 1, 2, -1], [0, 0, 0, 1]]
MOVED = {
    "any correlation": pf.AnyCorrelation(),
    "chain": pf.MarkovChain(kernel(np.random.default_rng(1), 3)),
    "latent class": pf.LatentClass([0.5, 0.5], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]),
    "gaussian": pf.GaussianPrior(pf.Exchangeable(0.2)),
}


@pytest.mark.parametrize("cells", thinned(CELLS, 0.25), ids=str)
@pytest.mark.parametrize("name", MOVED)
def test_the_movement_of_a_group_is_that_of_all_values(name, cells, monkeypatch):
    """Group privacy over cells is the farthest that any values move the answers, listed or not; covers reach as far."""
    prior, tables = MOVED[name], np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0]])
    where = pattern(cells, range(len(cells)) if prior.ordered else None)
    asked = [0] * where.selected
    cover = pattern(asked, range(len(asked)) if prior.ordered else None, covers=True)
    listed = of_pattern(prior, values(3), where, tables, "x")
    monkeypatch.setattr("pufferflow.sensitivity.pattern._MOST_WEIGHTS", 1)
    covered, covering = (of_pattern(prior, values(3), one, tables, "x") for one in (where, cover))
    for norm in (1, 2):
        truth = farthest(cells, tables, norm)
        for laws in (listed, covered):
            assert laws.span(norm).length == pytest.approx(truth)
            assert laws.span(norm).length >= truth * (1 - 1e-15)
        assert covering.span(norm).length == pytest.approx(farthest(asked, tables, norm))


def test_answers_that_share_rows_move_together():
    """The movement of sums that overlap, some of them, is never below the farthest of all values."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        weights = rng.integers(0, 2, (4, 4)) * rng.integers(1, 3, (4, 4)).astype(float)
        tables = rng.integers(-2, 3, (4, 2)).astype(float)
        points = [
            (weights * tables[:, list(path)]).sum(axis=1)
            for path in itertools.product(range(2), repeat=4)
        ]
        kinds, each = Kinds.of(weights), weights.sum(axis=1) * np.ptp(tables, axis=1)
        for norm in (1, 2):
            truth = max(float(np.linalg.norm(a - b, norm)) for a in points for b in points)
            found = group_movement(kinds.columns, kinds.counts, tables, norm)
            assert truth * (1 - 1e-12) <= found <= np.linalg.norm(each, norm) * (1 + 1e-12)


INTERVAL = pf.Secret("x", domain=pf.Interval(0, 4))
NEAR = pf.Secret("x", domain=pf.Interval(0, 4), pairs=pf.WithinDistance(0.6))
COVARIANCES = [
    pf.AR1(0.5),
    pf.AR1(-0.6),
    pf.AR1((-0.3, 0.6)),
    pf.Exchangeable(0.4),
    pf.Kernel([1.0, -0.5, 0.2]),
]
PLACES = np.array([0.0, 1, 2, 3, 5, 6])


def rounded(numbers, steps):
    """Return k(x): the line from 0 to so many steps, rounded to whole ones."""
    return np.floor(np.clip(numbers, 0, 4) / 4 * steps + 0.5)


def translated(rng, covariance, reach, draws):
    """Return random rows before and after one of them moves by `reach` within the interval, and takes others along."""
    above, below = covariance.toward(PLACES, PLACES)
    row, sign = rng.integers(6, size=draws), rng.choice([-1.0, 1.0], size=draws)
    before = np.where(
        rng.random((draws, 1)) < 0.5,
        rng.uniform(-4, 8, (draws, 6)),
        rng.choice([0.0, 1, 4], (draws, 6)),
    )
    moves = sign[:, None] * reach * np.where(above > 0, above, -below)[row]
    own = np.where(sign > 0, rng.uniform(0, 4 - reach, draws), rng.uniform(reach, 4, draws))
    before[np.arange(draws), row], moves[np.arange(draws), row] = own, sign * reach
    return before, before + moves


@pytest.mark.parametrize("covariance", COVARIANCES, ids=str)
def test_translated_rows_in_cells_never_move_farther(covariance, monkeypatch):
    """Clamped and rounded translations (M15) of rows in cells, whatever the values and cells, are within W_∞."""
    rng, cells, every = np.random.default_rng(7), [0, 0, 1, -1, 1, 2], [0, 0, 1, 0, 1, 2]
    steps, prior = np.array([3.0, -7.0]), pf.GaussianPrior(covariance)
    tables = np.stack([np.zeros(2), steps], axis=1)
    shapes = [(cells, pattern(cells, PLACES), 1e9), (cells, pattern(cells, PLACES), 1)]
    shapes.append((every, pattern([0] * 6, PLACES, covers=True), 1))
    for secret, reach in ((INTERVAL, 4.0), (NEAR, 0.6)):
        before, after = translated(rng, covariance, reach, 3000)
        change = np.stack([rounded(after, n) - rounded(before, n) for n in steps])
        for asked, where, most in shapes:
            monkeypatch.setattr("pufferflow.sensitivity.pattern._MOST_WEIGHTS", most)
            laws = of_pattern(prior, secret, where, tables, "x", np.ones(2))
            sums = np.stack(
                [change[:, :, [c == cell for c in asked]].sum(axis=2) for cell in range(3)]
            )
            for norm in (1, 2):
                lengths = np.linalg.norm(sums.reshape(6, -1), norm, axis=0)
                assert lengths.max() <= laws.winf(norm).length * (1 + 1e-12)


@pytest.mark.parametrize("covariance", [one for one in COVARIANCES if one.known], ids=str)
def test_rows_in_cells_of_their_own_move_as_far_as_said(covariance):
    """A cover's movement in the norm 1 is that of rows in a cell each, all of which follow: Σ|c_ri| at the worst i."""
    cover = pattern([0] * 6, PLACES, covers=True)
    laws = of_pattern(pf.GaussianPrior(covariance), NEAR, cover, np.array([[0.0, 8.0]]), "x")
    factors = np.add(*covariance.toward(PLACES, PLACES))
    assert laws.winf(1).length == pytest.approx(factors.sum(axis=1).max() * 0.6 * 2)


def test_rounding_of_one_row_is_nearly_exact():
    """The farthest that rounded values of a row lie apart is what an independent row is said to move, in every cell."""
    low = np.linspace(0, 4, 4001)
    for (secret, reach), steps in itertools.product(
        ((INTERVAL, 4.0), (NEAR, 0.6)), ([7.0], [14.0], [7.0, 14.0])
    ):
        tables = np.stack([np.zeros(len(steps)), steps], axis=1)
        change = np.stack([rounded(np.minimum(low + reach, 4), n) - rounded(low, n) for n in steps])
        laws = of_pattern(
            pf.Independent(), secret, pattern([0, 0, 1, 2]), tables, "x", np.ones(len(steps))
        )
        for norm in (1, 2):
            truth, found = float(np.linalg.norm(change, norm, axis=0).max()), laws.winf(norm).length
            assert truth <= found * (1 + 1e-12)
            assert truth > found * (0.95 if len(steps) == 1 else 0.7)
        assert pf.calibrate(laws, pf.Pure(1.0)).noise.scale == pytest.approx(laws.winf(1).length)


def test_rounding_adds_nothing_where_all_rows_may_change():
    """The ends of an interval are whole steps: what reaches from end to end is not lengthened."""
    tables, where = np.array([[0.0, 6.0]]), pattern([0, 0, 1])
    for prior in (pf.AnyCorrelation(), pf.GaussianPrior(pf.Exchangeable(1 - 2**-53))):
        laws = of_pattern(prior, INTERVAL, where, tables, "x", np.ones(1))
        assert laws.winf(2).length == pytest.approx(6 * math.sqrt(5))
    weak = of_pattern(pf.WeaklyDependent(0.5), INTERVAL, where, tables, "x", np.ones(1))
    assert weak.winf(1).length == pytest.approx(6 + 2 * 0.5 * 1.5 + 3)
    assert pf.loss(weak, pf.Laplace(1.0), pf.Pure) == pytest.approx(10.5)
    with pytest.raises(pf.UsageError, match="rounding"):
        of_pattern(prior, INTERVAL, where, tables, "x", np.ones(3))


def test_draws_are_rounded_too():
    """Laws known by draws are as near as drawn and farther by the rounding of all rows; never beyond the group."""
    prior = pf.Simulator(lambda *given: np.full(given[3], 3.0 * given[0]), draws=20_000, seed=1)
    secret = pf.Derived("kind", values=[0, 1], column="x", domain=pf.Interval(0, 10))
    for steps in (10.0, 1.0):
        laws = of_pattern(
            prior, secret, pattern([0, 0, 0, 0]), np.array([[0.0, steps]]), "x", np.ones(1)
        )
        assert laws.near(0.1, 1).length == min(3.0 + 4.0, 4 * steps)
        with pytest.raises(pf.Refused):
            laws.winf(1)


def test_nearly_independent_rows_in_cells(monkeypatch):
    """What a distance allows (M17) is the same in however many cells, and no more than the group moves."""
    where, tables = pattern([0, 0, 1, 2]), np.array([[0.0, 4.0], [0.0, 2.0]])
    monkeypatch.setattr("pufferflow.sensitivity.pattern._MOST_WEIGHTS", 1)
    laws = of_pattern(pf.WeaklyDependent(0.7), INTERVAL, where, tables, "x")
    for norm in (1, 2):
        row = float(np.linalg.norm([4.0, 2.0], norm))
        assert laws.winf(norm).length == pytest.approx(
            min(row + 2 * 0.7 * row / 4, laws.span(norm).length)
        )


def test_a_path_that_forgets_its_start_in_cells(monkeypatch):
    """Movements of a diffusion (M14) are Σ e^(−Ct) of the start's, in the norm 1 whichever cells rows are in."""
    first, tables = pf.Initial("x", domain=pf.Interval(0, 4)), np.array([[0.0, 4.0]])
    where = pattern([0, 0, 1, -1, 2], [0, 1, 2, 3, 4])
    each = 4 * np.array([1 + math.exp(-1), math.exp(-2), math.exp(-4)])
    for most in (1e9, 1):
        monkeypatch.setattr("pufferflow.sensitivity.pattern._MOST_WEIGHTS", most)
        laws = of_pattern(pf.Diffusion(1.0), first, where, tables, "x")
        assert laws.winf(1).length == pytest.approx(each.sum())
        assert laws.winf(2).length >= np.linalg.norm(each)


@pytest.mark.parametrize("second", [[0.0, -2.0, 3.0], [0.0, 2.0, 3.0]], ids=str)
@pytest.mark.parametrize("prior", [pf.Independent(), pf.AnyCorrelation()], ids=str)
def test_a_unit_that_comes_and_goes(prior, second):
    """All that up to three rows add, in any cells, is within the movement; one cell reaches it in both norms."""
    secret, tables = pf.Presence("person", "x", [0, 1, 2]), np.array([[1.0, 1.0, 1.0], second])
    laws = of_pattern(prior, secret, pattern([0], counts=[3]), tables, "x")
    absent = np.concatenate([tables, np.zeros((2, 1))], axis=1)
    for norm in (1, 2):
        found = []
        for cells in ([0, 0, 0], [0, 1, 0], [0, 1, 2]):
            points = [
                answers(path, cells, absent) for path in itertools.product(range(4), repeat=3)
            ]
            others = points if prior == pf.AnyCorrelation() else [np.zeros_like(points[0])]
            found.append(max(float(np.linalg.norm(a - b, norm)) for a in points for b in others))
        assert laws.winf(norm).length == pytest.approx(found[0])
        assert laws.span(norm).length == pytest.approx(found[0])
        assert found[0] == max(found)
    one = of_pattern(prior, secret, pattern([0], counts=[1]), tables, "x")
    assert one.winf(1).length == pytest.approx(laws.winf(1).length / 3)


def test_noise_with_heavy_tails_counts_the_cells_a_unit_may_be_in():
    """Three rows in cells of their own cost more under Cauchy noise than in one; the guarantee holds for both."""
    secret, ones, noise = pf.Presence("person"), np.ones((1, 1)), pf.GeneralizedCauchy(0.5)
    for cells, apart in ((None, 3), (2, 2), (1, 1)):
        laws = of_pattern(
            pf.Independent(), secret, pattern([0], counts=[3]), ones, None, cells=cells
        )
        assert (laws.dimension, laws.winf(1).length, laws.winf(2).length) == (apart, 3, 3)
        rows = np.bincount(np.arange(3) % apart).astype(float)
        assert pf.loss(laws, noise, pf.Pure) >= float(np.sum(noise.pure(rows))) * (1 - 1e-12)
