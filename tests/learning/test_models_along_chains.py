"""Models of rows along a chain: never below exact losses, less noise than for groups, and what they refuse."""

import itertools
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm
from thinned import thinned

import pufferflow as pf
from pufferflow.calibration.chain_bounds import ROW_BY_ROW, STEP_BY_STEP
from pufferflow.learning.iteration import pure_of

KERNEL = np.array([[0.8, 0.2], [0.3, 0.7]])
CHAIN = pf.MarkovChain(KERNEL)
learning = pf.learning


def table(hours, people=1, gap=1):
    rng = np.random.default_rng(hours)
    return pl.DataFrame(
        {
            "person": np.repeat(np.arange(people), hours),
            "hour": np.tile(np.arange(hours) * gap, people),
            "on": rng.integers(2, size=hours * people),
            "x": rng.choice([-1.0, 1.0], hours * people),
        }
    )


def scenario(prior=CHAIN, **more):
    return pf.Scenario(
        pf.Secret("on", domain=[0, 1], **more),
        prior,
        order_by="hour",
        within="person",
        public=["x"],
    )


def planned(frame, promise, model=learning.PrivateSGDRegressor, belief=None, **settings):
    given = {"features": ["x"], "bounds": {"x": (-1, 1)}} | settings
    return model(belief or scenario(), promise, **given).plan(frame, y="on")


def features_of(plan):
    """The public feature of every row, as rows stand by hour."""
    with plan.mechanism.table.rows.in_order(
        plan.mechanism.table.order, None, plan.columns.scaled
    ) as rows:
        return rows.read(0, plan.mechanism.table.order.rows)[:, 0].copy()


def conditioned(weights):
    """Atoms of Σ weights·(±1) and probabilities, for every secret row and state of one person's rows."""
    states = np.array(list(itertools.product(range(2), repeat=len(weights))))
    masses = np.array([0.6, 0.4])[states[:, 0]] * np.prod(
        KERNEL[states[:, :-1], states[:, 1:]], axis=1
    )
    atoms = (2 * states - 1) @ weights
    for row in range(len(weights)):
        own = [np.where(states[:, row] == state, masses, 0.0) for state in range(2)]
        yield [(atoms, mass / mass.sum()) for mass in own]


def factors_of(training, features):
    """How much each row's target adds to the last iterate of squares without an intercept, and its deviation."""
    factor, rows = training.step_size / training._largest_batch, len(features)
    shares, spread = np.zeros(rows), 0.0
    for step in range(training.batches * training.passes):
        chosen = training.step_of == step % training.batches
        pull = 1 - factor * (features[chosen] ** 2).sum()
        shares, spread = pull * shares, pull**2 * spread + training.scale**2
        shares[chosen] += factor * features[chosen]
    return shares, math.sqrt(spread)


@pytest.mark.slow
@pytest.mark.parametrize(("batches", "passes"), [(1, 1), (3, 2), (8, 1)])
def test_the_last_iterate_of_a_linear_descent_keeps_its_promise_exactly(batches, passes):
    # public features and squares: the last iterate is a mixture of Gaussians over all sequences of targets
    frame, delta = table(8), 1e-3
    settings = {
        "fit_intercept": False,
        "clip": None,
        "batch_size": -(-8 // batches),
        "passes": passes,
        "radius": 1e3,
    }
    for promise in (pf.Approx(0.7, delta), pf.Renyi(3, 0.4)):
        plan = planned(frame, promise, **settings)
        assert plan.certificate.bound in (ROW_BY_ROW, STEP_BY_STEP)
        shares, spread = factors_of(plan.mechanism.fitting, features_of(plan))
        at = np.linspace(-1, 1, 4001) * (10 * spread + np.abs(shares).sum())
        step, worst = at[1] - at[0], 0.0
        for laws in conditioned(shares):
            p, q = (norm.pdf(at[:, None], atoms, spread) @ masses for atoms, masses in laws)
            for one, other in ((p, q), (q, p)):
                if isinstance(promise, pf.Approx):
                    worst = max(
                        worst, np.maximum(one - math.exp(0.7) * other, 0).sum() * step / delta
                    )
                else:
                    inside = other > 1e-280
                    renyi = math.log((one[inside] ** 3 * other[inside] ** -2).sum() * step) / 2
                    worst = max(worst, renyi / 0.4)
        assert 0 < worst <= 1


def test_sums_keep_their_pure_promise_exactly():
    # Laplace noise on Σ x·y: the loss is largest at an atom or in the tails
    frame = table(8)
    plan = planned(frame, pf.Pure(0.8), learning.PrivateRidge, fit_intercept=False, solver="sums")
    features = features_of(plan)
    scale = plan.mechanism.fitting.calibrated.scale
    worst = 0.0
    for (atoms, left), (_, right) in conditioned(features):
        at = np.append(np.unique(atoms), [-1e3 * scale, 1e3 * scale])
        kernel = np.exp(-np.abs(at[:, None] - atoms) / scale + np.abs(at[:, None]) / scale)
        ratio = np.abs(np.log(kernel @ left) - np.log(kernel @ right))
        worst = max(worst, ratio.max())
    assert 0.1 < worst <= 0.8


@pytest.mark.parametrize(
    ("promise", "model"),
    thinned(
        [
            (pf.Approx(1.0, 1e-6), learning.PrivateSGDRegressor),
            (pf.Approx(1.0, 1e-6), learning.PrivateRidge),
            (pf.Pure(1.0), learning.PrivateRidge),
            (pf.Renyi(2, 0.5), learning.PrivateSGDRegressor),
            (pf.ApproxRenyi(2, 0.5, 1e-5), learning.PrivateSGDRegressor),
            (pf.Zcdp(0.1), learning.PrivateRidge),
        ],
        0.5,
        unpack=True,
    ),
    ids=str,
)
def test_noise_lies_between_that_of_independent_rows_and_that_of_groups(promise, model):
    # the chain ties rows a little: more noise than for one row, less than for a day in which all may move
    frame = table(48, people=20)
    ways = (pf.Independent(), CHAIN, pf.AnyCorrelation())
    scales = [planned(frame, promise, model, scenario(prior)).expected_error for prior in ways]
    assert scales[0] < scales[1] < 0.8 * scales[2]


@pytest.mark.slow
def test_a_chain_that_never_changes_counts_as_a_group():
    # rows that are all alike move together
    frame = table(12, people=20)
    still = pf.MarkovChain([[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]])
    for promise in (pf.Approx(1.0, 1e-6), pf.Renyi(2, 0.5)):
        alike = planned(frame, promise, belief=scenario(still)).mechanism.fitting.scale
        group = planned(
            frame, promise, belief=scenario(pf.AnyCorrelation())
        ).mechanism.fitting.scale
        assert alike == pytest.approx(group, rel=1e-3)
        assert alike <= group * (1 + 1e-9)


@pytest.mark.parametrize("promise", [pf.Approx(1.0, 1e-6), pf.Pure(1.0)], ids=repr)
def test_the_budget_of_a_row_is_used_up_and_nine_tenths_of_the_noise_pass_it(promise):
    # calibration ends where a row moves as much as the chain lets it, not below and hardly above
    plan = planned(table(24, people=5), promise, learning.PrivateRidge, solver="sums")
    (belief,) = plan.mechanism.beliefs
    most = (
        belief.chained.pure_row(pure_of(promise))
        if plan.mechanism.pure
        else belief.chained.deviations(promise)[0]
    )
    moved = plan.mechanism.fitting.movement(belief.single)
    assert 0.999 * most < moved <= most
    quieter = replace(plan.mechanism.fitting, promise=plan.mechanism.fitting.promise)
    object.__setattr__(
        quieter,
        "calibrated",
        plan.mechanism.fitting.calibrated.at(0.9 * plan.mechanism.fitting.calibrated.scale),
    )
    assert quieter.movement(belief.single) > most


@pytest.mark.slow
def test_gaps_and_short_groups_need_no_more_noise():
    # positions further apart are never nearer; groups that are parts of longer ones neither
    promise = pf.Approx(1.0, 1e-6)
    long = planned(table(48, people=3), promise).mechanism.fitting
    short = planned(table(6, people=24), promise).mechanism.fitting
    assert short.carried[0].scale * (1 + 1e-9) <= long.carried[0].scale * 1.2
    (belief,) = short.beliefs
    assert belief.chained.deviations(promise)[0] >= long.beliefs[0].chained.deviations(promise)[0]


@pytest.mark.slow
def test_every_kind_of_chain_is_carried():
    # periods, classes, starts, first values: each has the bounds of its own chain
    frame, promise = table(30, people=4), pf.Approx(1.0, 1e-6)
    group = planned(frame, promise, belief=scenario(pf.AnyCorrelation())).mechanism.fitting.scale
    chains = {
        "two matrices in turn": pf.MarkovChain([KERNEL, [[0.5, 0.5], [0.4, 0.6]]], period=2),
        "a class": pf.MarkovChain.between(
            [[0.75, 0.15], [0.25, 0.65]], [[0.85, 0.25], [0.35, 0.75]]
        ),
        "a start": pf.MarkovChain(KERNEL, initial=[0.5, 0.5]),
        "any start": pf.MarkovChain(KERNEL, initial="free"),
    }
    for name, prior in chains.items():
        secret = pf.Secret("on", domain=[0, 1])
        belief = pf.Scenario(secret, prior, order_by="hour", within="person", public=["x"], start=0)
        plan = planned(frame, promise, belief=belief)
        assert plan.certificate.bound == ROW_BY_ROW, name
        assert plan.mechanism.fitting.scale < group, name
        assert plan.cost.shape.row_movement > 0, name
    first = pf.Scenario(
        pf.Initial("on", domain=[0, 1]),
        CHAIN,
        order_by="hour",
        within="person",
        public=["x"],
        start=0,
    )
    assert planned(frame, promise, belief=first).mechanism.fitting.scale < group


@pytest.mark.slow
def test_several_columns_follow_the_chain_of_their_tuples():
    # both columns of a row are hidden, as a pair: features and target move with its state
    rng = np.random.default_rng(0)
    frame = table(24, people=30).with_columns(level=pl.Series(rng.integers(3, size=720)))
    three = pf.MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    secrets = [pf.Secret("on", domain=[0, 1]), pf.Secret("level", domain=[0, 1, 2])]
    promise, scales = pf.Approx(1.0, 1e-6), {}
    for prior in (pf.MarkovChain.product(CHAIN, three), pf.AnyCorrelation()):
        belief = pf.Scenario(secrets, prior, order_by="hour", within="person")
        model = learning.PrivateSGDClassifier(belief, promise, features=["level"]).fit(
            frame, y="on"
        )
        assert model.predict_proba([[1.0]]).shape == (1, 2)
        scales[type(prior)] = model.plan_.mechanism.fitting.scale
    assert scales[pf.MarkovChain] < 0.8 * scales[pf.AnyCorrelation]


@pytest.mark.slow
def test_neighbouring_values_alone_need_less_noise():
    # all rows of the table are read, so that no pairs but those of the secret are hidden
    levels = pf.MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    frame = table(24, people=5).with_columns(on=pl.Series(np.arange(120) % 3))
    promise, scales = pf.Approx(1.0, 1e-6), {}
    for pairs in ("all", "adjacent"):
        secret = pf.Secret("on", domain=[0, 1, 2], pairs=pairs)
        belief = pf.Scenario(secret, levels, order_by="hour", within="person", public=["x"])
        scales[pairs] = planned(frame, promise, belief=belief).mechanism.fitting.scale
        chained = planned(frame, promise, belief=belief).mechanism.beliefs[0].chained
        assert len(chained.secrets.pairs) == (6 if pairs == "all" else 4)
    assert scales["adjacent"] < scales["all"]


def test_the_phase_in_which_groups_begin_counts():
    # steps of a chain take turns: a group that begins in a sticky step needs more noise than one that ends there
    sticky, loose = [[0.999, 0.001], [0.001, 0.999]], [[0.5, 0.5], [0.5, 0.5]]
    prior, promise, scales = pf.MarkovChain([loose, sticky], period=2), pf.Approx(1.0, 1e-6), {}
    for begin in (6, 7):
        frame = table(2, people=20).with_columns(pl.col("hour") + begin)
        scales[begin] = planned(frame, promise, belief=scenario(prior)).mechanism.fitting.scale
    assert scales[7] > 1.5 * scales[6]


def test_rows_that_stand_at_one_place_are_refused_and_unknown_places_count_as_a_group():
    # two rows of a person in one hour contradict the chain; hours that are no whole steps are not along it
    twice = pl.concat([table(6, people=2)] * 2)
    with pytest.raises(pf.UsageError, match="Two rows of a group have the same value of order_by"):
        planned(twice, pf.Approx(1.0, 1e-6))
    halves = table(6, people=2).with_columns(pl.col("hour") * 0.5)
    plan = planned(halves, pf.Approx(1.0, 1e-6))
    assert plan.certificate.bound == "all rows of a group (M7)"
    assert any("no better coupling" in note for note in plan.certificate.notes)


def test_a_certificate_names_the_proof_and_what_a_row_moves():
    # the sentence that a person signs says by which proof, and that the movement is that of one row
    plan = planned(table(24, people=20), pf.Approx(1.0, 1e-6))
    known = plan.certificate
    assert known.bound == ROW_BY_ROW
    assert known.sensitivity == pytest.approx(plan.cost.shape.row_movement, rel=1e-6)
    assert ROW_BY_ROW in plan.explain()
    assert not any("no better coupling" in note for note in known.notes)
