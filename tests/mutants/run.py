"""Plant each bug in a copy of the tree and find the test that fails: `make mutants`.

A test that is known to catch a bug, from `results.toml`, is tried first; `--afresh` forgets these. For all other bugs a
suite runs once with probes (`reached.py`), and each bug is tried with the tests that reach it, the quickest first:
those of the default suite, then those of the slow one. A test that fails without the bug, too, does not count.
Arguments are names of planted bugs, or parts of names; without any all are tried.
"""

import argparse
import collections
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.mutants.catalogue import FOLDER, ROOT, Mutant, mutants
from tests.mutants.reached import plant_probes, read_reached

OUTCOMES = ("default", "slow", "survived")
MARKS = {"default": "not slow and not nightly", "slow": "slow and not nightly"}
MINUTES = {"default": 60, "slow": 120}
RESULTS = FOLDER / "results.toml"
LEFT_OUT = (".git", ".venv", "site", "build", "dist", ".hypothesis", ".pytest_cache", ".ruff_cache")
MOST_LEFT_OUT = 20
QUICKEST = 300
"""As many tests that reach a bug are tried before all files that have one."""


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

    def failed(self, tests: list[str], suite: str, left_out: list[str]) -> str:
        """Return the first test that fails; "" if none does, or if they take too long."""
        run = self.run(suite, ["-x", *(f"--deselect={test}" for test in left_out), *tests])
        found = self.folder / "first-failure.txt"
        if run is not None and (
            run.returncode not in (0, 1, 2, 5) or (run.returncode in (1, 2)) != found.exists()
        ):
            raise RuntimeError(run.stdout[-2000:] + run.stderr[-2000:])
        return found.read_text(encoding="utf-8") if found.exists() else ""

    def run(
        self, suite: str, arguments: list[str], **variables: str
    ) -> subprocess.CompletedProcess[str] | None:
        """Run tests of a suite here; None if they take too long."""
        found = self.folder / "first-failure.txt"
        found.unlink(missing_ok=True)
        plugins = ["-p", "no:cacheprovider", "-p", "first_failure"]
        paths = os.pathsep.join(
            str(self.folder / name) for name in (".", "connectors", "tests/mutants")
        )
        inherited = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        try:
            return subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "--tb=no",
                    *plugins,
                    "-m",
                    MARKS[suite],
                    *arguments,
                ],
                cwd=self.folder,
                env={**inherited, "PYTHONPATH": paths, "FIRST_FAILURE": str(found), **variables},
                text=True,
                capture_output=True,
                timeout=60 * MINUTES[suite],
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None


def reaching(
    suite: str, planted: list[Mutant], folder: Path, workers: int
) -> dict[str, list[str] | None]:
    """Return the tests of a suite that reach each planted bug, the quickest first; None for every test."""
    probed, reached, seconds = (
        Copy(folder / f"probed-{suite}"),
        folder / f"reached-{suite}",
        folder / f"took-{suite}",
    )
    reached.touch()
    seconds.touch()
    without = plant_probes(planted, probed.folder)
    side_by_side = ["-n", str(workers), "--dist", "worksteal"] if workers > 1 else []
    probed.run(suite, side_by_side, REACHED=str(reached), SECONDS=str(seconds))
    found = read_reached(reached, seconds)
    return {
        mutant.name: None if mutant.name in without else found.get(mutant.name, [])
        for mutant in planted
    }


def quickest(tests: list[str] | None) -> list[list[str]]:
    """Return the quickest of the tests that reach a bug, as one run; no run for a bug outside of functions."""
    return [tests[:QUICKEST]] if tests else []


def files_of(tests: list[str] | None) -> list[list[str]]:
    """Return all files that have a test which reaches a bug, as one run; the suite for one outside of functions."""
    if tests is None:
        return [[]]
    return [list(dict.fromkeys(map(file_of, tests)))] if tests else []


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.split("::", maxsplit=1)[0]


def first_failure(tests: list[str], suite: str, copy: Copy, control: Copy) -> str:
    """Return the first test that fails with the bug and does not fail without it."""
    left_out: list[str] = []
    for _ in range(MOST_LEFT_OUT):
        test = copy.failed(tests, suite, left_out)
        if not test or control.failed([test], suite, []) == "":
            return test
        left_out.append(test)
    raise RuntimeError(f"More than {MOST_LEFT_OUT} tests fail without any planted bug: {left_out}")


class Net:
    """The search: copies of the tree, what is known from before, and what has been found."""

    def __init__(self, folder: Path, known: dict[str, Result], workers: int) -> None:
        self.folder, self.known, self.workers = folder, known, workers
        self.found: dict[str, Result] = {}
        self._copies: queue.SimpleQueue[tuple[Copy, Copy]] = queue.SimpleQueue()
        for number in range(workers):
            self._copies.put((Copy(folder / f"copy{number}"), Copy(folder / f"control{number}")))
        self._writing = threading.Lock()

    def search(self, chosen: list[Mutant]) -> None:
        """Try the tests that are known to fail, then each suite, and keep what is found at once."""
        self.confirm(chosen)
        for suite in MARKS:
            left = self._left(chosen)
            tests = reaching(suite, left, self.folder, self.workers) if left else {}
            for stage in (quickest, files_of):
                runs = {
                    mutant.name: [(suite, run) for run in stage(tests[mutant.name])]
                    for mutant in left
                }
                self._try(self._left(left), lambda mutant, runs=runs: runs[mutant.name])
        for mutant in self._left(chosen):
            self._keep(mutant, Result("survived", "", 0.0))

    def confirm(self, chosen: list[Mutant]) -> None:
        """Try the tests that are known to fail, and no others."""
        self._try(chosen, self._known_test)

    def _left(self, planted: list[Mutant]) -> list[Mutant]:
        return [mutant for mutant in planted if mutant.name not in self.found]

    def _known_test(self, mutant: Mutant) -> list[tuple[str, list[str]]]:
        known = self.known.get(mutant.name)
        if known is None or not known.test or not (ROOT / file_of(known.test)).exists():
            return []
        return [(suite, [known.test]) for suite in MARKS]

    def _try(
        self, planted: list[Mutant], runs: Callable[[Mutant], list[tuple[str, list[str]]]]
    ) -> None:
        def attempt(mutant: Mutant) -> None:
            begun = time.monotonic()
            copy, control = self._copies.get()
            copy.plant(mutant)
            try:
                for suite, tests in runs(mutant):
                    if test := first_failure(tests, suite, copy, control):
                        self._keep(mutant, Result(suite, test, round(time.monotonic() - begun, 1)))
                        return
            finally:
                copy.restore(mutant)
                self._copies.put((copy, control))

        with ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(attempt, planted))

    def _keep(self, mutant: Mutant, result: Result) -> None:
        with self._writing:
            self.found[mutant.name] = result
            write_results({**self.known, **self.found})
            print(  # noqa: T201
                f"{result.caught:>9} {result.seconds:7.1f} s  {mutant.name}  {result.test}",
                flush=True,
            )


def read_results() -> dict[str, Result]:
    """Return what was found before of the bugs that are still planted."""
    stored = tomllib.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return {
        mutant.name: Result(**stored[mutant.name]) for mutant in mutants() if mutant.name in stored
    }


def write_results(results: dict[str, Result]) -> None:
    """Keep what was found, by name."""
    lines = ["# What catches each planted bug; written by `make mutants`.", ""]
    for name, result in sorted(results.items()):
        lines += [f"[{name}]", f'caught = "{result.caught}"', f"test = {json.dumps(result.test)}"]
        lines += [f"seconds = {result.seconds}", ""]
    RESULTS.write_text("\n".join(lines), encoding="utf-8")


def table(results: dict[str, Result]) -> str:
    """Return how many planted bugs of each package each suite catches, and the names of those that survive."""
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    planted = [mutant for mutant in mutants() if mutant.name in results]
    for mutant in planted:
        rows[mutant.package][results[mutant.name].caught] += 1
    lines = [f"{'package':<16}{'planted':>8}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES)]
    for package, counts in [
        *sorted(rows.items()),
        ("all", sum(rows.values(), collections.Counter())),
    ]:
        lines.append(
            f"{package:<16}{counts.total():>8}" + "".join(f"{counts[one]:>10}" for one in OUTCOMES)
        )
    lines += [
        f"survived: {m.name} ({m.file}): {m.harm}"
        for m in planted
        if results[m.name].caught == "survived"
    ]
    return "\n".join(lines)


def main() -> int:
    """Try the planted bugs that are named, print the table, and fail if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names of planted bugs, or parts of names")
    parser.add_argument(
        "--afresh", action="store_true", help="forget which tests are known to fail"
    )
    parser.add_argument(
        "--known",
        action="store_true",
        help="try these tests only; fail if one of them catches nothing",
    )
    parser.add_argument(
        "--workers", type=int, default=min(os.cpu_count() or 1, 8), help="copies tried side by side"
    )
    given = parser.parse_args()
    chosen = [
        m for m in mutants() if not given.names or any(name in m.name for name in given.names)
    ]
    forgotten = {m.name for m in chosen} if given.afresh else set[str]()
    known = {name: result for name, result in read_results().items() if name not in forgotten}
    with tempfile.TemporaryDirectory() as folder:
        net = Net(Path(folder), known, given.workers)
        net.confirm(chosen) if given.known else net.search(chosen)
    missed = [mutant.name for mutant in chosen if mutant.name not in net.found]
    for name in missed:
        print(f"not caught by its known test: {name}")  # noqa: T201
    print(table({**known, **net.found}))  # noqa: T201
    return int(bool(missed) or any(result.caught == "survived" for result in net.found.values()))


if __name__ == "__main__":
    sys.exit(main())
