"""Units whose rows are chosen once: what releases with several filters reveal about any unit that there can be."""

import itertools

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

PLACES = list(itertools.product("ab", (1, 2), (0, 1)))
FILTERS = {
    "a": pl.col("g") == "a",
    "b": pl.col("g") == "b",
    "1": pl.col("h") == 1,
    "2": pl.col("h") == 2,
    "a or 2, which no filter says": (pl.col("g") == "a") | (pl.col("h") == 2),
    "all": pl.lit(True),
}
ASKED = [("a", 0.3), ("b", 0.7), ("1", 0.5), ("b", 0.2), ("2", 0.45)]
KINDS = {
    "Laplace, pure": (pf.Pure, pf.Laplace, lambda noise, moved: noise.pure(moved)),
    "Laplace, Rényi": (
        lambda epsilon: pf.Renyi(3, epsilon),
        pf.Laplace,
        lambda noise, moved: noise.renyi(moved, 3),
    ),
    "Gaussian, Rényi": (
        lambda epsilon: pf.Renyi(3, epsilon),
        pf.Gaussian,
        lambda noise, moved: noise.renyi(moved, 3),
    ),
    "Laplace, zCDP": (pf.Zcdp, pf.Laplace, lambda noise, moved: noise.zcdp(moved)),
    "Gaussian, zCDP": (pf.Zcdp, pf.Gaussian, lambda noise, moved: noise.zcdp(moved)),
}


def scenario(rows, prior=None, **options):
    secret = pf.Presence("u", "x", domain=[0, 1], rows=rows, **options)
    prior = prior or pf.Independent()
    return pf.Scenario(
        secret,
        prior,
        order_by="t",
        public=["g", "h"],
        within="u" if prior != pf.Independent() else (),
    )


def table(*unit):
    """Another unit, and one with some rows."""
    rows = [
        (0, 0, "a", 1, 1),
        (0, 1, "b", 2, 1),
        *((1, time, *row) for time, row in enumerate(unit)),
    ]
    return pl.DataFrame(rows, schema=["u", "t", "g", "h", "x"], orient="row")


def plans_of(chosen, kind, noise, asked=ASKED):
    batch = pf.protect(table(("a", 1, 1)), chosen)
    return [
        batch.filter(FILTERS[name]).private_sum("x").plan(kind(epsilon), noise=noise)
        for name, epsilon in asked
    ]


def moves(name):
    """Return a function from the rows of a unit to how far they move the sum of a release."""
    passes = {
        place: table(place).filter(pl.col("u") == 1, FILTERS[name]).height for place in PLACES
    }
    return lambda unit: sum(passes[row] * row[2] for row in unit)


@pytest.mark.parametrize("rows", thinned([1, 2], 0.5))
@pytest.mark.parametrize("name", thinned(KINDS, 0.61))
@pytest.mark.parametrize(
    "prior", thinned([pf.Independent(), pf.AnyCorrelation()], 0.5), ids=["independent", "any"]
)
def test_the_total_is_what_the_worst_unit_loses(rows, name, prior):
    """The largest exact loss of all units, which is less than the sum of all releases: not a tenth less would do."""
    kind, noise, loss = KINDS[name]
    chosen = scenario(rows, prior, once=True)
    plans = plans_of(chosen, kind, noise)
    moved = [moves(asked) for asked, _ in ASKED]
    scales = [plan.noises["x_sum"] for plan in plans]
    truth = max(
        sum(loss(one, move(unit)) for one, move in zip(scales, moved, strict=True))
        for unit in itertools.product(PLACES, repeat=rows)
    )
    found = pf.compose(plans, chosen)
    assert truth <= found.total * (1 + 1e-12)
    assert found.total == pytest.approx(truth, rel=1e-6)
    assert (
        found.total
        < pf.compose(plans_of(scenario(rows, prior), kind, noise), scenario(rows, prior)).total
    )


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("times", thinned(["forwards", "backwards", "equal"], 0.34))
def test_all_releases_of_an_account_read_the_same_rows_of_a_unit(rows, times):
    """Whatever their filters, derived columns and keys: together at most `rows` rows of it, the same in each."""
    unit = [("a", 1, 1), ("b", 1, 1), ("b", 2, 1), ("a", 2, 1)]
    order = {"forwards": pl.col("t"), "backwards": -pl.col("t"), "equal": pl.lit(0)}[times]
    frame = table(*unit).with_columns(t=order)
    chosen, places = scenario(rows, once=True), {(g, h): 0.0 for g, h, _ in PLACES}
    for source, sign in ((frame, 1), (frame.filter(pl.col("u") != 1), -1)):
        batch = pf.protect(source, chosen)
        for g, h in places:
            by_filter = batch.filter(pl.col("g") == g, pl.col("h") == h)
            by_key = batch.filter(pl.col("h") == h).group_by("g", keys=["b", "a"])
            here = (pl.col("g") == g) & (pl.col("h") == h)
            derived = batch.with_columns(here=here).group_by("here", keys=[True])
            sums = [exact(by_filter)[0], exact(by_key)["ba".index(g)], exact(derived)[0]]
            assert len(set(sums)) == 1
            places[g, h] += sign * sums[0]
    assert sum(places.values()) == rows


def exact(batch):
    """The sums of a batch before noise, cell by cell."""
    request = batch.private_sum("x").request
    return request.engine.tally(request.selection, request.measures).sums[:, 0].tolist()


def test_releases_that_a_row_may_be_in_together_do_add():
    """What no filter says counts as overlapping; several tables, and noise that is not convex, add up as before."""
    once, several = scenario(2, once=True), scenario(2)
    asked = [("a", 0.3), ("b", 0.7), ("a or 2, which no filter says", 0.5), ("all", 0.1)]
    assert pf.compose(plans_of(once, pf.Pure, pf.Laplace, asked), once).total == pytest.approx(1.3)
    assert pf.compose(
        plans_of(several, pf.Pure, pf.Laplace, asked), several
    ).total == pytest.approx(1.6)
    asked = [("a", 0.5), ("b", 0.5)]
    heavy = plans_of(
        once, lambda epsilon: pf.Renyi(3, epsilon), pf.GeneralizedCauchy.of(k=4), asked
    )
    assert pf.compose(heavy, once).total == pytest.approx(1.0, rel=1e-3)


def test_an_account_charges_one_place_and_says_why(tmp_path):
    """The costliest place counts, the account says why, and the plan that the table has to stay as it is."""
    chosen = scenario(1, once=True)
    one, other = plans_of(chosen, pf.Pure, pf.Laplace, ASKED[:2])
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("census", chosen, limit=pf.Pure(0.7), dataset="census")
        for plan in (one, other):
            plan.release(account)
        assert account.spent().epsilon == pytest.approx(0.7)
        assert "only if they may be about the same row" in account.explain()
        with pytest.raises(pf.LimitReached):
            other.release(account)
    assert "one table, whose rows stay as they are" in one.explain()
    assert pf.Scenario.from_json(chosen.to_json()) == chosen
    assert "once" not in scenario(1).to_json()


def test_profiles_of_a_unit_are_not_shared_between_places(tmp_path):
    """Rows of a unit may be in both of two releases, and what some of them tell is no part of a δ."""
    chosen = scenario(2, once=True)
    one, other = plans_of(chosen, pf.Pure, pf.Laplace, [("a", 0.5), ("b", 0.5)])
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open(
            "census", chosen, limit=pf.Approx(2.0, 1e-6), dataset="census", reserve=[(one, 1)]
        )
        one.release(account)
        with pytest.raises(pf.LimitReached):
            other.release(account)


@pytest.mark.parametrize(
    "options",
    [{"once": True}, {"rows": 1, "once": 1}, {"rows": 1, "once": "yes"}, {"rows": 1, "once": None}],
)
def test_once_needs_a_limit_on_rows(options):
    """And is true or false."""
    with pytest.raises(pf.UsageError, match="once is"):
        pf.Presence("u", **options)
