"""Membership in a genomic study with kin: the best attack on five releases beside Tables VIII and IX of DCP.

The paper attacks releases of five mechanisms by neural networks, on data that are not for everybody. Here a small study
is made up: the secret is whether a person is in it, a sibling tends to come along, and of five variants the number of
carriers is released with noise. Siblings share variants, so releases are not independent given the secret.

Table VIII: four releases, each with its own ε, and a fifth that is designed so that all five keep (ε_g, δ_g). Table IX:
five releases, two of them tied by a Gaussian copula with correlation .5. The attack is the best there is, the ratio of
the likelihoods of all outputs, so its AUC is one less the area under the trade-off curve of `pf.confounding.cost`,
within the error of sampling. No attack on (ε, δ) has an AUC above 1 − (1−δ)²/(1+e^ε): where the paper does, it says so.

Run it as `python examples/papers/dcp_tables_8_and_9.py [DRAWS]`.
"""

import itertools
import math
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

import pufferflow as pf
from pufferflow.confounding import Channel, Cost, cost, design, gaussian_copula

VARIANTS = ("rs1", "rs2", "rs3", "rs4", "rs5")
FREQUENCIES = (0.2, 0.3, 0.4, 0.25, 0.35)
SHARED = 0.8
"""How likely a sibling carries a variant of the person's."""
TOGETHER = {0: 0.25, 1: 0.75}
"""How likely the sibling is in the study, if the person is not, or is."""
DELTA = 0.02
HIDDEN = "member"
TABLE_8 = {
    (0.25, 0.05): 0.7441,
    (0.5, 0.1): 0.8093,
    (1.5, 0.3): 0.8921,
    (3.0, 0.6): 0.9138,
    (5.0, 1.0): 0.9330,
}
TABLE_9 = {
    (0.4, 0.05): 0.5624,
    (0.6, 0.1): 0.6206,
    (1.0, 0.18): 0.6943,
    (2.0, 0.3): 0.7429,
    (4.0, 0.6): 0.8235,
}


def carriers(person: int, sibling: int, frequency: float) -> np.ndarray:
    """Return the law of the number of carriers, counted up to 2: person, sibling, and one other member."""
    law = np.array([1.0])
    for chance in ([1.0] * person) + ([SHARED] * sibling) + [frequency]:
        law = np.convolve(law, [1 - chance, chance])
    told = np.zeros(3)
    np.add.at(told, np.minimum(np.arange(len(law)), 2), law)
    return told


def study() -> tuple[pf.Table, np.ndarray]:
    """Return the table of membership and counts, and its law given membership."""
    laws = np.zeros((2, *[3] * len(VARIANTS)))
    for member, sibling in itertools.product((0, 1), repeat=2):
        comes = TOGETHER[member] if sibling else 1 - TOGETHER[member]
        whole = np.array(comes)
        for frequency in FREQUENCIES:
            whole = np.multiply.outer(whole, carriers(member, sibling, frequency))
        laws[member] += whole
    cells = [
        cell for cell in itertools.product((0, 1), *[range(3)] * len(VARIANTS)) if laws[cell] > 0
    ]
    columns = dict(zip((HIDDEN, *VARIANTS), zip(*cells, strict=True), strict=True))
    return pf.Table({**columns, "probability": [laws[cell] / 2 for cell in cells]}), laws


def calibrated(table: pf.Table, variant: str, epsilon: float) -> Channel:
    """Return Laplace noise on a variant's count, rounded to 0, 1, 2, that costs this ε by itself."""

    def noisy(scale: float) -> Channel:
        return Channel.of_noise(variant, [0, 1, 2], [0, 1, 2], pf.Laplace(scale))

    low, high = 0.05, 100.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        kept = cost(table, noisy(middle), secret=HIDDEN).pure <= epsilon
        low, high = (low, middle) if kept else (middle, high)
    return noisy(high)


def attacked(
    laws: np.ndarray, releases: list[Channel], draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the AUC of the likelihood-ratio attack on drawn outputs, and its standard error."""
    outputs = [np.array([[float(p) for p in row] for row in one.probabilities]) for one in releases]
    joint = laws.reshape(2, -1)  # of shape (secret, points of the table)
    places = np.array(list(itertools.product(range(3), repeat=len(VARIANTS))))
    inputs = [
        [one.place(tuple(x[VARIANTS.index(name)] for name in one.reads)) for x in places.tolist()]
        for one in releases
    ]
    scores: list[np.ndarray] = []
    for member in (0, 1):
        rows = rng.choice(joint.shape[1], size=draws, p=joint[member] / joint[member].sum())
        likelihoods = joint[:, None, :].repeat(draws, axis=1)
        for own, read in zip(outputs, inputs, strict=True):
            given = own[np.array(read)]  # of shape (rows of the table, outputs)
            drawn = (given[rows].cumsum(axis=1) < rng.random(draws)[:, None]).sum(axis=1)
            likelihoods *= given[:, np.minimum(drawn, given.shape[1] - 1)].T
        totals = likelihoods.sum(axis=2)
        scores.append(np.log(totals[1] / totals[0]))
    ranks = np.searchsorted(np.sort(scores[0]), scores[1], side="left")
    ties = np.searchsorted(np.sort(scores[0]), scores[1], side="right")
    auc = float((ranks + ties).mean() / (2 * draws))
    return auc, math.sqrt(auc * (1 - auc) / draws)


def limit(epsilon: float) -> float:
    """Return the largest AUC of any attack on (ε, δ)."""
    return 1 - (1 - DELTA) ** 2 / (1 + math.exp(epsilon))


def row(target: float, paper: float, total: Cost, sampled: tuple[float, float]) -> list[str]:
    """Return a row of a table."""
    beyond = " above it" if paper > limit(target) else ""
    numbers = [
        f"{total.epsilon(DELTA):.3f}",
        f"{total.attack_auc:.4f}",
        f"{sampled[0]:.4f} ± {sampled[1]:.4f}",
    ]
    return [f"{target:g}", *numbers, f"{limit(target):.4f}", f"{paper:.4f}{beyond}"]


def main() -> None:
    """Print both tables."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rng = np.random.default_rng(1)
    table, laws = study()
    heads = (
        "target ε",
        "ε of all at δ = .02",
        "AUC by cost",
        "AUC of the attack",
        "limit of the target",
        "paper",
    )
    designed, tied = (
        Table(*heads, title="Table VIII: a fifth release, designed"),
        Table(*heads, title="Table IX: two tied"),
    )
    for (target, each), paper in TABLE_8.items():
        past = [calibrated(table, variant, each) for variant in VARIANTS[:4]]
        fifth = design(table, past, pf.Approx(target, DELTA), secret=HIDDEN, query="rs5").channel
        total = cost(table, [*past, fifth], secret=HIDDEN)
        designed.add_row(*row(target, paper, total, attacked(laws, [*past, fifth], draws, rng)))
    for (target, each), paper in TABLE_9.items():
        five = [calibrated(table, variant, each) for variant in VARIANTS]
        releases = [gaussian_copula(five[0], five[1], 0.5), *five[2:]]
        total = cost(table, releases, secret=HIDDEN)
        tied.add_row(*row(target, paper, total, attacked(laws, releases, draws, rng)))
    for one in (designed, tied):
        Console(width=120).print(one)


if __name__ == "__main__":
    main()
