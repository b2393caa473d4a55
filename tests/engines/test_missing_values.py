"""With missing="skip" null and NaN are left out on every machine, as they are on frames of Polars."""

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

FRAME = pl.DataFrame(
    {
        "day": [1, 1, 2, 2, 2, 1],
        "kw": [3.5, None, 12.0, None, 6.0, 2.25],
        "level": [0, None, 3, 2, None, 1],
        "label": ["a", None, "b", "unknown", "b", "a"],
    }
)
SECRETS = {
    "interval": (
        pf.Secret("kw", domain=pf.Interval(2, 10), missing="skip"),
        [(2.875, 2, 1), (8.0, 2, 1)],
    ),
    "classes": (
        pf.Secret("kw", domain=pf.Bins([2, 5, 10], [3.0, 7.0]), missing="skip"),
        [(3.0, 2, 1), (7.0, 2, 1)],
    ),
    "list": (pf.Secret("level", domain=[0, 1, 2, 3], missing="skip"), [(0.5, 2, 1), (2.5, 2, 1)]),
}


@pytest.mark.parametrize("kind", thinned(SECRETS, 0.06))
def test_means_and_counts_leave_them_out(kind, put):
    secret, true = SECRETS[kind]
    column = pl.col(secret.column)
    batch = pf.protect(put(FRAME), pf.Scenario(secret, pf.Independent(), public=["day"])).group_by(
        "day"
    )
    batch = (
        batch.private_mean(column)
        .private_count(column.is_not_null(), "there")
        .private_count(column.is_null(), "not")
    )
    found = batch.release(pf.Pure(1e6)).frame.drop("day").rows()
    for row, known in zip(found, true, strict=True):
        assert row == pytest.approx(known, abs=1e-3)


def test_unknown_labels_are_missing(put):
    secret = pf.Secret("label", domain=["a", "b"], missing="skip")
    batch = pf.protect(put(FRAME.drop("kw")), pf.Scenario(secret, pf.Independent(), public=["day"]))
    found = (
        batch.private_histogram("label")
        .private_count(pl.col("label").is_null(), "none")
        .release(pf.Pure(1e6))
    )
    assert found.frame.row(0) == pytest.approx((2, 2, 2), abs=1e-3)
