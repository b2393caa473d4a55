"""The first screen: true sentences for the person who signs, and lights whose colours follow from proven numbers."""

import math
import re

import numpy as np
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.release.explain.first_screen import AMBER, GREEN, RED, against, odds_of
from pufferflow.reports import pages as report
from pufferflow.reports.evidence import Verdict
from pufferflow.reports.first_screen import judged
from pufferflow.reports.numbers import even_odds

SECRET = pf.Secret("on", domain=[0, 1], missing=0)
CHAIN = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])


def evidence(prior, epsilon=1.0, rows=24, secret=SECRET, **scenario):
    """The evidence of a plan for the sum of some hours."""
    frame = pl.DataFrame({"hour": range(rows), "on": [0, 1] * (rows // 2), "unit": [1] * rows})
    made = pf.Scenario(secret, prior, **({"order_by": "hour"} | scenario))
    return pf.protect(frame, made).private_sum("on").plan(pf.Pure(epsilon)).evidence()


def lights(found):
    return {light.risk: light for light in found.first.lights}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "colour", "word"),
    [(0.05, AMBER, "Weaker"), (1.0, RED, "Little is left")],
)
def test_a_wrong_prior_is_red_where_somebody_may_become_sure(epsilon, colour, word):
    """The light follows the loss that the same noise keeps under any correlation, which the page states too."""
    found = evidence(CHAIN, epsilon)
    light, case = lights(found)["If the prior is wrong"], found.what_if[0]
    assert (light.colour, light.word) == (colour, word)
    assert (case.epsilon > math.log(99)) == (colour == RED)
    assert f"epsilon {case.epsilon:.4g}"[:-1] in light.sentence
    assert even_odds(case.epsilon) in light.sentence


@pytest.mark.slow
def test_what_assumes_nothing_is_green():
    """Where any correlation is allowed there is nothing to be wrong about, and nothing to test."""
    found = lights(evidence(pf.AnyCorrelation(), within="unit"))
    assert {light.colour for light in found.values()} == {GREEN}
    assert "Nothing is assumed" in found["If the prior is wrong"].sentence


@pytest.mark.slow
def test_one_row_alone_keeps_the_whole_guarantee():
    """Where the guarantee for all rows of a group is the same, a wrong prior takes nothing away."""
    frame = pl.DataFrame({"on": [1], "unit": [1]})
    scenario = pf.Scenario(SECRET, pf.Independent(), within="unit")
    found = pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(1.0)).evidence()
    light = lights(found)["If the prior is wrong"]
    assert (light.colour, light.word) == (GREEN, "Holds")


def fitted(values, **more):
    frame = pl.DataFrame({"hour": range(len(values)), "on": values} | more)
    return pf.MarkovChain.fit(pf.Reference("a survey", frame), "on", domain=[0, 1], order_by="hour")


def drawn(rows):
    """Hours of the chain itself."""
    rng, found = np.random.default_rng(4), [0]
    for _ in range(rows - 1):
        found.append(int(rng.random() < (0.1, 0.7)[found[-1]]))
    return found


@pytest.mark.parametrize(
    ("make", "colour", "word"),
    [
        (lambda: CHAIN, AMBER, "Not tested"),
        (lambda: fitted(drawn(4000)), GREEN, "None found"),
        (lambda: fitted([*drawn(4000), None, 0, 1]), AMBER, "Gaps"),
        (lambda: fitted([0, 0, 1, 1] * 500), RED, "Found"),
    ],
    ids=["declared", "fits", "gaps", "refuted"],
)
def test_evidence_against_the_prior_is_a_light(make, colour, word):
    """A declared prior is not tested; a fitted one is as good as its reference; what disagrees is named in full."""
    prior = make()
    light = against([prior], "unit")
    assert (light.colour, light.word) == (colour, word)
    assert set(light.details) <= set(prior.provenance.notes)
    assert bool(light.details) == (word in {"Gaps", "Found"})


def test_the_worst_prior_decides():
    """Of several priors one that the reference refutes makes the light red, and one that is declared amber."""
    good, bad = fitted(drawn(4000)), fitted([0, 0, 1, 1] * 500)
    assert against([good, CHAIN], "").colour == AMBER
    assert against([good, CHAIN, bad], "").colour == RED


@pytest.mark.parametrize(
    "guarantee",
    [
        *(pf.Pure(1.0), pf.Approx(1.0, 1e-5), pf.Zcdp(0.1), pf.Gdp(0.5), pf.Renyi(4, 0.5)),
        *(pf.ApproxRenyi(4, 0.5, 1e-5), pf.TradeOff(1.0, 1e-6, 0.3)),
    ],
)
def test_odds_follow_from_the_guarantee(guarantee):
    """What the page says of odds is implied by what is guaranteed."""
    odds = odds_of(guarantee)
    assert guarantee.implies(
        pf.Approx(odds.epsilon, odds.delta) if odds.delta else pf.Pure(odds.epsilon)
    )


def test_a_share_of_probability_counts_in_guesses():
    """Total variation alone limits no odds outside of it, so guesses are right more often by half of it."""
    odds = odds_of(pf.Tv(0.2))
    assert (odds.epsilon, odds.delta) == (0.0, 0.2)
    assert even_odds(odds.epsilon, odds.delta) == "60\xa0%"


def test_even_odds_are_never_too_small():
    """How often a guess is right is rounded up."""
    for epsilon in np.linspace(0, 4.5, 40):
        said = float(even_odds(epsilon).split("\xa0")[0])
        assert 100 / (1 + math.exp(-epsilon)) <= said * (1 + 1e-9) <= 100
    assert even_odds(700.0) == even_odds(5.0) == "more than 99\xa0%"


@pytest.mark.slow
def test_verdicts_are_those_of_the_check():
    """Outputs have as many useful, weak and useless groups as plan.check() says."""
    frame = pl.DataFrame({"hour": range(24), "on": [0, 1] * 12})
    batch = pf.protect(frame, pf.Scenario(SECRET, CHAIN, order_by="hour"))
    batch = batch.group_by(day=pl.col("hour") // 12).private_sum("on").private_histogram("on")
    plan = batch.plan(pf.Pure(1.0))
    table = plan.check()
    for verdict in plan.evidence().verdicts:
        own = table.filter(pl.col("query") == verdict.output)
        counts = dict(own["verdict"].value_counts().iter_rows())
        assert (verdict.useful, verdict.weak, verdict.useless, verdict.unknown) == tuple(
            counts.get(name, 0) for name in ("useful", "weak", "useless", None)
        )
        assert verdict.half == pytest.approx(own["interval_95"].max())


def test_a_verdict_names_the_worst_groups():
    """One word for an output: how bad its worst groups are, and how many they are."""
    assert judged(Verdict("a", useful=3)).word == "Useful"
    assert judged(Verdict("a", useful=3, useless=1)).word == "Useless in 1 of 4 groups"
    assert judged(Verdict("a", unknown=2)).word == ""


@pytest.mark.slow
def test_what_is_not_hidden_is_said():
    """Public columns, that rows exist, and links between groups; of presence only what is not covered."""
    found = evidence(CHAIN, within="unit", public=["unit"]).first
    assert found.unprotected[0].startswith("We do not hide unit")
    assert "nor that a row exists" in found.unprotected[0]
    assert found.unprotected[1] == "We do not cover links between one unit and another."
    frame = pl.DataFrame({"person": [1, 2, 2]})
    scenario = pf.Scenario(pf.Presence("person", rows=2), pf.Independent())
    plan = pf.protect(frame, scenario).private_count(name="n").plan(pf.Pure(1.0))
    assert not [line for line in plan.evidence().first.unprotected if "exists" in line]


@pytest.mark.slow
def test_the_page_ends_its_first_screen_with_what_is_spent():
    """Without an account the page says that nothing is counted."""
    page = report.plan_page(evidence(CHAIN))
    header = page[: page.index("</header>")]
    assert "Not counted" in header
    assert "I approve this plan" in header


def test_a_release_that_was_charged_is_not_called_uncounted(tmp_path):
    """Without evidence of an account, the first screen names the entry of the ledger."""
    frame = pl.DataFrame({"on": [0, 1]})
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1], missing=0), pf.Independent())
    plan = pf.protect(frame, scenario).private_sum("on").plan(pf.Pure(1.0))
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("on", scenario, limit=pf.Pure(2.0), dataset="on")
        charged = plan.release(account, id="monday").page()
    uncounted = plan.release().page()
    assert "Charged" in charged[: charged.index("</header>")]
    assert "Not counted" not in charged
    assert "Not counted" in uncounted[: uncounted.index("</header>")]


def test_what_is_left_of_a_divergence_names_its_order():
    """A Rényi divergence is no ε: the first screen and the explanation say its order in the same words."""
    frame = pl.DataFrame({"hour": range(24), "on": [0, 1] * 12})
    secret = pf.Secret("on", domain=[0, 1], missing=0)
    prior = pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    batch = pf.protect(frame, pf.Scenario(secret, prior, order_by="hour")).private_sum("on")
    plan = batch.plan(pf.Renyi(2, 0.5))
    light = plan.evidence().first.lights[0].sentence
    words = re.search(r"epsilon \S+ at alpha 2", light)[0]
    assert words in plan.explain()
