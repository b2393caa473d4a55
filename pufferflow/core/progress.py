"""A progress bar for work that takes a while, on stderr, gone when the work is done.

It appears only if stderr is a terminal and the work has lasted longer than `SHOWN_AFTER`. A thread of its own draws it,
so that long steps inside a library show too. One bar is drawn at a time: work inside other work, or beside it, has
none. Output that is printed meanwhile is not redirected.

In a notebook it is one line of text, which is written over, and is empty when the work is done. Elsewhere a wait is a
line of the log: for what, and for how long. Loggers are below "pufferflow"; without a logging set-up, Python prints
warnings on stderr.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar, final

from pufferflow.core.errors import escape_controls

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN_AFTER = 1.5
"""Seconds."""
SAID_AFTER: Final = 3.0
"""Seconds after which a wait is logged."""
_BETWEEN_LINES: Final = 0.5
_log: Final = logging.getLogger(__name__)
_shown = threading.Lock()
_current: ContextVar["Work | None"] = ContextVar("current", default=None)
_end: ContextVar[float | None] = ContextVar("end", default=None)
T = TypeVar("T")


class OutOfTimeError(Exception):
    """The time for a piece of work is over, and its result is not needed; users never see it."""


@contextmanager
def until(end: float | None) -> Generator[None]:
    """Give the work inside until a moment of the monotonic clock; then `check_time` stops it. None means no limit.

    >>> with until(time.monotonic() + 60):
    ...     check_time()
    """
    before = _end.set(end)
    try:
        yield
    finally:
        _end.reset(before)


def check_time() -> None:
    """Stop work whose time is over; called in the inner loops of what may take seconds."""
    end = _end.get()
    if end is not None and time.monotonic() > end:
        raise OutOfTimeError


def in_time(items: Iterable[T]) -> Generator[T]:
    """Yield items as long as there is time.

    >>> list(in_time("ab"))
    ['a', 'b']
    """
    for item in items:
        check_time()
        yield item


def working(text: str, total: int | None = None) -> "Work":
    """Return the work for a `with` block: a bar of `total` parts, or without one a spinner; both with a clock.

    >>> with working("Reading", total=2) as work:
    ...     for _ in range(2):
    ...         work.advance()
    """
    return Work(text, total)


def doing(step: str, *, long: bool = False) -> None:
    """Show the step that the work of this thread has come to; without effect outside of any work.

    Without a terminal the step is a line of the log, if the work has lasted longer than a moment, or this step will.

    >>> with working("Reading") as work:
    ...     doing("the first file")
    """
    work = _current.get()
    if work is not None:
        work.say(step, worth_a_line=long)


@contextmanager
def waiting_for(what: str, longest: float | None = None) -> Generator[None]:
    """Log what the work inside waits for, if it takes longer than a moment; `longest` is in seconds, if it has an end.

    >>> with waiting_for("the ledger, which others write", 30):
    ...     pass
    """
    until = "" if longest is None else f", for up to {longest:.0f} s"
    timer = threading.Timer(SAID_AFTER, _log.warning, ("Waiting for %s%s.", what, until))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a process that forks next has no second thread


@final
class Work:
    """Work under way; `advance` may be called from any thread."""

    def __init__(self, text: str, total: int | None) -> None:
        self._text, self._step, self._total = text, "", total
        self._done, self._over = 0, False
        self._bar: Progress | NotebookLine | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._outer = _current.set(self)
        if _notebook() is not None or _is_terminal(sys.stderr):
            self._timer = threading.Timer(SHOWN_AFTER, self._show, [sys.stderr])
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.reset(self._outer)
        try:
            self._end()
        except KeyboardInterrupt:  # an engine may pass on a second one
            self._end()
            raise

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._over = True
            if self._bar is not None:
                _stop(self._bar)
            self._bar = None

    def advance(self, parts: int = 1) -> None:
        """Count some parts more as done."""
        if self._timer is None:
            return
        with self._lock:
            self._done += parts
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=self._done)

    def say(self, step: str, *, worth_a_line: bool = False) -> None:
        """Show a step beside the text; without a terminal as a line of the log, if it is worth one."""
        since = time.monotonic() - self._began
        if self._timer is None and (worth_a_line or since > SAID_AFTER):
            _log.info("%s: %s; %.0f s so far.", self._text, step, since)
        with self._lock:
            self._step = f": {step}"
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], description=self._text + self._step)

    def _show(self, terminal: TextIO) -> None:
        show = _notebook()
        bar = NotebookLine(show) if show else _bar(terminal, timed=self._total is None)
        if bar is None:
            return
        task = bar.add_task(self._text + self._step, total=self._total)
        bar.tasks[0].start_time = self._began
        with self._lock:
            if self._over or not _shown.acquire(blocking=False):
                return
            bar.update(task, completed=self._done)
            self._bar = bar
            try:
                bar.start()
            except (OSError, ValueError):  # the terminal has gone
                self._bar = None
                _stop(bar)


def _stop(bar: "Progress | NotebookLine") -> None:
    try:
        bar.stop()
    except (OSError, ValueError):  # the terminal has gone, and there is nothing to restore
        pass
    except KeyboardInterrupt:
        with suppress(OSError, ValueError):
            if not isinstance(bar, NotebookLine):
                bar.console.show_cursor(show=True)
        raise
    finally:
        if _shown.locked():
            _shown.release()


@final
class NotebookLine:
    """A line of text in a notebook: what is done, how much of it, and for how long; it is written over.

    It has the methods of rich's `Progress` that are used here. If it cannot be shown, the work goes on.
    """

    task_ids: Final[Sequence[Any]] = (0,)

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display, self._shown, self._next = display, None, 0.0
        self._text, self._total, self._done = "", None, 0
        self.start_time, self.tasks = time.monotonic(), [self]

    def add_task(self, text: str, total: int | None) -> Any:
        """Set the text, and the number of parts if it is known."""
        self._text, self._total = text, total
        return 0

    def update(
        self, task: Any, *, completed: int | None = None, description: str | None = None
    ) -> None:
        """Show what is new, twice a second at most."""
        self._done = self._done if completed is None else completed
        self._text = self._text if description is None else description
        if self._shown is not None and time.monotonic() >= self._next:
            self._say(self._line)

    def start(self) -> None:
        """Show the line."""
        self._say(self._line)

    def stop(self) -> None:
        """Leave an empty line."""
        if self._shown is not None:
            self._say("")

    @property
    def _line(self) -> str:
        parts = "" if self._total is None else f" {self._done} of {self._total},"
        seconds = time.monotonic() - self.start_time
        return f"{escape_controls(self._text, one_line=True)} …{parts} {seconds:.0f} s"

    def _say(self, line: str) -> None:
        self._next = time.monotonic() + _BETWEEN_LINES
        with suppress(Exception):
            if self._shown is None:
                self._shown = self._display({"text/plain": line}, raw=True, display_id=True)
            else:
                self._shown.update({"text/plain": line}, raw=True)


def _notebook() -> Callable[..., Any] | None:
    """Return what shows a value in the notebook that this runs in; None anywhere else, such as IPython's terminal."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    if getattr(running, "kernel", None) is None:
        return None
    return import_module("IPython.display").display


def _is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; false if it is missing or closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _bar(terminal: TextIO, *, timed: bool) -> "Progress | None":
    """Return a display that is not shown yet; None for a terminal that cannot move its cursor."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(file=terminal)
    if not console.is_interactive:
        return None
    spinner = SpinnerColumn("line" if console.options.ascii_only else "dots")
    text = TextColumn("{task.description}", markup=False)
    parts = () if timed else (BarColumn(), MofNCompleteColumn())
    # redirected, what is printed to stdout would end up on stderr
    return Progress(
        *(spinner, text, *parts, TimeElapsedColumn()),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
