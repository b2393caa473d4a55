"""The engine that leaves rows in Spark: dataframes, classic and of Connect, and tables by their names."""

import secrets
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Any, ClassVar, Final, TypeVar, cast, final

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pufferflow.plugins import Backend, PufferflowError, Query, RemoteTable, SourceError
from pufferflow_connectors.sql import Dialect, kinds_of, query_text

T = TypeVar("T")
DIALECT: Final = Dialect(
    name="Spark",
    quote="`",
    backslashes=True,
    float_type="DOUBLE",
    text_type="STRING",
    binary="{} COLLATE UTF8_BINARY",
    moment_type="TIMESTAMP_NTZ",
)
_TYPES: Final[dict[str, pl.DataType]] = {
    "boolean": pl.Boolean(),
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "int": pl.Int32(),
    "bigint": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
}
_SETTINGS: Final = ("spark.sql.", "spark.app.id", "spark.master", "spark.connect.")


def connect(table: object) -> "Spark | None":
    """Return the engine of a dataframe, or of a table by its name; None for other things of Spark."""
    if isinstance(table, DataFrame):
        return Spark(table, table)
    return Spark(table, _frame(table)) if isinstance(table, RemoteTable) else None


@final
class Spark(Backend):
    """A dataframe of Spark, which every query computes anew."""

    name: ClassVar = "Spark"

    def __init__(self, table: Any, frame: DataFrame, few: pl.DataFrame | None = None) -> None:
        self._table, self._frame, self._few = table, frame, few

    @property
    def table(self) -> Any:
        return self._table

    @property
    def version(self) -> str:
        return self._version

    @cached_property
    def _version(self) -> str:
        return _safely(lambda: self._session.version)

    @property
    def _session(self) -> SparkSession:
        return self._frame.sparkSession

    @property
    def settings(self) -> Hashable:
        rows = _safely(lambda: self._session.sql("SET").collect())
        known = sorted((row[0], row[1]) for row in rows if row[0].startswith(_SETTINGS))
        return self.name, self.version, tuple(known)

    def schema(self) -> pl.Schema:
        return self._schema if self._few is None else self._few.schema

    @cached_property
    def _types(self) -> dict[str, str]:
        return _safely(
            lambda: {
                field.name: field.dataType.simpleString() for field in self._frame.schema.fields
            }
        )

    @cached_property
    def _schema(self) -> pl.Schema:
        types = {name: _type(kind) for name, kind in self._types.items()}
        return pl.Schema({name: dtype for name, dtype in types.items() if dtype is not None})

    def unreadable(self) -> dict[str, str]:
        return {name: kind for name, kind in self._types.items() if _type(kind) is None}

    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        name = f"`{secrets.token_hex(16)}`"  # which no label and no column has
        text = self._text(query, name)
        if self._few is None:  # braces have a meaning where a frame is named
            text = text.replace("{", "{{").replace("}", "}}").replace(name, "{rows}")
            answer: Any = _safely(lambda: self._session.sql(text, rows=self._frame))
        else:
            answer = _safely(lambda: self._session.sql(text))
        yield pl.DataFrame(_safely(answer.toArrow))

    def with_rows(self, rows: pl.DataFrame) -> "Spark":
        return Spark(self._table, self._frame, rows)

    def text(self, query: Query) -> str:
        return self._text(query, _ROWS)

    def _text(self, query: Query, name: str) -> str:
        source = (
            name
            if self._few is None
            else f"({DIALECT.rows_of(self._few)}) AS {DIALECT.quoted('few')}"
        )
        return query_text(query, source, kinds_of(self.schema()), DIALECT)


_ROWS: Final = "`pufferflow rows`"


def _type(kind: str) -> pl.DataType | None:
    """Return the type here of a type of Spark; None for one without meaning here."""
    if kind.startswith("decimal("):
        precision, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
        return pl.Decimal(precision, scale) if scale >= 0 else None
    return (
        pl.String()
        if kind.partition(" ")[0] == "string" or kind.startswith("varchar(")
        else _TYPES.get(kind)
    )


def _frame(table: RemoteTable) -> DataFrame:
    """Return a table by its name: of the session that is active, of a new one, or of a server of Spark Connect."""
    builder = cast(Any, SparkSession.builder)
    chosen = builder.remote(table.address) if table.scheme == "sc" else builder
    return _safely(
        lambda: (
            chosen.getOrCreate().table(table.name) if table.name else chosen.getOrCreate().range(1)
        )
    )


def _safely(work: Callable[[], T]) -> T:
    """Return a result, or raise what may be said of the cluster's error: its class, which names no value."""
    kind = ""
    try:
        return work()
    except PySparkException as error:
        kind = str(getattr(error, "getCondition", lambda: None)() or type(error).__name__)
    except Exception as error:  # noqa: BLE001 - of Py4J, gRPC or the network
        kind = type(error).__name__
    raise _failed(kind)


def _failed(kind: str) -> PufferflowError:
    return SourceError(
        f"The table could not be read: Spark stopped with {kind[:80]}. Nothing was released.",
        allowed="a dataframe or a table that Spark can read to its end",
        instead="frame.limit(1).count() in Spark, which shows its own words",
    )
