"""`pufferflow convert`: what a guarantee is worth as an epsilon with a delta."""

from typing import Annotated

import typer

from pufferflow.cli.run import Answer
from pufferflow.cli.screen import Screen

Epsilon = Annotated[
    float,
    typer.Argument(metavar="EPSILON", help="The epsilon of the guarantee.", show_default=False),
]
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="DELTA",
        help="The delta of the guarantee; 0, if left out.",
        show_default=False,
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        "--alpha",
        metavar="ALPHA",
        help="The order of a Rényi guarantee.",
        show_default=False,
    ),
]
ToDelta = Annotated[
    float,
    typer.Option(
        "--to-delta",
        metavar="DELTA",
        help="The delta of what follows.",
    ),
]


def convert(
    screen: Screen,
    epsilon: Epsilon,
    delta: Delta = None,
    alpha: Alpha = None,
    to_delta: ToDelta = 1e-6,
) -> Answer:
    """Say what a guarantee is worth as an epsilon with a delta.

    The least epsilon known, rounded up.
    """
    from pufferflow.cli.guarantee_texts import in_words
    from pufferflow.privacy.by_name import guarantee_of

    promise = guarantee_of(epsilon, delta, alpha)
    found = promise.to_approx(to_delta)
    screen.facts([("guarantee", in_words(promise)), ("follows", in_words(found))])
    return Answer({"promise": promise, "follows": found})
