"""Queries of engines as SQL: one closed set of texts, and the facts in which databases differ."""

from pufferflow_connectors.sql.dialect import Dialect, Halves, Kind, kinds_of
from pufferflow_connectors.sql.rows import PART, frames_of
from pufferflow_connectors.sql.text import query_text

__all__ = ["PART", "Dialect", "Halves", "Kind", "frames_of", "kinds_of", "query_text"]
