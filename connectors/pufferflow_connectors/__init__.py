"""Connectors of pufferflow: engines, sources and sinks, each found by its entry point.

They use `pufferflow.plugins` only, and pufferflow never imports them itself.
"""
