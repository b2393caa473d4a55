"""Connectors of pufferflow: engines, sources, sinks and orchestrators, each found by its entry point.

They use pufferflow's public API only, and pufferflow never imports them. This version ships none.
"""
