"""Medians and quantiles of whole numbers are whole numbers, whatever the bins and the noise."""

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.queries.aggregates import Quantile

AGES = [17, 23, 40, 40, 40, 52, 90]


def asked(ages=AGES, dtype=pl.Int64, ends=(0, 100), bins=range(101), q=0.5, missing=None):
    secret = pf.Secret(
        "age", pf.Interval(*ends), **({} if missing is None else {"missing": missing})
    )
    frame = pl.DataFrame({"age": pl.Series(ages, dtype=dtype, strict=False)})
    return pf.protect(frame, pf.Scenario(secret, pf.Independent())).private_quantile(
        "age", q, bins=list(bins)
    )


def query(**given):
    return asked(**given).request.queries[0]


def exact(found, ages=AGES):
    """Return the answer without noise, with the ends that no noise leaves."""
    edges = np.array(found.edges)
    place = np.minimum(
        np.searchsorted(edges, np.clip(ages, edges[0], edges[-1]), side="right") - 1, len(edges) - 2
    )
    sums = np.bincount(place, minlength=len(edges) - 1)[None, :].astype(float)
    size = np.array([float(len(ages))])
    low, high = found.ends(sums, np.full(len(edges), 0.1), size)
    return found.finish(sums, size).item(), low.item(), high.item()


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int64, pl.UInt16, pl.Decimal(10, 0)])
def test_the_median_of_whole_numbers_is_a_value(dtype):
    """Of seven ages the fourth is 40, and 40 is published, not a point between 40 and 41."""
    assert exact(query(dtype=dtype)) == (40.0, 40.0, 40.0)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_every_quantile_is_the_value_of_a_row(q):
    """With a class for each whole number it is what counting gives."""
    rank = max(int(np.ceil(q * len(AGES) - 1e-9)), 1)
    assert exact(query(q=q))[0] == sorted(AGES)[rank - 1]


def test_wide_classes_give_one_of_their_whole_numbers():
    """The error bar reaches from the first to the last whole number of the class."""
    value, low, high = exact(query(bins=[0, 25, 50, 100]))
    assert (value.is_integer(), low, high) == (True, 25.0, 49.0)
    assert low <= value <= high
    assert exact(query(bins=[0, 25.5, 50.5, 100]))[1:] == (26.0, 50.0)


def test_the_highest_class_has_both_of_its_ends():
    """Values beyond the domain are read as its end, which is a whole number of the last class."""
    assert exact(query(ages=[100, 140], bins=[0, 99.5, 100]), [100, 140]) == (100.0, 100.0, 100.0)


def test_noise_never_leaves_whole_numbers():
    """Whatever is drawn, also where a class has no whole number."""
    for bins in (range(101), [0, 30.2, 30.8, 100], [0, 7, 100]):
        frame = asked(bins=bins).release(epsilon=0.05).frame
        assert float(frame.item()).is_integer()
        assert 0 <= frame.item() <= 100


@pytest.mark.parametrize(
    "given", [{"dtype": pl.Float64}, {"ends": (0.5, 100)}, {"ends": (0, 99.5)}, {"missing": 40.25}]
)
def test_where_other_numbers_are_possible_the_class_is_a_stretch(given):
    """Floats, ends that are no whole numbers, and such a value for null: then the answer is a point as before."""
    assert not query(**given).whole_numbers
    assert not exact(query(bins=[10, 31, 50], **given))[0].is_integer()


def test_ledgers_know_the_query_as_before():
    """What is read, and so what a reserved release is completed by, has not changed."""
    whole = query()
    assert whole.whole_numbers
    assert repr(whole) == repr(
        Quantile(whole.name, whole.measures, whole.words, whole.q, whole.edges)
    )
    assert (
        "whole numbers are assumed to be uniform" in asked().plan(pf.Pure(1.0)).value_handling()[0]
    )
