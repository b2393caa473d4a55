"""Movements implied by priors, against every way in which rows can move; tempting shortcuts fall short of the truth."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from thinned import thinned

import pufferflow as pf
from pufferflow.models.priors.correlations import AR1, Exchangeable, Kernel
from pufferflow.models.priors.covariance import Matrix
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.simple import AnyCorrelation, Independent
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.movement import Movement
from pufferflow.sensitivity.shift import _since

NORMS = (1, 2, np.inf)
INTERVAL = pf.Interval(0, 10)


def laws(prior, weights, domain, values=None, **options):
    statistic = pf.Statistic(weights, values, options.pop("positions", None))
    return implied(prior, statistic, pf.Secret("x", domain=domain, **options))


def random_statistic(rng, answers, *, rows=3, points=3):
    weights = rng.integers(-3, 4, (answers, rows)).astype(float)
    return weights, rng.integers(-4, 5, (answers, points)).astype(float)


def farthest(weights, values, moves, norm):
    """The longest Σ_r w_r∘(φ(x_r) − φ(y_r)), where row r has any pair (x, y) of moves[r]."""
    steps = [
        [weights[:, r] * (values[:, x] - values[:, y]) for x, y in pairs]
        for r, pairs in enumerate(moves)
    ]
    return max(
        float(np.linalg.norm(np.sum(chosen, axis=0), norm)) for chosen in itertools.product(*steps)
    )


@pytest.mark.parametrize("answers", [1, 2])
def test_rows_that_may_do_anything(answers):
    """All rows may move at once between any two values; for one answer that is the bound, for more it is no less."""
    rng = np.random.default_rng(answers)
    every = list(itertools.product(range(3), repeat=2))
    for _ in range(6):
        weights, values = random_statistic(rng, answers)
        found = laws(AnyCorrelation(), weights, [0, 1, 2], values)
        for norm in NORMS:
            true = farthest(weights, values, [every] * 3, norm)
            assert found.winf(norm).length >= true * (1 - 1e-15)
            assert found.winf(norm).length == found.span(norm).length
            if answers == 1:
                assert (found.winf(norm).length, found.winf(norm).certainty) == (
                    true,
                    pf.Certainty.EXACT,
                )


def test_pairs_that_are_named_do_not_hold_other_rows():
    """A row that moves between two values may drag the others anywhere."""
    assert laws(AnyCorrelation(), [1, 1], [0, 1, 5], pairs=[(0, 1)]).winf(1).length == 10
    histogram = laws(AnyCorrelation(), np.ones((3, 4)), [0, 1, 2], np.eye(3))
    assert histogram.winf(1).length == pytest.approx(8)
    assert histogram.winf(2).length == pytest.approx(4 * math.sqrt(2))


@pytest.mark.parametrize("answers", [1, 2])
def test_rows_that_are_independent(answers):
    """One row moves between two values, and nothing else; every pair is listed once, without what does not move."""
    rng = np.random.default_rng(answers)
    for _ in range(6):
        weights, values = random_statistic(rng, answers, rows=4)
        found = laws(Independent(), weights, [0, 1, 2], values)
        every = [
            weights[:, r] * (values[:, x] - values[:, y])
            for r in range(4)
            for x, y in itertools.combinations(range(3), 2)
        ]
        for norm in NORMS:
            true = max(np.linalg.norm(step, norm) for step in every)
            for question in (
                found.winf,
                lambda norm, found=found: found.near(0.5, norm),
                found.span,
            ):
                assert question(norm).length == pytest.approx(true, rel=1e-12)
                assert question(norm).length >= true * (1 - 1e-15)
                assert question(norm).certainty == pf.Certainty.EXACT
        listed = {tuple(np.ravel(pair.nu.values - pair.mu.values).tolist()) for pair in found}
        both = listed | {tuple(-x for x in step) for step in listed}
        moving = {tuple((step + 0.0).tolist()) for step in every if step.any()}
        assert moving <= both <= moving | {tuple(-x for x in step) for step in moving} or not moving
        assert len(found) == len({frozenset([step, tuple(-x for x in step)]) for step in both})


def test_laws_of_independent_rows_are_what_the_row_adds():
    """Constants w·φ(a) and w·φ(b), with the row and the values; exact where no float holds them."""
    ((mu, nu),) = laws(Independent(), [2, 2], [1, 4])
    assert (mu, nu) == (pf.Law.point(2), pf.Law.point(8))
    found = laws(Independent(), [0.1, 0.2], [0, 1, 3])
    assert found.winf(1).length >= 3 * 0.2
    assert found.winf(1).witness.secrets == (0, 3)
    assert found.winf(1).witness.row == 1
    near = laws(Independent(), [1, 1], pf.Interval(0, 10), pairs=pf.WithinDistance(2.5))
    assert (near.winf(1).length, len(near)) == (2.5, 1)
    many = laws(Independent(), np.arange(1.0, 30_001), [0, 1])
    assert (many.winf(1).length, many.winf(1).witness.row, len(many)) == (30_000, 29_999, 1)


def test_the_first_value_alone():
    """Where the secret is the first value and rows are independent, later rows say nothing of it."""
    secret = pf.Initial("x", domain=[0, 1, 2])
    assert implied(Independent(), pf.Statistic([3, 5]), secret).winf(1).length == 6
    assert (
        implied(Independent(), pf.Statistic([3, 5], positions=[1, 2]), secret).winf(1).length == 0
    )
    assert (
        implied(AnyCorrelation(), pf.Statistic([3, 5], positions=[1, 2]), secret).winf(1).length
        == 16
    )
    gaussian = GaussianPrior(AR1(0.5))
    first = implied(
        gaussian, pf.Statistic([4, 8], positions=[1, 2]), pf.Initial("x", domain=INTERVAL)
    )
    assert first.winf(1).length == pytest.approx(10 * (2 + 2))


@pytest.mark.slow
def test_rows_that_are_there_or_not():
    """Present rows add any values against nothing; if all rows may change with them, also each its own way."""
    rng = np.random.default_rng(5)
    secret = pf.Presence("person", "x", [0, 1, 2])
    every = list(itertools.product(range(3), repeat=3))
    for answers in (1, 2):
        for _ in range(6):
            weights, values = random_statistic(rng, answers)
            statistic, free = (
                pf.Statistic(weights, values),
                list(itertools.product(range(4), repeat=2)),
            )
            padded = np.concatenate([values, np.zeros((answers, 1))], axis=1)
            for norm in NORMS:
                true = max(
                    float(
                        np.linalg.norm(sum(weights[:, r] * values[:, x[r]] for r in range(3)), norm)
                    )
                    for x in every
                )
                found = implied(Independent(), statistic, secret).winf(norm)
                assert found.length >= true * (1 - 1e-15)
                together = implied(AnyCorrelation(), statistic, secret).winf(norm)
                assert together.length >= farthest(weights, padded, [free] * 3, norm) * (1 - 1e-15)
                if answers == 1:
                    assert (found.length, found.certainty) == (true, pf.Certainty.EXACT)


def test_counts_of_rows_need_no_column():
    """With no column named a row counts 1, or as much as it is said to."""
    secret = pf.Presence("person")
    assert implied(Independent(), pf.Statistic.total(3), secret).winf(1).length == 3
    assert implied(AnyCorrelation(), pf.Statistic([1, 1, -1]), secret).winf(1).length == 3
    assert implied(Independent(), pf.Statistic([1, 1, -1]), secret).winf(1).length == 1
    assert implied(Independent(), pf.Statistic([1, 1], [2.5]), secret).winf(1).length == 5
    with pytest.raises(pf.UsageError):
        implied(Independent(), pf.Statistic([1], column="amount"), secret)


@pytest.mark.parametrize("prior", [Independent(), GaussianPrior(AR1(0.5))])
def test_secrets_behind_the_data_are_refused(prior):
    """What no column states is unknown to priors of rows alone."""
    with pytest.raises(pf.UsageError):
        implied(prior, pf.Statistic([1, 1]), pf.Derived("cause", column="x", domain=[0, 1]))


def random_covariance(rng, size):
    """Random covariances with unequal variances, some factors far above 1."""
    basis = rng.normal(size=(size, size)) * rng.choice([0.3, 1.0, 3.0], size)[:, None]
    return basis @ basis.T + 0.01 * np.eye(size)


def clamped(covariance, weights, width, distance):
    """The longest movement of one answer: every secret row, every row's translation done in part, from none to all."""
    worst = 0.0
    for i in range(len(weights)):
        moves = covariance[:, i] / covariance[i, i] * distance
        moves = np.clip(moves, -width, width)
        for shares in itertools.product((0, 1), repeat=len(weights)):
            worst = max(worst, abs(float(weights @ (np.array(shares) * moves))))
    return worst


def test_clamped_translations():
    """On an interval the bound is the maximum over what each row may do of its translation, whatever sign and slope."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        size, distance = int(rng.integers(1, 6)), float(rng.choice([1.0, 4.0, 10.0]))
        covariance, weights = random_covariance(rng, size), rng.integers(-3, 4, size).astype(float)
        slope = float(rng.choice([1.0, -2.0, 0.5]))
        pairs = [(0, distance), (9, 9.5)]
        found = laws(
            GaussianPrior(covariance), weights, INTERVAL, [3.0, 3.0 + 10 * slope], pairs=pairs
        )
        true = clamped(covariance, weights * slope, 10.0, distance)
        assert found.winf(1).length == pytest.approx(true, rel=1e-12)
        assert found.winf(1).length >= true * (1 - 1e-15)
        assert found.winf(1).length <= found.span(1).length * (1 + 1e-12)


def test_what_shortcuts_would_forget():
    """Correlation −.9 on [0, 10]: the signed sum is 1, and clamped values move by 10; caps and signs matter too."""
    covariance = np.array([[1.0, -0.9], [-0.9, 1.0]])
    found = laws(GaussianPrior(covariance), [1, 1], INTERVAL).winf(1)
    assert (found.length, found.certainty) == (10, pf.Certainty.EXACT)
    given = np.random.default_rng(0).normal(
        5.0, 3.0, 10_000
    )  # X_2 given X_1 = 0, less 9 given X_1 = 10
    moved = np.abs(10 + (given - 9).clip(0, 10) - given.clip(0, 10))
    assert 9.8 < moved.max() <= found.length
    quantiles = np.sort(10 + (given - 9).clip(0, 10)) - np.sort(given.clip(0, 10))
    assert np.abs(quantiles).max() > 9.8  # no coupling does better on the line
    assert moved.max() > abs(10 - 9.0)  # the signed sum
    steep = np.array([[1.0, 3.0], [3.0, 16.0]])
    capped = laws(GaussianPrior(steep), [1, 1], INTERVAL).winf(1).length
    assert 20 <= capped <= 20 * (1 + 1e-14)  # not 10 + 30: no row leaves its domain
    apart = laws(GaussianPrior(covariance), [1, -1], INTERVAL).winf(1)
    assert apart.length == pytest.approx(19)  # without |·|, or with signs lost: 1 or 10
    assert apart.certainty == pf.Certainty.EXACT


def test_movements_are_attained_where_they_are_called_exact():
    """Two rows, one secret: the empirical laws of the answer come within a hair of the movement."""
    rng = np.random.default_rng(1)
    for rho, sign in itertools.product((-0.7, 0.4), (1, -1)):
        found = laws(GaussianPrior(Exchangeable(rho)), [1, sign], INTERVAL).winf(1)
        assert found.certainty == pf.Certainty.EXACT
        other = rng.normal(5, 4, 100_000) - rho * 5
        low, high = (np.sort(a + sign * (other + rho * a).clip(0, 10)) for a in (0.0, 10.0))
        assert np.abs(high - low).max() <= found.length * (1 + 1e-12)
        assert np.abs(high - low).max() >= found.length - 0.05
    whole = laws(GaussianPrior(Exchangeable(0.4)), [1, 1, 1], INTERVAL).winf(1)
    assert (whole.length, whole.certainty) == (pytest.approx(18), pf.Certainty.UPPER_BOUND)
    lone = laws(GaussianPrior(AR1(0.0)), [1, 2, 1], INTERVAL).winf(1)
    assert (lone.length, lone.certainty, lone.witness.row) == (20, pf.Certainty.EXACT, 1)
    attribute = laws(GaussianPrior([[2.0, 0.6], [0.6, 1.0]]), [0, 1], pf.Interval(0, 3)).winf(1)
    assert (attribute.length, attribute.certainty) == (3, pf.Certainty.EXACT)
    against = laws(
        GaussianPrior([[1.0, -9.0], [-9.0, 100.0]]), [1, 1], INTERVAL, pairs=[(0, 1)]
    ).winf(1)
    assert (against.length, against.certainty) == (
        pytest.approx(9),
        pf.Certainty.UPPER_BOUND,
    )  # in truth 9 − 1
    released = laws(
        GaussianPrior([[2.0, 0.6], [0.6, 1.0]]), [1], pf.Interval(0, 3), positions=[1]
    ).winf(1)
    assert released.length == 3  # the row itself is secret too


def reading(domain):
    """How a value is read into a domain: the place of its class."""
    if isinstance(domain, pf.Bins):
        edges = np.array(domain.edges if domain.open else domain.edges[1:-1])
        return lambda values: np.searchsorted(edges, values, side="right")
    return lambda values: np.abs(values[..., None] - np.array(domain, dtype=float)).argmin(axis=-1)


@pytest.mark.parametrize(
    ("domain", "distance"),
    thinned(
        [
            ([0, 1, 2, 5], 5.0),
            ([3, 0, 1], 3.0),
            (pf.Bins([0, 1, 2, 4], [0, 5, 1]), 4.0),
            (pf.Bins([0, 2], [1, 2, 3]), 60),
        ],
        0.25,
        unpack=True,
    ),
)
@pytest.mark.parametrize("answers", [1, 3])
def test_values_read_in_classes(domain, distance, answers):
    """No translation of any data set, read in classes before and after, moves the answers farther than the bound."""
    rng = np.random.default_rng(answers)
    points = len(domain.points if isinstance(domain, pf.Bins) else domain)
    place = reading(domain)
    for covariance in (
        AR1(0.6),
        AR1(-0.3),
        Exchangeable(0.05),
        Matrix(random_covariance(rng, 4)),
        Kernel([1, 0.5]),
    ):
        values, weights = (
            rng.integers(-4, 5, (answers, points)).astype(float),
            rng.integers(-2, 3, (answers, 4)) * 1.0,
        )
        found = laws(GaussianPrior(covariance), weights, domain, values)
        positions = np.arange(4.0)
        above, below = covariance.toward(positions, positions)
        data = rng.uniform(-2, 7, (3000, 4))
        data[::2] = rng.choice([0.5, 1.0, 1.5, 2.0, 3.5, 4.0], (1500, 4)) + rng.choice(
            [-1e-9, 1e-9], (1500, 4)
        )
        for i in range(4):
            ends = rng.integers(0, points, (2, 3000))
            moves = (above - below)[i] * rng.choice([-1.0, 1.0, 0.4], 3000)[:, None] * distance
            before, after = place(data), place(data + moves)
            before[:, i], after[:, i] = ends
            step = np.einsum(
                "or,orn->on", weights, (values[:, after] - values[:, before]).transpose(0, 2, 1)
            )
            for norm in NORMS:
                worst = np.linalg.norm(step, norm, axis=0).max()
                assert worst <= found.winf(norm).length * (1 + 1e-12)


def test_the_slightest_correlation_crosses_borders():
    """A row that moves at all may change its class; a row that is independent does not."""
    assert laws(GaussianPrior(AR1(1e-9)), [1, 1, 1], [0, 1, 5]).winf(1).length == 5 + 4 + 4
    independent = laws(GaussianPrior(AR1(0.0)), [1, 1, 1], [0, 1, 5]).winf(1)
    assert (independent.length, independent.certainty) == (5, pf.Certainty.EXACT)
    assert laws(GaussianPrior(Exchangeable(0.1)), [1, 1], [0, 1, 2, 3]).winf(1).length == 3 + 1
    banded = laws(GaussianPrior(Kernel([1, 0.1])), [1, 1, 1, 1], [0, 1, 2, 3]).winf(1)
    assert banded.length == 3 + 2


def test_secret_rows_between_those_asked_about_cross_more():
    """A filtered row has two near neighbours where a row asked about has one: its secret moves the answer farther."""
    apart = laws(GaussianPrior(AR1(0.6)), [1, 1], [0, 1, 2], positions=[0, 2])
    assert apart.winf(1).length == 2 + 2  # a row asked about: 2 + 1
    assert apart.winf(1).witness.row is None
    close = laws(GaussianPrior(AR1(0.6)), [1, 1], [0, 1, 2], positions=[0, 1])
    assert close.winf(1).length == 2 + 2
    assert close.winf(1).witness.row == 0
    nearly = laws(GaussianPrior(Exchangeable(0.99)), [1, 1], [0, 4, 6], pairs=[(0, 4)])
    assert nearly.winf(1).length == 6 + 6  # a row asked about: 4 + 6


def test_open_classes_are_any_distance_wide():
    """A value in an open class may be anywhere in it: whatever depends on it may move all the way."""
    values = [0.0, 1.0, 2.0]
    narrow = laws(GaussianPrior(Exchangeable(0.01)), [1, 1], pf.Bins([0, 1, 2, 3], values))
    assert narrow.winf(1).length == 2 + 1
    assert (
        laws(GaussianPrior(Exchangeable(0.01)), [1, 1], pf.Bins([1, 2], values)).winf(1).length
        == 2 + 2
    )


def test_several_answers_are_bounded_together():
    """Vectors: never below any choice of what rows do of their translations, in each norm."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        covariance, weights = random_covariance(rng, 3), rng.integers(-3, 4, (2, 3)).astype(float)
        found = laws(GaussianPrior(covariance), weights, INTERVAL)
        for norm in NORMS:
            worst = 0.0
            for i in range(3):
                moves = np.clip(covariance[:, i] / covariance[i, i] * 10, -10, 10)
                for shares in itertools.product((0, 1), repeat=3):
                    worst = max(
                        worst, float(np.linalg.norm(weights @ (np.array(shares) * moves), norm))
                    )
            assert found.winf(norm).length >= worst * (1 - 1e-15)
            (mu, nu), reach = found[0], found.winf(norm)
            assert np.linalg.norm(np.ravel(nu.values - mu.values), norm) >= reach.length * (
                1 - 1e-12
            )
    days = laws(GaussianPrior(AR1(0.5)), np.kron(np.eye(2), np.ones(2)), INTERVAL)
    assert days.winf(1).length == pytest.approx(10 * (0.5 + 1 + 0.5 + 0.25))
    assert days.winf(np.inf).length == pytest.approx(15)


def test_long_sequences_move_by_their_geometric_sums():
    """Far from both ends Σ φ^|t−s| = (1+φ)/(1−φ), however long; with gaps, less."""
    for phi, size in ((0.9, 20_000), (-0.9, 3_000)):
        weights = np.ones(size) if phi > 0 else (-1.0) ** np.arange(size)
        found = laws(GaussianPrior(AR1(phi)), weights, pf.Interval(0, 1)).winf(1).length
        true = (1 + abs(phi)) / (1 - abs(phi))
        assert true * (1 - 1e-12) <= found <= true * (1 + 1e-12)
    spread = laws(
        GaussianPrior(AR1(0.9)), np.ones(5), pf.Interval(0, 1), positions=10.0 * np.arange(5)
    ).winf(1)
    assert spread.length == pytest.approx(1 + 2 * (0.9**10 + 0.9**20))


@pytest.mark.parametrize(
    "bound", [pf.GWM(), pf.DAGWM(), pf.Exact(), pf.GAWM(delta=1e-3), pf.Group()]
)
def test_bounds_take_movements(bound):
    """Where only a movement is known every bound charges the movement; group privacy that of all rows."""
    found = laws(GaussianPrior(Exchangeable(0.25)), [1, 1, 1], INTERVAL)
    assert isinstance(found, Movement)
    with pytest.raises(pf.Refused):
        found.walks()
    movement = 30.0 if isinstance(bound, pf.Group) else 15.0
    promise = pf.Approx(1.0, 1e-3) if isinstance(bound, pf.GAWM) else pf.Pure(1.0)
    scale = pf.calibrate(found, promise, noise=pf.Laplace, bound=bound).noise.scale
    assert scale == pytest.approx(movement, rel=1e-9)
    assert scale >= movement


def test_losses_of_independent_rows_are_those_of_one_row():
    """A count of independent rows costs what differential privacy says, by every bound and exactly."""
    found = laws(Independent(), np.ones(1000), [0, 1])
    for bound in (pf.GWM(), pf.DAGWM(), pf.Exact(), pf.Group()):
        assert pf.calibrate(found, pf.Pure(0.5), noise=pf.Laplace, bound=bound).noise == pf.Laplace(
            2.0
        )
    histogram = laws(Independent(), np.ones((3, 50)), [0, 1, 2], np.eye(3))
    assert pf.calibrate(
        histogram, pf.Pure(0.5), noise=pf.Laplace, bound=pf.GWM()
    ).noise == pf.Laplace(4.0)


@pytest.mark.parametrize(
    "prior",
    [pf.Independent(), pf.Diffusion(1.0), pf.GaussianPrior(pf.AR1(0.5)), pf.WeaklyDependent(0.1)],
    ids=lambda prior: type(prior).__name__,
)
def test_the_first_value_is_where_the_sequence_starts(prior):
    """A sequence that starts at 5 moves as one that starts at 0 does."""
    scenario = pf.Scenario(secret=pf.Initial("x", pf.Interval(0, 10)), prior=prior, order_by="t")
    early = pf.laws(scenario, pf.Statistic([1.0, 1.0], positions=[0, 1]))
    late = pf.laws(scenario, pf.Statistic([1.0, 1.0], positions=[5, 6], start=5))
    lengths = [laws.pieces[0].winf(1).length for laws in (early, late)]
    assert lengths[1] == pytest.approx(lengths[0], rel=1e-12)
    assert lengths[0] >= 10


def test_a_hidden_secret_needs_to_know_what_is_added_up():
    """A sum of a column that nobody declared is refused, not answered without noise."""
    scenario = pf.Scenario(secret=pf.Derived("ill"), prior=pf.AnyCorrelation())
    with pytest.raises(pf.UsageError):
        pf.laws(scenario, pf.Statistic.total(5))
    assert (
        pf.calibrate(
            pf.laws(scenario, pf.Statistic.total(5, values=[0, 1])), pf.Pure(1.0)
        ).noise.scale
        == 5
    )


@pytest.mark.slow
def test_many_values_are_quick():
    """A list of 1,500 values, all pairs of them, takes no minutes."""
    secret = pf.Secret("x", domain=list(range(1500)))
    scenario = pf.Scenario(secret=secret, prior=pf.GaussianPrior(pf.AR1(0.5)), order_by="t")
    assert pf.laws(scenario, pf.Statistic.total(2)).pieces[0].winf(1).length >= 1499


def test_numbers_near_the_end_of_floats_are_a_misuse():
    """Values and weights whose sums are no floats, and whole numbers that floats mix up, are named."""
    for domain in ([-1e308, 0.0, 1e308], pf.Interval(-1e308, 1e308)):
        scenario = pf.Scenario(secret=pf.Secret("x", domain=domain), prior=pf.AnyCorrelation())
        with pytest.raises(pf.UsageError):
            pf.laws(scenario, pf.Statistic([1.0, 1.0]))
    with pytest.raises(pf.UsageError):
        pf.Secret("x", [2**60, 2**60 + 1])
    assert float(pf.Diffusion(1e308).shares(np.array([1000.0]))[0]) < 1e-300


@pytest.mark.parametrize(
    "start", [0.0, -0.1, -3.0, -(2.0**40) - 0.3, -(2.0**52) - 3, -(2.0**53), -1e300]
)
@pytest.mark.parametrize("times", [[0.0], [0.3, 1.5, 2.0**51], [1.0, 2.0**52 + 1]])
def test_the_time_since_a_start_is_never_too_long(start, times):
    """What a start far below 0 rounds away would let an effect fade more than it does; small whole times are exact."""
    since = _since(pf.Statistic(np.ones(len(times)), positions=times, start=start))
    truth = [Fraction(time) - Fraction(start) for time in times]
    assert all(Fraction(float(one)) <= exact for one, exact in zip(since, truth, strict=True))
    if start in (0.0, -3.0) and times == [0.0]:
        assert since.tolist() == [-start]
