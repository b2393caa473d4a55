"""From a request and its terms to a decision: public facts, laws, the share of each sum, noise, cost."""

from pufferflow.planning.certificate import ERROR_BARS, AskedQuery, Certificate, CoveredPeriod, NoisySum, QuieterGroups
from pufferflow.planning.combined import Combined
from pufferflow.planning.decide import make_decision
from pufferflow.planning.decision import (
    NOISE_MARGIN,
    AnswerColumn,
    CellsAlike,
    Decision,
    NoiseAt,
    noises_at,
    sensitivity_unit,
)
from pufferflow.planning.decision_cost import cost_of, regions
from pufferflow.planning.designed_channel import DesignedChannel
from pufferflow.planning.error_bars import (
    CONFIDENCE,
    confidence_of_sum,
    error_bars,
    expected_error,
    half_width,
    half_widths,
)
from pufferflow.planning.exact import exact_sums, reads_exactly
from pufferflow.planning.key_threshold import KeyThreshold, grid_below
from pufferflow.planning.options import (
    PlanOptions,
    Within,
    read_per_group,
    read_promise,
    read_row_privacy,
    read_seconds,
)
from pufferflow.planning.public_metadata import PublicMetadata, SourceDigest
from pufferflow.planning.row_privacy import impossible_values
from pufferflow.planning.sum_tables import Tables, on_interval, tables_of

__all__ = [
    "CONFIDENCE",
    "ERROR_BARS",
    "NOISE_MARGIN",
    "AnswerColumn",
    "AskedQuery",
    "CellsAlike",
    "Certificate",
    "Combined",
    "CoveredPeriod",
    "Decision",
    "DesignedChannel",
    "KeyThreshold",
    "NoiseAt",
    "NoisySum",
    "PlanOptions",
    "PublicMetadata",
    "QuieterGroups",
    "SourceDigest",
    "Tables",
    "Within",
    "confidence_of_sum",
    "cost_of",
    "error_bars",
    "exact_sums",
    "expected_error",
    "grid_below",
    "half_width",
    "half_widths",
    "impossible_values",
    "make_decision",
    "noises_at",
    "on_interval",
    "read_per_group",
    "read_promise",
    "read_row_privacy",
    "read_seconds",
    "reads_exactly",
    "regions",
    "sensitivity_unit",
    "tables_of",
]
