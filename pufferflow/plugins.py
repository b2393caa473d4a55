"""The second door: what engines, sources and sinks in packages of their own are built on.

A package adds one by an entry point in the group `pufferflow.engines`, `pufferflow.sources` or `pufferflow.sinks`.

The entry of an engine is a function that returns the `Backend` of a table. Its name is the scheme of the addresses that
it reads, and the package of the frames that it has.
"""

from pufferflow.addresses import local_path, scheme_of
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
from pufferflow.jobs import EVIDENCE, MOST_NEW, PAGE, Sink, SinkTable, TomlTable, release_id, resolved, with_variables
from pufferflow.ledger import shown_address
from pufferflow.release import (
    CERTIFICATE,
    Copy,
    check_format,
    entry_in,
    files_of,
    other_release,
    place_taken,
    table_differences,
)

__all__ = [
    "CERTIFICATE",
    "EVIDENCE",
    "HALF",
    "MOST_NEW",
    "PAGE",
    "ROUNDER",
    "Above",
    "Added",
    "Backend",
    "ByLabels",
    "ByLimits",
    "CellTotals",
    "Clipped",
    "Copy",
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
    "check_format",
    "entry_in",
    "files_of",
    "guarded",
    "local_path",
    "other_release",
    "place_taken",
    "release_id",
    "resolved",
    "scheme_of",
    "shown_address",
    "table_differences",
    "with_variables",
]
