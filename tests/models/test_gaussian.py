"""Gaussian priors: what is refused, stored and restored, and sums over rows against sums over all pairs of rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pufferflow as pf
from pufferflow.models.priors import correlations as kernel
from pufferflow.models.priors.correlations import AR1, Exchangeable, Kernel
from pufferflow.models.priors.covariance import Matrix
from pufferflow.models.priors.gaussian import GaussianPrior

SMOOTH = Kernel(lambda lag: np.exp(-((lag / 3.0) ** 2)))
WAVES = Kernel(lambda lag: np.cos(lag / 2.0) * np.exp(-lag / 6.0))
COVARIANCES = {
    "ar1": AR1(0.7),
    "ar1 negative": AR1(-0.6),
    "ar1 class": AR1((0.2, 0.9)),
    "ar1 negative class": AR1((-0.9, -0.1)),
    "ar1 class, mostly positive": AR1((-0.3, 0.8)),
    "ar1 class, mostly negative": AR1((-0.8, 0.3)),
    "ar1 zero": AR1(0.0),
    "exchangeable": Exchangeable(0.4),
    "exchangeable negative": Exchangeable(-0.02),
    "exchangeable class": Exchangeable((-0.03, 0.5)),
    "kernel": SMOOTH,
    "kernel of both signs": WAVES,
    "kernel listed": Kernel([1, 0.5, 0.2]),
}
every_covariance = pytest.mark.parametrize(
    "covariance", COVARIANCES.values(), ids=COVARIANCES.keys()
)


def sequence(seed, answers=2):
    """Random positions with gaps, and weights of both signs, some 0."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 30))
    gaps = rng.integers(1, 4, size) if seed % 2 else np.full(size, 1 + seed % 3)
    positions = np.cumsum(gaps).astype(float) - 1
    weights = rng.normal(size=(answers, size)) * (rng.random((answers, size)) < 0.8)
    return positions, weights


@every_covariance
def test_sums_over_rows_are_those_over_pairs_of_rows(covariance, monkeypatch):
    """The short way to a sum gives what the long way gives, never less and hardly more."""
    monkeypatch.setattr(kernel, "_MOST_DIRECT", 0)
    for seed in range(8):
        positions, weights = sequence(seed)
        places = covariance.places(positions)
        for fast, slow in zip(
            covariance.sides(positions, weights, 1.0),
            covariance.sides_at(places, positions, weights, 1.0),
            strict=True,
        ):
            assert (fast >= slow * (1 - 1e-13)).all()
            assert fast == pytest.approx(slow, rel=1e-9, abs=1e-11)
        for level in (0.0, 0.2, 0.5, 1.0):
            fast = covariance.reached(positions, np.abs(weights), level)
            slow = covariance.reached_at(places, positions, np.abs(weights), level)
            assert (fast >= slow * (1 - 1e-13)).all()
            assert fast == pytest.approx(slow, rel=1e-9, abs=1e-11)


@every_covariance
def test_secret_rows_that_are_not_asked_about_are_covered(covariance):
    """No row before, between or behind those asked about moves an answer farther than the places looked at say."""
    for seed in range(8):
        positions, weights = sequence(seed, answers=1)
        everywhere = np.arange(-40.0, positions[-1] + 40)
        absent = everywhere[~np.isin(everywhere, positions)]
        if covariance.known:
            own = np.array(
                [weights[0][positions == place].sum() for place in covariance.places(positions)]
            )
            up, down = (side[0] for side in covariance.sides(positions, weights, 1.0))
            most = np.maximum(up + np.maximum(own, 0), down + np.maximum(-own, 0)).max()
            far = np.maximum(*covariance.sides_at(absent, positions, weights, 1.0)).max()
            assert far <= most * (1 + 1e-12)
        for level in (0.0, 0.2, 0.5):
            heights = np.abs(weights)
            known = (
                covariance.reached(positions, heights, level),
                covariance.between(positions, heights, level),
            )
            far = covariance.reached_at(absent, positions, heights, level).max()
            assert far <= np.concatenate(known, axis=1).max() * (1 + 1e-12)


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.9), (-0.9, -0.1), (-0.3, 0.8), (-0.8, 0.3)])
def test_a_class_holds_its_members(low, high):
    """At every lag the correlation of every member lies within the bounds of the class, and the ends are attained."""
    positions = np.arange(12.0)
    members = [AR1(phi).toward(positions, positions) for phi in np.linspace(low, high, 23)]
    above, below = AR1((low, high)).toward(positions, positions)
    assert above == pytest.approx(np.max([member[0] for member in members], axis=0), abs=1e-15)
    assert below == pytest.approx(np.max([member[1] for member in members], axis=0), abs=1e-15)


def test_correlations_are_those_declared():
    """phi^lag, rho, the function's values, and Cov(X_r, X_i)/Var(X_i), with their signs."""
    positions, place = np.array([0.0, 1.0, 4.0]), np.array([1.0])

    def factors(covariance):
        above, below = covariance.toward(place, positions)
        return (above - below)[0]

    assert factors(AR1(-0.5)) == pytest.approx([-0.5, 1, -0.125])
    assert factors(Exchangeable(0.3)) == pytest.approx([0.3, 1, 0.3])
    assert factors(Kernel(lambda lag: 1 / (1 + lag))) == pytest.approx([0.5, 1, 0.25])
    wide = np.diag([4.0, 2.0, 1, 1, 9.0])
    wide[0, 1] = wide[1, 0] = -2.5
    wide[4, 1] = wide[1, 4] = 1.0
    assert factors(Matrix(wide)) == pytest.approx([-1.25, 1, 0.5])


def test_powers_too_small_for_a_float_are_not_nothing():
    """0.5^5000 is above 0: a value near a border may still cross it."""
    above, _ = AR1(0.5).toward(np.array([0.0]), np.array([0.0, 5000.0]))
    assert above[0, 1] > 0
    reached = AR1(0.5).reached(np.array([0.0, 5000.0]), np.ones((1, 2)), 0.0)
    assert reached.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exchangeable(1.1),
        lambda: Exchangeable(math.nan),
        lambda: Exchangeable("0.5"),
        lambda: Exchangeable((0.5, 0.2)),
        lambda: Exchangeable((0.1, 0.2, 0.3)),
        lambda: AR1(1.0),
        lambda: AR1((-1.0, 0.5)),
        lambda: AR1(None),
        lambda: Kernel([0.9, 0.5]),
        lambda: Kernel([1.0, 1.5]),
        lambda: Kernel([]),
        lambda: Kernel("exp"),
        lambda: Kernel(lambda lag: lag * math.nan),
        lambda: Kernel(lambda lag: 1.0 if lag > 1 else 0.5),
        lambda: Kernel(lambda _: 1.0),
        lambda: Matrix([[1.0, 0.5]]),
        lambda: Matrix([[1.0, 0.5], [0.2, 1.0]]),
        lambda: Matrix([[1.0, 1.2], [1.2, 1.0]]),
        lambda: Matrix([[1.0, -0.9, -0.9], [-0.9, 1.0, -0.9], [-0.9, -0.9, 1.0]]),
        lambda: Matrix([[-1.0, 0.0], [0.0, 1.0]]),
        lambda: Matrix([[0.0, 0.5], [0.5, 1.0]]),
        lambda: Matrix([[math.inf]]),
        lambda: Matrix("covariance"),
        lambda: GaussianPrior(AR1(0.5), variance=0),
        lambda: GaussianPrior(AR1(0.5), variance=math.nan),
        lambda: GaussianPrior(AR1(0.5), mean=math.inf),
        lambda: GaussianPrior([[1.0]], variance=2.0),
    ],
)
def test_bad_covariances_are_refused_when_made(make):
    """Each is a UsageError with what is allowed and what to try."""
    with pytest.raises(pf.UsageError) as refused:
        make()
    assert refused.value.allowed
    assert refused.value.instead


@pytest.mark.parametrize(
    ("covariance", "positions"),
    [
        (Exchangeable(-0.5), range(4)),
        (AR1(-0.5), [0, 0.5]),
        (Kernel([1, 0.5]), [0, 0.5]),
        (Kernel([1, 0.9, 0.0]), range(5)),
        (Kernel([1, 0.5]), [0, 1e9]),
        (Matrix(np.eye(3)), range(4)),
        (Matrix(np.eye(3)), [0, 1.5]),
    ],
)
def test_rows_that_cannot_have_a_covariance_are_refused(covariance, positions):
    """Too many rows for a negative correlation, lags without a power, kernels that are none, short matrices."""
    with pytest.raises((pf.UsageError, pf.Refused)):
        covariance.check(np.array(positions, dtype=float))


def test_singular_covariances_are_taken():
    """Rows that only together determine another one have a covariance too."""
    basis = np.random.default_rng(0).normal(size=(40, 3))
    assert Matrix(basis @ basis.T).check(np.arange(40.0)) is None
    assert Exchangeable(-1 / 3).check(np.arange(4.0)) is None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Exchangeable(1), "rho is 1:"),
        (lambda: Exchangeable(-1.0), "rho is -1:"),
        (lambda: Exchangeable((0.2, 1)), r"rho\[1\] is 1:"),
        (lambda: AR1(1), "phi is 1:"),
        (lambda: AR1((-1, 0.5)), r"phi\[0\] is -1:"),
        (lambda: Kernel([1, 0.5, 1.0]), "correlation at lag 2 is 1:"),
        (lambda: Kernel([1, -1]), "correlation at lag 1 is -1:"),
        (lambda: Kernel(lambda lag: np.cos(2 * np.pi * lag / 24)), "correlation at lag 12 is -1:"),
        (lambda: Kernel(lambda lag: np.exp(-lag / 1e30)), "correlation at lag 1 is 1:"),
        (lambda: Matrix([[1.0, 1.0], [1.0, 1.0]]), "rows at positions 0 and 1 is 1:"),
        (
            lambda: Matrix(np.outer([0.7, 0.1, 0.3], [0.7, 0.1, 0.3])),
            "rows at positions . and . is 1:",
        ),
        (
            lambda: Matrix([[2, 0, 0], [0, 3, -(6**0.5)], [0, -(6**0.5), 2]]),
            "rows at positions 1 and 2 is -1:",
        ),
        (lambda: Matrix([[1.0, 0.0], [0.0, 0.0]]), "row at position 1 has the variance 0:"),
        (lambda: Matrix([[0.0]]), "row at position 0 has the variance 0:"),
        (lambda: GaussianPrior(AR1(0.5), variance=0), "variance is 0:"),
    ],
)
def test_what_fixes_a_row_is_refused_with_its_place(make, says):
    """A variance of 0 and a correlation of 1 or -1 leave a row one value: the error names value, place and remedy."""
    with pytest.raises(pf.UsageError, match=says) as refused:
        make()
    assert any(
        way in refused.value.instead for way in ("pf.AnyCorrelation()", "above 0", "variance=1.0")
    )


def test_the_remedies_for_fixed_rows_lead_somewhere():
    """Rows that fix each other are AnyCorrelation's; a row that no other depends on may have any variance."""
    secret = pf.Secret("x", domain=pf.Interval(0, 4))
    assert (
        pf.laws(pf.Scenario(secret, pf.AnyCorrelation()), pf.Statistic.total(3)).winf(1).length
        == 3 * 4
    )
    small, large = (GaussianPrior([[1.0, 0.0], [0.0, size]]) for size in (1e-6, 1e6))
    scenario = [pf.Scenario(secret, prior, order_by="at") for prior in (small, large)]
    assert len({pf.laws(one, pf.Statistic.total(2)).winf(1).length for one in scenario}) == 1


@pytest.mark.parametrize(
    "secret",
    [
        pf.Presence("person"),
        pf.Derived("cause"),
        pf.Secret("place", domain=["north", "south"]),
    ],
)
def test_secrets_without_a_number_are_refused(secret):
    """A Gaussian prior speaks of values of rows, which are numbers."""
    with pytest.raises(pf.UsageError):
        GaussianPrior(AR1(0.5)).check(secret)


correlations = st.floats(-0.99, 0.99)
spans = correlations | st.tuples(correlations, correlations).map(lambda pair: tuple(sorted(pair)))
squares = st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4).map(
    lambda rows: np.array(rows) @ np.array(rows).T + 0.1 * np.eye(len(rows))
)
priors = st.one_of(
    st.builds(
        GaussianPrior,
        st.builds(Exchangeable, spans)
        | st.builds(AR1, spans)
        | st.builds(lambda c: Kernel([1.0, c]), correlations),
        st.none() | st.floats(1e-3, 1e3),
        st.floats(-100, 100),
    ),
    st.builds(GaussianPrior, squares, mean=st.floats(-100, 100)),
)


@given(priors)
def test_what_is_stored_gives_an_equal_prior_back(prior):
    """Stored, restored and compared, hashed and described."""
    fields = dict(prior.stored())
    assert fields.pop("kind") == "gaussian"
    again = GaussianPrior.restored(fields)
    assert again == prior
    assert hash(again) == hash(prior)
    assert again.describe() == prior.describe()
    assert again.fingerprint() == prior.fingerprint()


def test_a_function_is_not_stored_but_has_a_fingerprint():
    """A function of Python cannot be written down; what it gives tells whether another one gives the same."""

    def fall(lag):
        return np.exp(-lag)

    prior = GaussianPrior(Kernel(fall))
    with pytest.raises(pf.UsageError):
        prior.stored()
    assert prior.fingerprint() == GaussianPrior(Kernel(fall)).fingerprint()
    assert prior.fingerprint() != GaussianPrior(SMOOTH).fingerprint()
    assert prior == GaussianPrior(Kernel(fall))


def test_unread_laws_have_the_losses_of_the_reference():
    """Two attributes, one released: exact loss α·shift²/(2(V + σ²)), and W_∞'s α·shift²/(2σ²)."""
    prior = GaussianPrior([[2.0, 0.6], [0.6, 1.0]])
    pair = prior.conditional([0, 1], [0, 1], 0, 3.0, 0.0)
    asked = pf.Renyi.of(alpha=8.0)
    assert pf.loss([pair], pf.Gaussian(0.5), asked, bound=pf.Exact()) == pytest.approx(
        3.028037383177569, rel=1e-12
    )
    assert pf.loss([pair], pf.Gaussian(0.5), asked, bound=pf.GWM()) == pytest.approx(
        12.96, rel=1e-9
    )


@every_covariance
def test_unread_laws_are_gaussian_conditionals(covariance):
    """Mean and covariance of weighted sums are those of Schur's complement."""
    if not covariance.known:
        with pytest.raises(pf.UsageError):
            GaussianPrior(covariance).conditional([0, 1], [1, 1], 0, 0, 1)
        return
    positions, weights = sequence(3)
    prior = GaussianPrior(covariance, variance=2.5, mean=1.5)
    above, below = covariance.toward(positions, positions)
    whole, row = 2.5 * (above - below), len(positions) // 2
    mu, nu = prior.conditional(positions, weights, row, 4.0, -1.0)
    column = whole[:, row] / whole[row, row]
    assert mu.mean == pytest.approx(weights @ (1.5 + column * 2.5))
    assert mu.mean - nu.mean == pytest.approx(weights @ (column * 5.0))
    rest = whole - np.outer(whole[:, row], whole[row]) / whole[row, row]
    assert mu.covariance == pytest.approx(weights @ rest @ weights.T, abs=1e-12)
    assert nu.covariance == pytest.approx(mu.covariance)


def test_every_value_of_a_sequence_released_for_ever():
    """M16: with Gaussian noise on each X_t the losses of all rows add up to (1+φ²)/(1−φ²) times one row's, no more."""
    for phi in (0.3, 0.9, -0.8):
        positions = np.arange(-400.0, 401.0)
        above, below = AR1(phi).toward(np.array([0.0]), positions)
        total = float(((above - below) ** 2).sum())
        assert total == pytest.approx((1 + phi**2) / (1 - phi**2), rel=1e-12)
