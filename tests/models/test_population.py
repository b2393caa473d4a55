"""Secrets about the whole data set: what is declared, what is refused, and what a scenario says of them."""

from fractions import Fraction

import numpy as np
import pytest

import pufferflow as pf

SHARE = pf.Population.share("ill", [0.1, 0.2])


def scenario_of(secret, prior=None, **options):
    return pf.Scenario(secret, pf.Independent() if prior is None else prior, **options)


def test_words_name_the_laws_and_what_is_not_hidden():
    """The laws are listed, the prior is that of independent draws, and rows are said to be open."""
    said = scenario_of(SHARE, public="city").describe()
    assert "the law of all values of 'ill': 0.1 (0: 0.9, 1: 0.1) or 0.2 (0: 0.8, 1: 0.2)" in said
    assert "independent of each other, given the law that all of them are drawn from" in said
    assert "every row reveals something about the secret" in said
    assert "Not hidden by this scenario: the values of single rows." in said


@pytest.mark.parametrize(
    "secret",
    [
        SHARE,
        pf.Population.share("ill", [Fraction(1, 3), Fraction(2, 3)], rows=50),
        pf.Population.share("answer", [0.4, 0.3], domain=["no", "yes"]),
        pf.Population.mean("level", [1, 1.5], domain=[0, 1, 2], pairs="adjacent"),
        pf.Population(
            "age", pf.Bins([0, 30, 60], [15, 45]), {"young": [0.7, 0.3], "old": [0.4, 0.6]}
        ),
        pf.Population("x", [0, 1], {"a": [0.5, 0.3, 0.2], "b": [0.1, 0.8, 0.1]}, missing="skip"),
        pf.Population(
            "x", [0, 1, 2], {n: [n, 1 - n, 0] for n in (0.1, 0.2, 0.4)}, pairs=[(0.1, 0.4)]
        ),
    ],
)
def test_scenarios_come_back_from_json(secret):
    """With equal laws, rational ones as they are, and the same fingerprint."""
    scenario = scenario_of(secret)
    again = pf.Scenario.from_json(scenario.to_json())
    assert again == scenario
    assert again.secret.laws == secret.laws
    assert again.fingerprint == scenario.fingerprint
    assert hash(again) == hash(scenario)


def test_shares_are_those_of_the_second_value():
    """As a list of laws with names would say."""
    named = pf.Population("ill", domain=[0, 1], laws={0.1: [0.9, 0.1], 0.2: {0: 0.8, 1: 0.2}})
    assert named == SHARE
    law = pf.Law([0, 1], [0.8, 0.2])
    assert pf.Population("ill", domain=[0, 1], laws={0.1: [0.9, 0.1], 0.2: law}) == SHARE


@pytest.mark.parametrize("like", [None, [0.1, 0.2, 0.3, 0.4], {0: 0.5, 9: 0.5}])
def test_means_are_those_of_the_laws(like):
    """Of all laws with the mean none is nearer to the given one in relative entropy."""
    points = np.array([0.0, 1.0, 4.0, 9.0])
    secret = pf.Population.mean("level", [1.5, 6.0], domain=[0, 1, 4, 9], like=like)
    around = np.array([0.5, 0, 0, 0.5] if isinstance(like, dict) else like or [0.25] * 4)
    for mean, law in secret.laws:
        masses = np.array(law)
        assert masses @ points == pytest.approx(mean, abs=1e-9)
        used = masses > 0
        assert (used == (around > 0)).all()
        slopes = np.polyfit(points[used], np.log(masses[used] / around[used]), 1)
        assert np.log(masses[used] / around[used]) == pytest.approx(
            np.polyval(slopes, points[used])
        )


NAMES = {"a": [0.9, 0.1], "b": [0.8, 0.2]}
REFUSED = {
    "no sum of 1": lambda: pf.Population("x", [0, 1], {"a": [0.9, 0.2], "b": [0.8, 0.2]}),
    "negative": lambda: pf.Population("x", [0, 1], {"a": [1.1, -0.1], "b": [0.8, 0.2]}),
    "one law": lambda: pf.Population("x", [0, 1], {"a": [0.9, 0.1]}),
    "no law": lambda: pf.Population("x", [0, 1], {}),
    "laws without names": lambda: pf.Population("x", [0, 1], [[0.9, 0.1], [0.8, 0.2]]),
    "pairs in place of names": lambda: pf.Population("x", [0, 1], [(0.9, 0.1), (0.8, 0.2)]),
    "triples in place of names": lambda: pf.Population("x", [0, 1, 2], [(0.5, 0.3, 0.2)] * 2),
    "equal laws": lambda: pf.Population("x", [0, 1], {"a": [0.9, 0.1], "b": [0.9, 0.1]}),
    "another domain": lambda: pf.Population("x", [0, 1, 2], NAMES),
    "an unknown value": lambda: pf.Population(
        "x", [0, 1], {"a": {0: 0.5, 2: 0.5}, "b": [0.5, 0.5]}
    ),
    "an interval": lambda: pf.Population("x", pf.Interval(0, 1), NAMES),
    "unknown pairs": lambda: pf.Population("x", [0, 1], NAMES, pairs=[("a", "c")]),
    "no rows": lambda: pf.Population("x", [0, 1], NAMES, rows=0),
    "too many rows": lambda: pf.Population("x", [0, 1], NAMES, rows=10**10),
    "a share above 1": lambda: pf.Population.share("x", [0.1, 1.2]),
    "a share of text": lambda: pf.Population.share("x", ["0.1", 0.2]),
    "the same share": lambda: pf.Population.share("x", [0.1, 0.1]),
    "a mean outside": lambda: pf.Population.mean("x", [1, 3], domain=[0, 1, 2]),
    "a mean of labels": lambda: pf.Population.mean("x", [1, 2], domain=["a", "b"]),
    "no law for missing": lambda: pf.Population("x", [0, 1], NAMES, missing="skip"),
    "groups": lambda: scenario_of(SHARE, within="house"),
    "the column is public": lambda: scenario_of(SHARE, public="ill"),
    "a chain": lambda: scenario_of(SHARE, pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]]), order_by="t"),
    "a class": lambda: scenario_of(SHARE, pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.8, 0.2]])),
    "a Gaussian": lambda: scenario_of(SHARE, pf.GaussianPrior(pf.Exchangeable(0.1))),
    "beside presence": lambda: scenario_of([SHARE, pf.Presence("person")]),
    "beside a row": lambda: scenario_of([SHARE, pf.Secret("ill", [0, 1])]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_meaning_is_refused_with_a_way_on(case):
    """Whatever is wrong with laws, or with what stands beside them."""
    with pytest.raises((pf.UsageError, pf.Refused)) as error:
        REFUSED[case]()
    assert error.value.allowed
    assert error.value.instead


def test_the_prior_of_draws_belongs_to_this_secret_alone():
    """A stored scenario whose secret was replaced is refused."""
    stored = scenario_of(SHARE).to_json()
    kept = stored[: stored.index('"secret"')]
    other = pf.Scenario(pf.Secret("ill", [0, 1]), pf.Independent()).to_json()
    with pytest.raises(pf.UsageError, match=r"pf\.Population"):
        pf.Scenario.from_json(kept + other[other.index('"secret"') :])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pf.Population.share("x", 0.1), "values is 0.1"),
        (lambda: pf.Population.share("x", [0.1]), "values has only 0.1"),
        (lambda: pf.Population.share("x", []), "values has no entries"),
        (lambda: pf.Population.share("x", [0.2, 0.2]), "values has 0.2 twice"),
        (lambda: pf.Population.mean("x", 1.0, domain=[0, 1, 2]), "values is 1.0"),
        (lambda: pf.Population.mean("x", [1.0, 1.0], domain=[0, 1, 2]), "values has 1.0 twice"),
    ],
)
def test_shares_and_means_need_no_sum(make, says):
    """Errors name values=, say what each of its entries may be, and are not those of probabilities."""
    with pytest.raises(pf.UsageError, match=says) as refused:
        make()
    assert "a list of two or more different" in refused.value.allowed
    assert eval(refused.value.instead, {"pf": pf}).laws  # noqa: S307


@pytest.mark.parametrize("law", [{0: 0.5, 2: 0.5}, pf.Law([0, 2], [0.5, 0.5])])
def test_a_value_beyond_the_domain_is_named(law):
    """A law of values that the domain lacks: the error names the first of them."""
    with pytest.raises(
        pf.UsageError, match=r"laws\['a'\] has a probability for 2.*not in the domain"
    ):
        pf.Population("x", [0, 1], {"a": law, "b": [0.1, 0.9]})
    with pytest.raises(pf.UsageError, match="the name 'a' twice"):
        pf.Population("x", [0, 1], [("a", {0: 0.5, 1: 0.5}), ("a", {0: 0.1, 1: 0.9})])
