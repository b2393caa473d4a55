"""What `verify` owes: whatever is edited, left out, added, moved or put back is found, and it says where."""

import hashlib
import json
import re
import shutil
import sqlite3

import pytest
import sqlalchemy as sa
from ledgers import OTHER_PRIOR, SCENARIO, ready, release
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.ledger.ledger import Ledger


@pytest.fixture
def filled(address):
    """The address of a ledger with eight entries, and its head."""
    with Ledger(address) as ledger:
        account = ledger.open("power", SCENARIO, limit=pf.Pure(9.0))
        release(account, ready(), "a")
        account.reserve(ready(0.5), "b")
        ledger.replace_prior("power", OTHER_PRIOR, regardless_of_answers=True)
        release(account, ready(scenario=OTHER_PRIOR), "c")
        ledger.open("water", SCENARIO, limit=pf.Pure(1.0), dataset="water")
        return address, ledger.head()


def tampered(address, *statements, **values):
    """Change a ledger behind its back."""
    url = address if "://" in address else f"sqlite:///{address}"
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement), values)


def rechained(address, change):
    """Change events and let every hash follow again, as somebody would who knows how; return the head."""
    url = address if "://" in address else f"sqlite:///{address}"
    engine, head = sa.create_engine(url, poolclass=sa.NullPool), "0" * 64
    with engine.begin() as connection:
        query = "SELECT body FROM pufferflow_events ORDER BY number"
        events = [json.loads(body) for (body,) in connection.execute(sa.text(query))]
        connection.execute(sa.text("DELETE FROM pufferflow_events"))
        for number, event in enumerate(change(events), 1):
            body = json.dumps(event, sort_keys=True, separators=(",", ":"))
            head = hashlib.sha256((head + body).encode()).hexdigest()
            statement = "INSERT INTO pufferflow_events VALUES (:number, :body, :hash)"
            connection.execute(sa.text(statement), {"number": number, "body": body, "hash": head})


def faults(address, head=None):
    """Return what verifying says of a ledger that was changed."""
    with Ledger(address) as ledger, pytest.raises(pf.LedgerError) as found:
        ledger.verify(head)
    return str(found.value)


def test_a_whole_ledger(filled):
    """An untouched ledger is whole; its head is found, and so is every earlier one."""
    address, head = filled
    with Ledger(address) as ledger:
        assert ledger.verify() == ledger.verify(head)
        assert (ledger.verify().entries, ledger.verify().head) == (8, head)
        entry = ledger.account("power").release("a").certificate.entry
        assert ledger.verify(entry).entries == 8
        assert ledger.verify("0:" + "0" * 64).entries == 8
        for none in ("0:" + "1" * 64, "0:" + "f" * 64, f"0:{head[2:]}"):
            with pytest.raises(pf.LedgerError, match="The head that was kept is not in the ledger"):
                ledger.verify(none)


EDITS = {
    "a text": (
        "UPDATE pufferflow_events SET body = replace(body, '0.5', '0.1') WHERE number = 4",
        4,
    ),
    "a time": (
        'UPDATE pufferflow_events SET body = replace(body, \'"at":"2\', \'"at":"1\') WHERE number = 3',
        3,
    ),
    "a space": (
        "UPDATE pufferflow_events SET body = replace(body, '\"at\":', '\"at\": ') WHERE number = 6",
        6,
    ),
    "a hash": (
        "UPDATE pufferflow_events SET hash = replace(hash, substr(hash, 1, 9), '000000000') WHERE number = 5",
        5,
    ),
    "no event": ("UPDATE pufferflow_events SET body = 'nothing' WHERE number = 2", 2),
    "an empty text": ("UPDATE pufferflow_events SET body = '' WHERE number = 1", 1),
    "one left out": ("DELETE FROM pufferflow_events WHERE number = 4", 4),
    "the first left out": ("DELETE FROM pufferflow_events WHERE number = 1", 1),
    "another number": ("UPDATE pufferflow_events SET number = 80 WHERE number = 5", 5),
    "a shape": ("UPDATE pufferflow_shapes SET body = replace(body, 'Laplace', 'Gaussian')", 2),
    "no shapes": ("DELETE FROM pufferflow_shapes", 2),
    "a release": ("UPDATE pufferflow_payloads SET body = :body", 3),
    "no releases": ("DELETE FROM pufferflow_payloads", 3),
    "one added": ("INSERT INTO pufferflow_events VALUES (9, '{}', 'x')", 9),
    "the last copied": (
        "INSERT INTO pufferflow_events SELECT 9, body, hash FROM pufferflow_events WHERE number = 8",
        9,
    ),
}


@pytest.mark.parametrize("name", thinned(EDITS, 0.27))
def test_what_is_changed_is_found(filled, name):
    """Each kind of change is found, and the first entry that does not fit is named."""
    address, _ = filled
    statement, number = EDITS[name]
    tampered(address, statement, **({"body": b"0"} if ":body" in statement else {}))
    if name in {"a shape", "a release"}:  # which of several is met first is no order of entries
        assert re.match(
            r"Entry \d+ does not fit: the (shape|release) that it names was changed",
            faults(address),
        )
    else:
        assert faults(address).startswith(f"Entry {number} does not fit")


def test_two_that_change_places(filled):
    """Entries that change places no longer follow."""
    address, _ = filled
    tampered(
        address,
        "UPDATE pufferflow_events SET number = 100 WHERE number = 3",
        "UPDATE pufferflow_events SET number = 3 WHERE number = 4",
        "UPDATE pufferflow_events SET number = 4 WHERE number = 100",
    )
    assert faults(address).startswith("Entry 3 does not fit")


def test_what_is_left_behind(filled):
    """A shape or a release that no entry names reveals about entries that are gone from the end."""
    address, head = filled
    tampered(address, "DELETE FROM pufferflow_events WHERE number > 6")
    assert "a release that no entry names" in faults(address)
    tampered(
        address, "DELETE FROM pufferflow_events WHERE number > 1", "DELETE FROM pufferflow_payloads"
    )
    assert "a shape that no entry names" in faults(address)
    tampered(address, "DELETE FROM pufferflow_shapes")
    assert "The head that was kept is not in the ledger, which has 1 entries" in faults(
        address, head
    )


def without(number):
    return lambda events: [
        event | {"number": at} for at, event in enumerate(drop(events, number), 1)
    ]


def drop(events, number):
    return [event for event in events if event["number"] != number]


STORIES = {
    "a commit of nothing": (without(2), 2, "it commits what was not reserved in its account"),
    "no account": (without(1), 1, "its account was never opened"),
    "opened twice": (
        lambda events: [*events, events[0] | {"number": 9}],
        9,
        "it opens an account that is open",
    ),
    "committed twice": (
        lambda events: [*events, events[2] | {"number": 9}],
        9,
        "its entry is committed already",
    ),
    "reserved twice": (
        lambda events: [
            *events,
            events[3] | {"number": 9, "fingerprint": events[4]["fingerprint"]},
        ],
        9,
        "its release is reserved already",
    ),
    "an older scenario": (
        lambda events: [*events, events[3] | {"number": 9, "release": "d"}],
        9,
        "its plan is of another scenario",
    ),
    "another account's": (
        lambda events: [*events, events[2] | {"number": 9, "account": "water"}],
        9,
        "it commits what was not reserved in its account",
    ),
    "a wrong number": (
        lambda events: [*events[:7], events[7] | {"number": 80}],
        8,
        "it says that it is another one",
    ),
    "an unknown field": (
        lambda events: [*events[:7], events[7] | {"more": 1}],
        8,
        "it is no event",
    ),
    "an unknown kind": (
        lambda events: [*events[:7], events[7] | {"kind": "forget"}],
        8,
        "it is no event",
    ),
    "another way to write": (
        lambda events: [*events[:3], events[3] | {"total": 2}, *events[4:]],
        4,
        "it is not written as this library writes",
    ),
}


@pytest.mark.parametrize("name", thinned(STORIES, 0.27))
def test_stories_that_make_no_sense(filled, name):
    """A log whose hashes all follow must also make sense."""
    address, _ = filled
    change, number, problem = STORIES[name]
    rechained(address, change)
    assert faults(address).startswith(f"Entry {number} does not fit: {problem}")


def test_a_rewritten_log(filled):
    """Somebody who rewrites the log with hashes that follow is found by a head that was kept, or a certificate's."""
    address, head = filled
    with Ledger(address) as ledger:
        account = ledger.account("power")
        entry = account.release("c").certificate.entry
        rechained(address, lambda events: [event | {"at": "2000"} for event in events])
        with pytest.raises(pf.LedgerError, match="Entry 8 is not what it was"):
            account.spent()
    assert "the release that is kept for it names another entry" in faults(address)
    tampered(address, "DELETE FROM pufferflow_payloads")
    rechained(address, lambda events: [event for event in events if event["kind"] == "open"][:1])
    tampered(address, "DELETE FROM pufferflow_shapes")
    for kept in (head, entry):
        assert "The head that was kept is not in the ledger" in faults(address, kept)


def test_a_scenario_that_is_not_its_own(filled):
    """A scenario has the fingerprint that the entry tells."""
    address, _ = filled
    rechained(
        address,
        lambda events: [
            {**event, "scenario": events[4]["scenario"]} if event["kind"] == "open" else event
            for event in events
        ],
    )
    assert "The scenario of the account 'power' cannot be read" in faults(address)


ALMOST = [
    *(
        "0:anything",
        "0:",
        "0",
        "-0:" + "0" * 64,
        "00:" + "0" * 64,
        "0:" + "0" * 63,
        "0:" + "0" * 65,
        "8:" + "A" * 64,
    ),
    *(
        " 8:" + "0" * 64,
        "8:" + "0" * 64 + "\n",
        "8: " + "0" * 64,
        "8:" + "\u0660" * 64,
        "1" * 19 + ":" + "0" * 64,
    ),
]


@pytest.mark.parametrize(
    "head",
    thinned(
        ["", "8", "8:", 8, "8:abc", "-1:" + "0" * 64, "08:" + "0" * 64, "8:" + "G" * 64, *ALMOST],
        0.24,
    ),
)
def test_heads_that_are_none(filled, head):
    """What is no head is refused, and no ledger is read for it."""
    with Ledger(filled[0]) as ledger, pytest.raises(pf.UsageError, match="head"):
        ledger.verify(head)


def test_a_head_of_the_future(filled):
    """A head that the ledger has not reached is not in it."""
    address, head = filled
    assert "is not in the ledger" in faults(address, head.replace("8:", "9:"))


def test_an_older_copy(tmp_path):
    """A restored older copy looks whole; a head that was kept tells, and so do ledgers that were open meanwhile."""
    file, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with Ledger(file) as ledger:
        ledger.open("power", SCENARIO, limit=pf.Pure(3.0))
    shutil.copy(file, copy)
    with Ledger(file) as ledger:
        account = ledger.account("power")
        release(account, ready())
        head = ledger.head()
        sqlite3.connect(file).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
        copy.replace(file)
        for name in ("ledger.db-wal", "ledger.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        with pytest.raises(pf.LedgerError, match="Entry 3 is not what it was"):
            account.reserve(ready(), None)
    with Ledger(file) as ledger:
        ledger.verify()
    assert "The head that was kept is not in the ledger" in faults(str(file), head)


def test_a_changed_log_is_noticed_in_passing(filled):
    """Reading goes on only from an entry that is what it was, and every event read has to follow."""
    address, _ = filled
    with Ledger(address) as ledger:
        account = ledger.account("power")
        tampered(address, "INSERT INTO pufferflow_events VALUES (9, '{}', 'x')")
        with pytest.raises(pf.LedgerError, match="Entry 9 does not fit"):
            account.reserve(ready(scenario=OTHER_PRIOR), None)
        tampered(address, "DELETE FROM pufferflow_events WHERE number = 9")
        assert len(account.history()) == 3
        tampered(address, "DELETE FROM pufferflow_events WHERE number >= 8")
        with pytest.raises(pf.LedgerError, match="Entry 8 is not what it was"):
            account.spent()


def test_a_changed_release_is_not_given_out(filled):
    """A stored release whose bytes were changed is no release."""
    address, _ = filled
    tampered(address, "UPDATE pufferflow_payloads SET body = :body", body=b"0")
    with Ledger(address) as ledger, pytest.raises(pf.LedgerError, match="missing or was changed"):
        ledger.account("power").release("a")


TAKEN_BACK = """
CREATE TRIGGER taken_back AFTER INSERT ON pufferflow_events WHEN NEW.number > 8
BEGIN DELETE FROM pufferflow_events WHERE number = NEW.number; END"""
IGNORED = """
CREATE TABLE pufferflow_events (
number INTEGER NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (number) ON CONFLICT IGNORE)"""
OBJECTS = {
    "a trigger": [TAKEN_BACK],
    "a view": ["CREATE VIEW latest AS SELECT * FROM pufferflow_events"],
    "an index": ["CREATE INDEX lookup ON pufferflow_events (hash)"],
    "a table": ["CREATE TABLE diary (page TEXT)"],
    "a column": ["ALTER TABLE pufferflow_events ADD COLUMN more TEXT"],
    "a clause": [
        "ALTER TABLE pufferflow_events RENAME TO pufferflow_old",
        IGNORED,
        "INSERT INTO pufferflow_events SELECT * FROM pufferflow_old",
        "DROP TABLE pufferflow_old",
    ],
    "a view for a table": [
        "ALTER TABLE pufferflow_shapes RENAME TO shapes",
        "CREATE VIEW pufferflow_shapes AS SELECT * FROM shapes",
    ],
}
FUNCTION = "CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
OBJECTS_OF_A_SERVER = {
    "a trigger": [
        FUNCTION,
        "CREATE TRIGGER back BEFORE INSERT ON pufferflow_events FOR EACH ROW EXECUTE FUNCTION back()",
    ],
    "a rule": ["CREATE RULE back AS ON INSERT TO pufferflow_payloads DO INSTEAD NOTHING"],
    "no log": ["ALTER TABLE pufferflow_events SET UNLOGGED"],
    "hidden rows": ["ALTER TABLE pufferflow_events ENABLE ROW LEVEL SECURITY"],
    "an heir": ["CREATE TABLE more () INHERITS (pufferflow_shapes)"],
    "a view for a table": OBJECTS["a view for a table"],
}


def refused(address, statements):
    """Check that no charge is made and nothing verified once statements were run, by who was there and who comes."""
    with Ledger(address) as ledger:
        account = ledger.account("power")
        tampered(address, *statements)
        calls = [
            lambda: account.reserve(ready(0.01, OTHER_PRIOR), "d"),
            account.spent,
            ledger.verify,
        ]
        for call in (*calls, lambda: Ledger(address)):
            with pytest.raises(pf.LedgerError, match="that pufferflow did not make"):
                call()


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", OBJECTS)
def test_what_no_ledger_has(filled, name):
    """Whatever is in the file beside the tables as they were made could take charges back, and is refused."""
    refused(filled[0], OBJECTS[name])


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", OBJECTS_OF_A_SERVER)
def test_what_no_ledger_of_a_server_has(filled, name):
    """What a server does by itself with the rows of a ledger's tables is refused; other tables are others' business."""
    refused(filled[0], OBJECTS_OF_A_SERVER[name])


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_what_a_ledger_may_have(filled):
    """Statistics for the planner, and tables that are written in another way, change nothing."""
    with Ledger(filled[0]) as ledger:
        tampered(
            filled[0],
            "ANALYZE",
            "ALTER TABLE pufferflow_shapes RENAME TO x",
            "ALTER TABLE x RENAME TO pufferflow_shapes",
        )
        release(ledger.account("power"), ready(0.01, OTHER_PRIOR), "d")
        assert ledger.verify().entries == 10
