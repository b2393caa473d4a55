"""Plans and releases in a notebook: the same words and tables, without a page around them."""

import polars as pl

from pufferflow.report.markup import Column, table, text
from pufferflow.report.numbers import plain
from pufferflow.report.outputs import MOST_ROWS
from pufferflow.report.releases import numbers_table


def plan_block(explanation: str, summary: pl.DataFrame) -> str:
    """Return a plan for a notebook."""
    kept = summary.head(MOST_ROWS)
    columns = [
        Column(name, list(map(_cell, kept[name])), number=kept[name].dtype.is_numeric()) for name in kept.columns
    ]
    return f"<div>{_kept(explanation)}{table('One row for each number that would be published', columns)}</div>"


def release_block(frame: pl.DataFrame, intervals: pl.DataFrame, certificate: str) -> str:
    """Return a release for a notebook."""
    return f"<div>{numbers_table(frame, intervals)}{_kept(certificate)}</div>"


def _kept(words: str) -> str:
    return f'<pre style="white-space: pre-wrap; font: inherit">{text(words)}</pre>'


def _cell(value: object) -> str:
    return plain(value) if value is None or isinstance(value, float) else str(value)
