"""What the scripts of this folder share: a table of paper, library and reason, and a picture.

A script makes `Row`s, prints them with `show`, and draws with `save_picture`, which needs matplotlib
(`pip install ".[report]"`).
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 120
SAME = "same"


@dataclass(frozen=True)
class Row:
    """A number of a paper beside the library's, and why the two differ; without a reason they are the same."""

    item: str
    paper: str
    here: str
    why: str = SAME


def number(value: float) -> str:
    """Return a number with six digits."""
    return f"{value:.6g}"


def show(title: str, rows: Iterable[Row]) -> None:
    """Print the rows as a table: paper said, we get, why they differ."""
    table = Table("", "paper said", "we get", "why they differ", title=title)
    for row in rows:
        table.add_row(row.item, row.paper, row.here, row.why)
    Console(width=WIDTH).print(table)


def save_picture(
    draw: Callable[[Any], None], name: str, size: tuple[float, float] = (9, 4)
) -> None:
    """Draw on a matplotlib figure and write it as SVG, to the first argument of the script or to `name`."""
    if find_spec("matplotlib") is None:
        print('For the picture: pip install ".[report]"')
        return
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": name, "svg.fonttype": "none"}  # the same bytes, and texts
    from matplotlib import pyplot as plt

    path = Path(sys.argv[1] if len(sys.argv) > 1 else name)
    figure = plt.figure(figsize=size, layout="constrained")
    draw(figure)
    figure.savefig(path, metadata={"Date": None})
    print(f"The picture is in {path}.")
