"""What a command tells, and where: answers on stdout, notes and errors on stderr; one JSON document if it is asked for.

On a terminal rich draws; anywhere else lines are plain, whole, and without colours. A reader that has gone away
(`| head`) is no reason to stop: what was begun is finished without words.
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
    """Where one command tells things; `so_far` is what a document keeps of it if an error comes."""

    json: bool = False
    traceback: bool = False
    out: TextIO | None = None
    so_far: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def asked_by(cls, arguments: Sequence[str]) -> "Screen":
        """Return the screen that a command line asks for, even one with mistakes in it."""
        given = set(arguments[: arguments.index("--")] if "--" in arguments else arguments)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a sign that a terminal does not have is no reason to fail
        return cls("--json" in given, "--traceback" in given, sys.stdout)

    def say(self, text: str = "") -> None:
        """Tell people something; programs are told in the document."""
        if not self.json:
            told(self.out, text)

    def raw(self, text: str) -> None:
        """Give people a text to copy or to send on, in lines that nobody breaks."""
        if not self.json:
            write(self.out, text)

    def log(self, text: str) -> None:
        """Tell how far the work is, as soon as it is."""
        told(sys.stderr if self.json else self.out, text)

    def note(self, text: str) -> None:
        """Tell something beside the answer."""
        told(sys.stderr, text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Show a table to people."""
        if self.json:
            return
        if is_terminal(self.out):
            from pufferflow.cli.terminal import draw_table

            draw_table(self.out, columns, rows)
        else:
            write(self.out, "\n".join(lines_of(columns, rows)))

    def facts(self, pairs: Sequence[tuple[str, object]]) -> None:
        """Show names and values to people, a line each."""
        if self.json:
            return
        if is_terminal(self.out):
            from pufferflow.cli.terminal import draw_facts

            draw_facts(self.out, pairs)
        else:
            width = max((len(name) for name, _ in pairs), default=0)
            write(self.out, "\n".join(f"{name:<{width}}  {safe(str(value))}" for name, value in pairs))

    def answer(self, found: Mapping[str, Any], code: int) -> None:
        """End a command that went well, or as well as could be told."""
        if self.json:
            write(self.out, document({**found, "exit": code}))

    def fail(self, fault: Fault) -> None:
        """End a command that failed."""
        if self.json:
            write(self.out, document({**self.so_far, **fault.document()}))
            return
        named = fault.exit not in {BUG, STOPPED}
        told(sys.stderr, f"{fault.kind}: {fault.problem}" if named else fault.problem, "bold red" if named else "bold")
        for name, text in (("allowed", fault.allowed), ("try", fault.instead)):
            if text:
                told(sys.stderr, f"  {name}: {text}")


def told(stream: TextIO | None, text: str, style: str = "") -> None:
    """Write a text: on a terminal broken between words, elsewhere as it is."""
    if is_terminal(stream):
        from pufferflow.cli.terminal import draw_text

        draw_text(stream, text, style)
    else:
        write(stream, safe(text))
