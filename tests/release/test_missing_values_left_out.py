"""With missing="skip" null and NaN are a state of their own: left out of answers, and as secret as any value."""

import itertools
import random

import numpy as np
import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

SURE = pf.Pure(1e7)
FRAME = pl.DataFrame(
    {
        "day": [1, 1, 2, 2, 2, 1, 2],
        "level": [0, None, 3, 2, None, 1, 3],
        "kw": [3.5, None, 12.0, float("nan"), 6.0, 2.25, None],
        "label": ["a", None, "b", "unknown", "b", "a", "a"],
    }
)
LEVEL, KW, LABEL = pl.col("level"), pl.col("kw"), pl.col("label")
LISTED = pf.Secret("level", domain=[0, 1, 2, 3], missing="skip")
WIDE = pf.Secret("kw", domain=pf.Interval(2, 10), missing="skip")
CLASSES = pf.Secret("kw", domain=pf.Bins([2, 5, 10], [3.0, 7.0]), missing="skip")


def scenario_of(secret, prior=None, **more):
    return pf.Scenario(secret, prior or pf.Independent(), public=["day"], **more)


def answers(batch):
    return batch.release(SURE).frame


def test_answers_are_those_of_the_values_that_are_there():
    """On a list of values: sums, means, counts, histograms, medians and variances, by group."""
    batch = pf.protect(FRAME, scenario_of(LISTED)).group_by("day")
    batch = batch.private_sum("level").private_mean("level").private_count(LEVEL >= 2, "high")
    batch = batch.private_histogram("level").private_median("level").private_variance("level")
    found, true = answers(batch), FRAME.group_by("day").agg(
        level_sum=LEVEL.sum(),
        level_mean=LEVEL.mean(),
        high=(LEVEL >= 2).sum(),
        **{f"level_histogram_{value}": (value == LEVEL).sum() for value in range(4)},
        level_median=LEVEL.quantile(0.5, "lower"),
        level_variance=LEVEL.var(ddof=0),
    ).sort("day")  # fmt: skip
    assert found.columns == true.columns
    for name in true.columns:
        assert found[name].to_list() == pytest.approx(true[name].to_list(), abs=1e-3), name


@pytest.mark.slow
@pytest.mark.parametrize("prior", [pf.Independent(), pf.AnyCorrelation()])
def test_answers_on_an_interval(prior):
    """Numbers outside are read as the nearest end, and null and NaN are left out."""
    batch = (
        pf.protect(FRAME, scenario_of(WIDE, prior))
        .private_sum("kw")
        .private_mean("kw")
        .private_variance("kw")
    )
    batch = batch.private_count(KW >= 6, "high").private_histogram("kw", bins=[2, 5, 10])
    batch = batch.private_median("kw", bins=np.linspace(2, 10, 33)).private_sum(
        (KW - 4).abs(), "far"
    )
    found = answers(batch).row(0, named=True)
    read = np.array([3.5, 10.0, 6.0, 2.25])
    true = {"kw_sum": read.sum(), "kw_mean": read.mean(), "kw_variance": read.var(), "high": 2}
    true |= {"kw_histogram_2 to 5": 2, "kw_histogram_5 to 10": 2, "far": np.abs(read - 4).sum()}
    for name, value in true.items():
        assert found[name] == pytest.approx(value, abs=2e-3), name
    assert found["kw_median"] == pytest.approx(3.5, abs=0.3)


def test_answers_in_classes_and_of_labels():
    """An unknown label is missing too."""
    found = answers(
        pf.protect(FRAME, scenario_of(CLASSES)).private_mean("kw").private_histogram("kw")
    )
    assert found.row(0) == pytest.approx((5.0, 2, 2), abs=1e-3)
    labels = scenario_of(pf.Secret("label", domain=["a", "b"], missing="skip"))
    found = answers(
        pf.protect(FRAME, labels).private_histogram("label").private_count(LABEL.is_null(), "none")
    )
    assert found.row(0) == pytest.approx((3, 2, 2), abs=1e-3)


@pytest.mark.parametrize("secret", [LISTED, WIDE, CLASSES], ids=["list", "interval", "classes"])
def test_missing_values_can_be_counted_and_filled(secret):
    """What an expression makes of null is what a missing row adds."""
    column = pl.col(secret.column)
    batch = pf.protect(FRAME, scenario_of(secret)).private_count(column.is_null(), "none")
    batch = batch.private_count(column.is_not_null(), "some").private_sum(
        column.fill_null(2), "filled"
    )
    batch = batch.private_mean(column.fill_null(2), "mean of all")
    none, some, filled, mean = answers(batch).row(0)
    missing = 2 if secret is LISTED else 3
    assert (none, some) == pytest.approx((missing, 7 - missing), abs=1e-3)
    total = filled - 2 * missing
    assert mean == pytest.approx((total + 2 * missing) / 7, abs=1e-3)
    by_itself = answers(pf.protect(FRAME, scenario_of(secret)).private_sum(column))
    assert by_itself.item() == pytest.approx(total, abs=1e-3)


def test_presence_leaves_them_out_too():
    """A row of a unit that is missing adds nothing to sums, and is a row still."""
    secret = pf.Presence("person", "kw", pf.Interval(2, 10), "skip", rows=1)
    frame = FRAME.with_columns(person=pl.int_range(pl.len()))
    batch = (
        pf.protect(frame, pf.Scenario(secret, pf.Independent())).private_mean("kw").private_count()
    )
    found = answers(batch)
    assert found["kw_mean"].item() == pytest.approx(21.75 / 4, abs=1e-3)
    assert found["count"].item() == pytest.approx(7, abs=1e-3)
    alone = (
        pf.protect(frame, pf.Scenario(secret, pf.Independent()))
        .private_sum("kw")
        .plan(pf.Pure(1.0))
    )
    assert alone.noises["kw_sum"].scale == pytest.approx(10, rel=1e-6)


def tables(request):
    """What a row of each value, and one that is missing, adds to every sum of a batch: as engines read it."""
    (column,) = request.scenario.secret.columns
    domain = request.domains[column]
    values = (
        list(domain.present.points) if domain.finite else [domain.low + place for place in range(9)]
    )
    rows = []
    for value in [*values, None]:
        frame = pl.DataFrame({column: [value]}, schema={column: request.schema[column]})
        engine = pf.protect(frame, request.scenario).request.engine
        rows.append(engine.tally(request.selection, request.measures).sums[0])
    return np.array(rows, dtype=float).T


def loss_of_any_pair(batch, promise):
    """The largest loss between any two values of a row, missing ones among them."""
    plan = batch.plan(promise)
    table, losses = tables(batch.request), []
    for a, b in itertools.combinations(range(table.shape[1]), 2):
        moved = np.abs(table[:, a] - table[:, b])
        losses.append(
            sum(
                own.pure(by)
                for own, by in zip(plan.mechanism.noise.noises, moved, strict=True)
                if by
            )
        )
    return max(losses)


def some_batch(rng):
    secret = rng.choice([LISTED, WIDE, CLASSES])
    batch, column = (
        pf.protect(FRAME.drop("day"), pf.Scenario(secret, pf.Independent())),
        pl.col(secret.column),
    )
    asked = {
        "sum": lambda one: one.private_sum(column),
        "mean": lambda one: one.private_mean(column),
        "shifted": lambda one: one.private_sum(column + 5, "shifted"),
        "variance": lambda one: one.private_variance(column),
        "none": lambda one: one.private_count(column.is_null(), "none"),
        "high": lambda one: one.private_count(column >= 3, "high"),
    }
    for name in rng.sample(sorted(asked), rng.randint(1, 4)):
        batch = asked[name](batch)
    return batch


@pytest.mark.slow
def test_a_missing_value_is_as_secret_as_any_other():
    """By brute force: no pair of values, or of a value and none, loses more than is guaranteed; some lose as much."""
    rng = random.Random(5)  # noqa: S311 - which batches are tried
    losses = [loss_of_any_pair(some_batch(rng), pf.Pure(1.0)) for _ in range(60)]
    assert max(losses) <= 1 + 1e-9
    assert max(losses) > 0.99


def test_neighbouring_pairs_hide_missing_values_from_all():
    """Whether a value is missing is hidden whatever the value."""
    batch = pf.protect(
        FRAME, scenario_of(pf.Secret("level", domain=[5, 6, 7], pairs="adjacent", missing="skip"))
    )
    assert batch.private_sum("level").plan(pf.Pure(1.0)).noises["level_sum"].scale == pytest.approx(
        7, rel=1e-6
    )
    near = pf.Secret("level", domain=[0, 1, 2, 3], pairs=pf.WithinDistance(1), missing="skip")
    assert set(map(frozenset, near.pairs)) == {
        *map(frozenset, [(0, 1), (1, 2), (2, 3)]),
        *(frozenset((value, None)) for value in range(4)),
    }


CHAIN = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]
FIRST = [[0.7, 0.1, 0.2], [0.2, 0.4, 0.4], [0.1, 0.4, 0.5]]


@pytest.mark.parametrize(
    "promise", thinned([pf.Pure(1.0), pf.Renyi(4, 1.0), pf.Approx(1.0, 1e-3)], 0.3, slow=0.67)
)
def test_the_last_state_of_a_chain_is_missing(promise):
    """Noise is that of the same chain on a list with one value more, whose φ is 0."""
    frame = pl.DataFrame(
        {"hour": range(6), "level": [1, None, 3, 1, 1, None], "other": [1, 9, 3, 1, 1, 9]}
    )

    def plan(secret, value):
        scenario = pf.Scenario(secret, pf.MarkovChain(CHAIN), order_by="hour")
        return (
            pf.protect(frame, scenario)
            .private_sum(value, "sum")
            .private_count(value >= 3, "high")
            .plan(promise)
        )

    skipping = plan(pf.Secret("level", domain=[1, 3], missing="skip"), LEVEL)
    other = pl.when(pl.col("other") == 9).then(0).otherwise(pl.col("other"))
    listed = plan(pf.Secret("other", domain=[1, 3, 9], missing=9), other)
    for name in ("sum", "high"):
        assert skipping.noises[name].scale == pytest.approx(listed.noises[name].scale, rel=1e-9)
    assert skipping.release().frame.height == 1


def test_a_chain_is_fitted_with_a_state_for_missing_values():
    """On the secret's own domain; a value outside of it is the nearest still."""
    secret = pf.Secret("level", domain=[1, 3], missing="skip")
    public = pl.DataFrame({"hour": range(9), "level": [1, None, 3, 3, None, None, 1, 9, 3]})
    chain = pf.MarkovChain.fit(
        pf.Reference("public", public), "level", "hour", domain=secret.domain
    )
    assert len(chain.transition[0]) == 3
    steps = np.array(chain.transition[0])
    assert steps[2, 2] > steps[0, 0]  # null follows null once, and 1 never 1
    labels = pf.Secret("label", domain=["a", "b"], missing="skip")
    words = pl.DataFrame({"hour": range(6), "label": ["a", None, "b", "b", None, "z"]})
    fitted = pf.MarkovChain.fit(pf.Reference("words", words), "label", "hour", domain=labels.domain)
    assert pf.Scenario(labels, fitted, order_by="hour").priors[0] == fitted


@pytest.mark.slow
def test_a_mean_along_a_chain_divides_by_a_noisy_number():
    """The mean is that of the values that are there."""
    frame = pl.DataFrame({"hour": range(60), "level": [1, None, 3] * 20})
    scenario = pf.Scenario(
        pf.Secret("level", domain=[1, 3], missing="skip"), pf.MarkovChain(CHAIN), order_by="hour"
    )  # fmt: skip
    plan = pf.protect(frame, scenario).private_mean("level").plan(pf.Pure(1e4))
    assert plan.release().frame.item() == pytest.approx(2.0, abs=0.1)
    assert "left out" in plan.explain() or "leave out" in plan.explain()


def test_priors_without_a_state_for_it_are_refused():
    """And say why, with a way on."""
    cases = [
        (
            LISTED,
            pf.Table({"level": [0, 1, 2, 3], "probability": [0.25] * 4}),
            None,
            "no state for missing",
        ),
        (WIDE, pf.GaussianPrior(pf.AR1(0.5)), "day", "no number"),
        (
            LISTED,
            pf.MarkovChain([[0.5, 0.5], [0.5, 0.5]]),
            "day",
            "4 values and a state for missing ones",
        ),
    ]
    for secret, prior, order, why in cases:
        with pytest.raises((pf.Refused, pf.UsageError), match=why) as caught:
            pf.Scenario(secret, prior, order_by=order)
        assert caught.value.instead


def test_what_has_no_meaning_is_refused():
    """Near pairs of an interval, covariances, bounds by group, public weights of a mean, rows, models."""
    with pytest.raises(pf.Refused, match="hides every value and a missing one"):
        pf.Secret("kw", domain=pf.Interval(0, 1), pairs=pf.WithinDistance(0.1), missing="skip")
    both = pf.Scenario(
        [LISTED, pf.Secret("label", domain=["a", "b"])], pf.Independent(), public=["day"]
    )
    batch = pf.protect(FRAME, both)
    with pytest.raises(pf.Refused, match="covariance of 'level'"):
        batch.private_covariance(LEVEL, (LABEL == "a").cast(pl.Int64))
    batch = pf.protect(FRAME, scenario_of(LISTED)).group_by("day")
    with pytest.raises(pf.Refused, match="Bounds by group"):
        batch.private_sum("level", bounds={1: (0, 2)})
    with pytest.raises(pf.Refused, match="Public weights"):
        batch.private_mean("level", weights="day")
    with pytest.raises(pf.Refused, match="Row by row"):
        pf.protect(FRAME, scenario_of(LISTED)).private_local("level")


def test_tuples_have_missing_values_by_column():
    """A function of two columns is null, so left out, where either is missing and it says nothing else."""
    secret = [LISTED, pf.Secret("label", domain=["a", "b"], missing="skip")]
    batch = pf.protect(FRAME, scenario_of(secret)).private_sum("level").private_histogram("label")
    batch = batch.private_sum(LEVEL * (LABEL == "b"), "b")
    found = answers(batch)
    assert found.row(0) == pytest.approx((9, 3, 2, 3), abs=1e-3)


def test_scenarios_are_stored_and_read_back():
    """As JSON, with the same fingerprint; nobody's older scenario changes its own."""
    for secret in (
        LISTED,
        WIDE,
        CLASSES,
        pf.Presence("day", "kw", pf.Interval(0, 1), "skip", rows=1),
    ):
        scenario = pf.Scenario(secret, pf.Independent())
        back = pf.Scenario.from_json(scenario.to_json())
        assert back == scenario
        assert back.fingerprint == scenario.fingerprint
        assert "or missing" in back.secret.domain.describe()
    plain = pf.Scenario(pf.Secret("kw", domain=pf.Interval(2, 10), missing=2), pf.Independent())
    assert "missing_is_state" not in plain.to_json()


def test_a_label_may_be_called_skip():
    """Then null is read as that label, as ever."""
    secret = pf.Secret("label", domain=["go", "skip"], missing="skip")
    assert not secret.domain.skips
    assert secret.missing == "skip"


def test_accounts_add_up_what_skips(tmp_path):
    """Every release of an account counts, one after the other."""
    for secret in (LISTED, WIDE):
        scenario = scenario_of(secret)
        with pf.Ledger(tmp_path / f"{secret.column}.db") as ledger:
            account = ledger.open("a", scenario, limit=pf.Pure(1.0))
            batch = pf.protect(FRAME, scenario).private_mean(secret.column)
            for _ in range(2):
                batch.plan(pf.Pure(0.5)).release(account)
            assert account.spent().epsilon == pytest.approx(1.0, abs=1e-6)
            with pytest.raises(pf.LimitReached):
                batch.plan(pf.Pure(0.5)).release(account)
