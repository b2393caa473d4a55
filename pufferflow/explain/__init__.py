"""A plan in words, tables and plain values for pages."""

from pufferflow.explain.compare import compare, summary, too_noisy
from pufferflow.explain.gather import evidence
from pufferflow.explain.one_number import Origin, at_place, origin_of
from pufferflow.explain.sentences import (
    asked_in_words,
    assumptions,
    explained,
    notes,
    readings,
    readings_together,
    witness_in_words,
)

__all__ = [
    "Origin",
    "asked_in_words",
    "assumptions",
    "at_place",
    "compare",
    "evidence",
    "explained",
    "notes",
    "origin_of",
    "readings",
    "readings_together",
    "summary",
    "too_noisy",
    "witness_in_words",
]
