"""Random worlds of Gaussian rows: in hidden classes, and along a sequence; all rows hang on the secret one only."""

import itertools

import numpy as np
import polars as pl
from scipy import special

import pufferflow as pf
from games.game import Question, game_of
from games.tables import gaussians
from games.world import Release, World

_REVEALING = 24


def classes(rng, kind):
    """Two classes that tie the first row to other rows in ways of their own; some rows tell the class by their mean."""
    ties = rng.choice([0.0, 0.0, 0.5, 0.95], (2, 4))
    centres = np.array([0.0, float(rng.choice([0.3, 1.0]))])
    variances = np.array([1.0, float(rng.choice([0.5, 0.8, 1.6]))])
    turn = centres[1] / variances[1] / (1 / variances[1] - 1 / variances[0])
    low = turn - 0.5 + float(rng.choice([0.0, 0.0, 0.1, -0.2]))
    weight = float(rng.uniform(0.15, 0.85))
    covariances = [_star(row, one) for row, one in zip(ties, variances, strict=True)]
    prior = pf.GaussianMixture([weight, 1 - weight], centres.tolist(), covariances)
    secret = pf.Initial("x", pf.Interval(-40, 40), pairs=[(low, low + 1)])
    scenario = pf.Scenario(secret, prior, order_by="t")
    atoms = [(place, value) for place in (0, 1) for value in (low, low + 1)]
    world = _world(atoms, [weight, 1 - weight], centres, variances)
    return game_of(
        rng,
        kind,
        scenario,
        world,
        _questions(scenario, atoms, ties, centres, variances),
        size=11,
        fills=7,
    )


def _star(ties, variance):
    """Return a covariance under which all rows are independent given the first one."""
    factors = np.concatenate([[1.0], ties, np.zeros(_REVEALING)])
    matrix = np.outer(factors, factors)
    np.fill_diagonal(matrix, 1.0)
    return (matrix * variance).tolist()


def _world(atoms, weights, centres, variances):
    """Return the class and the first row's value: the class given the value, by Bayes."""
    values = sorted({value for _, value in atoms})
    odds = {}
    for value in values:
        masses = (
            np.array(weights)
            * np.exp(-((value - centres) ** 2) / (2 * variances))
            / np.sqrt(variances)
        )
        odds[value] = masses / masses.sum()
    return World.given(
        atoms, [odds[value][place] / 2 for place, value in atoms], [value for _, value in atoms]
    )


def _questions(scenario, atoms, ties, centres, variances):
    size = 1 + ties.shape[1] + _REVEALING
    frame = pl.DataFrame({"t": range(size), "x": [0.0] * size})
    revealing = list(range(5, size))
    asked = []
    for rows in (
        [0],
        [1],
        [2],
        [3],
        [4],
        [0, 1],
        [0, 2],
        [1, 2],
        [3, 4],
        revealing[:4],
        revealing[4:],
        [0, *revealing],
    ):
        batch = (
            pf.protect(frame, scenario)
            .filter(pl.col("t").is_in(rows))
            .private_sum("x", name="answer")
        )
        release = _released(rows, atoms, ties, centres, variances)
        asked.append(
            Question(
                f"rows {rows[:3]}",
                batch,
                None,
                (pf.Gaussian,),
                release,
                {"bound": pf.Messages()},
                own=True,
            )
        )
    return asked


def _released(rows, atoms, ties, centres, variances):
    factors = np.concatenate([np.ones((2, 1)), ties, np.zeros((2, _REVEALING))], axis=1)

    def release(name, plan):
        means, squares = np.zeros(len(atoms)), np.full(len(atoms), plan.noises["answer"].scale ** 2)
        for at, (place, value) in enumerate(atoms):
            for row in rows:
                means[at] += centres[place] + factors[place, row] * (value - centres[place])
                squares[at] += variances[place] * (1 - factors[place, row] ** 2)
        return Release(
            name, plan, gaussians(means, np.sqrt(squares), most=60), frozenset(rows) - {0}
        )

    return release


def sequences(rng, kind):
    """A sequence whose correlation falls off with the distance, or does not; the secret is a row in its middle.

    Rows before and behind it are independent given its value, so each side is asked about once.
    """
    phi, falls = float(rng.uniform(0.3, 0.95)), bool(rng.integers(2))
    matrix = phi ** np.abs(np.arange(3)[:, None] - np.arange(3))
    covariance = pf.AR1(phi) if falls else matrix.tolist()
    distance = float(rng.uniform(0.5, 1.5))
    secret = pf.Secret("x", pf.Interval(-30, 30), pairs=[(0, distance)])
    scenario = pf.Scenario(secret, pf.GaussianPrior(covariance), order_by="t")
    values = np.array([0.0, distance])
    world = World.given(values, [0.5, 0.5], [0, 1])
    frame = pl.DataFrame({"t": range(3), "x": [0.0] * 3})
    asked = []
    for rows in ([0], [1], [2], [0, 1], [1, 2], [0, 1, 2], [0, 2]):
        batch = (
            pf.protect(frame, scenario)
            .filter(pl.col("t").is_in(rows))
            .private_sum("x", name="answer")
        )
        asked.append(
            Question(f"rows {rows}", batch, None, (pf.Gaussian,), _of_sequence(rows, values, phi))
        )
    asked.append(Question("the row alone", asked[1].batch, values, (pf.Laplace,)))
    return game_of(rng, kind, scenario, world, asked)


def _of_sequence(rows, values, phi):
    def release(name, plan):
        means = sum(values * (1.0 if row == 1 else phi) for row in rows)
        square = plan.noises["answer"].scale ** 2 + sum(1 - phi**2 for row in rows if row != 1)
        return Release(
            name,
            plan,
            gaussians(means, np.full(2, np.sqrt(square)), most=60),
            frozenset(rows) - {1},
        )

    return release


def thresholds(rng, kind):
    """Hidden classes whose rows are counted above a threshold: then every row moves an answer by one, as in groups.

    Rows are independent given the class and the first row's value, so data sets are finitely many, with exact laws.
    """
    ties = rng.choice([0.0, 0.5, 0.9], (2, 2))
    centres, variances = (
        np.array([0.0, float(rng.choice([1.0, 3.0]))]),
        np.array([1.0, float(rng.choice([0.3, 2.0]))]),
    )
    turn = centres[1] / variances[1] / (1 / variances[1] - 1 / variances[0])
    low, weight = (
        turn - 0.5 + float(rng.choice([0.0, 0.1, 0.3, -0.4])),
        float(rng.uniform(0.2, 0.8)),
    )
    factors = np.concatenate([np.ones((2, 1)), ties, np.zeros((2, 1))], axis=1)
    covariances = []
    for row, variance in zip(factors, variances, strict=True):
        matrix = np.outer(row, row)
        np.fill_diagonal(matrix, 1.0)
        covariances.append((matrix * variance).tolist())
    prior = pf.GaussianMixture([weight, 1 - weight], centres.tolist(), covariances)
    secret = pf.Initial("x", pf.Interval(-40, 40), pairs=[(low, low + 1)])
    scenario = pf.Scenario(secret, prior, order_by="t")
    border = low + 0.5 if rng.random() < 0.7 else float(centres.mean())
    atoms, chances = _above(factors, centres, variances, [low, low + 1], border, weight)
    world = World.given(atoms, chances, [value for _, value, *_ in atoms])
    frame, above = (
        pl.DataFrame({"t": range(4), "x": [0.0] * 4}),
        np.array([one[2:] for one in atoms], float),
    )
    asked = []
    for rows in ([0], [1], [2], [3], [0, 1], [1, 2], [0, 1, 2, 3]):
        batch = pf.protect(frame, scenario).filter(pl.col("t").is_in(rows))
        answers = above[:, rows].sum(axis=1)
        options = {"bound": pf.Messages()} if rng.random() < 0.5 else {}
        question = Question(
            f"rows {rows} above",
            batch.private_count(pl.col("x") > border),
            answers,
            options=options,
        )
        asked.append(question)
    return game_of(rng, kind, scenario, world, asked, size=12, fills=7)


def _above(factors, centres, variances, values, border, weight):
    """Return (class, value, which rows are above the border), and how likely each is; both values equally."""
    atoms, chances = [], []
    shares = _world(
        [(c, v) for c in (0, 1) for v in values], [weight, 1 - weight], centres, variances
    )
    known = dict(zip(shares.rows, shares.pairs[0].a + shares.pairs[0].b, strict=True))
    for (place, value), chance in known.items():
        means = centres[place] + factors[place, 1:] * (value - centres[place])
        spreads = np.sqrt(variances[place] * (1 - factors[place, 1:] ** 2))
        high = special.ndtr((means - border) / spreads)
        for which in itertools.product((0, 1), repeat=len(means)):
            atoms.append((place, value, int(value > border), *which))
            chances.append(chance * np.prod(np.where(which, high, 1 - high)))
    return atoms, chances
