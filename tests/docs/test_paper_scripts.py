"""The page about papers has what the scripts give."""

import re
import sys

import pytest
from page_blocks import ROOT

sys.path.insert(0, str(ROOT / "examples" / "papers" / "side_by_side"))
import page_tables

sys.path.pop(0)
PAGE = page_tables.PAGE.read_text(encoding="utf-8")
LONG = {"song_synthetic_chains", "which_mechanism_wins"}
SCRIPTS = [
    pytest.param(name, marks=[pytest.mark.slow, *[pytest.mark.nightly] * (name in LONG)])
    for name in page_tables.places(PAGE)
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_has_what_the_scripts_print(name, tmp_path, monkeypatch):
    """Run anew, with the embedded counts, a script gives the tables of the page, and a small picture."""
    monkeypatch.delenv("PUFFERFLOW_TABLES", raising=False)
    tables = page_tables.run_script(name, tmp_path)
    assert page_tables.with_rows(PAGE, name, page_tables.in_markdown(tables)) == PAGE
    assert (tmp_path / f"{name}.svg").stat().st_size < 60_000


def test_every_script_is_on_the_page():
    """Each has one row in the first table, and one place for what it prints; nothing else has."""
    scripts = sorted(file.stem for file in page_tables.SCRIPTS.glob("*.py"))
    assert sorted(re.findall(r"^\| `(\w+)\.py` \|", PAGE, re.MULTILINE)) == scripts
    assert sorted(page_tables.places(PAGE)) == scripts


def test_every_script_with_rows_has_its_picture():
    """What is drawn is shown on the page, is small, and nothing else is in its folder."""
    files = {file.stem: file for file in page_tables.PICTURES.glob("*")}
    assert sorted(files) == sorted(page_tables.places(PAGE))
    for name, file in files.items():
        assert f"](../pictures/papers/{name}.svg)" in PAGE
        assert file.stat().st_size < 60_000
        assert "<dc:date>" not in file.read_text(encoding="utf-8")


def test_rows_are_written_at_their_place():
    """The tables of a script replace what stood there before, and nothing else."""
    page = "a\n<!-- rows: one -->\nold\n<!-- end of rows -->\nb\n<!-- rows: two -->\nkept\n<!-- end of rows -->"
    found = page_tables.with_rows(page, "one", "new")
    assert found == page.replace("\nold\n", "\n\nnew\n\n")
