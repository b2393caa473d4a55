"""The least noise that keeps a promise, and the least promise that a noise keeps."""

from pufferflow.calibration.calibrate import Bounds, Calibration, calibrate, calibrate_each, loss, proof_of
from pufferflow.calibration.ways import least_epsilon_of

__all__ = ["Bounds", "Calibration", "calibrate", "calibrate_each", "least_epsilon_of", "loss", "proof_of"]
