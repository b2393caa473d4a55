"""Priors fitted on public references, and diagnoses of such fits."""

from pufferflow.scenario.fitting.reference import Reference, frame_origin, weakly
from pufferflow.scenario.fitting.sequences import Clock, count_steps

__all__ = ["Clock", "Reference", "count_steps", "frame_origin", "weakly"]
