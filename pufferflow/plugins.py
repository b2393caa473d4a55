"""The second door: what engines, sources and sinks in packages of their own are built on.

A package adds one by an entry point in the group `pufferflow.engines`, `pufferflow.sources` or `pufferflow.sinks`.

The entry of an engine is a function that returns the `Backend` of a table. Its name is the scheme of the addresses that
it reads, and the package of the frames that it has.
"""

from pufferflow.engine import (
    HALF,
    Above,
    Added,
    Backend,
    ByLabels,
    ByLimits,
    CellTotals,
    Clipped,
    Float,
    FloatInside,
    GroupRows,
    GroupRuns,
    Numbering,
    OneOf,
    Present,
    PrivateTotals,
    Query,
    RemoteTable,
    Steps,
    Text,
    Total,
    Value,
    WholeNumber,
)
from pufferflow.errors import PufferflowError, SourceFailed
from pufferflow.expressions import ROUNDER, Formula, Segment
from pufferflow.guarded import guarded
from pufferflow.jobs import Sink, SinkTable, TomlTable

__all__ = [
    "HALF",
    "ROUNDER",
    "Above",
    "Added",
    "Backend",
    "ByLabels",
    "ByLimits",
    "CellTotals",
    "Clipped",
    "Float",
    "FloatInside",
    "Formula",
    "GroupRows",
    "GroupRuns",
    "Numbering",
    "OneOf",
    "Present",
    "PrivateTotals",
    "PufferflowError",
    "Query",
    "RemoteTable",
    "Segment",
    "Sink",
    "SinkTable",
    "SourceFailed",
    "Steps",
    "Text",
    "TomlTable",
    "Total",
    "Value",
    "WholeNumber",
    "guarded",
]
