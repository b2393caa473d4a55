"""Tables for notebooks with great_tables: numbers with their bars, a title, and the guarantee below."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import polars as pl

from pufferflow.reports.charts.base import missing
from pufferflow.reports.html import visible

if TYPE_CHECKING:
    from great_tables import GT

StyledTable: TypeAlias = "GT"
MOST_ROWS: Final = 200


def styled(  # noqa: PLR0913, PLR0917 - what a table has
    title: str,
    subtitle: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str],
    numbers: Sequence[int] = (),
) -> StyledTable:
    """Return a table of texts; the columns at the places `numbers` are aligned to the right.

    >>> table = styled("Load", "of a day", ["day", "load"], [("Monday", "6,043 ± 13")], ["epsilon 1"], [1])
    >>> "6,043 ± 13" in table.as_raw_html()
    True
    """
    try:
        import great_tables
    except ImportError as error:
        raise missing("great_tables", "Styled tables") from error
    columns = [f"c{place}" for place in range(len(head))]
    shown = [[visible(cell) for cell in row] for row in rows[:MOST_ROWS]]
    frame = pl.DataFrame(shown, schema=dict.fromkeys(columns, pl.String), orient="row")
    labels: dict[str, Any] = dict(zip(columns, map(visible, head), strict=True))
    table: Any = great_tables.GT(frame)
    table = table.tab_header(title=visible(title), subtitle=visible(subtitle))
    table = table.cols_label(labels).cols_align("right", [columns[place] for place in numbers])
    more = [f"The first {MOST_ROWS} of {len(rows):,} rows."] * (len(rows) > MOST_ROWS)
    for note in (*more, *notes):
        table = table.tab_source_note(visible(note))
    return table
