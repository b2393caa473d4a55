"""What the scripts give, as tables of the page about papers: their rows are caught while they run."""

import contextlib
import importlib
import io
import re
import runpy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).parents[1]
ROOT = SCRIPTS.parents[1]
PAGE = ROOT / "docs" / "evidence" / "papers.md"
PICTURES = ROOT / "docs" / "pictures" / "papers"
END = "<!-- end of rows -->"
START = re.compile(r"<!-- rows: (\w+) -->\n")
Tables = list[tuple[str, list[object]]]


def places(page: str) -> list[str]:
    """Return the scripts whose rows have a place on a page."""
    return START.findall(page)


def run_script(name: str, folder: Path | None = None) -> Tables:
    """Run a script, draw its picture into a folder if there is one, and return the tables that it shows."""
    found: Tables = []
    with on_path(SCRIPTS), contextlib.redirect_stdout(io.StringIO()):
        shared = importlib.import_module("side_by_side")
        arguments = [name, str((folder or PICTURES) / f"{name}.svg")]
        patched = {"show": lambda title, rows: found.append((title, list(rows)))}
        if folder is None:
            patched["save_picture"] = lambda *_, **__: None
        with mock.patch.multiple(shared, **patched), mock.patch.object(sys, "argv", arguments):
            runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
    return found


@contextlib.contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Let modules of a folder be imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def in_markdown(tables: Iterable[tuple[str, Iterable[object]]]) -> str:
    """Return tables as Markdown, each below its title."""
    parts = []
    for title, rows in tables:
        lines = [f"**{title}**", "", "| | paper said | we get | why they differ |"]
        lines.append("| --- | --- | --- | --- |")
        for row in rows:
            cells = (row.item, row.paper, row.here, row.why)
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def with_rows(page: str, name: str, text: str) -> str:
    """Return a page with the tables of a script at their place."""
    start = f"<!-- rows: {name} -->\n"
    before, _, after = page.partition(start)
    _, _, rest = after.partition(END)
    return f"{before}{start}\n{text}\n\n{END}{rest}"
