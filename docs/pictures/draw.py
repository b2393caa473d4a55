"""Draw all pictures of the documentation: `python docs/pictures/draw.py [folder]`, or `make pictures`.

Every number in them is computed by the library when they are drawn. A file of this folder is written if none is named.
"""

import sys
from pathlib import Path

import correlation
import guarantees
import movements
import releases
import spending
import workings
from sheet import PICTURES, Sheet

TOPICS = (movements, correlation, guarantees, spending, releases, workings)
HERE = Path(__file__).parent


def drawn() -> dict[str, Sheet]:
    """Return every picture by its name."""
    return {name: draw() for name, draw in PICTURES.items()}


def main() -> None:
    """Write a file for every picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, sheet in drawn().items():
        (folder / f"{name}.svg").write_text(sheet.svg(), encoding="utf-8")
        print(f"{name}.svg: {sheet.description}")


if __name__ == "__main__":
    main()
