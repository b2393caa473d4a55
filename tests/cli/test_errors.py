"""Every kind of error reaches its exit code, in words and as a document, and nothing of a row with it."""

import json
import sys

import pytest

import pufferflow as pf
from pufferflow.cli.errors import EXITS, MEANINGS, exit_code, fault_of
from pufferflow.cli.run import run_to_end
from pufferflow.cli.screen import Screen
from pufferflow.core import errors
from pufferflow.core.errors import PufferflowError
from pufferflow.jobs import sink as folder_sink

PRIVATE = 987654321
RAISED = {
    "a bug inside": ("raise pf.InternalError('It broke.')", "InternalError", 1),
    "no such guarantee": ("raise pf.Refused('No.', allowed='less', instead='more')", "Refused", 3),
    "misuse": ("raise pf.UsageError('No.', allowed='less', instead='more')", "UsageError", 2),
    "a limit": ("raise pf.LimitReached('No.')", "LimitReached", 4),
    "a source": ("raise pf.SourceError('No.')", "SourceError", 5),
    "a ledger": ("raise pf.LedgerError('No.')", "LedgerError", 6),
    "a sink": ("raise pf.SinkError('No.')", "SinkError", 7),
    "Ctrl-C": ("raise KeyboardInterrupt", "Stopped", 130),
    "an end of the program": ("import sys; sys.exit(0)", "UsageError", 2),
    "an error of the job's own": (f"raise RuntimeError('row {PRIVATE}')", "UsageError", 2),
    "no period": ("return pf.protect(frame.clear(), scenario).private_sum('on')", "SourceError", 5),
}
"""What a job's function does, the kind of error that is told, and the code."""


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("json_wanted", [False, True], ids=["words", "json"])
def test_every_error_reaches_its_code(make, give, name, json_wanted):
    """A command exits with the code of the error; programs get one document, people lines on stderr."""
    statement, kind, code = RAISED[name]
    make(f"def build(frame, period):\n    {statement}")
    found = give("run", "job.toml", *(["--json"] if json_wanted else []))
    assert found.exit == code
    assert str(PRIVATE) not in found.out + found.err
    if json_wanted:
        told = found.document
        assert (told["exit"], told["error"]["kind"]) == (code, kind)
        assert set(told["error"]) == {"kind", "problem", "allowed", "instead"}
        assert set(told) == {"error", "exit", "job", "range", "runs", "failures"}
    else:
        assert found.out == ""
        assert found.err.startswith(
            kind if code not in {1, 130} else {1: "This is a bug of ours", 130: "Stopped."}[code]
        )


def test_an_error_says_what_is_allowed_and_what_to_try(make, give):
    """People read the problem, then what is allowed, then what to try, a line each."""
    make("def build(frame, period): raise pf.Refused('No.', allowed='less', instead='more')")
    assert give("plan", "job.toml").err == "Refused: No.\n  allowed: less\n  try: more\n"


USAGE = {
    "no command": [],
    "an unknown command": ["plna"],
    "no argument": ["plan"],
    "an unknown option": ["plan", "job.toml", "--peroid", "x"],
    "no value": ["plan", "job.toml", "--period"],
    "no number": ["audit", "job.toml", "--trials", "many"],
    "a group alone": ["ledger"],
    "too many arguments": ["plan", "a", "b"],
    "no file": ["plan", "nothing.toml"],
    "no period": ["plan", "job.toml", "--period", "tomorrow"],
    "a period that is not over": ["plan", "job.toml", "--period", "2999-01-01"],
    "a period and since": ["run", "job.toml", "--period", "2026-11-20", "--since", "2026-11-20"],
    "since and a revision": ["run", "job.toml", "--since", "2026-11-20", "--revision", "2"],
    "a revision below one": ["run", "job.toml", "--revision", "0"],
    "no ledger": ["ledger", "show", "nothing.db"],
    "a folder as a ledger": ["ledger", "show", "."],
    "an empty file as a ledger": ["ledger", "show", "empty.db"],
    "an address of no kind that there is": ["ledger", "show", "mysql://host/ledger"],
    "a folder that has no release": ["report", ".", "-o", "page.html"],
    "a page without a place": ["report", "."],
    "too few trials": ["audit", "job.toml", "--trials", "1"],
    "too many trials": ["audit", "job.toml", "--trials", "100000001"],
}


@pytest.mark.parametrize("name", USAGE)
def test_misuse_exits_with_two(make, give, tmp_path, name):
    """What is asked for wrongly is told as misuse, with what to do instead, and makes nothing."""
    make()
    (tmp_path / "empty.db").touch()
    before = sorted(tmp_path.iterdir())
    told = give(*USAGE[name], "--json").document
    assert (told["error"]["kind"], told["exit"]) == ("UsageError", 2)
    assert told["error"]["instead"]
    words = give(*USAGE[name])
    assert (words.exit, words.out) == (2, "")
    assert words.err.startswith("UsageError: ")
    assert {*tmp_path.iterdir()} - {*before, tmp_path / "__pycache__"} == set()
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_mistaken_command_is_told_with_those_there_are(give):
    """Programs and people see what may stand there."""
    assert (
        give("ledger").err
        == "UsageError: Missing command.\n  allowed: show, verify, export\n  try: pufferflow ledger --help\n"
    )


def test_what_is_no_ledger_is_not_touched(make, give, tmp_path):
    """Files of others are a ledger's fault, and stay as they are."""
    make()
    (tmp_path / "text.db").write_text("SELECT 1;" * 100)
    assert give("ledger", "show", "text.db", "--json").document["exit"] == 6
    assert (tmp_path / "text.db").read_text() == "SELECT 1;" * 100


def test_a_changed_ledger_exits_with_six(make, give, tmp_path):
    """An entry that was changed by hand does not verify."""
    import sqlite3

    make()
    give("run", "job.toml")
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        (name,) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%event%'"
        ).fetchone()
        connection.execute(f"UPDATE {name} SET body = replace(body, 'hours-2026', 'other-2026')")
    connection.close()
    for more in ([], ["--json"]):
        assert give("ledger", "verify", "ledger.db", *more).exit == 6


def test_a_sink_that_fails_exits_with_seven_and_is_made_good(make, give, tmp_path, monkeypatch):
    """A release whose folder cannot be written is kept, and the same command sends it later."""
    make()
    (tmp_path / "published").write_text("in the way")
    with monkeypatch.context() as patched:
        patched.setattr(
            folder_sink, "check_writable", lambda _: None
        )  # it gets in the way after the release is drawn
        assert (
            give("run", "job.toml", "--period", "2026-11-20", "--json").document["error"]["kind"]
            == "SinkError"
        )
    (tmp_path / "published").unlink()
    found = give("run", "job.toml", "--period", "2026-11-20", "--json").document["runs"][0]
    assert (found["drawn"], found["sent"]) == (False, True)


def test_the_table_has_every_kind():
    """Each kind of error in the public API has a code of the table, subclasses included; anything else is a bug."""
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, PufferflowError)
    ]
    assert {exit_code(kind("x")) for kind in kinds} == {*MEANINGS} - {0, 130}
    assert set(EXITS.values()) == {*MEANINGS} - {0}
    assert exit_code(ValueError()) == 1


class Panic(BaseException):
    """What an engine written in another language raises."""


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(PRIVATE), Panic(PRIVATE), pf.InternalError("It broke.")], ids=repr
)
def test_what_nobody_foresaw_is_told_by_its_class_alone(capsys, error):
    """A bug is owned up to, and its message, which may quote data, is not shown."""

    def work():
        raise error

    assert run_to_end(Screen(out=sys.stdout), work) == 1
    told = capsys.readouterr().err
    assert told.startswith("This is a bug of ours")
    assert "--traceback" in told
    assert str(PRIVATE) not in told
    assert type(error).__name__ in told or "It broke." in told


def test_memory_that_runs_out_is_no_bug():
    """The machine is to blame, and the code is that of what nobody foresaw."""
    found = fault_of(MemoryError())
    assert (found.exit, "memory" in found.problem) == (1, True)


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_traceback_is_shown_if_it_is_asked_for(make, give, monkeypatch, how):
    """With --traceback or the variable the place and the words are shown, on stderr, with a warning first."""
    make(f"def build(frame, period): raise RuntimeError('row {PRIVATE}')")
    if how == "environment":
        monkeypatch.setenv("PUFFERFLOW_TRACEBACK", "1")
    found = give("plan", "job.toml", "--json", *(["--traceback"] if how == "option" else []))
    assert found.err.startswith("A traceback can quote data")
    assert f"RuntimeError: row {PRIVATE}" in found.err
    assert str(PRIVATE) not in found.out
    assert json.loads(found.out)["exit"] == 2
    assert (how == "option") == (str(PRIVATE) not in give("plan", "job.toml").err)


def test_what_a_job_prints_is_no_part_of_a_document(make, give):
    """Functions of a job that print do not spoil the document; what they print goes to stderr."""
    make(
        "print('loaded')\ndef build(frame, period):\n    print('built')\n    raise pf.Refused('No.')"
    )
    found = give("plan", "job.toml", "--json")
    assert found.document["exit"] == 3
    assert {"loaded", "built"} <= {*found.err.splitlines()}


def test_a_password_is_never_shown(give):
    """A server that cannot be reached is revealed about without the password, in words and in documents."""
    pytest.importorskip("psycopg")
    for more in ([], ["--json"]):
        found = give("ledger", "show", "postgresql+psycopg://me:s3cret@localhost:1/ledger", *more)
        assert found.exit == 6
        assert "s3cret" not in found.out + found.err


@pytest.mark.parametrize("value", ["", "0", "false", "no", "1"])
def test_the_variable_for_tracebacks_can_say_no(make, give, monkeypatch, value):
    """Only a value that says yes shows the words of a function that fails."""
    make("def build(frame, period): raise RuntimeError('row 987')")
    monkeypatch.setenv("PUFFERFLOW_TRACEBACK", value)
    assert ("row 987" in give("plan", "job.toml").err) == (value == "1")
