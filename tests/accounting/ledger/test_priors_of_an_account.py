"""An account whose prior was replaced counts every prior that it ever had, in an open ledger and in one opened anew."""

import polars as pl
import pytest
from thinned import thinned

import pufferflow as pf

ROWS = pl.DataFrame({"hour": range(24), "on": [0, 0, 1, 1] * 6})
SECRET = pf.Secret("on", domain=[0, 1], missing=0)


def scenario(stay):
    chain = pf.MarkovChain([[stay, 1 - stay], [1 - stay, stay]])
    return pf.Scenario(SECRET, chain, order_by="hour")


def release(account, of, epsilon):
    pf.protect(ROWS, of).private_sum("on").plan(pf.Pure(epsilon)).release(account)


@pytest.mark.parametrize(
    ("first", "then"),
    thinned([(0.95, 0.6), (0.6, 0.95)], 0.5, unpack=True),
    ids=["to a milder prior", "to a stricter prior"],
)
def test_no_prior_of_an_account_is_forgotten(first, then, tmp_path):
    older, newer = scenario(first), scenario(then)
    path = tmp_path / "ledger.db"
    with pf.Ledger(path) as ledger:
        account = ledger.open("power", older, limit=pf.Pure(20.0))
        release(account, older, 0.5)
        before = account.spent().epsilon
        account = ledger.replace_prior("power", newer, regardless_of_answers=True)
        replaced = account.spent().epsilon
        release(account, newer, 0.5)
        after = account.spent().epsilon
    with pf.Ledger(path) as ledger:
        assert ledger.account("power").spent().epsilon == after
    alone = []
    for number, prior in enumerate((older, newer)):
        plans = [pf.protect(ROWS, of).private_sum("on").plan(pf.Pure(0.5)) for of in (older, newer)]
        alone.append([pf.compose(plans[:count], prior).total for count in (1, 2)])
        assert alone[number][0] < alone[number][1]
    assert before == pytest.approx(alone[0][0])
    assert replaced == pytest.approx(max(alone[0][0], alone[1][0]))
    assert after == pytest.approx(max(alone[0][1], alone[1][1]))


def test_a_data_set_named_by_an_account_has_one_account(tmp_path):
    """A name without a data set is that of its data set, also where another account was opened on it."""
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        ledger.open("first", scenario(0.6), limit=pf.Pure(1.0), dataset="power")
        with pytest.raises(pf.UsageError, match="The data set 'power' has the account 'first'"):
            ledger.open("power", scenario(0.6), limit=pf.Pure(1.0))
