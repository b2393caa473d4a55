"""What the import rules of `pyproject.toml` cannot say: where rows are read, and how long a file is.

Run as `python .ci/files.py [ROOT]`; prints every breach and exits with 1 if there is one.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

READS = {
    *("collect", "collect_async", "collect_batches", "fetch"),
    *("sink_parquet", "sink_csv", "sink_ipc", "sink_ndjson"),
}
"""The methods that make a lazy frame read its rows."""
MAY_READ = ("pufferflow/engines/", "pufferflow/models/reference.py", "connectors/")
"""The only package that reads private rows; the file that reads tables declared to be public; connectors."""
LONGEST_FILE, SHORTEST_FILE = 700, 40
MAY_BE_SHORT = {"__init__", "__main__", "arrays", "names", "namespace", "plugins"}


def breaches(root: Path) -> Iterator[str]:
    """Yield what is wrong with the files below `pufferflow` and `connectors`, a line each."""
    for path in sorted(
        [*(root / "pufferflow").rglob("*.py"), *(root / "connectors").rglob("*.py")]
    ):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        if not name.startswith(MAY_READ):
            yield from (
                f"{name}:{line}: only the engines read rows" for line in reading_calls(text)
            )
        lines = len(text.splitlines())
        if lines > LONGEST_FILE:
            yield f"{name}: {lines} lines, at most {LONGEST_FILE}: split it in two"
        if lines < SHORTEST_FILE and path.stem not in MAY_BE_SHORT:
            yield f"{name}: {lines} lines, at least {SHORTEST_FILE}: join it to a neighbour"


def reading_calls(text: str) -> Iterator[int]:
    """Yield the lines at which a method is called that reads rows."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in READS
        ):
            yield node.lineno


def main() -> int:
    """Print the breaches of the tree given on the command line, or of this one."""
    found = list(breaches(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]))
    print("\n".join(found), end="\n" * bool(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
