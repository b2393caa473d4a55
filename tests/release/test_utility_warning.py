"""`release()` says before anything is spent which numbers say nothing, and is silent of others."""

import warnings

import polars as pl
import pytest

import pufferflow as pf

ROWS = pl.DataFrame({"kw": [1.0, 2.0, 1.4] * 300, "day": ["mon"] * 897 + ["sun"] * 3})
SCENARIO = pf.Scenario(
    pf.Secret("kw", domain=pf.Interval(0, 11), missing=0), pf.Independent(), public=["day"]
)


def batch(rows=ROWS):
    return pf.protect(rows.lazy(), SCENARIO)


def warned(made, epsilon=1.0):
    """Return what is warned of as a release is made, once the rows are counted."""
    plan = made.plan(epsilon=epsilon)
    plan.summary()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", pf.UtilityWarning)
        plan.release()
    return [str(one.message) for one in found]


def test_a_useless_mean_is_warned_of_with_a_way_on():
    """A mean of 1.47 kW, ± 11, was released without a word."""
    (said,) = warned(batch(ROWS.tail(3)).private_mean("kw"), epsilon=1.0)
    assert said == (
        "Useless numbers: kw_mean says nothing: noise of ± 11 hides a difference of 2.75; "
        "remedies: 16 times the epsilon, or pairs that are nearer, another prior. plan.check() shows each number."
    )


def test_useful_and_unknown_numbers_are_not_warned_of():
    """Nor weak ones, which say something, nor those of which nobody can tell."""
    assert warned(batch().private_mean("kw"), epsilon=1.0) == []
    assert warned(batch().private_count(pl.col("kw") > 1, name="high"), epsilon=0.02) == []
    unknown = pf.Scenario(pf.Presence("person", "kw", pf.Interval(0, 11), rows=1), pf.Independent())
    rows = ROWS.with_columns(person=pl.int_range(pl.len()))
    assert warned(pf.protect(rows, unknown).private_count(), epsilon=1e-3) == []


def test_groups_are_counted_and_one_of_them_is_named():
    (said,) = warned(batch().group_by("day").private_mean("kw"), epsilon=1.0)
    assert "kw_mean says nothing in 1 of 2 groups, such as day=sun: noise" in said
    assert "fewer groups" in said


def test_many_outputs_are_one_warning():
    few = batch(ROWS.tail(3))
    for place in range(6):
        few = few.private_mean("kw", name=f"mean {place}\x1b")
    (said,) = warned(few, epsilon=0.1)
    assert said.count("says nothing") == 3
    assert "the same holds for 3 more outputs" in said
    assert "\x1b" not in said


def test_the_warning_names_the_line_that_asked():
    """Each of the ways to a release, a batch's and a plan's; rows of a chain are counted by planning itself."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1], missing=0), chain, order_by="hour")
    own = pf.protect(pl.DataFrame({"hour": [0, 1], "on": [0, 1]}), scenario).private_mean("on")
    for made, how in ((own, {"epsilon": 1.0}), (own.plan(epsilon=1.0), {})):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", pf.UtilityWarning)
            made.release(**how)
        assert [one.filename for one in found] == [__file__]


def test_nothing_is_read_for_a_warning():
    """Independent rows are counted in the one pass that adds them up, when the cost is reserved: it is silent then."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pf.UtilityWarning)
        batch(ROWS.tail(3)).private_mean("kw").release(epsilon=1.0)


def few_plan():
    plan = batch(ROWS.tail(3)).private_mean("kw").plan(epsilon=1.0)
    plan.summary()
    return plan


def test_as_an_error_nothing_is_spent(tmp_path):
    """Who turns the warning into an error has neither a release nor a cost."""
    with pf.Ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        account = ledger.open("a", SCENARIO, limit=pf.Pure(2.0), dataset="power")
        with warnings.catch_warnings():
            warnings.simplefilter("error", pf.UtilityWarning)
            with pytest.raises(pf.UtilityWarning, match="kw_mean says nothing"):
                few_plan().release(account, id="first")
        assert account.spent() == pf.Pure(0.0)
        assert account.find("first") is None


def assumed(secret, prior=None, *, ask="kw"):
    scenario = pf.Scenario(secret, prior or pf.Independent())
    rows = pl.DataFrame({"kw": [0.736, None, float("nan")], "person": [1, 2, 3]})
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", pf.UtilityWarning)
        pf.protect(rows, scenario).private_sum(ask).plan(epsilon=1.0)
    assert all(one.filename == __file__ for one in found)
    return [str(one.message) for one in found]


def test_what_missing_values_are_taken_for_is_said_at_plan():
    """Nulls that are read as 0 published .736 for a true mean of .914, and nothing said so."""
    (said,) = assumed(pf.Secret("kw", domain=pf.Interval(0, 11)))
    assert said == (
        "Assumed missing=: null and NaN in 'kw' count as 0, since missing= was left out. "
        'missing="skip" leaves them out of answers; any other value is read in their place.'
    )
    (said,) = assumed(pf.Presence("person", "kw", pf.Interval(2, 11), rows=1))
    assert "count as 2" in said


@pytest.mark.parametrize("missing", [0, 5.5, "skip"])
def test_who_says_it_is_not_warned(missing):
    assert assumed(pf.Secret("kw", domain=pf.Interval(0, 11), missing=missing)) == []
    assert assumed(pf.Presence("person", "kw", pf.Interval(0, 11), missing, rows=1)) == []


def test_stored_scenarios_are_not_warned_of():
    """Nobody knows whether it was left out when they were made."""
    scenario = pf.Scenario(pf.Secret("kw", domain=pf.Interval(0, 11)), pf.Independent())
    assert assumed(pf.Scenario.from_json(scenario.to_json()).secret) == []


@pytest.mark.slow
def test_a_search_that_was_cut_short_is_warned_of():
    """Noise may then be larger than it has to be."""
    chain = pf.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    scenario = pf.Scenario(pf.Secret("on", domain=[0, 1], missing=0), chain, order_by="hour")
    rows = pl.DataFrame({"hour": range(500), "on": [0, 1] * 250})
    asked = pf.protect(rows, scenario).private_sum("on")
    short, whole = (asked.plan(pf.Approx(1.0, 1e-6), seconds=seconds) for seconds in (1e-9, None))
    for plan, expected in ((short, 1), (whole, 0)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", pf.UtilityWarning)
            plan.release()
        said = [
            str(one.message)
            for one in found
            if str(one.message).startswith("Larger noise: planning was limited")
        ]
        assert len(said) == expected


LABELS = pl.DataFrame({"income": ["<=50K", ">50K"] * 4, "person": range(8)})


def count_of(condition, secret=None):
    scenario = pf.Scenario(
        secret or pf.Secret("income", domain=["<=50K", ">50K"], missing="skip"), pf.Independent()
    )
    return pf.protect(LABELS, scenario).private_count(condition, name="n")


@pytest.mark.parametrize(
    "condition",
    [pl.col("income") == ">60K", pl.col("income").is_in(["a", "b"])],
)
def test_a_condition_that_no_value_changes_is_warned_of(condition):
    """A label with a typing error gave an exact 0 without a word."""
    made = count_of(condition)
    (said,) = warned(made)
    assert said.startswith("Constant numbers: n is the same for any private values.")
    assert "same for any private values" in made.plan(epsilon=1.0).check()["finding"][0]


def test_other_conditions_are_not():
    """One that a value changes; and under presence a count of all rows, which each unit changes."""
    presence = pf.Scenario(pf.Presence("person", rows=1), pf.Independent())
    everyone = pf.protect(LABELS, presence).private_count(name="n")
    for made in (count_of(pl.col("income") == ">50K"), everyone):
        assert not [one for one in warned(made, 20.0) if "Constant" in one]
