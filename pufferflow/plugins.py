"""The second public API: the base of engines, sources and sinks in other packages.

A package adds one by an entry point in the group `pufferflow.engines`, `pufferflow.sources` or `pufferflow.sinks`.

The entry of an engine is a function that returns the `Backend` of a table. Its name is the scheme of the addresses that
it reads, and the package of the frames that it has.
"""

from pufferflow.accounting.ledger.address import shown_address
from pufferflow.core.errors import PufferflowError, SourceError
from pufferflow.core.paths import local_path, scheme_of
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.tables import SourceVersion, with_version
from pufferflow.engines.backend import (
    HALF,
    Above,
    Added,
    Backend,
    ByLabels,
    ByLimits,
    ByTuples,
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
    Steps,
    Text,
    Total,
    Value,
    WholeNumber,
    result_types,
)
from pufferflow.engines.connect import RemoteTable
from pufferflow.jobs.sink import MOST_NEW, PAGE, Sink, SinkTable, release_id, rows_of_releases
from pufferflow.jobs.sources import (
    ColumnType,
    Options,
    SourceTable,
    check_address,
    check_places,
    dtypes_of,
    looked_up,
    names_period,
    placed,
    word_of,
)
from pufferflow.jobs.toml import TomlTable, resolved, with_variables
from pufferflow.published.files import CERTIFICATE, EVIDENCE, Parts, check_format, read_parts
from pufferflow.published.folder import (
    Copy,
    entry_in,
    files_of,
    other_release,
    place_taken,
    table_differences,
)
from pufferflow.queries.engine_interface import UnitLimit
from pufferflow.queries.expressions.values import ROUNDER, Formula, Segment

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
    "ByTuples",
    "CellTotals",
    "Clipped",
    "ColumnType",
    "Copy",
    "Float",
    "FloatInside",
    "Formula",
    "GroupRows",
    "GroupRuns",
    "Numbering",
    "OneOf",
    "Options",
    "Parts",
    "Present",
    "PrivateTotals",
    "PufferflowError",
    "Query",
    "RemoteTable",
    "Segment",
    "Sink",
    "SinkTable",
    "SourceError",
    "SourceTable",
    "SourceVersion",
    "Steps",
    "Text",
    "TomlTable",
    "Total",
    "UnitLimit",
    "Value",
    "WholeNumber",
    "check_address",
    "check_format",
    "check_places",
    "dtypes_of",
    "entry_in",
    "files_of",
    "local_path",
    "looked_up",
    "names_period",
    "other_release",
    "place_taken",
    "placed",
    "read_parts",
    "release_id",
    "resolved",
    "result_types",
    "rows_of_releases",
    "sandboxed",
    "scheme_of",
    "shown_address",
    "table_differences",
    "with_variables",
    "with_version",
    "word_of",
]
