"""Bounds on the loss of a noisy answer, and the least noise that keeps a guarantee under them (M3–M7, M19, M20)."""

from typing import Literal, get_args

from pufferflow.bounds.bound import BallLoss, Bound, LossCurve, Worst
from pufferflow.bounds.calibrate import (
    Bounds,
    Calibration,
    calibrate,
    calibrate_each,
    loss,
    proof_of,
    read_family,
    read_kind,
)
from pufferflow.bounds.chained_rows import ROW_BY_ROW, STEP_BY_STEP, ChainedRows
from pufferflow.bounds.choice import BOUNDS, compared_bounds, explanations, named_bound, offer
from pufferflow.bounds.dagwm import DAGWM
from pufferflow.bounds.dependent_rows import DependentChain, DependentRows
from pufferflow.bounds.distance_bounds import GAWM, GWM, Group
from pufferflow.bounds.exact.exact import Exact
from pufferflow.bounds.joint import JointCalibration, calibrate_joint
from pufferflow.bounds.kantorovich import Kantorovich
from pufferflow.bounds.law_pairs import Pair, Place, Witness, finite_laws
from pufferflow.bounds.laws import Laws, ListedLaws, Reach, SeveralLaws, WorkEstimate, longest_reach, read_laws
from pufferflow.bounds.messages import Messages
from pufferflow.bounds.proofs import AppliedBound, Scales, Untried
from pufferflow.bounds.quilt import Quilt
from pufferflow.bounds.random_shifts import least, mean_of_shifts, mean_renyi, of_orders
from pufferflow.bounds.robustness import robustness, under_model_error, weakest, with_keys

BoundName = Literal["messages", "gwm", "gawm", "dagwm", "kantorovich", "quilt", "exact", "group"]
"""The names of bounds in `bound=`, in job files and on the command line."""
offer((Messages, Quilt, Kantorovich, GWM, GAWM, DAGWM, Exact, Group), get_args(BoundName))

__all__ = [
    "BOUNDS",
    "DAGWM",
    "GAWM",
    "GWM",
    "ROW_BY_ROW",
    "STEP_BY_STEP",
    "AppliedBound",
    "BallLoss",
    "Bound",
    "BoundName",
    "Bounds",
    "Calibration",
    "ChainedRows",
    "DependentChain",
    "DependentRows",
    "Exact",
    "Group",
    "JointCalibration",
    "Kantorovich",
    "Laws",
    "ListedLaws",
    "LossCurve",
    "Messages",
    "Pair",
    "Place",
    "Quilt",
    "Reach",
    "Scales",
    "SeveralLaws",
    "Untried",
    "Witness",
    "WorkEstimate",
    "Worst",
    "calibrate",
    "calibrate_each",
    "calibrate_joint",
    "compared_bounds",
    "explanations",
    "finite_laws",
    "least",
    "longest_reach",
    "loss",
    "mean_of_shifts",
    "mean_renyi",
    "named_bound",
    "of_orders",
    "proof_of",
    "read_family",
    "read_kind",
    "read_laws",
    "robustness",
    "under_model_error",
    "weakest",
    "with_keys",
]
