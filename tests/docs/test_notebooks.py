"""The notebooks of the documentation run from top to bottom, and show what stands in them."""

import pytest
from ci_scripts import ci_script
from page_blocks import ROOT, without_numbers

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def runner():
    """Return the script that runs notebooks."""
    return ci_script("notebooks")


def test_there_are_three():
    """Five minutes, the whole story, and an auditor's view."""
    assert [path.stem for path in NOTEBOOKS] == ["auditor", "five-minutes", "meters"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_has_run_in_its_order(path):
    """Outputs in a notebook are those of one run from top to bottom, without an error."""
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert kinds <= {"stream", "execute_result"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_of_a_notebook_is_up_to_date(path, runner):
    """The site shows a page for each notebook, which the script writes."""
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert page == runner.page_of(path), "run `python .ci/notebooks.py --pages`"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_prints(path, runner, tmp_path, monkeypatch):
    """A new run prints the same words; numbers have noise in them."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    before = runner.printed(nbformat.read(path, 4))
    now = runner.printed(runner.executed(path))
    for old, new in zip(before, now, strict=True):
        assert without_numbers(new).split() == without_numbers(old).split(), (
            "run `python .ci/notebooks.py`, and read what has changed"
        )
