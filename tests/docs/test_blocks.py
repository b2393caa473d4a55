"""Every block of the documentation runs, in the order of its page, and prints what stands below it."""

import ast
import itertools
import re

import pytest
from page_blocks import ROOT, Reader, blocks_of, without_numbers

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
RUN = [
    page
    for page in PAGES
    if any(block.language in {"python", "console"} for block in blocks_of(page))
]


def case(page):
    """Return the case of a page, slow where it says so."""
    slow = "<!-- slow -->" in page.read_text(encoding="utf-8")
    return pytest.param(page, marks=[pytest.mark.slow] * slow, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", [case(page) for page in RUN])
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    """A reader who copies the blocks one after another gets what the page shows."""
    monkeypatch.chdir(tmp_path)
    Reader(page).read()


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_can_be_pasted_into_a_prompt(page):
    """A prompt needs an empty line after a loop or function, and none inside."""
    if page.parent.name == "notebooks":  # made of cells
        return
    for block in blocks_of(page):
        if block.language == "python" and "not run" not in block.notes:
            lines = block.text.splitlines()
            body = ast.parse(block.text).body
            for one, after in itertools.pairwise(body):
                if hasattr(one, "body"):
                    between = lines[one.end_lineno : after.lineno - 1]
                    assert "" in between, (
                        f"line {block.line + after.lineno}: {lines[after.lineno - 1]}"
                    )
                    assert all(line.strip() for line in lines[one.lineno - 1 : one.end_lineno])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_picture_has_a_text_and_a_file(page):
    """A picture says in words what it shows, to those who cannot see it."""
    for text, place in re.findall(r"!\[([^\]]*)\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert len(text.split()) >= 8, f"{place} has the text {text!r}"
        assert place.startswith("http") or (page.parent / place).resolve().is_file(), place


def page_of(tmp_path, text):
    """Write a page and return it."""
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n\n```output\n2\n```\n",
        "<!-- drawn -->\n```python\nprint('noise 1.5')\n```\n\n```output\nnumber 2.5\n```\n",
        "```python\nraise ValueError\n```\n",
        "<!-- not run: no server -->\n```python\nno program\n```\n",
    ],
)
def test_a_page_that_is_wrong_fails(text, tmp_path):
    """Another output, other words beside noise, an error, and what is no Python are found."""
    with pytest.raises((AssertionError, ValueError, SyntaxError)):
        Reader(page_of(tmp_path, text)).read()


def test_noise_is_compared_by_its_words(tmp_path):
    """Numbers that were drawn may differ, with the width of their columns."""
    text = "<!-- drawn -->\n```python\nprint('noise   -12.25')\n```\n\n```output\nnoise 3\n```\n"
    Reader(page_of(tmp_path, text)).read()
    assert without_numbers("│ 6,043.5 ± 13 │") == "│ # ± # │"
