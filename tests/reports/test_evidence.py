"""What a plan shows of itself is true: above all, the worst pair has the laws of the answer in its own unit."""

import html
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from thinned import nightly, thinned

import pufferflow as pf
from pufferflow.reports import pages as report

HOURS, METERS = 12, 3
STAY = [[0.9, 0.1], [0.2, 0.8]]
DAY_NIGHT = [STAY] * 4 + [[[0.5, 0.5], [0.6, 0.4]]] * 8
ON = pf.Secret("on", domain=[0, 1])
KWH = pf.Secret("kwh", domain=pf.Interval(0, 10))
CLASSES = pf.LatentClass([0.5, 0.5], rows=[[0.9, 0.1], [0.3, 0.7]])
EXACT_CLASSES = pf.LatentClass(
    [Fraction(1, 2)] * 2, rows=[[Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 2)] * 2]
)
KINDS = pf.Table(
    {"kind": [*"aabb"], "on": [0, 1, 0, 1], "probability": [0.25, 0.25, 0.2, 0.3]}, shared=["kind"]
)
ALONE = pf.Table({"kind": [*"aabb"], "on": [0, 1, 0, 1], "probability": [0.45, 0.05, 0.1, 0.4]})


def frame():
    rng = np.random.default_rng(0)
    rows = HOURS * METERS
    return pl.DataFrame(
        {
            "meter": np.repeat(np.arange(METERS), HOURS),
            "hour": np.tile(np.arange(HOURS), METERS),
            "half": np.tile(np.arange(HOURS) // 6, METERS),
            "on": rng.integers(0, 2, rows),
            "kwh": rng.uniform(0, 10, rows),
        }
    )


def scenario(prior, secret=ON):
    return pf.Scenario(secret, prior, order_by="hour", within="meter", public="half", start=0)


PRIORS = {
    "independent": scenario(pf.Independent()),
    "chain": scenario(pf.MarkovChain(STAY)),
    "periodic chain": scenario(pf.MarkovChain(DAY_NIGHT, period=12)),
    "classes": scenario(CLASSES),
    "exact classes": scenario(EXACT_CLASSES),
    "table": scenario(KINDS, pf.Derived("kind")),
    "table of rows alone": scenario(ALONE, pf.Derived("kind")),
    "initial": scenario(pf.MarkovChain(STAY), pf.Initial("on", domain=[0, 1])),
    "two priors": scenario([pf.MarkovChain(STAY), CLASSES]),
    "any correlation": scenario(pf.AnyCorrelation()),
    "presence": pf.Scenario(
        pf.Presence("meter", "on", [0, 1], rows=10), pf.Independent(), within="meter"
    ),
}
ON_INTERVALS = {
    "independent": scenario(pf.Independent(), KWH),
    "close pairs": scenario(
        pf.Independent(), pf.Secret("kwh", domain=pf.Interval(0, 10), pairs=pf.WithinDistance(2.0))
    ),
    "exchangeable": scenario(pf.GaussianPrior(pf.Exchangeable(0.4), 4.0, 5.0), KWH),
    "autoregressive": scenario(pf.GaussianPrior(pf.AR1(0.7), 4.0, 5.0), KWH),
    "weakly dependent": scenario(pf.WeaklyDependent(0.3), KWH),
    "any correlation": scenario(pf.AnyCorrelation(), KWH),
}
QUERIES = {
    "a sum": lambda batch: batch.private_sum("on"),
    "a mean and a sum": lambda batch: batch.private_mean("on").private_sum("on"),
    "a histogram": lambda batch: batch.private_histogram("on"),
    "another unit": lambda batch: batch.private_sum(pl.col("on") * 0.25 - 3, name="z"),
}
GROUPED = {
    "sums of halves": lambda batch: batch.group_by("half").private_sum("on"),
    "means of meters": lambda batch: batch.group_by("meter").private_mean("on"),
    "some hours": lambda batch: batch.filter(pl.col("hour") % 3 == 0).private_sum("on"),
    "a variance": lambda batch: (
        batch.group_by("half").private_variance("on").private_histogram("on")
    ),
}
ON_INTERVAL = {
    "a sum": lambda batch: batch.private_sum("kwh"),
    "a bent mean": lambda batch: batch.private_mean((pl.col("kwh") - 5).abs(), name="away"),
    "a sum and a count": lambda batch: batch.private_sum("kwh").private_count(pl.col("kwh") >= 3),
    "a variance": lambda batch: batch.group_by("half").private_variance("kwh"),
}


def cases(priors, queries):
    """Return every prior with one of the queries, and with the others where there is time."""
    return [
        pytest.param(prior, query, marks=[pytest.mark.slow] if (place + at) % len(queries) else [])
        for place, prior in enumerate(priors)
        for at, query in enumerate(queries)
    ]


SIZED = [prior for prior in PRIORS if prior != "presence"]


def log_density(pair, atoms, at):
    """Return the logarithms of the density of an answer with its noise, but for a constant."""
    steps = np.abs(np.subtract.outer(at, atoms.values)) / pair.scale
    logs = {
        "Laplace": lambda: -steps,
        "Gaussian": lambda: -(steps**2) / 2,
        "GeneralizedCauchy": lambda: -pair.shape / 2 * np.log1p(steps**2),
    }[pair.noise]()
    top = logs.max(axis=1)
    return top + np.log(np.exp(logs - top[:, None]) @ np.array(atoms.weights))


def largest_ratio(pair):
    """Return the largest log ratio of the two noisy densities; with Laplace noise it is at an atom."""
    ends = np.array([*pair.mu.values, *pair.nu.values])
    at = np.concatenate(
        [ends, np.linspace(ends.min() - 5 * pair.scale, ends.max() + 5 * pair.scale, 500)]
    )
    return float(np.abs(log_density(pair, pair.mu, at) - log_density(pair, pair.nu, at)).max())


def plan_of(chosen, query, promise=None, **options):
    return query(pf.protect(frame(), chosen)).plan(
        pf.Pure(1.0) if promise is None else promise, **options
    )


def pair_of(plan):
    from pufferflow.release.explain.worst_pair import worst_pair

    found, note = worst_pair(plan.mechanism.noise)
    assert found is not None, note
    assert note == ""
    assert sum(found.mu.weights) == pytest.approx(1)
    assert sum(found.nu.weights) == pytest.approx(1)
    assert list(found.mu.values) == sorted(found.mu.values)
    return found


@pytest.mark.parametrize(("prior", "query"), thinned(cases(PRIORS, QUERIES), 0.27, unpack=True))
def test_one_number_of_a_frame(prior, query):
    """The two noisy densities differ by no more than e^ε; of a single sum with the exact bound, by almost that."""
    plan = plan_of(PRIORS[prior], QUERIES[query])
    assert largest_ratio(pair_of(plan)) <= 1 + 1e-9
    exact = plan_of(PRIORS[prior], QUERIES[query], bound=pf.Exact())
    least = 0.95 if len(exact.request.measures) == 1 else 0.45
    assert least < largest_ratio(pair_of(exact)) <= 1 + 1e-9


@pytest.mark.parametrize(("prior", "query"), thinned(cases(SIZED, GROUPED), 0.2, unpack=True))
def test_one_number_of_groups(prior, query):
    """So it is for one of several groups, whose answers together keep the guarantee."""
    for bound in ("auto", pf.GWM(), pf.Group()):
        pair = pair_of(plan_of(PRIORS[prior], GROUPED[query], bound=bound))
        assert 0.05 < largest_ratio(pair) <= 1 + 1e-9


@pytest.mark.parametrize(("prior", "query"), cases(ON_INTERVALS, ON_INTERVAL))
def test_one_number_on_an_interval(prior, query):
    """On an interval places in tables stand for values, so that secrets have no names."""
    pair = pair_of(plan_of(ON_INTERVALS[prior], ON_INTERVAL[query]))
    assert 0.2 < largest_ratio(pair) <= 1 + 1e-9
    assert (pair.first, pair.second) == ("one value", "another")


@pytest.mark.parametrize("noise", [pf.Laplace, pf.Gaussian, pf.GeneralizedCauchy])
@pytest.mark.parametrize("promise", [pf.Renyi(4, 1.0), pf.Approx(1.0, 1e-5)])
def test_other_promises(noise, promise):
    """Laws are the same under every guarantee; an epsilon stands there if the guarantee limits the ratio."""
    pair = pair_of(plan_of(PRIORS["chain"], QUERIES["a sum"], promise, noise=noise, bound=pf.GWM()))
    assert len(pair.mu.values) == HOURS
    known = promise.epsilon if isinstance(promise, pf.Approx) else None
    assert (pair.epsilon, pair.delta) == (known, getattr(promise, "delta", 0.0))
    assert largest_ratio(pair) > 0.3


def test_the_unit_is_that_of_the_answer():
    """Values are what could be published without noise, and the scale is that of the summary."""
    plan = plan_of(PRIORS["chain"], QUERIES["another unit"])
    pair = pair_of(plan)
    assert pair.scale == plan.summary()["scale"][0]
    ends = {pair.mu.values[0], pair.mu.values[-1], pair.nu.values[0], pair.nu.values[-1]}
    assert min(ends) == pytest.approx(-3 * HOURS)
    assert max(ends) == pytest.approx(-2.75 * HOURS)


def random_chain(rng):
    states = int(rng.integers(2, 4))
    transition = rng.dirichlet(np.ones(states), states) * 0.9 + 0.1 / states
    rows = int(rng.integers(3, 6))
    return transition, np.sort(rng.integers(0, 2, rows)), rng.random(rows) < 0.8


def enumerated(transition, asked, count, row, state):
    """Return the law of a sum of counted values over the rows asked about, given one row, world by world."""
    states, rows = len(transition), len(asked)
    start = np.linalg.matrix_power(transition, 300)[0]
    masses = {}
    for world in itertools.product(range(states), repeat=rows):
        if world[row] == state:
            mass = start[world[0]] * math.prod(
                transition[a, b] for a, b in itertools.pairwise(world)
            )
            total = sum(
                count(value) for value, is_asked in zip(world, asked, strict=True) if is_asked
            )
            masses[total] = masses.get(total, 0.0) + mass
    return {value: mass / sum(masses.values()) for value, mass in masses.items()}


COUNTED = {
    "level_sum": lambda value: value,
    "high": lambda value: 2.5 * (value >= 1),
    "level_histogram_0": lambda value: value == 0,
    "level_histogram_1": lambda value: value == 1,
    "level_histogram_2": lambda value: value == 2,
}


def same(atoms, law):
    if len(atoms.values) != len(law):
        return False
    return np.allclose(atoms.values, sorted(law), atol=1e-9) and np.allclose(
        atoms.weights, [law[value] for value in sorted(law)], atol=1e-9
    )


def is_among(pair, transition, part, asked):
    """Say whether the pair is that of two states of some row, and the sum is that of some cell."""
    states, rows = len(transition), range(len(asked))
    count = COUNTED[pair.answer]
    for row, cell in itertools.product(rows, (0, 1)):
        laws = [
            enumerated(transition, asked & (part == cell), count, row, state)
            for state in range(states)
        ]
        first, second = laws[int(pair.first)], laws[int(pair.second)]
        if same(pair.mu, first) and same(pair.nu, second):
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        0,
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4)),
        *nightly(range(4, 12)),
    ],
)
def test_laws_are_those_of_all_worlds(seed):
    """Along random chains the laws are what counting world by world gives, whichever bound found the pair."""
    rng = np.random.default_rng(seed)
    transition, part, asked = random_chain(rng)
    asked[int(rng.integers(len(asked)))] = True
    domain = list(range(len(transition)))
    rows = pl.DataFrame(
        {
            "hour": range(len(part)),
            "part": part,
            "asked": asked,
            "level": rng.choice(domain, len(part)),
        }
    )
    chosen = pf.Scenario(
        pf.Secret("level", domain=domain),
        pf.MarkovChain(transition),
        order_by="hour",
        public=["part", "asked"],
    )
    batch = pf.protect(rows, chosen).filter(pl.col("asked")).group_by("part", keys=[0, 1])
    queries = [
        lambda one: one.private_sum("level"),
        lambda one: one.private_sum((pl.col("level") >= 1).cast(pl.Int64) * 2.5, name="high"),
        lambda one: one.private_histogram("level"),
    ]
    for query in (queries[seed % 3], lambda one: queries[0](queries[2](one))):
        for bound in ("auto", pf.GWM()):
            pair = pair_of(query(batch).plan(pf.Pure(1.0), bound=bound))
            if "stand in" not in pair.note:
                assert is_among(pair, transition, part, asked)


def test_stand_ins_are_said_to_be():
    """Where only a movement is known, two points stand for the laws, and the note says so."""
    for prior, stand_in in (("any correlation", True), ("chain", False), ("independent", False)):
        assert ("stand in" in pair_of(plan_of(PRIORS[prior], QUERIES["a sum"])).note) == stand_in
    grouped = pair_of(plan_of(PRIORS["chain"], GROUPED["sums of halves"]))
    assert "one number of several" in grouped.note
    shortened = pair_of(plan_of(PRIORS["presence"], QUERIES["a sum"]))
    assert (shortened.first, shortened.mu.values, shortened.nu.values) == ("there", (10.0,), (0.0,))


def law_of_few(transition, asked, row, state):
    """Return the law of how many steps of `asked` are in state 1 given the state at `row`, by powers of the kernel."""
    steps, stationary = sorted({*asked, row}), np.linalg.matrix_power(transition, 5000)[0]
    masses = np.zeros(len(asked) + 1)
    for world in itertools.product((0, 1), repeat=len(steps)):
        if world[steps.index(row)] == state:
            gaps = np.diff(steps)
            mass = stationary[world[0]] * math.prod(
                np.linalg.matrix_power(transition, gap)[a, b]
                for gap, (a, b) in zip(gaps, itertools.pairwise(world), strict=True)
            )
            masses[
                sum(value for step, value in zip(steps, world, strict=True) if step in asked)
            ] += mass
    return {value: mass for value, mass in enumerate((masses / masses.sum()).tolist()) if mass}


@pytest.mark.parametrize("asked", [(6000, 6001, 6003), (100, 9000)])
def test_few_rows_of_a_long_sequence_are_drawn(asked):
    """Where few of very many rows are asked about, the two laws are those that powers of the kernel give."""
    transition = np.array([[0.95, 0.05], [0.1, 0.9]])
    rows = pl.DataFrame({"hour": range(12_000), "on": [0, 1] * 6000})
    chosen = pf.Scenario(ON, pf.MarkovChain(transition), order_by="hour")
    batch = pf.protect(rows, chosen).filter(pl.col("hour").is_in(asked)).private_sum("on")
    for bound in (pf.Messages(), pf.Quilt()):
        plan = batch.plan(pf.Pure(1.0), bound=bound)
        pair, row = (
            pair_of(plan),
            asked[0] + plan.calibration.witness.row,
        )  # those before cost no more
        for atoms, state in ((pair.mu, int(pair.first)), (pair.nu, int(pair.second))):
            assert same(atoms, law_of_few(transition, asked, row, state))


def test_a_secret_far_from_what_is_asked_is_drawn():
    """The first value of a sequence is a row of its own, however long ago it was."""
    transition = np.array([[0.999, 0.001], [0.002, 0.998]])
    rows = pl.DataFrame({"hour": range(12_000), "on": [0, 1] * 6000})
    chosen = pf.Scenario(
        pf.Initial("on", domain=[0, 1]), pf.MarkovChain(transition), order_by="hour", start=0
    )
    batch = pf.protect(rows, chosen).filter(pl.col("hour").is_between(900, 902)).private_sum("on")
    pair = pair_of(batch.plan(pf.Pure(1.0), bound=pf.Messages()))
    for atoms, state in ((pair.mu, int(pair.first)), (pair.nu, int(pair.second))):
        assert same(atoms, law_of_few(transition, (900, 901, 902), 0, state))


def test_few_rows_of_a_large_class_are_drawn():
    """Rows of a class that are not asked about do not matter to a sum of few others, however many they are."""
    rows = pl.DataFrame({"here": [True] * 3 + [False] * 30_000, "on": [0, 1, 1] * 10_001})
    chosen = pf.Scenario(ON, CLASSES, public="here")
    pair = pair_of(
        pf.protect(rows, chosen).filter(pl.col("here")).private_sum("on").plan(pf.Pure(1.0))
    )
    for atoms, state in ((pair.mu, int(pair.first)), (pair.nu, int(pair.second))):
        given = np.array([0.1, 0.7] if state else [0.9, 0.3])
        given /= given.sum()
        others = given @ [[0.81, 0.18, 0.01], [0.09, 0.42, 0.49]]
        assert same(
            atoms, {float(state + number): mass for number, mass in enumerate(others.tolist())}
        )


@pytest.mark.slow
def test_values_of_many_digits_are_drawn():
    """Values with no short common step, as those of classes are, are no reason to draw nothing."""
    rows = pl.DataFrame({"hour": range(500), "kw": [0.25, 0.37, 1.41, 2.75, 5.03] * 100})
    bins = pf.Bins([0, 0.3, 0.5, 2, 4, 11], [0.2, 0.35, 1.41, 2.7182, 5.0])
    chain = pf.MarkovChain(np.full((5, 5), 0.1) + 0.5 * np.eye(5))
    chosen = pf.Scenario(pf.Secret("kw", domain=bins), chain, order_by="hour")
    day = pf.protect(rows, chosen).filter(pl.col("hour").is_between(100, 123))
    pair = pair_of(day.private_sum("kw").plan(pf.Pure(1.0), bound=pf.Messages()))
    means = [float(np.dot(law.values, law.weights)) for law in (pair.mu, pair.nu)]
    middle = 24 * np.mean([0.2, 0.35, 1.41, 2.7182, 5.0])
    assert min(means) < middle < max(means)
    assert max(means) - min(means) == pytest.approx(
        4.8 * (1 + 2 * 0.5 / 0.5 * (1 - 0.5**11.5)), rel=0.02
    )


def test_bounds_without_joint_laws_are_not_taken_for_worked_out():
    """Where a comparison had movements only, evidence says of which bounds; the plan's own always counts."""
    rows = plan_of(
        PRIORS["chain"], lambda batch: batch.group_by("hour").private_sum("on"), bound=pf.Messages()
    )
    found = {row.bound: row for row in rows.evidence().bounds}
    assert [
        found[name].worked_out
        for name in ("Messages()", "Quilt(approximate=False)", "group privacy")
    ] == [True] * 3
    by_movement = [row for row in found.values() if row.note.startswith("by movement alone")]
    assert by_movement
    assert not any(row.worked_out for row in by_movement)
    group = plan_of(PRIORS["any correlation"], QUERIES["a sum"]).evidence().bounds
    assert [row.worked_out for row in group if row.chosen] == [True]


@pytest.mark.slow
def test_evidence_says_what_it_is_of():
    """Job, period and data set are kept as they are given, the guarantee in words, and which outputs are counts."""
    plan = plan_of(
        PRIORS["chain"],
        lambda batch: batch.private_sum("on").private_count(pl.col("on") == 1, name="n"),
    )
    found = plan.evidence(job="hourly", period="2026-11-20", dataset="meters")
    assert (found.job, found.period, found.dataset, found.counts) == (
        "hourly",
        "2026-11-20",
        "meters",
        ("n",),
    )
    assert found.promise_in_words.startswith(
        "epsilon 1 for all answers together: whoever sees the answers"
    )
    assert f"Guarantee: {found.promise_in_words}." in found.sentence
    assert (plan.evidence().job, plan.evidence().dataset) == ("", "")


@pytest.mark.slow
def test_evidence_says_how_long_rows_are_remembered():
    """Of a chain and an autoregression the curve and where it is 1 % are kept, of other priors nothing."""
    (chain,) = plan_of(PRIORS["chain"], QUERIES["a sum"]).evidence().memory
    assert chain.left[:3] == pytest.approx((1.0, 0.7, 0.49))
    assert (chain.forgotten, chain.step, chain.measure) == (13, "1", "total variation")
    assert max(chain.steps) > 13
    (falling,) = plan_of(ON_INTERVALS["autoregressive"], ON_INTERVAL["a sum"]).evidence().memory
    assert (falling.measure, falling.forgotten) == (
        "correlation",
        math.ceil(math.log(0.01) / math.log(0.7)),
    )
    assert plan_of(PRIORS["classes"], QUERIES["a sum"]).evidence().memory == ()


@pytest.mark.slow
def test_what_fitting_found_is_said_once():
    """Notes on a fit stand once in the sentence, once in the certificate, and not beside each prior and witness."""
    hours = pl.DataFrame({"hour": range(200), "on": [0, 0, 1, 1] * 50})
    fitted = pf.MarkovChain.fit(pf.Reference("a public meter", hours), "on", "hour")
    note = fitted.provenance.notes[0]
    plan = plan_of(scenario(fitted), QUERIES["a sum"])
    assert plan.explain().count(note) == str(plan.certificate).count(note) == 1
    assert (
        "the prior is fitted on 200 rows of the public reference 'a public meter'" in plan.explain()
    )
    page = report.plan_page(plan.evidence())
    assert page.count(html.escape(note)) == 1
    study = pl.DataFrame({"g": [0, 0, 1, 1, None], "on": [0, 1, 0, 1, 1]})
    counted = pf.Empirical(pf.Reference("a study", study), secret="g", released="on")
    rows = pf.protect(
        pl.DataFrame({"on": [0, 1]}), pf.Scenario(pf.Derived("g"), counted)
    ).private_sum("on")
    assert rows.plan(pf.Pure(1.0)).explain().count("were left out") == 1


def test_long_laws_are_gathered():
    """Laws with more than 400 values are drawn in bins, and mean the same."""
    rows = pl.DataFrame({"hour": range(420), "on": [0, 1] * 210})
    chosen = pf.Scenario(ON, pf.MarkovChain(STAY), order_by="hour")
    pair = pair_of(pf.protect(rows, chosen).private_sum("on").plan(pf.Pure(1.0)))
    assert len(pair.mu.values) <= 400
    assert "bins" in pair.note
    assert np.dot(pair.mu.values, pair.mu.weights) == pytest.approx(140, rel=0.05)


def test_what_cannot_be_listed_is_said():
    """A class of chains has no laws to list; a note stands in their place."""
    between = pf.MarkovChain.between([[0.8, 0.05], [0.1, 0.7]], [[0.95, 0.2], [0.3, 0.9]])
    found = plan_of(scenario(between), QUERIES["a sum"]).evidence()
    assert found.pair is None
    assert "infinitely many" in found.pair_note
    still = pl.DataFrame({"day": [1, 2], "on": [0, 1]})
    same_law = pf.Scenario(
        pf.Derived("kind"),
        pf.Table({"kind": [*"aabb"], "on": [0, 1] * 2, "probability": [0.25] * 4}),
    )
    quiet = pf.protect(still, same_law).private_sum("on").plan(pf.Pure(1.0)).evidence()
    assert quiet.pair.mu == quiet.pair.nu
    assert any("the guarantee needs hardly any noise" in note for note in quiet.notes)


@pytest.mark.slow
def test_a_page_has_all_of_it():
    """Evidence has cells, bounds with the plan's own marked, and what is left if an assumption is wrong."""
    plan = plan_of(
        PRIORS["chain"], lambda batch: batch.group_by("meter").private_mean("on").private_sum("on")
    )
    found = plan.evidence()
    assert found.sentence == plan.explain()
    assert (found.title, found.promise, found.budget) == (
        "on_mean, on_sum, by meter",
        "Pure(epsilon=1.0)",
        None,
    )
    assert [cell.largest for cell in found.cells] == pytest.approx(
        [1.0] * METERS + [float(HOURS)] * METERS
    )
    assert (found.more_cells, len(found.cells)) == (0, 2 * METERS)
    chosen = [row for row in found.bounds if row.chosen]
    assert {(row.bound, row.query) for row in chosen} == {
        ("Messages()", "on_mean"),
        ("Messages()", "on_sum"),
    }
    assert chosen[0].times == pytest.approx(1, rel=1e-3)
    assert any(
        row.note and row.scale is None
        for row in plan_of(PRIORS["independent"], QUERIES["a sum"]).evidence().bounds
    )
    wrong = [one.wrong for one in found.what_if]
    assert wrong[0].startswith("if the rows of one meter depend on each other in any way")
    assert [one.epsilon for one in found.what_if[1:4]] == pytest.approx([1.2, 1.5, 2.0])
    assert sum("away from those under the prior" in one for one in wrong) == 3
    for one in found.what_if[:2]:
        assert f"{one.wrong}, {one.left}" in found.sentence


@pytest.mark.slow
def test_evidence_survives_being_stored():
    """Evidence read back is the same, also where errors are infinite or unknown."""
    for noise in (pf.Laplace, pf.GeneralizedCauchy):
        found = plan_of(
            PRIORS["independent"], QUERIES["a sum"], pf.Renyi(4, 1.0), noise=noise
        ).evidence()
        assert type(found).from_json(found.to_json()) == found


def test_laws_that_cannot_be_are_no_evidence():
    """Stored laws with more values than weights are refused as a whole."""
    found = plan_of(PRIORS["independent"], QUERIES["a sum"]).evidence()
    stored = json.loads(found.to_json())
    stored["pair"]["mu"]["weights"].append(0.5)
    with pytest.raises(pf.UsageError, match="not stored evidence"):
        type(found).from_json(json.dumps(stored))


@pytest.mark.slow
def test_the_picture_says_whose_rows_it_shows():
    """Laws are of the rows of one group, stand-ins are a movement, and conditions are counted."""
    pair = pair_of(plan_of(PRIORS["chain"], QUERIES["a sum"]))
    assert pair.answer == "what the rows of one meter add to on_sum"
    assert "rows of any other meter are left out" in pair.note
    assert pair_of(plan_of(PRIORS["any correlation"], QUERIES["a sum"])).answer == (
        "the movement of on_sum by the rows of one meter"
    )
    counts = plan_of(PRIORS["chain"], lambda batch: batch.private_quantile("on", 0.5, name="v"))
    assert "add to rows with on is 0, behind v" in pair_of(counts).answer


def test_a_bound_that_is_not_compared_has_its_row():
    """The plan's own bound comes first where the comparison does not know it."""
    found = plan_of(PRIORS["chain"], QUERIES["a sum"], bound=pf.Quilt(approximate=True)).evidence()
    assert (found.bounds[0].bound, found.bounds[0].chosen) == ("Quilt(approximate=True)", True)
    assert [row.chosen for row in found.bounds].count(True) == 1


def test_many_cells_are_counted():
    """Two hundred cells are kept, as many of each output, the others counted."""
    rows = pl.DataFrame({"house": range(300), "on": [0, 1] * 150})
    chosen = pf.Scenario(ON, pf.Independent(), public="house")
    plan = pf.protect(rows, chosen).group_by("house").private_sum("on").plan(pf.Pure(1.0))
    found = plan.evidence()
    assert (len(found.cells), found.more_cells, plan.rows) == (200, 100, 300)
    two = (
        pf.protect(rows, chosen)
        .group_by("house")
        .private_sum("on")
        .private_mean("on")
        .plan(pf.Pure(1.0))
        .evidence()
    )
    assert [cell.query for cell in two.cells] == ["on_sum"] * 100 + ["on_mean"] * 100
    assert (two.more_cells, two.cells[100].group, two.cells[100].largest) == (400, "house=0", 1.0)


def test_rows_are_counted_where_that_is_public():
    """A plan knows how many rows are asked about, without any public column too, and not where that is the secret."""
    assert plan_of(PRIORS["chain"], GROUPED["some hours"]).rows == METERS * HOURS // 3
    bare = pf.Scenario(ON, pf.Independent())
    plan = pf.protect(frame().select("on"), bare).private_mean("on").plan(pf.Pure(1.0))
    assert plan.rows == METERS * HOURS
    assert plan.summary()["expected_error"][0] == pytest.approx(1 / (METERS * HOURS), rel=1e-6)
    assert plan_of(PRIORS["presence"], QUERIES["a sum"]).rows is None


@pytest.mark.slow
def test_pages_are_written(tmp_path):
    """A plan and a release write pages, the release's with the evidence that its plan gave."""
    plan = plan_of(PRIORS["chain"], QUERIES["a sum"])
    release = plan.release()
    for page in (
        plan.report(tmp_path / "p.html"),
        release.report(tmp_path / "r.html", plan.evidence()),
    ):
        assert "on_sum" in page.read_text(encoding="utf-8")
    named, python = release.certificate.rows()[:2]
    assert named[0] == "promise"
    assert named[1].startswith("epsilon 1 for all answers together: whoever sees the answers")
    assert python == ("", "Pure(epsilon=1.0)")
    assert str(release.certificate).split("\n")[1].split() == ["Pure(epsilon=1.0)"]
