"""Notions of neighbours and their canonical metrics, on all pairs of small classes."""

import itertools
import math

import numpy as np
import pytest
from small_classes import tables

import pufferflow as pf
from pufferflow.granularity import (
    Graph,
    Neighbours,
    Overlapping,
    Part,
    Partition,
    Space,
    bounded,
    canonical_metric,
    distance_between,
    edges,
    free_lunch,
    in_place,
    k_rows,
    nodes,
    sensitivity,
    sum_sensitivity,
    together,
    unbounded,
)

TABLES = tables("abc", range(4))
OF_THREE = tables("abc", [3])
IN_ORDER = list(itertools.product("ab", repeat=3))


def graphs(names):
    """Return all graphs on all subsets of some nodes."""
    every = [some for size in range(len(names) + 1) for some in itertools.combinations(names, size)]
    pairs = {some: list(itertools.combinations(some, 2)) for some in every}
    return [
        Graph(some, chosen)
        for some in every
        for size in range(len(pairs[some]) + 1)
        for chosen in itertools.combinations(pairs[some], size)
    ]


def test_adding_and_removing_rows_counts_the_rows_that_differ():
    """In the class of all tables up to a size the canonical metric is |D Δ D'|, and k rows at once are one step."""
    apart = [
        [sum(abs(one.count(row) - other.count(row)) for row in "abc") for other in TABLES]
        for one in TABLES
    ]
    assert (canonical_metric(TABLES, unbounded) == np.array(apart)).all()
    assert (canonical_metric(TABLES, k_rows(3)) == np.ceil(np.array(apart) / 3)).all()


def test_replacing_rows_keeps_their_number():
    """Between tables of one size the metric is half of |D Δ D'|; tables of other sizes are not connected."""
    metric = canonical_metric(TABLES, bounded)
    for (at, one), (to, other) in itertools.product(enumerate(TABLES), repeat=2):
        rows = sum(abs(one.count(row) - other.count(row)) for row in "abc")
        assert metric[at, to] == (rows / 2 if len(one) == len(other) else math.inf)


def test_replacing_rows_where_they_stand_is_the_hamming_distance():
    """Rows of one order or key: the number of places at which tables differ, of which one step is one."""
    metric = canonical_metric(IN_ORDER, in_place)
    apart = [
        [sum(a != b for a, b in zip(one, other, strict=True)) for other in IN_ORDER]
        for one in IN_ORDER
    ]
    assert (metric == np.array(apart)).all()


def test_a_class_that_leaves_out_tables_has_longer_ways():
    """The canonical metric of a class is not that of a larger one (GRAN A.2)."""
    few = [(), ("a",), ("a", "b"), ("b",)]
    assert Space.of(few, unbounded).distance((), ("a", "b")) == 2
    assert (
        Space.of([(), ("a",), ("a", "b"), ("a", "b", "b"), ("b", "b")], unbounded).distance(
            (), ("b", "b")
        )
        == 4
    )


def test_iii_4_a_class_that_is_not_connected_is_refused():
    """Any mechanism, the identity too, keeps ε = 0 for neighbours where there are none (GRAN III.4)."""
    with pytest.raises(pf.Refused, match="no data set of the class has a neighbour"):
        Space.of(OF_THREE, unbounded)
    with pytest.raises(pf.Refused, match="some data sets of the class are not connected"):
        Space.of(TABLES[:4] + OF_THREE, unbounded)
    with pytest.raises(pf.Refused, match="some data sets of the class are not"):
        Space.of(TABLES, bounded)
    assert Space.of(OF_THREE, bounded).diameter == 3


def test_distances_between_notions():
    """ε for one row more or less is 2ε for replacements; nothing follows the other way round."""
    assert distance_between(unbounded, bounded, TABLES) == 2
    assert distance_between(bounded, unbounded, TABLES) == math.inf
    assert distance_between(bounded, in_place, ["aa", "ab", "bb"]) == 1
    assert distance_between(unbounded, k_rows(3), TABLES) == 3
    assert distance_between(unbounded, unbounded, TABLES) == 1


@pytest.mark.parametrize(
    "notion", [unbounded, k_rows(2), free_lunch], ids=lambda notion: notion.name
)
def test_the_free_lunch_neighbourhood_implies_all_others(notion):
    """Any two data sets are neighbours: no canonical metric is below (GRAN III-A)."""
    free, other = canonical_metric(TABLES, free_lunch), canonical_metric(TABLES, notion)
    assert (free == 1 - np.eye(len(TABLES))).all()
    assert (free <= other).all()
    assert distance_between(free_lunch, notion, TABLES) == 1
    assert distance_between(notion, free_lunch, TABLES) == other.max()


def triangles(graph):
    sides = [
        itertools.combinations(some, 2) for some in itertools.combinations(sorted(graph.nodes), 3)
    ]
    return sum(all(frozenset(side) in graph.edges for side in some) for some in sides)


def test_edges_and_nodes_of_graphs():
    """One edge is one step; a node goes with all its edges, so hiding nodes hides up to n − 1 edges at once."""
    every = graphs("abcd")
    assert len(every) == 1 + 4 + 6 * 2 + 4 * 8 + 64
    four = [graph for graph in every if len(graph.nodes) == 4]
    metric = canonical_metric(four, edges)
    assert metric.max() == 6
    assert all(
        metric[a, b] == len(four[a].edges ^ four[b].edges)
        for a, b in itertools.product(range(64), repeat=2)
    )
    by_node = Space.of(every, nodes)
    assert by_node.distance(Graph("abcd", ["ab", "ac", "ad", "bc"]), Graph("bcd", ["bc"])) == 1
    assert (
        distance_between(nodes, edges, every) == 2
    )  # take one end of the edge out, and in again without it
    assert distance_between(edges, nodes, every) == math.inf
    counts = Space(range(5), lambda one, other: float(abs(one - other)))
    assert sensitivity(triangles, Space.of(four, edges), counts) == 2
    assert sensitivity(triangles, by_node, counts) == 3


def test_sensitivity_of_preprocessing():
    """The largest quotient of distances; of a map after another at most the product of both (GRAN III.6, III.8)."""
    of_tables = Space.of(TABLES, unbounded)
    sums = Space(range(16), lambda one, other: abs(one - other))

    def total(table):
        return sum({"a": 0, "b": 2, "c": 5}[row] for row in table)

    assert sensitivity(total, of_tables, sums) == sum_sensitivity(0, 5) == 5
    assert (
        sensitivity(total, Space.of(OF_THREE, bounded), sums) == sum_sensitivity(0, 5, bounded) == 5
    )
    halves = Space(range(8), lambda one, other: abs(one - other) / 3)
    half = sensitivity(lambda number: number // 2, sums, halves)
    both = sensitivity(lambda table: total(table) // 2, of_tables, halves)
    assert both <= 5 * half
    assert half == math.nextafter(1 / 3, 1) or half == 1 / 3
    twice = Space(TABLES, lambda *_: 0.0)
    assert sensitivity(lambda table: table, twice, of_tables) == math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: Graph("ab", ["aa"]),
        lambda: Graph("ab", ["ac"]),
        lambda: Graph("abc", ["abc"]),
        lambda: Graph(3),
        lambda: Graph([[1]]),
        lambda: canonical_metric([("a",)], edges),
        lambda: Space.of([], unbounded),
        lambda: Space.of(5, unbounded),
        lambda: Space.of([[1], [2]], unbounded),
        lambda: Space.of([1, 2], unbounded),
        lambda: Space.of(TABLES, "unbounded"),
        lambda: Space.of([1, 2], Neighbours("less", lambda one, other: one < other)),
        lambda: Space.of(range(10**5), free_lunch),
        lambda: Space.of(TABLES, unbounded).distance((), ("z",)),
        lambda: Space([1, 2], lambda one, other: one - other),
        lambda: Space([1, 2], lambda *_: 1.0),
        lambda: Space([1, 2], lambda *_: math.nan),
        lambda: Space([1, 2], lambda *_: "far"),
        lambda: Space([1, 2, 3], lambda one, other: float((one - other) ** 2)),
        lambda: Space([1, 2], lambda one, other: float(max(one - other, 0))),
        lambda: k_rows(0),
        lambda: k_rows(1.5),
        lambda: k_rows(2, nodes),
        lambda: k_rows(2, "rows"),
        lambda: Neighbours("close", 5),
        lambda: Space([1, 2], "far"),
        lambda: Part(5, 0.5),
        lambda: together(Space.of(TABLES, unbounded), 5),
        lambda: together(Space.of(TABLES, unbounded), [0.5]),
        lambda: pf.granularity.compatible("tables", []),
        lambda: Partition([]),
        lambda: Partition(0),
        lambda: Partition("ab"),
        lambda: Partition([1, 2]),
        lambda: Partition([["a", "b"], ["b"]]),
        lambda: Partition(2).part(0),
        lambda: Partition([["a"]]).part("north"),
        lambda: Overlapping(3),
        lambda: Overlapping(3, most=0),
        lambda: Overlapping([["a"]], most=1),
        lambda: Partition(2).total([0.5]),
        lambda: Partition(2).total("ab"),
        lambda: Partition(2).total(0.5),
        lambda: Partition(2).total([0.5, -0.1]),
        lambda: Partition(2).total([0.5, math.nan]),
        lambda: Partition(2).total([0.5, None]),
        lambda: Partition(2).total([0.5, pf.Pure(0.5)]),
        lambda: Partition(2).total([pf.Approx(0.5, 0.1), pf.Pure(0.5)]),
        lambda: Partition(2).total([0.5, 0.5], "bounded"),
        lambda: Partition(2).total([0.5, 0.5], kind="rdp"),
        lambda: Partition({"a": "x", "b": "y"}).total({"a": 0.5, "c": 0.5}),
        lambda: sum_sensitivity(9, 5),
        lambda: sum_sensitivity(0, math.inf),
        lambda: together("tables", []),
        lambda: together(Space.of(TABLES, unbounded), []),
        lambda: together(Space.of(TABLES, unbounded), [Part(list, 0.5)]),
        lambda: pf.granularity.at_distance(0.5, -1),
    ],
)
def test_what_cannot_be_is_a_misuse(make):
    """Loops, unknown nodes, metrics that are none, empty classes, partitions whose groups overlap: clear errors."""
    with pytest.raises(pf.UsageError) as error:
        make()
    assert error.value.allowed
    assert error.value.instead


@pytest.mark.parametrize(
    "make",
    [
        lambda: Partition(2).total([0.5, 0.5], free_lunch),
        lambda: sum_sensitivity(0, 5, edges),
        lambda: Partition(2).total([pf.Renyi(4, 0.5), pf.Renyi(4, 0.5)]),
        lambda: Partition(2).total([pf.Approx(1.0, 0.6), pf.Approx(1.0, 0.6)], bounded),
        lambda: pf.granularity.at_distance(pf.Approx(1.0, 1e-5), 13),
        lambda: together(Space([0], lambda *_: 0.0), [Part(str, 0.5)]).promise,
        lambda: (
            together(
                Space([0, 1], lambda one, other: abs(one - other) / 2),
                [Part(str, pf.Approx(1, 0.1))],
            ).promise
        ),
    ],
)
def test_what_no_promise_follows_for_is_refused(make):
    """Notions that do not count rows, kinds that do not add, and a δ of 1."""
    with pytest.raises(pf.Refused) as error:
        make()
    assert error.value.instead
