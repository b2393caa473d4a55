"""The least noise that keeps a promise, and the least promise that a noise keeps."""

from pufferflow.calibration.calibrate import Calibration, calibrate, loss
from pufferflow.calibration.ways import least_epsilon_of

__all__ = ["Calibration", "calibrate", "least_epsilon_of", "loss"]
