"""Record what the library does, for comparing two commits bit for bit, or anew for the tests.

    python tests/golden/record.py OUT [WORD]      writes a text file for each case (whose name has the word) into OUT
    python tests/golden/record.py --compare A B   prints in what two such folders differ, and exits with 1 if they do
    python tests/golden/record.py --commit [OUT]  writes what the tests compare with, and tells what is new in it

Two commits are compared on one machine, each with its own tree on the path:

    PYTHONPATH=$PWD python tests/golden/record.py before
    git switch other && PYTHONPATH=$PWD python tests/golden/record.py after
    python tests/golden/record.py --compare before after
"""

import difflib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MOST = 12


def _all(word: str = "") -> dict[str, Any]:
    from cases import CASES, record

    found, began = {}, time.perf_counter()
    for name in CASES:
        if word in name:
            found[name] = record(name)
            _show_progress(f"\r{time.perf_counter() - began:5.0f} s  {len(found):4d}  {name:<60}")
    _show_progress("\n")
    return found


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(text)


def _write(out: Path, records: Mapping[str, Any]) -> None:
    from compared import lines, place_of

    for name, record in records.items():
        place = place_of(name, out, ".txt")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join([name, *lines(record), ""]), encoding="utf-8")


def _compare(one: Path, other: Path) -> int:
    """Print in what two folders differ; return 1 if they do."""
    names = sorted(
        {str(path.relative_to(place)) for place in (one, other) for path in place.rglob("*.txt")}
    )
    differ = 0
    for name in names:
        texts = [
            (place / name).read_text().splitlines() if (place / name).exists() else []
            for place in (one, other)
        ]
        if texts[0] != texts[1]:
            differ += 1
            found = [
                line
                for line in difflib.unified_diff(*texts, n=0, lineterm="")
                if line[:3] not in ("---", "+++")
            ]
            sys.stdout.write(f"{name}: {sum(line[0] in '+-' for line in found)} lines\n")
            sys.stdout.writelines(f"    {line[:300]}\n" for line in found[:_MOST])
    sys.stdout.write(f"{differ} of {len(names)} cases differ\n")
    return min(differ, 1)


def _commit(records: Mapping[str, Any]) -> None:
    from cases import FEW
    from compared import GOLDEN, differences, read, write

    before = read() if GOLDEN.exists() else {}
    changed = {
        name: differences(before[name], one) for name, one in records.items() if name in before
    }
    for name, lines in changed.items():
        sys.stdout.writelines(f"{name}{line}\n" for line in lines[:_MOST])
    write(records, FEW)
    new, gone, changes = (
        records.keys() - before.keys(),
        before.keys() - records.keys(),
        sum(map(bool, changed.values())),
    )
    sys.stdout.write(f"{len(records)} cases, {changes} changed, {len(new)} new, {len(gone)} gone\n")
    sys.stdout.write(f"{GOLDEN.stat().st_size / 1e6:.2f} MB\n")


def main(arguments: list[str]) -> int:
    """Do what the arguments ask for."""
    match arguments:
        case ["--compare", one, other]:
            return _compare(Path(one), Path(other))
        case ["--commit", *out]:
            found = _all()
            _commit(found)
            _write(Path(*out), found) if out else None
        case [out, *word] if not out.startswith("-"):
            _write(Path(out), _all("".join(word)))
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
