"""The second door: what engines, sources and sinks in packages of their own are built on.

A package adds one by an entry point in the group `pufferflow.engines`, `pufferflow.sources` or `pufferflow.sinks`.
"""

from pufferflow.jobs import Sink, SinkTable, TomlTable

__all__ = ["Sink", "SinkTable", "TomlTable"]
