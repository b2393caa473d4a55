"""Several secret columns in one scenario: no more is lost than was guaranteed, by the exact laws of all data sets.

The truth shares nothing with the library: every sequence of tuples is listed with its probability, and the densities
of all noisy answers are compared at many points.
"""

import itertools
import math

import numpy as np
import polars as pl
import pytest
from alarms import alarms_twice
from thinned import nightly

import pufferflow as pf

HOURS, WAGES = [0, 1, 2], [10, 20]
BOTH = [pf.Secret("hours", domain=HOURS), pf.Secret("wage", domain=WAGES)]
TUPLES = list(itertools.product(HOURS, WAGES))


def random_chain(rng, states):
    return 0.8 * rng.dirichlet(np.ones(states), states) + 0.2 / states


def sequences(transition, rows):
    """Yield all sequences of states with their probabilities, from the law at rest."""
    start = np.linalg.matrix_power(transition, 300)[0]
    for path in itertools.product(range(len(transition)), repeat=rows):
        steps = (transition[a, b] for a, b in itertools.pairwise(path))
        yield path, start[path[0]] * math.prod(steps)


def laws(paths, row, answer):
    """Return for every tuple at a row the law of the answers: their atoms, and the probabilities of these."""
    found = {}
    for path, mass in paths:
        law = found.setdefault(path[row], {})
        atom = answer([TUPLES[state] for state in path])
        law[atom] = law.get(atom, 0.0) + mass
    return {
        state: (np.array(list(law)), np.array(list(law.values())) / sum(law.values()))
        for state, law in found.items()
    }


def density(law, scales, places):
    """Return the log density of answers with Laplace noise of these scales, at places of shape (places, answers)."""
    atoms, masses = law
    distance = (np.abs(places[:, None, :] - atoms[None]) / scales).sum(axis=2)
    least = distance.min(axis=1, keepdims=True)
    return np.log((masses * np.exp(least - distance)).sum(axis=1)) - least[:, 0]


def places_around(all_laws):
    """Return points at, between and far beyond all atoms, in all coordinates."""
    atoms = np.concatenate([law[0] for law in all_laws])
    axes = []
    for column in atoms.T:
        known = np.unique(column)
        axes.append(
            np.unique([known[0] - 1e4, *known, *((known[1:] + known[:-1]) / 2), known[-1] + 1e4])
        )
    return np.array(list(itertools.product(*axes)))


def true_loss(of_row, scales, pairs=None):
    """Return the largest log ratio of densities between two tuples, whatever the row."""
    worst = 0.0
    for row in of_row:
        places = places_around(row.values())
        logs = {state: density(law, scales, places) for state, law in row.items()}
        for first, second in itertools.permutations(logs, 2):
            if pairs is None or pairs(TUPLES[first], TUPLES[second]):
                worst = max(worst, float((logs[first] - logs[second]).max()))
    return worst


def in_one_column(first, second):
    return sum(a != b for a, b in zip(first, second, strict=True)) == 1


def frame(rows):
    return pl.DataFrame({"t": range(rows), "hours": [0] * rows, "wage": [10] * rows})


def scales(plan):
    return np.array([noise.scale for noise in plan.noises.values()])


def hours_and_wages(path):
    return float(sum(h for h, _ in path)), float(sum(w for _, w in path))


def ask(rows, prior, **options):
    scenario = pf.Scenario(BOTH, prior, order_by="t", **options)
    return (
        pf.protect(frame(rows), scenario)
        .private_sum("hours")
        .private_sum("wage")
        .plan(pf.Pure(1.0))
    )


INDEPENDENT = pf.Independent()


def test_independent_rows_lose_exactly_what_is_promised():
    """A row moves all sums of all columns at once; with a little less noise the guarantee would be broken."""
    rows = [(((state,), 1 / 6) for state in range(6))]
    of_row = [laws([*rows[0]], 0, hours_and_wages)]
    plan = ask(3, INDEPENDENT)
    assert true_loss(of_row, scales(plan)) == pytest.approx(1.0, rel=1e-6)
    assert true_loss(of_row, scales(plan)) <= 1.0
    assert true_loss(of_row, 0.9 * scales(plan)) > 1.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(6)])
def test_chains_of_tuples_lose_no_more_than_is_promised(seed):
    """Sums of both columns along a chain of tuples, all sequences of three rows: no row loses more."""
    rng = np.random.default_rng(seed)
    transition = random_chain(rng, 6)
    plan = ask(3, pf.MarkovChain(transition))
    paths = list(sequences(transition, 3))
    of_row = [laws(paths, row, hours_and_wages) for row in range(3)]
    lost = true_loss(of_row, scales(plan))
    assert lost <= 1.0
    assert true_loss(of_row, 0.25 * scales(plan)) > 1.0


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), *nightly(range(2, 5))]
)
def test_one_column_of_a_chain_of_tuples(seed):
    """A sum of one column reveals about both, by the chain: with the exact bound hardly less noise would do."""
    rng = np.random.default_rng(seed)
    transition = random_chain(rng, 6)
    scenario = pf.Scenario(BOTH, pf.MarkovChain(transition), order_by="t")
    plan = pf.protect(frame(3), scenario).private_sum("wage").plan(pf.Pure(1.0), bound=pf.Exact())
    paths = list(sequences(transition, 3))
    of_row = [laws(paths, row, lambda path: (float(sum(w for _, w in path)),)) for row in range(3)]
    assert 0.98 < true_loss(of_row, scales(plan)) <= 1.0
    assert true_loss(of_row, 0.9 * scales(plan)) > 1.0


def test_pairs_in_one_column_cost_less_and_keep_their_promise():
    """Tuples that differ in one column only: less noise, no loss above the guarantee between them, more elsewhere."""
    secret = pf.Secret.together(*BOTH, pairs="one column")
    plan = (
        pf.protect(frame(3), pf.Scenario(secret, INDEPENDENT))
        .private_sum("hours")
        .private_sum("wage")
    )
    plan = plan.plan(pf.Pure(1.0))
    of_row = [laws([((state,), 1 / 6) for state in range(6)], 0, hours_and_wages)]
    assert true_loss(of_row, scales(plan), in_one_column) == pytest.approx(1.0, rel=1e-6)
    assert true_loss(of_row, scales(plan)) > 1.5
    assert (scales(plan) < scales(ask(3, INDEPENDENT))).all()


@pytest.mark.slow
def test_releases_of_one_column_each_add_up_to_no_less_than_is_lost():
    """An account adds what a release about hours and one about wages reveal about a tuple, along a chain."""
    rng = np.random.default_rng(5)
    transition = random_chain(rng, 6)
    scenario = pf.Scenario(BOTH, pf.MarkovChain(transition), order_by="t")
    first, second = (
        pf.protect(frame(3), scenario).private_sum(name).plan(pf.Pure(0.5))
        for name in ("hours", "wage")
    )
    total = pf.compose([first, second], scenario).total
    paths = list(sequences(transition, 3))
    of_row = [laws(paths, row, hours_and_wages) for row in range(3)]
    noise = np.array([*scales(first), *scales(second)])
    assert true_loss(of_row, noise) <= total
    assert true_loss(of_row, 0.2 * noise) > total


def test_a_function_of_both_columns():
    """The pay, hours × wage, is one more sum of the tuples: 0 to 40 of one independent row."""
    plan = pf.protect(frame(3), pf.Scenario(BOTH, INDEPENDENT)).private_sum(
        pl.col("hours") * pl.col("wage")
    )
    plan = plan.plan(pf.Pure(1.0))
    of_row = [
        laws(
            [((state,), 1 / 6) for state in range(6)],
            0,
            lambda path: (float(sum(h * w for h, w in path)),),
        )
    ]
    assert true_loss(of_row, scales(plan)) == pytest.approx(1.0, rel=1e-6)
    assert list(plan.noises) == ["hours_wage"]


def test_values_of_several_columns_are_read_as_the_secret_says():
    """Nulls, unknown labels and numbers outside, column by column, in sums of one and of several columns, in groups."""
    rows = pl.DataFrame(
        {
            "day": [1, 1, 1, 2, 2, 2],
            "hours": [0, 2, None, 7, -3, 1],
            "kind": ["a", "b", "c", None, "b", "a"],
            "load": [0.0, 3.0, float("nan"), float("inf"), 1.0, -1.0],
        }
    )
    secret = [
        pf.Secret("hours", domain=HOURS, missing=1),
        pf.Secret("kind", domain=["a", "b"], missing="b"),
        pf.Secret("load", domain=pf.Bins([0, 2, 4], values=[1, 3])),
    ]
    batch = pf.protect(rows, pf.Scenario(secret, INDEPENDENT, public=["day"])).group_by("day")
    batch = batch.private_sum("hours").private_sum("load")
    batch = batch.private_sum(pl.col("hours") * pl.col("load"), name="product")
    batch = batch.private_count((pl.col("kind") == "b") & (pl.col("hours") > 0), name="both")
    release = batch.plan(pf.Pure(1e7)).release()
    found = [[round(value) for value in row] for row in release.frame.rows()]
    # hours 0 2 1 | 2 0 1, kind a b b | b b a, load 1 3 1 | 3 1 1
    assert found == [[1, 3, 5, 7, 2], [2, 3, 5, 7, 1]]


def test_a_covariance_of_units_that_come_and_go():
    """Their number is private, so a noisy one is divided by; the bars have the truth."""
    rng = np.random.default_rng(10)
    hours = rng.integers(0, 3, 6_000)
    wage = 10 * (1 + (rng.random(6_000) < 0.2 + 0.3 * hours))
    rows = pl.DataFrame({"t": range(6_000), "hours": hours, "wage": wage})
    secret = pf.Presence("t", column=["hours", "wage"], domain=[HOURS, WAGES], rows=1)
    batch = pf.protect(rows, pf.Scenario(secret, INDEPENDENT)).private_covariance("hours", "wage")
    truth = float(np.cov(hours, wage, ddof=0)[0, 1])
    exact = batch.plan(pf.Pure(1e8)).release()
    assert exact.frame.item() == pytest.approx(truth, abs=1e-4)
    low, high = batch.plan(pf.Pure(2.0)).release().intervals.row(0)
    assert low < truth < high or high - low < 0.5


def test_a_column_of_a_table_that_is_called_as_tuples_are():
    """The column of tuples is none of the frame, nor of the secret's."""
    table = pf.Table({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "probability": [0.25] * 4})
    secret = [pf.Secret("a", domain=[0, 1]), pf.Secret("b", domain=[0, 1])]
    rows = pl.DataFrame({"a": [0, 1], "b": [1, 1], "a × b": [7, 8]})
    batch = (
        pf.protect(rows, pf.Scenario(secret, table, public=["a × b"]))
        .group_by("a × b")
        .private_sum("a")
    )
    assert [round(one) for one in batch.release(epsilon=1e7).frame["a_sum"]] == [0, 1]
    with pytest.raises(pf.UsageError):
        pf.protect(rows, pf.Scenario(secret, table)).private_histogram("a × b")
    with pytest.raises(pf.UsageError, match="No column"):
        pf.MarkovChain.fit(pf.Reference("a survey", rows), [], "a", domain=[])


def test_names_that_look_like_tuples():
    """Columns may be called as tuples are."""
    secrets = [pf.Secret("a", [0, 1]), pf.Secret("b", [0, 1]), pf.Secret("a × b", [0, 1, 2, 3])]
    frame_of = pl.DataFrame({"a": [0, 1, 1], "b": [1, 1, 0], "a × b": [0, 0, 1]})
    apart = pf.Scenario(pf.Secret.together(*secrets, pairs="one column"), INDEPENDENT)
    plan = (
        pf.protect(frame_of, apart)
        .private_sum("a")
        .private_sum(pl.col("a") * pl.col("b"), name="p")
        .plan(pf.Pure(1.0))
    )
    assert (1 / scales(plan)).sum() <= 1.0  # a moves both sums where b is 1
    secret = [pf.Secret(name, domain=[0, 1]) for name in ("a × b", "a", "b")]
    rows = pl.DataFrame({name: [0, 1, 1] for name in ("a × b", "a", "b", "a × b × a × b")})
    batch = pf.protect(rows, pf.Scenario(secret, INDEPENDENT)).private_sum("a × b").private_sum("a")
    release = batch.private_sum(pl.col("a") * pl.col("b"), name="both").plan(pf.Pure(1e7)).release()
    assert [round(value) for value in release.frame.row(0)] == [2, 2, 2]


def test_intervals_beside_lists():
    """Where rows are independent, or depend on each other in any way, a column may fill an interval."""
    rows = pl.DataFrame({"firm": [1, 1, 2], "hours": [0, 1, 2], "pay": [0.0, 50.0, 200.0]})
    secret = [BOTH[0], pf.Secret("pay", domain=pf.Interval(0, 100))]
    for prior, many in ((INDEPENDENT, 1), (pf.AnyCorrelation(), 2)):
        batch = pf.protect(rows, pf.Scenario(secret, prior, within="firm"))
        plan = batch.private_sum("hours").private_sum("pay").plan(pf.Pure(1.0))
        moved = np.array([2.0, 100.0]) * many
        assert (moved / scales(plan)).sum() == pytest.approx(1.0, rel=1e-3)
        assert (moved / scales(plan)).sum() <= 1.0
        alone = batch.private_sum("pay").plan(pf.Pure(1.0))
        assert scales(alone)[0] == pytest.approx(moved[1], rel=1e-3)


def test_an_interval_hides_with_what_others_tell():
    """Two functions of one interval beside a list: a row moves to any corner of the one and any value of the other."""
    rows = pl.DataFrame({"hours": [0, 1], "pay": [0.0, 50.0]})
    secret = [BOTH[0], pf.Secret("pay", domain=pf.Interval(0, 100))]
    batch = (
        pf.protect(rows, pf.Scenario(secret, INDEPENDENT)).private_sum("hours").private_sum("pay")
    )
    plan = batch.private_count(pl.col("pay") > 50, name="rich").plan(pf.Pure(1.0))
    assert (np.array([2.0, 100.0, 1.0]) / scales(plan)).sum() <= 1.0


def test_a_table_of_both_columns():
    """Each row is a draw from a table: hiding the tuple costs what an independent row costs."""
    weights = np.arange(1, 7) / 21
    table = pf.Table(
        {"hours": [h for h, _ in TUPLES], "wage": [w for _, w in TUPLES], "probability": weights}
    )
    scenario = pf.Scenario(BOTH, table, within="t")
    plan = (
        pf.protect(frame(3), scenario).private_sum("hours").private_sum("wage").plan(pf.Pure(1.0))
    )
    assert scales(plan) == pytest.approx(scales(ask(3, INDEPENDENT)), rel=1e-9)
    assert pf.Scenario.from_json(scenario.to_json()) == scenario


def test_a_hidden_class_of_both_columns():
    """Rows that share a class: the exact laws of two rows, for every class and every tuple of the first one."""
    rng = np.random.default_rng(2)
    rows_given, weights = 0.7 * rng.dirichlet(np.ones(6), 2) + 0.05, np.array([0.4, 0.6])
    plan = (
        pf.protect(frame(2), pf.Scenario(BOTH, pf.LatentClass(weights, rows_given)))
        .private_sum("hours")
        .private_sum("wage")
        .plan(pf.Pure(1.0))
    )
    paths = [
        ((a, b), float((weights * rows_given[:, a] * rows_given[:, b]).sum()))
        for a, b in itertools.product(range(6), repeat=2)
    ]
    of_row = [laws(paths, row, hours_and_wages) for row in range(2)]
    assert true_loss(of_row, scales(plan)) <= 1.0
    assert true_loss(of_row, 0.5 * scales(plan)) > 1.0


def test_what_several_columns_cannot_be_asked():
    """Each refusal says what to declare; nothing was read."""
    chain = pf.MarkovChain(np.full((2, 2), 0.5))
    interval = pf.Secret("pay", domain=pf.Interval(0, 1))
    many = [pf.Secret(name, domain=range(40)) for name in ("a", "b")]
    equal = pf.Table({"hours": [0, 1, 2], "wage": [10, 20, 20], "probability": [0.25, 0.25, 0.5]})
    near = pf.Secret("hours", domain=HOURS, pairs="adjacent")
    cases = [
        (
            lambda: pf.Scenario(BOTH, chain, order_by="t"),
            "A chain of 2 states for a domain of 6 values",
        ),
        (
            lambda: pf.Scenario([BOTH[0], interval], chain, order_by="t"),
            "some of which are intervals",
        ),
        (lambda: pf.Scenario(BOTH, pf.WeaklyDependent(1.0)), "several secret columns"),
        (lambda: pf.Scenario(many, INDEPENDENT), "1,600 tuples"),
        (
            lambda: pf.Scenario([BOTH[0], BOTH[0]], INDEPENDENT),
            "Several secrets about 'hours', 'hours'",
        ),
        (lambda: pf.Scenario([BOTH[0], pf.Presence("t")], INDEPENDENT), "is of type Presence"),
        (lambda: pf.Scenario([near, BOTH[1]], INDEPENDENT), "pairs of its own"),
        (
            lambda: pf.Scenario(BOTH, equal),
            "never produces hours × wage",
        ),  # wage follows from hours
        (lambda: pf.Scenario(BOTH, INDEPENDENT, public=["wage"]), "both secret and public"),
        (lambda: pf.Secret.together(*BOTH, pairs="adjacent"), "pairs of tuples"),
    ]
    for make, words in cases:
        with pytest.raises(pf.PufferflowError, match=words):
            make()
    batch = pf.protect(frame(2).with_columns(pay=0.5), pf.Scenario([*BOTH, interval], INDEPENDENT))
    with pytest.raises(pf.Refused, match="'pay' is an interval"):
        batch.private_sum(pl.col("hours") * pl.col("pay"))
    with pytest.raises(pf.UsageError, match="not declared"):
        batch.private_sum(pl.col("hours") * pl.col("t"))


@pytest.mark.slow
def test_a_chain_fitted_to_several_columns():
    """The transitions of tuples are counted in a reference, each column read into its own domain."""
    rng = np.random.default_rng(3)
    transition, state, found = random_chain(rng, 6), 0, []
    for _ in range(6_000):
        state = int(rng.choice(6, p=transition[state]))
        found.append(TUPLES[state])
    seen = pl.DataFrame(found, schema=["hours", "wage"], orient="row").with_row_index("t")
    seen = seen.with_columns(pl.when(pl.col("t") == 17).then(None).otherwise("wage").alias("wage"))
    chain = pf.MarkovChain.fit(
        pf.Reference("a survey", seen), ["hours", "wage"], "t", domain=[HOURS, WAGES]
    )
    assert np.abs(np.array(chain.transition[0]) - transition).max() < 0.08
    assert any("without a value" in note for note in chain.provenance.notes)
    scenario = pf.Scenario(BOTH, chain, order_by="t")
    assert pf.Scenario.from_json(scenario.to_json()) == scenario
    assert "a survey" in ask(3, chain).explain()
    for wrong in ([HOURS], HOURS[:2]):
        with pytest.raises(pf.UsageError, match="domain is"):
            pf.MarkovChain.fit(pf.Reference("a survey", seen), ["hours", "wage"], "t", domain=wrong)


@pytest.mark.slow
def test_columns_that_move_independently_of_each_other():
    """M53 (d): the sum of one column costs what it costs on its own chain, whatever the other column does."""
    rng = np.random.default_rng(4)
    hours, wages = (pf.MarkovChain(random_chain(rng, states)) for states in (3, 2))
    both = pf.MarkovChain.product(hours, wages)
    assert np.allclose(both.transition[0], np.kron(hours.transition[0], wages.transition[0]))
    joint = pf.protect(frame(4), pf.Scenario(BOTH, both, order_by="t")).private_sum("wage")
    alone = pf.protect(frame(4), pf.Scenario(BOTH[1], wages, order_by="t")).private_sum("wage")
    assert scales(joint.plan(pf.Pure(1.0))) == pytest.approx(
        scales(alone.plan(pf.Pure(1.0))), rel=1e-6
    )


def test_products_of_chains_with_periods_and_starts():
    """Matrices take turns after the common period; any law of a column may be that of its part of a tuple."""
    rng = np.random.default_rng(6)
    two, three = ([random_chain(rng, 2) for _ in range(count)] for count in (2, 3))
    both = pf.MarkovChain.product(pf.MarkovChain(two, period=2), pf.MarkovChain(three, period=3))
    assert both.period == 6
    assert np.allclose(both.kernels[5], np.kron(two[1], three[2]))
    assert (
        pf.MarkovChain.product(
            pf.MarkovChain(two[0], initial="free"), pf.MarkovChain(two[1])
        ).initial
        == "free"
    )
    started = pf.MarkovChain.product(
        pf.MarkovChain(two[0], initial=[0.25, 0.75]), pf.MarkovChain(two[1], [0.5, 0.5])
    )
    assert started.initial == (0.125, 0.125, 0.375, 0.375)
    with pytest.raises(pf.UsageError, match="A product of 1 chains"):
        pf.MarkovChain.product(both)


@pytest.mark.slow
def test_thirty_states_are_planned_in_seconds():
    """Thirty tuples and some weeks: no bound compares what takes minutes."""
    rng = np.random.default_rng(7)
    secret = [pf.Secret("a", domain=range(6)), pf.Secret("b", domain=range(5))]
    chain = pf.MarkovChain(random_chain(rng, 30))
    rows = pl.DataFrame({"t": range(40), "a": [0] * 40, "b": [0] * 40})
    batch = (
        pf.protect(rows, pf.Scenario(secret, chain, order_by="t")).private_sum("a").private_sum("b")
    )
    plan = batch.plan(pf.Pure(1.0))
    assert plan.calibration.bound == pf.Messages(coarse=True)
    assert (
        np.array([5.0, 4.0]) * 40 / scales(plan)
    ).sum() > 10.0  # a tenth of what all rows together need


def test_covariances_have_error_bars_that_hold():
    """The covariance of both columns, group by group: its bars cover 95 of 100, and nothing is beyond what can be."""
    rng = np.random.default_rng(8)
    hours = rng.integers(0, 3, 20_000)
    wage = 10 * (1 + (rng.random(20_000) < 0.2 + 0.3 * hours))
    rows = pl.DataFrame({"group": np.arange(20_000) % 100, "hours": hours, "wage": wage})
    truth = (
        rows.group_by("group")
        .agg(pl.cov("hours", "wage", ddof=0).alias("it"))
        .sort("group")["it"]
        .to_numpy()
    )
    scenario = pf.Scenario(BOTH, INDEPENDENT, public=["group"])
    batch = (
        pf.protect(rows, scenario)
        .group_by("group", keys=range(101))
        .private_covariance("hours", "wage")
    )

    def look(_turn):
        release = batch.plan(pf.Pure(1.0)).release()
        low, high = (
            release.intervals["hours_wage_covariance_low"],
            release.intervals["hours_wage_covariance_high"],
        )
        assert (low[100], high[100]) == (
            -5.0,
            5.0,
        )  # without rows: half of either range, multiplied
        covered = ((low.to_numpy()[:100] <= truth) & (truth <= high.to_numpy()[:100])).mean()
        return covered < 0.95 - 3 * math.sqrt(0.05 * 0.95 / 100)

    assert not alarms_twice(look)
    exact = batch.plan(pf.Pure(1e8)).release().frame["hours_wage_covariance"].to_numpy()[:100]
    assert exact == pytest.approx(truth, abs=1e-4)
    with pytest.raises(pf.UsageError, match="with itself"):
        batch.private_covariance("hours", "hours")


def test_a_derived_secret_behind_several_columns():
    """M53 (b): what two columns of a row reveal about a third, by the exact laws.

    XOR is told by both, by neither alone.
    """
    rng = np.random.default_rng(11)
    for xor in (False, True):
        joint = rng.dirichlet(np.ones(8)).reshape(2, 2, 2) * 0.9 + 0.0125
        if xor:
            joint = np.array([[[0.25, 0.0], [0.0, 0.25]], [[0.0, 0.25], [0.25, 0.0]]])
        cells = [
            (*cell, float(joint[cell]))
            for cell in itertools.product((0, 1), repeat=3)
            if joint[cell]
        ]
        table = pf.Table(
            dict(zip(("ill", "b", "c", "probability"), zip(*cells, strict=True), strict=True))
        )
        hidden = pf.Derived("ill", column=["b", "c"], domain=[[0, 1], [0, 1]])
        rows = pl.DataFrame({"b": [0, 1, 1], "c": [1, 1, 0]})
        batch = pf.protect(rows, pf.Scenario(hidden, table))
        plan = (
            batch.private_sum("b")
            .private_sum("c")
            .plan(pf.Pure(0.5), row_privacy=False, bound=pf.Messages())
        )
        given = {
            ill: (
                np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float),
                joint[ill].ravel() / joint[ill].sum(),
            )
            for ill in (0, 1)
        }
        places = places_around(given.values())
        logs = [density(given[ill], scales(plan), places) for ill in (0, 1)]
        lost = float(np.abs(logs[0] - logs[1]).max())
        assert lost <= 0.5
        assert lost > 0.1
        if xor:
            alone = batch.private_sum("b").plan(pf.Pure(0.5), row_privacy=False)
            assert scales(alone)[0] < 1e-3
            assert lost == pytest.approx(math.log(math.cosh(1 / scales(plan)[0])), rel=1e-6)


def test_one_column_of_a_table_is_hidden_where_others_are_asked():
    """The secret may be one of the columns: then its own sum and what others reveal about it count together."""
    weights = np.array([0.4, 0.1, 0.15, 0.35])
    table = pf.Table({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "probability": weights})
    hidden = pf.Derived("a", column=["a", "b"], domain=[[0, 1], [0, 1]])
    rows = pl.DataFrame({"a": [0, 1], "b": [1, 1]})
    plan = (
        pf.protect(rows, pf.Scenario(hidden, table))
        .private_sum("a")
        .private_sum("b")
        .plan(pf.Pure(1.0), bound=pf.Messages())
    )
    given = {
        a: (
            np.array([[a, 0], [a, 1]], float),
            weights[2 * a : 2 * a + 2] / weights[2 * a : 2 * a + 2].sum(),
        )
        for a in (0, 1)
    }
    places = places_around(given.values())
    for factor, kept in ((1.0, True), (0.9, False)):
        logs = [density(given[a], factor * scales(plan), places) for a in (0, 1)]
        assert (np.abs(logs[0] - logs[1]).max() <= 1.0) == kept
    both = pf.protect(rows, pf.Scenario([pf.Secret("a", [0, 1]), pf.Secret("b", [0, 1])], table))
    assert (scales(plan) < scales(both.private_sum("a").private_sum("b").plan(pf.Pure(1.0)))).all()


def test_units_that_come_and_go_with_several_columns():
    """Presence: a unit's rows add up to as much as they can in every column, and in functions of several."""
    secret = pf.Presence("t", column=["hours", "wage"], domain=[HOURS, pf.Interval(0, 20)], rows=3)
    scenario = pf.Scenario(secret, INDEPENDENT)
    assert pf.Scenario.from_json(scenario.to_json()) == scenario
    batch = pf.protect(frame(4), scenario).private_sum("hours").private_sum("wage").private_count()
    plan = batch.plan(pf.Pure(1.0))
    moved = 3 * np.array([2.0, 20.0, 1.0])
    assert 0.999 < (moved / scales(plan)).sum() <= 1.0
    lists = pf.Presence(
        "t", column=["hours", "wage"], domain=[HOURS, WAGES], missing=[1, 20], rows=2
    )
    product = pf.protect(frame(4), pf.Scenario(lists, INDEPENDENT)).private_sum(
        pl.col("hours") * pl.col("wage")
    )
    assert scales(product.plan(pf.Pure(1.0)))[0] == pytest.approx(2 * 40, rel=1e-6)
    for wrong in (
        {"domain": [HOURS]},
        {"domain": HOURS[:1]},
        {"domain": [HOURS, WAGES], "missing": [1]},
    ):
        with pytest.raises(pf.UsageError, match="2 columns with"):
            pf.Presence("t", column=["hours", "wage"], **wrong)
    for missing in (1, "junk", np.array([1, 20])):
        with pytest.raises(pf.UsageError, match=r"^missing is .*, for 2 columns"):
            pf.Presence("t", column=["hours", "wage"], domain=[HOURS, WAGES], missing=missing)
    with pytest.raises(pf.UsageError, match="given twice"):
        pf.Presence("t", column=["hours", "hours"], domain=[HOURS, WAGES])


def test_a_column_of_a_table_that_no_secret_is_about_is_refused_with_a_way_on():
    table = pf.Table(
        {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 1, 1, 0], "probability": [0.25] * 4}
    )
    scenario = pf.Scenario([pf.Secret("a", domain=[0, 1]), pf.Secret("b", domain=[0, 1])], table)
    batch = pf.protect(pl.DataFrame({"a": [0, 1], "b": [0, 1], "c": [0, 0]}), scenario)
    assert batch.private_sum("a").plan(pf.Pure(1.0)).noises
    with pytest.raises(pf.Refused, match="A sum of 'c' where the secrets are about 'a', 'b'"):
        batch.private_sum("c").plan(pf.Pure(1.0))
