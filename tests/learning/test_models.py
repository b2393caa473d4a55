"""Private models as their users and scikit-learn meet them: fits, charges, what is refused, how values are read."""

import dataclasses
import pickle

import numpy as np
import polars as pl
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import pufferflow as pf

L = pf.learning
PROMISE = pf.Approx(1.0, 1e-6)
NAMES = ("x0", "x1", "y")


def scenario_of(prior=None, **more):
    return pf.Scenario(
        [pf.Secret(name, pf.Interval(-1, 1)) for name in NAMES], prior or pf.Independent(), **more
    )


def rows_of(count=3000, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (count, 2))
    target = np.clip(features @ [0.5, -0.3] + 0.1 + 0.05 * rng.normal(size=count), -1, 1)
    return pl.DataFrame({"x0": features[:, 0], "x1": features[:, 1], "y": target})


@pytest.mark.parametrize(
    "model",
    [
        L.PrivateRidge(scenario_of(), PROMISE, solver="sums"),
        L.PrivateRidge(scenario_of(), pf.Pure(1.0)),
        L.PrivateRidge(scenario_of(), pf.Zcdp(0.5), solver="descent"),
        L.PrivateSGDRegressor(scenario_of(), PROMISE, loss="huber", alpha=0.01),
        L.PrivateSGDRegressor(
            scenario_of(), pf.Gdp(1.0), loss="huber", row_norm=1.0, batch_size=200, passes=20
        ),
    ],
)
def test_models_find_the_coefficients(model):
    # noise is small for so many rows, of a lazy frame as of one in memory
    rows = rows_of(30_000)
    model.fit(rows.lazy(), y="y")
    assert model.coef_ == pytest.approx([0.5, -0.3], abs=0.15)
    assert model.intercept_ == pytest.approx(0.1, abs=0.15)
    assert model.score(rows, "y") > 0.9
    assert model.predict(rows).shape == (30_000,)
    assert model.plan_.expected_error < 0.2
    assert model.certificate_.promise == model.guarantee


def test_without_noise_to_speak_of_ridge_is_ordinary_ridge():
    # scaled by bounds and back, of columns in units of their own
    rows = rows_of().with_columns(x0=pl.col("x0") * 30 + 50, y=pl.col("y") * 200 - 7)
    secrets = [
        pf.Secret(n, pf.Interval(*e))
        for n, e in zip(NAMES, [(20, 80), (-1, 1), (-207, 193)], strict=True)
    ]
    model = L.PrivateRidge(pf.Scenario(secrets, pf.Independent()), pf.Pure(1e5), alpha=0.0).fit(
        rows, y="y"
    )
    values = np.column_stack([np.ones(rows.height), rows.select("x0", "x1").to_numpy()])
    best = np.linalg.lstsq(values, rows["y"].to_numpy(), rcond=None)[0]
    assert np.append(model.intercept_, model.coef_) == pytest.approx(best, rel=1e-3, abs=1e-3)


def test_public_features_have_no_noise_of_their_own():
    # only sums with the target are noisy, and bounds of public features are declared
    rows = rows_of()
    scenario = pf.Scenario(
        pf.Secret("y", pf.Interval(-1, 1)), pf.Independent(), public=["x0", "x1"]
    )
    model = L.PrivateRidge(
        scenario, PROMISE, features=["x0", "x1"], bounds={"x0": (-1, 1), "x1": (-1, 1)}
    )
    secret = L.PrivateRidge(scenario_of(), PROMISE, solver="sums")
    assert model.plan(rows, "y").expected_error < secret.plan(rows, "y").expected_error
    with pytest.raises(pf.UsageError, match="no declared bounds"):
        L.PrivateRidge(scenario, PROMISE, features=["x0"]).fit(rows, y="y")


@pytest.mark.parametrize("promise", [pf.Gdp(1e-6), pf.Approx(1e-5, 1e-9), pf.Approx(1.0, 0.0)])
def test_ridge_takes_sums_where_a_descent_has_nothing_left_to_tell(promise):
    # a grid uses up what a descent of many steps may tell, not what a few sums may; the note says so
    with pytest.raises(pf.Refused):
        L.PrivateRidge(scenario_of(), promise, solver="descent").plan(rows_of(300), "y")
    plan = L.PrivateRidge(scenario_of(), promise).plan(rows_of(300), "y")
    assert "allows the other way no loss" in plan.explain()
    assert plan.certificate.composition.startswith("sums of products")


def test_ridge_takes_a_descent_where_sums_have_nothing_left_to_tell(monkeypatch):
    # the other way around, with a coarse grid of sums; if neither can, the guarantee is refused
    monkeypatch.setattr("pufferflow.learning.sums.FINE", 1.0)
    plan = L.PrivateRidge(scenario_of(), pf.Gdp(1.0)).plan(rows_of(300), "y")
    assert plan.certificate.composition.startswith("the last iterate")
    assert "allows the other way no loss" in plan.explain()
    with pytest.raises(pf.Refused, match="uses all of it"):
        L.PrivateRidge(scenario_of(), pf.Gdp(1e-9)).plan(rows_of(300), "y")


def test_dependence_costs_what_it_is():
    # independent < weakly correlated < any correlation; a better prior than none is noted
    rows = rows_of(600).with_columns(g=pl.int_range(600) // 12, t=pl.int_range(600) % 12)
    beliefs = [
        pf.Independent(),
        pf.GaussianPrior(pf.AR1(0.4), across=np.eye(3)),
        pf.AnyCorrelation(),
    ]
    for model in (L.PrivateRidge(solver="sums"), L.PrivateSGDRegressor(loss="huber")):
        model.set_params(guarantee=pf.Gdp(1.0))
        plans = [
            model.set_params(scenario=scenario_of(prior, within="g", order_by="t")).plan(rows, "y")
            for prior in beliefs
        ]
        scales = [plan.certificate.sums[0].scale for plan in plans]
        assert scales[0] < scales[1] < scales[2]
        assert plans[1].certificate.bound.startswith("translation")
    assert (
        "M7"
        not in model.set_params(
            scenario=scenario_of(
                pf.GaussianPrior(pf.Exchangeable(0.3), across=np.eye(3)), within="g"
            )
        )
        .plan(rows, "y")
        .explain()
    )


@pytest.mark.slow
def test_every_fit_is_charged_once_and_a_search_is_refused(tmp_path):
    # also those of a cross-validation; an id costs once; a warm start costs as any fit
    rows, scenario = rows_of(900), scenario_of()
    features, target = rows.select("x0", "x1").to_numpy(), rows["y"].to_numpy()
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("models", scenario, limit=pf.Approx(4.0, 1e-5))
        model = L.PrivateSGDRegressor(
            scenario, PROMISE, loss="huber", account=account, warm_start=True
        )
        plan = model.plan(rows, "y")
        assert account.remaining(plan) > 5
        first = model.fit(rows, y="y", id="one").coef_
        spent = account.spent()
        assert spent.epsilon == pytest.approx(account.differential_privacy().epsilon, rel=1e-6)
        again = L.PrivateSGDRegressor(
            scenario, PROMISE, loss="huber", account=account, warm_start=True
        )
        assert (again.fit(rows, y="y", id="one").coef_ == first).all()
        assert account.spent() == spent
        cross_val_score(model, features, target, cv=3)
        assert len(account.history()) == 4
        assert account.spent().epsilon > 1.5 * spent.epsilon
        with pytest.raises(pf.Refused, match="search"):
            GridSearchCV(model, {"radius": [1.0, 2.0]}).fit(features, target)
        make_pipeline(FunctionTransformer(), model).fit(features, target)
        model.fit(rows, y="y")
        assert len(account.history()) == 6
        for _ in range(int(account.remaining(plan))):
            model.fit(rows, y="y")
        with pytest.raises(pf.LimitReached):
            model.fit(rows, y="y")


def test_classes_are_declared_and_one_of_them_alone_is_fitted_as_any():
    # what labels the rows have is private: a model of one class predicts it
    rng = np.random.default_rng(3)
    rows = rows_of(8000).with_columns(y=pl.Series(rng.choice(["no", "yes"], 8000)))
    rows = rows.with_columns(
        y=pl.when(pl.col("x0") > 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
    )
    secrets = [
        *(pf.Secret(name, pf.Interval(-1, 1)) for name in NAMES[:2]),
        pf.Secret("y", ["no", "yes"]),
    ]
    model = L.PrivateSGDClassifier(
        pf.Scenario(secrets, pf.Independent()), pf.Approx(2.0, 1e-6)
    ).fit(rows, y="y")
    assert model.score(rows, "y") > 0.9
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict_proba([[0.0, 0.0]]).sum() == pytest.approx(1)
    model.fit(rows.with_columns(y=pl.lit("yes")), y="y")
    assert set(model.predict(rows).tolist()) == {"yes"}


def test_values_outside_and_missing_are_read_as_declared_and_never_tell():
    # null, NaN and numbers far outside change nothing but what they are read as, and readings say so
    rows = rows_of()
    wild = rows.with_columns(
        x0=pl.when(pl.int_range(3000) < 3)
        .then(pl.Series([1e300, np.nan, None] * 1000))
        .otherwise("x0")
    )
    model = L.PrivateRidge(scenario_of(), pf.Pure(1e5), alpha=0.0).fit(wild, y="y")
    assert np.abs(model.coef_ - [0.5, -0.3]).max() < 0.02
    assert "numbers above 1 as 1" in "".join(model.certificate_.readings)


def test_twenty_columns_are_hidden_together_and_sums_of_all_of_them_refused():
    # corners of so many columns are not compared; a model needs none
    names = [f"x{place}" for place in range(20)]
    rng = np.random.default_rng(2)
    rows = pl.DataFrame({name: rng.uniform(-1, 1, 5000) for name in names}).with_columns(
        y=pl.col("x3") * 0.5
    )
    scenario = pf.Scenario(
        [pf.Secret(name, pf.Interval(-1, 1)) for name in (*names, "y")], pf.Independent()
    )
    assert pf.Scenario.from_json(scenario.to_json()) == scenario
    model = L.PrivateRidge(scenario, pf.Gdp(3.0)).fit(rows, y="y")
    assert model.coef_.argmax() == 3
    batch = pf.protect(rows, scenario)
    for name in names:
        batch = batch.private_sum(name)
    with pytest.raises(pf.Refused, match="columns in one batch"):
        batch.plan(pf.Pure(1.0))


def with_rows(plan, other):
    """The plan of a model whose source has the rows of another."""
    table = dataclasses.replace(plan.mechanism.table, rows=other.mechanism.table.rows)
    return dataclasses.replace(plan, mechanism=dataclasses.replace(plan.mechanism, table=table))


def test_a_model_has_a_page_and_is_stored_as_any_release(tmp_path):
    model = L.PrivateSGDRegressor(scenario_of(), PROMISE).fit(rows_of(200), y="y")
    assert "M33" in model.release_.report(tmp_path / "model.html").read_text(encoding="utf-8")
    assert pf.Release.read(model.release_.write_parquet(tmp_path / "model")).frame.equals(
        model.release_.frame
    )
    other = model.plan(rows_of(201), "y")
    changed = with_rows(model.plan_, other)
    with pytest.raises(pf.PufferflowError, match="other rows"):
        changed.release()


RIDGE, SGD, CLASSIFIER = L.PrivateRidge, L.PrivateSGDRegressor, L.PrivateSGDClassifier


@pytest.mark.parametrize(
    ("make", "y", "said"),
    [
        (lambda: SGD(scenario_of(), pf.Pure(1.0)), "y", "pure guarantee"),
        (lambda: SGD(scenario_of(), PROMISE, step_size=9.0), "y", "2/smoothness"),
        (lambda: SGD(scenario_of(), PROMISE, passes=0), "y", "no row would be read"),
        (lambda: SGD(scenario_of(), PROMISE, batch_size=-1), "y", "batch_size"),
        (lambda: SGD(scenario_of(), PROMISE, radius=np.nan), "y", "radius"),
        (lambda: SGD(scenario_of(), PROMISE, loss="hinge"), "y", "loss is 'hinge'"),
        (lambda: SGD(scenario_of(), PROMISE, alpha=-1.0), "y", "alpha"),
        (lambda: SGD(scenario_of()), "y", "guarantee is left out"),
        (lambda: SGD(None, PROMISE), "y", "needs a scenario"),
        (lambda: RIDGE(scenario_of(), PROMISE, solver="svd"), "y", "solver"),
        (lambda: RIDGE(scenario_of(), pf.Pure(0.0)), "y", "allows no loss"),
        (lambda: RIDGE(scenario_of(), PROMISE), "z", "target y is 'z'"),
        (lambda: RIDGE(scenario_of(), PROMISE), None, "left out"),
        (lambda: RIDGE(scenario_of(), PROMISE, features=["w"]), "y", "features are 'w'"),
        (lambda: CLASSIFIER(scenario_of(), PROMISE), "y", "distinguishes two classes"),
        (lambda: RIDGE(scenario_of(pf.AnyCorrelation(), within="g"), PROMISE), "y", "g"),
        (
            lambda: RIDGE(
                pf.Scenario(pf.Presence("g", "y", [0, 1], rows=1), pf.Independent()), PROMISE
            ),
            "y",
            "g",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_way_out(make, y, said):
    with pytest.raises(pf.PufferflowError, match=said) as caught:
        make().fit(rows_of(20), y=y)
    assert caught.value.allowed


def test_arrays_have_neither_groups_nor_times():
    rows, features = rows_of(20), rows_of(20).select("x0", "x1").to_numpy()
    with pytest.raises(pf.UsageError, match="no units or times"):
        RIDGE(scenario_of(pf.AnyCorrelation(), within="g"), PROMISE).fit(
            features, rows["y"].to_numpy()
        )
    with pytest.raises(pf.UsageError, match="need bounds"):
        RIDGE(None, PROMISE).fit(features, rows["y"].to_numpy())
    with pytest.raises(pf.UsageError, match="target_bounds"):
        RIDGE(None, PROMISE, bounds=(-1, 1)).fit(features, rows["y"].to_numpy())
    with pytest.raises(NotFittedError):
        RIDGE(scenario_of(), PROMISE).predict(features)
    whole = RIDGE(scenario_of(pf.AnyCorrelation()), PROMISE, solver="sums").fit(
        features, rows["y"].to_numpy()
    )
    alone = RIDGE(None, PROMISE, bounds=(-1, 1), target_bounds=(-1, 1), solver="sums").fit(
        features, rows["y"].to_numpy()
    )
    assert whole.certificate_.sums[0].scale > 10 * alone.certificate_.sums[0].scale


NOISY = "predictions of two fits differ by noise"
TELLS = "an error would reveal about a private value: it is read as the declared one"
EXPECTED = {
    "check_regressor_data_not_an_array": NOISY,
    "check_supervised_y_2d": NOISY,
    "check_regressors_int": NOISY,
    "check_fit_idempotent": NOISY,
    "check_regressors_train": "the score of few rows with noise is below what is asked for",
    "check_supervised_y_no_nan": TELLS,
    "check_classifiers_classes": "classes are declared, never taken from private rows",
    "check_classifiers_regression_target": TELLS,
    "check_classifier_not_supporting_multiclass": TELLS,
    "check_classifiers_train": "classes are declared, never taken from private rows",
    "check_classifiers_one_label": "classes are declared, never taken from private rows",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        RIDGE(None, pf.Approx(1e3, 1e-6), bounds=(-10, 10), target_bounds=(-10, 10)),
        SGD(None, pf.Approx(1e3, 1e-6), bounds=(-10, 10), target_bounds=(-10, 10)),
        CLASSIFIER(None, pf.Approx(1e3, 1e-6), bounds=(-10, 10)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_estimators_but_for_what_noise_and_secrecy_forbid(model):
    results = check_estimator(model, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {
        result["check_name"]: repr(result["exception"])[:200]
        for result in results
        if result["status"] == "failed"
    }
    assert not failed
    assert len(results) > 40


def test_steps_that_learn_from_the_rows_are_refused_beside_a_model():
    # a scaler's means are in the model; steps that learn nothing, or were fitted elsewhere, are not
    rng = np.random.default_rng(3)
    features = rng.uniform(-1, 1, (400, 2))
    target = features @ [0.5, -0.2]
    model = L.PrivateRidge(guarantee=PROMISE, bounds=(-1, 1), target_bounds=(-2, 2))
    public = StandardScaler().fit(rng.uniform(-1, 1, (50, 2)))
    for allowed in (
        FunctionTransformer(np.tanh),
        PolynomialFeatures(2, include_bias=False),
        FrozenEstimator(public),
    ):
        assert make_pipeline(allowed, model).fit(features, target).predict(features).shape == (400,)
    assert TransformedTargetRegressor(
        model, func=np.tanh, inverse_func=np.arctanh, check_inverse=False
    ).fit(features, target)
    for steps in (
        make_pipeline(StandardScaler(), model),
        TransformedTargetRegressor(model, transformer=public),
    ):
        with pytest.raises(pf.Refused, match="learns from private rows"):
            steps.fit(features, target)


def test_a_model_of_rows_that_changed_is_refused_with_nothing_charged(tmp_path):
    """Its cost was reserved, as a sum's is not."""
    scenario = scenario_of()
    model = L.PrivateSGDRegressor(scenario, PROMISE)
    changed = with_rows(model.plan(rows_of(200), "y"), model.plan(rows_of(201), "y"))
    with pf.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        account = ledger.open("model", scenario, limit=PROMISE, dataset="rows")
        head = ledger.head()
        with pytest.raises(pf.PufferflowError, match="other rows"):
            changed.release(account, id="one")
        assert ledger.head() == head
        assert len(account.history()) == 0


def test_a_pickled_model_has_no_private_row():
    """It predicts as it did, and its plan is that of an empty table, which cannot be released."""
    model = L.PrivateRidge(scenario_of(), PROMISE).fit(rows_of(200), y="y")
    again = pickle.loads(pickle.dumps(model))
    assert (again.coef_ == model.coef_).all()
    engines = again.plan_.request.engine, again.plan_.mechanism.table.rows.engine
    assert [engine.frame.collect().height for engine in engines] == [0, 0]
    with pytest.raises(pf.UsageError, match="The table has 0 rows"):
        again.plan_.release()
