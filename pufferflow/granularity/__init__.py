"""Granularity: what neighbouring data sets are, and what several releases lose of the parts that they read (M27).

A notion of neighbours says which two data sets must be indistinguishable. They differ by one row more or less
(`unbounded`), one row replaced (`bounded`), or one replaced in its place (`in_place`). They may also differ by an edge
or a node of a graph, or by any relation. `Partition` and `Overlapping` add up the losses of releases about groups in
closed form. `Space` and `together` do so by enumeration, for any finite class of data sets. There is no prior here:
losses are those of differential privacy, whatever the correlation of rows (GRAN).

>>> import pufferflow as pf
>>> districts = pf.granularity.Partition({"north": ["a", "b"], "south": ["c"]})
>>> districts.total([pf.Pure(0.3), pf.Pure(0.7)], pf.granularity.unbounded)
Pure(epsilon=0.7)
>>> districts.total([pf.Pure(0.3), pf.Pure(0.7)], pf.granularity.bounded)
Pure(epsilon=1.0)
"""

from pufferflow.granularity.charges import at_distance
from pufferflow.granularity.groups import Overlapping, Partition, sum_sensitivity
from pufferflow.granularity.neighbours import (
    Graph,
    Neighbours,
    bounded,
    edges,
    free_lunch,
    in_place,
    k_rows,
    nodes,
    unbounded,
)
from pufferflow.granularity.space import Space, canonical_metric, distance_between, sensitivity
from pufferflow.granularity.together import Part, Together, compatible, together

__all__ = [
    "Graph",
    "Neighbours",
    "Overlapping",
    "Part",
    "Partition",
    "Space",
    "Together",
    "at_distance",
    "bounded",
    "canonical_metric",
    "compatible",
    "distance_between",
    "edges",
    "free_lunch",
    "in_place",
    "k_rows",
    "nodes",
    "sensitivity",
    "sum_sensitivity",
    "together",
    "unbounded",
]
