"""An account says in words why its total is what it is, and what is left if a prior is wrong; nothing is claimed."""

import html
import json

import polars as pl
import pytest
from thinned import thinned
from typer.testing import CliRunner

import pufferflow as pf
from pufferflow.accounting.ledger.ledger import facts_of
from pufferflow.cli.app import app
from pufferflow.reports import pages as report
from pufferflow.reports.numbers import SPENT, at_most

LEVEL = pf.Secret("level", domain=[0, 1])
STAY = [[0.9, 0.1], [0.1, 0.9]]
HOURS = 48
FRAME = pl.DataFrame(
    {
        "house": ["a"] * HOURS + ["b"] * HOURS,
        "hour": [*range(HOURS)] * 2,
        "level": [0, 1] * HOURS,
        "watts": [0.0, 3.5] * HOURS,
    }
)
WATTS = pf.Secret("watts", domain=pf.Interval(0, 10))


def scenario_of(prior, secret=LEVEL, **options):
    return pf.Scenario(secret, prior, **{"order_by": "hour", "within": "house", **options})


def released(ledger, scenario, promise=pf.Pure(0.5), column="level", **options):  # noqa: B008 - a frozen promise
    """Return an account with two releases, a day each."""
    account = ledger.open(
        "days", scenario, limit=type(promise)(**{**options.pop("limit", {}), "epsilon": 50.0})
    )
    for day in (0, 1):
        batch = pf.protect(FRAME, scenario)
        if scenario.order_by:
            batch = batch.filter(pl.col("hour").is_between(24 * day, 24 * day + 23))
        batch.private_sum(column).plan(promise, **options).release(account)
    return account


@pytest.fixture
def ledger(tmp_path):
    with pf.Ledger(tmp_path / "ledger.db") as found:
        yield found


CASES = {
    "chain": (
        scenario_of(pf.MarkovChain(STAY)),
        {},
        "A row's 'level' is forgotten to 1 % after 21 steps",
    ),
    "stuck": (
        scenario_of(pf.MarkovChain([[0.0, 1.0], [1.0, 0.0]])),
        {"bound": pf.Group()},
        "Each window counts by the law of its whole sum",
    ),
    "class of chains": (
        scenario_of(
            pf.MarkovChain.between([[0.85, 0.05], [0.05, 0.85]], [[0.95, 0.15], [0.15, 0.95]])
        ),
        {"bound": pf.Messages()},
        "how soon that ends is not one number",
    ),
    "gaussian noise": (
        scenario_of(pf.MarkovChain(STAY)),
        {"promise": pf.Approx(0.5, 1e-6), "noise": pf.Gaussian, "limit": {"delta": 1e-6}},
        "A row's 'level' is forgotten to 1 % after 21 steps",
    ),
    "autoregressive": (
        scenario_of(pf.GaussianPrior(pf.AR1(0.8), variance=4.0, mean=5.0), WATTS),
        {"column": "watts", "noise": pf.Laplace},
        "A row's 'watts' is forgotten to 1 % after 21 steps",
    ),
    "exchangeable": (
        scenario_of(pf.GaussianPrior(pf.Exchangeable(0.3), variance=4.0, mean=5.0), WATTS),
        {"column": "watts", "noise": pf.Laplace},
        "All of the rows of one house move together in one way. Every release adds how far its answer moves",
    ),
    "latent class": (
        scenario_of(pf.LatentClass([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])),
        {},
        "The rows of one house share a class, and a release about any of them reveals something about it",
    ),
    "any": (
        scenario_of(pf.AnyCorrelation()),
        {},
        "The rows of one house may depend on each other in any way, so what all releases reveal about them adds up",
    ),
    "independent": (
        scenario_of(pf.Independent()),
        {},
        "Rows reveal nothing about each other, so only releases about the same row add up",
    ),
    "presence": (
        pf.Scenario(pf.Presence("house", "level", [0, 1], rows=HOURS), pf.Independent()),
        {},
        "Every release that reads the rows of a unit reveals whether they are there, so all of them add up",
    ),
    "initial": (
        scenario_of(pf.MarkovChain(STAY), pf.Initial("level", domain=[0, 1]), start=0),
        {},
        "The first 'level' is forgotten to 1 % after 21 steps",
    ),
    "a class of priors": (
        scenario_of([pf.MarkovChain(STAY), pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]])]),
        {"bound": pf.Messages()},
        "The largest total is under the prior that rows form a Markov chain",
    ),
}


@pytest.mark.parametrize("name", thinned(CASES, 0.25))
def test_every_belief_has_its_reason(ledger, name):
    """Why a total is what it is hangs on how rows depend on each other, and on the rule that carries it."""
    scenario, options, words = CASES[name]
    told = released(ledger, scenario, **options).explain()
    assert words in told
    assert "(differential privacy of " in told
    assert "(group privacy): " in told


def test_a_row_is_forgotten_when_it_is():
    """After so many steps, and not after one less, the laws given any two states differ by at most 1 %."""
    from pufferflow.models.priors.memory import forgotten_after

    steps = forgotten_after(pf.MarkovChain(STAY))
    assert (0.8**steps <= 0.01, 0.8 ** (steps - 1) <= 0.01) == (True, False)


def test_an_hour_is_an_hour_in_words(ledger):
    """Where steps are durations, so is the time after which a row is forgotten."""
    times = pl.datetime_range(
        pl.datetime(2026, 11, 1), pl.datetime(2026, 11, 2, 23), "1h", eager=True
    )
    scenario = pf.Scenario(LEVEL, pf.MarkovChain(STAY), order_by="time", step="1h")
    account = ledger.open("hours", scenario, limit=pf.Pure(2.0))
    batch = pf.protect(pl.DataFrame({"time": times, "level": [0, 1] * 24}), scenario)
    batch.private_sum("level").plan(pf.Pure(0.5)).release(account)
    assert "forgotten to 1 % after 21 steps (21h)" in account.explain()
    assert (
        "if the rows of the whole frame depend on each other in any way"
        in account.explain().lower()
    )


def test_numbers_are_those_of_the_account(ledger):
    """The text names what `spent`, `differential_privacy` and `group_privacy` return, rounded up."""
    account = released(ledger, CASES["chain"][0])
    row, group = account.differential_privacy(), account.group_privacy()
    assert row.epsilon < account.spent().epsilon < group.epsilon
    for kept in (account.spent(), row, group):
        assert f"epsilon {at_most(kept.epsilon, SPENT)}" in account.explain()


@pytest.mark.parametrize("name", ["presence", "derived", "elsewhere"])
def test_nothing_is_claimed_of_rows_whose_value_is_not_hidden(ledger, name):
    """No text says that a row's value is differentially private where nobody proved it."""
    table = pf.Table(
        pl.DataFrame(
            {"ill": [0, 0, 1, 1], "level": [0, 1, 0, 1], "probability": [0.3, 0.2, 0.2, 0.3]}
        )
    )
    scenarios = {
        "presence": CASES["presence"][0],
        "derived": pf.Scenario(pf.Derived("ill"), table),
        "elsewhere": pf.Scenario(pf.Secret("ill", domain=[0, 1]), table),
    }
    scenario = scenarios[name]
    account = ledger.open("days", scenario, limit=pf.Pure(9.0))
    frame = FRAME.with_columns(ill=pl.lit(0)) if name == "elsewhere" else FRAME
    pf.protect(frame, scenario).private_sum("level").plan(pf.Pure(0.5)).release(account)
    assert account.differential_privacy() is None
    assert "nothing is said about a row's" in account.explain()
    assert account.budget().what_if[0].epsilon is None


def test_pairs_are_named_where_they_are_not_all(ledger):
    """Differential privacy is over the values that are hidden from each other, and of the first row for pf.Initial."""
    near = pf.Secret("level", domain=[0, 1], pairs=[(0, 1)])
    account = released(ledger, scenario_of(pf.MarkovChain(STAY), near))
    assert (
        "differential privacy of one row, between the values that are hidden from each other"
        in account.explain()
    )


@pytest.mark.slow
def test_terminals_and_pages_say_it(ledger, tmp_path):
    """`ledger show` and the page of a ledger have the reason and both numbers."""
    account = released(ledger, CASES["chain"][0])
    row, group = account.differential_privacy(), account.group_privacy()
    place = str(tmp_path / "ledger.db")
    text = CliRunner().invoke(app, ["ledger", "show", place, "--account", "days"]).stdout
    shown = CliRunner().invoke(app, ["ledger", "show", place, "--json"]).stdout
    page = html.unescape(report.ledger_page(facts_of(ledger)))
    for part in ("A row's 'level' is forgotten to 1 % after 21 steps", at_most(row.epsilon, SPENT)):
        assert part in text
        assert part in page
    assert at_most(group.epsilon, SPENT) in text
    told = json.loads(shown)["accounts"][0]
    assert told["explanation"] == account.explain()
    assert told["differential_privacy"]["epsilon"] == row.epsilon
    assert told["group_privacy"]["epsilon"] == group.epsilon


def test_an_account_without_releases_says_so(ledger):
    """Nothing is spent, and nobody knows why."""
    account = ledger.open("days", CASES["chain"][0], limit=pf.Pure(1.0))
    assert account.explain().splitlines()[0] == "Spent: epsilon 0 of Pure(epsilon=1.0)."
    assert account.differential_privacy() == account.group_privacy() == pf.Pure(0.0)
