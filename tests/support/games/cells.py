"""Random worlds for every rule of composition, with questions about them; laws are enumerated here."""

import itertools

import numpy as np
import polars as pl
from hidden_chains import scenario_of

import pufferflow as pf
from games.game import Game, Question, game_of
from games.known import asked_of_table, table_of
from games.referee import Composing, LedgerReferee, Referee
from games.tables import tail
from games.world import Pair, World, finite, release_of

BOTH = (pf.Laplace, pf.Gaussian)


def law(rng, size):
    """Return a random law with no value that is very rare."""
    return rng.dirichlet(np.full(size, float(rng.choice([0.6, 1.5])))) * 0.94 + 0.06 / size


def additive(rng, kind):
    """Any correlation: every two data sets in which the secret row differs must be indistinguishable."""
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1, 2]), pf.AnyCorrelation(), order_by="t", public=["day"]
    )
    rows = list(itertools.product((0, 1, 2), repeat=2))
    chosen = rng.choice(len(rows), 2, replace=False)
    world = World(rows, _two(*chosen, len(rows)))
    return game_of(rng, kind, scenario, world, _of_rows(scenario, np.array(rows, float).T))


def staircases(rng, kind):
    """Any correlation, and staircases beside Laplace noise: accounts count draws for the first release's pair."""
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1, 2]), pf.AnyCorrelation(), order_by="t", public=["day"]
    )
    rows = list(itertools.product((0, 1, 2), repeat=2))
    world = World(rows, _two(0, len(rows) - 1, len(rows)))
    shapes = [pf.Staircase.of(0.1 * fall, 0.02) for fall in rng.integers(1, 8, 3).tolist()]
    asked = _of_rows(scenario, np.array(rows, float).T, longer=False, noises=(*shapes, pf.Laplace))
    return game_of(rng, kind, scenario, world, asked, size=6, fills=2)


def _two(first, second, size):
    pair = Pair(f"{first} against {second}", np.eye(size)[first], np.eye(size)[second])
    return [pair, pair.reversed()]


def _of_rows(scenario, data, *, longer=True, noises=BOTH, column="x"):
    """Return sums over some rows of one sequence, and counts of large values, from files of one length or more."""
    size = len(data)
    frames = [
        pl.DataFrame({"t": range(n), "day": range(n), column: [0] * n}) for n in (size, size + 1)
    ]
    asked = []
    for some in _subsets(size):
        for frame in frames[: 1 + longer]:
            batch = pf.protect(frame, scenario).filter(pl.col("t").is_in(some))
            name = f"rows {some} of {frame.height}"
            asked.append(
                Question(f"sum, {name}", batch.private_sum(column), data[some].sum(axis=0), noises)
            )
            count = batch.private_count(pl.col(column) >= 1)
            asked.append(Question(f"count, {name}", count, (data[some] >= 1).sum(axis=0), noises))
    return asked


def _subsets(size):
    return [
        list(some)
        for many in range(1, size + 1)
        for some in itertools.combinations(range(size), many)
    ]


def independent(rng, kind):
    """Independent rows: the value of one row, in several columns of answers; other rows are known."""
    domain = [0, 1, 2, 3]
    scenario = pf.Scenario(
        pf.Secret("x", domain=domain), pf.Independent(), order_by="t", public=["day"]
    )
    world = World.given(domain, np.full(4, 0.25), domain)
    frame = pl.DataFrame({"t": [0, 1], "day": [0, 1], "x": [0, 0]})
    first = pf.protect(frame, scenario).filter(pl.col("t") == 0)
    whole = pf.protect(frame, scenario)
    asked = []
    for _ in range(5):
        values = rng.integers(0, 4, 4).astype(float)
        column = pl.col("x").replace_strict(dict(enumerate(values)), return_dtype=pl.Float64)
        batch = (first, whole)[rng.integers(2)]
        asked.append(
            Question(f"values {values}", batch.private_sum(column, name="answer"), values, BOTH)
        )
    return game_of(rng, kind, scenario, world, asked)


def chain(rng, kind, **options):
    """A Markov chain of two states and three rows, alone or beside another prior: the secret is any row's."""
    stay = rng.uniform(0.2, 0.97, 2)
    matrix = [[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]]
    beliefs = [
        pf.MarkovChain(matrix),
        *[(), (pf.Independent(),), (pf.MarkovChain([[0.6, 0.4], [0.4, 0.6]]),)][rng.integers(3)],
    ]
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), beliefs, order_by="t", public=["day"])
    rows = np.array(list(itertools.product((0, 1), repeat=3)))
    start = np.array([1 - stay[1], 1 - stay[0]]) / (2 - stay.sum())
    chances = start[rows[:, 0]]
    for step in (1, 2):
        chances = chances * np.array(matrix)[rows[:, step - 1], rows[:, step]]
    secret = int(rng.integers(3))
    world = World.given(rows, chances, rows[:, secret].tolist())
    asked = _of_rows(scenario, rows.T.astype(float), longer=bool(rng.integers(2)))
    return game_of(rng, kind, scenario, world, asked, **options)


def hidden(rng, kind, **options):
    """A hidden chain of two or three states and three rows: the secret is any row's state, or its symbol."""
    states, symbols = rng.integers(2, 4, 2)
    matrix, emission = (
        np.array([law(rng, size) for _ in range(states)]) for size in (states, symbols)
    )
    start = law(rng, states)
    about_state, secret = bool(rng.integers(3)), int(rng.integers(3))
    domain = list(range(symbols))
    prior = pf.HiddenMarkov(matrix, emission, start)
    scenario = scenario_of(prior, domain, hidden=about_state, start=0, public=["day"])
    chances = {}
    for s in itertools.product(range(states), repeat=3):
        for x in itertools.product(range(symbols), repeat=3):
            chance = start[s[0]] * matrix[s[0], s[1]] * matrix[s[1], s[2]] * emission[s, x].prod()
            place = (s if about_state else x)[secret], x
            chances[place] = chances.get(place, 0.0) + chance
    secrets, rows = zip(*chances, strict=True)
    rows = np.array(rows)
    world = World.given(rows, list(chances.values()), secrets)
    asked = _of_rows(scenario, rows.T.astype(float), longer=bool(rng.integers(2)))
    return game_of(rng, kind, scenario, world, asked, **options)


def tables(rng, kind, *, near=False, **options):
    """One row that is a draw of several columns: some independent given the secret, or all joint."""
    product = rng.random() < 0.6
    names = ["x", "y", "z"][: int(rng.integers(2, 4))]
    rows = list(itertools.product((0, 1), repeat=1 + len(names)))
    if product:
        shares = rng.uniform(0.05, 0.95, (2, len(names)))
        chances = [
            np.prod([shares[s, k] if v else 1 - shares[s, k] for k, v in enumerate(vs)]) / 2
            for s, *vs in rows
        ]
    else:
        chances = law(rng, len(rows))
    data = dict(zip(["s", *names], (list(one) for one in zip(*rows, strict=True)), strict=True))
    if near:
        counts = np.maximum((np.array(chances) * 400).round().astype(int), 1)
        reference = pl.DataFrame({name: np.repeat(column, counts) for name, column in data.items()})
        prior = pf.Table.fit(pf.Reference("counts", reference), ["s", *names], slack=0.02)
        chances = (counts + 0.5) / (counts + 0.5).sum()
    else:
        prior = pf.Table({**data, "probability": list(map(float, chances))})
    hidden = pf.Derived("s") if near or rng.random() < 0.8 else pf.Secret("s", domain=[0, 1])
    scenario = pf.Scenario(hidden, prior)
    world = World.given(rows, chances, data["s"])
    frame = pl.DataFrame(
        {name: [0] for name in (names if isinstance(hidden, pf.Derived) else ["s", *names])}
    )
    asked = []
    for name in frame.columns:
        for noise in (pf.Laplace, pf.Laplace, pf.Gaussian):
            batch = pf.protect(frame, scenario).private_sum(name, name="answer")
            bound = {"bound": pf.Exact()} if rng.random() < 0.3 else {}
            bound = (
                {"bound": pf.Messages()} if near else bound
            )  # no other is known of a class of tables
            asked.append(
                Question(
                    f"sum of {name}", batch, np.array(data[name], float), (noise,), options=bound
                )
            )
    return game_of(rng, kind, scenario, world, asked, **options)


def near(rng, kind):
    """A table known up to a region; the world is the table that was counted, one of those believed."""
    return tables(rng, kind, near=True)


def star(rng, kind, **options):
    """Rows that share a hidden class: three of them, and the secret is one row's value."""
    weights, laws = law(rng, 2), [law(rng, 2), law(rng, 2)]
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), pf.LatentClass(weights, laws), order_by="t", public=["day"]
    )
    rows = np.array(list(itertools.product((0, 1), repeat=3)))
    chances = sum(
        w * np.prod(np.array(one)[rows], axis=1) for w, one in zip(weights, laws, strict=True)
    )
    world = World.given(rows, chances, rows[:, 0].tolist())
    return game_of(
        rng,
        kind,
        scenario,
        world,
        _of_rows(scenario, rows.T.astype(float), longer=False),
        **options,
    )


def population(rng, kind):
    """Three rows drawn from one of two laws, which is the secret; their number is declared, or not."""
    laws, declared = [law(rng, 2), law(rng, 2)], (3, 3, None)[rng.integers(3)]
    secret = pf.Population(
        "x", domain=[0, 1], laws=dict(zip("ab", laws, strict=True)), rows=declared
    )
    scenario = pf.Scenario(secret, pf.Independent(), order_by="t", public=["day"])
    rows = np.array(list(itertools.product((0, 1), repeat=3)))
    first, second = (np.prod(np.array(one)[rows], axis=1) for one in laws)
    pair = Pair("a against b", first, second)
    world = World(rows, [pair, pair.reversed()])
    questions = _of_rows(scenario, rows.T.astype(float), longer=False)
    return game_of(rng, kind, scenario, world, questions)


def present(rng, kind):
    """Whether a unit is there, with one or two rows: once or not, in groups or not; sums and counts with filters."""
    rows = int(rng.integers(1, 3))
    options = [{"rows": rows}, {"rows": rows, "once": True}, {"rows": 1, "groups": 2, "by": "day"}][
        rng.integers(3)
    ]
    secret = pf.Presence("u", "x", domain=[0, 1, 2], **options)
    scenario = pf.Scenario(secret, pf.Independent(), public=["day"])
    frame = pl.DataFrame({"u": [0, 1, 1], "day": [0, 0, 1], "x": [0, 1, 2]})
    there = [(day, value) for day in (0, 1) for value in (1, 2)]
    own = [
        there[at]
        for at in rng.choice(4, 1 if rows == 1 and "groups" not in options else 2, replace=False)
    ]
    if "groups" in options:
        own = [(0, 2), (1, 1)]
    world = World([(), own], _two(0, 1, 2))
    asked = []
    for days in ([0], [1], [0, 1]):
        batch = pf.protect(frame, scenario).filter(pl.col("day").is_in(days))
        inside = [value for day, value in own if day in days]
        asked.append(
            Question(
                f"sum on days {days}", batch.private_sum("x"), np.array([0.0, sum(inside)]), BOTH
            )
        )
        asked.append(
            Question(
                f"count on days {days}", batch.private_count(), np.array([0.0, len(inside)]), BOTH
            )
        )
    return game_of(rng, kind, scenario, world, asked)


def keys(rng, kind):
    """A unit that is alone in a town: its key may appear; or counts and sums of all rows."""
    scenario = pf.Scenario(
        pf.Presence("u", "x", domain=[0, 1], rows=1), pf.Independent(), public=["town"]
    )
    frame = pl.DataFrame({"u": [0, 1], "town": ["a", "b"], "x": [0, 1]})
    world, there = World.given([0, 1], [0.5, 0.5], [0, 1]), np.array([0.0, 1.0])
    batch = pf.protect(frame, scenario)

    def appears(name, plan):
        known = plan.mechanism.noise.threshold
        chance = tail(known.noise, float(known.above - 1 + known.grid / 2))
        return finite(name, plan, [[0.0, chance], [1.0, 1 - chance]])

    asked = [
        Question("count", batch.private_count(), there, BOTH),
        Question("sum", batch.private_sum("x"), there, BOTH),
    ]
    found = batch.group_by("town", keys="discover").private_count()
    asked += [Question("keys", found, None, (one,), appears, own=True) for one in BOTH]
    game = game_of(rng, kind, scenario, world, asked)
    if kind == "approx":  # parts of δ of any size, for keys and for sums
        small = [pf.Approx(0.01, 2 * share * game.limit.delta) for share in (0.3, 0.5, 0.8, 0.95)]
        large = [
            pf.Approx(game.limit.epsilon * share, game.limit.delta) for share in (0.6, 0.8, 0.9)
        ]
        plans = [(one, found.plan(one, noise=pf.Gaussian)) for one in small]
        game.menu.extend(appears(f"keys {one!r}", plan) for one, plan in plans)
        counts = [
            (one, asked[0].batch.plan(one, noise=pf.Gaussian, bound=pf.GWM())) for one in large
        ]
        game.menu.extend(release_of(f"count {one!r}", plan, there) for one, plan in counts)
    return game


def local(rng, kind):
    """Rows published one by one through randomised response, beside noisy sums."""
    stay = rng.uniform(0.5, 0.95)
    prior = [pf.MarkovChain([[stay, 1 - stay], [1 - stay, stay]]), pf.AnyCorrelation()][
        rng.integers(2)
    ]
    scenario = pf.Scenario(pf.Secret("x", domain=[0, 1]), prior, order_by="t", public=["day"])
    rows = np.array(list(itertools.product((0, 1), repeat=2)))
    moved = (rows[:, 0] != rows[:, 1]).astype(int)
    chances = 0.5 * np.where(moved, 1 - stay, stay)
    world = World.given(rows, chances, rows[:, 0].tolist())
    if isinstance(prior, pf.AnyCorrelation):
        world = World(rows, _two(0, 3, 4) + _two(0, 1, 4))
    asked = _of_rows(scenario, rows.T.astype(float), longer=False)
    frame = pl.DataFrame({"t": [0, 1], "day": [0, 1], "x": [0, 0]})

    def published(some):
        def release(name, plan):
            channel = np.array(plan.channel.probabilities, float)
            table = np.ones((1, 4))
            for row in some:
                table = (table[:, None, :] * channel[rows[:, row]].T[None]).reshape(-1, 4)
            return finite(name, plan, table)

        return release

    for some in ([0], [0, 1]):
        batch = Local(
            pf.protect(frame, scenario).filter(pl.col("t").is_in(some)).private_local("x")
        )
        asked += [Question(f"rows {some} one by one", batch, None, (None,), published(some))] * 2
    return game_of(rng, kind, scenario, world, asked)


class Local:
    """Rows one by one as something that plans like a batch."""

    def __init__(self, asked):
        self._asked = asked

    def plan(self, promise, **options):
        """Return the plan of randomised response that keeps a guarantee."""
        return self._asked.plan(promise)


def reserving(rng, kind):
    """An account that reserved profiles: any correlation, independent rows, or a sequence."""
    prior = [pf.AnyCorrelation(), pf.Independent(), pf.GaussianPrior(pf.AR1(0.5))][rng.integers(3)]
    secret = pf.Secret("x", domain=[0, 1])
    if isinstance(prior, pf.GaussianPrior):
        secret = pf.Secret("x", domain=pf.Interval(0, 1.02), pairs=[(0, 1)])
    scenario = pf.Scenario(secret, prior, order_by="t", public=["day"])
    world = World([0, 1], _two(0, 1, 2))
    values, stairs = np.array([0.0, 1.0]), pf.Staircase.of(gamma=0.5)
    asked = []
    for size in (1, 2):
        frame = pl.DataFrame({"t": range(size), "day": range(size), "x": [0] * size})
        batch = pf.protect(frame, scenario).filter(pl.col("t") == 0).private_sum("x")
        noises = (pf.Laplace, pf.Gaussian, stairs, pf.Staircase.of(20.0, 0.5))
        asked.append(
            Question(f"row 0 of {size}", batch, values, noises, options={"row_privacy": False})
        )

    def reserve(limit):
        size, delta = max(limit.epsilon, 0.4), limit.delta
        one = [pf.Pure(size * s) for s in (0.3, 0.5, 0.7)] + [pf.Tv(delta * s) for s in (0.4, 0.9)]
        one += [pf.Approx(size * 0.4, delta * 0.4)]
        return [(one[at], 1) for at in rng.choice(len(one), 2, replace=False)]

    return game_of(rng, kind, scenario, world, asked, reserve=reserve, fills=0, size=9)


def composing(rng, kind):
    """pf.compose in place of an account: paths that it says to hold although queries depend on answers."""
    other = (None, chain, tables, star)[rng.integers(4)]
    if other is not None:
        return other(rng, kind, referee=Composing)
    scenario = pf.Scenario(
        pf.Secret("x", domain=[0, 1]), pf.AnyCorrelation(), order_by="t", public=["day"]
    )
    world = World([0, 1], _two(0, 1, 2))
    batch = pf.protect(pl.DataFrame({"t": [0], "day": [0], "x": [0]}), scenario).private_sum("x")
    stairs = pf.Staircase.of(gamma=0.5)
    asked = [Question("sum", batch, np.array([0.0, 1.0]), (pf.Laplace, pf.Gaussian, stairs))] * 2
    return game_of(rng, kind, scenario, world, asked, referee=Composing, size=10, fills=2)


class Designs:
    """The release that an account designs next, after whatever was released before."""

    def __init__(self, scenario, limit, batch, answers):
        self._scenario, self._limit, self._batch, self._answers = scenario, limit, batch, answers
        self._known = {}

    def after(self, path):
        """Return the design after a path of releases; None if it is refused."""
        if path not in self._known:
            self._known[path] = self._designed(path)
        return self._known[path]

    def _designed(self, path):
        account = LedgerReferee(self._scenario, self._limit).account(path)
        if account is None:
            return None
        try:
            plan = account.design(self._batch)
        except pf.Refused:
            return None
        channel = plan.channel
        rows = [channel.probabilities[channel.place(answer)] for answer in self._answers]
        return finite("design", plan, np.array(rows, float).T)


def budgets(rng, kind):
    """Noisy sums of one row of a table, and releases that are designed for the account."""
    shares = rng.uniform(0.1, 0.9, 2)
    chances = np.array([1 - shares[0], shares[0], 1 - shares[1], shares[1]]) / 2
    values = {"s": [0, 0, 1, 1], "x": [0, 1, 0, 1]}
    hidden = [pf.Derived("s"), pf.Secret("x", domain=[0, 1])][rng.integers(2)]
    scenario = pf.Scenario(hidden, pf.Table({**values, "probability": chances.tolist()}))
    world = World.given(
        values["x"], chances, values["s" if isinstance(hidden, pf.Derived) else "x"]
    )
    batch = pf.protect(pl.DataFrame({"x": [0]}), scenario).private_sum("x", name="answer")
    asked = [Question("sum", batch, np.array(values["x"], float), BOTH)] * 2
    game = game_of(rng, kind, scenario, world, asked, size=6, fills=2)
    game.menu.append(Designs(scenario, game.limit, batch, values["x"]))
    return game


def parts(rng, kind):
    """Columns that are independent given the secret, under a limit that telling the first of them outright just fills.

    A hardly noisy answer, a first part of what may be revealed about it, and another column with what is then left.
    """
    shares = {"x": float(rng.uniform(0.6, 0.9)), "y": float(rng.uniform(0.9, 0.99)), "z": 0.97}
    scenario, world, columns = table_of(shares)
    alpha = float(rng.choice([1.5, 2.0, 4.0]))
    promise = {
        "renyi": pf.Renyi,
        "approx renyi": lambda order, loss: pf.ApproxRenyi(order, loss, 1e-9),
    }[kind]
    whole = (
        pf.Pure(float(np.log(shares["x"] / (1 - shares["x"]))) + 1e-6).renyi_epsilon(alpha) + 3e-6
    )
    release, exactly = asked_of_table(scenario, columns), {"noise": pf.Laplace, "bound": pf.Exact()}
    first = float(rng.uniform(0.05, 0.4))
    menu = [
        release("z", promise(alpha, 1e-6), noise=pf.Gaussian),
        release("x", pf.Pure(60.0), bound=pf.GWM()),
    ]
    menu += [
        release(name, promise(alpha, whole * part), **exactly)
        for name, part in (("x", first), ("y", 0.9999 - first))
    ]
    limit = promise(alpha, whole)
    return Game(scenario, limit, world, menu, Referee(scenario, limit), depth=3)
