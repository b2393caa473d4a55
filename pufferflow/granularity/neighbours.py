"""Notions of neighbouring data sets: which two must be indistinguishable (GRAN II.3, II.4, III.1).

A table is any collection of rows that can be hashed, such as a tuple; only for `in_place` does it matter where a row
stands. Graphs are values of `Graph`.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast, final

from pufferflow.core.errors import UsageError
from pufferflow.core.notebook import InNotebooks
from pufferflow.core.validate import instance, quoted, set_fields, whole_number


@final
@dataclass(frozen=True)
class Neighbours(InNotebooks):
    """A symmetric relation of data sets: neighbours have to be indistinguishable.

    >>> neighbours = Neighbours("one step apart", lambda one, other: abs(one - other) == 1)
    >>> neighbours.related(3, 4), neighbours.related(3, 5), neighbours.related(3, 3)
    (True, False, False)
    """

    name: str
    relation: Callable[[Any, Any], bool] = field(repr=False)
    steps: Callable[[Any, Any], float] | None = field(default=None, repr=False)
    """How many neighbours lead from one data set to another where all data sets are possible; None if unknown."""
    rows: int | None = None
    """How many rows neighbours differ in, if that is what they differ in."""
    fixed_size: bool = False
    """Whether rows are replaced, so that their number is public."""
    moves: bool = False
    """Whether a replaced row may be one of another group in the other data set."""

    def __post_init__(self) -> None:
        callable_given(
            self.relation, "The relation", instead="Neighbours(name, lambda one, other: …)"
        )

    def related(self, one: object, other: object) -> bool:
        """Return whether two data sets are neighbours; a data set is not its own neighbour."""
        return bool(self.relation(one, other))


def callable_given(given: object, name: str, *, instead: str) -> None:
    """Refuse anything that is not a function of data sets."""
    if not callable(given):
        raise UsageError(
            f"{name} is {quoted(given)}.", allowed="a function of data sets", instead=instead
        )


def read_neighbours(given: object) -> Neighbours:
    """Return a notion of neighbours."""
    instead = "pf.granularity.unbounded, bounded, in_place, or Neighbours(name, relation)"
    return instance(
        given,
        Neighbours,
        "The notion of neighbours",
        allowed="a notion of neighbours",
        instead=instead,
    )


@final
@dataclass(frozen=True, init=False)
class Graph(InNotebooks):
    """An undirected graph without loops.

    >>> Graph("abc", ["ab", "bc"]).without("b")
    Graph(nodes=['a', 'c'], edges=[])
    """

    nodes: frozenset[Hashable]
    edges: frozenset[frozenset[Hashable]]

    def __init__(self, nodes: Iterable[Hashable], edges: Iterable[Iterable[Hashable]] = ()) -> None:
        known = frozenset(_listed(nodes, "The nodes"))
        pairs = [tuple(_listed(edge, "An edge")) for edge in _listed(edges, "The edges")]
        for pair in pairs:
            _check_edge(pair, known)
        set_fields(self, nodes=known, edges=frozenset(map(frozenset, pairs)))

    def without(self, node: Hashable) -> "Graph":
        """Return the graph without a node and all its edges."""
        return Graph(self.nodes - {node}, [edge for edge in self.edges if node not in edge])

    def __repr__(self) -> str:
        pairs = sorted(sorted(map(str, edge)) for edge in self.edges)
        return f"Graph(nodes={sorted(map(str, self.nodes))}, edges={pairs})"


def _check_edge(edge: tuple[Hashable, ...], nodes: frozenset[Hashable]) -> None:
    problem = ""
    if len(edge) != 2:
        problem = f"An edge has {len(edge)} ends."
    elif edge[0] == edge[1]:
        problem = f"An edge is a loop, from the node {quoted(edge[0])} to itself."
    else:
        unknown = [end for end in edge if end not in nodes]
        problem = (
            f"An edge ends at {quoted(unknown[0])}, which is none of the nodes." if unknown else ""
        )
    if problem:
        raise UsageError(
            problem,
            allowed="edges between two different nodes of the graph",
            instead='Graph(["a", "b"], [("a", "b")])',
        )


def _listed(given: object, name: str) -> list[Any]:
    """Return the members of a collection, all of which can be hashed."""
    try:
        members = list(cast(Iterable[Any], given))
        hash(tuple(members))
    except TypeError:
        raise UsageError(
            f"{name} {quoted(given)} cannot be read.",
            allowed="a collection of values that can be hashed, such as a tuple",
            instead='("a", "a", "b")',
        ) from None
    return members


def table_of(given: object) -> Counter[Any]:
    """Return how often each row is in a table."""
    return Counter(_listed(given, "A table"))


def _rows_apart(one: object, other: object) -> int:
    """Return |D Δ D'|."""
    first, second = table_of(one), table_of(other)
    return sum(abs(first[row] - second[row]) for row in first | second)


def _replaced(one: object, other: object) -> float:
    """Return how many rows have to be replaced; ∞ where the numbers of rows differ."""
    first, second = table_of(one), table_of(other)
    return sum((first - second).values()) if first.total() == second.total() else math.inf


def _replaced_in_place(one: object, other: object) -> float:
    first, second = _listed(one, "A table"), _listed(other, "A table")
    if len(first) != len(second):
        return math.inf
    return sum(a != b for a, b in zip(first, second, strict=True))


def _edges_apart(one: Graph, other: Graph) -> float:
    _check_graphs(one, other)
    return len(one.edges ^ other.edges) if one.nodes == other.nodes else math.inf


def _one_node_more(one: Graph, other: Graph) -> bool:
    """Return whether one of two graphs is the other without a node and its edges."""
    _check_graphs(one, other)
    large, small = (one, other) if len(one.nodes) > len(other.nodes) else (other, one)
    more = large.nodes - small.nodes
    return len(more) == 1 and large.without(next(iter(more))) == small


def _check_graphs(*given: object) -> None:
    for one in given:
        if not isinstance(one, Graph):
            raise UsageError(
                f"A graph is {quoted(one)}.",
                allowed="graphs",
                instead='pf.granularity.Graph("abc", ["ab", "bc"])',
            )


def _stepwise(
    name: str,
    steps: Callable[[Any, Any], float],
    rows: int | None,
    *,
    fixed_size: bool = False,
    moves: bool = False,
) -> Neighbours:
    return Neighbours(
        name, lambda one, other: steps(one, other) == 1, steps, rows, fixed_size, moves
    )


unbounded: Final = _stepwise("one row more or less", _rows_apart, 1)
"""One row is added or removed: the neighbours of the original definition of differential privacy."""
bounded: Final = _stepwise("one row replaced", _replaced, 1, fixed_size=True, moves=True)
"""One row is replaced by any other one, which may be of another group; the number of rows is public."""
in_place: Final = _stepwise(
    "one row replaced where it stands", _replaced_in_place, 1, fixed_size=True
)
"""One row is replaced, and stays where it stands: its place, key or public columns are those of before (GRAN IV.7)."""
edges: Final = _stepwise("one edge more or less", _edges_apart, None)
"""One edge is added or removed; nodes are public."""
nodes: Final = Neighbours("one node more or less, with its edges", _one_node_more)
"""One node is added or removed, with all edges that it has."""
free_lunch: Final = Neighbours(
    "any two", lambda one, other: one != other, lambda one, other: float(one != other)
)
"""Any two data sets are neighbours: a guarantee for these implies all others."""


def k_rows(k: int, neighbours: Neighbours = unbounded) -> Neighbours:
    """Return the notion in which neighbours differ in up to k rows (or edges), those of one unit.

    >>> k_rows(2).related("ab", "abcd"), k_rows(2).related("ab", "abcde"), k_rows(2, bounded).related("ab", "cd")
    (True, False, True)
    """
    allowed = "a whole number >= 1"
    many = whole_number(k, "k", allowed=allowed, instead="k_rows(2)")
    steps = read_neighbours(neighbours).steps
    if steps is None or neighbours is free_lunch:
        raise UsageError(
            f"{many} steps of the notion {neighbours.name!r}, whose steps cannot be counted.",
            allowed="unbounded, bounded, in_place or edges",
            instead="k_rows(2, pf.granularity.unbounded)",
        )
    rows = None if neighbours.rows is None else neighbours.rows * many
    return Neighbours(
        f"{neighbours.name}, up to {many} times",
        lambda one, other: 1 <= steps(one, other) <= many,
        lambda one, other: (
            math.inf if math.isinf(apart := steps(one, other)) else math.ceil(apart / many)
        ),
        rows,
        neighbours.fixed_size,
        neighbours.moves,
    )
