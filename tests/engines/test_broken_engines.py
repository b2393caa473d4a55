"""Engines that are broken on purpose: the self-test refuses them; what its few rows cannot show, a release does."""

import datetime as dt

import polars as pl
import polars.selectors as cs
import pytest
from machines import PolarsMachine
from thinned import thinned

import pufferflow as pf
from pufferflow.engines.self_test import digest
from pufferflow.plugins import CellTotals, GroupRows, GroupRuns, UnitLimit

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - without a zone


def of(kind, change):
    """Change all columns of a kind."""
    return lambda rows: rows.with_columns(change(cs.by_dtype(kind)))


def of_numbers(change):
    return lambda rows: rows.with_columns(change(cs.float()))


def of_earlier(change):
    """Change the moments before 1970."""
    one = cs.datetime()
    return lambda rows: rows.with_columns(pl.when(one < EPOCH).then(change(one)).otherwise(one))


ROWS = {
    "texts end after 255 letters": of(pl.String, lambda one: one.str.slice(0, 255)),
    "blanks at the end of texts are lost": of(pl.String, lambda one: one.str.strip_chars_end(" ")),
    "blanks at the start of texts are lost": of(
        pl.String, lambda one: one.str.strip_chars_start(" ")
    ),
    "texts have no case": of(pl.String, lambda one: one.str.to_lowercase()),
    "letters are composed": of(pl.String, lambda one: one.str.normalize("NFC")),
    "letters are taken apart": of(pl.String, lambda one: one.str.normalize("NFD")),
    "an empty text is null": of(pl.String, lambda one: pl.when(one != "").then(one)),
    "null is an empty text": of(pl.String, lambda one: one.fill_null("")),
    "null is the text null": of(pl.String, lambda one: one.fill_null("null")),
    "backslashes are lost": of(pl.String, lambda one: one.str.replace_all("\\", "", literal=True)),
    "quotes are doubled": of(pl.String, lambda one: one.str.replace_all("'", "''", literal=True)),
    "NaN is null": of_numbers(lambda one: one.fill_nan(None)),
    "NaN is 0": of_numbers(lambda one: one.fill_nan(0.0)),
    "null is 0": of_numbers(lambda one: one.fill_null(0.0)),
    "null is NaN": of_numbers(lambda one: one.fill_null(float("nan"))),
    "infinities are null": of_numbers(
        lambda one: pl.when(one.is_finite() | one.is_nan()).then(one)
    ),
    "infinities are the largest floats": of_numbers(lambda one: one.clip(-1.7e308, 1.7e308)),
    "floats have 32 bits": of_numbers(lambda one: one.cast(pl.Float32).cast(pl.Float64)),
    "floats have 15 digits": of_numbers(lambda one: one.round_sig_figs(15)),
    "signs are lost": of_numbers(lambda one: one.abs()),
    "whole numbers have 32 bits": of(
        pl.Int64, lambda one: one.cast(pl.Int32, wrap_numerical=True).cast(pl.Int64)
    ),
    "whole numbers are floats": of(
        pl.Int64, lambda one: one.cast(pl.Float64).cast(pl.Int64, strict=False)
    ),
    "whole null is 0": of(pl.Int64, lambda one: one.fill_null(0)),
    "false is null": of(pl.Boolean, lambda one: pl.when(one).then(one)),
    "null is false": of(pl.Boolean, lambda one: one.fill_null(value=False)),
    "decimals have one digit": lambda rows: rows.with_columns(cs.decimal().round(1)),
    "decimals have no sign": lambda rows: rows.with_columns(cs.decimal().abs()),
    "null decimals are 0": lambda rows: rows.with_columns(cs.decimal().fill_null(0)),
    "dates before 1970 are a day late": lambda rows: rows.with_columns(
        pl.when(cs.date() < dt.date(1970, 1, 1))
        .then(cs.date().dt.offset_by("1d"))
        .otherwise(cs.date())
    ),
    "dates before 1600 are Julian": lambda rows: rows.with_columns(
        pl.when(cs.date() < dt.date(1582, 10, 15))
        .then(cs.date().dt.offset_by("2d"))
        .otherwise(cs.date())
    ),
    "dates are months": lambda rows: rows.with_columns(cs.date().dt.truncate("1mo")),
    "null dates are 1970": lambda rows: rows.with_columns(cs.date().fill_null(dt.date(1970, 1, 1))),
    "moments have whole seconds": lambda rows: rows.with_columns(cs.datetime().dt.truncate("1s")),
    "moments have milliseconds": lambda rows: rows.with_columns(cs.datetime().dt.truncate("1ms")),
    "moments before 1970 are rounded up": of_earlier(
        lambda one: one.dt.offset_by("1s").dt.truncate("1s")
    ),
    "moments before 1970 are 1970": of_earlier(lambda one: one.clip(EPOCH, None)),
    "moments are an hour late": lambda rows: rows.with_columns(cs.datetime().dt.offset_by("1h")),
    "an hour in March is missing": lambda rows: rows.with_columns(
        pl.when(cs.datetime() >= dt.datetime(2026, 3, 29, 2))  # noqa: DTZ001 - as in Berlin
        .then(cs.datetime().dt.offset_by("1h"))
        .otherwise(cs.datetime())
    ),
    "rows are read twice": lambda rows: pl.concat([rows, rows]),
    "the last row is lost": lambda rows: rows[:-1],
    "64 rows are read": lambda rows: rows[:64],
    "equal rows are one": lambda rows: rows.unique(maintain_order=True),
    "rows with a null are lost": lambda rows: rows.drop_nulls(),
}
"""Machines that have other rows than were put there."""


class OtherRows(PolarsMachine):
    """A machine that reads few rows wrongly."""

    change = staticmethod(lambda rows: rows)

    def with_rows(self, rows):
        return PolarsMachine(self.change(rows))


def without(limit, **parts):
    """Return a limit with other parts."""
    return None if limit is None else UnitLimit(**{**limit._asdict(), **parts})


QUERIES = {
    "no rows are limited": lambda query: replaced(query, limit=None),
    "no groups are limited": lambda query: replaced(
        query, limit=without(query.limit, groups=10**6)
    ),
    "rows are limited by unit alone": lambda query: replaced(
        query, limit=without(query.limit, by=(), groups=None)
    ),
    "a row more is read": lambda query: replaced(
        query, limit=query.limit and without(query.limit, rows=3)
    ),
    "rows are limited in any order": lambda query: replaced(
        query, limit=without(query.limit, order=())
    ),
    "keys are lost": lambda query: replaced(query, by=query.by[:1]),
}
"""Machines that are asked one thing and do another."""


def replaced(query, **parts):
    return CellTotals(
        **{
            **{name: getattr(query, name) for name in ("by", "private", "numbering", "limit")},
            **parts,
        }
    )


class OtherQueries(PolarsMachine):
    """A machine that answers another query."""

    change = staticmethod(lambda query: query)

    def with_rows(self, rows):
        machine = OtherQueries(rows)
        machine.change = self.change
        return machine

    def run(self, query):
        yield from super().run(self.change(query) if isinstance(query, CellTotals) else query)


def narrow(part, stem):
    return part.with_columns(
        cs.starts_with(stem).cast(pl.Int32, wrap_numerical=True).cast(pl.Int64)
    )


RESULTS = {
    "64 rows of results are given": (CellTotals, lambda part: part.head(64)),
    "no more than a page of results is given": (GroupRows, lambda part: part.head(10)),
    "counts of rows are off by one": (
        CellTotals,
        lambda part: part.with_columns(pl.col("rows") + 1),
    ),
    "sums have 32 bits": (CellTotals, lambda part: narrow(part, "total")),
    "runs are counted once": (
        GroupRuns,
        lambda part: part.with_columns(times=pl.lit(1, dtype=pl.Int64)),
    ),
}
"""Machines that lose something on the way back."""


class OtherResults(PolarsMachine):
    """A machine whose results are changed."""

    kind, change = CellTotals, staticmethod(lambda part: part)

    def with_rows(self, rows):
        machine = OtherResults(rows)
        machine.kind, machine.change = self.kind, self.change
        return machine

    def run(self, query):
        whole = pl.concat(list(super().run(query)))
        yield self.change(whole) if isinstance(query, self.kind) else whole


def refused(machine):
    with pytest.raises(pf.UsageError, match="does not pass the self-test"):
        digest(machine)


@pytest.mark.slow
def test_an_engine_that_is_whole_passes():
    assert (
        digest(OtherRows(pl.DataFrame()))
        == digest(OtherQueries(pl.DataFrame()))
        == digest(PolarsMachine(pl.DataFrame()))
    )


@pytest.mark.parametrize("fault", thinned(ROWS, 0.02))
def test_engines_that_read_values_otherwise_are_refused(fault):
    machine = OtherRows(pl.DataFrame())
    machine.change = ROWS[fault]
    refused(machine)


@pytest.mark.slow
@pytest.mark.parametrize("fault", QUERIES)
def test_engines_that_answer_other_queries_are_refused(fault):
    machine = OtherQueries(pl.DataFrame())
    machine.change = QUERIES[fault]
    refused(machine)


@pytest.mark.parametrize("fault", thinned(RESULTS, 0.4))
def test_engines_that_lose_results_are_refused(fault):
    machine = OtherResults(pl.DataFrame())
    machine.kind, machine.change = RESULTS[fault]
    refused(machine)


def test_there_are_many_faults():
    """Each was tried; of 48 that were tried by hand once, 21 passed."""
    assert len(ROWS) + len(QUERIES) + len(RESULTS) >= 48


# What few rows cannot show


class OfMany(PolarsMachine):
    """A machine that is whole on few rows, and adds up others of many than it counts."""

    def __init__(self, frame, change=None):
        super().__init__(frame)
        self.change, self.whole = change, frame

    def run(self, query):
        private = isinstance(query, CellTotals) and query.private
        if self.change is not None and private:
            yield from PolarsMachine(self.change(self.whole)).run(query)
        else:
            yield from super().run(query)


MANY = {
    "rows are read twice": lambda rows: pl.concat([rows, rows]),
    "300 rows are read": lambda rows: rows.head(300),
    "a row of a group is read as one of another": lambda rows: rows.with_columns(
        day=pl.when(pl.int_range(pl.len()) == 0).then(1).otherwise("day")
    ),
    "a group is lost": lambda rows: rows.filter(pl.col("day") > 0),
}
PRIORS = {
    "independent": {"prior": pf.Independent()},
    "chain": {
        "prior": pf.MarkovChain([[0.6, 0.4], [0.3, 0.7]]),
        "order_by": "hour",
        "within": "day",
    },
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("fault", thinned(MANY, 0.5))
def test_a_release_counts_rows_by_themselves(fault, prior):
    """Rows that are added up are those that are counted, cell by cell; nothing is published otherwise."""
    rows = pl.DataFrame(
        {
            "day": [place // 100 for place in range(500)],
            "hour": [place % 100 for place in range(500)],
        }
    )
    rows = rows.with_columns(on=pl.col("hour") % 2)
    secret = pf.Secret("on", domain=[0, 1], missing=0)
    scenario = pf.Scenario(secret, public=["day"], **PRIORS[prior])
    whole = pf.protect(OfMany(rows), scenario).group_by("day").private_sum("on").plan(pf.Pure(1.0))
    assert whole.release().frame.height == 5
    broken = (
        pf.protect(OfMany(rows, MANY[fault]), scenario)
        .group_by("day")
        .private_sum("on")
        .plan(pf.Pure(1.0))
    )
    with pytest.raises(
        pf.SourceError, match=r"other rows than|other rows when|did not sum the rows"
    ):
        broken.release()
