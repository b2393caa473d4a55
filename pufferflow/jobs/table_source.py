"""The source that is a table of an engine, which groups and adds up its rows where they are."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, final

from msgspec import Meta

from pufferflow.core.entry_points import names_in
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import nearest
from pufferflow.engines.connect import RemoteTable, table
from pufferflow.jobs.period import Period
from pufferflow.jobs.source import check_places, placed
from pufferflow.jobs.toml import TomlTable, with_variables

_ENGINES = "pufferflow.engines"


@final
class TableSource(TomlTable, frozen=True):
    """A table of a database or a cluster, left where it is."""

    engine: Annotated[str, Meta(min_length=1, description="duckdb, postgresql, spark, or another that is installed")]
    table: Annotated[str, Meta(min_length=1, description="its name; {period} is the period's name")]
    address: Annotated[
        str | None, Meta(description="where it is, such as duckdb:///power.db; ${NAME} is looked up")
    ] = None

    def __post_init__(self) -> None:
        """Refuse engines that are not installed, addresses of others, and misspelt places."""
        known = names_in(_ENGINES)
        if self.engine not in known:
            close = nearest(self.engine, known)
            raise UsageError(
                f"There is no engine {self.engine[:60]!r}.",
                allowed=f"an installed one: {', '.join(known)}",
                instead=f'engine = "{close[0] if close else "duckdb"}"',
            )
        check_places(self.table, "table")

    def check_address(self) -> None:
        if self.address is not None and not self.address.lower().startswith((self.engine, "sc:", "${")):
            raise UsageError(
                f"The address is of another engine than {self.engine!r}.",
                allowed=f"an address that begins with {self.engine}:",
                instead=f'address = "{self.engine}://…"',
            )

    def rows(self, folder: Path, period: Period) -> RemoteTable:
        found = table(with_variables(self.address or f"{self.engine}:"), placed(self.table, period))
        return replace(found, folder=str(folder))
