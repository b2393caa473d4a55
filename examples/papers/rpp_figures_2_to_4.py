"""Figures 2, 3 and 4 of "Rényi Pufferfish Privacy": the law of the published value given the sensitive attribute.

The paper draws histograms and prints no numbers. Here are the three tables behind its Table 1, with the farthest pair
of secrets and how far the value moves between them. Run it as
`python examples/papers/rpp_figures_2_to_4.py [FILE.svg] [FOLDER]`; with a folder the tables are counted anew.
"""

from typing import Any

import numpy as np
from side_by_side import Row, save_picture, show
from side_by_side.tables import COUNTS, TITLES, laws_of, pairs_of

import pufferflow as pf

FIGURES = dict(zip(COUNTS, ("Figure 2", "Figure 3", "Figure 4"), strict=True))
AS_TABLE_1 = "the distance is that of Table 1"


def farthest(name: str) -> tuple[pf.Pair, float]:
    """Return the pair of secrets between which the value moves farthest."""
    pairs = pairs_of(name)
    distances = [pf.winf(*pair) for pair in pairs]
    worst = int(np.argmax(distances))
    return pairs[worst], distances[worst]


def rows() -> list[Row]:
    """Return the mean value for each secret, and the farthest pair, of each figure."""
    found = []
    for name, figure in FIGURES.items():
        means = ", ".join(
            f"{secret} {float(law.probabilities @ law.values):.3g}"
            for secret, law in laws_of(name).items()
        )
        pair, distance = farthest(name)
        found.append(Row(f"{figure}: means", "drawn", means, "a picture has no numbers"))
        between = f"{distance:g}, {pair.secrets[0]} to {pair.secrets[1]}"
        found.append(Row(f"{figure}: farthest pair", "drawn", between, AS_TABLE_1))
    return found


def draw(figure: Any) -> None:
    """Draw the law of the value for each secret, one panel a table."""
    for axes, (name, title) in zip(figure.subplots(1, 3), FIGURES.items(), strict=True):
        laws = laws_of(name)
        if name == "adult":
            for place, (secret, law) in enumerate(laws.items()):
                axes.barh(place, law.probabilities[-1], color="lightskyblue")
                axes.text(0.005, place, secret, va="center", fontsize=8)
            axes.set(yticks=[], xlabel="share above 50K")
        else:
            for secret, law in laws.items():
                axes.step(law.values, law.probabilities.cumsum(), where="post", label=str(secret))
            axes.set(xlabel=TITLES[name].split(": ")[1].split(" by ")[0], ylabel="share up to it")
            axes.legend(title=TITLES[name].split(" by ")[1], fontsize=8)
        axes.set_title(f"{title}: {TITLES[name].split(':')[0]}")


def main() -> None:
    """Print the means and the farthest pairs, and draw the laws."""
    show("Figures 2 to 4: laws given the secret", rows())
    save_picture(draw, "rpp_figures_2_to_4.svg", (11, 3.8))


if __name__ == "__main__":
    main()
