"""Examples IV.2, IV.5, IV.14, VI.8 and VI.25 of GRAN: what releases about parts of the data lose together.

Ambulances in districts, and hospitals that each ambulance may serve up to three of. Each example is counted by
`pf.granularity`, beside the paper's bound and beside the sum of all losses, which is sequential composition. Where the
library has batches or accounts for the setting, these are there too: counts for seven hospitals with Laplace noise of
scale 1, and counts of districts on one account, where a row is of one district or another.

Run it as `python examples/papers/gran_examples.py [FILE.svg]`; without matplotlib (`pip install ".[report]"`) it prints
the table alone.
"""

import itertools
import math
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from side_by_side import Row, number, save_picture, show

import pufferflow as pf
from pufferflow.granularity import Overlapping, Part, Partition, Space, bounded, together, unbounded

LENGTH = 3.0
"""The diameter of a district."""
PLACES = {"north": (0.0, 1.0, LENGTH), "south": (10.0, 12.0, 10.0 + LENGTH)}
HOSPITALS = 7
DISTRICTS = "abc"
LOSSES = {"equal": (0.5, 0.25, 1.0), "other": (0.3, 0.7, 0.5)}

Compared = tuple[str, float, float, float]
"""An example, the paper's bound, the library's, and the sum of all losses."""


def districts_and_hospitals() -> Compared:
    """Return Example IV.2: a noisy count, and the place of the ambulance closest to the hospital, of each district."""
    each = [
        list(itertools.chain(*(itertools.combinations(some, many) for many in (1, 2))))
        for some in PLACES.values()
    ]
    fleets = Space.of([north + south for north, south in itertools.product(*each)], unbounded)

    def inside(name: str, fleet: Sequence[float]) -> tuple[float, ...]:
        return tuple(place for place in fleet if place in PLACES[name])

    parts = list[Part]()
    for name, places in PLACES.items():
        euclidean = Space(places, lambda one, other: abs(one - other))
        parts.append(Part(lambda fleet, name=name: inside(name, fleet), 1.0))
        parts.append(Part(lambda fleet, name=name: min(inside(name, fleet)), 1.0, euclidean))
    every = 2.0 + 2 * LENGTH
    return "IV.2, ε", 1 + 2 * LENGTH, float(together(fleets, parts).promise), every


def hospitals() -> Compared:
    """Return Example IV.5: a noisy count for each of seven hospitals, with ε = 1."""
    found = Overlapping(HOSPITALS, most=3).total([1.0] * HOSPITALS, unbounded)
    return "IV.5, ε", 3.0, float(found), float(HOSPITALS)


def replaced(name: str) -> Compared:
    """Return Example IV.14: an ambulance of one district is replaced by one of another."""
    losses = LOSSES[name]
    printed = max(sum(two) for two in itertools.combinations(losses, 2))
    found = Partition(len(losses)).total(list(losses), bounded)
    return f"IV.14, ε = {losses}", printed, float(found), sum(losses)


def replaced_approximately() -> tuple[Compared, Compared]:
    """Return Example VI.8: the ε and the δ of counts that are (1, 10⁻⁵)-private for a replaced ambulance."""
    found = Overlapping(HOSPITALS, most=3).total([pf.Approx(1.0, 1e-5)] * HOSPITALS, bounded)
    return (
        ("VI.8, ε", 6.0, found.epsilon, float(HOSPITALS)),
        ("VI.8, δ·10⁵", 6.0, found.delta * 1e5, float(HOSPITALS)),
    )


def gaussian() -> Compared:
    """Return Example VI.25: no rows against one row in each of two parts, each release with μ = 1."""
    tables = Space.of(["", "a", "b", "ab"], unbounded)
    parts = [Part(lambda table, key=key: table.count(key), 1.0) for key in "ab"]
    found = together(tables, parts, kind="gdp").loss("", "ab")
    return "VI.25, μ", math.sqrt(2), float(found), 2.0


def scale_of_counts() -> float:
    """Return the scale of the noise if all seven counts of IV.5 are one batch with ε = 3."""
    lists = [(ambulance, (ambulance + j) % HOSPITALS) for ambulance in range(140) for j in range(3)]
    served = pl.DataFrame(lists, schema=["ambulance", "hospital"], orient="row")
    scenario = pf.Scenario(pf.Presence("ambulance", rows=3), pf.Independent(), public=["hospital"])
    batch = pf.protect(served, scenario).group_by("hospital", keys=list(range(HOSPITALS)))
    return batch.private_count().plan(pf.Pure(3.0), noise=pf.Laplace).noises["count"].scale


def spent(promises: Sequence[pf.Guarantee], limit: pf.Guarantee, noise: Any) -> float:
    """Return what counts of districts cost on an account, where a row's district is the secret."""
    rows = pl.DataFrame({"district": list(DISTRICTS) * 200})
    secret = pf.Secret("district", domain=list(DISTRICTS), missing="skip")
    scenario = pf.Scenario(secret, pf.Independent())
    batch = pf.protect(rows, scenario)
    with TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        account = ledger.open("districts", scenario, limit=limit)
        for name, promise in zip(DISTRICTS, promises, strict=False):
            count = batch.private_sum(pl.col("district") == name, name=name)
            count.plan(promise, noise=noise).release(account)
        return account.spent().loss


WHY = {"IV.2, ε": "one closest ambulance moves, as a row is in one district; the paper counts both"}


def main() -> None:
    """Print all examples beside the paper, and draw them."""
    examples = [
        *(districts_and_hospitals(), hospitals()),
        *(replaced(name) for name in LOSSES),
        *(*replaced_approximately(), gaussian()),
    ]
    rows = list[Row]()
    for name, printed, found, every in examples:
        why = f"{WHY.get(name, 'same')}; all losses add up to {number(every)}"
        rows.append(Row(name, number(printed), number(found), why))
    rows.append(Row("IV.5 as one batch with ε = 3: Laplace scale", "1", number(scale_of_counts())))
    for losses in LOSSES.values():
        total = spent([pf.Pure(one) for one in losses], pf.Pure(3.0), pf.Laplace)
        printed = max(sum(two) for two in itertools.combinations(losses, 2))
        rows.append(Row(f"IV.14 on an account, ε = {losses}", number(printed), number(total)))
    total = spent([pf.Gdp(1.0)] * 2, pf.Gdp(3.0), pf.Gaussian)
    rows.append(
        Row("VI.25 on an account, μ if a row is replaced", number(math.sqrt(2)), number(total))
    )
    show("Granularity: what releases about parts lose together", rows)
    save_picture(lambda figure: draw(figure, examples), "gran_examples.svg")


def draw(figure: Any, examples: Sequence[Compared]) -> None:
    """Draw for each example the paper's bound, the library's and the sum of all losses."""
    axes = figure.subplots()
    labels = ("printed bound", "here", "all losses added")
    for place, label in enumerate(labels):
        heights = [one[place + 1] for one in examples]
        axes.bar(
            [at + 0.27 * (place - 1) for at in range(len(examples))], heights, 0.25, label=label
        )
    names = [one[0].replace(", ", ",\n", 1).replace("= ", "=\n") for one in examples]
    axes.set_xticks(range(len(examples)), names)
    axes.set(ylabel="loss (ε, δ·10⁵ or μ)")
    axes.legend()


if __name__ == "__main__":
    main()
