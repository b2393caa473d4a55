"""Units whose presence is the secret: each gives the same few rows of its own to all releases, on every machine."""

import random

import polars as pl
import pytest
from machines import PolarsMachine

import pufferflow as pf
from pufferflow.engines.remote import RemoteEngine
from pufferflow.queries.request import Request
from pufferflow.release.batch import Batch

ROWS = 3
DAYS, KINDS = range(4), ["a", "A", "a ", "b"]
ORDERED = pf.Scenario(
    pf.Presence("person", "level", pf.Interval(0, 9), rows=ROWS),
    pf.Independent(),
    order_by="day",
    public=["kind"],
)
UNORDERED = pf.Scenario(ORDERED.secret, pf.Independent(), public=["day", "kind"])


def visits(seed, size=120):
    """Return rows of which many are equal in their day, their kind, or all; some are of nobody."""
    draw = random.Random(seed)  # noqa: S311 - of tests
    columns = {
        "person": pl.Series(draw.choices([*"ABCDEFGH", "a", "A ", None], k=size), dtype=pl.String),
        "day": pl.Series(draw.choices([*DAYS, None], k=size), dtype=pl.Int64),
        "kind": pl.Series(draw.choices([*KINDS, None], k=size), dtype=pl.String),
        "level": pl.Series(
            draw.choices([0.0, -0.0, 0.5, 3.25, 11.0, -2.0, None], k=size), dtype=pl.Float64
        ),
    }
    return pl.DataFrame(columns)


def protected(table, scenario):
    """Return the batch of a table, of machines of tests too."""
    if isinstance(table, PolarsMachine):
        return Batch(Request(RemoteEngine(table), scenario))
    return pf.protect(table, scenario)


def sums(batch):
    """Return the exact rows and sums of every cell."""
    request = batch.private_count().private_sum("level").private_count(pl.col("level") > 3).request
    tally = request.engine.tally(
        request.selection, [one for one in request.measures if one is not None]
    )
    return [int(one) for one in (*tally.rows, *tally.sums.ravel())]


def asked(table, scenario):
    """Yield the sums of releases whose rows overlap, and of some that have none in common."""
    batch = protected(table, scenario)
    yield sums(batch)
    yield sums(batch.group_by("kind", keys=KINDS))
    yield sums(
        batch.with_columns(late=pl.col("day") > 1).group_by(
            "late", "kind", keys=[(True, "a"), (False, "A")]
        )
    )
    yield sums(batch.filter(pl.col("kind") == "a", pl.col("day") > 0))


@pytest.mark.slow
def test_what_is_read_of_a_unit_depends_on_its_own_rows_alone(put):
    """Sums without a unit are smaller by what this unit has alone, also where rows are equal in all public columns."""
    rows = visits(1)
    whole = list(asked(put(rows), UNORDERED))
    for person in ("A", None):
        own = pl.col("person").eq_missing(pl.lit(person, dtype=pl.String))
        alone, others = (list(asked(put(rows.filter(some)), UNORDERED)) for some in (own, ~own))
        for together, one, rest in zip(whole, alone, others, strict=True):
            assert [first - second for first, second in zip(together, rest, strict=True)] == one
        assert alone[0][0] == ROWS < rows.filter(own).height


def test_a_unit_gives_few_rows_to_all_releases_together(put):
    """Filters that have no row in common find no more rows of a unit than a release without any."""
    rows = visits(2)
    batch = protected(put(rows), ORDERED)
    filters = [*(pl.col("kind") == kind for kind in KINDS), pl.col("kind").is_null()]
    parts = [sums(batch.filter(one)) for one in filters]
    expected = sum(min(ROWS, count) for count in rows.group_by("person").len()["len"])
    assert sum(part[0] for part in parts) == sums(batch)[0] == expected
    assert [sum(own) for own in zip(*parts, strict=True)] == sums(batch)


def test_sums_are_those_of_frames_where_the_order_tells_rows_apart(put):
    rows = visits(3).with_columns(day=pl.int_range(pl.len()).reverse().cast(pl.Int64))
    assert list(asked(put(rows), ORDERED)) == list(asked(rows, ORDERED))


def test_a_release_says_which_rows_are_read(put, machine):
    """The certificate names the order, and the queries have the limit as it is asked."""
    batch = protected(put(visits(4)), ORDERED)
    plan = batch.filter(pl.col("day") > 0).private_count(name="visits").plan(epsilon=1e6)
    release = plan.release()
    assert abs(release.frame["visits"].item() - sums(batch.filter(pl.col("day") > 0))[0]) < 1
    first = "the first by day, kind, level: the same in every release, chosen before any filter"
    assert any(
        f"at most 3 rows of each person are read, {first}" in note
        for note in release.certificate.notes
    )
    (query,) = plan.queries()
    assert (f'"place" <= {ROWS}' if machine != "polars" else f"rows={ROWS}") in query.replace(
        "`", '"'
    )


def test_keys_that_the_data_chooses_are_those_of_frames(put):
    """The same keys appear, null among them, in the same order, with the numbers of the same rows."""
    rows = visits(5).with_columns(day=pl.int_range(pl.len()).cast(pl.Int64))
    found = []
    for table in (put(rows), rows):
        batch = protected(table, ORDERED).with_columns(late=pl.col("day") > 60)
        batch = batch.group_by("late", "kind", keys="discover").private_count()
        release = batch.release(pf.Approx(1e7, 1e-6), noise=pf.Gaussian)
        found.append([(*key, round(count)) for *key, count in release.frame.iter_rows()])
        assert release.frame.schema == {"late": pl.Boolean, "kind": pl.String, "count": pl.Float64}
    assert found[0] == found[1]
    limited = rows.sort("day", "kind", "level").group_by("person").head(ROWS)
    sizes = limited.group_by(pl.col("day") > 60, "kind").len().filter(pl.col("len") > ROWS)
    assert {(late, kind): count for late, kind, count in found[0]} == {
        (day, kind): n for day, kind, n in sizes.rows()
    }
