"""What the estimators document works: bounds in each form that is named, and a guarantee by its numbers."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf

L = pf.learning
RNG = np.random.default_rng(1)
X = RNG.uniform(0, 1, (300, 2))
NUMBER = X @ [1, 2] / 3
LABEL = (NUMBER > 0.5).astype(int)
BOTH = pf.Approx(5.0, 1e-6)
MODELS = {
    "ridge": L.PrivateRidge,
    "regressor": L.PrivateSGDRegressor,
    "classifier": L.PrivateSGDClassifier,
}
BOUNDS = {
    "one pair": (0, 1),
    "pairs": [(0, 1), (0, 1)],
    "an array": np.array([[0.0, 1.0], [0.0, 1.0]]),
    "a mapping": {"x0": (0, 1), "x1": (0, 1)},
}


def made(name, *given, **settings):
    """Return a model for arrays, and its target."""
    ends = {} if name == "classifier" else {"target_bounds": (0, 1)}
    return MODELS[name](*given, **ends, **settings), LABEL if name == "classifier" else NUMBER


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_of_arrays(name, bounds):
    """One pair, a pair for each feature, and a mapping are the same bounds."""
    model, target = made(name, None, BOTH, bounds=BOUNDS[bounds])
    plan = model.plan(X, target)
    assert plan.columns.low[:2].tolist() == [0, 0]
    assert plan.columns.high[:2].tolist() == [1, 1]
    assert np.ravel(model.fit(X, target).coef_).shape == (2,)


@pytest.mark.parametrize("name", MODELS)
def test_bounds_of_a_frame_are_in_the_order_of_its_features(name):
    """Whether features are public or hidden; a hidden one has the bounds of its domain."""
    own = pf.Secret("y", [0, 1]) if name == "classifier" else pf.Secret("y", pf.Interval(0, 1))
    frame = pl.DataFrame(
        {"a": X[:, 0], "b": X[:, 1] * 9, "y": LABEL if name == "classifier" else NUMBER}
    )
    mixed = pf.Scenario([pf.Secret("a", pf.Interval(0, 1)), own], pf.Independent(), public=["b"])
    public = pf.Scenario(own, pf.Independent(), public=["a", "b"])
    for scenario, bounds in (
        (mixed, [(0, 1), (0, 9)]),
        (mixed, [(0, 9)]),
        (mixed, {"b": (0, 9)}),
        (mixed, (0, 9)),
        (public, [(0, 1), (0, 9)]),
    ):
        plan = MODELS[name](scenario, BOTH, features=["a", "b"], bounds=bounds).plan(frame, y="y")
        assert plan.columns.high[:2].tolist() == [1, 9]
    with pytest.raises(
        pf.UsageError, match="bounds has 0 to 2 for 'a', whose domain in the scenario is 0 to 1"
    ):
        MODELS[name](mixed, BOTH, features=["a", "b"], bounds=[(0, 2), (0, 9)]).plan(frame, y="y")


@pytest.mark.parametrize(
    ("bounds", "says"),
    [([(0, 1)], "for 2 features: 'x0', 'x1'"), ({"x0": (0, 1)}, "none for 'x1'")],
)
def test_bounds_that_do_not_fit_are_refused(bounds, says):
    """With the names of the features."""
    model, target = made("ridge", None, BOTH, bounds=bounds)
    with pytest.raises(pf.UsageError, match=says):
        model.fit(X, target)


@pytest.mark.parametrize("name", MODELS)
def test_a_promise_by_its_numbers(name):
    """An epsilon with a delta is pf.Approx for every estimator; alone it is pf.Pure, which a descent refuses."""
    model, target = made(name, epsilon=5.0, delta=1e-6, bounds=(0, 1))
    assert model.fit(X, target).certificate_.promise == BOTH
    pure, _ = made(name, epsilon=5.0, bounds=(0, 1))
    if name == "ridge":
        assert pure.fit(X, target).certificate_.promise == pf.Pure(5.0)
    else:
        with pytest.raises(pf.Refused) as caught:
            pure.fit(X, target)
        assert "epsilon=5, delta=1e-6" in caught.value.instead
    for given in (
        {"delta": 1e-6},
        {"guarantee": BOTH, "epsilon": 1.0},
        {"guarantee": BOTH, "delta": 1e-6},
    ):
        wrong, _ = made(name, bounds=(0, 1), **given)
        with pytest.raises(pf.UsageError):
            wrong.fit(X, target)
