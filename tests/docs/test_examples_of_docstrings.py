"""The examples of docstrings are code on the API pages."""

import inspect

import pytest
from ci_scripts import ci_script

import pufferflow as pf

griffe = pytest.importorskip("griffe")


@pytest.fixture(scope="module")
def extension():
    """The extension of Griffe that the site is built with."""
    return ci_script("griffe_examples")


def test_an_example_has_a_fence(extension):
    """Text before and behind stays text."""
    text = "Return one.\n\nMore.\n>>> 1\n1\n\nThe end."
    assert (
        extension.with_blocks(text) == "Return one.\n\nMore.\n\n```pycon\n>>> 1\n1\n```\n\nThe end."
    )
    assert extension.with_blocks("No example.") == "No example."


@pytest.mark.parametrize("name", ["protect", "Plan", "Law", "MarkovChain"])
def test_no_example_of_a_public_name_is_left_outside(extension, name):
    """Every prompt stands in a block, and every block ends."""
    inside, text = False, extension.with_blocks(inspect.getdoc(getattr(pf, name)))
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = not inside
        assert inside or not line.startswith(">>>")
    assert not inside
    assert "```pycon" in text
