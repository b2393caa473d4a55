"""Gaussian priors fitted to several columns: true covariances lie in the class as often as is said."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.models.priors.correlations import AR1, spanned

NAMES, ACROSS = ["load", "temp"], np.array([[4.0, 1.8], [1.8, 9.0]])
TRUE = ACROSS / ACROSS.diagonal()[:, None]


def sequences(rng, phis, groups, length):
    """Return rows of autoregressive columns whose steps covary, sequence by sequence."""
    phis, root = np.array(phis), np.linalg.cholesky(ACROSS)
    values = np.empty((groups, length, 2))
    values[:, 0] = rng.normal(size=(groups, 2)) @ root.T
    for step in range(1, length):
        values[:, step] = phis * values[:, step - 1] + np.sqrt(1 - phis**2) * (
            rng.normal(size=(groups, 2)) @ root.T
        )
    return table(values)


def relatives(rng, rho, groups, size):
    """Return rows that share a cause in both columns."""
    root = np.linalg.cholesky(ACROSS)
    shared, own = rng.normal(size=(groups, 1, 2)), rng.normal(size=(groups, size, 2))
    return table((np.sqrt(rho) * shared + np.sqrt(1 - rho) * own) @ root.T)


def table(values):
    groups, length, _ = values.shape
    columns = {"g": np.repeat(range(groups), length), "t": np.tile(range(length), groups)}
    return pl.DataFrame({**columns, "load": values[..., 0].ravel(), "temp": values[..., 1].ravel()})


def fit(frame, kind, **options):
    order = None if kind == "exchangeable" else "t"
    reference = pf.Reference("a survey", frame)
    return pf.GaussianPrior.fit(reference, NAMES, "g", covariance=kind, order_by=order, **options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ar1", "exchangeable"])
def test_the_class_holds_the_truth(kind):
    """Of 40 references at 80 % at least 80 % have correlation and factors in their class, by the union bound."""
    rng, held, low, high = np.random.default_rng(1), 0, [], []
    for _ in range(40):
        frame = sequences(rng, [0.7, 0.7], 60, 80) if kind == "ar1" else relatives(rng, 0.4, 60, 4)
        prior = fit(frame, kind, slack="confidence", confidence=0.8)
        least, most = spanned(prior.covariance.phi if kind == "ar1" else prior.covariance.rho)
        inside = (prior.across.low <= TRUE) & (prior.across.high >= TRUE)
        held += inside.all() and least <= (0.7 if kind == "ar1" else 0.4) <= most
        low.append(prior.across.low[0, 1])
        high.append(prior.across.high[0, 1])
    assert held >= 40 * 0.8
    assert np.mean(high) - np.mean(low) < 0.6  # and says something: the factor is 0.45


def test_estimates_and_matrices():
    """Estimates are near the truth; a matrix has all columns of all rows; both serve a scenario and say where from."""
    frame = sequences(np.random.default_rng(2), [0.7, 0.7], 400, 4)
    prior = fit(frame, "ar1")
    assert prior.covariance == AR1(prior.covariance.phi)
    assert np.abs(np.array(spanned(prior.covariance.phi)) - 0.7).max() < 0.05
    assert np.abs(prior.across.entries - ACROSS).max() < 1.0
    joint = fit(frame, "matrix")
    lags = np.abs(np.subtract.outer(range(4), range(4)))
    assert np.abs(joint.covariance.entries - np.kron(0.7**lags, ACROSS)).max() < 2.0
    secrets = [pf.Secret("load", pf.Interval(-6, 6)), pf.Secret("temp", pf.Interval(-9, 9))]
    for one in (prior, joint):
        scenario = pf.Scenario(secrets, one, order_by="t", within="h")
        assert pf.Scenario.from_json(scenario.to_json()) == scenario
        assert "a survey" in scenario.describe()


def test_what_does_not_look_like_products_is_noted():
    """Columns that remember differently, and one that follows the other a step later."""
    rng = np.random.default_rng(3)
    notes = fit(sequences(rng, [0.9, 0.2], 60, 20), "ar1").provenance.notes
    assert any("more closely correlated in 'load'" in note for note in notes)
    frame = sequences(rng, [0.1, 0.1], 60, 20).with_columns(
        temp=pl.col("load").shift(1).over("g").fill_null(0.0)
    )
    assert any("row before" in note for note in fit(frame, "ar1").provenance.notes)
    assert not any(
        "row" in note for note in fit(sequences(rng, [0.5, 0.5], 60, 20), "ar1").provenance.notes
    )


def test_bad_references_are_refused():
    """Too few columns or groups, a matrix with slack, columns of texts; rows without a value are left out."""
    frame = sequences(np.random.default_rng(4), [0.5, 0.5], 30, 3)
    with pytest.raises(pf.UsageError, match="column is"):
        pf.GaussianPrior.fit(pf.Reference("a survey", frame), ["load"], "g")
    with pytest.raises(pf.UsageError, match="with slack"):
        fit(frame, "matrix", slack="confidence")
    with pytest.raises(pf.UsageError, match="same column"):
        pf.GaussianPrior.fit(pf.Reference("a survey", frame), ["load", "load"], "g")
    with pytest.raises(pf.UsageError, match="type String"):
        fit(frame.with_columns(temp=pl.lit("warm")), "exchangeable")
    with pytest.raises(pf.UsageError, match="groups"):
        fit(frame.filter(pl.col("g") < 3), "matrix")
    gaps = frame.with_columns(pl.when(pl.col("t") == 1).then(None).otherwise("temp").alias("temp"))
    assert any(
        "30 rows without" in note for note in fit(gaps, "exchangeable", slack=0.1).provenance.notes
    )
