"""Correlated Gaussian noise of a batch: it hides every shift of the sums that can occur, and is less (M28)."""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

HOMES = pl.DataFrame(
    {
        "home": np.repeat(np.arange(6), 3),
        "town": np.tile([0, 0, 1], 6),
        "level": np.arange(18) % 5,
    }
)
LEVELS = list(range(5))


def asked(prior=None, secret=None, frame=HOMES, **facts):
    secret = pf.Secret("level", domain=LEVELS, missing=0) if secret is None else secret
    scenario = pf.Scenario(
        secret, pf.Independent() if prior is None else prior, public=["town"], **facts
    )
    return pf.protect(frame, scenario)


def sum_and_count(batch, least=3):
    return batch.private_sum("level", name="total").private_count(
        pl.col("level") >= least, name="high"
    )


def covariance(plan):
    """Return the covariance of the noise of all sums, as the certificate states it."""
    widths = np.array([own.scale for own in plan.certificate.sums])
    return np.array(plan.certificate.correlations) * np.outer(widths, widths)


def length(shifts, noise):
    """Return how many standard deviations the farthest shift is long."""
    return math.sqrt(np.einsum("ni,ij,nj->n", shifts, np.linalg.inv(noise), shifts).max())


def share_used(promise, mu):
    """Return what a shift so many standard deviations long loses, over what the guarantee allows."""
    noise = pf.Gaussian(1.0)
    match promise:
        case pf.Gdp():
            return mu / promise.mu
        case pf.Zcdp():
            return noise.zcdp(mu) / promise.rho
        case pf.Renyi():
            return noise.renyi(mu, promise.alpha) / promise.epsilon
        case _:
            return noise.delta(mu, promise.epsilon) / promise.delta


@pytest.mark.parametrize("seed", thinned(range(12), 0.2))
def test_every_reachable_shift_is_hidden(seed):
    """Of one row, or three of a home in two cells, all shifts keep the guarantee; with .9 of the noise one fails."""
    rng = np.random.default_rng(seed)
    promise = [pf.Gdp(0.7), pf.Zcdp(0.2), pf.Renyi(3, 0.4), pf.Approx(0.3, 1e-2)][seed % 4]
    tables = np.unique(rng.integers(0, 6, (2 + seed % 2, 5)), axis=0)
    together, by_town = seed % 3 > 0, seed % 3 > 1
    batch = asked(pf.AnyCorrelation(), within="home") if together else asked()
    batch = batch.group_by("town") if by_town else batch
    for place, table in enumerate(tables.tolist()):
        steps = pl.lit(0)
        for level, value in enumerate(table):
            steps = steps + value * (pl.col("level") == level).cast(pl.Int64)
        batch = batch.private_sum(steps, name=f"sum {place}")
    plan = batch.plan(promise, noise="joint")
    noise = (
        covariance(plan)
        if plan.certificate.correlations
        else np.diag([n.scale**2 for n in plan.noises.values()])
    )
    moves = [np.array(one) for one in {tuple(a - b) for a in tables.T for b in tables.T}]
    cell = np.eye(2 if by_town else 1)
    places = [cell[0], cell[0], cell[-1]] if together else [cell[0]]
    shifts = [
        sum(np.kron(where, move) for where, move in zip(places, some, strict=True))
        for some in itertools.product(moves, repeat=len(places))
    ]
    mu = length(np.unique(shifts, axis=0), np.kron(cell, noise))
    assert share_used(promise, mu) <= 1 + 1e-5
    assert share_used(promise, mu / 0.9) > 1


@pytest.mark.parametrize(
    ("ask", "share"),
    [
        (
            lambda b: b.private_count(pl.col("level") >= 1, name="a").private_count(
                pl.col("level") < 4, name="b"
            ),
            None,
        ),
        (
            lambda b: b.private_count(pl.col("level") >= 2, name="a").private_count(
                pl.col("level") >= 3, name="b"
            ),
            0.8165,
        ),
        (
            lambda b: b.private_count(pl.col("level") >= 2, name="a").private_count(
                pl.col("level") < 2, name="b"
            ),
            0.71,
        ),
        (lambda b: b.private_histogram("level"), 0.895),
        (sum_and_count, 0.776),
    ],
    ids=["apart", "overlapping", "halves", "histogram", "sum and count"],
)
def test_errors_are_less_where_sums_move_together(ask, share):
    """Two counts that share rows have the error of √(2/3) of independent noise; what cannot win keeps that noise."""
    alone, auto = (ask(asked()).plan(pf.Gdp(0.5), noise=noise) for noise in ("gaussian", "auto"))
    before, after = (plan.summary()["expected_error"].to_numpy() for plan in (alone, auto))
    if share is None:
        assert not auto.certificate.correlations or (after < before).all()
    else:
        assert (after / before).mean() == pytest.approx(share, abs=0.01)
        assert "correlated" in auto.explain()


def test_noise_is_drawn_as_the_certificate_states_it():
    """Over four thousand cells the drawn noise has its covariance, around sums that are right; a tenth more is seen."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"town": np.arange(4000).repeat(2), "level": rng.integers(0, 5, 8000)})
    plan = sum_and_count(asked(frame=frame).group_by("town")).plan(pf.Gdp(0.5))
    released = plan.release()
    levels = frame["level"].to_numpy().reshape(-1, 2)
    drawn = released.frame.sort("town").select("total", "high").to_numpy()
    off = drawn - np.stack([levels.sum(axis=1), (levels >= 3).sum(axis=1)], axis=1)
    stated = covariance(plan)
    root = np.linalg.inv(np.linalg.cholesky(stated))
    whitened = off @ root.T
    assert np.abs(whitened.mean(axis=0)).max() < 5 / math.sqrt(4000)
    found = np.cov(whitened.T)
    assert np.abs(found - np.eye(2)).max() < 5 * math.sqrt(2 / 4000) < 1.1**2 - 1 + 0.01
    bars = released.intervals.sort("town")
    inside = (bars["total_low"].to_numpy() <= drawn[:, 0] - off[:, 0]) & (
        bars["total_high"].to_numpy() >= levels.sum(axis=1)
    )
    assert inside.mean() > 0.95 - 5 * math.sqrt(0.05 * 0.95 / 4000)


def test_later_releases_add_up_as_gaussian_noise_does(tmp_path):
    """Under one limit two such releases, and one with independent noise, cost the root of the sum of squares."""
    batch = sum_and_count(asked())
    joint, alone = batch.plan(pf.Gdp(0.5)), batch.plan(pf.Gdp(0.3), noise="gaussian")
    assert joint.certificate.correlations
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("levels", joint.request.scenario, limit=pf.Gdp(0.8))
        first = joint.release(account, "1")
        joint.release(account, "2")
        alone.release(account, "3")
        assert account.spent().mu == pytest.approx(math.sqrt(0.5**2 * 2 + 0.3**2), rel=1e-5)
        with pytest.raises(pf.LimitReached):
            joint.release(account, "4")
        assert joint.release(account, "1").frame.equals(first.frame)
    assert pf.Certificate.from_json(first.certificate.to_json()) == first.certificate


@pytest.mark.parametrize(
    ("ask", "promise"),
    thinned(
        [
            (sum_and_count, pf.Pure(1.0)),
            (sum_and_count, pf.Approx(1.0, 1e-9)),
            (lambda b: b.private_sum("level"), pf.Gdp(0.5)),
            (lambda b: sum_and_count(b).private_variance("level"), pf.Gdp(0.5)),
            (lambda b: sum_and_count(b).private_median("level"), pf.Gdp(0.5)),
        ],
        0.4,
        unpack=True,
    ),
    ids=["pure", "laplace is less", "one sum", "variance", "median"],
)
def test_noise_is_independent_where_correlation_cannot_be_less(ask, promise):
    """Neither a pure guarantee, nor one sum, nor answers whose error depends on how noise is correlated take it."""
    assert not ask(asked()).plan(promise).certificate.correlations


def test_noise_on_intervals_is_independent():
    """Rounding on an interval is bounded sum by sum, so nothing is won there."""
    batch = sum_and_count(asked(secret=pf.Secret("level", domain=pf.Interval(0, 4))))
    assert not batch.plan(pf.Gdp(0.5), noise="joint").certificate.correlations


@pytest.mark.parametrize("name", thinned(["joint", "Joint", pf.JointGaussian], 0.3))
def test_it_is_asked_for_by_name(name):
    """By its name, or its class; a guarantee that Gaussian noise does not keep is refused."""
    batch = sum_and_count(asked())
    plan = batch.plan(pf.Approx(1.0, 1e-9), noise=name)
    assert plan.certificate.correlations
    assert [type(noise) for noise in plan.noises.values()] == [pf.Gaussian] * 2
    with pytest.raises(pf.Refused, match="Gaussian"):
        batch.plan(pf.Pure(1.0), noise=name)
    with pytest.raises(pf.Refused, match="batch"):
        pf.calibrate([(pf.Law.point(0), pf.Law.point(1))], pf.Gdp(1.0), noise=name)


def test_an_accuracy_gives_a_stronger_promise():
    """With the same errors allowed, correlated noise keeps a smaller μ, and each answer stays within its error."""
    plans = [
        sum_and_count(asked()).plan(
            pf.Gdp, accuracy=pf.Within(20.0), shares={"total": 1, "high": 1}, noise=noise
        )
        for noise in ("gaussian", "auto")
    ]
    assert plans[1].guarantee.mu < 0.9 * plans[0].guarantee.mu
    assert plans[1].summary()["interval_95"].max() == pytest.approx(20.0, rel=1e-6)


def test_a_wrong_prior_is_charged_for_the_longest_movement():
    """M30 counts how far combinations move: at least as far as sums that move by 1 in any direction."""
    plan = sum_and_count(asked()).plan(pf.Gdp(0.5))
    directions = [(math.cos(turn), math.sin(turn)) for turn in np.linspace(0, math.pi, 50)]
    longest = length(np.array(directions), covariance(plan)) * plan.calibration.noise.scale
    assert plan.largest_weight == pytest.approx(longest, rel=2e-3)
    assert plan.largest_weight * (1 + 1e-5) >= longest


def test_plans_of_both_kinds_have_names_of_their_own():
    """A reservation for independent noise is none for correlated noise; a page, comparisons and attacks work."""
    batch = sum_and_count(asked())
    joint, alone = (batch.plan(pf.Gdp(0.5), noise=noise) for noise in ("joint", "gaussian"))
    assert joint.name != alone.name
    assert joint.compare().filter(pl.col("times") == 1.0).height > 0
    assert "combination" in joint.evidence().pair.answer
    assert not pf.audit.attack(joint, trials=400, rng=np.random.default_rng(1)).broken
