"""Probes: where they are planted, and what is read of them."""

import json

from tests.mutants.catalogue import Mutant
from tests.mutants.reached import read_reached, with_probes

SOURCE = '''"""A module."""

LIMIT = 3

class A:
    def first(self, x):
        """Return x."""
        return x + 1

    def second(self, x):
        if x:
            return x
        def inner(y):
            return y * 2
        return inner(x)
'''


def planted(name, old):
    return Mutant(name, "a.py", "", old, "")


def test_a_probe_stands_at_the_start_of_the_innermost_function():
    bugs = [
        planted("one", "x + 1"),
        planted("two", "y * 2"),
        planted("three", "if x:"),
        planted("four", "LIMIT = 3"),
    ]
    probed, without = with_probes(SOURCE, bugs)
    compile(probed, "a.py", "exec")
    lines = [line.strip() for line in probed.splitlines()]
    assert without == ["four"]
    for name, before in (("one", "return x + 1"), ("two", "return y * 2"), ("three", "if x:")):
        assert lines[lines.index(before) - 1] == f"__import__('mutant_probe').reached({name!r})"


def test_the_quickest_tests_come_first(tmp_path):
    reached, took = tmp_path / "reached", tmp_path / "took"
    reached.write_text("one two\tb.py::slow\none\ta.py::quick\ntwo\tgone.py::test\n")
    took.write_text(
        "".join(json.dumps(line) + "\n" for line in (["b.py::slow", 3.0], ["a.py::quick", 0.1]))
    )
    assert read_reached(reached, took) == {
        "one": ["a.py::quick", "b.py::slow"],
        "two": ["b.py::slow"],
    }
