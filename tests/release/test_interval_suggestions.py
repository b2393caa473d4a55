"""What errors about columns on intervals say to type instead is not refused in turn, whatever the interval."""

import math

import polars as pl
import pytest

import pufferflow as pf

INTERVALS = {
    "usual": (0, 40),
    "far from 0": (5, 10),
    "negative": (-10, -5),
    "short": (1, 1 + 2**-50),
    "tiny": (0, 1e-89),
    "huge": (-9e89, 9e89),
}
x = pl.col("kw")


def protected(low, high, *, presence=False):
    rows, line = (
        pl.DataFrame({"meter": [1, 1, 2], "day": [1, 2, 1], "kw": [6.0, 7.0, 8.0]}),
        pf.Interval(low, high),
    )
    secret = pf.Presence("meter", "kw", line, rows=2) if presence else pf.Secret("kw", line)
    return pf.protect(rows, pf.Scenario(secret, pf.Independent(), public=["day"]))


ASKED = {
    "a histogram": (lambda b: b.private_histogram("kw"), "batch.private_histogram('kw', {})"),
    "bins that fall": (
        lambda b: b.private_histogram("kw", bins=[3, 1]),
        "batch.private_histogram('kw', {})",
    ),
    "a median": (lambda b: b.private_median("kw"), "batch.private_median('kw', {})"),
    "a median of a function": (lambda b: b.private_median(x * 2), "batch.{}"),
    "a histogram of a number": (lambda b: b.private_histogram(3), "batch.{}"),
    "one class": (
        lambda b: b.private_median("kw", bins=[-1e308]),
        "batch.private_median('kw', {})",
    ),
    "a percentage": (lambda b: b.private_quantile("kw", 90), "batch.{}"),
    "a percentage with bins": (lambda b: b.private_quantile("kw", 90, bins=[1, 7]), "batch.{}"),
    "a share in words": (lambda b: b.private_quantile("kw", "half"), "batch.{}"),
    "groups by the secret": (lambda b: b.group_by("kw"), "batch{}"),
    "a filter by the secret": (lambda b: b.filter(x > 3), "batch{}"),
    "no predicate": (lambda b: b.private_count(x + 1), "batch.private_count({})"),
    "all rows": (lambda b: b.private_count(), "batch.{}"),
    "nulls": (lambda b: b.private_sum(x.fill_null(3)), "{}"),
}


def accepted(instead, code, **known):
    """Run what is said first."""
    way = instead.split(", or ")[0].replace("pf.Secret('kw', …,", "pf.Secret('kw', LINE,")
    return eval(code.replace("{}", way), {"pf": pf, "pl": pl, **known})  # noqa: S307 - our own text


@pytest.mark.parametrize("ends", INTERVALS)
@pytest.mark.parametrize("name", ASKED)
def test_of_batches(name, ends):
    """The first way out of a wrong question runs as it is written."""
    ask, code = ASKED[name]
    for presence in (False, True):
        batch = protected(*INTERVALS[ends], presence=presence)
        if presence and name == "all rows":
            continue  # which rows there are is the secret, so they may be counted
        with pytest.raises(pf.UsageError) as refused:
            ask(batch)
        assert (
            accepted(refused.value.instead, code, batch=batch, LINE=pf.Interval(*INTERVALS[ends]))
            is not None
        )


LINE = pf.Interval(5, 10)
MADE = {
    "adjacent": lambda: pf.Secret("kw", LINE, pairs="adjacent"),
    "a typo of it": lambda: pf.Secret("kw", LINE, pairs="adjacnt"),
    "pairs of nothing": lambda: pf.Secret("kw", LINE, pairs=[(5, 5)]),
    "a number for pairs": lambda: pf.Secret("kw", LINE, pairs=2),
    "pairs of tuples": lambda: pf.Secret("kw", LINE, pairs="one column"),
    "missing outside": lambda: pf.Secret("kw", LINE, missing=0),
    "missing of presence": lambda: pf.Presence("meter", "kw", LINE, missing="low"),
    **{
        f"the domain {given!r}": lambda given=given: pf.Secret("kw", given)
        for given in (0, 1, 7, -3, 2.5, True)
    },
    **{
        f"the domain {given!r}": lambda given=given: pf.Secret("kw", given)
        for given in ("1-3", "3-1", "3:3", (3, 1))
    },
    "infinite": lambda: pf.Secret("kw", (0, math.inf)),
}


@pytest.mark.parametrize("name", MADE)
def test_of_secrets(name):
    """So does that of a wrong domain, of wrong pairs, and of a value for nulls outside the interval."""
    with pytest.raises(pf.PufferflowError) as refused:
        MADE[name]()
    domain = "" if refused.value.instead.startswith("domain=") else "LINE, "
    for way in refused.value.instead.split(", or "):
        if "=" in way:
            assert accepted(way.split(" for two")[0], f"pf.Secret('kw', {domain}{{}})", LINE=LINE)
