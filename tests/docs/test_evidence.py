"""The pages of evidence have the numbers of what they describe."""

import re
import tomllib

import pytest
from games.report import RULES
from page_blocks import ROOT

EVIDENCE = ROOT / "docs" / "evidence"
MUTANTS = ROOT / "tests" / "mutants"


def planted(name):
    """Return how many bugs a list has."""
    return len(
        tomllib.loads((MUTANTS / f"planted_{name}.toml").read_text(encoding="utf-8"))["mutant"]
    )


def counted():
    """Return what the page counts, by the names of its notes."""
    results = tomllib.loads((MUTANTS / "results.toml").read_text(encoding="utf-8"))
    named = (ROOT / "tests" / "games" / "test_named_games.py").read_text(encoding="utf-8")
    lists = {name: planted(name) for name in ("maths", "accounts", "data")}
    return {
        **lists,
        "planted": sum(lists.values()),
        "caught": sum(one["caught"] == "default" for one in results.values()),
        "rules": len(RULES),
        "cells": sum(len(kinds) for _, kinds in RULES.values()),
        "named": len(re.findall(r"^def test_", named, re.MULTILINE)),
    }


@pytest.mark.parametrize(("name", "number"), counted().items())
def test_the_page_of_attacks_counts_what_is_there(name, number):
    """A bug, a rule or a game that is added changes the page."""
    page = (EVIDENCE / "attacks.md").read_text(encoding="utf-8")
    assert re.findall(rf"<!-- count: {name} -->(\d+)", page) == [str(number)]


def test_every_benchmark_and_script_of_a_paper_is_listed():
    """Whoever adds one adds its row."""
    listed = (EVIDENCE / "benchmarks.md").read_text(encoding="utf-8")
    scripts = {file.name for file in (ROOT / "benchmarks").glob("*_*.py")} | {"years.py"}
    assert {name for name in scripts if f"`{name}`" not in listed} == set()
    papers = (EVIDENCE / "papers.md").read_text(encoding="utf-8")
    found = {file.name for file in (ROOT / "examples" / "papers").glob("*.py")}
    assert {name for name in found if f"`{name}`" not in papers} == set()
