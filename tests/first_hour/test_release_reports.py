"""The page of a release has the evidence of its plan; where the plan is not at hand, nothing is to be signed."""

import copy
import pickle

import polars as pl
import pytest

import pufferflow as pf

CHAIN = pf.Scenario(
    pf.Secret("on", domain=[0, 1]), pf.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), order_by="hour"
)
SIGN = 'class="sign"'


@pytest.fixture
def plan():
    return (
        pf.protect(pl.DataFrame({"hour": range(24), "on": [0, 1] * 12}), CHAIN)
        .private_sum("on")
        .plan(pf.Pure(1.0))
    )


def whole(html):
    """Whether a page has the plan's sentence with a place to sign, and the worst pair of secrets."""
    return (
        SIGN in html
        and 'id="worst"' in html
        and "The plan of this release is not available" not in html
    )


@pytest.mark.slow
def test_the_page_of_a_release_has_the_evidence_of_its_plan(plan, tmp_path):
    """Without a word, however the release was made: by a plan, by a batch, or kept by an account."""
    path = tmp_path / "page.html"
    assert whole(plan.release().report(path).read_text(encoding="utf-8"))
    batch = pf.protect(pl.DataFrame({"hour": range(24), "on": [0, 1] * 12}), CHAIN).private_sum(
        "on"
    )
    assert whole(batch.release(epsilon=1.0).page())
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("a", CHAIN, limit=pf.Pure(3.0))
        pages = [plan.release(account, "first").page() for _ in range(2)]
    assert all(map(whole, pages))


@pytest.mark.slow
def test_nothing_is_to_be_signed_where_the_plan_is_not_at_hand(plan, tmp_path):
    """A page says what to do instead; with the evidence of the plan, made again, it is whole."""
    folder = plan.release().write_parquet(tmp_path / "there")
    read = pf.Release.read(folder)
    html = read.page()
    assert SIGN not in html
    assert "release.report(path, plan.evidence())" in html
    assert whole(read.page(plan.evidence()))


@pytest.mark.slow
def test_evidence_beside_a_release_is_on_its_page(plan, tmp_path):
    """So a folder that a job wrote has its whole page in Python too; evidence of another plan is refused."""
    folder = plan.release().write_parquet(tmp_path / "there")
    (folder / "evidence.json").write_bytes(plan.evidence().to_json())
    assert whole(pf.Release.read(folder).page())
    other = pf.protect(pl.DataFrame({"hour": range(24), "on": [0, 1] * 12}), CHAIN).private_sum(
        "on"
    )
    (folder / "evidence.json").write_bytes(other.plan(pf.Pure(2.0)).evidence().to_json())
    with pytest.raises(pf.UsageError, match="to another plan than the release"):
        pf.Release.read(folder).page()


def test_a_release_that_is_copied_knows_no_private_frame(plan):
    """Copies and pickles are numbers with their certificate; so is what is stored."""
    release = plan.release()
    for same in (
        pickle.loads(pickle.dumps(release)),
        copy.deepcopy(release),
        pf.Release.from_bytes(release.to_bytes()),
    ):
        assert same.frame.equals(release.frame)
        assert same.plan_evidence is None
    assert "evidence" not in repr(release)


@pytest.mark.slow
def test_evidence_is_worked_out_when_a_page_is_written(plan, monkeypatch):
    """A release costs no more for it: worst pairs and other bounds are looked for when somebody wants to see them."""
    asked = []
    true = pf.Plan.evidence
    monkeypatch.setattr(pf.Plan, "evidence", lambda plan: asked.append(plan) or true(plan))
    release = plan.release()
    assert asked == []
    release.page()
    assert asked == [plan]
