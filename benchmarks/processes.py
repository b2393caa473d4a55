"""Processes that are measured from outside: how much memory one takes, and peers in environments of their own.

A peer is a script that takes the name of a piece of work and its arguments. It does the work once and ends, or with
`serve` in front once for every line that it reads, which it answers with a line.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

HERE = Path(__file__).parent
PEERS = HERE / ".peers"
_INSTALLED = "installed"
# The counter of a process begins with the memory of its parent, so a small process starts it.
_PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def peak(command: Sequence[str | Path], times: int = 3) -> float:
    """Return the most memory that a command takes, in MiB: the median of some runs."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    small = [sys.executable, "-I", "-S", "-c", _PEAK, *command]
    runs = [subprocess.run(small, check=True, capture_output=True, text=True) for _ in range(times)]
    return statistics.median(int(run.stdout) / unit for run in runs)


def python_with(name: str, *packages: str) -> Path | None:
    """Return the Python of an environment with these packages, made if need be; None, with a message, if it cannot."""
    place = PEERS / name
    python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    marker = place / _INSTALLED
    wanted = "\n".join(packages)
    if marker.is_file() and marker.read_text() == wanted and python.is_file():
        return python
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries",
        "1",
        *packages,
    ]
    try:
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", place],
            check=True,
            capture_output=True,
            timeout=120,
        )
        (PEERS / ".gitignore").write_text("*\n")
        subprocess.run(pip, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        print(
            f"{name} is missing: {', '.join(packages)} could not be installed ({type(error).__name__})"
        )
        return None
    marker.write_text(wanted)
    return python


class Peer:
    """A peer that waits for work, with everything imported."""

    def __init__(self, lines: IO[str], answers: IO[str]) -> None:
        self._lines, self._answers = lines, answers

    def __call__(self) -> None:
        """Run its work once."""
        self._lines.write("\n")
        self._lines.flush()
        if not self._answers.readline():
            raise RuntimeError("the peer has stopped")


@contextmanager
def serving(*command: str | Path) -> Iterator[Peer]:
    """Start a peer, and end it afterwards."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a peer without pipes")
        yield Peer(process.stdin, process.stdout)
        process.stdin.close()
