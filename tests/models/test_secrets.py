"""Secrets: which values must be indistinguishable, and what is refused when they are declared."""

import math

import numpy as np
import pytest

import pufferflow as pf
from pufferflow.models.secret import AnySecret


@pytest.mark.parametrize(
    ("domain", "pairs", "expected"),
    [
        ([0, 1, 2], "all", [(0, 1), (0, 2), (1, 2)]),
        ([0, 1, 2], "adjacent", [(0, 1), (1, 2)]),
        ([0, 1, 5], pf.WithinDistance(1), [(0, 1)]),
        (["a", "b", "c"], [("a", "c")], [("a", "c")]),
        (pf.Interval(0, 10), "all", [(0.0, 10.0)]),
        (pf.Interval(0, 10), pf.WithinDistance(3), [(0.0, 3.0)]),
        (pf.Interval(0, 10), pf.WithinDistance(30), [(0.0, 10.0)]),
        (pf.Interval(0, 10), [(2, 5)], [(2.0, 5.0)]),
        (pf.Bins([0, 1, 5], [0.5, 3]), "all", [(0.5, 3)]),
        (np.array([1.5, 2.5]), "all", [(1.5, 2.5)]),
        (range(3), "adjacent", [(0, 1), (1, 2)]),
        ([True, False], "all", [(True, False)]),
    ],
    ids=str,
)
def test_pairs_of_values(domain, pairs, expected):
    """The pairs are those named, each once."""
    assert pf.Secret("x", domain, pairs).value_pairs() == expected
    assert pf.Initial("x", domain, pairs).value_pairs() == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: pf.Secret("", [0, 1]),
        lambda: pf.Secret(3, [0, 1]),
        lambda: pf.Secret("x", [0]),
        lambda: pf.Secret("x", []),
        lambda: pf.Secret("x", [0, 0]),
        lambda: pf.Secret("x", [1, 1.0]),
        lambda: pf.Secret("x", [0, math.nan]),
        lambda: pf.Secret("x", [0, "a"]),
        lambda: pf.Secret("x", "ab"),
        lambda: pf.Secret("x", None),
        lambda: pf.Secret("x", [0, None]),
        lambda: pf.Secret("x", [0, 1], pairs="some"),
        lambda: pf.Secret("x", [0, 1], pairs=[]),
        lambda: pf.Secret("x", [0, 1], pairs=[(0, 2)]),
        lambda: pf.Secret("x", [0, 1], pairs=[(0, 0)]),
        lambda: pf.Secret("x", [0, 1], pairs=[0]),
        lambda: pf.Secret("x", [0, 5], pairs=pf.WithinDistance(1)),
        lambda: pf.Secret("x", [0, 1], missing=7),
        lambda: pf.Secret("x", pf.Interval(0, 1), missing=7),
        lambda: pf.Secret("x", pf.Interval(0, 1), pairs=[(0, 2)]),
        lambda: pf.Interval(1, 1),
        lambda: pf.Interval(2, 1),
        lambda: pf.Interval(0, math.inf),
        lambda: pf.Interval(math.nan, 1),
        lambda: pf.Bins([1, 1], [0]),
        lambda: pf.Bins([0, 1, 2], [0, 1, 2]),
        lambda: pf.Bins([], [0]),
        lambda: pf.Bins("01", [0, 1]),
        lambda: pf.WithinDistance(0),
        lambda: pf.WithinDistance(-1),
        lambda: pf.WithinDistance(math.nan),
        lambda: pf.Presence(""),
        lambda: pf.Presence("person", column="x"),
        lambda: pf.Presence("person", rows=0),
        lambda: pf.Presence("person", rows=-3),
        lambda: pf.Presence("person", rows=1.0),
        lambda: pf.Presence("person", rows=True),
        lambda: pf.Presence("person", rows="10"),
        lambda: pf.Presence("person", rows=math.nan),
        lambda: pf.Derived(""),
        lambda: pf.Derived("x", pairs=[(0, 1)]),
        lambda: pf.Derived("x", values=["a", "b"], pairs=[("a", "c")]),
    ],
)
def test_what_is_no_secret_is_a_misuse(make):
    """Every bad argument is named when the secret is declared, in at most five lines."""
    with pytest.raises(pf.UsageError) as caught:
        make()
    assert len(str(caught.value).splitlines()) <= 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: pf.Secret("x", pf.Interval(0, 1), pairs="adjacent"),
        lambda: pf.Secret("x", ["a", "b"], pairs=pf.WithinDistance(1)),
    ],
)
def test_pairs_without_a_meaning_are_refused(make):
    """Adjacent numbers of an interval and distances between labels do not exist."""
    with pytest.raises(pf.Refused):
        make()


def test_missing_values_have_a_place():
    """Null and unknown values are read as `missing`: the first value, or low, if nothing is said."""
    assert pf.Secret("x", [3, 4]).missing == 3
    assert pf.Secret("x", [3, 4], missing=4).missing == 4
    assert pf.Secret("x", pf.Interval(-1, 1)).missing == -1


SECRETS = [
    pf.Secret("x", [0, 1, 2], "adjacent"),
    pf.Secret("x", pf.Interval(0, 2.5), pf.WithinDistance(0.5), missing=1),
    pf.Secret("x", pf.Bins([1, 2], ["low", "mid", "high"]), [("low", "high")]),
    pf.Initial("x", ["a", "b"]),
    pf.Presence("person"),
    pf.Presence("person", "x", pf.Interval(0, 1)),
    pf.Presence("person", "x", pf.Interval(0, 1), rows=10),
    pf.Presence("person", rows=np.int64(1)),
    pf.Derived("ill"),
    pf.Derived("ill", ["no", "yes"], column="age", domain=[1, 2, 3]),
]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.describe())
def test_secrets_survive_storing(secret):
    """What is stored gives back an equal secret with the same words."""
    again = AnySecret.from_stored(secret.stored())
    assert again == secret
    assert again.describe() == secret.describe()


def test_most_rows_of_a_unit():
    """What is read of a unit is said and stored, and a presence without it is stored as it has always been."""
    few = pf.Presence("person", rows=10)
    assert (few.rows, few.describe()) == (
        10,
        "whether the rows of each 'person' are there at all, at most 10 rows each",
    )
    assert pf.Presence("person", rows=1).describe().endswith("at most 1 row each")
    assert type(AnySecret.from_stored(pf.Presence("person", rows=np.int64(3)).stored()).rows) is int
    assert pf.Presence("person").stored() == {
        "kind": "presence",
        "within": "person",
        "column": None,
        "domain": None,
        "missing": None,
    }
    prints = {
        pf.Scenario(pf.Presence("person", rows=rows), pf.Independent()).fingerprint
        for rows in (None, 1, 2)
    }
    assert len(prints) == 3
    scenario = pf.Scenario(few, pf.Independent())
    assert pf.Scenario.from_json(scenario.to_json()) == scenario
    assert "at most 10 rows each" in scenario.describe()


GAP = {
    "name": "gap",
    "of": {"a": 1, "b": -1},
    "column": ["a", "b"],
    "domain": [pf.Interval(0, 9)] * 2,
    "missing": [0, 0],
}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"of": {"aa": 1, "b": -1}}, "of has the key 'aa'.* Did you mean 'a'?"),
        ({"of": {3: 1}}, "of has the key 3, and the columns are"),
        ({"of": {"a": 0, "b": 0}}, r"of\['a'\] is 0"),
        ({"of": {"a": 1, "b": math.nan}}, r"of\['b'\] is nan"),
        ({"of": {"a": math.inf}}, r"of\['a'\] is inf"),
        ({"of": {"a": "x"}}, r"of\['a'\] is of type str"),
        ({"of": "a"}, "of is 'a'"),
        ({"of": {}}, "of is empty"),
        ({"of": []}, "of is empty"),
        ({"of": [1, 2]}, "of has an entry that is no column with its factor"),
        ({"of": [("a", 1), ("a", 2)]}, "of gives a column twice"),
        ({"of": None}, "of is of type NoneType"),
        ({"name": "a"}, "The function has the name of one of its columns, 'a'"),
        ({"column": None, "domain": None, "missing": None}, "column is left out"),
        ({"column": "a", "domain": pf.Interval(0, 1), "missing": 0}, "column is only 'a'"),
        (
            {"domain": [pf.Interval(0, 1), [0, 1]]},
            "The domain of 'b' is one of 0, 1, and no interval",
        ),
        ({"pairs": [(1, 2)]}, "with pairs of type list"),
        ({"pairs": "adjacent"}, "with pairs 'adjacent'"),
        ({"values": [1, 2]}, "with a list of values"),
    ],
)
def test_what_is_no_linear_function_is_named(wrong, says):
    """The key, the number or the argument that is wrong, and never a way on that is refused again."""
    assert pf.Derived(**GAP).distance == 18
    with pytest.raises(pf.UsageError, match=says) as refused:
        pf.Derived(**{**GAP, **wrong})
    assert refused.value.allowed
    if "pairs" in wrong or "values" in wrong:
        assert "pairs=pf.WithinDistance(3)" in refused.value.instead
    else:
        assert eval(refused.value.instead, {"pf": pf}).of  # noqa: S307


@pytest.mark.parametrize("missing", [0, "skip"])
def test_several_columns_have_a_missing_value_each(missing):
    """One value for all is refused, and the list that the error names is taken."""
    with pytest.raises(pf.UsageError, match=f"missing is {missing!r}, for 2 columns") as refused:
        pf.Derived(**{**GAP, "missing": missing})
    assert refused.value.instead == "missing=[0.0, 0.0]"
    with pytest.raises(pf.UsageError, match="1 values for missing ones") as refused:
        pf.Derived(**{**GAP, "missing": [0]})
    assert "missing=[0, 0]" in refused.value.instead
