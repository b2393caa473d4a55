"""A ledger beside a simple model of it: whatever is opened, released, lost, retried and superseded, they agree."""

import shutil
import tempfile
from pathlib import Path

import ledgers
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ledgers import OTHER_PRIOR, SCENARIO, answer, ready

import pufferflow as pf
from pufferflow.accounting.ledger.ledger import Ledger

NAMES = st.sampled_from(["power", "water"])
IDS = st.sampled_from(["a", "b", "c", "d", None])
EPSILONS = st.sampled_from([0.25, 0.5, 1.0])
SCENARIOS = [SCENARIO, OTHER_PRIOR]
LIMIT = 2.0


class Machine(RuleBasedStateMachine):
    """Two ledgers on one file, which take turns, and what they should tell."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.file = self.folder / "ledger.db"
        self.ledgers = [Ledger(self.file), Ledger(self.file)]
        self.model = {}  # account: [number of its scenario, {id: [epsilon, scenario, noise or None]}]
        self.heads = []
        self.unnamed = 0

    def turn(self):
        self.ledgers.reverse()
        return self.ledgers[0]

    @rule(name=NAMES)
    def open(self, name):
        at = self.model.setdefault(name, [0, {}])[0]
        self.turn().open(name, SCENARIOS[at], limit=pf.Pure(LIMIT), dataset=name)

    @rule(name=NAMES)
    def open_another_way(self, name):
        if name in self.model:
            other = SCENARIOS[1 - self.model[name][0]]
            with pytest.raises(pf.UsageError, match="exists and has another prior"):
                self.turn().open(name, other, limit=pf.Pure(LIMIT), dataset=name)

    @precondition(lambda self: self.model)
    @rule(name=NAMES, one=IDS, epsilon=EPSILONS, dies=st.booleans(), newest=st.booleans())
    def release(self, name, one, epsilon, dies, newest):
        """Release, or die between reserving and committing."""
        if name not in self.model:
            return
        at, entries = self.model[name]
        at = at if newest else 1 - at
        account, made = self.turn().account(name), ready(epsilon, SCENARIOS[at])
        known = entries.get(one)
        if known is not None and known[:2] != [epsilon, at]:
            with pytest.raises(pf.UsageError, match="another plan"):
                account.reserve(made, one)
        elif known is None and at != self.model[name][0]:
            with pytest.raises(pf.UsageError, match="another scenario"):
                account.reserve(made, one)
        elif known is None and self.spent(name) + epsilon > LIMIT:
            with pytest.raises(pf.LimitReached):
                account.reserve(made, one)
        else:
            self.reserve(account, made, one, epsilon, at, entries, dies=dies)

    def reserve(self, account, made, one, epsilon, at, entries, *, dies):
        held = account.reserve(made, one)
        chosen = one or account.history()[-1].release_id
        entry = entries.setdefault(chosen, [epsilon, at, None])
        assert (held.stored is not None) == (entry[2] is not None)
        if held.stored is not None:
            assert answer(held.stored) == entry[2]
        elif not dies:
            drawn = ledgers.drawn(made, held.entry)
            entry[2] = answer(drawn)
            assert answer(held.commit(drawn)) == entry[2]

    @precondition(lambda self: self.model)
    @rule(name=NAMES)
    def commit_twice(self, name):
        """Complete what is pending by two at once."""
        if name not in self.model:
            return
        account, other = (ledger.account(name) for ledger in self.ledgers)
        for one, entry in self.model[name][1].items():
            if entry[2] is None:
                made = ready(entry[0], SCENARIOS[entry[1]])
                held = [account.reserve(made, one), other.reserve(made, one)]
                drawn = [ledgers.drawn(made, each.entry) for each in held]
                entry[2] = answer(drawn[0])
                assert {
                    answer(each.commit(draw)) for each, draw in zip(held, drawn, strict=True)
                } == {entry[2]}

    @rule(name=NAMES)
    def replace_prior(self, name):
        if name in self.model:
            self.model[name][0] = 1
            assert (
                self.turn().replace_prior(name, OTHER_PRIOR, regardless_of_answers=True).scenario
                == OTHER_PRIOR
            )

    @rule()
    def reopen(self):
        self.ledgers[0].close()
        self.ledgers[0] = Ledger(self.file)

    @rule()
    def keep_the_head(self):
        self.heads.append(self.turn().head())

    def spent(self, name):
        return sum(epsilon for epsilon, _, _ in self.model[name][1].values())

    @invariant()
    def they_agree(self):
        if not hasattr(self, "ledgers"):
            return
        ledger = self.turn()
        assert set(ledger.accounts()) == set(self.model)
        for name, (at, entries) in self.model.items():
            account = ledger.account(name)
            assert account.scenario == SCENARIOS[at]
            assert account.spent().epsilon == pytest.approx(self.spent(name), abs=1e-9)
            assert account.spent().epsilon <= LIMIT
            told = {
                entry.release_id: (entry.promise.epsilon, entry.state)
                for entry in account.history()
            }
            states = {True: "reserved", False: "committed"}
            assert told == {
                one: (entry[0], states[entry[2] is None]) for one, entry in entries.items()
            }

    def teardown(self):
        if not hasattr(self, "ledgers"):
            return
        for head in [None, *self.heads]:
            self.ledgers[0].verify(head)
        for name, (_, entries) in self.model.items():
            account = self.ledgers[1].account(name)
            for one, entry in entries.items():
                if entry[2] is not None:
                    assert answer(account.release(one)) == entry[2]
        for ledger in self.ledgers:
            ledger.close()
        shutil.rmtree(self.folder)


class Longer(Machine):
    """The same for longer."""


class Longest(Machine):
    """The same for as long as nobody waits."""


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=8, stateful_step_count=20, deadline=None)
TestLonger = pytest.mark.slow(Longer.TestCase)
TestLonger.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestLongest = pytest.mark.nightly(Longest.TestCase)
TestLongest.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
