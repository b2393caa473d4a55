"""Ledgers that older versions wrote are read for ever: their totals, their releases, and what is not finished."""

import json
import shutil
from pathlib import Path

import pytest
import written
from thinned import thinned

import pufferflow as pf

KEPT = Path(__file__).parent / "written"
TOLD = {
    kind: json.loads((KEPT / f"{kind}.json").read_text(encoding="utf-8"))
    for kind in ("sound", "refused", "one_method")
}
SOON = {("chain", "open"), ("ar1 renyi", "open"), ("presence", "open"), ("within", "open")}
OTHERWISE_SHARED = ("presence", "open")
"""Reserved, not committed, and of queries that share a guarantee otherwise today: with less noise under pf.Presence."""
PLANS = [
    pytest.param(
        name, release, marks=[] if {(name, release)} & SOON or place == 0 else pytest.mark.slow
    )
    for name, case in written.CASES.items()
    for place, release in enumerate(case.plans)
    if (name, release) != OTHERWISE_SHARED
]


def opened(kind, folder):
    """Return a copy of a ledger; what is kept here is never written to."""
    place = folder / "ledger.db"
    shutil.copy(KEPT / f"{kind}.sqlite", place)
    return pf.Ledger(place)


@pytest.mark.parametrize("kind", TOLD)
def test_it_verifies_with_the_head_of_then_and_is_exported(kind, tmp_path):
    told = TOLD[kind]
    with opened(kind, tmp_path) as ledger:
        assert ledger.verify(told["head"]).entries == told["entries"]
        assert ledger.head() == told["head"]
        assert ledger.accounts() == tuple(told["accounts"])
        assert len(ledger.export(tmp_path / "lines").read_text().splitlines()) == told["entries"]


@pytest.mark.parametrize("name", thinned(written.CASES, 0.24))
def test_totals_may_become_tighter_and_never_larger(name, tmp_path):
    told = TOLD["sound"]["accounts"][name]
    with opened("sound", tmp_path) as ledger:
        account = ledger.account(name)
        assert {entry.release_id: entry.state for entry in account.history()} == told["states"]
        most = max(entry.promise.epsilon for entry in account.history())
        assert most / 2 < account.spent().epsilon <= told["spent"] * (1 + 1e-12)
        assert all(
            entry.total <= charged * (1 + 1e-12) for entry, charged in charged_of(account, told)
        )
        assert account.scenario.fingerprint == told["scenario"]
        assert account.explain()


def charged_of(account, told):
    """Return entries with what they were charged then; totals of before a supersession hold for fewer priors."""
    known = list(zip(account.history(), told["charged"], strict=True))
    return known[-1:] if len(account.scenarios) > 1 else known


@pytest.mark.parametrize(("name", "release"), thinned(PLANS, 0.25, unpack=True))
def test_a_plan_of_today_gets_what_was_committed_and_completes_what_was_not(
    name, release, tmp_path
):
    told = TOLD["sound"]["accounts"][name]
    with opened("sound", tmp_path) as ledger:
        account, spent = ledger.account(name), ledger.account(name).spent()
        case = written.CASES[name]
        plan = case.plans[release](case.scenario)
        found = plan.release(account, id=release)
        if release in told["releases"]:
            assert numbers(found) == told["releases"][release]
            assert ledger.head() == TOLD["sound"]["head"]
        assert account.find(release).frame.equals(found.frame)
        assert account.spent() == spent, "nothing is charged again"


def test_what_was_reserved_with_other_shares_is_refused_and_charged_once(tmp_path):
    name, release = OTHERWISE_SHARED
    with opened("sound", tmp_path) as ledger:
        account, spent = ledger.account(name), ledger.account(name).spent()
        plan = written.CASES[name].plans[release](written.CASES[name].scenario)
        with pytest.raises(pf.UsageError, match="belongs to another plan"):
            plan.release(account, id=release)
        assert account.spent() == spent
        assert plan.release(account, id="anew").frame.height


@pytest.mark.parametrize("name", written.ONE_METHOD)
def test_an_account_of_one_method_goes_on_with_it(name, tmp_path):
    """It has no shares: the method that suited its first release has the whole limit, and counts alone."""
    told, case = TOLD["one_method"]["accounts"][name], written.ONE_METHOD[name]
    with opened("one_method", tmp_path) as ledger:
        account = ledger.account(name)
        (method,) = account.methods()
        assert (method.share, method.alive) == (1.0, True)
        assert {entry.method for entry in account.history()} == {method.name}
        assert account.spent().loss <= told["spent"] * (1 + 1e-12)
        for made in case.plans.values():
            made(case.scenario).release(account)
        assert [one.name for one in account.methods()] == [method.name]
        assert account.history()[-1].method == method.name
        assert account.spent().loss >= told["spent"]
        ledger.verify(told and TOLD["one_method"]["head"])


def test_a_superseded_account_goes_on_with_the_belief_of_then(tmp_path):
    case = written.CASES["superseded"]
    with opened("sound", tmp_path) as ledger:
        found = case.plans["day 0"](case.better).release(ledger.account("superseded"), id="later")
        assert numbers(found) == TOLD["sound"]["accounts"]["superseded"]["releases"]["later"]


def test_a_job_sends_again_what_its_ledger_keeps(tmp_path):
    opened("sound", tmp_path).close()
    for name, text in written.JOB.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    ran = pf.Job.read(tmp_path / "job.toml").run("2026-01-01")
    assert (ran.drawn, ran.sent) == (False, True)
    assert (
        numbers(pf.Release.read(ran.folder)) == TOLD["sound"]["accounts"]["job"]["releases"][ran.id]
    )


def numbers(release):
    """Return a release as plain values, as JSON keeps them."""
    return json.loads(json.dumps(written._numbers(release)))


REFUSED = {name: told for name, told in TOLD["refused"]["accounts"].items() if name != "minus 0"}


@pytest.mark.parametrize("name", TOLD["refused"]["accounts"])
def test_what_was_spent_under_a_belief_that_is_refused_now_can_be_read(name, tmp_path):
    told = TOLD["refused"]["accounts"][name]
    with opened("refused", tmp_path) as ledger:
        account = ledger.account(name)
        assert {entry.release_id: entry.state for entry in account.history()} == told["states"]
        assert 0.25 < account.spent().epsilon <= told["spent"] * (1 + 1e-9)
        assert numbers(account.release("first")) == told["releases"]["first"]
        assert ("this version refuses the prior" in account.explain()) == (name in REFUSED)
        assert account.budget().spent == account.spent().epsilon
        assert account.scenario.fingerprint == told["scenario"]


def test_what_went_out_without_noise_under_a_refused_belief_has_no_total_under_a_sound_one(
    tmp_path,
):
    scenario = pf.Scenario(
        written.FIRST, pf.MarkovChain(written.CHAIN), **written.IN_ORDER, start=0
    )
    with opened("refused", tmp_path) as ledger:
        assert {
            one.scale
            for one in ledger.account("impossible start").release("first").certificate.sums
        } == {0.0}
        with pytest.raises(pf.Refused):
            ledger.replace_prior("impossible start", scenario, regardless_of_answers=True)
        assert ledger.account("impossible start").history()[0].state == "committed"


@pytest.mark.slow
def test_a_ledger_with_refused_beliefs_has_a_page(tmp_path):
    with opened("refused", tmp_path) as ledger:
        page = ledger.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(name in page for name in REFUSED)
    assert page.count("version refuses the prior") == len(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_new_is_planned_under_a_refused_belief(name, tmp_path):
    with opened("refused", tmp_path) as ledger:
        scenario = ledger.account(name).scenario
        for wrong in (
            lambda: pf.protect(written.rows(), scenario),
            lambda: pf.laws(scenario, pf.Statistic.total(2)),
            lambda: ledger.open("another", scenario, limit=pf.Pure(3.0)),
            lambda: ledger.replace_prior("minus 0", scenario, regardless_of_answers=True),
            lambda: pf.Scenario.from_json(scenario.to_json()),
        ):
            with pytest.raises(pf.UsageError):
                wrong()
        assert ledger.head() == TOLD["refused"]["head"]


@pytest.mark.parametrize("name", thinned(written.BETTER, 0.29))
def test_a_refused_belief_is_superseded_and_what_was_spent_stays_charged(name, tmp_path):
    better = written.BETTER[name]
    with opened("refused", tmp_path) as ledger:
        before = ledger.account(name).spent().epsilon
        account = ledger.replace_prior(name, better, regardless_of_answers=True)
        assert account.spent().epsilon >= before
        batch = (
            pf.protect(written.rows(), account.scenario)
            .filter(hour=40)
            .private_sum(written.column_of(better))
        )
        batch.plan(pf.Pure(0.25)).release(account, id="after")
        assert account.history()[-1].state == "committed"
        assert account.spent().epsilon >= before
        assert ledger.verify(TOLD["refused"]["head"]).entries == TOLD["refused"]["entries"] + 3
