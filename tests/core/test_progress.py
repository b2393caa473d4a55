"""Progress: seen at a terminal by those who wait, by nobody else, and gone afterwards."""

import io
import subprocess
import sys
import threading
import time
import types

import pytest
from thinned import thinned

from pufferflow.core import progress
from pufferflow.core.progress import working

PATIENCE = 20


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


class Gone(Terminal):
    """A terminal that was closed from the other side."""

    def write(self, _):
        raise OSError(5, "Input/output error")


def at(monkeypatch, stream, after=0.01):
    """Put a stream in the place of stderr, and show work early."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "SHOWN_AFTER", after)
    return stream


def seen(terminal, text):
    """Wait until a text has appeared."""
    end = time.monotonic() + PATIENCE
    while text not in terminal.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    return text in terminal.getvalue()


def restored(terminal):
    """Say whether the cursor is back and the last line was wiped after all that was drawn."""
    drawn = terminal.getvalue()
    return drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") == 1 and drawn.endswith(
        "\x1b[1A\x1b[2K"
    )


def test_it_is_silent_where_no_terminal_is(monkeypatch):
    """A file, a closed stream or none at all gets nothing, however long the work lasts, and no thread is started."""
    closed = io.StringIO()
    closed.close()
    for stream in (at(monkeypatch, io.StringIO()), None, closed):
        at(monkeypatch, stream)
        with working("Reading", total=3) as work:
            time.sleep(0.05)
            work.advance(3)
        assert work._timer is None
        assert stream is None or stream.closed or not stream.getvalue()


def test_it_is_silent_for_short_work(monkeypatch):
    """What ends within a second and a half is never shown, not even when it ends while being shown."""
    assert progress.SHOWN_AFTER == 1.5
    terminal = at(monkeypatch, Terminal(), after=1.5)
    with working("Reading") as work:
        work.advance()
    work._timer.join(PATIENCE)
    assert not work._timer.is_alive()
    work._show(terminal)
    assert not terminal.getvalue()
    assert not progress._shown.locked()


@pytest.mark.parametrize("total", thinned([None, 5], 0.5))
def test_it_appears_after_the_delay_and_goes_again(monkeypatch, total):
    """Long work is shown with its text as it is and the time since it began, and leaves the terminal as it was."""
    terminal = at(monkeypatch, Terminal(), after=0.4)
    with working("Reading [day]", total) as work:
        work._began -= 65
        work.advance(2)
        assert not terminal.getvalue()
        assert seen(terminal, "Reading [day]")
        assert seen(terminal, "0:01:05")
        assert ("2/5" in terminal.getvalue()) == (total == 5)
    assert restored(terminal)


def test_the_terminal_is_restored_after_errors(monkeypatch):
    """An error passes, and the display is gone before it is shown."""
    terminal = at(monkeypatch, Terminal())

    def fail():
        with working("Reading"):
            assert seen(terminal, "Reading")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert restored(terminal)
    assert not progress._shown.locked()


def test_threads_may_advance_together(monkeypatch):
    """No part is lost, whichever thread did it."""
    terminal = at(monkeypatch, Terminal())
    with working("Reading", total=8000) as work:
        threads = [
            threading.Thread(target=lambda: [work.advance() for _ in range(1000)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen(terminal, "8000/8000")


def test_one_work_is_shown_at_a_time(monkeypatch):
    """What begins inside another work is silent; afterwards there is room again."""
    outer, inner, later = Terminal(), Terminal(), Terminal()
    at(monkeypatch, outer)
    with working("Planning"):
        assert seen(outer, "Planning")
        at(monkeypatch, inner)
        with working("Reading") as work:
            work._timer.join(PATIENCE)
            work.advance()
    assert not inner.getvalue()
    at(monkeypatch, later)
    with working("Drawing"):
        assert seen(later, "Drawing")


def test_what_is_printed_goes_where_it_was_meant_to(monkeypatch, capsys):
    """A table printed to stdout meanwhile is not moved to stderr."""
    terminal = at(monkeypatch, Terminal())
    with working("Reading"):
        assert seen(terminal, "Reading")
        print("a table")  # noqa: T201 - printing is what is tested
    assert capsys.readouterr().out == "a table\n"
    assert "a table" not in terminal.getvalue()


def test_terminals_that_cannot_show_it(monkeypatch):
    """A dumb terminal stays empty, and one that has gone away does no harm."""
    dumb = at(monkeypatch, Terminal())
    monkeypatch.setenv("TERM", "dumb")
    with working("Reading") as work:
        work._timer.join(PATIENCE)
    assert not dumb.getvalue()
    at(monkeypatch, Gone())
    with working("Reading") as work:
        work._timer.join(PATIENCE)
        work.advance()
    assert not progress._shown.locked()


@pytest.mark.slow
def test_nothing_is_loaded_until_it_is_shown():
    """Importing the package, and work that nobody sees, load no display."""
    code = (
        "import sys; from pufferflow.core.progress import working\n"
        "with working('Reading') as work: work.advance()\n"
        "assert not {'rich', 'numpy'} & set(sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_steps_are_shown_with_the_work(monkeypatch):
    """What has begun stands beside the text, wherever in the work it is said; outside any work nothing happens."""
    terminal = at(monkeypatch, Terminal())
    progress.doing("nothing")
    with working("planning"):
        assert seen(terminal, "planning")
        progress.doing("GWM()")
        assert seen(terminal, "planning: GWM()")
    assert restored(terminal)
    assert "nothing" not in terminal.getvalue()


def test_without_a_terminal_long_steps_are_lines_of_the_log(monkeypatch, caplog):
    """With what is being tried, and how long the work has lasted; short work has none."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    caplog.set_level("INFO", logger="pufferflow")
    with working("planning"):
        progress.doing("GWM()")
        assert not caplog.messages
        progress.doing("Exact()", long=True)
        assert caplog.messages == ["planning: Exact(); 0 s so far."]
        monkeypatch.setattr(progress, "SAID_AFTER", -1.0)
        progress.doing("GWM(), 3 of 5")
    assert caplog.messages[1:] == ["planning: GWM(), 3 of 5; 0 s so far."]


def test_work_is_stopped_when_its_time_is_over():
    """A loop that looks at the clock ends; without an end none does, and an inner end is over with its block."""
    assert list(progress.in_time(range(3))) == [0, 1, 2]
    with progress.until(time.monotonic() - 1):
        with pytest.raises(progress.OutOfTimeError):
            next(progress.in_time(range(3)))
        with progress.until(None):
            progress.check_time()
    progress.check_time()


class Notebook:
    """What IPython shows in a kernel: lines, each of which may be written over."""

    def __init__(self, monkeypatch, kernel="kernel"):
        self.lines, self.fails = [], False
        shell = types.SimpleNamespace(kernel=kernel)
        package = types.SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(sys.modules, "IPython", package)
        display = types.SimpleNamespace(display=self.show)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def show(self, shown, *, raw, display_id):
        assert raw
        assert display_id
        self.update(shown, raw=raw)
        return self

    def update(self, shown, *, raw):
        if self.fails:
            raise RuntimeError("the kernel is gone")
        self.lines.append(shown["text/plain"])

    def getvalue(self):
        return "\n".join(self.lines)


def test_a_notebook_shows_one_line_that_is_written_over(monkeypatch):
    """The line has the text, the parts and the time, no control of a terminal, and is empty at the end."""
    stream, notebook = at(monkeypatch, io.StringIO()), Notebook(monkeypatch)
    monkeypatch.setattr(progress, "_BETWEEN_LINES", 0.0)
    with working("Reading\x1b[2J", total=3) as work:
        assert seen(notebook, "Reading")
        work.advance(2)
        progress.doing("the second file")
    assert any("the second file … 2 of 3, 0 s" in line for line in notebook.lines)
    assert notebook.lines[-1] == ""
    assert all(line.isprintable() for line in notebook.lines)
    assert not stream.getvalue()
    assert not progress._shown.locked()


def test_a_notebook_is_not_flooded(monkeypatch):
    """Of many steps in a moment a notebook shows few; short work shows nothing at all."""
    at(monkeypatch, io.StringIO())
    notebook = Notebook(monkeypatch)
    with working("Reading", total=1000) as work:
        assert seen(notebook, "Reading")
        for _ in range(1000):
            work.advance()
    assert len(notebook.lines) < 20
    monkeypatch.setattr(progress, "SHOWN_AFTER", 60.0)
    with working("Short"):
        pass
    assert not [line for line in notebook.lines if "Short" in line]


def test_a_notebook_that_fails_stops_no_work(monkeypatch):
    """Work goes on if its line cannot be shown, and IPython in a terminal is no notebook."""
    at(monkeypatch, io.StringIO())
    notebook = Notebook(monkeypatch)
    notebook.fails = True
    with working("Reading", total=3) as work:
        work._timer.join(PATIENCE)
        work.advance()
    assert not notebook.lines
    assert not progress._shown.locked()
    Notebook(monkeypatch, kernel=None)
    with working("Reading") as work:
        assert work._timer is None
