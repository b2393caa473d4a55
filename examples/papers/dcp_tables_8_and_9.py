"""Membership in a genomic study with kin: the best attack on five releases beside Tables VIII and IX of DCP.

The paper attacks releases of five mechanisms by neural networks, on genomic data. Here a small study is made up. The
secret is whether a person is in it, a sibling tends to come along, and of five variants the number of carriers is
released with noise. Siblings share variants, so releases are not independent given the secret.

- Table VIII, Figure 1a: four releases, each with its own ε, and a fifth that is designed so that all keep (ε_g, .02).
- Table IX, Figure 1b: five releases, two of them tied by a Gaussian copula, whose correlation ρ makes all cost ε_g.
- "Single": one release of all five counts, with one scale of Laplace noise, that costs ε_g at δ = .02.

The attack is the best there is, the ratio of the likelihoods of all outputs. Its AUC is one less the area under the
trade-off curve of `pf.confounding.cost`, exactly. No attack on (ε, δ) has an AUC above 1 − (1−δ)²/(1+e^ε), for one
person or pooled over people with equal priors, since averages of errors of the first and second kind keep (ε, δ) too.
The caption of Figure 1a has ε_g = .25 twice; Table VIII has .5, which is used here.

Run it as `python examples/papers/dcp_tables_8_and_9.py [FILE.svg]`.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import brentq
from side_by_side import Row, save_picture, show

import pufferflow as pf
from pufferflow.confounding import Channel, cost, design, gaussian_copula

VARIANTS = ("rs1", "rs2", "rs3", "rs4", "rs5")
FREQUENCIES = (0.2, 0.3, 0.4, 0.25, 0.35)
SHARED = 0.8
"""How likely a sibling carries a variant of the person's."""
TOGETHER = {0: 0.25, 1: 0.75}
"""How likely the sibling is in the study, if the person is not, or is."""
DELTA = 0.02
HIDDEN = "member"
COUNTS = (0, 1, 2)
CORRELATIONS = (-0.999, -0.99, -0.9, -0.5, 0.0, 0.5, 0.9, 0.99, 0.999)
TABLE_8 = {
    (0.25, 0.05): (0.7441, 0.7485),
    (0.5, 0.1): (0.8093, 0.8165),
    (1.5, 0.3): (0.8921, 0.9056),
    (3.0, 0.6): (0.9138, 0.9175),
    (5.0, 1.0): (0.9330, 0.9308),
}
TABLE_9 = {
    (0.4, 0.05): (0.5624, 0.5745),
    (0.6, 0.1): (0.6206, 0.6388),
    (1.0, 0.18): (0.6943, 0.7086),
    (2.0, 0.3): (0.7429, 0.7324),
    (4.0, 0.6): (0.8235, 0.8139),
    (6.0, 1.0): (0.8238, 0.8142),
}
"""By (ε_g, ε_i): the AUC of the composition, and of a single mechanism."""


@dataclass(frozen=True)
class Found:
    """What a composition and a single mechanism of one target reach here."""

    target: float
    epsilon: float
    composition: float
    single: float
    correlation: float | None = None
    at_half: float = math.nan
    """The ε of all with a correlation of .5."""


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
    cells = [cell for cell in itertools.product((0, 1), *[COUNTS] * 5) if laws[cell] > 0]
    columns = dict(zip((HIDDEN, *VARIANTS), zip(*cells, strict=True), strict=True))
    return pf.Table({**columns, "probability": [laws[cell] / 2 for cell in cells]}), laws


def outputs(laws: np.ndarray, releases: list[Channel]) -> np.ndarray:
    """Return the laws of all outputs given membership, in floats; a tied pair reads two counts."""
    for one in releases:
        read = len(one.reads)
        matrix = one.matrix.reshape(*[3] * read, len(one.outputs))
        laws = np.tensordot(laws, matrix, axes=(range(1, 1 + read), range(read)))
    return laws.reshape(2, -1)


def epsilon_of(laws: np.ndarray, delta: float) -> float:
    """Return the least ε of two laws at δ, in both orders, in floats, from 0 to 50."""

    def excess(epsilon: float) -> float:
        sticks = laws - math.exp(epsilon) * laws[::-1]
        return float(np.maximum(sticks, 0).sum(axis=1).max()) - delta

    if excess(0.0) <= 0 or excess(50.0) > 0:
        return 0.0 if excess(0.0) <= 0 else 50.0
    return float(brentq(excess, 0.0, 50.0))


def noisy(variant: str, scale: float) -> Channel:
    """Return Laplace noise on a variant's count, rounded to 0, 1, 2."""
    return Channel.of_noise(variant, COUNTS, COUNTS, pf.Laplace(scale))


def scale_for(loss: Callable[[float], float], epsilon: float) -> float:
    """Return the scale of noise at which a loss, which falls with the scale, is an ε."""
    log_scale = brentq(lambda log: loss(math.exp(log)) - epsilon, math.log(0.05), math.log(500))
    return math.exp(log_scale) * (1 + 1e-9)


def calibrated(laws: np.ndarray, at: int, epsilon: float) -> Channel:
    """Return the release of one variant's count that costs this ε by itself."""
    own = laws.sum(axis=tuple(axis for axis in range(1, laws.ndim) if axis != at + 1))

    def pure(scale: float) -> float:
        return float(np.abs(np.diff(np.log(own @ noisy(VARIANTS[at], scale).matrix), axis=0)).max())

    return noisy(VARIANTS[at], scale_for(pure, epsilon))


def single(laws: np.ndarray, target: float) -> list[Channel]:
    """Return the release of all counts with one scale of noise that costs the target at δ."""

    def loss(scale: float) -> float:
        return epsilon_of(outputs(laws, [noisy(one, scale) for one in VARIANTS]), DELTA)

    scale = scale_for(loss, target)
    return [noisy(one, scale) for one in VARIANTS]


def correlation_for(loss: Callable[[float], float], target: float) -> float | None:
    """Return a correlation at which a loss is the target; None if there is none."""
    for one, other in pairwise(CORRELATIONS):
        if (loss(one) - target) * (loss(other) - target) <= 0:
            return float(brentq(lambda rho: loss(rho) - target, one, other, xtol=1e-7))
    return None


def limit(epsilon: float) -> float:
    """Return the largest AUC of any attack on (ε, δ)."""
    return 1 - (1 - DELTA) ** 2 / (1 + math.exp(epsilon))


def designed(table: pf.Table, laws: np.ndarray, target: float, each: float) -> Found:
    """Return what four releases and a designed fifth reach."""
    past = [calibrated(laws, at, each) for at in range(4)]
    fifth = design(table, past, pf.Approx(target, DELTA), secret=HIDDEN, query="rs5").channel
    total = cost(table, [*past, fifth], secret=HIDDEN)
    alone = cost(table, single(laws, target), secret=HIDDEN)
    return Found(target, total.epsilon(DELTA), total.attack_auc, alone.attack_auc)


def tied(table: pf.Table, laws: np.ndarray, target: float, each: float) -> Found:
    """Return what five releases reach, two of them tied with the correlation that meets the target."""
    first, second, *others = (calibrated(laws, at, each) for at in range(5))

    def loss(rho: float) -> float:
        return epsilon_of(outputs(laws, [gaussian_copula(first, second, rho), *others]), DELTA)

    rho = correlation_for(loss, target)
    pair = gaussian_copula(first, second, 0.5 if rho is None else rho)
    total = cost(table, [pair, *others], secret=HIDDEN)
    alone = cost(table, single(laws, target), secret=HIDDEN)
    aucs = total.attack_auc, alone.attack_auc
    return Found(target, total.epsilon(DELTA), *aucs, rho, loss(0.5))


def auc(item: str, target: float, paper: float, here: float) -> Row:
    """Return the row of an AUC."""
    most = limit(target)
    above = f"({target:g}, {DELTA}) allows {most:.4f}, so what the paper attacked does not keep it"
    other = f"other data and releases; at most {most:.4f} is possible"
    return Row(item, f"{paper:.4f}", f"{here:.4f}", above if paper > most else other)


def rows(found: list[Found], printed: dict[tuple[float, float], tuple[float, float]]) -> list[Row]:
    """Return the rows of a table: paper, library and reason."""
    listed: list[Row] = []
    for one, papers in zip(found, printed.values(), strict=True):
        item = f"ε_g = {one.target:g}"
        if not math.isnan(one.at_half):
            here = "none" if one.correlation is None else f"{one.correlation:.4f}"
            reason = f"at ρ = 0.5 all five cost {one.at_half:.3f} here"
            listed.append(Row(f"{item}: ρ", "0.5", here, reason))
        listed.append(
            auc(f"{item}, all cost {one.epsilon:.4f}", one.target, papers[0], one.composition)
        )
        listed.append(auc(f"{item}, single", one.target, papers[1], one.single))
    return listed


def plot(
    axes: Any, found: list[Found], printed: dict[tuple[float, float], tuple[float, float]]
) -> None:
    """Draw the AUC against the target: of the paper, here, and at most."""
    at = [one.target for one in found]
    papers = np.array(list(printed.values()))
    here = np.array([(one.composition, one.single) for one in found])
    for name, values, color in (("paper", papers, "tab:red"), ("here", here, "tab:blue")):
        axes.plot(at, values[:, 0], "o-", color=color, label=f"{name}, composition")
        axes.plot(at, values[:, 1], "s--", color=color, label=f"{name}, single")
    fine = np.linspace(0, max(at), 100)
    axes.plot(fine, [limit(one) for one in fine], color="black", label="most that (ε, .02) allows")
    axes.set(xlabel="ε_g", ylabel="AUC of the attack")


def main() -> None:
    """Print both tables, and draw Figures 1a and 1b."""
    table, laws = study()
    eighth = [designed(table, laws, *targets) for targets in TABLE_8]
    ninth = [tied(table, laws, *targets) for targets in TABLE_9]
    show("Table VIII: a fifth release, designed", rows(eighth, TABLE_8))
    show("Table IX: two releases tied", rows(ninth, TABLE_9))

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        plot(left, eighth, TABLE_8)
        plot(right, ninth, TABLE_9)
        left.set_title("1a: a fifth release, designed")
        right.set_title("1b: two releases tied")
        right.legend()

    save_picture(draw, "dcp_tables_8_and_9.svg")


if __name__ == "__main__":
    main()
