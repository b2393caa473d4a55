"""Tables and empirical priors against enumeration of every row they can produce (M22)."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import pufferflow as pf
from pufferflow.calibration.chain_bounds import Messages
from pufferflow.models.priors.table import Empirical, Table
from pufferflow.models.reference import Reference
from pufferflow.models.secret import Derived, Secret
from pufferflow.queries.statistic import Statistic
from pufferflow.sensitivity import table as enumeration
from pufferflow.sensitivity.implied_laws import implied
from pufferflow.sensitivity.latent_class import StarLaws

THIRD = Fraction(1, 3)
VALUES = [0, 1, 3]


@st.composite
def joint_laws(draw):
    """A table of a shared cause, a secret and a value, rational; not every combination occurs."""
    keys = list(itertools.product(["cold", "warm"], ["no", "yes"], VALUES))
    parts = draw(st.lists(st.integers(0, 4), min_size=len(keys), max_size=len(keys)))
    if not all(
        any(p for p, k in zip(parts, keys, strict=True) if k[1] == ill) for ill in ("no", "yes")
    ):
        parts[0], parts[-1] = 1, 1
    return {key: Fraction(part, sum(parts)) for key, part in zip(keys, parts, strict=True) if part}


def table_of(law, shared=()):
    cause, ill, value = zip(*law, strict=True)
    columns = {"cause": cause, "ill": ill, "value": value, "probability": list(law.values())}
    return Table({name: list(column) for name, column in columns.items()}, shared)


def given_in_group(law, weights, happens):
    """The law of Σ w·value over rows that share their cause, given an event of all rows."""
    causes = {}
    for (cause, ill, value), mass in law.items():
        causes.setdefault(cause, {})[ill, value] = mass
    found = {}
    for rows in causes.values():
        total = sum(rows.values())
        for path in itertools.product(rows, repeat=len(weights)):
            if happens(path):
                mass = math.prod([rows[key] / total for key in path], start=total)
                answer = sum(w * value for w, (_, value) in zip(weights, path, strict=True))
                found[answer] = found.get(answer, 0) + mass
    whole = sum(found.values())
    return pf.Law(list(found), [mass / whole for mass in found.values()])


def test_tables_are_enumerated():
    """Both priors that are tables are answered by this method."""
    assert {implied.dispatch(kind).__module__ for kind in (Table, Empirical)} == {
        enumeration.__name__
    }


@given(joint_laws(), st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=1, max_size=3))
@settings(max_examples=10)
def test_shared_columns_are_a_hidden_class(law, weights):
    """With a shared cause the law given a row's secret is that of all rows of the group, enumerated."""
    laws = implied(table_of(law, "cause"), Statistic(weights, column="value"), Derived("ill"))
    assert isinstance(laws, StarLaws)
    for pair in laws:
        for value, found in zip(pair.secrets, pair, strict=True):
            truth = given_in_group(law, weights, lambda path, v=value, r=pair.row: path[r][0] == v)
            assert found == truth


@given(joint_laws(), st.lists(st.sampled_from([-1, 1, 2]), min_size=1, max_size=3))
@settings(max_examples=10)
def test_rows_of_a_table_stand_alone(law, weights):
    """Without a shared column only the row itself moves, by its weight; the law given the secret is enumerated."""
    laws = implied(table_of(law), Statistic(weights, column="value"), Secret("ill", ["no", "yes"]))
    for pair in laws:
        for secret, found in zip(pair.secrets, pair, strict=True):
            kept = {}
            for (_, ill, value), mass in law.items():
                if ill == secret:
                    answer = weights[pair.row] * value
                    kept[answer] = kept.get(answer, 0) + mass
            total = sum(kept.values())
            assert found == pf.Law(list(kept), [mass / total for mass in kept.values()])
    assert laws.winf(1).length == max(pf.winf(*pair) for pair in laws)
    assert laws.span(1).length == max(
        abs(x - y) for mu, nu in laws for x in mu.values for y in nu.values
    )


def test_a_shared_secret_moves_every_row():
    """A secret drawn once for the group moves all rows: the answer moves as far as rows together, not as one."""
    frame = {"ill": [0, 0, 1, 1], "score": [0, 1, 0, 1], "probability": [0.4, 0.1, 0.1, 0.4]}
    laws = implied(Table(frame, "ill"), Statistic(np.ones(6), column="score"), Derived("ill"))
    rest = implied(Table(frame), Statistic(np.ones(6), column="score"), Derived("ill"))
    assert (len(laws), laws.span(1).length, rest.winf(1).length) == (1, 6.0, 1.0)
    assert laws[0].mu.probabilities == pytest.approx(stats.binom(6, 0.2).pmf(range(7)), rel=1e-13)


def test_conditional_not_marginal_laws_count():
    """The answer's law without the secret would say that nothing moves; given the secret it moves by 2."""
    table = Table({"ill": [0, 1, 1], "score": [0, 0, 2], "probability": [0.5, 0.25, 0.25]})
    laws = implied(table, Statistic([1.0], column="score"), Derived("ill"))
    assert laws.winf(1).length == 2
    assert laws.near(0.5, 1).length == 0


def test_the_secret_itself_may_be_asked_about():
    """A count of the secret column moves by one, whatever the table says of other columns."""
    table = Table(
        {"ill": ["no", "no", "yes"], "score": [0, 1, 1], "probability": [THIRD, THIRD, THIRD]}
    )
    secret = Secret("ill", ["no", "yes"])
    laws = implied(table, Statistic([1, 1], {"no": 0, "yes": 1}, column="ill"), secret)
    assert [tuple(pair) for pair in laws] == [(pf.Law.point(0), pf.Law.point(1))]
    assert (
        implied(table, Statistic([1, 1]), secret).winf(1).length == 1
    )  # the score is what is left to ask about
    wider = Table(
        {"ill": ["no", "yes"], "score": [0, 1], "age": [1, 2], "probability": [THIRD, 2 * THIRD]}
    )
    with pytest.raises(pf.UsageError, match="is about no column"):
        implied(wider, Statistic([1, 1]), secret)


def test_decimals_are_read_as_they_print():
    """Values 0.1 and 0.3 are 0.2 apart, and sums that are equal as decimals are one atom."""
    table = Table({"s": [0, 1], "x": [0.1, 0.3], "probability": [0.5, 0.5]})
    assert implied(table, Statistic([1.0], column="x"), Derived("s")).winf(1).length == 0.2
    group = Table({"s": [0, 0, 0, 1], "x": [0.1, 0.2, 0.3, 0.3], "probability": [0.25] * 4}, "s")
    assert len(implied(group, Statistic([1.0] * 3, column="x"), Derived("s"))[0].mu) == 7


@given(joint_laws())
@settings(max_examples=8)
def test_messages_of_a_shared_cause_are_never_below_the_truth(law):
    """Messages through a shared cause, with a secret that is not the value itself, charge at least the exact loss."""
    laws = implied(table_of(law, "cause"), Statistic([1, -2, 1], column="value"), Derived("ill"))
    exact, messages = (
        pf.loss(laws, pf.Laplace(3.0), pf.Pure, bound=b) for b in (pf.Exact(), Messages())
    )
    assert exact <= messages * (1 + 1e-12) + 1e-12


NAMES = {"secret": "secret", "released": "released"}
TABLE_1 = [("student", 8, 2.276), ("heart", 13, 7.803), ("adult", 1, 0.4164)]


def movements(prior):
    laws = implied(prior, Statistic([1]), Derived(prior.secret))
    reach = laws.winf(1)
    assert reach.certainty == "exact"
    return reach.length, max(pf.wasserstein(*pair, 2) for pair in laws)


@pytest.mark.parametrize(("name", "winf", "w2"), TABLE_1)
def test_table_1_from_counts(name, winf, w2):
    """RPP Table 1 as corrected: Heart needs 13 where 8 was printed, Student's W₂ is 2.276 where 2.76 was."""
    counts = json.loads(
        (Path(__file__).parents[1] / "reference" / "table1_counts.json").read_text()
    )[name]
    rows = [
        (s, int(x))
        for s, column in counts.items()
        for x, count in column.items()
        for _ in range(count)
    ]
    frame = pl.DataFrame(rows, schema=list(NAMES), orient="row")
    prior = Empirical(Reference(name, frame), **NAMES)
    assert movements(prior) == (winf, pytest.approx(w2, abs=5e-4 if w2 > 1 else 5e-5))


@pytest.mark.parametrize(
    ("name", "file", "released", "secret", "only"),
    [
        ("student", "student_mat.parquet", "g3", "paid", None),
        ("heart", "heart_disease.parquet", "age", "num", pl.col("site").str.starts_with("clev")),
        ("adult", "adult_train.parquet", "income_gt_50k", "race", None),
    ],
)
def test_table_1_from_the_tables(tables, name, file, released, secret, only):
    """The same from the real tables, read lazily as public references."""
    frame = pl.scan_parquet(tables / file)
    frame = frame.filter(only) if only is not None else frame
    prior = Empirical(Reference(name, frame), secret=secret, released=released)
    _, winf, w2 = next(row for row in TABLE_1 if row[0] == name)
    assert movements(prior) == (winf, pytest.approx(w2, abs=5e-4 if w2 > 1 else 5e-5))


def test_a_derived_secret_may_name_the_column_asked_about():
    """Of several columns the one named by the secret is asked about, or the one named by the statistic."""
    table = Table({"s": [0, 1], "x": [0, 3], "y": [0, 7], "probability": [0.5, 0.5]})
    named = Derived("s", column="x", domain=[0, 3])
    assert implied(table, Statistic.total(1), named).winf(1).length == 3
    assert implied(table, Statistic.total(1, column="y"), named).winf(1).length == 7
    assert implied(table, Statistic.mean(2, column="y"), Derived("s")).winf(1).length == 3.5
    assert implied(table, Statistic.histogram(1, 2, column="y"), Derived("s")).winf(1).length == 2
