"""Tests, a diagnosis, and three releases: what they reveal about it together, in both directions.

A diagnosis S is made from tests X that are released with noise, so it is no column of the data. Three ways of counting
what three releases cost are printed side by side: adding their losses, multiplying their laws as if they were
independent given the diagnosis, and the truth on the joint law. Copies of one test cost less than either says. If the
diagnosis is whether two tests disagree, each release alone costs nothing, and all together reveal it. Then the third
test is designed: the least error under a guarantee for all three. Run it as `python examples/diagnosis.py`.
"""

import itertools
from collections.abc import Callable

import polars as pl
from rich.console import Console
from rich.table import Table

import pufferflow as pf
from pufferflow.confounding import Channel, cost, design

TESTS = ("blood", "scan", "swab")
POSITIVE = {"blood": 0.5, "scan": 0.5, "swab": 0.3}
KEEP = 0.75
HIDDEN = "diagnosis"


def diagnosed(rule: Callable[..., bool]) -> pf.Table:
    """Return the table of three independent tests and a diagnosis, which is a function of them."""
    cells = list(itertools.product((0, 1), repeat=3))
    law = [1.0] * len(cells)
    for at, cell in enumerate(cells):
        for test, result in zip(TESTS, cell, strict=True):
            law[at] *= POSITIVE[test] if result else 1 - POSITIVE[test]
    columns = dict(zip(TESTS, zip(*cells, strict=True), strict=True))
    ill = ["ill" if rule(*cell) else "well" for cell in cells]
    return pf.Table(
        pl.DataFrame({HIDDEN: ill, **columns, "probability": [round(one, 12) for one in law]})
    )


def answered(test: str) -> Channel:
    """Return the release of a test by randomised response."""
    return Channel(test, [0, 1], ["-", "+"], [[KEEP, 1 - KEEP], [1 - KEEP, KEEP]])


def main() -> None:
    """Print three ways of counting for three diagnoses, and design the last release."""
    two_of_three = diagnosed(lambda blood, scan, swab: blood + scan + swab >= 2)
    disagree = diagnosed(lambda blood, scan, _: blood != scan)
    each = [answered(test) for test in TESTS]
    scenes = {
        "positive in two of three": (two_of_three, each),
        "the same test three times": (two_of_three, [answered("blood")] * 3),
        "blood and scan disagree": (disagree, each),
    }
    table = Table(
        "three releases",
        "adding losses",
        "as if independent",
        "truth",
        "from dependence",
        title="pure ε",
    )
    for name, (belief, releases) in scenes.items():
        found = cost(belief, releases, secret=HIDDEN)
        apart = found.dependence.worst.dependence
        numbers = (found.summed(), found.as_if_independent.pure, found.pure, apart)
        table.add_row(name, *(f"{number:.3f}" for number in numbers))
    Console().print(table)

    past = each[:2]
    spent = cost(disagree, past, secret=HIDDEN)
    print(
        f"After blood and scan, ε {spent.pure:.3f} is spent; priors move by a factor {spent.posterior.ratio:.3f}."
    )
    for promise in (pf.Pure(1.5), pf.Pure(2.0), pf.Approx(1.0, 0.1)):
        best = design(two_of_three, past, promise, "zero-one", secret=HIDDEN, query="swab")
        total = cost(two_of_three, [*past, best.channel], secret=HIDDEN)
        print(
            f"{promise!r}: the swab is released with an error of {best.expected_loss:.3f}, kept: {total.keeps(promise)}"
        )
    try:
        design(disagree, past, pf.Pure(0.3), "zero-one", secret=HIDDEN, query="swab")
    except pf.Refused as error:
        print(error)


if __name__ == "__main__":
    main()
