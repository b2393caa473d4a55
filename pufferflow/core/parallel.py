"""Work in parallel on the cores of this machine, in fresh processes that end with it; results stay the same.

A task is a function and its arguments, sent as bytes. So is its result, in which every object that came with the task
is the caller's own again. After any failure in a process, even an error of the task, the task is done again here. An
error is then raised as without processes. A process reads no data and draws no noise. It ends when the pipe to it is
closed, even while it works. Ctrl-C is left to the caller.
"""

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Final, Generic, Self, TypeVar, final

from pufferflow.core.errors import UsageError

T = TypeVar("T")
VARIABLE: Final = "PUFFERFLOW_WORKERS"
WORTH_SECONDS: Final = 2.0
"""Seconds of work from which on processes pay: they take about a second to start."""
_DONE, _LENGTH = b"+", 8


def cores() -> int:
    """Return how many processors this process may use, by the variable, or else by system and container.

    >>> cores() >= 1
    True
    """
    given = os.environ.get(VARIABLE, "")
    if given:
        if not (given.isascii() and given.isdecimal() and int(given)):
            raise UsageError(
                f"The environment variable {VARIABLE} is not a number of processes.",
                allowed="a whole number >= 1; 1 spreads no work",
                instead=f"{VARIABLE}=2, or no such variable, for all cores",
            )
        return int(given)
    count: Callable[[], int | None] | None = getattr(
        os, "process_cpu_count", None
    )  # since Python 3.13
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    allowed = os.cpu_count() if affinity is None else len(affinity(0))
    return max(min((allowed if count is None else count()) or 1, _quota(Path("/sys/fs/cgroup"))), 1)


def _quota(folder: Path) -> int:
    """Return how many processors the container may use, rounded up; many if it sets no limit."""
    many = 2**20
    with suppress(OSError, ValueError, ZeroDivisionError):
        most, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return many if most == "max" else -(-int(most) // int(period))
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, per = (
            int((folder / "cpu" / f"cpu.cfs_{what}_us").read_text(encoding="ascii"))
            for what in ("quota", "period")
        )
        return many if quota < 0 else -(-quota // per)
    return many


@final
@dataclass(frozen=True)
class Task(Generic[T]):
    """A task under way."""

    future: "Future[Any]"
    here: Callable[[], T]

    def result(self) -> T:
        """Wait for the result; if no process has one, work it out here."""
        done, value = self.future.result()
        return value if done else self.here()

    def cancel(self) -> None:
        """Leave it out if it has not begun."""
        self.future.cancel()


@final
class Workers:
    """Processes for a `with` block, started when the first task is given."""

    def __init__(self) -> None:
        self._processes: list[_Process] = []
        self._idle: SimpleQueue[_Process] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.end()
        if self._processes:
            self._threads.shutdown(cancel_futures=True)

    def pay(self, seconds: float, tasks: int) -> bool:
        """Return whether spreading the tasks, of that many seconds each, saves more than processes take to start."""
        number = min(self._number, tasks)
        return number > 1 and seconds * tasks * (1 - 1 / number) > WORTH_SECONDS

    def give(self, function: Callable[..., T], *arguments: object) -> Task[T]:
        """Give a task to the next process that is free."""
        return Task(
            self._threads.submit(self._run, function, arguments), lambda: function(*arguments)
        )

    @cached_property
    def _number(self) -> int:
        return 1 if not sys.executable or getattr(sys, "frozen", False) else cores()

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        """One thread for each process, which waits for it."""
        for _ in range(self._number):
            with suppress(OSError):
                self._processes.append(_Process())
        for process in self._processes:
            self._idle.put(process)
        return ThreadPoolExecutor(max(len(self._processes), 1), thread_name_prefix="pufferflow")

    def _run(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> tuple[bool, Any]:
        if not self._processes:
            return False, None
        process = self._idle.get()
        try:
            return process.run(function, arguments)
        finally:
            self._idle.put(process)


@final
class _Process:
    """A process that works out tasks, one after the other."""

    def __init__(self) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from pufferflow.core.parallel import serve; serve()"
        self._process = subprocess.Popen(  # noqa: S603 - this Python, with words of ours
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, VARIABLE: "1"},
        )
        self._well = True

    def run(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> tuple[bool, Any]:
        """Return whether a task was done, and its result; after one that was not, no other is tried."""
        if not self._well:
            return False, None
        try:
            task, known = _packed(function, arguments)
            _write(self._process.stdin, task)
            answer = _read(self._process.stdout)
            if answer[:1] == _DONE:
                return True, _Unpickler(io.BytesIO(answer[1:]), known).load()
        except Exception:  # noqa: BLE001, S110 - whatever cannot be sent, done or read is done by the caller
            pass
        self._well = False
        return False, None

    def end(self) -> None:
        """End the process, whatever it does."""
        self._well = False
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()


def serve() -> None:
    """Work out the tasks that come in by stdin, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    tasks: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=[tasks], daemon=True).start()
    while True:
        _write(answers, _answer(tasks.get()))


def _receive(tasks: "SimpleQueue[bytes]") -> None:
    """Receive tasks while others are worked out; end the process with the pipe."""
    with suppress(BaseException):
        while True:
            tasks.put(_read(sys.stdin.buffer))
    os._exit(0)


def _answer(task: bytes) -> bytes:
    try:
        reader = pickle.Unpickler(io.BytesIO(task))  # noqa: S301 - from the process that started this one
        function, arguments = reader.load()
        known: dict[int, Any] = reader.memo.copy()  # pyright: ignore[reportAssignmentType] - the stubs are another's
        packed = io.BytesIO()
        _Pickler(packed, {id(one): place for place, one in known.items()}).dump(
            function(*arguments)
        )
    except Exception:  # noqa: BLE001 - it is raised where the task came from
        return b"-"
    return _DONE + packed.getvalue()


def _packed(
    function: Callable[..., Any], arguments: tuple[object, ...]
) -> tuple[bytes, dict[int, object]]:
    """Return a task as bytes, and every object in it by its place there."""
    packed = io.BytesIO()
    writer = pickle.Pickler(packed, pickle.HIGHEST_PROTOCOL)
    writer.dump((function, arguments))
    memo: dict[int, tuple[int, object]] = writer.memo.copy()
    return packed.getvalue(), dict(memo.values())


class _Pickler(pickle.Pickler):
    """Writes the place in the task for every object that came with it."""

    def __init__(self, file: IO[bytes], places: dict[int, int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._places = places

    def persistent_id(self, obj: object) -> int | None:
        return self._places.get(id(obj))


class _Unpickler(pickle.Unpickler):
    """Reads the caller's own object for every place in the task."""

    def __init__(self, file: IO[bytes], known: dict[int, object]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, pid: int) -> object:
        return self._known[pid]


def _write(pipe: IO[bytes] | None, message: bytes) -> None:
    if pipe is None:
        raise OSError
    pipe.write(len(message).to_bytes(_LENGTH, "big") + message)
    pipe.flush()


def _read(pipe: IO[bytes] | None) -> bytes:
    """Return the next message; an error if the pipe ends before."""
    header = b"" if pipe is None else pipe.read(_LENGTH)
    message = (
        b"" if pipe is None or len(header) < _LENGTH else pipe.read(int.from_bytes(header, "big"))
    )
    if pipe is None or not message:
        raise EOFError
    return message
