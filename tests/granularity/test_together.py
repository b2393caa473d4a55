"""What mechanisms on parts keep together: against exact losses of small mechanisms, on all pairs of small classes."""

import itertools
import math

import numpy as np
import pytest
from small_classes import hockey_stick, jointly, log_ratio, random_laws, renyi, tables
from thinned import thinned

import pufferflow as pf
from pufferflow.granularity import (
    Graph,
    Part,
    Partition,
    Space,
    bounded,
    compatible,
    edges,
    in_place,
    k_rows,
    nodes,
    together,
    unbounded,
)

TABLES = tables("abc", range(4))
OF_THREE = tables("abc", [3])
IN_ORDER = list(itertools.product("ab", repeat=3))
GRAPHS = [
    Graph("abc", some)
    for size in range(4)
    for some in itertools.combinations(["ab", "ac", "bc"], size)
]
FREE_NODES = [
    *(Graph(some) for some in ("", "a", "b", "c")),
    *(Graph(two, some) for two in ("ab", "ac", "bc") for some in ([], [two])),
    *GRAPHS,
]


def rows_in(values):
    return lambda table: tuple(row for row in table if row in values)


def size(part):
    return len(part)


def degrees(graph):
    return max((sum(node in edge for edge in graph.edges) for node in graph.nodes), default=0)


CLASSES = {
    "one row more or less": (TABLES, unbounded, [rows_in("a"), rows_in("bc"), size]),
    "up to two rows": (TABLES, k_rows(2), [rows_in("ab"), rows_in("bc")]),
    "one row replaced": (OF_THREE, bounded, [rows_in("a"), rows_in("b"), rows_in("c")]),
    "replaced in place": (
        IN_ORDER,
        in_place,
        [lambda rows: rows[0], lambda rows: rows[1:], rows_in("a")],
    ),
    "edges": (GRAPHS, edges, [lambda graph: len(graph.edges), degrees]),
    "nodes": (FREE_NODES, nodes, [lambda graph: len(graph.edges), lambda graph: len(graph.nodes)]),
}


def pairs_of(space):
    return list(itertools.permutations(range(len(space.databases)), 2))


def laws_of(space, reads, seed, spread=1.0):
    """Return random mechanisms on the parts, and the joint law of their outputs for every data set."""
    rng = np.random.default_rng(seed)
    parts = [[read(database) for database in space.databases] for read in reads]
    laws = [random_laws(rng, part, spread=spread) for part in parts]
    return laws, parts, [jointly(laws, places) for places in zip(*parts, strict=True)]


def neighbours_in(space):
    return [pair for one, other in space.pairs for pair in ((one, other), (other, one))]


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
def test_pure_losses_on_the_whole_class(name, seed):
    """Mechanisms private for whole data sets that read parts.

    No pair loses more than is guaranteed (GRAN IV.11, V.5).
    """
    databases, notion, reads = CLASSES[name]
    space = Space.of(databases, notion)
    laws, parts, joint = laws_of(space, reads, seed)
    epsilons = [
        max(log_ratio(law[part[a]], law[part[b]]) for a, b in neighbours_in(space))
        for law, part in zip(laws, parts, strict=True)
    ]
    found = together(
        space, [Part(read, epsilon) for read, epsilon in zip(reads, epsilons, strict=True)]
    )
    for a, b in pairs_of(space):
        assert (
            log_ratio(joint[a], joint[b])
            <= found.loss(space.databases[a], space.databases[b]) + 1e-12
        )
    worst = max(log_ratio(joint[a], joint[b]) for a, b in neighbours_in(space))
    assert worst <= found.promise + 1e-12
    assert found.promise <= sum(epsilons) + 1e-12


def test_the_loss_of_randomised_response_is_attained():
    """Whether each group has a row, answered at random: the exact loss is what is guaranteed, not a tenth less."""
    space = Space.of(OF_THREE, bounded)
    reads, epsilons = [rows_in(value) for value in "abc"], [0.3, 0.5, 0.7]
    truths = [lambda table, read=read: bool(read(table)) for read in reads]
    found = together(
        space, [Part(truth, epsilon) for truth, epsilon in zip(truths, epsilons, strict=True)]
    )
    laws = [
        {
            True: np.array([np.exp(e), 1]) / (1 + np.exp(e)),
            False: np.array([1, np.exp(e)]) / (1 + np.exp(e)),
        }
        for e in epsilons
    ]
    joint = [jointly(laws, [truth(table) for truth in truths]) for table in OF_THREE]
    for a, b in pairs_of(space):
        assert log_ratio(joint[a], joint[b]) == pytest.approx(found.loss(OF_THREE[a], OF_THREE[b]))
    assert found.promise == pytest.approx(1.2)


@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
def test_any_metric_of_the_parts(seed):
    """Each mechanism's exact losses are a metric of its parts: they add up to the exact worst case (GRAN IV.1)."""
    space = Space.of(TABLES, unbounded)
    reads = [rows_in("a"), rows_in("bc")]
    laws, parts, joint = laws_of(space, reads, seed)
    spaces = []
    for law in laws:
        exact = {
            (p, q): max(log_ratio(law[p], law[q]), log_ratio(law[q], law[p]))
            for p in law
            for q in law
        }
        spaces.append(Space(law, lambda p, q, exact=exact: exact[p, q]))
    found = together(space, [Part(read, 1.0, own) for read, own in zip(reads, spaces, strict=True)])
    for a, b in pairs_of(space):
        one, other = space.databases[a], space.databases[b]
        added = sum(own.distance(part[a], part[b]) for own, part in zip(spaces, parts, strict=True))
        assert (
            log_ratio(joint[a], joint[b]) - 1e-12 <= found.loss(one, other) == pytest.approx(added)
        )


@pytest.mark.parametrize("seed", thinned(range(6), 0.34))
@pytest.mark.parametrize("name", ["one row more or less", "one row replaced", "replaced in place"])
def test_approximate_losses(name, seed):
    """(Σ d_i, Σ δ_i), δ grown along the way to the closest data sets with the same parts (GRAN VI.4, VI.7 mended)."""
    databases, notion, reads = CLASSES[name]
    space = Space.of(databases, notion)
    laws, parts, joint = laws_of(space, reads, seed, spread=0.5)
    promises = []
    for law, part in zip(laws, parts, strict=True):
        epsilon = 0.6 * max(log_ratio(law[part[a]], law[part[b]]) for a, b in neighbours_in(space))
        delta = max(
            hockey_stick(law[part[a]], law[part[b]], epsilon) for a, b in neighbours_in(space)
        )
        promises.append(pf.Approx(epsilon, delta))
    found = together(
        space, [Part(read, promise) for read, promise in zip(reads, promises, strict=True)]
    )
    for a, b in pairs_of(space):
        try:
            kept = found.loss(space.databases[a], space.databases[b])
        except pf.Refused:
            continue  # δ has grown to 1
        assert hockey_stick(joint[a], joint[b], kept.epsilon) <= kept.delta + 1e-12
    for a, b in neighbours_in(space):
        assert (
            hockey_stick(joint[a], joint[b], found.promise.epsilon) <= found.promise.delta + 1e-12
        )


@pytest.mark.parametrize("name", ["one row more or less", "one row replaced", "edges"])
def test_gaussian_losses_are_attained(name):
    """Counts with Gaussian noise: μ² is Σ (z_i/σ_i)² and ρ half of it, at every pair (GRAN VI.13, VI.21)."""
    databases, notion, reads = CLASSES[name]
    space = Space.of(databases, notion)
    numbers = [
        lambda database, read=read: len(made) if isinstance(made := read(database), tuple) else made
        for read in reads
    ]
    line = Space(range(5), lambda one, other: abs(one - other))
    scales = [0.7, 1.9, 1.1][: len(reads)]
    mus = together(
        space, [Part(f, 1 / s, line) for f, s in zip(numbers, scales, strict=True)], "gdp"
    )
    rhos = together(
        space,
        [Part(f, 1 / (2 * s * s), line) for f, s in zip(numbers, scales, strict=True)],
        "zcdp",
    )
    for a, b in pairs_of(space):
        one, other = space.databases[a], space.databases[b]
        square = sum(((f(one) - f(other)) / s) ** 2 for f, s in zip(numbers, scales, strict=True))
        assert mus.loss(one, other) == pytest.approx(math.sqrt(square), rel=1e-12)
        assert rhos.loss(one, other) == pytest.approx(square / 2, rel=1e-12)
    promised = together(
        space, [Part(f, pf.Gdp(1 / s), line) for f, s in zip(numbers, scales, strict=True)]
    )
    assert promised.promise == pf.Gdp(mus.promise)


@pytest.mark.parametrize("seed", thinned(range(4), 0.25))
def test_zero_concentrated_losses(seed):
    """Random mechanisms: D_α of all outputs together is at most α times the sum of ρ (GRAN VI.14)."""
    orders = np.geomspace(1.05, 60, 25)
    space = Space.of(OF_THREE, bounded)
    reads = CLASSES["one row replaced"][2]
    laws, parts, joint = laws_of(space, reads, seed)
    rhos = [
        max(
            renyi(law[part[a]], law[part[b]], alpha) / alpha
            for a, b in neighbours_in(space)
            for alpha in orders
        )
        for law, part in zip(laws, parts, strict=True)
    ]
    found = together(
        space, [Part(read, rho) for read, rho in zip(reads, rhos, strict=True)], "zcdp"
    )
    for a, b in neighbours_in(space):
        kept = found.loss(space.databases[a], space.databases[b])
        assert max(renyi(joint[a], joint[b], alpha) / alpha for alpha in orders) <= kept + 1e-12
        assert kept <= found.promise


def test_ii_9_parallel_composition_does_not_hold_for_replacements():
    """Counts of two groups keep ε = 0 among tables of one size, and together tell where a row is (GRAN II.9)."""
    groups = Partition({"left": "a", "right": "bc"})
    everything = Space(tables("abc", range(4)), bounded.steps)
    counts = [Part(groups.part(name), 0.0, everything) for name in groups.names]
    found = together(Space.of(OF_THREE, bounded), counts)
    assert found.loss(("a", "b", "b"), ("a", "b", "c")) == 0
    assert found.loss(("a", "b", "b"), ("b", "b", "b")) == math.inf == found.promise
    with pytest.raises(pf.Refused, match="these losses guarantee nothing"):
        _ = together(
            Space.of(OF_THREE, bounded),
            [Part(part.reads, pf.Pure(0), everything) for part in counts],
        ).promise
    with pytest.raises(pf.Refused, match="some data sets of the class are not"):
        Space.of(everything.databases, bounded)


@pytest.mark.slow
def test_iv_2_ambulances_near_hospitals():
    """Two counts and the closest ambulance of two districts: at most d_U + 2·L (IV.2)."""
    districts, hospitals = [(0.0, 1.0, 2.0), (10.0, 11.5, 12.0)], [0.5, 12.0]
    every = [
        one + other
        for one, other in itertools.product(*[tables(places, (1, 2)) for places in districts])
    ]
    space = Space.of(every, unbounded)
    groups = Partition(districts)
    counts = Space.of(tables(districts[0] + districts[1], range(3)), unbounded)
    line = Space(
        [place for places in districts for place in places], lambda one, other: abs(one - other)
    )

    def closest(at):
        return lambda table: min(
            groups.part(at)(table), key=lambda place: (abs(place - hospitals[at]), place)
        )

    found = together(
        space,
        [Part(groups.part(at), 1.0, counts) for at in (0, 1)]
        + [Part(closest(at), 1.0, line) for at in (0, 1)],
    )
    for one, other in itertools.combinations(every, 2):
        moved = sum(abs(closest(at)(one) - closest(at)(other)) for at in (0, 1))
        assert found.loss(one, other) == pytest.approx(space.distance(one, other) + moved)
        assert found.loss(one, other) <= space.distance(one, other) + 2 * 2.0
    assert found.promise == 3.0  # 1 for the row, and 2 for the place of the closest one


def test_iv_5_and_vi_8_ambulances_of_several_hospitals():
    """An ambulance works for three of four hospitals: 3ε, not 4ε (IV.5); replaced (6, 6·10⁻⁵) of seven (VI.8)."""
    rows = list(itertools.combinations(range(4), 3))
    space = Space.of(tables(rows, range(3)), unbounded)

    def works_for(hospital):
        return lambda table: tuple(row for row in table if hospital in row)

    parts = [Part(works_for(hospital), pf.Pure(1.0), space) for hospital in range(4)]
    found = together(space, parts)
    assert found.promise == pf.Pure(3.0)
    assert all(
        found.loss(a, b).epsilon <= 3 * space.distance(a, b)
        for a, b in itertools.combinations(space.databases, 2)
    )
    assert pf.granularity.Overlapping(4, most=3).total([pf.Pure(1.0)] * 4) == pf.Pure(3.0)

    rows = [(0, 1, 2), (3, 4, 5), (4, 5, 6)]
    space = Space.of(tables(rows, [2]), bounded)
    found = together(
        space, [Part(works_for(hospital), pf.Approx(1.0, 1e-5)) for hospital in range(7)]
    )
    assert found.promise.epsilon == 6.0
    assert found.promise.delta == pytest.approx(6e-5)
    assert (
        pf.granularity.Overlapping(7, most=3).total([pf.Approx(1.0, 1e-5)] * 7, bounded)
        == found.promise
    )


def test_iv_14_districts_and_replacements():
    """ε_i within district i, ε_i + ε_j between two, never the sum of all (GRAN IV.13, IV.14)."""
    epsilons = [0.5, 0.3, 0.7]
    groups = Partition([["a", "A"], ["b"], ["c"]])
    space = Space.of(tables("aAbc", [2]), bounded)
    found = together(space, [Part(groups.part(at), epsilon) for at, epsilon in enumerate(epsilons)])
    assert found.loss(("a", "b"), ("A", "b")) == 0.5
    assert found.loss(("a", "b"), ("a", "c")) == 1.0
    assert found.loss(("a", "b"), ("b", "c")) == 1.2
    assert found.promise == groups.total(epsilons, bounded) == 1.2
    assert sum(epsilons) == 1.5


def test_iv_15_the_distance_of_what_is_read_is_less_than_printed():
    """What is read is the larger of the rows that go and that come apart, not both together (IV.15, mended)."""
    seen = rows_in("ab")
    space = Space.of(OF_THREE, bounded)
    found = together(space, [Part(seen, 1.0)])
    smaller = 0
    for one, other in itertools.combinations(OF_THREE, 2):
        left, right = seen(one), seen(other)
        gone = sum(max(left.count(row) - right.count(row), 0) for row in "ab")
        came = sum(max(right.count(row) - left.count(row), 0) for row in "ab")
        assert (
            found.loss(one, other)
            == max(gone, came)
            <= min(space.distance(one, other), gone + came)
        )
        smaller += max(gone, came) < min(space.distance(one, other), gone + came)
    everywhere = Space(
        tables("abc", range(4)), bounded.steps
    )  # tables of all sizes: printed min(∞, |f(D) Δ f(D')|) = 2
    assert together(everywhere, [Part(seen, 1.0)]).loss(("a", "c"), ("b",)) == 1
    assert smaller == 0


def test_vi_25_gaussian_distances_of_two_groups():
    """A row of each of two groups: √2, where the distance is 2 (GRAN VI.25)."""
    space = Space.of(TABLES, unbounded)
    groups = Partition(["a", "bc"])
    found = together(space, [Part(groups.part(at), 1.0, space) for at in (0, 1)], "gdp")
    assert found.loss(("a", "a", "b"), ("a",)) == pytest.approx(math.sqrt(2), rel=1e-15)
    assert found.promise == 1.0
    assert all(
        found.loss(a, b) <= space.distance(a, b) for a, b in itertools.combinations(TABLES, 2)
    )


def test_a_4_the_difference_of_tables_commutes_with_every_partition():
    """Σ |p_i(D) Δ p_i(D')| ≤ |D Δ D'|, equal if groups have all rows; neighbours differ in one part (A.4)."""
    space = Space.of(TABLES, unbounded)
    for names in (["a", "bc"], ["a", "b", "c"], ["b", "c"]):
        groups = Partition(names)
        reads = [groups.part(at) for at in groups.names]
        assert compatible(space, reads)
        found = together(space, [Part(read, 1.0, space) for read in reads])
        assert found.promise == 1
        for one, other in itertools.combinations(TABLES, 2):
            assert found.loss(one, other) <= space.distance(one, other)
            assert names == ["b", "c"] or found.loss(one, other) == space.distance(one, other)


def test_a_5_no_partition_of_values_is_compatible_with_replacements():
    """A row may go from any group to any other one (GRAN A.5)."""
    space = Space.of(OF_THREE, bounded)
    for names in (["a", "bc"], ["a", "b", "c"], ["a", "b"]):
        assert not compatible(space, [rows_in(values) for values in names])
    assert compatible(space, [rows_in("ab")])


def test_iv_7_and_a_6_partitions_by_place_are_compatible_with_replacements_in_place():
    """Rows of public keys: neighbours differ in one group, by one step there; the largest ε counts (IV.7)."""
    space = Space.of(IN_ORDER, in_place)
    reads = [lambda rows: rows[:1], lambda rows: rows[1:]]
    assert compatible(space, reads)
    parts = [Space.of({read(rows) for rows in IN_ORDER}, in_place) for read in reads]
    assert all(
        pf.granularity.sensitivity(read, space, part) == 1
        for read, part in zip(reads, parts, strict=True)
    )
    found = together(
        space, [Part(read, e, part) for read, e, part in zip(reads, (0.3, 0.7), parts, strict=True)]
    )
    assert found.promise == Partition(2).total([0.3, 0.7], in_place) == 0.7
    assert found.loss(("a", "a", "a"), ("b", "b", "a")) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_vii_2_and_3_no_mechanism_keeps_less_than_the_whole(seed):
    """Outputs of one mechanism are post-processing: none loses more than all, chosen adaptively too (VII.2–3)."""
    rng = np.random.default_rng(seed)
    space = Space.of(TABLES, unbounded)
    first = random_laws(rng, [rows_in("a")(table) for table in TABLES])
    later = [
        random_laws(rng, [size(table) for table in TABLES]) for _ in range(3)
    ]  # which one, the first output says
    for a, b in pairs_of(space):
        p, q = (first[rows_in("a")(TABLES[at])] for at in (a, b))
        whole, other = (
            np.concatenate([law[s] * later[s][size(TABLES[at])] for s in range(3)])
            for law, at in ((p, a), (q, b))
        )
        exact = log_ratio(whole, other)
        assert log_ratio(p, q) <= exact + 1e-12
        answers, others = (joint.reshape(3, 3).sum(axis=0) for joint in (whole, other))
        assert log_ratio(answers, others) <= exact + 1e-12
        conditional = max(log_ratio(law[size(TABLES[a])], law[size(TABLES[b])]) for law in later)
        assert exact <= log_ratio(p, q) + conditional + 1e-12
