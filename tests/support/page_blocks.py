"""Run the blocks of a page of the documentation in their order, as a reader would, and compare what they print.

| in the page | what is done |
| --- | --- |
| a block of `python` | runs; all blocks of a page share their names |
| a block with `title="job.py"` or `title="job.toml"` | is written to a file of that name, in an empty folder |
| a block of `console` | its lines after `$ ` run, where they begin with `pufferflow` |
| a block of `output` | is what the block before it prints; `...` stands for anything |
| `<!-- drawn -->` before a block or its output | it has noise in it: numbers are not compared, words are |
| `<!-- not run: why -->` before a block | is read by the compiler alone |

Blocks with `>>>` are left to doctest.
"""

import contextlib
import doctest
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from commands import run_command

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?P<notes>(?:^[ ]*<!--[^\n]*-->[ ]*\n(?:[ ]*\n)?)*)"
    r"^(?P<indent>[ ]*)```[ ]*(?P<head>[^\n`]+)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"[-−+±]?\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A block of a page: its language, title, text, the notes in front of it, and the line of its first character."""

    language: str
    title: str | None
    text: str
    notes: str
    line: int

    @property
    def runs(self):
        """Whether a reader would run it."""
        return "not run:" not in self.notes


def blocks_of(page):
    """Return the blocks of a page that are not examples of doctest."""
    text = page.read_text(encoding="utf-8")
    found = [_block(text, fence) for fence in FENCE.finditer(text)]
    return [block for block in found if ">>> " not in block.text]


def _block(text, fence):
    indent, head = fence["indent"], fence["head"].strip("{} ")
    lines = [line.removeprefix(indent) for line in fence["body"].split("\n")]
    title = re.search(r'title="([^"]+)"', head)
    return Block(
        language=head.split()[0].lstrip("."),
        title=title and title[1],
        text="\n".join(lines),
        notes=fence["notes"],
        line=text.count("\n", 0, fence.start("body")) + 1,
    )


class Reader:
    """Somebody who runs a page from its first block to its last, in an empty folder."""

    def __init__(self, page):
        self.page = page
        self.names = {"__name__": "__main__"}
        self.printed = None
        self.drawn = False

    def read(self):
        """Run every block; raise an `AssertionError` that names the line where one prints something else."""
        for block in blocks_of(self.page):
            self.follow(block)

    def follow(self, block):
        """Run a block, write its file, or compare what the block before it printed."""
        if block.language == "output":
            self.compare(block)
            return
        self.drawn = "<!-- drawn -->" in block.notes
        self.printed = None
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "console" and block.runs:
            self.printed = "".join(self.command(line) for line in self.commands(block))
        elif block.language == "python":
            self.run(block)

    def run(self, block):
        """Run a block of Python, with its own line numbers in every error."""
        code = compile("\n" * (block.line - 1) + dedent(block.text), str(self.page), "exec")
        if block.runs:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, self.names)  # noqa: S102 - what the page shows
            self.printed = out.getvalue()

    @staticmethod
    def commands(block):
        """Return the commands of the library in a block."""
        lines = block.text.replace("\\\n", " ").splitlines()
        given = [line.removeprefix("$ ").partition("  #")[0] for line in lines if line[:2] == "$ "]
        return [line for line in given if line.startswith("pufferflow ")]

    def command(self, line):
        """Return what a command prints."""
        code, out, err = run_command(shlex.split(line)[1:])
        assert code in {0, 3, 4, 5}, f"{self.page}: {line} ended with {code}\n{out}{err}"
        return out

    def compare(self, block):
        """Compare an output with what the block before it printed."""
        if self.printed is None:  # of a block that is not run
            return
        want, got = block.text, self.printed
        if self.drawn or "<!-- drawn -->" in block.notes:
            want, got = without_numbers(want), without_numbers(got)
        same = doctest.OutputChecker().check_output(want, got, FLAGS)
        assert same, (
            f"{self.page}:{block.line}: the page has\n{block.text}\nand prints\n{self.printed}"
        )


def without_numbers(text):
    """Return a text with a sign for each number, however wide its column is."""
    return re.sub(r"[─═┄]+", "─", re.sub(r"[ ]+", " ", NUMBER.sub("#", text)))
