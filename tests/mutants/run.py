"""Plant each bug in a copy of the tree and find the test that fails: `make mutants`.

Each planted bug is tried with the tests of its package first, then with the default suite, then with the slow one.
A test that fails without the bug, too, does not count. What was found is kept in `results.toml`, and is tried first
the next time; `--afresh` forgets it. Arguments are names of planted bugs, or parts of names; without any all are tried.
"""

import argparse
import collections
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.mutants.catalogue import FOLDER, ROOT, Mutant, mutants

OUTCOMES = ("default", "slow", "survived")
MARKS = {"default": "not slow and not nightly", "slow": "slow and not nightly"}
MINUTES = {"default": 40, "slow": 100}
RESULTS = FOLDER / "results.toml"
LEFT_OUT = (".git", ".venv", "site", "build", "dist", ".hypothesis", ".pytest_cache", ".ruff_cache", "results")
KEPT_ATTEMPTS = 20
MOST_NAMED = 12
DEFINED = re.compile(r"^(?:class|def) ([A-Za-z]\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What became of a planted bug: the suite that catches it, and the first test that fails."""

    caught: str
    test: str
    seconds: float


class Copy:
    """A copy of the tree in which one bug at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))

    def plant(self, mutant: Mutant) -> None:
        """Write the bug into the copy."""
        (self.folder / mutant.file).write_text(mutant.mutated(), encoding="utf-8")

    def restore(self, mutant: Mutant) -> None:
        """Put the file back as it stands in the tree, its time included: what is compiled of it depends on that."""
        shutil.copy2(ROOT / mutant.file, self.folder / mutant.file)

    def failed(self, tests: list[str], suite: str, left_out: list[str]) -> str | None:
        """Return the first test that fails, "" if none does, and None if they take too long."""
        marks, name = ["-m", MARKS[suite]], self.folder / "first-failure.txt"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "-p",
            "first_failure",
        ]
        command += [*marks, *(f"--deselect={test}" for test in left_out), *tests]
        name.unlink(missing_ok=True)
        try:
            run = subprocess.run(
                command,
                cwd=self.folder,
                env=self._environment(name),
                text=True,
                capture_output=True,
                timeout=60 * MINUTES[suite],
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        if run.returncode not in (0, 1, 2, 5) or (run.returncode in (1, 2)) != name.exists():
            raise RuntimeError(run.stdout[-2000:] + run.stderr[-2000:])
        return name.read_text(encoding="utf-8") if name.exists() else ""

    def _environment(self, first_failure: Path) -> dict[str, str]:
        folders = [self.folder, self.folder / "connectors", self.folder / "tests" / "mutants"]
        paths = os.pathsep.join(map(str, folders))
        compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**compiled, "PYTHONPATH": paths, "FIRST_FAILURE": str(first_failure)}


def find(mutant: Mutant, copy: Copy, control: Copy, known: str) -> Result:
    """Return which suite catches a planted bug."""
    begun = time.monotonic()
    copy.plant(mutant)
    try:
        for suite, tests in stages(mutant, copy.folder, known):
            test = first_failure(tests, suite, copy, control)
            if test:
                return Result(suite, test, round(time.monotonic() - begun, 1))
        return Result("survived", "", round(time.monotonic() - begun, 1))
    finally:
        copy.restore(mutant)


def stages(mutant: Mutant, folder: Path, known: str) -> Iterator[tuple[str, list[str]]]:
    """Yield suites and what to run of them: the test that is known to fail, those of the package, then all."""
    if known and (folder / known.split("::", maxsplit=1)[0]).exists():
        yield from ((suite, [known]) for suite in MARKS)
    near = [path for path in nearest(mutant, folder) if (folder / path).exists()]
    if near:
        yield "default", near
    yield "default", []
    if near:
        yield "slow", near
    yield "slow", []


def nearest(mutant: Mutant, folder: Path) -> list[str]:
    """Return the doctests of the file, the tests of its package, and those that name what is in the file."""
    package, stem = mutant.package, Path(mutant.file).stem
    alike = [path for path in (folder / "tests").glob(f"*{package.rstrip('s')}*") if path.suffix in ("", ".py")]
    words = [f'"{stem}', f" {stem} import", *DEFINED.findall(mutant.source())]
    named = [path for path in sorted((folder / "tests").rglob("test_*.py")) if mentions(path, words)]
    return [mutant.file, *(str(path.relative_to(folder)) for path in (*sorted(alike), *named[:MOST_NAMED]))]


def mentions(path: Path, words: list[str]) -> bool:
    """Return whether a test names one of the words."""
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in words)


def first_failure(tests: list[str], suite: str, copy: Copy, control: Copy) -> str:
    """Return the first test that fails with the bug and does not fail without it."""
    left_out: list[str] = []
    for _ in range(KEPT_ATTEMPTS):
        test = copy.failed(tests, suite, left_out)
        if not test:
            return ""
        if control.failed([test], suite, []) == "":
            return test
        left_out.append(test)
    raise RuntimeError(f"More than {KEPT_ATTEMPTS} tests fail without any planted bug: {left_out}")


def read_results() -> dict[str, Result]:
    """Return what was found before."""
    if not RESULTS.exists():
        return {}
    return {name: Result(**entry) for name, entry in tomllib.loads(RESULTS.read_text(encoding="utf-8")).items()}


def write_results(results: dict[str, Result]) -> None:
    """Keep what was found, by name."""
    lines = ["# What catches each planted bug; written by `make mutants`.", ""]
    for name, result in sorted(results.items()):
        lines += [f"[{name}]", f'caught = "{result.caught}"', f"test = {toml_text(result.test)}"]
        lines += [f"seconds = {result.seconds}", ""]
    RESULTS.write_text("\n".join(lines), encoding="utf-8")


def toml_text(text: str) -> str:
    """Return a text as TOML writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def table(results: dict[str, Result]) -> str:
    """Return how many planted bugs of each package each suite catches, and the names of those that survive."""
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    planted = [mutant for mutant in mutants() if mutant.name in results]
    for mutant in planted:
        rows[mutant.package][results[mutant.name].caught] += 1
    lines = [f"{'package':<16}{'planted':>8}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)]
    for package, counts in [*sorted(rows.items()), ("all", sum(rows.values(), collections.Counter()))]:
        lines.append(f"{package:<16}{counts.total():>8}" + "".join(f"{counts[one]:>10}" for one in OUTCOMES))
    lines += [f"survived: {m.name} ({m.file}): {m.harm}" for m in planted if results[m.name].caught == "survived"]
    return "\n".join(lines)


def main() -> int:
    """Try the planted bugs that are named, print the table, and fail if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names of planted bugs, or parts of names")
    parser.add_argument("--afresh", action="store_true", help="forget which tests are known to fail")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 8), help="copies tried side by side")
    given = parser.parse_args()
    chosen = [m for m in mutants() if not given.names or any(name in m.name for name in given.names)]
    known = {} if given.afresh else read_results()
    with tempfile.TemporaryDirectory() as folder:
        found = try_all(chosen, known, Path(folder), given.workers)
    everything = {m.name: found.get(m.name) or known.get(m.name) for m in mutants()}
    print(table({name: result for name, result in everything.items() if result}))  # noqa: T201
    return int(any(result.caught == "survived" for result in found.values()))


def try_all(chosen: list[Mutant], known: dict[str, Result], folder: Path, workers: int) -> dict[str, Result]:
    """Return what catches each planted bug, and keep it as soon as it is found."""
    found: dict[str, Result] = {}
    copies: queue.SimpleQueue[tuple[Copy, Copy]] = queue.SimpleQueue()
    for number in range(workers):
        copies.put((Copy(folder / f"copy{number}"), Copy(folder / f"control{number}")))
    writing = threading.Lock()

    def attempt(mutant: Mutant) -> None:
        copy, control = copies.get()
        before = known.get(mutant.name)
        result = find(mutant, copy, control, before.test if before else "")
        copies.put((copy, control))
        with writing:
            found[mutant.name] = result
            write_results({**{m.name: known[m.name] for m in mutants() if m.name in known}, **found})
            print(f"{result.caught:>9} {result.seconds:7.1f} s  {mutant.name}  {result.test}", flush=True)  # noqa: T201

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(attempt, chosen))
    return found


if __name__ == "__main__":
    sys.exit(main())
