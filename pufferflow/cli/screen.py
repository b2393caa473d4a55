"""The output of a command: answers on stdout, notes and errors on stderr; with `--json` one JSON document.

On a terminal rich draws; anywhere else lines are plain, whole, and without colours. A reader that closed the pipe
(`| head`) does not stop the command, which ends without output.
"""

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO, final

from pufferflow.cli.errors import BUG, STOPPED, Fault
from pufferflow.cli.output import document, is_terminal, lines_of, safe, write


@final
@dataclass
class Screen:
    """The output of one command; `so_far` is the part of its JSON document that is printed if it fails."""

    json: bool = False
    traceback: bool = False
    verbose: bool = False
    out: TextIO | None = None
    so_far: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "Screen":
        """Return the screen for a command line, also for an invalid one."""
        given = set(arguments[: arguments.index("--")] if "--" in arguments else arguments)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(
                    errors="replace"
                )  # a character that a terminal lacks is no error
        verbose = not given.isdisjoint({"--verbose", "-v"})
        return cls("--json" in given, "--traceback" in given, verbose, sys.stdout)

    def say(self, text: str = "") -> None:
        """Print a text for people; programs read the document."""
        if not self.json:
            write_words(self.out, text)

    def raw(self, text: str) -> None:
        """Print a text as it is, without wrapping."""
        if not self.json:
            write(self.out, text)

    def log(self, text: str) -> None:
        """Print progress, on stderr beside a document."""
        write_words(sys.stderr if self.json else self.out, text)

    def note(self, text: str) -> None:
        """Print a note on stderr."""
        write_words(sys.stderr, text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table for people."""
        if self.json:
            return
        if is_terminal(self.out):
            from pufferflow.cli.terminal import draw_table

            draw_table(self.out, columns, rows)
        else:
            write(self.out, "\n".join(lines_of(columns, rows)))

    def facts(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Print names and values for people, a line each."""
        if self.json:
            return
        if is_terminal(self.out):
            from pufferflow.cli.terminal import draw_facts

            draw_facts(self.out, pairs)
        else:
            width = max((len(name) for name, _ in pairs), default=0)
            write(
                self.out, "\n".join(f"{name:<{width}}  {safe(str(value))}" for name, value in pairs)
            )

    def answer(self, answer: Mapping[str, Any], code: int) -> None:
        """Print the document of a finished command."""
        if self.json:
            write(self.out, document({**answer, "exit": code}))

    def fail(self, fault: Fault) -> None:
        """Print an error."""
        if self.json:
            write(self.out, document({**self.so_far, **fault.document()}))
            return
        named = fault.exit not in {BUG, STOPPED}
        write_words(
            sys.stderr,
            f"{fault.kind}: {fault.problem}" if named else fault.problem,
            "bold red" if named else "bold",
        )
        for name, text in (("allowed", fault.allowed), ("try", fault.instead)):
            if text:
                write_words(sys.stderr, f"  {name}: {text}")


def write_words(stream: TextIO | None, text: str, style: str = "") -> None:
    """Write a text, wrapped on a terminal."""
    if is_terminal(stream):
        from pufferflow.cli.terminal import draw_text

        draw_text(stream, text, style)
    else:
        write(stream, safe(text))
