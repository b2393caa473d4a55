"""Queries of engines as SQL: one closed set of texts, and the facts in which databases differ."""

from pufferflow_connectors.sql.dialect import ColumnKind, Dialect, Halves, kinds_of
from pufferflow_connectors.sql.rows import PART, frames_of
from pufferflow_connectors.sql.text import query_text

__all__ = ["PART", "ColumnKind", "Dialect", "Halves", "frames_of", "kinds_of", "query_text"]
