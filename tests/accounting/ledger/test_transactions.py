"""One transaction at a time, of which nothing stays that failed; and names that look alike are one."""

import dataclasses
import math

import ledgers
import polars as pl
import pytest
from ledgers import SCENARIO, plan, ready, release

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.ledger import reserve as reserving
from pufferflow.accounting.ledger.ledger import Ledger


@pytest.fixture
def ledger(file):
    with Ledger(file, wait=0.2) as found:
        yield found


@pytest.fixture
def account(ledger):
    return ledger.open("power", SCENARIO, limit=pf.Pure(30.0))


def test_a_handler_that_asks_the_ledger(ledger, account):
    """A thread inside of a transaction is refused another one, and the first goes on unharmed."""
    asked = account.spent, ledger.verify, ledger.close, lambda: account.reserve(ready(), "inner")

    def work(appender):
        for ask in asked:
            with pytest.raises(pf.UsageError, match="This thread was interrupted"):
                ask()
        return appender.head.number

    assert ledger._log.write(work) == 1
    release(account, ready())
    assert ledger.verify().entries == 3


@pytest.mark.parametrize(
    "failure", [RuntimeError, KeyboardInterrupt, pf.LedgerError, pf.InternalError]
)
def test_what_is_not_kept_is_nowhere(account, monkeypatch, failure):
    """No frame of a failed commit's traceback holds the release or its bytes."""
    made = ready()
    held = account.reserve(made, "x")

    def fail(transaction, digest, body):
        del transaction, digest, body
        raise failure("gone")

    monkeypatch.setattr(reserving, "keep_payload", fail)
    if failure is pf.InternalError:
        held = dataclasses.replace(held, entry="another")
    with pytest.raises(failure) as found:
        held.commit(ledgers.drawn(made, account.reserve(made, "x").entry))
    waiting, frames = [found.value], []
    while waiting:
        error = waiting.pop()
        trace = error.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        waiting += [one for one in (error.__cause__, error.__context__) if one is not None]
    assert len(frames) >= 2
    values = [value for frame in frames for value in frame.f_locals.values()]
    assert not any(isinstance(value, pf.Release | bytes | pl.DataFrame) for value in values)


def test_names(ledger, account):
    """Names that look alike are one; outer blanks are refused; who asks for another is given those that exist."""
    ledger.open("pow\u00e9r", SCENARIO, limit=pf.Pure(1.0), dataset="other homes")
    assert ledger.account("powe\u0301r").name == "pow\u00e9r"
    for name in ("power ", " power"):
        with pytest.raises(pf.UsageError, match="blanks at its ends"):
            account.release(name)
    with pytest.raises(pf.UsageError, match="was opened: 'powér', 'power'"):
        ledger.account("powr")
    with pytest.raises(pf.UsageError, match="separate is of type str"):
        ledger.open("more", SCENARIO, limit=pf.Pure(1.0), separate="no")


def test_a_total_that_fails_begins_anew(account, monkeypatch):
    """What was half revealed about a total is thrown away, unless it was a refusal."""
    release(account, ready(), "1")
    for error, same in (
        (pf.Refused("no"), True),
        (pf.InternalError("ours"), False),
        (MemoryError(), False),
    ):
        before = account._log.read(lambda reader: reader.spent("power"))

        def fail(spent, *_, error=error, **__):
            del spent
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(AccountCosts, "total", fail)
            with pytest.raises(type(error)):
                account.spent()
        assert (account._log.read(lambda reader: reader.spent("power")) is before) is same
    assert math.isclose(account.spent().epsilon, 1.0)


def test_after_is_what_will_be_spent(account):
    """The total with one more release of a plan is what is spent once it was made; asking charges nothing."""
    for count in (1, 2):
        told = account.after(plan(1.0))
        assert len(account.history()) == count - 1
        release(account, ready(1.0))
        assert told == account.spent()
        assert told.epsilon == pytest.approx(count)
    with pytest.raises(pf.UsageError):
        account.after(1.0)
