"""The least noise that keeps a promise, and the least promise that a noise keeps."""

from pufferflow.calibration.calibrate import Calibration, calibrate, loss

__all__ = ["Calibration", "calibrate", "loss"]
