"""P21: totals of accounts against the exact joint loss, on random schedules of sums, by kind of limit and prior.

First 500 schedules along chains under a pure limit. The truth adds up every path of the chain, so sequences are short.
The kinds of chains are those that people state: near rows equal, near rows that avoid each other, and any. The total
"by rows" is that of ledgers without the rows of groups.

Then one or two sums under every kind of limit, along chains and under priors without an order. "spent" is what an
account of a ledger has spent, "fixed" the total of queries declared as fixed beforehand. Noise is Laplace, Gaussian,
one of each, or the planner's choice. The exact loss is that of continuous noise; `divergences.py` says how exact it is.
Schedules are drawn from fixed seeds, so that two versions can be compared.
"""

import itertools
import math
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import msgspec
import numpy as np
import polars as pl
from divergences import (
    ORDERS,
    Laws,
    Noise,
    by_events,
    by_nodes,
    concentrated,
    epsilon_at,
    far_shift,
    gaussian_mu,
    largest_ratio,
    laws_given_rows,
    laws_of_shift,
    renyi,
)

import pufferflow as pf

SCHEDULES, OTHER_SCHEDULES = 500, 100
ROWS, MOST_ROWS = {2: 10, 3: 7}, {2: 8, 3: 5}
"""Rows of chains by states: under a pure limit, and under the others."""
GOAL_MOST = 1.5
TYPICAL = {"Pure": 1.0, "Approx": 1.0, "Renyi": 1.0, "Zcdp": 0.3, "Gdp": 0.7}
KINDS = ("Pure", "Approx", "Renyi", "Zcdp", "Gdp")
PRIORS = ("chain", "independent", "any correlation", "latent class")
CELLS = [cell for cell in itertools.product(KINDS, PRIORS) if cell != ("Pure", "chain")]
NOISES = (
    ("laplace", "laplace"),
    ("gaussian", "gaussian"),
    ("auto", "auto"),
    ("laplace", "gaussian"),
)


def kernels(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Return a kind of chain, and its kernel."""
    states = int(rng.integers(2, 4))
    kind = ("staying", "avoiding", "any")[int(rng.integers(3))]
    kernel = rng.dirichlet(np.ones(states), states) * 0.94 + 0.06 / states
    if kind != "any":
        share = float(rng.uniform(0.6, 0.95))
        stay = np.eye(states)
        move = (1 - stay) / (states - 1)
        kernel = share * (stay if kind == "staying" else move) + (1 - share) / states
    return kind, kernel


def schedules() -> Iterator[tuple[str, float, float, float]]:
    """Yield for each schedule the kind of chain, the truth, the total, and the total by rows."""
    rng = np.random.default_rng(21)
    for _ in range(SCHEDULES):
        kind, kernel = kernels(rng)
        states = len(kernel)
        rows = ROWS[states]
        secret = pf.Secret("on", domain=list(range(states)), missing=0)
        scenario = pf.Scenario(secret, pf.MarkovChain(kernel.tolist()), order_by="t")
        frame = pl.DataFrame({"t": range(rows), "on": [0] * rows})
        plans, sums = list[Any](), list[tuple[int, int, float]]()
        for low, high in windows(rng, rows):
            batch = pf.protect(frame, scenario).filter(pl.col("t") >= low, pl.col("t") < high)
            epsilon = float(rng.exponential(1.0)) + 0.1
            plan = batch.private_sum("on", name="s").plan(pf.Pure(epsilon))
            plans.append(plan)
            sums.append((low, high, float(plan.noises["s"].scale)))
        total = pf.compose(plans, scenario).total
        older = pf.compose([by_rows(plan.cost) for plan in plans], scenario).total
        yield kind, truth(kernel, rows, sums), total, older


def windows(rng: np.random.Generator, rows: int) -> Iterator[tuple[int, int]]:
    """Yield windows: days one after another, or any that may overlap."""
    if rng.random() < 0.5:
        size = int(rng.integers(2, rows // 2 + 1))
        yield from ((at, at + size) for at in range(0, rows - size + 1, size))
    else:
        for _ in range(int(rng.integers(1, 4))):
            low, high = sorted(rng.choice(rows + 1, 2, replace=False).tolist())
            yield low, high


def by_rows(cost: Any) -> Any:
    """Return a cost as ledgers of earlier versions have it."""
    rows = msgspec.structs.replace(cost.shape.rows, patterns=())
    return msgspec.structs.replace(cost, shape=msgspec.structs.replace(cost.shape, rows=rows))


def truth(kernel: np.ndarray, rows: int, sums: list[tuple[int, int, float]]) -> float:
    """Return the joint loss about any row, by adding up every path."""
    data = data_sets(len(kernel), rows)
    spans = [(low, high) for low, high, _ in sums]
    secrets = laws_given_rows(data, weights(kernel, data), len(kernel), spans)
    noises = [Noise(False, scale) for _, _, scale in sums]
    return by_nodes(secrets, noises, largest_ratio, math.inf, 1)


def data_sets(values: int, rows: int) -> np.ndarray:
    """Return all data sets of a group."""
    return np.array(list(itertools.product(range(values), repeat=rows)))


def weights(kernel: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """Return the probabilities of paths of a stationary chain."""
    start = np.linalg.matrix_power(kernel, 4096)[0]
    return start[paths[:, 0]] * np.prod(kernel[paths[:, :-1], paths[:, 1:]], axis=1)


@dataclass(frozen=True)
class Setting:
    """A scenario, and the weights of all data sets of its group; None if any law of the rows is possible."""

    name: str
    scenario: pf.Scenario
    rows: int
    values: int = 2
    weight: np.ndarray | None = None

    def laws(self, spans: Sequence[tuple[int, int]]) -> list[Laws]:
        """Return the laws of the sums for each secret; where any law is possible, two certain ones are the worst."""
        if self.weight is not None:
            data = data_sets(self.values, self.rows)
            return list(laws_given_rows(data, self.weight, self.values, spans))
        if self.name == "any correlation":
            sizes = [high - low for low, high in spans]
            return [laws_of_shift(sizes, sizes)]
        rows = range(self.rows)
        shifts = {tuple(int(low <= row < high) for low, high in spans) for row in rows}
        return [laws_of_shift(shift, [1] * len(shift)) for shift in shifts]


def setting(name: str, rng: np.random.Generator) -> Setting:
    """Return a scenario with a random prior of a kind."""
    if name == "chain":
        kind, kernel = kernels(rng)
        values = len(kernel)
        rows = MOST_ROWS[values]
        weight = weights(kernel, data_sets(values, rows))
        chain = pf.MarkovChain(kernel.tolist())
        scenario = pf.Scenario(secret_of(values), chain, order_by="t")
        return Setting(f"{kind} chain", scenario, rows, values, weight)
    if name == "latent class":
        shares, ones = rng.dirichlet(np.ones(2)) * 0.9 + 0.05, rng.uniform(0.05, 0.95, 2)
        prior = pf.LatentClass(shares.tolist(), [[1 - one, one] for one in ones.tolist()])
        given = [np.where(data_sets(2, 6), one, 1 - one).prod(axis=1) for one in ones]
        scenario = pf.Scenario(secret_of(2), prior, public=["t"])
        return Setting(name, scenario, 6, weight=shares @ np.array(given))
    prior = pf.Independent() if name == "independent" else pf.AnyCorrelation()
    return Setting(name, pf.Scenario(secret_of(2), prior, public=["t"]), 6)


def secret_of(values: int) -> pf.Secret:
    """Return the secret of a row."""
    return pf.Secret("on", domain=list(range(values)), missing=0)


def guarantees(kind: str, rng: np.random.Generator) -> tuple[Any, Callable[[float], Any]]:
    """Return a kind of guarantee, and guarantees of it by loss."""
    if kind == "Approx":
        delta = float(rng.choice([1e-5, 1e-2]))
        return pf.Approx.of(delta=delta), lambda loss: pf.Approx(loss, delta)
    if kind == "Renyi":
        alpha = float(rng.choice([2.0, 8.0]))
        return pf.Renyi.of(alpha=alpha), lambda loss: pf.Renyi(alpha, loss)
    family = {"Pure": pf.Pure, "Zcdp": pf.Zcdp, "Gdp": pf.Gdp}[kind]
    return family, family


def loss_of(guarantee: Any) -> float:
    """Return the loss of a guarantee: its ε, ρ or μ."""
    return next(getattr(guarantee, n) for n in ("rho", "mu", "epsilon") if hasattr(guarantee, n))


def exact_loss(guarantee: Any, secrets: list[Laws], noises: list[Noise], step: int) -> float:
    """Return the exact joint loss in the kind of a guarantee."""
    if isinstance(guarantee, pf.Approx):
        return by_events(secrets, noises, lambda p, q: epsilon_at(p, q, guarantee.delta))
    if isinstance(guarantee, pf.Gdp):
        return max(by_events(secrets, noises, gaussian_mu), far_shift(secrets, noises))
    if isinstance(guarantee, pf.Zcdp):
        finite = by_nodes(secrets, noises, concentrated, ORDERS[-1], step)
        return max(finite, far_shift(secrets, noises) ** 2 / 2)
    if isinstance(guarantee, pf.Pure):
        return by_nodes(secrets, noises, largest_ratio, math.inf, step)
    order = guarantee.alpha
    return by_nodes(secrets, noises, lambda p, q: renyi(p, q, order), order, step)


@dataclass(frozen=True)
class Case:
    """A schedule with its truth and totals; the rule is that of a total above the goal."""

    kind: str
    prior: str
    noise: str
    truth: float
    spent: float
    fixed: float
    rule: str
    described: str


def cases(kind: str, name: str, numbers: range) -> list[Case]:
    """Return some schedules of a cell of the table; each has a seed of its own."""
    warnings.simplefilter("ignore", pf.UtilityWarning)
    return [case(kind, name, number) for number in numbers]


def case(kind: str, name: str, number: int) -> Case:
    """Return a schedule of one or two sums, with its truth and totals."""
    rng = np.random.default_rng([21, KINDS.index(kind), PRIORS.index(name), number])
    prior = setting(name, rng)
    family, of_loss = guarantees(kind, rng)
    spans = list(itertools.islice(windows(rng, prior.rows), 1 if number % 16 < 4 else 2))
    names = NOISES[0 if kind == "Pure" else number % 4]
    plans = [
        plan_of(prior, span, of_loss(loss_below(kind, rng)), noise)
        for span, noise in zip(spans, names, strict=False)
    ]
    spent = or_refused(lambda: spent_on(plans, prior.scenario, of_loss(1e4)))
    fixed = or_refused(lambda: pf.compose(plans, prior.scenario, family, fixed=True).total)
    drawn = [plan.noises["s"] for plan in plans]
    exact = [Noise(isinstance(noise, pf.Gaussian), float(noise.scale)) for noise in drawn]
    truth = exact_loss(of_loss(1.0), prior.laws(spans), exact, prior.values - 1)
    missed = GOAL_MOST * truth < spent < math.inf
    rule = pf.compose(plans, prior.scenario, family).rule if missed else ""
    described = f"number {number}, {prior.scenario.priors}, {of_loss(1.0)}, {spans}, {drawn}"
    used = "+".join(sorted({type(noise).__name__ for noise in drawn}))
    return Case(kind, prior.name, used, truth, spent, fixed, rule, described)


def spent_on(plans: list[Any], scenario: pf.Scenario, limit: Any) -> float:
    """Return what an account has spent after the releases of some plans."""
    with tempfile.TemporaryDirectory() as folder, pf.Ledger(f"{folder}/ledger.db") as ledger:
        account = ledger.open("sums", scenario, limit=limit)
        for plan in plans:
            plan.release(account)
        return loss_of(account.spent())


def or_refused(total: Callable[[], float]) -> float:
    """Return a total, or ∞ if it is refused."""
    try:
        return total()
    except pf.Refused:
        return math.inf


def loss_below(kind: str, rng: np.random.Generator) -> float:
    """Return the loss of one release."""
    return TYPICAL[kind] * (float(rng.exponential()) + 0.1)


def plan_of(prior: Setting, span: tuple[int, int], guarantee: Any, noise: str) -> Any:
    """Return the plan of a sum over a window."""
    frame = pl.DataFrame({"t": range(prior.rows), "on": [0] * prior.rows})
    batch = pf.protect(frame, prior.scenario).filter(pl.col("t") >= span[0], pl.col("t") < span[1])
    return batch.private_sum("on", name="s").plan(guarantee, noise=noise)


def along_chains() -> list[tuple[str, float, float, float]]:
    """Return the schedules along chains under a pure limit."""
    return list(schedules())


def main() -> int:
    """Print both tables; fail if a total is below the truth."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        pure = pool.submit(along_chains)
        parts = [
            pool.submit(cases, *cell, range(at, min(at + 25, OTHER_SCHEDULES)))
            for cell in CELLS
            for at in range(0, OTHER_SCHEDULES, 25)
        ]
        below = print_chains(pure.result())
        below += print_table([one for part in parts for one in part.result()])
    return int(bool(below))


def print_chains(found: list[tuple[str, float, float, float]]) -> int:
    """Print quantiles of total / truth by kind of chain under a pure limit; return how many are below the truth."""
    below = [row for row in found if row[2] < row[1] * (1 - 1e-9)]
    print(f"{len(found)} schedules, {len(below)} totals below the truth")
    for kind in ("staying", "avoiding", "any", ""):
        some = [row for row in found if kind in {row[0], ""} and row[1] > 0]
        ratios = {"total": [r[2] / r[1] for r in some], "by rows": [r[3] / r[1] for r in some]}
        for name, found_ratios in ratios.items():
            median, most, worst = quantiles(found_ratios)
            print(
                f"{kind or 'all':9} {name:8} {len(some):4}  median {median:.3f}  90 % {most:.3f}  worst {worst:.2f}"
            )
    return len(below)


def print_table(found: list[Case]) -> int:
    """Print a line by limit and prior, and rules of totals above the goal; return how many are below the truth."""
    below = [one for one in found if min(one.spent, one.fixed) < one.truth * (1 - 1e-7)]
    print(f"\n{'':29}{'spent / truth':22}{'fixed / truth':38}90 % of spent / truth")
    print(
        f"{'limit':7}{'prior':16}   n" + " median   90 %   worst" * 2 + " refused  below  by noise"
    )
    for kind in KINDS:
        of_kind = [one for one in found if one.kind == kind]
        for prior in sorted({one.prior for one in of_kind}):
            print_line([one for one in of_kind if one.prior == prior], below)
    for one in below:
        print(f"BELOW THE TRUTH: {one}")
    return len(below)


def print_line(cell: list[Case], below: list[Case]) -> None:
    """Print the line of a kind of limit and prior."""
    some = [one for one in cell if one.truth > 0 and one.spent < math.inf]
    refused = sum(one.spent == math.inf for one in cell)
    spent = [one.spent / one.truth for one in some]
    fixed = [one.fixed / one.truth for one in cell if one.truth > 0 and one.fixed < math.inf]
    figures = "".join(
        f"{median:7.3f}{most:7.3f}{worst:8.2f}"
        for median, most, worst in map(quantiles, (spent, fixed))
    )
    by_noise = [
        f"{noise} {quantiles([one.spent / one.truth for one in some if one.noise == noise])[1]:.2f}"
        for noise in sorted({one.noise for one in some})
    ]
    under = sum(one in below for one in cell)
    print(
        f"{cell[0].kind:7}{cell[0].prior:16}{len(some):4}{figures}{refused:8}{under:7}  {', '.join(by_noise)}"
    )
    if quantiles(spent)[1] > GOAL_MOST:
        rules = Counter((one.noise, one.rule) for one in some if one.rule)
        for rule, times in rules.most_common(4):
            print(f"{'':10}{times} above {GOAL_MOST}: {', '.join(rule)}")


def quantiles(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median, the 90 % quantile, and the largest."""
    median, most, worst = np.quantile(ratios or [math.nan], [0.5, 0.9, 1.0]).tolist()
    return median, most, worst


if __name__ == "__main__":
    sys.exit(main())
