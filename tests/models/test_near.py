"""Tables and latent classes fitted to public references: what is counted, refused, and held by regions."""

import json

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

import pufferflow as pf
from pufferflow.core.errors import UsageError
from pufferflow.models.fitting.table import _ball, regions_around
from pufferflow.models.priors.latent_class import LatentClassesNear
from pufferflow.models.priors.table import TablesNear


def reference(**columns):
    return pf.Reference("a study", pl.DataFrame(columns))


PUPILS = {
    "paid": ["no", "no", "yes", "yes", "no", None],
    "grade": [1, 2, 2, 2, 1, 1],
    "age": [9, 9, 8, 8, 8, 8],
}


def test_a_table_has_every_combination_with_half_a_draw_more():
    """Counts are those of rows with a value everywhere, what was never seen keeps half a draw, and all is rational."""
    table = pf.Table.fit(reference(**PUPILS), ["paid", "grade"])
    assert dict(
        zip(zip(*table.cells, strict=True), map(str, table.probabilities), strict=True)
    ) == {
        ("no", 1): "5/14",
        ("no", 2): "3/14",
        ("yes", 1): "1/14",
        ("yes", 2): "5/14",
    }
    assert table.provenance.rows == 5
    assert table.provenance.notes == (
        "1 rows without a value in some column were left out",
        "estimated, with no allowance for chance",
    )
    assert "fitted on 5 rows of the public reference 'a study'" in table.describe()
    assert pf.Table.restored(json.loads(json.dumps(table.stored()))) == table


def test_regions_of_a_table_are_exact_intervals_and_balls():
    """Cells of each question have Clopper–Pearson intervals at half its chance, laws a ball at the other half."""
    names = ["paid", "grade", "age"]
    table = pf.Table.fit(reference(**PUPILS), names, slack="confidence", confidence=0.9)
    assert len(table.laws) == 9
    points, laws = table.given("paid", ["grade"])
    assert points == [(1,), (2,)]
    counts, chance = np.array([[2, 1], [0, 2]]), 0.1 / 9
    others = counts.sum(axis=1, keepdims=True) - counts
    low = np.where(counts > 0, beta.ppf(chance / 16, counts, others + 1), 0)
    high = np.where(others > 0, beta.ppf(1 - chance / 16, counts + 1, others), 1)
    assert np.allclose(laws.low, low, rtol=1e-9)
    assert np.allclose(laws.high, high, rtol=1e-9)
    assert (laws.low <= laws.centre).all()
    assert (laws.centre <= laws.high).all()
    both, joint = table.given("age", ["grade", "paid"])
    assert both[0] == (1, "no")
    assert joint.centre.shape == (2, 4)
    single = table.given("age", ["grade"])[1].centre
    assert np.allclose(
        joint.centre.reshape(2, 2, 2).sum(axis=2), single, atol=0.15
    )  # smoothed cell by cell


def test_what_several_columns_allow_is_what_all_others_do():
    """Laws of two of three other columns are those of all three, lumped: bounds and balls hold them."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 2, 200).tolist() for name in "abcd"}
    table = pf.Table.fit(reference(**columns), list("abcd"), slack=0.03)
    whole = table.given("a", ["b", "c", "d"])[1]
    points, part = table.given("a", ["d", "b"])
    assert points == [(0, 0), (0, 1), (1, 0), (1, 1)]
    cube = whole.centre.reshape(2, 2, 2, 2).sum(axis=2)
    assert np.allclose(part.centre.reshape(2, 2, 2), cube.transpose(0, 2, 1))
    assert (part.radius <= whole.radius).all()
    assert (part.low <= part.centre).all()


ROWS = {
    "house": [1, 1, 2, 2, 3, 3, 3, 4],
    "tariff": list("aabbaaab"),
    "on": [0, 0, 1, 1, 0, 1, 0, None],
}


def test_classes_are_counted_by_group_and_rows_by_class():
    """Weights count groups, laws count rows; a group without any value is no group."""
    prior = pf.LatentClass.fit(reference(**ROWS), "on", "tariff", "house")
    assert prior.weights == pytest.approx([2.5 / 4, 1.5 / 4])
    assert np.allclose(prior.rows, [[4.5 / 6, 1.5 / 6], [0.5 / 3, 2.5 / 3]])
    assert prior.provenance.rows == 7
    assert "less than 30 groups reveal about 2 of 2 classes" in prior.provenance.notes
    turned = pf.LatentClass.fit(
        reference(**ROWS), "on", "tariff", "house", classes=["b", "a"], domain=[1, 0]
    )
    assert turned.weights == prior.weights[::-1]
    assert np.allclose(turned.rows, np.array(prior.rows)[::-1, ::-1])
    assert pf.LatentClass.restored(json.loads(json.dumps(prior.stored()))) == prior


def test_rows_that_are_more_alike_than_their_class_says_are_noted():
    """A family that shares more than its class has a correlation left, which is said; independent rows have none."""
    rng = np.random.default_rng(1)
    house, kind = np.repeat(np.arange(400), 4), np.repeat(rng.integers(0, 2, 400), 4)
    alone = rng.normal(size=1600) + kind
    together = alone + np.repeat(rng.normal(size=400), 4)
    bins = pf.Bins([-1, 0, 1, 2], values=[-1.5, -0.5, 0.5, 1.5, 2.5])
    notes = [
        pf.LatentClass.fit(
            reference(house=house, kind=kind, x=x), "x", "kind", "house", domain=bins
        ).provenance.notes
        for x in (alone, together)
    ]
    assert not any("beyond what their class explains" in note for note in notes[0])
    assert any(note.startswith("rows of one group have the correlation 0.4") for note in notes[1])


def test_hidden_classes_are_found_and_said_to_be_estimated():
    """The likeliest two classes are near those drawn from, the larger first; there is no region of confidence."""
    rng = np.random.default_rng(4)
    kinds, laws = rng.random(600) < 0.3, np.array([[0.8, 0.15, 0.05], [0.1, 0.3, 0.6]])
    values = np.concatenate([rng.choice(3, 8, p=laws[int(kind)]) for kind in kinds])
    rows = reference(house=np.repeat(np.arange(600), 8), x=values)
    prior = pf.LatentClass.fit(rows, "x", None, "house", classes=2)
    assert prior.weights == pytest.approx([0.7, 0.3], abs=0.05)
    assert np.allclose(prior.rows, laws, atol=0.04)
    assert prior.provenance.notes[-1].startswith("classes are hidden in the reference too")
    assert pf.LatentClass.fit(rows, "x", None, "house", classes=2) == prior
    near = pf.LatentClass.fit(rows, "x", None, "house", classes=2, slack=0.05)
    assert isinstance(near, LatentClassesNear)
    with pytest.raises(UsageError, match="hidden in the reference"):
        pf.LatentClass.fit(rows, "x", None, "house", classes=2, slack="confidence")
    for wrong in (None, 1, True, ["a", "b"]):
        with pytest.raises(UsageError, match="no column names the class"):
            pf.LatentClass.fit(rows, "x", None, "house", classes=wrong)
    with pytest.raises(UsageError, match="group_class names a column"):
        pf.LatentClass.fit(reference(**ROWS), "on", "tariff", "house", classes=2)


WRONG_TABLES = {
    "a bare frame": ({"reference": pl.DataFrame(PUPILS)}, r"pf\.Reference|public"),
    "one column": ({"columns": ["paid"]}, "columns names 1 columns"),
    "a name": ({"columns": "paid"}, "columns is 'paid'"),
    "twice": ({"columns": ["paid", "paid"]}, "one of them twice"),
    "no such column": ({"columns": ["paid", "mark"]}, "no column 'mark'"),
    "an interval": ({"domains": {"grade": pf.Interval(0, 9)}}, "single values"),
    "a domain of another": ({"domains": {"age": [8, 9]}}, "domains has 'age'"),
    "no domains": ({"domains": [8, 9]}, "domains is"),
    "too much slack": ({"slack": 2}, "slack is 2"),
    "some slack": ({"slack": "some"}, "slack is 'some'"),
    "too confident": ({"slack": "confidence", "confidence": 1}, "confidence is 1"),
    "no rows": (
        {"reference": reference(paid=["no", None], grade=[None, 2])},
        "fewer|no row|1 different",
    ),
}


@pytest.mark.parametrize("case", WRONG_TABLES)
def test_tables_that_cannot_be_fitted_are_refused(case):
    """Each mistake is named, with what is allowed."""
    changed, says = WRONG_TABLES[case]
    asked = {"reference": reference(**PUPILS), "columns": ["paid", "grade"], **changed}
    with pytest.raises(UsageError, match=says) as caught:
        pf.Table.fit(asked.pop("reference"), asked.pop("columns"), **asked)
    assert caught.value.allowed


WRONG_CLASSES = {
    "a bare frame": ({"reference": pl.DataFrame(ROWS)}, r"pf\.Reference|public"),
    "several classes": (
        {"reference": reference(**{**ROWS, "tariff": list("abbbaaab")})},
        "different values of 'tariff'",
    ),
    "one column twice": ({"within": "tariff"}, "same column"),
    "no group": ({"within": None}, "within is"),
    "an interval": ({"domain": pf.Interval(0, 1)}, "single values"),
    "no rows": (
        {"reference": reference(**{**ROWS, "house": pl.Series([None] * 8, dtype=pl.Int64)})},
        "no row",
    ),
    "too much slack": ({"slack": -1}, "slack is -1"),
}


@pytest.mark.parametrize("case", WRONG_CLASSES)
def test_classes_that_cannot_be_fitted_are_refused(case):
    """Each mistake is named, with what is allowed."""
    changed, says = WRONG_CLASSES[case]
    asked = {
        "reference": reference(**ROWS),
        "column": "on",
        "group_class": "tariff",
        "within": "house",
        **changed,
    }
    with pytest.raises(UsageError, match=says) as caught:
        pf.LatentClass.fit(**asked)
    assert caught.value.allowed


def test_the_private_frame_is_no_reference():
    """A class of priors fitted on the very frame that is protected is refused before any row is read."""
    frame = pl.DataFrame(ROWS).drop_nulls()
    for prior, secret in (
        (
            pf.LatentClass.fit(pf.Reference("own", frame), "on", "tariff", "house", slack=0.1),
            pf.Secret("on", [0, 1]),
        ),
        (
            pf.Table.fit(pf.Reference("own", frame), ["tariff", "on"], slack=0.1),
            pf.Derived("tariff", column="on", domain=[0, 1]),
        ),
    ):
        with pytest.raises(UsageError, match="private frame itself"):
            pf.protect(frame, pf.Scenario(secret=secret, prior=prior, within="house"))


def test_stored_regions_that_hold_nothing_are_refused():
    """Damaged bounds, or laws of other columns, are no prior."""
    table = pf.Table.fit(reference(**PUPILS), ["paid", "grade"], slack=0.1).stored()
    damaged = json.loads(json.dumps(table))
    damaged["laws"][0]["low"][0][0] = 0.99
    with pytest.raises(UsageError, match="lies outside its bounds"):
        TablesNear.restored(damaged)
    fewer = {**table, "laws": table["laws"][:1]}
    with pytest.raises(UsageError, match="do not fit"):
        TablesNear.restored(fewer)
    classes = pf.LatentClass.fit(reference(**ROWS), "on", "tariff", "house", slack=0.1).stored()
    with pytest.raises(UsageError, match="do not fit"):
        LatentClassesNear.restored({**classes, "weights": classes["rows"]})


def _lost(counted, truth, chance, factor=1.0):
    """Whether any law of a family lies outside its region, whose intervals and balls may be made narrower."""
    family = chance, sum(one.size for one in counted), sum(len(one) for one in counted)
    lost = False
    for counts, laws in zip(counted, truth, strict=True):
        regions = regions_around(counts, None, *family)
        drawn = counts.sum(axis=1, keepdims=True)
        shares = counts / drawn
        low, high = (shares + factor * (part - shares) for part in (regions.low, regions.high))
        balls = np.array(
            [_ball(int(n), counts.shape[1], family[0] / (2 * family[2])) for n in drawn[:, 0]]
        )
        moved = np.abs(shares - laws).sum(axis=1) / 2
        lost |= not ((low <= laws) & (laws <= high)).all() or bool((moved > factor * balls).any())
    return lost


@pytest.mark.slow
def test_regions_hold_the_truth_as_often_as_promised():
    """Of 2000 references a region at 95 % loses its laws in at most about 5 %; at six tenths of the width far more."""
    rng = np.random.default_rng(7)
    weights, rows = np.array([[0.3, 0.7]]), np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    lost = narrow = 0
    for _ in range(2000):
        counted = [rng.multinomial(60, weights), rng.multinomial(80, rows)]
        lost += _lost(counted, (weights, rows), 0.05)
        narrow += _lost(counted, (weights, rows), 0.05, 0.6)
    assert lost <= 120
    assert narrow > 200


@pytest.mark.parametrize(("cells", "drawn"), [(2, 30), (6, 40), (20, 100), (60, 500)])
def test_balls_hold_the_truth_as_often_as_promised(cells, drawn):
    """The total variation of counted and true laws is beyond the ball in at most the chance allowed."""
    rng = np.random.default_rng(cells)
    law = rng.dirichlet(np.ones(cells))
    found = np.abs(rng.multinomial(drawn, law, 20_000) / drawn - law).sum(axis=1) / 2
    assert (found > _ball(drawn, cells, 0.05)).mean() <= 0.05
