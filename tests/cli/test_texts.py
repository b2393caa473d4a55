"""What is shown: names as they are, whatever is in them, on terminals of any width and in any encoding."""

import io
import json
import math
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

import pufferflow as pf
from pufferflow.cli.errors import Fault
from pufferflow.cli.guarantee_texts import of_limit
from pufferflow.cli.output import cell_text, document, lines_of, safe, write
from pufferflow.cli.screen import Screen
from pufferflow.cli.terminal import rendered

ANSI = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = [
    "[bold]x[/bold]",
    ":smile:",
    "[/]",
    "\x1b[2J",
    "a\u202eb",
    "µ-Ω-電",
    "x" * 300,
    "a\nb",
    "\ud800",
]
COLUMNS = ("account", "data set", "spent", "releases")


class Terminal(io.TextIOWrapper):
    """A stream that says that a person looks at it."""

    def __init__(self, encoding="utf-8"):
        super().__init__(io.BytesIO(), encoding=encoding, errors="replace", newline="")

    def isatty(self):
        return True

    @property
    def text(self):
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)


@given(st.text())
def test_nothing_that_is_shown_can_move_a_cursor(text):
    """Whatever a text is, what is shown of it can be printed, nothing is lost, and it is the same shown again."""
    found = safe(text)
    assert len(found) >= len(text)
    assert all(sign.isprintable() or sign == "\n" for sign in found)
    assert safe(found) == found
    assert "\n" not in cell_text(text)


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@pytest.mark.slow
def test_a_document_is_one_line_of_ascii_with_finite_numbers(value):
    """Any value becomes one line of JSON, which reads back with null for what is not finite."""
    text = document({"value": value})
    assert text.isascii()
    assert "\n" not in text
    read = json.loads(text, parse_constant=pytest.fail)["value"]
    if not isinstance(value, list | dict):
        assert read == (None if isinstance(value, float) and not math.isfinite(value) else value)


def test_a_document_knows_promises_dates_and_paths():
    """Structs are objects, dates and paths are texts."""
    value = {"p": pf.Approx(0.5, 1e-6), "d": date(2026, 11, 20), "f": Path("a/b"), "t": (1, None)}
    promise = {"promise": "Approx", "epsilon": 0.5, "delta": 1e-06}
    assert json.loads(document(value)) == {
        "p": promise,
        "d": "2026-11-20",
        "f": "a/b",
        "t": [1, None],
    }


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("width", [200, 80, 40, 1])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_are_shown_as_they_are(monkeypatch, name, width, encoding):
    """On a terminal no markup is read, no line is wider than the terminal, and no sign of a name is cut off."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal(encoding)
    screen = Screen(out=terminal)
    screen.table(COLUMNS, [[name, "b", "epsilon 0.5 of 1", 3]])
    screen.facts([("name", name)])
    screen.say(name)
    lines = ANSI.sub("", terminal.text).splitlines()
    assert all(cell_len(line) <= max(20, width) for line in lines)
    expected = safe(name.replace("\n", " ")).encode(encoding, "replace").decode(encoding)
    together = re.sub(r"[\s─-]", "", "".join(lines))
    assert together.count(re.sub(r"[\s─-]", "", expected)) >= 1 or len(name) == 300
    assert together.count("x") == 900 or len(name) != 300
    assert "\x1b[2J" not in terminal.text


def test_a_pipe_gets_whole_lines_without_colours():
    """Off a terminal each row is one line, however long, and columns are as wide as their widest cell."""
    rows = [["x" * 500, None, "1.5", 10], ["a", "b", "c", 2]]
    lines = lines_of(COLUMNS, rows)
    assert len(lines) == 3
    assert lines[1].split() == ["x" * 500, "-", "1.5", "10"]
    assert lines[1].index("10") == lines[2].index(" 2")
    page = io.StringIO()
    Screen(out=page).table(COLUMNS, rows)
    assert page.getvalue().splitlines() == lines


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")], ids=repr)
def test_colours_can_be_switched_off(monkeypatch, variable):
    """With NO_COLOR, and on terminals without colours, nothing but text is sent."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert ANSI.search(rendered(Text("a", style="bold red"), 80, "utf-8"))
    monkeypatch.setenv(*variable)
    assert rendered(Text("a", style="bold red"), 80, "utf-8") == "a\n"


def test_errors_are_literal_too(capsys):
    """An error that quotes a name shows it without reading markup."""
    Screen().fail(Fault("UsageError", "No [bold]account[/bold] \x1b[2J.", "[a]", "[/b]", 2))
    assert (
        capsys.readouterr().err
        == "UsageError: No [bold]account[/bold] \\x1b[2J.\n  allowed: [a]\n  try: [/b]\n"
    )


def test_a_stream_that_nobody_has_is_no_error(tmp_path):
    """Streams that are missing or closed take what they are given."""
    write(None, "a")
    closed = (tmp_path / "closed").open("w")
    closed.close()
    write(closed, "a")
    Screen().say("a")
    Screen().table(COLUMNS, [])


def test_an_account_with_a_hostile_name(tmp_path, give):
    """Names of accounts come out as they went in, in tables and in documents."""
    name = "[red]µ電[/red] " + "x" * 150
    with pf.Ledger(tmp_path / "ledger.db") as ledger:
        scenario = pf.Scenario(pf.Secret("level", domain=[0, 1]), pf.AnyCorrelation())
        ledger.open(name, scenario, limit=pf.Approx(3.0, 1e-6))
    place = tmp_path / "ledger.db"
    assert name in give("ledger", "show", place).out
    found = give("ledger", "show", place, "--json").document["accounts"][0]
    assert (found["name"], found["last"]) == (name, None)
    assert give("ledger", "show", place, "--account", name).exit == 0


def test_words_round_up():
    """What is spent is told as no less than it is, and not as more digits than people read."""
    assert of_limit(14.999999999999815, pf.Pure(15.0)) == "epsilon 15 of 15"
    assert of_limit(0.12345601, pf.Pure(0.3)) == "epsilon 0.123457 of 0.3"
