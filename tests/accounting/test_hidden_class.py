"""Gaussian releases about rows that share a hidden class: totals are never below the truth of adaptive games (M63)."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from answers import asked, cost
from thinned import thinned

import pufferflow as pf
from pufferflow.accounting.account_costs import AccountCosts
from pufferflow.accounting.rules.choice import least, methods_for
from pufferflow.accounting.rules.hidden_class import HiddenClassRule
from pufferflow.calibration import latent_mixture
from pufferflow.calibration.calibrate import read_kind
from pufferflow.calibration.latent_mixture import HiddenClassLoss
from pufferflow.models.priors.latent_class import LatentClassesNear
from pufferflow.models.priors.near import Around
from pufferflow.privacy.conversions import gaussian_deltas, gdp_to_approx
from pufferflow.published.cost import Region

RULE = HiddenClassRule()
DELTA, ALPHA = 1e-3, 2.0
APPROX, RENYI = pf.Approx.of(DELTA), pf.Renyi.of(ALPHA)
GDP, ZCDP = (read_kind(kind) for kind in (pf.Gdp, pf.Zcdp))


class Query(NamedTuple):
    """A sum over some rows of a group, with Gaussian noise."""

    rows: tuple[int, ...]
    values: tuple[float, ...]
    scale: float

    def of(self, data):
        return np.asarray(self.values)[data[:, list(self.rows)]].sum(axis=1) / self.scale

    def cost(self, size):
        width = max(self.values) - min(self.values)
        return cost(
            pf.Gaussian(self.scale),
            self.values,
            rows=(len(self.rows), size - len(self.rows)),
            group_movement=len(self.rows) * width,
        )


class Game(NamedTuple):
    """A first query, and for answers below and above 0 the query that follows."""

    weights: np.ndarray
    laws: np.ndarray
    size: int
    first: Query
    below: Query
    above: Query

    @property
    def scenario(self):
        prior = pf.LatentClass(self.weights.tolist(), self.laws.tolist())
        secret = pf.Secret("level", domain=list(range(self.laws.shape[1])))
        return pf.Scenario(secret, prior, within="house")

    @property
    def paths(self):
        """What is released on both paths."""
        first = self.first.cost(self.size)
        return [
            asked(self.scenario, first, two.cost(self.size)) for two in (self.below, self.above)
        ]

    def total(self):
        """The largest ε, and the largest Rényi loss, of a path: the least limits that admit both."""
        return (
            max(RULE.by_own(path, APPROX) for path in self.paths),
            max(RULE.by_own(path, RENYI) for path in self.paths),
        )

    def densities(self):
        """The densities of both answers given each value of each row: [(row, values × answers)], and the cell."""
        data = np.array(list(itertools.product(range(self.laws.shape[1]), repeat=self.size)))
        joint = self.weights @ np.array([np.prod(law[data], axis=1) for law in self.laws])
        centre = self.first.of(data) - joint @ self.first.of(data)
        ones = np.linspace(centre.min() - 6.5, centre.max() + 6.5, 201)
        ones += 0.5 * (ones[1] - ones[0]) - ones[np.abs(ones).argmin()]  # no node where paths part
        twos = [one.of(data) for one in (self.below, self.above)]
        other = np.linspace(min(map(np.min, twos)) - 6.5, max(map(np.max, twos)) + 6.5, 201)
        cell = (ones[1] - ones[0]) * (other[1] - other[0]) / (2 * math.pi)
        early = np.exp(-((ones[:, None] - centre) ** 2) / 2)
        late = [np.exp(-((other[:, None] - two) ** 2) / 2) for two in twos]
        for row in range(self.size):
            given = [np.where(data[:, row] == v, joint, 0.0) for v in range(self.laws.shape[1])]
            given = [law / law.sum() for law in given]
            parts = [
                np.concatenate(
                    [(early[ones < 0] * law) @ late[0].T, (early[ones > 0] * law) @ late[1].T]
                )
                for law in given
            ]
            yield row, [part * cell for part in parts]

    def truth(self, epsilon):
        """The δ at an ε and the Rényi loss, of the worst row and the worst two values."""
        deltas, losses = [0.0], [0.0]
        for _, parts in self.densities():
            for top, bottom in itertools.permutations(parts, 2):
                deltas.append(np.maximum(top - math.exp(epsilon) * bottom, 0.0).sum())
                safe = np.maximum(bottom, 1e-300)
                losses.append(math.log((top**ALPHA * safe ** (1 - ALPHA)).sum()) / (ALPHA - 1))
        return max(deltas), max(losses)

    def gaussian_excess(self):
        """The most by which some δ is above that of the total μ, and some Rényi loss above that of the total ρ."""
        mu, rho = (max(RULE.by_own(path, kind) for path in self.paths) for kind in (GDP, ZCDP))
        excess = [-1.0, -1.0]
        for _, parts in self.densities():
            for top, bottom in itertools.permutations(parts, 2):
                for epsilon in (0.0, 0.1, 0.3, 0.7, 1.5):
                    delta = np.maximum(top - math.exp(epsilon) * bottom, 0.0).sum()
                    allowed = float(gaussian_deltas(np.array([mu]), epsilon)[0])
                    excess[0] = max(excess[0], delta - allowed)
                safe = np.maximum(bottom, 1e-300)
                for alpha in (1.2, 2.0, 4.0):
                    loss = math.log((top**alpha * safe ** (1 - alpha)).sum()) / (alpha - 1)
                    excess[1] = max(excess[1], loss / alpha - rho)
        return excess


def random_game(seed):
    rng = np.random.default_rng(seed)
    points, size = (2, int(rng.integers(2, 6))) if seed % 4 else (3, int(rng.integers(2, 4)))
    concentrated = rng.choice([0.4, 1.0, 3.0])
    weights, laws = rng.dirichlet(np.ones(2)), rng.dirichlet(concentrated * np.ones(points), 2)

    def query():
        rows = rng.choice(size, int(rng.integers(1, size + 1)), replace=False)
        values = rng.integers(-2, 3, points).astype(float)
        values[0] += values[0] == values[1]
        return Query(tuple(sorted(rows.tolist())), tuple(values), float(rng.uniform(1, 8)))

    return Game(weights, laws, size, query(), query(), query())


SEEDS = range(60)


@pytest.mark.parametrize("seed", thinned(SEEDS, 0.5))
def test_totals_are_never_below_the_truth(seed):
    """The second query is chosen by the first answer; rows overlap, are apart, or leave the secret's one out."""
    game = random_game(seed)
    epsilon, renyi = game.total()
    delta, loss = game.truth(epsilon)
    assert delta <= DELTA * (1 + 1e-6)
    assert loss <= renyi + 1e-7


@pytest.mark.parametrize("seed", thinned(SEEDS, 0.5))
def test_gaussian_and_concentrated_totals_are_never_below_the_truth(seed):
    """The same games under limits in μ and ρ."""
    of_deltas, of_losses = random_game(seed).gaussian_excess()
    assert of_deltas <= 1e-6
    assert of_losses <= 1e-7


def same_query(laws, size, scale):
    query = Query(tuple(range(size)), (0.0, 1.0), scale)
    return Game(np.array([0.5, 0.5]), np.array(laws), size, query, query, query)


ALIKE = [
    same_query([[0.8, 0.2], [0.3, 0.7]], 5, 6.0),
    same_query([[0.9, 0.1], [0.1, 0.9]], 4, 4.0),
    same_query([[0.6, 0.4], [0.4, 0.6]], 4, 3.0),
    same_query([[0.95, 0.05], [0.5, 0.5]], 3, 3.0),
]


@pytest.mark.parametrize("game", ALIKE)
def test_totals_are_near_the_truth_where_groups_are_far_from_it(game):
    epsilon, renyi = game.total()
    low, high = 0.0, epsilon
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if game.truth(middle)[0] <= DELTA else (middle, high)
    _, loss = game.truth(1.0)
    moved = game.size * math.sqrt(2) / game.first.scale
    assert high <= epsilon <= 1.6 * high
    assert loss <= renyi <= 2.3 * loss
    assert epsilon < gdp_to_approx(moved, DELTA)
    assert renyi < moved**2


BIMODAL = [
    same_query([[1 - rare, rare], [rare, 1 - rare]], size, scale)
    for rare in (0.001, 0.02)
    for size in (2, 3, 5)
    for scale in (2.0, 6.0, 15.0)
]


def _of(own, square):
    """Return a planted error: wrong movements of the secret's row and of the class."""

    def moved(self, information):
        unit = np.ones((1, 1)) * math.sqrt(information)
        return own * unit, unit * np.sqrt(square(self.others))

    return moved


PLANTED = {
    "the split is forgotten": _of(1.0, lambda others: others.outside**2),
    "the split of the class is forgotten": _of(0.98**-0.5, lambda others: others.outside**2),
    "the number of rows is not squared": _of(math.sqrt(2), lambda others: 2 * others.outside),
    "the class does not move": _of(math.sqrt(2), lambda others: 0 * others.outside),
}


@pytest.mark.parametrize("error", PLANTED)
def test_forgotten_factors_are_found(error, monkeypatch):
    """With a wrong formula the truth of some of these games is above the total."""
    monkeypatch.setattr(HiddenClassLoss, "_thinned", PLANTED[error])

    def found(game):
        epsilon, renyi = game.total()
        delta, loss = game.truth(epsilon)
        return delta > DELTA * 1.001 or loss > renyi * 1.001

    assert any(found(game) for game in [*BIMODAL, *ALIKE])


def test_a_class_that_is_left_out_of_deviations_is_found(monkeypatch):
    """Without the class the δ of some game is above that of the μ of one row."""
    monkeypatch.setattr(latent_mixture, "gaussian_of_mixtures", lambda moved, *_, **__: 0 * moved)
    assert any(game.gaussian_excess()[0] > 1e-6 for game in ALIKE)


CLASSES = pf.LatentClass([0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]])
ON = pf.Secret("level", domain=[0, 1])
LIMIT = pf.Approx(1.0, DELTA)


def gaussian(rows, scale, others=0):
    return cost(pf.Gaussian(scale), [0, 1], rows=(rows, others), group_movement=float(rows))


def laplace(rows, scale):
    return cost(pf.Laplace(scale), [0, 1], rows=(rows, 0), group_movement=float(rows))


def account_of(*costs, prior=CLASSES, secret=ON, limit=LIMIT):
    account = AccountCosts([pf.Scenario(secret, prior, within="house")], limit)
    for one in costs:
        account = account.begun(one)
        account.add(one)
    return account


def test_an_account_counts_by_information_from_its_first_release_on():
    costs = [gaussian(5, 20.0)] * 10
    for limit in (APPROX.at(1.0), RENYI.at(1.0), pf.Gdp(1.0)):
        account = account_of(*costs, limit=limit)
        total = account.total()
        assert total.method == "latent"
        assert total.rule == RULE.name
        assert total.total < account.kind.loss_from(pf.Gdp(5 * math.sqrt(10) / 20)) * 0.95
        assert account_of(*costs[:9], limit=limit).total().total < total.total


def test_under_a_limit_in_concentrated_losses_the_class_counts_at_most_once():
    """Loud releases reveal the class; what they lose beside it is that of one row."""
    account = account_of(*[gaussian(9, 4.0)] * 3, limit=pf.Zcdp(9.0))
    total, alone = account.total(), 3 / 4**2 / 2
    assert total.method == "latent"
    assert alone < total.total < 1.1 * (alone + 0.65) < 81 * alone / 6


def test_what_the_first_request_fixed_holds_for_all_units():
    """A later unit is counted in the units of the account's first release, of one row of a house."""
    first = cost(pf.Gaussian(30.0), [0, 1], rows=(1, 4), regions={"house": NORTH})
    later = [cost(pf.Gaussian(30.0), [0, 1], rows=(5, 0), regions={"house": SOUTH})] * 2
    assert account_of(first, *later).total().total > account_of(*later).total().total * 1.01
    alone = account_of(*later).total().total
    assert account_of(*later, first).total().total == pytest.approx(alone)


NORTH, SOUTH = (Region("number", labels=(place,)) for place in (1, 2))


def test_releases_of_more_rows_have_their_price():
    one, many = gaussian(1, 20.0, others=5), gaussian(6, 20.0)
    costs = [one, many], [many, one], [many, many]
    totals = [RULE.by_own(asked(account_of().scenario, *some), APPROX) for some in costs]
    assert totals[2] >= totals[1] > RULE.by_own(asked(account_of().scenario, many), APPROX)
    assert math.isfinite(totals[0])


def test_releases_of_fewer_rows_count_by_one_row():
    """One row may be in all of them, whatever the first release was about."""
    costs = [gaussian(6, 20.0), *[gaussian(1, 20.0, others=5)] * 30]
    alike = pf.LatentClass([0.5, 0.5], [[0.4, 0.6], [0.4, 0.6]])
    total = RULE.by_own(asked(account_of(prior=alike).scenario, *costs), APPROX)
    assert total >= gdp_to_approx(math.sqrt(31) / 20, DELTA) * (1 - 1e-9)


def test_other_noise_counts_where_it_came_first():
    """Thinning is for Gaussian noise: an account that began with it has no total of others."""
    scenario = account_of().scenario
    early, late = [laplace(3, 20.0), gaussian(3, 20.0)], [gaussian(3, 20.0), laplace(3, 20.0)]
    for total in (
        lambda some: RULE.by_own(some, APPROX),
        lambda some: RULE.by_own(some, RENYI),
    ):
        assert 0 < total(asked(scenario, *early)) < math.inf
        assert total(asked(scenario, *late)) == math.inf
    assert account_of(late[0]).total([late[1]]).method == "gaussian"


def test_other_secrets_and_classes_of_priors_count_groups():
    kind = pf.Derived("kind", column="level", domain=[0, 1])
    near = LatentClassesNear(
        Around(((0.5, 0.5),), ((0.4, 0.4),), ((0.6, 0.6),), (0.1,)),
        Around(
            ((0.8, 0.2), (0.3, 0.7)), ((0.7, 0.1), (0.2, 0.6)), ((0.9, 0.3), (0.4, 0.8)), (0.1, 0.1)
        ),
    )
    for prior, secret in ((CLASSES, kind), (near, ON)):
        account = account_of(gaussian(5, 20.0), prior=prior, secret=secret)
        assert account.methods.alive == ["gaussian"]
        assert account.total().total == pytest.approx(APPROX.loss_from(pf.Gdp(0.25)))


def test_classes_that_are_alike_count_one_row():
    """And three classes are revealed or coupled."""
    alike = pf.LatentClass([0.5, 0.5], [[0.4, 0.6], [0.4, 0.6]])
    one = APPROX.loss_from(pf.Gdp(0.5))
    found = account_of(gaussian(5, 2.0), prior=alike).total().total
    assert one <= found <= one * (1 + 1e-5)
    three = pf.LatentClass([0.2, 0.3, 0.5], [[0.8, 0.2], [0.5, 0.5], [0.3, 0.7]])
    assert one < account_of(gaussian(5, 2.0), prior=three).total().total < 5 * one


def test_methods_are_those_of_classes_and_rows():
    assert methods_for(APPROX, [CLASSES]) == ["pure", "gaussian", "latent", "pair"]
    assert methods_for(RENYI, [CLASSES]) == ["pure", "renyi", "latent"]
    assert least(asked(account_of().scenario, gaussian(2, 1.0)), APPROX, "latent").rule == RULE.name
