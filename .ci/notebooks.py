"""Run the notebooks of the documentation, write their outputs into them, and a page for the site beside each.

`python .ci/notebooks.py` runs all of them, `python .ci/notebooks.py meters` one, and `--pages` writes the pages only.
A slow test runs the notebooks too, and compares the words of what they print; a quick one compares the pages.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
LONGEST = 600
LINK = "This page is the notebook [{name}]({name}) with what it printed; download it to run and change it."
NOT_RUN = "<!-- not run: tests/docs/test_notebooks.py runs the notebook -->"


def main() -> int:
    """Run the notebooks that were named, or all of them."""
    named = [name for name in sys.argv[1:] if not name.startswith("-")]
    for name in named or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        path = FOLDER / f"{name}.ipynb"
        if "--pages" not in sys.argv:
            text = nbformat.writes(executed(path), indent=1, ensure_ascii=False)
            path.write_text(text + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(page_of(path), encoding="utf-8")
        print(f"{path.name}: done")
    return 0


def page_of(path: Path) -> str:
    """Return a notebook as a page: its texts, its code, and what it printed when it was run last."""
    first, *others = nbformat.read(path, as_version=4).cells
    parts = [first.source, LINK.format(name=path.name)]
    for cell in others:
        if cell.cell_type == "markdown":
            parts.append(cell.source.replace(".ipynb)", ".md)"))
            continue
        parts.append(f"{NOT_RUN}\n```python\n{cell.source}\n```")
        if text := "".join(map(shown, cell.outputs)).rstrip():
            parts.append(f"```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a new run, and nothing that differs from run to run without need."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=LONGEST, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if (
            cell.cell_type == "code"
        ):  # without the progress of long work, which is shown where a machine is slow
            cell.outputs = [one for one in cell.outputs if one.output_type != "display_data"]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """Return what each cell of code shows, as text."""
    return [
        "".join(map(shown, cell.outputs)) for cell in notebook.cells if cell.cell_type == "code"
    ]


def shown(output: nbformat.NotebookNode) -> str:
    """Return the text of an output."""
    return output.text if "text" in output else output.data["text/plain"] + "\n"


if __name__ == "__main__":
    sys.exit(main())
